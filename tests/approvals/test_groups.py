"""Approvers by a group that somebody else keeps: the channel verifies who is in it, the core decides what that gives."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person
from humanlayer_agent.approvals.model import ApprovalRequest, Approver, Permit, Refused
from humanlayer_agent.approvals.votes import REFUSALS, Refusal, Seat, seat_of, tally
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.keys.signing import is_signed
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedApprovers, answer
from tests.support.forging import forging

STORES = ("sqlite", "postgres")

OURS, OTHERS, ELSEWHERE = (
    f"slack-usergroup:{team}/{group}" for team, group in (("T1", "S1"), ("T1", "S2"), ("T2", "S1"))
)
PLATFORM = Person("group:platform", (OURS,))
ALICE = Person("alice", ("os:1000:alice", "slack:T1/U1"))  # starts the runs
BOB = Person("bob", ("slack:T1/U2", "email:bob@example.com"))
MAILED = Person("mailed", ("email:mailed@example.com",))
PEOPLE = (ALICE, BOB, MAILED, PLATFORM)
ME = "os:1000:alice"
RULE = ApprovalRule("default", ("group:platform",), timeout_ms=600_000)


def member(user: str = "U7", *groups: str, team: str = "T1") -> Approver:
    return Approver(f"slack:{team}/{user}", "slack", "chat", groups or (OURS,))


def authority(people: tuple[Person, ...] = PEOPLE, **fields: Any) -> Authority:
    return Authority(people, {"default": replace(RULE, **fields)})


def seat(who: Approver, severity: str = "medium", *, requester: str = ME, given: Authority | None = None) -> str:
    """The id of the seat, or the code of the refusal."""
    known = given or authority()
    decision = PolicyDecision(Verdict.ASK, "asks", "test", "0" * 64, severity=severity)
    found = seat_of(known, known.rule_for(decision), requester, who)
    return found.person if isinstance(found, Seat) else found.code


# Whose group, and which


def test_being_in_the_group_suffices() -> None:
    assert seat(member()) == "slack:T1/U7"
    assert seat(member("U2")) == "bob"  # somebody we know is counted as that person


@pytest.mark.parametrize(
    ("who", "code"),
    [
        (replace(member(), groups=()), "unknown-identity"),
        (member("U7", OTHERS), "unknown-identity"),
        (member("U7", ELSEWHERE), "unknown-identity"),
        (member("U7", "group:platform"), "unknown-identity"),
        (member("U2", OTHERS), "not-an-approver"),
        (member("U7", team="T2"), "unknown-identity"),  # of another team: what is shared with it is not ours to judge
        (Approver("email:eve@example.com", "email", "mail-link", (OURS,)), "unknown-identity"),
        (Approver("os:1:eve", "terminal", "terminal", (OURS,)), "unknown-identity"),
        (Approver(OURS, "slack", "chat", (OURS,)), "unknown-identity"),
        (replace(member(), assurance="heard of"), "low-assurance"),
    ],
)
def test_who_is_not_in_it(who: Approver, code: str) -> None:
    assert seat(who) == code
    assert code in REFUSALS


def test_a_group_of_another_route_is_none() -> None:
    bob_only = authority(approvers=("bob",))
    assert seat(member(), given=bob_only) == "unknown-identity"


# Not whoever started the run


def test_the_requester_stays_out() -> None:
    assert seat(member("U1")) == "requester"
    assert seat(member("U7"), requester="slack:T1/U7") == "unknown-requester"


def test_who_might_be_the_requester_stays_out() -> None:
    """Alice may have a Slack account that channels.yaml does not name, and be in the group with it."""
    unmapped = authority((replace(ALICE, identities=(ME,)), BOB, MAILED, PLATFORM))
    assert seat(member(), given=unmapped) == "not-told-apart"
    assert seat(member("U2"), given=unmapped) == "bob"  # the file says who that is
    elsewhere = authority((replace(ALICE, identities=(ME, "slack:T2/U1")), BOB, MAILED, PLATFORM))
    assert seat(member(), given=elsewhere) == "not-told-apart"
    assert seat(member(), requester="os:9:nobody-known") == "unknown-requester"


def test_solo_does_not_make_one_human_two() -> None:
    solo = authority((replace(ALICE, identities=(ME,)), BOB, MAILED, PLATFORM), solo=True)
    assert seat(member(), given=solo) == "not-told-apart"
    assert seat(member("U1"), given=authority(solo=True)) == "alice"
    rule = solo.routes["default"]
    assert isinstance(known := seat_of(solo, rule, ME, member()), Refusal)
    assert known.reason == "slack:T1/U7 may be alice: name them, or that identity of alice, under `people:`"
    assert isinstance(nobody_known := seat_of(solo, rule, "os:9:nobody-known", member()), Refusal)
    assert (nobody_known.code, "may be who started the run" in nobody_known.reason) == ("not-told-apart", True)


def test_where_several_must_approve_each_is_told_from_the_others() -> None:
    two = authority(approvers=("bob", "group:platform"), quorum=2)
    assert seat(member(), given=two) == "slack:T1/U7"
    three = authority(approvers=("bob", "mailed", "group:platform"), quorum=2)
    assert seat(member(), given=three) == "not-told-apart"  # that may be the person called mailed
    assert seat(member(), given=authority(approvers=("bob", "mailed", "group:platform"))) == "slack:T1/U7"
    far = Person("group:far", (ELSEWHERE,))
    both = authority((*PEOPLE, far), approvers=("group:far", "group:platform"), quorum=2)
    assert seat(member(), given=both) == "not-told-apart"


def test_an_id_is_no_principal() -> None:
    named = authority((*PEOPLE, Person("slack:T1/U7", ("os:7:x",))))
    assert seat(member(), given=named) == "not-told-apart"


# For how much


@pytest.mark.parametrize(
    ("severity", "usergroup_high", "found"),
    [
        ("low", False, "slack:T1/U7"),
        ("medium", False, "slack:T1/U7"),
        ("high", False, "severe-for-group"),
        ("high", True, "slack:T1/U7"),
        ("critical", True, "severe-for-group"),
        ("unheard of", True, "severe-for-group"),
    ],
)
def test_how_severe_it_may_be(severity: str, usergroup_high: bool, found: str) -> None:
    known = authority(usergroup_high=usergroup_high)
    assert seat(member(), severity, given=known) == found
    assert seat(replace(member(), assurance="terminal"), severity, given=known) == found
    decision = PolicyDecision(Verdict.ASK, "asks", "test", "0" * 64, severity=severity)
    if found == "severe-for-group":
        with pytest.raises(ConfigError, match=f"groups don't decide what is of severity {severity}"):
            known.answerable(decision, ME)
    else:
        assert known.answerable(decision, ME).by_group


def test_who_is_named_needs_no_group() -> None:
    known = authority(approvers=("bob", "group:platform"))
    assert seat(member("U2"), "high", given=known) == "bob"
    assert seat(replace(member("U2"), groups=()), given=known) == "bob"


# What can't be


@pytest.mark.parametrize(
    "wrong",
    [
        Person("platform", (OURS,)),
        Person("group:platform", ("slack:T1/U3",)),
        Person("group:platform", ()),
        Person("group:platform", (OURS, OTHERS)),
        Person("group:platform", (OURS, "slack:T1/U3")),
        Person("eve", (OURS, "slack:T1/U3")),
    ],
)
def test_a_group_and_a_person_are_two_things(wrong: Person) -> None:
    with pytest.raises(ConfigError, match="a group is called group:NAME"):
        Authority((wrong,), {})


def test_a_group_can_make_any_quorum() -> None:
    assert authority(quorum=3).routes["default"].quorum == 3
    with pytest.raises(ConfigError, match="2 approvals can't come from 1 people"):
        ApprovalRule("default", ("bob",), quorum=2)


# At the store


@pytest.fixture
def team() -> ScriptedApprovers:
    rules = {
        "default": RULE,
        "two": replace(RULE, name="two", approvers=("bob", "group:platform"), quorum=2),
    }
    return ScriptedApprovers(Authority(PEOPLE, rules))


@pytest.fixture
def ask(
    store: SQLiteStore, run: str, draft: Callable[..., ApprovalRequest], team: ScriptedApprovers
) -> Callable[..., ApprovalRequest]:
    return lambda **said: store.create_request(draft(**said), team.authority)


def test_the_groups_are_stored_signed_and_logged(
    store: SQLiteStore, ask: Callable[..., ApprovalRequest], team: ScriptedApprovers
) -> None:
    request = ask()
    assert team.vote(store, request, "approve", member()).state == "approved"
    (vote,) = store.votes(request.id)
    assert (vote.person, vote.approver.groups) == ("slack:T1/U7", (OURS,))
    assert is_signed(vote)
    assert not is_signed(replace(vote, approver=replace(vote.approver, groups=(OURS, OTHERS))))
    assert not is_signed(replace(vote, approver=replace(vote.approver, groups=())))
    event = next(iter(store.events(type="vote.recorded"))).event
    assert event["approver"] == {"principal": "slack:T1/U7", "channel": "slack", "assurance": "chat", "groups": [OURS]}
    permit = store.permit(request, team.authority, use_by_ms=10_000)
    assert isinstance(permit, Permit)
    assert not isinstance(store.consume(permit, permit.digest, team.authority), Refused)
    assert store.verify().intact


def test_two_of_a_group_are_two(
    store: SQLiteStore, ask: Callable[..., ApprovalRequest], team: ScriptedApprovers
) -> None:
    request = ask(route="two")
    assert team.vote(store, request, "approve", member("U7")).missing == 1
    assert team.vote(store, request, "approve", member("U7")).code == "voted-before"
    assert team.vote(store, request, "approve", member("U8")).state == "approved"
    assert not tally(request, store.votes(request.id), team.authority).why_not


def test_one_click_again_after_the_group_has_changed(
    store: SQLiteStore, ask: Callable[..., ApprovalRequest], team: ScriptedApprovers
) -> None:
    request = ask(route="two")
    given = answer(request, "approve", approver=member())
    assert team.decide(store, request.id, given).outcome == "recorded"
    for groups in ((), (OURS, OTHERS)):
        again = replace(given, approver=replace(given.approver, groups=groups))
        assert team.decide(store, request.id, again).outcome == "duplicate"
    other = replace(given, approver=member("U8"))
    assert team.decide(store, request.id, other).code == "repeated-id"


@pytest.mark.parametrize("member_of", ["[]", f'["{OTHERS}"]', "{}", "7", "null", f'"{OURS}"', "[7]"])
def test_a_vote_whose_groups_were_edited_counts_for_nothing(
    store: SQLiteStore, path: Path, ask: Callable[..., ApprovalRequest], team: ScriptedApprovers, member_of: str
) -> None:
    request = ask()
    team.vote(store, request, "approve", member())
    with forging(path) as connection:
        connection.execute("UPDATE vote SET member_of = ?", (member_of,))
    assert isinstance(store.permit(request, team.authority, use_by_ms=10_000), Refused)
    assert not store.verify().intact


@pytest.mark.parametrize("groups", [None, [OURS], OURS, (OURS, 7), (OURS,) * 101], ids=str)
def test_what_no_channel_says(
    store: SQLiteStore, ask: Callable[..., ApprovalRequest], team: ScriptedApprovers, groups: Any
) -> None:
    request = ask()
    given = answer(request, "approve", approver=Approver("slack:T1/U7", "slack", "chat", groups))
    assert team.decide(store, request.id, given).code == "incomplete"
    assert store.votes(request.id) == []
    assert store.verify().intact


users = st.sampled_from(["U1", "U2", "U7", "U8"])
memberships = st.lists(st.sampled_from([OURS, OTHERS, ELSEWHERE]), max_size=3).map(tuple)


@given(
    approvers=st.lists(st.sampled_from(["alice", "bob", "mailed", "group:platform"]), min_size=1, unique=True),
    quorum=st.integers(1, 3),
    solo=st.booleans(),
    slacked=st.booleans(),
    team=st.sampled_from(["T1", "T2"]),
    user=users,
    groups=memberships,
    severity=st.sampled_from(["low", "medium", "high", "critical"]),
)
def test_nobody_is_seated_who_might_be_the_requester(
    approvers: list[str], quorum: int, solo: bool, slacked: bool, team: str, user: str, groups: Any, severity: str
) -> None:
    alice = ALICE if slacked else replace(ALICE, identities=(ME,))
    try:
        known = authority((alice, BOB, MAILED, PLATFORM), approvers=tuple(approvers), quorum=quorum, solo=solo)
    except ConfigError:
        return
    decision = PolicyDecision(Verdict.ASK, "asks", "test", "0" * 64, severity=severity)
    who = Approver(f"slack:{team}/{user}", "slack", "chat", groups)
    found = seat_of(known, known.rule_for(decision), ME, who)
    if isinstance(found, Refusal):
        return
    by_name = found.person in approvers
    assert by_name or (team == "T1" and OURS in groups and "group:platform" in approvers)
    assert by_name or severity in ("low", "medium")
    assert solo or found.person != "alice"
    assert found.person in ("alice", "bob") or slacked
    if quorum > 1 and found.person not in ("alice", "bob"):
        assert "mailed" not in approvers
