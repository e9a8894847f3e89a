"""The stops of an SQL store: written with what they end, and read again before anything runs."""

import secrets
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from typing import Any

from humanlayer_agent.approvals.authority import GLASS, Authority, breaks_glass
from humanlayer_agent.approvals.model import Approver, Refused
from humanlayer_agent.approvals.stop import (
    STOPPED,
    Halt,
    Resumption,
    Running,
    is_signed,
    statement,
    who_may_resume,
    why_not_counted,
)
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.errors import StoreError, StoreTampered
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.processes import identity
from humanlayer_agent.store.rows import said_approver, storable
from humanlayer_agent.store.statements import Ledger, Log
from humanlayer_agent.store.transactions import Row, Transactions

_TOLD = f"SELECT seq, hash, body FROM audit_event WHERE type = '{events.SUPERVISION_STOPPED.name}'"
_LIFTED = (
    f"SELECT seq FROM audit_event WHERE type = '{events.SUPERVISION_RESUMED.name}' "
    "AND json_extract(body, '$.signature') = ? ORDER BY seq LIMIT 1"
)
"""By its signature, which nobody could know before: a name can be put into an event long before there is such a stop.

The type is not bound: as one index is for a certain type, SQLite would prepare the statement anew for each value."""


class SQLHalts:
    """The `Halts` of one store. What this process has seen once holds here, whatever becomes of the rows.

    Args:
        transaction: begins one of the store's write transactions.
        clock: the time in ms.
    """

    def __init__(
        self,
        database: Transactions,
        transaction: Callable[[], AbstractContextManager[Ledger]],
        clock: Callable[[], int],
    ) -> None:
        self._database = database
        self._transaction = transaction
        self._clock = clock
        self._seen: dict[str, Halt] = {}
        self._signed: set[Resumption] = set()  # their signatures were checked
        self._last: tuple[object, list[Halt]] | None = None  # what was read, by whose authority, and what came of it

    @property
    def has_seen_one(self) -> bool:
        """Tell whether this process has ever seen a stop: what became of it has to be asked then."""
        return bool(self._seen)

    def standing(self, authority: Authority | None) -> list[Halt]:
        with self._database.read() as connection:
            return self.standing_in(Log(connection, self._clock()), authority)

    def standing_in(self, log: Log, authority: Authority | None) -> list[Halt]:
        """The same, in a transaction that goes on.

        A stop is in its row and in its event, and either of them holds. A resumption is in its row, if it is signed.
        """
        told = log.rows(_TOLD)
        rows = log.rows("SELECT id, at, principal, reason FROM halt")
        if not (told or rows or self._seen):
            return []
        said = log.rows("SELECT * FROM resumption ORDER BY at")
        read = (authority, log.left(), [tuple(row) for row in (*told, *rows, *said)])
        if self._last is None or self._last[0] != read:
            self._seen |= {halt.id: halt for halt in (*map(_halt_in, told), *(Halt(*row) for row in rows))}
            self._last = (read, self._unlifted(log, said, authority))
        return list(self._last[1])

    def _unlifted(self, log: Log, said: Iterable[Row], authority: Authority | None) -> list[Halt]:
        lifting: dict[str, list[Resumption]] = {}
        for each in map(_resumption, said):
            lifting.setdefault(each.halt, []).append(each)
        found = []
        for halt in self._seen.values():
            notes = []
            glass = set[tuple[str, str]]()
            for each in lifting.get(halt.id, ()):
                note = self._why_not(each, _counted_then(log, each, authority))
                if not note and each.approver.channel == GLASS:
                    glass.add((each.person, each.signer))
                    note = (
                        "" if breaks_glass(glass) else "one of two has signed it, with a key of their own (break-glass)"
                    )
                notes.append(note)
            if all(notes):
                found.append(replace(halt, note=notes[-1] if notes else ""))
        return sorted(found, key=lambda halt: halt.at)

    def stop(self, by: str, reason: str = "") -> Halt:
        with self._transaction() as ledger:
            halt = Halt(secrets.token_hex(16), ledger.now, storable(by), storable(reason))
            values = (halt.id, halt.at, halt.by, halt.reason)
            ledger.change("INSERT INTO halt (id, at, principal, reason) VALUES (?, ?, ?, ?)", *values)
            ledger.append(events.SUPERVISION_STOPPED, halt=halt.id, by=halt.by, reason=halt.reason)
            _clear(ledger)
        self._read_back(halt)
        return halt

    def _read_back(self, halt: Halt) -> None:
        """Make sure that a stop stands, as whoever opens the store next finds it.

        Raises:
            StoreTampered: it does not.
        """
        with closing(self._database.again()) as fresh:
            if halt not in SQLHalts(fresh, self._transaction, self._clock).standing(None):
                raise StoreTampered(f"the stop was written into the store {fresh.place}, and does not stand there")

    def running(self) -> list[Running]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT run.id, run.agent, execution.process FROM execution "
                "JOIN permit ON permit.id = execution.permit_id JOIN run ON run.id = permit.run_id "
                "WHERE execution.state = 'started' ORDER BY execution.started"
            ).fetchall()
        return [each for each in map(_running, rows) if each is not None]

    def resume(
        self, halts: Sequence[Halt], approver: Approver, comment: str, authority: Authority, signer: Signer
    ) -> Refused | None:
        with self._transaction() as ledger:
            authority = ledger.counting(authority)
            person = who_may_resume(authority, approver)
            if isinstance(person, Refused):
                return person
            if not authority.trusts(signer.fingerprint):
                return Refused("the key of this process is not one of the signers")
            for halt in halts:
                said = Resumption(
                    id=secrets.token_hex(16),
                    halt=halt.id,
                    at=ledger.now,
                    approver=approver,
                    person=person.id,
                    comment=storable(comment),
                    signer=signer.fingerprint,
                )
                _record(ledger, replace(said, signature=signer.sign_text(statement(said))))
                if approver.channel == GLASS:
                    self._say_glass(ledger, said, authority)
        return None

    def _say_glass(self, ledger: Ledger, said: Resumption, authority: Authority) -> None:
        standing = {halt.id for halt in self.standing_in(ledger, authority)}
        ledger.append(
            events.GLASS_BROKEN,
            halt=said.halt,
            approver=said_approver(said.approver),
            person=said.person,
            signer=said.signer,
            reason=said.comment,
            done=said.halt not in standing,
        )

    def _why_not(self, resumption: Resumption, authority: Authority | None) -> str:
        """Return why a resumption lifts nothing; "" where it lifts its stop."""
        if why := why_not_counted(resumption, authority):
            return why
        if resumption not in self._signed:
            try:
                signed = is_signed(resumption)
            except Exception:  # whatever stands in that row
                signed = False
            if not signed:
                return "its signature is not one"
            self._signed.add(resumption)
        return ""


def _counted_then(log: Log, resumption: Resumption, authority: Authority | None) -> Authority | None:
    """Return the authority without those who had left when a stop was lifted: who leaves later stops nobody by that."""
    if authority is None or not log.left():
        return authority
    found = log.rows(_LIFTED, log.redactor().digest(resumption.signature))
    return log.counting(authority, before=found[0]["seq"] if found else None)


def _clear(ledger: Ledger) -> None:
    """End what waits, and what was approved and not used. A row that can't be ended keeps nobody from stopping."""
    ledger.change("SAVEPOINT clearing")
    try:
        for row in ledger.rows("SELECT * FROM request WHERE state = 'pending'"):
            ledger.settle(row, "withdrawn", why=STOPPED)
        ledger.void_permits("TRUE")
        for row in ledger.unused_approvals("TRUE"):
            ledger.spoil(row, "lapsed", STOPPED)
    except (StoreError, sqlite3.IntegrityError, ValueError, TypeError):
        ledger.change("ROLLBACK TO clearing")
    ledger.change("RELEASE clearing")


def _record(ledger: Ledger, said: Resumption) -> None:
    who = said.approver
    ledger.change(
        "INSERT INTO resumption (id, halt, at, principal, person, channel, assurance, comment, signer, signature) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *(said.id, said.halt, said.at, who.principal, said.person, who.channel, who.assurance),
        *(said.comment, said.signer, said.signature),
    )
    ledger.append(
        events.SUPERVISION_RESUMED,
        halt=said.halt,
        resumption=said.id,
        approver=said_approver(who),
        person=said.person,
        comment=said.comment,
        signer=said.signer,
        signature=said.signature,
    )


def _halt_in(row: Row) -> Halt:
    try:
        event: dict[str, Any] = Entry(row["seq"], row["hash"], row["body"].encode()).event
        said = (event["halt"], event["by"], event.get("reason", ""))
        if all(type(each) is str for each in said) and type(event["at"]) is int:
            return Halt(said[0], event["at"], said[1], said[2])
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    return Halt(f"event {row['seq']}", 0, "", STOPPED)


def _running(row: Row) -> Running | None:
    """The command that an execution is; None where its process is gone, or what stands there names none."""
    known = row["process"]
    pid = identity.pid_of(known) if isinstance(known, str) else None
    alive = identity.lives(known) if pid is not None else False
    return Running(row["id"], row["agent"], pid, here=alive is True) if pid is not None and alive is not False else None


def _resumption(row: Row) -> Resumption:
    return Resumption(
        id=row["id"],
        halt=row["halt"],
        at=row["at"],
        approver=Approver(row["principal"], row["channel"], row["assurance"]),
        person=row["person"],
        comment=row["comment"],
        signer=row["signer"],
        signature=row["signature"],
    )
