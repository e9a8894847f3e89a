"""The daily digest of a channel: what agents were asked about in a day, in figures. It names rules and people, and no
command: not everybody who reads the channel may see each.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median

from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.channels.contract import DailyDigest, Schedule
from humanlayer_agent.hub.outbox import UNREADABLE

LATE = timedelta(hours=6)
"""So long after its time a digest is posted at the latest: a hub that begins later leaves it out."""
EVERY_MS = 30_000
"""Time between two looks at the clock."""
MOST = 10_000
"""Requests, and judgements, of a day that are counted; of more it says so."""
TOP = 5


@dataclass(slots=True)
class Digests:
    """The digests of one channel that are to be posted.

    Args:
        store: where requests and the log are. channel: its name. authority: gives principals their names.
    """

    store: Store
    channel: str
    authority: Authority
    schedule: Schedule
    _next: int = field(default=0, init=False)
    _day: str = field(default="", init=False)

    def due(self) -> DailyDigest | None:
        """Return the digest that is to be posted now; None where none is."""
        now = self.store.now()
        if now < self._next:
            return None
        self._next = now + EVERY_MS
        at = datetime.fromtimestamp(now / 1000, UTC)
        moment = self.schedule.moment(at)
        day = moment.date().isoformat()
        if day == self._day or at - moment > LATE or self._is_posted(day):
            return None
        until = int(moment.timestamp() * 1000)
        return digest(self.store, self.authority, day, until - 86_400_000, until)

    def posted(self, one: DailyDigest) -> None:
        """Write down that it was posted, so that no other process posts it again."""
        self.store.record(events.DIGEST_POSTED, channel=self.channel, day=one.day)
        self._day = one.day

    def drop(self, one: DailyDigest) -> None:
        """Don't try again to post one that can't be posted."""
        self._day = one.day

    def _is_posted(self, day: str) -> bool:
        posted = (entry.event for entry in self.store.events(type=events.DIGEST_POSTED.name, last=50))
        found = any(event.get("channel") == self.channel and event.get("day") == day for event in posted)
        if found:
            self._day = day
        return found


def digest(store: Store, authority: Authority, day: str, since: int, until: int) -> DailyDigest:
    """Count what happened in a day."""
    recent = store.requests(last=MOST)
    asked = [each for each in recent if since <= each.created < until]
    judged = list(map(_judged, store.events(type=events.DECISION_EVALUATED.name, last=MOST)))
    within = [(verdict, rule) for at, verdict, rule in judged if since <= at < until]
    waiting = [each for each in recent if each.state == "pending"]
    took = [each.decided - each.created for each in asked if each.decided and each.state in _ANSWERED]
    halts = store.halts.standing(authority)
    return DailyDigest(
        day=day,
        since=since,
        until=until,
        judged=Counter(verdict for verdict, _ in within),
        endings=Counter("waiting" if each.state == "pending" else each.ending for each in asked),
        waiting=len(waiting),
        oldest=min((each.created for each in waiting), default=None),
        minutes=median(took) / 60_000 if took else None,
        answered=Counter(_name(authority, each) for each in asked if each.decided_by).most_common(TOP),
        asked_by=Counter(_rule(each.decision.rules) for each in asked).most_common(TOP),
        denied_by=Counter(rule for verdict, rule in within if verdict == "deny").most_common(TOP),
        grants=sum(grant.state(store.now()) == "active" for grant in store.grants.given()),
        stopped="every agent is stopped" if halts else "",
        more=_cut_off([each.created for each in recent], since) or _cut_off([at for at, _, _ in judged], since),
    )


_ANSWERED = ("approved", "rejected", "answered", "superseded")


def _judged(entry: Entry) -> tuple[int, str, str]:
    """Return when an action was judged, how, and by which rule; one that can't be read is of no day."""
    try:
        event = entry.event
        return int(event["at"]), str(event.get("verdict")), _rule(event.get("rules") or ())
    except UNREADABLE:
        return -1, "", ""


def _cut_off(moments: Sequence[int], since: int) -> bool:
    """Tell whether what is counted may not be all since then: as many as are looked at, and none from before."""
    return len(moments) >= MOST and min(moments, default=0) >= since


def _name(authority: Authority, request: ApprovalRequest) -> str:
    found = authority.person_of(request.decided_by or "")
    return found.id if found is not None else "somebody else"


def _rule(rules: Sequence[str]) -> str:
    return str(rules[0]) if rules else "no rule allows it"
