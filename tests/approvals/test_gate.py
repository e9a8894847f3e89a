"""The Gate: what it takes to get from an action to its execution, and that nothing else leads there."""

import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action, FileDigest
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Approver, Denial, Outcome, Permit, Waiting
from humanlayer_agent.errors import ActionDenied, ChannelError, ConfigError, NoTerminal, RunTerminated, StoreError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.store.sqlite import SQLiteStore, SQLStore
from humanlayer_agent.testing.approvers import (
    POLICY_DIGEST,
    TEST_APPROVER,
    TEST_AUTHORITY,
    ScriptedApprovers,
    ScriptedAsker,
    ScriptedDirector,
    answer,
)

STORES = ("sqlite", "postgres")

Make = Callable[..., Gate]
Act = Callable[..., Action]
ALICE = "os:1000:alice"


def types(gate: Gate) -> list[str]:
    return [entry.event["type"] for entry in gate.store.events()]


def states(gate: Gate) -> list[str]:
    return [request.state for request in gate.store.requests()]


def denied(answer: Permit | Denial | None, by: str, words: str = "") -> Denial:
    assert isinstance(answer, Denial)
    assert answer.by == by
    assert words in answer.reason
    return answer


def permitted(answer: Permit | Denial) -> Permit:
    assert isinstance(answer, Permit)
    return answer


# The three verdicts


def test_an_allowed_action_runs_once(make_gate: Make, act: Act) -> None:
    gate = make_gate()
    permit = permitted(gate.check(act("ls")))
    assert gate.start(permit, act("ls")) is None
    gate.finish(permit, Outcome(0))
    denied(gate.start(permit, act("ls")), "policy", "already used")
    assert types(gate)[1:] == [
        "run.started",
        "policy.loaded",
        "decision.evaluated",
        "permit.consumed",
        "exec.started",
        "exec.finished",
        "permit.refused",
    ]


EXCUSED = """
version: 1
policy: p
defaults: {unmatched: allow}
rules: [{id: no-rm, decision: ask, when: {program: rm}}]
exceptions:
  - {rule: no-rm, when: {operands: {all: [x]}}, reason: y, expires: 2030-06-30T18:00:00Z}
"""


class Timed(Director):
    """A Director whose clock the test moves; after `ends`, whatever it judges is judged at the last moment before."""

    def __init__(self, folder: Path) -> None:
        (folder / "p.yaml").write_text(EXCUSED)
        self.now, self.passes = "2030-06-30T17:59:59Z", False
        super().__init__(load(folder / "p.yaml"), project="/srv/app", today=lambda: self.now)

    def evaluate(self, action: Action, reader: Any = None, *, held: bool = True) -> PolicyDecision:
        decision = super().evaluate(action, reader, held=held)
        if self.passes:
            self.now = "2030-06-30T18:00:00Z"
        return decision


def test_what_an_exception_allowed_does_not_start_once_that_has_ended(
    make_gate: Make, act: Act, tmp_path: Path
) -> None:
    director = Timed(tmp_path)
    gate = make_gate(director=director)
    permit = permitted(gate.check(act("rm x")))
    assert gate.start(permit, act("rm x")) is None
    gate.finish(permit, Outcome(0))
    late = permitted(gate.check(act("rm x")))
    director.now = "2030-06-30T18:00:00Z"
    denied(gate.start(late, act("rm x")), "policy", "an exception or an override has ended")
    director.now = "2030-06-30T17:59:59Z"  # somebody has set the clock back: it was voided
    denied(gate.start(late, act("rm x")), "policy")


def test_an_exception_that_ends_while_it_is_judged_allows_nothing(make_gate: Make, act: Act, tmp_path: Path) -> None:
    director = Timed(tmp_path)
    gate = make_gate(director=director)
    assert permitted(gate.admit(act("rm x"))).started
    director.passes = True
    denied(gate.admit(act("rm x")), "policy", "an exception or an override has ended")
    assert [e.event["type"] for e in gate.store.events()].count("exec.started") == 1


def test_what_a_human_approved_stays_approved_when_an_exception_to_it_ends(
    make_gate: Make, act: Act, tmp_path: Path
) -> None:
    """They were asked about that very rule."""
    director = Timed(tmp_path)
    gate = make_gate(["approve"], director=director)
    permit = permitted(gate.check(act("rm y")))
    director.now = "2030-06-30T18:00:00Z"
    assert gate.start(permit, act("rm y")) is None


def test_what_only_observes_is_not_stopped_by_the_end_of_an_exception(
    make_gate: Make, act: Act, tmp_path: Path
) -> None:
    director = Timed(tmp_path)
    director.observe = True
    gate = make_gate(director=director)
    permit = permitted(gate.check(act("rm x")))
    director.now = "2030-06-30T18:00:00Z"
    assert gate.start(permit, act("rm x")) is None


def test_a_denied_action(make_gate: Make, act: Act) -> None:
    gate = make_gate()
    denial = denied(gate.check(act("rm -rf /")), "policy", "rm: deny")
    assert denial.decision is not None
    assert denial.decision.rule == "rm"
    assert types(gate)[-1] == "decision.evaluated"


def test_an_approved_action_runs_once(make_gate: Make, act: Act) -> None:
    gate = make_gate([("approve", "go on")])
    permit = permitted(gate.check(act("ask")))
    assert (permit.approved_by, permit.comment) == ("os:1000:tester", "go on")
    assert gate.start(permit, act("ask")) is None
    denied(gate.start(permit, act("ask")), "policy")
    assert types(gate).count("exec.started") == 1


def test_a_rejected_action_and_the_words_with_it(make_gate: Make, act: Act) -> None:
    gate = make_gate([("reject", "use the staging host")])
    denial = denied(gate.check(act("ask")), "human", "rejected by os:1000:tester")
    assert (denial.comment, denial.approver, denial.terminate) == ("use the staging host", "os:1000:tester", False)
    assert denial.decision is not None


def test_what_a_human_refused_is_not_asked_again(make_gate: Make, act: Act) -> None:
    asker = ScriptedAsker([("reject", "no"), "approve"])
    gate = make_gate(asker=asker)
    first = gate.check(act("ask"))
    assert gate.check(act("ask", step=7, call_id="other")) == first
    assert len(asker.asked) == 1
    permitted(gate.check(act("ask something else")))
    assert [entry.event.get("denied") for entry in gate.store.events(type="decision")] == [None, "refused before", None]


def test_silence_is_not_remembered_as_a_no(make_gate: Make, act: Act) -> None:
    gate = make_gate([ChannelError("busy"), "approve"])
    denied(gate.check(act("ask")), "nobody", "busy")
    permitted(gate.check(act("ask")))


# What is at stake


def looking(look: Callable[..., tuple[str, ...]]) -> ScriptedDirector:
    director = ScriptedDirector({"rm": Verdict.DENY, "ask": Verdict.ASK})
    director.blast_radius = look  # type: ignore[attr-defined]
    return director


def test_who_is_asked_is_told_what_is_at_stake_and_only_then_is_it_looked_up(make_gate: Make, act: Act) -> None:
    looked: list[str] = []

    def look(action: Action, view: object) -> tuple[str, ...]:
        looked.append(action.content)
        return ("Deletes 3 files.",)

    gate = make_gate(["approve"], director=looking(look))
    for command in ("ls", "rm", "ask"):
        gate.check(act(command))
    assert looked == ["ask"]
    (request,) = gate.store.requests()
    assert request.decision.radius == ("Deletes 3 files.",)
    assert isinstance(gate.submit(act("ask once more")), Waiting)
    assert looked == ["ask", "ask once more"]
    assert {each.decision.radius for each in gate.store.requests()} == {("Deletes 3 files.",)}


def test_what_is_at_stake_is_in_nobodys_way(make_gate: Make, act: Act) -> None:
    def look(action: Action, view: object) -> tuple[str, ...]:
        raise RecursionError("too deep")

    gate = make_gate(["approve"], director=looking(look))
    permitted(gate.check(act("ask")))
    (request,) = gate.store.requests()
    assert request.decision.radius[0].startswith("What is at stake could not be looked up: ")


def test_a_disk_that_does_not_answer_is_not_waited_for(
    make_gate: Make, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def look(action: Action, view: object) -> tuple[str, ...]:
        answers.wait()
        return ()

    monkeypatch.setattr("humanlayer_agent.approvals.gate.RADIUS_S", 0.01)
    gate = make_gate(["approve"], director=looking(look))
    try:
        permitted(gate.check(act("ask")))
    finally:
        answers.set()
    (request,) = gate.store.requests()
    assert request.decision.radius == ("What is at stake could not be looked up in time.",)


# Stopping


@pytest.mark.parametrize(
    "script", [["terminate"], [RunTerminated("q")], [KeyboardInterrupt()]], ids=["answer", "exception", "Ctrl-C"]
)
def test_stopping_the_run(make_gate: Make, act: Act, script: list[Any]) -> None:
    gate = make_gate(script)
    waiting = permitted(gate.check(act("ls")))
    denial = denied(gate.check(act("ask")), "human", "the run was stopped")
    assert denial.terminate
    assert states(gate) == ["terminated"]
    assert gate.start(waiting, act("ls")) == denial
    for command in ("ls", "ask", "rm"):
        assert gate.check(act(command)) == denial
    assert isinstance(gate.store, SQLStore)
    assert gate.store.verify().intact


def test_it_stays_stopped_even_where_that_can_not_be_written(make_gate: Make, act: Act, path: Path) -> None:
    def stop(request: ApprovalRequest) -> None:
        path.unlink()
        raise RunTerminated("q")

    gate = make_gate([stop])
    assert denied(gate.check(act("ask")), "human").terminate
    assert denied(gate.check(act("ls")), "human").terminate


def test_closing_ends_the_run(make_gate: Make, act: Act) -> None:
    with make_gate() as gate:
        permit = permitted(gate.check(act("ls")))
    denied(gate.start(permit, act("ls")), "policy", "the run has ended")
    denied(gate.check(act("ls")), "policy", "the run has ended")
    assert [entry.event["status"] for entry in gate.store.events(type="run.finished")] == ["finished"]


def test_a_permit_of_a_run_that_another_process_stopped(make_gate: Make, act: Act, path: Path) -> None:
    gate = make_gate()
    permit = permitted(gate.check(act("ls")))
    SQLiteStore(path).close_run("run-1", "stopped")
    denied(gate.start(permit, act("ls")), "policy", "the run has ended")


# Nobody


@pytest.mark.parametrize("error", [NoTerminal("no terminal"), ChannelError("no terminal"), OSError("no terminal")])
def test_a_channel_that_reaches_nobody(make_gate: Make, act: Act, error: Exception) -> None:
    gate = make_gate([error])
    denied(gate.check(act("ask")), "nobody", "no terminal")
    assert states(gate) == ["withdrawn"]
    assert "no terminal" in next(iter(gate.store.events(type="request.withdrawn"))).event["why"]


def test_no_channel_at_all(store: SQLiteStore, act: Act) -> None:
    gate = Gate(ScriptedDirector({}, Verdict.ASK), store, None)
    denied(gate.check(act("ls")), "nobody", "no channel is configured")


class Sleeper:
    """A channel in which time passes: `answer` comes after `ms`, whatever the deadline."""

    name = "sleeper"
    identities = (TEST_APPROVER.principal,)

    def __init__(self, clock: Any, ms: int, kind: str | None, *, jump: int = 0) -> None:
        self.clock, self.ms, self.kind, self.jump = clock, ms, kind, jump
        self.cancelled = False

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer | None:
        self.clock.pass_ms(self.ms)
        self.clock.jump_ms(self.jump)
        self.cancelled = cancelled()
        return answer(request, self.kind) if self.kind else None  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["approve", None])
@pytest.mark.parametrize("jump", [0, -3_600_000, 3_600_000], ids=["no jump", "back", "forth"])
def test_the_deadline_denies(make_gate: Make, act: Act, clock: Any, kind: str | None, jump: int) -> None:
    """Also where the channel ignores it, and where somebody sets the clock back meanwhile."""
    asker = Sleeper(clock, 600_000, kind, jump=jump)
    gate = make_gate(asker=asker)
    denied(gate.check(act("ask")), "nobody", "nobody answered within 600 s")
    assert asker.cancelled
    assert states(gate) == ["expired"]
    assert types(gate).count("vote.late") == (kind is not None)


def test_a_clock_that_jumps_ahead_denies(make_gate: Make, act: Act, clock: Any) -> None:
    gate = make_gate(asker=Sleeper(clock, 1_000, "approve", jump=3_600_000))
    denied(gate.check(act("ask")), "nobody")


def test_an_answer_in_time_counts_although_the_clock_went_back(make_gate: Make, act: Act, clock: Any) -> None:
    gate = make_gate(asker=Sleeper(clock, 1_000, "approve", jump=-3_600_000))
    permitted(gate.check(act("ask")))


def test_a_channel_that_ends_without_an_answer(make_gate: Make, act: Act) -> None:
    gate = make_gate([None])
    denied(gate.check(act("ask")), "nobody", "ended without an answer")
    assert states(gate) == ["withdrawn"]


# Answers that must not count


@pytest.mark.parametrize("not_an_answer", [True, "approve", 1, object(), ("approve", "yes"), ["approve"]])
def test_what_is_no_answer(make_gate: Make, act: Act, not_an_answer: Any) -> None:
    gate = make_gate([lambda request: not_an_answer])
    denied(gate.check(act("ask")), "nobody", "not an Answer")


@pytest.mark.parametrize(
    "changed",
    [
        {"presented_digest": "f" * 64},
        {"presented_digest": ""},
        {"kind": "yes"},
        {"kind": "APPROVE"},
        {"kind": True},
        {"kind": ["approve"]},
        {"kind": None},
        {"decision_id": ""},
        {"approver": Approver("", "script", "terminal")},
        {"approver": None},
        {"comment": 7.5},
        {"comment": b"yes"},
        {"decision_id": "\ud800"},
        {"presented_digest": None},
    ],
    ids=str,
)
def test_an_approval_with_something_wrong(make_gate: Make, act: Act, changed: dict[str, Any]) -> None:
    gate = make_gate([lambda request: replace(answer(request, "approve"), **changed)])
    assert isinstance(gate.check(act("ask")), Denial)
    assert "approved" not in states(gate)
    assert "exec.started" not in types(gate)


def test_an_answer_that_says_it_equals_everything(make_gate: Make, act: Act) -> None:
    class Anything(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return True

        def __ne__(self, other: object) -> bool:
            return False

    gate = make_gate([lambda request: replace(answer(request, "approve"), presented_digest=Anything("x"))])
    assert isinstance(gate.check(act("ask")), Denial)


def test_a_vote_for_another_request_does_not_count(make_gate: Make, act: Act) -> None:
    kept: list[ApprovalRequest] = []

    def keep(request: ApprovalRequest) -> None:
        kept.append(request)

    gate = make_gate([keep, lambda request: answer(kept[0], "approve")])
    gate.check(act("ask one"))
    denied(gate.check(act("ask two")), "nobody", "the answer was refused")
    assert "vote.refused" in types(gate)


# Edits: "rm" is denied, "ask" is asked about, anything else is allowed


def test_an_edit_that_the_policy_allows_runs_without_another_vote(make_gate: Make, act: Act) -> None:
    asker = ScriptedAsker([lambda request: answer(request, "edit", "smaller", edited="ls -l")])
    gate = make_gate(asker=asker)
    permit = permitted(gate.check(act("ask", model_intent="I ask")))
    assert permit.action == replace(act("ls -l"), run_id="run-1", agent="agent", requester=gate.requester)
    assert permit.digest == permit.action.digest(POLICY_DIGEST)
    assert permit.decision.verdict is Verdict.ALLOW
    assert (permit.approved_by, permit.edited_by, permit.comment) == ("", "os:1000:tester", "smaller")
    (request,) = gate.store.requests()
    assert (request.state, request.edited, permit.request_id) == ("superseded", "ls -l", request.id)
    assert gate.start(permit, permit.action) is None
    assert types(gate)[-6:] == [
        "request.created",
        "vote.recorded",
        "request.superseded",
        "decision.evaluated",
        "permit.consumed",
        "exec.started",
    ]
    judged = list(gate.store.events(type="decision"))[-1].event
    assert (judged["command"], judged["edit_of"], judged["verdict"]) == ("ls -l", request.id, "allow")
    assert asker.told == []


@pytest.mark.parametrize("edited", ["ls -l", "ask less"])
def test_the_original_of_an_edit_can_not_be_run(make_gate: Make, act: Act, edited: str) -> None:
    gate = make_gate([("edit", edited), "approve"])
    permit = permitted(gate.check(act("ask")))
    denied(gate.start(permit, act("ask")), "policy", "not what was permitted")
    denied(gate.start(permit, permit.action), "policy", "void")
    assert "exec.started" not in types(gate)


def test_an_edit_that_the_policy_asks_about_is_shown_again_and_needs_a_yes(make_gate: Make, act: Act) -> None:
    asker = ScriptedAsker([("edit", "ask less"), ("approve", "go on")])
    gate = make_gate(asker=asker)
    permit = permitted(gate.check(act("ask", model_intent="I ask")))
    original, child = gate.store.requests()
    assert [request.id for request in asker.asked] == [original.id, child.id]
    assert asker.asked[1].action.content == "ask less"
    assert asker.asked[1].action.model_intent == ""  # the model's words were about another command
    assert (original.state, child.state, child.parent) == ("superseded", "approved", original.id)
    assert (permit.request_id, permit.digest, permit.action.content) == (child.id, child.digest, "ask less")
    assert (permit.approved_by, permit.edited_by, permit.comment) == ("os:1000:tester", "os:1000:tester", "go on")
    assert gate.start(permit, permit.action) is None
    votes = [entry.event for entry in gate.store.events(type="vote")]
    assert [(vote["answer"], vote["request"]) for vote in votes] == [("edit", original.id), ("approve", child.id)]
    assert isinstance(gate.store, SQLStore)
    assert gate.store.verify().intact


def test_an_edit_that_the_policy_denies(make_gate: Make, act: Act) -> None:
    asker = ScriptedAsker([("edit", "rm -rf build")])
    gate = make_gate(asker=asker)
    denial = denied(gate.check(act("ask")), "policy", "the policy denies the edited command (rule rm): rm: deny")
    assert (denial.edited, denial.approver, denial.terminate) == ("rm -rf build", "os:1000:tester", False)
    assert denial.decision is not None
    assert denial.decision.verdict is Verdict.DENY
    assert asker.told == [f"not run: {denial.reason}"]
    (request,) = gate.store.requests()
    assert (request.state, denial.request_id) == ("superseded", request.id)
    judged = list(gate.store.events(type="decision"))[-1].event
    assert (judged["verdict"], judged["edit_of"]) == ("deny", request.id)
    assert not list(gate.store.events(type="permit"))


@pytest.mark.parametrize(
    ("then", "by", "edited"),
    [
        ([("reject", "no")], "human", "ask less"),
        (["terminate"], "human", "ask less"),
        ([KeyboardInterrupt()], "human", "ask less"),
        ([None], "nobody", "ask less"),
        ([ChannelError("gone")], "nobody", "ask less"),
        ([OSError("gone")], "nobody", "ask less"),
        ([("edit", "ask less")], "nobody", "ask less"),
        ([("edit", "rm")], "policy", "rm"),
        ([("edit", "ask even less"), ("reject", "no")], "human", "ask even less"),
    ],
)
def test_no_way_from_an_edit_to_an_execution_but_a_yes(
    make_gate: Make, act: Act, then: list[Any], by: str, edited: str
) -> None:
    gate = make_gate([("edit", "ask less"), *then])
    denial = denied(gate.check(act("ask")), by)
    assert denial.edited == edited
    assert states(gate)[0] == "superseded"
    assert set(states(gate)) & {"approved", "pending"} == set()
    assert not list(gate.store.events(type="permit"))
    assert isinstance(gate.store, SQLStore)
    assert gate.store.verify().intact


def test_an_edit_of_an_edit(make_gate: Make, act: Act) -> None:
    gate = make_gate([("edit", "ask less"), ("edit", "ask even less"), "approve"])
    permit = permitted(gate.check(act("ask")))
    first, second, third = gate.store.requests()
    assert (second.parent, third.parent) == (first.id, second.id)
    assert states(gate) == ["superseded", "superseded", "approved"]
    assert permit.action.content == "ask even less"
    assert gate.start(permit, permit.action) is None


def test_what_was_refused_after_an_edit_is_not_asked_again(make_gate: Make, act: Act) -> None:
    asker = ScriptedAsker([("edit", "ask less"), ("reject", "not at all"), "approve"])
    gate = make_gate(asker=asker)
    denial = gate.check(act("ask"))
    assert gate.check(act("ask")) == denial
    assert denied(gate.check(act("ask less")), "human").comment == "not at all"
    assert len(asker.asked) == 2


def test_an_editor_may_come_back_to_what_they_refused(make_gate: Make, act: Act) -> None:
    gate = make_gate([("reject", "no"), ("edit", "ask one"), "approve"])
    denied(gate.check(act("ask one")), "human")
    assert permitted(gate.check(act("ask two"))).action.content == "ask one"


@pytest.mark.parametrize(("edited", "why"), [("ask", "changes nothing"), ("", "no command"), (" \n", "no command")])
def test_an_edit_that_is_none(make_gate: Make, act: Act, edited: str, why: str) -> None:
    gate = make_gate([("edit", edited)])
    denied(gate.check(act("ask")), "nobody", why)
    assert states(gate) == ["withdrawn"]


def test_the_policy_of_the_edit_can_not_be_evaluated(make_gate: Make, act: Act) -> None:
    class Director(ScriptedDirector):
        def evaluate(self, action: Action) -> PolicyDecision:
            if action.content == "ls":
                raise RuntimeError("a bug")
            return super().evaluate(action)

    asker = ScriptedAsker([("edit", "ls")])
    gate = make_gate(asker=asker, director=Director({"ask": Verdict.ASK}))
    denial = denied(gate.check(act("ask")), "policy", "could not be evaluated")
    assert denial.edited == "ls"
    assert len(asker.told) == 1


class Editor:
    """A channel that can edit, and can't tell."""

    name = "editor"
    identities = (TEST_APPROVER.principal,)

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer:
        return answer(request, "edit", edited="rm")


class BadTeller(Editor):
    def tell(self, text: str) -> None:
        raise RuntimeError("a bug")


@pytest.mark.parametrize("channel", [Editor, BadTeller])
def test_a_channel_that_can_not_tell(make_gate: Make, act: Act, channel: type[Editor]) -> None:
    denied(make_gate(asker=channel()).check(act("ask")), "policy", "rule rm")


@pytest.mark.sample(5)
@pytest.mark.parametrize("edited", ["ls", "ask less", "rm"])
@pytest.mark.parametrize("broken", ["decide", "allow", "permit", "consume", "record_decision"])
def test_a_store_that_fails_on_the_way_of_an_edit(
    make_gate: Make, act: Act, store: SQLiteStore, broken: str, edited: str
) -> None:
    gate = make_gate([("edit", edited), "approve"], store=Flaky(store, broken, StoreError("full")))
    permit = gate.check(act("ask"))
    if isinstance(permit, Permit):
        permit = gate.start(permit, permit.action)  # type: ignore[assignment]
    needed = {"ls": "allow", "ask less": "permit", "rm": "record_decision"}[edited]
    ran = broken not in ("decide", "consume", needed) and edited != "rm"
    assert (permit is None) == ran
    assert bool(list(store.events(type="exec.started"))) == ran


def test_another_process_may_edit_while_the_terminal_waits(make_gate: Make, act: Act, path: Path) -> None:
    """It has no Director: the one who waits judges what it finds in the store."""

    class Waits:
        name = "waits"

        def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer | None:
            other = SQLiteStore(path, clock=gate._asking._clock)
            ScriptedApprovers(gate.authority).vote(other, request, "edit", edited="ls")
            assert cancelled()
            return None

    gate = make_gate(asker=Waits(), authority=TEST_AUTHORITY, requester=ALICE)
    permit = permitted(gate.check(act("ask", env={"A": "b"}, stdin=b"x")))
    assert (permit.action.content, permit.action.env, permit.action.stdin) == ("ls", {"A": "b"}, b"x")
    assert gate.start(permit, permit.action) is None


def test_the_edit_is_asked_about_before_any_other_thread(make_gate: Make, act: Act) -> None:
    """The human is still at it: the question about the edit does not go to the end of the queue."""
    others: list[threading.Thread] = []

    def edit(request: ApprovalRequest) -> Answer:
        other = threading.Thread(target=lambda: gate.check(act("ask other")))
        other.start()
        others.append(other)
        while len(gate.store.requests()) < 2:
            other.join(0.001)
        return answer(request, "edit", edited="ask edited")

    asker = ScriptedAsker([edit, "approve", "approve"])
    gate = make_gate(asker=asker)
    permitted(gate.check(act("ask")))
    others[0].join()
    assert [request.action.content for request in asker.asked] == ["ask", "ask edited", "ask other"]


def test_run_runs_the_edit(make_gate: Make, tmp_path: Path) -> None:
    gate = make_gate([("edit", "echo edited")], runner=execute)
    assert gate.run("ask; touch marker", cwd=str(tmp_path), env={}).stdout == b"edited\n"  # type: ignore[attr-defined]
    assert set(tmp_path.iterdir()) <= {tmp_path / "data"}


# Whatever the Director, the channel or the store raises, nothing leads to a permit


class StrangeError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


class Rude(BaseException):
    pass


ERRORS = [
    *(
        Exception("x"),
        StrangeError(),
        RecursionError(),
        MemoryError(),
        StoreError("x"),
        ActionDenied(Denial(reason="x", by="policy")),
        StopIteration(),
    ),
    *(AssertionError(), UnicodeDecodeError("utf-8", b"", 0, 1, "x"), ExceptionGroup("x", [ValueError()])),
]


class Raising:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def evaluate(self, action: Action) -> PolicyDecision:
        raise self.error


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_director_that_raises(make_gate: Make, act: Act, error: Exception) -> None:
    gate = make_gate(["approve"], director=Raising(error))
    denied(gate.check(act("ls")), "policy", "the policy could not be evaluated")
    assert types(gate)[-1] == "policy.error"


@pytest.mark.parametrize("error", [*ERRORS, RunTerminated("x"), KeyboardInterrupt()], ids=lambda e: type(e).__name__)
def test_a_channel_that_raises(make_gate: Make, act: Act, error: BaseException) -> None:
    gate = make_gate([error])
    assert isinstance(gate.check(act("ask")), Denial)
    assert "exec.started" not in types(gate)
    assert states(gate) in (["withdrawn"], ["terminated"])


@pytest.mark.parametrize("error", [SystemExit(1), Rude(), GeneratorExit()], ids=lambda error: type(error).__name__)
def test_what_ends_the_process_withdraws_the_request(make_gate: Make, act: Act, error: BaseException) -> None:
    gate = make_gate([error])
    with pytest.raises(type(error)):
        gate.check(act("ask"))
    assert states(gate) == ["withdrawn"]


@pytest.mark.parametrize("not_a_decision", [None, True, Verdict.ALLOW, (True, "fine"), object(), 0])
def test_what_is_no_decision(make_gate: Make, act: Act, not_a_decision: Any) -> None:
    class Director:
        def evaluate(self, action: Action) -> Any:
            return not_a_decision

    denied(make_gate(director=Director()).check(act("ls")), "policy", "not a PolicyDecision")


@pytest.mark.parametrize("verdict", [0, False, None, "allow", 3])
def test_a_verdict_that_is_none(make_gate: Make, act: Act, verdict: Any) -> None:
    """Only `Verdict.ALLOW` itself allows, not what is equal to it."""

    class Director:
        def evaluate(self, action: Action) -> PolicyDecision:
            return PolicyDecision(verdict, "x", "p", POLICY_DIGEST)

    assert isinstance(make_gate(director=Director()).check(act("ls")), Denial)


class Flaky:
    """A store whose `broken` method raises."""

    def __init__(self, store: SQLiteStore, broken: str, error: BaseException) -> None:
        self._store, self._broken, self._error = store, broken, error

    def __getattr__(self, name: str) -> Any:
        if name == self._broken:
            raise self._error
        return getattr(self._store, name)


@pytest.mark.parametrize("error", [StoreError("full"), OSError("full"), StrangeError()], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("broken", ["open_run", "record", "allow", "consume"])
def test_a_store_that_fails_on_the_way_to_an_allow(
    make_gate: Make, act: Act, store: SQLiteStore, broken: str, error: Exception
) -> None:
    gate = make_gate(store=Flaky(store, broken, error))
    permit = gate.check(act("ls"))
    if isinstance(permit, Permit):
        permit = gate.start(permit, act("ls"))  # type: ignore[assignment]
    denied(permit, "store")
    assert not list(store.events(type="exec.started"))


@pytest.mark.parametrize("broken", ["create_request", "get", "decide", "permit", "consume"])
def test_a_store_that_fails_on_the_way_to_an_approval(
    make_gate: Make, act: Act, store: SQLiteStore, broken: str
) -> None:
    gate = make_gate(["approve"], store=Flaky(store, broken, StoreError("full")))
    permit = gate.check(act("ask"))
    if isinstance(permit, Permit):
        permit = gate.start(permit, act("ask"))  # type: ignore[assignment]
    assert isinstance(permit, Denial)
    assert not list(store.events(type="exec.started"))


@pytest.mark.parametrize("answer", [None, True, object(), "Execution"])
def test_a_store_that_does_not_confirm(make_gate: Make, act: Act, store: SQLiteStore, answer: Any) -> None:
    class Vague(Flaky):
        def consume(self, permit: Permit, digest: str, authority: Any) -> Any:
            return answer

    gate = make_gate(store=Vague(store, "", StoreError("")))
    denied(gate.start(permitted(gate.check(act("ls"))), act("ls")), "policy", "did not confirm")


# Between the permit and the execution


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    "changed",
    [
        {"content": "ls; rm -rf /"},
        {"cwd": "/"},
        {"project": "/"},
        {"interpreter": ("sh", "-c")},
        {"env": {"PATH": "/tmp"}},
        {"stdin": b"x"},
        {"agent": "other"},
        {"type": "python"},
    ],
    ids=lambda changed: next(iter(changed)),
)
@pytest.mark.parametrize("command", ["ls", "ask"])
def test_only_exactly_what_was_permitted(make_gate: Make, act: Act, changed: dict[str, Any], command: str) -> None:
    gate = make_gate(["approve"])
    permit = permitted(gate.check(act(command)))
    other = replace(act(command), **changed)
    denied(gate.start(permit, other), "policy", "not what was permitted")
    denied(gate.start(permit, act(command)), "policy", "void")


def test_a_permit_of_one_run_in_another(make_gate: Make, act: Act) -> None:
    one, other = make_gate(run_id="one"), make_gate(run_id="other")
    permit = permitted(one.check(act("ls")))
    denied(other.start(permit, act("ls")), "policy", "belongs to another run")
    (refused,) = other.store.events(type="permit.refused")
    assert (refused.event["run"], refused.event["used_by"]) == ("one", "other")
    assert one.start(permit, act("ls")) is None, "nobody else takes it from the one it was given to"
    one.close()
    denied(other.start(permit, act("ls")), "policy", "belongs to another run")


def test_a_forged_permit(make_gate: Make, act: Act) -> None:
    gate = make_gate()
    permit = permitted(gate.check(act("ls")))
    denied(gate.start(replace(permit, id="f" * 32), act("ls")), "policy", "no such permit")
    evil = act("rm -rf /")
    denied(gate.start(replace(permit, digest=evil.digest(POLICY_DIGEST), action=evil), evil), "policy")


@pytest.mark.parametrize("jump", [0, -3_600_000], ids=["no jump", "clock set back"])
def test_a_permit_that_is_too_old(make_gate: Make, act: Act, clock: Any, jump: int) -> None:
    gate = make_gate()
    permit = permitted(gate.check(act("ls")))
    clock.pass_ms(10_000)
    clock.jump_ms(jump)
    assert isinstance(gate.start(permit, act("ls")), Denial)
    assert "exec.started" not in types(gate)


class Reader:
    """A director that judged the text of a file, and asks."""

    def __init__(self, path: Path) -> None:
        import hashlib

        self.files = (FileDigest(str(path), hashlib.sha256(path.read_bytes()).hexdigest()),)

    def evaluate(self, action: Action) -> PolicyDecision:
        return PolicyDecision(Verdict.ASK, "reads a script", "p", POLICY_DIGEST, files=self.files)


@pytest.mark.parametrize("change", ["edited", "removed", "a pipe", "unchanged"])
def test_a_script_that_changes_after_the_approval(make_gate: Make, act: Act, tmp_path: Path, change: str) -> None:
    import os

    script = tmp_path / "deploy.sh"
    script.write_text("echo fine")
    gate = make_gate(["approve"], director=Reader(script))
    permit = permitted(gate.check(act("bash deploy.sh")))
    if change == "edited":
        script.write_text("rm -rf /")
    elif change != "unchanged":
        script.unlink()
    if change == "a pipe":
        os.mkfifo(script)
    started = gate.start(permit, act("bash deploy.sh"))
    if change == "unchanged":
        assert started is None
    else:
        denied(started, "policy", "not what was permitted")
        assert states(gate) == ["invalidated"]


# Threads


def test_threads_queue_for_the_human(make_gate: Make, act: Act) -> None:
    inside = threading.Semaphore(1)
    overlaps: list[str] = []

    def one_at_a_time(request: ApprovalRequest) -> Answer:
        if not inside.acquire(blocking=False):
            overlaps.append(request.id)
            return answer(request, "reject")
        try:
            return answer(request, "approve", comment=request.action.content)
        finally:
            inside.release()

    gate = make_gate([one_at_a_time] * 8)
    results: dict[int, Permit | Denial | None] = {}

    def work(number: int) -> None:
        action = act(f"ask {number}")
        permit = permitted(gate.check(action))
        assert permit.comment == f"ask {number}"
        results[number] = gate.start(permit, action)
        gate.finish(permit, Outcome(number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not overlaps
    assert results == dict.fromkeys(range(8))
    ended = [entry.event["returncode"] for entry in gate.store.events(type="exec.finished")]
    assert sorted(ended) == list(range(8))
    assert types(gate).count("run.started") == types(gate).count("policy.loaded") == 1


@pytest.mark.parametrize(("kind", "state"), [("terminate", "terminated"), ("reject", "rejected")])
def test_an_answer_reaches_those_who_queue(make_gate: Make, act: Act, kind: Any, state: str) -> None:
    """A second thread waits for its turn at the prompt with the same action; the first one's no is the end of both."""
    answers: list[Permit | Denial] = []

    def say_no(request: ApprovalRequest) -> Answer:
        second = threading.Thread(target=lambda: answers.append(gate.check(act("ask"))))
        second.start()
        threads.append(second)
        while len(gate.store.requests()) < 2:
            second.join(0.001)
        return answer(request, kind)

    threads: list[threading.Thread] = []
    asker = ScriptedAsker([say_no, "approve"])
    gate = make_gate(asker=asker)
    answers.append(gate.check(act("ask")))
    threads[0].join()
    assert answers[0] == answers[1]
    assert denied(answers[0], "human").terminate == (kind == "terminate")
    assert states(gate) == [state, "withdrawn"]
    assert len(asker.asked) == 1


def test_another_process_may_decide_while_the_terminal_waits(make_gate: Make, act: Act, path: Path) -> None:
    """The channel is told by `cancelled` that it needs not go on; the recorded answer counts."""

    class Waits:
        name = "waits"

        def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer | None:
            assert not cancelled()
            other = SQLiteStore(path, clock=gate._asking._clock)
            ScriptedApprovers().vote(other, request, "approve", Approver("slack:T1/U2", "slack", "chat"))
            assert cancelled()
            return None

    gate = make_gate(asker=Waits(), authority=TEST_AUTHORITY, requester=ALICE)
    assert permitted(gate.check(act("ask"))).approved_by == "slack:T1/U2"


# run


def execute(action: Action) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*action.interpreter, action.content], cwd=action.cwd, env=dict(action.env), stdin=subprocess.DEVNULL,
        capture_output=True, check=False,
    )  # fmt: skip


def test_run(make_gate: Make, tmp_path: Path) -> None:
    gate = make_gate(runner=execute)
    done = gate.run("echo $A; exit 3", cwd=str(tmp_path), env={"A": "b"})
    assert (done.returncode, done.stdout) == (3, b"b\n")  # type: ignore[attr-defined]
    assert next(iter(gate.store.events(last=1))).event["returncode"] == 3


@pytest.mark.parametrize("command", ["rm marker", "ask; rm marker"])
def test_run_raises_what_may_not_run(make_gate: Make, tmp_path: Path, command: str) -> None:
    marker = tmp_path / "marker"
    marker.touch()
    gate = make_gate(["reject"], runner=execute)
    with pytest.raises(ActionDenied) as denial:
        gate.run(command, cwd=str(tmp_path))
    assert isinstance(denial.value.denial, Denial)
    assert marker.exists()


def test_a_runner_that_fails_is_recorded(make_gate: Make) -> None:
    def fail(action: Action) -> Any:
        raise KeyboardInterrupt

    gate = make_gate(runner=fail)
    with pytest.raises(KeyboardInterrupt):
        gate.run("ls", cwd="/")
    event = next(iter(gate.store.events(last=1))).event
    assert (event["type"], event["detail"]) == ("exec.finished", "KeyboardInterrupt")


def test_no_runner(make_gate: Make) -> None:
    with pytest.raises(ConfigError, match="no runner"):
        make_gate().run("ls")


@pytest.mark.parametrize("name", ["timeout_ms", "valid_for_ms", "use_by_ms"])
def test_times_are_positive(make_gate: Make, name: str) -> None:
    with pytest.raises(ConfigError, match="must be positive"):
        make_gate(**{name: 0})


def test_latency_is_measured_where_the_director_does_not(make_gate: Make, act: Act) -> None:
    gate = make_gate()
    gate.check(act("ls"))
    assert isinstance(next(iter(gate.store.events(type="decision"))).event["us"], int)
