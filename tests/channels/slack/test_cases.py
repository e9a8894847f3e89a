"""Who clicks what, when: each with its exact outcome and what the audit log says of it."""

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from humanlayer_agent.channels.slack import clicks
from humanlayer_agent.testing.conformance_rig import World
from humanlayer_agent.testing.fake_slack import CHANNEL, TEAM, FakeSlack
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.channels.slack.conftest import SlackRig, SlackSurface, sealed, user_of


@pytest.fixture(params=["socket", pytest.param("http", marks=pytest.mark.long)])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def last(world: World, request: Any, type: str = "vote") -> dict[str, Any]:
    """The newest event about answers to a request."""
    return world.events(request, type)[-1].event


def refusals(world: World, request: Any) -> list[str]:
    return [entry.event["refusal"] for entry in world.events(request, "vote.refused")]


def opened(slack: FakeSlack, who: str) -> dict[str, Any]:
    view = until(lambda: slack.people.view(user_of(who)), "a form")
    assert view is not None
    return view


def test_an_approval(world, show, slack) -> None:
    request, surface = show()
    assert surface.click("approve", "alice").acked
    vote = last(world, request)
    assert (world.state(request), vote["type"]) == ("approved", "vote.recorded")
    assert vote["approver"]["principal"] == f"slack:{TEAM}/U0ALICE"
    assert (vote["approver"]["assurance"], vote["input_mode"]) == ("chat", "click")
    world.settle(request)
    assert not surface.offers()
    assert "✅ Approved by alice" in surface.text()


def test_someone_of_a_foreign_team(world, show, slack, rig) -> None:
    request, surface = show()
    slack.world.add_user("U0EVE", "eve", team_id="T0OTHER")
    assert surface.click("approve", "eve").acked
    assert world.state(request) == "pending"
    assert refusals(world, request) == ["foreign-team"]
    until(lambda: slack.told("U0EVE"), "told")
    assert "not an approver" in slack.told("U0EVE")[0]


def test_an_approvers_id_in_a_foreign_team(world, show, slack) -> None:
    request, surface = show()
    mask = {"id": "U0ALICE", "name": "alice", "team_id": "T0OTHER"}
    surface.click("approve", "alice", user=mask)
    surface.click("approve", "alice", team={"id": "T0OTHER"})
    surface.click("approve", "alice", team=None)
    assert world.state(request) == "pending"
    assert refusals(world, request) == ["foreign-team"] * 3


@pytest.mark.parametrize("field", ["is_restricted", "is_ultra_restricted", "is_stranger", "deleted", "is_bot"])
def test_a_guest_even_where_the_file_names_them(world, show, slack, field) -> None:
    request, surface = show()
    slack.world.users["U0ALICE"][field] = True
    assert surface.click("approve", "alice").acked
    assert world.state(request) == "pending"
    assert refusals(world, request) == ["outsider"]
    until(lambda: slack.told("U0ALICE"), "told")


def test_slack_does_not_say_who_it_is(world, show, slack) -> None:
    request, surface = show()
    slack.fault("users.info", "error", error="internal_error")
    assert surface.click("approve", "alice").acked
    assert world.state(request) == "pending"
    assert refusals(world, request) == ["identity-unproved"]
    assert surface.click("approve", "alice").acked
    assert world.state(request) == "approved"


@pytest.mark.parametrize("kind", ["approve", "reject", "edit", "respond"])
def test_a_stranger(world, show, slack, kind) -> None:
    request, surface = show()
    assert surface.click(kind, "mallory").acked
    assert world.state(request) == "pending"
    assert refusals(world, request) == ["unknown-identity"]
    until(lambda: slack.told("U0MALLORY"), "told")
    assert "You are not an approver" in slack.told("U0MALLORY")[0]
    assert slack.people.view("U0MALLORY") is None


def test_an_unmapped_requester(world, rig, show) -> None:
    people = tuple(person for person in world.approvers.authority.people if person.id != "starter")
    world.approvers.authority = replace(world.approvers.authority, people=people)
    world.restart()
    request, surface = show()
    assert surface.click("approve", "alice").acked
    assert world.state(request) == "pending"
    assert refusals(world, request) == ["unknown-requester"]


def test_a_double_click(world, show) -> None:
    request, surface = show()
    assert surface.click("approve", "alice").acked
    assert surface.click("approve", "alice").acked
    assert world.state(request) == "approved"
    assert last(world, request)["type"] == "vote.late"
    assert len(world.store.votes(request.id)) == 1


def test_one_click_that_is_delivered_three_times(world, show) -> None:
    request, surface = show()
    for _ in range(3):
        assert surface.click("approve", "alice", action_ts="1.000001").acked
    assert [result.outcome for result in world.answered] == ["recorded", "duplicate", "duplicate"]
    assert len(world.store.votes(request.id)) == 1


def test_a_stale_button(world, show, slack) -> None:
    request, surface = show()
    world.decide_elsewhere(request, "reject", "bob")
    world.settle(request)
    assert not surface.offers()
    assert surface.click("approve", "alice").acked
    assert world.state(request) == "rejected"
    assert last(world, request)["type"] == "vote.late"
    until(lambda: slack.told("U0ALICE"), "told")
    assert slack.told("U0ALICE")[0].startswith("Too late")


def test_a_stale_button_mends_its_message(world, show, slack) -> None:
    request, surface = show()
    world.decide_elsewhere(request, "reject", "bob")  # and nobody has settled it yet
    surface.click("approve", "alice")
    until(lambda: not surface.offers(), "a settled message")


@pytest.mark.parametrize("kind", ["approve", "reject", "edit"])
def test_a_click_after_expiry(world, show, slack, kind, monkeypatch) -> None:
    request, surface = show()
    monkeypatch.setattr(world.store, "_clock", lambda: request.expires)
    monkeypatch.setattr(clicks, "now_ms", lambda: request.expires)
    assert surface.click(kind, "alice").acked
    assert not world.store.votes(request.id)
    event = last(world, request)
    assert (event["type"], event.get("refusal")) in (("vote.late", None), ("vote.refused", "late"))
    assert (world.state(request) == "expired") == (kind != "edit")
    until(lambda: slack.told("U0ALICE"), "told")
    assert slack.people.view("U0ALICE") is None


def test_a_copied_button_value(world, show, slack) -> None:
    request, _ = show("make one")
    other, elsewhere = show("make two")
    value = f"{request.id}|{sealed(request)}"
    assert elsewhere.click("approve", "alice", value=value).acked
    assert (world.state(request), world.state(other)) == ("pending", "pending")
    assert refusals(world, request) == ["not-presented"]
    until(lambda: slack.told("U0ALICE"), "told")
    assert "approve" in elsewhere.offers(), "the message it was clicked in is left as it is"


def test_nothing_that_is_posted_tells_the_digest(world, show, slack) -> None:
    """Whoever reads the chat and knows all but a password could try passwords against a plain digest."""
    request, surface = show("mysql -uroot -pHunter2Hunter2 db")
    surface.click("reject", "alice")
    sent = json.dumps([slack.message(surface.ts), opened(slack, "alice")])
    assert sealed(request) in sent
    assert request.id in sent
    assert "Hunter2" not in sent
    assert request.digest[:8] not in sent


def test_a_plain_digest_opens_nothing(world, show) -> None:
    request, surface = show()
    assert surface.click("approve", "alice", value=f"{request.id}|{request.digest[:16]}").acked
    assert (world.state(request), refusals(world, request)) == ("pending", ["not-presented"])


@pytest.mark.sample(4)
@pytest.mark.parametrize("value", ["", "|", "x", "{id}|0000000000000000", "{id}", "0|{digest}", "{id}|{digest}|x"])
def test_a_value_that_is_none_of_ours(world, show, value) -> None:
    request, surface = show()
    made = value.format(id=request.id, digest=sealed(request))
    assert surface.click("approve", "alice", value=made).acked
    assert world.state(request) == "pending"
    assert not world.store.votes(request.id)


def test_the_same_message_in_another_channel_or_of_another_app(world, show) -> None:
    request, surface = show()
    surface.click("approve", "alice", channel="C0OPS", container={"message_ts": "1.1"})
    surface.click("approve", "alice", api_app_id="A0OTHER")
    assert world.state(request) == "pending"
    assert refusals(world, request) == ["not-presented", "foreign-app"]


def test_two_approvers_at_once(world, show) -> None:
    request, surface = show()
    people = [threading.Thread(target=surface.click, args=("approve", who)) for who in ("alice", "bob")]
    for click in people:
        click.start()
    for click in people:
        click.join()
    assert world.state(request) == "approved"
    assert sorted(entry.event["type"] for entry in world.events(request, "vote")) == ["vote.late", "vote.recorded"]
    assert len(world.store.votes(request.id)) == 1


def test_two_must_approve(world, show, slack) -> None:
    request, surface = show(route="two")
    surface.click("approve", "alice")
    world.settle(request)
    assert until(lambda: slack.told("U0ALICE"), "told") == ["Counted. 1 more must approve it."]
    assert "1 more must approve; 1 have." in surface.text()
    surface.click("approve", "alice")
    assert refusals(world, request) == ["voted-before"]
    surface.click("approve", "bob")
    assert world.state(request) == "approved"


def test_a_form_after_the_decision(world, show, slack) -> None:
    request, surface = show()
    surface.click("reject", "alice")
    view = opened(slack, "alice")
    surface.click("approve", "bob")
    done = slack.people.submit("U0ALICE", view["id"], {"said": "no"})
    assert done.outcome == "errors"
    assert done.errors["said"].startswith("Too late")
    assert world.state(request) == "approved"
    assert last(world, request)["type"] == "vote.late"


def test_a_form_checks_who_submits_it_again(world, show, slack) -> None:
    request, surface = show()
    surface.click("reject", "alice")
    view = opened(slack, "alice")
    foreign = {"id": "U0ALICE", "name": "alice", "team_id": "T0OTHER"}
    done = slack.people.submit("U0ALICE", view["id"], {"said": "no"}, user=foreign)
    assert (done.outcome, refusals(world, request)) == ("errors", ["foreign-team"])
    stolen = {"id": "U0MALLORY", "name": "mallory", "team_id": TEAM}
    done = slack.people.submit("U0ALICE", view["id"], {"said": "no"}, user=stolen)
    assert (done.outcome, refusals(world, request)[1:]) == ("errors", ["unknown-identity"])
    assert world.state(request) == "pending"
    assert slack.people.submit("U0ALICE", view["id"], {"said": "no"}).outcome == "closed"
    assert (world.state(request), world.store.votes(request.id)[0].comment) == ("rejected", "no")


def test_a_form_about_another_request(world, show, slack) -> None:
    request, surface = show("make one")
    other, _ = show("make two")
    surface.click("respond", "alice")
    view = opened(slack, "alice")
    origin = json.loads(view["private_metadata"])
    for forged in ([other.id, *origin[1:]], [other.id, sealed(other), *origin[2:]], ["x"], "x"):
        with slack.world.lock:
            slack.world.views[view["id"]]["private_metadata"] = json.dumps(forged)
            slack.world.views[view["id"]]["_open"] = True
        slack.people.submit("U0ALICE", view["id"], {"said": "yes"})
        assert (world.state(request), world.state(other)) == ("pending", "pending")


def test_an_edit_with_curly_quotes_is_not_taken(world, show, slack) -> None:
    request, surface = show("git commit -m 'fix it'")
    surface.click("edit", "alice")
    view = opened(slack, "alice")
    assert view["blocks"][-1]["element"]["initial_value"] == "git commit -m 'fix it'"
    for typed in ("git commit -m ‘fix it’", "git commit -m “fix”", "git commit —amend", "git commit -m x\u200b"):
        done = slack.people.submit("U0ALICE", view["id"], {"said": typed})
        assert done.outcome == "errors"
        assert "U+" in done.errors["said"]
    assert world.state(request) == "pending"
    done = slack.people.submit("U0ALICE", view["id"], {"said": "git commit \\\r\n -m 'better'"})
    assert (done.outcome, world.state(request)) == ("closed", "superseded")
    assert world.store.votes(request.id)[0].edited == "git commit \\\n -m 'better'"


def test_an_unchanged_edit_is_not_taken(world, show, slack) -> None:
    request, surface = show()
    surface.click("edit", "alice")
    done = slack.people.submit("U0ALICE", opened(slack, "alice")["id"])
    assert done.outcome == "errors"
    assert (world.state(request), refusals(world, request)) == ("pending", ["bad-edit"])


@pytest.mark.parametrize("command", ["mysql -uroot -pHunter2Hunter2 db", "echo a\x1bb"])
def test_a_command_that_no_form_can_hold_is_not_edited(world, show, slack, command) -> None:
    request, surface = show(command)
    assert "edit" not in surface.offers()
    value = f"{request.id}|{sealed(request)}"
    action = {"type": "button", "action_id": "hla_edit", "block_id": "b", "value": value, "action_ts": "1.1"}
    assert surface.click("reject", "alice", actions=[action]).acked
    assert refusals(world, request) == ["not-editable"]
    assert slack.people.view("U0ALICE") is None


def test_curly_quotes_that_were_there_stay(world, show, slack) -> None:
    request, surface = show("echo “hello”")
    surface.click("edit", "alice")
    done = slack.people.submit("U0ALICE", opened(slack, "alice")["id"], {"said": "echo “hello you”"})
    assert (done.outcome, world.state(request)) == ("closed", "superseded")


def test_a_trigger_that_has_expired(world, show, slack) -> None:
    _, surface = show()
    slack.world.trigger_seconds = -1.0
    assert surface.click("reject", "alice").acked
    assert until(lambda: slack.told("U0ALICE"), "told") == ["That took too long: click again."]
    slack.world.trigger_seconds = PATIENCE
    surface.click("reject", "alice")
    assert opened(slack, "alice")["callback_id"] == "hla_reject"


def test_escalating_where_nobody_is_further(world, show) -> None:
    request, surface = show()
    assert surface.click("escalate", "alice").acked
    world.settle(request)
    assert "escalate" not in surface.offers()
    assert surface.click("escalate", "alice").acked
    assert refusals(world, request) == ["nobody-further"]


def test_what_can_not_be_written_down_is_not_acknowledged(world, show, slack) -> None:
    request, surface = show()
    world.broken_store = True
    slack.ack_seconds = 0.3
    assert not surface.click("approve", "alice").acked
    assert until(lambda: slack.told("U0ALICE"), "told")[0].startswith("Nothing was counted, click again")
    world.broken_store = False
    slack.ack_seconds = PATIENCE
    assert surface.click("approve", "alice").acked
    assert world.state(request) == "approved"


def test_what_others_send_is_acknowledged_and_ignored(world, slack) -> None:
    for payload in ({}, {"type": "shortcut"}, {"type": "block_actions"}, {"type": "view_submission"}):
        assert slack.deliver(payload).acked
    assert slack.deliver({"text": "hi"}, kind="slash_commands").acked


# User groups


@pytest.fixture
def grouped(tmp_path, slack):
    """A world where only the members of a user group may answer."""
    from humanlayer_agent.approvals.authority import ApprovalRule, Person, Step

    group = f"{TEAM}/S0PLATFORM"
    rig = SlackRig(slack, usergroups=(group,))
    slack.world.usergroups["S0PLATFORM"] = ["U0CAROL"]
    made = World(rig, tmp_path)
    person = Person("group:platform", (f"slack-usergroup:{group}",))
    starter = Person("starter", ("os:1000:starter", f"slack:{TEAM}/U0STARTER"))
    rule = ApprovalRule("default", ("group:platform",), steps=(Step("slack"),))
    people = (*(p for p in made.approvers.authority.people if p.id != "starter"), starter, person)
    made.approvers.authority = replace(made.approvers.authority, people=people, routes={"default": rule})
    made.restart()
    yield made, rig
    made.close()


def shown(world: World, rig: SlackRig) -> tuple[Any, SlackSurface]:
    request = world.ask("make deploy")
    world.deliver(request)
    return request, rig.surfaces(request.id)[-1]


def test_a_member_of_a_group(grouped) -> None:
    world, rig = grouped
    request, surface = shown(world, rig)
    assert surface.click("approve", "alice").acked
    assert refusals(world, request) == ["not-an-approver"]
    assert surface.click("approve", "mallory").acked
    assert refusals(world, request)[1:] == ["unknown-identity"]
    assert surface.click("approve", "carol").acked
    assert world.state(request) == "approved"
    assert world.store.votes(request.id)[0].person == f"slack:{TEAM}/U0CAROL"
    assert surface.slack.called("usergroups.users.list") == ["ok"], "asked once, and remembered"


@pytest.mark.parametrize("fault", ["error", "http", "lost-response"])
def test_a_group_that_can_not_be_asked_lets_nobody_in(grouped, fault) -> None:
    world, rig = grouped
    request, surface = shown(world, rig)
    surface.slack.fault("usergroups.users.list", fault, error="missing_scope")
    assert surface.click("approve", "carol").acked
    assert world.state(request) == "pending"
    assert refusals(world, request) == ["unknown-identity"]
    surface.click("approve", "carol")
    assert world.state(request) == "approved"


def test_a_group_mentions_itself(grouped) -> None:
    world, rig = grouped
    request, _ = shown(world, rig)
    assert "!subteam^S0PLATFORM" in rig.pings(request.id)
    assert CHANNEL == "C0OPS"
