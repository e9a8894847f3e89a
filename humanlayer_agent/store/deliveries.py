"""The `Surfaces` of an SQL store."""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from humanlayer_agent.approvals.delivery import Delivery, Lease, Presentation, Waiting
from humanlayer_agent.audit import events
from humanlayer_agent.audit.events import EventType
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.errors import StoreError
from humanlayer_agent.processes import identity
from humanlayer_agent.store import heartbeats
from humanlayer_agent.store.rows import storable
from humanlayer_agent.store.statements import Ledger
from humanlayer_agent.store.transactions import Connection, Row, Transactions

ABANDONED = (
    "(request.state IN ('pending', 'withdrawn') AND EXISTS (SELECT 1 FROM run WHERE run.id = request.run_id "
    "AND run.state = 'lost' AND NOT request.kept AND (request.decided IS NULL OR request.decided >= run.ended)))"
)
"""A request whose process is gone, as `reconcile` has found out: it is never said of one that may be alive, nor of one
that was withdrawn before, nor where a later run comes for the answer.
"""

_MARK = (
    "request.state || ' ' || (SELECT count(*) FROM vote WHERE vote.request_id = request.id) || ' ' || escalated "
    f"|| CASE WHEN {ABANDONED} THEN ' abandoned' ELSE '' END"
)
"""The same as `channels.contract.Outcome.mark`."""

_PRESENTATIONS = (
    f"SELECT presentation.*, {_MARK} AS mark FROM presentation JOIN request ON request.id = request_id WHERE "
)
_SPENT = "EXISTS (SELECT 1 FROM permit WHERE permit.request_id = presentation.request_id AND permit.state = 'consumed')"
"""An approval that was used can't become anything else any more."""


class SQLSurfaces:
    """Leases, deliveries and presentations in the tables of migration 4.

    Args:
        database: of the store. clock: the time in ms.
    """

    def __init__(self, database: Transactions, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock

    @contextmanager
    def _transaction(self) -> Iterator[tuple[Ledger, Connection]]:
        with self._database.write() as connection:
            yield Ledger(connection, self._clock()), connection

    # Leases

    def take_lease(self, channel: str, holder: str, ttl_ms: int) -> bool:
        with self._transaction() as (ledger, db):
            found = ledger.rows("SELECT * FROM lease WHERE channel = ?", channel)
            former = found[0] if found else None
            beat = (*heartbeats.clock(db), ttl_ms)
            if former is not None and former["holder"] == holder:
                db.execute("UPDATE lease SET clock = ?, beat = ?, ttl = ? WHERE channel = ?", (*beat, channel))
                _close_spent(db, channel)
                return True
            if former is not None and heartbeats.holds(db, former):
                return False
            me = identity.identity()
            db.execute(
                "INSERT INTO lease (channel, holder, process, taken, clock, beat, ttl) VALUES (?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (channel) DO UPDATE SET holder = excluded.holder, process = excluded.process, "
                "taken = excluded.taken, clock = excluded.clock, beat = excluded.beat, ttl = excluded.ttl",
                (channel, holder, me, ledger.now, *beat),
            )
            before = former["process"] if former else None
            ledger.append(events.LEASE_TAKEN, channel=channel, process=me, former=before)
            return True

    def release_lease(self, channel: str, holder: str) -> None:
        with self._transaction() as (_, db):
            db.execute("DELETE FROM lease WHERE channel = ? AND holder = ?", (channel, holder))

    def lease(self, channel: str) -> Lease | None:
        with self._database.read() as db:
            row = db.execute("SELECT * FROM lease WHERE channel = ?", (channel,)).fetchone()
            if row is None or not heartbeats.holds(db, row, note=False):
                return None
        return Lease(row["channel"], row["holder"], row["process"], row["taken"])

    # Deliveries

    def waiting(self) -> list[Waiting]:
        with self._database.read() as db:
            rows = db.execute(
                "SELECT id, created, expires, escalated FROM request WHERE state = 'pending' ORDER BY created, rowid"
            )
            return [Waiting(**dict(row)) for row in rows]

    def deliveries(self, request_id: str | None = None) -> list[Delivery]:
        with self._database.read() as db:
            rows = db.execute(
                "SELECT * FROM delivery WHERE request_id = ? ORDER BY step"
                if request_id is not None
                else "SELECT delivery.* FROM request CROSS JOIN delivery ON request_id = request.id "  # in this order
                "WHERE request.state = 'pending' ORDER BY request_id, step",
                () if request_id is None else (request_id,),
            )
            return [Delivery(**dict(row)) for row in rows]

    def unfinished(self, channel: str) -> list[Delivery]:
        with self._database.read() as db:
            rows = db.execute(
                "SELECT delivery.* FROM delivery JOIN request ON request.id = request_id "
                "WHERE channel = ? AND delivery.state = 'sending' AND request.state <> 'pending'",
                (channel,),
            )
            return [Delivery(**dict(row)) for row in rows]

    def begin_delivery(self, request_id: str, step: int, channel: str) -> Delivery | None:
        with self._transaction() as (ledger, db):
            if not ledger.rows("SELECT 1 FROM request WHERE id = ? AND state = 'pending'", request_id):
                return None
            changed = db.execute(
                "INSERT INTO delivery (request_id, step, channel, at) VALUES (?1, ?2, ?3, ?4) "
                "ON CONFLICT (request_id, step) DO UPDATE SET attempts = delivery.attempts + 1, at = ?4 "
                "WHERE delivery.state = 'sending' AND delivery.channel = ?3",
                (request_id, step, channel, ledger.now),
            )
            if not changed.rowcount:
                return None
            return Delivery(**dict(self._delivery(ledger, request_id, step)))

    def delivered(
        self, request_id: str, step: int, channel: str, place: Mapping[str, Any], digest: str, *, complete: bool
    ) -> None:
        text = canonical(dict(place)).decode()
        with self._transaction() as (ledger, db):
            db.execute(
                "UPDATE delivery SET state = 'delivered', why = '', at = ? "
                "WHERE request_id = ? AND step = ? AND channel = ? AND state = 'sending'",
                (ledger.now, request_id, step, channel),
            )
            where = (request_id, channel, text)
            if ledger.rows("SELECT 1 FROM presentation WHERE request_id = ? AND channel = ? AND place = ?", *where):
                return
            db.execute(
                "INSERT INTO presentation (id, request_id, channel, step, place, presented_digest, complete, at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (secrets.token_hex(16), request_id, channel, step, text, digest, int(complete), ledger.now),
            )
            self._say(
                ledger, events.PRESENTATION_DELIVERED, request_id, channel, step, place=text, presented_digest=digest,
                complete=complete,
            )  # fmt: skip

    def undelivered(self, request_id: str, step: int, channel: str, why: str, *, retry_at: int | None = None) -> None:
        why = storable(why)
        with self._transaction() as (ledger, db):
            if not ledger.rows("SELECT 1 FROM delivery WHERE request_id = ? AND step = ?", request_id, step):
                if not ledger.rows("SELECT 1 FROM request WHERE id = ? AND state = 'pending'", request_id):
                    return
                db.execute(
                    "INSERT INTO delivery (request_id, step, channel, at) VALUES (?, ?, ?, ?)",
                    (request_id, step, channel, ledger.now),
                )
            state = "failed" if retry_at is None else "sending"
            changed = db.execute(
                "UPDATE delivery SET state = ?, why = ?, retry_at = ?, at = ? "
                "WHERE request_id = ? AND step = ? AND channel = ? AND state IN ('sending', ?)",
                (
                    state,
                    why,
                    retry_at or 0,
                    ledger.now,
                    request_id,
                    step,
                    channel,
                    "delivered" if retry_at is None else "",
                ),
            )
            if changed.rowcount:
                again = retry_at is not None
                self._say(ledger, events.PRESENTATION_FAILED, request_id, channel, step, why=why, again=again)

    def _delivery(self, ledger: Ledger, request_id: str, step: int) -> Row:
        (row,) = ledger.rows("SELECT * FROM delivery WHERE request_id = ? AND step = ?", request_id, step)
        return row

    # Presentations

    def presentations(self, channel: str | None = None, *, request_id: str | None = None) -> list[Presentation]:
        given = {"presentation.channel": channel, "request_id": request_id}
        terms = {name: value for name, value in given.items() if value is not None}
        return self._presentations(" AND ".join(("TRUE", *(f"{name} = ?" for name in terms))), *terms.values())

    def presented_at(self, channel: str, key: str, value: str) -> list[Presentation]:
        path = '$."' + key.replace('"', "") + '"'
        return self._presentations("presentation.channel = ? AND json_extract(place, ?) = ?", channel, path, value)

    def open_presentations(self, channel: str) -> list[Presentation]:
        return self._presentations("presentation.channel = ? AND open = 1", channel)

    def settled(self, presentation_id: str, mark: str) -> None:
        over = mark.partition(" ")[0] not in ("pending", "approved")
        with self._transaction() as (ledger, db):
            row = self._presentation(ledger, presentation_id)
            db.execute("UPDATE presentation SET shown = ?, open = ? WHERE id = ?", (mark, int(not over), row["id"]))
            self._say(ledger, events.PRESENTATION_SETTLED, *_where(row), place=row["place"], shown=mark)

    def reminded(self, presentation_id: str, level: int) -> None:
        with self._transaction() as (ledger, db):
            row = self._presentation(ledger, presentation_id)
            if row["reminded"] < level:
                db.execute("UPDATE presentation SET reminded = ? WHERE id = ?", (level, row["id"]))
                self._say(ledger, events.PRESENTATION_REMINDED, *_where(row), place=row["place"], level=level)

    def unsettled(self, presentation_id: str, why: str) -> None:
        with self._transaction() as (ledger, db):
            row = self._presentation(ledger, presentation_id)
            db.execute("UPDATE presentation SET open = 0 WHERE id = ?", (row["id"],))
            self._say(
                ledger, events.PRESENTATION_FAILED, *_where(row), place=row["place"], why=storable(why), again=False
            )

    def _presentation(self, ledger: Ledger, presentation_id: str) -> Row:
        found = ledger.rows("SELECT * FROM presentation WHERE id = ?", presentation_id)
        if not found:
            raise StoreError(f"there is no presentation {presentation_id}")
        return found[0]

    def _presentations(self, condition: str, *values: Any) -> list[Presentation]:
        with self._database.read() as db:
            rows = db.execute(f"{_PRESENTATIONS} {condition} ORDER BY presentation.at, presentation.rowid", values)
            return [_read(row) for row in rows.fetchall()]

    def _say(self, ledger: Ledger, kind: EventType, request_id: str, channel: str, step: int, **fields: Any) -> None:
        (row,) = ledger.rows("SELECT run_id, digest FROM request WHERE id = ?", request_id)
        ledger.append(
            kind, run=row["run_id"], request=request_id, digest=row["digest"], channel=channel, step=step, **fields
        )


def _where(row: Row) -> tuple[str, str, int]:
    return row["request_id"], row["channel"], row["step"]


def _close_spent(db: Connection, channel: str) -> None:
    """Close the places that show an approval that was used: they need nobody's attention any more."""
    db.execute(
        f"UPDATE presentation SET open = 0 WHERE channel = ? AND open = 1 AND shown LIKE 'approved %' AND {_SPENT}",
        (channel,),
    )


def _read(row: Row) -> Presentation:
    return Presentation(
        id=row["id"],
        request_id=row["request_id"],
        channel=row["channel"],
        step=row["step"],
        place=json.loads(row["place"]),
        presented_digest=row["presented_digest"],
        complete=bool(row["complete"]),
        at=row["at"],
        shown=row["shown"],
        mark=row["mark"],
        reminded=row["reminded"],
    )
