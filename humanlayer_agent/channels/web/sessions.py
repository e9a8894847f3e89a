"""The visitors of the pages: login codes, sessions, and forms that can be sent once.

Everything is in the memory of the process that serves the pages: when it ends, everybody logs in again.
"""

import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

SESSION_SECONDS = 8 * 3600.0
FORM_SECONDS = 3600.0
CODE_SECONDS = 600.0
TRIES = 5
"""Wrong codes after which a code is of no use any more."""

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
    """A form that was shown: who may send it, for which request, and what of it was shown."""

    key: str
    request_id: str
    digest: str


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


class LoginCode:
    """A code that is shown on the hub's own terminal, and logs one person in, once.

    Args:
        show: prints a new code where no agent command can read it. False where there is no such place.
    """

    def __init__(self, show: Callable[[str], bool], clock: Clock = time.monotonic) -> None:
        self._show = show
        self._clock = clock
        self._lock = threading.Lock()
        self._code = ""
        self._until = 0.0
        self._tries = 0

    def offer(self) -> bool:
        """See to it that there is a code to type. False where there is no terminal to show one on."""
        with self._lock:
            if self._code and self._clock() < self._until:
                return True
            if self._code == "" and self._clock() < self._until:
                return True  # one was used up a moment ago: the next comes when its time is over
            code = "".join(secrets.choice(_LETTERS) for _ in range(_CODE_LENGTH))
            if not self._show(f"{code[:5]}-{code[5:]}"):
                return False
            self._code, self._until, self._tries = code, self._clock() + CODE_SECONDS, 0
            return True

    def enter(self, typed: str) -> bool:
        """Tell whether `typed` is the code. Used, it is gone; after five wrong ones there is none until its time is
        over.
        """
        folded = "".join(letter for letter in typed.upper() if letter.isalnum())
        with self._lock:
            if not self._code or self._clock() >= self._until:
                return False
            if hmac.compare_digest(folded.encode("utf-8", "replace"), self._code.encode()):
                self._code, self._until = "", 0.0
                return True
            self._tries += 1
            if self._tries >= TRIES:
                self._code = ""
            return False


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
