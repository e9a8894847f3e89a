"""Limits of policies: counted in the store, in the transaction in which an action starts, whoever else starts one."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Denial, Outcome, Permit
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.store.postgres.postgres_store import PostgresStore
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker

Make = Callable[..., Gate]

STORES = ("sqlite", "postgres")
RULES = """
version: 1
policy: p
defaults: {unmatched: allow}
rules:
  - id: calls
    decision: deny
    reason: Too many calls.
    when: {limit: {count: COUNT, per: PER, of: {program: curl}}}
"""
COST = RULES.replace("count: COUNT", "cost: 2.5")


@pytest.fixture
def load_it(tmp_path: Path) -> Callable[..., Director]:
    def make(count: int = 3, per: str = "hour", rules: str = RULES) -> Director:
        (tmp_path / "p.yaml").write_text(rules.replace("COUNT", str(count)).replace("PER", per))
        return Director(load(tmp_path / "p.yaml"), project="/srv/app", environ={"HOME": "/h"})

    return make


def act(command: str = "curl a.example", **more: Any) -> Action:
    return Action(command, cwd="/srv/app", project="/srv/app", **more)


def run(gate: Gate, command: str = "curl a.example", **more: Any) -> str:
    """Start it, and say what came of that."""
    answer = gate.admit(act(command, **more))
    if isinstance(answer, Permit) and not answer.started and (denied := gate.start(answer, answer.action)):
        answer = denied
    if isinstance(answer, Permit):
        gate.finish(answer, Outcome(0))
        return "ran"
    return answer.reason


def test_no_more_than_so_many_run(make_gate: Make, load_it: Any) -> None:
    gate = make_gate(director=load_it(), max_denials=0)
    assert [run(gate) for _ in range(5)] == ["ran"] * 3 + ["Too many calls."] * 2
    assert run(gate, "ls") == "ran"
    counted = [e.event for e in gate.store.events(type="limit.counted")]
    assert [(e["amount"], e["total"], e["in_run"]) for e in counted] == [(1, 1, 1), (1, 2, 2), (1, 3, 3)]
    assert gate.store.verify().intact


def test_several_in_one_action_are_counted_as_several(make_gate: Make, load_it: Any) -> None:
    gate = make_gate(director=load_it(), max_denials=0)
    assert run(gate, "curl a.example; curl b.example") == "ran"
    assert run(gate, "curl a.example && curl b.example") == "Too many calls."
    assert run(gate) == "ran"
    assert run(gate) == "Too many calls."


def test_a_loop_can_be_any_number(make_gate: Make, load_it: Any) -> None:
    gate = make_gate(director=load_it(), max_denials=0)
    for line in ("for x in 1 2; do curl a.example; done", "echo a | xargs curl", "f() { curl a.example; }; f"):
        decision = gate.director.evaluate(act(line))
        assert str(decision.verdict) == "ask", line


def test_hours_and_days_pass(make_gate: Make, load_it: Any, clock: Any) -> None:
    for per, length in (("hour", 3_600_000), ("day", 86_400_000)):
        clock.pass_ms(2 * 86_400_000)
        gate = make_gate(director=load_it(per=per), max_denials=0, run_id=per)
        assert run(gate) == "ran"
        clock.pass_ms(length // 2)
        assert [run(gate), run(gate), run(gate)] == ["ran", "ran", "Too many calls."]
        clock.pass_ms(length // 2 - 1)
        assert run(gate) == "Too many calls."
        clock.pass_ms(1)
        assert [run(gate), run(gate)] == ["ran", "Too many calls."]


def test_a_clock_that_is_set_back_gives_nothing_back(make_gate: Make, load_it: Any, clock: Any) -> None:
    gate = make_gate(director=load_it(), max_denials=0)
    assert [run(gate) for _ in range(3)] == ["ran"] * 3
    clock.jump_ms(-7_200_000)
    assert run(gate) == "Too many calls."
    clock.jump_ms(7_200_000 + 3_600_000)
    assert run(gate) == "ran"


def test_a_limit_of_a_run_is_of_that_run(make_gate: Make, load_it: Any) -> None:
    for name in ("one", "two"):
        gate = make_gate(director=load_it(per="run"), run_id=name, max_denials=0)
        assert [run(gate) for _ in range(4)] == ["ran"] * 3 + ["Too many calls."]


def test_a_limit_of_an_hour_is_of_all_runs(make_gate: Make, load_it: Any) -> None:
    assert [run(make_gate(director=load_it(), run_id=str(n))) for n in range(4)] == ["ran"] * 3 + ["Too many calls."]


def test_costs_are_what_the_caller_says(make_gate: Make, load_it: Any) -> None:
    gate = make_gate(director=load_it(rules=COST), max_denials=0)
    assert [run(gate, cost=1.0), run(gate, cost=1.5), run(gate, cost=0.000001)] == ["ran", "ran", "Too many calls."]
    assert run(gate, cost=0) == "ran"
    assert "Too many calls" in str(gate.director.evaluate(act()).reason)  # nobody says what it costs


def test_what_is_started_costs_what_was_checked(make_gate: Make, load_it: Any) -> None:
    gate = make_gate(director=load_it(rules=COST), max_denials=0)
    permit = gate.check(act(cost=2.5))
    assert isinstance(permit, Permit)
    assert gate.start(permit, act()) is None
    assert isinstance(gate.check(act(cost=0.5)), Denial)


def test_without_a_store_nobody_knows_what_was_used(load_it: Any) -> None:
    assert str(load_it().evaluate(act()).verdict) == "ask"
    assert str(load_it(0).evaluate(act()).verdict) == "deny"
    assert str(load_it().evaluate(act("ls")).verdict) == "allow"  # it adds nothing


@pytest.mark.file
def test_a_store_that_can_not_be_read_leaves_it_unknown(make_gate: Make, load_it: Any) -> None:
    gate = make_gate(director=load_it())
    assert run(gate) == "ran"
    gate.store.close()
    gate.store.path.write_bytes(b"no database" * 100)
    assert str(gate.director.evaluate(act()).verdict) == "ask"


def test_what_was_judged_within_the_limit_does_not_start_beyond_it(make_gate: Make, load_it: Any) -> None:
    gate = make_gate(director=load_it(), max_denials=0)
    permits = [gate.check(act()) for _ in range(5)]
    started = [gate.start(each, each.action) for each in permits if isinstance(each, Permit)]
    assert [denial is None for denial in started] == [True] * 3 + [False] * 2
    assert all("says something else of it now" in each.reason for each in started if each is not None)


def test_a_human_approves_beyond_the_limit_and_it_counts(make_gate: Make, load_it: Any) -> None:
    director = load_it(1, rules=RULES.replace("decision: deny", "decision: ask"))
    gate = make_gate(["approve", "reject"], director=director, max_denials=0)
    assert [run(gate), run(gate)] == ["ran", "ran"]
    assert "Too many" not in run(gate)
    assert run(gate, "ls") == "ran"
    assert [e.event["total"] for e in gate.store.events(type="limit.counted")] == [1, 2]


def test_what_is_only_observed_is_counted_and_not_stopped(make_gate: Make, load_it: Any) -> None:
    director = load_it(1)
    director.observe = True
    gate = make_gate(director=director)
    assert [run(gate) for _ in range(3)] == ["ran"] * 3


def _many(where: str, policy: Path, name: str, times: int) -> int:
    director = Director(load(policy), project="/srv/app", environ={"HOME": "/h"})
    made = PostgresStore if "://" in where else SQLiteStore
    store = made(where, busy_ms=60_000)
    with Gate(director, store, ScriptedAsker([]), run_id=name, max_denials=0, use_by_ms=60_000) as gate:
        started = sum(run(gate) == "ran" for _ in range(times))
    store.close()
    return started


def test_processes_and_threads_that_race_for_it_start_so_many_together(
    store: SQLiteStore, load_it: Any, in_child: Any, tmp_path: Path
) -> None:
    load_it(7)
    policy, where = tmp_path / "p.yaml", getattr(store, "url", "") or store.location
    found: list[int] = []
    store.close()

    def child(n: int) -> None:
        found.append(in_child(_many, where, policy, f"child {n}", 4))

    threads = [threading.Thread(target=child, args=(n,)) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(found) == 7


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("{program: curl}", "{program: curl}", True),
        ("{program: curl}", "{program: [curl, wget]}", False),
        ("{effect: network, hosts: {any_in: [$a]}}", "{effect: network, hosts: {any_in: [$b]}}", False),
    ],
)
def test_limits_that_say_the_same_count_together(
    make_gate: Make, tmp_path: Path, one: str, other: str, same: bool
) -> None:
    (tmp_path / "p.yaml").write_text(
        "version: 1\npolicy: p\ndefaults: {unmatched: allow}\nlists: {a: [a.example], b: [b.example]}\nrules:\n"
        f"  - {{id: one, decision: deny, when: {{limit: {{count: 9, per: run, of: {one}}}}}}}\n"
        f"  - {{id: other, decision: deny, when: {{limit: {{count: 9, per: hour, of: {other}}}}}}}\n"
    )
    director = Director(load(tmp_path / "p.yaml"), project="/srv/app", environ={"HOME": "/h"})
    assert len({counter.name for counter in director.in_force().rules.counters}) == (1 if same else 2)


def test_what_is_counted_stays_with_a_request_that_is_kept(load_it: Any) -> None:
    from humanlayer_agent.store.rows import dump_decision, load_decision

    director = load_it(5, rules=RULES.replace("decision: deny", "decision: ask"))
    director.count_by(lambda counter, per, run: 1)
    decision = director.evaluate(act("curl a.example; curl b.example"))
    assert [(each.amount, each.within) for each in decision.counts] == [(2, (("hour", 5),))]
    read = load_decision(dump_decision(decision))
    assert (read.counts, read.momentary) == (decision.counts, True)
