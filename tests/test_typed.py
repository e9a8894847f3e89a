"""Types as a user of the package sees them: by a type checker, by `inspect`, and in pydantic models."""

import ast
import inspect
import subprocess
import sys
from dataclasses import fields, is_dataclass
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

import humanlayer_agent
from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import EffectVerdict, PartVerdict, PolicyDecision, Verdict
from humanlayer_agent.shell import Effect, Program, SimpleCommand

USER = """
from humanlayer_agent import Action, Director, Gate, require_approval
from humanlayer_agent.policy.decision import Verdict


@require_approval
def transfer(account: str, amount: int = 1) -> float:
    return 0.5


@require_approval(gate=None)
def close(account: str) -> bool:
    return True


def judged(command: str) -> Verdict:
    director = Director.load("default", project="/srv/app")
    reveal_type(director.evaluate(Action(command, cwd="/srv/app")))
    return director.evaluate(Action(command, cwd="/srv/app")).verdict


def run(gate: Gate) -> str:
    reveal_type(Gate.from_config())
    return gate.run("ls").output


reveal_type(transfer)
reveal_type(close)
reveal_type(Action("ls").content)
reveal_type(judged("ls"))
reveal_type(Verdict.ASK < Verdict.DENY)
"""
REVEALED = [
    "humanlayer_agent.policy.decision.PolicyDecision",
    "humanlayer_agent.agents.python_gate.Gate",
    "def (account: str, amount: int =) -> float",
    "def (account: str) -> bool",
    "str",
    "humanlayer_agent.policy.decision.Verdict",
    "bool",
]
WRONG = {
    "from humanlayer_agent import nothing": 'has no attribute "nothing"',
    "from humanlayer_agent import Action\nAction(5)": 'Argument 1 to "Action" has incompatible type "int"',
    "from humanlayer_agent import require_approval\n@require_approval\ndef f(x: int) -> int: return x\nf('a')": (
        'Argument 1 to "f" has incompatible type "str"'
    ),
}
"""Programs that a type checker must refuse, and what it says of them."""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What `mypy --strict` says of each file of a user's project: app.py, and one for each program that is wrong."""
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed: pip install '.[test]'")
    folder = tmp_path_factory.mktemp("typed")
    programs = {"app.py": USER} | {f"wrong{n}.py": program for n, program in enumerate(WRONG)}
    for name, program in programs.items():
        (folder / name).write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), *programs]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    *lines, last = done.stdout.splitlines()
    assert last.endswith(f"(checked {len(programs)} source files)"), done.stdout + done.stderr
    assert {line.partition(":")[0] for line in lines} == programs.keys()
    return {name: [line for line in lines if line.startswith(f"{name}:")] for name in programs}


@pytest.mark.long
def test_a_users_project_is_checked_strictly(said: dict[str, list[str]]) -> None:
    assert [line for line in said["app.py"] if " note: " not in line] == []
    found = [line.partition("Revealed type is ")[2].strip('"') for line in said["app.py"] if "Revealed" in line]
    assert [each.replace("builtins.", "") for each in found] == REVEALED


@pytest.mark.long
def test_what_is_wrong_is_refused(said: dict[str, list[str]]) -> None:
    for n, why in enumerate(WRONG.values()):
        assert any(" error: " in line and why in line for line in said[f"wrong{n}.py"])


def test_type_checkers_are_told_where_the_public_names_are() -> None:
    told = ast.parse(Path(humanlayer_agent.__file__).with_suffix(".pyi").read_text())
    assert {a.name: each.module for each in told.body if isinstance(each, ast.ImportFrom) for a in each.names} == (
        humanlayer_agent._WHERE
    )


def test_a_signature_names_the_fields() -> None:
    assert list(inspect.signature(Action).parameters) == [each.name for each in fields(Action)]
    assert list(inspect.signature(Action).parameters)[:4] == ["content", "type", "cwd", "project"]


def test_what_is_public_is_of_the_standard_library() -> None:
    assert issubclass(Verdict, IntEnum)
    for kind in (Action, PolicyDecision, PartVerdict, EffectVerdict, Effect, Program, SimpleCommand):
        assert is_dataclass(kind)
        assert list(inspect.signature(kind).parameters) == [each.name for each in fields(kind) if each.init]


def test_pydantic_takes_them() -> None:
    class Answer(BaseModel):
        verdict: Verdict
        decision: PolicyDecision | None = None

    decision = PolicyDecision(Verdict.DENY, "no", "default", "0" * 64)
    answer = Answer(verdict=2, decision=decision)
    assert answer.verdict is Verdict.DENY
    assert answer.decision == decision
    with pytest.raises(ValidationError):
        Answer(verdict=7)
