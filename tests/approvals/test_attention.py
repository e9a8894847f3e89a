"""Who answers too quickly types what it is about; who has approved a lot needs a second person."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from humanlayer_agent.approvals.attention import is_typed, to_type
from humanlayer_agent.approvals.authority import ApprovalRule, Authority
from humanlayer_agent.approvals.model import ApprovalRequest, Approver
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import Ask, PolicyDecision, Verdict
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import TEST_APPROVER as TESTER
from humanlayer_agent.testing.approvers import TEST_AUTHORITY, ScriptedApprovers

STORES = ("sqlite", "postgres")

BOB = Approver("slack:T1/U2", "slack", "chat")
DELETES = Ask("deletes", "rm", "delete", operand="/srv/old", severity="high")
Asks = Callable[..., ApprovalRequest]


def team(**fields: Any) -> ScriptedApprovers:
    rule = replace(TEST_AUTHORITY.routes["default"], **fields)
    return ScriptedApprovers(Authority(TEST_AUTHORITY.people, {"default": rule}))


@pytest.fixture
def ask(store: SQLiteStore, run: str, draft: Callable[..., ApprovalRequest]) -> Asks:
    def make(severity: str = "high", **said: Any) -> ApprovalRequest:
        asks = (replace(DELETES, severity=severity),)
        return store.create_request(draft(severity=severity, asks=asks, **said), TEST_AUTHORITY)

    return make


def test_two_hasty_approvals_and_the_third_is_typed(store: SQLiteStore, ask: Asks, clock: Any) -> None:
    people = team(slow_down_ms=3_000)
    for _ in range(2):
        request = ask()
        assert store.to_type(request.id, TESTER.principal, people.authority) == ""
        clock.pass_ms(2_999)
        assert people.vote(store, request).outcome == "recorded"
    request = ask()
    clock.pass_ms(60_000)
    assert store.to_type(request.id, TESTER.principal, people.authority) == "/srv/old"
    refused = people.vote(store, request, "approve", TESTER, "fine")
    assert (refused.outcome, refused.code, refused.state) == ("refused", "hasty", "pending")
    assert "/srv/old" in refused.reason
    assert people.vote(store, request, "approve", TESTER, "yes:  /srv/old").state == "approved"
    assert store.to_type(ask().id, TESTER.principal, people.authority) == "", "the last one was not hasty"
    assert next(iter(store.events(type="vote.refused"))).event["refusal"] == "hasty"


def test_only_approvals_of_what_is_severe_and_only_ones_own(store: SQLiteStore, ask: Asks, clock: Any) -> None:
    people = team(slow_down_ms=3_000)
    for severity in ("high", "medium", "high", "low"):
        people.vote(store, ask(severity))
        clock.pass_ms(10)
    assert people.vote(store, ask("medium")).outcome == "recorded"
    assert people.vote(store, ask(), "approve", BOB).outcome == "recorded", "bob was not hasty"
    assert people.vote(store, ask(), "reject", TESTER, "no").outcome == "recorded", "a no needs no care"
    assert people.vote(store, ask()).code == "hasty"


def test_a_careful_answer_in_between(store: SQLiteStore, ask: Asks, clock: Any) -> None:
    people = team(slow_down_ms=3_000)
    for wait in (10, 3_000, 10):
        request = ask()
        clock.pass_ms(wait)
        assert people.vote(store, request).outcome == "recorded"
        clock.pass_ms(1)
    assert people.vote(store, ask()).outcome == "recorded", "not two in a row"


def test_after_so_many_a_second_person_is_needed(store: SQLiteStore, ask: Asks, clock: Any) -> None:
    people = team(second_after=3)
    for _ in range(3):
        assert people.vote(store, ask()).state == "approved"
        clock.pass_ms(1_000)
    request = ask()
    first = people.vote(store, request)
    assert (first.outcome, first.state, first.missing) == ("recorded", "pending", 1)
    assert people.vote(store, request, "approve", BOB).state == "approved"
    clock.pass_ms(3_600_000)
    assert people.vote(store, ask()).state == "approved", "an hour later"


def test_a_route_that_nobody_could_meet_is_refused() -> None:
    with pytest.raises(ConfigError, match="second_after needs more approvers"):
        ApprovalRule("default", ("alice",), second_after=5)
    with pytest.raises(ConfigError, match="negative"):
        ApprovalRule("default", ("alice", "bob"), slow_down_ms=-1)


@pytest.mark.parametrize(
    ("asks", "typed"),
    [
        ((DELETES,), "/srv/old"),
        ((Ask("r", "curl", "network", operand="example.org"), DELETES), "/srv/old"),
        ((Ask("r", "frob", "execute", severity="high"),), "frob"),
        ((Ask("r", "rm", "delete", operand="/srv/a\n\x1b[2J", severity="high"),), "rm"),
        ((), "yes, I have read it"),
    ],
)
def test_what_is_typed(asks: tuple[Ask, ...], typed: str) -> None:
    assert to_type(PolicyDecision(Verdict.ASK, "", "p", "0" * 64, severity="high", asks=asks)) == typed
    assert is_typed(typed, f"I see: {typed}.")
    assert not is_typed(typed, "y")
