"""Agents of the OpenAI Agents SDK: every call of a function tool is judged, also those of MCP servers, of agents that a
conversation is handed to, and of agents that are tools.

    agent = ToolApprovals(Gate.from_config()).supervise(Agent(name="clerk", tools=[...]))

Where a human is asked, the call waits for them, in place; with `interrupt=True` the run is interrupted as by the SDK's
`needs_approval`, and a saved state keeps what waits.
"""

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable, Collection
from typing import Any, cast

from humanlayer_agent.adapters import AppUser
from humanlayer_agent.adapters.tool_calls import ToolCalls, farewell, told
from humanlayer_agent.agents.async_gate import AsyncGate
from humanlayer_agent.agents.python_gate import Gate
from humanlayer_agent.approvals.model import AnswerKind, Denial, Permit, Waiting
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.extras import lacks

try:
    from agents import Agent, FunctionTool, Handoff, RunState, ToolsToFinalOutputResult
except ImportError as error:
    raise ConfigError(lacks("The adapter for the OpenAI Agents SDK", "openai-agents", error)) from error

__all__ = ["ToolApprovals"]

NO_OBJECT = "what the tool is given is no JSON object, or names something twice"
WAITS = "a human has not answered yet"


class ToolApprovals:
    """Judges each call of a tool of the agents that it supervises, and runs it once, exactly as it was judged.

    What may not run is told to the model as the tool's output. Where a human has stopped the run, every call gets such
    an output, and that ends it: the model is not asked again.

    Args:
        gate: the Gate of the run.
        interrupt: where a human is asked, interrupt the run instead of waiting in place: see `pause`.
        at_provider: names of tools that run at the model's provider and may be there, although nobody judges their
            calls ("web_search").

    Example::

            approvals = ToolApprovals(Gate.from_config())
            agent = approvals.supervise(Agent(name="clerk", tools=[close_account]))
            await Runner.run(agent, "Close the account of ada")
    """

    def __init__(self, gate: Gate | AsyncGate, *, interrupt: bool = False, at_provider: Collection[str] = ()) -> None:
        self._calls = ToolCalls(gate)
        self._interrupts = interrupt
        self._at_provider = frozenset(at_provider)
        self._supervised: dict[int, Any] = {}
        self._classes: dict[type, type] = {}
        self._stopped = False
        self._answers: dict[str, Denial | str] = {}  # by call: the request, or why there is none

    def supervise(self, agent: Any) -> Any:
        """Put the tools of an agent behind the Gate, and those of all agents that it may hand over to or call.

        The agents are changed, not copied: whoever has them already has them supervised.

        Raises:
            ConfigError: it has a tool whose calls can't be judged.
        """
        if not isinstance(agent, Agent):
            raise ConfigError(f"a {type(agent).__name__} can't be supervised: it is no Agent")
        if id(agent) in self._supervised:
            return agent
        self._supervised[id(agent)] = agent
        agent.tools[:] = [self._tool(each) for each in agent.tools]
        agent.__class__ = self._class(type(agent))
        agent.tool_use_behavior = _Behavior(agent.tool_use_behavior, lambda: self._stopped)
        for each in agent.handoffs:
            if isinstance(each, Handoff):
                each.on_invoke_handoff = self._handed_over(each.on_invoke_handoff)
                if (target := getattr(each, "_agent_ref", lambda: None)()) is not None:
                    self.supervise(target)
            else:
                self.supervise(each)
        return agent

    async def pause(self, result: Any) -> dict[str, Any]:
        """Ask the humans about what has interrupted a run, without waiting for them.

        Args:
            result: of `Runner.run`, with interruptions.

        Returns:
            What to write down, as JSON: the "state" of the run, and the "requests" by the ids of calls. Each is
            answered by our channels, or by `answer` with an identity that the app vouches for.
        """
        requests: dict[str, str] = {}
        for item in result.interruptions:
            found = self._answers.get(item.call_id) or await asyncio.to_thread(self._submitted, item)
            if found is not None:
                self._answers[item.call_id] = found
            if isinstance(found, str):
                requests[item.call_id] = found
        return {"state": result.to_state().to_json(), "requests": requests}

    async def answer(self, request: str, kind: AnswerKind, answered_by: AppUser, words: str = "") -> None:
        """Record what a user of the app has said. Whether it counts, the Gate says when the call is about to run.

        Args:
            request: the id of one of the requests that `pause` has returned.
            kind: approve, reject, or respond.
            answered_by: the user, as the app knows them.
            words: theirs, for the model.
        """
        await asyncio.to_thread(self._calls.answer, request, kind, answered_by, words)

    async def resume(self, agent: Any, saved: dict[str, Any]) -> Any:
        """Return the state with which `Runner.run` goes on, also in another process.

        Calls that still wait for a human interrupt it again. What has become of the others decides the Gate, when they
        are about to run.

        Args:
            agent: the supervised agent that the run began with.
            saved: from `pause`.
        """
        state = await RunState.from_json(agent, saved["state"])
        for item in state.get_interruptions():
            request = saved["requests"].get(item.call_id)
            if request is not None:
                self._answers[item.call_id] = request
            if request is None or not await asyncio.to_thread(self._calls.is_waiting, request):
                state.approve(item)
        return state

    # Tools

    def _tool(self, tool: Any) -> Any:
        """The tool, behind the Gate."""
        if not isinstance(tool, FunctionTool):
            if tool.name not in self._at_provider:
                raise ConfigError(
                    f"the calls of {tool.name} can't be judged: leave it out, give the agent a function tool for it, "
                    f"or name it in at_provider where it runs at the model's provider"
                )
            return tool
        if tool._is_agent_tool and tool._agent_instance is not None:  # to call it does nothing by itself
            self.supervise(tool._agent_instance)
            return tool
        inner = getattr(tool.on_invoke_tool, "_invoke_tool_impl", tool.on_invoke_tool)
        return tool if getattr(inner, "approvals", None) is self else self._gate_of(tool)

    def _gate_of(self, tool: Any) -> Any:
        gated = copy.copy(tool)
        invoker = gated.on_invoke_tool
        inner = getattr(invoker, "_invoke_tool_impl", invoker)  # what raises where the tool does

        async def invoke(context: Any, arguments: str) -> Any:
            given = _arguments(arguments)
            if given is None:
                return self._refusal(Denial(NO_OBJECT, by="policy"))
            answered = await self._answered(context.tool_call_id, tool.qualified_name, given)
            if isinstance(answered, Denial):
                return self._refusal(answered)
            async with self._calls.ause(answered, tool.qualified_name, given) as denial:
                return self._refusal(denial) if denial else await inner(context, arguments)

        vars(invoke).update(getattr(inner, "__dict__", {}), approvals=self)  # and what the SDK knows of it
        if inner is invoker:
            gated.on_invoke_tool = invoke
        else:
            gated.on_invoke_tool = type(invoker)(invoke, invoker._on_handled_error, function_tool=gated)
            vars(gated.on_invoke_tool).update({k: v for k, v in vars(invoker).items() if k.startswith("__")})
        if self._interrupts:
            gated.needs_approval = self._needs_approval(tool)
        return gated

    def _submitted(self, item: Any) -> Denial | str | None:
        """The request, or why there is none; None where no human is needed: it is judged when it is about to run."""
        given = _arguments(item.arguments or "")
        if given is None:
            return Denial(NO_OBJECT, by="policy")
        found = self._calls.submit(item.qualified_name or item.name, given, item.call_id)
        if isinstance(found, Permit):
            return None
        return found.id if isinstance(found, Waiting) else found

    async def _answered(self, call: str, name: str, given: dict[str, Any]) -> Permit | Denial:
        known = self._answers.pop(call, None)
        if known is None:
            return await self._calls.adecide(name, given)
        if not isinstance(known, str):
            return known
        found = await asyncio.to_thread(self._calls.collect, known, name, given)
        return Denial(WAITS, by="nobody", request_id=known) if isinstance(found, Waiting) else found

    def _needs_approval(self, tool: Any) -> Callable[[Any, dict[str, Any], str], Awaitable[bool]]:
        own = tool.needs_approval

        async def needs(context: Any, arguments: dict[str, Any], call: str) -> bool:
            if await asyncio.to_thread(self._calls.asks, tool.qualified_name, arguments):
                return True
            return bool(await own(context, arguments, call) if callable(own) else own)

        return needs

    def _refusal(self, denial: Denial) -> "_Refusal":
        made = _Refusal(told(denial))
        made.terminate = denial.terminate
        self._stopped = self._stopped or (denial.terminate and not denial.halted)
        return made

    def _class(self, kind: type) -> type:
        """The class of a supervised agent: tools that it gets later, or of MCP servers, are behind the Gate as well."""
        if kind not in self._classes:
            approvals, base = self, cast(Any, kind)

            async def get_all_tools(agent: Any, context: Any) -> list[Any]:
                return [approvals._tool(each) for each in await base.get_all_tools(agent, context)]

            names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "get_all_tools": get_all_tools}
            self._classes[kind] = type(kind.__name__, (kind,), names)
        return self._classes[kind]

    def _handed_over(self, invoke: Callable[[Any, str], Awaitable[Any]]) -> Callable[[Any, str], Awaitable[Any]]:
        async def invoked(context: Any, arguments: str) -> Any:
            return self.supervise(await invoke(context, arguments))

        return invoked


class _Refusal(str):
    """The output of a call that did not run."""

    terminate = False


class _Behavior:
    """What an agent does after its tools have run, as it was told; where the run was stopped, it ends."""

    def __init__(self, own: Any, stopped: Callable[[], bool]) -> None:
        self._own, self._stopped = own, stopped

    async def __call__(self, context: Any, results: list[Any]) -> Any:
        if self._stopped() or any(isinstance(each.output, _Refusal) and each.output.terminate for each in results):
            return ToolsToFinalOutputResult(True, farewell())
        own = self._own
        if callable(own):
            found = own(context, results)
            return await found if asyncio.iscoroutine(found) else found
        if own == "stop_on_first_tool":
            return ToolsToFinalOutputResult(True, results[0].output)
        names = own.get("stop_at_tool_names", []) if isinstance(own, dict) else []
        for each in results:
            if each.tool.name in names or each.tool.qualified_name in names:
                return ToolsToFinalOutputResult(True, each.output)
        return ToolsToFinalOutputResult(False)


def _arguments(text: str) -> dict[str, Any] | None:
    """What a tool is given; None where that is no object, or where two readers could find different things in it."""
    try:
        found = json.loads(text or "{}", object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a name stands twice")
    return found
