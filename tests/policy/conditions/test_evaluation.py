"""Each action is judged by the rules that can apply, and anew each time: nothing that was decided outlives the action."""

import threading
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.shell import DiskReader

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "outside").mkdir()
    return tmp_path / "project"


@pytest.fixture
def director(project: Path) -> Director:
    return Director.load("default", project=project, environ={"HOME": "/nowhere/home", "TMPDIR": "/nowhere/tmp"})


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


def test_files_are_read_each_time(project: Path) -> None:
    director = Director.load(
        "default", project=project, environ={"HOME": "/nowhere/home"}, reader=DiskReader(str(project))
    )
    action, script = Action("bash run.sh", cwd=str(project)), project / "run.sh"
    for text, verdict in (("ls\n", Verdict.ALLOW), ("rm -rf /\n", Verdict.DENY), ("ls\n", Verdict.ALLOW)):
        script.write_text(text)
        assert director.evaluate(action).verdict is verdict


@pytest.mark.long
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
