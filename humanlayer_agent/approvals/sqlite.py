"""The store in one SQLite file: the default, with nothing to set up.

Each method is one transaction (`Ledger`); the triggers of the schema refuse whatever its statements would get wrong.
"""

import dataclasses
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from humanlayer_agent.actions import Action
from humanlayer_agent.approvals import process
from humanlayer_agent.approvals.agreement import Agreement
from humanlayer_agent.approvals.database import Database
from humanlayer_agent.approvals.ledger import Ledger
from humanlayer_agent.approvals.model import (
    Answer,
    ApprovalRequest,
    Execution,
    Outcome,
    Permit,
    Refused,
    RequestState,
    Run,
    VoteResult,
)
from humanlayer_agent.approvals.record import action_fields, decision_fields, load_action, load_decision
from humanlayer_agent.approvals.store import edit_fault, now_ms
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.audit.events import EventType
from humanlayer_agent.audit.verify import Verification, verify
from humanlayer_agent.errors import StoreError
from humanlayer_agent.policy.decision import PolicyDecision

_ANSWERED: dict[str, RequestState] = {
    "approve": "approved",
    "reject": "rejected",
    "edit": "superseded",
    "terminate": "terminated",
}
_PAGE = 500  # events a read: readers must not hold a snapshot for long, the write-ahead log would grow behind it


class SQLiteStore:
    """A `Store` in one file, for all threads of one process, beside any number of other processes.

    Args:
        path: the file; created with mode 0600 in a directory of mode 0700.
        clock: the time in ms; for tests.
        create: False opens a store that is there, to read it.
        busy_ms: how long to wait for another process's write.

    Raises:
        StoreError: the file can't be used.

    Example:
        >>> store = SQLiteStore("store.db")
        >>> store.requests(state="pending")
        []
    """

    def __init__(
        self, path: Path | str, *, clock: Callable[[], int] = now_ms, create: bool = True, busy_ms: int = 5_000
    ) -> None:
        self._clock = clock
        self._database = Database(Path(path), create=create, busy_ms=busy_ms)
        if create:
            self._open_log()

    @property
    def path(self) -> Path:
        return self._database.path

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[Ledger]:
        with self._database.write() as connection:
            yield Ledger(connection, self._clock())  # the time when we hold the lock, not when we began to wait for it

    def _open_log(self) -> None:
        with self._database.read() as connection:
            (begun,) = connection.execute("SELECT count(*) FROM (SELECT 1 FROM audit_event LIMIT 1)").fetchone()
        if begun:
            return
        with self._transaction() as ledger:
            if ledger.head() is None:  # else another process was first
                ledger.open_log()

    # Runs

    def open_run(self, run: Run) -> None:
        self.reconcile()
        with self._transaction() as ledger:
            ledger.start_run(run)

    def close_run(self, run_id: str, status: str) -> None:
        with self._transaction() as ledger:
            ledger.end_run(run_id, "finished", status)

    def reconcile(self) -> None:
        with self._transaction() as ledger:
            for row in ledger.executions("execution.state = 'started'"):
                if process.is_gone(row["process"]):
                    ledger.end_execution(row, None)
            for row in ledger.rows("SELECT id, process FROM run WHERE state IN ('open', 'terminated')"):
                if process.is_gone(row["process"]):
                    ledger.end_run(row["id"], "lost", "lost")
            for row in ledger.rows("SELECT * FROM request WHERE state = 'pending' AND expires <= ?", ledger.now):
                ledger.settle(row, "expired")
            for row in ledger.unused_approvals("decided + valid_for <= ?", ledger.now):
                ledger.spoil(row, "lapsed", "nobody used it in time")

    # Decisions and requests

    def record(self, kind: EventType, **fields: Any) -> None:
        with self._transaction() as ledger:
            ledger.append(kind, **fields)

    def record_decision(self, action: Action, decision: PolicyDecision, digest: str, **fields: Any) -> None:
        with self._transaction() as ledger:
            self._judged(ledger, action, decision, digest, **fields)

    def allow(
        self, action: Action, decision: PolicyDecision, digest: str, *, use_by_ms: int, edit_of: str | None = None
    ) -> Permit:
        with self._transaction() as ledger:
            use_by = ledger.now + use_by_ms
            permit_id = ledger.issue(action.run_id, digest, use_by, None)
            self._judged(ledger, action, decision, digest, permit=permit_id, edit_of=edit_of)
        return Permit(permit_id, digest, action, decision, use_by)

    def create_request(self, draft: ApprovalRequest) -> ApprovalRequest:
        with self._transaction() as ledger:
            waiting = ledger.adoptable(draft)
            request_id = waiting["id"] if waiting else draft.id
            edit_of = draft.parent or None
            self._judged(ledger, draft.action, draft.decision, draft.digest, request=request_id, edit_of=edit_of)
            if not waiting:
                ledger.insert(draft)
                return draft
            ledger.adopt(waiting, draft.action.run_id)
            return dataclasses.replace(
                draft, **{name: waiting[name] for name in ("id", "requester", "created", "expires", "valid_for")}
            )

    def get(self, request_id: str) -> ApprovalRequest | None:
        found = self._read_requests("id = ?", request_id)
        return found[0] if found else None

    def requests(self, *, state: RequestState | None = None, run: str | None = None) -> list[ApprovalRequest]:
        return self._read_requests("(?1 IS NULL OR state = ?1) AND (?2 IS NULL OR run_id = ?2)", state, run)

    def decide(self, request_id: str, answer: Answer) -> VoteResult:
        with self._transaction() as ledger:
            row = ledger.request(request_id)
            before = ledger.rows("SELECT * FROM vote WHERE decision_id = ?", answer.decision_id)
            if before:
                return self._repeated(ledger, row, before[0], request_id, answer)
            if row is None:
                return self._refused(ledger, request_id, answer, None, "there is no such request")
            state: RequestState = row["state"]
            if answer.presented_digest != row["digest"]:
                return self._refused(
                    ledger, request_id, answer, row, "the answer is for something else than the request"
                )
            if answer.kind not in _ANSWERED or not answer.decision_id or not answer.approver.principal:
                return self._refused(ledger, request_id, answer, row, "the answer is incomplete")
            if fault := edit_fault(answer, load_action(row["action"]).content):
                return self._refused(ledger, request_id, answer, row, fault)
            if state == "pending" and row["expires"] <= ledger.now:
                ledger.settle(row, state := "expired")
            if state != "pending":
                reason = f"the request was already {state}"
                ledger.say_vote(events.VOTE_LATE, request_id, answer, run=row["run_id"], why=reason)
                return VoteResult("late", state, reason)
            ledger.vote(row, answer)
            state = _ANSWERED[answer.kind]
            ledger.settle(row, state, by=answer.approver.principal)
            if state == "terminated":
                ledger.stop_run(row["run_id"], "a human stopped the run")
            return VoteResult("recorded", state)

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

    def permit(self, request_id: str, action: Action, decision: PolicyDecision, *, use_by_ms: int) -> Permit | Refused:
        with self._transaction() as ledger:
            row = self._known(ledger, request_id)
            if row["state"] != "approved":
                return Refused(f"the request is {row['state']}")
            usable_until = row["decided"] + row["valid_for"]
            if usable_until <= ledger.now:
                ledger.spoil(row, "lapsed", "nobody used it in time")
                return Refused("the approval was not used in time")
            if ledger.rows("SELECT 1 FROM permit WHERE request_id = ?", request_id):
                return Refused("the approval was already used")
            use_by = min(ledger.now + use_by_ms, usable_until)
            permit_id = ledger.issue(row["run_id"], row["digest"], use_by, request_id)
            vote = ledger.approving_vote(request_id)
        return Permit(
            permit_id, row["digest"], action, decision, use_by, request_id, vote["principal"], vote["comment"]
        )

    def consume(self, permit_id: str, digest: str) -> Execution | Refused:
        with self._transaction() as ledger:
            permit = ledger.permit(permit_id)
            if permit is not None and ledger.consume(permit_id, digest):
                return ledger.start(permit)
            reason = _why_refused(permit, digest, ledger.now)
            if permit is None:
                ledger.void(permit_id, reason, about_to_run=digest)
                return Refused(reason)
            ledger.void(permit_id, reason, about_to_run=digest, run=permit["run_id"], request=permit["request_id"])
            if permit["state"] == "issued" and permit["request_state"] == "approved":
                row = self._known(ledger, permit["request_id"])
                ledger.spoil(row, "invalidated" if permit["digest"] != digest else "lapsed", reason)
            return Refused(reason)

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
            rows = ledger.executions("execution.state = 'started' AND permit_id = ?", permit_id)
            for row in rows:
                ledger.end_execution(row, outcome)
            return bool(rows)

    # The log

    def events(
        self,
        *,
        run: str | None = None,
        request: str | None = None,
        type: str | None = None,
        after: int = -1,
        last: int | None = None,
    ) -> Iterator[Entry]:
        where = (
            "(:run IS NULL OR run = :run) AND (:request IS NULL OR request = :request) "
            "AND (:type IS NULL OR type = :type OR substr(type, 1, length(:type) + 1) = :type || '.')"
        )
        values: dict[str, Any] = {"run": run, "request": request, "type": type, "after": after, "page": _PAGE}
        if last is not None:
            with self._database.read() as connection:
                (first,) = connection.execute(
                    f"SELECT min(seq) FROM (SELECT seq FROM audit_event WHERE seq > :after AND {where} "
                    "ORDER BY seq DESC LIMIT :last)",
                    values | {"last": last},
                ).fetchone()
            if first is None:
                return
            values["after"] = first - 1
        while True:
            with self._database.read() as connection:
                page = connection.execute(
                    f"SELECT seq, hash, body FROM audit_event WHERE seq > :after AND {where} ORDER BY seq LIMIT :page",
                    values,
                ).fetchall()
            for row in page:
                yield _entry(row)
            if len(page) < _PAGE:
                return
            values["after"] = page[-1]["seq"]

    def verify(self) -> Verification:
        """Check the whole chain, and every row of the tables against the events that made it."""
        told = Agreement()
        with self._database.snapshot() as connection:
            rows = connection.execute("SELECT seq, hash, body FROM audit_event NOT INDEXED ORDER BY seq")
            found = verify(told.listen(_entry(row) for row in rows))
            if not found.intact:
                return found
            difference = told.first_difference(connection)
        if difference is None:
            return found
        seq, problem = difference
        return Verification(found.count, found.head, found.count if seq is None else seq, problem)

    # Shared steps

    def _judged(self, ledger: Ledger, action: Action, decision: PolicyDecision, digest: str, **fields: Any) -> None:
        ledger.append(events.DECISION_EVALUATED, **action_fields(action, digest), **decision_fields(decision), **fields)

    def _known(self, ledger: Ledger, request_id: str) -> sqlite3.Row:
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

    def _refused(
        self, ledger: Ledger, request_id: str, answer: Answer, row: sqlite3.Row | None, reason: str
    ) -> VoteResult:
        run = row["run_id"] if row else None
        ledger.say_vote(
            events.VOTE_REFUSED, request_id, answer, run=run, digest=row["digest"] if row else None, why=reason
        )
        return VoteResult("refused", row["state"] if row else None, reason)

    def _repeated(
        self, ledger: Ledger, row: sqlite3.Row | None, vote: sqlite3.Row, request_id: str, answer: Answer
    ) -> VoteResult:
        """An answer whose id we have seen: the channel delivered it twice, or somebody uses the id of another."""
        given = (request_id, answer.kind, answer.approver.principal, answer.presented_digest, answer.edited)
        known = (vote["request_id"], vote["answer"], vote["principal"], vote["presented_digest"], vote["edited"])
        if row is not None and given == known:
            return VoteResult("duplicate", row["state"], "this answer was already recorded")
        return self._refused(ledger, request_id, answer, row, "the decision id belongs to another answer")

    def _read_requests(self, condition: str, *values: Any) -> list[ApprovalRequest]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT request.*, principal, comment, edited FROM request LEFT JOIN vote ON request_id = request.id "
                f"WHERE {condition} ORDER BY created, request.rowid",
                values,
            ).fetchall()
        return [_request(row) for row in rows]


def _why_refused(permit: sqlite3.Row | None, digest: str, now: int) -> str:
    """The reason for a refusal that the compare-and-set has already decided."""
    if permit is None:
        return "there is no such permit"
    if permit["state"] == "consumed":
        return "the permit was already used: it is good for one execution"
    if permit["digest"] != digest:
        return "what is about to run is not what was permitted"
    if permit["run_state"] != "open":
        return "the run has ended"
    if permit["state"] == "void":
        return "the permit is void"
    if permit["use_by"] <= now:
        return "the permit was not used in time"
    return f"its request is {permit['request_state']}, and the votes do not approve it now"


def _request(row: sqlite3.Row) -> ApprovalRequest:
    return ApprovalRequest(
        id=row["id"],
        idempotency_key=row["idempotency_key"],
        digest=row["digest"],
        body=json.loads(row["body"]),
        action=dataclasses.replace(load_action(row["action"]), run_id=row["run_id"]),
        decision=load_decision(row["decision"]),
        requester=row["requester"],
        created=row["created"],
        expires=row["expires"],
        valid_for=row["valid_for"],
        state=row["state"],
        decided=row["decided"],
        decided_by=row["principal"] or "",
        comment=row["comment"] or "",
        edited=row["edited"] or "",
        parent=row["parent"] or "",
    )


def _entry(row: sqlite3.Row) -> Entry:
    body = row["body"]  # text, unless somebody has rebuilt the table
    return Entry(row["seq"], str(row["hash"]), body.encode() if isinstance(body, str) else b"")
