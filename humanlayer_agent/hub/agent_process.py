"""The hub inside an agent's own process: it starts when a request is about to wait, and ends with the run."""

import threading
from collections.abc import Callable

from humanlayer_agent.approvals.conversation import describe
from humanlayer_agent.hub.hub import Hub


class LocalHub:
    """A `approvals.reaching.Reach`: builds its hub when it is first needed. Thread-safe.

    Whatever keeps it from working leaves the request to other processes (`hla hub`, the command line) and to its
    deadline; the reason of the denial says so.

    Args:
        build: makes the hub; None where this process can serve no channel.
        failed: takes the reason where it can't be made.
    """

    def __init__(self, build: Callable[[], Hub | None], failed: Callable[[str], None] = lambda why: None) -> None:
        self._build = build
        self._failed = failed
        self._lock = threading.Lock()
        self._hub: Hub | None = None
        self._begun = False

    def start(self) -> None:
        with self._lock:
            if self._begun:
                return
            self._begun = True
            try:
                self._hub = self._build()
                if self._hub is not None:
                    self._hub.start()
            except Exception as error:
                self._failed(str(error) or describe(error))

    def close(self) -> None:
        with self._lock:
            self._begun = True
            hub, self._hub = self._hub, None
        if hub is not None:
            hub.close()
