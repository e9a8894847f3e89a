"""What answers have to pass before they come to the core."""

import threading

import pytest

from humanlayer_agent.approvals.model import Approver
from humanlayer_agent.errors import StoreError
from humanlayer_agent.hub.channel_access import NOT_SHOWN, StoreDesk
from humanlayer_agent.keys.signing import process_signer
from humanlayer_agent.testing.approvers import answer
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.hub.conftest import ALICE, EVE, team

BY = Approver(ALICE, "board", "chat")


@pytest.fixture
def desk(store):
    return StoreDesk(store, "board", team(), process_signer())


def deliver(store, request, *, complete=True, channel="board", digest=None, step=0):
    store.surfaces.begin_delivery(request.id, step, channel)
    store.surfaces.delivered(request.id, step, channel, {"message": "m1"}, digest or request.digest, complete=complete)


@pytest.mark.parametrize("kind", ["approve", "edit"])
@pytest.mark.parametrize("how", ["nowhere", "not whole", "elsewhere", "something else"])
def test_only_what_is_shown_whole_can_be_approved(store, desk, ask, kind, how):
    request = ask()
    if how == "not whole":
        deliver(store, request, complete=False)
    elif how == "elsewhere":
        deliver(store, request, channel="another")
    elif how == "something else":
        deliver(store, request, digest="e" * 64)
    result = desk.decide(request.id, answer(request, kind, approver=BY, edited="make test" if kind == "edit" else ""))
    assert (result.outcome, result.code, result.state) == ("refused", NOT_SHOWN, "pending")
    assert store.votes(request.id) == []
    (refused,) = store.events(request=request.id, type="vote.refused")
    assert refused.event["refusal"] == NOT_SHOWN
    assert refused.event["approver"]["principal"] == ALICE


def test_what_is_not_shown_whole_can_be_rejected(store, desk, ask):
    request = ask()
    deliver(store, request, complete=False)
    assert desk.decide(request.id, answer(request, "reject", "no", approver=BY)).state == "rejected"


def test_an_answer_that_is_faster_than_the_delivery_is_written_down_waits_for_that(store, desk, ask, monkeypatch):
    monkeypatch.setattr("humanlayer_agent.hub.channel_access.PATIENCE", PATIENCE)
    request = ask()
    store.surfaces.begin_delivery(request.id, 0, "board")
    results = []
    human = threading.Thread(
        target=lambda: results.append(desk.decide(request.id, answer(request, "approve", approver=BY)))
    )
    looks = []
    deliveries = store.surfaces.deliveries
    monkeypatch.setattr(store.surfaces, "deliveries", lambda *asked: looks.append(asked) or deliveries(*asked))
    human.start()
    until(lambda: len(looks) > 2, "that it looks for the delivery again and again")
    assert not results
    deliver(store, request)
    human.join()
    assert results[0].state == "approved"


def test_an_answer_to_what_is_still_being_delivered_is_not_refused_but_has_to_come_again(store, desk, ask, monkeypatch):
    """Whoever posted it was killed before that was written down: a human's answer must not be lost by it."""
    monkeypatch.setattr("humanlayer_agent.hub.channel_access.PATIENCE", 0.0)
    request = ask()
    store.surfaces.begin_delivery(request.id, 0, "board")
    given = answer(request, "approve", approver=BY)
    with pytest.raises(StoreError, match="not written down yet that board shows this request"):
        desk.decide(request.id, given)
    assert not list(store.events(request=request.id, type="vote.refused"))
    deliver(store, request)
    assert desk.decide(request.id, given).state == "approved"


def test_a_value_of_one_request_does_not_approve_another(store, desk, ask):
    shown, other = ask(), ask("make other")
    deliver(store, shown)
    result = desk.decide(other.id, answer(shown, "approve", approver=BY))
    assert result.outcome == "refused"
    assert store.get(other.id).state == "pending"


def test_an_unknown_request(desk, ask):
    request = ask()
    result = desk.decide("f" * 32, answer(request, "approve", approver=BY))
    assert (result.outcome, result.state) == ("refused", None)
    assert desk.request("f" * 32) is None
    assert desk.outcome("f" * 32) is None


def test_an_approval_can_be_taken_back_by_a_channel(store, desk, ask):
    request = ask()
    deliver(store, request)
    desk.decide(request.id, answer(request, "approve", approver=BY))
    assert desk.decide(request.id, answer(request, "revoke", approver=BY)).state == "revoked"


def test_refusals_are_written_down_whatever_the_principal_is(store, desk, ask):
    request = ask()
    desk.refused(request.id, EVE, "foreign-team", "this is another team")
    desk.refused(request.id, ["U1"], "foreign-team", "this is another team")
    principals = [e.event["approver"]["principal"] for e in store.events(request=request.id, type="vote.refused")]
    assert principals == [EVE, "<list>"]


def test_everybody_is_told_of_a_change(store, ask):
    heard = []
    desk = StoreDesk(
        store, "board", team(), process_signer(), changed=lambda: heard.append("changed"),
        recorded=lambda *given: heard.append(given[2].outcome),
    )  # fmt: skip
    request = ask()
    deliver(store, request)
    desk.decide(request.id, answer(request, "approve", approver=BY))
    assert heard == ["changed", "recorded"]


def test_an_outcome_says_who_and_how_many_are_missing(store, ask):
    authority = team(quorum=2)
    desk = StoreDesk(store, "board", authority, process_signer())
    request = ask(authority=authority)
    deliver(store, request)
    assert (desk.outcome(request.id).missing, desk.outcome(request.id).mark) == (2, "pending 0 0")
    assert desk.decide(request.id, answer(request, "approve", approver=BY)).missing == 1
    found = desk.outcome(request.id)
    assert (found.missing, found.by, found.mark) == (1, "", "pending 1 0")
    (place,) = store.surfaces.presentations("board")
    assert place.mark == found.mark, "the store and the contract say the same"


def test_an_inbox_gets_what_waits_and_the_newest_that_is_settled(store, desk, ask):
    settled = [ask(f"make {number}") for number in range(4)]
    for request in settled:
        store.withdraw(request.id, "over")
    waits = ask("make late")
    assert [request.id for request in desk.requests(waiting=True)] == [waits.id]
    assert [request.id for request in desk.requests(waiting=False)] == [request.id for request in settled]
    assert [request.id for request in desk.requests(waiting=False, last=2)] == [settled[2].id, settled[3].id]
