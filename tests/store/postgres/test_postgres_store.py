"""What a store on a server does otherwise than one in a file: round trips, faults of the server and of the network."""

import hashlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals import store_interface
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import ApprovalRequest, Denial, Execution, Outcome, Permit, Refused
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import unsealed
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.errors import ConfigError, StoreError, StoreTampered, StoreUnreachable
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.processes.identity import identity
from humanlayer_agent.store import heartbeats
from humanlayer_agent.store.access import open_store
from humanlayer_agent.store.postgres import server as reached
from humanlayer_agent.store.postgres import structure
from humanlayer_agent.store.postgres.migration import move
from humanlayer_agent.store.postgres.postgres_store import PostgresStore, make_store
from humanlayer_agent.store.sqlite import SQLiteStore, SQLStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST, ScriptedApprovers, ScriptedAsker, ScriptedDirector, answer
from humanlayer_agent.testing.patience import PATIENCE
from humanlayer_agent.testing.patience import until as patiently
from tests.support.forging import forging
from tests.support.postgres import LocalServer, local_server
from tests.support.sealing import Sealer

TEAM = ScriptedApprovers()
KEYED = re.compile("⟦|hmac:")
"""Digests by a key that each log has of its own."""
COMMANDS = (
    "ls -l",
    "mysql -phunter22-secret x",
    "echo é\u202e",
    "echo \ud800\x00",
    'echo "\\"',
    "ask make",
    "rm -rf x",
)


def action(content: str) -> Action:
    return Action(content, cwd="/srv/app", project="/srv/app", run_id="run-1")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to the server: each is one round trip."""
    found: list[str] = []
    execute = reached._Link.execute

    def heard(self: Any, query: Any, *more: Any, **how: Any) -> Any:
        found.append(str(query))
        return execute(self, query, *more, **how)

    monkeypatch.setattr(reached._Link, "execute", heard)
    return found


def test_an_allowed_command_is_one_round_trip_and_its_end_another(gate: Gate, sent: list[str]) -> None:
    for command in ("first", "second"):  # with the first, the keys of the log are made
        sent.clear()
        permit = gate.admit(action(command))
        assert isinstance(permit, Permit)
        assert permit.started
        gate.finish(permit, Outcome(0))
    assert [each.partition("(")[0] for each in sent] == ["SELECT * FROM admit", "SELECT * FROM finish"]
    assert gate.store.verify().intact


def test_what_is_verified_comes_in_parts(gate: Gate, sent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that came at once would have to come within the deadline of one call, and to fit into memory."""
    monkeypatch.setattr(reached, "_PART", 2)
    for number in range(5):
        assert isinstance(gate.admit(action(f"ls {number}")), Permit)
    sent.clear()
    assert gate.store.verify().intact
    assert {each for each in sent if re.search(r"FROM \w+$", each)} <= {"SELECT value FROM log_key"}
    with gate.store.database.write() as session:  # type: ignore[attr-defined]
        session.run("SET LOCAL session_replication_role = replica")
        session.run("UPDATE permit SET digest = repeat('0', 64) WHERE ctid = (SELECT max(ctid) FROM permit)")
    assert "permit" in gate.store.verify().problem


def said(store: SQLStore) -> list[dict[str, Any]]:
    """The events of a store without what is its own: times, names, hashes."""
    own = {"at", "prev", "store", "permit", "issued", "started", "decided", "asked", "request", "context", "expires"}
    own |= {
        "decision_id",
        "signature",
        "signer",
        "duration_ms",
        "us",
        "hash",
        "process",
        "erased",
        "exact",
        "head",
        "head_signature",
        "last",
    }
    return [
        {name: value for name, value in entry.event.items() if name not in own and not KEYED.search(str(value))}
        for entry in store.events()
    ]


def work(store: SQLStore) -> list[dict[str, Any]]:
    director = ScriptedDirector({"rm": Verdict.DENY, "ask": Verdict.ASK})
    with Gate(director, store, ScriptedAsker(["approve"] * 9), agent="agent", run_id="run-1") as gate:
        for command in COMMANDS:
            permit = gate.admit(action(command))
            if isinstance(permit, Permit):
                if not permit.started:
                    gate.start(permit, permit.action)
                gate.finish(permit, Outcome(None, "timed out") if "-l" in command else Outcome(0))
            gate.admit(action(command), outcome=lambda decision: Outcome(3, receipt={"question": "0" * 64}))
    assert store.verify().intact
    return said(store)


def test_the_log_says_the_same_as_that_of_a_file(store: PostgresStore, tmp_path: Any) -> None:
    with closing(SQLiteStore(tmp_path / "store.sqlite3")) as file:
        assert work(store) == work(file)


def test_what_is_out_of_the_ordinary_is_decided_by_the_statements(gate: Gate, store: PostgresStore) -> None:
    assert isinstance(gate.admit(action("ls")), Permit)
    with closing(PostgresStore(store.url)) as other:
        other.halts.stop("os:1:ann", "enough")
    assert isinstance(gate.admit(action("ls")), Denial)
    assert [entry.event["type"] for entry in store.events(last=1)] == ["decision.evaluated"]


def test_a_log_that_was_set_back_lets_nothing_run(store: PostgresStore, postgres: LocalServer) -> None:
    gate = Gate(ScriptedDirector({}), store, ScriptedAsker([]), agent="agent", run_id="run-1")
    for command in ("ls", "ls -l"):
        gate.admit(action(command))
    (newest,) = store.events(last=1)
    database = store.url.partition("?")[0].rpartition("/")[2]
    away = f"DELETE FROM humanlayer.audit_event WHERE seq > {newest.seq - 2}"
    postgres.administer("SET session_replication_role = replica", away, database=database)
    found = gate.admit(action("ls"))
    assert isinstance(found, Denial)
    assert "set back" in found.reason


# A chain for each run


@contextmanager
def writing(store: PostgresStore, run: str) -> Iterator[psycopg.Connection]:
    """A transaction that writes an event in the chain of a run, and goes on until the end of this."""
    with psycopg.connect(store.url, autocommit=True) as session:
        session.execute("SET search_path = pg_catalog, humanlayer, pg_temp; BEGIN; SET LOCAL synchronous_commit = on")
        session.execute("SELECT begin_write_of(%s)", (run,))
        fields = {"run": run, "policy": "slow"}
        body = unsealed(events.POLICY_LOADED, chain=run, mark="mark-", pid=1, fields=fields)
        session.execute("SELECT seal(%s, %s, 'mark-', 7)", (body, run))
        yield session
        session.execute("COMMIT")


@pytest.fixture
def other(store: PostgresStore, gate: Gate) -> Iterator[Gate]:
    """A second run, of another process's connection."""
    assert isinstance(gate.admit(action("ls")), Permit)
    with (
        closing(PostgresStore(store.url)) as second,
        Gate(ScriptedDirector({}), second, None, agent="agent", run_id="run-2") as made,
    ):
        assert isinstance(made.admit(replace(action("ls"), run_id="run-2")), Permit)
        yield made


def test_a_run_waits_for_no_other(store: PostgresStore, gate: Gate, other: Gate, sent: list[str]) -> None:
    with writing(store, "run-1"):
        permit = other.admit(replace(action("ls -l"), run_id="run-2"))
        assert isinstance(permit, Permit)
        assert permit.started
        other.finish(permit, Outcome(0))
    assert len(sent) == 2, "one round trip each"
    assert store.verify().intact
    (ended,) = (entry.event for entry in store.events(type="exec.finished"))
    assert ended["chain"] == "run-2"


def test_a_stop_waits_for_those_that_write_and_nothing_is_allowed_after_it(
    store: PostgresStore, gate: Gate, other: Gate
) -> None:
    with closing(PostgresStore(store.url)) as second, writing(store, "run-1") as session:
        stop = threading.Thread(target=lambda: second.halts.stop("os:1:ann", "enough"))
        stop.start()
        waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        patiently(lambda: session.execute(waits).fetchone() is not None, "that it waits")
        assert stop.is_alive()
    stop.join(PATIENCE)
    assert isinstance(other.admit(replace(action("ls -l"), run_id="run-2")), Denial)
    assert isinstance(gate.admit(action("ls -l")), Denial)
    assert store.verify().intact


def test_who_follows_the_log_misses_nothing_that_was_being_written(
    store: PostgresStore, gate: Gate, other: Gate
) -> None:
    (newest,) = store.events(last=1)
    found: list[int] = []
    with closing(PostgresStore(store.url, create=False)) as reader, writing(store, "run-1"):
        assert isinstance(other.admit(replace(action("ls -l"), run_id="run-2")), Permit)
        follower = threading.Thread(target=lambda: found.extend(each.seq for each in reader.events(after=newest.seq)))
        follower.start()
        follower.join(0.2)
        assert follower.is_alive(), "what comes later has a higher number than what is still being written"
    follower.join(PATIENCE)
    assert found == list(range(newest.seq + 1, newest.seq + 5))


def test_a_report_is_of_what_was_verified(store: PostgresStore, gate: Gate, other: Gate) -> None:
    """An event that was being written has a lower number than one that was verified."""
    with closing(PostgresStore(store.url, create=False)) as reader:
        settled = reader.database.settled
        with writing(store, "run-1"):
            assert isinstance(other.admit(replace(action("ls -l"), run_id="run-2")), Permit)
            before = store.figures().events
            with pytest.MonkeyPatch.context() as patches:
                patches.setattr(reader.database, "settled", lambda: before - 5)
                found = reader.verify()
        assert (found.intact, found.last) == (True, before - 5)
        read = hashlib.sha256(b"".join(bytes.fromhex(e.hash) for e in reader.events() if e.seq <= found.last))
        assert read.hexdigest() == found.digest
        assert settled() == store.figures().events - 1


def test_the_number_of_what_was_not_done_is_left_out(store: PostgresStore, tmp_path: Any) -> None:
    gate = Gate(ScriptedDirector({}), store, None, agent="agent", run_id="run-1")
    assert isinstance(gate.admit(action("ls")), Permit)
    for _ in range(3):
        with suppress(ZeroDivisionError), writing(store, "run-1") as session:
            session.execute("ROLLBACK")
            raise ZeroDivisionError
    assert isinstance(gate.admit(action("ls")), Permit)
    numbers = [entry.seq for entry in store.events()]
    assert numbers[-1] == len(numbers) + 2
    head = store.write_head()
    assert (head.seq, head.count) == (numbers[-1], len(numbers))
    found = store.verify(heads=[head])
    assert (found.intact, found.count, found.last) == (True, len(numbers) + 1, numbers[-1] + 1)
    assert store.figures().events == len(numbers) + 1
    gate.close()
    moved = move(store, str(tmp_path / "moved.sqlite3"))
    assert moved.verified.intact
    with closing(SQLiteStore(tmp_path / "moved.sqlite3")) as file:
        file.record(events.POLICY_LOADED, policy="p")
        assert file.verify().intact


@pytest.mark.parametrize(
    ("place", "body"),
    [
        ("next_place()", {"chain": "run-1", "run": "run-1", "link": 9}),
        ("next_place()", {"chain": "run-1", "run": "run-2"}),
        ("next_place()", {"chain": "run-9", "run": "run-9", "link": 1}),
        ("next_place()", {"chain": "run-1", "run": "run-1", "type": "run.started"}),
        ("next_place()", {"chain": "run-1", "run": "run-1", "type": "run.finished"}),
        ("next_place()", {"chain": "run-1", "run": "run-1", "link": None}),
        ("next_place()", {"chain": "run-1", "run": "run-1", "prev": "0" * 64}),
        ("next_place() + 1", {"chain": "run-1", "run": "run-1"}),
        ("9007199254740991", {"chain": "run-1", "run": "run-1"}),
        ("(SELECT max(seq) + 1 FROM audit_event)", {"chain": "run-1", "run": "run-1"}),
    ],
)
def test_what_the_database_takes_into_no_chain(
    store: PostgresStore, gate: Gate, place: str, body: dict[str, Any]
) -> None:
    assert isinstance(gate.admit(action("ls")), Permit)
    tips = Sealer(store.events()).tips
    event = {"v": 2, "link": tips["run-1"].link + 1, "prev": tips["run-1"].hash, "type": "policy.loaded"} | body
    insert = f"INSERT INTO audit_event (seq, hash, body) VALUES ({place}, repeat('a', 64), %s)"
    with psycopg.connect(store.url, autocommit=True) as session:
        session.execute("SET search_path = pg_catalog, humanlayer, pg_temp")
        with pytest.raises(psycopg.Error, match=r"not the next link|currval"):
            session.execute(insert, (json.dumps(event),))
        good = {**event, "chain": "run-1", "run": "run-1", "link": tips["run-1"].link + 1}
        good |= {"prev": tips["run-1"].hash, "type": "policy.loaded"}
        session.execute(insert.replace(place, "next_place()"), (json.dumps(good),))


def test_a_chain_goes_on_until_its_run_has_ended(store: PostgresStore, gate: Gate) -> None:
    permit = gate.admit(action("ls"))
    assert isinstance(permit, Permit)
    store.stop_run("run-1", "a human said so")
    gate.finish(permit, Outcome(0))
    with writing(store, "run-1"):
        pass
    (ended,) = (entry.event for entry in store.events(type="exec.finished"))
    assert ended["chain"] == "run-1"
    store.close_run("run-1", "finished")
    with pytest.raises(psycopg.Error, match="not the next link"), writing(store, "run-1"):
        pass
    assert store.verify().intact


def test_what_ends_after_its_run_is_in_the_chain_of_the_store(store: PostgresStore, gate: Gate) -> None:
    """Not in one round trip: who declared the run lost has said already that its end is unknown."""
    _, late, known = (gate.admit(action(name)) for name in ("first", "late", "known"))
    assert isinstance(late, Permit)
    assert isinstance(known, Permit)
    with closing(PostgresStore(store.url)) as other:
        other.finish(known.id, Outcome(1))
        other.close_run("run-1", "finished")
    assert store.finish(late.id, Outcome(0))
    assert not store.finish(known.id, Outcome(0)), "somebody else has ended it"
    ended = [entry.event for entry in store.events(type="exec.finished")]
    assert [(event["permit"], event["returncode"], event.get("chain")) for event in ended] == [
        (known.id, 1, "run-1"),
        (late.id, 0, None),
    ]
    assert store.verify().intact


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO halt (id, at, principal, reason) VALUES (repeat('a', 32), 1, 'os:1:ann', 'enough')",
        "UPDATE run SET state = 'terminated', ended = 1",
        "UPDATE run SET process = 'another'",
    ],
)
def test_what_is_no_ordinary_allow_is_not_done_in_one_round_trip(
    store: PostgresStore, gate: Gate, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(gate.admit(action("ls")), Permit)
    with forging(store.url) as owner:
        owner.execute(change)
    monkeypatch.setattr(SQLStore, "admit", lambda *ignored, **also: Refused("by the statements"))
    decided = gate.admit(action("ls"))
    assert not isinstance(decided, Permit)


def test_no_place_is_kept_for_later(store: PostgresStore, gate: Gate, other: Gate) -> None:
    """An event that seems to be older than what the store's chain holds could undo that: a removal, or a stop."""
    with psycopg.connect(store.url, autocommit=True) as session:
        session.execute("SET search_path = pg_catalog, humanlayer, pg_temp")
        for chain, then in (("run-1", None), ("", None), ("run-1", "run-1")):
            session.execute("SELECT next_place()")
            store.record(events.POLICY_LOADED, run=then, policy="p")
            tips = Sealer(store.events()).tips
            event = {"v": 2, "link": tips[chain].link + 1, "prev": tips[chain].hash, "type": "policy.loaded"}
            event |= {"chain": chain, "run": chain} if chain else {}
            late = (
                "INSERT INTO audit_event (seq, hash, body) VALUES (currval('audit_event_place'), repeat('a', 64), %s)"
            )
            with pytest.raises(psycopg.Error, match="not the next link"):
                session.execute(late, (json.dumps(event),))


def test_who_waits_for_another_of_its_run_keeps_nobody_else_waiting(store: PostgresStore, gate: Gate) -> None:
    hold = "BEGIN; SELECT pg_advisory_xact_lock(1212956978, hashtext('run-1'))"
    wait = "SET lock_timeout = '10s'; SELECT humanlayer.begin_write_of('run-1')"
    with (
        psycopg.connect(store.url, autocommit=True) as first,
        psycopg.connect(store.url, autocommit=True) as second,
        closing(PostgresStore(store.url, busy_ms=2_000)) as impatient,
    ):
        first.execute(hold)
        waiting = threading.Thread(target=lambda: second.execute(wait))
        waiting.start()
        waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        patiently(lambda: first.execute(waits).fetchone() is not None, "that it waits")
        impatient.halts.stop("os:1:ann", "enough")
        first.execute("COMMIT")
        waiting.join(PATIENCE)


def test_who_reads_waits_for_nobody_who_began_later(store: PostgresStore, gate: Gate, other: Gate) -> None:
    found: list[int] = []
    with (
        closing(PostgresStore(store.url, create=False)) as reader,
        psycopg.connect(store.url, autocommit=True) as later,
    ):
        with writing(store, "run-1"):
            follower = threading.Thread(target=lambda: found.append(reader.database.settled()))
            follower.start()
            waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
            patiently(lambda: later.execute(waits).fetchone() is not None, "that it waits")
            later.execute("BEGIN; SELECT humanlayer.begin_write_of('run-2')")
        follower.join(PATIENCE)
        assert found


def test_a_permit_is_ended_by_its_own_run_while_that_goes_on(store: PostgresStore, gate: Gate, other: Gate) -> None:
    permit, late = (gate.admit(action(name)) for name in ("first", "second"))
    assert isinstance(permit, Permit)
    assert isinstance(late, Permit)
    newest = next(store.events(last=1))
    with psycopg.connect(store.url, autocommit=True) as session:
        end = "SELECT count(*) FROM humanlayer.finish(%s, %s, 'finished', 0, %s, %s, 'mark', ARRAY[]::text[])"
        for run, ended in (("run-2", 0), ("run-9", 0), ("run-1", 1)):
            found = session.execute(end, (permit.id, run, newest.seq, newest.hash)).fetchone()
            assert found == (ended,)
        store.close_run("run-1", "finished")
        assert session.execute(end, (late.id, "run-1", newest.seq, newest.hash)).fetchone() == (0,)


def test_who_reads_does_not_wait_for_ever(store: PostgresStore, gate: Gate) -> None:
    assert isinstance(gate.admit(action("ls")), Permit)
    with (
        closing(PostgresStore(store.url, create=False, busy_ms=20)) as reader,
        writing(store, "run-1") as session,
        pytest.raises(StoreError, match=rf"process {session.info.backend_pid} of the server does not end what it"),
    ):
        list(reader.events())


def test_a_purge_counts_on_no_number_that_was_left_out(store: PostgresStore, gate: Gate) -> None:
    """What was heard once, and deleted then, is not heard again."""
    for _ in range(9):
        permit = gate.admit(action("ls"))
        assert isinstance(permit, Permit)
        gate.finish(permit, Outcome(0))
    later = store.now() + 3 * 24 * 3_600_000
    with closing(PostgresStore(store.url, clock=lambda: later)) as purging:
        for permits in (9, 0):
            with store.database.write() as session:
                session.execute("SELECT nextval('audit_event_place') FROM generate_series(1, 3)")
            exported = store.write_head()
            purge = purging.purge(before=later - 2 * 24 * 3_600_000, exported=exported)
            assert purge.delete("os:1:ann", "a" * 64).permits == permits
        assert purging.verify().intact


def test_a_store_of_before_goes_on(postgres: LocalServer) -> None:
    """Its log is one chain until then; a run that goes on has one of its own from then on."""
    url = postgres.new_database()
    with psycopg.connect(url, autocommit=True) as session:
        for script in structure.scripts()[:2]:
            session.execute(f"BEGIN; {script}; COMMIT")  # type: ignore[call-overload]
        session.execute("SET search_path = pg_catalog, humanlayer, pg_temp")
        values = ("run-1", "agent", "instance", "os:1:ann", "", identity(), 1)
        run = "INSERT INTO run (id, agent, instance, requester, project, process, started) VALUES (%s, %s, %s, %s, %s, %s, %s)"
        session.execute(run, values)
        told = {"agent": "agent", "instance": "instance", "requester": "os:1:ann", "project": ""}
        opened = {"store": "5" * 32, "version": "0"}
        before = "0" * 64
        for seq, (kind, said) in enumerate([("audit.opened", opened), ("run.started", told | {"run": "run-1"})]):
            body = canonical({"v": 1, "seq": seq, "prev": before, "type": kind, "at": 1, "pid": 1} | said)
            before = hashlib.sha256(body).hexdigest()
            insert = "INSERT INTO audit_event (seq, hash, body) VALUES (%s, %s, %s)"
            session.execute(insert, (seq, before, body.decode()))
    with pytest.raises(StoreError, match=r"older version \(2\): hla store init brings it to \d"):
        PostgresStore(url)
    assert (make_store(url).before, make_store(url).before) == (2, structure.newest())
    with closing(PostgresStore(url)) as store:
        store.record(events.POLICY_LOADED, run="run-1", policy="p")
        store.record(events.POLICY_LOADED, policy="p")
        store.close_run("run-1", "finished")
        said = [(entry.event.get("chain", ""), entry.event.get("link")) for entry in store.events()]
        assert said[:5] == [("", None), ("", None), ("run-1", 1), ("", 2), ("", 3)]
        assert store.verify().intact


@pytest.mark.long
def test_many_runs_write_at_once(store: PostgresStore, gate: Gate) -> None:
    def work(number: int) -> None:
        with (
            closing(PostgresStore(store.url)) as own,
            Gate(ScriptedDirector({}), own, None, agent="agent", run_id=f"many-{number}") as made,
        ):
            for step in range(12):
                permit = made.admit(Action(f"echo {step}", cwd="/srv/app", project="/srv/app", run_id=f"many-{number}"))
                assert isinstance(permit, Permit)
                made.finish(permit, Outcome(0))
                if step % 5 == number % 5:
                    own.write_head()

    followed: list[int] = []
    with closing(PostgresStore(store.url, create=False)) as reader, ThreadPoolExecutor(8) as threads:
        runs = [threads.submit(work, number) for number in range(8)]
        while not all(each.done() for each in runs):
            followed.extend(each.seq for each in reader.events(after=followed[-1] if followed else -1))
            assert reader.verify().intact
        for each in runs:
            each.result()
    followed.extend(each.seq for each in store.events(after=followed[-1]))
    assert followed == [each.seq for each in store.events()], "none was missed, and each came in its order"
    assert store.verify().intact


# Faults


def test_a_server_that_can_not_be_reached_denies_and_says_no_password(gate: Gate, postgres: LocalServer) -> None:
    with pytest.raises(StoreError, match="No such file") as raised:
        open_store(f"postgresql://me:hunter22@/gone?host={postgres.folder}/nowhere")
    assert "hunter22" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["postgresql://me:hunter22@host", "postgresql://me:hunter22@[host/db", "postgres://%zz"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        PostgresStore(url)
    assert "hunter22" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:secret@db.example.com/hla", "postgresql://db.example.com/hla"),
        ("postgresql://db.example.com:6543/hla?sslmode=verify-full", "postgresql://db.example.com:6543/hla"),
        ("postgresql:///hla?host=/run/pg&port=6543&password=secret", "postgresql:///hla?host=/run/pg&port=6543"),
    ],
)
def test_a_store_is_called_the_same_whoever_asks(url: str, place: str) -> None:
    assert reached.Address(url).place == place


def test_a_connection_that_was_cut_meanwhile_is_made_anew(
    gate: Gate, store: PostgresStore, postgres: LocalServer
) -> None:
    assert isinstance(gate.admit(action("ls")), Permit)
    postgres.administer("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name <> ''")
    assert isinstance(gate.admit(action("ls")), Permit)
    assert store.verify().intact


@pytest.fixture
def own_server() -> Iterator[LocalServer]:
    with local_server(durable=True) as made:
        yield made


@pytest.mark.long
def test_who_waits_for_a_human_waits_on_while_the_server_restarts(
    own_server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reached, "REREAD_S", 0.05)
    with own_server.new_store() as url, closing(PostgresStore(url)) as store:
        failed, look, found, looks = threading.Event(), store.get, list[Permit | Denial](), list[str]()

        def get(request_id: str) -> ApprovalRequest | None:
            looks.append(request_id)
            try:
                return look(request_id)
            except StoreUnreachable:
                failed.set()
                raise

        monkeypatch.setattr(store, "get", get)
        director = ScriptedDirector({"ask": Verdict.ASK})
        gate = Gate(
            director, store, None, agent="agent", run_id="run-1", requester="os:1000:alice", authority=TEAM.authority
        )
        agent = threading.Thread(target=lambda: found.append(gate.check(action("ask"))))
        agent.start()
        with closing(PostgresStore(url)) as hub:
            patiently(lambda: len(looks) > 9, "that it waits")
            (request,) = hub.requests(state="pending")
            own_server.kill()
            assert failed.wait(PATIENCE)
            own_server.start()
            assert TEAM.vote(hub, request).state == "approved"
        agent.join(PATIENCE)
        assert isinstance(found[0], Permit)
        assert store.verify().intact


@pytest.mark.long
def test_a_restarted_server_has_seen_no_silence(own_server: LocalServer) -> None:
    """While it was away nobody could say that they live: an old sign is none of silence then."""
    with own_server.new_store() as url, closing(PostgresStore(url)) as store:
        gate = Gate(ScriptedDirector({}), store, None, agent="agent", run_id="run-1", authority=TEAM.authority)
        assert isinstance(gate.admit(action("ls")), Permit)
        with forging(url) as connection:
            connection.execute("UPDATE run SET process = 'another:machine:pid4026531836:1:1'")
            connection.execute(f"UPDATE run SET beat = beat - {heartbeats.SILENT_MS + 1_000}")
        own_server.kill()
        own_server.start()
        with closing(PostgresStore(url)) as other:
            other.reconcile()
            assert other.figures().runs == 1
            with forging(url) as connection:
                connection.execute(f"UPDATE silence SET since = since - {heartbeats.SILENT_MS + 1_000}")
            other.reconcile()
            assert other.figures().runs == 0, "it has had the time to give one since"


@pytest.mark.long
def test_a_server_that_does_not_answer_is_given_up(own_server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a network that swallows what is sent: the connection stands, and nothing comes."""
    with own_server.new_store() as url, closing(PostgresStore(url)) as store:
        gate = Gate(ScriptedDirector({}), store, ScriptedAsker([]), agent="agent", run_id="run-1")
        gate.admit(action("ls"))
        monkeypatch.setattr(reached, "DEADLINE_S", 0.2)
        session = int(own_server.administer("SELECT pid FROM pg_stat_activity WHERE application_name <> ''")[0][0])  # type: ignore[call-overload]
        os.kill(session, signal.SIGSTOP)
        try:
            found = gate.admit(action("ls"))
        finally:
            os.kill(session, signal.SIGCONT)
        assert isinstance(found, Denial)
        assert "no answer within" in found.reason


@pytest.mark.long
def test_a_crash_of_the_server_loses_nothing_that_was_acknowledged(own_server: LocalServer) -> None:
    with own_server.new_store() as url, closing(PostgresStore(url)) as store:
        gate = Gate(ScriptedDirector({}), store, ScriptedAsker([]), agent="agent", run_id="run-1")
        permits = []
        for _ in range(3):
            for number in range(5):
                if isinstance(permit := gate.admit(action(f"echo {number}")), Permit):
                    permits.append(permit.id)
            own_server.kill()
            assert isinstance(gate.admit(action("ls")), Denial)
            own_server.start()
        assert store.verify().intact
        told = {entry.event["permit"] for entry in store.events(type="exec.started")}
        assert len(permits) == 15
        assert set(permits) <= told


def test_an_answer_whose_commit_nobody_heard_of_is_looked_up(
    store: PostgresStore, draft: Callable[..., ApprovalRequest], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has committed, and its reply is lost: that is told as recorded, and nothing is counted twice."""
    gate.admit(action("ls"))
    request = store.create_request(draft())
    execute = reached._Link.execute

    def lost(self: Any, query: Any, *more: Any, **how: Any) -> Any:
        done = execute(self, query, *more, **how)
        if query == "COMMIT":
            monkeypatch.setattr(reached._Link, "execute", execute)
            self.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return done

    monkeypatch.setattr(reached._Link, "execute", lost)
    result = TEAM.decide(store, request.id, answer(request, "approve"))
    assert (result.outcome, result.state) == ("recorded", "approved")
    assert len(store.votes(request.id)) == 1
    issued = store.permit(request, TEAM.authority, use_by_ms=10_000)
    assert isinstance(issued, Permit)
    assert isinstance(store.consume(issued, issued.action.digest(POLICY_DIGEST), TEAM.authority), Execution)


def test_an_answer_whose_commit_was_lost_is_no_answer(
    store: PostgresStore, draft: Callable[..., ApprovalRequest], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.admit(action("ls"))
    request = store.create_request(draft())
    execute = reached._Link.execute

    def lost(self: Any, query: Any, *more: Any, **how: Any) -> Any:
        if query == "COMMIT":
            monkeypatch.setattr(reached._Link, "execute", execute)
            self.close()
        return execute(self, query, *more, **how)

    monkeypatch.setattr(reached._Link, "execute", lost)
    with pytest.raises(StoreError):
        TEAM.decide(store, request.id, answer(request, "approve"))
    assert store.votes(request.id) == []


# What somebody changes who may

CHANGES = (
    "CREATE TRIGGER mine BEFORE INSERT ON halt FOR EACH ROW EXECUTE FUNCTION humanlayer.refuse('no')",
    "ALTER TABLE vote DISABLE TRIGGER vote_signed",
    "CREATE RULE mine AS ON INSERT TO halt DO INSTEAD NOTHING",
    "CREATE OR REPLACE FUNCTION humanlayer.begin_write() RETURNS bigint LANGUAGE plpgsql SET search_path FROM CURRENT "
    "AS $$ BEGIN RETURN 1; END $$",
    "ALTER FUNCTION vote_in_time() RESET search_path",
    "ALTER TABLE halt ENABLE ROW LEVEL SECURITY",
    "DROP TRIGGER request_approved_by_vote ON request",
    "DROP INDEX request_one_pending",
    "ALTER TABLE vote DROP CONSTRAINT vote_request_id_fkey",
    "ALTER TABLE vote ADD COLUMN more TEXT",
    "CREATE TABLE humanlayer.more (id TEXT)",
    "CREATE TABLE humanlayer.pg_proc AS SELECT * FROM pg_catalog.pg_proc WHERE false",
    "CREATE FUNCTION humanlayer.encode(bytea, text) RETURNS text LANGUAGE sql AS $$ SELECT '' $$",
    "CREATE VIEW humanlayer.more AS SELECT 1",
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_structure_that_is_not_ours_lets_nothing_run(url: str, change: str) -> None:
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("SET search_path = humanlayer, pg_catalog, pg_temp")
        owner.execute("BEGIN")
        owner.execute(change)  # type: ignore[call-overload]
        owner.execute(f"SET LOCAL search_path = {reached.PATH}")  # type: ignore[call-overload]
        with pytest.raises(StoreTampered, match="not as we made it"):
            reached.structure.check(owner, "here")  # type: ignore[arg-type]
        owner.execute("ROLLBACK")
    PostgresStore(url).close()


# Waiting


def until(found: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not found():
        assert time.monotonic() < limit


def test_who_waits_is_told_and_reads_nothing_meanwhile(
    store: PostgresStore, gate: Gate, draft: Callable[..., ApprovalRequest], sent: list[str]
) -> None:
    gate.admit(action("ls"))
    request, other = store.create_request(draft("make one")), store.create_request(draft("make two"))
    assert store.is_news(request.id), "nobody has read it yet"
    sent.clear()
    assert not any(store.is_news(request.id) for _ in range(50))
    assert sent == []
    with closing(PostgresStore(store.url)) as hub:
        TEAM.decide(hub, other.id, answer(other, "reject"))
        TEAM.decide(hub, request.id, answer(request, "approve"))
    until(lambda: store.is_news(request.id))
    assert not store.is_news(request.id)


def test_who_waits_is_woken(store: PostgresStore, gate: Gate, draft: Callable[..., ApprovalRequest]) -> None:
    gate.admit(action("ls"))
    request = store.create_request(draft())
    assert store.is_news(request.id)
    with closing(PostgresStore(store.url)) as hub:
        waits = threading.Thread(target=store.pause, args=(PATIENCE,))
        waits.start()
        TEAM.decide(hub, request.id, answer(request, "approve"))
        waits.join(PATIENCE / 2)
    assert not waits.is_alive()
    assert store.is_news(request.id)
    store.pause(0.001)  # nothing is left that would keep anybody from waiting


def test_who_hears_nothing_reads_again(
    store: PostgresStore, gate: Gate, draft: Callable[..., ApprovalRequest], postgres: LocalServer, monkeypatch: Any
) -> None:
    gate.admit(action("ls"))
    request = store.create_request(draft())
    assert store.is_news(request.id)
    monkeypatch.setattr(reached, "REREAD_S", 0.05)
    postgres.administer("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN humanlayer'")
    until(lambda: store.is_news(request.id))
    until(lambda: store.is_news(request.id))


def test_time_is_the_databases(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose clock is wrong by ten minutes asks, and is answered in time."""
    late = time.time_ns() - 600 * 10**9
    monkeypatch.setattr(store_interface.time, "time_ns", lambda: late)
    gate = Gate(
        ScriptedDirector({"ask": Verdict.ASK}), store, ScriptedAsker(["approve"]), agent="agent", timeout_ms=60_000
    )
    assert isinstance(gate.check(action("ask")), Permit)
    (request,) = store.requests()
    assert abs(request.created - late // 10**6) > 500_000


def test_a_database_that_holds_no_unicode_is_refused(postgres: LocalServer) -> None:
    postgres.administer("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(ConfigError, match="SQL_ASCII"):
        make_store(postgres.url("ascii"))


def test_the_defaults_of_a_server_do_not_count(postgres: LocalServer, url: str) -> None:
    database = url.partition("?")[0].rpartition("/")[2]
    for setting in (
        "default_transaction_isolation = 'serializable'",
        "synchronous_commit = off",
        "search_path = public",
    ):
        postgres.administer(f"ALTER DATABASE {database} SET {setting}")
    try:
        with closing(PostgresStore(url)) as store, store.database.read() as session:
            shown = [session.execute(f"SHOW {name}").fetchone()[0] for name in ("synchronous_commit", "search_path")]
            assert shown == ["on", reached.PATH]
            isolation = session.execute("SHOW default_transaction_isolation").fetchone()[0]
            assert isolation == "read committed"
    finally:
        postgres.administer(f"ALTER DATABASE {database} RESET ALL")


def test_what_is_old_and_exported_may_go(url: str) -> None:
    day, start = 86_400_000, 1_700_000_000_000
    now = [start]
    with closing(PostgresStore(url, clock=lambda: now[0])) as store:
        director = ScriptedDirector({"ask": Verdict.ASK})
        asker = ScriptedAsker([("approve", "fine"), ("reject", "no")])
        with Gate(director, store, asker, agent="agent", run_id="run-1", clock=lambda: now[0]) as gate:
            for command in ("ls", "ask one", "ask two"):
                permit = gate.check(action(command))
                if isinstance(permit, Permit):
                    gate.start(permit, permit.action)
                    gate.finish(permit, Outcome(0))
        now[0] += 100 * day
        purge = store.purge(before=now[0] - 30 * day, exported=store.write_head())
        assert purge.would_go() == purge.delete("os:1:ann", "a" * 64)
        assert purge.erase()
        assert store.requests() == []
        assert store.verify().intact
