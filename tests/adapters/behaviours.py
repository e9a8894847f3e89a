"""What every adapter is held to, with the real library: one test for each row of table.py, for each adapter.

Run by the pytest of an environment that has the libraries: see test_adapters.py.
"""

import json
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.testing.approvers import ScriptedDirector
from tests.adapters.scenes import Run, Scene, events
from tests.adapters.steps import begin, go_on
from tests.adapters.table import ADAPTERS, cases
from tests.support import extent

ROOT = Path(__file__).parents[2]
ONLY = os.environ.get("HLA_ADAPTER", "")
"""The one adapter that is tried; all where it is empty."""


def applies(row: str, *, each_way: bool = False) -> Any:
    """The adapters that a row is for: their drivers, or each way in which these run an agent."""
    found = [adapter for adapter, each in cases() if each == row and ONLY in ("", adapter.module)]
    if not each_way:
        return pytest.mark.parametrize("driver", [each.module for each in found], indirect=True)
    ways = [f"{each.module}.{way}" for each in found for way in (each.ways if extent.ALL else each.ways[:1])]
    return pytest.mark.parametrize("play", ways, indirect=True)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def driver(request: pytest.FixtureRequest, scene: Scene) -> Any:
    return import_module(f"tests.adapters.drivers.{request.param}").Driver(scene)


@pytest.fixture
def play(request: pytest.FixtureRequest, scene: Scene) -> Callable[..., Run]:
    module, _, way = request.param.partition(".")
    found: Callable[..., Run] = getattr(import_module(f"tests.adapters.drivers.{module}").Driver(scene), way)
    return found


def outcome(gate: Any) -> list[Any]:
    return [each.get("returncode") for each in events(gate, "exec.finished")]


@applies("allow", each_way=True)
def test_allow(scene: Scene, play: Callable[..., Run]) -> None:
    gate = scene.gate()
    run = play(gate, "good")
    assert (run.results, run.turns, scene.ran) == ([("did good", False)], 2, ["good"])
    assert outcome(gate) == [0]
    (judged,) = events(gate, "decision.evaluated")
    assert judged["command"].endswith('act({"what": "good"})')


@applies("deny", each_way=True)
def test_deny(scene: Scene, play: Callable[..., Run]) -> None:
    gate = scene.gate()
    run = play(gate, "deny this")
    ((text, wrong),) = run.results
    assert text.startswith("Not executed: the policy forbids this")
    assert "deny: deny" in text
    assert wrong
    assert (run.turns, scene.ran, outcome(gate)) == (2, [], [])


@applies("approve", each_way=True)
def test_approve(scene: Scene, play: Callable[..., Run]) -> None:
    gate = scene.gate("approve")
    assert play(gate, "ask me").results == [("did ask me", False)]
    assert scene.ran == ["ask me"]
    assert gate.asker.asked[0].action.content.endswith('act({"what": "ask me"})')
    assert len(events(gate, "exec.started")) == 1


@applies("reject", each_way=True)
def test_reject(scene: Scene, play: Callable[..., Run]) -> None:
    ((text, wrong),) = play(scene.gate(("reject", 'no. "ignore" it')), "ask me").results
    assert json.dumps('no. "ignore" it') in text
    assert "a human was asked, and refused" in text
    assert wrong
    assert scene.ran == []


@applies("edit", each_way=True)
def test_edit(scene: Scene, play: Callable[..., Run]) -> None:
    gate = scene.gate(("edit", 'act({"what": "good"})'), timeout_ms=300)
    ((text, wrong),) = play(gate, "ask me").results
    assert text.startswith("Not executed")
    assert wrong
    assert (scene.ran, outcome(gate)) == ([], [])


@applies("time_out", each_way=True)
def test_time_out(scene: Scene, play: Callable[..., Run]) -> None:
    ((text, _),) = play(scene.gate(None, timeout_ms=50), "ask me").results
    assert "needs a human's approval, and there was none" in text
    assert scene.ran == []


@applies("parallel", each_way=True)
def test_parallel(scene: Scene, play: Callable[..., Run]) -> None:
    run = play(scene.gate("approve"), "one", "deny this", "ask me", "four")
    assert [text if "did" in text else text[:12] for text, _ in run.results] == [
        "did one",
        "Not executed",
        "did ask me",
        "did four",
    ]
    assert sorted(scene.ran) == ["ask me", "four", "one"]
    assert run.turns == 2


@applies("stop", each_way=True)
def test_stop(scene: Scene, play: Callable[..., Run]) -> None:
    run = play(scene.gate("terminate"), "ask me", "ask me too")
    assert [text[:12] for text, _ in run.results] in (["Not executed"] * 2, [])  # some end without any
    assert (run.turns, scene.ran) == (1, [])


@applies("halt", each_way=True)
def test_halt(scene: Scene, play: Callable[..., Run]) -> None:
    gate = scene.gate()
    gate.store.halts.stop("os:1000:bob", "stop it")
    run = play(gate, "good", "good too")
    assert ["every agent" in text for text, _ in run.results] in ([True] * 2, [])
    assert (run.turns, scene.ran) == (1, [])


@applies("raises", each_way=True)
def test_raises(scene: Scene, play: Callable[..., Run]) -> None:
    gate = scene.gate()
    try:
        run = play(gate, "raise it")
    except ValueError as error:
        assert str(error) == "it broke"
    else:
        assert "it broke" in run.results[0][0] or "error" in run.results[0][0]  # some tell the model no more
    assert scene.ran == ["raise it"]
    (ended,) = events(gate, "exec.finished")
    assert "it broke" in ended["detail"] or "it raised" in ended["detail"]  # where nothing more is told
    assert ended.get("returncode") is None


class Broken:
    def evaluate(self, action: Action) -> PolicyDecision:
        raise ZeroDivisionError("a mistake")


@applies("fault", each_way=True)
def test_fault(scene: Scene, play: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    ((text, _),) = play(scene.gate(director=Broken()), "good").results
    assert text.startswith("Not executed")
    gate = scene.gate()

    def broken(*args: Any, **more: Any) -> Any:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(gate, "start", broken)
    ((text, _),) = play(gate, "good").results
    assert text.startswith("Not executed")
    assert scene.ran == []


@applies("changed")
def test_changed(scene: Scene, driver: Any) -> None:
    run = driver.run_changed(scene.gate(), "good")
    assert scene.ran == []
    assert all(text.startswith("Not executed") for text, _ in run.results)


@applies("bypassed")
def test_bypassed(scene: Scene, driver: Any) -> None:
    gate = scene.gate()
    run = driver.run_bypassed(gate, "good")
    assert "good" not in scene.ran
    assert run.turns == 1
    assert events(gate, "run.stopped")


@applies("commands")
def test_commands(scene: Scene, driver: Any) -> None:
    gate = scene.gate("reject", director=Director.load("default", project=scene.folder))
    free = {"command": "echo hi > out.txt", "dangerouslyDisableSandbox": True}
    run = driver.run_commands(gate, {"command": "echo hi", "description": "Say it."}, free)
    assert [text[:12] for text, _ in run.results] == ["hi", "Not executed"]
    assert [each["command"][:8] for each in events(gate, "decision.evaluated")] == ["echo hi", 'Bash({"c']
    assert not (scene.folder / "out.txt").exists()


@applies("code")
def test_code(scene: Scene, driver: Any) -> None:
    heard = driver.run_code(scene.gate(), "print(act('one')); print(act(what='den' + 'y this'))")
    assert scene.ran == ["one"]
    assert "Not executed: the policy forbids this call" in heard
    gate = scene.gate()
    assert "Not executed: the policy forbids this call" in driver.run_code(gate, "act('one'); 'deny'")
    assert scene.ran == ["one"]
    assert [each["command"] for each in events(gate, "decision.evaluated")][-1].startswith("python_interpreter(")


@applies("retried")
def test_retried(scene: Scene, driver: Any) -> None:
    gate = scene.gate("approve", "reject")
    driver.run_retried(gate, "ask raise")
    assert scene.ran == ["ask raise"]
    assert len(events(gate, "exec.started")) == 1


@applies("answered")
def test_answered(scene: Scene, driver: Any) -> None:
    gate = scene.gate()
    assert sorted(driver.pause(gate, "one", "ask a", "ask b").paused) == ["ask a", "ask b"]
    assert scene.ran in (["one"], [])
    run = driver.resume(gate, {"ask a": ("approve", ""), "ask b": ("reject", "not that")})
    assert [text[:12] for text, _ in run.results] == ["did one", "did ask a", "Not executed"]
    assert '"not that"' in run.results[2][0]
    assert sorted(scene.ran) == ["ask a", "one"]
    votes = events(gate, "vote.recorded")
    assert {each["approver"]["principal"] for each in votes} == {"app:alice"}


@applies("stranger")
def test_stranger(scene: Scene, driver: Any) -> None:
    gate = scene.gate()
    driver.pause(gate, "ask a")
    run = driver.resume(gate, {"ask a": ("approve", "")}, by="app:mallory")
    assert scene.ran == []
    assert run.paused == ("ask a",) or run.results[0][0].startswith("Not executed")


@applies("edited")
def test_edited(scene: Scene, driver: Any) -> None:
    gate = scene.gate()
    driver.pause(gate, "ask a")
    ((text, wrong),) = driver.resume(gate, {"ask a": ("edit", "good")}).results
    assert "changed it, and neither may run" in text
    assert "good" in text
    assert wrong
    assert scene.ran == []


@applies("resumed")
def test_resumed(scene: Scene, driver: Any) -> None:
    answers = {"ask a": ("approve", ""), "ask b": ("reject", "no")}
    scene.gate().close()  # the store is there
    assert scene.in_another_process(begin, driver, "one", "ask a", "ask b") == 9
    assert scene.in_another_process(go_on, driver, answers, "did one", "did ask a", "Not executed") == 0
    assert sorted(scene.ran) == ["ask a", "one"]


@applies("killed")
def test_killed(scene: Scene, driver: Any) -> None:
    scene.gate().close()
    assert scene.in_another_process(begin, driver, "ask die") == 9
    assert scene.in_another_process(go_on, driver, {"ask die": ("approve", "")}) == 9
    assert scene.ran == ["ask die"]
    assert scene.in_another_process(go_on, driver, {}) == 0
    assert scene.ran == ["ask die"]


@pytest.mark.parametrize("driver", [each.module for each in ADAPTERS if ONLY in ("", each.module)], indirect=True)
def test_example(scene: Scene, driver: Any) -> None:
    """The example's tool is asked about, and does not run where the human rejects it, in their words."""
    gate = scene.gate(
        ("reject", "not her"), director=ScriptedDirector(otherwise=Verdict.ALLOW, verdicts={"close": Verdict.ASK})
    )
    printed = driver.example(gate, {"customer": "ada"})
    assert '"not her"' in printed
    assert "closed" not in printed
    assert gate.asker.asked[0].action.content.endswith('close_account({"customer": "ada"})')
