"""The jobs of a channel: computed anew from the store each time, so nothing of it is lost with a process."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from humanlayer_agent.approvals.absences import Absence
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person, Removal, Step
from humanlayer_agent.approvals.delivery import Delivery, Presentation, Waiting
from humanlayer_agent.approvals.delivery_failures import level_due
from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.audit import events
from humanlayer_agent.channels.contract import Audience
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hub.on_call import OnCallNames

REMINDED_AT = (0.5, 0.8)
"""Parts of a request's time after which people are reminded, level by level."""

REMINDED_AFTER_MS = 60_000
"""How long after it was shown, or reminded of, at least."""

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What reading a stored request raises that somebody has altered."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """A step of a pending request that is due; `before` is what came of earlier attempts."""

    request_id: str
    audience: Audience
    before: Delivery | None = None


@dataclass(frozen=True, slots=True)
class Settle:
    """A place that shows something else than what the store says."""

    presentation: Presentation


@dataclass(frozen=True, slots=True)
class Remind:
    """A place where a request has waited for long."""

    presentation: Presentation
    level: int


@dataclass(frozen=True, slots=True)
class Recover:
    """A delivery that a process died over, or whose reply was lost, of a request that was decided meanwhile."""

    delivery: Delivery


Job = Deliver | Settle | Remind | Recover


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan for a request by the hub's own configuration: who is asked when."""

    rule: ApprovalRule | None
    people: frozenset[str] = frozenset()


class Outbox:
    """The jobs that are due on one channel.

    Args:
        store: where requests are.
        channel: its name.
        authority: the routes and people of this process's own configuration.
        clock: the time in ms.
    """

    def __init__(
        self, store: Store, channel: str, authority: Authority, *, clock: Callable[[], int] | None = None
    ) -> None:
        self._store = store
        self._channel = channel
        self._authority = authority
        self._clock = clock or store.now
        self._plans: dict[str, _Plan] = {}
        self._others: tuple[tuple[Absence, ...], tuple[Removal, ...]] = ((), ())  # who is away, and has left, by those
        self._on_call = OnCallNames()
        self._said: set[tuple[str, str]] = set()  # requests, and why nobody knew who was on call

    def due(self) -> list[Job]:
        """The jobs that are due, deliveries and settlings in turn, so that neither waits for all of the other."""
        now = self._clock()
        waiting = self._alive(self._store.surfaces.waiting(), now)
        shown = self._store.surfaces.open_presentations(self._channel)
        settle = [Settle(each) for each in shown if each.shown != each.mark]
        deliver = list(self._deliveries(waiting, now))
        recover = [Recover(each) for each in self._store.surfaces.unfinished(self._channel)]
        both = chain.from_iterable(zip_longest(deliver, settle))
        remind = self._reminders({each.id: each for each in waiting}, shown, now)
        return [job for job in (*both, *recover, *remind) if job is not None]

    def _alive(self, waiting: Sequence[Waiting], now: int) -> list[Waiting]:
        """Those whose time is not over; of the others it is written that it is: their agent may be gone."""
        for over in [each for each in waiting if each.expires <= now]:
            self._store.expire(over.id)
        left = [each for each in waiting if each.expires > now]
        others = (tuple(self._authority.away(self._authority)), tuple(self._authority.left()))
        if others != self._others:
            self._others, self._plans = others, {}
        self._plans = {each.id: self._plan(each.id) for each in left}
        self._said = {(request, why) for request, why in self._said if request in self._plans}
        return left

    def _deliveries(self, waiting: Sequence[Waiting], now: int) -> Iterator[Deliver]:
        begun: dict[str, dict[int, Delivery]] = {}
        for each in self._store.surfaces.deliveries():
            begun.setdefault(each.request_id, {})[each.step] = each
        for request in waiting:
            plan, before = self._plans[request.id], begun.get(request.id, {})
            if plan.rule is None:
                continue
            for number, step in enumerate(plan.rule.due(now - request.created, level_due(request.escalated, before))):
                attempt = before.get(number)
                if step.to == self._channel and (attempt is None or _again(attempt, now)):
                    yield Deliver(request.id, Audience(self._people(request.id, plan, step), number), attempt)

    def _reminders(self, waiting: dict[str, Waiting], shown: Sequence[Presentation], now: int) -> Iterator[Remind]:
        for each in shown:
            request = waiting.get(each.request_id)
            if request is None or each.shown != each.mark:
                continue
            wanted = reminder_due(request.created, request.expires, each.at, now)
            if wanted > each.reminded:
                yield Remind(each, wanted)

    def _plan(self, request_id: str) -> _Plan:
        if known := self._plans.get(request_id):
            return known
        try:
            request = self._store.get(request_id)
            if request is None:
                return _Plan(None)
            rule = self._authority.rule_for(request.decision, request.requester)
            return _Plan(rule, self._authority.may_answer(rule, request.requester))
        except (ConfigError, *UNREADABLE):  # a route that this process does not know, or a row that was altered
            return _Plan(None)

    def _people(self, request_id: str, plan: _Plan, step: Step) -> tuple[Person, ...]:
        assert plan.rule is not None
        wanted, why = self._on_call.told(step, plan.rule, plan.people)
        if why and (request_id, why) not in self._said:
            self._said.add((request_id, why))
            self._store.record(events.ON_CALL_UNKNOWN, request=request_id, channel=step.to, why=why)
        return tuple(person for person in self._authority.people if person.id in wanted)


def _again(attempt: Delivery, now: int) -> bool:
    return attempt.state == "sending" and attempt.retry_at <= now


def reminder_due(created: int, expires: int, shown: int, now: int) -> int:
    """Return how often a place should have been reminded of by now.

    Args:
        created, expires: of the request. shown: when it was shown there. All in ms.

    Example:
        >>> [reminder_due(0, 600_000, 0, now) for now in (299_000, 300_000, 500_000)]
        [0, 1, 2]
    """
    moments = (max(created + int(part * (expires - created)), shown + REMINDED_AFTER_MS) for part in REMINDED_AT)
    return sum(moment <= now < expires for moment in moments)
