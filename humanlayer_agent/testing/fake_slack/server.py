"""The fake Slack as a whole: its world, its two servers, and its people."""

from collections.abc import Callable
from time import time
from types import TracebackType
from typing import Any, Self

from humanlayer_agent.testing.fake_slack import world
from humanlayer_agent.testing.fake_slack.http import HttpServer
from humanlayer_agent.testing.fake_slack.limits import Json
from humanlayer_agent.testing.fake_slack.people import People
from humanlayer_agent.testing.fake_slack.requests import RequestSender
from humanlayer_agent.testing.fake_slack.socket import Delivery, SocketServer
from humanlayer_agent.testing.fake_slack.world import Fault, World, public


class FakeSlack:
    """A workspace with one app, on loopback. The real clients talk to it.

    Args:
        clock: seconds; for what expires (trigger ids, tickets, response addresses) and for rate limits.
        rate_limits: calls beyond Slack's limits get a 429.
        ack_seconds: how long a click waits to be acknowledged.

    Attributes:
        world: everything in it; take `world.lock` while the server runs.
        socket: the Socket Mode connections.
        requests: the signed requests of an app without Socket Mode: set `requests.url`.
        people: what humans do.

    Example:
        >>> from slack_sdk import WebClient
        >>> from humanlayer_agent.testing.fake_slack import BOT_TOKEN, CHANNEL
        >>> with FakeSlack() as slack:
        ...     posted = WebClient(BOT_TOKEN, base_url=slack.api_url).chat_postMessage(channel=CHANNEL, text="hello")
        ...     slack.message(posted["ts"])["text"]
        'hello'
    """

    def __init__(
        self, *, clock: Callable[[], float] = time, rate_limits: bool = False, ack_seconds: float = 3.0
    ) -> None:
        self.world = World(clock=clock, rate_limits=rate_limits)
        self.socket = SocketServer(self.world, ack_seconds=ack_seconds)
        self._http = HttpServer(self.world, self.socket.url)
        self.requests = RequestSender(self.world, ack_seconds=ack_seconds)
        self.people = People(self.world, self.deliver, self._http.url)

    @property
    def api_url(self) -> str:
        """The base address of the Web API."""
        return f"{self._http.url}/api/"

    def __enter__(self) -> Self:
        self.socket.start()
        self._http.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.stop()
        self._http.stop()

    def deliver(self, payload: Json, *, kind: str = "interactive") -> Delivery:
        """Tell the app what has happened, by the way that it uses."""
        return (self.requests if self.requests.url else self.socket).deliver(payload, kind=kind)

    @property
    def ack_seconds(self) -> float:
        """The seconds that the app has to acknowledge something."""
        return self.socket.ack_seconds

    @ack_seconds.setter
    def ack_seconds(self, seconds: float) -> None:
        self.socket.ack_seconds = self.requests.ack_seconds = seconds

    @property
    def delivered(self) -> int:
        """Return how often the app was told something so far."""
        return self.requests.delivered + self.socket.delivered

    def fault(self, method: str, kind: str, **fields: Any) -> None:
        """Have the next calls of a method go wrong: see `world.Fault`."""
        with self.world.lock:
            self.world.faults.append(Fault(method, kind, **fields))

    def messages(self, channel: str = world.CHANNEL) -> list[Json]:
        """Return the messages of a channel, oldest first, with those in threads.

        Keys that begin with _ are notes: `_pings` (whom it notified), `_unfurls`, `_broadcast`, `_history` (earlier
        forms).
        """
        with self.world.lock:
            return list(self.world.messages[channel].values())

    def message(self, ts: str, channel: str = world.CHANNEL) -> Json:
        """Return a message as people see it now."""
        with self.world.lock:
            return public(self.world.messages[channel][ts])

    def told(self, user: str) -> list[str]:
        """Return the texts that somebody was told so that nobody else sees them."""
        with self.world.lock:
            return [message["text"] for message in self.world.ephemerals if message["_to"] == user]

    def called(self, method: str) -> list[str]:
        """Return the results of all calls of a method: ok, or the error."""
        with self.world.lock:
            return [result for name, result in self.world.calls if name == method]
