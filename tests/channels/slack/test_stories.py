"""How a request went, told in its thread: once, when all is over, whoever served it."""

import re
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.audit import events
from humanlayer_agent.audit.heads import heads_in
from humanlayer_agent.channels.contract import Schedule
from humanlayer_agent.channels.slack.channel import SlackChannel
from humanlayer_agent.hub import stories as hub_stories
from humanlayer_agent.hub.hub import Hub
from humanlayer_agent.hub.sender import Sender
from humanlayer_agent.hub.stories import Stories
from humanlayer_agent.testing.conformance_rig import World
from humanlayer_agent.testing.patience import until
from tests.channels.slack.conftest import SlackSurface, texts


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_stories, "EVERY_MS", 0)


def tell(world: World, stories: Stories | None = None) -> Stories:
    """Tell what is to be told, as a hub does."""
    found = stories or Stories(world.store, "slack", world.approvers.authority)
    sender = Sender(world.store, world.channel, world.approvers.authority, stopping=threading.Event())
    sender.tell(found)
    return found


def told(slack: Any, surface: SlackSurface) -> list[dict[str, Any]]:
    """The stories in the thread of a message."""
    return [
        message
        for message in slack.messages()
        if message.get("thread_ts") == surface.ts and str(message["text"]).startswith("How it went")
    ]


def run(world: World, request: Any, outcome: Outcome | None) -> None:
    """Run what was approved, as its agent does; None where it goes on."""
    authority = world.approvers.authority
    permit = world.store.permit(world.store.get(request.id), authority, use_by_ms=60_000)
    assert isinstance(permit, Permit)
    world.store.consume(permit, request.digest, authority)
    if outcome is not None:
        assert world.store.finish(permit.id, outcome)


def test_a_command_that_was_approved_and_has_ended(world, show, slack) -> None:
    request, surface = show("make deploy")
    surface.click("approve", "stranger")
    surface.click("approve", "alice")
    world.settle(request)
    tell(world)
    assert told(slack, surface) == [], "it has not begun"
    run(world, request, Outcome(3, duration_ms=1_250))
    tell(world)
    (message,) = told(slack, surface)
    lines = "\n".join(texts(message["blocks"])).splitlines()
    said = [re.sub(r"^\d\d:\d\d:\d\d  ", "", line) for line in lines]
    assert said[0] == "How it went: ✅ Approved by alice"
    assert said[1] == f"Request {request.id[:12]}: make deploy"
    assert said[3:11] == [
        "asked",
        "shown by slack to alice, bob",
        "an answer of slack:T0TEAM/U0MALLORY, by slack, did not count (unknown-identity)",
        "alice: approve, by slack",
        "approved",
        "it began to run",
        "ended with exit status 3 after 1.2 s",
        "The log goes as far as this head: keep it, it is a witness (hla audit verify).",
    ]
    (head,) = heads_in(lines[-1])
    assert world.store.verify(heads=[head]).intact
    assert next(world.store.events(request=request.id, type="exec.finished")).seq <= head.seq
    assert not message.get("_broadcast")
    assert message["_pings"] == []


@pytest.mark.parametrize(("kind", "says"), [("reject", "rejected: it did not run"), ("respond", "answered in words")])
def test_what_does_not_run_is_told_at_once(world, show, slack, kind, says) -> None:
    request, surface = show()
    surface.answer(kind, "alice", "no")
    until(lambda: world.state(request) != "pending", "the answer")
    tell(world)
    (message,) = told(slack, surface)
    assert says in "\n".join(texts(message["blocks"]))


def test_it_is_told_once_whoever_serves_the_channel(world, show, slack) -> None:
    request, surface = show()
    world.decide_elsewhere(request, "reject", "bob")
    stories = tell(world)
    tell(world, stories)
    world.restart()
    tell(world)
    assert len(told(slack, surface)) == 1
    assert [entry.event["channel"] for entry in world.events(request, "presentation.told")] == ["slack"]
    assert world.store.verify().intact


def test_what_slack_can_not_take_now_is_told_later(world, show, slack) -> None:
    request, surface = show()
    world.decide_elsewhere(request, "reject", "bob")
    slack.fault("chat.postMessage", "429", seconds=1)
    stories = tell(world)
    assert (told(slack, surface), world.events(request, "presentation.told")) == ([], [])
    tell(world, stories)
    assert len(told(slack, surface)) == 1


def test_an_event_that_nobody_can_read_keeps_no_other_story_from_being_told(world, show) -> None:
    forged, _ = show("make forged")
    world.store.record(events.VOTE_REFUSED, request=forged.id, approver="nobody")
    request, _ = show("make deploy")
    for each in (forged, request):
        world.decide_elsewhere(each, "reject", "bob")
    tell(world)
    assert [len(world.events(each, "presentation.told")) for each in (forged, request)] == [0, 1]


def test_a_message_that_was_deleted_is_no_reason_to_go_on(world, show, slack) -> None:
    request, surface = show()
    world.decide_elsewhere(request, "reject", "bob")
    with slack.world.lock:
        del slack.world.messages["C0OPS"][surface.ts]
    tell(world, tell(world))
    assert len(world.events(request, "presentation.told")) == 1


def test_what_is_old_or_was_not_shown_here_is_not_told(world, show, slack, monkeypatch) -> None:
    other = world.ask("make elsewhere")
    world.decide_elsewhere(other, "reject", "bob")
    request, surface = show()
    world.decide_elsewhere(request, "reject", "bob")
    monkeypatch.setattr(hub_stories, "LATE_MS", -1)
    tell(world)
    assert told(slack, surface) == []
    assert not world.events(other, "presentation.told")


def test_a_hub_tells_it(world, show, slack, rig) -> None:
    request, surface = show()
    authority, signer = world.approvers.authority, world.approvers.signer
    with Hub(world.store, ["slack"], lambda name: rig.channel(), authority.trusting(signer.fingerprint), signer):
        world.decide_elsewhere(request, "reject", "bob")
        until(lambda: told(slack, surface), "how it went")
    assert not surface.offers()
    assert len(told(slack, surface)) == 1


def test_a_hub_that_ends_with_its_agent_tells_of_its_last_command(world, show, slack, rig, monkeypatch) -> None:
    request, surface = show()
    monkeypatch.setattr(hub_stories, "EVERY_MS", 10**9)
    authority, signer = world.approvers.authority, world.approvers.signer
    with Hub(world.store, ["slack"], lambda name: rig.channel(), authority.trusting(signer.fingerprint), signer) as hub:
        until(lambda: hub.serving, "a hub that serves")
        until(lambda: rig.channels[-1].receiver.connections.open, "a channel")
        world.decide_elsewhere(request, "reject", "bob")
        until(lambda: not surface.offers(), "a settled message")
    assert len(told(slack, surface)) == 1


def test_nothing_in_it_is_more_than_text(world, show, slack) -> None:
    request, surface = show("echo <!channel> *x* && mysql -pHunter2Hunter2 db")
    world.decide_elsewhere(request, "approve", "bob")
    run(world, request, Outcome(None, detail="could not be started: <!here> --password=Hunter2Hunter2 \x1b[2J"))
    tell(world)
    (message,) = told(slack, surface)
    assert message["_pings"] == []
    shown = str(message)
    assert "Hunter2" not in shown
    assert "\x1b" not in shown
    assert "no exit status" in shown


def test_a_hub_posts_the_digest_of_a_day_where_it_is_to(world, show, slack, rig) -> None:
    show("make deploy")
    slack.world.add_channel("C0LEADS", "leads")
    now = datetime.now(UTC)
    channel = SlackChannel(
        "slack", rig.api(), "C0OPS", pace=0.0, connections=1,
        schedule=Schedule(now.time().replace(second=0, microsecond=0)), digest_to="C0LEADS",
    )  # fmt: skip
    authority, signer = world.approvers.authority, world.approvers.signer
    with Hub(world.store, ["slack"], lambda name: channel, authority, signer):
        until(lambda: slack.messages("C0LEADS"), "the digest")
    (posted,) = slack.messages("C0LEADS")
    assert "1 wait now" in "\n".join(texts(posted["blocks"]))
    assert "make deploy" not in str(posted)
    assert posted["_pings"] == []
