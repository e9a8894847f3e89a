"""The names that wildcards stand for on a disk, as bash lists them, and the digest by which a list is known again.

Listed is only what every version and locale of bash sees alike: `*`, `?`, letters and digits in brackets. Where bash
may see it otherwise (`**`, ranges of letters, names that are no text), nothing is said.
"""

import re
from dataclasses import dataclass
from functools import cache

from humanlayer_agent.shell.view import MAX_NAMES, View

_MARK = "//"
"""Stands in what a list is known by between the folder and the pattern: no path of a file that is read has it."""
FOLDER = "/."
"""Ends the pattern by which it is known that a folder is there, and may be entered."""
_OF_EACH_PROCESS = re.compile(r"/(?:dev|proc|sys)(?:/|\Z)")
_TOKEN = re.compile(r"\\(.)|(\*)|(\?)|\[([!^]?)(\]?[^\]/\\\[]*)\]|(.)", re.DOTALL)
"""A letter after a backslash, wildcards, what stands in brackets, another letter."""
_SURE_IN_BRACKETS = re.compile(r"\]?(?:0-9|[!-,./0-Z^-~])+-?|\]", re.ASCII)


class _Unsure(Exception):
    """What bash would list can't be said."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a pattern stands for in a folder.

    Args:
        folder: absolute.
        pattern: of paths from there, in which a backslash stands before what is no wildcard.
        names: the paths that match, from the folder, in the order of the codes of their letters.
        looked: the folders that were looked at, without links.
    """

    folder: str
    pattern: str
    names: tuple[str, ...]
    looked: frozenset[str]

    @property
    def path(self) -> str:
        """What the list is known by among the files that an action was judged by."""
        return f"{self.folder.rstrip('/')}{_MARK}{self.pattern}"

    @property
    def sha256(self) -> str:
        """The SHA-256 (hex) of its names."""
        import hashlib

        return hashlib.sha256("\0".join(self.names).encode()).hexdigest()

    def may_match(self, name: str) -> bool:
        """Tell whether a wildcard of the pattern stands for a name, in whichever folder."""
        return any(each.fullmatch(name) for each in map(_compiled, self.pattern.split("/")) if each is not None)


def listing_of(folder: str, pattern: str, view: View) -> Listing | None:
    """Return the names that a pattern stands for in a folder, as a view shows it; None where that can't be said: there
    is no such folder, nobody may look, there are too many names, or bash may see them otherwise.

    Example:
        >>> listing_of("/no/such/folder", "*.md", View()) is None
        True
    """
    walk = _Walk(folder, view)
    try:
        names = walk.names(pattern)
        "\0".join(names).encode()
    except (OSError, ValueError, _Unsure):
        return None
    return Listing(folder, pattern, tuple(sorted(names)), frozenset(walk.looked))


def known_by(path: str) -> tuple[str, str] | None:
    """Return the folder and the pattern of a list that is known by `path`; None where that is a file.

    Example:
        >>> known_by("/srv/app//*.md"), known_by("/srv/app/a.md")
        (('/srv/app', '*.md'), None)
    """
    folder, mark, pattern = path.partition(_MARK)
    return (folder or "/", pattern) if mark else None


class _Walk:
    """A walk through the folders that a pattern leads to. Its methods raise OSError or `_Unsure`."""

    def __init__(self, folder: str, view: View) -> None:
        self.folder, self.view = folder, view
        self.looked: set[str] = set()
        self.left = MAX_NAMES

    def names(self, pattern: str) -> list[str]:
        parts = pattern.split("/")
        if not all(parts[:-1]) or any(map(_is_unsure, parts)):
            raise _Unsure
        found = [""]
        for n, part in enumerate(parts):
            if not part:  # `*/`: what is a folder
                found = [each for each in found if self._look(each, follow=True)]
            elif _compiled(part) is not None:
                found = [each + name for each in found for name in self._matching(each, part)]
            else:
                name = _plain(part)
                found = [each + name for each in found if n == 0 or self._look(each + name, follow=False)]
            if n + 1 < len(parts):
                found = [f"{each}/" for each in found]
        return found

    def _matching(self, below: str, part: str) -> list[str]:
        """The names in a folder that a component stands for."""
        real, wanted = self.view.real(f"{self.folder}/{below}"), _compiled(part)
        if _OF_EACH_PROCESS.match(real) or wanted is None:
            raise _Unsure
        if not self.view.look(real).is_directory:
            if not self.looked:
                raise _Unsure  # it is not there at all: whoever runs the command may have another disk
            return []
        self.looked.add(real)
        names = []
        for name, *_ in self.view.entries(real):
            self.left -= 1
            if self.left < 0 or (not name.isascii() and ("?" in part or "[" in part)):
                raise _Unsure  # how many letters such a name has is up to the locale
            if not name.startswith(".") and wanted.fullmatch(name):
                names.append(name)
        return names

    def _look(self, name: str, *, follow: bool) -> bool:
        """Tell whether something stands there; with `follow`, a folder or a link to one."""
        path = f"{self.folder}/{name}"
        if follow:
            return self.view.look(self.view.real(path)).is_directory
        above, _, last = path.rpartition("/")
        return self.view.look(f"{self.view.real(above).rstrip('/')}/{last}").found is not None


def _is_unsure(part: str) -> bool:
    """Tell whether what a component of a pattern stands for differs between versions, options and locales."""
    tokens: list[tuple[str, ...]] = _TOKEN.findall(part)
    for letter, star, one, _, several, other in tokens:
        brackets = not (letter or star or one or other)
        if (brackets and not _SURE_IN_BRACKETS.fullmatch(several)) or other in ("[", "\\"):
            return True
    # `.*` may stand for `..`; a literal name that begins with a dot stands for itself.
    return "**" in part or (_compiled(part) is not None and part.lstrip("\\").startswith("."))


@cache
def _compiled(part: str) -> re.Pattern[str] | None:
    """The names that a component stands for; None where it has no wildcard."""
    out, wild = "", False
    for letter, star, one, negated, several, other in _TOKEN.findall(part):
        plain = letter or other
        wild = wild or not plain
        if plain:
            out += re.escape(plain)
        elif several:
            inside = "0-9".join(re.sub(r"([\W_])", r"\\\1", text) for text in several.split("0-9"))
            out += f"[{'^' if negated else ''}{inside}]"
        else:
            out += ".*" if star else "." if one else "(?!)"
    return re.compile(out, re.DOTALL) if wild else None


def _plain(part: str) -> str:
    return re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL)
