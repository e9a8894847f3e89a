"""The Socket Mode receiver: what people click comes in here, and is acknowledged once it is written down.

Not slack_sdk's own: that acknowledges the first click after each refresh 3 s late, is deaf for half a minute when the
connection ends without a word, and drops large envelopes.
"""

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from types import MappingProxyType

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from humanlayer_agent.channels.slack.envelopes import WORKERS, Handle, Json, Reception, follow_up, reply_to

_log = logging.getLogger(__name__)

PING_SECONDS = 5.0
PONG_SECONDS = 10.0
"""A peer that is silent for so long after a ping is gone."""
FIRST_DELAY = 0.5
LONGEST_DELAY = 60.0
_SHORT_LIFE = 1.0
_MAX_BYTES = 8 * 2**20
_REASONS: Mapping[str, float] = MappingProxyType({"too_many_websockets": 10.0, "link_disabled": 60.0})
"""Why Slack ends a connection -> seconds to wait before the next, where it is not at once."""


@dataclass(frozen=True, slots=True)
class Connections:
    """How the receiver stands: open connections, how many Slack counted when the newest was opened and how many of
    those were ours, and what went wrong last ("" where all is well)."""

    open: int
    counted: int
    ours: int
    problem: str


class Receiver:
    """Keeps some Socket Mode connections open, and hands every envelope to `handle`.

    An envelope is acknowledged on the connection it came by, after `handle` has returned; not at all where it raises.

    Args:
        open_url: gives the address for one connection, or raises.
        handle: is called on threads of its own, several at once.
        count: connections to keep open: a click that goes to a dead one is lost, so there are two.
        ping, pong: seconds, see above.
    """

    def __init__(
        self,
        open_url: Callable[[], str],
        handle: Handle,
        *,
        count: int = 2,
        ping: float = PING_SECONDS,
        pong: float = PONG_SECONDS,
    ) -> None:
        self._open_url = open_url
        self._handle = handle
        self._wanted = count
        self._ping, self._pong = ping, pong
        self._changed = threading.Condition()
        self._live: dict[ClientConnection, bool] = {}  # whether it is being replaced
        self._closed = False
        self._busy = 0
        self._delay = 0.0
        self._problem = ""
        self._counted = self._ours = 0
        self._pool = ThreadPoolExecutor(WORKERS, "slack")

    def start(self) -> None:
        threading.Thread(target=self._keep, name="slack-connect", daemon=True).start()

    @property
    def connections(self) -> Connections:
        with self._changed:
            return Connections(len(self._live), self._counted, self._ours, self._problem)

    @property
    def reception(self) -> Reception:
        """How well envelopes come in."""
        now = self.connections
        found = [now.problem] if now.problem else [] if now.open else ["no Socket Mode connection is open (yet)"]
        if now.counted > now.ours:
            found.append(
                f"Slack counts {now.counted} connections of this app, and {now.ours} are ours: another "
                "program gets some of the clicks; it must use the same store, or an app of its own"
            )
        return Reception(tuple(found), {"connections": now.open, "connections that Slack counts": now.counted})

    def wait_open(self, seconds: float) -> bool:
        """Wait until all connections are open; whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: self._fresh() >= self._wanted, seconds)

    def close(self, timeout: float) -> None:
        """Take no more envelopes, let those that are being handled end, and close the connections."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._busy == 0, timeout)
            live = list(self._live)
        self._pool.shutdown(wait=False, cancel_futures=True)
        for connection in live:
            threading.Thread(target=connection.close, daemon=True).start()

    # ---- connections --------------------------------------------------------------------------------

    def _fresh(self) -> int:
        return sum(not leaving for leaving in self._live.values())

    def _keep(self) -> None:
        """Opens a connection whenever there are too few."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._fresh() < self._wanted)
                pause, self._delay = self._delay, 0.0
                if self._closed or (pause and self._changed.wait_for(lambda: self._closed, pause)):
                    return
            held = ExitStack()
            try:
                connection = held.enter_context(self._connect())
            except Exception as error:
                said = (str(error).splitlines() or [""])[0] or type(error).__name__
                self._failed(f"no connection to Slack: {said}", pause, getattr(error, "after", None))
                continue
            with self._changed:
                if self._closed:
                    threading.Thread(target=held.close, daemon=True).start()
                    return
                self._live[connection] = False
                self._changed.notify_all()
            threading.Thread(target=self._read, args=(connection, held), name="slack-read", daemon=True).start()

    def _connect(self) -> AbstractContextManager[ClientConnection]:
        url = self._open_url()
        return connect(
            url,
            ping_interval=self._ping,
            ping_timeout=self._pong,
            open_timeout=10,
            close_timeout=1,
            max_size=_MAX_BYTES,
            compression=None,
            proxy=True if url.startswith("wss:") else None,
        )

    def _failed(self, problem: str, delay: float, after: float | None) -> None:
        """Wait before the next try: as long as Slack says, else longer each time, and not all hubs at once."""
        with self._changed:
            if problem != self._problem:
                _log.warning("slack: %s", problem)
            self._problem = problem
            self._delay = after or _about(min(max(2 * delay, FIRST_DELAY), LONGEST_DELAY))

    def _read(self, connection: ClientConnection, held: ExitStack) -> None:
        """Reads one connection until it ends; `held` closes it."""
        began = time.monotonic()
        try:
            with held:
                for raw in connection:
                    self._received(connection, raw)
        except ConnectionClosed:
            pass
        finally:
            with self._changed:
                leaving = self._live.pop(connection, True)
                if not leaving and time.monotonic() - began < _SHORT_LIFE:
                    self._delay = max(self._delay, _about(FIRST_DELAY))  # not as fast as it can again and again
                self._changed.notify_all()

    def _received(self, connection: ClientConnection, raw: str | bytes) -> None:
        try:
            message = json.loads(raw)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            return
        kind = message.get("type")
        if kind == "hello":
            with self._changed:
                self._counted, self._ours = int(message.get("num_connections") or 0), len(self._live)
                self._problem = ""
                self._changed.notify_all()
        elif kind == "disconnect":
            self._leaving(connection, str(message.get("reason")))
        elif isinstance(message.get("envelope_id"), str):
            with self._changed:
                if self._closed:
                    return
                self._busy += 1
            self._pool.submit(self._answer, connection, message, time.monotonic())

    def _leaving(self, connection: ClientConnection, reason: str) -> None:
        """Slack is about to close this one: the next is opened first, and this is read to its end."""
        with self._changed:
            if connection in self._live:
                self._live[connection] = True
            if (pause := _REASONS.get(reason)) is not None:
                self._delay = max(self._delay, _about(pause))
                self._problem = (
                    "Socket Mode is switched off in the app's settings: switch it on"
                    if reason == "link_disabled"
                    else "this app has more than 10 connections: other programs use its app-level token"
                )
                _log.warning("slack: %s", self._problem)
            self._changed.notify_all()

    # ---- envelopes ----------------------------------------------------------------------------------

    def _answer(self, connection: ClientConnection, envelope: Json, received: float) -> None:
        try:
            reply = reply_to(self._handle, envelope, received)
            if reply is not None:
                answer = {"envelope_id": envelope["envelope_id"]}
                with suppress(ConnectionClosed):  # it is written down, and Slack shows a warning sign
                    connection.send(json.dumps(answer | ({"payload": reply.payload} if reply.payload else {})))
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()
        if reply is not None:
            follow_up(reply)


def _about(seconds: float) -> float:
    """A time near this one: not all hubs come back at once."""
    return seconds * random.uniform(0.75, 1.25)
