"""Agents of PydanticAI: a capability that judges every call of a tool, of whatever toolset.

    agent = Agent(model, tools=[...], capabilities=[ToolApprovals(Gate.from_config())])

Where a human is asked, the call waits for them, in place; with `defer=True` the call is deferred, as the framework's
own that require approval are, and the run goes on with its results later.
"""

import asyncio
import json
from collections.abc import Collection
from typing import Any

from humanlayer_agent.adapters import AppUser
from humanlayer_agent.adapters.tool_calls import AT_PROVIDER, EDITED, ToolCalls, farewell, shown, told
from humanlayer_agent.agents.async_gate import AsyncGate
from humanlayer_agent.agents.python_gate import Gate
from humanlayer_agent.approvals.model import Denial, Permit, Waiting
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.extras import lacks

try:
    from pydantic_ai import ApprovalRequired, DeferredToolResults, ToolApproved, ToolDenied
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.exceptions import SkipModelRequest, ToolFailed
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.toolsets import WrapperToolset
except ImportError as error:
    raise ConfigError(lacks("The adapter for PydanticAI", "pydantic-ai", error)) from error

__all__ = ["ToolApprovals"]

REQUEST = "request"
"""The name of our request's id in the metadata of a call that is deferred."""


class ToolApprovals(AbstractCapability):
    """Judges each call of a tool, and runs it once, with exactly the arguments that were judged.

    What may not run is told to the model as a failed result of the tool; the others of the same message run. Where a
    human has stopped the run, every call gets such a result, and the model is not asked again.

    Args:
        gate: the Gate of the run.
        defer: where a human is asked, defer the call instead of waiting in place. The agent's `output_type` has
            `DeferredToolRequests`; see `results`.
        at_provider: the kinds of tools that run at the model's provider and may be there, although nobody judges their
            calls ("web_search").

    Example::

            agent = Agent(model, tools=[close_account], capabilities=[ToolApprovals(Gate.from_config())])
            agent.run_sync("Close the account of ada")
    """

    def __init__(self, gate: Gate | AsyncGate, *, defer: bool = False, at_provider: Collection[str] = ()) -> None:
        self._calls = ToolCalls(gate)
        self._defers = defer
        self._at_provider = frozenset(at_provider)
        self._stopped = False

    async def results(
        self, requests: Any, answers: Any = None, *, answered_by: AppUser | None = None
    ) -> DeferredToolResults:
        """Return the results with which a run goes on whose calls were deferred.

        Of calls that we have deferred they say nothing of whether these may run: that is decided when it is about to. A
        call that still waits for a human is deferred once more. Of others, which the framework or a tool has deferred
        by itself, they have what the app says, and nothing where it says nothing; before these run they are judged.

        Args:
            requests: the output of the run.
            answers: what a user of the app has said, as `DeferredToolResults`. None: only our channels are asked.
            answered_by: that user, as the app knows them. Where it is None, what they said decides nothing of ours.
        """
        given = dict(answers.approvals) if answers is not None else {}
        approvals: dict[str, Any] = {}
        for call in requests.approvals:
            said: Any = given.get(call.tool_call_id)
            request = (requests.metadata.get(call.tool_call_id) or {}).get(REQUEST)
            if isinstance(request, str) and await asyncio.to_thread(self._calls.gate.store.get, request) is not None:
                approvals[call.tool_call_id] = await asyncio.to_thread(self._heard, request, said, answered_by)
            elif said is not None:
                approvals[call.tool_call_id] = said
        if answers is None:
            return DeferredToolResults(approvals=approvals)
        return DeferredToolResults(calls=dict(answers.calls), approvals=approvals, metadata=dict(answers.metadata))

    # PydanticAI calls these

    def get_ordering(self) -> CapabilityOrdering:
        """Stand where nothing comes between the judgement and the tool."""
        return CapabilityOrdering(position="innermost")

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        """Put a toolset behind the Gate."""
        return _GatedToolset(toolset, self)

    async def for_run(self, ctx: Any) -> "ToolApprovals":
        """Return this for one run."""
        return ToolApprovals(self._calls.gate, defer=self._defers, at_provider=self._at_provider)

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Ask the model, unless the run was stopped.

        Raises:
            ConfigError: there is a tool whose calls can't be judged.
        """
        if self._stopped:
            raise SkipModelRequest(ModelResponse([TextPart(farewell())]))
        for tool in request_context.model_request_parameters.native_tools:
            if tool.kind not in self._at_provider:
                raise ConfigError(AT_PROVIDER.format(tool.kind))
        return request_context

    # Ours

    def _heard(self, request: str, said: Any, user: AppUser | None) -> ToolApproved | ToolDenied:
        """Record what a user has said of a request; what a run goes on with, which is no answer unless they edit."""
        if user is None or said is None:
            return ToolApproved()
        edited = isinstance(said, ToolApproved) and said.override_args is not None
        approves = said is True or (isinstance(said, ToolApproved) and not edited)
        words = said.message if isinstance(said, ToolDenied) and said != ToolDenied() else ""
        self._calls.answer(request, "approve" if approves else "reject", user, words)
        found = self._calls.gate.store.get(request)
        if not edited or found is None or (found.state, found.decided_by) != ("rejected", user.by):
            return ToolApproved()
        changed = json.dumps(said.override_args, ensure_ascii=False, default=str)
        return ToolDenied(told(Denial(EDITED, by="human", edited=changed)))

    async def _run(self, toolset: "_GatedToolset", name: str, given: dict[str, Any], ctx: Any, tool: Any) -> Any:
        try:
            seen = shown(name, given)
        except ValueError as error:
            raise self._failed(Denial(str(error), by="policy")) from None
        answered = await self._answered(name, seen, ctx)
        if isinstance(answered, Denial):
            raise self._failed(answered)
        async with self._calls.ause(answered, name, shown(name, given)) as denial:
            if denial is None:
                return await toolset.wrapped.call_tool(name, given, ctx, tool)
        raise self._failed(denial)

    async def _answered(self, name: str, given: dict[str, Any], ctx: Any) -> Permit | Denial:
        if not self._defers:
            return await self._calls.adecide(name, given)
        found = await asyncio.to_thread(self._calls.submit, name, given, f"{ctx.conversation_id}/{ctx.tool_call_id}")
        if isinstance(found, Waiting):
            raise ApprovalRequired(metadata={REQUEST: found.id, "reason": found.request.decision.reason})
        return found

    def _failed(self, denial: Denial) -> ToolFailed:
        self._stopped = self._stopped or denial.terminate
        return ToolFailed(told(denial))


class _GatedToolset(WrapperToolset):
    """A toolset whose tools run by a permit."""

    def __init__(self, wrapped: Any, approvals: ToolApprovals) -> None:
        super().__init__(wrapped)
        self._approvals = approvals

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        return await self._approvals._run(self, name, tool_args, ctx, tool)

    async def for_run(self, ctx: Any) -> Any:
        return self._around(await self.wrapped.for_run(ctx))

    async def for_run_step(self, ctx: Any) -> Any:
        return self._around(await self.wrapped.for_run_step(ctx))

    def visit_and_replace(self, visitor: Any) -> Any:
        return self._around(self.wrapped.visit_and_replace(visitor))

    def _around(self, wrapped: Any) -> "_GatedToolset":
        return self if wrapped is self.wrapped else _GatedToolset(wrapped, self._approvals)
