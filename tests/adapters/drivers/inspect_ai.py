"""An evaluation with Inspect AI."""

from typing import Any

import tiktoken
from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ModelOutput, get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import Tool, ToolCall, tool
from tiktoken import registry

from humanlayer_agent import Gate
from humanlayer_agent.adapters.inspect_ai import supervised
from tests.adapters.scenes import TOOL, Run, Scene

# Else it is fetched from the network, to count the tokens of the scripted model.
registry.ENCODINGS["o200k_base"] = tiktoken.Encoding(
    "o200k_base", pat_str=".", mergeable_ranks={bytes([n]): n for n in range(256)}, special_tokens={}
)


def scripted(calls: tuple[Any, ...], name: str = TOOL) -> Any:
    given = [each if isinstance(each, dict) else {"what": each} for each in calls]
    first = ModelOutput.from_content("mockllm", "")
    made = [ToolCall(id=f"c{n}", function=name, arguments=args) for n, args in enumerate(given)]
    first.choices[0].message = ChatMessageAssistant(content="", tool_calls=made)
    return get_model(
        "mockllm/model", custom_outputs=[first, ModelOutput.from_content("mockllm", "done")], memoize=False
    )


class Driver:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def run(self, gate: Gate, *calls: str) -> Run:
        scene = self.scene

        @tool(name=TOOL)
        def acting() -> Tool:
            async def execute(what: str) -> str:
                """Act.

                Args:
                    what: It.
                """
                return scene.act(what)

            return execute

        task = Task(dataset=[Sample(input="go")], solver=[use_tools(acting()), generate()], **supervised(gate))
        return _told(task, scripted(calls), scene)

    def example(self, gate: Gate, arguments: dict[str, Any]) -> str:
        example = self.scene.example("inspect_ai_approval")
        task = example.accounts(gate)
        return "\n".join(text for text, _ in _told(task, scripted((arguments,), "close_account"), self.scene).results)


def _told(task: Task, model: Any, scene: Scene) -> Run:
    (log,) = evaluate(task, model=model, display="none", log_dir=str(scene.folder / "logs"), score=False)
    (sample,) = log.samples or []
    tools = [message for message in sample.messages if message.role == "tool"]
    results = [(each.error.message, True) if each.error else (each.text, False) for each in tools]
    if sample.error and "broke" in sample.error.message:
        raise ValueError("it broke")
    return Run(results, sum(event.event == "model" for event in sample.events))
