"""`hla audit accept-loss`: a human sees what is missing, and signs that; nobody else goes on without it."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from humanlayer_agent.audit import events
from humanlayer_agent.cli import main
from humanlayer_agent.locations import default_store_path
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.store.sqlite import SQLiteStore
from tests.support import children
from tests.support.forging import forging
from tests.support.human_terminal import typed
from tests.support.keys import PASSPHRASE, known_passphrase, make_key

RUN = [sys.executable, "-m", "humanlayer_agent.cli"]


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A store with six events, and a key; where it is."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make_key()
    with known_passphrase():
        assert main(["init", "--yes"]) == 0
    with closing(SQLiteStore(default_store_path())) as store:
        for _ in range(5):
            store.record(events.POLICY_LOADED, run="r")
    capsys.readouterr()
    return default_store_path()


@pytest.fixture
def lost(ready: Path) -> Path:
    """The newest three are gone."""
    with forging(ready) as connection:
        connection.execute("DELETE FROM audit_event WHERE seq > 2")
    return ready


def at_terminal(word: str = "accept", passphrase: str = PASSPHRASE, **environ: str) -> tuple[int, str]:
    command = ("audit", "accept-loss", "--comment", "a backup")
    return typed(*command, wanted="accept", word=word, passphrase=passphrase, **environ)


def opens(path: Path) -> bool:
    done = children.run([*RUN, "audit", "head", "--store", str(path)], capture_output=True, text=True)
    return done.returncode == 0


def test_what_was_set_back(lost: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not opens(lost)
    code, shown = at_terminal()
    assert code == 0, shown
    assert "hla audit accept-loss" not in shown, "who is asked has called it"
    for text in ("its log ends at event 2", "events 3 to 5 are missing", "accepted: the log says what is missing"):
        assert text in " ".join(shown.split())
    assert opens(lost)
    with closing(SQLiteStore(lost)) as store:
        (event,) = (entry.event for entry in store.events(type="audit.loss-accepted"))
        assert store.verify().intact
    assert main(["audit", "query", "--type", "audit.loss-accepted"]) == 0
    assert "goes on without events from 3 to 5, by " in capsys.readouterr().out
    assert (event["lost"]["seq"], event["left"], event["comment"]) == (5, 2, "a backup")
    assert at_terminal()[1].strip() == "there is nothing to accept: no event is missing that an anchor knows of"


def test_a_store_that_is_gone(ready: Path) -> None:
    ready.unlink()
    for command in (["stop"], ["audit", "head"], ["audit", "verify"]):
        done = children.run([*RUN, *command], capture_output=True, text=True)
        assert done.returncode != 0, done
    assert not ready.exists()
    code, shown = at_terminal()
    assert (code, "its log went to event 5" in shown) == (0, True), shown
    assert opens(ready)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("word", "passphrase"), [("y", PASSPHRASE), ("", PASSPHRASE), ("accept", "")])
def test_only_the_word_and_the_passphrase(lost: Path, word: str, passphrase: str) -> None:
    code, shown = at_terminal(word, passphrase)
    assert (code, "nothing was accepted" in shown) == (1, True)
    assert not opens(lost)


@pytest.mark.long
def test_without_a_terminal(lost: Path) -> None:
    done = subprocess.run(
        [*RUN, "audit", "accept-loss"], capture_output=True, stdin=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert (done.returncode, "only a human at a terminal" in done.stderr) == (3, True), done
    assert not opens(lost)


def test_below_a_supervised_command(lost: Path) -> None:
    code, shown = at_terminal(**{SUPERVISED: "1"})
    assert code == 2, shown
    assert not opens(lost)


def test_nothing_is_made_where_nothing_was(ready: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "accept-loss", "--store", str(tmp_path / "none")]) == 2
    assert "there is no store at" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_verify_names_it(lost: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without any head that was kept elsewhere: the anchor is beside the keys, and the hint is what helps."""
    assert main(["audit", "verify"]) == 1
    said = capsys.readouterr().out
    assert f"TAMPERED: event 3: the store {lost} was set back: its log ends at event 2" in said
    for text in ("events 3 to 5 are missing", "The anchor ", "hla audit accept-loss"):
        assert text in said
    assert "kept elsewhere" not in said


def test_verify_names_another_store_in_its_place(
    ready: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SQLiteStore(tmp_path / "other").close()
    for each in ready.parent.glob(f"{ready.name}*"):
        each.unlink()
    ready.write_bytes((tmp_path / "other").read_bytes())
    assert main(["audit", "verify"]) == 1
    said = capsys.readouterr().out
    assert "is gone, or another one is in its place: its log went to event 5" in said
    assert "kept elsewhere" not in said


@pytest.mark.parametrize("command", [["audit", "verify"], ["audit", "tail"], ["requests", "ls"]])
def test_what_only_reads_says_that_the_store_is_gone(
    ready: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not said that there never was one."""
    ready.unlink()
    assert main(command) == (1 if "verify" in command else 2)
    said = "".join(capsys.readouterr())
    assert "is gone, or another one is in its place" in said
    assert "hla audit accept-loss" in said
    assert not ready.exists()


def test_verify_names_what_is_not_ours_in_the_schema(ready: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with forging(ready) as connection:
        connection.execute("CREATE VIEW shown AS SELECT 1")
    assert main(["audit", "verify"]) == 1
    assert "view shown is not ours" in capsys.readouterr().out
    assert main(["stop"]) != 0
