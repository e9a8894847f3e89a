"""What Slack answers, and what becomes of it: errors with their mends, lost answers, uploads, health."""

import threading
from pathlib import Path

import pytest
import yaml

from humanlayer_agent.channels.contract import Audience, Retry, Undeliverable
from humanlayer_agent.channels.slack.api import LostAnswer
from humanlayer_agent.channels.slack.health import NEEDED
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hub.outbox import Outbox
from humanlayer_agent.hub.sender import Sender
from humanlayer_agent.testing.fake_slack import BOT_TOKEN, CHANNEL
from humanlayer_agent.testing.fake_slack.world import BOT_SCOPES
from humanlayer_agent.testing.patience import until
from tests.channels.slack.conftest import sealed

NOBODY = Audience(())
LONG = "echo begin\n" + "printf '%s' 'one of many lines'\n" * 200


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("channel_not_found", "C0OPS is no channel that the app can see"),
        ("not_in_channel", "invite the app to the channel C0OPS"),
        ("invalid_auth", "set SLACK_BOT_TOKEN to the bot token"),
        ("token_revoked", "SLACK_BOT_TOKEN"),
        ("is_archived", "name another one in post_to"),
        ("something_new", "something_new"),
    ],
)
def test_errors_that_stay_say_how_to_mend_them(world, rig, slack, error, says) -> None:
    request = world.ask()
    slack.fault("chat.postMessage", "error", error=error)
    with pytest.raises(Undeliverable, match=says) as raised:
        world.channel.deliver(request, NOBODY)
    assert BOT_TOKEN not in str(raised.value)


def test_a_missing_scope_is_named(world, slack) -> None:
    request = world.ask()
    slack.world.tokens[BOT_TOKEN].scopes.discard("chat:write")
    with pytest.raises(Undeliverable, match="add the scope chat:write under OAuth & Permissions"):
        world.channel.deliver(request, NOBODY)


def test_a_limit_says_how_long(world, slack) -> None:
    request = world.ask()
    slack.fault("chat.postMessage", "429", seconds=7)
    with pytest.raises(Retry) as raised:
        world.channel.deliver(request, NOBODY)
    assert raised.value.after == 7


class Moment(threading.Event):
    """The time that passes while a hub's sender waits: ours."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds, self.waited = 100.0, []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        self.seconds += timeout or 0.0
        return False


@pytest.fixture
def send(world):
    """Does one job, as a hub does: whether it was done, and how long it was waited before that."""
    moment = Moment()
    sender = Sender(
        world.store, world.channel, world.approvers.authority,
        stopping=moment, clock=lambda: int(moment.seconds * 1000), monotonic=lambda: moment.seconds,
    )  # fmt: skip

    def do(job) -> tuple[bool, list[float]]:
        moment.waited.clear()
        return sender.do(job), list(moment.waited)

    do.moment = moment
    return do


def test_a_hub_waits_as_long_as_slack_says_and_no_longer(world, slack, send) -> None:
    """However often it was limited before."""
    request = world.ask()
    slack.fault("chat.postMessage", "429", seconds=2, count=9)
    (job,) = Outbox(world.store, "slack", world.approvers.authority).due()
    for number in range(9):
        assert send(job) == (False, [2.0] if number else [])
        (delivery,) = world.store.surfaces.deliveries(request.id)
        assert (delivery.attempts, delivery.retry_at) == (number + 1, int(send.moment.seconds * 1000) + 2_000)
    assert send(job) == (True, [2.0])
    assert slack.called("chat.postMessage")[-1] == "ok"


def test_a_message_that_shows_something_old_waits_no_longer_either(world, show, slack, send) -> None:
    request, _ = show()
    world.decide_elsewhere(request, "reject", "bob")
    (job,) = Outbox(world.store, "slack", world.approvers.authority).due()
    slack.fault("chat.update", "429", seconds=2, count=9)
    for number in range(9):
        assert send(job) == (False, [])
        assert len(slack.called("chat.update")) == number + 1, "it was tried again after two seconds"
        assert send(job) == (False, []), "and not before"
        assert len(slack.called("chat.update")) == number + 1
        send.moment.seconds += 2.0
    assert send(job) == (True, [])


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_failing_server_is_tried_again(world, slack, status) -> None:
    request = world.ask()
    slack.fault("chat.postMessage", "http", status=status)
    with pytest.raises(Retry):
        world.channel.deliver(request, NOBODY)
    assert world.channel.deliver(request, NOBODY).complete


def test_slacks_own_limits_are_kept_by_waiting(world, slack) -> None:
    slack.world.rate_limits = True
    asked = [world.ask(f"make {n}") for n in range(4)]
    for request in asked[:3]:
        world.deliver(request)
    with pytest.raises(Retry) as raised:
        world.deliver(asked[3])
    assert raised.value.after
    assert raised.value.after >= 1


@pytest.mark.parametrize(("kind", "posted"), [("lost-request", 0), ("lost-response", 1)])
def test_a_posting_without_an_answer_is_found_again(world, rig, slack, kind, posted) -> None:
    request = world.ask()
    slack.fault("chat.postMessage", kind)
    with pytest.raises(LostAnswer):
        world.send(request)
    found = world.channel.find(request)
    assert len(found) == posted == len(rig.surfaces(request.id))
    for ref in found:
        world.write_down(request, ref)
        assert ref.where["to"] == ["U0ALICE", "U0BOB"]
        surface = rig.surfaces(request.id)[0]
        surface.click("approve", "alice")
        world.settle(request)
        assert world.state(request) == "approved"
        assert not surface.offers()


def test_what_is_found_is_what_was_delivered(world, show, rig) -> None:
    request, _ = show(LONG)
    (written,) = world.desk().shown(request.id)
    world.restart()
    (found,) = world.channel.find(request)
    assert (dict(found.where), found.complete) == (dict(written.where), written.complete)


def test_a_second_copy_that_nobody_knows_of(world, rig, slack) -> None:
    """Without the scope for the history it is posted twice; a click on the unknown one changes only how it looks."""
    slack.world.tokens[BOT_TOKEN].scopes -= {"channels:history", "groups:history"}
    request = world.ask()
    slack.fault("chat.postMessage", "lost-response")
    with pytest.raises(LostAnswer):
        world.channel.deliver(request, NOBODY)
    assert world.channel.find(request) == []
    world.deliver(request)
    lost, known = rig.surfaces(request.id)
    assert lost.click("approve", "alice").acked
    assert world.state(request) == "pending"
    assert world.events(request, "vote.refused")[-1].event["refusal"] == "not-presented"
    assert "approve" in lost.offers(), "while nothing is decided it may be the only one"
    assert known.click("approve", "alice").acked
    assert world.state(request) == "approved"
    assert lost.click("reject", "bob").acked
    until(lambda: not lost.offers(), "a copy without buttons")
    assert "Approved by alice" in lost.text()


def test_a_click_before_a_lost_posting_is_found_again_leaves_it_answerable(world, rig, slack) -> None:
    request = world.ask()
    slack.fault("chat.postMessage", "lost-response")
    with pytest.raises(LostAnswer):
        world.send(request)
    (surface,) = rig.surfaces(request.id)
    assert surface.click("approve", "alice").acked
    until(lambda: slack.told("U0ALICE"), "told")
    assert "Click again in a moment" in slack.told("U0ALICE")[0]
    for ref in world.channel.find(request):
        world.write_down(request, ref)
    assert surface.click("approve", "alice").acked
    assert world.state(request) == "approved"


# Long commands


def test_a_long_command_is_attached_before_it_can_be_approved(world, rig, slack) -> None:
    request = world.ask(LONG)
    slack.fault("files.getUploadURLExternal", "http", status=503)
    with pytest.raises(Retry):
        world.channel.deliver(request, NOBODY)
    surface = rig.surfaces(request.id)[0]
    assert surface.offers() == {"reject", "respond", "escalate"}
    assert "can be approved then" in surface.text()
    (ref,) = world.channel.find(request)
    assert ref.complete
    assert "approve" in surface.offers()
    (file,) = slack.world.files.values()
    assert file["data"].decode() == LONG.rstrip("\n")
    assert file["shared"] == (CHANNEL, surface.ts)
    shown = surface.slack.message(surface.ts)["blocks"]
    assert "characters are not shown here" in str(shown)


@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "upload", "files.completeUploadExternal"])
def test_a_long_command_that_can_not_be_attached_is_not_approved(world, rig, slack, method) -> None:
    slack.fault(method, "error", count=100, error="file_uploads_disabled", status=403)
    request = world.ask(LONG)
    world.deliver(request)
    surface = rig.surfaces(request.id)[0]
    assert surface.offers() == {"reject", "respond", "escalate"}
    assert "could not be attached" in surface.text()
    with slack.world.lock:
        slack.world.messages[CHANNEL][surface.ts]["blocks"].append(
            {"type": "actions", "block_id": "x", "elements": [{"type": "button", "action_id": "hla_approve",
             "text": {}, "value": f"{request.id}|{sealed(request)}"}]}
        )  # fmt: skip
    assert surface.click("approve", "alice").acked
    assert world.state(request) == "pending"
    assert world.events(request, "vote.refused")[-1].event["refusal"] == "not-shown"
    until(lambda: slack.told("U0ALICE"), "she is told, and not while she answers")
    world.settle(request)
    assert surface.offers() == {"reject", "respond", "escalate"}
    surface.answer("reject", "alice", "too long")
    assert world.state(request) == "rejected"


def test_what_is_not_shown_whole_is_not_edited_either(world, rig, slack) -> None:
    slack.fault("upload", "http", count=100, status=403)
    request = world.ask("echo " + "x" * 2_900)
    world.deliver(request)
    surface = rig.surfaces(request.id)[0]
    assert surface.offers() == {"reject", "respond", "escalate"}
    value = f"{request.id}|{sealed(request)}"
    for name in ("hla_edit", "hla_approve"):
        action = {"type": "button", "action_id": name, "block_id": "b", "value": value, "action_ts": "1.1"}
        assert surface.click("reject", "alice", actions=[action]).acked
    assert [entry.event["refusal"] for entry in world.events(request, "vote.refused")] == ["not-shown"] * 2
    assert slack.people.view("U0ALICE") is None
    assert not world.answered, "it never came to the core"


def test_uploads_that_go_on_failing_are_given_up(world, rig, slack) -> None:
    slack.fault("upload", "http", count=100, status=503)
    request = world.ask(LONG)
    for _ in range(2):
        with pytest.raises(Retry):
            world.channel.find(request) or world.deliver(request)
    (ref,) = world.channel.find(request)
    assert not ref.complete


# Threads


def test_a_run_has_one_thread(world, show, rig, slack) -> None:
    _, first = show("make one")
    _, second = show("make two")
    world.restart()
    _, third = show("make three")
    threads = [slack.message(each.ts).get("thread_ts") for each in (second, third)]
    assert threads == [first.ts, first.ts]
    assert all(m["_broadcast"] for m in slack.messages() if m["ts"] in (second.ts, third.ts)), "seen in the channel too"
    assert not any(m["_unfurls"] for m in slack.messages())


def test_a_thread_that_was_deleted_begins_anew(world, show, slack) -> None:
    _, first = show("make one")
    with slack.world.lock:
        del slack.world.messages[CHANNEL][first.ts]
    request, second = show("make two")
    assert "thread_ts" not in slack.message(second.ts)
    assert second.click("approve", "alice").acked
    assert world.state(request) == "approved"


def test_a_message_that_was_deleted_needs_no_settling(world, show, slack) -> None:
    request, surface = show()
    with slack.world.lock:
        del slack.world.messages[CHANNEL][surface.ts]
    world.decide_elsewhere(request)
    world.settle(request)


def test_a_message_that_can_not_be_changed_gets_a_reply(world, show, slack) -> None:
    request, _ = show()
    slack.fault("chat.update", "error", error="edit_window_closed")
    world.decide_elsewhere(request)
    world.settle(request)
    assert "Rejected by alice" in slack.messages()[-1]["text"]


def test_a_reminder_goes_to_the_thread_and_notifies(world, show, slack) -> None:
    request, surface = show()
    outcome = world.desk().outcome(request.id)
    world.channel.remind(outcome, world.desk().shown(request.id)[0], 1)
    reminder = slack.messages()[-1]
    assert reminder["thread_ts"] == surface.ts
    assert reminder["_pings"] == ["@U0ALICE", "@U0BOB"]
    world.decide_elsewhere(request)
    world.channel.remind(world.desk().outcome(request.id), world.desk().shown(request.id)[0], 2)
    assert slack.messages()[-1] is reminder


# Health


def test_health_names_what_is_missing(world, slack) -> None:
    assert world.channel.health().ok
    slack.world.tokens[BOT_TOKEN].scopes -= {"files:write", "channels:history"}
    slack.world.channels[CHANNEL]["members"].discard("U0BOT")
    slack.world.channels[CHANNEL]["is_archived"] = True
    problems = " | ".join(world.channel.health().problems)
    assert "add the scopes files:write, channels:history" in problems
    assert "the app is not in C0OPS" in problems
    assert "archived" in problems
    slack.world.tokens.clear()
    problems = " | ".join(world.channel.health().problems)
    assert "set SLACK_BOT_TOKEN to the bot token" in problems


def test_health_alarms_where_somebody_else_gets_clicks(world, rig, slack) -> None:
    from websockets.sync.client import connect

    with connect(rig.api().socket_url(), compression=None, proxy=None):
        slack.socket.wait_for(2)
        slack.socket.disturb("fin", slack.socket.connections[0])
        until(lambda: world.channel.receiver.connections.counted == 2, "a new hello")
        (problem,) = world.channel.health().problems
        assert "Slack counts 2 connections of this app, and 1 are ours" in problem


def test_a_refused_app_token_is_named(slack, rig) -> None:
    slack.fault("apps.connections.open", "error", error="invalid_auth", count=10**6)
    channel = rig.channel()
    channel.receiver.start()
    until(lambda: channel.receiver.connections.problem, "a problem")
    assert "set SLACK_APP_TOKEN to an app-level token (xapp-...)" in channel.health().problems[-1]
    channel.close()


def test_tokens_of_the_wrong_kind_are_refused(slack, rig) -> None:
    with pytest.raises(ConfigError, match="SLACK_BOT_TOKEN must hold"):
        rig.api(bot_token="xoxp-user")


def test_addresses_that_are_not_slacks_get_nothing(slack, rig) -> None:
    api = rig.api()
    for url in ("http://example.com/x", "https://127.0.0.1.example.com/", "file:///etc/passwd", "http://[::"):
        with pytest.raises(Undeliverable, match="not Slack's"):
            api.respond(url, "hello")
        with pytest.raises(Undeliverable, match="not Slack's"):
            api.upload(url, b"secret")


# The manifest


def test_the_manifest_has_exactly_the_scopes_that_are_used() -> None:
    file = Path(__file__).parents[3] / "channels" / "slack-manifest.yaml"
    manifest = yaml.safe_load(file.read_text())
    scopes = set(manifest["oauth_config"]["scopes"]["bot"])
    assert scopes == BOT_SCOPES
    assert scopes >= set(NEEDED)
    assert manifest["settings"]["socket_mode_enabled"] is True
    assert manifest["settings"]["interactivity"]["is_enabled"] is True
    assert len(manifest["display_information"]["description"]) <= 140


def test_a_warning_stands_in_the_channel_as_it_is(world, slack) -> None:
    """Whoever may append events to a log must not mention people, or lay out a link, in its words."""
    world.channel.warn("BREAK-GLASS: <!channel> <http://evil|click>", ())
    (message,) = [each for each in slack.world.messages.values() if "BREAK-GLASS" in repr(each)]
    assert "'type': 'rich_text_preformatted'" in repr(message)
    assert "<!channel> <http://evil|click>" in repr(message)
