"""`hla undo`: a human sees what a run has changed, and puts it back."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.cli import main
from humanlayer_agent.cli.shared.records import KeptFileRecord, KeptRunRecord, UndoneRecord
from humanlayer_agent.confine.kept_files import KeptFiles
from humanlayer_agent.locations import default_store_path, kept_folder
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.store.sqlite import SQLiteStore
from tests.support import children, enclosures
from tests.support.human_terminal import typed
from tests.support.keys import known_passphrase, make_key
from tests.support.records import faults

RUN = [sys.executable, "-m", "humanlayer_agent.cli"]


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of whose files a run, `mine`, has deleted one, changed one, and made one."""
    enclosures.backend()
    monkeypatch.delenv("HUMANLAYER_CONFINE")
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-undo-") as name:
        top = Path(name)
        monkeypatch.chdir(top)
        subprocess.run(["git", "init", "-q"], check=True, env={"PATH": os.environ["PATH"], "HOME": name})
        (top / "notes").write_text("notes\n")
        (top / "sub").mkdir()
        (top / "sub/changed").write_text("mine\n")
        shutil.copy("/bin/bash", top / "unread")
        (top / "script").write_text("rm notes; echo theirs > sub/changed; echo new > made\n")
        done = main(["exec", "--policy", "default", "--run", "mine", "--", "./unread", "script"])
        assert (done, (top / "notes").exists()) == (0, False)
        yield top


def at_terminal(*arguments: str, word: str = "undo", **more: str) -> tuple[int, str]:
    """The exit code and all that was shown to a human, who types a word and as often as asked the passphrase."""
    return typed(*arguments, wanted="undo", word=word, **more)


def logged(kind: str) -> list[dict[str, Any]]:
    with closing(SQLiteStore(default_store_path())) as store:
        return [entry.event for entry in store.events(type=kind)]


def test_it_says_what_differs_and_changes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["undo", "--run", "mine", "--dry-run", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        {"path": "notes", "change": "deleted"},
        {"path": "sub/changed", "change": "changed"},
        {"path": "made", "change": "created"},
    ]
    assert main(["undo", "--run", "mine", "--dry-run"]) == 0
    assert not (project / "notes").exists()
    assert logged("files.restored") == []


def test_it_says_what_was_kept(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["undo", "--list", "--format", "jsonl"]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert faults(row, KeptRunRecord) == []
    assert (row["run"], row["project"], row["files"], row["left_out"]) == ("mine", str(project), 4, 0)
    assert main(["undo", "--list", "--run", "mine", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [fault for row in rows for fault in faults(row, KeptFileRecord)] == []
    assert {(row["path"], row["kept"]) for row in rows} == {
        ("notes", True), ("script", True), ("sub/changed", True), ("unread", True),
    }  # fmt: skip
    assert main(["undo", "--list", "--run", "mine"]) == main(["undo", "--list"]) == 0
    assert "sub/changed" in capsys.readouterr().out


@pytest.mark.long
def test_a_human_puts_it_back_and_takes_that_back(project: Path) -> None:
    code, shown = at_terminal("undo", "--run", "mine")
    assert code == 0, shown
    assert "puts back 2 files" in shown
    assert [(project / name).read_text() for name in ("notes", "sub/changed", "made")] == ["notes\n", "mine\n", "new\n"]
    (event,) = logged("files.restored")
    assert (event["name"], event["files"], event["deleted"]) == ("mine", 2, 0)
    assert event["by"].startswith(f"os:{os.getuid()}:")
    assert f"hla undo --run {event['undo']} --delete-created takes that back" in shown
    code, shown = at_terminal("undo", "--run", event["undo"], "--delete-created")
    assert code == 0, shown
    assert (project / "sub/changed").read_text() == "theirs\n"
    assert not (project / "notes").exists()


def test_only_some_of_it_and_what_is_new_only_where_that_is_wanted(project: Path) -> None:
    code, shown = at_terminal("undo", "--run", "mine", "sub")
    assert (code, "puts back 1 files" in shown) == (0, True)
    assert (project / "sub/changed").read_text() == "mine\n"
    assert not (project / "notes").exists()
    code, shown = at_terminal("undo", "--run", "mine", "--delete-created", "made")
    assert (code, "DELETES 1 files" in shown, (project / "made").exists()) == (0, True, False)


def test_another_word_changes_nothing(project: Path) -> None:
    code, shown = at_terminal("undo", "--run", "mine", word="yes")
    assert (code, "nothing was undone" in shown, (project / "notes").exists()) == (1, True, False)


@pytest.mark.long
def test_who_has_a_key_vouches_with_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_key()
    with known_passphrase():
        assert main(["init", "--yes"]) == 0
    code, shown = at_terminal("undo", "--run", "mine", passphrase="wrong")
    assert (code, (project / "notes").exists()) == (1, False), shown
    assert "wrong-passphrase" in [event["refusal"] for event in logged("supervision.refused")]
    code, shown = at_terminal("undo", "--run", "mine")
    assert (code, (project / "notes").exists()) == (0, True), shown


def test_what_can_not_be_put_back_is_said(project: Path) -> None:
    os.mkfifo(project / "notes")
    code, shown = at_terminal("undo", "--run", "mine")
    assert (code, "NOT undone: notes: what stands there now could not be kept first" in shown) == (5, True)
    assert (project / "sub/changed").read_text() == "mine\n"


@pytest.mark.long
def test_what_a_confined_program_plants_leads_nowhere(project: Path, tmp_path: Path) -> None:
    outside = project.parent / f"{project.name}-outside"
    outside.mkdir()
    (outside / "changed").write_text("canary\n")
    try:
        (project / "script").write_text(
            f"rm -rf sub; ln -s {outside} sub; ln -s {outside}/changed notes; echo 'touch ran' > .envrc\n"
        )
        assert main(["exec", "--policy", "default", "--run", "mine", "--", "./unread", "script"]) == 0
        assert os.readlink(project / "sub") == str(outside)
        code, shown = at_terminal("undo", "--run", "mine")
        assert (code, "NOT undone: sub/changed: " in shown) == (5, True)
        assert ((project / "notes").read_text(), (project / "notes").is_symlink()) == ("notes\n", False)
        code, shown = at_terminal("undo", "--run", "mine", "--delete-created", "sub", "--format", "jsonl")
        assert code == 0, shown
        done = json.loads(shown.splitlines()[-1])
        assert (faults(done, UndoneRecord), done["restored"]) == ([], ["sub/changed"])
        assert (project / "sub/changed").read_text() == "mine\n"
        assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("changed", "canary\n")]
    finally:
        shutil.rmtree(outside)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--run", "other"], "nothing was kept for a run other"),
        (["--run", "min"], "nothing was kept for a run min"),
        ([], "name the run"),
        (["--run", "mine", "/etc/passwd"], "is not in"),
    ],
)
def test_what_can_not_be_meant(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["undo", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_the_files_of_another_project_are_not_put_here(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = project.parent / f"{project.name}-other"
    other.mkdir()
    try:
        monkeypatch.chdir(other)
        assert main(["undo", "--run", "mine", "--dry-run"]) == 2
        assert f"worked for {project}" in capsys.readouterr().err
        assert main(["undo", "--run", "mine", "--dry-run", "--project", str(project)]) == 0
    finally:
        other.rmdir()


def test_what_the_log_does_not_tell_of_is_not_put_back(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = KeptFiles(kept_folder())
    (known,) = kept.all()
    (name,) = (kept.folder / "runs").glob("*.json")
    (project / "planted").write_text("planted")
    from humanlayer_agent.confine.confinement import Bounds
    from humanlayer_agent.confine.project_files import project_files

    planted = kept.keep("planted", str(project), project_files(str(project), None), bounds=Bounds())
    name.write_text(name.read_text().replace(known.digest, planted.digest))
    assert main(["undo", "--run", "mine"]) == 2
    assert "the log does not say that this was kept" in capsys.readouterr().err


def test_below_a_supervised_command_and_without_a_terminal(project: Path) -> None:
    def run(**more: str) -> subprocess.CompletedProcess[str]:
        return children.run(
            [*RUN, "undo", "--run", "mine"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
            start_new_session=True, env={**os.environ, **more},
        )  # fmt: skip

    below, alone = run(**{SUPERVISED: "1"}), run()
    assert (below.returncode, "this is a supervised command" in below.stderr) == (2, True)
    assert (alone.returncode, "only a human at a terminal" in alone.stderr) == (3, True)
    assert not (project / "notes").exists()
