"""Approving for more than once in Slack: the form, who submits it when, and what is said afterwards."""

import json
from dataclasses import replace
from typing import Any

import pytest

from humanlayer_agent.approvals.grants import offers, read_scope
from humanlayer_agent.channels.offers import foresight
from humanlayer_agent.channels.slack import clicks, forms, message
from humanlayer_agent.policy.decision import Ask
from humanlayer_agent.testing.conformance import CONTACT, FETCH, HOSTILE
from humanlayer_agent.testing.fake_slack import TEAM
from humanlayer_agent.testing.fake_slack import blocks as fake
from humanlayer_agent.testing.patience import until
from tests.channels.slack.conftest import option_of, sealed, texts
from tests.channels.slack.test_cases import last, opened, refusals
from tests.channels.slack.test_message import request_of
from tests.support.forging import forging

BESIDE = "Approve for…"


def form(show, slack, who: str = "alice", **fields: Any) -> tuple[Any, Any, Any]:
    request, surface = show(FETCH, asks=CONTACT, **fields)
    assert surface.click("grant", who).acked
    return request, surface, opened(slack, who)


def test_the_button_stands_beside_approve_where_there_is_something_to_choose(show, slack) -> None:
    _, surface = show(FETCH, asks=CONTACT)
    shown = slack.people.buttons(surface.ts)
    assert list(shown)[:2] == ["hla_approve", "hla_grant"]
    assert shown["hla_grant"]["text"]["text"] == BESIDE
    for fields in ({"asks": ()}, {"asks": CONTACT, "severity": "critical"}):
        _, surface = show(FETCH, **fields)
        assert "hla_grant" not in slack.people.buttons(surface.ts)


def test_the_form_says_what_each_scope_means(world, show, slack) -> None:
    for command, answer in (
        ("curl -fsS https://example.org/1", "approve"),
        ("curl -fsS https://example.org/2", "reject"),
    ):
        earlier, _ = show(command, asks=CONTACT)
        world.decide_elsewhere(earlier, answer)
    request, _, view = form(show, slack)
    said = "\n".join(texts(view["blocks"]))
    options = view["blocks"][-1]["element"]["options"]
    assert view["blocks"][-1]["element"]["type"] == "radio_buttons"
    assert [option["value"].partition("|")[0] for option in options] == [offer.name for offer in offers(request)]
    for number, offer in enumerate(offers(request), 1):
        assert f"{number}  {offer.words}" in said
    assert "at most 50 times and for 1 hour, for agent agent in /srv/app" in said
    assert "⚠ of 2 earlier requests in this project it would have answered 2, 1 of which a human did not want" in said
    assert "curl -fsS https://example.org/2" in said
    assert "Not other programs, options or hosts" in said


def test_what_is_chosen_is_signed_and_said(world, show, slack) -> None:
    request, surface, view = form(show, slack, "bob")
    assert slack.people.submit("U0BOB", view["id"], {"said": option_of(view, "hour")}).outcome == "closed"
    (vote,) = world.store.votes(request.id)
    scope = read_scope(vote.scope)
    assert scope is not None
    assert (scope.run, scope.until - vote.at, scope.uses) == ("", 3_600_000, 50)
    assert (vote.approver.principal, vote.approver.assurance) == (f"slack:{TEAM}/U0BOB", "chat")
    world.settle(request)
    assert "✅ Approved by bob, and remembered: curl contacting example.org:443, for 1 hour (50 uses)" in surface.text()
    assert not slack.people.buttons(surface.ts)


def test_nothing_chosen(world, show, slack) -> None:
    request, _, view = form(show, slack)
    with pytest.raises(ValueError, match="required"):
        slack.people.submit("U0ALICE", view["id"], {})
    with slack.world.lock:
        slack.world.views[view["id"]]["blocks"][-1]["optional"] = True  # a client that lets it through all the same
    done = slack.people.submit("U0ALICE", view["id"], {})
    assert done.errors["said"].startswith("Choose")
    assert world.state(request) == "pending"


def test_submitted_twice(world, show, slack) -> None:
    request, _, view = form(show, slack)
    for _ in range(2):
        assert slack.people.submit("U0ALICE", view["id"], {"said": option_of(view, "run")}).outcome == "closed"
        with slack.world.lock:
            slack.world.views[view["id"]]["_open"] = True
    done = slack.people.submit("U0ALICE", view["id"], {"said": option_of(view, "hour")})
    assert done.errors["said"].startswith("Too late")
    assert [result.outcome for result in world.answered] == ["recorded", "duplicate", "late"]
    assert len(world.store.votes(request.id)) == 1
    assert len(world.store.grants.given()) == 1


def test_submitted_after_somebody_else_has_decided(world, show, slack) -> None:
    request, surface, view = form(show, slack)
    surface.click("reject", "bob")
    assert slack.people.submit("U0BOB", opened(slack, "bob")["id"], {"said": "no"}).outcome == "closed"
    done = slack.people.submit("U0ALICE", view["id"], {"said": option_of(view, "run")})
    assert done.errors["said"].startswith("Too late")
    assert (world.state(request), last(world, request)["type"]) == ("rejected", "vote.late")
    assert world.store.grants.given() == []
    until(lambda: not surface.offers(), "a settled message")


def test_submitted_after_expiry(world, show, slack, monkeypatch: pytest.MonkeyPatch) -> None:
    request, surface, view = form(show, slack)
    monkeypatch.setattr(world.store, "_clock", lambda: request.expires)
    monkeypatch.setattr(clicks, "now_ms", lambda: request.expires)
    done = slack.people.submit("U0ALICE", view["id"], {"said": option_of(view, "run")})
    assert done.errors["said"].startswith("Too late")
    assert world.state(request) == "expired"
    assert surface.click("grant", "bob").acked
    until(lambda: slack.told("U0BOB"), "told")
    assert slack.people.view("U0BOB") is None


def test_a_scope_that_is_not_offered_any_more(world, show, slack) -> None:
    """The form was shown before somebody changed in the store what it is about."""
    request, _, view = form(show, slack)
    with forging(world.store.path) as db:
        db.execute("UPDATE request SET decision = replace(decision, 'example.org', 'elsewhere.org')")
    done = slack.people.submit("U0ALICE", view["id"], {"said": option_of(view, "run")})
    assert "not offered any more" in done.errors["said"]
    assert (world.state(request), refusals(world, request)) == ("pending", ["no-such-scope"])


@pytest.mark.sample(4)
@pytest.mark.parametrize("value", ["run", "run|", "run|0000000000000000", "any|{seal}", "|{seal}", "run|{other}", "x|"])
def test_a_choice_that_the_form_does_not_have(world, show, slack, value: str) -> None:
    request, _, view = form(show, slack)
    seals = dict(each["value"].split("|") for each in view["blocks"][-1]["element"]["options"])
    forged = value.format(seal=seals["run"], other=seals["hour"])
    with slack.world.lock:
        slack.world.views[view["id"]]["blocks"][-1]["element"]["options"].append({"value": forged})
    done = slack.people.submit("U0ALICE", view["id"], {"said": forged})
    assert done.outcome == "errors"
    assert world.state(request) == "pending"
    assert world.store.votes(request.id) == []


def test_a_copied_choice_of_another_request(world, show, slack) -> None:
    other, _, elsewhere = form(show, slack, "bob")
    stolen = option_of(elsewhere, "run")
    request, _, view = form(show, slack)
    with slack.world.lock:
        slack.world.views[view["id"]]["blocks"][-1]["element"]["options"].append({"value": stolen})
    assert slack.people.submit("U0ALICE", view["id"], {"said": stolen}).outcome == "errors"
    assert (world.state(request), world.state(other)) == ("pending", "pending")


def test_a_stranger_gets_no_form(world, show, slack) -> None:
    request, surface = show(FETCH, asks=CONTACT)
    assert surface.click("grant", "mallory").acked
    until(lambda: slack.told("U0MALLORY"), "told")
    assert slack.people.view("U0MALLORY") is None
    assert refusals(world, request) == ["unknown-identity"]


def test_a_form_that_somebody_else_submits(world, show, slack) -> None:
    request, _, view = form(show, slack)
    stolen = {"id": "U0MALLORY", "name": "mallory", "team_id": TEAM}
    done = slack.people.submit("U0ALICE", view["id"], {"said": option_of(view, "run")}, user=stolen)
    assert (done.outcome, refusals(world, request)) == ("errors", ["unknown-identity"])
    assert world.state(request) == "pending"


@pytest.mark.parametrize("fields", [{"asks": ()}, {"asks": CONTACT, "severity": "critical"}])
def test_a_button_that_a_message_does_not_have(world, show, slack, fields) -> None:
    request, surface = show(FETCH, **fields)
    button = {"type": "button", "action_id": "hla_grant", "block_id": "b", "action_ts": "1.1"}
    pressed = "reject" if "reject" in surface.offers() else "approve"
    if pressed in surface.offers():
        surface.click(pressed, "alice", actions=[button | {"value": f"{request.id}|{sealed(request)}"}])
        assert refusals(world, request) == ["no-such-scope"]
    assert slack.people.view("U0ALICE") is None


def test_a_click_that_came_too_late_for_its_form(world, show, slack) -> None:
    slack.world.trigger_seconds = 0
    request, surface = show(FETCH, asks=CONTACT)
    assert surface.click("grant", "alice").acked
    assert until(lambda: slack.told("U0ALICE"), "told") == ["That took too long: click again."]
    assert world.state(request) == "pending"


def test_a_secret_is_in_no_form_and_no_message(world, show, slack) -> None:
    secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    asks = (replace(CONTACT[0], operand=f"{secret}.example.org"),)
    for command in (f"curl -fsS https://{secret}.example.org/1", f"curl -fsS https://{secret}.example.org/2"):
        request, surface = show(command, asks=asks)
        surface.click("grant", "alice")
        view = opened(slack, "alice")
        assert slack.people.submit("U0ALICE", view["id"], {"said": option_of(view, "run")}).outcome == "closed"
        world.settle(request)
        assert secret not in json.dumps([view, slack.message(surface.ts)])
        assert request.digest[:16] not in json.dumps(view)
    assert "and remembered: curl contacting" in surface.text()


@pytest.mark.sample(6)
@pytest.mark.parametrize("text", [*HOSTILE.values(), "l" * 3_000, "\u202e" * 400])
def test_whatever_stands_in_it_fits_and_is_only_text(text: str) -> None:
    asks = tuple(
        Ask(text, text, "network", "host", operand=f"{text}{n}", value=text, verb=(text,), flags=(text,))
        for n in range(5)
    )
    request = request_of("make deploy", text)
    request = replace(request, decision=replace(request.decision, severity="medium", asks=asks))
    what = message.shown(request)
    earlier = [replace(request, id=f"{n}", action=replace(request.action, content=f"{text}{n}")) for n in range(9)]
    seen = {offer.name: foresight(request, offer.name, earlier, redacted=True) for offer in offers(request)}
    view = forms.scopes(what, seen, dict.fromkeys(seen, "0" * 16), forms.Origin("1" * 32, "2" * 16, "C1", "1.1"))
    said = list(texts(view["blocks"]))
    assert what.offers
    assert all(f"{number}  {offer.words}" in said for number, offer in enumerate(what.offers, 1)), (
        "whole, or not offered"
    )
    assert fake.view_errors(view) == []
    assert fake.pings(view) == []
    assert len(json.dumps(view)) < 250_000
