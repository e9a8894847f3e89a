"""`hla audit` and `hla requests`: what people and programs read of the store."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from humanlayer_agent.actions import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.approvals.sqlite import SQLiteStore
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.audit.verify import verify
from humanlayer_agent.cli import main
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.testing.approvers import ScriptedAsker, ScriptedDirector

HOSTILE = "ask \x1b[2J\u202egpj.exe \ud800"
Hla = Callable[..., Result]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


@pytest.fixture
def gate(path: Path) -> Gate:
    """A run with an allow, an approval with a hostile command, a rejection, a denial; and its store."""
    director = ScriptedDirector({"ask": Verdict.ASK, "rm": Verdict.DENY})
    gate = Gate(director, SQLiteStore(path), ScriptedAsker(["approve", ("reject", "no \x1b[1m")]), run_id="run-1")
    for command in ("ls", HOSTILE, "ask again", "rm x"):
        permit = gate.check(Action(command, cwd="/srv", project="/srv"))
        if isinstance(permit, Permit):
            gate.start(permit, permit.action)
            gate.finish(permit, Outcome(3))
    return gate


@pytest.fixture
def hla(path: Path) -> Hla:
    from humanlayer_agent.cli import audit, requests

    def call(group: str, *arguments: str) -> Result:
        app = {"audit": audit.app, "requests": requests.app}[group]
        return CliRunner().invoke(app, [*arguments, "--store", str(path)], catch_exceptions=True)

    return call


def unsafe(text: str) -> set[str]:
    return {char for char in text if not (char.isprintable() or char == "\n")}


# audit


def test_query_as_lines_is_the_log_itself(gate: Gate, hla: Hla, path: Path) -> None:
    result = hla("audit", "query", "--format", "jsonl")
    lines = result.stdout_bytes.splitlines(keepends=True)
    assert lines == [entry.line for entry in gate.store.events()]
    entries = []
    for number, line in enumerate(lines):
        body = line.removeprefix(b'{"e":').rpartition(b',"h":')[0]
        entries.append(Entry(number, json.loads(line)["h"], body))
    assert verify(entries).intact


@pytest.mark.parametrize(
    ("options", "types"),
    [
        (["--type", "vote"], {"vote.recorded"}),
        (["--type", "exec.started"], {"exec.started"}),
        (["--run", "nothing"], set()),
        (["--run", "run-1", "--type", "run"], {"run.started"}),
    ],
)
def test_query_filters(gate: Gate, hla: Hla, options: list[str], types: set[str]) -> None:
    result = hla("audit", "query", "--format", "jsonl", *options)
    assert {json.loads(line)["e"]["type"] for line in result.output.splitlines()} == types


def test_query_by_request(gate: Gate, hla: Hla) -> None:
    (request, _) = gate.store.requests()
    result = hla("audit", "query", "--request", request.id)
    assert [line.split()[4] for line in result.output.splitlines()] == [
        "decision.evaluated",
        "request.created",
        "vote.recorded",
        "request.approved",
        "permit.consumed",
        "exec.started",
        "exec.finished",
    ]


def test_a_line_for_each_event_and_nothing_a_terminal_would_act_on(gate: Gate, hla: Hla) -> None:
    result = hla("audit", "query")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) == len(list(gate.store.events()))
    assert unsafe(result.output) == set()
    assert "DENY [rm] rm x" in result.output
    assert "reject by os:1000:tester (script)" in result.output
    assert "exit 3" in result.output


def test_tail_shows_the_newest(gate: Gate, hla: Hla) -> None:
    newest = [entry.seq for entry in gate.store.events()][-2:]
    result = hla("audit", "tail", "-n", "2")
    assert [int(line.split()[0]) for line in result.output.splitlines()] == newest


def test_following_goes_on_with_new_events(gate: Gate, path: Path) -> None:
    program = "import sys; from humanlayer_agent.cli import main; main(sys.argv[1:])"
    arguments = ["audit", "tail", "-n", "1", "--follow", "--store", str(path)]
    with subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        first = follower.stdout.readline()
        gate.close("done")
        second = follower.stdout.readline()
        follower.kill()
    assert first.split()[0] == str(int(second.split()[0]) - 1)
    assert second.split()[-2:] == ["run.finished", "done"]


@pytest.mark.parametrize(("wanted", "code"), [("store.sqlite3", 5), ("no-such-store", 2), ("mysql://x", 2)])
def test_exit_codes(gate: Gate, tmp_path: Path, wanted: str, code: int) -> None:
    location = wanted if ":" in wanted else str(tmp_path / wanted)
    assert main(["audit", "verify", "--store", location]) == code


def test_verify_says_that_nobody_witnessed_the_tail(gate: Gate, hla: Hla) -> None:
    result = hla("audit", "verify")
    assert result.exit_code == 5
    assert "intact: " in result.output
    assert "tail not witnessed" in result.output


def test_verify_names_the_first_bad_event(gate: Gate, hla: Hla, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER audit_event_no_update")
        connection.execute("UPDATE audit_event SET body = replace(body, 'rm x', 'ls x') WHERE type LIKE 'decision.%'")
    denied = [entry.seq for entry in gate.store.events(type="decision")][-1]
    result = hla("audit", "verify")
    assert result.exit_code == 1
    assert f"TAMPERED: event {denied}: its hash is not that of its bytes" in result.output


def test_a_tampered_log_can_still_be_read(gate: Gate, hla: Hla, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER audit_event_no_update")
        connection.execute('UPDATE audit_event SET body = \'{"prev":"x","type":"vote.recorded"}\' WHERE seq = 3')
    result = hla("audit", "tail", "-n", "100")
    assert result.exit_code == 0
    assert "     3  this event can't be read: see hla audit verify" in result.output.splitlines()


@pytest.mark.parametrize("command", [("audit", "tail"), ("audit", "verify"), ("requests", "ls")])
def test_no_store_is_an_error_and_creates_none(hla: Hla, path: Path, command: tuple[str, str]) -> None:
    result = hla(*command)
    assert isinstance(result.exception, ConfigError)
    assert "there is no store at" in str(result.exception)
    assert not path.exists()


# requests


def test_requests_that_wait(gate: Gate, hla: Hla, path: Path) -> None:
    assert "No request waits" in hla("requests", "ls").output
    result = hla("requests", "ls", "--all")
    assert [word for word in ("approved", "rejected") if word in result.output] == ["approved", "rejected"]
    assert unsafe(result.output) == set()


def test_requests_as_lines(gate: Gate, hla: Hla) -> None:
    result = hla("requests", "ls", "--all", "--format", "jsonl")
    first, second = (json.loads(line) for line in result.output.splitlines())
    assert (first["state"], second["state"]) == ("approved", "rejected")
    assert second["comment"] == "no \x1b[1m"
    assert second["body"]["command"] == "ask again"


def test_one_request_by_the_beginning_of_its_id(gate: Gate, hla: Hla) -> None:
    (request, _) = gate.store.requests()
    result = hla("requests", "show", request.id[:8])
    assert result.exit_code == 0, result.exception
    assert f"request {request.id}" in result.output
    assert "settled" in result.output
    assert "ask" in result.output
    assert unsafe(result.output) == set()


@pytest.mark.parametrize("request_id", ["zzz", ""])
def test_an_id_that_names_no_single_request(gate: Gate, hla: Hla, request_id: str) -> None:
    result = hla("requests", "show", request_id)
    assert result.exit_code != 0
    assert "requests begin with" in str(result.exception)
