"""Ctrl-C and SIGTERM, for a command that goes on until one of them tells it to end."""

import queue
import signal
from types import FrameType
from typing import Self


class EndSignal:
    """Ctrl-C and SIGTERM are noticed between two steps and not within one; a second Ctrl-C ends it at once.

    A handler runs in the main thread, between any two of its instructions. So it may take no lock that this thread may
    hold: called in the middle of `threading.Event.wait`, `Event.set` waits for ever for the lock that `wait` holds.
    `queue.SimpleQueue.put` may be called there (https://docs.python.org/3/library/queue.html#queue.SimpleQueue.put).

    Example:
        >>> with EndSignal() as end_signal:
        ...     while not end_signal.wait(0.25):
        ...         print("a step")
        ...         signal.raise_signal(signal.SIGTERM)
        a step
    """

    def __init__(self) -> None:
        self._told: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._asked = False
        self._ended = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._tell) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it is to end, after at most that many seconds; None waits until it is."""
        if not self._ended:
            try:
                self._told.get(timeout=seconds)
            except queue.Empty:
                return False
            self._ended = True
        return True

    def tell(self) -> None:
        """Have it end, from any thread: what it was there for is over."""
        self._told.put(0)

    def _tell(self, number: int, _: FrameType | None) -> None:
        if self._asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._asked = True
        self._told.put(number)
