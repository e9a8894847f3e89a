"""The fake Slack holds what Slack documents: otherwise what is tested with it proves nothing."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from humanlayer_agent.testing.fake_slack import APP_TOKEN, BOT_TOKEN, CHANNEL, FakeSlack
from humanlayer_agent.testing.patience import PATIENCE

NOW = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def slack(clock: Clock) -> Iterator[FakeSlack]:
    with FakeSlack(clock=clock, ack_seconds=0.3) as made:
        yield made


@pytest.fixture
def client(slack: FakeSlack) -> WebClient:
    return WebClient(BOT_TOKEN, base_url=slack.api_url, retry_handlers=[])


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": plain(text)}


def button(**fields: Any) -> dict[str, Any]:
    return {"type": "actions", "elements": [{"type": "button", "action_id": "a", "text": plain("x"), **fields}]}


def literal(text: str) -> dict[str, Any]:
    inner = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "elements": [inner]}


def refused(call: Any, **arguments: Any) -> str:
    with pytest.raises(SlackApiError) as raised:
        call(**arguments)
    return str(raised.value.response["error"])


@pytest.mark.parametrize(
    ("blocks", "error"),
    [
        ([section("x")] * 51, "invalid_blocks"),
        ([section("x" * 3001)], "invalid_blocks"),
        ([section("")], "invalid_blocks"),
        ([{"type": "header", "text": plain("x" * 151)}], "invalid_blocks"),
        ([{"type": "context", "elements": [plain("x")] * 11}], "invalid_blocks"),
        ([button(text=plain("x" * 76))], "invalid_blocks"),
        ([button(value="x" * 2001)], "invalid_blocks"),
        ([button(action_id="x" * 256)], "invalid_blocks"),
        ([button(style="green")], "invalid_blocks"),
        ([{"type": "nothing"}], "invalid_blocks"),
        ([{"type": "input", "label": plain("x"), "element": {"type": "plain_text_input"}}], "invalid_blocks"),
        ([section("x") | {"block_id": "same"}] * 2, "invalid_blocks"),
        ([literal("")], "invalid_blocks"),
        ([literal("x" * 7000), literal("y" * 7000)], "msg_blocks_too_long"),
    ],
)
def test_blocks_beyond_a_limit_are_refused(client: WebClient, blocks: list[Any], error: str) -> None:
    assert refused(client.chat_postMessage, channel=CHANNEL, text="x", blocks=blocks) == error


def test_blocks_at_the_limits_are_taken(client: WebClient) -> None:
    blocks = [section("x" * 3000), literal("x" * 9000), button(text=plain("x" * 75), value="v")]
    assert client.chat_postMessage(channel=CHANNEL, text="x", blocks=blocks)["ok"]


def test_who_is_pinged(slack: FakeSlack, client: WebClient) -> None:
    mention = {"type": "rich_text_section", "elements": [{"type": "user", "user_id": "U0BOB"}]}
    blocks = [
        literal("<!channel> <@U0ALICE>"),
        section("<!here>"),
        {"type": "section", "text": {"type": "mrkdwn", "text": "<!everyone>"}},
        {"type": "rich_text", "elements": [mention]},
    ]
    client.chat_postMessage(channel=CHANNEL, text="<@U0ALICE> &lt;!channel&gt;", blocks=blocks)
    assert slack.messages()[-1]["_pings"] == ["!everyone", "@U0ALICE", "@U0BOB"]


def test_tokens_and_scopes(slack: FakeSlack, client: WebClient) -> None:
    assert refused(WebClient("xoxb-no", base_url=slack.api_url).auth_test) == "invalid_auth"
    assert refused(WebClient(APP_TOKEN, base_url=slack.api_url).chat_postMessage, channel=CHANNEL, text="x") == (
        "not_allowed_token_type"
    )
    assert refused(client.apps_connections_open, app_token=BOT_TOKEN) == "not_allowed_token_type"
    slack.world.tokens[BOT_TOKEN].scopes.clear()
    with pytest.raises(SlackApiError) as raised:
        client.users_info(user="U0ALICE")
    assert (raised.value.response["error"], raised.value.response["needed"]) == ("missing_scope", "users:read")


def test_channels(slack: FakeSlack, client: WebClient) -> None:
    slack.world.add_channel("C0NOBOT", "nobot", bot=False)
    slack.world.add_channel("G0SECRET", "secret", bot=False)
    for channel, error in (
        ("C0NONE", "channel_not_found"),
        ("C0NOBOT", "not_in_channel"),
        ("G0SECRET", "channel_not_found"),
    ):
        assert refused(client.chat_postMessage, channel=channel, text="x") == error
    assert refused(client.chat_update, channel=CHANNEL, ts="1.1", text="x") == "message_not_found"
    assert refused(client.chat_postMessage, channel=CHANNEL, text="x", thread_ts="1.1") == "thread_not_found"


def test_rate_limits(slack: FakeSlack, client: WebClient, clock: Clock) -> None:
    slack.world.rate_limits = True
    for _ in range(3):
        client.chat_postMessage(channel=CHANNEL, text="x")
    with pytest.raises(SlackApiError) as raised:
        client.chat_postMessage(channel=CHANNEL, text="x")
    assert raised.value.response.status_code == 429
    assert int(raised.value.response.headers["Retry-After"]) == 4
    clock.now += 3.1
    assert client.chat_postMessage(channel=CHANNEL, text="x")["ok"]


def test_a_trigger_is_good_once_and_for_three_seconds(slack: FakeSlack, client: WebClient, clock: Clock) -> None:
    view = {"type": "modal", "title": plain("x"), "blocks": [section("x")]}
    with slack.world.lock:
        first, second = slack.world.trigger("U0ALICE"), slack.world.trigger("U0ALICE")
    assert client.views_open(trigger_id=first, view=view)["ok"]
    assert refused(client.views_open, trigger_id=first, view=view) == "exchanged_trigger_id"
    assert refused(client.views_open, trigger_id="no", view=view) == "invalid_trigger_id"
    clock.now += 3.1
    assert refused(client.views_open, trigger_id=second, view=view) == "expired_trigger_id"


@pytest.mark.parametrize(
    "change",
    [
        {"title": plain("x" * 25)},
        {"submit": plain("x" * 25)},
        {"private_metadata": "x" * 3001},
        {"blocks": [section("x")] * 101},
        {"blocks": [{"type": "input", "label": plain("x"), "element": {"type": "plain_text_input"}}]},
        {"blocks": "no"},
    ],
)
def test_views_beyond_a_limit_are_refused(slack: FakeSlack, client: WebClient, change: dict[str, Any]) -> None:
    view = {"type": "modal", "title": plain("x"), "blocks": [section("x")], **change}
    with slack.world.lock:
        trigger = slack.world.trigger("U0ALICE")
    assert refused(client.views_open, trigger_id=trigger, view=view) == "invalid_arguments"


def test_a_view_may_be_too_large(slack: FakeSlack, client: WebClient) -> None:
    view = {"type": "modal", "title": plain("x"), "blocks": [section("x" * 3000)] * 90}
    with slack.world.lock:
        trigger = slack.world.trigger("U0ALICE")
    assert refused(client.views_open, trigger_id=trigger, view=view) == "view_too_large"


def test_a_ticket_is_good_once(slack: FakeSlack, client: WebClient, clock: Clock) -> None:
    url = client.apps_connections_open(app_token=APP_TOKEN)["url"]
    with connect(url, proxy=None) as connection:
        hello = json.loads(connection.recv())
        assert (hello["type"], hello["num_connections"]) == ("hello", 1)
        with pytest.raises(InvalidStatus), connect(url, proxy=None):
            pass
    late = client.apps_connections_open(app_token=APP_TOKEN)["url"]
    clock.now += 31
    with pytest.raises(InvalidStatus), connect(late, proxy=None):
        pass


def test_a_click_goes_to_one_connection_and_is_not_sent_again(slack: FakeSlack, client: WebClient) -> None:
    posted = client.chat_postMessage(channel=CHANNEL, text="x", blocks=[button(value="v")])
    assert slack.people.click("U0ALICE", posted["ts"], "a").outcome == "no-connection"
    urls = [client.apps_connections_open(app_token=APP_TOKEN)["url"] for _ in range(2)]
    with connect(urls[0], proxy=None) as one, connect(urls[1], proxy=None) as two:
        for each in (one, two):
            each.recv()
        assert slack.people.click("U0ALICE", posted["ts"], "a").outcome == "timeout"
        got = []
        readers = [threading.Thread(target=lambda each=each: got.extend(map(json.loads, each))) for each in (one, two)]
        for reader in readers:
            reader.start()
        for each in (one, two):
            each.ping().wait(PATIENCE)  # what was sent before it has come
    for reader in readers:
        reader.join()
    assert len(got) == 1
    action = got[0]["payload"]["actions"][0]
    assert (action["value"], got[0]["payload"]["container"]["message_ts"]) == ("v", posted["ts"])


def test_a_button_that_is_gone_is_only_on_old_screens(slack: FakeSlack, client: WebClient) -> None:
    posted = client.chat_postMessage(channel=CHANNEL, text="x", blocks=[button(value="v")])
    client.chat_update(channel=CHANNEL, ts=posted["ts"], text="done", blocks=[section("done")])
    with pytest.raises(LookupError):
        slack.people.click("U0ALICE", posted["ts"], "a")
    assert slack.people.click("U0ALICE", posted["ts"], "a", stale=True).outcome == "no-connection"


def test_a_file_has_the_length_that_was_said(slack: FakeSlack, client: WebClient) -> None:
    place = client.files_getUploadURLExternal(filename="x.txt", length=3)
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(urllib.request.Request(place["upload_url"], b"four", method="POST"), timeout=PATIENCE)
    raised.value.close()
    assert refused(client.files_completeUploadExternal, files=[{"id": place["file_id"]}], channel_id=CHANNEL) == (
        "file_not_found"
    )
    assert refused(client.files_getUploadURLExternal, filename="x", length=2_000_000, snippet_type="text") == (
        "snippet_too_large"
    )


def test_lost_answers(slack: FakeSlack, client: WebClient) -> None:
    for kind, messages in (("lost-request", 0), ("lost-response", 1)):
        slack.fault("chat.postMessage", kind)
        with pytest.raises(Exception, match=r"(?i)remote|closed|reset"):
            client.chat_postMessage(channel=CHANNEL, text="x")
        assert len(slack.messages()) == messages


def test_a_response_address_is_good_five_times(slack: FakeSlack, client: WebClient) -> None:
    with slack.world.lock:
        url = slack.people._response_url(CHANNEL, "U0ALICE")
    body = json.dumps({"text": "only you"}).encode()
    for _ in range(5):
        urllib.request.urlopen(
            urllib.request.Request(url, body, {"Content-Type": "application/json"}), timeout=PATIENCE
        ).close()
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(
            urllib.request.Request(url, body, {"Content-Type": "application/json"}), timeout=PATIENCE
        )
    raised.value.close()
    assert slack.told("U0ALICE") == ["only you"] * 5
