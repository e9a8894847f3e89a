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

from humanlayer_agent import Gate
from humanlayer_agent.audit import events
from humanlayer_agent.cli import main
from humanlayer_agent.cli.shared.records import DiffRecord, KeptRecord, UndoneRecord, UndoStepRecord
from humanlayer_agent.locations import default_store_path, kept_folder
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.undo import restoration
from humanlayer_agent.undo.kept_files import KeptFiles
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


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main([*arguments, "--format", "jsonl"]) in (0, 5)
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def logged(kind: str) -> list[dict[str, Any]]:
    with closing(SQLiteStore(default_store_path())) as store:
        return [entry.event for entry in store.events(type=kind)]


def test_it_says_what_differs_and_changes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["undo", "apply", "--run", "mine", "--dry-run", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [fault for row in rows for fault in faults(row, UndoStepRecord)] == []
    assert [(row["path"], row["undo"]) for row in rows] == [
        ("notes", "restore"), ("sub/changed", "change"), ("made", "stays"),
    ]  # fmt: skip
    assert main(["undo", "apply", "--run", "mine", "--dry-run"]) == 0
    assert not (project / "notes").exists()
    assert logged("files.restored") == []


def test_it_says_what_was_kept(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = printed(capsys, "undo", "ls")
    assert faults(row, KeptRecord) == []
    assert (row["run"], row["permit"], row["project"], row["files"]) == ("mine", None, str(project), 4)
    rows = printed(capsys, "undo", "diff", "--run", "mine")
    assert [fault for row in rows for fault in faults(row, DiffRecord)] == []
    assert "+notes" in rows[0]["diff"]
    assert main(["undo", "ls"]) == main(["undo", "show", "--run", "mine"]) == 0
    assert "sub/changed" in capsys.readouterr().out


@pytest.mark.long
def test_a_human_puts_it_back_and_takes_that_back(project: Path) -> None:
    code, shown = at_terminal("undo", "apply", "--run", "mine")
    assert code == 0, shown
    assert "puts back 2 files and folders" in shown
    assert [(project / name).read_text() for name in ("notes", "sub/changed", "made")] == ["notes\n", "mine\n", "new\n"]
    (event,) = logged("files.restored")
    assert (event["name"], event["files"], event["deleted"]) == ("mine", 2, 0)
    assert event["by"].startswith(f"os:{os.getuid()}:")
    assert f"hla undo apply {event['undo']} takes that back" in shown
    code, shown = at_terminal("undo", "apply", event["undo"])
    assert code == 0, shown
    assert (project / "sub/changed").read_text() == "theirs\n"
    assert not (project / "notes").exists()


def test_only_some_of_it_and_what_is_new_only_where_that_is_wanted(project: Path) -> None:
    code, shown = at_terminal("undo", "apply", "--run", "mine", "--path", "sub")
    assert (code, "puts back 1 files" in shown) == (0, True)
    assert (project / "sub/changed").read_text() == "mine\n"
    assert not (project / "notes").exists()
    code, shown = at_terminal("undo", "apply", "--run", "mine", "--delete-created", "--path", "made")
    assert (code, "DELETES 1 that" in shown, (project / "made").exists()) == (0, True, False)


def test_another_word_changes_nothing(project: Path) -> None:
    code, shown = at_terminal("undo", "apply", "--run", "mine", word="yes")
    assert (code, "nothing was undone" in shown, (project / "notes").exists()) == (1, True, False)


@pytest.mark.long
def test_who_has_a_key_vouches_with_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_key()
    with known_passphrase():
        assert main(["init", "--yes"]) == 0
    code, shown = at_terminal("undo", "apply", "--run", "mine", passphrase="wrong")
    assert (code, (project / "notes").exists()) == (1, False), shown
    assert "wrong-passphrase" in [event["refusal"] for event in logged("supervision.refused")]
    code, shown = at_terminal("undo", "apply", "--run", "mine")
    assert (code, (project / "notes").exists()) == (0, True), shown


def test_what_can_not_be_put_back_is_said(project: Path) -> None:
    os.mkfifo(project / "notes")
    code, shown = at_terminal("undo", "apply", "--run", "mine")
    assert (code, "neither a file nor a link" in shown, 'Type "undo"' in shown) == (5, True, False)
    assert (project / "sub/changed").read_text() == "theirs\n"
    code, shown = at_terminal("undo", "apply", "--run", "mine", "--path", "sub")
    assert (code, (project / "sub/changed").read_text()) == (0, "mine\n")


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
        code, shown = at_terminal("undo", "apply", "--run", "mine")
        assert (code, "the folder that it was in is gone" in shown) == (5, True)
        assert os.readlink(project / "notes") == f"{outside}/changed"
        paths = ("--path", "sub", "--path", "notes")
        code, shown = at_terminal("undo", "apply", "--run", "mine", "--delete-created", *paths, "--format", "jsonl")
        assert code == 0, shown
        done = json.loads(shown.splitlines()[-1])
        assert (faults(done, UndoneRecord), done["restored"]) == ([], ["notes", "sub", "sub/changed"])
        assert ((project / "notes").read_text(), (project / "notes").is_symlink()) == ("notes\n", False)
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
        ([], "name a permit or a run"),
        (["3f2a"], "nothing was kept for a permit 3f2a"),
        (["3f2a", "--run", "mine"], "name either a permit or a run"),
        (["--run", "mine", "--path", "/etc/passwd"], "is not in"),
    ],
)
def test_what_can_not_be_meant(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["undo", "apply", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_the_files_of_another_project_are_not_put_here(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = project.parent / f"{project.name}-other"
    other.mkdir()
    try:
        monkeypatch.chdir(other)
        assert main(["undo", "apply", "--run", "mine", "--dry-run"]) == 2
        assert f"worked for {project}" in capsys.readouterr().err
        assert main(["undo", "apply", "--run", "mine", "--dry-run", "--project", str(project)]) == 0
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
    assert main(["undo", "apply", "--run", "mine"]) == 2
    assert "the log does not say that this was kept" in capsys.readouterr().err


def test_below_a_supervised_command_and_without_a_terminal(project: Path) -> None:
    def run(**more: str) -> subprocess.CompletedProcess[str]:
        return children.run(
            [*RUN, "undo", "apply", "--run", "mine"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
            start_new_session=True, env={**os.environ, **more},
        )  # fmt: skip

    below, alone = run(**{SUPERVISED: "1"}), run()
    assert (below.returncode, "this is a supervised command" in below.stderr) == (2, True)
    assert (alone.returncode, "only a human at a terminal" in alone.stderr) == (3, True)
    assert not (project / "notes").exists()


# `undo: run`

POLICY = """\
version: 1
policy: undone
extends: builtin:default
defaults: {undo: run}
"""


@pytest.fixture
def permits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The permits of a run, `mine`, in the project that is the current folder: it has changed three files."""
    top = tmp_path / "project"
    (top / "src").mkdir(parents=True)
    (top / "notes").write_text("one\ntwo\n")
    (top / "src/b").write_text("b\n")
    (tmp_path / "policy.yaml").write_text(POLICY)
    monkeypatch.chdir(top)
    subprocess.run(["git", "init", "-q"], check=True, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    with Gate.from_config(policy=str(tmp_path / "policy.yaml"), confine=False, tmp="mine") as gate:
        token = "ghp_" + "a1B2" * 9
        for line in ("sed -i s/two/three/ notes", "rm -r src", f"echo token={token} > made", "ls"):
            gate.run(line)
    return tuple(each.permit for each in reversed(KeptFiles(kept_folder()).all()))


def test_what_each_command_changed_is_listed_and_shown(
    permits: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = printed(capsys, "undo", "ls")
    assert [fault for row in rows for fault in faults(row, KeptRecord)] == []
    assert [(row["permit"], row["run"], row["created"], row["changed"], row["deleted"]) for row in rows] == [
        (permits[0], "mine", 0, 1, 0), (permits[1], "mine", 0, 0, 2), (permits[2], "mine", 1, 0, 0),
    ]  # fmt: skip
    assert all(row["undoable"] for row in rows)
    rows = printed(capsys, "undo", "show", permits[1][:8])
    assert [(row["path"], row["undo"]) for row in rows] == [("src", "restore"), ("src/b", "restore")]
    (row,) = printed(capsys, "undo", "diff", permits[0])
    assert row["diff"].splitlines()[2:] == ["@@ -1,2 +1,2 @@", " one", "-three", "+two"]
    (row,) = printed(capsys, "undo", "diff", permits[2])
    assert ("-token=" in row["diff"], "a1B2" in row["diff"]) == (True, False)
    (event,) = (each for each in logged("exec.finished") if each["permit"] == permits[1])
    assert {name: event["files"][name] for name in ("created", "changed", "deleted")} == {
        "created": 0, "changed": 0, "deleted": 2,
    }  # fmt: skip
    Path("src").mkdir()
    assert main(["undo", "ls"]) == main(["undo", "show", permits[1]]) == main(["undo", "diff", permits[1]]) == 0
    assert "is as it was already" in capsys.readouterr().out


def test_a_human_undoes_a_command_and_that_again(permits: tuple[str, ...]) -> None:
    code, shown = at_terminal("undo", "apply", permits[1][:6])
    assert (code, "puts back 2 files and folders" in shown, Path("src/b").read_text()) == (0, True, "b\n"), shown
    (event,) = logged("files.restored")
    assert (event["permit"], event["name"], event["files"], event["deleted"]) == (permits[1], "mine", 2, 0)
    code, shown = at_terminal("undo", "apply", event["undo"])
    assert (code, "DELETES 2 that were not there" in shown, Path("src").exists()) == (0, True, False), shown


@pytest.mark.long
def test_a_run_is_undone_but_not_what_was_changed_by_hand(permits: tuple[str, ...]) -> None:
    Path("notes").write_text("by hand\n")
    code, shown = at_terminal("undo", "apply", "--run", "mine")
    assert (code, "it was changed since, by hand" in shown, Path("src").exists()) == (5, True, False), shown
    code, shown = at_terminal("undo", "apply", "--run", "mine", "--path", "src", "--path", "made")
    assert (code, Path("src/b").exists(), Path("made").exists()) == (0, True, False), shown
    assert Path("notes").read_text() == "by hand\n"


@pytest.mark.long
def test_an_undo_that_was_killed_is_finished_by_the_next(
    permits: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    kept, top = KeptFiles(kept_folder()), os.getcwd()
    own = [each for each in restoration.manifests_of(kept, top) if each.permit == permits[1]]
    plan = restoration.plan_of(kept, own, [])
    with closing(SQLiteStore(default_store_path())) as store:
        before = restoration.keep_before(kept, "mine", plan)
        store.record(events.FILES_KEPT, permit=before.permit, **before.logged)
    pid = os.fork()
    if not pid:
        try:
            os.rename = lambda *_, **__: os.kill(os.getpid(), 9)  # type: ignore[assignment]
            restoration.undo(kept, plan, before)
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == 9
    assert (Path("src").is_dir(), Path("src/b").exists()) == (True, False)
    assert main(["undo", "ls"]) == 0
    assert "was interrupted, and is half done" in capsys.readouterr().err
    assert main(["undo", "apply"]) == 0
    assert (Path("src/b").read_text(), os.listdir("src")) == ("b\n", ["b"])


def test_nothing_is_undone_while_a_command_changes_files(permits: tuple[str, ...]) -> None:
    with KeptFiles(kept_folder()).in_use(os.getcwd()):
        code, shown = at_terminal("undo", "apply", permits[1])
    assert (code, "a command of an agent is changing" in shown, Path("src").exists()) == (2, True, False), shown
