"""What a command may change of a project is taken from its effects; what can't be told is taken to be anything."""

import os
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent import Gate
from humanlayer_agent.action import Action
from humanlayer_agent.agents.file_keeper import scope_of
from humanlayer_agent.locations import kept_folder
from humanlayer_agent.policy.director import Director
from humanlayer_agent.undo.kept_files import KeptFiles

POLICY = """\
version: 1
policy: undone
defaults: {undo: run, keep: {files: 50, megabytes: 1}, unmatched: allow}
rules:
  - {id: never, decision: deny, reason: Never., when: {program: never}}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path / "project"
    (top / "d").mkdir(parents=True)
    for name in ("a", "d/b", "x.py"):
        (top / name).write_text(f"{name}\n")
    (top / "l").symlink_to("d/b")
    (top / "out").symlink_to(tmp_path / "outside")
    (tmp_path / "policy.yaml").write_text(POLICY)
    monkeypatch.chdir(top)
    return top


@pytest.mark.parametrize(
    ("line", "paths", "whole"),
    [
        ("echo x > new", ["new"], False),
        ("cd d && sed -i s/b/c/ b", ["d/b"], False),
        ("mv a d; mkdir -p p/q", ["a", "d", "p/q"], False),
        ("echo x > l", ["l", "d/b"], False),
        ("rm -r d/../d", ["d"], False),
        ("for i in 1 2; do echo $i > f$i; done", ["f1", "f2"], False),
        ("curl -so page http://example.org", ["page"], False),
        ("git commit -qm x", None, True),
        ("./a.out", None, True),
        ("python x.py", None, True),
        ("make", None, True),
        ("npm install", None, True),
        ('rm "$X"', None, True),
        ("find . -name '*.o' | xargs rm", None, True),
    ],
)
def test_the_scope_of_a_command(project: Path, line: str, paths: list[str] | None, whole: bool) -> None:
    director = Director.load(project.parent / "policy.yaml", project=project, environ={"HOME": "/root"})
    found = scope_of(director.evaluate(Action(line, cwd=str(project), project=str(project))), str(project))
    assert found is not None
    assert found.whole == whole
    if paths is not None:
        assert sorted(found.paths) == sorted(paths)


@pytest.mark.parametrize("line", ["ls -la", "cat a | grep b", "git status", "git log", "kill 1", "cp a /tmp/elsewhere"])
def test_what_changes_nothing_there_costs_nothing(project: Path, line: str) -> None:
    director = Director.load(project.parent / "policy.yaml", project=project, environ={"HOME": "/root"})
    assert scope_of(director.evaluate(Action(line, cwd=str(project), project=str(project))), str(project)) is None


def test_what_no_undo_takes_back_is_said(project: Path) -> None:
    director = Director.load(project.parent / "policy.yaml", project=project, environ={"HOME": "/root"})

    def beyond(line: str) -> tuple[str, ...]:
        found = scope_of(director.evaluate(Action(line, cwd=str(project), project=str(project))), str(project))
        assert found is not None
        return found.beyond

    assert beyond("echo x > a") == ()
    assert any("example.org" in said for said in beyond("curl -so page http://example.org"))
    assert any("/srv/x" in said for said in beyond("cp a d/c; echo y > /srv/x"))
    assert any("out" in said for said in beyond("echo x > a; echo x > out/y"))
    assert "It ran code of which nobody knows what it changed outside of the project." in beyond("./a.out")


def kept(gate: Gate) -> list[Any]:
    return [(each.permit[:0], each.created, each.changed, each.deleted) for each in KeptFiles(kept_folder()).all()]


def test_every_way_through_a_gate(project: Path) -> None:
    gate = Gate.from_config(policy=str(project.parent / "policy.yaml"), project=project, confine=False)
    gate.run("ls")
    assert kept(gate) == []
    gate.run("echo x > new")
    permit = gate.check(Action("rm a", cwd=str(project), project=str(project)))
    with gate.using(permit, permit.action):  # type: ignore[union-attr, arg-type]
        (project / "a").unlink()
    assert kept(gate) == [("", 0, 0, 1), ("", 1, 0, 0)]
    said = [entry.event for entry in gate.store.events(type="files.kept")]
    assert all(event["permit"] and event["manifest"]["sha256"] for event in said)
    gate.close()


def test_what_can_not_be_kept_is_in_the_log_and_the_command_runs(project: Path) -> None:
    kept_folder().parent.mkdir(parents=True, exist_ok=True)
    kept_folder().write_text("in the way")
    with Gate.from_config(policy=str(project.parent / "policy.yaml"), project=project, confine=False) as gate:
        assert gate.run("rm a").returncode == 0
        (event,) = (entry.event for entry in gate.store.events(type="files.unkept"))
        assert ("not a folder of this user's own" in event["why"], bool(event["permit"])) == (True, True)


def test_what_is_too_much_is_said_of_the_permit(project: Path) -> None:
    (project / "d/e").mkdir()
    for number in range(60):
        (project / f"d/{number}").touch()
    (project / "large").write_bytes(bytes(2_000_000))
    with Gate.from_config(policy=str(project.parent / "policy.yaml"), project=project, confine=False) as gate:
        gate.run("rm large")
        gate.run('bash -c "$(cat x.py)"')
    first, second = KeptFiles(kept_folder()).all()[::-1]
    assert (first.left_out, second.left_out > 0) == (1, True)


def test_a_policy_that_does_not_say_so_keeps_nothing(project: Path) -> None:
    (project.parent / "policy.yaml").write_text(POLICY.replace("undo: run, ", ""))
    with Gate.from_config(policy=str(project.parent / "policy.yaml"), project=project, confine=False) as gate:
        gate.run("rm a")
    assert not os.path.lexists(kept_folder())
