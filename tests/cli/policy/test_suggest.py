"""`hla policy suggest`: what it reads, the file that it writes, and the proof."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Permit
from humanlayer_agent.cli import main
from humanlayer_agent.configuration import build_director
from humanlayer_agent.locations import default_store_path
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker

Capture = pytest.CaptureFixture[str]
OFTEN = [f"gh pr view {n}" for n in range(10)]


@pytest.fixture
def project(tmp_path: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return folder


def recorded(project: Path, commands: Sequence[str]) -> Path:
    path = project.parent / "runs.jsonl"
    rows = [{"id": str(n), "command": c, "cwd": str(project)} for n, c in enumerate(commands)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def answered(project: Path, commands: Sequence[str], answer: str) -> None:
    """Ask a human about each, who answers so."""
    store = SQLiteStore(default_store_path())
    for command in commands:  # each in a run of its own: what was refused in one is not asked about again in it
        with Gate(build_director(project=project), store, ScriptedAsker([answer])) as gate:
            action = Action(command, cwd=str(project), project=str(project))
            permit = gate.check(action)
            if isinstance(permit, Permit):
                assert gate.start(permit, action) is None
    store.close()


def verdicts(project: Path, *commands: str) -> list[str]:
    director = Director.load(project.parent / "suggested.yaml", project=project)
    return [str(director.evaluate(Action(each, cwd=str(project))).verdict) for each in commands]


@pytest.mark.long
def test_of_the_log(project: Path, capsys: Capture) -> None:
    answered(project, [*OFTEN, "cat /srv/other/a"], "approve")
    answered(project, ["pip install x"] * 10, "reject")
    assert main(["policy", "suggest"]) == 0
    said = capsys.readouterr().out
    assert "21 actions asked about, 10 of them refused" in said
    assert "replay: 11 approved asks, 1 with this policy" in said
    assert "looser but not approved: nothing" in said
    assert "lint: nothing; its tests pass" in said
    assert "suggested.yaml: 1 exception, 1 allow, 1 denial" in said
    assert verdicts(project, "gh pr view 99", "gh pr list", "pip install x", "cat /srv/other/a") == [
        "allow", "ask", "deny", "ask",
    ]  # fmt: skip
    load(project.parent / "suggested.yaml")
    text = (project.parent / "suggested.yaml").read_text()
    assert text.startswith("# Suggested by hla policy suggest on ")
    assert "# replay: 11 approved asks, 1 with this policy" in text
    assert [path.name for path in project.parent.glob(".sugg*")] == []


def test_it_writes_over_nothing(project: Path, capsys: Capture) -> None:
    (project.parent / "suggested.yaml").write_text("mine")
    assert main(["policy", "suggest", "--runs", str(recorded(project, OFTEN)), "--assume-approved"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert (project.parent / "suggested.yaml").read_text() == "mine"


@pytest.mark.long
def test_of_recorded_runs(project: Path, capsys: Capture) -> None:
    runs = ["--runs", str(recorded(project, [*OFTEN, "ls"])), "--output", str(project.parent / "suggested.yaml")]
    assert main(["policy", "suggest", *runs]) == 2
    assert "says what humans approved" in capsys.readouterr().err
    assert main(["policy", "suggest", *runs, "--assume-approved"]) == 0
    assert "replay: 10 approved asks, 0 with this policy" in capsys.readouterr().out
    assert verdicts(project, "gh pr view 99") == ["allow"]


@pytest.mark.long
def test_nothing_to_suggest(project: Path, capsys: Capture) -> None:
    answered(project, OFTEN[:9], "approve")
    assert main(["policy", "suggest"]) == 1
    assert "nothing is suggested" in capsys.readouterr().out
    assert not (project.parent / "suggested.yaml").exists()
    assert main(["policy", "suggest", "--since", "soon"]) == 2
    assert "expected a number of days or hours" in capsys.readouterr().err
