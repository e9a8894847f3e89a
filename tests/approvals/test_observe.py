"""A policy that is only observed: everything runs, and the log has what the policy really said."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.model import Denial, Permit
from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.testing.approvers import ScriptedDirector

STORES = ("sqlite", "postgres")


class Observed:
    """A Director whose decisions are not enforced."""

    def __init__(self) -> None:
        self.inner = ScriptedDirector({"rm": Verdict.DENY, "ask": Verdict.ASK})

    def evaluate(self, action: Action) -> PolicyDecision:
        return replace(self.inner.evaluate(action), enforced=False)


@pytest.mark.parametrize(("command", "verdict"), [("rm x", "deny"), ("ask x", "ask"), ("ls", "allow")])
def test_it_runs_and_the_real_verdict_is_recorded(
    make_gate: Callable[..., Any], store: Store, act: Callable[..., Action], command: str, verdict: str
) -> None:
    gate = make_gate(director=Observed())
    action = act(command)
    permit = gate.check(action)
    assert isinstance(permit, Permit)
    assert gate.start(permit, action) is None
    (entry,) = store.events(type="decision.evaluated")
    assert (entry.event["verdict"], entry.event["enforced"]) == (verdict, False)
    assert entry.event["permit"] == permit.id
    assert not store.requests(), "nobody is asked"


def test_an_enforced_decision_says_so(make_gate: Callable[..., Any], store: Store, act: Callable[..., Action]) -> None:
    assert isinstance(make_gate().check(act("rm x")), Denial)
    (entry,) = store.events(type="decision.evaluated")
    assert (entry.event["verdict"], entry.event["enforced"]) == ("deny", True)


def test_a_director_that_fails_denies_also_while_observing(
    make_gate: Callable[..., Any], act: Callable[..., Action]
) -> None:
    class Broken:
        observe = True

        def evaluate(self, action: Action) -> PolicyDecision:
            raise RuntimeError("broken")

    assert isinstance(make_gate(director=Broken()).check(act("ls")), Denial)
