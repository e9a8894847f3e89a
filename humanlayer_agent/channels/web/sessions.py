"""The visitors of the pages: login codes, sessions, forms that can be sent once, and whose wrong codes count together.

Everything is in the memory of the process that serves the pages: when it ends, everybody logs in again.

A caller is whose wrong codes count together. From elsewhere that is an address. On this machine all have the same, an
agent's commands and the browser of the human whom they would like to keep out: there it is the user whose socket it is,
and of their processes those of one session. Commands of agents run in sessions of their own (`processes.execution`),
and no process can join another's.
"""

import hmac
import os
import secrets
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Generic, TypeVar

from humanlayer_agent.processes.identity import stat_of

SESSION_SECONDS = 8 * 3600.0
FORM_SECONDS = 3600.0
CODE_SECONDS = 600.0
TRIES = 5
"""Wrong codes after which whoever sent them is not listened to any more."""

CALLERS = 1_000
"""Callers whose wrong codes are counted; of more, the oldest are forgotten."""

RECORDED = 100
"""Wrong codes that are written down for one right one: who sends more is not to fill the log."""

_LETTERS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"  # 32, none of which is taken for another
_CODE_LENGTH = 10

Clock = Callable[[], float]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody whose identity was established: as which principal, how far that is trusted, and by what.

    `home` is the path that their pages are below, `key` what their forms are bound to, and `channel` the channel whose
    message led here ("" for the inbox itself).
    """

    principal: str
    assurance: str
    home: str
    key: str
    channel: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has logged in, and the secret part of the path that their pages are below.

    Browsers send a cookie to every port of a host. So the cookie is bound to a path that nobody else can name: a server
    that an agent has started on this machine, and that a human looks at, is not sent it.
    """

    principal: str
    place: str


@dataclass(frozen=True, slots=True)
class Form:
    """A form that was shown: who may send it, for which request, and what of it was shown.

    `about` is the id of a request, or of a grant that may be taken back; `scopes` are those by which more of the kind
    may be approved, by their names.
    """

    key: str
    about: str
    digest: str = ""
    scopes: tuple[tuple[str, str], ...] = ()


class Shelf(Generic[Value]):
    """Things by an unguessable name, each for a while; the oldest go when there are too many.

    Example:
        >>> shelf = Shelf[str](60)
        >>> name = shelf.put("x")
        >>> shelf.get(name), shelf.take(name), shelf.take(name)
        ('x', 'x', None)
    """

    def __init__(self, seconds: float, *, most: int = 10_000, clock: Clock = time.monotonic) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[float, Value]] = OrderedDict()

    def put(self, value: Value) -> str:
        """Keep `value`; returns its name (256 random bits)."""
        name = secrets.token_urlsafe(32)
        with self._lock:
            self._found[name] = (self._clock() + self._seconds, value)
            while len(self._found) > self._most:
                self._found.popitem(last=False)
        return name

    def get(self, name: str) -> Value | None:
        """Return what is kept by this name; None where nothing is, or its time is over."""
        with self._lock:
            until, value = self._found.get(name, (0.0, None))
        return value if value is not None and self._clock() < until else None

    def take(self, name: str) -> Value | None:
        """The same, once."""
        with self._lock:
            until, value = self._found.pop(name, (0.0, None))
        return value if value is not None and self._clock() < until else None


@dataclass(frozen=True, slots=True)
class WrongCode:
    """A code that lets nobody in: why, for people to read, and whether that is to be written down."""

    why: str
    recorded: bool


class LoginCode:
    """A code that is shown on the hub's own terminal, and logs one person in, once.

    It has 50 random bits: a thousand guesses a second, for all of its ten minutes, find one such code in 1.9 billion.
    So wrong ones need not end it, and whoever sends them keeps nobody out but themselves.

    Args:
        show: prints a new code where no agent command can read it. False where there is no such place.
    """

    def __init__(self, show: Callable[[str], bool], clock: Clock = time.monotonic) -> None:
        self._show = show
        self._clock = clock
        self._lock = threading.Lock()
        self._code = ""
        self._until = 0.0
        self._wrong: OrderedDict[str, int] = OrderedDict()
        self._recorded = 0

    def fits(self, typed: str) -> bool:
        """Tell whether `typed` is the code now. Whether it lets somebody in says `enter`."""
        folded = "".join(letter for letter in typed.upper() if letter.isalnum())
        return self.is_offered and hmac.compare_digest(folded.encode("utf-8", "replace"), self._code.encode())

    @property
    def is_offered(self) -> bool:
        """Whether there is a code to type."""
        return bool(self._code) and self._clock() < self._until

    def offer(self) -> bool:
        """See to it that there is a code to type. False where there is no terminal to show one on."""
        with self._lock:
            if self.is_offered:
                return True
            code = "".join(secrets.choice(_LETTERS) for _ in range(_CODE_LENGTH))
            if not self._show(f"{code[:5]}-{code[5:]}"):
                return False
            self._code, self._until = code, self._clock() + CODE_SECONDS
            self._wrong.clear()
            self._recorded = 0
            return True

    def enter(self, typed: str, caller: str) -> WrongCode | None:
        """Compare `typed` with the code: None where it is that one, which is gone then. After five wrong ones of a
        caller no more of theirs are compared, until there is another code.
        """
        with self._lock:
            count = self._wrong.get(caller, 0) + 1
            if count > TRIES:
                return WrongCode("Too many wrong codes came from where you are. Wait for the next code.", False)
            if self.fits(typed):
                self._code = ""
                return None
            self._wrong[caller] = count
            while len(self._wrong) > CALLERS:
                self._wrong.popitem(last=False)
            self._recorded += 1
            return WrongCode("That code is not right, or not right any more.", self._recorded <= RECORDED)


class Tries:
    """Counts wrong codes, by what they were for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wrong: dict[tuple[str, str], int] = {}

    def exhausted(self, *key: str) -> bool:
        """Tell whether there were five wrong ones."""
        with self._lock:
            return self._wrong.get((key[0], key[1]), 0) >= TRIES

    def spend(self, *key: str) -> int:
        """One more; returns how many are left, less than 0 where there was none."""
        with self._lock:
            count = self._wrong[key[0], key[1]] = self._wrong.get((key[0], key[1]), 0) + 1
            return TRIES - count

    def give_back(self, *key: str) -> None:
        """That one was right."""
        with self._lock:
            self._wrong[key[0], key[1]] -= 1


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
