"""LangChain agents, and the LangGraph graphs that they are: a middleware that judges every call of a tool.

    agent = create_agent(model, tools, middleware=[..., ApprovalMiddleware(Gate.from_config())])

It stands last, so that it sees a call as it will run. Where a human is asked, the call waits for them, in place; with
`interrupt=True` the graph is interrupted instead, and its checkpointer keeps what waits.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from typing import Any

from humanlayer_agent.adapters import AppUser
from humanlayer_agent.adapters.tool_calls import (
    AT_PROVIDER,
    EDITED,
    UNKNOWN,
    ToolCalls,
    completed,
    farewell,
    shown,
    told,
)
from humanlayer_agent.agents.async_gate import AsyncGate
from humanlayer_agent.agents.python_gate import Gate
from humanlayer_agent.approvals.model import AnswerKind, Denial, Permit, Waiting
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.extras import lacks

try:
    from langchain.agents.middleware import AgentMiddleware, ToolCallRequest
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.func import task
    from langgraph.prebuilt import ToolRuntime
    from langgraph.types import interrupt
except ImportError as error:
    raise ConfigError(lacks("The middleware for LangChain", "langchain", error)) from error

__all__ = ["ApprovalMiddleware"]

Result = Any
"""What a handler returns: a ToolMessage, or a Command of the tool."""

NO_TOOL = "the agent has no tool of this name where its calls are judged"
"""Also where another middleware brings the tool: that one has to stand before."""

NOT_TAKEN = "Not executed: {name} does not take what it is given ({error}). Make the call with what it takes."

BYPASSED = (
    "another middleware had something else run than the tool that was judged: ApprovalMiddleware has to stand last"
)
"""Or it answered by itself, which can't be told from here."""


class ApprovalMiddleware(AgentMiddleware):
    """Judges each call of a tool, and runs it once, exactly as it was judged.

    What may not run is told to the model as a ToolMessage with status "error"; the others of the same message run.
    Where a human has stopped the run, every call gets such a message, and the model is not asked again.

    Args:
        gate: the Gate of the run.
        interrupt: where a human is asked, interrupt the graph instead of waiting in place. The agent needs a
            checkpointer. The value of the interrupt is that of LangChain's own ("tool_approval", its `per_call` mode)
            with the id of the `request`, and is resumed with the same decisions (approve, reject, respond) by the id of
            the interrupt. Whatever it is resumed with, an answer by one of our channels counts.
        answered_by: the user who resumes the graph, as the app knows them, or a function that says it of a call. What
            the graph is resumed with by them counts as this user's answer; where it is None, it decides nothing.
        at_provider: the types of tools that run at the model's provider and may be there, although nobody judges their
            calls ("web_search_20250305").

    Example::

            agent = create_agent(model, tools, middleware=[ApprovalMiddleware(Gate.from_config())])
            agent.invoke({"messages": "Tidy up"})
    """

    def __init__(
        self,
        gate: Gate | AsyncGate,
        *,
        interrupt: bool = False,
        answered_by: AppUser | Callable[[ToolCallRequest], AppUser | None] | None = None,
        at_provider: Collection[str] = (),
    ) -> None:
        super().__init__()
        if answered_by is not None and not interrupt:
            raise ConfigError("answered_by: without interrupt=True nobody answers by the app")
        self._calls = ToolCalls(gate)
        self._interrupts = interrupt
        self._answered_by = answered_by
        self._at_provider = frozenset(at_provider)

    # LangChain calls these

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        """Judge a call, and run it where it may."""
        call = _Call(request)
        if call.untaken is not None:
            return call.untaken
        if self._interrupts:
            kept = call.kept(task(name=_STEP)(call.submission(self._calls))().result())
            answered = self._resumed(call, kept)
        else:
            answered = self._calls.decide(call.name, call.arguments)
        if isinstance(answered, Denial):
            return call.denied(answered)
        guarded = _GuardedTool(self._calls, answered, call)
        return guarded.passed(handler(request.override(tool=guarded)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Judge a call, and run it where it may, without holding up the event loop."""
        call = _Call(request)
        if call.untaken is not None:
            return call.untaken
        if self._interrupts:
            submission = call.submission(self._calls)

            async def submitted() -> dict[str, str]:
                return await asyncio.to_thread(submission)

            kept = call.kept(await task(name=_STEP)(submitted)())
            answered = await asyncio.to_thread(self._resumed, call, kept)
        else:
            answered = await self._calls.adecide(call.name, call.arguments)
        if isinstance(answered, Denial):
            return call.denied(answered)
        guarded = _GuardedTool(self._calls, answered, call)
        return guarded.passed(await handler(request.override(tool=guarded)))

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Ask the model, unless the run was stopped.

        Raises:
            ConfigError: there is a tool whose calls can't be judged.
        """
        self._refuse_at_provider(request.tools)
        return _stopped(request.messages) or handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Ask the model, unless the run was stopped.

        Raises:
            ConfigError: there is a tool whose calls can't be judged.
        """
        self._refuse_at_provider(request.tools)
        return _stopped(request.messages) or await handler(request)

    # Ours

    def _refuse_at_provider(self, tools: list[Any]) -> None:
        for tool in tools:
            kind = str(tool.get("type") or next(iter(tool), "")) if isinstance(tool, dict) else "function"
            if kind != "function" and kind not in self._at_provider:
                raise ConfigError(AT_PROVIDER.format(kind))

    def _resumed(self, call: "_Call", kept: Permit | Denial | str) -> Permit | Denial:
        """What became of a call: where it waits for a human, the graph is interrupted, and does this again later.

        It then first gets everything again that it was ever resumed with. What counts is what it is resumed with now,
        by the id of its interrupt: that is the answer of the user of now. Anything else may have been stored by a
        process that was killed, and be the answer of somebody else.
        """
        if not isinstance(kept, str):
            return kept
        found = self._calls.collect(kept, call.name, call.arguments)
        while isinstance(found, Waiting):
            given = interrupt(call.approval_request(found))
            kind, words, edited = _decision(given)
            user = self._user(call) if kind is not None and call.is_said_now(given) else None
            if user is not None and kind is not None:
                self._calls.answer(kept, kind, user, words)
            found = self._calls.collect(kept, call.name, call.arguments)
            if edited and user is not None and isinstance(found, Denial):
                found = replace(found, reason=EDITED, edited=edited)
        return found

    def _user(self, call: "_Call") -> AppUser | None:
        return self._answered_by(call.request) if callable(self._answered_by) else self._answered_by


_BY_ID = (
    "Warning: an answer to a graph was not counted: nobody can tell when it was given. Resume the graph by the id of "
    "its interrupt: Command(resume={interrupt.id: ...})."
)

_STEP = "humanlayer"
"""The name of the steps in which a graph keeps the id of a request."""

_RESUME_MAP = "__pregel_resume_map"
"""Where a graph's configuration has what it is resumed with, by the ids of interrupts, while that goes on. No
checkpointer keeps it. Were it called otherwise, no answer by the app would count.
"""


class _Call:
    """A call of a tool, as it reaches the middleware."""

    def __init__(self, request: ToolCallRequest) -> None:
        self.request = request
        self.name = str(request.tool_call["name"])
        self.arguments: dict[str, Any] = {}
        self.untaken: ToolMessage | None = None
        """What the model is told where the tool would not take what it is given, so that nothing can be judged."""
        self._answered: Permit | Denial | None = None
        if request.tool is None:
            self.untaken = self.denied(Denial(NO_TOOL, by="policy"))
            return
        try:
            self.arguments, _ = self.taken(request.tool_call["args"], whole=False)
        except Exception as error:
            self.untaken = self._failed(NOT_TAKEN.format(name=self.name, error=error))

    @property
    def key(self) -> str:
        """What names this call in this graph, also when it is resumed."""
        place = self.request.runtime.config.get("configurable", {})
        return "/".join(
            str(each) for each in (place.get("thread_id"), place.get("checkpoint_ns"), self.request.tool_call["id"])
        )

    def submission(self, calls: ToolCalls) -> Callable[[], dict[str, str]]:
        """What is done once, and what the graph keeps of it: the id of the request, or that none was needed."""

        def submitted() -> dict[str, str]:
            found = calls.submit(self.name, self.arguments, self.key)
            if isinstance(found, Waiting):
                return {"request": found.id}
            self._answered = found
            return {"denied": found.reason} if isinstance(found, Denial) else {}

        return submitted

    def kept(self, step: dict[str, str]) -> Permit | Denial | str:
        """What the step has led to, now or before the graph was interrupted: a request's id, or the answer."""
        if self._answered is not None:
            return self._answered
        return step.get("request") or Denial(step.get("denied", UNKNOWN), by="policy")

    def is_said_now(self, given: object) -> bool:
        """Tell whether this is what the graph is resumed with now, and not what it was resumed with once."""
        said = self.request.runtime.config.get("configurable", {}).get(_RESUME_MAP)
        if any(each is given for each in (said or {}).values()):
            return True
        if not said:
            logging.getLogger("humanlayer_agent").warning(_BY_ID)
        return False

    def approval_request(self, waiting: Waiting) -> dict[str, Any]:
        return {
            "type": "tool_approval",
            "tool_call_id": self.request.tool_call["id"],
            "name": self.name,
            "args": self.arguments,
            "description": waiting.request.decision.reason,
            "request": waiting.id,
        }

    def taken(self, arguments: Mapping[str, Any], *, whole: bool) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return what the tool makes of arguments, by its own schema: it adds defaults, makes numbers of texts, and
        leaves out what it does not take.

        Args:
            whole: what the graph itself puts in is among them: its state, its store, the runtime.

        Returns:
            As it is judged and shown; and as the tool gets it, None where that is what it is given.

        Raises:
            ValueError: it does not take them, or the model has written what only the graph puts in.
        """
        tool: Any = self.request.tool
        schema = tool.tool_call_schema
        hidden = set(getattr(tool, "_injected_args_keys", ()))
        whole_schema = None if isinstance(schema, dict) else tool.get_input_schema()
        if whole_schema is not None:
            hidden |= set(whole_schema.model_fields) - set(schema.model_fields)
        if not whole and (written := (hidden | _other_names(whole_schema, hidden)) & set(arguments)):
            raise ValueError(f"the tool takes no {min(written)} of a model")
        if isinstance(schema, dict):  # it checks nothing: the tool gets them as they are
            plain = {k: v for k, v in arguments.items() if k not in hidden and not isinstance(v, ToolRuntime)}
            return shown(self.name, completed(schema, plain)), None
        reader = tool if whole or not hidden else tool.model_copy(update={"args_schema": schema})
        found = reader._parse_input(dict(arguments), self.request.tool_call["id"])
        return shown(self.name, {k: v for k, v in found.items() if k not in hidden}), found

    def seen(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return what is about to run, as `taken`; where the tool does not take it, as it stands there."""
        try:
            return self.taken(arguments, whole=True)
        except Exception:
            return dict(arguments), None

    def denied(self, denial: Denial) -> ToolMessage:
        about = {"by": denial.by, "request": denial.request_id, "terminate": denial.terminate}
        return self._failed(told(denial), artifact={_STEP: about})

    def _failed(self, text: str, **more: Any) -> ToolMessage:
        id = self.request.tool_call["id"]
        return ToolMessage(text, name=self.name, tool_call_id=id, status="error", **more)


def _other_names(schema: Any, fields: Collection[str]) -> set[str]:
    """Return by what other names a schema takes some of its fields: pydantic's aliases, and how their paths begin."""
    found = set()
    for name in fields:
        field = schema.model_fields.get(name) if schema is not None else None
        for alias in (getattr(field, "alias", None), getattr(field, "validation_alias", None)):
            for each in getattr(alias, "choices", [alias]):
                found.add(str(getattr(each, "path", [each])[0]))
    return found


class _GuardedTool:
    """A tool that runs for one permit, with what was judged and nothing else: other middleware may change a call."""

    def __init__(self, calls: ToolCalls, permit: Permit, call: _Call) -> None:
        self._calls, self._permit, self._call = calls, permit, call
        self._reached = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call.request.tool, name)

    def invoke(self, call: dict[str, Any], config: Any = None, **more: Any) -> Any:
        self._reached = True
        judged, given = self._call.seen(call["args"])
        with self._calls.use(self._permit, call["name"], judged) as denial, _given(given):
            return self._call.denied(denial) if denial else self._tool(given).invoke(call, config, **more)

    async def ainvoke(self, call: dict[str, Any], config: Any = None, **more: Any) -> Any:
        self._reached = True
        judged, given = self._call.seen(call["args"])
        async with self._calls.ause(self._permit, call["name"], judged) as denial:
            with _given(given):
                return self._call.denied(denial) if denial else await self._tool(given).ainvoke(call, config, **more)

    def _tool(self, given: dict[str, Any] | None) -> Any:
        """The tool; where it would validate what it is given once more, as a twin that has it as it was judged."""
        tool = self._call.request.tool
        return tool if given is None else _twin(tool)

    def passed(self, result: Result) -> Result:
        """The result, where it is the tool's or says that there is none. Whatever else ran was not judged."""
        if self._reached or getattr(result, "status", "") == "error":
            return result
        self._calls.gate.stop(BYPASSED)
        return self._call.denied(Denial(BYPASSED, by="policy", terminate=True))


_VALIDATED: ContextVar[list[dict[str, Any]]] = ContextVar("humanlayer_validated")
"""What the tool that is about to run gets: taken out by it, once."""


@contextmanager
def _given(validated: dict[str, Any] | None) -> Iterator[None]:
    token = _VALIDATED.set([] if validated is None else [validated])
    try:
        yield
    finally:
        _VALIDATED.reset(token)


def _twin(tool: Any) -> Any:
    """Return the same tool, with the same state, which takes what was validated and does not do that again.

    A validator may make something else of the same arguments each time.
    """
    kind: Any = type(tool)
    twin = object.__new__(_twin_kind(kind))
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"):
        object.__setattr__(twin, name, getattr(tool, name))
    return twin


@lru_cache(maxsize=256)
def _twin_kind(kind: Any) -> Any:
    def parse_input(self: Any, tool_input: Any, tool_call_id: str | None) -> Any:
        validated = _VALIDATED.get([])
        return validated.pop() if validated else kind._parse_input(self, tool_input, tool_call_id)

    return type(kind)(kind.__name__, (kind,), {"_parse_input": parse_input, "__module__": kind.__module__})


def _decision(given: object) -> tuple[AnswerKind | None, str, str]:
    """What a graph is resumed with: the kind of the answer, the words, and what an edit makes of the call."""
    if not isinstance(given, dict) or given.get("type") not in ("approve", "reject", "respond", "edit"):
        return None, "", ""
    if given["type"] == "edit":
        return "reject", "", json.dumps(given.get("edited_action"), ensure_ascii=False, default=str)
    kind: AnswerKind = given["type"]
    return kind, str(given.get("message") or ""), ""


def _stopped(messages: list[Any]) -> AIMessage | None:
    """The last message of a run that a human has stopped; None where it goes on."""
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            return None
        ours = message.artifact.get(_STEP) if isinstance(message.artifact, dict) else None
        if ours and ours["terminate"]:
            return AIMessage(farewell())
    return None
