"""The audit log's part in one write transaction of the SQLite store: what is appended, and the heads that sign it."""

import os
import secrets
import sqlite3
from typing import Any

from humanlayer_agent import __version__
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import Entry, seal
from humanlayer_agent.audit.events import EventType
from humanlayer_agent.audit.heads import Head, KeyKind, Signs, head_in, signed
from humanlayer_agent.redaction import Redactor, redactor


class Log:
    """One open write transaction at one moment (`now`, ms). `known` is its `redactor`, where that is known already."""

    def __init__(self, connection: sqlite3.Connection, now: int, known: Redactor | None = None) -> None:
        self._db = connection
        self.now = now
        self.last: Entry | None = None  # what was appended last in this transaction
        self._redactor = known

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        return self._db.execute(query, values).fetchall()

    def change(self, statement: str, *values: Any) -> int:
        """Run a statement that changes rows; returns how many it has changed."""
        return self._db.execute(statement, values).rowcount

    def append(self, kind: EventType, **fields: Any) -> None:
        """Seal an event behind the newest, without the secrets in it.

        The head is read under the write lock, else two would follow the same.
        """
        written = self.redactor().fields(fields)
        entry = seal(self.head(), kind, at=self.now, pid=os.getpid(), fields=written)
        self._db.execute(
            "INSERT INTO audit_event (seq, hash, body) VALUES (?, ?, ?)", (entry.seq, entry.hash, entry.body.decode())
        )
        self.last = entry

    def head(self) -> Entry | None:
        row = self._db.execute("SELECT seq, hash FROM audit_event ORDER BY seq DESC LIMIT 1").fetchone()
        return Entry(row["seq"], row["hash"], b"") if row else None

    def open_log(self) -> None:
        """The first event of a store: it gives the log an identity of its own."""
        self.append(events.AUDIT_OPENED, store=secrets.token_hex(16), version=__version__)

    def redactor(self) -> Redactor:
        """What keeps secrets out of this log; it makes its key where there is none yet."""
        if self._redactor is not None:
            return self._redactor
        if (key := log_key(self._db)) is None:
            key = secrets.token_bytes(32)
            self._db.execute("INSERT INTO log_key (only, value) VALUES (1, ?)", (key,))
        self._redactor = redactor(key)
        return self._redactor

    def write_head(self, signer: Signs, key: KeyKind) -> Head:
        """Sign the newest event, and append that; the newest is never a head itself."""
        newest = self.newest("1")
        assert newest is not None
        if newest["type"] == events.AUDIT_HEAD.name and (known := head_in(newest)):
            return known
        opened, before = self._event("seq = 0"), self.newest("type = 'audit.head'")
        former = head_in(before) if before else None
        if former and key == former.key == "user" and former.signer != signer.fingerprint:
            self.append(events.KEY_ROTATED, signer=signer.fingerprint, former=former.signer)
        last = self.head()
        assert opened is not None
        assert last is not None
        head = signed(Head(opened["store"], last.seq, last.hash, last.seq + 1, self.now, key), signer)
        self.append(events.AUDIT_HEAD, **head.fields())
        return head

    def newest(self, condition: str) -> dict[str, Any] | None:
        """The newest event of which this holds. (`condition` is our own text.)"""
        return self._event(f"{condition} ORDER BY seq DESC")

    def _event(self, condition: str) -> dict[str, Any] | None:
        found = self.rows(f"SELECT seq, hash, body FROM audit_event WHERE {condition} LIMIT 1")
        return Entry(found[0]["seq"], found[0]["hash"], found[0]["body"].encode()).event if found else None


def log_key(connection: sqlite3.Connection) -> bytes | None:
    """The key that this store's log is redacted with; None where nothing was written with it yet."""
    row = connection.execute("SELECT value FROM log_key").fetchone()
    return bytes(row["value"]) if row else None
