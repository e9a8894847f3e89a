"""Deletes what a store need not keep: full commands, requests, votes and permits that are settled, old, and exported.

What a legal hold keeps stays. Holds are events of the log, and stand in no other place.

The log keeps every event, with commands as they were redacted, so the chain stays whole and the report is the same.
What has to be gone is found again by the verifier (`settled`).
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

from humanlayer_agent.approvals.authority import GLASS, Authority
from humanlayer_agent.approvals.holds import Held, Hold, statement, why_not_counted
from humanlayer_agent.approvals.model import Approver, Refused
from humanlayer_agent.approvals.stop import who_may_resume
from humanlayer_agent.approvals.store_interface import Purged
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.audit.events import EventType
from humanlayer_agent.audit.heads import Head
from humanlayer_agent.errors import StoreError
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.store.retention_scope import FORM, HELD_FORM, Bounds, Settled
from humanlayer_agent.store.rows import said_approver, storable
from humanlayer_agent.store.rows_against_log import Agreement, held_in
from humanlayer_agent.store.sqlite import SQLStore, entry_of, read_verified
from humanlayer_agent.store.statements import Ledger, Log
from humanlayer_agent.store.transactions import Row


class Purge:
    """One look at a whole store, and what may go.

    Args:
        store: the store.
        before: a request is old whose last event was before this moment (ms).
        exported: the newest head in an export that was verified; what came after it stays.
        authority: says whose word lifts a hold (None: nobody's).

    Raises:
        StoreError: the store was tampered with, or the export is not of its log: then nothing may go.

    Example::

            purge = Purge(store, before=now_ms() - 90 * 86_400_000, exported=found.last_head)
            purge.would_go()
            purge.delete("os:1000:alice", sha256)
            purge.erase()
    """

    def __init__(self, store: SQLStore, *, before: int, exported: Head, authority: Authority | None = None) -> None:
        self._store = store
        self._told = Agreement()
        self._before, self._through, self._authority = before, exported.seq, authority
        found = read_verified(store.database, self._told, heads=[exported])
        if not found.intact:
            raise StoreError(f"nothing is deleted from a store that is not as its log says: {found.problem}")
        self._heard = found.last

    def would_go(self) -> Purged:
        """Return the numbers of rows that may go, as far as was heard."""
        return _counted(self._told.settled(self._bounds(self.holds())))

    def would_stay(self) -> Purged:
        """Return the numbers of rows that only a legal hold keeps."""
        without, would = _counted(self._told.settled(self._bounds([]))), self.would_go()
        return Purged(without.requests - would.requests, without.votes - would.votes, without.permits - would.permits)

    def holds(self) -> list[Hold]:
        """Return the holds that stand."""
        return self._store.holds.standing(self._authority)

    def _bounds(self, holds: Sequence[Hold]) -> Bounds:
        return Bounds(self._before, self._through, tuple(each.held for each in holds))

    def delete(self, by: str, sha256: str) -> Purged:
        """Delete it, in one transaction with its event. `erase` makes sure of the bytes.

        Args:
            by: the principal who does. sha256: of the export.

        Raises:
            StoreError: it can't be written; then nothing is deleted.
        """
        with self._store.purging() as ledger:
            newer = ledger.rows("SELECT seq, hash, body FROM audit_event WHERE seq > ? ORDER BY seq", self._heard)
            for entry in map(entry_of, newer):
                self._heard = entry.seq
                if not self._told.hear(entry.event):
                    break
            if self._told.strange:
                raise StoreError(
                    f"nothing is deleted from a store that is not as its log says: {self._told.strange[1]}"
                )
            holds = standing_in(ledger, self._authority)
            bounds = self._bounds(holds)
            gone = self._told.settled(bounds)
            _delete(ledger, gone, bounds)
            ledger.append(
                events.RETENTION_PURGED,
                form=HELD_FORM if holds else FORM,
                holds=list(dict.fromkeys(each.id for each in holds)) or None,
                by=by,
                before=bounds.before,
                through=bounds.through,
                requests=len(gone.requests),
                votes=len(gone.votes),
                permits=len(gone.permits),
                sha256=sha256,
            )
        return _counted(gone)

    def erase(self) -> bool:
        """Make what was deleted vanish from the bytes of the file too; False where another process is in the way."""
        try:
            return self._store.database.rewrite()
        except StoreError:
            return False


class SQLiteHolds:
    """The `Holds` of one store; `transaction` begins one of its write transactions."""

    def __init__(self, store: SQLStore, transaction: Callable[[], AbstractContextManager[Ledger]]) -> None:
        self._store = store
        self._transaction = transaction

    def standing(self, authority: Authority | None) -> list[Hold]:
        with self._store.database.read() as connection:
            return standing_in(Log(connection, self._store.now()), authority)

    def place(
        self, held: Held, approver: Approver, reason: str, authority: Authority, signer: Signer
    ) -> Hold | Refused:
        with self._transaction() as ledger:
            unsigned = Hold(secrets.token_hex(16), _store_of(ledger), ledger.now, held, approver, "", storable(reason))
            return _say(ledger, events.HOLD_PLACED, unsigned, authority, signer)

    def lift(
        self, hold_id: str, approver: Approver, reason: str, authority: Authority, signer: Signer
    ) -> Hold | Refused:
        with self._transaction() as ledger:
            found = [each for each in standing_in(ledger, authority) if each.id == hold_id]
            if not found:
                return Refused("no such hold stands")
            said = replace(found[0], store=_store_of(ledger), at=ledger.now, approver=approver, lifted=True, note="")
            said = replace(said, reason=storable(reason))
            return _say(ledger, events.HOLD_LIFTED, said, authority, signer)


def _say(ledger: Ledger, kind: EventType, hold: Hold, authority: Authority, signer: Signer) -> Hold | Refused:
    authority = ledger.counting(authority)
    person = who_may_resume(authority, hold.approver)
    if hold.approver.channel == GLASS:
        return Refused("nobody holds anything, or lifts a hold, outside of the route")
    if isinstance(person, Refused):
        return person
    if not authority.trusts(signer.fingerprint):
        return Refused("the key of this process is not one of the signers")
    hold = replace(hold, person=person.id, signer=signer.fingerprint)
    hold = replace(hold, signature=signer.sign_text(statement(hold)))
    ledger.append(
        kind,
        hold=hold.id,
        store=hold.store,
        run=hold.held.run or None,
        since=hold.held.since,
        until=hold.held.until,
        approver=said_approver(hold.approver),
        person=hold.person,
        reason=hold.reason,
        signer=hold.signer,
        hold_signature=hold.signature,
    )
    return hold


def standing_in(log: Log, authority: Authority | None) -> list[Hold]:
    """Return the holds that stand, in a transaction that goes on. A lifting counts if it is signed for this very hold;
    one whose event can't be read lifts nothing, and a hold whose event can't be read keeps everything.
    """
    placed = [_hold(row, lifted=False) for row in log.rows(f"{_TOLD}'{events.HOLD_PLACED.name}' ORDER BY seq")]
    if not placed:
        return []
    known, store = log.counting(authority) if authority else None, _store_of(log)
    notes: dict[str, list[str]] = {}
    for row in log.rows(f"{_TOLD}'{events.HOLD_LIFTED.name}' ORDER BY seq"):
        with suppress(*_UNREADABLE):
            lifting = _read(row, lifted=True)
            same = [each for each in placed if (each.id, each.held) == (lifting.id, lifting.held)]
            notes.setdefault(lifting.id, []).append(
                why_not_counted(lifting, known, store) if same else "it is not about this hold"
            )
    return [replace(each, note=[*notes.get(each.id, ()), ""][0]) for each in placed if all(notes.get(each.id, ["-"]))]


_TOLD = "SELECT seq, hash, body FROM audit_event WHERE type = "
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


def _hold(row: Row, *, lifted: bool) -> Hold:
    try:
        return _read(row, lifted=lifted)
    except _UNREADABLE:
        return Hold(f"event {row['seq']}", "", 0, Held(), Approver("", "", ""), "")


def _read(row: Row, *, lifted: bool) -> Hold:
    event = Entry(row["seq"], row["hash"], row["body"].encode()).event
    who = event["approver"]
    reason = event.get("reason", "")
    return Hold(
        str(event["hold"]),
        str(event["store"]),
        int(event["at"]),
        held_in(event),
        Approver(str(who["principal"]), str(who["channel"]), str(who["assurance"])),
        str(event["person"]),
        reason if isinstance(reason, str) else str(reason.get("display", "")),
        lifted,
        str(event["signer"]),
        str(event["hold_signature"]),
    )


def _store_of(log: Log) -> str:
    opened = log.first()
    return str(opened["store"]) if opened else ""


def _counted(gone: Settled) -> Purged:
    return Purged(len(gone.requests), len(gone.votes), len(gone.permits))


def _delete(ledger: Ledger, gone: Settled, bounds: Bounds) -> None:
    ledger.change('INSERT INTO purging ("only", before, through) VALUES (1, ?, ?)', bounds.before, bounds.through)
    for id_ in gone.permits:
        ledger.change("DELETE FROM execution WHERE permit_id = ?", id_)
        ledger.change("DELETE FROM grant_use WHERE permit_id = ?", id_)
        _exactly(ledger.change("DELETE FROM permit WHERE id = ?", id_), 1)
    for id_ in gone.requests:
        for table in ("presentation", "delivery", "permit"):  # a permit that was never used is not in the log
            ledger.change(f"DELETE FROM {table} WHERE request_id = ?", id_)
        ledger.change("DELETE FROM vote WHERE request_id = ?", id_)
        ledger.change("DELETE FROM grant_use WHERE grant_id = ?", id_)
        ledger.change("DELETE FROM given_grant WHERE id = ?", id_)
        _exactly(ledger.change("DELETE FROM request WHERE id = ?", id_), 1)
    ledger.change("DELETE FROM purging")


def _exactly(count: int, wanted: int) -> None:
    if count != wanted:
        raise StoreError("the store changed meanwhile: nothing is deleted")
