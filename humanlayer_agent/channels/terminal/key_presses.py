"""Tells a deliberate key press from a paste, from type-ahead, and from a key that is held down.

A terminal delivers all of them as characters. What sets a deliberate press apart is that it comes alone: nothing
arrived just before it, nothing in the same read, nothing just after it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

ARMING = 0.4
"""Seconds without input before the first key counts: after the question appears, and after anything suspicious."""
QUIET = 0.1
"""Seconds of silence before and after a key press that approves. Held keys repeat, and pasted characters follow each
other, in a third of this or less."""


class KeyGuard:
    """Judges batches of keys (what one read of the terminal gave) by when they came.

    Args:
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = float("-inf")
        self._quiet = False
        self.batches = 0
        self.batch_size = 0
        self.rearm()

    def rearm(self) -> None:
        """From now on nothing counts until there were `ARMING` seconds without input."""
        self.armed = False
        self._armed_at = self._clock() + ARMING

    def look(self) -> bool:
        """Have keys count, where the time for that has come; returns whether they did not before.

        To be called when all that waits has been read. The clock alone would say too much: a key that lies there while
        this process is held up was pressed by somebody who could not see the question.
        """
        begins = not self.armed and self._clock() >= self._armed_at
        self.armed = self.armed or begins
        return begins

    def deliberate(self, count: int) -> bool:
        """Notes that `count` keys arrived in one read; whether they may be a human's decision."""
        self._quiet = self.silent
        now = self._clock()
        alone = count == 1 and self._quiet
        armed = self.armed
        self._last = now
        self.batches += 1
        self.batch_size = count
        if not (alone and armed):
            self.rearm()
        return alone and armed

    @property
    def silent(self) -> bool:
        """True where nothing came for `QUIET` seconds: a key that comes now is not part of what came before."""
        return self._clock() - self._last >= QUIET

    def alone(self, count: int) -> bool:
        """Tell whether the last read gave exactly `count` keys, after a silence: no part of a paste or of fast
        typing.
        """
        return self._quiet and self.batch_size == count


ALWAYS = frozenset({Keys.ControlC, Keys.PageDown, Keys.PageUp, Keys.Down, Keys.Up})
"""Keys that work at any time: they can't approve, and no paste of text contains them, or they stop everything."""
PAGING = frozenset({" ", "v", "f", "j", "b", "k"})
"""Letters that only turn pages: they work at any time, if they come in a read of their own."""


class GuardedInput(Input):
    """An input that passes on only deliberate keys while `strict()` holds, and everything while the human types text.

    Args:
        inner: where keys come from.
        guard: judges them.
        strict: whether single keys are decisions at the moment.
        ignored: is called when keys were dropped.
    """

    def __init__(
        self, inner: Input, guard: KeyGuard, *, strict: Callable[[], bool], ignored: Callable[[], None]
    ) -> None:
        self._inner = inner
        self._guard = guard
        self._strict = strict
        self._ignored = ignored

    def read_keys(self) -> list[KeyPress]:
        return self._judged(self._inner.read_keys())

    def flush_keys(self) -> list[KeyPress]:
        return self._judged(self._inner.flush_keys())

    def _judged(self, keys: list[KeyPress]) -> list[KeyPress]:
        if not keys:
            return keys
        deliberate = self._guard.deliberate(len(keys))
        if deliberate or not self._strict():
            return keys
        kept = [press for press in keys if press.key in ALWAYS or (len(keys) == 1 and press.key in PAGING)]
        if len(kept) < len(keys):
            self._ignored()
        return kept

    # Keys must not survive one question and answer the next: prompt_toolkit keeps what was left under this name.
    def typeahead_hash(self) -> str:
        return f"guarded-{id(self)}"

    def fileno(self) -> int:
        return self._inner.fileno()

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def raw_mode(self) -> AbstractContextManager[None]:
        return self._inner.raw_mode()

    def cooked_mode(self) -> AbstractContextManager[None]:
        return self._inner.cooked_mode()

    def attach(self, input_ready_callback: Callable[[], None]) -> AbstractContextManager[None]:
        return self._inner.attach(input_ready_callback)

    def detach(self) -> AbstractContextManager[None]:
        return self._inner.detach()
