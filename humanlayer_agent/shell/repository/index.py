"""git's index: what is under version control (gitformat-index.txt, versions 2 to 4, SHA-1 names)."""

import struct
from typing import NamedTuple

_LONGEST_PATH = 4096
_SUBMODULE = 0o160000

_NO_PARTS = frozenset({b"", b".", b"..", b".git"})
_ENTRY = struct.Struct(">IIII8xI8xI20sH")
"""When the file was changed with its metadata, and when its content was (s and ns each), its mode, its size, its blob,
and flags."""


class Tracked(NamedTuple):
    """What the index has of a file: what it was when git looked at it last, and the name of its content."""

    mode: int
    blob: bytes
    size: int
    time: int
    """When its content was changed, in seconds."""
    times: tuple[int, int] = (0, 0)
    """When the file was changed with its metadata, and when its content was, in nanoseconds."""


def index_entries(index: bytes) -> dict[bytes, Tracked]:
    """Return what is tracked by its path, but for what is not merged; nothing where the index is not understood, or is
    only a part of what git reads.
    """
    try:
        return understood(index)
    except ValueError:
        return {}


def understood(index: bytes, unmerged: list[bytes] | None = None) -> dict[bytes, Tracked]:
    """Return what `index_entries` does.

    Args:
        index: the content of the file.
        unmerged: is given the paths that are not merged.

    Raises:
        ValueError: the index is not understood, or is only a part of what git reads: a split one may list nothing.
    """
    try:
        return _entries(index, [] if unmerged is None else unmerged)
    except (struct.error, IndexError) as error:
        raise ValueError(str(error)) from None


def all_names(index: bytes) -> list[bytes] | None:
    """Return the path of everything in the index; None where it is not understood, or something in it is not merged."""
    entries = index_entries(index)
    complete = len(index) >= 12 and len(entries) == int.from_bytes(index[8:12], "big")
    return list(entries) if complete else None


def index_meaning(index: bytes) -> str:
    """Return a digest of what an index says besides when git looked at the files, and what else it only remembers; ""
    where it is not understood, or something in it is not merged.
    """
    import hashlib

    unmerged: list[bytes] = []
    try:
        entries = understood(index, unmerged)
    except ValueError:
        return ""
    if unmerged:
        return ""
    told = b"".join(b"%o %b %b\0" % (each.mode, each.blob, path) for path, each in sorted(entries.items()))
    return hashlib.sha256(told).hexdigest()


def index_names(index: bytes) -> list[str]:
    """Return the names of the contents that an index has, in hexadecimal digits; not those of submodules."""
    return [each.blob.hex() for each in index_entries(index).values() if each.mode != _SUBMODULE]


def _entries(data: bytes, unmerged: list[bytes]) -> dict[bytes, Tracked]:
    import hashlib

    magic, version, count = struct.unpack_from(">4sII", data)
    checked = data[-20:] in (bytes(20), hashlib.sha1(data[:-20]).digest())
    if magic != b"DIRC" or version not in (2, 3, 4) or not checked:
        raise ValueError("not an index that is understood")
    out: dict[bytes, Tracked] = {}
    at, previous = 12, b""
    for _ in range(count):
        changed, changed_ns, time, time_ns, mode, size, blob, flags = _ENTRY.unpack_from(data, at)
        name = at + (64 if version > 2 and flags & 0x4000 else 62)
        if version == 4:
            kept, name = _varint(data, name)
            end = data.index(b"\0", name)
            if kept > len(previous):
                raise ValueError("more than there is")
            previous = previous[: len(previous) - kept] + data[name:end]
            after = end + 1
        else:
            end = data.index(b"\0", name)
            previous = data[name:end]
            after = at + ((end - at) // 8 + 1) * 8
        # Names of the length that no file can have would add up: each of version 4 goes on from the one before.
        if len(previous) > _LONGEST_PATH or not _NO_PARTS.isdisjoint(previous.split(b"/")):
            raise ValueError("no path of a file")
        if flags & 0x3000:
            unmerged.append(previous)
        else:
            times = changed * 1_000_000_000 + changed_ns, time * 1_000_000_000 + time_ns
            out[previous] = Tracked(mode, blob, size, time, times)
        at = after
    while at < len(data) - 20:
        signature, size = struct.unpack_from(">4sI", data, at)
        if not signature[:1].isupper():
            raise ValueError("an extension without which it means something else")
        at += 8 + size
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
