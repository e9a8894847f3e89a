"""The log as JSON lines: the same bytes, and the same verifier. An export can be cut short anywhere, and be resumed."""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.audit.verify import ANY
from humanlayer_agent.errors import ConfigError

_LINE = re.compile(rb'\{"e":(\{.*\}),"h":"([0-9a-f]{64})"\}\n', re.DOTALL)
_BLOCK = 1 << 16


class Torn(Exception):
    """The last line has no end. `seen` says how many lines before it were whole."""

    def __init__(self, seen: int) -> None:
        super().__init__(f"the last line, after {seen} whole ones, has no end")
        self.seen = seen


def read_entries(stream: Iterable[bytes]) -> Iterator[Entry]:
    """The entries of an export, as they stand there: for `verify`, which finds what is wrong with them.

    Raises:
        Torn: after the last whole line there is more.
    """
    for seen, line in enumerate(stream):
        if not line.endswith(b"\n"):
            raise Torn(seen)
        found = _LINE.fullmatch(line)
        yield Entry(ANY, found[2].decode(), found[1]) if found else Entry(ANY, "", line)


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of an export: its last whole line (None: it has none), its length up to there, and what lies beyond."""

    last: Entry | None
    length: int
    torn: bytes


def tail_of(file: BinaryIO) -> Tail:
    """The end of an export, read from behind.

    Raises:
        ConfigError: its last whole line is not one of an export.
    """
    end = file.seek(0, os.SEEK_END)
    found, position = b"", end
    while position > 0 and found.count(b"\n") < 2:
        position = max(0, position - _BLOCK)
        file.seek(position)
        found = file.read(end - position)
    whole, newline, torn = found.rpartition(b"\n")
    if not newline:
        return Tail(None, 0, found)
    line = whole.rpartition(b"\n")[2] + b"\n"
    entry = _LINE.fullmatch(line)
    try:
        seq = json.loads(entry[1])["seq"] if entry else None
    except (ValueError, KeyError, RecursionError):
        seq = None
    if entry is None or type(seq) is not int:
        raise ConfigError("its last line is not one of an export")
    return Tail(Entry(seq, entry[2].decode(), entry[1]), end - len(torn), torn)


class Exporter:
    """Appends to one file; each entry is durable before `write` returns.

    A line that was cut off is removed first: `recovered` says what that was, for an `audit.recovered` event.

    Args:
        path: the file; made with mode 0600 where it is not there.

    Raises:
        ConfigError: it can't be written, or is no export.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recovered: dict[str, int | str] | None = None
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with os.fdopen(self._descriptor, "rb", closefd=False) as file:
                tail = tail_of(file)
            if tail.torn:
                os.ftruncate(self._descriptor, tail.length)
                os.fsync(self._descriptor)
                digest = hashlib.sha256(tail.torn).hexdigest()
                self.recovered = {"offset": tail.length, "bytes": len(tail.torn), "sha256": digest}
        except BlockingIOError as error:
            raise ConfigError(f"{path}: another export is writing it") from error
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        self.last = tail.last
        self._length = tail.length

    def write(self, entries: Iterable[Entry]) -> None:
        """Append entries, whole lines only. `last` is the newest that is durable, wherever this is interrupted.

        Raises:
            OSError: the disk is full, or gone.
        """
        lines: list[bytes] = []
        size = 0
        newest: Entry | None = None
        for newest in entries:
            lines.append(newest.line)
            size += len(lines[-1])
            if size >= _BLOCK:
                self._append(b"".join(lines), newest)
                lines, size = [], 0
        if newest is not None and lines:
            self._append(b"".join(lines), newest)

    def close(self) -> None:
        os.close(self._descriptor)

    def _append(self, lines: bytes, newest: Entry) -> None:
        written = 0
        try:
            while written < len(lines):  # always at the same place: what was interrupted is written over
                written += os.pwrite(self._descriptor, lines[written:], self._length + written)
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self._length)
            raise
        self._length += written
        self.last = newest
