"""A store that is moved: there and back, nothing is lost, and who goes on with the old one is told."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import ApprovalRequest, Outcome, Permit, Run
from humanlayer_agent.errors import ConfigError, StoreError
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.store.access import make_store, move_store, open_store
from humanlayer_agent.store.log_position import LogLost
from humanlayer_agent.store.postgres.structure import TABLES
from humanlayer_agent.store.sqlite import SQLiteStore, SQLStore
from humanlayer_agent.testing.approvers import ScriptedAsker, ScriptedDirector
from tests.support.forging import forging
from tests.support.granting import READ, TEAM
from tests.support.postgres import LocalServer

KEPT = [table for table in TABLES if table not in ("lease", "silence", "purging")]


@pytest.fixture
def file(tmp_path: Path, draft: Callable[..., ApprovalRequest]) -> Path:
    """A store in which everything has happened, and whose agents have ended."""
    path = tmp_path / "store.sqlite3"
    with closing(SQLiteStore(path)) as store:
        work(store, "run-1")
        request = store.create_request(draft("make \u202e é", asks=(READ,), run_id="run-1"), TEAM.authority)
        TEAM.vote(store, request, scope="run")
        assert store.surfaces.begin_delivery(store.create_request(draft("two", run_id="run-1")).id, 0, "board")
        store.close_run("run-1", "done")
    return path


def work(store: SQLStore, run: str) -> None:
    director = ScriptedDirector({"rm": Verdict.DENY, "ask": Verdict.ASK})
    asker = ScriptedAsker([("approve", "fine"), ("reject", "no"), ("edit", "ask more"), "approve"])
    gate = Gate(director, store, asker, agent="agent", run_id=run)
    for command in ("ls", "rm x", "ask one", "ask two", "ask three", "echo \ud800"):
        permit = gate.admit(Action(command, cwd="/srv/app", project="/srv/app"))
        if isinstance(permit, Permit):
            if not permit.started:
                gate.start(permit, permit.action)
            gate.finish(permit, Outcome(0))


def rows(place: Path | str, table: str) -> list[tuple[Any, ...]]:
    columns = {"audit_event": "seq, hash, body"}.get(table, "*")
    if isinstance(place, Path):
        with closing(sqlite3.connect(place)) as connection:
            connection.row_factory = sqlite3.Row
            found = [dict(row) for row in connection.execute(f"SELECT {columns} FROM {table}")]
    else:
        with psycopg.connect(place, row_factory=psycopg.rows.dict_row) as connection:
            found = connection.execute(f"SELECT {columns} FROM humanlayer.{table}").fetchall()  # type: ignore[call-overload]
    return sorted((tuple((name, row[name]) for name in sorted(row) if name != "rowid") for row in found), key=repr)


def test_there_and_back(file: Path, postgres: LocalServer, tmp_path: Path) -> None:
    before = {table: rows(file, table) for table in KEPT}
    assert all(before[table] for table in ("request", "vote", "permit", "execution", "given_grant", "delivery"))
    database, back = postgres.new_database(), tmp_path / "back.sqlite3"
    with closing(open_store(file)) as source:
        moved = move_store(source, database)
    assert moved.rows == {table: len(found) + (table == "audit_event") for table, found in before.items()}
    for table in KEPT:
        assert set(rows(database, table)) >= set(before[table]), table
    with closing(open_store(database)) as there:
        assert [entry.event["type"] for entry in there.events(last=2)] == ["store.left", "store.moved"]
        work(there, "run-2")
        there.close_run("run-2", "done")
        assert there.verify().intact
        with pytest.raises(ConfigError, match="there is something"):
            move_store(there, str(file))
        move_store(there, str(back))
    with closing(SQLiteStore(back)) as again:
        assert again.verify().intact
        assert [vote for vote in rows(back, "vote") if vote in before["vote"]] == before["vote"]
        work(again, "run-3")
        assert again.verify().intact


def test_nothing_goes_on_in_what_was_left(file: Path, postgres: LocalServer) -> None:
    database = postgres.new_database()
    with closing(open_store(file)) as source:
        move_store(source, database)
        with pytest.raises(StoreError, match="was moved to postgresql:///"):
            source.open_run(Run("run-2", "agent", "instance", "os:1:ann"))
    with pytest.raises(StoreError, match="was moved to postgresql:///"):
        open_store(file)
    with closing(open_store(file, create=False)) as old:
        assert old.requests(), "it can be read"
    with closing(open_store(database)) as there, pytest.raises(ConfigError, match="there is a store"):
        move_store(there, database)


def test_a_store_that_is_in_use_stays(file: Path, postgres: LocalServer) -> None:
    with closing(open_store(file)) as source:
        work(source, "run-2")
        with pytest.raises(ConfigError, match="in use"):
            move_store(source, postgres.new_database())


def test_a_store_that_is_not_as_its_log_says_stays(file: Path, postgres: LocalServer) -> None:
    with forging(file) as connection:
        connection.execute("UPDATE request SET needed = 2")
    with closing(open_store(file)) as source, pytest.raises(StoreError, match="nothing is moved"):
        move_store(source, postgres.new_database())


def test_nothing_takes_the_place_of_a_store_that_was_lost(file: Path, postgres: LocalServer) -> None:
    database = postgres.new_database()
    make_store(database)
    name = database.partition("?")[0].rpartition("/")[2]
    postgres.administer(f"DROP DATABASE {name} WITH (FORCE)", f"CREATE DATABASE {name}")
    with closing(open_store(file)) as source, pytest.raises(LogLost):
        move_store(source, database)
    with closing(open_store(file)) as source:
        work(source, "run-2")


def test_what_does_not_fit_leaves_nothing_behind(file: Path, postgres: LocalServer) -> None:
    """Text with NUL, as an older version has written it into a file."""
    with forging(file) as connection:
        connection.execute("UPDATE delivery SET why = 'a' || char(0) || 'b'")
    database = postgres.new_database()
    with closing(open_store(file)) as source, pytest.raises(StoreError, match="NUL"):
        move_store(source, database)
    with pytest.raises(StoreError, match="there is no store"):
        open_store(database)
    with closing(open_store(file)) as source:
        work(source, "run-2")
