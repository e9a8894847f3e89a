"""One run of an agent, from its first action to its end: what a Gate writes of it, counts, keeps and gives up."""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import UNWATCHED, Gate
from humanlayer_agent.approvals.model import Denial, Outcome, Permit, Run
from humanlayer_agent.errors import ActionDenied, ConfigError, StoreError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST, TEST_APPROVER, ScriptedAsker, ScriptedDirector
from tests.support.forging import forging

STORES = ("sqlite", "postgres")

Make = Callable[..., Gate]
Act = Callable[..., Action]


def events(gate: Gate, kind: str) -> list[dict[str, Any]]:
    return [entry.event for entry in gate.store.events(type=kind)]


def permitted(answer: Permit | Denial) -> Permit:
    assert isinstance(answer, Permit)
    return answer


def denied(answer: Permit | Denial | None) -> Denial:
    assert isinstance(answer, Denial)
    return answer


class FullDisk:
    """A store in which `broken` can't be written while `full`."""

    def __init__(self, store: SQLiteStore, broken: str) -> None:
        self._store, self._broken, self.full = store, broken, True

    def __getattr__(self, name: str) -> Any:
        if name == self._broken and self.full:
            raise StoreError("the disk is full")
        return getattr(self._store, name)


# Its beginning


def test_a_gate_that_is_told_nothing_names_its_run_itself(store: SQLiteStore, act: Act) -> None:
    gate, other = (Gate(ScriptedDirector(), store, None) for _ in range(2))
    assert re.fullmatch("[0-9a-f]{32}", gate.run_id)
    assert gate.run_id != other.run_id
    assert gate.requester == os_user()
    permit = permitted(gate.check(act("ls")))
    assert permit.action.run_id == gate.run_id


def test_what_is_written_of_a_run(make_gate: Make, act: Act) -> None:
    gate = make_gate(requester="os:1000:alice")
    gate.check(act("ls"))
    gate.check(act("ls -l", agent="reviewer"))
    (started,) = events(gate, "run.started")
    assert (started["run"], started["agent"], started["requester"]) == ("run-1", "agent", "os:1000:alice")
    assert started["instance"] == gate.instance == f"os:1000:alice@{os.uname().nodename}:/srv/app"
    assert [event["agent"] for event in events(gate, "decision")] == ["agent", "reviewer"]
    assert len(events(gate, "policy.loaded")) == 1


def test_each_policy_that_judges_is_written_down_once(make_gate: Make, act: Act) -> None:
    class Changes:
        def evaluate(self, action: Action) -> PolicyDecision:
            return PolicyDecision(Verdict.ALLOW, "x", "p", action.content[-1] * 64)

    gate = make_gate(director=Changes())
    for command in ("a", "b", "a"):
        gate.check(act(command))
    assert [event["policy_digest"][0] for event in events(gate, "policy.loaded")] == ["a", "b"]


def test_the_director_says_how_long_it_took(make_gate: Make, act: Act) -> None:
    class Measured:
        def evaluate(self, action: Action) -> PolicyDecision:
            return PolicyDecision(Verdict.ALLOW, "x", "p", POLICY_DIGEST, microseconds=10**9)

    gate = make_gate(director=Measured())
    gate.check(act("ls"))
    assert events(gate, "decision")[0]["us"] == 10**9


def test_otherwise_the_gate_measures_it(make_gate: Make, act: Act) -> None:
    gate = make_gate()
    began = time.perf_counter_ns()
    gate.check(act("ls"))
    assert 0 <= events(gate, "decision")[0]["us"] <= (time.perf_counter_ns() - began) // 1000


def test_what_holds_without_any_configuration(store: SQLiteStore) -> None:
    rule = Gate(ScriptedDirector(), store, None).authority.routes["default"]
    assert (rule.timeout_ms, rule.valid_for_ms) == (600_000, 60_000)
    rule = Gate(ScriptedDirector(), store, None, timeout_ms=1, valid_for_ms=2).authority.routes["default"]
    assert (rule.timeout_ms, rule.valid_for_ms) == (1, 2)


@pytest.mark.parametrize("number", [-1, -100])
def test_fewer_than_no_denials(make_gate: Make, number: int) -> None:
    with pytest.raises(ConfigError, match="a number from 0"):
        make_gate(max_denials=number)


def test_the_smallest_times_that_can_be_given(make_gate: Make, act: Act, clock: Any) -> None:
    gate = make_gate(timeout_ms=1, valid_for_ms=1, use_by_ms=1, max_denials=0)
    permit = permitted(gate.check(act("ls")))
    clock.pass_ms(1)
    denied(gate.start(permit, act("ls")))
    assert "the permit was not used in time" in [event.get("why") for event in events(gate, "permit")]


@pytest.mark.parametrize(("limit", "fields"), [(10_000, {}), (1, {"use_by_ms": 1}), (3_000, {"use_by_ms": 3_000})])
@pytest.mark.parametrize("jump", [0, -60_000], ids=["no jump", "clock set back"])
def test_how_long_a_permit_waits(
    make_gate: Make, act: Act, clock: Any, limit: int, fields: dict[str, int], jump: int
) -> None:
    gate = make_gate(**fields)
    in_time, late = permitted(gate.check(act("ls"))), permitted(gate.check(act("ls")))
    clock.pass_ms(limit - 1)
    clock.jump_ms(jump)
    assert gate.start(in_time, act("ls")) is None
    clock.pass_ms(1)
    denied(gate.start(late, act("ls")))


# Denials in a row


def test_five_denials_in_a_row_end_it(make_gate: Make, act: Act) -> None:
    gate = make_gate()
    answers = [denied(gate.check(act("rm x"))) for _ in range(5)]
    assert [(answer.terminate, answer.in_a_row) for answer in answers] == [(False, 0)] * 4 + [(True, 5)]
    after = denied(gate.check(act("ls")))
    assert (after.terminate, after.in_a_row) == (True, 5)
    assert after.reason == "the run was stopped after 5 denials in a row"
    (stopped,) = events(gate, "run.stopped")
    assert stopped["why"] == after.reason


def test_a_command_that_starts_begins_the_count_anew(make_gate: Make, act: Act) -> None:
    gate = make_gate(max_denials=2)
    for _ in range(3):
        assert not denied(gate.check(act("rm x"))).terminate
        assert gate.start(permitted(gate.check(act("ls"))), act("ls")) is None


def test_a_permit_that_is_not_used_does_not(make_gate: Make, act: Act) -> None:
    gate = make_gate(max_denials=2)
    gate.check(act("rm x"))
    permitted(gate.check(act("ls")))
    assert denied(gate.check(act("rm x"))).terminate


def test_a_start_that_is_denied_counts_too(make_gate: Make, act: Act) -> None:
    gate = make_gate(max_denials=2)
    permit = permitted(gate.check(act("ls")))
    assert not denied(gate.start(permit, act("ls -l"))).terminate
    assert denied(gate.start(permit, act("ls"))).terminate


def test_none_may_be_too_many(make_gate: Make, act: Act) -> None:
    assert denied(make_gate(max_denials=1).check(act("rm x"))).terminate
    gate = make_gate(run_id="run-2", max_denials=0)
    assert not any(denied(gate.check(act("rm x"))).terminate for _ in range(9))


# Stopping, and what could not be written


def test_stopping_is_written_and_holds(make_gate: Make, act: Act) -> None:
    gate = make_gate()
    permit = permitted(gate.check(act("ls")))
    gate.stop("the tests took too long")
    for answer in (gate.check(act("ls")), gate.start(permit, act("ls"))):
        stopped = denied(answer)
        assert (stopped.reason, stopped.by, stopped.terminate) == ("the tests took too long", "policy", True)
        assert stopped.in_a_row == 0
    assert [event["why"] for event in events(gate, "run.stopped")] == ["the tests took too long"]
    assert [event.get("denied") for event in events(gate, "decision")][1:] == ["the run was stopped"]


def test_the_first_reason_stays(make_gate: Make, act: Act) -> None:
    gate = make_gate()
    gate.stop("first")
    gate.stop("second")
    assert denied(gate.check(act("ls"))).reason == "first"


def test_a_stop_that_can_not_be_written_holds_all_the_same(make_gate: Make, act: Act, store: SQLiteStore) -> None:
    gate = make_gate(store=FullDisk(store, "stop_run"))
    gate.stop("enough")
    assert denied(gate.check(act("ls"))).reason == "enough"


def test_nothing_runs_until_it_is_written_how_the_last_command_ended(
    make_gate: Make, act: Act, store: SQLiteStore
) -> None:
    disk = FullDisk(store, "finish")
    gate = make_gate(store=disk)
    first, waiting = (permitted(gate.check(act("ls"))) for _ in range(2))
    assert gate.start(first, act("ls")) is None
    gate.finish(first, Outcome(7))
    for answer in (gate.check(act("ls")), gate.start(waiting, act("ls"))):
        assert denied(answer).by == "store"
        assert "the disk is full" in denied(answer).reason
    disk.full = False
    permitted(gate.check(act("ls")))
    assert [event["returncode"] for event in events(gate, "exec.finished")] == [7]


def test_an_end_that_is_written_is_not_written_again(make_gate: Make, act: Act, store: SQLiteStore) -> None:
    written: list[str] = []

    class Counts:
        def __getattr__(self, name: str) -> Any:
            written.append(name)
            return getattr(store, name)

    gate = make_gate(store=Counts())
    permit = permitted(gate.check(act("ls")))
    gate.start(permit, act("ls"))
    gate.finish(permit, Outcome(0))
    gate.check(act("ls"))
    gate.close()
    assert written.count("finish") == 1


def test_what_is_still_unwritten_is_written_at_the_end(make_gate: Make, act: Act, store: SQLiteStore) -> None:
    disk = FullDisk(store, "finish")
    gate = make_gate(store=disk)
    permit = permitted(gate.check(act("ls")))
    gate.start(permit, act("ls"))
    gate.finish(permit, Outcome(7))
    disk.full = False
    gate.close()
    assert [event["returncode"] for event in events(gate, "exec.finished")] == [7]


def test_a_command_that_got_out_of_sight_ends_the_run(make_gate: Make, act: Act) -> None:
    gate = make_gate()
    permit = permitted(gate.check(act("ls")))
    gate.start(permit, act("ls"))
    gate.finish(permit, Outcome(None, unwatched=True))
    stopped = denied(gate.check(act("ls")))
    assert (stopped.reason, stopped.terminate) == (UNWATCHED, True)


# A permit, and the row that says it was not used


def test_a_used_permit_stays_used_although_its_row_was_set_back(
    make_gate: Make, act: Act, store: SQLiteStore, path: Path
) -> None:
    gate = make_gate()
    permit = permitted(gate.check(act("ls")))
    assert gate.start(permit, act("ls")) is None
    with forging(path) as connection:
        connection.execute("DELETE FROM execution")
        connection.execute("UPDATE permit SET state = 'issued'")
    again = denied(gate.start(permit, act("ls")))
    assert again.reason == "the permit was already used"
    assert again.decision == permit.decision


# Its end


@pytest.mark.parametrize(("error", "status"), [(None, "finished"), (RuntimeError("x"), "failed")])
def test_how_it_ended(make_gate: Make, act: Act, error: Exception | None, status: str) -> None:
    gate = make_gate()
    try:
        with gate:
            gate.check(act("ls"))
            if error:
                raise error
    except RuntimeError:
        pass
    assert [event["status"] for event in events(gate, "run.finished")] == [status]
    ended = denied(gate.check(act("ls")))
    assert (ended.reason, ended.by, ended.terminate) == ("the run has ended", "policy", True)


def test_a_run_in_which_nothing_was_proposed_was_none(make_gate: Make) -> None:
    gate = make_gate()
    gate.close()
    assert events(gate, "run") == []


class Others:
    """A way to other humans, and what was seen of the store when it was used."""

    def __init__(self) -> None:
        self.used: list[str] = []

    def start(self) -> None:
        self.used.append("start")

    def close(self) -> None:
        self.used.append("close")


def test_other_humans_are_reached_before_the_first_request_and_until_the_end(make_gate: Make, act: Act) -> None:
    others = Others()
    gate = make_gate(["approve"], reach=others)
    gate.check(act("ls"))
    assert others.used == []
    gate.check(act("ask"))
    assert others.used == ["start"]
    gate.close()
    assert others.used == ["start", "close"]


def test_other_humans_are_left_also_where_the_end_can_not_be_written(
    make_gate: Make, act: Act, store: SQLiteStore
) -> None:
    others = Others()
    gate = make_gate(reach=others, store=FullDisk(store, "close_run"))
    gate.check(act("ls"))
    with pytest.raises(StoreError):
        gate.close()
    assert others.used == ["close"]


# `run`, and what others act upon


@dataclass
class Done:
    returncode: int | None = 0
    timed_out: bool = False
    unwatched: bool = False


@dataclass
class Plain:
    returncode: int | None = 3


@pytest.mark.parametrize(
    ("done", "returncode", "detail"),
    [(Done(), 0, ""), (Done(None, timed_out=True), None, "timed out"), (Plain(), 3, "")],
)
def test_what_is_written_of_what_ran(
    make_gate: Make, clock: Any, done: Any, returncode: int | None, detail: str
) -> None:
    def takes_two_seconds(action: Action) -> Any:
        clock.pass_ms(2_000)
        return done

    gate = make_gate(runner=takes_two_seconds)
    assert gate.run("ls", "/") is done
    (event,) = events(gate, "exec.finished")
    assert (event.get("returncode"), event.get("detail") or "", event["duration_ms"]) == (returncode, detail, 2_000)
    assert gate.run("ls", "/") is done


def test_how_long_it_took_to_fail(make_gate: Make, clock: Any) -> None:
    def fails(action: Action) -> Any:
        clock.pass_ms(1_500)
        raise OSError("no bash")

    gate = make_gate(runner=fails)
    with pytest.raises(OSError, match="no bash"):
        gate.run("ls", "/")
    (event,) = events(gate, "exec.finished")
    assert (event["duration_ms"], "no bash" in event["detail"]) == (1_500, True)


def test_run_stops_after_what_got_out_of_sight(make_gate: Make) -> None:
    gate = make_gate(runner=lambda action: Done(None, unwatched=True))
    gate.run("ls", "/")
    with pytest.raises(ActionDenied, match="ended what watches over it"):
        gate.run("ls", "/")


@pytest.mark.parametrize(("command", "broken"), [("ls", "admit"), ("ask", "consume")])
def test_run_starts_nothing_that_could_not_be_written_before(
    make_gate: Make, store: SQLiteStore, command: str, broken: str
) -> None:
    ran: list[Action] = []
    gate = make_gate(["approve"], store=FullDisk(store, broken), runner=ran.append)
    with pytest.raises(ActionDenied, match="the disk is full"):
        gate.run(command, "/")
    assert ran == []


def test_where_run_starts_a_command(make_gate: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Action] = []

    def notes(action: Action) -> Done:
        ran.append(action)
        return Done()

    gate = make_gate(runner=notes)
    monkeypatch.chdir(tmp_path)
    gate.run("ls")
    gate.run("ls", "/usr")
    gate.run("ls", "/usr/bin", project="/usr", env={"A": "b"})
    here = str(tmp_path)
    assert [(action.cwd, action.project, dict(action.env)) for action in ran] == [
        (here, here, {}),
        ("/usr", "/usr", {}),
        ("/usr/bin", "/usr", {"A": "b"}),
    ]


def test_a_decision_that_others_act_upon_gives_no_permit(make_gate: Make, act: Act) -> None:
    gate = make_gate()
    decision = ScriptedDirector({"ask": Verdict.ASK}).evaluate(act("ask"))
    gate.record(act("ask"), decision, left_to="its own prompt")
    (event,) = events(gate, "decision")
    assert (event["command"], event["verdict"], event["left_to"]) == ("ask", "ask", "its own prompt")
    assert (event["run"], event["agent"]) == ("run-1", "agent")
    assert len(events(gate, "run.started")) == 1
    assert not gate.store.requests()
    assert not events(gate, "permit")


def test_who_answers_at_the_terminal_need_not_be_named(store: SQLiteStore, act: Act) -> None:
    asker = ScriptedAsker(["approve"])
    gate = Gate(ScriptedDirector({"ask": Verdict.ASK}), store, asker)
    assert permitted(gate.check(act("ask"))).approved_by == TEST_APPROVER.principal


def test_a_run_that_another_gate_has_opened_goes_on(store: SQLiteStore, make_gate: Make, act: Act) -> None:
    store.open_run(Run("run-0", "agent", "instance", os_user(), "/srv/app"))
    gate = make_gate(instance="mine")
    gate.check(act("ls"))
    assert events(gate, "run.started")[-1]["instance"] == "mine"
