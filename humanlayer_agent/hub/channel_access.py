"""The part of the store that a channel gets to know, and the way of answers from it into the core."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from humanlayer_agent.approvals.authority import GLASS, Authority, Person
from humanlayer_agent.approvals.delivery import Presentation
from humanlayer_agent.approvals.grants import Grant, UsedFor
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Vote, VoteResult
from humanlayer_agent.approvals.model import person as person_name
from humanlayer_agent.approvals.stop import broken_glass, described
from humanlayer_agent.approvals.store_interface import Store, now_ms
from humanlayer_agent.audit import events
from humanlayer_agent.channels.contract import Outcome, Ref
from humanlayer_agent.errors import ConfigError, StoreError
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.store.rows import sayable

NOT_SHOWN = "not-shown"
"""The code of an approval that was refused because this channel does not show the request whole."""

PATIENCE = 1.0
"""Seconds to wait for a delivery to be written down whose answer is here already. (Slack wants an answer within 3.)"""

_DAY_MS = 86_400_000
_EMERGENCIES = 5
"""So many that were acted on outside of a route are told of, of one day."""

_SHOWN_FIRST = ("approve", "edit")
"""Answers that count only from a place that shows the whole command."""


class StoreDesk:
    """The `Desk` of one channel. Thread-safe.

    Args:
        store: where requests are.
        channel: its name.
        authority: who may decide, as this process's own configuration says.
        signer: signs the answers that come by it.
        changed: is called after every answer: something may have to be settled.
        recorded: is called with every answer and what became of it; for progress lines.
    """

    def __init__(
        self,
        store: Store,
        channel: str,
        authority: Authority,
        signer: Signer,
        *,
        changed: Callable[[], None] = lambda: None,
        recorded: Callable[[str, Answer, VoteResult], None] = lambda *_: None,
    ) -> None:
        self._store = store
        self._channel = channel
        self._authority = authority.without(store.people.left)
        self._signer = signer
        self._changed = changed
        self._recorded = recorded

    def decide(self, request_id: str, answer: Answer) -> VoteResult:
        """See `contract.Decide`."""
        if answer.kind in _SHOWN_FIRST and not self._is_shown(request_id, answer.presented_digest):
            result = self._unseen(request_id, answer)
        else:
            record = self._store.revoke if answer.kind == "revoke" else self._store.decide
            result = record(request_id, answer, self._authority, self._signer)
        self._changed()
        self._recorded(request_id, answer, result)
        return result

    def request(self, request_id: str) -> ApprovalRequest | None:
        return self._store.get(request_id)

    def outcome(self, request_id: str) -> Outcome | None:
        return outcome(self._store, self._authority, request_id)

    def shown(self, request_id: str) -> tuple[Ref, ...]:
        found = self._store.surfaces.presentations(self._channel, request_id=request_id)
        return tuple(ref_of(each) for each in found)

    def shown_at(self, key: str, value: str) -> tuple[tuple[ApprovalRequest, Ref], ...]:
        found = []
        for each in self._store.surfaces.presented_at(self._channel, key, value):
            if (request := self._store.get(each.request_id)) is not None:
                found.append((request, ref_of(each)))
        return tuple(found)

    def person_of(self, principal: str) -> Person | None:
        return self._authority.person_of(principal)

    def has_left(self, principal: str) -> bool:
        return self._authority.has_left(principal)

    def refused(self, request_id: str, principal: str, code: str, why: str) -> None:
        request = self._store.get(request_id)
        self._store.record(
            events.VOTE_REFUSED,
            request=request_id,
            run=request.action.run_id if request else None,
            digest=request.digest if request else None,
            approver={"principal": sayable(principal), "channel": self._channel, "assurance": ""},
            refusal=code,
            why=why,
        )

    def login_refused(self, caller: str) -> None:
        self._store.record(events.LOGIN_REFUSED, channel=self._channel, caller=sayable(caller))

    def failed(self, request_id: str, why: str) -> None:
        for each in self._store.surfaces.deliveries(request_id):
            if each.channel == self._channel:
                self._store.surfaces.undelivered(request_id, each.step, self._channel, why)
        self._changed()

    def requests(self, *, waiting: bool, last: int | None = None) -> tuple[ApprovalRequest, ...]:
        return tuple(self._store.requests(state="pending" if waiting else "settled", last=last))

    def grants(self, last: int) -> tuple[tuple[Grant, tuple[UsedFor, ...]], ...]:
        now = now_ms()
        active: list[Grant] = []
        over: list[Grant] = []
        for grant in reversed(self._store.grants.given()):
            (active if grant.state(now) == "active" else over).append(grant)
        return tuple((grant, tuple(self._store.grants.uses(grant.id))) for grant in [*active, *over[:last]])

    def revoke_grant(self, grant_id: str, principal: str, why: str = "") -> bool:
        return self._store.grants.revoke(grant_id, principal, why)

    def may_answer(self, request: ApprovalRequest, principal: str, groups: Sequence[str] = ()) -> bool:
        try:
            rule = self._authority.rule_for(request.decision, request.requester)
        except ConfigError:  # a route that this process does not know
            return False
        able = self._authority.may_answer(rule, request.requester)
        known = self._authority.person_of(principal)
        if known is not None and known.id in able:
            return True
        group = self._authority.group_of(rule, principal, groups)
        return group is not None and group.id in able

    def stop(self, principal: str, reason: str) -> bool:
        if self._authority.person_of(principal) is None:
            self._store.record(
                events.SUPERVISION_REFUSED, wanted="stop", by=sayable(principal), refusal="unknown-identity"
            )
            return False
        self._store.halts.stop(principal, reason)
        self._changed()
        return True

    def stopped(self) -> str:
        stops = [described(halt) for halt in self._store.halts.standing(self._authority)]
        return "; ".join([*stops, *self._emergencies()])

    def _emergencies(self) -> list[str]:
        """Return what was done outside of a route within the last day, for whoever looks."""
        found = self._store.events(type=events.GLASS_BROKEN.name, last=_EMERGENCIES)
        since = self._store.now() - _DAY_MS
        return [text for at, text in map(broken_glass, found) if at is None or at > since]

    def beside(self, channel: str) -> "StoreDesk":
        return StoreDesk(
            self._store, channel, self._authority, self._signer, changed=self._changed, recorded=self._recorded
        )

    def _is_shown(self, request_id: str, digest: str) -> bool:
        """Tell whether this channel shows the request whole. What is just being delivered is waited for.

        Raises:
            StoreError: it is still being delivered: whoever did that may be gone, and its successor looks for what was
                posted. An answer that has come meanwhile must come again rather than be refused.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            # In this order: what was delivered between the two is seen.
            sending = any(
                each.channel == self._channel and each.state == "sending"
                for each in self._store.surfaces.deliveries(request_id)
            )
            shown = self._store.surfaces.presentations(self._channel, request_id=request_id)
            if any(each.complete and each.presented_digest == digest for each in shown):
                return True
            if not sending:
                return False
            if time.monotonic() >= deadline:
                raise StoreError(f"it is not written down yet that {self._channel} shows this request")
            time.sleep(0.01)

    def _unseen(self, request_id: str, answer: Answer) -> VoteResult:
        reason = f"{self._channel} does not show the whole request, so it can't be approved there"
        request = self._store.get(request_id)
        who = answer.approver
        self._store.record(
            events.VOTE_REFUSED,
            request=request_id,
            run=request.action.run_id if request else None,
            digest=request.digest if request else None,
            answer=sayable(answer.kind),
            approver={name: sayable(getattr(who, name, None)) for name in ("principal", "channel", "assurance")},
            presented_digest=sayable(answer.presented_digest),
            decision_id=sayable(answer.decision_id),
            input_mode=sayable(answer.input_mode),
            refusal=NOT_SHOWN,
            why=reason,
        )
        return VoteResult("refused", request.state if request else None, reason, NOT_SHOWN)


def ref_of(presentation: Presentation) -> Ref:
    """Return where a channel shows a request, as the channel said it."""
    return Ref(presentation.place, presentation.presented_digest, presentation.complete)


def outcome(store: Store, authority: Authority, request_id: str) -> Outcome | None:
    """A request as surfaces are to show it: with its votes, who decided, and how many approvals are missing."""
    request = store.get(request_id)
    if request is None:
        return None
    votes = tuple(store.votes(request_id))
    return Outcome(request, votes, _by(authority, request), _missing(authority, request, votes))


def _by(authority: Authority, request: ApprovalRequest) -> str:
    if not request.decided_by:
        return ""
    known = authority.person_of(request.decided_by)
    return known.id if known is not None else person_name(request.decided_by)


def _missing(authority: Authority, request: ApprovalRequest, votes: tuple[Vote, ...]) -> int:
    if request.state != "pending":
        return 0
    needed, gone = request.needed, frozenset(each.person for each in authority.left())
    with suppress(ConfigError):
        rule = authority.rule_for(request.decision, request.requester)
        needed, gone = max(needed, rule.quorum), gone | {each.absent for each in rule.stand_ins}
    given = {vote.person for vote in votes if vote.answer == "approve" and vote.approver.channel != GLASS}
    return max(0, needed - len(given - gone))
