"""The call of a tool, as every adapter handles it: judged, run by its permit, and recorded."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from humanlayer_agent.action import FUNCTION, Action, tool_arguments
from humanlayer_agent.adapters import AppUser
from humanlayer_agent.approvals.conversation import describe
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Answer, AnswerKind, ApprovalRequest, Approver, Denial, Outcome, Permit
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.policy.decision import Verdict

T = TypeVar("T")

EDITED = "the call of a tool can't be edited: reject it, and say what you want"
GONE = "nobody knows of this request"
UNKNOWN = "it was let through before the run was interrupted, and whether it ran is not known: it does not run again"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that waits for a human, and what to write down of it."""

    id: str
    reason: str = ""


def called(name: str, arguments: Mapping[str, Any], gate: Gate) -> Action:
    project = str(getattr(gate.director, "project", "") or "/")
    written = tool_arguments(arguments)
    return Action(
        f"{name}({written})", type=FUNCTION, cwd=project, project=project, interpreter=("tool", "call"),
        tool=name, arguments=written,
    )  # fmt: skip


def decide(gate: Gate, tool: str, arguments: Mapping[str, Any]) -> Permit | Denial:
    """Judge a call, and wait for a human where the policy asks for one."""
    return _decided(lambda: _unedited(gate, gate.check(called(tool, arguments, gate)), tool, arguments))


@contextmanager
def use(gate: Gate, permit: Permit, tool: str, arguments: Mapping[str, Any]) -> Iterator[Denial | None]:
    """Use the permit of a call for what is about to run, and record how that ends.

    Yields:
        None where it may run now; a `Denial` where it may not: it is another call than was judged, for example.
    """
    denial = started(gate, permit, tool, arguments)
    if denial is not None:
        yield denial
        return
    began = time.monotonic()
    try:
        yield None
    except BaseException as error:
        ended(gate, permit, began, error)
        raise
    ended(gate, permit, began)


@asynccontextmanager
async def use_async(
    gate: Gate, permit: Permit, tool: str, arguments: Mapping[str, Any]
) -> AsyncIterator[Denial | None]:
    """Do what `use` does, and don't hold up the event loop."""
    denial = await asyncio.to_thread(started, gate, permit, tool, arguments)
    if denial is not None:
        yield denial
        return
    began = time.monotonic()
    try:
        yield None
    except BaseException as error:
        ended(gate, permit, began, error)
        raise
    await asyncio.to_thread(ended, gate, permit, began)


def started(gate: Gate, permit: Permit, tool: str, arguments: Mapping[str, Any]) -> Denial | None:
    """Consume the permit of a call for what is about to run."""
    return _decided(lambda: gate.start(permit, called(tool, arguments, gate)))


def ended(gate: Gate, permit: Permit, began: float, error: BaseException | None = None) -> None:
    """Record how a call has ended that began at `began` (`time.monotonic`)."""
    took = int((time.monotonic() - began) * 1000)
    gate.finish(permit, Outcome(0 if error is None else None, describe(error) if error else "", took))


def submit(gate: Gate, tool: str, arguments: Mapping[str, Any]) -> Permit | Denial | Waiting:
    """Judge a call, and ask a human where the policy does, without waiting for them."""

    def submitted() -> Permit | Denial | Waiting:
        action = gate._own(called(tool, arguments, gate))
        decision = gate.director.evaluate(action)
        if decision.verdict is not Verdict.ASK:
            return gate.check(action)
        gate._begin(action)
        asking = gate._asking
        if asking.stopped:
            return asking.stopped
        digest = action.digest(decision.policy_digest)
        if earlier := asking.refusal(digest):
            return earlier
        rule = asking.authority.answerable(decision, gate.requester)
        draft = asking._draft(action, decision, digest, [secrets.token_hex(8)], rule, "")
        _asked[draft.id] = gate.store.create_request(draft, asking.authority)
        return Waiting(draft.id, decision.reason)

    return _decided(submitted)


_asked: dict[str, ApprovalRequest] = {}


def collect(gate: Gate, request: str) -> Permit | Denial | Waiting:
    """Return what has become of a call that was submitted."""

    def collected() -> Permit | Denial | Waiting:
        asking = gate._asking
        asked, reached = _asked.get(request), gate.store.get(request)
        if asked is None or reached is None:
            return Denial(GONE, by="store")
        if asking.stopped:
            return asking.stopped
        if reached.state == "pending" and reached.expires > asking._clock():
            return Waiting(request, asked.decision.reason)
        if reached.state == "pending":
            gate.store.expire(request)
            reached = gate.store.get(request)
        return asking._conclude(asked, reached)

    return _decided(collected)


def asks(gate: Gate, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Tell whether a human is asked about a call. Nothing is recorded: it is judged when it is about to run."""
    return gate.director.evaluate(called(tool, arguments, gate)).verdict is Verdict.ASK


def is_waiting(gate: Gate, request: str) -> bool:
    """Tell whether a request still waits for a human."""
    found = gate.store.get(request)
    return found is not None and found.state == "pending" and found.expires > now_ms()


def answer(gate: Gate, request: str, kind: AnswerKind, user: AppUser, words: str = "") -> None:
    """Record an answer that came by the framework's own way of asking. Whether it counts is the authority's to say."""
    asked, asking = _asked[request], gate._asking
    approver = Approver(user.by, "app", user.assurance)
    given = Answer(kind, approver, asked.digest, secrets.token_hex(16), words, "api")
    gate.store.decide(request, given, asking.authority, asking._signer)


def _unedited(gate: Gate, answer: Permit | Denial, tool: str, arguments: Mapping[str, Any]) -> Permit | Denial:
    if isinstance(answer, Permit) and answer.action.content != called(tool, arguments, gate).content:
        gate.store.void(answer.id, EDITED)
        return Denial(
            EDITED, by="human", decision=answer.decision, request_id=answer.request_id, approver=answer.edited_by,
            comment=answer.comment, edited=answer.action.content,
        )  # fmt: skip
    return answer


def _decided(decision: Callable[[], T]) -> T | Denial:
    try:
        return decision()
    except Exception as error:
        return Denial(f"the supervision failed: {describe(error)}", by="store")
