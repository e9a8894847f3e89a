"""The store in an SQL database, and the one in a SQLite file: the default, with nothing to set up.

Each method is one transaction (`Ledger`); the triggers of the schema refuse whatever its statements would get wrong.

What is read of a store: requests as they are shown, and the events of the log.
"""

import heapq
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from humanlayer_agent.action import INERT, Action
from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.holds import Holds
from humanlayer_agent.approvals.model import (
    Answer,
    ApprovalRequest,
    Execution,
    Outcome,
    Permit,
    Refused,
    RequestState,
    Run,
    Vote,
    VoteResult,
)
from humanlayer_agent.approvals.stop import STOPPED, Halted
from humanlayer_agent.approvals.store_interface import NEVER_RUNS, Figures, now_ms
from humanlayer_agent.audit import events
from humanlayer_agent.audit.anchor import Loss, anchor_file, anchor_of
from humanlayer_agent.audit.chain import GENESIS, Entry
from humanlayer_agent.audit.events import EventType
from humanlayer_agent.audit.heads import Head
from humanlayer_agent.audit.verify import Reached, Verification, verify
from humanlayer_agent.errors import LOST, AgentsStopped, ConfigError, RunLost, StoreError, StoreTampered
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.redaction.redactor import Redactor, redactor
from humanlayer_agent.store.answer_record import adoptable, collectable, demanded, read_request, record_answer
from humanlayer_agent.store.connection import Database
from humanlayer_agent.store.deliveries import ABANDONED, SQLSurfaces
from humanlayer_agent.store.grants import SQLGrants
from humanlayer_agent.store.heartbeats import Heart
from humanlayer_agent.store.log_heads import Degraded, Keeper
from humanlayer_agent.store.log_position import LogLost, loss_of
from humanlayer_agent.store.people import SQLAbsences, SQLPeople
from humanlayer_agent.store.permit_checks import count, over_limit, prove, strange, unproved, used, why_refused
from humanlayer_agent.store.rows import (
    action_fields,
    decision_fields,
    enforcement_fields,
    load_demands,
    read_vote,
    sayable,
)
from humanlayer_agent.store.rows_against_log import Agreement
from humanlayer_agent.store.statements import Ledger, Log, log_key, moved_away
from humanlayer_agent.store.stops import SQLHalts
from humanlayer_agent.store.transactions import Row, Transactions

if TYPE_CHECKING:
    from humanlayer_agent.store.retention import Purge

_PAGE = 500  # events a read: readers must not hold a snapshot for long, the write-ahead log would grow behind it


def read_requests(
    database: Transactions, condition: str, *values: Any, newest_first: bool = False, limit: int | None = None
) -> list[ApprovalRequest]:
    """Those requests that `condition` holds for (our own text), oldest first; not more than `limit` (None: all)."""
    down, some = "DESC" if newest_first else "ASC", "" if limit is None else " LIMIT ?"
    with database.read() as connection:
        rows = connection.execute(
            f"SELECT request.*, {ABANDONED} AS abandoned, principal, comment, edited "
            "FROM request LEFT JOIN vote ON vote.rowid = ("
            "SELECT max(rowid) FROM vote WHERE request_id = request.id AND answer = CASE state "
            "WHEN 'pending' THEN '' WHEN 'rejected' THEN 'reject' WHEN 'answered' THEN 'respond' "
            "WHEN 'superseded' THEN 'edit' WHEN 'terminated' THEN 'terminate' WHEN 'revoked' THEN 'revoke' "
            f"ELSE 'approve' END) WHERE {condition} ORDER BY created {down}, request.rowid {down}{some}",
            values if limit is None else (*values, limit),
        ).fetchall()
    return [read_request(row) for row in rows]


_EVENTS = "SELECT seq, hash, body FROM audit_event WHERE"


def read_events(
    database: Transactions, *, run: str | None, request: str | None, type: str | None, after: int, last: int | None
) -> Iterator[Entry]:
    """Events of the log, oldest first; see `Store.events`.

    Every statement names only what was asked for: with `:run IS NULL OR run = :run` SQLite reads the whole log.
    """
    if type is None or "." in type or run is not None or request is not None:
        return _paged(database, *_narrowed(run, request, type), after, last, database.settled())
    return _family(database, type, after, last)


def _narrowed(run: str | None, request: str | None, type: str | None) -> tuple[str, list[str]]:
    """The condition that finds such events by the narrowest index, and what is bound in it."""
    index = "request" if request is not None else "run" if run is not None else "type"
    terms, values = [], []
    for column, value in (("request", request), ("run", run), ("type", type)):
        if value is None:
            continue
        family = column == "type" and "." not in value
        term = f"substr(type, 1, {len(value) + 1}) = ?" if family else f"{column} = ?"
        terms.append(term if column == index else f"+{term}")  # + keeps SQLite from taking a wider index
        values.append(f"{value}." if family else value)
    return "".join(f"{term} AND " for term in terms), values


def _family(database: Transactions, family: str, after: int, last: int | None) -> Iterator[Entry]:
    """The events of one family: those of its types, each found by the index, as one row."""
    newest = database.settled()
    with database.read() as connection:
        types = connection.execute(
            "WITH RECURSIVE kind (type) AS (SELECT min(type) FROM audit_event WHERE type >= ?1 || '.' AND type < ?1 "
            "|| '/' UNION ALL SELECT (SELECT min(type) FROM audit_event WHERE type > kind.type AND type < ?1 || '/') "
            "FROM kind WHERE kind.type IS NOT NULL) SELECT type FROM kind WHERE type IS NOT NULL",
            (family,),
        ).fetchall()
    # Each type is read at a moment of its own: without `newest`, an event could be told, and one before it be missed.
    of_each = [_paged(database, "type = ? AND ", [row["type"]], after, last, newest) for row in types]
    merged = heapq.merge(*of_each, key=lambda entry: entry.seq)
    return merged if last is None else iter(deque(merged, maxlen=last))


def _paged(
    database: Transactions, condition: str, values: Sequence[Any], after: int, last: int | None, newest: int
) -> Iterator[Entry]:
    """The events after one, up to `newest`, that `condition` (our own text, with AND at its end) holds for."""
    condition, values = f"{condition} seq <= ? AND", [*values, newest]
    if last is not None:
        with database.read() as connection:
            first = connection.execute(
                f"SELECT min(seq) FROM (SELECT seq FROM audit_event WHERE {condition} seq > ? "
                "ORDER BY seq DESC LIMIT ?) AS newest",
                (*values, after, last),
            ).fetchone()[0]
        if first is None:
            return
        after = first - 1
    while True:
        with database.read() as connection:
            page = connection.execute(
                f"{_EVENTS} {condition} seq > ? ORDER BY seq LIMIT ?", (*values, after, _PAGE)
            ).fetchall()
        for row in page:
            yield entry_of(row)
        if len(page) < _PAGE:
            return
        after = page[-1]["seq"]


def read_first_run(database: Transactions, agent: str, instance: str) -> Entry | None:
    """The event with which the first run of this instance of an agent began; None where it has had none yet."""
    with database.read() as connection:
        row = connection.execute(
            f"{_EVENTS} type = 'run.started' AND json_extract(body, '$.agent') = ? "
            "AND json_extract(body, '$.instance') = ? ORDER BY seq LIMIT 1",
            (agent, instance),
        ).fetchone()
    return None if row is None else entry_of(row)


def read_verified(
    database: Transactions,
    told: Agreement,
    *,
    heads: Sequence[Head] = (),
    progress: Callable[[int], None] = lambda count: None,
    since: Reached | None = None,
) -> Verification:
    """Check all chains, and every row of the tables against the events that made it; `told` hears all of it.

    Args:
        since: only from the event that its head names on, and the rows that are told of there.
    """
    try:
        return _verified(database, told, heads, progress, since)
    except StoreTampered as error:
        return Verification(0, GENESIS, bad_seq=error.seq, problem=str(error), kind="tampered")


def _verified(
    database: Transactions,
    told: Agreement,
    heads: Sequence[Head],
    progress: Callable[[int], None],
    since: Reached | None,
) -> Verification:
    newest = database.settled()
    with database.read() as connection:
        first = since.head.seq if since else -(2**63)  # a number below 0 shows as well
        rows = connection.execute(
            "SELECT seq, hash, body FROM audit_event NOT INDEXED WHERE seq >= ? ORDER BY seq", (first,)
        )
        found = verify(
            map(entry_of, rows),
            heads=heads,
            progress=progress,
            since=since,
            until=newest,
            numbered=database.kind == "sqlite",
            hear=told.hear,
        )
        if not found.intact:  # no event is ever taken out of the table: a gap in it was made
            return replace(found, kind="tampered")
        difference = told.first_difference(connection)
    if difference is None:
        return found
    seq, problem = difference
    return replace(found, bad_seq=found.last + 1 if seq is None else seq, problem=problem, kind="tampered")


def entry_of(row: Row) -> Entry:
    """The event of a row of the log."""
    body = row["body"]  # text, unless somebody has rebuilt the table
    return Entry(row["seq"], str(row["hash"]), body.encode() if isinstance(body, str) else b"")


def refuse_deleted(path: Path) -> None:
    """Raise LogLost where a store was at `path`, and nothing is there now: an empty one would take its place unseen."""
    if not _holds_something(path) and (anchor := anchor_of(path)) and not _holds_something(path):
        raise LogLost(Loss(anchor, None))  # looked at twice: another process may just have made the store


def _holds_something(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


class SQLStore:
    """A `Store` in an SQL database: what is the same in all of them.

    Args:
        database: where it is.
        clock: the time in ms.
        writes: False opens it only to be read.
        anchored: False opens it also where events are missing that its anchor names, or where another store was.

    Raises:
        StoreError: it can't be used.
        LogLost: its log was set back, or the store that was there is gone.
    """

    def __init__(
        self, database: Transactions, clock: Callable[[], int], *, writes: bool = True, anchored: bool = True
    ) -> None:
        self._clock = clock
        self._database = database
        self._keeper = Keeper()
        self._redactor: Redactor | None = None
        self._heart = Heart(self._database)
        weakref.finalize(self, self._heart.stop).atexit = False
        self.surfaces = SQLSurfaces(self._database, clock)
        self.halts = SQLHalts(self._database, self._transaction, clock)
        self.absences = SQLAbsences(self._database, self._transaction, clock)
        self.people = SQLPeople(self._database, self._transaction, clock)
        self.grants = SQLGrants(
            self._database, self._transaction, self._unless_stopped, self._judged, read_requests, clock
        )
        self._position = self._database.position
        if writes:
            self._open_log(anchored)
        if writes and anchored:
            self._follow_anchor()

    @property
    def location(self) -> str:
        """What names it: a path, or an address without its password."""
        return self._database.place

    def close(self) -> None:
        self._heart.stop()
        if self._database.is_open and self._position.is_behind():
            self._keeper.anchor(self._position, self._clock())
        self._database.close()

    @contextmanager
    def _transaction(self, *, purging: bool = False) -> Iterator[Ledger]:
        try:
            with self._database.purge() if purging else self._database.write() as connection:
                # The time when we hold the lock, not when we began to wait for it.
                ledger = Ledger(connection, self._clock(), self._redactor)
                said = self._keeper.say(ledger)
                yield ledger
        except StoreError as error:
            self._keeper.failed(error, self._clock())
            if isinstance(error, StoreTampered) and self._position.is_behind():  # nobody else may ever see what it has
                self._keeper.anchor(self._position, self._clock())
            raise
        self._redactor = ledger.redactor() if ledger.last is not None else self._redactor  # its key is committed now
        self._keeper.recovered(said)
        self._written(ledger.last, ledger.now)

    def _written(self, last: Entry | None, now: int) -> None:
        """See to heads and the anchor, after a transaction whose last event is committed."""
        if last is None:
            return
        if self._keeper.due(self._database, last.seq, now):
            self._write_head()
        elif self._position.due(now):
            self._keeper.anchor(self._position, now)

    def _open_log(self, anchored: bool) -> None:
        with self._database.read() as connection:
            (begun,) = connection.execute(
                "SELECT count(*) FROM (SELECT 1 FROM audit_event LIMIT 1) AS first"
            ).fetchone()
            place = Ledger(connection, self._clock()).left_for() if begun else ""
        if place:
            raise StoreError(moved_away(place))
        if begun:
            return
        with self._transaction() as ledger:
            if ledger.head() is None:  # else another process was first
                if anchored and (anchor := anchor_of(self.location)):
                    raise LogLost(Loss(anchor, None))
                ledger.open_log()

    def _follow_anchor(self) -> None:
        """Compare the log with its anchor; one that is missing is made."""
        with self._database.read() as connection:
            row = connection.execute("SELECT seq, hash, body FROM audit_event WHERE seq = 0").fetchone()
        try:
            self._position.follow_anchor(str(entry_of(row).event["store"]))
        except (ValueError, KeyError, TypeError):  # a log that somebody else wrote: `verify` says so
            return
        with self._database.read() as connection:  # which compares them
            if self._position.anchor is not None:
                return
            witnessed = connection.execute("SELECT 1 FROM audit_event WHERE type = 'audit.head' LIMIT 1").fetchone()
        # Whoever signs a head writes an anchor too.
        if self._keeper.anchor(self._position, self._clock()) and witnessed:
            self.record(events.AUDIT_ANCHORED, file=str(anchor_file(self._position.store)), by=os_user())

    # Runs

    def open_run(self, run: Run) -> None:
        self.reconcile()
        with self._transaction() as ledger:
            ledger.start_run(run)
        self._heart.start()

    def stop_run(self, run_id: str, why: str) -> None:
        with self._transaction() as ledger:
            ledger.stop_run(run_id, why)

    def supervisors(self) -> list[str]:
        with self._database.read() as connection:
            rows = connection.execute("SELECT DISTINCT process FROM run WHERE state IN ('open', 'terminated')")
            return [row["process"] for row in rows]

    def close_run(self, run_id: str, status: str) -> None:
        with self._transaction() as ledger:
            if ledger.end_run(run_id, "finished", status) and not ledger.in_use():
                ledger.append(events.AUDIT_CLOSED, run=run_id)
        if ledger.last is not None:
            self._write_head()

    def reconcile(self) -> None:
        with self._transaction() as ledger:
            for row in ledger.executions("execution.state = 'started'"):
                if ledger.is_gone(row):
                    ledger.end_execution(row, None)
            going_on = "SELECT id AS run_id, process, clock, beat FROM run WHERE state IN ('open', 'terminated')"
            for row in ledger.rows(going_on):
                if ledger.is_gone(row):
                    ledger.end_run(row["run_id"], "lost", "lost")
            ledger.withdraw_left()
            ledger.held_leases()  # there may be no hub to note how long another is silent
            for row in ledger.rows("SELECT * FROM request WHERE state = 'pending' AND expires <= ?", ledger.now):
                ledger.settle(row, "expired")
            for row in ledger.unused_approvals("decided + valid_for <= ?", ledger.now):
                ledger.spoil(row, "lapsed", "nobody used it in time")

    # Decisions and requests

    def record(self, kind: EventType, **fields: Any) -> None:
        with self._transaction() as ledger:
            ledger.append(kind, **fields)

    def record_decision(
        self,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        *,
        authority: Authority | None = None,
        **fields: Any,
    ) -> None:
        with self._unless_stopped(action, decision, digest, authority) as ledger:
            self._judged(ledger, action, decision, digest, **fields)

    def allow(
        self,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        *,
        use_by_ms: int,
        edit_of: str | None = None,
        authority: Authority | None = None,
    ) -> Permit:
        with self._unless_stopped(action, decision, digest, authority, edit_of) as ledger:
            return self._allowed(ledger, action, decision, digest, use_by_ms, edit_of)

    def admit(
        self,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        about_to_run: str,
        *,
        use_by_ms: int,
        authority: Authority,
        outcome: Outcome | None = None,
    ) -> Permit | Refused:
        with self._unless_stopped(action, decision, digest, authority) as ledger:
            permit = self._allowed(ledger, action, decision, digest, use_by_ms)
            result = self._used(ledger, permit, about_to_run, authority)
            if isinstance(result, Refused):
                return result
            if outcome is not None:
                self._ended(ledger, permit.id, outcome)
        return replace(permit, started=True)

    def create_request(self, draft: ApprovalRequest, authority: Authority | None = None) -> ApprovalRequest:
        edit_of = draft.parent or None
        with self._unless_stopped(draft.action, draft.decision, draft.digest, authority, edit_of) as ledger:
            waiting = adoptable(ledger, draft, ledger.counting(authority) if authority else None)
            request = waiting or draft
            self._judged(ledger, draft.action, draft.decision, draft.digest, request=request.id, edit_of=edit_of)
            if waiting:
                ledger.adopt(waiting.id, draft.action.run_id)
            elif draft.kept and ledger.request(draft.id):
                raise StoreError("another process of this agent has just asked the same: collect that")
            else:
                ledger.insert(draft)
            return request

    def collect(self, draft: ApprovalRequest, authority: Authority) -> ApprovalRequest | Refused:
        with self._unless_stopped(draft.action, draft.decision, draft.digest, authority) as ledger:
            return collectable(ledger, draft, ledger.counting(authority))

    def get(self, request_id: str) -> ApprovalRequest | None:
        found = read_requests(self._database, "id = ?", request_id)
        return found[0] if found else None

    def requests(
        self, *, state: RequestState | Literal["settled"] | None = None, run: str | None = None, last: int | None = None
    ) -> list[ApprovalRequest]:
        terms, values = ["TRUE"], []
        if run is not None:
            terms.append("run_id = ?")
            values.append(run)
        if state == "settled":
            terms.append("state <> 'pending'")
        elif state is not None:
            terms.append("state = ?" if run is None else "+state = ?")  # +: those of a run are fewer
            values.append(state)
        condition = " AND ".join(terms)
        if last is None:
            return read_requests(self._database, condition, *values)
        return read_requests(self._database, condition, *values, newest_first=True, limit=last)[::-1]

    def ids(self, beginning: str) -> list[str]:
        """Return the ids of all requests that begin so."""
        if not beginning.isascii():
            return []
        with self._database.read() as connection:
            rows = connection.execute("SELECT id FROM request WHERE id BETWEEN ?1 AND ?1 || 'g'", (beginning,))
            return [row["id"] for row in rows]

    def votes(self, request_id: str) -> list[Vote]:
        with self._database.read() as connection:
            rows = connection.execute("SELECT * FROM vote WHERE request_id = ? ORDER BY rowid", (request_id,))
            return [read_vote(row) for row in rows]

    def decide(self, request_id: str, answer: Answer, authority: Authority, signer: Signer) -> VoteResult:
        with self._transaction() as ledger:
            return record_answer(ledger, request_id, answer, authority, signer)

    def to_type(self, request_id: str, principal: str, authority: Authority) -> str:
        person = authority.person_of(principal)
        with self._database.read() as connection:
            log = Log(connection, self._clock())
            row = next(iter(log.rows("SELECT * FROM request WHERE id = ?", request_id)), None)
            if row is None:
                return ""
            try:
                rule = authority.rule_of(*load_demands(row["decision"]), row["requester"])
            except ConfigError:  # nobody can approve it
                return ""
            return demanded(log, row, person.id if person else principal, rule)

    def revoke(self, request_id: str, answer: Answer, authority: Authority, signer: Signer) -> VoteResult:
        with self._transaction() as ledger:
            return record_answer(ledger, request_id, answer, authority, signer, revoking=True)

    def expire(self, request_id: str) -> RequestState:
        return self._end_pending(request_id, "expired", None)

    def withdraw(self, request_id: str, why: str) -> RequestState:
        return self._end_pending(request_id, "withdrawn", why)

    def terminate(self, request_id: str, why: str) -> RequestState:
        with self._transaction() as ledger:
            row = self._known(ledger, request_id)
            if row["state"] == "pending":
                ledger.settle(row, "terminated", why=why)
            ledger.stop_run(row["run_id"], why)
        return self._state(request_id)

    # Permits and executions

    def permit(self, request: ApprovalRequest, authority: Authority, *, use_by_ms: int) -> Permit | Refused:
        with self._transaction() as ledger:
            row = self._known(ledger, request.id)
            if request.action.type in INERT:
                return Refused(NEVER_RUNS)
            if halts := self.halts.standing_in(ledger, authority):
                common = {"run": row["run_id"], "request": request.id, "digest": row["digest"]}
                ledger.append(events.PERMIT_REFUSED, **common, why=STOPPED, halt=halts[0].id)
                return Halted(STOPPED, halts[0])
            if row["run_id"] != request.action.run_id:
                return Refused("another run of the agent waits for its answer now")
            if row["state"] != "approved":
                return Refused(f"the request is {row['state']}")
            if row["decided"] + row["valid_for"] <= ledger.now:
                ledger.spoil(row, "lapsed", "nobody used it in time")
                return Refused("the approval was not used in time")
            if ledger.rows("SELECT 1 FROM permit WHERE request_id = ?", request.id):
                return Refused("the approval was already used")
            proof = prove(ledger, request, ledger.counting(authority))
            if isinstance(proof, Refused):
                ledger.append(
                    events.PERMIT_REFUSED, run=row["run_id"], request=request.id, digest=row["digest"], why=proof.reason
                )
                return proof
            use_by = min(ledger.now + use_by_ms, row["decided"] + row["valid_for"], proof.usable_until)
            permit_id = ledger.issue(row["run_id"], request.digest, use_by, request.id)
        return Permit(
            permit_id,
            request.digest,
            request.action,
            request.decision,
            use_by,
            request.id,
            proof.votes[-1].approver.principal,
            "\n".join(vote.comment for vote in proof.votes if vote.comment),
            request=request,
        )

    def consume(self, permit: Permit, digest: str, authority: Authority) -> Execution | Refused:
        with self._transaction() as ledger:
            if halts := self.halts.standing_in(ledger, authority):
                row = ledger.permit(permit.id)
                rows = {} if row is None else {"run": row["run_id"], "request": row["request_id"]}
                ledger.void(permit.id, STOPPED, about_to_run=digest, halt=halts[0].id, **rows)
                return Halted(STOPPED, halts[0])
            return self._used(ledger, permit, digest, authority)

    def void(self, permit_id: str, why: str) -> None:
        with self._transaction() as ledger:
            permit = ledger.permit(permit_id)
            if permit is None or permit["state"] != "issued":
                return
            ledger.void(permit_id, why, run=permit["run_id"], request=permit["request_id"])
            if permit["request_state"] == "approved":
                ledger.spoil(self._known(ledger, permit["request_id"]), "lapsed", why)

    def finish(self, permit_id: str, outcome: Outcome) -> bool:
        with self._transaction() as ledger:
            return self._ended(ledger, permit_id, outcome)

    def used(self, counter: str, per: str, run: str) -> int:
        with self._database.read() as connection:
            return used(Log(connection, self._clock()), counter, per, run)

    # The log

    @property
    def degraded(self) -> Degraded | None:
        """The reason why nothing runs at this moment: the log can't be written; None where it could be, the
        last time.
        """
        return self._keeper.degraded

    def write_head(self) -> Head:
        """Sign the newest event and write that down, to be kept elsewhere as a witness.

        Raises:
            StoreError: it can't be written.
        """
        signer, key = self._keeper.signer()
        with self._database.write() as connection:
            head = self._keeper.write(Ledger(connection, self._clock()), signer, key)
        with suppress(OSError):
            self._position.move_anchor(head)
        return head

    def anchor_anew(self, accepted: int) -> None:
        """Sign the newest event, and make that the anchor, wherever the one that is there reaches to.

        Args:
            accepted: the newest event that a human goes on without; -1: it was another log's.

        Raises:
            StoreError, OSError: it can't be written.
        """
        head = self.write_head()
        self._position.follow_anchor(head.store)
        self._position.set_anchor(head, accepted)

    def _write_head(self) -> None:
        """The same, where the event that made it due is recorded already: one that fails is due again next time."""
        with suppress(StoreError):
            self.write_head()

    def redactor(self) -> Redactor:
        """Return the redactor that erases this log's secrets: its marks and digests can be made again from a value."""
        with self._database.read() as connection:
            key = log_key(connection)
        return Redactor() if key is None else redactor(key)

    def events(
        self,
        *,
        run: str | None = None,
        request: str | None = None,
        type: str | None = None,
        after: int = -1,
        last: int | None = None,
    ) -> Iterator[Entry]:
        return read_events(self._database, run=run, request=request, type=type, after=after, last=last)

    def first_run(self, agent: str, instance: str) -> Entry | None:
        return read_first_run(self._database, agent, instance)

    def first_decision(self, agent: str, instance: str, project: str) -> Entry | None:
        with self._database.read() as connection:
            runs = connection.execute(
                "SELECT run.id FROM audit_event JOIN run ON run.id = run WHERE type = 'run.started' "
                "AND json_extract(body, '$.agent') = ? AND json_extract(body, '$.instance') = ? AND project = ? "
                "ORDER BY seq",
                (agent, instance, project),
            )
            for run in runs.fetchall():
                row = connection.execute(
                    f"{_EVENTS} run = ? AND type = 'decision.evaluated' ORDER BY seq LIMIT 1", (run["id"],)
                ).fetchone()
                if row is not None:
                    return entry_of(row)
        return None

    def verify(
        self,
        *,
        heads: Sequence[Head] = (),
        progress: Callable[[int], None] = lambda count: None,
        since: Reached | None = None,
    ) -> Verification:
        """Check all chains, and every row of the tables against the events that made it. See `audit.verify`.

        Args:
            since: a head up to which it was checked before, and its tips: only what came after is read, and the rows
                that tells of. All is read where rows were deleted since (`retention.purged`), or a head of `heads` is
                older.
        """
        if since is not None and since.agrees and all(head.seq >= since.head.seq for head in heads):
            told = Agreement(whole=False)
            found = read_verified(self._database, told, heads=heads, progress=progress, since=since)
            # What has to be gone after a purge is found in the whole log only.
            purges = self.events(type=events.RETENTION_PURGED.name, after=since.head.seq)
            if found.intact or next(purges, None) is None:
                return found
        return read_verified(self._database, Agreement(), heads=heads, progress=progress)

    def loss(self) -> Loss | None:
        anchor = anchor_of(self.location)
        with self._database.read() as connection:
            return loss_of(connection, anchor) if anchor else None

    def purge(self, *, before: int, exported: Head, authority: Authority | None = None) -> "Purge":
        from humanlayer_agent.store.retention import Purge

        return Purge(self, before=before, exported=exported, authority=authority)

    @property
    def holds(self) -> Holds:
        from humanlayer_agent.store.retention import SQLiteHolds

        return SQLiteHolds(self, self._transaction)

    def now(self) -> int:
        return self._clock()

    def is_news(self, request_id: str) -> bool:
        return True

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def figures(self) -> Figures:
        version, size = self._database.version_and_size()
        with self._database.read() as connection:
            count = Log(connection, self._clock()).count()
            counted = connection.execute(
                "SELECT (SELECT count(*) FROM request WHERE state = 'pending'), "
                "(SELECT count(*) FROM run WHERE state IN ('open', 'terminated'))"
            ).fetchone()
            channels = [row["channel"] for row in connection.execute("SELECT channel FROM lease ORDER BY channel")]
        held = tuple(name for name in channels if self.surfaces.lease(name))
        return Figures(self._database.kind, version, count, counted[0], counted[1], held, size)

    def access(self) -> tuple[str, bool]:
        """Return as what we may use it ("owner", "approver", "agent" or "auditor"), and whether nobody can listen."""
        return "owner", True

    def note_read(self, command: str) -> bool:
        """Put it in the log that `command` reads, where who may only read is known; False where it is nobody."""
        return False

    def to_write(self) -> "SQLStore":
        """Return the same store, opened to write in it, where this one was opened to read.

        Raises:
            StoreError: it can't be used.
        """
        raise StoreError(f"the store {self.location} can't be written")

    @property
    def database(self) -> Transactions:
        """The database itself."""
        return self._database

    @contextmanager
    def transaction(self) -> Iterator[Ledger]:
        """A transaction that writes, for what moves a store: nobody else writes meanwhile."""
        with self._transaction(purging=True) as ledger:
            yield ledger

    @contextmanager
    def purging(self) -> Iterator[Ledger]:
        """A transaction that may delete."""
        with self._transaction(purging=True) as ledger:
            yield ledger

    # Shared steps

    @contextmanager
    def _unless_stopped(
        self,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        authority: Authority | None,
        edit_of: str | None = None,
    ) -> Iterator[Ledger]:
        """A transaction that something may begin in. Where every agent is stopped, or the run was given up, the log
        says so, and it raises.
        """
        with self._transaction() as ledger:
            halts = self.halts.standing_in(ledger, authority)
            lost = ledger.rows("SELECT 1 FROM run WHERE id = ? AND state = 'lost'", action.run_id)
            if not halts and not lost:
                yield ledger
                return
            why = {"denied": STOPPED, "halt": halts[0].id} if halts else {"denied": LOST}
            self._judged(ledger, action, decision, digest, **why, edit_of=edit_of)
        raise AgentsStopped(halts[0], decision) if halts else RunLost(decision)

    def _allowed(
        self,
        ledger: Ledger,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        use_by_ms: int,
        edit_of: str | None = None,
    ) -> Permit:
        if action.type in INERT:
            raise StoreError(NEVER_RUNS)
        use_by = ledger.now + use_by_ms
        permit_id = ledger.issue(action.run_id, digest, use_by, None)
        self._judged(ledger, action, decision, digest, permit=permit_id, edit_of=edit_of)
        return Permit(permit_id, digest, action, decision, use_by)

    def _used(self, ledger: Ledger, permit: Permit, digest: str, authority: Authority) -> Execution | Refused:
        """Use a permit, in a transaction in which it was read that no stop holds."""
        row = ledger.permit(permit.id)
        if row is not None and (why_not := strange(permit, row)):  # it stays good for its own run
            tried = {"about_to_run": digest, "used_by": sayable(permit.action.run_id)}
            common = {"run": row["run_id"], "request": row["request_id"], "permit": permit.id}
            ledger.append(events.PERMIT_REFUSED, **common, why=why_not, **tried)
            return Refused(why_not)
        why_not = "" if row is None else unproved(ledger, permit, row, digest, ledger.counting(authority))
        why_not = why_not or over_limit(ledger, permit.decision, permit.action.run_id)
        if row is not None and not why_not and ledger.consume(permit.id, digest):
            count(ledger, permit, row["run_id"])
            return ledger.start(row, **enforcement_fields(permit.decision, permit.action.layer))
        said = why_refused(row, digest, ledger.now)
        reason = said or why_not or "its request is not approved now"
        if row is None:
            ledger.void(permit.id, reason, about_to_run=digest)
            return Refused(reason)
        ledger.void(permit.id, reason, about_to_run=digest, run=row["run_id"], request=row["request_id"])
        if row["state"] == "issued" and row["request_state"] == "approved":
            request = self._known(ledger, row["request_id"])
            ledger.spoil(request, "lapsed" if said and row["digest"] == digest else "invalidated", reason)
        return Refused(reason)

    def _ended(self, ledger: Ledger, permit_id: str, outcome: Outcome) -> bool:
        rows = ledger.executions("execution.state = 'started' AND permit_id = ?", permit_id)
        for row in rows:
            ledger.end_execution(row, outcome)
        return bool(rows)

    def _judged(self, ledger: Ledger, action: Action, decision: PolicyDecision, digest: str, **fields: Any) -> None:
        ledger.append(events.DECISION_EVALUATED, **action_fields(action, digest), **decision_fields(decision), **fields)

    def _known(self, ledger: Ledger, request_id: str) -> Row:
        row = ledger.request(request_id)
        if row is None:
            raise StoreError(f"there is no request {request_id}")
        return row

    def _state(self, request_id: str) -> RequestState:
        with self._database.read() as connection:
            row = connection.execute("SELECT state FROM request WHERE id = ?", (request_id,)).fetchone()
        if row is None:
            raise StoreError(f"there is no request {request_id}")
        state: RequestState = row["state"]
        return state

    def _end_pending(self, request_id: str, state: RequestState, why: str | None) -> RequestState:
        with self._transaction() as ledger:
            row = self._known(ledger, request_id)
            if row["state"] == "pending":
                ledger.settle(row, state, why=why)
                return state
            reached: RequestState = row["state"]
            return reached


class SQLiteStore(SQLStore):
    """A `Store` in one file, for all threads of one process, beside any number of other processes.

    Args:
        path: the file; created with mode 0600 in a directory of mode 0700.
        clock: the time in ms; for tests.
        create: False opens a store that is there, to read it.
        busy_ms: how long to wait for another process's write.
        anchored: False opens it also where events are missing that its anchor names, or where another store was.

    Raises:
        StoreError: the file can't be used.
        LogLost: its log was set back, or the store that was there is gone.

    Example:
        >>> store = SQLiteStore("store.db")
        >>> store.requests(state="pending")
        []
    """

    def __init__(
        self,
        path: Path | str,
        *,
        clock: Callable[[], int] = now_ms,
        create: bool = True,
        busy_ms: int = 5_000,
        anchored: bool = True,
    ) -> None:
        if create and anchored:
            refuse_deleted(Path(path))
        self._file = Database(Path(path), create=create, busy_ms=busy_ms)
        super().__init__(self._file, clock, writes=create, anchored=anchored)

    def to_write(self) -> "SQLiteStore":
        return SQLiteStore(self.path)

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path
