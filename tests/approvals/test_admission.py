"""Judged and started in one transaction: what the policy itself allows takes one durable write before it runs."""

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action, FileDigest
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Denial, Execution, Outcome, Permit, Refused
from humanlayer_agent.errors import ActionDenied, AgentsStopped, NotAsJudged, StoreError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST, TEST_AUTHORITY

STORES = ("sqlite", "postgres")

Make = Callable[..., Gate]
Act = Callable[..., Action]


class Done:
    returncode = 0


def commits(store: SQLiteStore, call: Callable[[], Any]) -> tuple[Any, int]:
    """What a call returns, and how many transactions it has committed."""
    with store.database.read() as connection:
        said: list[str] = []
        connection.set_trace_callback(said.append)
    try:
        return call(), said.count("COMMIT")
    finally:
        connection.set_trace_callback(None)


def types(store: SQLiteStore) -> list[str]:
    return [entry.event["type"] for entry in store.events()]


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """What another process would read."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


@pytest.fixture
def gate(make_gate: Make) -> Gate:
    """One whose run has begun: its first action has written more than those after it."""
    gate = make_gate(authority=TEST_AUTHORITY)
    assert isinstance(gate.check(Action("first", cwd="/", project="/")), Permit)
    return gate


def test_one_durable_write_before_it_runs(gate: Gate, store: SQLiteStore, path: Path, act: Act) -> None:
    before = len(types(store))
    permit, count = commits(store, lambda: gate.admit(act("ls")))
    assert (permit.started, count) == (True, 1)
    (durable,) = rows(path, f"SELECT state FROM execution WHERE permit_id = '{permit.id}'")
    assert durable == ("started",)
    _, count = commits(store, lambda: gate.finish(permit, Outcome(0)))
    assert count == 1
    assert types(store)[before:] == ["decision.evaluated", "permit.consumed", "exec.started", "exec.finished"]
    assert store.verify().intact


def test_one_in_all_where_somebody_else_runs_it(gate: Gate, store: SQLiteStore, path: Path, act: Act) -> None:
    before = len(types(store))
    permit, count = commits(store, lambda: gate.admit(act("ls"), outcome=lambda _: Outcome(None, "not reported")))
    assert (permit.started, count) == (True, 1)
    assert types(store)[before:] == ["decision.evaluated", "permit.consumed", "exec.started", "exec.finished"]
    assert not store.finish(permit.id, Outcome(0))
    assert store.verify().intact


def test_a_supervised_command_takes_two(make_gate: Make, store: SQLiteStore, path: Path) -> None:
    """The second says how it ended, and can only come afterwards."""
    ran: list[int] = []
    gate = make_gate(runner=lambda action: ran.append(len(rows(store.path, "SELECT * FROM execution"))) or Done())
    gate.run("ls", "/")
    _, count = commits(store, lambda: gate.run("ls", "/"))
    assert (ran, count) == ([1, 2], 2), "each was written before it ran"


def test_it_is_good_for_one_execution(gate: Gate, store: SQLiteStore, act: Act) -> None:
    permit = gate.admit(act("ls"))
    assert isinstance(permit, Permit)
    assert isinstance(gate.start(permit, act("ls")), Denial)
    assert isinstance(store.consume(permit, permit.digest, TEST_AUTHORITY), Refused)
    assert types(store).count("exec.started") == 1


def test_what_a_human_approves_is_not_started_by_it(make_gate: Make, store: SQLiteStore, act: Act) -> None:
    gate = make_gate(["approve", ("edit", "ls")])
    for command in ("ask", "ask again"):
        permit = gate.admit(act(command))
        assert isinstance(permit, Permit)
        assert not permit.started
        assert gate.start(permit, permit.action) is None
    assert types(store).count("exec.started") == 2


def test_what_could_not_be_started_is_denied(gate: Gate, store: SQLiteStore, act: Act) -> None:
    permit = gate.admit(act("ls"))
    assert isinstance(permit, Permit)
    error = NotAsJudged(["run.sh"])
    denial = gate.not_started(permit, error)
    assert (denial.by, denial.reason, denial.decision) == ("policy", str(error), permit.decision)
    (ended,) = store.events(type="exec.finished")
    assert f"not started: {error}" in str(ended.event)


@pytest.mark.parametrize("command", ["rm x", "ask"])
def test_what_is_denied_or_asked_starts_nothing(make_gate: Make, store: SQLiteStore, act: Act, command: str) -> None:
    assert isinstance(make_gate().admit(act(command)), Denial)
    assert "exec.started" not in types(store)


def test_a_policy_that_is_only_observed(make_gate: Make, store: SQLiteStore, act: Act) -> None:
    class Observed:
        def evaluate(self, action: Action) -> PolicyDecision:
            return PolicyDecision(Verdict.DENY, "no", "p", POLICY_DIGEST, enforced=False)

    permit = make_gate(director=Observed()).admit(act("rm x"))
    assert isinstance(permit, Permit)
    assert permit.started


def test_a_script_that_changed_after_it_was_judged(
    make_gate: Make, store: SQLiteStore, act: Act, tmp_path: Path, path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("ls")

    class Reads:
        def evaluate(self, action: Action) -> PolicyDecision:
            judged = FileDigest(str(script), hashlib.sha256(b"ls").hexdigest())
            if "later" in action.content:
                script.write_text("rm -r /")
            return PolicyDecision(Verdict.ALLOW, "reads a script", "p", POLICY_DIGEST, files=(judged,))

    gate = make_gate(director=Reads())
    permit = gate.admit(act("bash script"))
    assert isinstance(permit, Permit)
    assert permit.started
    denial = gate.admit(act("bash script # later"))
    assert isinstance(denial, Denial)
    assert denial.reason == "what is about to run is not what was permitted"
    assert types(store)[-2:] == ["decision.evaluated", "permit.refused"]
    assert types(store).count("exec.started") == 1
    assert rows(store.path, "SELECT state FROM permit ORDER BY rowid") == [("consumed",), ("void",)]
    assert store.verify().intact


def test_a_stop_is_read_in_the_same_transaction(
    gate: Gate, store: SQLiteStore, act: Act, decide: Callable[..., PolicyDecision]
) -> None:
    halt = store.halts.stop("os:1000:bob")
    denial = gate.admit(act("ls"))
    assert isinstance(denial, Denial)
    assert denial.halted
    action, decision = act("ls"), decide(Verdict.ALLOW)
    digest = action.digest(POLICY_DIGEST)
    with pytest.raises(AgentsStopped):
        store.admit(action, decision, digest, digest, use_by_ms=10_000, authority=TEST_AUTHORITY)
    assert [entry.event.get("halt") for entry in store.events(type="decision", last=2)] == [halt.id] * 2
    assert "exec.started" not in types(store)


def test_a_run_that_was_stopped_elsewhere(gate: Gate, store: SQLiteStore, act: Act) -> None:
    store.stop_run("run-1", "somebody did")
    denial = gate.admit(act("ls"))
    assert isinstance(denial, Denial)
    assert denial.reason == "the run has ended"
    assert "exec.started" not in types(store)


def test_what_could_not_be_written_does_not_run(
    make_gate: Make, store: SQLiteStore, path: Path, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = make_gate(authority=TEST_AUTHORITY)
    gate.check(act("first"))
    before = types(store)

    def vanished() -> None:
        raise StoreError("the log was removed while it was in use")

    with store.database.read() as connection:
        pass
    with monkeypatch.context() as fault:
        connection.execute("PRAGMA query_only=ON")
        assert isinstance(gate.admit(act("ls")), Denial)
        assert types(store) == before
        connection.execute("PRAGMA query_only=OFF")
        fault.setattr(store.database, "_check_log", vanished)
        assert isinstance(gate.admit(act("ls")), Denial), "it may be written, and nobody may ever find it"
    assert isinstance(gate.admit(act("ls")), Permit)


@pytest.mark.parametrize("said", [None, True, "Permit", Refused("no"), "other digest", "not started"])
def test_a_store_that_does_not_confirm(make_gate: Make, store: SQLiteStore, act: Act, said: Any) -> None:
    class Vague:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def admit(self, action: Action, decision: PolicyDecision, digest: str, about: str, **rest: Any) -> Any:
            if said == "other digest":
                return Permit("1" * 32, "f" * 64, action, decision, 2**50, started=True)
            return Permit("1" * 32, digest, action, decision, 2**50) if said == "not started" else said

    ran: list[Action] = []
    gate = make_gate(store=Vague(), runner=lambda action: ran.append(action) or Done())
    with pytest.raises(ActionDenied, match=r"no|did not confirm"):
        gate.run("ls", "/")
    assert ran == []


def test_denials_in_a_row_are_counted_anew(make_gate: Make, act: Act) -> None:
    gate = make_gate(max_denials=2)
    for command in ("rm 1", "ls", "rm 2", "ls"):
        answer = gate.admit(act(command))
        assert not (isinstance(answer, Denial) and answer.terminate)
    gate.admit(act("rm 3"))
    last = gate.admit(act("rm 4"))
    assert isinstance(last, Denial)
    assert last.terminate


def test_what_the_store_consumes_is_what_it_allows(
    store: SQLiteStore, run: str, act: Act, decide: Callable[..., PolicyDecision]
) -> None:
    action = act("ls")
    digest = action.digest(POLICY_DIGEST)
    one = store.allow(action, decide(Verdict.ALLOW), digest, use_by_ms=10_000)
    assert isinstance(store.consume(one, digest, TEST_AUTHORITY), Execution)
    apart = types(store)
    two = store.admit(action, decide(Verdict.ALLOW), digest, digest, use_by_ms=10_000, authority=TEST_AUTHORITY)
    assert isinstance(two, Permit)
    assert types(store)[len(apart) :] == apart[-3:], "the same events, in the same order"
    asked = store.admit(action, decide(Verdict.ASK), digest, digest, use_by_ms=10_000, authority=TEST_AUTHORITY)
    assert asked == Refused("the policy does not allow it, and nobody has approved it")
