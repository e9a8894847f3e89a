"""`hla store`, and other commands on a store that a server has."""

import json
import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from humanlayer_agent.approvals.model import Run
from humanlayer_agent.cli import main
from humanlayer_agent.doctor import store as doctor
from humanlayer_agent.doctor.context import Context
from humanlayer_agent.store import postgres as package
from humanlayer_agent.store.sqlite import SQLiteStore
from tests.approvals.conftest import postgres
from tests.support.postgres import LocalServer

__all__ = ["postgres"]
PASSWORD = "hunter22"


@pytest.fixture
def database(postgres: LocalServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty database, named as the user's store."""
    url = f"{postgres.new_database()}&password={PASSWORD}"
    monkeypatch.setenv("HUMANLAYER_STORE", url)
    return url


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main([*arguments]) == code
    read = capsys.readouterr()
    assert PASSWORD not in read.out + read.err
    return read.out + read.err


def test_it_is_made_and_every_command_takes_it(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no store" in said(capsys, "store", "status", code=2)
    assert "is made; roles: humanlayer_agents" in said(capsys, "store", "init")
    assert "there already" in said(capsys, "store", "init")
    status = json.loads(said(capsys, "store", "status", "--format", "json"))
    assert (status["kind"], status["events"], status["runs"]) == ("postgresql", 1, 0)
    assert said(capsys, "requests", "ls") == "No request waits for an answer.\n"
    said(capsys, "grants", "ls")
    assert "hla-head-2" in said(capsys, "audit", "head")
    assert "intact: 2 events" in said(capsys, "audit", "verify")
    assert "audit.opened" in said(capsys, "audit", "tail")
    assert "intact" in said(capsys, "audit", "verify", "--store", database)


def test_a_store_moves_there(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "store.sqlite3")
    with closing(SQLiteStore(file)) as store:
        store.open_run(Run("run-1", "agent", "instance", "os:1:ann"))
        store.close_run("run-1", "done")
    assert "which verifies:\n7 events" in said(capsys, "store", "migrate", file, database)
    assert "intact: 7 events" in said(capsys, "audit", "verify")
    assert "was moved to postgresql:///" in said(capsys, "audit", "head", "--store", file, code=2)


@pytest.mark.parametrize("arguments", [("store", "init"), ("store", "migrate", "FILE")])
def test_what_is_no_database(arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "store.sqlite3"
    SQLiteStore(path).close()
    given = [str(path) if each == "FILE" else each for each in arguments]
    if arguments[1] == "init":
        assert "it is made when it is first used" in said(capsys, *given, "--store", str(path), code=2)
    else:
        assert "there is something at" in said(capsys, *given, str(path), code=2)


def test_what_is_missing_is_said_with_the_line_to_type(
    database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(package, "postgres_store")
    monkeypatch.setitem(sys.modules, f"{package.__name__}.postgres_store", None)
    told = said(capsys, "store", "status", code=2)
    assert "A store on a PostgreSQL server needs the extra postgres" in told
    assert "-m pip install 'psycopg" in told


def test_the_doctor_looks_at_it(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    context = Context(project=None, environ=dict(os.environ))
    (found,) = doctor.opens(context)
    assert found.status == "failed"
    assert "there is no store" in found.said
    said(capsys, "store", "init")
    found, machine = doctor.opens(context)
    assert machine.status == "ok"
    assert found.status == "warning"
    assert "the role that owns it" in found.said
    assert [each.status for check in (doctor.anchor, doctor.log) for each in check(context)] == ["ok", "ok"]
    assert [*doctor.schema(context), *doctor.wal(context)] == []
