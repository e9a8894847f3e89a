"""Waiting on an event loop, where nobody's waiting costs a thread.

But for the one question that a human has before them at the channel of this process: that takes a thread, however many
wait behind it. This stands apart from `wait`, because hooks need that with each call, and asyncio takes long to import.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from humanlayer_agent.approvals.wait import End, Pause, Talk, Turn, Waits, advanced

T = TypeVar("T")

_LOOK = 0.02
"""Seconds between two looks at whether the turn has come."""

_SLOWER = 0.002
"""Seconds that each waiting question adds to the pauses of all: each look at the store costs."""


async def on_loop(waits: Waits[T]) -> T:
    """Wait on the event loop, and return the result. What is done between two waits is done on a thread.

    Where the task is cancelled, what it has asked is withdrawn before that is raised.
    """
    go_on: Callable[[], Any] = partial(next, waits)
    with _crowd.one_more():
        try:
            while True:
                step = await _to_its_end(partial(advanced, go_on))
                if isinstance(step, End):
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


def _told(waits: Waits[Any], error: BaseException) -> None:
    """Tell whoever waits that nobody waits for the result any more."""
    with suppress(BaseException):
        waits.throw(error)


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
