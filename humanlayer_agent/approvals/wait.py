"""The steps of waiting while humans decide, and the two ways to take them.

Who asks is a generator that yields what it waits for. On a thread (`on_thread`) that thread waits. On an event loop
(`on_loop`) nobody's waiting costs a thread, but for the one question that a human has before them at the channel of
this process: that takes one, however many wait behind it.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_LOOK = 0.02
"""Seconds between two looks at whether the turn has come."""

_SLOWER = 0.002
"""Seconds that each waiting question adds to the pauses of all on an event loop: each look at the store costs."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing is to be done for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn at the channel of this process, for which so many seconds are waited; answered by whether it came."""

    lock: threading.Lock
    seconds: float


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
class _End(Generic[T]):
    result: T


def on_thread(waits: Waits[T], sleep: Callable[[float], None]) -> T:
    """Wait on this thread, and return the result.

    Args:
        waits: what is to be waited for.
        sleep: waits for some seconds.
    """
    go_on: Callable[[], Any] = partial(next, waits)
    while True:
        step = _advanced(go_on)
        if isinstance(step, _End):
            result: T = step.result
            return result
        try:
            go_on = partial(waits.send, _done(step, sleep))
        except BaseException as error:
            go_on = partial(waits.throw, error)


class Left(BaseException):
    """Raised where whoever waits goes away, and what was asked stays."""


def as_it_is(waits: Waits[T]) -> T | None:
    """Do what can be done without waiting. Returns the result; None where something has to be waited for: it stays."""
    step = _advanced(partial(next, waits))
    if isinstance(step, _End):
        result: T = step.result
        return result
    with suppress(Left):
        waits.throw(Left())
    return None


async def on_loop(waits: Waits[T]) -> T:
    """Wait on the event loop, and return the result. What is done between two waits is done on a thread.

    Where the task is cancelled, what it has asked is withdrawn before that is raised.
    """
    go_on: Callable[[], Any] = partial(next, waits)
    with _crowd.one_more():
        try:
            while True:
                step = await _to_its_end(partial(_advanced, go_on))
                if isinstance(step, _End):
                    result: T = step.result
                    return result
                try:
                    go_on = partial(waits.send, await _done_on_loop(step))
                except asyncio.CancelledError:
                    raise
                except BaseException as error:
                    go_on = partial(waits.throw, error)
        except asyncio.CancelledError as cancelled:
            await _to_its_end(partial(_told, waits, cancelled))
            raise


def _advanced(go_on: Callable[[], Any]) -> Any:
    """Return the next step, or the `_End`: no event loop lets a StopIteration through."""
    try:
        return go_on()
    except StopIteration as ended:
        return _End(ended.value)


def _told(waits: Waits[Any], error: BaseException) -> None:
    """Tell whoever waits that nobody waits for the result any more."""
    with suppress(BaseException):
        waits.throw(error)


def _done(step: Pause | Turn | Talk, sleep: Callable[[float], None]) -> Any:
    match step:
        case Pause(seconds):
            return sleep(seconds)
        case Turn(lock, seconds):
            return lock.acquire(timeout=seconds)
        case Talk(ask):
            return ask()


async def _done_on_loop(step: Pause | Turn | Talk) -> Any:
    match step:
        case Pause(seconds):
            return await asyncio.sleep(max(seconds, _crowd.pause))
        case Turn(lock, seconds):
            until = time.monotonic() + seconds
            while not (mine := lock.acquire(blocking=False)) and time.monotonic() < until:
                await asyncio.sleep(max(_LOOK, _crowd.pause))
            return mine
        case Talk(ask, give_up):
            return await _to_its_end(ask, give_up)


async def _to_its_end(function: Callable[[], Any], give_up: Callable[[], object] = lambda: None) -> Any:
    """Call it on a thread of its own, and wait until it has ended, also where the task is cancelled meanwhile: that is
    raised then.
    """
    running = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        giving_up = asyncio.ensure_future(asyncio.to_thread(give_up))
        while not (running.done() and giving_up.done()):
            with suppress(asyncio.CancelledError):
                await asyncio.wait((running, giving_up))
        for each in (running, giving_up):
            each.exception()  # it has been heard of
        raise


@asynccontextmanager
async def off_loop(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave a context on a thread, because it reads and writes the store; its body stays on the loop."""
    entered: list[T] = []
    try:
        await _to_its_end(lambda: entered.append(manager.__enter__()))
        yield entered[0]
    except BaseException as error:
        if not entered or not await _to_its_end(partial(manager.__exit__, type(error), error, error.__traceback__)):
            raise
    else:
        await _to_its_end(partial(manager.__exit__, None, None, None))


class _Crowd:
    """Counts those who wait on event loops of this process. The more there are, the longer each pauses."""

    def __init__(self) -> None:
        self._count = 0

    @property
    def pause(self) -> float:
        """The shortest pause, in seconds."""
        return self._count * _SLOWER

    @contextmanager
    def one_more(self) -> Iterator[None]:
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1


_crowd = _Crowd()
