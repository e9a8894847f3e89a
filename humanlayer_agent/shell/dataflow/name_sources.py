"""Programs that print names of files of the project: `git ls-files`, `git diff --name-only`, `grep -l`, `rg -l`, `ls`.

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
    "ls": frozenset(("one-per-line", "1", "reverse", "t", "S", "sort-time", "sort-size", "directory")),
    "git diff": frozenset(("name-only", "filter")),
    "rg": frozenset(("files-with-matches", "files-without-match", "null", "regexp", "glob", "limit", "choice")),
    "git ls-files": frozenset(("cached", "modified", "deleted", "others", "exclude-standard", "z", "deduplicate")),
    "git grep": _SEARCH - {"include", "exclude", "exclude-dir"},
    **dict.fromkeys(_SEARCHERS, _SEARCH),
}
"""The options with which these programs print names as they are, and none but those of the files that they look at."""
_ENDS_WITH_NUL = {"git ls-files": "z", "git grep": "null", "rg": "null", **dict.fromkeys(_SEARCHERS, "null")}
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
    given = _given(command)
    places = None if given is None else _places(name or "", command, given)
    if not places or not name_lists.are_only_looked_at(walk, command):
        return  # a file, an entry of the index or a variable of git may be new
    if name == "ls":
        listed = _listed(walk.reader, here, places, itself="directory" in command.flags)
        if listed is None:
            return
        names, places = listed
    else:
        follows = name not in _SEARCHERS or "recursive" not in command.flags
        found = _names(walk.reader, here, name or "", others="others" in command.flags, follows=follows)
        if found is None or (("recursive" in command.flags or name == "rg") and not set(found).isdisjoint(places)):
            return  # a link that it is given itself is followed
        names = found
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


def _listed(
    reader: Reader | None, here: str, places: list[str], *, itself: bool
) -> tuple[tuple[str, ...], list[str]] | None:
    """What `ls` prints, and where it stands for what: the names in one folder, or the files that it is given; None
    where that is not known. The names in a folder stand for what has the same names here.

    Args:
        itself: folders are printed by their own names too.
    """
    if not isinstance(reader, DiskLooks):
        return None
    if len(places) == 1 and not itself:
        names = reader.names(posixpath.join(here, places[0]), deep=False)
        if names:
            return (names, ["."]) if _are_safe(reader, here, (*names, *places)) else None
    if itself:
        return (tuple(places), places) if _are_safe(reader, here, tuple(places)) else None
    names = _names(reader, here, "ls", others=False, follows=True)
    if names is None:
        return None
    files = set(names).issuperset(places) and not any(_is_link(reader, here, place) for place in places)
    return (names, places) if files else None


def _is_link(reader: DiskLooks, here: str, place: str) -> bool:
    return reader.real(posixpath.join(here, place)) != posixpath.join(reader.real(here), place)


def _names(reader: Reader | None, here: str, program: str, *, others: bool, follows: bool) -> tuple[str, ...] | None:
    """The names that a program may print, from here; None where they are not known, or one may be taken for others.

    Args:
        others: files that git does not track are among them.
        follows: a link may be among them; otherwise only those that it is given are followed, which are not.
    """
    if not isinstance(reader, DiskLooks):
        return None
    if program in ("git diff", "git grep") and reader.git_top != here:
        return None  # it prints names from there, or may do so (`grep.fullName`)
    if program == "git grep" and reader.read(posixpath.join(here, ".gitmodules")) is not None:
        return None  # it may look into submodules, which have an index of their own
    if program in ("git ls-files", "git grep", "git diff"):
        names = reader.tracked_names(here) if not _is_repository(reader, here) else None
        if others and names is not None:
            found = reader.names(here, deep=True)
            names = None if found is None else (*names, *found)
    else:
        names = reader.names(here, deep=True)
    if not names or not _are_safe(reader, here, names, follows=follows):
        return None
    return names


def _are_safe(reader: DiskLooks, here: str, names: tuple[str, ...], *, follows: bool = True) -> bool:
    """Tell whether none of these names is split, is taken for an option, or leads out.

    Args:
        follows: a link may be among them; otherwise only on the way to one.
    """
    links = reader.links_out(here, through=False)
    if links is None or any(
        name.startswith("-") or "/-" in name or ODD.search(name) or not name.isascii() for name in names
    ):
        return False
    if any(ODD.search(path) for path, _ in links):
        return False  # git may print a name with colours (`color.ui`), and be read as the name of such a link
    led = {path.removeprefix(f"{here.rstrip('/')}/") for path, _ in links}
    if not follows:
        led = {path for path in led if any(name.startswith(f"{path}/") for name in names)}
    return all(led.isdisjoint(_and_above(name)) for name in names)


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


def _given(command: SimpleCommand) -> list[str] | None:
    """The operands, with the names that wildcards stand for in their places; None where one is not known."""
    lists = iter([word.listed for word in command.words if word.glob is not None])
    found: list[str] = []
    for operand in command.operands:
        each = (operand,) if operand is not None else next(lists, ())
        if not each:
            return None
        found += each
    return None if next(lists, None) is not None else found


def _places(name: str, command: SimpleCommand, given: list[str]) -> list[str]:
    """Where the files lie whose names are printed, from here: "." or folders, or wildcards for them. Empty where that
    is not known.
    """
    words = [word.text for word in command.words]
    paths = words[words.index("--") + 1 :] if "--" in words else []
    if name == "ls":
        given = [each.removeprefix("./").rstrip("/") or "." for each in given] or ["."]
        return given if all(each == "." or _PLAIN.fullmatch(each) for each in given) else []
    if name == "git ls-files":
        return (given or ["."]) if all(_is_plain(each) for each in given) else []
    if not command.flags & {"files-with-matches", "files-without-match", "name-only"}:
        return []
    if name == "git diff":  # a commit may have other names
        return (given or ["."]) if paths == given and all(_is_plain(each) for each in given) else []
    given = given if command.flags & {"regexp", "e"} else given[1:]
    if name == "git grep":  # what stands before "--" may be a commit, whose name is printed as well
        return (given or ["."]) if paths == given and all(_is_plain(each) for each in given) else []
    if "recursive" not in command.flags and name != "rg":
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
