"""The connections to the pages: how long each may keep us waiting, how many there may be, and who has the other end.

uvicorn waits for headers and bodies as long as their sender likes, and answers nobody once a number of connections is
open: whoever opens so many and says nothing has closed the inbox. Here each step of a connection has its time, and
where there are too many the oldest ends that we wait for. So a person who comes is let in, whoever else is there.

A caller is whose wrong codes count together. From elsewhere that is an address. On this machine all have the same, an
agent's commands and the browser of the human whom they would like to keep out: there it is the user whose socket it is,
and of their processes those of one session. Commands of agents run in sessions of their own (`processes.execution`),
and no process can join another's.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from humanlayer_agent.processes.identity import stat_of


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


Place = tuple[str, int]
"""An address and a port."""


def caller(client: Place, server: Place) -> str:
    """Return who has the other end of a connection, as exactly as this machine tells.

    Args:
        client: the other end, as we see it.
        server: ours.

    Example:
        >>> caller(("192.0.2.1", 50000), ("192.0.2.9", 8765))
        '192.0.2.1'
    """
    address = ip_address(client[0])
    if not address.is_loopback or (owned := _owner(client, server)) is None:
        return str(address)
    user, socket = owned
    session = min(_sessions(user, socket), default=None)
    return f"user {user}" if session is None else f"user {user}, session {session}"


def _owner(client: Place, server: Place) -> tuple[int, str] | None:
    """Return the user and the number of the socket at the other end; None where nobody has it any more."""
    ends = [tuple(map(_written, pair)) for pair in ((client, server), (_mapped(client), _mapped(server)))]
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):  # a socket for both kinds of addresses is in the second
        with suppress(OSError), open(table) as lines:
            for line in lines:
                fields = line.split(maxsplit=10)
                if (fields[1], fields[2]) in ends and fields[9] != "0":
                    return int(fields[7]), fields[9]
    return None


def _written(place: Place) -> str:
    """Return an address and a port as the kernel writes them: 127.0.0.1:80 is 0100007F:0050 on most machines."""
    packed = ip_address(place[0]).packed
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return f"{''.join(f'{word:08X}' for word in words)}:{place[1]:04X}"


def _mapped(place: Place) -> Place:
    address: IPv4Address | IPv6Address = ip_address(place[0])
    return (f"::ffff:{address}" if address.version == 4 else str(address)), place[1]


def _sessions(user: int, socket: str) -> Iterator[int]:
    """Every session that has a process of `user` which holds the socket, as far as we may look at its files."""
    link = f"socket:[{socket}]"
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.stat().st_uid == user and any(
                os.readlink(each.path) == link for each in os.scandir(process / "fd")
            ):
                yield stat_of(int(process.name)).session
