"""People who are away, and who have left, in an SQL store: both are events of its log, and stand in no other place.

An event proves nothing by itself: a statement counts if it is signed for this log, and nobody has ended it. The log is
heard for the time as well, should a clock be set back.

That somebody has left takes no proof, because nobody can do more by it. So it can't be taken back either: whoever could
do that could bring back what was ended.
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from humanlayer_agent.approvals.absences import (
    Absence,
    is_signed,
    newest_of_each,
    statement,
    who_may_leave,
    why_not_counted,
    why_not_to,
    why_not_until,
)
from humanlayer_agent.approvals.authority import GLASS, Authority, Removal
from humanlayer_agent.approvals.model import Approver, Refused
from humanlayer_agent.approvals.store_interface import Record, Removed
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.store.grants import take_back
from humanlayer_agent.store.rows import said_approver, storable
from humanlayer_agent.store.statements import Ledger, Log
from humanlayer_agent.store.transactions import Row, Transactions

_SAID = f"SELECT seq, hash, body FROM audit_event WHERE type = '{events.ABSENCE_SAID.name}' ORDER BY seq"
_ENDED = f"SELECT seq, hash, body FROM audit_event WHERE type = '{events.ABSENCE_ENDED.name}' ORDER BY seq"
_LATER = "SELECT 1 FROM audit_event WHERE json_extract(body, '$.at') >= ? AND seq > ? LIMIT 1"
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


class SQLAbsences:
    """The `Absences` of one store.

    Args:
        database: its file. transaction: begins one of its write transactions.
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
        self._over: set[str] = set()  # ids of what this process has seen ended: whatever becomes of the log

    def standing(self, authority: Authority) -> tuple[Absence, ...]:
        return newest_of_each([absence for absence, why in self.said(authority) if not why])

    def said(self, authority: Authority) -> list[tuple[Absence, str]]:
        with self._database.read() as connection:
            log = Log(connection, self._clock())
            if not (found := [each for each in self._seen_open(log) if each[1].id not in self._over]):
                return []
            store, authority = _store(log), log.counting(authority)
            return [(absence, _why_not(log, seq, absence, authority, store)) for seq, absence in found]

    def _seen_open(self, log: Log) -> list[tuple[int, Absence]]:
        said, ended = _told(log)
        self._over |= ended
        return said

    def say(self, approver: Approver, to: str, until: int, authority: Authority, signer: Signer) -> Absence | Refused:
        person = who_may_leave(authority, approver)
        if isinstance(person, Refused):
            return person
        if why := why_not_to(authority, person.id, to):
            return Refused(why)
        with self._transaction() as ledger:
            authority = ledger.counting(authority)
            if not authority.trusts(signer.fingerprint):
                return Refused("the key of this process is not one of the signers")
            if isinstance(who_may_leave(authority, approver), Refused) or why_not_to(authority, person.id, to):
                return Refused(f"{person.id} or {to} has left")
            if why := why_not_until(ledger.now, until):
                return Refused(why)
            end_absences(ledger, person.id, approver.principal)
            unsigned = Absence(
                id=secrets.token_hex(16),
                store=_store(ledger),
                at=ledger.now,
                until=until,
                to=to,
                approver=approver,
                person=person.id,
                signer=signer.fingerprint,
            )
            absence = replace(unsigned, signature=signer.sign_text(statement(unsigned)))
            ledger.append(
                events.ABSENCE_SAID,
                absence=absence.id,
                store=absence.store,
                person=absence.person,
                to=to,
                until=until,
                approver=said_approver(approver),
                signer=absence.signer,
                absence_signature=absence.signature,
            )
        return absence

    def end(self, person: str, by: str) -> int:
        with self._transaction() as ledger:
            return len(end_absences(ledger, person, by))


def _why_not(log: Log, seq: int, absence: Absence, authority: Authority, store: str) -> str:
    if why := why_not_counted(absence, authority, store, log.now):
        return why
    try:
        signed = is_signed(absence)
    except Exception:  # whatever stands in that event
        signed = False
    if not signed:
        return "its signature is not one"
    if log.rows(_LATER, absence.until, seq):
        return "its time is over, as the log says: the clock was set back"
    return ""


def end_absences(ledger: Ledger, person: str, by: str) -> list[str]:
    """End what somebody has said of being away; returns the ids of what counts no more."""
    ids = [absence.id for _, absence in _told(ledger)[0] if absence.person == person]
    if ids:
        ledger.append(events.ABSENCE_ENDED, person=person, absences=ids, by=storable(by))
    return ids


def _told(log: Log) -> tuple[list[tuple[int, Absence]], set[str]]:
    """Return the statements that nobody has ended, each with the number of its event (the first of its id), and the ids
    of the others.
    """
    said: dict[str, tuple[int, Absence]] = {}
    for row in log.rows(_SAID):
        if (absence := _absence(row)) is not None:
            said.setdefault(absence.id, (row["seq"], absence))
    if not said:
        return [], set()
    ended = {each for row in log.rows(_ENDED) for each in _ended(row, said)}
    return [each for name, each in said.items() if name not in ended], ended


def _ended(row: Row, said: dict[str, tuple[int, Absence]]) -> list[str]:
    """Return the ids of what an event ends: all that was said before it, where it can't be read."""
    try:
        ids = Entry(row["seq"], row["hash"], row["body"].encode()).event["absences"]
        return [str(each) for each in ids]
    except _UNREADABLE:
        return [each for each, (seq, _) in said.items() if seq < row["seq"]]


def _absence(row: Row) -> Absence | None:
    try:
        event = Entry(row["seq"], row["hash"], row["body"].encode()).event
        who = event["approver"]
        absence = Absence(
            id=event["absence"],
            store=event["store"],
            at=event["at"],
            until=event["until"],
            to=event["to"],
            approver=Approver(who["principal"], who["channel"], who["assurance"]),
            person=event["person"],
            signer=event["signer"],
            signature=event["absence_signature"],
        )
    except _UNREADABLE:
        return None
    texts = (absence.id, absence.store, absence.to, absence.person, absence.signer, absence.signature)
    who_texts = (absence.approver.principal, absence.approver.channel, absence.approver.assurance)
    plain = all(type(text) is str for text in (*texts, *who_texts))
    return absence if plain and type(absence.at) is int and type(absence.until) is int else None


def _store(log: Log) -> str:
    """Return the identity of the log."""
    opened = log.first()
    return str(opened["store"]) if opened else ""


LAST = 5
"""So many of somebody's answers are named."""

_GIVEN = (
    "SELECT id, uses, max_uses, until, revoked FROM given_grant WHERE id IN "
    "(SELECT request_id FROM vote WHERE person = ? AND answer = 'approve') ORDER BY given, id"
)
_UNUSED = "id IN (SELECT request_id FROM vote WHERE person = ? AND answer = 'approve')"
_AT_TERMINAL = f"person = ? AND channel IN ('command-line', '{GLASS}')"
_OWN_KEYS = (
    f"SELECT signer FROM vote WHERE {_AT_TERMINAL} UNION "
    f"SELECT signer FROM resumption WHERE {_AT_TERMINAL} ORDER BY signer"
)
"""Keys that answers, or words by which a stop is lifted, were signed with at a terminal of theirs."""
_LEFT = "somebody who approved it has left"


class SQLPeople:
    """The `People` of one store.

    Args:
        database: where it is. transaction: begins one of its write transactions.
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

    def left(self) -> Sequence[Removal]:
        with self._database.read() as connection:
            return Log(connection, self._clock()).left()

    def record_of(self, person: str) -> Record:
        with self._database.read() as connection:
            log = Log(connection, self._clock())
            counted = log.rows(
                "SELECT answer, count(*) AS times FROM vote WHERE person = ? GROUP BY answer ORDER BY answer", person
            )
            newest = log.rows(
                "SELECT at, answer, request_id FROM vote WHERE person = ? ORDER BY at DESC, rowid DESC LIMIT ?",
                *(person, LAST),
            )
            grants = log.rows(_GIVEN, person)
            keys = log.rows(_OWN_KEYS, person, person)
        return Record(
            {row["answer"]: row["times"] for row in counted},
            tuple((row["at"], row["answer"], row["request_id"]) for row in newest),
            {row["id"]: row["uses"] for row in grants},
            tuple(row["id"] for row in grants if _stands(row, log.now)),
            tuple(row["signer"] for row in keys),
        )

    def principals(self, person: str) -> list[str]:
        """Return the principals under whom somebody has answered."""
        with self._database.read() as connection:
            found = "SELECT DISTINCT principal FROM vote WHERE person = ? ORDER BY principal"
            return [row["principal"] for row in connection.execute(found, (person,))]

    def remove(self, person: str, identities: Sequence[str], keys: Sequence[str], by: str, reason: str = "") -> Removed:
        with self._transaction() as ledger:
            grants = [row["id"] for row in ledger.rows(_GIVEN, person) if _stands(row, ledger.now)]
            for each in grants:
                take_back(ledger, each, by, f"{person} has left")
            lapsed = ledger.unused_approvals(_UNUSED, person)
            for row in lapsed:
                ledger.void_permits("request_id = ?", row["id"])
                ledger.spoil(row, "lapsed", _LEFT)
            absences = end_absences(ledger, person, by)
            ids = [row["id"] for row in lapsed]
            ledger.append(
                events.PERSON_REMOVED,
                person=storable(person),
                identities=[storable(each) for each in identities],
                keys=list(keys),
                by=storable(by),
                reason=storable(reason),
                grants=grants,
                lapsed=ids,
            )
        return Removed(tuple(grants), tuple(ids), tuple(absences))


def _stands(row: Row, now: int) -> bool:
    return row["revoked"] is None and row["until"] > now and row["uses"] < row["max_uses"]
