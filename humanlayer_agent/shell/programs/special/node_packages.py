"""npm, yarn, pnpm, bun: the scripts that they run, where package.json can be read and is not the project's own code."""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from humanlayer_agent.shell import builtins
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.languages.behaviour import Found
from humanlayer_agent.shell.program import Effect
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.spec import Spec

MAX_LEVELS = 32
_ELSEWHERE = re.compile(r"(?:^|=)((?:/|~/|(?:[^/]+/)*\.\./).*)", re.ASCII)
"""A word, or the value of an option, that names something outside of the project."""
_WORKSPACES = frozenset(str.split("--workspace -w --workspaces -ws --filter -F -r --recursive workspace workspaces"))
_BUILTINS = frozenset({*builtins.HANDLERS, "echo", "printf", "test", "[", "pwd", "kill", "true", "false", "[[", "(("})
_SETTINGS = {
    ".npmrc": ("script-shell", "node-options", "prefix"),
    ".yarnrc": ("yarn-path", "script-shell"),
    ".yarnrc.yml": ("yarnPath", "plugins"),
    "bunfig.toml": ("shell", "preload"),
}
"""Files beside package.json that select the shell or the program which runs its scripts, by these words."""


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note what the catalog says, and look for what the scripts say."""
    first = len(run.command.effects)
    spec_reader.apply(run, replace(spec, grammar=""), fields)
    if run.command.program == "yarn" and run.command.subcommand is None and "version" not in run.command.flags:
        spec_reader.apply(run, spec.subcommands["install"], [])
    if run.command.program == "bun" and run.command.subcommand == "run" and run.command.operands:
        # A script, a file, or any program of the system.
        run.code(None, what=run.command.operands[0], role="subcommand", origin="bun run", unread=False)
        run.doubt(run.command.operands[0] or "run")
    if run.command.subcommand in ("run", "run-script") and "env" in run.command.operands[:1]:
        run.printed("environment", None, origin=f"{run.command.program} run env")
    if any(e.kind == "execute" and e.role == "project" for e in run.command.effects[first:]):
        _handed_on(run, fields)
    scripts = _Scripts(run, fields)
    for effect in run.command.effects[first:]:
        if effect.kind == "execute" and effect.role == "project" and effect.operand is not None:
            run.walk.scripts.later(run.command, partial(scripts.project, effect))
        elif effect.kind == "execute" and effect.role == "subcommand" and run.command.program != "npm":
            run.walk.scripts.later(run.command, partial(scripts.by_name, effect))


def _handed_on(run: Run, fields: Sequence[Field]) -> None:
    """What a script is given may name code and settings, which its program then takes from there."""
    for each in fields:
        if (found := _ELSEWHERE.search(each.text or "")) is not None:
            word = each.tail(found.start(1))
            run.path("read", word, role="argument", origin=f"{run.command.program} argument")


def workspace(run: Run, spec: Spec, fields: list[Field]) -> None:
    """`yarn workspace NAME COMMAND`: another command of yarn, in one of the project's packages."""
    from humanlayer_agent.shell.programs.arguments import read_arguments

    words = read_arguments(spec, fields).operands if spec.name in ("run", "foreach") else list(fields[1:])
    inner = run.walk.catalog.lookup("yarn")
    name = words[0].text if words else None
    if spec.name == "run" and name is not None:
        name = "run"
    if inner is None or name not in inner.subcommands or name in ("workspace", "workspaces", "exec"):
        run.doubt(name or "yarn workspace")
        run.code(None, what=name, role="subcommand", origin="yarn workspace", unread=False)
        return
    spec_reader.apply(run, inner.subcommands[name], words[1:])


class _Scripts:
    """One run of npm or its like."""

    def __init__(self, run: Run, fields: Sequence[Field]) -> None:
        self.run = run.having(state=run.state.copy())
        self.fields = list(fields)
        self.words = [field.text for field in fields]

    def project(self, effect: Effect) -> None:
        """The package.json of a directory, or of the nearest one above. Where nobody can read one, nothing changes."""
        path, found = self._nearest(effect.operand or "/", effect)
        if found.texts == () and not found.project:
            return
        if not self._settled(posixpath.dirname(path)):
            self._unread(effect)
        elif not found.project:
            self._judge(effect, path, found.texts)

    def by_name(self, effect: Effect) -> None:
        """yarn, pnpm and bun run a script that is named in the place of a sub-command."""
        from humanlayer_agent.shell.languages import package_json

        name = effect.operand
        for cwd in self.run.state.cwd or ():
            path, found = self._nearest(cwd, effect)
            known = [package_json.scripts(text) or {} for text in found.texts or ()]
            if not name or not known or not all(name in each for each in known):
                self._installed(effect)
                return
            ran = replace(effect, role="project", operand=posixpath.dirname(path), resolved=True)
            self.run.command.effects.append(ran)
            self.project(ran)
        if self.run.state.cwd:
            self._resolved(effect)

    def _installed(self, effect: Effect) -> None:
        """yarn and pnpm run what stands in node_modules/.bin, by its name: it is judged as that program."""
        from humanlayer_agent.shell.programs.special import npx

        name = effect.operand
        if self.run.command.program == "bun" or name not in self.words:
            return
        if not npx.installed(self.run.walk, name, self.run.state):
            return
        self._resolved(effect)
        npx.execute(self.run, self.fields[self.words.index(name) :])

    def _resolved(self, effect: Effect) -> None:
        name = effect.operand
        self.run.command.effects.remove(effect)
        self.run.command.unresolved = [word for word in self.run.command.unresolved if word != name]
        self.run.command.resolved = self.run.command.known = not self.run.command.unresolved

    def _nearest(self, directory: str, effect: Effect) -> tuple[str, Found]:
        directory = posixpath.normpath(directory)
        for _ in range(MAX_LEVELS):
            path = posixpath.join(directory, "package.json")
            found = self.run.walk.scripts.look(path)
            self.run.walk.scripts.judged(self.run.command, effect, path, spec_reader.implied(self.run.command, path))
            if found.texts != () or found.project or directory == "/":
                return path, found
            directory = posixpath.dirname(directory)
        return path, Found(None)

    def _settled(self, directory: str) -> bool:
        """False where settings that are not the project's own may select what runs the scripts."""
        for name, words in _SETTINGS.items():
            found = self.run.walk.scripts.look(posixpath.join(directory, name))
            if not found.project and (found.texts is None or any(w in text for text in found.texts for w in words)):
                return False
        return True

    def _judge(self, effect: Effect, path: str, texts: tuple[str, ...] | None) -> None:
        from humanlayer_agent.shell.languages import package_json
        from humanlayer_agent.shell.languages.code_effects import perform

        if texts is None or not _WORKSPACES.isdisjoint({word or "" for word in self.words}):
            self._unread(effect)
            return
        names, asked, arguments = self._asked()
        if asked is not None and asked.startswith("/"):
            names, asked = None, None  # pnpm takes it as a regular expression
        effect.role, effect.operand = "script", path
        for text in texts:
            key = ("npm", path, text, str(names), asked, str(arguments))
            may = self.run.walk.scripts.spend(key, text)
            if may is None:
                continue
            if not may:
                self._unread(effect)
                return
            before = len(self.run.walk.program.commands)
            behaviour = package_json.behaviour(text, posixpath.dirname(path), names, asked, arguments)
            perform(self.run, behaviour, "npm")
            self._shadowed(before, posixpath.dirname(path))

    def _asked(self) -> tuple[list[str] | None, str | None, list[str] | None]:
        """The scripts that are run (None: any), that which was asked for, and the words it gets (None: not known)."""
        from humanlayer_agent.shell.languages import package_json

        name = self.run.command.subcommand or "install"
        words = [word or "" for word in self.words]
        if None in self.words:
            return None, None, None
        after = words[words.index(name) + 1 :] if name in words else []
        own, _, given = _split(after, "--")
        if self.run.command.program == "npm":
            own = [word for word in own if not word.startswith("-")]
        if name in ("run", "run-script"):
            plain = [word for word in own if not word.startswith("-")]
            if not plain:
                return [], None, []
            name, own = plain[0], own[own.index(plain[0]) + 1 :]
            return package_json.run_by("run", [name]), name, [*own, *given]
        names = package_json.run_by(name, [])
        if names is None and self.run.command.program != "npm":
            names = package_json.run_by("run", [name])
        return names, name, [*own, *given]

    def _shadowed(self, first: int, directory: str) -> None:
        """A program in node_modules/.bin comes before one of the same name elsewhere."""
        for command in self.run.walk.program.commands[first:]:
            name = command.program
            if not name or command.path is not None or name in _BUILTINS:
                continue
            if self.run.walk.catalog.family(name) in (None, "node"):
                continue
            path = posixpath.join(directory, "node_modules", ".bin", name)
            found = self.run.walk.scripts.look(path)
            if found.texts != () or found.project:
                word = spec_reader.implied(command, path)
                self.run.having(command=command).script(word, "node_modules/.bin", arguments=command.words[1:])

    def _unread(self, effect: Effect) -> None:
        effect.unread, effect.resolved = True, False
        self.run.doubt(effect.operand or "package.json")


def _split(words: list[str], at: str) -> tuple[list[str], bool, list[str]]:
    """The words before and after the first `at`."""
    if at not in words:
        return words, False, []
    return words[: words.index(at)], True, words[words.index(at) + 1 :]
