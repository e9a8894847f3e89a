"""A fake Slack, channels to it, and a hub's desk over a real store."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.channels.http_server import Limits
from humanlayer_agent.channels.slack import api, envelopes
from humanlayer_agent.channels.slack.api import SlackApi
from humanlayer_agent.channels.slack.channel import EVENT, SlackChannel
from humanlayer_agent.channels.slack.http_mode import Address, RequestReceiver
from humanlayer_agent.channels.slack.seal import Seal
from humanlayer_agent.testing.conformance_rig import CannotHappen, Fault, World
from humanlayer_agent.testing.fake_slack import APP_TOKEN, BOT_TOKEN, CHANNEL, SIGNING_SECRET, TEAM, FakeSlack
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.support.mail_servers import free_port

PEOPLE = {name: f"slack:{TEAM}/U0{name.upper()}" for name in ("alice", "bob")} | {"stranger": f"slack:{TEAM}/U0MALLORY"}
ACTIONS = {kind: f"hla_{kind}" for kind in ("approve", "grant", "reject", "edit", "respond", "escalate")}


def sealed(request: Any) -> str:
    """What a message carries in place of the request's digest."""
    return Seal(BOT_TOKEN).of(request)


def user_of(who: str) -> str:
    return PEOPLE.get(who, f"slack:{TEAM}/U0{who.upper()}").partition("/")[2]


def texts(value: Any) -> Iterator[str]:
    """Every text in some blocks, in order."""
    if isinstance(value, dict):
        if isinstance(value.get("text"), str):
            yield value["text"]
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def option_of(view: Any, scope: str) -> str:
    """The value of a scope in a form."""
    options = [option["value"] for option in view["blocks"][-1]["element"]["options"]]
    return next((value for value in options if value.startswith(f"{scope}|")), scope)


class SlackSurface:
    """A message in the fake Slack that shows a request."""

    def __init__(self, slack: FakeSlack, ts: str) -> None:
        self.slack = slack
        self.ts = ts
        self._again: Callable[[], Any] = lambda: None

    def text(self) -> str:
        return "\n".join([*texts(self.slack.message(self.ts)["blocks"]), *self._attached()])

    def _attached(self) -> Iterator[str]:
        """Files in the thread that name this request."""
        identity = self.slack.message(self.ts)["metadata"]["event_payload"]["id"][:12]
        for file in list(self.slack.world.files.values()):
            if file["data"] is not None and identity in str(file.get("title")):
                yield file["data"].decode()

    def frame(self) -> str:
        blocks = [
            block for block in self.slack.message(self.ts)["blocks"] if block["type"] not in ("rich_text", "actions")
        ]
        return "\n".join(texts(blocks))

    def offers(self) -> frozenset[str]:
        shown = self.slack.people.buttons(self.ts)
        return frozenset(kind for kind, action in ACTIONS.items() if action in shown)

    def click(self, kind: str, who: str, **fields: Any) -> Any:
        """Click a button, also one that is gone from the message; returns what became of the envelope."""
        try:
            return self.slack.people.click(user_of(who), self.ts, ACTIONS[kind], stale=True, **fields)
        except LookupError as error:
            raise CannotHappen(str(error)) from None

    def answer(self, kind: str, who: str, words: str = "") -> None:
        stamp = f"{time.time():.6f}"
        user = user_of(who)
        self._again = lambda: self._sent(kind, who, stamp)
        told = len(self.slack.told(user))
        self._sent(kind, who, stamp)
        if kind in ("approve", "escalate"):
            return
        until(lambda: self.slack.people.view(user) or len(self.slack.told(user)) > told, "a form, or why there is none")
        if (view := self.slack.people.view(user)) is None:
            raise CannotHappen("no form opened")
        if kind == "grant":
            words = option_of(view, words)
        self._again = lambda: self.slack.people.submit(user, view["id"], {"said": words})
        try:
            self.slack.people.submit(user, view["id"], {"said": words} if words else {})
        except ValueError as error:
            raise CannotHappen(str(error)) from None

    def grant(self, scope: str, who: str) -> None:
        self.answer("grant", who, scope)

    def _sent(self, kind: str, who: str, stamp: str) -> None:
        """Click, and don't wait for what becomes of it."""
        ended: list[Any] = []

        def click() -> None:
            try:
                ended.append(self.click(kind, who, action_ts=stamp))
            except CannotHappen as error:
                ended.append(error)

        before = self.slack.delivered
        threading.Thread(target=click, daemon=True).start()
        until(lambda: ended or self.slack.delivered > before, "the click")
        if ended and isinstance(ended[0], CannotHappen):
            raise ended[0]

    def repeat(self) -> None:
        try:
            self._again()
        except LookupError as error:
            raise CannotHappen(str(error)) from None


class SlackRig:
    """The fake Slack, for the conformance kit."""

    def __init__(self, slack: FakeSlack, usergroups: tuple[str, ...] = (), mode: str = "socket") -> None:
        self.slack = slack
        self.mode = mode
        self.people = PEOPLE
        self.usergroups = usergroups
        self.channels: list[SlackChannel] = []
        self._surfaces: dict[str, SlackSurface] = {}

    def channel(self) -> SlackChannel:
        if self.mode == "http":
            return self._http_channel()
        made = SlackChannel("slack", self.api(), CHANNEL, usergroups=self.usergroups, connections=1, pace=0.0)
        start = made.start

        def started(desk: Any) -> None:
            for other in self.channels:
                if other is not made:
                    other.receiver.close(0)  # the process before has died
            before = self.slack.socket.connections
            start(desk)
            assert made.receiver.wait_open(PATIENCE), made.receiver.connections
            until(lambda: not set(before) & set(self.slack.socket.connections), "that the others are gone")
            self.slack.socket.wait_for(1)  # the server may learn of a connection later than we do

        made.start = started  # type: ignore[method-assign]
        self.channels.append(made)
        return made

    def _http_channel(self) -> SlackChannel:
        """One that Slack sends requests to; from its start on, to no other."""
        address = Address(f"127.0.0.1:{free_port()}", "/slack", frozenset(), SIGNING_SECRET, "SLACK_SIGNING_SECRET")
        receiver = partial(RequestReceiver, address, limits=Limits(head=PATIENCE, body=PATIENCE))
        made = SlackChannel("slack", self.api(), CHANNEL, usergroups=self.usergroups, pace=0.0, receiver=receiver)
        start = made.start

        def started(desk: Any) -> None:
            for other in self.channels:
                if other is not made:
                    other.receiver.close(0)
            start(desk)
            self.slack.requests.url = f"http://{address.listen}{address.path}"

        made.start = started  # type: ignore[method-assign]
        self.channels.append(made)
        return made

    def api(self, bot_token: str = BOT_TOKEN) -> SlackApi:
        return SlackApi(
            bot_token=bot_token,
            app_token=APP_TOKEN,
            bot_variable="SLACK_BOT_TOKEN",
            app_variable="SLACK_APP_TOKEN",
            url=self.slack.api_url,
            channel=CHANNEL,
        )

    def surfaces(self, request_id: str) -> list[SlackSurface]:
        shown = [
            message["ts"]
            for message in self.slack.messages()
            if (message.get("metadata") or {}).get("event_type") == EVENT
            and message["metadata"]["event_payload"]["id"] == request_id
        ]
        return [self._surfaces.setdefault(ts, SlackSurface(self.slack, ts)) for ts in shown]

    def told(self, who: str) -> list[str]:
        return self.slack.told(user_of(who))

    def pings(self, request_id: str) -> list[str]:
        return [ping for surface in self.surfaces(request_id) for ping in self._pings(surface.ts)]

    def _pings(self, ts: str) -> list[str]:
        return next(message["_pings"] for message in self.slack.messages() if message["ts"] == ts)

    @contextmanager
    def broken(self, fault: Fault) -> Iterator[None]:
        world = self.slack.world
        if fault == "gone":
            self.slack.world.channels[CHANNEL]["is_archived"] = True
        else:
            kind = {"busy": "429", "down": "http"}[fault]
            self.slack.fault("*", kind, count=10**6, status=503)
        yield
        with world.lock:
            world.faults.clear()
            world.channels[CHANNEL]["is_archived"] = False


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlack]:
    """A Slack that is as patient as a test: how long it waits is tested where it is set to something else."""
    monkeypatch.setattr(envelopes, "STALE_SECONDS", PATIENCE)
    monkeypatch.setattr(api, "QUICK_SECONDS", PATIENCE)
    with FakeSlack(ack_seconds=PATIENCE) as made:
        made.world.trigger_seconds = PATIENCE
        yield made


@pytest.fixture
def mode() -> str:
    """How clicks come in; a module that is about both says so."""
    return "socket"


@pytest.fixture
def rig(slack: FakeSlack, mode: str) -> SlackRig:
    return SlackRig(slack, mode=mode)


@pytest.fixture
def world(rig: SlackRig, tmp_path: Path) -> Iterator[World]:
    made = World(rig, tmp_path)
    yield made
    made.close()


@pytest.fixture
def show(world: World, rig: SlackRig) -> Callable[..., tuple[Any, SlackSurface]]:
    """Shows a new request in the fake Slack."""

    def shown(command: str = "make deploy", **fields: Any) -> tuple[Any, SlackSurface]:
        request = world.ask(command, **fields)
        world.deliver(request)
        return request, rig.surfaces(request.id)[-1]

    return shown
