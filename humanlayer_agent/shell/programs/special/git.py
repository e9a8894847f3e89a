"""git's configuration: some keys are commands that git runs (git-config(1), version 2.39).

git in another directory than the one where the command line begins: it reads the repository there.

`git -C /srv/x log -p` and `cd /srv/x && git log -p` print the files of /srv/x, and follow the settings of that
repository, some of which are commands (git-config(1): core.fsmonitor, core.pager). The project's own repository was
there before any action; every other one is looked at, as it is on disk and as the action may change it.
"""

import posixpath
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.paths import plain_path
from humanlayer_agent.shell.program import Effect, Program, SimpleCommand
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.slot_effects import is_remote
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.reader import DiskLooks, Reader
from humanlayer_agent.shell.repository.settings import is_inert

_RUN_GIT = {"gh": None, "hub": None, "tig": None, "pre-commit": None, "go": frozenset({"build", "install", "run"})}
"""Other programs that run git where they are: by any sub-command (None), or by these."""
_OBEYS_NONE = frozenset({"version", "clone", "init"})
"""Sub-commands of git that follow no settings of a repository where they run."""
_MAKES = frozenset({"clone", "init", "worktree"})
"""Those that make a repository whose settings are git's own."""
_CHANGES_FILES = frozenset(
    str.split("checkout switch merge pull reset rebase cherry-pick revert am apply restore read-tree submodule")
)
"""Those that bring other files into a work tree: a folder among them may look like a repository."""
_ONE_FILE = frozenset({"mkdir", "touch", "chmod", "chown", "tee", "sed"})
"""Programs that write no more than the files they are given."""
_TOLD = re.compile(r"/(?:\.git|HEAD|config|config\.worktree|commondir|hooks(?:/[^/]*)?)\Z", re.ASCII)
"""What tells a repository what to do, wherever it may lie: `.git` can be a file that leads there."""
_KINDS = frozenset({"write", "append"})
_AGAIN = frozenset(("loop", "function", "trap", "background"))
_COPIES = frozenset({"cp", "mv", "install"})
_ORIGIN = "settings of a repository"


def note_setting(run: Run, word: Field, kind: str, origin: str) -> None:
    """Note a setting given on the command line: harmless, or code that git will run."""
    if kind == "git-setting" and word.text is not None:
        key, _, value = word.text.partition("=")
        if is_inert(key, value):
            return
        run.code(word, what=value or word.text, role="setting", origin=origin, unread=False)
    else:
        run.code(word, what=word.text, role="setting", origin=origin, unread=False)
    run.doubt(word.shown)


_IDENTITY = frozenset({"user.name", "user.email"})


def config(run: Run, spec: Spec, fields: list[Field]) -> None:
    """git config: with one operand it prints a setting, with two it sets one."""
    arguments = read_arguments(spec, fields)
    operands = arguments.operands
    alone = not arguments.options and not arguments.unknown
    prints = "get" in arguments.flags() or (len(operands) < 2 and "change" not in arguments.flags())
    for use in arguments.options:
        if use.option.name == "file" and use.value is not None:
            run.path("read" if prints else "write", use.value, role="option", origin="git config")
    arguments.options = [u for u in arguments.options if u.option.name != "file"]
    spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in operands]
    if any(o.text is None for o in operands):
        run.doubt("git config")
    if not prints or any(o.many for o in operands):
        key = operands[0].text if operands else None
        if key in _IDENTITY and len(operands) == 2 and alone:
            here = spec_reader.implied(run.command, ".")  # who makes the commits of this repository
            run.path("metadata", here, role="setting", origin="git config")
            return
        at = run.walk.span(operands[0].start, operands[0].end) if operands else run.command.span
        run.effect("persist", "setting", key, key is not None, at, "git config")


_LISTING = frozenset(
    {
        "list",
        "contains",
        "no-contains",
        "merged",
        "no-merged",
        "points-at",
        "n",
        "verify",
        "show-current",
        "all",
        "remotes",
    }
)


def names(run: Run, spec: Spec, fields: list[Field]) -> None:
    """git branch, git tag: a name alone makes one, unless an option says that names are looked for."""
    spec_reader.apply(run, replace(spec, grammar="", effects=[]), fields)
    arguments = read_arguments(spec, fields)
    noted = any(effect.kind == "metadata" for effect in run.command.effects)
    if arguments.operands and not noted and _LISTING.isdisjoint(arguments.flags()):
        run.path("metadata", spec_reader.implied(run.command, "."), origin="a name that is made")


def clone(run: Run, spec: Spec, fields: list[Field]) -> None:
    """git clone URL [directory]: without a directory, the last component of the URL names it."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    if not operands:
        return
    note_remote(run, operands[0], "git clone operand 1", local="read")
    for extra in operands[2:]:
        run.doubt(extra.word.raw)
    if len(operands) > 1:
        run.path("write", operands[1], origin="git clone operand 2")
        return
    name = (operands[0].text or "").rstrip("/").removesuffix("/.git").rpartition("/")[2].rpartition(":")[2]
    name = name.removesuffix(".git").removesuffix(".bundle")
    target = implied_name(operands[0], name) if name else Field(operands[0].word, operands[0].start, operands[0].end)
    run.path("write", target, origin="git clone directory")


def implied_name(word: Field, text: str) -> Field:
    return Field(word.word, word.start, word.end, text=text, prefix=text)


def note_remote(run: Run, word: Field, origin: str, *, local: str | None = None) -> None:
    """A repository by URL, path or name. `ext::cmd` is a command; a name stands in the configuration."""
    text = word.text
    if text is None:
        run.host(word, origin=origin)
        run.doubt(word.word.raw)
    elif "::" in text or text.startswith("-"):
        run.code(word, what=text, role="remote-helper", origin=origin, unread=False)
        run.doubt(word.word.raw)
    elif is_remote(text):
        run.host(word, origin=origin)
    elif local is not None or text.startswith(("/", ".", "~")):
        run.path(local or "read", word, origin=origin)


def note_elsewhere(commands: Sequence[SimpleCommand], start: str) -> None:
    """Add what each git among `commands` reads of a repository that does not lie at or below `start`."""
    for command in commands:
        if command.program != "git":
            continue
        for place in _places(command):
            if (place is None or not _below(place, start)) and not _touches(command, place):
                effect = Effect("read", "repository", place, place is not None, command.span, "git's directory")
                command.effects.append(effect)


def note_settings(program: Program, reader: Reader | None, brought: Mapping[int, Sequence[str]]) -> None:
    """Add what git may run by the settings of repositories other than the project's own.

    Args:
        program: all of an action.
        reader: looks for repositories; without one that can, nothing is known of them, and nothing added.
        brought: where each git command may put a repository of its own into a work tree, which git then goes into.
    """
    commands = program.commands
    if not isinstance(reader, DiskLooks) or not any(_obeys(command) for command in commands):
        return
    unknown: dict[str, str] = {}
    for at, command in enumerate(commands):
        for place in (*_places(command), *_entered(commands, at, brought)) if _obeys(command) else ():
            if place is None:
                continue  # it is asked about as one that is read
            if place not in unknown:
                found = reader.git_settings(place)
                program.files += [file for file in found.files if file not in program.files]
                unknown[place] = found.unknown
            why = unknown[place] or _changed(place, reader.git_top, commands, at)
            if why:
                effect = Effect("execute", "setting", why, False, command.span, _ORIGIN, unread=True)
                command.effects.append(effect)
                command.doubt(f"the settings of the repository in {place}")


def note_attributes(program: Program, known: Container[int]) -> None:
    """Doubt what writes a text that nobody knows to .gitattributes: it may name a driver, which git runs.

    Args:
        program: all of an action.
        known: the identities of effects that write a text which is known, and judged.
    """
    for command in program.commands:
        if command.program in _COPIES:
            continue  # what they bring is looked at where it lies
        for effect in command.effects:
            if effect.kind not in _KINDS or not (effect.operand or "").endswith("/.gitattributes"):
                continue
            if id(effect) not in known:
                more = Effect("execute", "setting", effect.operand, False, effect.span, "attributes", unread=True)
                command.effects.append(more)
                command.doubt(effect.operand or "")
                break


def _entered(commands: Sequence[SimpleCommand], at: int, brought: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """The places that an earlier command, or one that is repeated, may have named as submodules."""
    for other, places in brought.items():
        if other < at or (other > at and not _AGAIN.isdisjoint(commands[other].inside)):
            yield from (place for place in places if not place.endswith("/"))


def _obeys(command: SimpleCommand) -> bool:
    """Does it run git, which looks for a repository?"""
    if command.program == "git":
        return command.subcommand is not None and command.subcommand.partition(" ")[0] not in _OBEYS_NONE
    if command.program not in _RUN_GIT:
        return False
    subcommands = _RUN_GIT[command.program]
    return subcommands is None or command.subcommand in subcommands


def _changed(place: str, top: str, commands: Sequence[SimpleCommand], at: int) -> str:
    """What another command of the action may bring that makes git obey something else; "" for nothing."""
    folders = list(_folders(place, top))
    for other, command in enumerate(commands):
        if other == at or (other > at and _AGAIN.isdisjoint(command.inside)):
            continue
        for effect in command.effects:
            if effect.operand is not None and _brings(command, effect, plain_path(effect.operand), folders):
                return effect.operand
    return ""


def _brings(command: SimpleCommand, effect: Effect, path: str, folders: list[str]) -> bool:
    """May this effect make one of the folders a repository, or change what one does?"""
    if not folders:
        return False
    if command.program == "git" and effect.source == "own":
        if effect.kind == "write" and command.subcommand and command.subcommand.partition(" ")[0] in _MAKES:
            return any(_below(folder, path) and folder != path for folder in folders)
        changes = effect.kind == "metadata" and command.subcommand in _CHANGES_FILES
        return changes and any(folder != path and _below(folder, path) for folder in folders)
    if effect.kind not in _KINDS:
        return False
    if _TOLD.search(path) is not None:
        return True
    spreads = effect.source != "redirect" and command.program not in _ONE_FILE
    return spreads and any(_below(folder, path) for folder in folders)


def _folders(place: str, top: str) -> Iterator[str]:
    """The folders in which git looks for a repository, before it comes to the project's own at `top`."""
    while place != top:
        yield place
        if place == "/":
            return
        place = posixpath.dirname(place)


def _below(path: str, directory: str) -> bool:
    return f"{path}/".startswith(f"{directory.rstrip('/')}/")


def _touches(command: SimpleCommand, place: str | None) -> bool:
    """Is something at or below `place` among its effects already?"""
    paths = [posixpath.normpath(e.operand) for e in command.effects if (e.operand or "").startswith("/") and e.operand]
    return place is not None and any(_below(path, place) for path in paths)


def _places(command: SimpleCommand) -> list[str | None]:
    """The directories it may work in; None: one that is not known."""
    places: list[str | None] = [*command.cwd] if command.cwd is not None else [None]
    for moved in command.options.get("directory", ()):
        places = [
            posixpath.normpath(posixpath.join(place or "/", moved))
            if moved is not None and (place is not None or moved.startswith("/"))
            else None
            for place in places
        ]
    return places
