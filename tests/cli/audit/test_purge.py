"""`hla audit purge`: what it shows, what a human at a terminal deletes by it, and what it refuses."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.cli import main
from humanlayer_agent.configuration import build_authority
from humanlayer_agent.confine.confinement import Bounds
from humanlayer_agent.confine.project_files import ProjectFiles
from humanlayer_agent.locations import default_store_path, kept_folder
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker, ScriptedDirector
from humanlayer_agent.undo.kept_files import KeptFiles
from tests.support import children
from tests.support.human_terminal import typed
from tests.support.keys import PASSPHRASE, known_passphrase, make_key

RUN = [sys.executable, "-m", "humanlayer_agent.cli", "audit", "purge"]
DAY = 86_400_000
SECRET = "hunter22-secret"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[SQLiteStore]:
    """With a key, and with one approved request of 100 days ago."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make_key()
    with known_passphrase():
        assert main(["init", "--yes"]) == 0
    capsys.readouterr()
    with closing(SQLiteStore(default_store_path(), clock=lambda: time.time_ns() // 1_000_000 - 100 * DAY)) as opened:
        with Gate(
            ScriptedDirector({"mysql": Verdict.ASK}), opened, ScriptedAsker(["approve"]), clock=opened._clock
        ) as gate:
            action = Action(f"mysql -p{SECRET}", cwd="/srv", project="/srv")
            permit = gate.check(action)
            assert isinstance(permit, Permit)
            assert gate.start(permit, action) is None
            gate.finish(permit, Outcome(0))
        yield opened


@pytest.fixture
def export(store: SQLiteStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["audit", "export", "-o", str(tmp_path / "audit.jsonl")]) == 0
    capsys.readouterr()
    return tmp_path / "audit.jsonl"


def at_terminal(*arguments: str, word: str = "", **more: str) -> tuple[int, str]:
    """The exit code and all that was shown to a human, who types a word and as often as asked the passphrase."""
    return typed("audit", "purge", *arguments, wanted="purge", word=word, **more)


def is_there() -> bool:
    return any(SECRET.encode() in each.read_bytes() for each in default_store_path().parent.iterdir())


@pytest.mark.long
def test_shown_and_deleted(store: SQLiteStore, export: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--older-than", "90d", "--exported", str(export))
    assert main(["audit", "purge", *options]) == 0
    assert "would delete 1 requests with their commands and 1 votes, and 1 permits" in capsys.readouterr().out
    assert at_terminal(*options)[0] == 0
    assert is_there()
    for word, passphrase in (("yes", PASSPHRASE), ("purge", "")):
        code, shown = at_terminal(*options, "--delete", word=word, passphrase=passphrase)
        assert (code, "nothing was deleted" in shown, is_there()) == (1, True, True)
    store.close()
    code, shown = at_terminal(*options, "--delete", word="purge")
    assert (code, "deleted 1 requests" in shown) == (0, True), shown
    assert not is_there()
    assert main(["audit", "verify", "--head", str(export)]) == 0
    assert main(["audit", "tail"]) == 0
    assert "1 requests and 1 permits, by os:" in capsys.readouterr().out
    code, shown = at_terminal(*options, "--delete")
    assert (code, "nothing to delete" in shown) == (0, True)


def test_what_was_kept_of_files_goes_with_it(
    store: SQLiteStore, export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = KeptFiles(kept_folder())
    found = ProjectFiles(frozenset(), ())
    now = time.time_ns() // 1_000_000
    for name, age in (("old", 100), ("new", 10)):
        kept.keep(name, str(tmp_path / "here"), found, bounds=Bounds(days=1000), at=now - age * DAY)
    options = ("--older-than", "90d", "--exported", str(export))
    assert main(["audit", "purge", *options]) == 0
    assert "and what was kept of files for 1 run or command" in capsys.readouterr().out
    assert len(kept.all()) == 2
    store.close()
    code, shown = at_terminal(*options, "--delete", word="purge")
    assert (code, "and what was kept of files for 1 run or command" in shown) == (0, True), shown
    assert [each.run for each in kept.all()] == ["new"]
    assert main(["audit", "verify", "--head", str(export)]) == 0


@pytest.mark.long
def test_a_wrong_passphrase(store: SQLiteStore, export: Path) -> None:
    options = ("--older-than", "90d", "--exported", str(export), "--delete")
    assert at_terminal(*options, word="purge", passphrase="correct horse battery stapler")[0] == 1
    assert [entry.event["wanted"] for entry in store.events(type="supervision.refused")] == ["purge"] * 3
    assert is_there()


@pytest.mark.sample(1)
@pytest.mark.parametrize("age", ["1h", "23h", "tomorrow", "2999-01-01", ""])
def test_an_age(store: SQLiteStore, export: Path, age: str) -> None:
    assert main(["audit", "purge", "--older-than", age, "--exported", str(export)]) == 2


def test_what_is_no_export(store: SQLiteStore, export: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def code(content: bytes) -> int:
        export.write_bytes(content)
        return main(["audit", "purge", "--older-than", "90d", "--exported", str(export)])

    whole = export.read_bytes()
    assert code(whole) == 0
    lines = whole.splitlines(keepends=True)
    assert code(whole.replace(b"mysql", b"pgsql", 1)) == 2
    assert code(b"".join(lines[1:])) == 2
    assert code(whole[:-5]) == 2
    assert code(b"") == 2
    headless = [line for line in lines if b'"audit.head"' not in line]
    capsys.readouterr()
    assert code(b"".join(headless[:3])) == 2
    assert "has no signed head" in capsys.readouterr().err
    assert main(["audit", "purge", "--older-than", "90d", "--exported", str(export) + "x"]) == 2


def test_without_a_terminal_or_below_supervision(store: SQLiteStore, export: Path) -> None:
    options = ("--older-than", "90d", "--exported", str(export), "--delete")
    done = children.run(
        [*RUN, *options], capture_output=True, text=True, stdin=subprocess.DEVNULL, start_new_session=True
    )
    assert (done.returncode, "only a human at a terminal" in done.stderr) == (3, True)
    code, shown = at_terminal(*options, **{SUPERVISED: "1"})
    assert (code, "this is a supervised command" in shown) == (2, True)
    assert [entry.event["command"] for entry in store.events(type="wall.refused")] == ["audit purge"]
    assert is_there()


# ---- holds --------------------------------------------------------------------------------------------


def test_a_hold_keeps_rows_and_files_until_it_is_released(
    store: SQLiteStore, export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run,) = (entry.event["run"] for entry in store.events(type="run.started"))
    kept = KeptFiles(kept_folder())
    now = time.time_ns() // 1_000_000
    for name in (run, "another"):
        kept.keep(name, str(tmp_path), ProjectFiles(frozenset(), ()), bounds=Bounds(days=1000), at=now - 100 * DAY)
    options = ("--older-than", "90d", "--exported", str(export))
    code, shown = typed("audit", "hold", "add", "--run", run[:6], "--reason", "case 12", wanted="hold", word="hold")
    assert (code, f"held: run {run}" in shown) == (0, True), shown
    assert main(["audit", "hold", "ls"]) == 0
    assert "case 12" in capsys.readouterr().out
    assert main(["audit", "purge", *options]) == 0
    said = capsys.readouterr().out
    for text in (
        f"held: run {run}",
        "kept by that: 1 requests",
        "would delete 0 requests",
        "files for 1 run or command",
    ):
        assert text in said
    (hold,) = store.holds.standing(build_authority())
    code, shown = typed("audit", "hold", "release", hold.id[:6], wanted="release", word="no")
    assert (code, "nothing was done" in shown) == (1, True)
    code, shown = typed("audit", "hold", "release", hold.id[:6], wanted="release", word="release")
    assert (code, "released: run" in shown) == (0, True), shown
    assert main(["audit", "purge", *options]) == 0
    assert "would delete 1 requests" in capsys.readouterr().out
    assert main(["audit", "tail"]) == 0
    assert f"{hold.id[:8]} run {run[:8]} by" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong", [[], ["--all", "--run", "x"], ["--run", "no-such"], ["--since", "1d", "--until", "9d"]]
)
def test_what_is_no_hold(store: SQLiteStore, wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("audit", "hold", "add", *wrong, wanted="hold", word="hold")[0] == 2
    assert typed("audit", "hold", "release", "x", wanted="release", word="release")[0] == 2
    alone = [*RUN[:-1], "hold", "add", "--all"]
    assert children.run(alone, capture_output=True, stdin=subprocess.DEVNULL, start_new_session=True).returncode == 3
    assert list(store.events(type="hold")) == []
