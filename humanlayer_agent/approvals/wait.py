"""The steps of waiting while humans decide: who asks is a generator that yields what it waits for.

On a thread (`on_thread`) that thread waits, on an event loop (`event_loop.on_loop`) no thread does; and where nobody
waits (`as_it_is`), what can be done is done.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing is to be done for so many seconds."""

    seconds: float


@dataclass(slots=True)
class Turn:
    """The turn at the channel of this process, for which so many seconds are waited; answered by whether it came.

    Attributes:
        held: it came, and is not over.
    """

    lock: threading.Lock
    seconds: float
    held: bool = False

    def come(self, *, wait: bool = True) -> bool:
        """Take the turn, where it comes. Tells whether it did."""
        self.held = self.lock.acquire(timeout=self.seconds) if wait else self.lock.acquire(blocking=False)
        return self.held

    def end(self) -> None:
        """Let the next one have it."""
        if self.held:
            self.held = False
            self.lock.release()


@dataclass(frozen=True, slots=True)
class Talk:
    """A human at the channel of this process is asked, which takes a thread; answered by what `ask` returns.

    `give_up` makes `ask` return soon, from another thread.
    """

    ask: Callable[[], Any]
    give_up: Callable[[], object]


Waits = Generator[Pause | Turn | Talk, Any, T]
"""Work that waits now and then, and its result at the end."""


@dataclass(frozen=True, slots=True)
class End(Generic[T]):
    """There is nothing left to wait for."""

    result: T


def on_thread(waits: Waits[T], sleep: Callable[[float], None]) -> T:
    """Wait on this thread, and return the result.

    Args:
        waits: what is to be waited for.
        sleep: waits for some seconds.
    """
    go_on: Callable[[], Any] = partial(next, waits)
    while True:
        step = advanced(go_on)
        if isinstance(step, End):
            result: T = step.result
            return result
        try:
            go_on = partial(waits.send, done(step, sleep))
        except BaseException as error:
            go_on = partial(waits.throw, error)


class Left(BaseException):
    """Raised where whoever waits goes away, and what was asked stays."""


def as_it_is(waits: Waits[T]) -> T | None:
    """Do what can be done without waiting. Returns the result; None where something has to be waited for: it stays."""
    step = advanced(partial(next, waits))
    if isinstance(step, End):
        result: T = step.result
        return result
    with suppress(Left):
        waits.throw(Left())
    return None


def advanced(go_on: Callable[[], Any]) -> Any:
    """Return the next step, or the `End`: no event loop lets a StopIteration through."""
    try:
        return go_on()
    except StopIteration as ended:
        return End(ended.value)


def done(step: Pause | Turn | Talk, sleep: Callable[[float], None]) -> Any:
    """Do a step on this thread, and return what it is answered by."""
    match step:
        case Pause(seconds):
            return sleep(seconds)
        case Turn():
            return step.come()
        case Talk(ask):
            return ask()
