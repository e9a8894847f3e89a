"""The HTTP side of an app without Socket Mode: each click is a signed request to an address of the app's."""

import hmac
import json
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import urlencode

from humanlayer_agent.testing.fake_slack.limits import Json
from humanlayer_agent.testing.fake_slack.socket import Delivery
from humanlayer_agent.testing.fake_slack.world import SIGNING_SECRET, World

_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class RequestSender:
    """Sends what happens as requests, as Slack does.

    Args:
        ack_seconds: how long a request may take to be answered; Slack's three seconds.

    Attributes:
        url: where they go; "" while the app uses Socket Mode.
        secret: what they are signed with.
    """

    def __init__(self, state: World, *, ack_seconds: float = 3.0) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._delivered = 0
        self.ack_seconds = ack_seconds
        self.url = ""
        self.secret = SIGNING_SECRET

    @property
    def delivered(self) -> int:
        """Return how many requests were sent so far."""
        with self._lock:
            return self._delivered

    def deliver(self, payload: Json, *, kind: str = "interactive") -> Delivery:
        """Send one request, and wait until it is answered or too late."""
        if kind == "interactive":
            body, form = urlencode({"payload": json.dumps(payload)}).encode(), True
        else:
            body, form = json.dumps(payload).encode(), False
        status, answer, seconds = self.send(body, form=form)
        if status != 200:
            return Delivery({0: "timeout", -1: "no-connection"}.get(status, "refused"), seconds=seconds)
        return Delivery("acked", json.loads(answer) if answer else None, seconds=seconds)

    def send(self, body: bytes, *, form: bool = False, headers: Json | None = None) -> tuple[int, bytes, float]:
        """Send some bytes, signed; returns the status (0 for none in time, -1 for no connection), the answer's body,
        and the seconds it took.

        Args:
            form: says that it is a form; else JSON.
            headers: that are to be different; None leaves one out.
        """
        with self._lock:
            self._delivered += 1
        stamp = str(int(self._state.clock()))
        kind = "application/x-www-form-urlencoded" if form else "application/json"
        made = {"Content-Type": kind, **signed(self.secret, stamp, body), **(headers or {})}
        request = urllib.request.Request(self.url, body, {k: v for k, v in made.items() if v is not None})
        began = time.monotonic()
        try:
            with _NO_PROXY.open(request, timeout=self.ack_seconds) as response:
                return response.status, response.read(), time.monotonic() - began
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(), time.monotonic() - began
        except OSError as error:
            refused = isinstance(getattr(error, "reason", error), ConnectionRefusedError)
            return -1 if refused else 0, b"", time.monotonic() - began


def signed(secret: str, stamp: str, body: bytes) -> dict[str, str]:
    """The headers by which an app knows that Slack has sent a request."""
    digest = hmac.digest(secret.encode(), f"v0:{stamp}:".encode() + body, "sha256")
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest.hex()}"}
