"""What LangChain and PydanticAI are held to beside the table: who has said what, where the framework itself asks.

Run by the pytest of an environment that has the libraries: see test_adapters.py.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command
from pydantic import AfterValidator, AliasChoices, AliasPath, BaseModel, Field, PrivateAttr, SecretStr
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool, ToolApproved, ToolDenied
from pydantic_ai.messages import ToolReturnPart

from humanlayer_agent import Gate
from humanlayer_agent.adapters import AppUser
from humanlayer_agent.adapters.langchain import ApprovalMiddleware
from humanlayer_agent.adapters.pydantic_ai import ToolApprovals
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person
from humanlayer_agent.errors import ConfigError, StoreError
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker
from tests.adapters.drivers import langchain, pydantic_ai
from tests.adapters.scenes import DIRECTOR, TOOL, Scene, events

ALICE, BOB, MALLORY = (AppUser(f"app:{name}", "login") for name in ("alice", "bob", "mallory"))
APPROVE, REJECT, LOOK = {"type": "approve"}, {"type": "reject", "message": "no"}, {"type": "look"}
EDIT = {"type": "edit", "edited_action": {"name": TOOL, "args": {"what": "good"}}}
WAYS = pytest.mark.parametrize("way", ["invoke", "ainvoke"])


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def votes(gate: Gate) -> list[tuple[str, str]]:
    return [(each["approver"]["principal"], each["answer"]) for each in events(gate, "vote.recorded")]


class Thread:
    """A graph that waits for a human about one call, and is resumed by one user after the other."""

    def __init__(self, scene: Scene, gate: Gate, way: str = "invoke") -> None:
        self.scene, self.gate, self.way, self.kept = scene, gate, way, InMemorySaver()
        self.messages: list[Any] = []
        self.waits: Any = None
        assert self._go(None, {"messages": "go"}, "ask me")

    def resume(self, user: Any, *said: dict[str, Any]) -> bool:
        """Whether it still waits."""
        return [self._go(user, Command(resume={self.waits.id: each})) for each in said][-1]

    def go_on(self, user: Any, given: Any = None) -> bool:
        """Whether it still waits, where the app resumes it otherwise."""
        return self._go(user, given)

    def _go(self, user: Any, given: Any, *calls: str) -> bool:
        agent = create_agent(
            langchain.Scripted(calls=list(calls), asked=[]),
            [langchain.Driver(self.scene).tool],
            middleware=[ApprovalMiddleware(self.gate, interrupt=True, answered_by=user)],
            checkpointer=self.kept,
        )
        thread: Any = {"configurable": {"thread_id": "1"}}
        if self.way == "ainvoke":
            state = asyncio.run(agent.ainvoke(given, thread, durability="sync"))
        else:
            state = agent.invoke(given, thread, durability="sync")
        self.messages = state["messages"]
        (self.waits,) = state.get("__interrupt__") or (None,)
        return self.waits is not None


@WAYS
@pytest.mark.parametrize("first", [MALLORY, None], ids=["a stranger", "nobody"])
def test_what_a_stranger_approved_is_not_the_answer_of_who_resumes_next(scene: Scene, first: Any, way: str) -> None:
    gate = scene.gate()
    graph = Thread(scene, gate, way)
    assert graph.resume(first, APPROVE, APPROVE)
    assert graph.resume(ALICE, LOOK)
    assert votes(gate) == []
    assert not graph.resume(ALICE, REJECT)
    assert votes(gate) == [("app:alice", "reject")]
    assert scene.ran == []


@WAYS
def test_who_looks_and_then_approves_has_approved(scene: Scene, way: str) -> None:
    gate = scene.gate()
    graph = Thread(scene, gate, way)
    assert graph.resume(MALLORY, REJECT, EDIT)
    assert graph.resume(ALICE, LOOK)
    assert not graph.resume(ALICE, APPROVE)
    assert (votes(gate), scene.ran) == ([("app:alice", "approve")], ["ask me"])


def quorum(scene: Scene) -> Gate:
    """A gate at which alice and bob both have to approve."""
    people = (Person("starter", ("os:1:starter",)), Person("alice", ("app:alice",)), Person("bob", ("app:bob",)))
    rule = ApprovalRule("default", ("alice", "bob"), quorum=2, timeout_ms=60_000)
    return Gate(
        DIRECTOR,
        SQLiteStore(scene.folder / "store.db"),
        ScriptedAsker(()),
        agent="adapter",
        authority=Authority(people, {"default": rule}),
        requester="os:1:starter",
        instance="the same",
        durable=True,
    )


@WAYS
@pytest.mark.parametrize(
    ("second", "ran"), [(APPROVE, ["ask me"]), (REJECT, []), (LOOK, [])], ids=["approves", "rejects", "looks"]
)
def test_one_of_two_does_not_answer_for_the_other(
    scene: Scene, second: dict[str, Any], ran: list[str], way: str
) -> None:
    gate = quorum(scene)
    graph = Thread(scene, gate, way)
    assert graph.resume(ALICE, APPROVE)
    assert graph.resume(BOB, second) == (second is LOOK)
    assert scene.ran == ran
    assert votes(gate) == [("app:alice", "approve"), *([] if second is LOOK else [("app:bob", second["type"])])]


class Killed(BaseException):
    """In the place of kill -9."""


@WAYS
@pytest.mark.parametrize("form", ["by the id", "by itself"])
@pytest.mark.parametrize("then", [None, LOOK], ids=["goes on", "looks"])
def test_an_answer_that_was_stored_before_a_kill_is_nobodys(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, form: str, then: Any, way: str
) -> None:
    """LangGraph keeps what a graph is resumed with before anything of it runs: not who has said it."""

    def killed(*_: Any) -> Any:
        raise Killed

    gate = scene.gate()
    graph = Thread(scene, gate, way)
    said = {graph.waits.id: APPROVE} if form == "by the id" else APPROVE
    with monkeypatch.context() as patch:
        patch.setattr(ApprovalMiddleware, "_user", killed)  # after the interrupt has returned, and stored it
        patch.setattr(ApprovalMiddleware, "_resumed", killed if form == "by itself" else ApprovalMiddleware._resumed)
        with pytest.raises(Killed):
            graph.go_on(MALLORY, Command(resume=said))
    assert graph.go_on(ALICE, then and Command(resume={graph.waits.id: then}))
    assert (votes(gate), scene.ran) == ([], [])
    assert not graph.resume(ALICE, APPROVE)
    assert (votes(gate), scene.ran) == ([("app:alice", "approve")], ["ask me"])


def test_an_answer_without_the_id_of_its_interrupt_is_not_counted(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    gate = scene.gate()
    graph = Thread(scene, gate)
    assert graph.go_on(ALICE, Command(resume=APPROVE))
    assert (votes(gate), scene.ran) == ([], [])
    assert "Resume the graph by the id of its interrupt" in caplog.text


def test_an_answer_that_could_not_be_recorded_was_not_given(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **more: Any) -> Any:
        raise StoreError("the disk is full")

    gate = scene.gate()
    graph = Thread(scene, gate)
    with monkeypatch.context() as patch:
        patch.setattr(gate, "answer", broken)
        with pytest.raises(StoreError):
            graph.resume(MALLORY, APPROVE)
    assert not graph.resume(ALICE, REJECT)
    assert (votes(gate), scene.ran) == ([("app:alice", "reject")], [])


def test_the_app_is_asked_once_who_has_answered(scene: Scene) -> None:
    asked: list[str] = []

    def who(request: Any) -> AppUser:
        asked.append(request.tool_call["id"])
        return MALLORY

    graph = Thread(scene, scene.gate())
    assert graph.resume(who, LOOK, APPROVE, LOOK)
    assert asked == ["c0"]


def called(scene: Scene, gate: Gate, tool: Any, given: dict[str, Any], way: str = "invoke") -> str:
    """What the model is told of one call of a tool."""
    agent = create_agent(langchain.Scripted(calls=[given], asked=[]), [tool], middleware=[ApprovalMiddleware(gate)])
    state = asyncio.run(agent.ainvoke({"messages": "go"})) if way == "ainvoke" else agent.invoke({"messages": "go"})
    return str(state["messages"][-2].text)


def plain(what: str) -> str:
    return what.replace("_", "")


class Given(BaseModel):
    what: Annotated[str, AfterValidator(plain)]
    times: int = 2


class Loose(Given, extra="allow"):
    """Its tool gets what it does not know as well."""


def acting(scene: Scene, schema: Any) -> Any:
    def act(what: str, times: int = 2, **more: Any) -> str:
        assert isinstance(times, int)
        return scene.act(f"{what} {times}{more or ''}")

    return StructuredTool.from_function(act, name=TOOL, description="Acts.", args_schema=schema)


@WAYS
@pytest.mark.parametrize(
    ("schema", "given", "judged", "ran"),
    [
        (Given, {"what": "good", "times": "3"}, {"what": "good", "times": 3}, ["good 3"]),
        (Given, {"what": "go_od"}, {"what": "good", "times": 2}, ["good 2"]),
        (Given, {"what": "good", "decoy": "deny"}, {"what": "good", "times": 2}, ["good 2"]),
        (Given, {"what": "de_ny"}, {"what": "deny", "times": 2}, []),
        (Given, {"what": "good", "times": "many"}, None, []),
        (
            Loose,
            {"what": "good", "more": "de_ny"},
            {"what": "good", "times": 2, "more": "de_ny"},
            ["good 2{'more': 'de_ny'}"],
        ),
        (Loose, {"what": "good", "more": "deny"}, {"what": "good", "times": 2, "more": "deny"}, []),
        (Given.model_json_schema(), {"what": "good"}, {"what": "good", "times": 2}, ["good 2"]),
        (Given.model_json_schema(), {"what": "good", "times": "3"}, None, []),
        (Given.model_json_schema(), {"what": "good", "decoy": "x"}, None, []),
    ],
)
def test_what_a_langchain_tool_gets_is_judged(
    scene: Scene, schema: Any, given: dict[str, Any], judged: dict[str, Any] | None, ran: list[str], way: str
) -> None:
    gate = scene.gate()
    told = called(scene, gate, acting(scene, schema), given, way)
    assert scene.ran == ran, told
    seen = [each["command"] for each in events(gate, "decision.evaluated")]
    assert seen == ([] if judged is None else [f"{TOOL}({json.dumps(judged)})"])
    assert judged is not None or told.startswith("Not executed: act does not take what it is given")


@WAYS
@pytest.mark.parametrize("good", [1, 2])
def test_a_validator_that_makes_something_else_each_time(scene: Scene, good: int, way: str) -> None:
    """What runs is what was judged: the tool does not validate it once more. Where that differs already, nothing runs."""
    times: list[str] = []

    def changing(what: str) -> str:
        times.append(what)
        return what if len(times) <= good else "deny"

    class Changing(BaseModel):
        what: Annotated[str, AfterValidator(changing)]

    told = called(scene, scene.gate(), acting(scene, Changing), {"what": "good"}, way)
    assert (scene.ran, len(times)) == (["good 2"] if good == 2 else [], 2)
    assert ("not what was permitted" in told) == (good == 1), told


@WAYS
def test_a_tool_keeps_its_state_and_calls_others(scene: Scene, way: str) -> None:
    """The tool that runs is the one that the app has: what it keeps is there afterwards, and what it calls is called."""

    class Counting(BaseTool):
        name: str = TOOL
        description: str = "Acts."
        args_schema: type[BaseModel] = Given
        count: int = 0
        inner: Any = None
        _kept: list[str] = PrivateAttr(default_factory=list)

        def _run(self, what: str, times: int = 2) -> str:
            self.count += 1
            self._kept.append(what)
            more = [self.inner.invoke({"what": "in_ner"})] if self.inner else []
            return " ".join([scene.act(what), *more])

    tool = Counting(inner=Counting())
    assert called(scene, scene.gate(), tool, {"what": "go_od"}, way) == "did good did inner"
    assert (tool.count, tool._kept, tool.inner.count) == (1, ["good"], 1)
    assert tool.invoke({"what": "al_one"}) == "did alone did inner"


@WAYS
def test_what_the_graph_puts_in_is_not_judged_and_no_model_writes_it(scene: Scene, way: str) -> None:
    @langchain_tool(TOOL)
    def act(
        what: Annotated[str, AfterValidator(plain)],
        runtime: ToolRuntime,
        state: Annotated[dict[str, Any], InjectedState],
        call: Annotated[str, InjectedToolCallId],
    ) -> str:
        """Acts."""
        assert runtime.tool_call_id == call == "c0"
        assert state["messages"]
        return scene.act(what)

    gate = scene.gate()
    called(scene, gate, act, {"what": "go_od", "decoy": "deny"}, way)
    assert scene.ran == ["good"]
    assert [each["command"] for each in events(gate, "decision.evaluated")] == [f'{TOOL}({{"what": "good"}})']
    for name in ("runtime", "state", "call"):
        assert f"takes no {name}" in called(scene, gate, act, {"what": "good", name: {}}, way)
    assert scene.ran == ["good"]


@pytest.mark.parametrize(
    "field",
    [
        Field(2, alias="often"),
        Field(2, validation_alias="often"),
        Field(2, validation_alias=AliasChoices("x", "often")),
        Field(2, validation_alias=AliasPath("often", 0)),
    ],
    ids=["alias", "validation_alias", "choices", "path"],
)
def test_no_model_writes_by_another_name_what_is_put_in(scene: Scene, field: Any) -> None:
    class Hidden(BaseModel):
        what: str
        times: Annotated[int, InjectedToolArg] = field

    tool = acting(scene, Hidden)
    assert "takes no often" in called(scene, scene.gate(), tool, {"what": "good", "often": [9]})
    assert "takes no often" in called(scene, scene.gate(), tool, {"what": "good", "often": 9})
    called(scene, scene.gate(), tool, {"what": "good"})
    assert scene.ran == ["good 2"]


def test_what_a_langchain_tool_would_get_without_being_shown_is_denied(scene: Scene) -> None:
    def act(what: SecretStr) -> str:
        return scene.act(what.get_secret_value())

    tool = StructuredTool.from_function(act, name=TOOL, description="Acts.")
    assert "is not all shown" in called(scene, scene.gate(), tool, {"what": "good"})
    assert scene.ran == []


def deferring(scene: Scene, gate: Gate, **tool: Any) -> tuple[Any, ToolApprovals]:
    approvals = ToolApprovals(gate, defer=True)
    agent = Agent(
        pydantic_ai.Scripted((tool.pop("what", "ask me"),)).model,
        tools=[Tool(tool.pop("act", scene.act), name=TOOL, takes_ctx=tool.pop("takes_ctx", False), **tool)],
        output_type=[str, DeferredToolRequests],
        capabilities=[approvals],
    )
    return agent, approvals


def goes_on(agent: Any, approvals: ToolApprovals, paused: Any, said: Any, user: AppUser | None) -> Any:
    answers = None if said is None else DeferredToolResults(approvals={"c0": said})
    results = asyncio.run(approvals.results(paused.output, answers, answered_by=user))
    return agent.run_sync(message_history=paused.all_messages(), deferred_tool_results=results)


def told(result: Any) -> list[str]:
    return [str(p.content) for m in result.all_messages() for p in m.parts if isinstance(p, ToolReturnPart)]


@pytest.mark.parametrize("user", [ALICE, None], ids=["alice", "nobody"])
@pytest.mark.parametrize(
    ("said", "ran"), [(True, ["good"]), (ToolApproved(), ["good"]), (ToolDenied("NO"), []), (False, [])], ids=repr
)
def test_the_app_answers_what_the_framework_asks_by_itself(
    scene: Scene, said: Any, ran: list[str], user: AppUser | None
) -> None:
    agent, approvals = deferring(scene, scene.gate(), what="good", requires_approval=True)
    goes_on(agent, approvals, agent.run_sync("go"), said, user)
    assert scene.ran == ran


def test_what_the_framework_asks_by_itself_is_not_approved_where_nobody_answers(scene: Scene) -> None:
    agent, approvals = deferring(scene, scene.gate(), what="good", requires_approval=True)
    paused = agent.run_sync("go")
    assert asyncio.run(approvals.results(paused.output)).approvals == {}
    paused.output.metadata["c0"] = {"request": "one of the tool's own"}
    assert asyncio.run(approvals.results(paused.output)).approvals == {}


def test_what_the_framework_asked_by_itself_is_judged_before_it_runs(scene: Scene) -> None:
    agent, approvals = deferring(scene, scene.gate(), what="deny this", requires_approval=True)
    (text,) = told(goes_on(agent, approvals, agent.run_sync("go"), True, ALICE))
    assert text.startswith("Not executed: the policy forbids this")
    changed = ToolApproved(override_args={"what": "deny that"})
    assert "deny: deny" in told(goes_on(agent, approvals, agent.run_sync("go"), changed, ALICE))[0]
    assert scene.ran == []


@pytest.mark.parametrize("user", [MALLORY, None], ids=["a stranger", "nobody"])
def test_an_edit_counts_where_its_author_may_answer(scene: Scene, user: AppUser | None) -> None:
    gate = scene.gate()
    agent, approvals = deferring(scene, gate)
    edit = ToolApproved(override_args={"what": "good"})
    again = goes_on(agent, approvals, agent.run_sync("go"), edit, user)
    assert [call.tool_call_id for call in again.output.approvals] == ["c0"]
    assert told(again) == []
    (text,) = told(goes_on(agent, approvals, again, edit, ALICE))
    assert "changed it, and neither may run" in text
    assert scene.ran == []


def test_two_conversations_with_the_same_ids_ask_for_themselves(scene: Scene) -> None:
    gate = scene.gate()
    agent, approvals = deferring(scene, gate)
    one, two = agent.run_sync("go"), agent.run_sync("go")
    assert one.output.metadata["c0"]["request"] != two.output.metadata["c0"]["request"]
    goes_on(agent, approvals, one, True, ALICE)
    assert scene.ran == ["ask me"]
    assert goes_on(agent, approvals, two, None, None).output.approvals
    assert scene.ran == ["ask me"]


class Order(BaseModel):
    to: str
    amount: int = Field(exclude=True)


class Plain(BaseModel):
    to: list[Path]
    amount: int = Field(alias="sum")


@pytest.mark.parametrize(
    ("kind", "given", "runs"),
    [(SecretStr, "good", False), (Order, {"to": "good", "amount": 9}, False), (Plain, {"to": ["a"], "sum": 9}, True)],
    ids=["a secret", "an excluded field", "all of it shown"],
)
@pytest.mark.parametrize("wrap", [lambda each: each, lambda each: [each]], ids=["bare", "in a list"])
def test_what_would_run_without_being_shown_is_denied(
    scene: Scene, kind: Any, given: Any, runs: bool, wrap: Callable[[Any], Any]
) -> None:
    def act(what: Any, more: int) -> str:
        return scene.act("it")

    act.__annotations__["what"] = list[kind] if wrap(0) == [0] else kind
    agent, _ = deferring(scene, scene.gate(), act=act, what={"what": wrap(given), "more": 1})
    result = agent.run_sync("go")
    assert scene.ran == (["it"] if runs else [])
    assert runs or "is not all shown" in told(result)[0]


def test_a_user_of_an_app_is_named_as_the_channels_file_names_them() -> None:
    for by in ("alice", "app:", "os:1:alice"):
        with pytest.raises(ConfigError, match="app:NAME"):
            AppUser(by, "login")
