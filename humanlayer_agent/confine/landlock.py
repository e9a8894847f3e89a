"""Landlock: an allowed command is held to paths and networks by the kernel alone, where no namespaces can be made.

That is *reduced*: no verdict counts on it. It opens directories with all that is below and takes nothing away again, so
what a confinement hides or protects inside of what can be written stays open, as do sockets that have a path, UDP, and
rights and times of files. `tests/confine/reduced.yaml` has what was tried. Linux 5.19; without any privilege.

Called by number, since the C library has no functions for it. https://docs.kernel.org/userspace-api/landlock.html
"""

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import ClassVar

from humanlayer_agent.confine import syscall_filter
from humanlayer_agent.confine.confinement import (
    REDUCED,
    TREE,
    Confinement,
    Profile,
    Unenforceable,
    is_below,
    is_plain,
    within,
)
from humanlayer_agent.confine.survey import survey

EVERYTHING = TREE
"""As a path set: there is no telling what is read, or written, and so that is not held."""

_CREATE_RULESET, _ADD_RULE = 444, 445
_VERSION = 1
"""The flag that asks for the version of Landlock, as a ruleset is asked for."""
_OLDEST = 2
"""The first one by which files can be moved between folders."""
_BELOW_PATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_MAKE_SOCK, _MAKE_FIFO, _MAKE_SYM, _REFER, _TRUNCATE, _IOCTL_DEV = 1 << 9, 1 << 10, 1 << 12, 1 << 13, 1 << 14, 1 << 15
_RIGHTS = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
"""What each version can hold. (The first: all of its bits, those for new device files included.)"""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = (
    _READ | _WRITE_FILE | _TRUNCATE | _REMOVE_DIR | _REMOVE_FILE | _REFER
    | _MAKE_DIR | _MAKE_REG | _MAKE_SOCK | _MAKE_FIFO | _MAKE_SYM
)  # fmt: skip
_TCP_SINCE, _TCP = 4, 3
_SCOPES_SINCE, _SCOPES = 6, 3
"""Sockets without a path, and signals, of who is not held with it."""

_OWN = ("/dev", "/proc")
"""Of these a command has what is said below. What leads there may be its own, or else our, output or terminal."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
_MOST_BESIDE = 2000
"""Most paths that are opened one by one because they stand beside something hidden."""
_SETTINGS = (".toml", ".json", ".ini", ".cfg", ".yaml", ".yml", ".work")
_PR_GET_SECCOMP = 21

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Landlock:
    """The Landlock of this kernel, by its version."""

    version: int
    name: ClassVar = REDUCED


@cache
def find() -> Landlock:
    """Return the Landlock of this kernel.

    Raises:
        Unenforceable: there is none that can be used; why, and what would change it.
    """
    if sys.platform != "linux":
        raise Unenforceable("Landlock needs Linux")
    try:
        version = _call(_CREATE_RULESET, None, 0, _VERSION)
    except OSError as error:
        raise Unenforceable(_WHY_NOT.get(error.errno or 0, f"Landlock can't be used: {error.strerror}")) from None
    if version < _OLDEST:
        raise Unenforceable(f"version {version} of Landlock lets no file be moved to another folder: use Linux 5.19")
    return Landlock(version)


_WHY_NOT = {
    errno.ENOSYS: "this kernel has no Landlock, or the container's seccomp profile refuses it. What would change it: "
    "Linux 5.19 or newer with CONFIG_SECURITY_LANDLOCK=y; docker run --security-opt seccomp=unconfined",
    errno.EPERM: "the container's seccomp profile refuses Landlock. What would change it: "
    "docker run --security-opt seccomp=unconfined",
    errno.EOPNOTSUPP: "Landlock is switched off. What would change it: landlock as the first word after lsm= on the "
    "kernel's command line (as /sys/kernel/security/lsm has them), and a restart",
}


@dataclass(frozen=True, slots=True)
class Restriction:
    """What a command is held to by Landlock: a second wall behind a verdict that does not count on it.

    Args:
        backend: the Landlock of this kernel.
        confinement: what the command may reach.
        also: path sets that it can write as well: where its tools keep what they need again.
    """

    backend: Landlock
    confinement: Confinement
    also: tuple[str, ...] = ()

    @property
    def had(self) -> str:
        """Return a sentence for the model: what the command had."""
        writes = dict.fromkeys(("/tmp", *(each.removesuffix(TREE) for each in self.confinement.entries("write"))))
        where = "anywhere" if "" in writes else "below " + ", ".join(writes)
        network = "" if self._opens_tcp else ", and connect to nothing by TCP"
        return (
            f"It was not confined, but Landlock held it to what it can of {self.confinement.name}: it could "
            f"write {where}, read that and what programs need to start{network}."
        )

    @property
    def _opens_tcp(self) -> bool:
        return self.backend.version < _TCP_SINCE or self.confinement.network == "host"

    def calls(self) -> bytes:
        """Return the filter of system calls to go with it; nothing where this kernel or machine has none."""
        if _libc.prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) < 0:
            return b""
        with suppress(Unenforceable):
            return syscall_filter.program()
        return b""

    @contextmanager
    def ruleset(self) -> Iterator[int]:
        """Give the descriptor of a ruleset (see `processes.reaper.restrict`).

        Raises:
            OSError: it can't be made.
        """
        version = self.backend.version
        held = sum(rights for since, rights in _RIGHTS.items() if since <= version)
        held &= ~_READ if EVERYTHING in self.confinement.entries("read") else -1
        held &= _READ if EVERYTHING in self.confinement.entries("write") else -1
        scopes = _SCOPES if version >= _SCOPES_SINCE else 0
        known = 1 + (version >= _TCP_SINCE) + (version >= _SCOPES_SINCE)
        attributes = struct.pack("=3Q", held, 0 if self._opens_tcp else _TCP, scopes)[: 8 * known]
        descriptor = _call(_CREATE_RULESET, attributes, len(attributes), 0)
        try:
            for path, rights in self._opened():
                _open(descriptor, path, rights & held)
            yield descriptor
        finally:
            os.close(descriptor)

    def _opened(self) -> Iterator[tuple[str, int]]:
        """Every path that is opened, and for what."""
        yield from ((f"/dev/{name}", _OF_FILES & ~_EXECUTE) for name in _DEVICES)
        yield from (("/proc", _READ), ("/tmp", _WRITE), ("/dev/shm", _WRITE))
        yield from ((entry.removesuffix(TREE), _WRITE) for entry in self.also)
        yield from ((path, _READ_FILE) for path in self._settings())
        for profile in self.confinement.profiles:
            for path, rights in (*_writable(profile), *_readable(profile)):
                # What leads elsewhere by now is not what was meant. (A rule is about what stands there, not its name.)
                if os.path.realpath(path) == path and not any(is_below(path, each) for each in _OWN):
                    yield path, rights

    def _settings(self) -> Iterator[str]:
        """Files that programs look for in each folder above, and in the home folder: there, and refused, is an error to
        them, where they would go on without.
        """
        folders, hidden = {os.path.expanduser("~")}, self.confinement.entries("hide")
        for root in self.confinement.entries("write"):
            above = os.path.dirname(root.removesuffix(TREE))
            while len(above) > 1:
                folders.add(above)
                above = os.path.dirname(above)
        for folder in sorted(folders):
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    named = entry.name.startswith(".") or entry.name.endswith(_SETTINGS)
                    both = entry.path, os.path.realpath(entry.path)
                    if named and entry.is_file() and not any(within(path, hidden) for path in both):
                        yield entry.path


def _writable(profile: Profile) -> Iterator[tuple[str, int]]:
    for entry in profile.write:
        path = entry.removesuffix(TREE)
        if entry == EVERYTHING or _is_protected(path, profile):
            continue
        yield path, _WRITE
        if entry == path and (folder := _folder(path)) is not None:
            yield folder, _WRITE


def _readable(profile: Profile) -> Iterator[tuple[str, int]]:
    protected = [path for path in (entry.removesuffix(TREE) for entry in profile.write) if _is_protected(path, profile)]
    hidden = {entry.removesuffix(TREE) for entry in profile.hide if is_plain(entry)}
    if protected:
        with suppress(Unenforceable):  # too many files to look for them: then they are not hidden
            hidden |= survey(Confinement((profile,))).hidden
    for path in (*protected, *(entry.removesuffix(TREE) for entry in profile.read if entry.endswith(TREE))):
        beside = list(islice(_beside(path, {each for each in hidden if is_below(each, path)}), _MOST_BESIDE))
        yield from beside if len(beside) < _MOST_BESIDE else [(path, _READ)]  # it stays open
    for path in (entry for entry in profile.read if not entry.endswith(TREE)):
        yield path, _READ_DIR if os.path.isdir(path) else _EXECUTE | _READ_FILE  # of a directory the names alone


def _is_protected(path: str, profile: Profile) -> bool:
    """Tell whether nothing of a writable folder can be written."""
    return not profile.writes(path)


def _folder(path: str) -> str | None:
    """The folder in which a path can be made or removed; None where that is the home folder, or one above it."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return None if is_below(os.path.expanduser("~"), folder) else folder


def _beside(path: str, hidden: set[str]) -> Iterator[tuple[str, int]]:
    """What opens a tree to be read, but for what is hidden in it: all that stands beside that, one by one. Its names
    can be read.
    """
    if not hidden:
        yield path, _READ
    elif path not in hidden:
        yield path, _READ_DIR
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                if not entry.is_symlink():
                    yield from _beside(entry.path, {each for each in hidden if is_below(each, entry.path)})


def _open(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # it is not there
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        if rights:
            _call(_ADD_RULE, ruleset, _BELOW_PATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _call(number: int, *words: int | bytes | None) -> int:
    result: int = _libc.syscall(number, *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
