"""Evaluations of Inspect AI: an approver for the calls of all tools, and a reviewer that records how they ended.

    eval(task, model=..., **supervised(Gate.from_config(policy="sandbox")))

A human who is asked is waited for in place; Inspect counts that as waiting, not as working.
"""

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import Any

from humanlayer_agent.adapters.tool_calls import ToolCalls, completed, told
from humanlayer_agent.agents.async_gate import AsyncGate
from humanlayer_agent.agents.python_gate import Gate
from humanlayer_agent.approvals.model import Denial, Outcome, Permit
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.extras import lacks

try:
    from inspect_ai.approval import Approval, ApprovalPolicy, approver
    from inspect_ai.event import ModelEvent
    from inspect_ai.log import transcript
    from inspect_ai.review import Review, ReviewPolicy, reviewer
except ImportError as error:
    raise ConfigError(lacks("The approver for Inspect AI", "inspect-ai", error)) from error

__all__ = ["supervised"]

CHANGED = "something ran with other arguments than those that were judged"
UNSEEN = "it raised, or was cancelled: nothing was told of its result"


def supervised(gate: Gate | AsyncGate) -> dict[str, Any]:
    """Return what `eval` and `Task` take so that each call of a tool is judged before it runs.

    What may not run is told to the model as the error of a tool that was not approved; the others of the same message
    run. Where a human has stopped the run, the sample is terminated, and so is each further one that calls a tool.

    Args:
        gate: the Gate of the evaluation.

    Returns:
        `approval` and `review`, each for all tools.

    Example::

            eval(Task(dataset=..., solver=react(tools=[bash()])), **supervised(Gate.from_config(policy="sandbox")))
    """
    calls = _Calls(gate)
    return {
        "approval": [ApprovalPolicy(humanlayer(calls), "*")],
        "review": [ReviewPolicy(humanlayer_outcome(calls), "*")],
    }


@approver
def humanlayer(calls: "_Calls") -> Any:
    """The approver."""

    async def approve(message: str, call: Any, view: Any, history: list[Any]) -> Approval:
        denial = await calls.begin(call, history)
        if denial is None:
            return Approval(decision="approve", explanation="permitted")
        return Approval(decision="terminate" if denial.terminate else "reject", explanation=told(denial))

    return approve


@reviewer
def humanlayer_outcome(calls: "_Calls") -> Any:
    """The reviewer."""

    async def review(message: str, call: Any, result: Any, output: Any, view: Any, history: list[Any]) -> Review:
        if await calls.end(call, result):
            return Review(decision="continue")
        return Review(decision="terminate", explanation=CHANGED)

    return review


@dataclass
class _Use:
    """A permit in use, of a call of a tool with this JSON schema."""

    permit: Permit
    schema: dict[str, Any]
    began: float = field(default_factory=time.monotonic)


class _Calls:
    """The calls of an evaluation, and those of them that are running."""

    def __init__(self, gate: Gate | AsyncGate) -> None:
        self._calls = ToolCalls(gate)
        self._uses: dict[Any, _Use] = {}  # by the task of a call: Inspect has one for each

    async def begin(self, call: Any, history: list[Any]) -> Denial | None:
        """Judge a call, and use its permit: it runs next, in this task."""
        schema = _schema(call, history)
        try:
            given = completed(schema, call.arguments)
        except ValueError as error:
            return Denial(str(error), by="policy")
        answered = await self._calls.adecide(call.function, given)
        if isinstance(answered, Denial):
            return answered
        if (task := asyncio.current_task()) is None:
            return Denial("calls are judged on asyncio's event loop", by="policy")
        await asyncio.to_thread(self._finish, task, Outcome(None, UNSEEN))  # one before it, of a bridged agent
        denial = await asyncio.to_thread(self._calls.start, answered, call.function, given)
        if denial is None:
            self._uses[task] = _Use(answered, schema)
            task.add_done_callback(lambda done: self._finish(done, Outcome(None, UNSEEN)))
        return denial

    async def end(self, call: Any, result: Any) -> bool:
        """Record how a call ended; False where it was another than the one that was judged."""
        task = asyncio.current_task()
        use = self._uses.get(task)
        if use is None:
            return True  # an agent that is bridged runs its calls elsewhere
        outcome = Outcome(None, str(result.error.message)[:500]) if result.error else Outcome(0)
        await asyncio.to_thread(self._finish, task, outcome)
        try:
            ran = self._calls.gate.call(call.function, completed(use.schema, call.arguments)).content
        except ValueError:
            ran = ""
        same = use.permit.action.content == ran
        if not same:
            self._calls.gate.stop(CHANGED)
        return same

    def _finish(self, task: Any, outcome: Outcome) -> None:
        if (use := self._uses.pop(task, None)) is not None:
            took = int((time.monotonic() - use.began) * 1000)
            self._calls.gate.finish(use.permit, replace(outcome, duration_ms=took))


def _schema(call: Any, history: list[Any]) -> dict[str, Any]:
    """Return the JSON schema by which the model was shown the tool that it calls; {} where the transcript has none.

    Inspect keeps to it: what it does not take is not run, and what it leaves out gets its default. Models may give
    calls of two messages the same id: it is the message in the history that counts.
    """
    said = next((each.id for each in reversed(history) if _has(each, call)), None)
    for event in reversed(transcript().events if said else ()):
        if isinstance(event, ModelEvent) and any(choice.message.id == said for choice in event.output.choices):
            found = (tool.parameters for tool in event.tools if tool.name == call.function)
            return next((each.model_dump(exclude_none=True) for each in found), {})
    return {}


def _has(message: Any, call: Any) -> bool:
    return any(each.id == call.id for each in getattr(message, "tool_calls", None) or ())
