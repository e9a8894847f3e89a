"""The files that agents run, read from disk: their text, their hash, and whether version control has them.

What is under version control is taken from git's index as it was when the reader was made. Later additions don't count,
or an agent could make its own script "project code" with `git add`. The format is that of git's
Documentation/gitformat-index.txt, versions 2 to 4; an index that is not understood means that nothing is tracked.
"""

import copy
import errno
import os
import re
import stat
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Self

from humanlayer_agent.shell.reader import MAX_TEXT, Source
from humanlayer_agent.shell.view import HOST, View

MAX_HASHED = 8 * 1024 * 1024
MAX_INDEX = 64 * 1024 * 1024
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*", re.ASCII)
_PROGRAMS = re.compile(
    r"/(?:usr/(?:local/)?)?bin|/opt/(?:mini|ana)?(?:conda|forge)3?(?:/envs/[^/]+)?/bin|/opt/python/[^/]+/bin"
    r"|/opt/hostedtoolcache/Python/[^/]+/[^/]+/bin|/opt/homebrew/(?:Cellar|opt)/.+/bin"
    r"|/Library/Frameworks/Python\.framework/Versions/[^/]+/bin"
    r"|(?:/root|/home/[^/]+|/Users/[^/]+)/(?:\.pyenv/versions/[^/]+|\.local/share/uv/python/[^/]+|(?:mini|ana)(?:conda|forge)3(?:/envs/[^/]+)?)/bin",
    re.ASCII,
)
"""Where Pythons are installed: what an agent would put there is outside its project, and asked about."""
_MODE, _ENTRY = ">24xI", ">40x20sH"
"""Where an entry has its mode; its blob and flags."""


class DiskReader:
    """A reader of regular files on disk, wherever they are.

    Args:
        project: the directory the agent works for; git's index is looked for there and above.
        view: what whoever runs what is read sees of the disk.

    Example:
        >>> DiskReader("/srv/app").read("/srv/app/no-such-file") is None
        True
    """

    def __init__(self, project: Path | str, view: View = HOST) -> None:
        self._index = _Index(os.path.realpath(project))
        self._view = view

    def seen_in(self, view: View) -> Self:
        """Return a reader of the same files as they are seen in another view. What is under version control was, as
        before, found when this one was made.
        """
        other = copy.copy(self)
        other._view = view
        return other

    def read(self, path: str) -> Source | None:
        """The file at `path`; None where it is missing, no regular file, or larger than 8 MiB (an installed program
        may be larger)."""
        if (installed := _installed(path, self._view)) is not None:
            return installed
        data = _bytes(path, self._view)
        if data is None:
            return None
        text = None
        if len(data) <= MAX_TEXT:
            try:
                text = data.decode()
            except UnicodeDecodeError:
                text = None
        import hashlib

        unmodified = self._index.has(self._view.real(path), data)
        return Source(hashlib.sha256(data).hexdigest(), text, unmodified)

    @staticmethod
    def digest(path: str, view: View = HOST) -> str:
        """Return the `sha256` of what `read` gives for `path` now, without a look at its text; "" where it gives
        nothing.
        """
        if (installed := _installed(path, view)) is not None:
            return installed.sha256
        data = _bytes(path, view)
        if data is None:
            return ""
        import hashlib

        return hashlib.sha256(data).hexdigest()


class _Index:
    """The files under version control, as git's index had them when this was made."""

    def __init__(self, project: str) -> None:
        self._top, self._data = _index_of(project)

    def has(self, real: str, data: bytes) -> bool:
        """Tell whether this is the content that is under version control of the file at a path without links."""
        if not self._data or not real.startswith(self._top.rstrip("/") + "/"):
            return False
        import hashlib

        blob = self._tracked.get(os.fsencode(os.path.relpath(real, self._top)))
        return blob is not None and blob == hashlib.sha1(b"blob %d\0" % len(data) + data).digest()

    @cached_property
    def _tracked(self) -> dict[bytes, bytes]:
        return _understood(self._data)


class GivenReader:
    """A reader of files that are given, instead of those on disk: a recorded run carries the scripts it ran.

    Args:
        files: the text of each by its absolute path.
        tracked: paths under version control and unmodified.

    Example:
        >>> GivenReader({"/srv/run.sh": "ls"}).read("/srv/run.sh").text
        'ls'
    """

    def __init__(self, files: Mapping[str, str], tracked: Collection[str] = ()) -> None:
        self._files, self._tracked = files, frozenset(tracked)

    def read(self, path: str) -> Source | None:
        """The file that was given for `path`."""
        plain = "/" + os.path.normpath(path).lstrip("/")
        text = self._files.get(plain)
        if text is None and plain not in self._tracked:
            return None
        data = (text or "").encode("utf-8", "surrogatepass")
        readable = text is not None and len(data) <= MAX_TEXT
        import hashlib

        return Source(hashlib.sha256(data).hexdigest(), text if readable else None, plain in self._tracked)


def _installed(path: str, view: View) -> Source | None:
    """An interpreter that is installed on this machine, where `path` leads to one: `.venv/bin/python` is a link.

    Its hash is over the place, the size and the time of the change.
    """
    if not _PYTHON.fullmatch(os.path.basename(path)):
        return None
    try:
        real = view.real(path)
        if not _PYTHON.fullmatch(os.path.basename(real)) or not _PROGRAMS.fullmatch(os.path.dirname(real)):
            return None
        found = os.stat(real)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode) or not found.st_mode & 0o111:
        return None
    import hashlib

    what = f"{real}\0{found.st_size}\0{found.st_mtime_ns}\0{found.st_uid}"
    return Source(hashlib.sha256(what.encode()).hexdigest(), installed=real)


def _bytes(path: str, view: View) -> bytes | None:
    """The content of a regular file. A pipe or a device is not waited for."""
    try:
        descriptor = view.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_HASHED:
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_HASHED + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return data if len(data) <= MAX_HASHED else None


def _index_of(directory: str) -> tuple[str, bytes]:
    """The working tree that `directory` lies in, and the bytes of its index; b"" where there is none."""
    for place in (directory, *map(str, Path(directory).parents)):
        git = os.path.join(place, ".git")
        if not _exists(git):
            continue
        try:
            if os.path.isfile(git):  # a worktree or submodule: "gitdir: PATH"
                with open(git) as file:
                    name, _, where = file.read().partition(":")
                git = os.path.join(place, where.strip()) if name == "gitdir" else git
            index = os.path.join(git, "index")
            if os.stat(index).st_size > MAX_INDEX:
                return place, b""
            with open(index, "rb") as binary:
                return place, binary.read()
        except (OSError, ValueError):
            return place, b""
    return directory, b""


def _exists(path: str) -> bool:
    """Is there something at `path`? Raises OSError where nobody can say (no permission)."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP):
            raise
        return False
    return True


def _understood(index: bytes) -> dict[bytes, bytes]:
    """What `_entries` finds; nothing where it does not understand the index."""
    import struct

    try:
        return _entries(index)
    except (ValueError, struct.error, IndexError):
        return {}


def _entries(data: bytes) -> dict[bytes, bytes]:
    """The blob of every tracked regular file by its path. Raises ValueError where the index is not understood."""
    import hashlib
    import struct

    magic, version, count = struct.unpack_from(">4sII", data)
    checked = data[-20:] in (bytes(20), hashlib.sha1(data[:-20]).digest())
    if magic != b"DIRC" or version not in (2, 3, 4) or not checked:
        raise ValueError("not an index that is understood")
    out: dict[bytes, bytes] = {}
    at, previous = 12, b""
    for _ in range(count):
        (mode,) = struct.unpack_from(_MODE, data, at)
        blob, flags = struct.unpack_from(_ENTRY, data, at)
        name = at + (64 if version > 2 and flags & 0x4000 else 62)
        if version == 4:
            kept, name = _varint(data, name)
            end = data.index(b"\0", name)
            previous = previous[: len(previous) - kept] + data[name:end]
            after = end + 1
        else:
            end = data.index(b"\0", name)
            previous = data[name:end]
            after = at + ((end - at) // 8 + 1) * 8
        if mode & 0o170000 == 0o100000 and not flags & 0x3000:
            out[previous] = blob
        at = after
    return out


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in git's offset encoding, and where it ends."""
    byte = data[at]
    value = byte & 127
    while byte & 128:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) + (byte & 127)
    return value, at + 1
