"""A LangChain agent."""

import asyncio
import sqlite3
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from humanlayer_agent import Gate
from humanlayer_agent.adapters import AppUser
from humanlayer_agent.adapters.langchain import ApprovalMiddleware
from tests.adapters.scenes import TOOL, Run, Scene


class Scripted(BaseChatModel):
    """Calls the tool, all calls in one message, and is done with the next one."""

    calls: list[Any]
    name_of_tool: str = TOOL
    asked: list[int]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *tools: Any, **more: Any) -> "Scripted":
        return self

    def _generate(self, messages: list[Any], *args: Any, **more: Any) -> ChatResult:
        self.asked.append(1)
        message = AIMessage("done")
        if not any(isinstance(each, AIMessage) for each in messages):
            given = [each if isinstance(each, dict) else {"what": each} for each in self.calls]
            calls = [{"name": self.name_of_tool, "args": args, "id": f"c{n}"} for n, args in enumerate(given)]
            message = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


class Changing(AgentMiddleware):
    """Changes what the tool is given, where nobody judges it any more."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(tool_call={**request.tool_call, "args": {"what": "other"}}))


class Replacing(AgentMiddleware):
    """Runs another tool than the one that was judged."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(
            request.override(tool=StructuredTool.from_function(lambda what: what, name=TOOL, description="x"))
        )


class Driver:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.tool = StructuredTool.from_function(scene.act, name=TOOL, description="Acts.")

    def run(self, gate: Gate, *calls: str, inner: tuple[Any, ...] = ()) -> Run:
        model = Scripted(calls=list(calls), asked=[])
        agent = create_agent(model, [self.tool], middleware=[ApprovalMiddleware(gate), *inner])
        return _told(agent.invoke({"messages": "go"}), model)

    def run_async(self, gate: Gate, *calls: str) -> Run:
        model = Scripted(calls=list(calls), asked=[])
        agent = create_agent(model, [self.tool], middleware=[ApprovalMiddleware(gate)])
        return _told(asyncio.run(agent.ainvoke({"messages": "go"})), model)

    def run_changed(self, gate: Gate, *calls: str) -> Run:
        return self.run(gate, *calls, inner=(Changing(),))

    def run_bypassed(self, gate: Gate, *calls: str) -> Run:
        return self.run(gate, *calls, inner=(Replacing(),))

    def run_retried(self, gate: Gate, *calls: str) -> Run:
        return self.run(gate, *calls, inner=(ToolRetryMiddleware(max_retries=2, initial_delay=0),))

    def example(self, gate: Gate, arguments: dict[str, Any]) -> str:
        example = self.scene.example("langchain_agent")
        return str(example.close(Scripted(calls=[arguments], name_of_tool="close_account", asked=[]), gate))

    def pause(self, gate: Gate, *calls: str) -> Run:
        return self._durable(gate, calls, {"messages": "go"}, None)

    def resume(self, gate: Gate, answers: dict[str, Any], by: str = "app:alice", calls: tuple[str, ...] = ()) -> Run:
        return self._durable(gate, calls, answers, AppUser(by, "login"))

    def _durable(self, gate: Gate, calls: tuple[str, ...], given: Any, user: AppUser | None) -> Run:
        model = Scripted(calls=list(calls), asked=[])
        with sqlite3.connect(self.scene.folder / "graph.db", check_same_thread=False) as database:
            agent = create_agent(
                model,
                [self.tool],
                middleware=[ApprovalMiddleware(gate, interrupt=True, answered_by=user)],
                checkpointer=SqliteSaver(database),
            )
            thread: Any = {"configurable": {"thread_id": "1"}}
            if "messages" not in given:
                names = {i.value["args"]["what"]: i.id for i in agent.get_state(thread).interrupts}
                resumed = {names[what]: _decision(*answer) for what, answer in given.items()}
                given = Command(resume=resumed) if resumed else None
            return _told(agent.invoke(given, thread, durability="sync"), model)


def _told(state: dict[str, Any], model: Scripted) -> Run:
    paused = tuple(i.value["args"]["what"] for i in state.get("__interrupt__", ()))
    told = [(m.text, m.status == "error") for m in state["messages"] if isinstance(m, ToolMessage)]
    return Run(told, len(model.asked), paused)


def _decision(kind: str, words: str) -> dict[str, Any]:
    if kind == "edit":
        return {"type": "edit", "edited_action": {"name": TOOL, "args": {"what": words}}}
    return {"type": kind, "message": words}
