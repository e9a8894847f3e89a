"""Webhooks: what is sent where, signed how, and what becomes of it when the other end says no."""

import base64
import json
import re
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.approvals.authority import Person
from humanlayer_agent.channels import registry, settings
from humanlayer_agent.channels.contract import Audience, Retry, Undeliverable
from humanlayer_agent.channels.webhook.channel import WebhookChannel
from humanlayer_agent.channels.webhook.signature import Secrets
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hub.outbox import Outbox
from humanlayer_agent.hub.sender import Sender
from tests.channels.webhook.conftest import INBOX, SECRET, Receiver, assert_signed
from tests.support.certificates import make_certificates

NOBODY = Audience(())
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

# ---- what is sent ----------------------------------------------------------------------------------


def test_an_event_is_a_cloud_event(world, receiver) -> None:
    """Required and optional attributes: CloudEvents 1.0.2, sections 3.1 and 3.2 of the JSON format."""
    request = world.ask("make deploy")
    world.deliver(request)
    (path, headers, body) = receiver.asked[0]
    made = json.loads(body)
    assert headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert path == "/hook?key=UrlSecret"
    assert (made["specversion"], made["type"]) == ("1.0", "humanlayer-agent.request.asked")
    assert (made["source"], made["subject"]) == ("urn:humanlayer-agent:hook", request.id)
    assert TIME.fullmatch(made["time"])
    assert made["id"] == headers["webhook-id"]
    assert "." not in made["id"]
    data = made["data"]
    assert (data["command"], data["whole"], data["state"], data["severity"]) == (
        "make deploy",
        True,
        "pending",
        "medium",
    )
    assert (data["reason"], data["rule"], data["missing"]) == ("a rule says so", "kit", 1)
    assert (data["asked"], data["link"]) == (["alice", "bob"], f"{INBOX}/r/{request.id}")
    assert TIME.fullmatch(data["answer_by"])
    assert len(body) < 20_000


def test_what_becomes_of_it_is_told(world, receiver) -> None:
    request = world.ask(route="two")
    world.deliver(request)
    world.decide_elsewhere(request, "approve", "alice")
    world.settle(request)
    world.decide_elsewhere(request, "reject", "bob")
    world.settle(request)
    said = [(each["type"].rpartition(".")[2], each["data"]["state"]) for each in receiver.taken]
    assert said == [("asked", "pending"), ("changed", "pending"), ("settled", "rejected")]
    assert (receiver.taken[1]["data"]["missing"], receiver.taken[2]["data"]["by"]) == (1, "bob")
    assert len({each["id"] for each in receiver.taken}) == 3


def test_the_same_is_the_same_event_however_often_it_is_sent(world, receiver) -> None:
    request = world.ask()
    ref = world.deliver(request)
    world.channel.deliver(request, Audience(tuple(p for p in world.approvers.authority.people if p.id != "starter")))
    world.decide_elsewhere(request, "reject", "bob")
    for _ in range(2):
        world.channel.settle(world.desk().outcome(request.id), ref)
    for _, headers, body in receiver.asked:
        assert_signed(headers, body)
    ids = [headers["webhook-id"] for _, headers, _ in receiver.asked]
    assert (ids[0], ids[2]) == (ids[1], ids[3])
    assert ids[0] != ids[2]


def test_secrets_and_strange_characters_are_not_sent(world, receiver) -> None:
    request = world.ask("mysql -uroot -pHunter2Hunter2 db # \u202e\x1b[2J <!channel> @everyone")
    world.deliver(request)
    body = receiver.asked[0][2]
    text = json.loads(body)["data"]["command"]
    assert b"Hunter2" not in body
    assert request.digest[:8].encode() not in body
    assert "\\u{202e}" in text.lower()
    assert "\\x1b" in text
    assert body.isascii()


def test_a_warning_is_about_no_request(world, receiver) -> None:
    receiver.answers = [(503, {})]
    people = [Person("ann", ("os:ann",)), Person("ben", ("os:ben",))]
    with pytest.raises(Retry):
        world.channel.warn("BREAK-GLASS: ann signed.\x1b[2J", people)
    assert not world.channel.health().ok
    world.channel.warn("BREAK-GLASS: ann signed.\x1b[2J", people)
    (event,) = receiver.taken
    assert (event["type"], event["data"]["told"]) == ("humanlayer-agent.break-glass", ["ann", "ben"])
    assert event["data"]["text"].startswith("BREAK-GLASS: ann signed.")
    assert "\x1b" not in event["data"]["text"]
    assert {headers["webhook-id"] for _, headers, _ in receiver.asked} == {event["id"]}


def test_a_long_command_is_told_as_far_as_there_is_room(world, receiver) -> None:
    request = world.ask("echo begin\n" + "printf '%s' 'one of many lines'\n" * 4_000 + "echo end")
    ref = world.deliver(request)
    data = receiver.taken[0]["data"]
    assert (data["whole"], ref.complete) == (False, False)
    assert data["command"].startswith("echo begin")
    assert data["command"].endswith("echo end")
    assert "characters are not here" in data["command"]
    assert len(receiver.asked[0][2]) < 20_000


def test_nothing_that_it_shows_can_be_approved_by_it(world, receiver) -> None:
    """Not even by whoever makes an answer up in its name: the page shows the whole, and is another channel."""
    from humanlayer_agent.approvals.model import Answer, Approver

    request = world.ask()
    world.deliver(request)
    made_up = Answer(
        "approve", Approver(world.rig.people["alice"], "hook", "chat"), request.digest, "x", input_mode="click"
    )
    result = world.desk().decide(request.id, made_up)
    assert (result.code, world.state(request)) == ("not-shown", "pending")


# ---- when the other end says no --------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_is_for_now_is_tried_again(world, receiver, status) -> None:
    request = world.ask()
    receiver.answers = [(status, {"Retry-After": "7"})]
    with pytest.raises(Retry, match=str(status)) as raised:
        world.channel.deliver(request, NOBODY)
    assert raised.value.after == 7
    assert not world.channel.health().ok
    world.channel.deliver(request, NOBODY)
    assert world.channel.health().ok


@pytest.mark.parametrize(
    ("after", "seconds"), [("", None), ("0", None), ("-1", None), ("x", None), ("9999999", None), ("99999", 3600)]
)
def test_how_long_it_is_waited(world, receiver, after, seconds) -> None:
    receiver.answers = [(503, {"Retry-After": after})]
    with pytest.raises(Retry) as raised:
        world.channel.deliver(world.ask(), NOBODY)
    assert raised.value.after == seconds


@pytest.mark.parametrize(
    ("status", "why"), [(400, "answers 400"), (401, "answers 401"), (404, "answers 404"), (410, "wants no more")]
)
def test_what_is_for_good_is_the_next_steps(world, receiver, status, why) -> None:
    receiver.answers = [(status, {})]
    with pytest.raises(Undeliverable, match=why) as raised:
        world.channel.deliver(world.ask(), NOBODY)
    assert "UrlSecret" not in str(raised.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(world, receiver, status) -> None:
    with Receiver() as other:
        receiver.answers = [(status, {"Location": other.url})]
        with pytest.raises(Undeliverable, match="no redirect is followed"):
            world.channel.deliver(world.ask(), NOBODY)
        assert (len(receiver.asked), other.asked) == (1, [])


def test_nobody_is_there(world, receiver) -> None:
    with Receiver() as gone:
        channel = WebhookChannel("hook", gone.url, Secrets(SECRET, "X"), INBOX)
    with pytest.raises(Retry, match="can't be reached") as raised:
        channel.deliver(world.ask(), NOBODY)
    assert "UrlSecret" not in str(raised.value)
    assert "UrlSecret" not in str(channel.health())


def test_the_outbox_sends_it_again_as_the_same_event(world, receiver) -> None:
    """What the receiver has taken once, and whose answer was lost, it can tell by its id."""
    request = world.ask()
    receiver.answers = [(503, {}), (429, {}), (204, {})]
    moment = [0.0]
    sender = Sender(
        world.store, world.channel, world.approvers.authority, stopping=threading.Event(),
        clock=lambda: int(moment[0] * 1000), monotonic=lambda: moment[0],
    )  # fmt: skip
    outbox = Outbox(world.store, "hook", world.approvers.authority)
    for done in (False, False, True):
        (job,) = outbox.due()
        assert sender.do(job) == done
        moment[0] += 60
    assert outbox.due() == []
    assert len({headers["webhook-id"] for _, headers, _ in receiver.asked}) == 1
    (delivery,) = world.store.surfaces.deliveries(request.id)
    assert (delivery.state, delivery.attempts) == ("delivered", 3)


def test_its_certificate_is_checked(world, receiver, tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made.certificate, made.key)
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    url = receiver.url.replace("http://127.0.0.1", "https://localhost")
    for ca, error in ((None, "certificate is not to be trusted"), (str(tmp_path / "none"), "ca ")):
        with pytest.raises(Undeliverable, match=error):
            WebhookChannel("hook", url, Secrets(SECRET, "X"), INBOX, ca=ca).deliver(world.ask(), NOBODY)
    assert receiver.asked == []
    WebhookChannel("hook", url, Secrets(SECRET, "X"), INBOX, ca=str(made.authority)).deliver(world.ask(), NOBODY)
    assert len(receiver.taken) == 1


# ---- signatures ------------------------------------------------------------------------------------


def test_two_secrets_while_one_is_changed() -> None:
    new = "whsec_" + base64.b64encode(b"n" * 32).decode()
    both = Secrets(f"{new} {SECRET}", "X").headers("req-1", 1, b"{}")["webhook-signature"].split()
    each = [Secrets(one, "X").headers("req-1", 1, b"{}")["webhook-signature"] for one in (new, SECRET)]
    assert both == each


@pytest.mark.parametrize(
    "value",
    [
        "", " ", "secret", "whsec_", "whsec_AAAA", f"{SECRET}x", SECRET.removeprefix("whsec_"), f"{SECRET}\u00e9",
        "whsec_" + base64.b64encode(b"x" * 65).decode(), " ".join([SECRET] * 4), f"{SECRET},{SECRET}",
    ],
)  # fmt: skip
def test_secrets_that_are_none(value) -> None:
    with pytest.raises(ConfigError, match="WEBHOOK_SECRET must hold") as raised:
        Secrets(value, "WEBHOOK_SECRET")
    assert not value.strip() or value[7:] == "" or value not in str(raised.value)


@given(st.text(max_size=80))
def test_any_text_as_a_secret(text: str) -> None:
    try:
        Secrets(text, "X")
    except ConfigError:
        return
    assert text.split()[0].startswith("whsec_")


# ---- settings --------------------------------------------------------------------------------------

FILE = """version: 1
extends: [builtin:web]
people:
  alice: {os_user: alice}
channels:
  chat: {type: webhook, url: "https://chat.example.com/hooks/1?key=x"}
routes:
  default: {approvers: [alice], solo: true, steps: [{to: web}, {to: chat}]}
"""


def load(tmp_path: Path, text: str = FILE, **options: Any) -> settings.Profiles:
    file = tmp_path / "channels.yaml"
    file.write_text(text)
    return settings.load(file=file, **options)


def test_the_channel_of_a_file(tmp_path: Path) -> None:
    found = load(tmp_path)
    assert registry.missing("chat", found, {}) == ("WEBHOOK_SECRET",)
    assert registry.served(found) == ("web", "chat")
    made = registry.build("chat", found, {"WEBHOOK_SECRET": SECRET})
    assert made.health().facts == {"host": "chat.example.com", "inbox": "http://127.0.0.1:8765"}
    with pytest.raises(ConfigError, match="WEBHOOK_SECRET must hold"):
        registry.build("chat", found, {"WEBHOOK_SECRET": "x"})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("https://chat", "http://chat", r"channels.yaml:6:\d+: .*url"),
        ("https://chat.example.com", "https://user@chat.example.com", r":6:"),
        ("https://chat.example.com", "https://chat.example.com#", r":6:"),
        ("https://chat.example.com", "http://127.0.0.1@example.com", r":6:"),
        ("https://chat.example.com/", "https://chat.example.com/\\n", r":6:"),
        ("key=x\"", "key=x\", inbox: chat", r":6:\d+: 'chat' is no channel of type web"),
        ("key=x\"", "key=x\", inbox: none", r":6:\d+: 'none' is no channel of type web"),
        ("key=x\"", "key=x\", secret_env: SLACK_BOT_TOKEN", "a channel of type webhook takes WEBHOOK_"),
        ("key=x\"", "key=x\", secret: whsec_x", "unknown key 'secret'"),
        ("[{to: web}, {to: chat}]", "[{to: terminal}, {to: chat}]", r":8:\d+: a webhook can't be answered: add \{to: web\}"),
        ("[{to: web}, {to: chat}]", "[{to: web, after: 5m}, {to: chat}]", r":8:\d+: a webhook can't be answered"),
    ],
)  # fmt: skip
def test_mistakes_in_a_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in FILE
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, FILE.replace(old, new))


def test_a_projects_file_names_no_address(tmp_path: Path) -> None:
    folder = tmp_path / ".humanlayer"
    folder.mkdir()
    (folder / "channels.yaml").write_text(FILE)
    with pytest.raises(ConfigError, match=r"channels.yaml:6:\d+: only the machine's or the user's own file"):
        settings.load(tmp_path, machine=tmp_path / "none", trusting=True)
