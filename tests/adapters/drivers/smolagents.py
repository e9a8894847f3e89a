"""Agents of smolagents."""

import re
from typing import Any

from smolagents import AgentError, ChatMessage, CodeAgent, MessageRole, Model, Tool, ToolCallingAgent
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

from humanlayer_agent import Gate
from humanlayer_agent.adapters.smolagents import ToolApprovals
from tests.adapters.scenes import TOOL, Run, Scene


class Scripted(Model):
    """Calls the tool, all calls in one message, and is done with the next one; or writes code, and is done then."""

    def __init__(self, calls: tuple[Any, ...], name: str = TOOL, code: str = "") -> None:
        super().__init__()
        self.given = [each if isinstance(each, dict) else {"what": each} for each in calls]
        self.name, self.code, self.asked = name, code, 0
        self.heard: list[Any] = []

    def generate(self, messages: list[Any], *args: Any, **more: Any) -> ChatMessage:
        self.asked += 1
        self.heard = messages
        first = self.asked == 1
        if self.code:
            return ChatMessage(MessageRole.ASSISTANT, f"<code>\n{self.code if first else 'final_answer(1)'}\n</code>")
        calls = [(self.name, each) for each in self.given] if first else [("final_answer", {"answer": "done"})]
        made = [
            ChatMessageToolCall(ChatMessageToolCallFunction(name=name, arguments=given), f"c{n}", "function")
            for n, (name, given) in enumerate(calls)
        ]
        return ChatMessage(MessageRole.ASSISTANT, "", tool_calls=made)


class Acting(Tool):
    name = TOOL
    description = "Acts."
    inputs = {"what": {"type": "string", "description": "It."}}  # noqa: RUF012
    output_type = "string"
    skip_forward_signature_validation = True

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.scene = scene

    def forward(self, what: str) -> str:
        return self.scene.act(what)


class Driver:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def run(self, gate: Gate, *calls: str) -> Run:
        model = Scripted(calls)
        agent = ToolCallingAgent(tools=[Acting(self.scene)], model=model, verbosity_level=-1)
        ToolApprovals(gate).supervise(agent)
        return _told(agent, agent, model)

    def run_later_tool(self, gate: Gate, *calls: str) -> Run:
        model = Scripted(calls)
        agent = ToolCallingAgent(tools=[], model=model, verbosity_level=-1)
        ToolApprovals(gate).supervise(agent)
        agent.tools[TOOL] = Acting(self.scene)
        return _told(agent, agent, model)

    def run_managed(self, gate: Gate, *calls: str) -> Run:
        model = Scripted(calls)
        inner = ToolCallingAgent(
            tools=[Acting(self.scene)], model=model, verbosity_level=-1, name="inner", description="It acts."
        )
        outer = ToolCallingAgent(
            tools=[], model=Scripted(({"task": "go"},), "inner"), managed_agents=[inner], verbosity_level=-1
        )
        ToolApprovals(gate).supervise(outer)
        return _told(outer, inner, model)

    def run_code(self, gate: Gate, code: str) -> str:
        model = Scripted((), code=code)
        agent = ToolApprovals(gate).supervise(CodeAgent(tools=[Acting(self.scene)], model=model, verbosity_level=-1))
        agent.run("go")
        return str(model.heard[-1].content)

    def example(self, gate: Gate, arguments: dict[str, Any]) -> str:
        example = self.scene.example("smolagents_approval")
        return str(example.close(Scripted((arguments,), "close_account"), gate))


def _told(outer: Any, inner: Any, model: Scripted) -> Run:
    try:
        outer.run("go")
    except AgentError as error:
        assert "interrupted" in str(error)
    step = inner.memory.steps[1]
    if step.error is not None:
        return Run([(str(step.error), True)], model.asked)
    texts = re.split(r"\n(?=did |Not executed)", step.observations)
    return Run([(text, text.startswith("Not executed")) for text in texts], model.asked)
