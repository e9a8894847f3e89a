"""`hla stop` while agents work: a mini-swe-agent loop, and any Python function."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.agents.mini import SupervisedAgent
from humanlayer_agent.agents.require_approval import require_approval
from humanlayer_agent.errors import ActionDenied, AgentsStopped
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.patience import until


@pytest.fixture
def agent(
    project: Path, judges: Callable[..., Any], tools: Any, templates: dict[str, Any]
) -> Callable[..., SupervisedAgent]:
    from minisweagent.environments.local import LocalEnvironment

    def make(script: Any, *answers: Any) -> Any:
        made = judges(*answers)
        one: Any = SupervisedAgent(tools(script), LocalEnvironment(), gate=made.gate, **templates)
        one.judges = made
        return one

    return make


WAITS = "touch two; while [ ! -e go ]; do sleep 0.01; done; echo done"


@contextmanager
def stopped_while_it_waits(project: Path, path: Path) -> Iterator[None]:
    """A human elsewhere stops everything while `WAITS` runs, and lets that end then."""

    def human() -> None:
        until((project / "two").exists, "the second command")
        with closing(SQLiteStore(path)) as store:
            store.halts.stop("os:1000:bob", "that was wrong")
        (project / "go").touch()

    thread = threading.Thread(target=human, daemon=True)
    thread.start()
    try:
        yield
    finally:
        (project / "two").touch()
        thread.join()


def test_a_loop_is_stopped_in_the_middle(agent: Any, project: Path, submit: str) -> None:
    """What runs ends, and its output is told; everything after it is denied, in the same message and the next."""
    one = agent([["touch one"], [WAITS, "touch three", "touch QUESTION"], ["touch four"], [submit]])
    with stopped_while_it_waits(project, one.judges.store.path):
        ended = one.run("t")
    assert ended["exit_status"] == "SupervisionTerminated"
    assert sorted(path.name for path in project.iterdir()) == ["go", "one", "two"]
    assert one.judges.asker.asked == []
    records = [m["extra"]["supervision"] for m in one.messages if m.get("extra", {}).get("supervision")]
    assert [record["executed"] for record in records if "executed" in record][:4] == [True, True, False, False]
    assert "A human stopped every agent here at once" in one.messages[-1]["content"]
    told = [m["content"] for m in one.messages if "end your work now" in str(m.get("content"))]
    assert told
    assert not any("that was wrong" in str(m) for m in one.messages), "their words are for humans"
    assert one.judges.store.verify().intact


def test_another_run_begins_while_stopped(agent: Any, project: Path, submit: str) -> None:
    one = agent([["touch one"], [submit]])
    one.judges.store.halts.stop("os:1000:bob")
    assert one.run("t")["exit_status"] == "SupervisionTerminated"
    assert list(project.iterdir()) == []
    assert list(one.judges.store.events(type="exec")) == []


def test_a_startup_command_of_a_harness(agent: Any, project: Path) -> None:
    one = agent([["ls"]])
    one.judges.store.halts.stop("os:1000:bob")
    from humanlayer_agent.action import Action

    action = Action("make", cwd=str(project), project=str(project))
    with pytest.raises(AgentsStopped):
        one.judges.gate.record(action, one.judges.director.evaluate(action), left_to="the harness")


def test_a_function(judges: Callable[..., Any]) -> None:
    made = judges("approve", "approve")
    called: list[int] = []

    @require_approval(gate=made.gate)
    def pay(amount: int, note: str = "QUESTION") -> None:
        called.append(amount)

    pay(1)
    made.store.halts.stop("os:1000:bob")
    with pytest.raises(ActionDenied) as denied:
        pay(2)
    assert denied.value.denial.halted  # type: ignore[attr-defined]
    assert called == [1]
    assert len(made.asker.asked) == 1
