"""Who may decide: people, the rules of routes, severity."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.approvals.authority import ASSURANCES, ApprovalRule, Authority, Person, Step
from humanlayer_agent.approvals.model import Approver
from humanlayer_agent.approvals.votes import REFUSALS, Refusal, Seat, seat_of
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict

ALICE = Person("alice", ("os:1000:alice", "slack:T1/U1", "email:Alice@Example.com"))
BOB = Person("bob", ("os:bob", "slack:T1/U2"))
CAROL = Person("carol", ("os:1002",))
DORA = Person("dora", ("os:1003:",))
PEOPLE = (ALICE, BOB, CAROL, DORA)
RULE = ApprovalRule("default", ("alice", "bob"))


def team(**fields: Any) -> Authority:
    return Authority(PEOPLE, {"default": replace(RULE, **fields)})


def decision(route: Any = "default", severity: str = "medium") -> PolicyDecision:
    return PolicyDecision(Verdict.ASK, "asks", "test", "0" * 64, route=route, severity=severity)


# People


@pytest.mark.parametrize(
    ("principal", "person"),
    [
        ("os:1000:alice", "alice"),
        ("os:1000", None),  # alice's identity names both
        ("os:1000:bob", "bob"),  # by name
        ("os:1001:bob", "bob"),
        ("os:1001:alice", None),
        ("os:1002:anybody", "carol"),
        ("os:1002", "carol"),
        ("os:1002:bob", None),  # carol by uid, bob by name: nobody knows
        ("os:1003:whoever", "dora"),
        ("os:01002:anybody", None),
        ("os:bob", "bob"),
        ("os:", None),
        ("os::", None),
        ("slack:T1/U1", "alice"),
        ("slack:T1/u1", None),
        ("slack:T2/U1", None),
        ("slack:T1/U1 ", None),
        ("email:alice@example.com", "alice"),
        ("email:ALICE@EXAMPLE.COM", "alice"),
        ("email:alice@example.com.evil.org", None),
        ("email:alıce@example.com", None),
        ("alice", None),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_who_somebody_is(principal: Any, person: str | None) -> None:
    found = team().person_of(principal)
    assert (found and found.id) == person


def test_a_text_that_says_it_equals_everybody() -> None:
    class Anybody(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return True

    assert team().person_of(Anybody("x")) is None


@pytest.mark.parametrize(
    ("people", "why"),
    [
        ((ALICE, replace(BOB, id="alice")), "an id of their own"),
        ((Person("", ("os:1",)),), "an id of their own"),
        ((ALICE, Person("eve", ("slack:T1/U1",))), "can't be both alice and eve"),
        ((ALICE, Person("eve", ("email:alice@example.com",))), "can't be both"),
    ],
)
def test_people_who_can_not_be_told_apart(people: tuple[Person, ...], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Authority(people, {})


def test_a_user_of_one_machine_is_none_of_another() -> None:
    """Whoever is called alice on a machine of their own is not the alice of ours."""
    here, there = "0123456789ab", "ba9876543210"
    ours = Authority((Person("alice", (f"os:{here}/alice",)), Person("bob", ("os:bob",))), {})
    for principal in (f"os:{here}/1000:alice", f"os:{here}/1:alice"):
        assert getattr(ours.person_of(principal), "id", None) == "alice"
    for principal in (
        f"os:{there}/1000:alice",
        "os:1000:alice",
        f"os:{here}/1000:",
        f"os:{here}/alice:1000",
        "os:alice",
    ):
        assert ours.person_of(principal) is None, principal
    for principal in (f"os:{here}/7:bob", f"os:{there}/8:bob", "os:9:bob"):  # who is named without a machine
        assert getattr(ours.person_of(principal), "id", None) == "bob"
    both = Authority((Person("alice", (f"os:{here}/alice",)), Person("any", ("os:alice",))), {})
    assert both.person_of(f"os:{here}/1000:alice") is None, "two might be meant"


def test_two_users_of_one_machine_may_be_one_human() -> None:
    alice = Person("alice", ("os:0123456789ab/alice",))
    assert not Authority((alice,), {}).is_told_apart(alice, "os:0123456789ab/0:root")


def test_a_mapping_of_people() -> None:
    assert Authority({"alice": ALICE}, {}).person_of("slack:T1/U1") == ALICE  # type: ignore[arg-type]


# Rules


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"quorum": 3}, "3 approvals can't come from 2 people"),
        ({"quorum": 0}, "quorum must be"),
        ({"quorum": True}, "quorum must be"),
        ({"quorum": 1.5}, "quorum must be"),
        ({"approvers": ()}, "can't come from 0 people"),
        ({"approvers": ("alice", "alice"), "quorum": 2}, "can't come from 1 people"),
        ({"min_assurance": "best"}, "not one of os"),
        ({"timeout_ms": 0}, "must be positive"),
        ({"valid_for_ms": -1}, "must be positive"),
        ({"steps": (Step("slack", 0, ("carol",)),)}, "carol is not one of its approvers"),
    ],
)
def test_a_rule_that_makes_no_sense(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        replace(RULE, **fields)


def test_an_approver_who_is_nobody() -> None:
    with pytest.raises(ConfigError, match="'zoe' is not one of the people"):
        Authority(PEOPLE, {"default": ApprovalRule("default", ("zoe",))})
    with pytest.raises(ConfigError, match="its rule is that of 'default'"):
        Authority(PEOPLE, {"other": RULE})


def test_steps_come_due_by_time_and_by_escalation() -> None:
    rule = replace(RULE, steps=(Step("email", 900), Step("terminal"), Step("slack", 120)))
    names = lambda *now: [step.to for step in rule.due(*now)]  # noqa: E731
    assert names(-5) == []
    assert names(0) == ["terminal"]
    assert names(120) == ["terminal", "slack"]
    assert names(1_000) == ["terminal", "slack", "email"]
    assert names(0, 2) == ["terminal", "slack"]
    assert names(1_000, 2) == ["terminal", "slack", "email"]
    assert names(0, 99) == ["terminal", "slack", "email"]


# Routes


@pytest.mark.parametrize(
    ("severity", "floor"),
    [("low", "os"), ("medium", "os"), ("high", "chat"), ("critical", "login"), ("", "login"), ("unheard of", "login")],
)
def test_severity_raises_the_assurance(severity: str, floor: str) -> None:
    assert team().rule_for(decision(severity=severity)).min_assurance == floor
    assert team(min_assurance="terminal").rule_for(decision(severity=severity)).min_assurance == "terminal"


@pytest.mark.parametrize(
    "route", ["nowhere", "", "Default", None, 7, ("default",), {"name": "nowhere"}, {"name": None}]
)
def test_a_route_that_does_not_exist(route: Any) -> None:
    with pytest.raises(ConfigError, match=r"there is none; there are default"):
        team().rule_for(decision(route))


@pytest.mark.parametrize(
    ("inline", "quorum", "assurance"),
    [
        ({}, 1, "os"),
        ({"quorum": 2}, 2, "os"),
        ({"quorum": 0}, 1, "os"),
        ({"quorum": -7}, 1, "os"),
        ({"name": "default", "min_assurance": "login"}, 1, "login"),
    ],
)
def test_a_policy_may_raise_what_a_route_says(inline: Any, quorum: int, assurance: str) -> None:
    rule = team().rule_for(decision(inline))
    assert (rule.quorum, rule.min_assurance) == (quorum, assurance)


@pytest.mark.parametrize("route", ["default", {"quorum": 2}, {"also": [{"min_assurance": "login"}]}])
@pytest.mark.parametrize("severity", ["low", "high", "critical"])
def test_nothing_else_of_a_decision_counts(route: Any, severity: str) -> None:
    other = replace(decision(route, severity), verdict=Verdict.DENY, rules=("another",), reason="says no")
    assert team().rule_of(route, severity) == team().rule_for(other) == team().rule_for(decision(route, severity))


def test_and_can_not_lower_it() -> None:
    rule = team(quorum=2, min_assurance="chat").rule_for(decision({"quorum": 1, "min_assurance": "os"}))
    assert (rule.quorum, rule.min_assurance) == (2, "chat")


@pytest.mark.parametrize(
    "inline",
    [
        {"approvers": ("carol",)},
        {"solo": True},
        {"timeout_ms": 1},
        {"quorum": "1"},
        {"quorum": 3},
        {"min_assurance": "x"},
    ],
)
def test_and_nothing_else(inline: Any) -> None:
    with pytest.raises(ConfigError):
        team().rule_for(decision(inline))


@given(
    st.sampled_from(sorted(ASSURANCES)), st.integers(1, 2), st.sampled_from(sorted(ASSURANCES)), st.integers(-1, 2),
    st.sampled_from(["low", "medium", "high", "critical", "x"]),
)  # fmt: skip
def test_whatever_a_policy_says_it_takes_at_least_what_the_route_says(
    own: str, quorum: int, wanted: str, more: int, severity: str
) -> None:
    rule = team(quorum=quorum, min_assurance=own).rule_for(
        decision({"quorum": more, "min_assurance": wanted}, severity)
    )
    assert rule.quorum == max(quorum, more)
    assert ASSURANCES[rule.min_assurance] >= max(ASSURANCES[own], ASSURANCES[wanted])
    assert rule.approvers == RULE.approvers


# Seats


def seat(principal: str, assurance: str = "terminal", requester: str = "slack:T1/U1", **fields: Any) -> Seat | Refusal:
    authority = team(**fields)
    return seat_of(authority, authority.routes["default"], requester, Approver(principal, "test", assurance))


def code(found: Seat | Refusal) -> str:
    assert isinstance(found, Refusal)
    assert found.code in REFUSALS
    return found.code


def test_who_may_answer() -> None:
    assert seat("slack:T1/U2") == Seat("bob", solo=False)
    assert code(seat("slack:T1/U7")) == "unknown-identity"
    assert code(seat("os:1002:carol")) == "not-an-approver"
    assert code(seat("slack:T1/U2", "mail-reply", min_assurance="chat")) == "low-assurance"
    assert code(seat("slack:T1/U2", "something", min_assurance="os")) == "low-assurance"
    assert isinstance(seat("slack:T1/U2", "mail-link", min_assurance="chat"), Seat)


def test_who_started_the_run_may_not_answer_by_any_identity() -> None:
    for principal in ALICE.identities:
        assert code(seat(principal)) == "requester"
        assert seat(principal, solo=True) == Seat("alice", solo=True)


def test_where_it_is_not_known_who_started_the_run() -> None:
    assert code(seat("slack:T1/U2", requester="os:77:ci")) == "unknown-requester"
    assert seat("slack:T1/U2", requester="os:77:ci", solo=True) == Seat("bob", solo=False)


def test_a_route_with_nobody_but_who_started_the_run() -> None:
    alone = {"approvers": (), "solo": True}
    assert seat("os:1000:alice", **alone) == Seat("alice", solo=True)
    assert code(seat("slack:T1/U2", **alone)) == "not-an-approver"
    assert code(seat("os:77:ci", requester="os:77:ci", **alone)) == "unknown-identity"


def test_how_many_may_answer() -> None:
    may = lambda requester, **fields: team(**fields).may_answer(team(**fields).routes["default"], requester)  # noqa: E731
    assert may("slack:T1/U1") == {"bob"}
    assert may("slack:T1/U1", solo=True) == {"alice", "bob"}
    assert may("os:1002") == {"alice", "bob"}
    assert may("os:77:ci") == set()
    assert may("os:77:ci", solo=True) == {"alice", "bob"}
    assert may("slack:T1/U1", solo=True, approvers=()) == {"alice"}
    assert may("os:77:ci", solo=True, approvers=()) == set()


def test_alone() -> None:
    alone = Authority.alone("os:1000:alice", "user:Me")
    (person,) = alone.people
    assert person == Person("alice", ("os:1000:alice", "user:Me"))
    rule = alone.rule_for(decision(severity="critical"))
    assert (rule.solo, rule.quorum, rule.timeout_ms) == (True, 1, 600_000)
    assert seat_of(alone, rule, "os:1000:alice", Approver("user:Me", "x", "terminal")) == Seat("alice", solo=True)
    with pytest.raises(ConfigError):
        alone.rule_for(decision("team"))


def test_it_can_not_be_changed_from_outside() -> None:
    routes = {"default": RULE}
    authority = Authority(PEOPLE, routes)
    routes["default"] = replace(RULE, solo=True)
    assert not authority.routes["default"].solo
    with pytest.raises(TypeError):
        authority.routes["default"] = RULE  # type: ignore[index]
