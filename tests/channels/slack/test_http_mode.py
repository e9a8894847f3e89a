"""The HTTP receiver against everybody who can reach its address: Slack, and whoever says to be Slack."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from humanlayer_agent.channels.http_server import Limits
from humanlayer_agent.channels.slack import http_mode
from humanlayer_agent.channels.slack.envelopes import Reply
from humanlayer_agent.channels.slack.http_mode import Address, RequestReceiver
from humanlayer_agent.errors import ChannelError, ConfigError
from humanlayer_agent.testing.fake_slack import SIGNING_SECRET, FakeSlack
from humanlayer_agent.testing.fake_slack.requests import signed
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.channels.slack.test_socket_mode import Heard
from tests.support.mail_servers import free_port

BODY = json.dumps({"type": "event_callback", "event": {"type": "x"}}).encode()
PATIENT = Limits(head=PATIENCE, body=PATIENCE)


class Clock:
    """Slack's clock and ours."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def receive(slack: FakeSlack, heard: Heard, clock: Clock) -> Iterator[Callable[..., RequestReceiver]]:
    made: list[RequestReceiver] = []
    slack.world.clock = clock

    def start(peers: frozenset[str] = frozenset(), limits: Limits = PATIENT, listen: str = "127.0.0.1", **options: Any):
        address = Address(f"{listen}:{free_port()}", "/slack", peers, SIGNING_SECRET, "SLACK_SIGNING_SECRET")
        made.append(RequestReceiver(address, options.pop("handle", heard.handle), clock=clock, limits=limits))
        made[-1].start()
        slack.requests.url = f"http://{address.listen}/slack"
        return made[-1]

    yield start
    for each in made:
        each.close(1.0)


def stamped(clock: Clock, **ahead: float) -> str:
    return str(int(clock.now + ahead.get("by", 0)))


# ---- Slack -----------------------------------------------------------------------------------------


def test_a_click_and_an_event_are_handled_and_answered(receive, slack, heard) -> None:
    receive()
    assert slack.deliver({"type": "block_actions", "text": "ä & = %"}).response == {"n": 1}
    assert slack.deliver({"event": {}}, kind="events_api").response == {"n": 2}
    assert heard.payloads == [{"type": "block_actions", "text": "ä & = %"}, {"event": {}}]
    until(lambda: len(heard.after) == 2, "what is to be done afterwards")


def test_the_address_is_confirmed_as_slack_wants_it(receive, slack, heard) -> None:
    """https://docs.slack.dev/reference/events/url_verification"""
    receive()
    body = json.dumps({"type": "url_verification", "token": "x", "challenge": "3eZbrw1a"}).encode()
    status, answer, _ = slack.requests.send(body)
    assert (status, json.loads(answer), heard.payloads) == (200, {"challenge": "3eZbrw1a"}, [])
    assert slack.requests.send(b"ssl_check=1&token=x", form=True)[:2] == (200, b"")
    assert slack.requests.send(body, headers={"X-Slack-Signature": f"v0={'0' * 64}"})[0] == 401, "only to Slack"


def test_what_fails_is_not_acknowledged_and_may_come_again(receive, slack, heard) -> None:
    receive()
    heard.fails = True
    body, headers = BODY, {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_error"}
    assert slack.requests.send(body)[0] == 503
    assert heard.after == []
    heard.fails = False
    assert slack.requests.send(body, headers=headers)[0] == 200, "the same bytes in the same second"
    assert len(heard.payloads) == 1


def test_what_waits_too_long_is_dropped(receive, slack, heard, monkeypatch) -> None:
    monkeypatch.setattr("humanlayer_agent.channels.slack.envelopes.STALE_SECONDS", -1.0)
    receive()
    assert (slack.deliver({"type": "x"}).outcome, heard.payloads) == ("refused", [])


def test_closing_waits_for_what_is_being_written(receive, slack, heard) -> None:
    receiver = receive()
    heard.gate.clear()
    found: list[Any] = []
    click = threading.Thread(target=lambda: found.append(slack.deliver({"type": "x"})))
    click.start()
    until(lambda: receiver._known, "a request that is being handled")
    closing = threading.Thread(target=receiver.close, args=(PATIENCE,))
    closing.start()
    heard.gate.set()
    closing.join()
    click.join()
    assert (found[0].acked, len(heard.payloads)) == (True, 1)
    assert slack.deliver({"type": "x"}).outcome == "no-connection"
    assert receiver.reception.problems


def test_a_port_that_is_taken_is_told(receive, slack, heard) -> None:
    receive()
    listen = slack.requests.url.split("/")[2]
    other = RequestReceiver(Address(listen, "/slack", frozenset(), SIGNING_SECRET, "X"), heard.handle)
    with pytest.raises(ChannelError, match="give another `listen:`"):
        other.start()


@pytest.mark.parametrize("secret", ["", " ", "short", " " * 32, f"{SIGNING_SECRET}\n", "ä" * 32])
def test_a_secret_that_could_be_guessed_is_none(secret) -> None:
    with pytest.raises(ConfigError, match="SLACK_SIGNING_SECRET must hold") as raised:
        RequestReceiver(Address("127.0.0.1:1", "/", frozenset(), secret, "SLACK_SIGNING_SECRET"), lambda _: Reply())
    assert not secret.strip() or secret not in str(raised.value)


# ---- everybody else --------------------------------------------------------------------------------


FORGED = [
    ({"X-Slack-Signature": None}, "no signature"),
    ({"X-Slack-Request-Timestamp": None}, "no signature"),
    ({"X-Slack-Signature": ""}, "no signature"),
    ({"X-Slack-Signature": "v0=" + "0" * 64}, "does not fit"),
    ({"X-Slack-Signature": "v1=" + "0" * 64}, "no signature"),
    ({"X-Slack-Signature": "v0=" + "0" * 63 + "é"}, "no signature"),
    ({"X-Slack-Signature": "v0=" + "0" * 640}, "no signature"),
    ({"X-Slack-Request-Timestamp": "-1"}, "no signature"),
    ({"X-Slack-Request-Timestamp": "1e9"}, "no signature"),
    ({"X-Slack-Request-Timestamp": "1700000000.0"}, "no signature"),
    ({"X-Slack-Request-Timestamp": "9" * 13}, "no signature"),
    ({"X-Slack-Request-Timestamp": "1699999999"}, "does not fit"),
    (signed("another secret", "1700000000", BODY), "does not fit"),
    (signed("", "1700000000", BODY), "does not fit"),
    (signed(SIGNING_SECRET, "1700000000", BODY + b" "), "does not fit"),
]


def test_a_forged_request(receive, slack, heard) -> None:
    receiver = receive()
    for headers, why in FORGED:
        status, answer, _ = slack.requests.send(BODY, headers=headers)
        assert (status, heard.payloads) == (401, []), headers
        assert why in answer.decode(), headers
        (problem,) = receiver.reception.problems
        assert why in problem
        assert "SLACK_SIGNING_SECRET" in problem
    assert slack.requests.send(BODY)[0] == 200
    assert not receiver.reception.problems, "one of Slack's has come"


def test_the_time_of_a_request(receive, slack, heard, clock) -> None:
    receive()
    clock.now += 301
    for by, status in ((-301, 401), (-300, 200), (0, 200), (300, 200), (301, 401)):
        stamp = stamped(clock, by=by)
        assert slack.requests.send(BODY, headers=signed(SIGNING_SECRET, stamp, BODY))[0] == status, by


def test_a_replay_is_answered_and_not_handled(receive, slack, heard, clock) -> None:
    receive()
    captured = signed(SIGNING_SECRET, stamped(clock), BODY)
    first = slack.requests.send(BODY, headers=captured)
    assert first[:2] == (200, b'{"n": 1}')
    for later in (0, 100, 300):
        clock.now = 1_700_000_000.0 + later
        assert slack.requests.send(BODY, headers=captured)[:2] == first[:2]
    clock.now += 1
    assert slack.requests.send(BODY, headers=captured)[0] == 401
    assert len(heard.payloads) == 1
    assert len(heard.after) == 1


def test_what_was_sent_before_this_process_began_is_not_handled_by_it(receive, slack, heard, clock) -> None:
    """Another one may have handled it: who has seen it would stop every agent again by it."""
    captured = signed(SIGNING_SECRET, stamped(clock), BODY)
    receive().close(1.0)
    clock.now += 1
    receiver = receive()
    assert slack.requests.send(BODY, headers=captured)[0] == 401
    assert "before this hub began" in str(receiver.reception.facts["refused"])
    assert slack.requests.send(BODY, headers=signed(SIGNING_SECRET, stamped(clock), BODY))[0] == 200
    assert len(heard.payloads) == 1


def test_a_replay_is_remembered_as_long_as_it_could_count(receive, slack, heard, clock) -> None:
    """One whose time is ahead of ours counts for ten minutes."""
    receive()
    captured = signed(SIGNING_SECRET, stamped(clock, by=300), BODY)
    for later in (0, 301, 600):
        clock.now = 1_700_000_000.0 + later
        slack.requests.send(BODY + b" ")  # another one, at which the old ones are forgotten
        assert slack.requests.send(BODY, headers=captured)[0] == 200
    assert sum(payload["event"] == {"type": "x"} for payload in heard.payloads) == 4


def test_the_same_request_at_once_is_handled_once(receive, slack, heard, clock) -> None:
    receiver = receive()
    heard.gate.clear()
    captured, found = signed(SIGNING_SECRET, stamped(clock), BODY), []
    sending = [
        threading.Thread(target=lambda: found.append(slack.requests.send(BODY, headers=captured)[:2])) for _ in range(4)
    ]
    for each in sending:
        each.start()
    until(lambda: receiver.reception.facts["requests"] == 4, "four requests")
    heard.gate.set()
    for each in sending:
        each.join()
    assert (found, len(heard.payloads)) == ([(200, b'{"n": 1}')] * 4, 1)


def test_only_so_many_are_remembered(receive, slack, monkeypatch) -> None:
    monkeypatch.setattr(http_mode, "REMEMBERED", 3)
    receiver = receive()
    for n in range(5):
        slack.deliver({"n": n})
    assert len(receiver._known) == 3


NEVER_SENT = [
    (b"", False, {}, 400),
    (b"null", False, {}, 400),
    (b"[]", False, {}, 400),
    (b"{", False, {}, 400),
    (b"\xff\xfe", False, {}, 400),
    (b"[" * 100_000, False, {}, 400),
    (b"", True, {}, 400),
    (b"payload", True, {}, 400),
    (b"payload=", True, {}, 400),
    (b"payload=1", True, {}, 400),
    (b"payload=%7B%7D&payload=%7B%7D", True, {}, 400),
    (b"payload=%FF", True, {}, 400),
    (b"&".join([b"a=1"] * 20), True, {}, 400),
    (b"payload={}", True, {"Content-Type": "multipart/form-data; boundary=x"}, 415),
    (b"{}", False, {"Content-Type": "text/plain"}, 415),
    (b"{}", False, {"Content-Length": "1000001"}, 413),
    (b" " * 1_000_001, False, {}, 413),
]


def test_bodies_that_slack_never_sends(receive, slack, heard) -> None:
    receive()
    for body, form, headers, status in NEVER_SENT:
        closed = {0} if len(body) > http_mode.MAX_BODY else set()  # before all of it was sent
        assert slack.requests.send(body, form=form, headers=headers)[0] in {status} | closed, body[:40]
    assert heard.payloads == []
    assert slack.deliver({"type": "x"}).acked


def test_a_large_body_is_taken(receive, slack, heard) -> None:
    receive()
    assert slack.deliver({"view": "x" * 250_000}).acked


def test_a_header_that_is_there_twice_counts_as_none(receive, slack, heard, clock) -> None:
    receive()
    for twice, status in (("X-Slack-Signature", 401), ("X-Slack-Request-Timestamp", 401), ("Content-Type", 415)):
        made = as_sent(clock)
        assert raw(slack, "POST /slack", [*made, next(each for each in made if each.startswith(twice))], BODY) == status
    assert heard.payloads == []


def as_sent(clock: Clock) -> list[str]:
    """The headers of a request of Slack's."""
    made = {"Content-Type": "application/json", "Content-Length": str(len(BODY))}
    return [f"{name}: {value}" for name, value in (made | signed(SIGNING_SECRET, stamped(clock), BODY)).items()]


def raw(slack: FakeSlack, line: str, headers: list[str], body: bytes = b"") -> int:
    """Send a request byte by byte as it is written; returns the status, 0 where the connection is closed."""
    host, _, port = slack.requests.url.split("/")[2].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as to:
        to.sendall("\r\n".join([f"{line} HTTP/1.1", "Host: x", "Connection: close", *headers, "", ""]).encode() + body)
        try:
            answer = to.recv(4096)
        except ConnectionError:
            return 0
    return int(answer.split()[1]) if answer else 0


def test_only_posts_to_the_path(receive, slack, heard, clock) -> None:
    receive()
    wrong = {"/": 404, "/slack/": 404, "/slack/../slack": 404, "//slack": 404, "/SLACK": 404, "*": 404}
    for path, status in wrong.items():
        assert raw(slack, f"POST {path}", as_sent(clock), BODY) == status, path
    for method in ("GET", "PUT", "OPTIONS"):
        assert raw(slack, f"{method} /slack", as_sent(clock), BODY) == 405
    assert heard.payloads == []
    assert raw(slack, "POST /slack?x=1", as_sent(clock), BODY) == 200


def test_a_body_that_never_ends_does_not_keep_slack_out(receive, slack, heard) -> None:
    receive(limits=Limits(head=0.2, body=0.2))
    assert raw(slack, "POST /slack", ["Content-Length: 100"], b"{") == 0, "closed without a word"
    assert raw(slack, "POST /slack", ["Transfer-Encoding: chunked"], b"1\r\n{\r\n") == 0
    assert slack.deliver({"type": "x"}).acked
    assert len(heard.payloads) == 1


def test_an_address_that_is_none_of_the_proxys_is_not_answered(receive, slack, heard, monkeypatch) -> None:
    receive(peers=frozenset({"192.0.2.7"}))
    assert slack.deliver({"type": "x"}).acked, "what comes from this machine is"
    assert [http_mode._is_peer(each, {"192.0.2.7"}) for each in ("192.0.2.7", "192.0.2.8", "", "::1", "127.0.0.1")] == [
        True, False, False, True, True,
    ]  # fmt: skip
    monkeypatch.setattr(http_mode, "_is_peer", lambda address, peers: False)
    assert (slack.deliver({"type": "x"}).outcome, len(heard.payloads)) == ("refused", 1)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(["application/json", "application/x-www-form-urlencoded", "", "x"]),
    body=st.binary(max_size=200),
)
def test_any_bytes_are_an_envelope_an_answer_or_refused(kind: str, body: bytes) -> None:
    for made in (body, b"payload=" + quote(body).encode()):
        try:
            found = http_mode._understood({"content-type": kind}, made)
        except http_mode._Refused as refused:
            assert refused.status in (400, 415)
        else:
            assert isinstance(found, bytes) or isinstance(found["payload"], dict)


# ---- the channel -----------------------------------------------------------------------------------


class TestChannel:
    @pytest.fixture
    def mode(self) -> str:
        return "http"

    def test_its_health_tells_of_requests(self, world, show, slack) -> None:
        health = world.channel.health()
        assert health.ok, health.problems
        assert health.facts["requests"] == 0
        slack.requests.secret = "another"
        _, surface = show()
        assert surface.click("approve", "alice").outcome == "refused"
        (problem,) = world.channel.health().problems
        assert "its signature does not fit" in problem
        slack.requests.secret = SIGNING_SECRET
        assert surface.click("approve", "alice").acked
        health = world.channel.health()
        assert (health.ok, health.facts["requests"], health.facts["refused"]) == (
            True,
            1,
            {"its signature does not fit": 1},
        )

    def test_it_takes_no_connection_to_slack(self, world, slack) -> None:
        assert slack.called("apps.connections.open") == []

    def test_a_click_that_is_replayed_counts_once(self, world, show, slack) -> None:
        request, surface = show(route="two")
        sent: list[tuple[bytes, dict[str, Any]]] = []
        send = slack.requests.send
        slack.requests.send = lambda body, **options: sent.append((body, options)) or send(body, **options)  # type: ignore[method-assign]
        surface.click("approve", "alice")
        surface.click("approve", "bob")
        assert world.state(request) == "approved"
        for body, options in sent:
            assert send(body, **options)[0] == 200
        assert [result.outcome for result in world.answered] == ["recorded", "recorded"]

    def test_it_can_be_tried_while_a_hub_serves_it(self, world, rig, slack, monkeypatch) -> None:
        """Two can't listen at one port, and the hub receives the answer."""
        from humanlayer_agent.hub import channel_test

        other = rig.channel()
        other.receiver._server._listen = world.channel.receiver._server._listen
        other.start = lambda desk: other.receiver.start()  # type: ignore[method-assign]
        monkeypatch.setattr(channel_test, "os_user", lambda: "os:1000:starter")
        monkeypatch.setattr(channel_test, "_answered", lambda *_: channel_test.Trial(None, "", 0.0))
        trying = (world.store, other, world.approvers.authority, world.approvers.signer)
        with pytest.raises(ChannelError, match="can't listen"):
            channel_test.try_channel(*trying, timeout=1)
        world.store.surfaces.take_lease("slack", "a hub", 30_000)
        channel_test.try_channel(*trying, timeout=1)
        assert "a test of this channel" in slack.messages()[-1]["blocks"][2]["text"]["text"]


def test_replies_are_plain_json() -> None:
    assert http_mode._written(Reply({"response_action": "errors"})) == (200, b'{"response_action": "errors"}')
    assert http_mode._written(Reply()) == (200, b"")


def test_the_settings_of_the_page(tmp_path: Path) -> None:
    from humanlayer_agent.channels import registry
    from humanlayer_agent.channels import settings as files

    file = tmp_path / "channels.yaml"
    file.write_text("version: 1\nextends: [builtin:slack-http]\nset: {SLACK_CHANNEL: C01}\n")
    found = files.load(file=file)
    assert registry.missing("slack", found, {}) == ("SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET")
    made = registry.build("slack", found, {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_SIGNING_SECRET": SIGNING_SECRET})
    assert isinstance(made.receiver, RequestReceiver)  # type: ignore[attr-defined]
