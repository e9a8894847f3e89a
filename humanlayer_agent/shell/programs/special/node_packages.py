"""npm, yarn, pnpm, bun: the scripts that they run, where package.json can be read and is not the project's own code."""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from humanlayer_agent.shell import builtins
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.languages.behaviour import Found
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.spec import Spec

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
    from humanlayer_agent.shell.interpreter.context import Context

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


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note what the catalog says, and look for what the scripts say."""
    first = len(command.effects)
    spec_reader.apply(walk, replace(spec, grammar=""), command, fields, state, context)
    if command.program == "yarn" and command.subcommand is None and "version" not in command.flags:
        spec_reader.apply(walk, spec.subcommands["install"], command, [], state, context)
    if command.program == "bun" and command.subcommand == "run" and command.operands:
        # A script, a file, or any program of the system.
        operand_effects.code(
            walk, command, None, what=command.operands[0], role="subcommand", origin="bun run", unread=False
        )
        command.doubt(command.operands[0] or "run")
    if command.subcommand in ("run", "run-script") and "env" in command.operands[:1]:
        operand_effects.printed(walk, command, "environment", None, origin=f"{command.program} run env")
    if any(e.kind == "execute" and e.role == "project" for e in command.effects[first:]):
        _handed_on(walk, command, fields, state)
    run = _Run(walk, command, fields, state, context)
    for effect in command.effects[first:]:
        if effect.kind == "execute" and effect.role == "project" and effect.operand is not None:
            walk.scripts.later(command, partial(run.project, effect))
        elif effect.kind == "execute" and effect.role == "subcommand" and command.program != "npm":
            walk.scripts.later(command, partial(run.by_name, effect))


def _handed_on(walk: "Walk", command: SimpleCommand, fields: Sequence[Field], state: State) -> None:
    """What a script is given may name code and settings, which its program then takes from there."""
    for each in fields:
        if (found := _ELSEWHERE.search(each.text or "")) is not None:
            word = each.tail(found.start(1))
            operand_effects.path(
                walk, command, "read", word, state, role="argument", origin=f"{command.program} argument"
            )


def workspace(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """`yarn workspace NAME COMMAND`: another command of yarn, in one of the project's packages."""
    from humanlayer_agent.shell.programs.arguments import read_arguments

    words = read_arguments(spec, fields).operands if spec.name in ("run", "foreach") else list(fields[1:])
    inner = walk.catalog.lookup("yarn")
    name = words[0].text if words else None
    if spec.name == "run" and name is not None:
        name = "run"
    if inner is None or name not in inner.subcommands or name in ("workspace", "workspaces", "exec"):
        command.doubt(name or "yarn workspace")
        operand_effects.code(walk, command, None, what=name, role="subcommand", origin="yarn workspace", unread=False)
        return
    spec_reader.apply(walk, inner.subcommands[name], command, words[1:], state, context)


class _Run:
    """One run of npm or its like."""

    def __init__(
        self, walk: "Walk", command: SimpleCommand, fields: Sequence[Field], state: State, context: "Context"
    ) -> None:
        self.walk, self.command, self.context = walk, command, context
        self.state = state.copy()
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
        for cwd in self.state.cwd or ():
            path, found = self._nearest(cwd, effect)
            known = [package_json.scripts(text) or {} for text in found.texts or ()]
            if not name or not known or not all(name in each for each in known):
                self._installed(effect)
                return
            run = replace(effect, role="project", operand=posixpath.dirname(path), resolved=True)
            self.command.effects.append(run)
            self.project(run)
        if self.state.cwd:
            self._resolved(effect)

    def _installed(self, effect: Effect) -> None:
        """yarn and pnpm run what stands in node_modules/.bin, by its name: it is judged as that program."""
        from humanlayer_agent.shell.programs.special import npx

        name = effect.operand
        if self.command.program == "bun" or name not in self.words or not npx.installed(self.walk, name, self.state):
            return
        self._resolved(effect)
        npx.run(self.walk, self.command, self.fields[self.words.index(name) :], self.state, self.context)

    def _resolved(self, effect: Effect) -> None:
        name = effect.operand
        self.command.effects.remove(effect)
        self.command.unresolved = [word for word in self.command.unresolved if word != name]
        self.command.resolved = self.command.known = not self.command.unresolved

    def _nearest(self, directory: str, effect: Effect) -> tuple[str, Found]:
        directory = posixpath.normpath(directory)
        for _ in range(MAX_LEVELS):
            path = posixpath.join(directory, "package.json")
            found = self.walk.scripts.look(path)
            self.walk.scripts.judged(self.command, effect, path, spec_reader.implied(self.command, path))
            if found.texts != () or found.project or directory == "/":
                return path, found
            directory = posixpath.dirname(directory)
        return path, Found(None)

    def _settled(self, directory: str) -> bool:
        """False where settings that are not the project's own may select what runs the scripts."""
        for name, words in _SETTINGS.items():
            found = self.walk.scripts.look(posixpath.join(directory, name))
            if not found.project and (found.texts is None or any(w in text for text in found.texts for w in words)):
                return False
        return True

    def _judge(self, effect: Effect, path: str, texts: tuple[str, ...] | None) -> None:
        from humanlayer_agent.shell.languages import package_json
        from humanlayer_agent.shell.languages.performance import perform

        if texts is None or not _WORKSPACES.isdisjoint({word or "" for word in self.words}):
            self._unread(effect)
            return
        names, asked, arguments = self._asked()
        if asked is not None and asked.startswith("/"):
            names, asked = None, None  # pnpm takes it as a regular expression
        effect.role, effect.operand = "script", path
        for text in texts:
            key = ("npm", path, text, str(names), asked, str(arguments))
            may = self.walk.scripts.spend(key, text)
            if may is None:
                continue
            if not may:
                self._unread(effect)
                return
            before = len(self.walk.program.commands)
            behaviour = package_json.behaviour(text, posixpath.dirname(path), names, asked, arguments)
            perform(self.walk, self.command, behaviour, self.state, self.context, "npm")
            self._shadowed(before, posixpath.dirname(path))

    def _asked(self) -> tuple[list[str] | None, str | None, list[str] | None]:
        """The scripts that are run (None: any), that which was asked for, and the words it gets (None: not known)."""
        from humanlayer_agent.shell.languages import package_json

        name = self.command.subcommand or "install"
        words = [word or "" for word in self.words]
        if None in self.words:
            return None, None, None
        after = words[words.index(name) + 1 :] if name in words else []
        own, _, given = _split(after, "--")
        if self.command.program == "npm":
            own = [word for word in own if not word.startswith("-")]
        if name in ("run", "run-script"):
            plain = [word for word in own if not word.startswith("-")]
            if not plain:
                return [], None, []
            name, own = plain[0], own[own.index(plain[0]) + 1 :]
            return package_json.run_by("run", [name]), name, [*own, *given]
        names = package_json.run_by(name, [])
        if names is None and self.command.program != "npm":
            names = package_json.run_by("run", [name])
        return names, name, [*own, *given]

    def _shadowed(self, first: int, directory: str) -> None:
        """A program in node_modules/.bin comes before one of the same name elsewhere."""
        for command in self.walk.program.commands[first:]:
            name = command.program
            if not name or command.path is not None or name in _BUILTINS:
                continue
            if self.walk.catalog.family(name) in (None, "node"):
                continue
            path = posixpath.join(directory, "node_modules", ".bin", name)
            found = self.walk.scripts.look(path)
            if found.texts != () or found.project:
                word = spec_reader.implied(command, path)
                operand_effects.script(
                    self.walk, command, word, self.state, "node_modules/.bin", arguments=command.words[1:]
                )

    def _unread(self, effect: Effect) -> None:
        effect.unread, effect.resolved = True, False
        self.command.doubt(effect.operand or "package.json")


def _split(words: list[str], at: str) -> tuple[list[str], bool, list[str]]:
    """The words before and after the first `at`."""
    if at not in words:
        return words, False, []
    return words[: words.index(at)], True, words[words.index(at) + 1 :]
