"""An agent of the OpenAI Agents SDK."""

import asyncio
import json
from typing import Any

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.mcp import MCPServer
from agents.testing import ScriptedModel, assistant_message, function_call
from mcp import types

from humanlayer_agent import Gate
from humanlayer_agent.adapters import AppUser
from humanlayer_agent.adapters.openai_agents import ToolApprovals
from tests.adapters.scenes import TOOL, Run, Scene

set_tracing_disabled(True)


def scripted(calls: tuple[Any, ...], name: str = TOOL) -> ScriptedModel:
    given = [each if isinstance(each, dict) else {"what": each} for each in calls]
    made = [function_call(name, args, call_id=f"c{n}") for n, args in enumerate(given)]
    return ScriptedModel([made, [assistant_message("done")]] if made else [[assistant_message("done")]])


class Server(MCPServer):
    """An MCP server with the tool."""

    name = "server"

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.scene = scene

    async def connect(self) -> None: ...
    async def cleanup(self) -> None: ...
    async def list_prompts(self) -> Any: ...
    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...

    async def list_tools(self, *more: Any) -> list[Any]:
        properties = {"what": {"type": "string"}}
        return [types.Tool(name=TOOL, inputSchema={"type": "object", "properties": properties})]

    async def call_tool(self, tool_name: str, arguments: Any, *more: Any, **meta: Any) -> Any:
        return types.CallToolResult(content=[types.TextContent(type="text", text=self.scene.act(**arguments))])


class Driver:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.tool = function_tool(scene.act, name_override=TOOL)

    def run(self, gate: Gate, *calls: str) -> Run:
        model = scripted(calls)
        agent = ToolApprovals(gate).supervise(Agent(name="a", model=model, tools=[self.tool]))
        return _told(asyncio.run(Runner.run(agent, "go")), model)

    def run_streamed(self, gate: Gate, *calls: str) -> Run:
        async def streamed() -> Any:
            result = Runner.run_streamed(agent, "go")
            async for _ in result.stream_events():
                pass
            return result

        model = scripted(calls)
        agent = ToolApprovals(gate).supervise(Agent(name="a", model=model, tools=[self.tool]))
        return _told(asyncio.run(streamed()), model)

    def run_handed_over(self, gate: Gate, *calls: str) -> Run:
        model = scripted(calls)
        inner = Agent(name="inner", model=model, tools=[self.tool])
        outer = Agent(
            name="outer", model=ScriptedModel([[function_call("transfer_to_inner", {}, call_id="h")]]), handoffs=[inner]
        )
        return _told(asyncio.run(Runner.run(ToolApprovals(gate).supervise(outer), "go")), model)

    def run_in_a_tool(self, gate: Gate, *calls: str) -> Run:
        model = scripted(calls)
        inner = Agent(name="inner", model=model, tools=[self.tool])
        asked = [[function_call("sub", {"input": "go"}, call_id="s")], [assistant_message("done")]]
        outer = Agent(name="outer", model=ScriptedModel(asked), tools=[inner.as_tool("sub", "A sub-agent.")])
        asyncio.run(Runner.run(ToolApprovals(gate).supervise(outer), "go"))
        return _heard(model)

    def run_mcp(self, gate: Gate, *calls: str) -> Run:
        model = scripted(calls)
        agent = ToolApprovals(gate).supervise(Agent(name="a", model=model, mcp_servers=[Server(self.scene)]))
        return _told(asyncio.run(Runner.run(agent, "go")), model)

    def run_later_tool(self, gate: Gate, *calls: str) -> Run:
        model = scripted(calls)
        agent = ToolApprovals(gate).supervise(Agent(name="a", model=model))
        agent.tools.append(self.tool)
        return _told(asyncio.run(Runner.run(agent.clone(instructions="x"), "go")), model)

    def example(self, gate: Gate, arguments: dict[str, Any]) -> str:
        example = self.scene.example("openai_agents_approval")
        return str(asyncio.run(example.close(scripted((arguments,), "close_account"), gate)))

    def pause(self, gate: Gate, *calls: str) -> Run:
        async def paused() -> Run:
            model = scripted(calls)
            approvals = ToolApprovals(gate, interrupt=True)
            agent = approvals.supervise(Agent(name="a", model=model, tools=[self.tool]))
            result = await Runner.run(agent, "go")
            saved = await approvals.pause(result)
            (self.scene.folder / "saved.json").write_text(json.dumps(saved))
            return _told(result, model)

        return asyncio.run(paused())

    def resume(self, gate: Gate, answers: dict[str, Any], by: str = "app:alice") -> Run:
        async def resumed() -> Run:
            model = scripted(())
            approvals = ToolApprovals(gate, interrupt=True)
            agent = approvals.supervise(Agent(name="a", model=model, tools=[self.tool]))
            saved = json.loads((self.scene.folder / "saved.json").read_text())
            waits = {
                i["raw_item"]["call_id"]: json.loads(i["raw_item"]["arguments"])["what"] for i in _interruptions(saved)
            }
            for call, request in saved["requests"].items():
                if waits[call] in answers:
                    kind, words = answers[waits[call]]
                    await approvals.answer(request, kind, AppUser(by, "login"), words)
            return _told(await Runner.run(agent, await approvals.resume(agent, saved)), model)

        return asyncio.run(resumed())


def _interruptions(saved: dict[str, Any]) -> Any:
    return saved["state"]["current_step"]["data"]["interruptions"]


def _told(result: Any, model: ScriptedModel) -> Run:
    paused = tuple(json.loads(each.arguments)["what"] for each in result.interruptions)
    outputs = {
        i["call_id"]: _text(i["output"]) for i in result.to_input_list() if i.get("type") == "function_call_output"
    }
    outputs.pop("h", None)
    return Run(
        [(t, t.startswith(("Not executed", "An error"))) for _, t in sorted(outputs.items())], len(model.calls), paused
    )


def _heard(model: ScriptedModel) -> Run:
    last = model.calls[-1].input
    outputs = [_text(i["output"]) for i in last if i.get("type") == "function_call_output"]
    return Run([(t, t.startswith(("Not executed", "An error"))) for t in outputs], len(model.calls))


def _text(output: Any) -> str:
    return output if isinstance(output, str) else "".join(each["text"] for each in output)
