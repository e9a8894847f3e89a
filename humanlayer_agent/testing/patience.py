"""Wait for something that another thread or process writes, and never for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 180.0
"""Seconds after which a wait is said to be a hang: nothing that works takes so long, on a busy machine either."""


def until(
    condition: Callable[[], T], what: str | Callable[[], str], progress: Callable[[], object] = lambda: None
) -> T:
    """Wait until `condition()` is true, and return what it returned.

    Args:
        what: the thing that is waited for, or a function that says how it stands: for the message of the error.
        progress: how far a long work has come. The patience begins anew whenever this returns something else, so that
            only what stands still is a hang, and never a slow disk.

    Raises:
        AssertionError: it was never seen.

    Example:
        >>> until(lambda: "found", "something")
        'found'
    """
    end, so_far = time.monotonic() + PATIENCE, progress()
    while not (found := condition()):
        if time.monotonic() > end:
            if (now := progress()) == so_far:
                raise AssertionError(f"never seen: {what if isinstance(what, str) else what()}")
            end, so_far = time.monotonic() + PATIENCE, now
        time.sleep(0.01)
    return found
