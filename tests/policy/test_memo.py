"""What is remembered of decisions is only used where judging anew would say the same."""

import threading
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy import memo
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "outside").mkdir()
    return tmp_path / "project"


@pytest.fixture
def director(project: Path) -> Director:
    return Director.load("default", project=project, environ={"HOME": "/nowhere/home", "TMPDIR": "/nowhere/tmp"})


def judged(director: Director, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that were judged, and not remembered."""
    seen: list[str] = []
    program = director.program

    def counted(action: Action, reader: object = None) -> object:
        seen.append(action.content)
        return program(action)

    monkeypatch.setattr(director, "program", counted)
    return seen


def test_the_same_action_is_judged_once(director: Director, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = judged(director, monkeypatch)
    action = Action("rm -rf /srv/x", cwd=str(project))
    first, second = director.evaluate(action), director.evaluate(Action("rm -rf /srv/x", cwd=str(project), step=7))
    assert (first.verdict, first.rules, first.reason) == (second.verdict, second.rules, second.reason)
    assert seen == ["rm -rf /srv/x"]


@pytest.mark.parametrize(
    "other",
    [
        Action("rm x", cwd="/srv"),
        Action("rm x", cwd="{project}", env={"A": "1"}),
        Action("rm x", cwd="{project}", interpreter=("sh", "-c")),
        Action("rm x", cwd="{project}", type="python"),
        Action("rm x", cwd="{project}", agent="another"),
    ],
)
def test_another_action_is_judged_anew(
    director: Director, project: Path, monkeypatch: pytest.MonkeyPatch, other: Action
) -> None:
    from dataclasses import replace

    seen = judged(director, monkeypatch)
    director.evaluate(Action("rm x", cwd=str(project)))
    director.evaluate(replace(other, cwd=other.cwd.replace("{project}", str(project))))
    assert len(seen) == 2


def test_links_are_looked_up_each_time(director: Director, project: Path, tmp_path: Path) -> None:
    action = Action("rm -rf build/x", cwd=str(project))
    (project / "build").mkdir()
    assert director.evaluate(action).verdict is Verdict.ALLOW
    (project / "build").rmdir()
    (project / "build").symlink_to("/srv")
    assert director.evaluate(action).verdict is Verdict.ASK, "build leads out of the project now"
    (project / "build").unlink()
    (project / "build").symlink_to(project)
    assert director.evaluate(action).verdict is Verdict.ALLOW


def test_a_link_on_the_way_to_what_was_missing(director: Director, project: Path) -> None:
    action = Action("cat a/b/c", cwd=str(project))
    assert director.evaluate(action).verdict is Verdict.ALLOW
    (project / "a").mkdir()
    (project / "a" / "b").symlink_to("/srv")
    assert director.evaluate(action).verdict is Verdict.ASK


def test_it_is_bounded(director: Director, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = judged(director, monkeypatch)
    for n in range(memo.MAX_ENTRIES + 10):
        director.evaluate(Action(f"echo {n}", cwd=str(project)))
    assert len(director._memo._entries) == memo.MAX_ENTRIES
    director.evaluate(Action("echo 0", cwd=str(project)))
    assert seen.count("echo 0") == 2, "the oldest went first"
    long = Action("echo " + "x" * memo.MAX_COMMAND, cwd=str(project))
    director.evaluate(long)
    director.evaluate(long)
    assert seen.count(long.content) == 2, "long ones are not kept"


def test_threads_get_the_same_answers(director: Director, project: Path) -> None:
    commands = [f"rm -rf {'/srv/' if n % 2 else ''}x{n % 40}" for n in range(400)]
    expected = {c: director.evaluate(Action(c, cwd=str(project))).verdict for c in commands}
    wrong: list[str] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        for command in commands:
            if director.evaluate(Action(command, cwd=str(project))).verdict is not expected[command]:
                wrong.append(command)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_only_rules_that_can_apply_are_asked(project: Path, tmp_path: Path) -> None:
    rules = "".join(f"  - {{id: r{n}, decision: deny, when: {{program: p{n}}}}}\n" for n in range(200))
    path = tmp_path / "many.yaml"
    path.write_text(f"version: 1\npolicy: many\nrules:\n{rules}")
    director = Director.load(path, project=project)
    rules_in_force = director.in_force().rules
    assert [r.rule.id for r in rules_in_force.concerning("p7", None)] == ["r7"]
    assert [r.rule.id for r in rules_in_force.concerning("/x/p7", None)] == ["r7"]
    assert len(rules_in_force.concerning(None, None)) == 200, "an unknown program may be any of them"
    assert rules_in_force.concerning("p7", "read") == ()
