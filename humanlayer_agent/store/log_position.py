"""The position of a process in the log of a store: what it saw last must still be there.

A log that was set back agrees with itself, whoever looks for the first time. Who has seen more of it notices.
"""

import json
import os
import re
import weakref
from pathlib import Path

from humanlayer_agent.audit.anchor import (
    EVERY_MS,
    Anchor,
    Loss,
    anchor_at,
    anchor_file,
    anchor_of,
    is_anchored,
    read_anchor,
    write_anchor,
    write_place,
)
from humanlayer_agent.audit.heads import Head, is_signed
from humanlayer_agent.errors import StoreTampered
from humanlayer_agent.store.transactions import Connection

_IDENTITY = re.compile(r"[0-9a-f]{32}", re.ASCII)
_NEWEST = "SELECT seq, hash FROM audit_event ORDER BY seq DESC LIMIT 1"


class LogLost(StoreTampered):
    """Raised where an anchor names events that the log has no more."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(str(loss), loss.first)
        self.loss = loss


class LogPosition:
    """The newest event that this process has seen, and the anchor that it shares with others.

    Args:
        path: of the store, or where else it is (an address).
    """

    def __init__(self, path: Path | str) -> None:
        self.seen: tuple[int, str] | None = None
        self.anchor: Anchor | None = None
        self.store = ""  # the identity of the log, once it is compared with its anchor
        self._path = path
        self._file: Path | None = None
        self._state: tuple[int, ...] | None = None  # of the file, when it was read
        self._compared = True
        self._placed = False  # it is known which store is at this path
        self._tried = 0

    def follow_anchor(self, store: str) -> None:
        """Compare the log with the anchor of `store` from here on, which other processes move on as well.

        What stands in the log as its identity may be anybody's text: there is no anchor for what we don't write.

        Raises:
            LogLost: another store was at this path.
        """
        if _IDENTITY.fullmatch(store) and is_anchored(self._path):
            self.store, self._file = store, anchor_file(store)
            other = anchor_of(self._path)
            self._placed = other is not None and other.head.store == store
            if other is not None and not self._placed and is_signed(other.head):
                raise LogLost(Loss(other, None))

    def look(self) -> None:
        """Read the anchor, if somebody has written it since. It has to be done before a transaction begins."""
        if self._file is None or (state := _state(str(self._file))) == self._state:
            return
        self._state = state
        if found := read_anchor(self._file):
            self.anchor, self._compared = found, self.anchor is not None and found.head == self.anchor.head

    @property
    def is_settled(self) -> bool:
        """Tell whether nothing has to be compared but what was seen last."""
        return self._compared and self.seen is not None

    def check(self, connection: Connection) -> None:
        """Make sure, in a transaction, that the log still holds what was seen, and what the anchor says.

        Raises:
            StoreTampered: it does not.
        """
        newest = self.newest(connection)
        if self.seen is not None and not _holds(connection, newest, self.seen):
            raise StoreTampered(
                f"the log of the store {self._path} was set back while it was in use: event {self.seen[0]} is gone. "
                "End what uses it; hla audit verify says more",
                min(newest[0] + 1 if newest else 0, self.seen[0]),
            )
        if not self._compared and self.anchor is not None:
            if loss := loss_of(connection, self.anchor):
                raise LogLost(loss)
            if newest is None or self.anchor.head.seq > newest[0]:
                self.anchor = None  # nobody has signed it: it must not keep a real one from being written
            self._compared = True
        self.seen = newest

    def newest(self, connection: Connection) -> tuple[int, str] | None:
        row = connection.execute(_NEWEST).fetchone()
        return (row[0], row[1]) if row else None

    def is_behind(self) -> bool:
        """Tell whether the anchor does not reach as far as this process has seen. (A head signs what is before it.)

        What a human goes on without is not claimed any more by those who have seen it.
        """
        self.look()
        known = max(self.anchor.head.seq + 1, self.anchor.accepted) if self.anchor else -1
        return self._file is not None and self.seen is not None and self.seen[0] > known

    def due(self, now: int) -> bool:
        """Tell whether to write the anchor anew (`now` in ms)."""
        last = max(self._tried, self.anchor.head.time if self.anchor else 0)
        return self._file is not None and not 0 <= now - last < EVERY_MS

    def move_anchor(self, head: Head) -> None:
        """Write the anchor, where the one that is there does not reach further.

        Raises:
            OSError: it can't be written. Everything works without it.
        """
        self._tried = head.time
        self.look()
        if self._file is None or (self.anchor is not None and self.anchor.head.seq > head.seq):
            return
        self.set_anchor(head)

    def set_anchor(self, head: Head, accepted: int = -1) -> None:
        """The same, wherever the one that is there reaches to.

        Args:
            accepted: the newest event that a human goes on without; whoever has seen it does not claim it any more.

        Raises:
            OSError: it can't be written.
        """
        assert self._file is not None
        anchor = anchor_at(head, self._path, max(accepted, self.anchor.accepted if self.anchor else -1))
        write_anchor(anchor)
        if not self._placed:
            write_place(self._path, head.store)
            self._placed = True
        self.anchor, self._compared, self._state = anchor, True, _state(str(self._file))


def loss_of(connection: Connection, anchor: Anchor) -> Loss | None:
    """What an anchor names and the log has no more; None where nothing is missing, or nobody has signed the anchor."""
    newest = connection.execute("SELECT seq, hash, body FROM audit_event ORDER BY seq DESC LIMIT 1").fetchone()
    known = anchor.head.seq, anchor.head.hash
    if _holds(connection, (newest[0], newest[1]) if newest else None, known) or not is_signed(anchor.head):
        return None
    if newest is None or _identity(connection) not in ("", anchor.head.store):
        return Loss(anchor, None)
    try:
        return Loss(anchor, newest[0], int(json.loads(newest[2])["at"]))
    except (ValueError, KeyError, TypeError):  # what stands there is anybody's
        return Loss(anchor, newest[0])


def _identity(connection: Connection) -> str:
    """Return the identity that the log's first event gives it; "" where none can be read."""
    row = connection.execute("SELECT body FROM audit_event WHERE seq = 0").fetchone()
    try:
        return str(json.loads(row[0])["store"])
    except (ValueError, KeyError, TypeError):
        return ""


def _holds(connection: Connection, newest: tuple[int, str] | None, known: tuple[int, str]) -> bool:
    if newest is None or newest[0] < known[0]:
        return False
    if newest[0] == known[0]:
        return newest == known
    row = connection.execute("SELECT hash FROM audit_event WHERE seq = ?", (known[0],)).fetchone()
    return row is not None and row[0] == known[1]


def _state(file: str) -> tuple[int, ...] | None:
    try:
        about = os.stat(file)
    except OSError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


# ---- the write-ahead log ------------------------------------------------------------------------------

_HEADER, _FRAME = 32, 24
_SALTS = slice(16, 24)
_FRAMES_KEPT, _FRAMES_READ = 4, 8


class WalTail:
    """The end of what this process has committed, as it stands in the write-ahead log's file.

    Where somebody overwrites it, running processes still work with what they hold in memory; whoever opens the store
    next finds everything from there on gone. (https://www.sqlite.org/fileformat2.html#the_write_ahead_log)

    Args:
        descriptor: of the file. No lock of SQLite's is on that one.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.close = weakref.finalize(self, os.close, descriptor)
        self._salts = b""  # other ones: SQLite has begun the file anew
        self._end, self._start = _HEADER, 0
        self._kept = b""

    def begins(self) -> bytes:
        """The head of the file."""
        return os.pread(self.descriptor, _HEADER, 0)

    def is_there(self) -> bool:
        """Tell whether the file still holds it, as long as SQLite has not begun it anew."""
        if not self._kept or self.begins()[_SALTS] != self._salts:
            return True
        return os.pread(self.descriptor, len(self._kept), self._start) == self._kept

    def keep(self, header: bytes, hash_: str) -> None:
        """Remember the end of the transaction that has just been committed, which has written an event of this hash.

        Args:
            header: what the file begins with now.
        """
        if header[_SALTS] != self._salts:
            self._salts, self._end = header[_SALTS], _HEADER
        self._kept = b""
        mark, size, position = hash_.encode(), _FRAME + int.from_bytes(header[8:12], "big"), self._end
        while len(block := os.pread(self.descriptor, _FRAMES_READ * size, position)) >= size:
            if (found := block.find(mark)) < 0:
                position += len(block) // size * size
                continue
            for start in range(found - found % size, len(block) - size + 1, size):
                if block[start + 8 : start + 16] != self._salts:  # beyond what was written stands what was there before
                    return
                if any(block[start + 4 : start + 8]):  # the last one of a transaction
                    self._start = position + max(0, start - (_FRAMES_KEPT - 1) * size)
                    self._end = position + start + size
                    self._kept = block[self._start - position : self._end - position]
                    return
            position += found - found % size or len(block) // size * size
