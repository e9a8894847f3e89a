"""Uncommitted work that a command would throw away: asked about by name, and only where somebody else has made it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from humanlayer_agent import Action, Director
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.shell import DiskReader, GivenReader

SCENE = """
git init -q -b main .; mkdir docs; echo r > README.md; echo d > docs/d.md; echo e > clean.md; git add -A
git -c user.name=a -c user.email=a@example.org commit -qm one
echo mine >> README.md
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("no git here")
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run(["bash", "-ec", SCENE], cwd=folder, check=True)
    return folder


def judged(director: Director, text: str) -> PolicyDecision:
    return director.evaluate(Action(text, cwd=director.project))


@pytest.mark.sample(3)
@pytest.mark.parametrize("policy", ["default", "strict", "ci"])
@pytest.mark.parametrize("confined", [False, True])
def test_it_is_asked_about_by_name(project: Path, policy: str, confined: bool) -> None:
    director = Director.load(policy, project=project, reader=DiskReader(project), confined=confined)
    decision = judged(director, "git checkout -- README.md")
    assert decision.verdict is not Verdict.ALLOW
    assert "uncommitted changes of README.md" in decision.reason
    assert "uncommitted" not in judged(director, "git checkout -- clean.md").reason


def test_once_approved_it_stays_confined(project: Path) -> None:
    director = Director.load("default", project=project, reader=DiskReader(project), confined=True)
    assert judged(director, "git checkout -- README.md").runs.startswith("confined")


@pytest.mark.parametrize("text", ["git reset --hard", "git clean -fd", "git stash drop", "git checkout -f"])
def test_nothing_is_asked_where_nothing_would_be_lost(project: Path, text: str) -> None:
    subprocess.run(["git", "checkout", "-q", "README.md"], cwd=project, check=True)
    director = Director.load("default", project=project, reader=DiskReader(project))
    assert judged(director, text).verdict is Verdict.ALLOW


def test_the_runs_own_changes_are_its_own(project: Path) -> None:
    director = Director.load("default", project=project, reader=DiskReader(project))
    judged(director, "ls")
    judged(director, "echo more > docs/d.md")
    (project / "docs/d.md").write_text("more")
    assert judged(director, "git checkout -- docs").verdict is Verdict.ALLOW
    assert "of README.md." in judged(director, "git checkout -- docs README.md").reason
    other = Director.load("default", project=project, reader=DiskReader(project))
    assert "of docs/d.md." in judged(other, "git checkout -- docs").reason


def test_a_disk_that_can_not_be_looked_at_asks_no_more(project: Path) -> None:
    director = Director.load("default", project=project, reader=GivenReader({}))
    assert judged(director, "git checkout -- README.md").verdict is Verdict.ALLOW
    assert judged(director, "git reset --hard").verdict is Verdict.ASK
