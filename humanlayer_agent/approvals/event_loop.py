"""Waiting on an event loop, where nobody's waiting costs a thread.

But for the one question that a human has before them at the channel of this process: that takes a thread, however many
wait behind it. This stands apart from `wait`, because hooks need that with each call, and asyncio takes long to import.

What is done at the store between two waits is done by a few threads of ours, and never waits for a human.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from humanlayer_agent.approvals.wait import End, Pause, Talk, Turn, Waits, advanced, done

T = TypeVar("T")

_LOOK = 0.02
"""Seconds between two looks at whether the turn has come."""

_SLOWER = 0.002
"""Seconds that each waiting question adds to the pauses of all: each look at the store costs."""


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4, thread_name_prefix="gate")


_short = _threads()
"""For what takes no longer than the store: no human is waited for here."""


def _begin_anew() -> None:
    global _short
    _short = _threads()


os.register_at_fork(after_in_child=_begin_anew)  # a child has none of its parent's threads, and would wait for them


async def on_loop(waits: Waits[T]) -> T:
    """Wait on the event loop, and return the result.

    Where the task is cancelled, what it has asked is withdrawn before that is raised. A human who still reads the
    question then is not waited for.
    """
    go_on: Callable[[], Any] = partial(next, waits)
    turn: Turn | None = None
    with _crowd.one_more():
        while True:
            if turn is not None and turn.held:
                # Not by way of the loop, which may be busy: whoever has the turn is to give it back.
                talks = _Talks()
                talking = partial(_while_talking, waits, go_on, turn, talks)
                try:
                    step = await _on_a_thread_of_its_own(talking, talks)
                except asyncio.CancelledError as cancelled:
                    if talks.now is None:  # else a human still has the question before them, and the turn with it
                        await _to_its_end(partial(_told, waits, cancelled))
                    raise
            else:
                step = await _or_told(waits, _to_its_end(partial(advanced, go_on)))
            if isinstance(step, End):
                result: T = step.result
                return result
            turn = step if isinstance(step, Turn) else None
            go_on = await _or_told(waits, _waited(step, waits))


async def _or_told(waits: Waits[Any], work: Coroutine[Any, Any, Any]) -> Any:
    """Await some work. Where the task is cancelled meanwhile, whoever waits hears of that first."""
    try:
        return await work
    except asyncio.CancelledError as cancelled:
        await _to_its_end(partial(_told, waits, cancelled))
        raise


async def _waited(step: Pause | Turn | Talk, waits: Waits[Any]) -> Callable[[], Any]:
    """Do a step on the loop. Returns how it goes on."""
    try:
        match step:
            case Pause(seconds):
                await asyncio.sleep(max(seconds, _crowd.pause))
                return partial(waits.send, None)
            case Turn():
                until = time.monotonic() + step.seconds
                while not step.come(wait=False) and time.monotonic() < until:
                    await asyncio.sleep(max(_LOOK, _crowd.pause))
                return partial(waits.send, step.held)
            case Talk():
                return partial(waits.send, await _on_a_thread_of_its_own(step.ask, _Talks(step)))
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return partial(waits.throw, error)


class _Talks:
    """The human who is talked to on another thread, for whoever wants to end that."""

    def __init__(self, now: Talk | None = None) -> None:
        self.now = now
        self._over = False
        self._lock = threading.Lock()  # for both

    def begin(self, step: Talk) -> None:
        """Note who is talked to.

        Raises:
            CancelledError: nobody wants to know any more.
        """
        with self._lock:
            if self._over:
                raise asyncio.CancelledError
            self.now = step

    def give_up(self) -> None:
        """Withdraw the question that there is, or keep it from being put."""
        with self._lock:
            self._over, now = True, self.now
        if now is not None:
            with suppress(Exception):
                now.give_up()


def _while_talking(waits: Waits[Any], go_on: Callable[[], Any], turn: Turn, talks: _Talks) -> Any:
    """Go on for as long as the turn is held, whatever has to be waited for. Returns the step that comes then."""
    while True:
        step = advanced(go_on)
        if isinstance(step, End) or not turn.held:
            return step
        try:
            if isinstance(step, Talk):
                talks.begin(step)
            go_on = partial(waits.send, done(step, time.sleep))
        except BaseException as error:
            go_on = partial(waits.throw, error)
        talks.now = None


def _told(waits: Waits[Any], error: BaseException) -> None:
    """Tell whoever waits that nobody waits for the result any more."""
    with suppress(BaseException):
        waits.throw(error)


async def _on_a_thread_of_its_own(function: Callable[[], Any], talks: _Talks) -> Any:
    """Call what talks with a human. Where the task is cancelled, the question is withdrawn, and the thread left alone:
    nobody knows when the human ends.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Any] = loop.create_future()
    ended = threading.Event()

    def tell(give: Callable[[Any], None], value: Any) -> None:
        if not result.done():
            give(value)

    def run() -> None:
        try:
            told = partial(tell, result.set_result, function())
        except BaseException as error:
            told = partial(tell, result.set_exception, error)
        ended.set()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(told)

    threading.Thread(target=run, name="gate-talk", daemon=True).start()
    try:
        return await result
    except asyncio.CancelledError:
        await _to_its_end(talks.give_up)
        while not ended.is_set() and talks.now is None:  # it is about to end, and withdraws what it has asked
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(_LOOK)
        raise


async def _to_its_end(function: Callable[[], Any]) -> Any:
    """Call what is short on one of our threads, and wait until it has ended, also where the task is cancelled
    meanwhile: that is raised then.
    """
    running = asyncio.get_running_loop().run_in_executor(_short, function)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((running,))
        running.exception()  # it has been heard of
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
