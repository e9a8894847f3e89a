"""The ways to reach humans: which are due, which came to nothing, and what is said of those at other channels."""

from collections.abc import Mapping
from typing import Protocol

from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Step
from humanlayer_agent.approvals.delivery import Delivery
from humanlayer_agent.approvals.model import ApprovalRequest, person
from humanlayer_agent.approvals.store_interface import Store

_RECENT_MS = 300_000
_LAST = 50
_SHOWN = 80


class Reach(Protocol):
    """The helper that a Gate may have beside its own channel: it sees to it that requests come to other humans
    (`hub.agent_process`).
    """

    def start(self) -> None:
        """A request is about to wait. Returns at once, and never raises."""
        ...

    def close(self) -> None:
        """The run is over. Never raises."""
        ...


def level_due(escalated: int, begun: Mapping[int, Delivery]) -> int:
    """Return how many steps are due whatever the time: by escalation, or because one before can't be delivered.

    Args:
        begun: deliveries by step.
    """
    failed = [number + 2 for number, each in begun.items() if each.state == "failed"]
    return max((escalated, *failed))


def due_by_now(store: Store, request: ApprovalRequest, rule: ApprovalRule, now: int) -> tuple[Step, ...]:
    """Return the steps of a pending request that are due: by time, by escalation, or because one before failed.

    Args:
        now: in ms.
    """
    begun = {each.step: each for each in store.surfaces.deliveries(request.id)}
    reached = store.get(request.id) or request
    return rule.due(now - request.created, level_due(reached.escalated, begun))


def asked_elsewhere(
    request: ApprovalRequest, rule: ApprovalRule, authority: Authority, requester: str, channels: frozenset[str]
) -> str:
    """Return who is asked at which other channel, and how it is answered, in one line for the human at ours.

    Args:
        channels: the names of ours.
    """
    able = authority.may_answer(rule, requester)
    asked: dict[str, set[str]] = {}
    for step in rule.due(2**62):
        if step.to not in channels:
            told = {"whoever is on call"} if step.on_call else able.intersection(step.approvers or able)
            asked.setdefault(step.to, set()).update(told)
    named = {channel: ", ".join(sorted(who)) or "nobody who may answer" for channel, who in asked.items()}
    where = "; ".join(f"{channel} ({who})" for channel, who in named.items())
    later = min((step.after_ms for step in rule.steps if step.to in channels), default=None)
    here = "not here" if later is None else f"here {later // 1000} s after it was proposed"
    how = f"answer it there, or see hla requests show {request.id[:8]}"
    return f"asked at {where}, {here}: {request.action.content[:_SHOWN]} ({how})"


def not_at(store: Store, request: ApprovalRequest, rule: ApprovalRule, channels: frozenset[str], why: str) -> None:
    """Write down that nobody answers a request at these channels: what comes after them is due at once."""
    for number, step in enumerate(rule.due(2**62)):
        if step.to in channels:
            store.surfaces.undelivered(request.id, number, step.to, why)


def elsewhere(store: Store, request: ApprovalRequest, authority: Authority) -> str:
    """Return who has decided a request at which channel, in one line for those who were asked as well; "" where nobody
    did.
    """
    votes = [vote for vote in store.votes(request.id) if vote.approver.principal == request.decided_by]
    if not votes:
        return ""
    known = authority.person_of(request.decided_by)
    who = known.id if known is not None else person(request.decided_by)
    return f"{request.state} by {who} ({votes[-1].approver.channel}): {request.action.content[:_SHOWN]}"


def unreached(
    store: Store, request: ApprovalRequest, rule: ApprovalRule, channels: frozenset[str], now: int
) -> list[str]:
    """Return the steps that were due and did not reach anybody, each with its channel and why.

    Args:
        channels: those of this process, that speak for themselves.
        now: in ms.
    """
    begun = {each.step: each for each in store.surfaces.deliveries(request.id)}
    found = {}
    for number, step in enumerate(due_by_now(store, request, rule, now)):
        each = begun.get(number)
        if step.to in channels or (each is not None and each.state == "delivered"):
            continue
        why = each.why if each is not None else _unserved(store, step.to, request.created)
        found[step.to] = f"{step.to}: {why or 'its delivery was not finished'}"
    return list(found.values())


def _unserved(store: Store, channel: str, asked: int) -> str:
    """Return why nothing was delivered to a channel at all."""
    for entry in reversed(list(store.events(type="channel.failed", last=_LAST))):
        event = entry.event
        if event.get("channel") == channel and event["at"] >= asked - _RECENT_MS:
            return str(event["why"])
    if store.surfaces.lease(channel) is None:
        return "no process serves it: start hla hub"
    return "the process that serves it did not deliver it in time"
