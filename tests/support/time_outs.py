"""Time-outs that a command shall meet in the midst of its work, however busy the machine is."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def met(run: Callable[[int], T], begun: Callable[[T], object]) -> T:
    """Return what `run(seconds)` returns with the first of some longer and longer time-outs that lets a command begin.

    Args:
        begun: tells from what was returned whether the command had come to where the time-out shall find it.
    """
    for seconds in (1, 4, 16, 64):
        with suppress(IndexError):  # mini's scripted model has no answer left: its last command met the time-out too
            result = run(seconds)
            if begun(result):
                break
    return result
