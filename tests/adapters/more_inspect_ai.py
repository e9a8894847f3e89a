"""What only evaluations of Inspect AI are held to: a call is judged as its tool gets it.

Run by the pytest of an environment that has the library: see test_adapters.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ModelOutput, get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import Tool, ToolCall, tool

from humanlayer_agent.adapters.inspect_ai import supervised
from tests.adapters.drivers.inspect_ai import _told, scripted
from tests.adapters.scenes import TOOL, Scene, events


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def acting(scene: Scene) -> Tool:
    @tool(name=TOOL)
    def made() -> Tool:
        async def execute(what: str, times: int = 2, note: str | None = None, really: bool = False) -> str:
            """Act.

            Args:
                what: It.
                times: How often.
                note: Something.
                really: Whether.
            """
            return scene.act(f"{what} {times} {note} {really}")

        return execute

    return made()


SPOKEN = {"times": 2, "really": False}


@pytest.mark.parametrize("way", ["generate", "react"])
@pytest.mark.parametrize(
    ("given", "judged", "ran"),
    [
        ({"what": "good"}, {"what": "good", **SPOKEN}, ["good 2 None False"]),
        (
            {"what": "good", "times": 3, "note": "x"},
            {"what": "good", "times": 3, "note": "x", "really": False},
            ["good 3 x False"],
        ),
        ({"what": "deny"}, {"what": "deny", **SPOKEN}, []),
        ({"what": "good", "times": "3"}, None, []),
        ({"what": "good", "really": "yes"}, None, []),
        ({"what": "good", "decoy": "x"}, None, []),
    ],
)
def test_what_an_inspect_tool_gets_is_judged(
    scene: Scene, given: dict[str, Any], judged: dict[str, Any] | None, ran: list[str], way: str
) -> None:
    gate = scene.gate()
    if way == "react":
        solver: Any = react(tools=[acting(scene)], submit=False, attempts=1)
    else:
        solver = [use_tools(acting(scene)), generate()]
    told = _told(Task(dataset=[Sample(input="go")], solver=solver, **supervised(gate)), scripted((given,)), scene)
    assert scene.ran == ran, told
    seen = [each["command"] for each in events(gate, "decision.evaluated")]
    assert seen == ([] if judged is None else [f"{TOOL}({json.dumps(judged)})"])
    assert len(told.results) == 1
    assert told.results[0][1] is not bool(ran)


def test_a_tool_that_the_model_was_never_shown_is_judged_as_it_is_called(scene: Scene) -> None:
    """Nothing says what it takes: the calls are those of a message that no model has written here."""
    gate = scene.gate()

    def seeded() -> Any:
        from inspect_ai.model import execute_tools
        from inspect_ai.solver import solver

        @solver
        def calling() -> Any:
            async def solve(state: Any, _: Any) -> Any:
                call = ToolCall(id="seeded", function=TOOL, arguments={"what": "good"})
                said = ChatMessageAssistant(content="", tool_calls=[call])
                done = await execute_tools([said], [acting(scene)])
                state.messages += [said, *done.messages]
                return state

            return solve

        return calling()

    model = get_model("mockllm/model", custom_outputs=[ModelOutput.from_content("mockllm", "done")], memoize=False)
    _told(Task(dataset=[Sample(input="go")], solver=[seeded(), generate()], **supervised(gate)), model, scene)
    assert scene.ran == ["good 2 None False"]
    assert [each["command"] for each in events(gate, "decision.evaluated")] == [f'{TOOL}({{"what": "good"}})']
