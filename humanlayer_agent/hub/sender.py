"""The sender of a channel: one job after another, no faster than it may, and written down what came of it."""

import threading
import time
from collections.abc import Callable

from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.conversation import describe
from humanlayer_agent.approvals.delivery import Delivery, Presentation
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.audit.heads import head_text
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.channels.contract import Channel, DailyDigest, Outcome, Ref, Retry, Undeliverable
from humanlayer_agent.errors import StoreError
from humanlayer_agent.hub.channel_access import outcome, ref_of
from humanlayer_agent.hub.digests import Digests
from humanlayer_agent.hub.outbox import UNREADABLE, Deliver, Job, Recover, Remind, Settle
from humanlayer_agent.hub.stories import Stories

FIRST, LONGEST = 0.25, 30.0
"""Seconds before something is tried again where the service names none: at first, doubled each time, and at most."""

ATTEMPTS = 5
"""How often a channel may fail in a way that it does not name, before that counts as undeliverable."""


class Sender:
    """The one sender of a channel; every call comes from one thread.

    Args:
        channel: its `pace` (seconds) is kept, and what it says in `Retry.after`.
        stopping: ends waiting.
        say: takes a line about what was done.
    """

    def __init__(
        self,
        store: Store,
        channel: Channel,
        authority: Authority,
        *,
        stopping: threading.Event,
        say: Callable[[str], None] = lambda line: None,
        clock: Callable[[], int] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._channel = channel
        self._authority = authority
        self._stopping = stopping
        self._say = say
        self._clock = clock or store.now
        self._monotonic = monotonic
        self._free_at = float("-inf")
        self._tries: dict[str, tuple[int, float]] = {}  # by presentation: failures, and when it may be tried again

    def do(self, job: Job) -> bool:
        """Do one job, when it is its turn. False where it was not done, and is to be done later.

        Raises:
            StoreError: what came of it can't be written down; then it is done again.
        """
        if isinstance(job, Deliver):
            return self._deliver(job)
        if isinstance(job, Recover):
            return self._recover(job.delivery)
        if self._tries.get(job.presentation.id, (0, 0.0))[1] > self._monotonic():
            return False
        return self._show(job)

    def tell(self, stories: Stories, *, until: float = float("inf")) -> None:
        """Say how requests went that are over, where they were shown. What can't be said now is tried again later.

        Args:
            until: nothing is begun after that (by `time.monotonic`).

        Raises:
            StoreError: it can't be written down that it was said; then it is said again.
        """
        for story in stories.due():
            if time.monotonic() >= until or not self._turn():
                return
            place = story.presentation
            now = outcome(self._store, self._authority, place.request_id)
            try:
                if now is not None:
                    head = head_text(self._store.write_head())
                    how: Callable[..., None] = getattr(self._channel, "tell")  # noqa: B009 (not every channel can)
                    how(now, ref_of(place), story.lines, head)
            except Retry as error:
                self._delay(error.after or FIRST)
                return
            except StoreError:
                raise
            except Exception as error:
                self._say(f"could not tell how {place.request_id[:12]} went: {describe(error)}")
                stories.drop(story)
            else:
                stories.told(story)
                self._say(f"told how {place.request_id[:12]} went")

    def sum_up(self, digests: Digests) -> None:
        """Post the digest of a day, where it is time.

        Raises:
            StoreError: it can't be written down that it was posted; then it is posted again.
        """
        one = digests.due()
        if one is None or not self._turn():
            return
        post: Callable[[DailyDigest], None] = getattr(self._channel, "sum_up")  # noqa: B009 (not every channel can)
        try:
            post(one)
        except Retry as error:
            self._delay(error.after or FIRST)
        except StoreError:
            raise
        except Exception as error:
            self._say(f"could not post the digest of {one.day}: {describe(error)}")
            digests.drop(one)
        else:
            digests.posted(one)
            self._say(f"posted the digest of {one.day}")

    # Delivering

    def _deliver(self, job: Deliver) -> bool:
        if not self._turn():
            return False
        name, step = self._channel.name, job.audience.step
        begun = self._store.surfaces.begin_delivery(job.request_id, step, name)
        if begun is None:
            return True
        try:
            refs = self._sent(job, begun)
        except Undeliverable as error:
            self._failed(job, str(error))
        except Retry as error:
            self._delay(error.after)
            self._failed(job, str(error), wait=error.after or _backoff(begun.attempts))
        except Exception as error:
            if isinstance(error, StoreError):
                raise
            wait = None if begun.attempts >= ATTEMPTS else _backoff(begun.attempts)
            self._failed(job, describe(error), wait=wait)
        else:
            people = ", ".join(person.id for person in job.audience.people) or "nobody"
            for ref in refs:
                self._written(job.request_id, step, ref)
                self._say(f"delivered {job.request_id[:12]} to {people}{'' if ref.complete else ' (not whole)'}")
            return True
        return False

    def _sent(self, job: Deliver, begun: Delivery) -> list[Ref]:
        """Return where the request is shown now: where an earlier attempt has left it, else it is delivered."""
        request = self._store.get(job.request_id)
        if request is None:
            raise Undeliverable("the request is gone")
        if not job.audience.people:
            raise Undeliverable("nobody of this step may answer")
        found = self._found(request) if begun.attempts > 1 else []
        refs = found or [self._channel.deliver(request, job.audience)]
        for ref in refs:
            canonical(dict(ref.where))  # plain JSON, or the channel has a mistake
            if found or ref.presented_digest == request.digest:
                continue
            raise ValueError("the channel says that it shows something else than the request")
        return refs

    def _recover(self, lost: Delivery) -> bool:
        """Write down what an attempt has left, so that it is settled."""
        if not self._turn():
            return False
        try:
            request = self._store.get(lost.request_id)
            refs = self._found(request) if request is not None else []
        except Retry as error:
            self._delay(error.after or FIRST)
            return False
        except UNREADABLE:
            refs = []
        for ref in refs:
            self._written(lost.request_id, lost.step, ref)
        if not refs:
            why = lost.why or "the request was decided before it was known to be delivered"
            self._store.surfaces.undelivered(lost.request_id, lost.step, self._channel.name, why)
        return True

    def _found(self, request: ApprovalRequest) -> list[Ref]:
        """Return what an attempt whose end nobody knows has left at the service, as far as that can be found."""
        find = getattr(self._channel, "find", None)
        if find is None:
            return []
        shown = self._store.surfaces.presentations(self._channel.name, request_id=request.id)
        known = [each.place for each in shown]
        try:
            return [ref for ref in find(request) if dict(ref.where) not in known]
        except Retry:
            raise
        except Exception as error:  # delivered twice is better than not at all
            self._say(f"could not look for {request.id[:12]}: {describe(error)}")
            return []

    def _written(self, request_id: str, step: int, ref: Ref) -> None:
        self._store.surfaces.delivered(
            request_id, step, self._channel.name, ref.where, ref.presented_digest, complete=ref.complete
        )

    def _failed(self, job: Deliver, why: str, *, wait: float | None = None) -> None:
        at = None if wait is None else self._clock() + int(wait * 1000)
        self._store.surfaces.undelivered(job.request_id, job.audience.step, self._channel.name, why, retry_at=at)
        again = "the next step is due" if wait is None else f"again in {wait:.1f} s"
        self._say(f"could not deliver {job.request_id[:12]}: {why} ({again})")

    # Settling and reminding

    def _show(self, job: Settle | Remind) -> bool:
        place = job.presentation
        if not self._turn():
            return False
        try:
            now = outcome(self._store, self._authority, place.request_id)
        except UNREADABLE as error:
            now = None
            self._say(f"{place.request_id[:12]} can't be read: {describe(error)}")
        if now is None:
            self._gone(place, "the stored request can't be read")
            return True
        try:
            self._shown(job, now)
        except Undeliverable as error:
            self._gone(place, str(error))
        except StoreError:
            raise
        except Exception as error:
            after = error.after if isinstance(error, Retry) else None
            self._delay(after)
            failures = self._tries.get(place.id, (0, 0.0))[0] + 1
            self._tries[place.id] = (failures, self._monotonic() + (after or _backoff(failures)))
            if failures == 1:
                self._say(f"could not settle {place.request_id[:12]}: {describe(error)} (again later)")
            return False
        self._tries.pop(place.id, None)
        return True

    def _gone(self, place: Presentation, why: str) -> None:
        """Nothing can be shown at a place any more. A request that waits there has to go on to others."""
        self._say(f"could not settle {place.request_id[:12]}: {why}")
        self._store.surfaces.unsettled(place.id, why)
        if place.mark.startswith("pending "):
            self._store.surfaces.undelivered(place.request_id, place.step, self._channel.name, why)

    def _shown(self, job: Settle | Remind, now: Outcome) -> None:
        place = job.presentation
        if isinstance(job, Settle):
            self._channel.settle(now, ref_of(place))
            self._store.surfaces.settled(place.id, now.mark)
            by = f" by {now.by}" if now.by and now.request.state not in ("lapsed", "invalidated") else ""
            self._say(f"settled {place.request_id[:12]}: {now.request.state}{by}")
        elif now.request.state == "pending":
            self._channel.remind(now, ref_of(place), job.level)
            self._store.surfaces.reminded(place.id, job.level)
            self._say(f"reminded of {place.request_id[:12]}")

    # Pace

    def _turn(self) -> bool:
        """Wait until the channel may do something. False where it is to stop."""
        wait = self._free_at - self._monotonic()
        if wait > 0 and self._stopping.wait(wait):
            return False
        self._free_at = max(self._free_at, self._monotonic() + float(getattr(self._channel, "pace", 0.0)))
        return True

    def _delay(self, after: float | None) -> None:
        """The service wants to hear nothing for a while."""
        self._free_at = max(self._free_at, self._monotonic() + (after or 0.0))


def _backoff(failures: int) -> float:
    return float(min(LONGEST, FIRST * 2 ** min(failures - 1, 16)))
