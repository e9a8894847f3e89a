"""The Socket Mode side: several connections, each envelope to exactly one of them, and what can go wrong."""

import ctypes
import json
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

from humanlayer_agent.testing.fake_slack import world
from humanlayer_agent.testing.fake_slack.limits import LIMITS, Json
from humanlayer_agent.testing.fake_slack.world import World
from humanlayer_agent.testing.patience import PATIENCE

TICKET_SECONDS = 30
How = Literal["refresh", "warning", "link_disabled", "close", "fin", "rst", "hang"]


@dataclass
class Delivery:
    """The fate of one envelope.

    Args:
        outcome: acked, timeout (a warning sign at the button) or no-connection.
    """

    outcome: str
    response: Json | None = None
    connection: int = 0
    seconds: float = 0.0

    @property
    def acked(self) -> bool:
        return self.outcome == "acked"


class _Connection(ServerConnection):
    """A connection that can fall silent without being closed."""

    silent = False

    def send_data(self) -> None:
        if self.silent:
            self.protocol.data_to_send()
        else:
            super().send_data()


class SocketServer:
    """Socket Mode on loopback.

    Args:
        ack_seconds: how long an envelope waits for its acknowledgement; Slack's three seconds.
    """

    def __init__(self, state: World, *, ack_seconds: float = 3.0) -> None:
        self._state = state
        self.ack_seconds = ack_seconds
        self._live: dict[int, ServerConnection] = {}
        self._draining: set[int] = set()
        self._waiting: dict[str, tuple[threading.Event, Delivery]] = {}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._opened = 0
        self._turn = 0
        self._server: Server = serve(
            self._serve,
            "127.0.0.1",
            0,
            process_request=self._admit,
            create_connection=_Connection,
            compression=None,
            ping_interval=None,
            close_timeout=0.2,
            max_size=None,
        )
        self.url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="fake-socket-mode", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        for connection in list(self._live.values()):
            reset(connection)

    # ---- connections --------------------------------------------------------------------------------

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        given = parse_qs(urlsplit(request.path).query).get("ticket", [""])[0]
        with self._state.lock:
            made = self._state.tickets.pop(given, None)  # good once
            fresh = made is not None and self._state.clock() - made <= TICKET_SECONDS
        return None if fresh else connection.respond(403, "bad ticket\n")

    def _serve(self, connection: ServerConnection) -> None:
        with self._lock:
            full = len(self._live) >= LIMITS["connections"]
            self._opened += 1
            number = self._opened
            if not full:
                self._live[number] = connection
                self._changed.notify_all()
            count = len(self._live)
        if full:
            connection.send(json.dumps({"type": "disconnect", "reason": "too_many_websockets"}))
            return
        hello = {"type": "hello", "num_connections": count, "connection_info": {"app_id": world.APP}}
        try:
            connection.send(json.dumps(hello))
            for raw in connection:
                if not getattr(connection, "silent", False):
                    self._acknowledged(json.loads(raw))
        except ConnectionClosed:
            pass
        finally:
            self._gone(number)

    def _gone(self, number: int) -> None:
        with self._lock:
            self._live.pop(number, None)
            self._draining.discard(number)
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        """Wait until so many connections are open that take envelopes."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._live.keys() - self._draining) >= count, PATIENCE):
                raise AssertionError(f"never saw {count} connections, only {len(self._live)}")

    @property
    def delivered(self) -> int:
        """Return how many envelopes were sent so far."""
        with self._lock:
            return self._turn

    @property
    def connections(self) -> tuple[int, ...]:
        """The numbers of the connections that are open."""
        with self._lock:
            return tuple(self._live)

    def disturb(self, how: How, number: int | None = None) -> int:
        """Do something to one connection (the oldest where no number is given); returns its number.

        refresh and warning ask for a new one and close this one after a while, as Slack does; link_disabled says that
        Socket Mode was switched off; close is a proper end; fin and rst end the TCP connection without a word; hang
        leaves it open and silent.
        """
        with self._lock:
            found = number if number is not None else min(self._live.keys() - self._draining)
            connection = self._live[found]
            if how in ("refresh", "warning", "link_disabled"):
                self._draining.add(found)
            elif how in ("close", "fin", "rst"):
                self._live.pop(found)
        if how in ("refresh", "warning", "link_disabled"):
            reason = "refresh_requested" if how == "refresh" else how
            connection.send(json.dumps({"type": "disconnect", "reason": reason}))
        elif how == "close":
            connection.close(1001, "going away")
        elif how == "fin":
            with suppress(OSError):
                connection.socket.shutdown(1)
        elif how == "rst":
            reset(connection)
        else:
            assert isinstance(connection, _Connection)
            connection.silent = True
        return found

    def send_raw(self, number: int, message: Any) -> None:
        """Send some JSON, or text that is none, on one connection."""
        self._live[number].send(message if isinstance(message, str) else json.dumps(message))

    # ---- envelopes ----------------------------------------------------------------------------------

    def deliver(self, payload: Json, *, kind: str = "interactive", envelope_id: str = "") -> Delivery:
        """Send one envelope to exactly one connection, and wait until it is acknowledged or too late."""
        envelope_id = envelope_id or str(uuid.uuid4())
        patience = self.ack_seconds  # what holds now: a test may change it while this one is still being answered
        arrived, delivery = threading.Event(), Delivery("timeout")
        with self._lock:
            ready = sorted(self._live.keys() - self._draining) or sorted(self._live)
            if not ready:
                return Delivery("no-connection")
            self._turn += 1
            delivery.connection = ready[self._turn % len(ready)]
            connection = self._live[delivery.connection]
            self._waiting[envelope_id] = (arrived, delivery)
        envelope = {
            "envelope_id": envelope_id,
            "type": kind,
            "payload": payload,
            "accepts_response_payload": payload.get("type") == "view_submission",
        }
        began = time.monotonic()
        with suppress(ConnectionClosed):
            connection.send(json.dumps(envelope))
            arrived.wait(patience)
        with self._lock:
            self._waiting.pop(envelope_id, None)
        delivery.seconds = time.monotonic() - began
        return delivery

    def _acknowledged(self, message: Json) -> None:
        with self._lock:
            found = self._waiting.get(str(message.get("envelope_id")))
            if found is not None:
                arrived, delivery = found
                delivery.outcome, delivery.response = "acked", message.get("payload")
                arrived.set()


class _Unspecified(ctypes.Structure):
    _fields_ = (("family", ctypes.c_ushort), ("data", ctypes.c_char * 14))


def reset(connection: ServerConnection) -> None:
    """End a TCP connection with RST while another thread reads it: connecting it to nowhere does that on Linux."""
    with suppress(OSError):
        if ctypes.CDLL(None, use_errno=True).connect(connection.socket.fileno(), ctypes.byref(_Unspecified()), 16) != 0:
            connection.socket.shutdown(2)
