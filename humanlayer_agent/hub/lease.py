"""One process serves a channel at a time: two would deliver everything twice."""

import time
from collections.abc import Callable
from contextlib import suppress

from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.errors import StoreError

TTL = 30.0
"""Seconds that a lease holds, and a loaded machine may keep its holder from renewing it. One whose process is gone is
taken at once, on the same machine; where that can't be seen (another container), after this time."""

_RENEWALS = 6
"""In that time."""


def awake_or_asleep() -> float:
    """Return seconds that also pass while the machine sleeps, where a clock shows them: whoever slept holds nothing."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    """The lease of one channel, as one hub holds it or not.

    Args:
        holder: names the hub: two in one process are two.
        monotonic: seconds that no change of the clock touches.
    """

    def __init__(
        self, store: Store, channel: str, holder: str, *, monotonic: Callable[[], float] = awake_or_asleep
    ) -> None:
        self._surfaces = store.surfaces
        self._channel = channel
        self._holder = holder
        self._monotonic = monotonic
        self._until = float("-inf")

    @property
    def held(self) -> bool:
        """Tell whether it is ours at this moment, for certain."""
        return self._monotonic() < self._until

    def keep(self) -> bool:
        """Take it, or renew it where it is time to. Whether it is ours."""
        now = self._monotonic()
        if self._until - now > TTL * (1 - 1 / _RENEWALS):
            return True
        with suppress(StoreError):  # it is locked: ours until its time is over
            if self._surfaces.take_lease(self._channel, self._holder, int(TTL * 1000)):
                self._until = now + TTL
            else:
                self._until = float("-inf")
        return self.held

    def release(self) -> None:
        """Let another process have it at once."""
        self._until = float("-inf")
        with suppress(StoreError):  # its time runs out
            self._surfaces.release_lease(self._channel, self._holder)
