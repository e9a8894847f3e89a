"""One process serves a channel at a time: two would deliver everything twice."""

import time
from collections.abc import Callable
from contextlib import suppress

from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.errors import StoreError

TTL = 1.5
"""Seconds that a lease holds. One whose process is gone is taken at once, on the same machine; where that can't be seen
(another container), after this time."""

RENEWED = 0.5
"""Seconds after which it is renewed: a slow disk must not lose it."""


class Lease:
    """The lease of one channel, as one hub holds it or not.

    Args:
        holder: names the hub: two in one process are two.
        monotonic: seconds.
    """

    def __init__(
        self, store: Store, channel: str, holder: str, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._surfaces = store.surfaces
        self._channel = channel
        self._holder = holder
        self._monotonic = monotonic
        self._until = float("-inf")
        self._renewed = float("-inf")

    @property
    def held(self) -> bool:
        """Tell whether it is ours at this moment, for certain."""
        return self._monotonic() < self._until

    def keep(self) -> bool:
        """Take it, or renew it where it is time to. Whether it is ours."""
        now = self._monotonic()
        if self.held and now - self._renewed < RENEWED:
            return True
        with suppress(StoreError):  # it is locked: ours until its time is over
            if self._surfaces.take_lease(self._channel, self._holder, int(TTL * 1000)):
                self._until, self._renewed = now + TTL, now
            else:
                self._until = float("-inf")
        return self.held

    def release(self) -> None:
        """Let another process have it at once."""
        self._until = float("-inf")
        with suppress(StoreError):  # its time runs out
            self._surfaces.release_lease(self._channel, self._holder)
