"""What only agents of the OpenAI Agents SDK, or only those of smolagents, are held to."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, HostedMCPTool, Runner, function_tool, handoff
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses.response_output_item import McpApprovalRequest
from pydantic import BaseModel
from smolagents import CodeAgent, Tool, ToolCallingAgent, tool

from humanlayer_agent import Verdict
from humanlayer_agent.adapters import AppUser, openai_agents, smolagents
from humanlayer_agent.adapters.tool_calls import completed
from humanlayer_agent.errors import ActionDenied, ConfigError
from humanlayer_agent.testing.approvers import ScriptedDirector
from tests.adapters.behaviours import Broken
from tests.adapters.drivers.smolagents import Acting, Scripted
from tests.adapters.scenes import TOOL, Scene, events

ONLY = os.environ.get("HLA_ADAPTER", "")


def of(adapter: str) -> Any:
    """Mark a test of one adapter; the row's name in the report has it."""
    return pytest.mark.parametrize("adapter", [adapter] if ONLY in ("", adapter) else [])


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def model(*calls: Any) -> ScriptedModel:
    return ScriptedModel([list(calls), [assistant_message("done")]])


def acts(scene: Scene, **more: Any) -> Any:
    return function_tool(scene.act, name_override=TOOL, **more)


def outputs(result: Any) -> list[str]:
    return [str(each["output"]) for each in result.to_input_list() if each.get("type") == "function_call_output"]


ALICE = AppUser("app:alice", "login")


def append(outer: Any, inner: Any) -> Any:
    outer.handoffs.append(inner)
    return outer


@of("openai_agents")
@pytest.mark.parametrize("add", [append, lambda outer, inner: outer.clone(handoffs=[inner])])
def test_a_handoff_that_is_added_later_is_supervised(
    adapter: str, scene: Scene, add: Callable[[Any, Any], Any]
) -> None:
    inner = Agent(name="inner", model=model(function_call(TOOL, {"what": "deny"}, call_id="c")), tools=[acts(scene)])
    handing = ScriptedModel([[function_call("transfer_to_inner", {}, call_id="h")]])
    outer = openai_agents.ToolApprovals(scene.gate()).supervise(Agent(name="outer", model=handing))
    result = asyncio.run(Runner.run(add(outer, inner), "go"))
    assert scene.ran == []
    assert outputs(result)[-1].startswith("Not executed: the policy forbids this")


class Note(BaseModel):
    what: str


@of("openai_agents")
@pytest.mark.parametrize(
    ("what", "ran", "ends"), [("good", ["good"], False), ("deny", [], True), ("ask me", ["ask me"], False)]
)
def test_code_of_a_handoff_is_judged(adapter: str, scene: Scene, what: str, ran: list[str], ends: bool) -> None:
    inner = Agent(name="inner", model=ScriptedModel([[assistant_message("done")]]))
    over = handoff(inner, on_handoff=lambda _, note: scene.act(note.what) and None, input_type=Note)
    handing = ScriptedModel([[function_call("transfer_to_inner", {"what": what}, call_id="h")]])
    gate = scene.gate("approve")
    outer = openai_agents.ToolApprovals(gate).supervise(Agent(name="outer", model=handing, handoffs=[over]))
    if ends:
        with pytest.raises(ActionDenied, match="deny: deny"):
            asyncio.run(Runner.run(outer, "go"))
    else:
        assert asyncio.run(Runner.run(outer, "go")).last_agent.name == "inner"
    assert scene.ran == ran
    assert [each["tool"] for each in events(gate, "decision.evaluated")] == ["transfer_to_inner"]


@of("openai_agents")
@pytest.mark.parametrize("code", [None, lambda _: None])
def test_a_handoff_without_code_of_its_own_is_none_of_a_tool(adapter: str, scene: Scene, code: Any) -> None:
    inner = Agent(name="inner", model=ScriptedModel([[assistant_message("done")]]))
    handing = ScriptedModel([[function_call("transfer_to_inner", {}, call_id="h")]])
    gate = scene.gate()
    over = handoff(inner, on_handoff=code) if code else handoff(inner)
    outer = openai_agents.ToolApprovals(gate).supervise(Agent(name="outer", model=handing, handoffs=[over]))
    assert asyncio.run(Runner.run(outer, "go")).last_agent.name == "inner"
    assert len(list(events(gate, "decision.evaluated"))) == (0 if code is None else 1)


@of("openai_agents")
@pytest.mark.parametrize("own", [True, lambda *_: False])
def test_a_tool_that_asks_by_itself_is_refused_where_runs_are_interrupted(adapter: str, scene: Scene, own: Any) -> None:
    agent = Agent(name="a", model=model(), tools=[acts(scene, needs_approval=own)])
    with pytest.raises(ConfigError, match="needs_approval of its own"):
        openai_agents.ToolApprovals(scene.gate(), interrupt=True).supervise(agent)


@of("openai_agents")
def test_what_no_request_of_ours_approves_is_left_to_the_app(adapter: str, scene: Scene) -> None:
    """Only `state.approve` of the app says yes to the model's provider, or to an agent that is a tool."""

    async def resumed(*approved: str) -> Any:
        wants = McpApprovalRequest(
            id="m", arguments='{"what": "ask me"}', name=TOOL, server_label="bank", type="mcp_approval_request"
        )
        heard = model(
            wants,
            function_call("sub", {"input": "go"}, call_id="s"),
            function_call(TOOL, {"what": "ask me"}, call_id="c"),
        )
        config: Any = {
            "type": "mcp",
            "server_label": "bank",
            "server_url": "https://bank.invalid",
            "require_approval": "always",
        }
        helper = Agent(
            name="helper", model=model(function_call(TOOL, {"what": "sub"}, call_id="i")), tools=[acts(scene)]
        )
        sub = helper.as_tool("sub", "It helps.", needs_approval=True)
        approvals = openai_agents.ToolApprovals(scene.gate(), interrupt=True, at_provider={"hosted_mcp"})
        agent = approvals.supervise(
            Agent(name="a", model=heard, tools=[HostedMCPTool(tool_config=config), sub, acts(scene)])
        )
        result = await Runner.run(agent, "go")
        assert {each.call_id for each in result.interruptions} == {"m", "s", "c"}
        saved = json.loads(json.dumps(await approvals.pause(result, str(approved))))
        assert list(saved["requests"]) == ["c"]
        await approvals.answer(saved["requests"]["c"], "approve", ALICE)
        state = await approvals.resume(agent, saved)
        for each in state.get_interruptions():
            if each.call_id in approved:
                state.approve(each)
        return await Runner.run(agent, state), heard

    result, heard = asyncio.run(resumed())
    assert {each.call_id for each in result.interruptions} == {"m", "s"}
    assert (scene.ran, len(heard.calls)) == (["ask me"], 1)
    result, heard = asyncio.run(resumed("m", "s"))
    assert result.interruptions == []
    told = [each for each in heard.calls[-1].input if each.get("type") == "mcp_approval_response"]
    assert [each["approve"] for each in told] == [True]
    assert scene.ran[1:] in (["sub", "ask me"], ["ask me", "sub"])


@of("openai_agents")
@pytest.mark.parametrize(
    ("asked", "conversations"), [(("ask A", "ask B"), ("", "")), (("ask me", "ask me"), ("one", "two"))]
)
def test_an_answer_is_for_the_call_of_its_own_conversation(
    adapter: str, scene: Scene, asked: tuple[str, str], conversations: tuple[str, str]
) -> None:
    """Two conversations have a call with the same id: of other arguments, or of the same and told apart by the app."""

    async def happens() -> None:
        approvals = openai_agents.ToolApprovals(scene.gate(), interrupt=True)
        agents, saved = [], []
        for what, conversation in zip(asked, conversations, strict=True):
            calls = model(function_call(TOOL, {"what": what}, call_id="call_0"))
            agents.append(approvals.supervise(Agent(name="a", model=calls, tools=[acts(scene)])))
            saved.append(await approvals.pause(await Runner.run(agents[-1], "go"), conversation))
        await approvals.answer(saved[1]["requests"]["call_0"], "approve", ALICE)
        result = await Runner.run(agents[0], await approvals.resume(agents[0], saved[0]))
        assert (len(result.interruptions), scene.ran) == (1, [])
        again = await approvals.pause(result, conversations[0])
        assert again["requests"] == saved[0]["requests"]
        result = await Runner.run(agents[1], await approvals.resume(agents[1], saved[1]))
        assert (result.interruptions, scene.ran) == ([], [asked[1]])

    asyncio.run(happens())


@of("openai_agents")
def test_a_call_that_names_something_twice_is_denied_where_runs_are_interrupted(adapter: str, scene: Scene) -> None:
    async def happens() -> Any:
        approvals = openai_agents.ToolApprovals(scene.gate(), interrupt=True)
        calls = model(function_call(TOOL, '{"what": "good", "what": "ask me"}', call_id="c"))
        agent = approvals.supervise(Agent(name="a", model=calls, tools=[acts(scene)]))
        saved = await approvals.pause(await Runner.run(agent, "go"))
        assert saved["requests"] == {}
        return await Runner.run(agent, await approvals.resume(agent, saved))

    ((text),) = outputs(asyncio.run(happens()))
    assert "names something twice" in text
    assert scene.ran == []


@of("openai_agents")
def test_a_mistake_in_the_policy_denies_where_runs_are_interrupted(adapter: str, scene: Scene) -> None:
    approvals = openai_agents.ToolApprovals(scene.gate(director=Broken()), interrupt=True)
    calls = model(function_call(TOOL, {"what": "good"}, call_id="c"))
    agent = approvals.supervise(Agent(name="a", model=calls, tools=[acts(scene)]))
    (text,) = outputs(asyncio.run(Runner.run(agent, "go")))
    assert text.startswith("Not executed")
    assert scene.ran == []


@of("openai_agents")
def test_a_stop_of_all_agents_in_an_agent_that_is_a_tool_ends_the_outer_run(adapter: str, scene: Scene) -> None:
    gate = scene.gate()
    gate.store.halts.stop("os:1000:bob", "stop it")
    inner = Agent(name="inner", model=model(function_call(TOOL, {"what": "good"}, call_id="c")), tools=[acts(scene)])
    outer_model = model(function_call("sub", {"input": "go"}, call_id="s"))
    outer = Agent(name="outer", model=outer_model, tools=[inner.as_tool("sub", "A sub-agent.")])
    asyncio.run(Runner.run(openai_agents.ToolApprovals(gate).supervise(outer), "go"))
    assert (scene.ran, len(outer_model.calls)) == ([], 1)


def pay(account: str, amount: int = 100, dry: bool | None = None, ways: list[str] | None = None) -> str:
    return f"paid {account} {amount} {dry} {ways}"


def paid(scene: Scene, given: dict[str, Any], *, interrupt: bool, strict: bool = False) -> tuple[str, list[str]]:
    """What the model is told, and what was judged."""

    async def happens() -> Any:
        approvals = openai_agents.ToolApprovals(gate, interrupt=interrupt)
        tools: list[Any] = [function_tool(pay, strict_mode=strict)]
        agent = approvals.supervise(Agent(name="a", model=model(function_call("pay", given, call_id="c")), tools=tools))
        result = await Runner.run(agent, "go")
        if interrupt and result.interruptions:
            saved = await approvals.pause(result)
            for request in saved["requests"].values():
                await approvals.answer(request, "approve", ALICE)
            result = await Runner.run(agent, await approvals.resume(agent, saved))
        return result

    gate = scene.gate("approve")
    (text,) = outputs(asyncio.run(happens()))
    return text, judged(gate)


@of("openai_agents")
@pytest.mark.parametrize("interrupt", [False, True])
@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"account": "ask x", "amuont": 1}, "the tool takes no amuont"),
        ({"account": "ask x", "amount": "5000"}, "amount is of another type"),
        ({"account": "ask x", "amount": True}, "amount is of another type"),
        ({"account": "ask x", "dry": "yes"}, "dry is of another type"),
        ({"account": "ask x", "dry": 1}, "dry is of another type"),
        ({"account": "ask x", "ways": "x"}, "ways is of another type"),
    ],
)
def test_what_a_tool_would_read_otherwise_than_it_stands_there_does_not_run(
    adapter: str, scene: Scene, given: dict[str, Any], wrong: str, *, interrupt: bool
) -> None:
    text, asked = paid(scene, given, interrupt=interrupt)
    assert text.startswith("Not executed")
    assert wrong in text
    assert asked == []


@of("openai_agents")
@pytest.mark.parametrize("interrupt", [False, True])
def test_the_defaults_of_a_tool_are_judged(adapter: str, scene: Scene, *, interrupt: bool) -> None:
    text, asked = paid(scene, {"account": "ask x", "dry": False}, interrupt=interrupt)
    assert text == "paid ask x 100 False None"
    assert asked[-1].endswith('pay({"account": "ask x", "dry": false, "amount": 100, "ways": null})')


@of("openai_agents")
@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [
        ({"type": "object"}, {"any": 1}, {"any": 1}),
        ({"properties": {"a": {}}, "additionalProperties": True}, {"b": 1}, {"b": 1}),
        ({"properties": {"a": {"type": ["integer", "null"]}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {"type": "number"}}}, {"a": 1}, {"a": 1}),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1.5}, None),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "object"}}}, {"a": {}}, {"a": {}}),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "object"}}}, {"a": "{}"}, None),
        ({"properties": {"a": {"type": "string", "default": "b"}}}, {}, {"a": "b"}),
    ],
)
def test_arguments_are_completed_by_the_schema(
    adapter: str, schema: dict[str, Any], given: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="a is of another type"):
            completed(schema, given)
    else:
        assert completed(schema, given) == expected


class Copying(Tool):
    """Its inputs stand in another order than its parameters."""

    name = "copy"
    description = "Copies."
    inputs = {  # noqa: RUF012
        "target": {"type": "string", "description": "To."},
        "source": {"type": "string", "description": "From."},
    }
    output_type = "string"
    did: list[tuple[str, str]]

    def forward(self, source, target):  # type: ignore[no-untyped-def]
        self.did.append((source, target))
        return "copied"


class Hitting(Tool):
    name = "hit"
    description = "Hits."
    inputs = {"tool": {"type": "string", "description": "With."}}  # noqa: RUF012
    output_type = "string"

    def forward(self, tool: str) -> str:
        return f"hit with {tool}"


def judged(gate: Any) -> list[str]:
    return [each["command"] for each in events(gate, "decision.evaluated")]


@of("smolagents")
def test_what_is_given_by_its_place_is_judged_by_the_name_it_has_in_the_tool(adapter: str, scene: Scene) -> None:
    copying, gate = Copying(), scene.gate()
    copying.did = []
    smolagents.ToolApprovals(gate).supervise(ToolCallingAgent(tools=[copying], model=Scripted(())))
    assert copying("a.txt", "b.txt") == "copied"
    assert copying.did == [("a.txt", "b.txt")]
    (command,) = judged(gate)
    assert command.endswith('copy({"source": "a.txt", "target": "b.txt"})')


@of("smolagents")
def test_an_input_may_be_called_tool(adapter: str, scene: Scene) -> None:
    hitting, gate = Hitting(), scene.gate()
    smolagents.ToolApprovals(gate).supervise(ToolCallingAgent(tools=[hitting], model=Scripted(())))
    assert hitting(tool="a hammer") == "hit with a hammer"
    assert judged(gate)[0].endswith('hit({"tool": "a hammer"})')


@of("smolagents")
def test_defaults_are_judged_as_well(adapter: str, scene: Scene) -> None:
    @tool
    def remove(path: str, recursive: bool = True) -> str:
        """Remove.

        Args:
            path: what.
            recursive: with all in it.
        """
        return f"removed {path} {recursive}"

    gate = scene.gate()
    agent = ToolCallingAgent(tools=[remove], model=Scripted(()), verbosity_level=-1)
    smolagents.ToolApprovals(gate).supervise(agent)
    assert agent.execute_tool_call("remove", {"path": "x"}) == "removed x True"
    assert judged(gate)[0].endswith('remove({"path": "x", "recursive": true})')


@of("smolagents")
def test_code_is_judged_where_it_has_an_executor_that_it_was_given_later(adapter: str, scene: Scene) -> None:
    gate = scene.gate()
    agent = CodeAgent(tools=[], model=Scripted((), code="print(1)"), verbosity_level=-1)
    smolagents.ToolApprovals(gate).supervise(agent)
    agent.python_executor = agent.create_python_executor()
    agent.run("go")
    assert judged(gate)[0].startswith("python_interpreter(")
    agent.python_executor = object()
    with pytest.raises(ConfigError, match="executor_type='local'"):
        agent.run("go")


@of("smolagents")
@pytest.mark.parametrize(
    ("code", "ran"),
    [
        ("act.scene.act('deny')", []),
        ("act.forward('deny')", []),
        ("getattr(act, 'scene').act('deny')", []),
        ("helper.tools['act'].scene.act('deny')", []),
        ("print(act('good'), act(what='well'))", ["good", "well"]),
        ("print(act('deny'))", []),
        ("tool = act\nprint([tool(each) for each in ['good', 'deny']])", ["good"]),
    ],
)
def test_code_calls_tools_and_reaches_nothing_else_of_them(
    adapter: str, scene: Scene, code: str, ran: list[str]
) -> None:
    gate = scene.gate(director=ScriptedDirector({"python_interpreter": Verdict.ALLOW, "deny": Verdict.DENY}))
    helper = CodeAgent(tools=[Acting(scene)], model=Scripted(()), name="helper", description="Helps.")
    agent = CodeAgent(tools=[Acting(scene)], managed_agents=[helper], model=Scripted((), code=code), verbosity_level=-1)
    smolagents.ToolApprovals(gate).supervise(agent)
    agent.run("go")
    assert scene.ran == ran
