"""Stories: how a request went, from the question to the exit status, told once in the place where it was asked.

Whoever was asked finds it there afterwards, with a signed head of the log: a witness outside of all that it says.
"""

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.delivery import Presentation
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.approvals.model import person as person_name
from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.hub.outbox import UNREADABLE
from humanlayer_agent.redaction.redactor import Redactor
from humanlayer_agent.safe_text import one_line

EVERY_MS = 5_000
"""Time between two looks at what has ended."""
LOOKED_AT = 50
"""Settled requests that are looked at, the newest."""
LATE_MS = 3_600_000
"""So long after the decision a story is told at the latest: what a hub that was away has missed is in the log."""
LINES = 40
_LINE = 200
_REMEMBERED = 1_000

_ENDINGS = frozenset({"exec.finished", "exec.unknown"})
_LEFT: Mapping[str, str] = {
    "request.rejected": "rejected: it did not run",
    "request.answered": "answered in words: it did not run",
    "request.expired": "nobody answered in time: denied",
    "request.withdrawn": "withdrawn: nobody waits for it any more",
    "request.terminated": "the run was stopped",
    "request.lapsed": "approved, and not used in time: it did not run",
    "request.invalidated": "approved, and something else was about to run: it did not run",
    "request.superseded": "changed: judged anew as changed",
    "request.revoked": "taken back: it did not run",
}
"""What ends a request that does not run."""


@dataclass(frozen=True, slots=True)
class Story:
    """How a request went, and the place (`presentation`) where that is told; `lines` are plain text, one each."""

    presentation: Presentation
    lines: tuple[str, ...]


class Stories:
    """The stories of one channel that are to be told.

    Args:
        store: where requests and the log are.
        channel: its name.
        authority: gives principals their names.
    """

    def __init__(self, store: Store, channel: str, authority: Authority) -> None:
        self._store = store
        self._channel = channel
        self._authority = authority
        self._told: OrderedDict[str, None] = OrderedDict()
        self._next = 0

    def due(self) -> list[Story]:
        """Return those of requests that are over, and of which nothing was told here yet."""
        now = self._store.now()
        if now < self._next:
            return []
        self._next = now + EVERY_MS
        found = (
            self._readable(request, now)
            for request in self._store.requests(state="settled", last=LOOKED_AT)
            if request.id not in self._told
        )
        return [story for story in found if story is not None]

    def look_again(self) -> None:
        """Look at what has ended the next time, however short ago that was done."""
        self._next = 0

    def told(self, story: Story) -> None:
        """Write down that a story was told, so that no other process tells it again."""
        request = story.presentation.request_id
        self._store.record(events.PRESENTATION_TOLD, request=request, channel=self._channel)
        self._remember(request)

    def drop(self, story: Story) -> None:
        """Don't try again to tell one that can't be told."""
        self._remember(story.presentation.request_id)

    def _remember(self, request_id: str) -> None:
        self._told[request_id] = None
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)

    def _readable(self, request: ApprovalRequest, now: int) -> Story | None:
        """Return a story; None where somebody has written what nobody can read: nothing else waits because of that."""
        try:
            return self._story(request, now)
        except UNREADABLE:
            self._remember(request.id)
            return None

    def _story(self, request: ApprovalRequest, now: int) -> Story | None:
        places = self._store.surfaces.presentations(request_id=request.id)
        mine = next((each for each in places if each.channel == self._channel), None)
        log = list(self._store.events(request=request.id)) if mine is not None else []
        if mine is None or now - (request.decided or request.expires) > LATE_MS or self._is_told(log):
            self._remember(request.id)
            return None
        if not any(entry.event["type"] in {*_ENDINGS, *_LEFT} for entry in log):
            return None  # approved: it is about to run, or does
        return Story(mine, tuple(self._lines(places, log)))

    def _is_told(self, log: list[Entry]) -> bool:
        return any(
            entry.event["type"] == events.PRESENTATION_TOLD.name and entry.event.get("channel") == self._channel
            for entry in log
        )

    def _lines(self, places: list[Presentation], log: list[Entry]) -> Iterator[str]:
        shown = ((each.at, self._shown(each)) for each in places)
        happened = ((int(entry.event["at"]), self._said(entry.event)) for entry in log)
        rows = [(at, said) for at, said in sorted([*shown, *happened], key=lambda row: row[0]) if said]
        redactor = Redactor()
        for at, said in rows[:LINES]:
            line = f"{time.strftime('%H:%M:%S', time.gmtime(at / 1000))}  {one_line(redactor.text(said).text)}"
            yield line if len(line) <= _LINE else f"{line[: _LINE - 4]} ..."
        if len(rows) > LINES:
            yield f"... {len(rows) - LINES} more: hla requests show"

    def _shown(self, place: Presentation) -> str:
        told = place.place.get("told") or place.place.get("to") or ()
        names = [self._known(str(each), str(place.place.get("team", ""))) for each in told]
        return f"shown by {place.channel}" + (f" to {', '.join(names)}" if names else "")

    def _known(self, told: str, team: str) -> str:
        for principal in (f"slack:{team}/{told}", f"email:{told}"):
            if (found := self._authority.person_of(principal)) is not None:
                return found.id
        return told

    def _name(self, principal: object) -> str:
        found = self._authority.person_of(str(principal))
        return found.id if found is not None else person_name(str(principal))

    def _said(self, event: Mapping[str, Any]) -> str:
        """Return what an event means for people; "" for what they need not know."""
        kind, approver = event["type"], event.get("approver") or {}
        who, how = self._name(approver.get("principal", "")), approver.get("channel") or ""
        match kind:
            case "request.created":
                return "asked"
            case "vote.recorded":
                return f"{who}: {event.get('answer')}, by {how}"
            case "vote.late":
                return f"{who}: {event.get('answer')}, by {how}, too late"
            case "vote.refused":
                return f"an answer of {who}, by {how}, did not count ({event.get('refusal')})"
            case "request.escalated":
                return "the next were asked"
            case "request.approved":
                return "approved"
            case "exec.started":
                return "it began to run"
            case "exec.finished":
                return _ended(event)
            case "exec.unknown":
                return "how it ended is not known: its supervisor is gone"
        return _LEFT.get(kind, "")


def _ended(event: Mapping[str, Any]) -> str:
    code, detail = event.get("returncode"), event.get("detail") or ""
    said = f"exit status {code}" if code is not None else "no exit status"
    took = event.get("duration_ms")
    after = f" after {took / 1000:.1f} s" if isinstance(took, int) else ""
    return f"ended with {said}{after}{f': {detail}' if detail else ''}"
