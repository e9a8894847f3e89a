"""An agent of PydanticAI."""

import asyncio
import json
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool, ToolApproved, ToolDenied
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from humanlayer_agent import Gate
from humanlayer_agent.adapters import AppUser
from humanlayer_agent.adapters.pydantic_ai import ToolApprovals
from tests.adapters.scenes import TOOL, Run, Scene


class Scripted:
    """Calls the tool, all calls in one message, and is done with the next one."""

    def __init__(self, calls: tuple[Any, ...], name: str = TOOL) -> None:
        self.given = [each if isinstance(each, dict) else {"what": each} for each in calls]
        self.name, self.asked = name, 0
        self.model = FunctionModel(self.answer, stream_function=self.stream)

    def answer(self, messages: list[Any], info: Any) -> ModelResponse:
        self.asked += 1
        if any(isinstance(each, ModelResponse) for each in messages):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart(self.name, args, f"c{n}") for n, args in enumerate(self.given)])

    async def stream(self, messages: list[Any], info: Any) -> Any:
        for n, part in enumerate(self.answer(messages, info).parts):
            if isinstance(part, TextPart):
                yield part.content
            else:
                yield {n: DeltaToolCall(part.tool_name, json.dumps(part.args), tool_call_id=part.tool_call_id)}


class Changing(AbstractCapability):
    """Changes what the tool is given, as near to the tool as it can stand."""

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        return {"what": "deny other"}


class Retrying(AbstractCapability):
    """Tries a tool again that fails."""

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        try:
            return await handler(args)
        except ValueError:
            return await handler(args)


class Driver:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def agent(self, scripted: Scripted, approvals: Any, *more: Any) -> Any:
        return Agent(
            scripted.model,
            tools=[Tool(self.scene.act, name=TOOL, takes_ctx=False)],
            output_type=[str, DeferredToolRequests],
            capabilities=[approvals, *more],
        )

    def run(self, gate: Gate, *calls: str, more: tuple[Any, ...] = ()) -> Run:
        scripted = Scripted(calls)
        return _told(self.agent(scripted, ToolApprovals(gate), *more).run_sync("go"), scripted)

    def run_streamed(self, gate: Gate, *calls: str) -> Run:
        async def streamed() -> Any:
            async with self.agent(scripted, ToolApprovals(gate)).run_stream("go") as result:
                await result.get_output()
                return result

        scripted = Scripted(calls)
        return _told(asyncio.run(streamed()), scripted)

    def run_changed(self, gate: Gate, *calls: str) -> Run:
        return self.run(gate, *calls, more=(Changing(),))

    def run_retried(self, gate: Gate, *calls: str) -> Run:
        return self.run(gate, *calls, more=(Retrying(),))

    def example(self, gate: Gate, arguments: dict[str, Any]) -> str:
        return str(
            self.scene.example("pydantic_ai_approval").close(Scripted((arguments,), "close_account").model, gate)
        )

    def pause(self, gate: Gate, *calls: str) -> Run:
        scripted = Scripted(calls)
        result = self.agent(scripted, ToolApprovals(gate, defer=True)).run_sync("go")
        saved = {
            "messages": json.loads(result.all_messages_json()),
            "approvals": [[c.tool_call_id, c.tool_name, c.args] for c in result.output.approvals],
            "metadata": result.output.metadata,
        }
        (self.scene.folder / "saved.json").write_text(json.dumps(saved))
        return _told(result, scripted)

    def resume(self, gate: Gate, answers: dict[str, Any], by: str = "app:alice") -> Run:
        saved = json.loads((self.scene.folder / "saved.json").read_text())
        calls = [ToolCallPart(name, args, call) for call, name, args in saved["approvals"]]
        requests = DeferredToolRequests(approvals=calls, metadata=saved["metadata"])
        given = {c.tool_call_id: _answer(*answers[c.args["what"]]) for c in calls if c.args["what"] in answers}
        approvals, scripted = ToolApprovals(gate, defer=True), Scripted(())
        results = asyncio.run(
            approvals.results(requests, DeferredToolResults(approvals=given), answered_by=AppUser(by, "login"))
        )
        history = ModelMessagesTypeAdapter.validate_python(saved["messages"])
        agent = self.agent(scripted, approvals)
        return _told(agent.run_sync(message_history=history, deferred_tool_results=results), scripted)


def _answer(kind: str, words: str) -> Any:
    if kind == "edit":
        return ToolApproved(override_args={"what": words})
    return True if kind == "approve" else ToolDenied(words)


def _told(result: Any, scripted: Scripted) -> Run:
    parts = [p for m in result.all_messages() for p in m.parts if isinstance(p, ToolReturnPart)]
    told = [(str(p.content), p.outcome != "success") for p in sorted(parts, key=lambda p: p.tool_call_id)]
    output = getattr(result, "output", None)
    paused = output.approvals if isinstance(output, DeferredToolRequests) else []
    return Run(told, scripted.asked, tuple(p.args["what"] for p in paused))
