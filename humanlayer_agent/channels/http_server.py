"""The HTTP server of a hub, and its connections: how long each may keep us waiting, and how many there may be.

uvicorn waits for headers and bodies as long as their sender likes, and answers nobody once a number of connections is
open: whoever opens so many and says nothing has closed the inbox. Here each step of a connection has its time, and
where there are too many the oldest ends that we wait for. So a person who comes is let in, whoever else is there.
"""

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from humanlayer_agent.errors import ChannelError
from humanlayer_agent.locations import note_port

if TYPE_CHECKING:
    from starlette.types import ASGIApp


STARTING = 10.0
"""Seconds that the server may take to begin."""

WAITING = 1024
"""Connections that wait to be taken in."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What connections may take.

    Args:
        head: seconds until the headers of a request are whole; the answer to the one before it is to be taken in these
            as well.
        body: seconds from there until its body is.
        each: connections from one address. Some times ACCEPTED, so that what comes right behind a person's connection
            does not end it before its request was looked at.
        total: connections at all. A process may have 256 files open where least is allowed.
    """

    head: float = 10.0
    body: float = 30.0
    each: int = 128
    total: int = 192


ACCEPTED = 32
"""Connections that are taken in at once."""


class BoundedProtocol(H11Protocol):
    """The protocol of one connection, within `limits`."""

    limits = Limits()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._step: tuple[str, object] = ("", None)
        self.made = self.loop.time()
        """The time at which it came, as the event loop counts."""
        self._end_of_step: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """Where it comes from."""
        return self.client[0] if self.client else ""

    @property
    def is_ours(self) -> bool:
        """Whether it is we who have to say something next."""
        return self._step[0] == "answer"

    def end(self) -> None:
        """Close it at once, without a word."""
        self.connections.discard(self)  # at once, and not when the transport says so: the next one counts them
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._watch()
        for surplus in _surplus(self, self.connections):
            surplus.end()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()
        if self.is_ours and self.conn.trailing_data[0].strip(b"\r\n"):
            self.end()  # no browser asks on before it is answered, and who does never keeps us waiting

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._end_of_step is not None:
            self._end_of_step.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Begin to count the time of the step that it is in now, where that is another than before."""
        step = self._current_step()
        if step == self._step:
            return
        if self._end_of_step is not None:
            self._end_of_step.cancel()
            self._end_of_step = None
        self._step = step
        seconds = {"head": self.limits.head, "body": self.limits.body, "answer": None}[step[0]]
        if seconds is not None:
            self._end_of_step = self.loop.call_later(seconds, self.end)

    def _current_step(self) -> tuple[str, object]:
        """Return what has to come next (`head`, `body`, or our own `answer`), and to which request it belongs."""
        if self.cycle is None or self.cycle.response_complete:
            return "head", self.cycle
        return "body" if self.cycle.more_body else "answer", self.cycle


def bounded(limits: Limits) -> type[BoundedProtocol]:
    """Return the protocol with these limits, as uvicorn takes it."""
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits})


def _surplus(latest: BoundedProtocol, connections: Iterable[object]) -> list[BoundedProtocol]:
    """Return the connections that have to end because `latest` has come: of those that we wait for, the oldest.

    By their ages, and not by when they last said something: who never stops talking is not to outlast a person who has
    just come. While all are being answered, which does not take long, there may be more from one address, and only what
    is more than all that there may be ends one of these.
    """
    found = sorted((each for each in connections if isinstance(each, BoundedProtocol)), key=lambda each: each.made)
    counts = Counter(each.address for each in found)
    full, count = {latest.address}, counts[latest.address] - latest.limits.each
    if count <= 0:
        full = {address for address, number in counts.items() if number == max(counts.values())}
        count = max(0, len(found) - latest.limits.total)
    crowd = [each for each in found if each.address in full and each is not latest]
    ended = [each for each in crowd if not each.is_ours][:count]
    return ended or crowd[: max(0, len(found) - latest.limits.total)]


class PageServer:
    """A web server on a thread of this process, at one address of this machine.

    Args:
        listen: the address and the port.
        limits: of its connections; those of `Limits` where it is None.
    """

    def __init__(self, listen: str, limits: Limits | None = None) -> None:
        self._listen = listen
        self._limits = limits
        self.server: uvicorn.Server | None = None
        """What serves, once it was started."""
        self._thread: threading.Thread | None = None
        self.failed = ""
        """Why it does not run, where it began to."""

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, app: "ASGIApp") -> None:
        """Serve an application. Returns once it can be reached.

        Raises:
            ChannelError: its port is taken, or the server does not begin.
        """
        listener = self._listener()
        config = uvicorn.Config(
            app, interface="asgi3", http=bounded(self._limits or Limits()), log_config=None, log_level="error",
            access_log=False, server_header=False, proxy_headers=False, lifespan="off", timeout_keep_alive=5,
            backlog=ACCEPTED, h11_max_incomplete_event_size=32_768, ws="none",
        )  # fmt: skip
        self.server = server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, args=(listener,), name="web pages", daemon=True)
        self._thread.start()
        until = time.monotonic() + STARTING
        while not server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)
        if not server.started:
            raise ChannelError(f"the web server did not start: {self.failed or 'no reason given'}")
        listener.listen(WAITING)  # asyncio takes in as many at once as it lets wait; of those, more are welcome

    def close(self, timeout: float = 2.0) -> None:
        """Stop serving; what is being answered is finished first."""
        if self.server is not None:
            self.server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout)

    def _serve(self, listener: socket.socket) -> None:
        assert self.server is not None
        try:
            self.server.run(sockets=[listener])
        except (Exception, SystemExit) as error:
            self.failed = " ".join(str(error).split()) or type(error).__name__
        finally:
            note_port(int(self._listen.rpartition(":")[2]), listens=False)
            listener.close()

    def _listener(self) -> socket.socket:
        address, _, port = self._listen.rpartition(":")
        host = address.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # asyncio has Nagle's algorithm switched off only where TCP is named: with it every page waits 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, int(port)))
            listener.listen()
            note_port(int(port))
        except OSError as error:
            listener.close()
            raise ChannelError(f"can't listen on {self._listen}: {error.strerror}") from error
        return listener
