"""All interleavings of votes, expiry, withdrawal, revocation, restarts, clock jumps and uses: hypothesis looks for a bad
one.

Two connections to one file play two processes; a "restart" is a run whose process is gone. Two people of three must
approve on one route; on the other, who started the run may. What the store decides is compared with a second, simpler
account of who has voted what and when.
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

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person, Step
from humanlayer_agent.approvals.model import ApprovalRequest, Approver, Execution, Outcome, Permit, Run
from humanlayer_agent.errors import RunLost, StoreError
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.processes import identity as process
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST, answer
from tests.support import extent

LEGAL = {
    "pending": {"approved", "rejected", "answered", "expired", "withdrawn", "superseded", "terminated"},
    "approved": {"revoked", "lapsed", "invalidated"},
}
TIMEOUT, VALID_FOR, USE_BY = 10_000, 4_000, 2_000
ANN = Approver("os:1:ann", "terminal", "terminal")
BOB = Approver("slack:T/U", "slack", "chat")
CARL = Approver("email:carl@example.com", "email", "mail-link")
EVERYBODY = [ANN, BOB, CARL, replace(BOB, assurance="mail-reply"), Approver("os:9:eve", "terminal", "terminal")]
PEOPLE = (
    Person("ann", ("os:1",)),
    Person("bob", (BOB.principal,)),
    Person("carl", (CARL.principal, "slack:T/V")),
    Person("eve", ("os:9",)),
)
STEPS = (Step("terminal"), Step("slack", 3_000), Step("email", 20_000))
OUR_KEY, STRANGE_KEY = Signer(), Signer()


def team(*without: str) -> Authority:
    """The people who may decide, but for those who have left."""
    solo, two = (tuple(p for p in people if p not in without) for people in (("ann", "bob"), ("ann", "bob", "carl")))
    routes = {
        "solo": ApprovalRule("solo", solo, solo=True, steps=STEPS),
        "two": ApprovalRule("two", two, quorum=min(2, len(two)), steps=STEPS),
    }
    return Authority(PEOPLE, routes, frozenset((OUR_KEY.fingerprint,)))


def counts(authority: Authority, decision: PolicyDecision, who: Approver) -> bool:
    """Whether this person's answers count: said once more, in other words than the program's."""
    name = {"os:1:ann": "ann", "slack:T/U": "bob", "email:carl@example.com": "carl"}.get(who.principal, "")
    if name not in authority.routes[decision.route].approvers or (name == "ann" and decision.route == "two"):
        return False
    return {"medium": True, "high": who.assurance != "mail-reply", "critical": who is ANN}[decision.severity]


@dataclass
class Known:
    """What this test knows of a request without asking the store; `request` is as the process knows it that asks."""

    request: ApprovalRequest
    expires: int
    state: str = "pending"
    decided: int = 0
    votes: list[tuple[str, Approver, int, bool]] = field(default_factory=list)  # answer, who, when, with our key
    executions: int = 0
    permits: int = 0
    edited: str = ""
    child: str = ""


MEMORY = "/dev/shm"
"""Nobody pulls the plug here: the disk would only cost time."""
ANSWERS = st.sampled_from(
    ["vote approve bob", "vote approve carl", "vote approve ann", "everybody", "everybody", "one of two", "forge bob"]
)
TROUBLE = st.sampled_from(
    (
        *("vote reject carl", "vote respond bob", "vote escalate bob", "forge carl", "revoke ann", "revoke bob"),
        *("withdraw", "restart", "left", "left", "back"),
        *("clock 1", "clock 2000", "clock 4000", "clock -4000", "clock -3600000"),
    )
)
SCRIPTS = st.builds(
    lambda answers, before, between, after: [
        *answers,
        *before,
        "issue",
        *between,
        "consume",
        *after,
        "issue",
        "consume",
    ],
    st.lists(ANSWERS | TROUBLE, min_size=1, max_size=4),
    *[st.lists(TROUBLE | ANSWERS, max_size=2)] * 3,
)
"""What is answered, permitted and used, with something in between."""


class Approvals(RuleBasedStateMachine):
    requests: Bundle[str] = Bundle("requests")
    permits: Bundle[Permit] = Bundle("permits")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
        self.now = 1_700_000_000_000
        self.process = 1
        self.patches = pytest.MonkeyPatch()
        self.patches.setattr(process, "identity", lambda: f"boot:ns:{self.process}:0")
        self.patches.setattr(process, "lives", lambda identity: identity == process.identity())
        path = Path(self.folder.name) / "store.sqlite3"
        self.stores = [SQLiteStore(path, clock=lambda: self.now) for _ in range(2)]
        self.authority = team()
        self.known: dict[str, Known] = {}
        self.runs_open: set[str] = set()
        self.unfinished: set[str] = set()  # open, or terminated: of a process that is there
        self.lost: set[str] = set()
        self.started: dict[str, Permit] = {}
        self.running: set[str] = set()
        self.count = 0

    def teardown(self) -> None:
        for route in ("solo", "two"):
            self.all_goes_well(route)
        mine, theirs = (store.requests() for store in self.stores)
        assert mine == theirs
        found = self.stores[0].verify()
        assert found.intact, found
        for store in self.stores:
            store.close()
        self.patches.undo()
        self.folder.cleanup()

    # Agents

    @initialize(target=requests)
    def first_run(self) -> Any:
        self.open_run()
        return multiple(*(self.ask("first", route, "medium").id for route in ("solo", "two")))

    def open_run(self) -> None:
        self.run = f"run-{self.process}-{self.count}"
        self.count += 1
        self.stores[0].open_run(Run(self.run, "agent", "instance", ANN.principal))
        self.runs_open.add(self.run)
        self.unfinished.add(self.run)
        self.learn()

    @rule()
    def restart(self) -> None:
        """kill -9 and a new start."""
        self.process += 1
        self.running.clear()
        self.lost |= self.unfinished
        self.unfinished.clear()
        self.runs_open.clear()
        self.open_run()

    @rule()
    def end_run(self) -> None:
        self.stores[0].close_run(self.run, "finished")
        self.runs_open.discard(self.run)
        self.unfinished.discard(self.run)
        self.learn()
        self.open_run()

    @rule(
        target=requests,
        command=st.sampled_from(["a", "b"]),
        route=st.sampled_from(["solo", "two"]),
        severity=st.sampled_from(["medium", "medium", "high", "critical"]),
    )
    def create(self, command: str, route: str, severity: str) -> str:
        return self.ask(command, route, severity).id

    def ask(self, command: str, route: str, severity: str) -> ApprovalRequest:
        decision = PolicyDecision(Verdict.ASK, "test", "test", POLICY_DIGEST, route=route, severity=severity)
        draft = self.draft(Action(f"{command} {route} {severity}", cwd="/", run_id=self.run), decision)
        before = {key: known.state for key, known in self.known.items()}
        created = self.stores[0].create_request(draft, self.authority)
        assert created.digest == draft.digest
        if created.id in self.known:
            known = self.known[created.id]
            assert before[created.id] == "pending", "only a pending request is adopted"
            assert (known.request.digest, created.requester) == (draft.digest, ANN.principal)
            assert all(answer in ("approve", "escalate") and ours for answer, _, _, ours in known.votes)
            assert len(self.approving(created)) < self.authority.rule_for(decision).quorum
            known.request = created
        else:
            self.known[created.id] = Known(created, created.expires)
        self.learn()
        found = self.stores[1].get(created.id)
        assert found is not None
        assert found.state == "pending"
        return created

    def draft(self, action: Action, decision: PolicyDecision, key: str = "", parent: str = "") -> ApprovalRequest:
        self.count += 1
        digest = action.digest(POLICY_DIGEST)
        rule = self.authority.rule_for(decision)
        return ApprovalRequest(
            id=f"{self.count:032x}",
            idempotency_key=key or digest,
            digest=digest,
            body=action.body(POLICY_DIGEST),
            action=action,
            decision=decision,
            requester=ANN.principal,
            created=self.now,
            expires=self.now + TIMEOUT,
            valid_for=VALID_FOR,
            parent=parent,
            rule=rule,
            needed=rule.quorum,
        )

    @rule(target=requests, parent=requests, command=st.sampled_from(["right", "right", "another"]))
    def ask_about_the_edit(self, parent: str, command: str) -> Any:
        """The one child of an edited request, with what it was edited to; nothing else can be one."""
        known = self.known[parent]
        content = known.edited if command == "right" else "rm -rf /"
        action = replace(known.request.action, content=content, run_id=self.run_of(parent))
        draft = self.draft(action, known.request.decision, secrets.token_hex(32), parent)
        if action.run_id in self.lost:
            with pytest.raises(RunLost):
                self.stores[0].create_request(draft)
            return multiple()
        if known.state == "superseded" and not known.child and command == "right":
            known.child = self.stores[0].create_request(draft).id
            self.known[draft.id] = Known(draft, draft.expires)
            return draft.id
        with pytest.raises(StoreError):
            self.stores[0].create_request(draft)
        return multiple()

    # Humans

    @rule(
        request=requests,
        kind=st.sampled_from(["approve"] * 5 + ["reject", "respond", "edit", "edit", "escalate", "terminate"]),
        who=st.sampled_from(EVERYBODY),
        digest=st.sampled_from(["right", "right", "right", "right", "wrong"]),
        ours=st.sampled_from([True, True, True, False]),
        side=st.integers(0, 1),
        again=st.booleans(),
    )
    def vote(self, request: str, kind: Any, who: Approver, digest: str, ours: bool, side: int, again: bool) -> None:
        known = self.known[request]
        shown = known.request.digest if digest == "right" else "f" * 64
        edited = f"{known.request.action.content} edited" if kind == "edit" else ""
        given = answer(known.request, kind, "words", approver=who, presented_digest=shown, edited=edited)
        signer = OUR_KEY if ours else STRANGE_KEY  # another process, that trusts its own key
        authority = self.authority.trusting(signer.fingerprint)
        expected = self.expected(known, kind, who, digest)
        result = self.stores[side].decide(request, given, authority, signer)
        assert result.outcome == expected or (kind, result.code) == ("escalate", "nobody-further")
        if result.outcome == "recorded":
            known.votes.append((kind, who, self.now, ours))
            known.edited = edited
            people = {each.principal for answer, each, _, _ in known.votes if answer == "approve"}
            needed = max(known.request.needed, self.authority.rule_for(known.request.decision).quorum)
            assert result.missing == (max(0, needed - len(people)) if result.state == "pending" else 0)
            assert (result.state == "pending") == (kind == "escalate" or (kind == "approve" and len(people) < needed))
            known.decided = self.now if result.state != "pending" else 0
            if kind == "terminate":
                self.runs_open.discard(self.run_of(request))
        self.learn()
        if again:
            repeated = self.stores[1 - side].decide(request, given, authority, signer)
            assert repeated.outcome == {"recorded": "duplicate"}.get(result.outcome, result.outcome)
            self.learn()

    def expected(self, known: Known, kind: str, who: Approver, digest: str) -> str:
        if digest == "wrong" or not counts(self.authority, known.request.decision, who):
            return "refused"
        if known.state != "pending" or self.now >= known.expires:
            return "late"
        before = any(each.principal == who.principal and answer != "escalate" for answer, each, _, _ in known.votes)
        return "refused" if before and kind != "escalate" else "recorded"

    @rule(request=requests, who=st.sampled_from(EVERYBODY), side=st.integers(0, 1))
    def revoke(self, request: str, who: Approver, side: int) -> None:
        known = self.known[request]
        result = self.stores[side].revoke(
            request, answer(known.request, "revoke", approver=who), self.authority, OUR_KEY
        )
        if not counts(self.authority, known.request.decision, who):
            assert result.outcome == "refused"
        else:
            assert (result.outcome == "recorded") == (known.state == "approved" and not known.executions)
        if result.outcome == "recorded":
            known.votes.append(("revoke", who, self.now, True))
        self.learn()
        assert (known.state == "revoked") or result.outcome != "recorded"

    @rule(who=st.sampled_from(["bob", "carl"]))
    def somebody_leaves(self, who: str) -> None:
        """The configuration changes: their votes count no more, those that were given before neither."""
        self.authority = team(who)

    @rule()
    def everybody_is_back(self) -> None:
        self.authority = team()

    # The Gate

    @rule(request=requests, what=st.sampled_from(["expire", "withdraw"]))
    def give_up(self, request: str, what: Literal["expire", "withdraw"]) -> None:
        before = self.known[request].state
        store = self.stores[0]
        state = store.expire(request) if what == "expire" else store.withdraw(request, "test")
        assert state == ({"expire": "expired", "withdraw": "withdrawn"}[what] if before == "pending" else before)
        self.learn()

    @rule(request=requests)
    def stop(self, request: str) -> None:
        self.runs_open.discard(self.run_of(request))
        self.stores[0].terminate(request, "test")
        self.learn()

    @rule(target=permits, request=requests, side=st.integers(0, 1))
    def issue(self, request: str, side: int) -> Any:
        known = self.known[request]
        expected = not known.permits and self.is_approved(known)
        issued = self.stores[side].permit(known.request, self.authority, use_by_ms=USE_BY)
        assert isinstance(issued, Permit) == expected, issued
        self.learn()
        if not isinstance(issued, Permit):
            return multiple()
        known.permits += 1
        assert self.now < issued.use_by <= known.decided + VALID_FOR
        return issued

    @rule(target=permits)
    def allow(self) -> Permit:
        action = Action("allowed", cwd="/", run_id=self.run)
        decision = PolicyDecision(Verdict.ALLOW, "test", "test", POLICY_DIGEST)
        return self.stores[0].allow(action, decision, action.digest(POLICY_DIGEST), use_by_ms=USE_BY)

    @rule(target=permits, digest=st.sampled_from(["right", "right", "wrong"]), side=st.integers(0, 1))
    def admit(self, digest: str, side: int) -> Any:
        action = Action("admitted", cwd="/", run_id=self.run)
        decision = PolicyDecision(Verdict.ALLOW, "test", "test", POLICY_DIGEST)
        judged = action.digest(POLICY_DIGEST)
        about_to_run = judged if digest == "right" else "f" * 64
        result = self.stores[side].admit(
            action, decision, judged, about_to_run, use_by_ms=USE_BY, authority=self.authority
        )
        assert isinstance(result, Permit) == (digest == "right" and self.run in self.runs_open)
        if not isinstance(result, Permit):
            return multiple()
        self.started[result.id] = result
        self.running.add(result.id)
        return result

    @rule(permit=permits, digest=st.sampled_from(["right", "right", "right", "wrong"]), side=st.integers(0, 1))
    def consume(self, permit: Permit, digest: str, side: int) -> None:
        about_to_run = permit.digest if digest == "right" else "f" * 64
        approved = permit.request is None or self.is_approved(self.known[permit.request_id])
        result = self.stores[side].consume(permit, about_to_run, self.authority)
        if isinstance(result, Execution):
            assert permit.id not in self.started, "used twice"
            assert digest == "right"
            assert self.now < permit.use_by
            assert approved
            if permit.request is not None:
                known = self.known[permit.request_id]
                known.executions += 1
                assert known.executions == 1
                assert self.run_of(permit.request_id) in self.runs_open
            else:
                assert permit.action.run_id in self.runs_open
            self.started[permit.id] = permit
            self.running.add(permit.id)
        self.learn()
        if digest == "wrong":
            assert not isinstance(self.stores[side].consume(permit, permit.digest, self.authority), Execution)
            self.learn()

    @precondition(lambda self: self.started)
    @rule(permit=consumes(permits), code=st.sampled_from([0, 1, None]))
    def finish(self, permit: Permit, code: int | None) -> None:
        assert self.stores[0].finish(permit.id, Outcome(code)) == (permit.id in self.running)
        self.running.discard(permit.id)

    def all_goes_well(self, route: str) -> None:
        """Asked, approved by enough, permitted, run: whatever came before, what nothing is wrong with runs."""
        self.everybody_is_back()
        if self.run not in self.runs_open:
            self.open_run()
        request = self.ask(secrets.token_hex(4), route, "medium")
        for who in (BOB, CARL) if route == "two" else (ANN,):
            self.vote(request.id, "approve", who, "right", True, 0, False)
        permit = self.issue(request.id, 0)
        assert isinstance(permit, Permit)
        self.consume(permit, "right", 1)
        assert permit.id in self.started

    # All of it, about one request: what comes at random seldom meets

    def story(self, command: str, route: str, severity: str, script: list[str]) -> None:
        self.everybody_is_back()
        request = self.ask(command, route, severity).id
        permit: Permit | None = None
        for scene in script:
            match scene.split():
                case ["vote", kind, who]:
                    self.vote(request, kind, {"ann": ANN, "bob": BOB, "carl": CARL}[who], "right", True, 0, False)
                case ["everybody"]:
                    for voter in (BOB, CARL, ANN):
                        self.vote(request, "approve", voter, "right", True, 0, False)
                case ["one", "of", "two"]:
                    self.vote(request, "approve", BOB, "right", True, 0, False)
                    self.vote(request, "approve", CARL, "right", False, 0, False)
                case ["forge", who]:
                    self.vote(request, "approve", {"bob": BOB, "carl": CARL}[who], "right", False, 1, False)
                case ["issue"]:
                    issued = self.issue(request, 0)
                    permit = issued if isinstance(issued, Permit) else permit
                case ["consume"] if permit is not None:
                    self.consume(permit, "right", 1)
                case ["revoke", who]:
                    self.revoke(request, {"ann": ANN, "bob": BOB}[who], 1)
                case ["withdraw"]:
                    self.give_up(request, "withdraw")
                case ["restart"]:
                    self.restart()
                    request = self.ask(command, route, severity).id
                case ["left"]:
                    self.somebody_leaves("bob")
                case ["back"]:
                    self.everybody_is_back()
                case ["clock", ms]:
                    self.now += int(ms)

    about = rule(
        command=st.sampled_from(["c", "d"]),
        route=st.sampled_from(["solo", "two", "two"]),
        severity=st.sampled_from(["medium", "medium", "medium", "high", "critical"]),
        script=SCRIPTS,
    )
    one_story, another_story, a_third_story = about(story), about(story), about(story)

    # The world

    @rule(ms=st.sampled_from([1, 1_999, 2_000, 4_000, 10_000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(ms=st.sampled_from([-3_600_000, -4_000, 3_600_000]))
    def clock_jumps(self, ms: int) -> None:
        self.now += ms

    # What must hold, whatever happened

    def approving(self, request: ApprovalRequest) -> list[int]:
        """When each person approved whose approval counts now."""
        known = self.known[request.id]
        return [
            at
            for kind, who, at, ours in known.votes
            if kind == "approve"
            and ours
            and counts(self.authority, request.decision, who)
            and request.since <= at < request.expires
        ]

    def is_approved(self, known: Known) -> bool:
        """Whether this may be used now."""
        if known.state != "approved" or {kind for kind, *_ in known.votes} - {"approve", "escalate"}:
            return False
        moments = self.approving(known.request)
        if len(moments) < self.authority.rule_for(known.request.decision).quorum:
            return False
        last = max(moments)
        return last - VALID_FOR < self.now < last + VALID_FOR and self.now < known.decided + VALID_FOR

    def run_of(self, request_id: str) -> str:
        found = self.stores[0].get(request_id)
        assert found is not None
        return found.action.run_id

    def learn(self) -> None:
        """Follow the states of all requests: each step must be a legal one."""
        for request_id, state in states(self.stores[1]):
            known = self.known.get(request_id)
            if known is None or known.state == state:
                continue
            assert state in LEGAL.get(known.state, set()), f"{known.state} became {state}"
            known.state = state

    @invariant()
    def one_start_a_permit(self) -> None:
        started = [entry.event["permit"] for entry in self.stores[1].events(type="exec.started")]
        assert sorted(started) == sorted(self.started)

    @invariant()
    def both_processes_see_the_same(self) -> None:
        mine, theirs = (states(store) for store in self.stores)
        assert mine == theirs


def states(store: SQLiteStore) -> list[tuple[str, str]]:
    """What a store says of its requests, without reading them whole: this is asked after every step."""
    with store._database.read() as connection:
        rows = connection.execute("SELECT id, state FROM request ORDER BY created, rowid").fetchall()
    return [(row["id"], row["state"]) for row in rows]


TestApprovals = Approvals.TestCase
TestApprovals.settings = settings(
    max_examples=int(os.environ.get("HLA_HISTORIES", extent.some(300, 15, soak=2000))),
    stateful_step_count=25,
    suppress_health_check=list(HealthCheck),
)
if extent.SOAK:
    pytestmark = pytest.mark.timeout(7_200)


def quick() -> settings:
    """As many histories as it takes: the first that shows the mistake ends it."""
    return settings(
        TestApprovals.settings,
        max_examples=10_000,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        print_blob=False,
    )


@pytest.mark.long
def test_the_machine_notices_a_store_that_uses_permits_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that we know it can fail: a store that hands out a second execution."""
    consume = SQLiteStore.consume

    def twice(self: SQLiteStore, permit: Permit, digest: str, authority: Authority) -> Any:
        result = consume(self, permit, digest, authority)
        return result if isinstance(result, Execution) else Execution(permit.id, digest, 0)

    monkeypatch.setattr(SQLiteStore, "consume", twice)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Approvals, settings=quick())


@pytest.mark.long
def test_the_machine_notices_a_key_that_is_trusted_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that takes a signature of anybody for that of a signer."""
    permit = SQLiteStore.permit

    def trusting(self: SQLiteStore, request: ApprovalRequest, authority: Authority, *, use_by_ms: int) -> Any:
        return permit(self, request, authority.trusting(STRANGE_KEY.fingerprint), use_by_ms=use_by_ms)

    monkeypatch.setattr(SQLiteStore, "permit", trusting)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Approvals, settings=quick())
