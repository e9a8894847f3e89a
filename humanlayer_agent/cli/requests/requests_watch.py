"""`hla requests watch`: says what begins to wait for a human, and what becomes of it."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from humanlayer_agent.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from humanlayer_agent.approvals.model import ApprovalRequest
    from humanlayer_agent.store.sqlite import SQLiteStore

INTERVAL = 0.25
"""Seconds between two looks at the store."""


def changes(opened: "SQLiteStore", wait: Callable[[float], None] = time.sleep) -> "Iterator[ApprovalRequest]":
    """Each request that waits, oldest first, and again when it waits no more; never ends by itself.

    Raises:
        ConfigError: the store can't be read any more.
    """
    waiting: set[str] = set()
    while True:
        try:
            pending = opened.requests(state="pending")
            settled = [opened.get(one) for one in sorted(waiting - {request.id for request in pending})]
        except StoreError as error:
            raise ConfigError(str(error)) from error
        for request in settled:
            if request is not None:
                yield request
        for request in pending:
            if request.id not in waiting:
                yield request
        waiting = {request.id for request in pending}
        wait(INTERVAL)
