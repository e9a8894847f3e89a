"""The mounts that a confinement comes to on this machine: which paths are there, and how each is to be seen."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from humanlayer_agent.confine.confinement import TREE, Confinement, pattern
from humanlayer_agent.errors import HumanlayerError

How = Literal["link", "read", "write", "hide"]

LIMIT = 200_000
"""Most directory entries that are looked at for what is hidden or protected by a wildcard."""
_PROVIDED = ("/proc", "/dev", "/tmp", "/sys")
"""What every confined command has of its own: nothing of the machine's is put there, but what lies deeper."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One path, and how it is seen: "link" is a symbolic link that leads where the machine's own does."""

    path: str
    how: How
    directory: bool


class Unenforceable(HumanlayerError):
    """Raised where a confinement can't be enforced here: nothing was started. The message says why not."""


def mounts(confinement: Confinement, *, limit: int = LIMIT) -> list[Mount]:
    """Return what is to be mounted, in this order.

    Paths that are not there, or that this user can't read, are left out. A directory that holds something protected is
    a mount of its own: else it could be moved away, and what is protected be made anew in its place.

    Raises:
        Unenforceable: it can't be enforced here: a path to be written is gone, a link stands where nothing can be
            mounted over it, or there are too many files to look for what is hidden.
    """
    found: dict[str, How] = {}
    for entry in confinement.entries("read"):
        path = entry.removesuffix(TREE) or "/"
        if path not in _PROVIDED and path != "/" and os.access(path, os.R_OK):
            found[path] = "link" if os.path.islink(path) else "read"
    writes = [entry.removesuffix(TREE) or "/" for entry in confinement.entries("write")]
    for path in writes:
        if path == "/tmp":
            continue  # the command has one of its own
        if path == "/" or path in _PROVIDED or not os.path.exists(path) or os.path.realpath(path) != path:
            raise Unenforceable(f"{path} can't be made writable: it is not there, or is reached by a link")
        found[path] = "write"
    for path in _existing(confinement.entries("protect"), writes, limit):
        if confinement.writes(path) or (root := _root(path, writes)) is None:
            continue  # another profile lets it through, or nothing makes it writable
        if os.path.islink(path):
            raise Unenforceable(f"{path} can't be protected: it is a link, and nothing can be mounted over one")
        _mount_parents(path, root, found)
        found[path] = "read"
    for path in _existing(confinement.entries("hide"), writes, limit):
        if confinement.reads(path):
            continue
        if os.path.islink(path):
            path = os.path.realpath(path)  # what it leads to is what could be read
            if not os.path.exists(path) or not confinement.reads(path):
                continue
        if root := _root(path, writes):
            _mount_parents(path, root, found)
        found[path] = "hide"
    # What lies deeper comes later, so that it is not covered by what holds it.
    order = sorted(found, key=lambda path: (path.count("/"), path))
    return [Mount(path, found[path], os.path.isdir(path)) for path in order if not _below_hidden(path, found)]


def _root(path: str, writes: Iterable[str]) -> str | None:
    """The innermost of the writable trees that holds `path`."""
    return max((each for each in writes if path == each or path.startswith(each + "/")), key=len, default=None)


def _mount_parents(path: str, root: str, found: dict[str, How]) -> None:
    above = os.path.dirname(path)
    while len(above) > len(root):
        found.setdefault(above, "write")
        above = os.path.dirname(above)


def _below_hidden(path: str, found: dict[str, How]) -> bool:
    above = os.path.dirname(path)
    while above != "/":
        if found.get(above) == "hide":
            return True
        above = os.path.dirname(above)
    return False


def _existing(entries: Iterable[str], roots: Iterable[str], limit: int) -> list[str]:
    """The paths that are there and that a path set names; below `roots` where it has wildcards. Links stay links."""
    found: set[str] = set()
    loose: list[str] = []
    for entry in entries:
        base = entry.removesuffix(TREE)
        if set("*?[") & set(base):
            loose.append(base)
        elif os.path.lexists(base):
            found.add(base)
    if loose:
        whole = re.compile("|".join(f"(?:{pattern(base).pattern})" for base in loose), re.DOTALL)
        _walk(list(roots), whole, found, limit)
    return sorted(found)


def _walk(stack: list[str], whole: re.Pattern[str], found: set[str], limit: int) -> None:
    while stack:
        folder = stack.pop()
        try:
            with os.scandir(folder) as entries:
                listed = list(entries)
        except OSError:
            continue  # it can't be listed by us, nor by what runs as us
        limit -= len(listed)
        if limit < 0:
            raise Unenforceable(f"too many files to look for what is hidden or protected ({folder} and others)")
        for each in listed:
            if whole.fullmatch(each.path):
                found.add(each.path)
            elif each.is_dir(follow_symlinks=False):
                stack.append(each.path)
