"""What nobody waits for: submitted by one run, answered by whoever, collected by the same run or by a later one."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from humanlayer_agent.action import Action, called
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Approver, Denial, Outcome, Permit, Waiting
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.store import heartbeats
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedApprovers, ScriptedAsker, ScriptedDirector, answer
from tests.approvals.conftest import Clock
from tests.support import children, extent
from tests.support.forging import forging

STORES = ("sqlite", "postgres")

Make = Callable[..., Gate]
Act = Callable[..., Action]
ANN = Approver("app:ann", "application", "login")
BOB = Approver("slack:T1/U2", "script", "chat")
RULE = {"timeout_ms": 600_000, "valid_for_ms": 300_000}
PEOPLE = Authority(
    (
        *(Person("alice", ("os:1000:alice",)), Person("ann", ("app:ann",)), Person("bob", ("slack:T1/U2",))),
        Person("eve", ("app:eve",)),
    ),
    {"default": ApprovalRule("default", ("ann", "bob"), **RULE)},  # type: ignore[arg-type]
)
TEAM = ScriptedApprovers(PEOPLE)


@pytest.fixture
def durable(make_gate: Make) -> Make:
    """A durable Gate of one more run of the same agent."""
    runs = iter(range(1, 100))

    def make(**fields: Any) -> Gate:
        given = {
            "run_id": f"run-{next(runs)}", "durable": True, "authority": PEOPLE, "requester": "os:1000:alice",
            "instance": "app",
        }  # fmt: skip
        return make_gate(**given | fields)

    return make


class Severe(ScriptedDirector):
    """Asks about everything, with a severity."""

    def __init__(self, severity: str) -> None:
        super().__init__({"ask": Verdict.ASK})
        self.severity = severity

    def evaluate(self, action: Action) -> PolicyDecision:
        return replace(super().evaluate(action), severity=self.severity)


def submitted(gate: Gate, action: Action, **fields: str) -> Waiting:
    asked = gate.submit(action, **fields)
    assert isinstance(asked, Waiting), asked
    return asked


def approve(store: SQLiteStore, asked: Waiting, kind: Any = "approve", comment: str = "") -> None:
    assert TEAM.vote(store, asked.request, kind, ANN, comment).outcome == "recorded"


def used(gate: Gate, permit: Permit | Denial | Waiting) -> str:
    assert isinstance(permit, Permit), permit
    if denial := gate.start(permit, permit.action):
        return denial.reason
    gate.finish(permit, Outcome(0))
    return ""


def why(denial: Permit | Denial | Waiting) -> str:
    assert isinstance(denial, Denial), denial
    return denial.reason


# One run


def test_what_the_policy_decides_is_decided_at_once(durable: Make, act: Act) -> None:
    gate = durable()
    assert used(gate, gate.submit(act("ls"))) == ""
    assert "rm" in why(gate.submit(act("rm")))
    assert gate.store.requests() == []


def test_nobody_waits(durable: Make, act: Act, store: SQLiteStore) -> None:
    gate = durable(script=[AssertionError("the human here is asked")])
    asked = submitted(gate, act("ask"))
    assert gate.collect(asked.id) == asked
    approve(store, asked)
    assert used(gate, gate.collect(asked.id)) == ""
    assert why(gate.collect(asked.id)) == "the approval was already used"
    assert store.verify().intact


def test_an_answer_is_given_out_once(durable: Make, act: Act, store: SQLiteStore) -> None:
    gate = durable()
    asked = submitted(gate, act("ask"))
    approve(store, asked)
    assert isinstance(gate.collect(asked.id), Permit)
    assert why(gate.collect(asked.id)) == "the approval was already used"


@pytest.mark.parametrize(
    ("kind", "comment", "said"),
    [("reject", "the wrong bucket", "rejected by app:ann"), ("respond", "use staging", "answered in words by app:ann")],
)
def test_a_no_comes_with_its_words(
    durable: Make, act: Act, store: SQLiteStore, kind: str, comment: str, said: str
) -> None:
    gate = durable()
    asked = submitted(gate, act("ask"))
    approve(store, asked, kind, comment)
    denial = gate.collect(asked.id)
    assert (why(denial), denial.comment, denial.by) == (said, comment, "human")  # type: ignore[union-attr]
    assert why(gate.submit(act("ask"))) == said, "the same is not asked about again"


def test_a_changed_command_is_proposed_anew(durable: Make, act: Act, store: SQLiteStore) -> None:
    gate = durable()
    asked = submitted(gate, act("ask"))
    assert TEAM.vote(store, asked.request, "edit", ANN, edited="ls").outcome == "recorded"
    denial = gate.collect(asked.id)
    assert why(denial) == "changed by app:ann, and to be proposed as it is now"
    assert denial.edited == "ls"  # type: ignore[union-attr]


def test_nobody_answers_in_time(durable: Make, act: Act, clock: Clock) -> None:
    gate = durable()
    asked = submitted(gate, act("ask"))
    clock.pass_ms(600_000)
    assert "nobody answered within 600 s" in why(gate.collect(asked.id))


def test_an_approval_lapses(durable: Make, act: Act, store: SQLiteStore, clock: Clock) -> None:
    gate = durable()
    asked = submitted(gate, act("ask"))
    approve(store, asked)
    clock.pass_ms(300_000)
    assert "not used in time" in why(gate.collect(asked.id))


def test_a_stopped_run_collects_nothing(durable: Make, act: Act, store: SQLiteStore) -> None:
    gate = durable()
    asked = submitted(gate, act("ask"))
    approve(store, asked)
    gate.stop("enough")
    assert why(gate.collect(asked.id)) in ("enough", "the request is lapsed")
    assert isinstance(durable().collect(asked.id), Denial)


def test_nothing_is_collected_while_every_agent_is_stopped(durable: Make, act: Act, store: SQLiteStore) -> None:
    gate = durable()
    asked = submitted(gate, act("ask"))
    approve(store, asked)
    store.halts.stop("os:1:bob")
    denial = gate.collect(asked.id)
    assert isinstance(denial, Denial)
    assert denial.halted


def test_a_plan_is_no_action(durable: Make, act: Act) -> None:
    assert "never runs" in why(durable().submit(act("ask", type="plan")))


# A wish with a name


def test_the_same_wish_is_asked_about_once(durable: Make, act: Act, store: SQLiteStore) -> None:
    first = durable()
    asked = submitted(first, act("ask"), key="call-1")
    assert submitted(first, act("ask"), key="call-1").id == asked.id
    assert submitted(first, act("ask"), key="call-2").id != asked.id
    first.close()
    later = durable()
    assert submitted(later, act("ask"), key="call-1").id == asked.id
    approve(store, asked)
    assert used(later, later.submit(act("ask"), key="call-1")) == ""
    assert why(later.submit(act("ask"), key="call-1")) == "the approval was already used"
    assert len(store.requests()) == 2
    assert store.verify().intact


def test_another_call_by_the_same_name_is_another_wish(durable: Make, act: Act) -> None:
    gate = durable()
    first = submitted(gate, act("ask"), key="call-1")
    assert submitted(gate, act("ask", cwd="/tmp"), key="call-1").id != first.id


# A later run


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_later_run_collects(durable: Make, act: Act, store: SQLiteStore, when: str) -> None:
    """Whether the human answers while nobody is there, or once the later run is."""
    first = durable()
    asked = submitted(first, act("ask"))
    first.close()
    if when == "before":
        approve(store, asked)
    later = durable()
    if when == "after":
        assert later.collect(asked.id) == asked
        approve(store, asked)
    assert used(later, later.collect(asked.id)) == ""
    assert why(durable().collect(asked.id)) in (
        "another process of this agent waits for the answer", "the approval was already used",
    )  # fmt: skip
    assert store.verify().intact


def test_a_permit_does_not_outlive_its_run(durable: Make, act: Act, store: SQLiteStore) -> None:
    """It was given out, and nobody knows whether it was used: the human is asked again."""
    first = durable()
    asked = submitted(first, act("ask"))
    approve(store, asked)
    assert isinstance(first.collect(asked.id), Permit)
    first.close()
    assert why(durable().collect(asked.id)) == "the request is lapsed"


def test_what_is_asked_by_a_run_that_is_not_durable_ends_with_it(durable: Make, act: Act, store: SQLiteStore) -> None:
    first = durable(durable=False)
    asked = submitted(first, act("ask"))
    first.close()
    assert [each.state for each in store.requests()] == ["withdrawn"]
    assert "not durable" in why(durable().collect(asked.id))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"agent": "another"}, "have asked nothing of that name"),
        ({"instance": "another"}, "have asked nothing of that name"),
        ({"requester": "os:1000:bob"}, "have asked nothing of that name"),
        ({"director": ScriptedDirector({"ask": Verdict.DENY})}, "ask: deny"),
        ({"director": ScriptedDirector()}, "does not ask about it any more"),
    ],
)
def test_it_is_nobody_elses(durable: Make, act: Act, store: SQLiteStore, other: dict[str, Any], said: str) -> None:
    first = durable()
    asked = submitted(first, act("ask"))
    approve(store, asked)
    first.close()
    people = replace(PEOPLE, people=(*PEOPLE.people, Person("other", ("os:1000:bob",))))
    assert said in why(durable(authority=people, **other).collect(asked.id))
    own = durable()
    assert used(own, own.collect(asked.id)) == "", "and it is still there for whom it was"


def test_a_live_process_keeps_its_requests(durable: Make, act: Act) -> None:
    first = durable()
    asked = submitted(first, act("ask"))
    assert why(durable().collect(asked.id)) == "another process of this agent waits for the answer"
    assert first.collect(asked.id) == asked


def test_a_link_that_leads_elsewhere_was_not_approved(
    durable: Make, act: Act, store: SQLiteStore, tmp_path: Path
) -> None:
    """The text is the same, and so is its digest."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "here").symlink_to("one")
    first = durable()
    asked = submitted(first, act("ask", cwd=str(tmp_path / "here")))
    approve(store, asked)
    first.close()
    (tmp_path / "here").unlink()
    (tmp_path / "here").symlink_to("other")
    assert "where a path leads is another" in why(durable().collect(asked.id))


def test_variables_have_to_be_given_again(durable: Make, act: Act, store: SQLiteStore) -> None:
    first = durable()
    asked = submitted(first, act("ask", env={"A": "1"}))
    approve(store, asked)
    first.close()
    assert "have asked nothing of that name" in why(durable().collect(asked.id))
    assert "have asked nothing of that name" in why(durable().collect(asked.id, act("ask", env={"A": "2"})))
    gate = durable()
    assert used(gate, gate.collect(asked.id, act("ask", env={"A": "1"}))) == ""


def test_nothing_is_called_so(durable: Make) -> None:
    assert why(durable().collect("0" * 32)) == f"there is no request called {'0' * 32}"


CHILD = """
import sys
from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedDirector
from tests.approvals.test_durable import PEOPLE

gate = Gate(
    ScriptedDirector({"ask": Verdict.ASK}), SQLiteStore(sys.argv[1]), None, agent="agent", authority=PEOPLE,
    requester="os:1000:alice", instance="app", durable=sys.argv[2] == "durable",
)
print(gate.submit(Action("ask", cwd="/", project="/")).id, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["durable", "fleeting"])
def test_killed(path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays where the run was durable, and is withdrawn where it was not."""
    child = children.Popen(
        [sys.executable, "-c", CHILD, str(path), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    request_id = child.stdout.readline().strip()
    child.kill()
    child.communicate()
    store = SQLiteStore(path)
    store.reconcile()
    monkeypatch.setattr(heartbeats, "LEFT_MS", 0)
    store.reconcile()
    (request,) = store.requests()
    assert request.id == request_id
    assert (request.state, request.ending) == (("pending",) * 2 if kind == "durable" else ("withdrawn", "abandoned"))
    if kind == "durable":
        gate = Gate(
            ScriptedDirector({"ask": Verdict.ASK}), store, None, agent="agent", authority=PEOPLE,
            requester="os:1000:alice", instance="app", durable=True,
        )  # fmt: skip
        assert gate.answer(request_id, "approve", by="app:ann", assurance="login").code == "untrusted-signer"
        assert isinstance(gate.collect(request_id), Waiting), "it is this run's from now on"
        assert gate.answer(request_id, "approve", by="app:ann", assurance="login").outcome == "recorded"
        assert used(gate, gate.collect(request_id)) == ""
        gate.close()
    assert store.verify().intact


# Forged


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE request SET action = json_set(action, '$.content', 'ls')",
        "UPDATE request SET decision = json_set(decision, '$.reason', 'another')",
        "UPDATE request SET state = 'approved', decided = created + 1",
        "UPDATE request SET kept = 1",
        "UPDATE run SET instance = 'app'",
    ],
)
def test_rows_are_not_believed(durable: Make, act: Act, store: SQLiteStore, path: Path, statement: str) -> None:
    """Whoever can write the file makes no approval of it, and takes none of another's."""
    about = {"durable": False} if "kept" in statement else {"instance": "b"} if "instance" in statement else {}
    first = durable(**about)
    asked = submitted(first, act("ask"))
    first.close()
    with forging(path) as raw:
        raw.execute(statement)
    assert isinstance(durable().collect(asked.id), Denial | Waiting)
    assert not list(store.events(type="permit.consumed"))
    assert not store.verify().intact


@pytest.mark.parametrize(
    ("about", "statement"),
    [
        ({"instance": "b"}, "UPDATE run SET instance = 'app'"),
        ({"agent": "b"}, "UPDATE run SET agent = 'agent'"),
        ({"requester": "os:1000:bob"}, "UPDATE request SET requester = 'os:1000:alice'"),
        ({"durable": False}, "UPDATE request SET kept = 1"),
    ],
)
def test_an_approval_is_not_made_anothers(
    durable: Make, act: Act, store: SQLiteStore, path: Path, about: dict[str, Any], statement: str
) -> None:
    """Its id says whose it is, and the vote has signed that."""
    people = replace(PEOPLE, people=(*PEOPLE.people, Person("other", ("os:1000:bob",))))
    first = durable(authority=people, **about)
    asked = submitted(first, act("ask"))
    assert ScriptedApprovers(people).vote(store, asked.request, "approve", ANN).outcome == "recorded"
    with forging(path) as raw:
        raw.execute(statement)
    first.close()
    later = durable(authority=people)
    answered = later.collect(asked.id)
    assert isinstance(answered, Denial), answered
    assert not list(store.events(type="permit.consumed"))


def test_an_approval_that_was_made_unused_is_not_given_out_again(
    durable: Make, act: Act, store: SQLiteStore, path: Path
) -> None:
    gate = durable()
    asked = submitted(gate, act("ask"))
    approve(store, asked)
    assert used(gate, gate.collect(asked.id)) == ""
    with forging(path) as raw:
        for table in ("execution", "permit"):
            raw.execute(f"DELETE FROM {table}")
        raw.execute("DELETE FROM audit_event WHERE type IN ('permit.consumed', 'exec.started', 'exec.finished')")
        raw.execute("UPDATE request SET used = 0")
    assert isinstance(gate.collect(asked.id), Denial)
    assert isinstance(durable().collect(asked.id), Denial), "nor to another Gate of this process"


# Answers that the embedding program brings


def test_the_program_brings_the_answer(durable: Make, act: Act, store: SQLiteStore) -> None:
    gate = durable()
    asked = submitted(gate, act("ask"))
    result = gate.answer(asked.id, "approve", by="app:ann", assurance="login", words="go on")
    assert (result.outcome, result.state) == ("recorded", "approved")
    permit = gate.collect(asked.id)
    assert isinstance(permit, Permit)
    assert (permit.approved_by, permit.comment) == ("app:ann", "go on")
    (vote,) = store.votes(asked.id)
    assert (vote.approver.channel, vote.approver.assurance, vote.person) == ("application", "login", "ann")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"by": "app:mallory"}, "unknown-identity"),
        ({"by": "app:eve"}, "not-an-approver"),
        ({"by": "app:ann", "assurance": "os", "severity": "high"}, "low-assurance"),
        ({"by": "app:ann", "digest": "0" * 64}, "wrong-digest"),
    ],
)
def test_who_may_not_answer(durable: Make, act: Act, fields: dict[str, str], code: str) -> None:
    fields = dict(fields)
    severity = fields.pop("severity", "medium")
    gate = durable(director=Severe(severity))
    asked = submitted(gate, act("ask"))
    result = gate.answer(asked.id, "approve", **fields)
    assert (result.outcome, result.code) == ("refused", code)
    assert gate.collect(asked.id) == asked


@pytest.mark.parametrize(
    "fields", [{"by": "os:1000:alice"}, {"by": "app:"}, {"by": ""}, {"by": "app:ann", "assurance": "terminal"}]
)
def test_who_is_no_user_of_a_program(durable: Make, act: Act, fields: dict[str, str]) -> None:
    gate = durable()
    asked = submitted(gate, act("ask"))
    with pytest.raises(ConfigError):
        gate.answer(asked.id, "approve", **fields)


def test_the_call_of_a_tool_is_not_edited(durable: Make, store: SQLiteStore) -> None:
    """Whatever channel brings it: what would be judged anew is a text, and what would run is the call."""
    gate = durable()
    asked = submitted(gate, called("ask", {"amount": 300}, cwd="/", project="/"))
    result = TEAM.vote(store, asked.request, "edit", ANN, edited='ask({"amount": 100})')
    assert (result.outcome, result.code) == ("refused", "no-such-answer")
    assert gate.collect(asked.id) == asked


# Stopped


def test_who_ends_a_run_ends_what_earlier_ones_have_left(durable: Make, act: Act, store: SQLiteStore) -> None:
    first = durable()
    asked = [submitted(first, act(f"ask {name}")) for name in "abc"]
    first.close()
    approve(store, asked[0])
    approve(store, asked[1], "terminate")
    later = durable()
    for each in asked:
        assert isinstance(later.collect(each.id), Denial)
    assert store.verify().intact


def test_a_stopped_run_leaves_nothing(durable: Make, act: Act, store: SQLiteStore) -> None:
    first = durable()
    older = submitted(first, act("ask a"))
    approve(store, older)
    first.close()
    second = durable()
    asked = submitted(second, act("ask b"))
    approve(store, asked)
    second._asking.stop(Denial("enough", by="policy", terminate=True))  # which could not be written
    second.close()
    third = durable()
    assert isinstance(third.collect(asked.id), Denial)
    assert isinstance(third.collect(older.id), Denial)


def test_asking_again_and_again_ends_no_run(durable: Make, act: Act, store: SQLiteStore) -> None:
    gate = durable(max_denials=5)
    asked, other = submitted(gate, act("ask a")), submitted(gate, act("ask b"))
    approve(store, asked, "reject", "no")
    for _ in range(10):
        assert isinstance(gate.collect(asked.id), Denial)
        assert isinstance(gate.collect("0" * 32), Denial)
    assert gate.collect(other.id) == other


# Wishes that led to nothing


def test_a_wish_that_nobody_answered_is_asked_about_anew(
    durable: Make, act: Act, store: SQLiteStore, clock: Clock
) -> None:
    gate = durable()
    asked = submitted(gate, act("ask"), key="1")
    clock.pass_ms(600_000)
    assert isinstance(gate.collect(asked.id), Denial)
    again = submitted(gate, act("ask"), key="1")
    assert again.id != asked.id
    approve(store, again)
    assert used(gate, gate.submit(act("ask"), key="1")) == ""


def test_a_wish_whose_permit_was_lost_is_asked_about_anew(durable: Make, act: Act, store: SQLiteStore) -> None:
    first = durable()
    asked = submitted(first, act("ask"), key="1")
    approve(store, asked)
    assert isinstance(first.collect(asked.id), Permit)
    first.close()
    later = durable()
    assert submitted(later, act("ask"), key="1").id != asked.id


def test_a_wish_stays_one_where_it_is_remembered(durable: Make, act: Act, store: SQLiteStore) -> None:
    """A human approved it and more of the kind: this one runs by their approval, and once."""
    gate = durable()
    asked = submitted(gate, act("ask"), key="1")
    assert TEAM.vote(store, asked.request, "approve", ANN, scope="action").outcome == "recorded"
    assert used(gate, gate.submit(act("ask"), key="1")) == ""
    assert why(gate.submit(act("ask"), key="1")) == "the approval was already used"


def test_a_check_and_a_submission_are_two(durable: Make, act: Act, store: SQLiteStore) -> None:
    """Nobody waits for a submission, and somebody for a check: neither takes over the other's."""
    first = durable()
    asked = submitted(first, act("ask"))
    first.close()
    script = [lambda request: None if request.id == asked.id else answer(request, "approve", approver=BOB)]
    gate = durable(asker=ScriptedAsker(script, approver=BOB))
    assert isinstance(gate.check(act("ask")), Permit)
    assert gate.collect(asked.id) == asked


def test_what_is_durable_needs_an_instance(durable: Make) -> None:
    with pytest.raises(ConfigError, match="name the instance"):
        durable(instance="")


# Histories


class Histories(RuleBasedStateMachine):
    """Whatever is done in whatever order: what runs was approved, and once."""

    gate: Gate

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.clock = Clock()
        self.store = SQLiteStore(Path(self.folder.name) / "store.sqlite3", clock=self.clock)
        self.approved: set[str] = set()
        self.started: list[str] = []
        self.asked: list[Waiting] = []
        self.permits: list[Permit] = []
        self.runs = 0
        self.restart()

    @rule()
    def restart(self) -> None:
        if self.runs:
            self.gate.close()
        self.runs += 1
        self.gate = Gate(
            ScriptedDirector({"ask": Verdict.ASK}), self.store, None, run_id=f"run-{self.runs}", agent="agent",
            authority=PEOPLE, requester="os:1000:alice", instance="app", durable=True, clock=self.clock,
            monotonic=self.clock.seconds, max_denials=0,
        )  # fmt: skip

    @rule(command=st.sampled_from(["ask a", "ask b"]), key=st.sampled_from(["", "1", "2"]))
    def submit(self, command: str, key: str) -> None:
        answered = self.gate.submit(Action(command, cwd="/", project="/"), key=key)
        if isinstance(answered, Waiting):
            self.asked.append(answered)
        elif isinstance(answered, Permit):
            self.permits.append(answered)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), kind=st.sampled_from(["approve", "approve", "reject", "edit"]))
    def answer(self, data: st.DataObject, kind: Any) -> None:
        asked = data.draw(st.sampled_from(self.asked))
        edited = {"edited": "ask c"} if kind == "edit" else {}
        result = TEAM.vote(self.store, asked.request, kind, ANN, **edited)
        if kind == "approve" and result.outcome == "recorded":
            self.approved.add(asked.id)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def collect(self, data: st.DataObject) -> None:
        answered = self.gate.collect(data.draw(st.sampled_from(self.asked)).id)
        if isinstance(answered, Permit):
            self.permits.append(answered)

    @precondition(lambda self: self.permits)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        permit = data.draw(st.sampled_from(self.permits))
        if self.gate.start(permit, permit.action) is None:
            self.started.append(permit.request_id)
            self.gate.finish(permit, Outcome(0))

    @rule(ms=st.sampled_from([1, 5_000, 20_000, 299_000, 601_000]))
    def time_passes(self, ms: int) -> None:
        self.clock.pass_ms(ms)

    @invariant()
    def what_ran_was_approved_once(self) -> None:
        assert set(self.started) <= self.approved
        assert len(self.started) == len(set(self.started))

    def teardown(self) -> None:
        self.gate.close()
        assert self.store.verify().intact
        self.store.close()
        self.folder.cleanup()


Histories.TestCase.settings = settings(max_examples=300 if extent.ALL else 20, stateful_step_count=25, deadline=None)
test_histories = Histories.TestCase
