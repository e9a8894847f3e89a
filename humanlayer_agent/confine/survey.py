"""A look at the writable folders of a confinement: what is protected or hidden there, git's own files, hard links."""

import errno
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from humanlayer_agent.confine.confinement import (
    TREE,
    Confinement,
    Unenforceable,
    expression,
    is_below,
    is_plain,
    within,
)

LIMIT = 200_000
"""Most directory entries that are looked at."""
_TICK_NS = 20_000_000
"""Longer than the kernel's clock for times of change stands still."""
_LARGEST_CONTROL = 1 << 20
_CONTROLS = ("config", "config.worktree", "commondir", "gitdir", "info/attributes", "objects/info/alternates", "hooks")
"""What in a folder of git's says which code runs, or where git finds more of it."""
_BARE = ({"HEAD", "objects", "refs"}, {"HEAD", "commondir"})
"""What git takes for a folder of its own: a repository, or a further worktree of one."""
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM)


@dataclass(frozen=True, slots=True)
class Control:
    """One of git's files: its type and mode, and its content (of a link where it leads, of a directory nothing)."""

    mode: int
    content: bytes | None


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found.

    Args:
        protected: paths that are there and must not be written.
        hidden: paths that are there and must not be read.
        controls: git's files that say which code runs, by their path, and `.git` itself.
        linked: files that have a further name outside of what can be written.
    """

    protected: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    controls: dict[str, Control] = field(default_factory=dict)
    linked: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Folder:
    """What a look at one folder gave, and of which state of it."""

    state: tuple[int, int, int]
    size: int
    hits: tuple[tuple[str, Literal["protect", "hide"]], ...]
    below: tuple[str, ...]
    git: tuple[str, ...]
    links: tuple[tuple[int, int, int, str], ...]


_known: dict[tuple[str, str], _Folder] = {}
"""By confinement and path. The time of change of a folder, which nobody can set, tells whether it is still so."""


class Wanted:
    """Path sets that are looked for. There are hundreds, and most paths are ruled out by their last name alone."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._named: dict[str, list[str]] = {}
        loose: dict[str, list[str]] = {}
        for base in dict.fromkeys(entry.removesuffix(TREE) or "/" for entry in entries):
            name = base.rpartition("/")[2]
            if is_plain(name):
                self._named.setdefault(name, []).append(base)
            else:
                of_name = ".*" if name == "**" else expression(f"/{name}").removeprefix("/")
                loose.setdefault(of_name, []).append(expression(base))
        self._names, self._paths = (_any_of(each) for each in (loose, (p for paths in loose.values() for p in paths)))

    def has(self, name: str, path: str) -> bool:
        """Tell whether a path, whose last name is `name`, is one of them."""
        if (named := self._named.get(name)) is not None and within(path, named):
            return True
        return self._names.fullmatch(name) is not None and self._paths.fullmatch(path) is not None


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{each})" for each in patterns) or "(?!)", re.DOTALL)


def survey(confinement: Confinement, *, limit: int = LIMIT) -> Survey:
    """Look through the writable folders.

    Raises:
        Unenforceable: there are too many files to look through, or a folder can't be looked into.
    """
    roots = roots_of(confinement)
    wanted = _wanted(confinement)
    found, links = Survey(), dict[tuple[int, int], tuple[int, list[str]]]()
    found.protected.update(root for root in roots if confinement.reads(root) and not confinement.writes(root))
    name, stack = confinement.digest, [(root, root in found.protected) for root in roots]
    while stack:
        path, protected = stack.pop()
        folder = _look(path, name, wanted, confinement)
        if folder is None:
            continue
        limit -= folder.size
        if limit < 0:
            raise Unenforceable(f"too many files to look for what is hidden or protected ({path} and others)")
        kept = set()
        for hit, how in folder.hits:
            (found.hidden if how == "hide" else found.protected).add(hit)
            kept.add(hit)
        stack += [(each, protected or each in kept) for each in folder.below if each not in found.hidden]
        for each in folder.git:
            found.controls.update(_controls(each))
        for device, inode, count, file in folder.links if not protected else ():
            links.setdefault((device, inode), (count, []))[1].append(file)
    for count, names in links.values():
        if len(set(names)) < count:
            found.linked.update(names)
    return found


@lru_cache(maxsize=64)
def _wanted(confinement: Confinement) -> Wanted:
    return Wanted([*confinement.entries("protect"), *confinement.entries("hide")])


def roots_of(confinement: Confinement) -> list[str]:
    """Return the outermost folders that can be written. (Not /tmp: a command has one of its own.)"""
    paths = sorted({entry.removesuffix(TREE) or "/" for entry in confinement.entries("write")} - {"/tmp"})
    return [path for path in paths if not any(path != other and is_below(path, other) for other in paths)]


def is_writable(confinement: Confinement, path: str) -> bool:
    """Tell whether a path of this machine lies in a folder that is written, whatever is protected there."""
    return any(is_below(path, root) for root in roots_of(confinement))


def _look(path: str, name: str, wanted: Wanted, confinement: Confinement) -> _Folder | None:
    known = _known.get((name, path))
    try:
        about = os.lstat(path)
        if not stat.S_ISDIR(about.st_mode):
            return None
        state = about.st_dev, about.st_ino, about.st_ctime_ns
        if known is not None and known.state == state:
            return known
        now = time.time_ns()
        with os.scandir(path) as entries:
            listed = sorted(entries, key=lambda each: each.name)
        folder = _read(listed, path, state, wanted, confinement)
    except OSError as error:
        if error.errno in _GONE:
            return None  # it can't be looked into by us, nor by what runs as us
        raise Unenforceable(f"{path} can't be looked into: {error.strerror}") from None
    if len(_known) > LIMIT:
        _known.clear()
    if not 0 <= now - about.st_ctime_ns < _TICK_NS:
        _known[name, path] = folder
    return folder


def _read(
    listed: list["os.DirEntry[str]"],
    path: str,
    state: tuple[int, int, int],
    wanted: Wanted,
    confinement: Confinement,
) -> _Folder:
    hits: list[tuple[str, Literal["protect", "hide"]]] = []
    below, git, links = [], [], []
    names = {each.name for each in listed}
    lifted = confinement.entries("lift")
    inside = any(each.startswith(f"{path}/") for each in lifted)
    if any(needed <= names for needed in _BARE):
        git.append(path)
    for each in listed:
        if wanted.has(each.name, each.path) and not confinement.reads(each.path):
            hits.append((each.path, "hide"))
        # In a folder of which a part is lifted, what it holds is protected one by one.
        if (inside or wanted.has(each.name, each.path)) and within(each.path, confinement.entries("protect")):
            folder = each.is_dir(follow_symlinks=False)
            opened = folder and any(other.startswith(f"{each.path}/") for other in lifted)
            if not opened and (confinement.protects(each.path) or (folder and each.path in lifted)):
                hits.append((each.path, "protect"))
        if each.name == ".git":
            git.append(each.path)
        if each.is_dir(follow_symlinks=False):
            below.append(each.path)
        elif each.is_file(follow_symlinks=False) and (about := each.stat(follow_symlinks=False)).st_nlink > 1:
            links.append((about.st_dev, about.st_ino, about.st_nlink, each.path))
    return _Folder(state, len(listed), tuple(hits), tuple(below), tuple(git), tuple(links))


def _controls(path: str) -> Iterator[tuple[str, Control]]:
    """The files of a repository, or of what stands as `.git`, that say which code runs."""
    if os.path.basename(path) == ".git" and (own := control(path)) is not None:
        yield path, own
        if not stat.S_ISDIR(own.mode):
            return
    for relative in _CONTROLS:
        here = path
        for part in relative.split("/"):
            here = f"{here}/{part}"
            found = control(here)
            if found is None or not stat.S_ISDIR(found.mode):
                break
        if found is None:
            continue
        if not stat.S_ISDIR(found.mode):
            yield here, found
            continue
        for name in sorted(os.listdir(here)) if relative == "hooks" else ():
            if not name.endswith(".sample") and (hook := control(f"{here}/{name}")) is not None:
                yield f"{here}/{name}", hook


def control(path: str) -> Control | None:
    """Return what stands at a path, without following a link at its end; None where nothing does."""
    try:
        about = os.lstat(path)
        if stat.S_ISLNK(about.st_mode):
            return Control(about.st_mode, os.fsencode(os.readlink(path)))
        if not stat.S_ISREG(about.st_mode) or about.st_size > _LARGEST_CONTROL:
            return Control(about.st_mode, None if stat.S_ISREG(about.st_mode) else b"")
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return Control(about.st_mode, file.read(_LARGEST_CONTROL))
    except OSError:
        return None
