"""Transformations of paths: the same file by another path.

Which words are paths is what the analysis says; only programs that do nothing but open their operands are rewritten.
What must exist for both paths to lead to the same file is assumed to exist, and to be no symbolic link.
"""

import posixpath
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.policy_tools.metamorphic.line import Edit, Line
from humanlayer_agent.policy_tools.metamorphic.quotes import bare, plain, single
from humanlayer_agent.policy_tools.metamorphic.transformation import Apply, Transformation
from humanlayer_agent.shell import Effect, syntax_tree

_FAMILIES = frozenset({"files", "text", "list", "search", "bytes"})
_FILES = frozenset({"read", "write", "append", "delete", "move", "metadata"})

# ln keeps the text of its operand, basename prints it, rmdir -p takes it apart.
_TAKES_TEXT = frozenset(
    ["ln", "link", "readlink", "realpath", "basename", "dirname", "mktemp", "split", "csplit", "rmdir"]
)
_COMPARES = re.compile(r"-(path|ipath|wholename|iwholename|regex|iregex|lname|f?printf?0?|fls|files0-from)")


@dataclass(frozen=True, slots=True)
class Place:
    """A path in the source: [start, end), as it is written there, and as an absolute one."""

    start: int
    end: int
    text: str
    absolute: str
    directory: bool
    """Whether it can only be meant as a directory."""


Respell = Callable[[Line, Place], str | None]
"""How the path is written instead, quoted as it needs to be."""


def transformations() -> Iterator[Transformation]:
    """All of this module."""
    for name, respell in _RESPELLINGS.items():
        yield Transformation(name, _respeller(respell))
    for name, home in _HOMES.items():
        yield Transformation(name, _home(home))
    yield Transformation("cd-first", _cd_first)


def places(line: Line) -> list[Place]:
    """The paths that stand in the line itself and can be written in another way."""
    tops = {(each.start, each.end): each for each in line.commands}
    found: dict[tuple[int, int], Place] = {}
    for command in line.program.commands:
        top = tops.get(command.span)
        if top is None or command.cwd != (line.cwd,):
            continue
        for effect in command.effects:
            place = _place(line, top, effect)
            if place is not None:
                found[place.start, place.end] = place
    return sorted(found.values(), key=lambda place: place.start)


def _place(line: Line, command: syntax_tree.Simple, effect: Effect) -> Place | None:
    start, end = effect.span
    text = line.text[start:end]
    if effect.kind not in _FILES or effect.operand is None or not effect.resolved or not plain(text):
        return None
    absolute = line.absolute(text)
    if posixpath.normpath(effect.operand) != absolute or (effect.source == "own" and not _opens(line, command)):
        return None
    words = [*command.words, *(r.target for r in command.redirects)]
    if not any(word.start <= start and word.end == end and not word.pattern for word in words):
        return None
    return Place(
        start, end, text, absolute, effect.recursive or text.endswith(("/", "/..", "/.")) or text in (".", "..")
    )


def _opens(line: Line, command: syntax_tree.Simple) -> bool:
    name = (command.words[0].static or "") if command.words else ""
    return (
        CATALOG.family(name) in _FAMILIES
        and name not in _TAKES_TEXT
        and not (name == "cp" and _links(command))
        and not _COMPARES.search(line.of(command))
    )


def _links(command: syntax_tree.Simple) -> bool:
    """Whether it may be `cp -s` or `cp --parents`, which keep the text of what is copied."""
    return any((word.static or "-s").startswith("-") and word.static != "-r" for word in command.words[1:])


def _respeller(respell: Respell) -> Apply:
    def apply(line: Line, chance: random.Random) -> str | None:
        edits: list[Edit] = []
        for place in places(line):
            new = respell(line, place)
            if new is not None and new != place.text:
                edits.append((place.start, place.end, new))
        return line.edit(edits)

    return apply


# ---- spellings --------------------------------------------------------------------------------------


def _dotted(line: Line, place: Place) -> str | None:
    return None if place.text.startswith("/") else f"./{place.text}"


def _doubled(line: Line, place: Place) -> str | None:
    return place.text.replace("/", "//") if "/" in place.text else None


def _through_dots(line: Line, place: Place) -> str | None:
    return place.text.replace("/", "/./") if "/" in place.text.strip("/") else None


def _up_and_back(line: Line, place: Place) -> str | None:
    if place.text.startswith("/"):
        first = place.text.strip("/").partition("/")[0]
        return f"/{first}/..{place.text}" if "/" in place.text.strip("/") else f"/usr/..{place.text}"
    return f"../{posixpath.basename(line.cwd)}/{place.text}" if line.cwd != "/" else None


def _absolute(line: Line, place: Place) -> str | None:
    return None if place.text.startswith("/") else bare(posixpath.join(line.cwd, place.text))


def _relative(line: Line, place: Place) -> str | None:
    if not place.text.startswith("/") or place.text.startswith(("/dev/", "/proc/")):
        return None
    slash = "/" if place.text.endswith("/") and place.absolute != "/" else ""
    return bare(posixpath.relpath(place.text, line.cwd) + slash)


def _slash(line: Line, place: Place) -> str | None:
    return f"{place.text}/" if place.directory and not place.text.endswith("/") else None


def _working_directory(line: Line, place: Place) -> str | None:
    return None if place.text.startswith("/") else f'"$PWD"/{place.text}'


def _tilde_plus(line: Line, place: Place) -> str | None:
    at_start = place.start == 0 or line.text[place.start - 1] in " \t<>"
    return f"~+/{place.text}" if at_start and not place.text.startswith("/") else None


def _own_root(line: Line, place: Place) -> str | None:
    own = place.text.startswith("/") and not place.text.startswith(("/proc", "/dev"))
    return f"/proc/self/root{place.text}" if own and place.absolute != "/" else None


def _own_directory(line: Line, place: Place) -> str | None:
    # mkdir -p and install -d change their own directory on the way.
    moves = place.text.startswith("/") or place.text in (".", "..") or re.search("mkdir|install", line.text)
    return None if moves else f"/proc/self/cwd/{place.text}"


_RESPELLINGS: dict[str, Respell] = {
    "dot-slash": _dotted,
    "double-slashes": _doubled,
    "dots-in-paths": _through_dots,
    "up-and-back": _up_and_back,
    "absolute-paths": _absolute,
    "relative-paths": _relative,
    "trailing-slashes": _slash,
    "pwd-variable": _working_directory,
    "tilde-plus": _tilde_plus,
    "own-root": _own_root,
    "own-directory": _own_directory,
}


# ---- the home directory -----------------------------------------------------------------------------

_TILDE = re.compile(r"~(?=/|\Z)")
_HOMES: dict[str, Callable[[str], str]] = {
    "home-variable": lambda home: "$HOME",
    "quoted-home-variable": lambda home: '"$HOME"',
    "braced-home-variable": lambda home: '"${HOME}"',
    "home-written-out": bare,
    "home-in-quotes": single,
}


def _home(write: Callable[[str], str]) -> Apply:
    """`~` at the start of a word, written in another way."""

    def apply(line: Line, chance: random.Random) -> str | None:
        edits: list[Edit] = []
        for command in line.commands:
            for word in [*command.words, *(r.target for r in command.redirects)]:
                if word.pattern and _TILDE.match(word.raw) and plain(line.home):
                    edits.append((word.start, word.start + 1, write(line.home)))
        return line.edit(edits)

    return apply


# ---- from elsewhere -----------------------------------------------------------------------------------


def _cd_first(line: Line, chance: random.Random) -> str | None:
    """The one path of the command, from the directory that it lies in."""
    command, found = line.single, places(line)
    if command is None or len(found) != 1 or not found[0].text.startswith("/"):
        return None
    (place,) = found
    folder, name = posixpath.split(place.absolute)
    touched = [e for c in line.program.commands for e in c.effects if e.kind in _FILES]
    program = command.words[0].static or "./"
    if not name or name.startswith("-") or ("/" in program and not program.startswith("/")):
        return None
    if any(effect.span != (place.start, place.end) for effect in touched):
        return None
    changed = line.edit([(place.start, place.end, bare(name))])
    return f"cd {bare(folder)} && {changed}"
