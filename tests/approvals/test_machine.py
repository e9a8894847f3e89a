"""All interleavings of votes, expiry, withdrawal, restarts, clock jumps and uses: hypothesis looks for a bad one.

Two connections to one file play two processes; a "restart" is a run whose process is gone.
"""

import os
import secrets
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from humanlayer_agent.actions import Action
from humanlayer_agent.approvals import process
from humanlayer_agent.approvals.model import ApprovalRequest, Approver, Execution, Outcome, Permit, Run
from humanlayer_agent.approvals.sqlite import SQLiteStore
from humanlayer_agent.errors import StoreError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.testing.approvers import POLICY_DIGEST, answer

LEGAL = {
    "pending": {"approved", "rejected", "expired", "withdrawn", "superseded", "terminated"},
    "approved": {"lapsed", "invalidated"},
}
TIMEOUT, VALID_FOR, USE_BY = 10_000, 4_000, 2_000
DECISION = PolicyDecision(Verdict.ASK, "test", "test", POLICY_DIGEST)
APPROVERS = [Approver("os:1:ann", "terminal", "terminal"), Approver("slack:T/U", "slack", "chat")]


@dataclass
class Known:
    """What this test knows of a request without asking the store."""

    digest: str
    created: int
    state: str = "pending"
    approved_at: int = 0
    voted: set[str] = field(default_factory=set)
    executions: int = 0
    edited: str = ""
    child: str = ""


class Approvals(RuleBasedStateMachine):
    requests: Bundle[ApprovalRequest] = Bundle("requests")
    permits: Bundle[Permit] = Bundle("permits")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.now = 1_700_000_000_000
        self.process = 1
        self.patches = pytest.MonkeyPatch()
        self.patches.setattr(process, "identity", lambda: f"boot:ns:{self.process}:0")
        self.patches.setattr(process, "is_gone", lambda identity: identity != process.identity())
        path = Path(self.folder.name) / "store.sqlite3"
        self.stores = [SQLiteStore(path, clock=lambda: self.now) for _ in range(2)]
        self.known: dict[str, Known] = {}
        self.runs_open: set[str] = set()
        self.started: dict[str, Permit] = {}
        self.running: set[str] = set()
        self.count = 0

    def teardown(self) -> None:
        found = self.stores[0].verify()
        assert found.intact, found
        for store in self.stores:
            store.close()
        self.patches.undo()
        self.folder.cleanup()

    # Agents

    @initialize()
    def first_run(self) -> None:
        self.open_run()

    def open_run(self) -> None:
        self.run = f"run-{self.process}-{self.count}"
        self.count += 1
        self.stores[0].open_run(Run(self.run, "agent", "instance", "os:1:ann"))
        self.runs_open.add(self.run)
        self.learn()

    @rule()
    def restart(self) -> None:
        """kill -9 and a new start."""
        self.process += 1
        self.running.clear()
        self.runs_open.clear()
        self.open_run()

    @rule()
    def end_run(self) -> None:
        self.stores[0].close_run(self.run, "finished")
        self.runs_open.discard(self.run)
        self.learn()
        self.open_run()

    @rule(target=requests, command=st.sampled_from(["a", "b"]))
    def create(self, command: str) -> Any:
        draft = self.draft(Action(command, cwd="/", run_id=self.run))
        digest = draft.digest
        before = {key for key, known in self.known.items() if known.state == "pending" and known.digest == digest}
        created = self.stores[0].create_request(draft)
        assert created.digest == digest
        if created.id in self.known:
            assert created.id in before, "only a pending request is adopted"
        else:
            self.known[created.id] = Known(digest, self.now)
        self.learn()
        found = self.stores[1].get(created.id)
        assert found is not None
        assert found.state == "pending"
        return created

    def draft(self, action: Action, key: str = "", parent: str = "") -> ApprovalRequest:
        self.count += 1
        digest = action.digest(POLICY_DIGEST)
        return ApprovalRequest(
            id=f"{self.count:032x}",
            idempotency_key=key or digest,
            digest=digest,
            body=action.body(POLICY_DIGEST),
            action=action,
            decision=DECISION,
            requester="os:1:ann",
            created=self.now,
            expires=self.now + TIMEOUT,
            valid_for=VALID_FOR,
            parent=parent,
        )

    @rule(target=requests, parent=requests, command=st.sampled_from(["right", "right", "another"]))
    def ask_about_the_edit(self, parent: ApprovalRequest, command: str) -> Any:
        """The one child of an edited request, with what it was edited to; nothing else can be one."""
        known = self.known[parent.id]
        run = self.run_of(parent.id)
        content = known.edited if command == "right" else "rm -rf /"
        draft = self.draft(replace(parent.action, content=content, run_id=run), secrets.token_hex(32), parent.id)
        if known.state == "superseded" and not known.child and command == "right":
            known.child = self.stores[0].create_request(draft).id
            self.known[draft.id] = Known(draft.digest, self.now)
            return draft
        with pytest.raises(StoreError):
            self.stores[0].create_request(draft)
        return multiple()

    # Humans

    @rule(
        request=requests,
        kind=st.sampled_from(["approve", "approve", "approve", "reject", "edit", "edit", "terminate"]),
        who=st.sampled_from(APPROVERS),
        digest=st.sampled_from(["right", "right", "right", "wrong"]),
        side=st.integers(0, 1),
        again=st.booleans(),
    )
    def vote(self, request: ApprovalRequest, kind: Any, who: Approver, digest: str, side: int, again: bool) -> None:
        known = self.known[request.id]
        shown = request.digest if digest == "right" else "f" * 64
        edited = f"{request.action.content} edited" if kind == "edit" else ""
        given = answer(request, kind, approver=who, presented_digest=shown, edited=edited)
        result = self.stores[side].decide(request.id, given)
        in_time = known.state == "pending" and self.now < known.created + TIMEOUT
        if digest == "wrong":
            assert result.outcome == "refused"
        else:
            assert result.outcome == ("recorded" if in_time else "late")
        if result.outcome == "recorded":
            known.voted.add(kind)
            if kind == "approve":
                known.approved_at = self.now
            known.edited = edited
            if kind == "terminate":
                self.runs_open.discard(self.run_of(request.id))
        self.learn()
        if again:
            repeated = self.stores[1 - side].decide(request.id, given)
            expected = {"recorded": "duplicate"}.get(result.outcome, result.outcome)
            assert repeated.outcome == expected
            self.learn()

    # The Gate

    @rule(request=requests, what=st.sampled_from(["expire", "withdraw"]))
    def give_up(self, request: ApprovalRequest, what: Literal["expire", "withdraw"]) -> None:
        before = self.known[request.id].state
        store = self.stores[0]
        state = store.expire(request.id) if what == "expire" else store.withdraw(request.id, "test")
        assert state == ({"expire": "expired", "withdraw": "withdrawn"}[what] if before == "pending" else before)
        self.learn()

    @rule(request=requests)
    def stop(self, request: ApprovalRequest) -> None:
        self.runs_open.discard(self.run_of(request.id))
        self.stores[0].terminate(request.id, "test")
        self.learn()

    @rule(target=permits, request=requests, side=st.integers(0, 1))
    def issue(self, request: ApprovalRequest, side: int) -> Any:
        known = self.known[request.id]
        issued = self.stores[side].permit(request.id, request.action, request.decision, use_by_ms=USE_BY)
        if isinstance(issued, Permit):
            assert known.voted == {"approve"}
            assert known.state == "approved"
            assert self.now < known.approved_at + VALID_FOR
            assert issued.use_by <= known.approved_at + VALID_FOR
        self.learn()
        return issued if isinstance(issued, Permit) else multiple()

    @rule(target=permits)
    def allow(self) -> Permit:
        action = Action("allowed", cwd="/", run_id=self.run)
        return self.stores[0].allow(action, DECISION, action.digest(POLICY_DIGEST), use_by_ms=USE_BY)

    @rule(permit=permits, digest=st.sampled_from(["right", "right", "right", "wrong"]), side=st.integers(0, 1))
    def consume(self, permit: Permit, digest: str, side: int) -> None:
        about_to_run = permit.digest if digest == "right" else "f" * 64
        result = self.stores[side].consume(permit.id, about_to_run)
        if isinstance(result, Execution):
            assert permit.id not in self.started, "used twice"
            assert digest == "right"
            assert self.now < permit.use_by
            if permit.request_id:
                known = self.known[permit.request_id]
                assert (known.voted, known.state, known.executions) == ({"approve"}, "approved", 0)
                assert self.now < known.approved_at + VALID_FOR
                known.executions += 1
                assert self.run_of(permit.request_id) in self.runs_open
            else:
                assert permit.action.run_id in self.runs_open
            self.started[permit.id] = permit
            self.running.add(permit.id)
        self.learn()
        if digest == "wrong":
            assert not isinstance(self.stores[side].consume(permit.id, permit.digest), Execution)
            self.learn()

    @precondition(lambda self: self.started)
    @rule(permit=consumes(permits), code=st.sampled_from([0, 1, None]))
    def finish(self, permit: Permit, code: int | None) -> None:
        assert self.stores[0].finish(permit.id, Outcome(code)) == (permit.id in self.running)
        self.running.discard(permit.id)

    # The world

    @rule(ms=st.sampled_from([1, 1_999, 2_000, 4_000, 10_000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(ms=st.sampled_from([-3_600_000, -4_000, 3_600_000]))
    def clock_jumps(self, ms: int) -> None:
        self.now += ms

    # What must hold, whatever happened

    def run_of(self, request_id: str) -> str:
        found = self.stores[0].get(request_id)
        assert found is not None
        return found.action.run_id

    def learn(self) -> None:
        """Follow the states of all requests: each step must be a legal one."""
        for request in self.stores[1].requests():
            known = self.known.get(request.id)
            if known is None or known.state == request.state:
                continue
            assert request.state in LEGAL.get(known.state, set()), f"{known.state} became {request.state}"
            known.state = request.state

    @invariant()
    def one_start_a_permit(self) -> None:
        started = [entry.event["permit"] for entry in self.stores[1].events(type="exec.started")]
        assert sorted(started) == sorted(self.started)

    @invariant()
    def both_processes_see_the_same(self) -> None:
        mine, theirs = (
            [(request.id, request.state, request.decided_by) for request in store.requests()] for store in self.stores
        )
        assert mine == theirs


TestApprovals = Approvals.TestCase
TestApprovals.settings = settings(
    max_examples=int(os.environ.get("HLA_HISTORIES", "300")),  # more for a soak
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_the_machine_notices_a_store_that_uses_permits_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that we know it can fail: a store that hands out a second execution."""
    consume = SQLiteStore.consume

    def twice(self: SQLiteStore, permit_id: str, digest: str) -> Any:
        result = consume(self, permit_id, digest)
        return result if isinstance(result, Execution) else Execution(permit_id, digest, 0)

    monkeypatch.setattr(SQLiteStore, "consume", twice)
    quick = settings(
        TestApprovals.settings, database=None, phases=[Phase.generate], report_multiple_bugs=False, print_blob=False
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Approvals, settings=quick)
