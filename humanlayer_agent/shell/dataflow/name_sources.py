"""Programs that print names of files of the project: `git ls-files`, `git grep -l`, `grep -rl`, `ls`.

What they print is some path below the folder where they look. It counts only where no name there is split at blanks,
begins with a dash (printed without the folder, it would be an option), or is a link that leads out, on the disk and in
git's index: a name of the index need not be on the disk any more, and is printed all the same.
"""

import posixpath
import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell.dataflow import name_lists
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.context import NOTHING_SPECIAL
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.reader import DiskLooks, Reader
from humanlayer_agent.shell.syntax.tree import Node, Pipeline, ProcSub, Redirect, Script, Simple, Word
from humanlayer_agent.shell.view import ODD

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter

_SEARCH = frozenset(
    str.split(
        """
        files-with-matches files-without-match ignore-case word-regexp line-regexp extended-regexp fixed-strings
        basic-regexp perl-regexp regexp e no-messages binary-without-match I include exclude exclude-dir recursive
        name-only line-number text null
        """
    )
)
_SEARCHERS = frozenset(("grep", "egrep", "fgrep"))
_FLAGS = {
    "ls": frozenset(("one-per-line", "1", "reverse", "t", "S", "sort-time", "sort-size")),
    "git ls-files": frozenset(("cached", "modified", "deleted", "others", "exclude-standard", "z", "deduplicate")),
    "git grep": _SEARCH - {"include", "exclude", "exclude-dir"},
    **dict.fromkeys(_SEARCHERS, _SEARCH),
}
"""The options with which these programs print names as they are, and none but those of the files that they look at."""
_ENDS_WITH_NUL = {"git ls-files": "z", "git grep": "null", **dict.fromkeys(_SEARCHERS, "null")}
MAX_NAMES = 200
"""Most names that are told one by one."""
_PLAIN = re.compile(r"[A-Za-z0-9_+@][A-Za-z0-9_.+@-]*(?:/[A-Za-z0-9_+@][A-Za-z0-9_.+@-]*)*", re.ASCII)
"""A path from here, each part of which is written out, and that leads nowhere else."""
_BY_ENDING = re.compile(r"(?:([^*]+)/)?\*(\.[A-Za-z0-9_.-]+)", re.ASCII)


def note(walk: "Interpreter", part: Node, commands: tuple[SimpleCommand, ...]) -> None:
    """Note what a part of a pipeline prints, or a substitution, where that is names of files that are there."""
    if not isinstance(part, Simple) or part.assigns or len(commands) != 1 or commands[0].prints:
        return
    command = commands[0]
    name = command.program if command.subcommand is None else f"{command.program} {command.subcommand}"
    flags = _FLAGS.get(name or "")
    here = command.cwd[0] if command.cwd is not None and len(command.cwd) == 1 else ""
    if flags is None or not here.startswith("/") or command.via or command.path is not None:
        return
    if not command.known or not command.flags_complete or not command.flags <= flags:
        return
    places = _places(name or "", command)
    if not places or not name_lists.are_only_looked_at(walk, command):
        return  # a file, an entry of the index or a variable of git may be new
    names = _names(walk.reader, here, name or "", others="others" in command.flags)
    if names is None or ("recursive" in command.flags and not set(names).isdisjoint(places)):
        return  # a link that it is given itself is followed
    end = "\0" if _ENDS_WITH_NUL.get(name or "") in command.flags else "\n"
    if all(any(_lies_at(each, place) for each in names) for place in places):
        command.prints, command.prints_end = _fields(command, places, names), end


def printed(walk: "Interpreter", script: Script, commands: tuple[SimpleCommand, ...]) -> list[Field]:
    """Return what the names are that the script of a substitution prints, which consists of `commands`; empty where
    they are not known, or a name may be split.
    """
    body = script.body
    if isinstance(body, Simple):
        note(walk, body, commands)
        name_lists.pass_on(body, NOTHING_SPECIAL, commands)
    last = body.parts[-1] if isinstance(body, Pipeline) else body
    command = commands[-1]
    if not isinstance(last, Simple) or command.via or command.prints_end != "\n" or not command.resolved:
        return []
    return command.prints


def redirected(walk: "Interpreter", redirects: list[Redirect]) -> list[Field]:
    """The same for `< <(git ls-files)`, where that is the only redirect and was just followed."""
    word = redirects[0].target
    if len(redirects) > 1 or redirects[0].op != "<" or redirects[0].fd not in ("", "0") or len(word.parts) != 1:
        return []
    part = word.parts[0]
    for kind, what, start, _, end in reversed(walk.program.trace):
        if kind == "substitution" and what is part and isinstance(part, ProcSub) and end > start:
            return printed(walk, part.script, tuple(walk.program.commands[start:end]))
    return []


def _names(reader: Reader | None, here: str, program: str, *, others: bool) -> tuple[str, ...] | None:
    """The names that a program may print, from here; None where they are not known, or one may be taken for others."""
    if not isinstance(reader, DiskLooks):
        return None
    if program == "ls":
        names = reader.names(here, deep=False)
    elif program in ("git ls-files", "git grep"):
        names = reader.tracked_names(here) if not _is_repository(reader, here) else None
        if others and names is not None:
            found = reader.names(here, deep=True)
            names = None if found is None else (*names, *found)
    else:
        names = reader.names(here, deep=True)
    links = reader.links_out(here, through=False)
    if names is None or links is None or not names:
        return None
    if any(name.startswith("-") or "/-" in name or ODD.search(name) or not name.isascii() for name in names):
        return None
    led = {path.removeprefix(f"{here.rstrip('/')}/") for path, _ in links}
    if program in _SEARCHERS:  # it follows only those that it is given, which are not among the files
        led = {path for path in led if any(name.startswith(f"{path}/") for name in names)}
    if any(not led.isdisjoint(_and_above(name)) for name in names):
        return None
    return names


def _is_repository(reader: DiskLooks, here: str) -> bool:
    """Tell whether git may take a folder, or one above it in the project, for a repository without a work tree."""
    while here != reader.git_top and here != "/":
        names = reader.names(here, deep=False)
        if names is None or "HEAD" in names:
            return True
        here = posixpath.dirname(here)
    return here == "/"


def _and_above(name: str) -> list[str]:
    """A path from here, and those of the folders that it lies in."""
    parts = name.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]


def _places(name: str, command: SimpleCommand) -> list[str]:
    """Where the files lie whose names are printed, from here: "." or folders, or wildcards for them. Empty where that
    is not known.
    """
    words = command.operands
    if any(word is None for word in words):
        return []
    given = [word for word in words if word is not None]
    if name == "ls":
        return ["."] if not given else []
    if name == "git ls-files":
        return (given or ["."]) if all(_is_plain(each) for each in given) else []
    listing = command.flags & {"files-with-matches", "files-without-match", "name-only"}
    if not listing:
        return []
    given = given if command.flags & {"regexp", "e"} else given[1:]
    if name == "git grep":
        return ["."] if not given else []  # what stands there may be a commit, whose name is printed as well
    if "recursive" not in command.flags:
        return given if given and all(_PLAIN.fullmatch(each) for each in given) else []
    given = [each.removeprefix("./").rstrip("/") or "." for each in given] or ["."]
    if not all(each == "." or _PLAIN.fullmatch(each) for each in given):
        return []
    included = command.options.get("include", [])
    if included and all(each is not None and _BY_ENDING.fullmatch(each) and "/" not in each for each in included):
        return [f"{folder}/{each}" for folder in given for each in included]
    return given


def _is_plain(place: str) -> bool:
    ending = _BY_ENDING.fullmatch(place)
    folder = place.rstrip("/") if ending is None else ending[1] or ""
    return folder in ("", ".") or _PLAIN.fullmatch(folder) is not None


def _fields(command: SimpleCommand, places: list[str], names: tuple[str, ...]) -> list[Field]:
    """What may be printed: the names themselves where they are few, else where they lie."""
    shown = Word("{}", None, *command.span, dynamic=True)
    chosen = [name for name in names if any(_lies_at(name, place) for place in places)]
    if len(chosen) <= MAX_NAMES:
        here = command.cwd[0] if command.cwd is not None else ""
        return [Field(shown, *command.span, below=here, seen_from=here, names=tuple(dict.fromkeys(chosen)))]
    return [_below(place, command, shown) for place in places]


def _lies_at(name: str, place: str) -> bool:
    folder, ending = _place(place)
    return (not folder or name == folder or name.startswith(f"{folder}/")) and name.endswith(ending)


def _place(place: str) -> tuple[str, str]:
    """The folder of a place ("" for the one where it is looked), and with what the names there end."""
    ending = _BY_ENDING.fullmatch(place)
    folder = place.rstrip("/") if ending is None else ending[1] or ""
    return "" if folder == "." else folder, ending[2] if ending is not None else ""


def _below(place: str, command: SimpleCommand, shown: Word) -> Field:
    """What may be printed of what lies at a place."""
    folder, ending = _place(place)
    here = command.cwd[0] if command.cwd is not None else ""
    if ending:
        above = f"./{folder}" if folder else "."
        return Field(shown, *command.span, glob=f"{above}/**/***{ending}", prefix=f"{above}/")
    return Field(shown, *command.span, below=posixpath.join(here, folder).rstrip("/"), prefix="/", seen_from=here)
