"""Before what nobody has read runs confined, the files of the project are kept that no commit has: at every door."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent import ActionDenied, Gate
from humanlayer_agent.agents.run_enclosures import RunEnclosures
from humanlayer_agent.confine.confinement import Bounds, Confinement, Profile, Unenforceable
from humanlayer_agent.locations import kept_folder
from humanlayer_agent.undo.kept_files import KeptFiles, Manifest
from tests.agents.conftest import Human
from tests.support import enclosures


@pytest.fixture
def work(place: Path) -> Path:
    """A repository with what no commit has, and a program to destroy it that nobody can read."""
    project = place / "project"
    env = {"PATH": os.environ["PATH"], "HOME": str(place)}

    def git(*words: str) -> None:
        named = ("-c", "user.name=A", "-c", "user.email=a@b")
        subprocess.run(["git", *named, *words], cwd=project, env=env, check=True, capture_output=True)

    git("init", "-q")
    (project / "module.py").write_text("committed\n")
    (project / "same.py").write_text("committed\n")
    (project / ".gitignore").write_text("*.log\n")
    git("add", "-A")
    git("commit", "-qm", "first")
    (project / "module.py").write_text("edited\n")
    (project / "notes").write_text("notes\n")
    (project / "x.log").write_text("log\n")
    (project / ".env").write_text("SECRET=1\n")
    shutil.copy("/bin/rm", project / "unread")
    return project


def kept() -> list[Manifest]:
    found = KeptFiles(kept_folder())
    return [found.manifest(each) for each in found.all()]


def logged(gate: Gate, kind: str = "files") -> list[dict[str, Any]]:
    return [entry.event for entry in gate.store.events() if entry.event["type"].startswith(kind)]


def test_what_no_commit_has_is_kept_before_the_first_unread_command(gate: Gate, work: Path, human: Human) -> None:
    gate.run("cat module.py; touch read; rm read")
    assert kept() == []
    assert gate.run("./unread module.py same.py notes").returncode == 0
    (manifest,) = kept()
    assert sorted(file.path for file in manifest.files) == ["module.py", "notes", "unread"]
    assert {".gitignore", "same.py"} == set(manifest.committed)
    assert (manifest.ignored, manifest.held) == (("x.log",), (".env",)), "what a command can't write need not be kept"
    assert human.asked == []
    (event,) = logged(gate)
    (known,) = KeptFiles(kept_folder()).all()
    assert (event["type"], event["run"], event["name"]) == ("files.kept", gate.run_id, gate.run_id)
    assert (event["files"], event["manifest"], event["left_out"]) == (3, {"sha256": known.digest}, 0)
    kinds = [entry.event["type"] for entry in gate.store.events()]
    assert kinds.index("files.kept") < len(kinds) - 1 - kinds[::-1].index("exec.started")


def test_it_is_done_once_in_a_run(gate: Gate, work: Path) -> None:
    gate.run("./unread notes")
    (work / "notes").write_text("later\n")
    gate.run("./unread notes")
    assert (len(kept()), len(logged(gate))) == (1, 1)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("command", "is_kept"),
    [
        ("./unread x", True),
        ("frobnicate", True),
        ('echo x > "$(cat name)"', True),
        ("sort --frobnicate notes", True),
        ("echo x > made; cp made notes", False),
        ("rm -f notes", False),
        ("grep -r x . | wc -l", False),
    ],
)
def test_it_is_done_where_not_all_is_known_that_is_written(
    gate: Gate, work: Path, human: Human, command: str, is_kept: bool
) -> None:
    human.approves = True
    gate.run(command)
    said = logged(gate)
    assert [event["type"] for event in said] == ["files.kept"] * is_kept, said
    assert len(kept()) == is_kept


def test_without_a_repository_all_is_kept(gate: Gate, place: Path) -> None:
    (place / "project/notes").write_text("notes\n")
    shutil.copy("/bin/rm", place / "project/unread")
    gate.run("./unread notes")
    (manifest,) = kept()
    assert sorted(file.path for file in manifest.files) == ["notes", "unread"]


@pytest.mark.long
def test_commands_neither_read_nor_change_it(gate: Gate, work: Path, human: Human) -> None:
    gate.run("./unread -f nothing")
    for program in ("rm", "cat", "ls"):
        shutil.copy(f"/bin/{program}", work / "unread")
        words = {"rm": "-rf", "cat": "", "ls": "-R"}[program]
        done = gate.run(f"F={kept_folder()}; ./unread {words} $F/runs/* $F/contents/*/* $F")
        assert "sha256" not in done.output
        assert done.returncode != 0 or program == "rm"
    assert len(kept()) == 1
    with pytest.raises(ActionDenied):
        gate.run(f"rm -rf {kept_folder()}")


def test_a_human_is_asked_where_it_can_not_be_done(gate: Gate, work: Path, human: Human) -> None:
    kept_folder().parent.mkdir(parents=True, exist_ok=True)
    kept_folder().write_text("in the way")
    with pytest.raises(ActionDenied):
        gate.run("./unread notes")
    assert (work / "notes").exists()
    assert f"can't be kept first: {kept_folder()} is not a folder of this user's own" in human.asked[0]
    assert "confined to project" in human.asked[0]
    assert [(each["type"], "not a folder" in each["why"]) for each in logged(gate)] == [("files.unkept", True)]
    gate.run("cat notes")
    assert len(human.asked) == 1, "what was read needs nothing kept"
    human.approves = True
    assert gate.run("./unread -f notes").returncode == 0
    kept_folder().unlink()
    gate.run("./unread -f module.py")
    assert (len(human.asked), len(kept())) == (2, 1)


def test_what_does_not_fit_is_said(
    place: Path, work: Path, human: Human, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = place / "small.yaml"
    policy.write_text(
        "version: 1\npolicy: small\nextends: [builtin:default]\ndefaults: {keep: {files: 10, megabytes: 0, days: 2}}\n"
    )
    enclosures.backend()
    monkeypatch.chdir(work)
    with Gate.from_config(user=human, policy=policy, project=work, confine=True) as gate:
        gate.run("./unread -f nothing")
        (event,) = logged(gate)
    assert (event["files"], event["left_out"]) == (0, 3)
    assert f"3 files of {work} are not kept for an undo: hla undo show --run {gate.run_id}" in caplog.text
    assert {each.why for each in kept()[0].left} == {"all together would be more than 0 bytes"}


def test_it_is_never_kept_where_commands_write(work: Path) -> None:
    enclosures.backend()
    made = RunEnclosures.of("run", work)
    for sets in ({"write": (f"{kept_folder().parent}/**",)}, {"read": (f"{kept_folder()}/**",)}):
        with pytest.raises(Unenforceable, match="where a command can reach it"):
            made.keep("run", Confinement((Profile("wide", **sets),)), Bounds())
    assert not kept_folder().exists()


@pytest.mark.long
def test_commands_of_mini_have_it_done_for_each_run(work: Path, human: Human, monkeypatch: pytest.MonkeyPatch) -> None:
    enclosures.backend()
    pytest.importorskip("minisweagent")
    from minisweagent.environments.local import LocalEnvironment

    from humanlayer_agent.agents.mini.environment import SupervisedEnvironment
    from humanlayer_agent.agents.supervision import Supervision

    monkeypatch.chdir(work)
    settings = Supervision(policy="default", project=work, confine=True)
    environment = SupervisedEnvironment(LocalEnvironment(), user=human, settings=settings)
    environment.new_run()
    assert environment.execute({"command": "./unread notes"})["returncode"] == 0
    first = environment.supervisor.gate.run_id
    environment.end_run("Submitted")
    environment.new_run()
    assert environment.execute({"command": "./unread module.py"})["returncode"] == 0
    second = environment.supervisor.gate.run_id
    assert {each.run: sorted(f.path for f in each.files) for each in kept()} == {
        first: ["module.py", "notes", "unread"],
        second: ["module.py", "unread"],
    }


@pytest.mark.long
def test_commands_that_hla_exec_runs_of_one_run_have_it_done_once(
    work: Path, confined_by_default: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from humanlayer_agent.cli.app import app

    enclosures.backend()
    monkeypatch.chdir(work)
    words = ["exec", "--policy", "default", "--project", str(work), "--run", "mine", "--", "./unread", "-f"]
    for path in ("notes", "module.py"):
        assert CliRunner().invoke(app, [*words, path]).exit_code == 0
    (manifest,) = kept()
    assert (manifest.run, sorted(file.path for file in manifest.files)) == ("mine", ["module.py", "notes", "unread"])
