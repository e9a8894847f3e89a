"""The home of the app: who sees what there, when it is published, and what its buttons do."""

import json
from dataclasses import replace
from typing import Any

import pytest

from humanlayer_agent.approvals.authority import ApprovalRule, Person, Step
from humanlayer_agent.channels.slack import home
from humanlayer_agent.channels.slack.home import Account
from humanlayer_agent.testing.conformance import CONTACT, FETCH
from humanlayer_agent.testing.conformance_rig import World
from humanlayer_agent.testing.fake_slack import BOT_TOKEN, TEAM, FakeSlack
from humanlayer_agent.testing.fake_slack import blocks as fake
from humanlayer_agent.testing.patience import until
from tests.channels.slack.conftest import SlackRig, option_of, sealed, texts, user_of
from tests.channels.slack.test_cases import opened, refusals


@pytest.fixture(params=["socket", pytest.param("http", marks=pytest.mark.long)])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at what has changed as often as a test does."""
    monkeypatch.setattr(home.Homes.__init__, "__kwdefaults__", {"every": 0.05})


def said(slack: FakeSlack, who: str) -> str:
    view = slack.people.home(user_of(who))
    return "\n".join(texts(view["blocks"])) if view else ""


def look(slack: FakeSlack, who: str, *words: str) -> str:
    """Open one's home, and wait until it says these words."""
    assert slack.people.open_home(user_of(who)).acked
    until(lambda: said(slack, who) and all(each in said(slack, who) for each in words), f"a home with {words}")
    return said(slack, who)


def press(slack: FakeSlack, who: str, action: str, **fields: Any) -> None:
    view = slack.people.home(user_of(who))
    assert view is not None
    assert slack.people.click_view(user_of(who), view["id"], action, **fields).acked


def reviewing(slack: FakeSlack, who: str, **fields: Any) -> dict[str, Any]:
    press(slack, who, "hla_review", **fields)
    return opened(slack, who)


# ---- what it says ----------------------------------------------------------------------------------


def test_what_waits_is_there_until_it_is_decided(world, show, slack) -> None:
    request, _ = show("make deploy")
    found = look(slack, "alice", "Waits for you: 1")
    assert "agent" in found
    assert "make deploy" in found
    assert "a rule says so  (medium severity)" in found
    world.decide_elsewhere(request, "reject", "bob")
    until(lambda: "Waits for you: 0" in said(slack, "alice"), "that nothing waits")
    assert "⛔ Rejected by bob" in said(slack, "alice")


def test_nothing_is_published_where_nothing_has_changed(world, show, slack) -> None:
    show("make one")
    look(slack, "alice", "make one")
    look(slack, "bob", "make one")
    before = len(slack.called("views.publish"))
    look(slack, "alice", "make one")
    world.channel._homes._round()
    assert len(slack.called("views.publish")) == before
    show("make two")
    until(lambda: "make two" in said(slack, "bob"), "the second")
    until(lambda: "make two" in said(slack, "alice"), "the second")


def test_a_stranger_sees_nothing(world, show, slack) -> None:
    show("make secret-thing")
    slack.world.add_user("U0EVE", "eve", team_id="T0OTHER")
    slack.world.add_user("U0GUEST", "guest", is_restricted=True)
    for who in ("stranger", "eve", "guest", "carol"):
        assert "make" not in look(slack, who, "not one of those who may answer")
    with pytest.raises(LookupError):
        press(slack, "stranger", "hla_review")


def test_an_approver_who_is_a_guest_now_sees_nothing(world, show, slack) -> None:
    show("make deploy")
    look(slack, "alice", "make deploy")
    with slack.world.lock:
        slack.world.users["U0ALICE"]["is_restricted"] = True
    world.restart()  # what Slack says of somebody is believed for a minute
    look(slack, "alice", "not one of those")
    assert "make" not in said(slack, "alice")


def test_whoever_was_removed_sees_nothing_and_can_do_nothing(world, show, slack) -> None:
    request, _ = show("make deploy")
    look(slack, "alice", "make deploy")
    authority = world.approvers.authority
    rules = {"default": ApprovalRule("default", ("bob",), steps=(Step("slack"),))}
    world.approvers.authority = replace(authority, people=authority.people[1:], routes=rules)
    old = slack.people.home("U0ALICE")
    world.restart()
    for button in ("hla_review", "hla_stop"):
        assert slack.people.click_view("U0ALICE", old["id"], button).acked  # type: ignore[index]
        until(lambda: slack.people.view("U0ALICE"), "why not")
        shown = "\n".join(texts(slack.people.view("U0ALICE")["blocks"]))  # type: ignore[index]
        assert "not an approver" in shown
        assert "make deploy" not in shown
        with slack.world.lock:
            slack.world.views[slack.people.view("U0ALICE")["id"]]["_open"] = False  # type: ignore[index]
    until(lambda: "not one of those" in said(slack, "alice"), "a home without anything")
    assert (world.state(request), world.store.halts.standing(None)) == ("pending", [])


def test_only_what_somebody_may_answer_is_shown_to_them(world, show, slack) -> None:
    authority = world.approvers.authority
    mine = ApprovalRule("bobs", ("bob",), steps=(Step("slack"),))
    world.approvers.authority = replace(authority, routes={**authority.routes, "bobs": mine})
    world.restart()
    request, _ = show("make for-bob", route="bobs")
    assert "make for-bob" in look(slack, "bob", "Waits for you: 1")
    assert "make for-bob" not in look(slack, "alice", "Waits for you: 0")
    value = f"{request.id}|{sealed(request)}"
    show("make for-both")
    until(lambda: "make for-both" in said(slack, "alice"), "hers")
    press(slack, "alice", "hla_review", value=value)  # copied from somewhere
    until(lambda: slack.people.view("U0ALICE"), "why not")
    assert "make for-bob" not in "\n".join(texts(slack.people.view("U0ALICE")))
    assert refusals(world, request) == ["unknown-identity"]
    world.decide_elsewhere(request, "reject", "bob")
    until(lambda: "make for-bob" in said(slack, "bob").partition("Decided lately")[2], "what bob decided")
    assert "make for-bob" not in look(slack, "alice", "Waits for you: 1")


def test_what_this_channel_does_not_show_is_only_counted(world, show, slack) -> None:
    """Nobody has said that Slack may keep it."""
    world.ask("make at-the-terminal-only")
    found = look(slack, "alice", "1 more wait")
    assert "terminal-only" not in json.dumps(slack.people.home("U0ALICE"))
    assert "Waits for you: 0" in found


def test_secrets_are_not_shown(world, show, slack) -> None:
    request, _ = show("mysql -uroot -pHunter2Hunter2 db")
    look(slack, "alice", "mysql")
    view = reviewing(slack, "alice")
    sent = json.dumps([slack.people.home("U0ALICE"), view])
    assert "Hunter2" not in sent
    assert request.digest[:8] not in sent


def test_a_member_of_a_user_group(tmp_path, slack, mode) -> None:
    group = f"{TEAM}/S0PLATFORM"
    slack.world.usergroups["S0PLATFORM"] = ["U0CAROL"]
    made = World(SlackRig(slack, usergroups=(group,), mode=mode), tmp_path)
    try:
        authority = made.approvers.authority
        people = (*authority.people, Person("group:platform", (f"slack-usergroup:{group}",)))
        rules = {"default": ApprovalRule("default", ("group:platform",), steps=(Step("slack"),))}
        made.approvers.authority = replace(authority, people=people, routes=rules)
        made.restart()
        request = made.ask("make deploy")
        made.deliver(request)
        look(slack, "carol", "make deploy")
        assert "Stop every agent" not in said(slack, "carol"), "nobody is known by that account"
        assert "make deploy" not in look(slack, "alice", "Waits for you: 0")
        slack.fault("usergroups.users.list", "error", error="internal_error", count=10**6)
        made.restart()
        slack.people.open_home("U0CAROL")
        until(lambda: "error" in slack.called("usergroups.users.list")[-1], "that Slack does not say")
        assert "make deploy" in said(slack, "carol"), "what is there stays until Slack says who she is"
    finally:
        made.close()


def test_a_long_list_is_within_slacks_limits(world, show, slack) -> None:
    """100 blocks in a home: https://docs.slack.dev/reference/views/home-tab-views"""
    for n in range(home.WAITING + 3):
        show(f"make {n} {'x' * 2000}")
    for n in range(home.DECIDED + 3):
        request, _ = show(f"touch {n} {'y' * 2000}")
        world.decide_elsewhere(request, "reject", "bob")
    found = look(slack, "alice", f"Waits for you: {home.WAITING + 3}", "3 more wait: they are in the channel")
    view = slack.people.home("U0ALICE")
    assert view is not None
    assert len(view["blocks"]) <= 100
    assert found.count("⛔ Rejected by bob") == home.DECIDED


def test_more_grants_than_there_is_room_for(world, show, slack) -> None:
    request, surface = show(FETCH, asks=CONTACT)
    surface.answer("grant", "alice", "run")
    until(lambda: world.state(request) == "approved", "the approval")
    desk = world.desk()
    (grant,) = [each for each, _ in desk.grants(0)]
    held = home.Held((), (), (), (grant,) * 40, "every agent is stopped since ever: " + "x" * 3000)
    view = home.view(desk, held, Account(f"slack:{TEAM}/U0ALICE", ()), world.channel._seal)
    assert fake.view_errors(view) == []
    assert "30 more: hla grants ls" in "\n".join(texts(view))


# ---- its buttons -----------------------------------------------------------------------------------


def test_approving_from_the_home(world, show, slack) -> None:
    request, surface = show("make deploy")
    look(slack, "alice", "make deploy")
    view = reviewing(slack, "alice")
    shown = "\n".join(texts(view["blocks"]))
    for each in slack.message(surface.ts)["blocks"]:
        if each["type"] in ("header", "section"):
            assert each["text"]["text"] in shown, "all that the message says"
    assert slack.people.click_view("U0ALICE", view["id"], "hla_approve").acked
    vote = world.events(request, "vote")[-1].event
    assert (world.state(request), vote["type"]) == ("approved", "vote.recorded")
    assert (vote["approver"]["principal"], vote["approver"]["assurance"]) == (f"slack:{TEAM}/U0ALICE", "chat")
    until(lambda: "✅ Approved by alice" in "\n".join(texts(slack.people.view("U0ALICE"))), "the form says so")
    until(lambda: "✅ Approved by alice" in said(slack, "alice"), "the home says so")
    assert "hla_approve" not in json.dumps(slack.people.view("U0ALICE"))


@pytest.mark.parametrize("kind", ["reject", "respond", "edit", "grant"])
def test_a_form_from_the_home(world, show, slack, kind) -> None:
    request, _ = show(FETCH, asks=CONTACT)
    look(slack, "alice", "curl")
    view = reviewing(slack, "alice")
    assert slack.people.click_view("U0ALICE", view["id"], f"hla_{kind}").acked
    until(lambda: slack.people.view("U0ALICE")["id"] != view["id"], "another form on it")  # type: ignore[index]
    form = opened(slack, "alice")
    words = option_of(form, "run") if kind == "grant" else "git status"
    done = slack.people.submit("U0ALICE", form["id"], {"said": words})
    assert done.outcome == "closed", done.errors
    expected = {"reject": "rejected", "respond": "answered", "edit": "superseded", "grant": "approved"}[kind]
    assert world.state(request) == expected
    assert slack.people.view("U0ALICE") is None, "what is below shows what is no more"


def test_two_must_approve_and_one_did_so_at_home(world, show, slack) -> None:
    request, _ = show(route="two")
    look(slack, "alice", "Waits for you: 1")
    view = reviewing(slack, "alice")
    slack.people.click_view("U0ALICE", view["id"], "hla_approve")
    until(lambda: "Counted. 1 more must approve it." in "\n".join(texts(slack.people.view("U0ALICE"))), "the form")
    until(lambda: "Waits for you: 0" in said(slack, "alice"), "it waits for others")
    assert "Waits for you: 1" in look(slack, "bob", "Waits for you: 1")
    assert world.state(request) == "pending"


def test_a_button_of_an_old_form_or_of_another_request(world, show, slack) -> None:
    request, _ = show("make one")
    other, _ = show("make two")
    look(slack, "alice", "make two")
    view = reviewing(slack, "alice", value=f"{request.id}|{sealed(request)}")
    for value in (f"{other.id}|{sealed(other)}", f"{request.id}|{sealed(other)}", "", f"{other.id}|{'0' * 16}"):
        assert slack.people.click_view("U0ALICE", view["id"], "hla_approve", value=value).acked
    assert (world.state(request), world.state(other)) == ("pending", "pending")
    world.decide_elsewhere(request, "reject", "bob")
    assert slack.people.click_view("U0ALICE", view["id"], "hla_approve").acked
    until(lambda: "Too late" in "\n".join(texts(slack.world.views[view["id"]])), "the form says so")
    assert world.state(request) == "rejected"


def test_a_form_that_was_forged(world, show, slack) -> None:
    """Its metadata names the message: Slack keeps it, and a stolen one names another request or none."""
    request, _ = show("make one")
    other, _ = show("make two")
    look(slack, "alice", "make two")
    view = reviewing(slack, "alice", value=f"{request.id}|{sealed(request)}")
    made = json.loads(view["private_metadata"])
    for forged in ([other.id, *made[1:]], [*made[:2], "C0ELSE", made[3]], [*made[:3], "1.1"], [], "x"):
        stolen = {**view, "private_metadata": json.dumps(forged)}
        slack.people.click_view("U0ALICE", view["id"], "hla_approve", view=stolen)
    slack.people.click_view("U0ALICE", view["id"], "hla_approve", api_app_id="A0OTHER")
    slack.people.click_view("U0ALICE", view["id"], "hla_approve", team={"id": "T0OTHER"})
    slack.people.click_view("U0ALICE", view["id"], "hla_approve", user={"id": "U0MALLORY", "team_id": TEAM})
    assert (world.state(request), world.state(other)) == ("pending", "pending")


def test_a_command_that_is_not_shown_whole_can_not_be_approved(world, show, slack) -> None:
    slack.fault("files.getUploadURLExternal", "error", error="file_uploads_disabled", count=10**6)
    request, _ = show("echo begin\n" + "printf '%s' 'one of many lines'\n" * 200)
    look(slack, "alice", "Waits for you: 1")
    view = reviewing(slack, "alice")
    assert "hla_approve" not in json.dumps(view)
    value = f"{request.id}|{sealed(request)}"
    action = {"type": "button", "action_id": "hla_approve", "block_id": "b", "value": value, "action_ts": "1.1"}
    slack.people.click_view("U0ALICE", view["id"], "hla_reject", actions=[action])
    assert (world.state(request), refusals(world, request)) == ("pending", ["not-shown"])


def test_what_is_too_severe_is_only_read_there(world, show, slack) -> None:
    show("make danger", severity="critical")
    look(slack, "alice", "make danger")
    view = reviewing(slack, "alice")
    assert not [block for block in view["blocks"] if block["type"] == "actions"]


def test_a_question_is_reviewed_too(world, show, slack) -> None:
    show("make deploy")
    look(slack, "alice", "make deploy")
    assert reviewing(slack, "alice")["callback_id"] == "hla_review"


def test_taking_a_grant_back(world, show, slack) -> None:
    request, surface = show(FETCH, asks=CONTACT)
    surface.answer("grant", "alice", "run")
    until(lambda: world.state(request) == "approved", "the approval")
    look(slack, "alice", "Take back")
    assert "Take back" not in look(slack, "stranger", "not one of those")
    press(slack, "alice", "hla_take_back", user={"id": "U0MALLORY", "team_id": TEAM})
    assert [grant.revoked for grant in world.store.grants.given()] == [None]
    press(slack, "alice", "hla_take_back", value="f" * 32)
    assert [grant.revoked for grant in world.store.grants.given()] == [None]
    press(slack, "alice", "hla_take_back")
    (grant,) = world.store.grants.given()
    assert grant.revoked_by == f"slack:{TEAM}/U0ALICE"
    until(lambda: "Take back" not in said(slack, "alice"), "that it is gone")


def test_stopping_every_agent(world, show, slack) -> None:
    request, _ = show("make deploy")
    look(slack, "alice", "Stop every agent")
    press(slack, "alice", "hla_stop")
    view = opened(slack, "alice")
    assert world.store.halts.standing(None) == [], "it is confirmed first"
    assert slack.people.submit("U0ALICE", view["id"], {"said": "wrong\nbucket"}).outcome == "closed"
    (halt,) = world.store.halts.standing(None)
    assert (halt.by, halt.reason) == (f"slack:{TEAM}/U0ALICE", "wrong\\x0abucket")
    assert world.state(request) == "withdrawn"
    until(lambda: "🛑 every agent is stopped since" in said(slack, "alice"), "that it says so")
    assert "hla_resume" not in json.dumps(slack.people.home("U0ALICE")), "that takes a terminal"


def test_who_may_not_stop(world, show, slack) -> None:
    show("make deploy")
    look(slack, "alice", "Stop every agent")
    press(slack, "alice", "hla_stop", user={"id": "U0MALLORY", "team_id": TEAM})
    until(lambda: slack.people.view("U0ALICE"), "why not")
    press(slack, "alice", "hla_stop")
    until(lambda: slack.people.view("U0ALICE")["callback_id"] == "hla_stop", "the form")  # type: ignore[index]
    view = opened(slack, "alice")
    for fields in (
        {"user": {"id": "U0MALLORY", "team_id": TEAM}},
        {"user": {"id": "U0ALICE", "team_id": "T0OTHER"}},
        {"user": {}},
    ):
        assert slack.people.submit("U0ALICE", view["id"], {"said": "x"}, **fields).outcome == "errors"
    assert world.store.halts.standing(None) == []
    refused = [entry.event for entry in world.store.events(type="supervision.refused")]
    assert [(event["wanted"], event["by"]) for event in refused] == [("stop", f"slack:{TEAM}/U0MALLORY")]


# ---- when it is published --------------------------------------------------------------------------


def test_only_this_apps_home_of_this_team_is_published(world, show, slack) -> None:
    show("make deploy")
    for fields in (
        {"api_app_id": "A0OTHER"},
        {"team_id": "T0OTHER"},
        {"event": {"type": "app_home_opened"}},
        {"event": 1},
    ):
        assert slack.people.open_home("U0ALICE", **fields).acked
    assert slack.people.open_home("U0ALICE", tab="messages").acked
    look(slack, "bob", "make deploy")
    assert slack.people.home("U0ALICE") is None


def test_slack_limits_publishing(world, show, slack) -> None:
    show("make deploy")
    slack.fault("views.publish", "429", seconds=0, count=2)
    look(slack, "alice", "make deploy")
    assert slack.called("views.publish")[:2] == ["ratelimited"] * 2


def test_what_can_not_be_read_once_keeps_no_home_from_being_published_later(world, show, slack, monkeypatch) -> None:
    show("make deploy")
    held, failed = home.held, []

    def once(*given: Any) -> Any:
        if not failed:
            failed.append(1)
            raise TypeError("whatever stands there")
        return held(*given)

    monkeypatch.setattr(home, "held", once)
    look(slack, "alice", "make deploy")
    assert failed


def test_an_app_without_a_home_goes_on(world, show, slack) -> None:
    request, surface = show("make deploy")
    slack.world.has_home = False
    slack.people.open_home("U0ALICE")
    until(lambda: "not_enabled" in slack.called("views.publish"), "that Slack refuses")
    until(lambda: "home" in world.channel.health().facts, "that it is told")
    assert world.channel.health().ok
    assert surface.click("approve", "alice").acked
    assert world.state(request) == "approved"
    assert BOT_TOKEN not in str(world.channel.health())
