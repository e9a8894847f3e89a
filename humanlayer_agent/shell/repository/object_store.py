"""git's objects, as loose files and in packs (gitformat-pack.txt, index version 2), with SHA-1 names.

Each object is what its name says, or it is not known. One is at most 8 MiB, and all that are read for one action, and
what of them has to be unpacked on the way, share one allowance: a small pack can stand for any amount of data.
"""

import os
import re
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Self

from humanlayer_agent.shell.view import HOST, View

NAME = 20
"""Bytes of an object's name."""
MOST_BYTES = 8 << 20
_MOST_IN_ALL = 192 << 20
_MOST_STEPS = 300_000
_MOST_PACKS = 100
_MOST_ALTERNATES = 10
_DEEPEST = 4096
"""Most deltas on each other: as many as git itself makes."""
_KEPT = 24 << 20
_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_FROM_OFFSET, _FROM_NAME = 6, 7
_HEAD = b"\377tOc\0\0\0\2"
_NAMES_AT = len(_HEAD) + 1024
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_ENTRY = re.compile(rb"([1-7][0-7]{4,5}) ([^\0/]+)\0(.{20})", re.DOTALL)
_NO_NAMES = frozenset({b".", b"..", b".git", b"git~1"})
"""Names that git checks out nowhere, in lower case."""
_LONGEST_NAME = 255

_DAMAGED = (OSError, ValueError, IndexError, OverflowError, struct.error)
"""What reading forged numbers can raise."""

Entry = tuple[int, bytes]
"""Mode and name of what a tree has under a name."""
TREE = 0o040000
EMPTY = bytes.fromhex("4b825dc642cb6eb9a060e54bf8d69288fbee4904")
"""The tree of nothing, which is known without being kept."""


class NotKnown(Exception):
    """Raised where something of a repository can't be told: it is missing, damaged, too much, or not understood."""


class Allowance:
    """How much may still be done for one action."""

    def __init__(self) -> None:
        self._steps, self._bytes = _MOST_STEPS, _MOST_IN_ALL

    def spend(self, steps: int = 1, size: int = 0) -> None:
        """Take some of it.

        Raises:
            NotKnown: nothing is left.
        """
        self._steps -= steps
        self._bytes -= size
        if self._steps < 0 or self._bytes < 0:
            raise NotKnown("too much to look through")


class ObjectStore:
    """The objects of one repository, and of those whose objects it borrows. To be closed.

    Args:
        folder: its `objects`, an absolute path.
        view: what of the disk is seen by whoever uses it.
        allowance: how much may be read.
    """

    def __init__(self, folder: str, view: View, allowance: Allowance) -> None:
        self._view, self._allowance = view, allowance
        self._stack = ExitStack()
        self.folders = list(self._with_alternates(folder))
        """Where they lie."""
        self._opened: list[_Pack] | None = None
        self._trees: dict[bytes, dict[bytes, Entry]] = {EMPTY: {}}
        self._known: dict[bytes, tuple[str, bytes]] = {EMPTY: ("tree", b"")}
        self._bases: dict[tuple[int, int], tuple[str, bytes]] = {}
        self._room = _KEPT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def get(self, name: bytes) -> tuple[str, bytes]:
        """Return the kind and the content of an object.

        Raises:
            NotKnown: it is not there, or not whole.
        """
        if (known := self._known.get(name)) is not None:
            return known
        self._allowance.spend()
        try:
            found = self._packed(name) or self._loose(name)
        except (*_DAMAGED, zlib.error) as error:
            raise NotKnown(f"object {name.hex()} can't be read: {error}") from None
        if found is None:
            raise NotKnown(f"object {name.hex()} is not there")
        import hashlib

        kind, content = found
        if hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content, usedforsecurity=False).digest() != name:
            raise NotKnown(f"object {name.hex()} is damaged")
        self._known[name] = found
        return found

    def tree(self, name: bytes) -> dict[bytes, Entry]:
        """Return what a tree has, by name.

        Raises:
            NotKnown: it can't be read, or has what git does not check out.
        """
        if (known := self._trees.get(name)) is not None:
            return known
        kind, content = self.get(name)
        found: dict[bytes, Entry] = {}
        at = count = 0
        for each in _ENTRY.finditer(content):
            if each.start() != at or each[2].lower() in _NO_NAMES or len(each[2]) > _LONGEST_NAME:
                break
            found[each[2]] = int(each[1], 8), each[3]
            at, count = each.end(), count + 1
        if kind != "tree" or at != len(content) or count != len(found):
            raise NotKnown(f"{name.hex()} is no tree that git checks out")
        self._allowance.spend(count)
        self._trees[name] = found
        return found

    def beginning_with(self, digits: str) -> list[bytes]:
        """Return the names that begin with these hexadecimal digits, at most three."""
        found: set[bytes] = set()
        try:
            for pack in self._packs():
                found.update(pack.beginning_with(digits))
            for folder in self.folders:
                for each, *_ in self._entries(f"{folder}/{digits[:2]}"):
                    self._allowance.spend()
                    if len(each) == 2 * NAME - 2 and (digits[:2] + each).startswith(digits):
                        found.add(bytes.fromhex(digits[:2] + each))
        except _DAMAGED as error:
            raise NotKnown(str(error)) from None
        return sorted(found)[:3]

    def _entries(self, folder: str) -> list[tuple[str, bool, bool]]:
        try:
            return list(self._view.entries(folder))
        except (OSError, ValueError):
            return []

    def _with_alternates(self, folder: str) -> Iterator[str]:
        waiting, seen = [folder], set[str]()
        while waiting:
            here = os.path.normpath(waiting.pop())
            if here in seen:
                continue
            seen.add(here)
            if len(seen) > _MOST_ALTERNATES:
                raise NotKnown("too many alternates")
            yield here
            for line in (read_file(self._view, f"{here}/info/alternates", 1 << 16) or b"").split(b"\n"):
                if line.startswith(b'"'):
                    raise NotKnown("an alternate is quoted")
                if line and not line.startswith(b"#"):
                    waiting.append(os.path.join(here, os.fsdecode(line)))

    def _packs(self) -> "list[_Pack]":
        if self._opened is None:
            self._opened = []
            for folder in self.folders:
                for name in sorted(name for name, *_ in self._entries(f"{folder}/pack") if name.endswith(".idx")):
                    if len(self._opened) >= _MOST_PACKS:
                        raise NotKnown("too many packs")
                    index = self._file(f"{folder}/pack/{name}")
                    pack = self._file(f"{folder}/pack/{name.removesuffix('.idx')}.pack")
                    if index is not None and pack is not None:
                        self._opened.append(_Pack(index, pack, self._allowance))
        return self._opened

    def _file(self, path: str) -> int | None:
        """A descriptor of a regular file; None where there is none."""
        try:
            descriptor = self._view.open(path, _OPEN)
        except FileNotFoundError:
            return None
        self._stack.callback(os.close, descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotKnown(f"{path} is no file")
        return descriptor

    def _packed(self, name: bytes) -> tuple[str, bytes] | None:
        packs = self._packs()
        for n, pack in enumerate(packs):
            if (at := pack.place(name)) is not None:
                if n:
                    packs.insert(0, packs.pop(n))  # the next one is probably there as well
                return self._from(pack, at)
        return None

    def _from(self, pack: "_Pack", at: int) -> tuple[str, bytes]:
        """The object at a place in a pack: a base, and the deltas that lead from it to what was asked for."""
        ways: list[tuple[int, bytes]] = []
        while (found := self._bases.get((pack.number, at))) is None:
            self._allowance.spend()
            kind, base, content = pack.entry(at)
            if kind in _KINDS:
                found = _KINDS[kind], content
                self._keep(pack, at, found)
                break
            ways.append((at, content))
            if base is None or len(ways) > _DEEPEST:
                raise NotKnown("a delta without a base")
            at = base
        for at, delta in reversed(ways):
            self._allowance.spend()
            found = found[0], _changed(found[1], delta)
            self._allowance.spend(0, len(found[1]))
            self._keep(pack, at, found)
        return found

    def _keep(self, pack: "_Pack", at: int, found: tuple[str, bytes]) -> None:
        self._room -= len(found[1])
        if self._room < 0:
            self._bases.clear()
            self._room = _KEPT - len(found[1])
        self._bases[pack.number, at] = found

    def _loose(self, name: bytes) -> tuple[str, bytes] | None:
        digits = name.hex()
        for folder in self.folders:
            data = read_file(self._view, f"{folder}/{digits[:2]}/{digits[2:]}", MOST_BYTES)
            if data is None:
                continue
            self._allowance.spend(1, len(data))
            head, nul, _ = zlib.decompressobj().decompress(data, 40).partition(b"\0")
            kind, _, size = head.partition(b" ")
            if not nul or kind.decode() not in _KINDS.values() or not size.isdigit() or int(size) > MOST_BYTES:
                raise NotKnown("a loose object of an unknown kind")
            self._allowance.spend(0, int(size))
            whole = _inflated(iter([data]), len(head) + 1 + int(size))
            return kind.decode(), whole[len(head) + 1 :]
        return None


def missing_objects(folder: str, names: Iterable[str]) -> list[str]:
    """Return which of these objects a repository does not have.

    Args:
        folder: its `objects`, an absolute path.
        names: in hexadecimal digits.
    """
    missing = []
    with ObjectStore(folder, HOST, Allowance()) as objects:
        for name in names:
            try:
                found = bytes.fromhex(name) in objects.beginning_with(name)
            except NotKnown:
                found = False
            if not found:
                missing.append(name)
    return missing


class _Pack:
    """One pack and its index, open."""

    _made = 0

    def __init__(self, index: int, pack: int, allowance: Allowance) -> None:
        self._index, self._pack, self._allowance = index, pack, allowance
        _Pack._made += 1
        self.number = _Pack._made
        head = os.pread(index, _NAMES_AT, 0)
        if len(head) != _NAMES_AT or not head.startswith(_HEAD):
            raise NotKnown("an index of a pack of another version")
        self._counts: tuple[int, ...] = struct.unpack(">256I", head[len(_HEAD) :])

    def place(self, name: bytes) -> int | None:
        """Return where in the pack an object is; None where it is not there."""
        n = self._first(name)
        if n >= self._counts[255] or self._name(n) != name:
            return None
        offsets = _NAMES_AT + (NAME + 4) * self._counts[255]
        (at,) = struct.unpack(">I", os.pread(self._index, 4, offsets + 4 * n))
        if at & 0x80000000:
            at &= 0x7FFFFFFF
            (at,) = struct.unpack(">Q", os.pread(self._index, 8, offsets + 4 * self._counts[255] + 8 * at))
        return int(at)

    def beginning_with(self, digits: str) -> Iterator[bytes]:
        """Yield the names that begin with these digits, at most three."""
        n = self._first(bytes.fromhex(digits.ljust(2 * NAME, "0")))
        for each in range(n, min(n + 3, self._counts[255])):
            if (name := self._name(each)).hex().startswith(digits):
                yield name

    def _first(self, name: bytes) -> int:
        """The number of the first name that is not smaller."""
        low, high = self._counts[name[0] - 1] if name[0] else 0, self._counts[name[0]]
        while low < high:
            middle = (low + high) // 2
            if self._name(middle) < name:
                low = middle + 1
            else:
                high = middle
        return low

    def _name(self, n: int) -> bytes:
        name = os.pread(self._index, NAME, _NAMES_AT + NAME * n)
        if len(name) != NAME:
            raise NotKnown("an index of a pack that is cut off")
        return name

    def entry(self, at: int) -> tuple[int, int | None, bytes]:
        """Return the kind of what is at a place, where the base of a delta is, and the content, or the delta."""
        head = os.pread(self._pack, 64, at)
        kind, size, n, shift = head[0] >> 4 & 7, head[0] & 15, 0, 4
        while head[n] & 128:
            n += 1
            size |= (head[n] & 127) << shift
            shift += 7
        n += 1
        base: int | None = None
        if kind == _FROM_OFFSET:
            back = head[n] & 127
            while head[n] & 128:
                n += 1
                back = (back + 1 << 7) | (head[n] & 127)
            n += 1
            base = at - back
            if not 0 < base < at:
                raise NotKnown("a delta whose base is nowhere")
        elif kind == _FROM_NAME:
            base = self.place(head[n : n + NAME])
            n += NAME
        elif kind not in _KINDS:
            raise NotKnown("an entry of a pack of an unknown kind")
        if size > MOST_BYTES:
            raise NotKnown("an object that is too large")
        self._allowance.spend(0, size)
        return kind, base, _inflated(self._chunks(at + n, size), size)

    def _chunks(self, at: int, size: int) -> Iterator[bytes]:
        step = min(size + 64, 1 << 16)
        while chunk := os.pread(self._pack, step, at):
            self._allowance.spend(1, len(chunk))
            yield chunk
            at += len(chunk)


def _inflated(chunks: Iterator[bytes], size: int) -> bytes:
    """What comes out of these, which has to be of this size."""
    engine, out = zlib.decompressobj(), b""
    for chunk in chunks:
        out += engine.decompress(chunk, size + 1 - len(out))
        if len(out) > size or engine.eof:
            break
    if len(out) != size or not engine.eof:
        raise NotKnown("an object of another size")
    return out


def _changed(base: bytes, delta: bytes) -> bytes:
    """What a delta makes of its base."""
    source, at = _number(delta, 0)
    target, at = _number(delta, at)
    if source != len(base) or target > MOST_BYTES:
        raise NotKnown("a delta for something else")
    out = bytearray()
    while at < len(delta):
        what = delta[at]
        at += 1
        if what & 128:
            offset = size = 0
            for n in range(7):
                if what >> n & 1:
                    if n < 4:
                        offset |= delta[at] << 8 * n
                    else:
                        size |= delta[at] << 8 * (n - 4)
                    at += 1
            size = size or 0x10000
            piece = base[offset : offset + size]
        else:
            size = what
            piece = delta[at : at + size]
            at += size
        out += piece
        if not size or len(piece) != size or len(out) > target:
            raise NotKnown("a delta that does not fit")
    if len(out) != target:
        raise NotKnown("a delta that does not fit")
    return bytes(out)


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at
        if shift > 63:
            raise NotKnown("a number that is too large")


def read_file(view: View, path: str, most: int) -> bytes | None:
    """Return the content of a regular file; None where there is none.

    Raises:
        NotKnown: it has more bytes than `most`, or can't be read.
    """
    try:
        descriptor = view.open(path, _OPEN)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise NotKnown(f"{path} can't be read: {error}") from None
    try:
        about = os.fstat(descriptor)
        if stat.S_ISDIR(about.st_mode):
            return None
        if not stat.S_ISREG(about.st_mode) or about.st_size > most:
            raise NotKnown(f"{path} is no file, or too large")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(most + 1)
    except OSError as error:
        raise NotKnown(f"{path} can't be read: {error}") from None
    finally:
        os.close(descriptor)
    if len(data) > most:
        raise NotKnown(f"{path} is too large")
    return data
