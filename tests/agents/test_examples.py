"""The examples run, and the seed design's way of wrapping works."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from minisweagent.environments.local import LocalEnvironment

from humanlayer_agent.action import Action
from humanlayer_agent.agents.mini import HumanLayerAgent, SupervisedLocalEnvironment
from humanlayer_agent.agents.supervision import SimpleDirector
from humanlayer_agent.policy.decision import Verdict
from tests.support import children

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run_example(project: Path, tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    def run(name: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HUMANLAYER_STORE": str(tmp_path / "store.sqlite3"),
        }
        return children.run(
            [sys.executable, str(ROOT / "examples" / name)],
            cwd=project,
            env=env,
            input=typed,
            capture_output=True,
            text=True,
            imports=children.MINI,
        )

    return run


@pytest.mark.sample(1)
@pytest.mark.parametrize(("typed", "ran"), [("Yes\n", True), ("No\n", False), ("", False), ("yes\n", False)])
def test_wrap_agent(run_example: Any, project: Path, typed: str, ran: bool) -> None:
    done = run_example("wrap_agent.py", typed)
    assert done.returncode == 0, done.stderr
    assert "exit status: Submitted" in done.stdout
    assert (project / "note.txt").exists() is ran
    assert ("ran     date" in done.stdout) is ran


def test_wrap_environment(run_example: Any, project: Path) -> None:
    (project / "build").mkdir()
    done = run_example("wrap_environment.py")
    assert done.returncode == 0, done.stderr
    assert "Not executed: a human was asked" in done.stdout
    assert "exit status: Submitted" in done.stdout
    assert (project / "build").exists()


class SeedDirector:
    """As the seed design has it: `should_allow(action) -> (bool, reason)`, and nothing else."""

    def should_allow(self, action: Action) -> tuple[bool, str]:
        assert action.type == "bash"
        return "touch" not in action.content, "it touches files"


class SeedUser:
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[str, list[str]]] = []

    def query(self, prompt: str, options: list[str]) -> Any:
        self.asked.append((prompt, options))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


ANSWERS = [("Yes", True), ("No", False), ("yes", False), (None, False), (True, False), (OSError("gone"), False)]


@pytest.mark.sample(5)
@pytest.mark.parametrize(("answer", "runs"), ANSWERS)
def test_the_seed_wraps_the_agent(
    project: Path, tools: Any, submit: str, templates: dict[str, Any], answer: Any, runs: bool
) -> None:
    user = SeedUser(answer)
    agent = HumanLayerAgent(tools([["touch file"], [submit]]), LocalEnvironment(), SeedDirector(), user, **templates)
    assert agent.run("t")["exit_status"] == "Submitted"
    assert (project / "file").exists() is runs
    ((prompt, options),) = user.asked
    assert options == ["No", "Yes"]
    assert "it touches files" in prompt
    assert "touch file" in prompt


@pytest.mark.parametrize(("answer", "runs"), ANSWERS)
def test_the_seed_wraps_the_environment(project: Path, answer: Any, runs: bool) -> None:
    environment = SupervisedLocalEnvironment(SeedDirector(), SeedUser(answer), timeout=600)
    output = environment.execute({"command": "touch file"})
    assert (project / "file").exists() is runs
    assert output["returncode"] == (0 if runs else 126)
    assert environment.execute({"command": "echo free"})["output"] == "free\n"


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ((True, "fine"), Verdict.ALLOW),
        ((False, "ask them"), Verdict.ASK),
        ((False, None), Verdict.ASK),
        (True, Verdict.DENY),
        (None, Verdict.DENY),
        ((1, "truthy"), Verdict.DENY),
        (("yes", "truthy"), Verdict.DENY),
        ((True,), Verdict.DENY),
        ((True, "fine", "more"), Verdict.DENY),
        ((True, 5), Verdict.DENY),
        (ValueError("broken"), Verdict.DENY),
    ],
)
def test_a_simple_director_fails_closed(answer: Any, verdict: Verdict) -> None:
    class Odd:
        def should_allow(self, action: Action) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    director = SimpleDirector(Odd())
    decision = director.evaluate(Action("ls"))
    assert decision.verdict is verdict
    assert director.should_allow(Action("ls"))[0] is (verdict is Verdict.ALLOW)


def test_the_real_director_answers_the_seed_in_its_simplest_form(project: Path) -> None:
    from humanlayer_agent.configuration import build_director

    director = build_director("default", project=project)
    assert director.should_allow(Action(content="ls", type="bash", cwd=str(project)))[0] is True
    allowed, reason = director.should_allow(Action(content="rm -rf /srv/data", type="bash", cwd=str(project)))
    assert allowed is False
    assert reason
    assert director.should_allow(Action(content="rm -rf x", type="bash"))[0] in (True, False)
