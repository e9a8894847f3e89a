"""What a held run says that a command would change is what the command changes, or the difference is named beforehand."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from humanlayer_agent.confine.held_run.application import apply
from tests.confine.held_run.conftest import Scene, state

COMMANDS: list[Any] = yaml.safe_load(Path(__file__).with_name("commands.yaml").read_text())
OF_GIT = (".git/index", ".git/logs/HEAD", ".git/logs/refs/heads/main", ".git/ORIG_HEAD")
"""Files in which git notes times and numbers of files: by their meaning they are compared through `git status`."""


def test_there_are_enough() -> None:
    assert len(COMMANDS) >= 120


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "case", COMMANDS, ids=lambda case: str(case if isinstance(case, str) else case["command"])[:50]
)
def test_it_is_as_in_a_real_run(scene: Scene, case: Any) -> None:
    case = {"command": case} if isinstance(case, str) else case
    before = state(scene.project)
    tried = scene.hold(case["command"])
    assert state(scene.project) == before, "a held run changes nothing"
    if "refused" in case:
        assert any(case["refused"] in why for why in tried.layer.refused), tried.layer.refused
        return
    assert tried.layer.refused == ()
    apply(tried.layer, tried.upper, tried.folder)
    without = (case.get("varies", ""), *OF_GIT)
    predicted = state(scene.project, without=without)
    assert not [path for path in predicted if ".hla-held" in path]
    status = scene.run("git status --porcelain; git rev-parse HEAD; git ls-files -s | cut -d' ' -f1-2").output
    scene.make()
    real = scene.run(case["command"])
    assert predicted == state(scene.project, without=without)
    assert tried.result.returncode == real.returncode
    if "varies" not in case:
        assert (
            status == scene.run("git status --porcelain; git rev-parse HEAD; git ls-files -s | cut -d' ' -f1-2").output
        )
