"""The contract of a channel: it shows requests to humans and brings back what they answer.

A channel never runs anything, never decides by itself and never changes a decision. It reaches the store through one
function, `Decide`, that checks who answers. Channels are synchronous; what they receive comes in on threads of their
own. The hub (`humanlayer_agent.hub`) says when something is to be delivered, settled or reminded of, and keeps what
they return; any of these calls may be made twice, because a process may die between a call and writing it down.

Who calls what on which thread: the hub has one thread for each channel, and calls `start`, `deliver`, `settle`,
`remind`, `find` and `close` on it, one after another. `health` is called from any thread at any time. A channel calls
its `Desk` from whatever thread it likes, and several may at once. A human may answer before `deliver` has returned: the
desk waits a moment for what is being delivered to be written down.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Any, Literal, Protocol

from humanlayer_agent.approvals.authority import Person
from humanlayer_agent.approvals.grants import Grant, UsedFor
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Vote, VoteResult
from humanlayer_agent.errors import ChannelError
from humanlayer_agent.policy.conditions.circumstances import zone

Can = Literal["approve", "reject", "feedback", "edit", "respond", "escalate", "grant", "show_all"]
"""The answers that a channel can offer to a human; nothing else is offered there."""


class Retry(ChannelError):
    """Raised for what did not work now, and may later.

    Args:
        why: for people to read.
        after: seconds to wait, as the service says; None leaves that to the hub.

    Example:
        >>> Retry("the service is busy", after=30).after
        30
    """

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


class Undeliverable(ChannelError):
    """Raised for what does not work, and would not by trying again: the next step of the route is due at once."""


@dataclass(frozen=True, slots=True)
class Ref:
    """The place where a channel shows a request, as any other process can find it again.

    Args:
        where: whatever the channel needs, as plain JSON (kept in the store).
        presented_digest: the digest of the request that is shown there.
        complete: all of its command can be read there. Where it can't, nothing there may approve it.

    Example:
        >>> Ref({"channel": "C1", "ts": "1700000000.1"}, "0" * 64).complete
        True
    """

    where: Mapping[str, Any]
    presented_digest: str
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Audience:
    """The people a delivery is for: one step of a route.

    Args:
        people: those who are told (they may all be refused for other reasons: that is the core's to say).
        step: the number of the step in the order in which they are due, from 0: where it is greater, others were asked
            before.

    Example:
        >>> Audience((Person("alice", ("os:1000:alice",)),)).step
        0
    """

    people: tuple[Person, ...]
    step: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A request as a surface is to show it from now on: its state, and what people have answered so far.

    Args:
        request: as it is now.
        votes: the recorded answers, oldest first.
        by: who decided, for people to read ("" where nobody did; who had approved what then lapsed or was invalidated).
        missing: how many approvals are still needed.
    """

    request: ApprovalRequest
    votes: tuple[Vote, ...] = ()
    by: str = ""
    missing: int = 0

    @property
    def mark(self) -> str:
        """A text that differs whenever a surface must be settled anew.

        It does where the state, the votes or the escalations differ, or where nobody is there any more who would run
        it.
        """
        gone = " abandoned" if self.request.abandoned else ""
        return f"{self.request.state} {len(self.votes)} {self.request.escalated}{gone}"


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a channel.

    Args:
        ok: it works.
        problems: what is wrong, each in words that say how to mend it.
        facts: more that is known of it (its team, its scopes), as plain JSON.

    Example:
        >>> Health(ok=False, problems=("the token is revoked: make a new one",)).ok
        False
    """

    ok: bool
    problems: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The time of day, in a zone, at which a digest is posted."""

    at: time
    zone: str = "UTC"

    def moment(self, now: datetime) -> datetime:
        """Return the last time before `now` (with a zone) at which it was to be posted."""
        here = now.astimezone(zone(self.zone))
        today = datetime.combine(here.date(), self.at, here.tzinfo)
        return today if today <= here else datetime.combine(here.date() - timedelta(days=1), self.at, here.tzinfo)


@dataclass(frozen=True, slots=True)
class DailyDigest:
    """The figures of one day.

    Args:
        day: its date, in the zone of the schedule. since, until: in ms.
        judged: commands that were judged, by verdict. endings: requests of that day, by what became of them.
        waiting: requests that wait now, and `oldest`, since when (ms); None where none does.
        minutes: the median time to an answer; None where there was none.
        answered: how often each person answered. asked_by, denied_by: the rules, by how often.
        grants: approvals for more than once that hold now. stopped: that every agent is; "" where they are not.
        more: there was more than is counted.
    """

    day: str
    since: int
    until: int
    judged: Mapping[str, int]
    endings: Mapping[str, int]
    waiting: int
    oldest: int | None
    minutes: float | None
    answered: Sequence[tuple[str, int]]
    asked_by: Sequence[tuple[str, int]]
    denied_by: Sequence[tuple[str, int]]
    grants: int
    stopped: str
    more: bool


class Decide(Protocol):
    """The function that hands one human's answer to the core.

    The core decides whether it counts, and writes it durably before it returns. An approval or an edit counts only
    where this channel shows the request whole (refused as "not-shown" otherwise).

    Raises:
        StoreError: it could not be written, so it did not happen: don't acknowledge it. That is also so where a message
            is answered before anybody has written down that it was posted.
    """

    def __call__(self, request_id: str, answer: Answer) -> VoteResult: ...


class Desk(Protocol):
    """The part of the core that a channel may know: it reads requests, and has answers recorded.

    The hub hands it over at `start`. From any thread; every method raises StoreError where the store can't be read or
    written.
    """

    @property
    def decide(self) -> Decide:
        """The function that has an answer recorded."""
        ...

    def request(self, request_id: str) -> ApprovalRequest | None:
        """Return the request as it is now; None where there is none."""
        ...

    def outcome(self, request_id: str) -> Outcome | None:
        """Return the request as it is now, with its votes; None where there is none."""
        ...

    def shown(self, request_id: str) -> tuple[Ref, ...]:
        """Return the places where this channel shows a request, as far as that was written down."""
        ...

    def shown_at(self, key: str, value: str) -> tuple[tuple[ApprovalRequest, Ref], ...]:
        """Return the requests that this channel shows where `ref.where[key] == value`."""
        ...

    def person_of(self, principal: str) -> Person | None:
        """Return the person who acts as `principal`; None for a stranger."""
        ...

    def has_left(self, principal: str) -> bool:
        """Tell whether `principal` is somebody who has left (`hla people remove`): show them nothing."""
        ...

    def refused(self, request_id: str, principal: str, code: str, why: str) -> None:
        """Write down that an answer was turned away before it came to `decide` (`vote.refused`)."""
        ...

    def login_refused(self, caller: str) -> None:
        """Write down that somebody typed a wrong login code (`login.refused`), and from where as far as is known."""
        ...

    def requests(self, *, waiting: bool, last: int | None = None) -> tuple[ApprovalRequest, ...]:
        """Return all requests that wait for an answer, or all that don't any more, oldest first; for an inbox.

        Args:
            last: only the newest so many of these.
        """
        ...

    def grants(self, last: int) -> tuple[tuple[Grant, tuple[UsedFor, ...]], ...]:
        """Return the newest approvals that hold for more than once, or did: those that still do first, then the newest
        first, each with its uses.

        Args:
            last: so many of those that are over, and all that are not.
        """
        ...

    def revoke_grant(self, grant_id: str, principal: str, why: str = "") -> bool:
        """Take a grant back, at once; False where there is none that could be.

        Whoever does it only keeps something from running: nobody has to be an approver for that.
        """
        ...

    def may_answer(self, request: ApprovalRequest, principal: str, groups: Sequence[str] = ()) -> bool:
        """Tell whether an answer of `principal` to this request could count, by who they are alone.

        Args:
            groups: the groups that the channel has just verified them to be in (`Approver.groups`).
        """
        ...

    def stop(self, principal: str, reason: str) -> bool:
        """Stop every agent, as `hla stop` does; False where nobody is known as `principal`, which is in the log then.

        Nobody has to be an approver for that: it only keeps something from running.
        """
        ...

    def stopped(self) -> str:
        """Return since when every agent is stopped, by whom and why, for people to read; "" where none is. It holds
        somebody's own words.
        """
        ...

    def beside(self, channel: str) -> "Desk":
        """Return the desk of another channel: for a page that a message of that channel leads to."""
        ...

    def failed(self, request_id: str, why: str) -> None:
        """Write down that what was delivered did not arrive after all (a bounce): the next step of the route is due at
        once.
        """
        ...


class Channel(Protocol):
    """One way to reach humans. `testing.conformance` holds what is expected of it, as tests.

    Args:
        name: of the channel in the channels file.
        can: what it offers.
        shows: how many characters of a command it can show at once; a longer one needs "show_all", or it gets no way
            to approve there.

    It may also have `pace`, the seconds from the beginning of one `deliver`, `settle` or `remind` to that of the next
    (0 where it has none), `find(request) -> Sequence[Ref]` (see `Finds`), `post(text)`, which puts a text that is no
    request where people keep it (a signed head of the log, a day's summary), and `tell(outcome, ref, lines, head)`,
    which says once how a request went, in lines of plain text, where it is shown. With a `schedule` it also has
    `sum_up(digest)`, which posts the figures of a day.
    """

    @property
    def name(self) -> str:
        """The name in the channels file."""
        ...

    @property
    def can(self) -> frozenset[Can]:
        """The answers it offers."""
        ...

    @property
    def shows(self) -> int:
        """The number of characters of a command that it can show at once."""
        ...

    def start(self, desk: Desk) -> None:
        """Open what receives answers. Returns at once.

        Raises:
            ChannelError: it can't work as it is configured (a missing secret: named by its variable).
        """
        ...

    def deliver(self, request: ApprovalRequest, audience: Audience) -> Ref:
        """Show `request` to `audience`. May be called twice for the same.

        Raises:
            Retry: try again. Undeliverable: don't.
        """
        ...

    def settle(self, outcome: Outcome, ref: Ref) -> None:
        """Make what is shown agree with `outcome`; where it is decided nothing there can be answered any more.

        Also called while a request is pending and something about it changed (a vote, an escalation). Raises as
        `deliver` does.
        """
        ...

    def remind(self, outcome: Outcome, ref: Ref, level: int) -> None:
        """Say once more that it waits; `level` counts from 1. Raises as `deliver` does."""
        ...

    def health(self) -> Health:
        """Return the state of the channel, asking the service where that is the only way to know."""
        ...

    def close(self, timeout: float = 2.0) -> None:
        """Stop receiving. What was received is recorded before it returns, or was not acknowledged."""
        ...


class Finds(Protocol):
    """A channel that can look up what it already shows. Not every service allows that."""

    def find(self, request: ApprovalRequest) -> Sequence[Ref]:
        """Return every place where this channel shows `request`, also what an earlier process delivered.

        The hub asks before it delivers again what may have been delivered already (a process died, or the reply was
        lost): what is found is written down and settled with the rest. Raises as `deliver` does.
        """
        ...


Factory = Callable[..., Channel]
"""`factory(name, settings, *, secrets, profiles) -> Channel`: one per channel type, see `channels.registry`."""
