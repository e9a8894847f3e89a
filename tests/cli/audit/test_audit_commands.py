"""`hla audit` and `hla requests`: what people and programs read of the store."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.audit.verify import verify
from humanlayer_agent.cli import main
from humanlayer_agent.cli.audit import audit_commands
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker, ScriptedDirector
from tests.support import children
from tests.support.forging import forging

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
    from humanlayer_agent.cli import requests

    def call(group: str, *arguments: str) -> Result:
        app = {"audit": audit_commands.app, "requests": requests.app}[group]
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


def test_what_has_no_permit_and_what_a_hook_tells_are_lines_with_a_reason(gate: Gate, hla: Hla) -> None:
    gate.store.record(events.PERMIT_REFUSED, why="there is no such permit")
    gate.store.record(events.HOOK_UNCONFINED, agent="claude-code", session="s", why="its own sandbox is switched on")
    gate.store.record(events.DECISION_LEFT, wanted="cursor: Shell (judged before)")
    refused, told, left = hla("audit", "tail", "-n", "3").output.splitlines()
    assert left.endswith("decision.left       cursor: Shell (judged before)")
    assert refused.endswith("permit.refused      there is no such permit")
    assert told.endswith("hook.unconfined     claude-code its own sandbox is switched on")


def test_following_goes_on_with_new_events(gate: Gate, path: Path) -> None:
    program = "import sys; from humanlayer_agent.cli import main; main(sys.argv[1:])"
    arguments = ["audit", "tail", "-n", "1", "--follow", "--store", str(path)]
    with children.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        first = follower.stdout.readline()
        gate.close("done")
        second = follower.stdout.readline()
        follower.kill()
    assert first.split()[0] == str(int(second.split()[0]) - 1)
    assert second.split()[-2:] == ["run.finished", "done"]


@pytest.mark.parametrize(("wanted", "code"), [("store.sqlite3", 0), ("no-such-store", 2), ("mysql://x", 2)])
def test_exit_codes(gate: Gate, tmp_path: Path, wanted: str, code: int) -> None:
    location = wanted if ":" in wanted else str(tmp_path / wanted)
    assert main(["audit", "verify", "--store", location]) == code


def test_verify_says_that_nobody_witnessed_the_tail(gate: Gate, hla: Hla) -> None:
    result = hla("audit", "verify")
    assert (result.exit_code, hla("audit", "verify", "--require-head").exit_code) == (0, 5)
    assert "intact: " in result.output
    assert "the end is not witnessed" in result.output
    assert "hla audit head" in result.output


def test_verify_names_the_first_bad_event(gate: Gate, hla: Hla, path: Path) -> None:
    with forging(path) as connection:
        connection.execute("UPDATE audit_event SET body = replace(body, 'rm x', 'ls x') WHERE type LIKE 'decision.%'")
    denied = [entry.seq for entry in gate.store.events(type="decision")][-1]
    result = hla("audit", "verify")
    assert result.exit_code == 1
    assert f"TAMPERED: event {denied}: its hash is not that of its bytes" in result.output


def test_a_tampered_log_can_still_be_read(gate: Gate, hla: Hla, path: Path) -> None:
    with forging(path) as connection:
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


# What is searched for


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--verdict", "deny"], 1),
        (["--verdict", "ask"], 2),
        (["--rule", "rm"], 1),
        (["--by", "os:1000:tester", "--type", "vote"], 2),
        (["--by", "tester", "--type", "vote"], 2),
        (["--by", "somebody"], 0),
        (["--text", "RM X"], 1),
        (["--since", "1h", "--type", "run"], 1),
        (["--since", "2100-01-01"], 0),
        (["--until", "2000-01-01T12:00"], 0),
        (["--after", "3", "--type", "run"], 0),
        (["--where", "approver.assurance=terminal", "--where", "answer=approve"], 1),
        (["--where", "enforced=true"], 4),
        (["--where", "signer!=", "--type", "vote"], 2),
        (["--where", "no_such.field=", "--type", "vote"], 2),
        (["--where", "returncode=3"], 2),
    ],
)
def test_query_by_what_people_look_for(gate: Gate, hla: Hla, options: list[str], count: int) -> None:
    result = hla("audit", "query", "--format", "json", *options)
    assert len(json.loads(result.stdout)) == count


def test_a_time_that_is_none_is_an_error(gate: Gate, hla: Hla) -> None:
    assert "is no time" in str(hla("audit", "query", "--since", "yesterday").exception)


@pytest.mark.parametrize("text", ["solo", "=x", "Solo=x", "a..b=c", ".a=c"])
def test_a_condition_that_is_none_is_an_error(gate: Gate, hla: Hla, text: str) -> None:
    assert "is no condition" in str(hla("audit", "query", "--where", text).exception)


def test_an_export_is_searched_like_its_store(gate: Gate, hla: Hla, tmp_path: Path) -> None:
    export = tmp_path / "log.jsonl"
    export.write_bytes(hla("audit", "query", "--format", "jsonl").stdout_bytes + b"no line of a log\n")
    for options in (
        ["--type", "vote"],
        ["--run", "run-1", "--after", "4"],
        ["--verdict", "ask"],
        ["--type", "vote.late"],
    ):
        told = CliRunner().invoke(audit_commands.app, ["query", *options, "--export", str(export), "--format", "json"])
        assert told.stdout == hla("audit", "query", *options, "--format", "json").stdout
    assert "not both" in str(hla("audit", "query", "--export", str(export)).exception)
    missing = CliRunner().invoke(audit_commands.app, ["query", "--export", str(tmp_path / "none")]).exception
    assert "No such file" in str(missing)


# Export and witnesses


def test_an_export_is_verified_against_a_head_kept_elsewhere(gate: Gate, hla: Hla, tmp_path: Path) -> None:
    target, kept = tmp_path / "log.jsonl", tmp_path / "head.txt"
    assert hla("audit", "export", "-o", str(target)).exit_code == 0
    kept.write_text(f"posted to #agents:\n{hla('audit', 'head').stdout}")
    assert json.loads(target.read_bytes().splitlines()[-1])["e"]["type"] == "audit.head"
    for what in ([str(target)], []):
        result = hla("audit", "verify", *what, "--head", str(kept))
        assert (result.exit_code, "witnessed up to event" in result.output) == (0, True)
        assert hla("audit", "verify", *what, "--head", str(kept), "--require-head").exit_code == 0
        assert hla("audit", "verify", *what, "--require-head").exit_code == 5


@pytest.mark.long
def test_a_head_from_standard_input(gate: Gate, path: Path) -> None:
    from humanlayer_agent.cli.audit import audit_commands

    text = CliRunner().invoke(audit_commands.app, ["head", "--store", str(path)]).stdout
    result = CliRunner().invoke(audit_commands.app, ["verify", "--head", "-", "--store", str(path)], input=text)
    assert result.exit_code == 0


def test_a_log_is_not_its_own_witness(gate: Gate, hla: Hla, tmp_path: Path) -> None:
    hla("audit", "export", "-o", str(tmp_path / "log.jsonl"))
    result = hla("audit", "verify", str(tmp_path / "log.jsonl"), "--head", str(tmp_path / "log.jsonl"))
    assert "witnesses nothing" in str(result.exception)


@pytest.mark.parametrize("text", ["no head", "hla-head-1 store=1", ""])
def test_a_text_without_a_head_is_an_error(gate: Gate, hla: Hla, tmp_path: Path, text: str) -> None:
    (tmp_path / "head.txt").write_text(text)
    assert "there is no head in it" in str(hla("audit", "verify", "--head", str(tmp_path / "head.txt")).exception)


def test_a_head_that_was_changed_is_no_witness(gate: Gate, hla: Hla, tmp_path: Path) -> None:
    text = hla("audit", "head").stdout
    (tmp_path / "head.txt").write_text(text.replace("count=", "count=1"))
    assert "was not signed" in str(hla("audit", "verify", "--head", str(tmp_path / "head.txt")).exception)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (lambda lines: lines[:4] + lines[5:], 5, "INCOMPLETE: event 4: event 4 is missing"),
        (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], 1, "TAMPERED: event 4: "),
        (lambda lines: [*lines[:4], lines[4].replace(b'"pid"', b'"piD"'), *lines[5:]], 1, "TAMPERED: event 4: "),
        (lambda lines: [*lines[:-1], lines[-1][:-9]], 5, "TORN: event "),
        (lambda lines: lines[:-3], 1, "its end was cut off"),
        (lambda lines: [], 1, "TAMPERED: event 0: its end was cut off"),
    ],
    ids=["deleted", "swapped", "edited", "torn", "cut", "emptied"],
)
def test_what_happened_to_an_export(
    gate: Gate, hla: Hla, tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], code: int, said: str
) -> None:
    target, kept = tmp_path / "log.jsonl", tmp_path / "head.txt"
    kept.write_text(hla("audit", "head").stdout)
    hla("audit", "export", "-o", str(target))
    lines = target.read_bytes().splitlines(keepends=True)
    target.write_bytes(b"".join(change(lines)))
    result = hla("audit", "verify", str(target), "--head", str(kept))
    assert (result.exit_code, said in result.output) == (code, True), result.output


@pytest.mark.long
def test_segments_are_verified_in_their_order(gate: Gate, hla: Hla, tmp_path: Path) -> None:
    whole = tmp_path / "log.jsonl"
    hla("audit", "export", "-o", str(whole))
    lines = whole.read_bytes().splitlines(keepends=True)
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(b"".join(lines[:7]))
    second.write_bytes(b"".join(lines[7:]))
    assert "intact" in hla("audit", "verify", str(first), str(second)).output
    assert "events 0 to 6 are missing" in hla("audit", "verify", str(second)).output


def test_an_export_goes_on_where_it_was_cut(gate: Gate, hla: Hla, tmp_path: Path) -> None:
    target = tmp_path / "log.jsonl"
    hla("audit", "export", "-o", str(target))
    whole = target.read_bytes()
    target.write_bytes(whole[:-5])
    assert hla("audit", "export", "-o", str(target)).exit_code == 0
    assert target.read_bytes().startswith(whole)
    (said,) = (entry.event for entry in gate.store.events(type="audit.recovered"))
    assert (said["file"], said["offset"] + said["bytes"]) == (str(target), len(whole) - 5)
    assert target.read_bytes() == b"".join(entry.line for entry in gate.store.events())


def test_an_export_of_another_log_is_not_gone_on_with(gate: Gate, hla: Hla, tmp_path: Path) -> None:
    target = tmp_path / "log.jsonl"
    other = SQLiteStore(tmp_path / "other.sqlite3")
    target.write_bytes(b"".join(entry.line for entry in other.events()))
    before = target.read_bytes()
    assert hla("audit", "export", "-o", str(target)).exit_code == 1
    assert target.read_bytes() == before


def test_an_export_to_standard_output_from_a_number_on(gate: Gate, hla: Hla) -> None:
    lines = hla("audit", "export", "--after", "3").stdout_bytes.splitlines()
    assert json.loads(lines[0])["e"]["seq"] == 4
    assert json.loads(lines[-1])["e"]["type"] == "audit.head"


def test_an_export_in_the_words_of_ocsf(gate: Gate, hla: Hla, path: Path, tmp_path: Path) -> None:
    before = list(SQLiteStore(path).events())
    done = hla("audit", "export", "--format", "ocsf", "--after", "3")
    lines = [json.loads(line) for line in done.stdout_bytes.splitlines()]
    assert [each["metadata"]["sequence"] for each in lines] == [entry.seq for entry in before if entry.seq > 3]
    assert lines[-1]["metadata"]["log_name"].endswith(before[0].event["store"])
    assert list(SQLiteStore(path).events()) == before, "no head is written: nothing verifies that"
    assert hla("audit", "export", "--format", "ocsf", "-o", str(tmp_path / "x")).exit_code != 0


def test_an_export_that_follows(gate: Gate, path: Path, tmp_path: Path) -> None:
    """A program of its own, ended with Ctrl-C: then the file ends with a head, and is whole."""
    import signal
    import time

    target = tmp_path / "log.jsonl"
    program = "import sys; from humanlayer_agent.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["audit", "export", "-o", str(target), "--follow", "--store", str(path)]

    def wait_for(text: bytes) -> None:
        while not (target.exists() and text in target.read_bytes()):
            assert follower.poll() is None
            time.sleep(0.05)

    with children.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE) as follower:
        wait_for(b"audit.head")
        gate.check(Action("echo later", cwd="/srv", project="/srv"))
        wait_for(b"echo later")
        follower.send_signal(signal.SIGINT)
        follower.wait()
    lines = target.read_bytes().splitlines(keepends=True)
    assert json.loads(lines[-1])["e"]["type"] == "audit.head"
    assert lines == [entry.line for entry in gate.store.events()]


def test_a_value_is_found_by_its_hash(gate: Gate, hla: Hla) -> None:
    gate.check(Action("curl -u me:hunter22 http://x", cwd="/srv", project="/srv"))
    gate.close()
    found = hla("audit", "hash", "hunter22")
    mark = found.output.splitlines()[0]
    assert (found.exit_code, len(found.output.splitlines())) == (0, 2)
    assert mark in hla("audit", "query").output
    assert "hunter22" not in hla("audit", "query").output
    assert hla("audit", "hash", "hunter23").exit_code == 1


def test_an_agent_can_not_guess_secrets(gate: Gate, hla: Hla, monkeypatch: pytest.MonkeyPatch) -> None:
    from humanlayer_agent.processes.execution import SUPERVISED

    gate.close()
    monkeypatch.setenv(SUPERVISED, "1")
    assert "supervised command" in str(hla("audit", "hash", "hunter22").exception)


# requests


def test_requests_that_wait(gate: Gate, hla: Hla, path: Path) -> None:
    gate.close()  # this process supervises no agent any more
    assert "No request waits" in hla("requests", "ls").output
    result = hla("requests", "ls", "--all")
    assert [word for word in ("approved", "rejected") if word in result.output] == ["approved", "rejected"]
    assert unsafe(result.output) == set()


def test_only_the_newest_are_listed_and_that_is_said(gate: Gate, hla: Hla) -> None:
    gate.close()
    result = hla("requests", "ls", "--all", "-n", "1", "--format", "jsonl")
    said, line = result.output.splitlines()
    assert said == "There are older ones: these are the newest 1 (-n shows more)."
    assert json.loads(line)["body"]["command"] == "ask again"
    assert len(hla("requests", "ls", "--all", "-n", "2", "--format", "jsonl").output.splitlines()) == 2


def test_requests_as_lines(gate: Gate, hla: Hla) -> None:
    gate.close()
    result = hla("requests", "ls", "--all", "--format", "jsonl")
    first, second = (json.loads(line) for line in result.output.splitlines())
    assert (first["state"], second["state"]) == ("approved", "rejected")
    assert second["comment"] == "no \x1b[1m"
    assert second["body"]["command"] == "ask again"


def test_one_request_by_the_beginning_of_its_id(gate: Gate, hla: Hla) -> None:
    (request, _) = gate.store.requests()
    gate.close()
    result = hla("requests", "show", request.id[:8])
    assert result.exit_code == 0, result.exception
    assert f"request {request.id}" in result.output
    assert "settled" in result.output
    assert "ask" in result.output
    assert unsafe(result.output) == set()


@pytest.mark.sample(1)
@pytest.mark.parametrize("request_id", ["zzz", ""])
def test_an_id_that_names_no_single_request(gate: Gate, hla: Hla, request_id: str) -> None:
    gate.close()
    result = hla("requests", "show", request_id)
    assert result.exit_code != 0
    assert "requests begin with" in str(result.exception)


def test_grants_are_told_by_who_gave_them(path: Path, hla: Hla) -> None:
    gate = Gate(ScriptedDirector({"ask": Verdict.ASK}), SQLiteStore(path), ScriptedAsker([("grant", "action")]))
    for _ in range(2):
        assert isinstance(gate.check(Action("ask", cwd="/srv", project="/srv")), Permit)
    (grant,) = gate.store.grants.given()
    assert gate.store.grants.revoke(grant.id, "os:1000:alice", "not\x1b[2J any more")
    lines = hla("audit", "query", "--type", "grant").stdout.splitlines()
    assert [grant.id[:12] in line for line in lines] == [True] * 3
    assert f"by {grant.by[0]} until " in lines[0]
    assert lines[1].endswith(f"1 of {grant.max_uses} by {grant.by[0]}")
    assert "by os:1000:alice not" in lines[2]
    assert not unsafe("".join(lines))
    for who, count in ((grant.by[0], 2), ("alice", 1), ("mallory", 0)):
        found = hla("audit", "query", "--type", "grant", "--by", who).stdout.splitlines()
        assert len(found) == count, who
