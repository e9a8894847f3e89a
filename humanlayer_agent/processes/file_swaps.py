"""The directory and the files that a command was judged by, compared until it has ended.

A path is only a name. Between the judgement of a script and the moment when bash opens it, whoever may write there can
put another script, link or directory in its place, and put the first one back. So the directory is taken as a
descriptor; each file is hashed again right before the start; and when the command has ended the files are compared
with that: their bytes, and what shows that a file was another one meanwhile (device, inode and time of change of the
file and of every link that leads to it, and the moves of the directories above it).

So are the names that wildcards stood for. They are no file: once the command has ended, what others have made there
meanwhile is no matter, but for a name that the command could have taken for an option. A folder to which the command
goes has to be there all the time: where `cd` fails, what comes after it runs somewhere else.
"""

import os
import stat
import struct
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from humanlayer_agent.action import FileDigest
from humanlayer_agent.errors import NotAsJudged
from humanlayer_agent.shell import FOLDER, HOST, DiskReader, View, known_by, listing_of

_O_PATH: int = getattr(os, "O_PATH", os.O_RDONLY)
_TICK_NS = 12_000_000
"""Longer than the kernel's clock for times of change stands still: 1 to 10 ms."""
_TRIES = 5
_MOVED = 0x800
_WATCHED = _MOVED | 0x01000000 | 0x02000000  # IN_MOVE_SELF, IN_ONLYDIR, IN_DONT_FOLLOW
_EVENT = struct.Struct("iIII")

_Step = tuple[str, bool, tuple[int, ...]]
"""Where a component of a path is, whether it is a directory, and what it is recognized by."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that is not what was judged, or was not for a while.

    Args:
        path: as it was judged.
        sha256: what was judged (hex).
        found: what is there now; "" where that can't be read, and the same where it was put back.
        own: what was judged of the command leaves open that it has changed the file itself.
    """

    path: str
    sha256: str
    found: str
    own: bool = False


@dataclass(frozen=True, slots=True)
class WorkingDirectory:
    """The directory that a command starts in, as it was when the command was judged.

    Args:
        path: its absolute path.
        identity: its device, its inode, and where the path led; None where there was no such directory.
    """

    path: str
    identity: tuple[int, int, str] | None

    @classmethod
    def at(cls, path: str) -> Self:
        """Return the directory that `path` leads to now."""
        try:
            descriptor = os.open(path, _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError):
            return cls(path, None)
        try:
            return cls(path, _identity(descriptor, path))
        finally:
            os.close(descriptor)

    def open(self) -> int:
        """Return a descriptor of the directory: whatever happens to its path from here on, it stays this one.

        Raises:
            OSError: it can't be opened.
            NotAsJudged: the path leads to another directory than it did.
        """
        descriptor = os.open(self.path, _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _identity(descriptor, self.path) != self.identity:
                raise NotAsJudged([self.path])
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


class JudgedFiles:
    """What one action was judged by: where it starts, and the files whose text was read. Nothing is done for no files.

    Args:
        directory: where it starts, as it was before it was judged.
        files: what was read of each.
        view: what of the disk they were read in: whoever runs the action is to see the same.

    Example:
        >>> judged = JudgedFiles(WorkingDirectory.at("/"), ())
        >>> judged.look(), judged.changes()
        ((), ())
    """

    def __init__(self, directory: WorkingDirectory, files: Sequence[FileDigest], view: View = HOST) -> None:
        self.directory = directory
        self.files = tuple(files)
        self.view = view
        self._known: dict[str, _Look] = {}

    def look(self) -> tuple[FileDigest, ...]:
        """Return the files as they are now; from now on they are compared with that. What can't be read, or is no
        regular file, has the hash "".
        """
        looks = self._look()
        self._known = looks
        return tuple(FileDigest(path, look.sha256) for path, look in looks.items())

    def check(self) -> None:
        """Compare the files once more, right before the command starts.

        Raises:
            NotAsJudged: some of them are not what was judged.
        """
        looks = self._look()
        if other := [file.path for file in self.files if looks[file.path].sha256 != file.sha256]:
            raise NotAsJudged(other)
        self._known = looks

    def check_inside(self, root: View) -> None:
        """Compare the files with what the command itself will see, where it has a root of its own. What is hidden from
        it, or not there, can't deceive.

        Raises:
            NotAsJudged: it would see something else than what was judged.
        """
        seen = [file for file in self.files if known_by(file.path) is None and _can_be_opened(file.path, root)]
        other = [file.path for file in seen if DiskReader.digest(file.path, root) != file.sha256]
        lists = [file.path for file in self.files if known_by(file.path) is not None]
        if other := other + [path for path in lists if not _is_safe(path, root, self.view)]:
            raise NotAsJudged(other)

    def changes(self) -> tuple[FileChange, ...]:
        """Return the files that are, or were for a while, not what they were at the last look. It was the last."""
        if not self._known:
            return ()
        changes = []
        for path, before in self._known.items():
            if known_by(path) is not None:
                found, names = _list(path, self.view)
                gone = path.endswith(FOLDER) and names != before.names
                if gone or any(name.startswith("-") for name in names - before.names):
                    changes.append(FileChange(path, before.sha256, found))
                continue
            trail, found = tuple(_trail(path, self.view)), DiskReader.digest(path, self.view)
            moved = _moves(os.getpid()).since(before.moment, before.watches)
            if moved or (trail, found) != (before.trail, before.sha256):
                changes.append(FileChange(path, before.sha256, found))
        self._known = {}
        return tuple(changes)

    def _look(self) -> "dict[str, _Look]":
        return {file.path: _look(file.path, self.view) for file in self.files}


@dataclass(frozen=True, slots=True)
class _Look:
    """What a path led to: the way there, and the hash of what was read at its end. `watches` are those of the
    directories on it; `moment` is the number of the newest move before. `names` are those of a list.
    """

    trail: tuple[_Step, ...]
    sha256: str
    moment: int = 0
    watches: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()


def _list(path: str, view: View) -> tuple[str, frozenset[str]]:
    """The hash and the names of the list that is known by `path`, as it is now."""
    folder, pattern = known_by(path) or ("/", "")
    found = listing_of(folder, pattern, view)
    return (found.sha256, frozenset(found.names)) if found is not None else ("", frozenset())


def _is_safe(path: str, root: View, view: View) -> bool:
    """Tell whether a list has no names in a root that a view does not show; and a folder to which the command goes,
    both or neither.
    """
    inside, outside = _list(path, root)[1], _list(path, view)[1]
    return inside == outside if path.endswith(FOLDER) else inside <= outside


def _can_be_opened(path: str, view: View) -> bool:
    """Tell whether something stands there that is not hidden (see `confine.bubblewrap`: nobody may open that)."""
    found = view.look(view.real(path)).found
    return found is not None and bool(stat.S_IMODE(found.st_mode))


def _look(path: str, view: View) -> _Look:
    """What is at `path`. A file that changes while it is looked at has no hash.

    A file that has just been changed could be changed once more at the same time, as far as the file system tells: it
    is looked at again when that time is over.
    """
    if known_by(path) is not None:
        sha256, names = _list(path, view)
        return _Look((), sha256, names=names)
    moves = _moves(os.getpid())
    for _ in range(_TRIES):
        moment = moves.now()
        trail = tuple(_trail(path, view))
        watches = moves.watch(step for step, is_directory, _ in trail if is_directory)
        sha256 = DiskReader.digest(path, view)
        age = time.time_ns() - max((known[-1] for *_, known in trail if known), default=0)
        if not 0 <= age < _TICK_NS and tuple(_trail(path, view)) == trail:
            return _Look(trail, sha256, moment, watches)
        time.sleep(_TICK_NS / 1e9)
    return _Look((), "")


def _trail(path: str, view: View) -> Iterator[_Step]:
    """The components of an absolute path, through links as the kernel goes: directories are recognized by device and
    inode, links and files by the time of change as well, which nobody can set. (That of a directory changes with every
    file that is made in it.)
    """
    for step in view.steps(path):
        place, found = step.place or step.at, step.found
        if found is None:
            yield place, False, ()
        elif step.is_directory:
            yield place, True, (found.st_dev, found.st_ino, 0)
        else:
            yield place, False, (found.st_dev, found.st_ino, found.st_ctime_ns)
        if step.target is None and not step.is_directory:
            return


class _Moves:
    """The moves of directories: to rename one and put it back leaves no trace in it that an ordinary run does not.

    Linux tells of them (inotify). Where it does not, for want of watches, or on another system, there are none. There
    is one for a process, because it takes some ten milliseconds to end one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptor = -1
        self._count = 0
        self._last: dict[int, int] = {}  # by watch: the number of its last move

    def watch(self, paths: Iterable[str]) -> frozenset[int]:
        """Watch these directories from now on; returns what they are known by."""
        if sys.platform != "linux":
            return frozenset()
        with self._lock:
            if self._descriptor < 0:
                self._descriptor = _libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
            found = {_libc().inotify_add_watch(self._descriptor, os.fsencode(path), _WATCHED) for path in paths}
        return frozenset(found - {-1})

    def now(self) -> int:
        """Return the number of the newest move."""
        with self._lock:
            self._read()
            return self._count

    def since(self, number: int, watches: frozenset[int]) -> bool:
        """Tell whether one of these directories has moved after the move of this number."""
        with self._lock:
            self._read()
            return any(self._last.get(watch, 0) > number for watch in watches)

    def _read(self) -> None:
        if self._descriptor < 0:
            return
        with suppress(BlockingIOError):
            while data := os.read(self._descriptor, 65536):
                at = 0
                while at < len(data):
                    watch, mask, _, size = _EVENT.unpack_from(data, at)
                    at += _EVENT.size + size
                    if mask & _MOVED:
                        self._count += 1
                        self._last[watch] = self._count


@cache
def _moves(pid: int) -> _Moves:
    """The moves that this process, `pid`, is told of: what a fork has inherited is its parent's."""
    return _Moves()


@cache
def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None)


def _identity(descriptor: int, path: str) -> tuple[int, int, str]:
    """What the directory of a descriptor is recognized by; the kernel says where it is, not a walk along its path."""
    found = os.fstat(descriptor)
    try:
        real = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        real = os.path.realpath(path)
    return found.st_dev, found.st_ino, real
