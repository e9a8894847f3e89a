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
from typing import Any, NamedTuple, cast

from humanlayer_agent.adapters import AppUser
from humanlayer_agent.adapters.tool_calls import ToolCalls, completed, farewell, told
from humanlayer_agent.agents.async_gate import AsyncGate
from humanlayer_agent.agents.python_gate import Gate
from humanlayer_agent.approvals.model import AnswerKind, Denial, Permit, Waiting
from humanlayer_agent.errors import ActionDenied, ConfigError
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
        self._gated: dict[str, dict[str, Any]] = {}  # by an agent's name, and by theirs, its tools behind the Gate
        self._answers: dict[
            _Call, tuple[str, Denial | str]
        ] = {}  # the conversation, and the request or why there is none

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
        agent.tool_use_behavior = _Behavior(agent.tool_use_behavior, self._is_stopped)
        self._supervise_handoffs(agent)
        return agent

    async def pause(self, result: Any, conversation: str = "") -> dict[str, Any]:
        """Ask the humans about what has interrupted a run, without waiting for them.

        What interrupts it for another reason (a hosted MCP server that wants approval, an agent that is a tool with a
        `needs_approval` of its own) is left to the app and its `state.approve`.

        Args:
            result: of `Runner.run`, with interruptions.
            conversation: names the conversation among all that the Gate's agent has; where it is empty, the SDK's
                `conversation_id` does. Where there is neither, two calls with the same id and the same arguments are
                one.

        Returns:
            What to write down, as JSON: the "state" of the run, the "requests" by the ids of calls, the ids of calls
            that are "decided" without one, and the "conversation". Each request is answered by our channels, or by
            `answer` with an identity that the app vouches for.
        """
        conversation = conversation or getattr(result, "_conversation_id", None) or ""
        requests: dict[str, str] = {}
        decided: list[str] = []
        for item in result.interruptions:
            tool = self._gated.get(item.agent.name, {}).get(_name(item))
            if tool is None or not _is_function_call(item):
                continue
            found = await asyncio.to_thread(self._submitted, item, tool, conversation)
            if isinstance(found, str):
                requests[item.call_id] = found
            else:
                decided.append(item.call_id)
        state = result.to_state().to_json()
        return {"state": state, "requests": requests, "decided": decided, "conversation": conversation}

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

        Calls that still wait for a human interrupt it again, and so does what `pause` has left to the app: it is in
        `state.get_interruptions()`. What has become of the others decides the Gate, when they are about to run.

        Args:
            agent: the supervised agent that the run began with.
            saved: from `pause`.
        """
        state = await RunState.from_json(agent, saved["state"])
        for item in filter(_is_function_call, state.get_interruptions()):
            request = saved["requests"].get(item.call_id)
            if request is not None:
                self._answers[_call(item)] = (saved["conversation"], request)
                if not await asyncio.to_thread(self._calls.is_waiting, request):
                    state.approve(item)
            elif item.call_id in saved["decided"]:
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
        if self._is_gated(tool):
            return tool
        if self._interrupts and tool.needs_approval is not False:
            raise ConfigError(
                f"{tool.name} has a needs_approval of its own, whose answer would not be the Gate's: leave that out, "
                f"and have the policy ask about the tool"
            )
        return self._gate_of(tool)

    def _is_gated(self, tool: Any) -> bool:
        invoker = getattr(tool, "on_invoke_tool", None)
        return getattr(getattr(invoker, "_invoke_tool_impl", invoker), "approvals", None) is self

    def _gate_of(self, tool: Any) -> Any:
        gated = copy.copy(tool)
        invoker = gated.on_invoke_tool
        inner = getattr(invoker, "_invoke_tool_impl", invoker)  # what raises where the tool does

        async def invoke(context: Any, arguments: str) -> Any:
            call = _Call(context.tool_call_id, tool.qualified_name, arguments)
            try:
                given = completed(tool.params_json_schema, _arguments(arguments))
            except Exception as error:
                return self._refusal(Denial(str(error), by="policy"))
            answered = await self._answered(call, given)
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
            gated.needs_approval = self._needs_approval(tool.qualified_name, tool.params_json_schema)
        return gated

    def _submitted(self, item: Any, tool: Any, conversation: str) -> Denial | str | None:
        """The request, or why there is none; None where no human is needed: it is judged when it is about to run."""
        call = _call(item)
        before, known = self._answers.get(call, ("", None))
        if known is not None and before == conversation:
            return known
        key = json.dumps([conversation, call.id])
        try:
            given = completed(tool.params_json_schema, _arguments(call.arguments))
        except Exception as error:
            return Denial(str(error), by="policy")
        found = self._calls.submit(call.name, given, key)
        if isinstance(found, Permit):
            return None
        known = found.id if isinstance(found, Waiting) else found
        self._answers[call] = (conversation, known)
        return known

    async def _answered(self, call: "_Call", given: dict[str, Any]) -> Permit | Denial:
        _, known = self._answers.pop(call, ("", None))
        if known is None:
            return await self._calls.adecide(call.name, given)
        if not isinstance(known, str):
            return known
        found = await asyncio.to_thread(self._calls.collect, known, call.name, given)
        return Denial(WAITS, by="nobody", request_id=known) if isinstance(found, Waiting) else found

    def _needs_approval(self, name: str, schema: Any) -> Callable[[Any, dict[str, Any], str], Awaitable[bool]]:
        async def needs(context: Any, arguments: dict[str, Any], call: str) -> bool:
            try:
                given = completed(schema, arguments)
            except Exception:
                return False  # nobody is asked: it is denied when it is about to run
            return await asyncio.to_thread(self._calls.asks, name, given)

        return needs

    def _is_stopped(self) -> bool:
        return self._stopped or self._calls.is_halted()

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
                approvals._supervise_handoffs(agent)
                tools = [approvals._tool(each) for each in await base.get_all_tools(agent, context)]
                ungated = {each.name for each in tools if not approvals._is_gated(each)}
                approvals._gated[agent.name] = {
                    each.qualified_name: each
                    for each in tools
                    if approvals._is_gated(each) and each.name not in ungated
                }
                return tools

            names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "get_all_tools": get_all_tools}
            self._classes[kind] = type(kind.__name__, (kind,), names)
        return self._classes[kind]

    def _supervise_handoffs(self, agent: Any) -> None:
        """Supervise the agents that an agent may hand over to by now."""
        for each in agent.handoffs:
            if not isinstance(each, Handoff):
                self.supervise(each)
                continue
            if getattr(each.on_invoke_handoff, "approvals", None) is not self:
                each.on_invoke_handoff = self._handed_over(each)
            if (target := getattr(each, "_agent_ref", lambda: None)()) is not None:
                self.supervise(target)

    def _handed_over(self, handoff: Any) -> Callable[[Any, str], Awaitable[Any]]:
        """Return what supervises whom a handoff leads to, and judges it as a call of a tool where it runs code.

        Where that may not run it raises ActionDenied: no result tells a model that it goes on itself.
        """
        invoke, runs_code = handoff.on_invoke_handoff, _runs_code(handoff)

        async def invoked(context: Any, arguments: str) -> Any:
            if not runs_code:
                return self.supervise(await invoke(context, arguments))
            try:
                given = completed(handoff.input_json_schema, _arguments(arguments))
            except ValueError as error:
                raise ActionDenied(Denial(str(error), by="policy")) from None
            answered = await self._calls.adecide(handoff.tool_name, given)
            if isinstance(answered, Denial):
                raise ActionDenied(answered)
            async with self._calls.ause(answered, handoff.tool_name, given) as denial:
                if denial is not None:
                    raise ActionDenied(denial)
                return self.supervise(await invoke(context, arguments))

        vars(invoked).update(approvals=self)
        return invoked


class _Call(NamedTuple):
    """A call of a tool: a provider's id alone may name one of another conversation as well."""

    id: str
    name: str
    arguments: str


class _Refusal(str):
    """The output of a call that did not run."""

    terminate = False


class _Behavior:
    """What an agent does after its tools have run, as it was told; where the run was stopped, it ends."""

    def __init__(self, own: Any, stopped: Callable[[], bool]) -> None:
        self._own, self._stopped = own, stopped

    async def __call__(self, context: Any, results: list[Any]) -> Any:
        if await asyncio.to_thread(self._stopped) or any(
            isinstance(each.output, _Refusal) and each.output.terminate for each in results
        ):
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


def _runs_code(handoff: Any) -> bool:
    """Tell whether a handoff may do more than hand over: it has an `on_handoff`, or is none of the SDK's own making."""
    made = getattr(handoff.on_invoke_handoff, "args", (handoff.on_invoke_handoff,))[-1]
    names = getattr(getattr(made, "__code__", None), "co_freevars", ())
    cells = getattr(made, "__closure__", None) or ()
    return "on_handoff" not in names or cells[names.index("on_handoff")].cell_contents is not None


def _is_function_call(item: Any) -> bool:
    raw = item.raw_item
    return (raw.get("type") if isinstance(raw, dict) else getattr(raw, "type", None)) == "function_call"


def _name(item: Any) -> str:
    return str(item.qualified_name or item.name or "")


def _call(item: Any) -> _Call:
    return _Call(item.call_id, _name(item), item.arguments or "")


def _arguments(text: str) -> dict[str, Any]:
    """What a tool is given; a ValueError where that is no object, or where two readers could find different things."""
    try:
        found = json.loads(text or "{}", object_pairs_hook=_once)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(NO_OBJECT)
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a name stands twice")
    return found
