"""A server that takes webhooks, and a channel that sends to it."""

import base64
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.channels.webhook.channel import WebhookChannel
from humanlayer_agent.channels.webhook.signature import Secrets
from humanlayer_agent.testing.conformance_rig import CannotHappen, Fault, World

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
INBOX = "https://approvals.example.com"


class Receiver:
    """Takes webhooks as the standard says; answers with `answers` first, then 204.

    Attributes:
        taken: the events that were answered 2xx. asked: every request: its path, headers and body.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any, bytes]] = []
        self.taken: list[dict[str, Any]] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.always: int = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.asked.append((self.path, self.headers, body))
                status, headers = receiver.answers.pop(0) if receiver.answers else (receiver.always or 204, {})
                if 200 <= status < 300:
                    assert_signed(self.headers, body)
                    receiver.taken.append(json.loads(body))
                self.send_response(status)
                for name, value in {"Content-Length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?key=UrlSecret"

    def __enter__(self) -> "Receiver":
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def assert_signed(headers: Any, body: bytes) -> None:
    """The check of the standard, written down a second time."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.digest(base64.b64decode(SECRET[6:]), signed, "sha256")).decode()
    assert f"v1,{wanted}" in headers["webhook-signature"].split(" ")


class WebhookSurface:
    """What somebody knows of a request who has received all events about it."""

    def __init__(self, receiver: Receiver, request_id: str) -> None:
        self._receiver = receiver
        self._id = request_id

    def _now(self) -> dict[str, Any]:
        return [each for each in self._receiver.taken if each["subject"] == self._id][-1]["data"]

    def text(self) -> str:
        return "\n".join(_texts(self._now()))

    def frame(self) -> str:
        kept = {name: value for name, value in self._now().items() if name not in {"command", "id", "link", "whole"}}
        return "\n".join(
            each for name, value in kept.items() if "_at" not in name and "_by" not in name for each in _texts(value)
        )

    def offers(self) -> frozenset[str]:
        return frozenset()

    def answer(self, kind: str, who: str, words: str = "") -> None:
        raise CannotHappen("an event has no way to be answered")

    def grant(self, scope: str, who: str) -> None:
        raise CannotHappen("an event has no way to be answered")

    def repeat(self) -> None:
        raise CannotHappen("an event has no way to be answered")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)


class WebhookRig:
    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.people = {"alice": "email:alice@example.com", "bob": "email:bob@example.com"}

    def channel(self) -> WebhookChannel:
        return WebhookChannel("hook", self.receiver.url, Secrets(SECRET, "WEBHOOK_SECRET"), INBOX)

    def surfaces(self, request_id: str) -> list[WebhookSurface]:
        known = {each["subject"] for each in self.receiver.taken}
        return [WebhookSurface(self.receiver, request_id)] if request_id in known else []

    def told(self, who: str) -> list[str]:
        return []

    def pings(self, request_id: str) -> list[str]:
        return []

    @contextmanager
    def broken(self, fault: Fault) -> Iterator[None]:
        self.receiver.always = {"busy": 429, "down": 503, "gone": 410}[fault]
        yield
        self.receiver.always = 0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture
def rig(receiver: Receiver) -> WebhookRig:
    return WebhookRig(receiver)


@pytest.fixture
def world(rig: WebhookRig, tmp_path: Path) -> Iterator[World]:
    made = World(rig, tmp_path)  # type: ignore[arg-type]
    yield made
    made.close()
