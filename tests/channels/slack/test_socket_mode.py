"""The Socket Mode receiver against everything that happens to connections."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from humanlayer_agent.channels.contract import Retry
from humanlayer_agent.channels.slack import socket_mode as receiving
from humanlayer_agent.channels.slack.envelopes import Reply
from humanlayer_agent.channels.slack.socket_mode import Receiver
from humanlayer_agent.testing.fake_slack import FakeSlack
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.channels.slack.conftest import SlackRig


class Heard:
    """Remembers what was handed over; may wait, or fail."""

    def __init__(self) -> None:
        self.payloads: list[Any] = []
        self.fails = False
        self.failed = 0
        self.gate = threading.Event()
        self.gate.set()
        self.after: list[str] = []

    def handle(self, envelope: dict[str, Any]) -> Reply:
        self.gate.wait(PATIENCE)
        if self.fails:
            self.failed += 1
            raise RuntimeError("not written down")
        self.payloads.append(envelope["payload"])
        return Reply({"n": len(self.payloads)}, lambda: self.after.append("done"))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def receive(slack: FakeSlack, heard: Heard) -> Iterator[Callable[..., Receiver]]:
    made: list[Receiver] = []
    api = SlackRig(slack).api()

    def start(count: int = 1, **options: float) -> Receiver:
        made.append(Receiver(api.socket_url, heard.handle, count=count, **options))
        made[-1].start()
        assert made[-1].wait_open(PATIENCE)
        slack.socket.wait_for(count)
        return made[-1]

    yield start
    for each in made:
        each.close(1.0)


def test_an_envelope_is_acknowledged_with_its_payload(receive, slack, heard) -> None:
    receive()
    delivery = slack.socket.deliver({"type": "x"})
    assert (delivery.outcome, delivery.response) == ("acked", {"n": 1})
    until(lambda: heard.after, "what is to be done afterwards")


def test_what_fails_is_not_acknowledged(receive, slack, heard) -> None:
    receive()
    heard.fails = True
    slack.socket.ack_seconds = 0.3
    assert slack.socket.deliver({"type": "x"}).outcome == "timeout"
    until(lambda: heard.failed, "that it was handled")
    assert heard.after == []
    heard.fails = False
    slack.socket.ack_seconds = PATIENCE
    assert slack.socket.deliver({"type": "x"}).acked


def test_each_goes_to_one_of_several_connections(receive, slack, heard) -> None:
    receive(3)
    deliveries = [slack.socket.deliver({"type": "x", "n": n}) for n in range(9)]
    assert all(delivery.acked for delivery in deliveries)
    assert len({delivery.connection for delivery in deliveries}) == 3
    assert sorted(payload["n"] for payload in heard.payloads) == list(range(9))


@pytest.mark.parametrize("how", ["refresh", "warning"])
def test_a_refresh_loses_nothing(receive, slack, heard, how) -> None:
    receive()
    for n in range(5):
        old = slack.socket.disturb(how)
        assert slack.socket.deliver({"type": "x", "n": n}).acked, "also while the new one is being opened"
        until(lambda old=old: set(slack.socket.connections) - {old}, "a new connection")
        assert slack.socket.deliver({"type": "x", "n": n}).acked
        slack.socket.disturb("close", old)
    assert len(heard.payloads) == 10


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["close", "fin", "rst"])
def test_an_end_without_a_word_is_noticed(receive, slack, heard, how) -> None:
    receiver = receive()
    for _ in range(3):
        old = slack.socket.disturb(how)
        until(lambda old=old: set(slack.socket.connections) - {old}, "a new connection")
        until(lambda: slack.socket.deliver({"type": "x"}).acked, "an acknowledgement")
    assert receiver.connections.problem == ""


@pytest.mark.long
def test_a_silent_connection_is_replaced(receive, slack, heard) -> None:
    receive(ping=0.2, pong=2.0)
    old = slack.socket.disturb("hang")
    until(lambda: set(slack.socket.connections) - {old}, "a new connection")
    until(lambda: slack.socket.deliver({"type": "x"}).acked, "an acknowledgement")


def test_one_of_two_connections_is_enough(receive, slack, heard) -> None:
    receive(2)
    slack.socket.disturb("rst")
    until(lambda: slack.socket.deliver({"type": "x"}).acked, "an acknowledgement")


@pytest.mark.parametrize(
    "frame", ["not json", "[]", "null", {"type": "hello"}, {"envelope_id": 5}, {"type": None}, "{"]
)
def test_frames_that_make_no_sense_do_no_harm(receive, slack, heard, frame) -> None:
    receive()
    slack.socket.send_raw(slack.socket.connections[0], frame)
    assert slack.socket.deliver({"type": "x"}).acked


def test_a_large_envelope(receive, slack, heard) -> None:
    receive()
    assert slack.socket.deliver({"type": "x", "text": "x" * 2_000_000}).acked


def test_too_many_connections_wait(receive, slack, heard, monkeypatch) -> None:
    monkeypatch.setattr(receiving, "_REASONS", dict.fromkeys(receiving._REASONS, 3600.0))
    receiver = receive(10)
    other = Receiver(SlackRig(slack).api().socket_url, heard.handle, count=1)
    other.start()
    until(lambda: other.connections.problem, "a problem")
    assert "more than 10 connections" in other.connections.problem
    opened = len(slack.called("apps.connections.open"))
    assert all(slack.socket.deliver({"type": "x"}).acked for _ in range(10))
    assert len(slack.called("apps.connections.open")) <= opened + 1, "it does not hurry"
    other.close(0.1)
    assert receiver.connections.open == 10


def test_it_connects_again_when_slack_says_and_not_later(slack, heard) -> None:
    """Without that it would wait twice as long after each failure."""
    api, limited = SlackRig(slack).api(), [Retry("Slack limits apps.connections.open", after=0.01)] * 14

    def open_url() -> str:
        if limited:
            raise limited.pop()
        return api.socket_url()

    receiver = Receiver(open_url, heard.handle, count=1)
    receiver.start()
    assert receiver.wait_open(PATIENCE)
    receiver.close(0.1)


def test_socket_mode_that_was_switched_off_is_told(receive, slack, heard) -> None:
    receiver = receive()
    old = slack.socket.disturb("link_disabled")
    slack.socket.disturb("close", old)
    until(lambda: receiver.connections.problem, "a problem")
    assert "Socket Mode is switched off" in receiver.connections.problem


@pytest.mark.long
def test_it_goes_on_trying(receive, slack, heard) -> None:
    slack.fault("apps.connections.open", "http", status=503, count=2)
    receive()
    assert slack.called("apps.connections.open")[:2] == ["503", "503"]
    assert slack.socket.deliver({"type": "x"}).acked


def test_closing_waits_for_what_is_being_written(receive, slack, heard) -> None:
    receiver = receive()
    heard.gate.clear()
    found: list[Any] = []
    click = threading.Thread(target=lambda: found.append(slack.socket.deliver({"type": "x"})))
    click.start()
    until(lambda: receiver._busy, "an envelope that is being handled")
    closing = threading.Thread(target=receiver.close, args=(PATIENCE,))
    closing.start()
    until(lambda: receiver._closed, "that it closes")
    sent, slack.socket.ack_seconds = slack.socket.delivered, 0.3
    assert slack.socket.deliver({"type": "late"}).outcome == "timeout"
    assert slack.socket.delivered > sent
    heard.gate.set()
    closing.join()
    click.join()
    assert (found[0].acked, len(heard.payloads)) == (True, 1)
    assert slack.socket.deliver({"type": "x"}).outcome in ("timeout", "no-connection")
    assert len(heard.payloads) == 1
