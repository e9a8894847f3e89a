"""The part of a store that the hub needs: where requests are shown to humans, and which process sees to that.

None of it decides anything. It says what still has to be delivered, where a request can be answered, and which of those
places show something else than what the store says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of a process to serve a channel, since `taken` (ms). Nobody else may, while it shows that it lives."""

    channel: str
    holder: str
    process: str
    taken: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pending request, as far as it takes to know what is due."""

    id: str
    created: int
    expires: int
    escalated: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """The state of the delivery of one step of a request's route.

    `sending` is written before anything is sent: found later, it says that nobody knows. `retry_at` is when (ms) it may
    be tried again, `why` what went wrong last ("" where nothing did).
    """

    request_id: str
    step: int
    channel: str
    state: Literal["sending", "delivered", "failed"]
    attempts: int
    retry_at: int
    why: str
    at: int


@dataclass(frozen=True, slots=True)
class Presentation:
    """One place where a channel shows a request.

    `place` is what the channel needs to find it again; `shown` what it showed when it was last settled, and `mark` what
    it has to show now. `reminded` is how often it was reminded of.
    """

    id: str
    request_id: str
    channel: str
    step: int
    place: Mapping[str, Any]
    presented_digest: str
    complete: bool
    at: int
    shown: str
    mark: str
    reminded: int


class Surfaces(Protocol):
    """Leases, deliveries and presentations. Each method that changes something is one transaction with its event."""

    def take_lease(self, channel: str, holder: str, ttl_ms: int) -> bool:
        """Serve a channel for the next `ttl_ms`, or go on doing so. False where another process does.

        One whose time is over is taken, and at once one whose process is gone.
        """
        ...

    def release_lease(self, channel: str, holder: str) -> None:
        """Let another process serve it. Nothing happens where `holder` does not."""
        ...

    def lease(self, channel: str) -> Lease | None:
        """Return the lease of a channel; None where nobody serves it at this moment."""
        ...

    def waiting(self) -> list[Waiting]:
        """All pending requests, oldest first."""
        ...

    def deliveries(self, request_id: str | None = None) -> list[Delivery]:
        """Return every delivery that was begun: of one request, or of all that are pending."""
        ...

    def unfinished(self, channel: str) -> list[Delivery]:
        """Return the deliveries on a channel whose end nobody knows, and which are not needed any more: the request was
        decided.
        """
        ...

    def begin_delivery(self, request_id: str, step: int, channel: str) -> Delivery | None:
        """Write down that a step is about to be delivered. None where the request is not pending any more, or it was
        delivered already."""
        ...

    def delivered(
        self, request_id: str, step: int, channel: str, place: Mapping[str, Any], digest: str, *, complete: bool
    ) -> None:
        """Write down where a step is shown. The same place again changes nothing; another one is one more."""
        ...

    def undelivered(self, request_id: str, step: int, channel: str, why: str, *, retry_at: int | None = None) -> None:
        """Write down that a step could not be delivered, or (without `retry_at`) that it did not arrive after all.

        Args:
            retry_at: when (ms) it may be tried again; None where that is of no use: the next step is due then.
        """
        ...

    def presentations(self, channel: str | None = None, *, request_id: str | None = None) -> list[Presentation]:
        """Return the places where requests are shown, the oldest first."""
        ...

    def presented_at(self, channel: str, key: str, value: str) -> list[Presentation]:
        """Return the places of which `place[key] == value`."""
        ...

    def open_presentations(self, channel: str) -> list[Presentation]:
        """Return the places where something may still have to change: the request is not over, or something else is
        shown.
        """
        ...

    def settled(self, presentation_id: str, mark: str) -> None:
        """Write down what a place shows now."""
        ...

    def reminded(self, presentation_id: str, level: int) -> None:
        """Write down that a place was reminded of for the `level`th time."""
        ...

    def unsettled(self, presentation_id: str, why: str) -> None:
        """Write down that a place can't be made to show anything else: it is left as it is."""
        ...
