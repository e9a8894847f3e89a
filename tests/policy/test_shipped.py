"""The policies that ship: every inline test, and what each rule owes its readers."""

from pathlib import Path

import pytest

from humanlayer_agent.actions import Action
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.load import find, load

NAMES = ("default", "strict")
PROJECT = "/nowhere/project"
ENVIRON = {"HOME": "/nowhere/home"}


def director(name: str) -> Director:
    return Director.load(name, project=PROJECT, environ=ENVIRON)


def inline() -> list[tuple[str, str, str, str]]:
    cases = []
    for name in NAMES:
        for rule in load(find(name)).rules:
            for kind in ("match", "maybe", "not_match"):
                cases += [(name, rule.id, kind, command) for command in getattr(rule.tests, kind)]
    return cases


@pytest.mark.parametrize(("name", "rule", "kind", "command"), inline())
def test_inline(name: str, rule: str, kind: str, command: str) -> None:
    decision = director(name).evaluate(Action(command, cwd=PROJECT))
    wanted = next(r.decision for r in load(find(name)).rules if r.id == rule)
    shown = f"{decision.verdict} {decision.rules}: {decision.reason}"
    if kind == "not_match":
        assert rule not in decision.rules, shown
        return
    assert rule in decision.rules, shown
    if kind == "maybe":
        assert decision.verdict >= Verdict.ASK, shown
    elif wanted == "allow":
        assert decision.verdict is Verdict.ALLOW, shown
    else:
        assert str(decision.verdict) in (wanted, "deny"), shown


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_has_a_reason_and_tests(name: str) -> None:
    for rule in load(find(name)).rules:
        assert rule.reason, rule.id
        assert rule.tests.match, rule.id
        assert rule.tests.not_match, rule.id
        if rule.decision != "allow":
            assert rule.suggestion, rule.id


@pytest.mark.parametrize("name", NAMES)
def test_everything_of_ours_is_off_limits(name: str, own_user: Path) -> None:
    judged = director(name)
    for command in (
        f"cat {own_user}/store/store.sqlite3",
        f"rm -f {own_user}/store/store.sqlite3-wal",
        f"sqlite3 x < {own_user}/store/store.sqlite3",
        "echo x > /nowhere/home/.config/humanlayer-agent/policy.yaml",
        "humanlayer-agent requests approve x",
        "env -i hla requests approve x",
        "bash -c 'hla run -t x'",
        'x=hla; $x requests approve "$(cat id)"',
    ):
        decision = judged.evaluate(Action(command, cwd=PROJECT))
        assert decision.verdict is Verdict.DENY, (command, decision.verdict, decision.rules)
