"""`hla stop` and `hla resume`: a human at a real terminal, a key from `init`, and everybody who is none."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Denial, Outcome, Permit
from humanlayer_agent.cli import main
from humanlayer_agent.configuration import build_authority
from humanlayer_agent.locations import PASSPHRASE_VARIABLE, default_store_path, key_path
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedDirector
from tests.support import children
from tests.support.forging import forging
from tests.support.human_terminal import typed
from tests.support.keys import PASSPHRASE, known_passphrase, make_key, passphrase_file

RUN = [sys.executable, "-m", "humanlayer_agent.cli"]
LS = Action("ls", cwd="/srv/app", project="/srv/app")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def ready(here: None, capsys: pytest.CaptureFixture[str]) -> None:
    make_key()
    with known_passphrase():
        assert main(["init", "--yes"]) == 0
    capsys.readouterr()


@pytest.fixture
def store(here: None) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(default_store_path())
    yield opened
    opened.close()


def at_terminal(*arguments: str, word: str = "", passphrase: str = PASSPHRASE, **environ: str) -> tuple[int, str]:
    """The exit code and all that was shown to a human, who types a word and as often as asked the passphrase."""
    code, shown = typed(*arguments, wanted="resume", word=word, passphrase=passphrase, **environ)
    assert len(passphrase) < 12 or passphrase not in shown
    return code, shown


def acts(store: SQLiteStore) -> bool:
    """Whether an agent, as it is started now, may do something harmless."""
    with Gate(ScriptedDirector(), store, None, authority=build_authority()) as gate:
        return isinstance(gate.check(LS), Permit)


def test_stop_and_resume(ready: None, store: SQLiteStore, own_user: Path) -> None:
    assert acts(store)
    code, shown = at_terminal("stop", "--reason", "wrong bucket\x1b[2J")
    assert (code, "stopped: no new action" in shown, str(default_store_path()) in shown) == (0, True, True)
    assert not acts(store)
    (halt,) = store.halts.standing(None)
    assert (halt.by.split(":")[1], halt.reason) == (str(os.getuid()), r"wrong bucket\x1b[2J")
    assert next(iter(store.events(type="audit.head", last=1))).event["head"]["seq"] > 0, "a witness for its end"

    code, shown = at_terminal("resume", "--comment", "mended", word="resume")
    assert code == 0, shown
    for text in ("every agent is stopped since", "wrong bucket", "resumed: agents act again"):
        assert text in shown
    assert acts(store)
    (event,) = (entry.event for entry in store.events(type="supervision.resumed"))
    assert (event["comment"], event["approver"]["assurance"]) == ("mended", "terminal")
    assert store.verify().intact
    assert at_terminal("resume") == (0, "no agent is stopped\r\n")
    for path in own_user.rglob("*"):
        assert path.is_dir() or PASSPHRASE.encode() not in path.read_bytes(), path


@pytest.mark.sample(2)
@pytest.mark.parametrize("word", ["", "y", "yes", "resume it", "stop"])
def test_only_the_word_resumes(word: str, ready: None, store: SQLiteStore) -> None:
    store.halts.stop("os:1")
    assert at_terminal("resume", word=word)[0] == 1
    assert not acts(store)


def test_a_wrong_passphrase_resumes_nothing(ready: None, store: SQLiteStore) -> None:
    store.halts.stop("os:1")
    code, shown = at_terminal("resume", word="resume", passphrase="correct horse battery stapler")
    assert (code, "nothing was resumed" in shown) == (1, True)
    assert [e.event["refusal"] for e in store.events(type="supervision.refused")] == ["wrong-passphrase"] * 3
    assert not acts(store)


def test_a_file_does_not_stand_in_for_a_human(ready: None, store: SQLiteStore, tmp_path: Path) -> None:
    store.halts.stop("os:1")
    environ = {PASSPHRASE_VARIABLE: str(passphrase_file(tmp_path))}
    assert at_terminal("resume", word="resume", passphrase="", **environ)[0] == 1
    assert not acts(store)


def test_without_a_key_agents_can_be_stopped_and_not_resumed(here: None, store: SQLiteStore) -> None:
    assert at_terminal("stop")[0] == 0
    code, shown = at_terminal("resume", word="resume")
    assert (code, "run hla init" in shown) == (2, True)
    assert not acts(store)


def test_a_key_that_is_no_signer(ready: None, store: SQLiteStore) -> None:
    store.halts.stop("os:1")
    key_path().unlink()
    make_key()
    code, shown = at_terminal("resume", word="resume")
    assert (code, "is not named under `signers:`" in shown) == (2, True)
    assert not acts(store)


def test_somebody_who_is_not_among_the_people(ready: None, store: SQLiteStore, tmp_path: Path) -> None:
    from humanlayer_agent.keys.signing import Signer

    store.halts.stop("os:1")
    file = tmp_path / "channels.yaml"
    file.write_text(
        f'version: 1\nsigners: ["{Signer(key_path()).fingerprint}"]\npeople:\n  eve: {{os_user: nobody-of-here}}\n'
        "channels:\n  terminal: {type: terminal}\n"
        "routes:\n  default: {approvers: [eve], solo: true, steps: [{to: terminal}]}\n"
    )
    code, shown = at_terminal("resume", "--channels", str(file), word="resume")
    assert (code, "nobody who may decide is known as os:" in shown) == (2, True)
    assert [e.event["refusal"] for e in store.events(type="supervision.refused")] == ["not-an-approver"]


def test_resumed_outside_of_the_route_by_two(ready: None, store: SQLiteStore, tmp_path: Path) -> None:
    from humanlayer_agent.approvals.authority import GLASS
    from humanlayer_agent.approvals.model import Approver
    from humanlayer_agent.keys.signing import Signer
    from humanlayer_agent.processes.identity import os_user

    store.halts.stop("os:1")
    other, file = Signer(), tmp_path / "channels.yaml"
    file.write_text(
        f'version: 1\nsigners: ["{Signer(key_path()).fingerprint}", "{other.fingerprint}"]\n'
        f"people:\n  me: {{os_user: {os_user().split(':')[2]}}}\n  eve: {{os_user: nobody-of-here}}\n"
        "  mia: {os_user: nobody-else}\nbreak_glass: [me, eve]\nchannels:\n  terminal: {type: terminal}\n"
        "routes:\n  default: {approvers: [mia], steps: [{to: terminal}]}\n"
    )
    assert at_terminal("resume", "--channels", str(file), word="resume")[0] == 2, "by the route it is mia's"
    code, shown = at_terminal("resume", "--break-glass", "it burns", "--channels", str(file), word="resume")
    assert (code, "it counts once another" in shown) == (0, True), shown
    known = build_authority(file)
    assert known is not None
    halts = store.halts.standing(known)
    assert "one of two" in halts[0].note
    assert store.halts.resume(halts, Approver("os:nobody-of-here", GLASS, "terminal"), "x", known, other) is None
    assert store.halts.standing(known) == []
    told = [entry.event["reason"] for entry in store.events(type="supervision.break-glass")]
    assert told == ["break-glass: it burns", "x"]


@pytest.mark.parametrize("command", ["stop", "resume"])
def test_below_a_supervised_command(command: str, ready: None, store: SQLiteStore) -> None:
    code, shown = at_terminal(command, **{SUPERVISED: "1"})
    assert (code, "this is a supervised command" in shown) == (2, True)
    assert [entry.event["command"] for entry in store.events(type="wall.refused")] == [command]
    assert list(store.events(type="supervision")) == []


@pytest.mark.parametrize("command", ["stop", "resume"])
def test_without_a_terminal(command: str, ready: None, store: SQLiteStore) -> None:
    done = children.run(
        [*RUN, command], capture_output=True, text=True, stdin=subprocess.DEVNULL, start_new_session=True
    )
    assert (done.returncode, "only a human at a terminal does that" in done.stderr) == (3, True)
    (event,) = (entry.event for entry in store.events(type="supervision"))
    assert (event["type"], event["wanted"], event["refusal"]) == ("supervision.refused", command, "no-terminal")


@pytest.mark.long
def test_a_terminal_that_can_show_little_is_enough_to_stop(here: None, store: SQLiteStore) -> None:
    code, shown = at_terminal("stop", LC_ALL="C", LANG="C", PYTHONUTF8="0", TERM="dumb")
    assert code == 0, shown
    assert not acts(store)


def test_a_store_that_is_not_there_is_not_said_to_be_stopped(here: None, tmp_path: Path) -> None:
    code, shown = at_terminal("stop", "--store", str(tmp_path / "other"))
    assert (code, "NOT stopped: there is no store" in shown) == (2, True)
    assert not (tmp_path / "other").exists()


def test_a_store_that_can_not_be_written(here: None, tmp_path: Path) -> None:
    path = tmp_path / "no store"
    path.write_text("something else")
    code, shown = at_terminal("stop", "--store", str(path))
    assert (code, "NOT stopped" in shown, "end the agents themselves" in shown) == (2, True, True)


def test_a_planted_row_keeps_nobody_from_stopping(here: None, store: SQLiteStore) -> None:
    """Somebody can write the file: a run, and a command of it, of a process that is none."""
    with Gate(ScriptedDirector(), store, None) as gate:
        permit = gate.check(LS)
        assert isinstance(permit, Permit)
        assert gate.start(permit, LS) is None
    with forging(default_store_path()) as connection:
        connection.execute("INSERT INTO run VALUES ('x', 'a', 'i', 'os:1', '/', 'no process', 1, NULL, 'open', '', 0)")
        connection.execute("UPDATE execution SET process = 'no process'")
    code, shown = at_terminal("stop")
    assert (code, "stopped: no new action" in shown) == (0, True), shown
    assert len(store.halts.standing(None)) == 1


def test_what_goes_on_is_named(here: None, store: SQLiteStore) -> None:
    gate = Gate(ScriptedDirector(), store, None, agent="mini")
    permit = gate.check(LS)
    assert isinstance(permit, Permit)
    assert gate.start(permit, LS) is None
    store.close()
    # This process is above the terminal: it is an agent's, for whoever looks.
    with closing(SQLiteStore(default_store_path())) as other:
        other.halts.stop("os:1")
        (running,) = other.halts.running()
    assert (running.agent, running.pid) == ("mini", os.getpid())
    gate.finish(permit, Outcome(0))


def test_where_it_is_shown(ready: None, store: SQLiteStore, capsys: pytest.CaptureFixture[str]) -> None:
    from humanlayer_agent.doctor.context import Context
    from humanlayer_agent.doctor.store import stopped

    assert [finding.status for finding in stopped(Context(None, {}))] == ["ok"]
    store.halts.stop("os:1:bob", "wrong\nbucket")
    said = "every agent is stopped since"
    (finding,) = stopped(Context(None, {}))
    assert (finding.status, said in finding.said, "hla resume" in finding.todo) == ("warning", True, True)
    assert main(["requests", "ls"]) == 0
    assert f"STOPPED: {said}" in capsys.readouterr().out
    assert main(["requests", "ls", "--format", "jsonl"]) == 0
    printed = capsys.readouterr()
    assert (printed.out, said in printed.err) == ("", True)
    assert main(["audit", "tail", "-n", "1"]) == 0
    assert "supervision.stopped" in (line := capsys.readouterr().out)
    assert "by os:1:bob wrong" in line
    assert line.count("\n") == 1
    assert main(["run", "-t", "x", "-m", "none/none"]) == 1
    assert "not started: every agent is stopped" in capsys.readouterr().err


def test_the_auditors_report_tells_of_it(
    store: SQLiteStore, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import json

    store.halts.stop("os:1:bob", "wrong bucket")
    page = tmp_path / "page.html"
    main(["audit", "report", "--html", str(page)])
    capsys.readouterr()
    main(["audit", "report", "--format", "json"])
    (told,) = json.loads(capsys.readouterr().out)["stops"]
    assert (told["type"], told["by"], told["words"]) == ("supervision.stopped", "os:1:bob", "wrong bucket")
    assert "Stops of every agent" in page.read_text()
    assert "wrong bucket" in page.read_text()


def test_a_denial_of_an_agent_that_began_before(ready: None, store: SQLiteStore) -> None:
    """And once it is resumed at a terminal, the same agent goes on: it has the settings of its beginning."""
    gate = Gate(ScriptedDirector(), store, None, authority=build_authority())
    assert isinstance(gate.check(LS), Permit)
    store.halts.stop("os:1")
    answer = gate.check(LS)
    assert isinstance(answer, Denial)
    assert answer.halted
    gate.close()
    assert at_terminal("resume", word="resume")[0] == 0
    assert acts(store)
