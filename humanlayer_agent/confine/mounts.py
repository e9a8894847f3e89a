"""The mounts that a confinement comes to on this machine: which paths are there, and how each is to be seen."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from humanlayer_agent.confine.certificates import is_public
from humanlayer_agent.confine.confinement import TREE, Confinement, Unenforceable, is_below, is_plain, within
from humanlayer_agent.confine.repository import is_kept
from humanlayer_agent.confine.survey import LIMIT, roots_of, survey

LASTING = "/var/tmp"
"""Another folder for temporary files."""
How = Literal["link", "read", "write", "hide"]

_MOST_LINKED = 500
"""Most files that are mounted one by one because they have a name outside as well."""
_INSTALLED = {"node_modules", "site-packages", ".venv", "venv"}
"""Folders that a package manager fills, perhaps with links to its cache: they become read-only as a whole then."""
_PROVIDED = ("/proc", "/dev", "/tmp", "/sys")
"""What every confined command has of its own: nothing of the machine's is put there, but what lies deeper."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One path, and how it is seen: "link" is a symbolic link that leads where the machine's own does."""

    path: str
    how: How
    directory: bool


def mounts(
    confinement: Confinement,
    *,
    keep: Iterable[str] = (),
    shown: Mapping[str, frozenset[str]] = MappingProxyType({}),
    removed: Sequence[str] = (),
    limit: int = LIMIT,
) -> list[Mount]:
    """Return what is to be mounted, in this order.

    Paths that are not there, or that this user can't read, are left out. A directory that holds something protected is
    a mount of its own: else it could be moved away, and what is protected be made anew in its place.

    Args:
        confinement: what is let through.
        keep: folders that are never written, whatever is let through: where we are installed ourselves.
        shown: files that are not hidden while they have the content that git has kept of them (`repository.is_kept`).
        removed: path sets of what the command is known to remove: a mount in them would be in its way.
        limit: most directory entries that are looked at.

    Raises:
        Unenforceable: it can't be enforced here: a path to be written is gone, a link stands where nothing can be
            mounted over it, or there are too many files to look for what is hidden.
    """
    found: dict[str, How] = {}
    writes = [entry.removesuffix(TREE) or "/" for entry in confinement.entries("write")]
    for entry in confinement.entries("read"):
        path = entry.removesuffix(TREE) or "/"
        if within(path, removed) and _root(path, writes) is not None:
            continue
        if path in _PROVIDED or path == "/" or _is_of_proc(path):
            continue
        if os.access(path, os.R_OK):
            found[path] = "link" if os.path.islink(path) else "read"
    for path in writes:
        if path == "/tmp":
            continue  # the command has one of its own
        if path == "/" or path in _PROVIDED or not os.path.exists(path) or os.path.realpath(path) != path:
            raise Unenforceable(f"{path} can't be made writable: it is not there, or is reached by a link")
        found[path] = "write"
    looked = survey(confinement, limit=limit)
    for path in _read_only(looked.linked, writes):
        found[path] = "read"
        if os.path.isdir(cache := f"{path}/.cache"):
            found.setdefault(cache, "write")
    kept = frozenset(keep)
    for path in sorted(looked.protected | kept):
        if (root := _root(path, writes)) is None or (within(path, removed) and path not in kept):
            continue
        if os.path.islink(path):
            raise Unenforceable(f"{path} can't be protected: it is a link, and nothing can be mounted over one")
        _mount_parents(path, root, found)
        found[path] = "read"
    secret = {path for path in looked.hidden if not (is_public(path) or is_kept(path, shown))}
    for path in _hidden(confinement, secret):
        if root := _root(path, writes):
            _mount_parents(path, root, found)
        found[path] = "hide"
    # What lies deeper comes later, so that it is not covered by what holds it.
    order = sorted(found, key=lambda path: (path.count("/"), path))
    return [Mount(path, found[path], os.path.isdir(path)) for path in order if not _is_seen_so(path, found)]


def has_link(confinement: Confinement, caches: str = "") -> bool:
    """Tell whether a command finds /var/tmp as a link to its own /tmp: where that is nothing that it can see otherwise.

    Args:
        confinement: what is let through.
        caches: a folder that it can write as well.
    """
    seen = (*confinement.entries("read"), *confinement.entries("write"), caches)
    paths = [path for entry in seen if (path := entry.removesuffix(TREE))]
    mounted = any(is_below(path, LASTING) or is_below(LASTING, path) for path in paths)
    return os.path.isdir(LASTING) and not mounted


def own_home(confinement: Confinement, home: str) -> tuple[str, tuple[str, ...]]:
    """Return the home folder that a command has of its own, and the folders in it that lead to what it can write.

    In it the command finds what else is mounted there, and nothing that it makes stays; in those folders it makes
    nothing. "" is for none: where all of the home folder can be read or written, that is what it has, or there is none.

    Args:
        confinement: what is let through.
        home: the home folder, as the command is told.
    """
    home = os.path.normpath(home) if os.path.isabs(home) else "/"
    seen = [entry.removesuffix(TREE) or "/" for entry in (*confinement.entries("read"), *confinement.entries("write"))]
    provided = (*_PROVIDED, LASTING) if has_link(confinement) else _PROVIDED
    if any(is_below(home, each) for each in (*provided, *seen)) or home == "/" or not os.path.isdir(home):
        return "", ()
    inside = [root[len(home) + 1 :].split("/") for root in roots_of(confinement) if is_below(root, home)]
    return home, tuple(sorted({f"{home}/{parts[0]}" for parts in inside if len(parts) > 1}))


def _hidden(confinement: Confinement, found: set[str]) -> Iterator[str]:
    """What is there and must not be read: of a link what it leads to, for that is what could be read."""
    seen = (*confinement.entries("read"), *confinement.entries("write"))
    plain = {entry.removesuffix(TREE) for entry in confinement.entries("hide") if is_plain(entry)}
    for path in sorted(found | plain):
        if os.path.lexists(path) and within(path, seen) and not confinement.reads(path):
            real = os.path.realpath(path) if os.path.islink(path) else path
            if real == path or (os.path.exists(real) and confinement.reads(real)):
                yield real


def _root(path: str, writes: Iterable[str]) -> str | None:
    """The innermost of the writable trees that holds `path`."""
    return max((each for each in writes if is_below(path, each)), key=len, default=None)


def _mount_parents(path: str, root: str, found: dict[str, How]) -> None:
    if _around(path, found) == "read":
        return  # nothing can be moved there
    above = os.path.dirname(path)
    while len(above) > len(root):
        found.setdefault(above, "write")
        above = os.path.dirname(above)


def _is_of_proc(path: str) -> bool:
    """Tell whether a file is one of the kernel's about the machine, and not mounted over it: a command's own /proc has
    the same.
    """
    return path.startswith("/proc/") and os.path.isfile(path) and os.stat(path).st_dev == os.stat("/proc").st_dev


def _is_seen_so(path: str, found: Mapping[str, How]) -> bool:
    """Tell whether it is seen so without a mount of its own: they are most of what the start of a command takes."""
    if any(found.get(above) == "hide" for above in _parents(path)):
        return True
    return _around(path, found) == "read" and found[path] in ("read", "link")


def _around(path: str, found: Mapping[str, How]) -> How | None:
    """How the innermost mount is seen that holds `path`."""
    return next((found[above] for above in _parents(path) if above in found), None)


def _parents(path: str) -> Iterator[str]:
    while (path := os.path.dirname(path)) != "/":
        yield path


def _read_only(linked: Iterable[str], writes: Sequence[str]) -> list[str]:
    """What is to be read-only so that nothing is changed under its name outside: folders of packages, and files."""
    found = set()
    for path in linked:
        root = _root(path, writes) or "/"
        parts = path[len(root) :].split("/")
        at = next((n for n, part in enumerate(parts) if part in _INSTALLED), len(parts))
        found.add(root + "/".join(parts[: at + 1]))
    if len(found) > _MOST_LINKED:
        raise Unenforceable(
            f"too many files have names outside as well (hard links), {min(found)} for example; "
            "where they are objects of git (a clone on one disk), `git repack -ad` makes them the repository's own"
        )
    return sorted(found)
