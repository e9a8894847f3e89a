"""Envelopes: what Slack sends, however it comes, over a connection that we hold open or to an address of ours.

An envelope is handled once, and acknowledged after that; where nothing could be written down, it is not acknowledged.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Json = dict[str, Any]
_log = logging.getLogger(__name__)

STALE_SECONDS = 2.5
"""An envelope that could not be looked at for so long is dropped: Slack is telling the human that it failed."""
WORKERS = 8
"""Envelopes that are handled at the same time."""
INTERACTIVE, EVENT = "interactive", "events_api"
"""Types of envelopes: somebody clicked or submitted, and something happened that the app has subscribed to."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to an envelope: the payload of the acknowledgement, and what is to be done after it was sent."""

    payload: Json | None = None
    after: Callable[[], None] | None = None


Handle = Callable[[Json], Reply]


@dataclass(frozen=True, slots=True)
class Reception:
    """How well envelopes come in: what is wrong, each in words that say how to mend it, and what is known besides."""

    problems: tuple[str, ...]
    facts: Mapping[str, Any]


class Receives(Protocol):
    """A way by which envelopes come in."""

    def start(self) -> None:
        """Begin to receive.

        Raises:
            ChannelError: it can't.
        """
        ...

    def close(self, timeout: float) -> None:
        """Take no more, and let those that are being handled end."""
        ...

    @property
    def reception(self) -> Reception:
        """How well they come in."""
        ...


def reply_to(handle: Handle, envelope: Json, received: float) -> Reply | None:
    """Return the reply to an envelope; None where it must not be acknowledged.

    Args:
        received: when it came, by `time.monotonic`.
    """
    if time.monotonic() - received > STALE_SECONDS:
        _log.warning("slack: too busy: a click was dropped, and not acknowledged")
        return None
    try:
        return handle(envelope)
    except Exception as error:
        _log.warning("slack: a click was not acknowledged: %s", error or type(error).__name__)
        return None


def follow_up(reply: Reply) -> None:
    """Do what is to be done after the acknowledgement."""
    if reply.after is not None:
        try:
            reply.after()
        except Exception as error:
            _log.info("slack: after a click: %s", error)
