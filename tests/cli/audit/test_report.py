"""`hla audit report` on a store and on an export."""

import csv
import hashlib
import io
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.audit.heads import head_in, head_text
from humanlayer_agent.audit.search import moment
from humanlayer_agent.audit.verify import verify
from humanlayer_agent.cli import main
from humanlayer_agent.cli.audit import report
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.director import Director
from humanlayer_agent.report.integrity import integrity
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker
from tests.support.forging import forging

JSON, CSV = ("--format", "json"), ("--format", "csv")

pytestmark = pytest.mark.usefixtures("compiled")

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A run with an allow, an approval and a denial."""
    path = tmp_path / "store.sqlite3"
    director = Director.load("default", project="/srv/app", environ={"HOME": "/home/u"}, tested=False)
    opened = SQLiteStore(path)
    with Gate(director, opened, ScriptedAsker(["approve"]), run_id="run-1", requester="os:1000:tester") as gate:
        for command in ("ls", "pip install x", "rm -rf /"):
            permit = gate.check(Action(command, cwd="/srv/app", project="/srv/app"))
            if isinstance(permit, Permit) and gate.start(permit, permit.action) is None:
                gate.finish(permit, Outcome(0))
    opened.close()
    return path


@pytest.fixture
def export(store: Path, tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    opened = SQLiteStore(store, create=False)
    path.write_bytes(b"".join(entry.line for entry in opened.events()))
    opened.close()
    return path


@pytest.fixture
def kept(export: Path, tmp_path: Path) -> Path:
    """The newest head of the log, as it was kept elsewhere."""
    events = [json.loads(line)["e"] for line in export.read_text().splitlines()]
    heads = [head for event in events if event["type"] == "audit.head" and (head := head_in(event)) is not None]
    path = tmp_path / "kept.txt"
    path.write_text(f"In the channel:\n{head_text(heads[-1])}\n")
    return path


def test_a_page_of_a_store(store: Path, tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "report.html"
    assert main(["audit", "report", "--store", str(store), "--html", str(page)]) == 0
    assert main(["audit", "report", "--store", str(store), "--html", str(page), "--require-head"]) == 5
    assert "The end is not witnessed" in capsys.readouterr().out
    made = page.read_text()
    assert "pip install x" in made
    assert "rules were never hit" in made
    assert stat.S_IMODE(os.stat(page).st_mode) == 0o600


def test_a_witnessed_log_exits_with_0(store: Path, export: Path, kept: Path, capsys: Capture) -> None:
    for log in (["--store", str(store)], ["--export", str(export)]):
        assert main(["audit", "report", *log, "--head", str(kept), *JSON]) == 0
        data = json.loads(capsys.readouterr().out)
        assert data["integrity"]["intact"]
        assert data["integrity"]["witnessed_event"] is not None
        assert data["verdicts"] == {"allow": 1, "ask": 1, "deny": 1}


def test_a_log_that_was_edited_exits_with_1_and_is_told_all_the_same(export: Path, capsys: Capture) -> None:
    export.write_bytes(export.read_bytes().replace(b"pip install x", b"pip install y"))
    assert main(["audit", "report", "--export", str(export), *JSON]) == 1
    done = capsys.readouterr()
    assert "Tampered with at event" in done.err
    data = json.loads(done.out)
    assert not data["integrity"]["intact"]
    assert data["requests"][0]["decision"]["command"] == "pip install y"


@pytest.mark.parametrize("cut", [1, 30])
def test_a_torn_export_exits_with_5(export: Path, cut: int, capsys: Capture) -> None:
    export.write_bytes(export.read_bytes()[:-cut])
    assert main(["audit", "report", "--export", str(export), *CSV]) == 5
    done = capsys.readouterr()
    assert "torn" in done.err
    assert [row["command"] for row in csv.DictReader(io.StringIO(done.out))] == ["pip install x"]


def test_a_head_in_the_log_itself_is_no_witness(export: Path, capsys: Capture) -> None:
    assert main(["audit", "report", "--export", str(export), "--head", str(export), *JSON]) == 2
    assert "witnesses nothing" in capsys.readouterr().err


def test_secrets_are_in_no_form_of_the_report(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "store.sqlite3"
    director = Director.load("default", project="/srv/app", environ={"HOME": "/home/u"}, tested=False)
    opened = SQLiteStore(path)
    with Gate(director, opened, ScriptedAsker(["approve"]), run_id="r", requester="os:1000:tester") as gate:
        gate.check(Action("mysql -ushop -phunter22 -h db.internal orders", cwd="/srv/app", project="/srv/app"))
    opened.close()
    page = tmp_path / "report.html"
    main(["audit", "report", "--store", str(path), "--html", str(page)])
    main(["audit", "report", "--store", str(path), *JSON])
    main(["audit", "report", "--store", str(path), *CSV])
    told = page.read_text() + capsys.readouterr().out
    assert "hunter22" not in told
    assert "db.internal" in told
    assert "1 command had secrets taken out" in told


def test_only_a_part_is_told_but_all_is_verified(store: Path, export: Path, capsys: Capture) -> None:
    def told(*options: str) -> Any:
        assert main(["audit", "report", "--store", str(store), *JSON, *options]) == 0
        return json.loads(capsys.readouterr().out)

    assert told("--run", "other")["verdicts"] == {}
    assert told("--until", "2020-01-01")["verdicts"] == {}
    assert told("--since", "1h")["verdicts"]["ask"] == 1
    export.write_bytes(export.read_bytes().replace(b"pip install x", b"pip install y"))
    assert main(["audit", "report", "--export", str(export), *JSON, "--until", "2020-01-01"]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--html", "report.html", *JSON], "leave --format out"),
        ([*JSON, "--export", "missing.jsonl"], "missing.jsonl"),
        ([*JSON, "--store", "a", "--export", "b"], "not both"),
        ([*JSON, "--since", "yesterday"], "is no time"),
        ([*JSON, "--since", "2030-01-02", "--until", "2030-01-01"], "nothing lies between them"),
        (["--html", "/nowhere/at/all.html"], "can't be written"),
    ],
)
def test_mistakes_of_usage(store: Path, options: list[str], message: str, capsys: Capture) -> None:
    log = [] if {"--store", "--export"} & set(options) else ["--store", str(store)]
    assert main(["audit", "report", *log, *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("said", ["", "7", "d", "99999999w", "2026-13-01", "-3d", "1e9d"])
def test_what_is_no_moment(said: str) -> None:
    from humanlayer_agent.errors import ConfigError

    with pytest.raises(ConfigError, match="is no time"):
        moment(said, 0)


# ---- evidence -----------------------------------------------------------------------------------------------


def test_evidence_of_a_store_and_of_an_export(store: Path, export: Path, tmp_path: Path, capsys: Capture) -> None:
    """The page, the data and the table tell the same, and an export names itself in the commands."""
    page = tmp_path / "soc2.html"
    assert main(["audit", "evidence", "--map", "soc2", "--store", str(store), "--html", str(page)]) == 0
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert "Intact" in capsys.readouterr().out
    assert main(["audit", "evidence", "--map", "soc2", "--export", str(export), *JSON]) == 0
    data = json.loads(capsys.readouterr().out)
    counts = {each["name"]: each["count"] for each in data["figures"]}
    assert (counts["decisions"], counts["approved"], counts["denied"]) == (3, 1, 1)
    command = next(each["command"] for each in data["figures"] if each["name"] == "denied")
    query = command.removesuffix(" | wc -l")
    assert f"--export {export}" in query
    assert main(query.split()[1:]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["audit", "evidence", "--map", "eu-ai-act", "--store", str(store), "--since", "1d"]) == 0
    assert "what the log shows, and not whether a clause is met" in " ".join(capsys.readouterr().out.split())


def test_evidence_of_a_log_that_was_edited(export: Path, capsys: Capture) -> None:
    export.write_bytes(export.read_bytes().replace(b'"verdict":"deny"', b'"verdict":"ask"'))
    assert main(["audit", "evidence", "--map", "iso42001", "--export", str(export), *JSON]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["integrity"]["reliable"] is False
    assert data["integrity"]["headline"].startswith("Tampered with at event")
    export.write_bytes(export.read_bytes()[:-5])
    assert main(["audit", "evidence", "--map", "iso42001", "--export", str(export), "--require-head"]) == 1
    assert "don't rely on what follows" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["report"], ["evidence", "--map", "soc2"]])
@pytest.mark.parametrize("forged", ["DELETE FROM audit_event WHERE seq > 3", "CREATE VIEW shown AS SELECT 1"])
def test_a_store_that_was_set_back_or_does_not_even_open(
    store: Path, capsys: Capture, command: list[str], forged: str
) -> None:
    """As `hla audit verify` says it: by the anchor, which is no witness, and by the schema."""
    assert main(["audit", "head", "--store", str(store)]) == 0  # what the anchor says, it says from now on
    with forging(store) as connection:
        connection.execute(forged)
    capsys.readouterr()
    assert main(["audit", "verify", "--store", str(store)]) == 1
    capsys.readouterr()
    assert main(["audit", *command, "--store", str(store), *JSON]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["integrity"]["intact"] is False
    assert "don't rely on what follows" in printed.err


@pytest.mark.parametrize("command", [("report",), ("evidence", "--map", "soc2")])
def test_what_comes_through_a_pipe_is_not_told_as_intact_and_empty(
    export: Path, capsys: Capture, command: tuple[str, ...]
) -> None:
    """It is read twice: verified, and told."""
    reader, writer = os.pipe()
    assert os.write(writer, export.read_bytes()) == export.stat().st_size
    os.close(writer)
    assert main(["audit", *command, "--export", f"/dev/fd/{reader}"]) == 2
    os.close(reader)
    said = capsys.readouterr()
    assert "is not what was verified a moment ago" in said.err
    assert "Intact" not in said.out


def test_only_what_was_verified_is_told(export: Path) -> None:
    """Somebody puts another log in its place, between the two readings."""
    entries = list(report.entries_of(export))
    proof = integrity(verify(entries), "x")
    assert list(report._as_verified([*entries, entries[0]], proof)) == entries
    body = entries[1].body.replace(b"run-1", b"run-2")
    swapped = Entry(1, entries[1].hash, body)
    resealed = Entry(1, hashlib.sha256(body).hexdigest(), body)
    for other in ([], entries[:-1], [entries[0], swapped, *entries[2:]], [entries[0], resealed, *entries[2:]]):
        with pytest.raises(ConfigError, match="is not what was verified"):
            list(report._as_verified(other, proof))


@pytest.mark.parametrize("option", ["--export", "--store"])
def test_a_page_is_not_written_over_the_log(store: Path, export: Path, capsys: Capture, option: str) -> None:
    read = export if option == "--export" else store
    before = read.read_bytes()
    for command in (("report",), ("evidence", "--map", "soc2")):
        assert main(["audit", *command, option, str(read), "--html", str(read)]) == 2
        assert "is what the page would be made of" in capsys.readouterr().err
    assert read.read_bytes() == before


def test_a_page_that_was_there_is_for_its_owner_alone_too(export: Path, tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    page.touch(0o644)
    page.chmod(0o644)
    assert main(["audit", "evidence", "--map", "soc2", "--export", str(export), "--html", str(page)]) == 0
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
