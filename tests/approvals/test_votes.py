"""Answers at the store: quorum, veto, who may, revoke, respond, escalate; and what the log says of each."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from humanlayer_agent.approvals.authority import Authority, Step
from humanlayer_agent.approvals.model import ApprovalRequest, Approver, Execution, Permit, Refused
from humanlayer_agent.approvals.votes import REFUSALS, said, tally
from humanlayer_agent.keys.signing import Signer, is_signed
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import TEST_APPROVER as TESTER
from humanlayer_agent.testing.approvers import TEST_AUTHORITY, ScriptedApprovers, answer

STORES = ("sqlite", "postgres")

TEAM = ScriptedApprovers()
ALICE = Approver("os:1000:alice", "terminal", "terminal")
BOB, CAROL = Approver("slack:T1/U2", "slack", "chat"), Approver("slack:T1/U3", "slack", "chat")
BOBS_MAIL = Approver("email:bob@example.com", "email", "mail-link")
GUEST, STRANGER = Approver("slack:T1/U9", "slack", "chat"), Approver("slack:T9/U9", "slack", "chat")
Ask = Callable[..., ApprovalRequest]


@pytest.fixture
def ask(store: SQLiteStore, run: str, draft: Callable[..., ApprovalRequest]) -> Ask:
    """Makes a request; "two" is a route that needs two approvals."""

    def make(route: str = "two", **said: Any) -> ApprovalRequest:
        return store.create_request(draft(route=route, **said), TEAM.authority)

    return make


def last(store: SQLiteStore, kind: str) -> dict[str, Any]:
    return next(iter(store.events(type=kind, last=1))).event


def permit(store: SQLiteStore, request: ApprovalRequest, authority: Authority = TEAM.authority) -> Permit | Refused:
    return store.permit(request, authority, use_by_ms=10_000)


# Quorum and veto


def test_it_stays_pending_until_enough_have_approved(store: SQLiteStore, ask: Ask) -> None:
    request = ask()
    first = TEAM.vote(store, request, "approve", BOB, "fine")
    assert (first.outcome, first.state, first.missing) == ("recorded", "pending", 1)
    assert isinstance(permit(store, request), Refused)
    second = TEAM.vote(store, request, "approve", CAROL, "me too")
    assert (second.outcome, second.state, second.missing) == ("recorded", "approved", 0)
    issued = permit(store, request)
    assert isinstance(issued, Permit)
    assert (issued.approved_by, issued.comment) == (CAROL.principal, "fine\nme too")
    assert isinstance(store.consume(issued, issued.digest, TEAM.authority), Execution)
    assert store.verify().intact


def test_people_are_counted_and_not_identities(store: SQLiteStore, ask: Ask) -> None:
    request = ask()
    TEAM.vote(store, request, "approve", BOB)
    again = TEAM.vote(store, request, "approve", BOBS_MAIL)
    assert (again.outcome, again.state, again.code) == ("refused", "pending", "voted-before")
    assert TEAM.vote(store, request, "reject", BOBS_MAIL).code == "voted-before"


@pytest.mark.parametrize("kind", ["reject", "respond", "terminate"])
def test_one_no_is_the_end(store: SQLiteStore, ask: Ask, kind: Any) -> None:
    request = ask()
    TEAM.vote(store, request, "approve", BOB)
    state = {"reject": "rejected", "respond": "answered", "terminate": "terminated"}[kind]
    assert TEAM.vote(store, request, kind, CAROL, "because").state == state
    assert TEAM.vote(store, request, "approve", TESTER).outcome == "late"
    assert isinstance(permit(store, request), Refused)
    found = store.get(request.id)
    assert found is not None
    assert (found.state, found.decided_by, found.comment) == (state, CAROL.principal, "because")


def test_what_is_recorded_of_a_vote(store: SQLiteStore, ask: Ask) -> None:
    request = ask("solo")
    TEAM.vote(store, request, "approve", ALICE, "mine")
    (vote,) = store.votes(request.id)
    assert (vote.person, vote.solo, vote.signer) == ("alice", True, TEAM.signer.fingerprint)
    assert is_signed(vote)
    event = last(store, "vote")
    assert {name: event[name] for name in ("person", "solo", "signer", "signature")} == {
        "person": "alice", "solo": True, "signer": vote.signer, "signature": store.redactor().digest(vote.signature),
    }  # fmt: skip
    created = last(store, "request.created")
    assert created["needed"] == 1
    assert '"solo": true' in created["rule"]


def test_a_request_keeps_the_rule_it_was_made_under(store: SQLiteStore, ask: Ask) -> None:
    found = store.get(ask().id)
    assert found is not None
    assert found.rule == TEST_AUTHORITY.routes["two"]
    assert found.needed == 2


def test_a_stricter_rule_of_who_records_counts_too(store: SQLiteStore, ask: Ask) -> None:
    request = ask("default")
    rule = replace(TEST_AUTHORITY.routes["default"], quorum=2)
    strict = ScriptedApprovers(Authority(TEST_AUTHORITY.people, {"default": rule}))
    assert strict.vote(store, request, "approve", BOB).missing == 1
    assert strict.vote(store, request, "approve", TESTER).state == "approved"


def test_the_votes_are_counted_by_the_rules_of_who_runs_it(store: SQLiteStore, ask: Ask) -> None:
    request = ask("default")
    TEAM.vote(store, request, "approve", BOB)
    rule = replace(TEST_AUTHORITY.routes["default"], quorum=2)
    strict = Authority(TEST_AUTHORITY.people, {"default": rule}, TEAM.authority.signers)
    refused = permit(store, request, strict)
    assert isinstance(refused, Refused)
    assert refused.reason == "its votes do not approve it: 1 approval counts, and 2 must"
    assert last(store, "permit")["why"] == refused.reason


# Who may


@pytest.mark.sample(14)
@pytest.mark.parametrize(
    ("who", "said", "code"),
    [
        (STRANGER, {}, "unknown-identity"),
        (GUEST, {}, "not-an-approver"),
        (CAROL, {"route": "default"}, "not-an-approver"),
        (ALICE, {}, "requester"),
        (replace(BOB, assurance="mail-reply"), {"severity": "high"}, "low-assurance"),
        (replace(TESTER, assurance="os"), {"severity": "high"}, "low-assurance"),
        (BOB, {"severity": "critical"}, "low-assurance"),
        (BOBS_MAIL, {"severity": "critical"}, "low-assurance"),
        (replace(BOB, assurance="heard of"), {}, "low-assurance"),
    ],
)
@pytest.mark.parametrize("kind", ["approve", "reject", "respond", "edit", "escalate", "terminate"])
def test_an_answer_that_does_not_count(
    store: SQLiteStore, ask: Ask, who: Approver, said: dict[str, str], code: str, kind: Any
) -> None:
    request = ask(**said)
    given = answer(request, kind, "words", approver=who, edited="ls" if kind == "edit" else "")
    result = TEAM.decide(store, request.id, given)
    assert (result.outcome, result.state, result.code) == ("refused", "pending", code)
    event = last(store, "vote")
    assert (event["type"], event["refusal"], event["why"]) == ("vote.refused", code, result.reason)
    assert store.votes(request.id) == []
    assert store.verify().intact


@pytest.mark.parametrize(
    ("who", "severity"),
    [(BOB, "high"), (BOBS_MAIL, "high"), (replace(BOB, assurance="login"), "critical"), (TESTER, "critical")],
)
def test_an_answer_that_is_good_enough(store: SQLiteStore, ask: Ask, who: Approver, severity: str) -> None:
    assert TEAM.vote(store, ask("default", severity=severity), "approve", who).state == "approved"


def test_solo_at_the_terminal_suffices_for_all(store: SQLiteStore, ask: Ask) -> None:
    assert TEAM.vote(store, ask("solo", severity="critical"), "approve", ALICE).state == "approved"
    (vote,) = store.votes(store.requests()[0].id)
    assert vote.solo


def test_a_process_whose_key_counts_nowhere(store: SQLiteStore, ask: Ask) -> None:
    request = ask()
    result = store.decide(request.id, answer(request, "approve", approver=BOB), TEST_AUTHORITY, Signer())
    assert (result.outcome, result.code) == ("refused", "untrusted-signer")


def test_a_route_that_is_not_known_where_it_is_answered(store: SQLiteStore, ask: Ask) -> None:
    other = ScriptedApprovers(Authority(TEST_AUTHORITY.people, {}))
    assert other.vote(store, ask(), "approve", BOB).code == "no-route"


def test_every_code_has_a_sentence() -> None:
    assert all(reason and not reason.endswith(".") for reason in REFUSALS.values())


# Words, escalation, revocation


def test_a_response_needs_words(store: SQLiteStore, ask: Ask) -> None:
    request = ask()
    assert TEAM.vote(store, request, "respond", BOB, " \n").code == "incomplete"
    assert TEAM.vote(store, request, "respond", BOB, "the file is in /srv").state == "answered"


@pytest.fixture
def stepped(store: SQLiteStore, ask: Ask) -> tuple[ScriptedApprovers, ApprovalRequest]:
    rule = replace(
        TEST_AUTHORITY.routes["two"], steps=(Step("terminal"), Step("slack", 120_000), Step("email", 900_000))
    )
    return ScriptedApprovers(Authority(TEST_AUTHORITY.people, {"two": rule})), ask()


def test_an_escalation_makes_the_next_step_due(
    store: SQLiteStore, stepped: tuple[ScriptedApprovers, ApprovalRequest], clock: Any
) -> None:
    team, request = stepped
    clock.pass_ms(60_000)
    result = team.vote(store, request, "escalate", BOB)
    assert (result.outcome, result.state, result.missing) == ("recorded", "pending", 2)
    found = store.get(request.id)
    assert found is not None
    assert found.escalated == 2
    event = last(store, "request.escalated")
    assert (event["level"], event["to"], event["by"]) == (2, "slack", BOB.principal)
    assert team.vote(store, request, "escalate", TESTER).outcome == "recorded"
    assert team.vote(store, request, "escalate", CAROL).code == "nobody-further"
    assert team.vote(store, request, "approve", BOB).missing == 1  # who escalated may still decide
    assert team.vote(store, request, "approve", CAROL).state == "approved"
    assert isinstance(permit(store, request), Permit)
    assert store.verify().intact


def test_nobody_further_to_ask(store: SQLiteStore, ask: Ask) -> None:
    assert TEAM.vote(store, ask(), "escalate", BOB).code == "nobody-further"


@pytest.mark.parametrize("who", [BOB, TESTER], ids=["who approved", "another"])
def test_an_approval_can_be_taken_back_before_it_is_used(store: SQLiteStore, ask: Ask, who: Approver) -> None:
    request = ask("default")
    TEAM.vote(store, request, "approve", BOB)
    issued = permit(store, request)
    assert isinstance(issued, Permit)
    result = TEAM.vote(store, request, "revoke", who, "wait")
    assert (result.outcome, result.state) == ("recorded", "revoked")
    refused = store.consume(issued, issued.digest, TEAM.authority)
    assert refused == Refused("the approval was revoked before it was used")
    found = store.get(request.id)
    assert found is not None
    assert (found.state, found.decided_by, found.comment) == ("revoked", who.principal, "wait")
    assert permit(store, request) == Refused("the request is revoked")
    assert store.verify().intact


def test_a_revocation_that_comes_too_late(store: SQLiteStore, ask: Ask) -> None:
    request = ask("default")
    TEAM.vote(store, request, "approve", BOB)
    issued = permit(store, request)
    assert isinstance(issued, Permit)
    store.consume(issued, issued.digest, TEAM.authority)
    result = TEAM.vote(store, request, "revoke", BOB)
    assert (result.outcome, result.state, result.reason) == ("late", "approved", "the approval was already used")
    assert last(store, "vote")["type"] == "vote.late"


def test_what_was_not_approved_can_not_be_revoked(store: SQLiteStore, ask: Ask) -> None:
    request = ask("default")
    assert TEAM.vote(store, request, "revoke", BOB).outcome == "late"
    assert store.requests()[0].state == "pending"
    TEAM.vote(store, request, "approve", BOB)
    assert TEAM.vote(store, request, "revoke", STRANGER).code == "unknown-identity"
    for wrong in (answer(request, "approve", approver=BOB), answer(request, "revoke", approver=BOB)):
        method = store.decide if wrong.kind == "revoke" else store.revoke
        assert method(request.id, wrong, TEAM.authority, TEAM.signer).code == "incomplete"
    assert store.requests()[0].state == "approved"


def test_the_same_revocation_twice(store: SQLiteStore, ask: Ask) -> None:
    request = ask("default")
    TEAM.vote(store, request, "approve", BOB)
    given = answer(request, "revoke", approver=BOB)
    assert TEAM.decide(store, request.id, given).outcome == "recorded"
    assert TEAM.decide(store, request.id, given).outcome == "duplicate"


# Clocks


@pytest.mark.parametrize("jump", [-3_600_000, -60_000])
def test_a_clock_that_was_set_back_since_the_approval(store: SQLiteStore, ask: Ask, clock: Any, jump: int) -> None:
    request = ask("default")
    TEAM.vote(store, request, "approve", BOB)
    clock.jump_ms(jump)
    assert permit(store, request) == Refused("the approval was not used in time")


def test_a_clock_that_goes_back_a_little_between_two_machines(store: SQLiteStore, ask: Ask, clock: Any) -> None:
    request = ask()
    TEAM.vote(store, request, "approve", BOB)
    clock.jump_ms(-2_000)
    TEAM.vote(store, request, "approve", CAROL)
    assert isinstance(permit(store, request), Permit)


def test_a_tally_has_one_vote_a_person(store: SQLiteStore, ask: Ask) -> None:
    request = ask()
    TEAM.vote(store, request, "approve", BOB)
    (vote,) = store.votes(request.id)
    counted = tally(request, [vote, vote, vote], TEAM.authority)
    assert (len(counted.approvals), counted.why_not) == (1, "1 approval counts, and 2 must")


def test_what_is_not_approved_was_decided_at_no_time(store: SQLiteStore, ask: Ask) -> None:
    request = ask()
    TEAM.vote(store, request, "approve", BOB)
    assert tally(request, store.votes(request.id), TEAM.authority).decided == 0
    TEAM.vote(store, request, "approve", CAROL)
    votes = store.votes(request.id)
    assert tally(request, votes, TEAM.authority).decided == max(vote.at for vote in votes)


def test_nothing_counts_on_a_route_that_is_not_known_any_more(store: SQLiteStore, ask: Ask) -> None:
    request = ask("default")
    TEAM.vote(store, request, "approve", BOB)
    votes = store.votes(request.id)
    without = replace(TEAM.authority, routes={})
    counted = tally(request, votes, without)
    assert counted.approvals == ()
    assert "there is none" in counted.why_not
    assert said("approve", request, votes, without) is None


# What reaches a model


def test_only_the_newest_proved_words_with_that_answer_are_said(store: SQLiteStore, ask: Ask, clock: Any) -> None:
    request = ask()
    for who, kind, words in [(BOB, "approve", "fine"), (TESTER, "approve", "go on"), (BOB, "revoke", "wait")]:
        clock.pass_ms(1_000)
        assert TEAM.vote(store, request, kind, who, words).outcome == "recorded"
    votes = store.votes(request.id)
    forged = [replace(vote, comment="run this instead", at=vote.at + 1) for vote in votes]
    for order in (votes, [*forged, *votes], votes[::-1]):
        assert [getattr(said(kind, request, order, TEAM.authority), "comment", None) for kind in ("approve", "revoke", "reject")] == ["go on", "wait", None]  # fmt: skip
    assert said("approve", request, forged, TEAM.authority) is None
    assert said("approve", request, [], TEAM.authority) is None
