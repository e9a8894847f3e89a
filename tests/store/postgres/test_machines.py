"""Several machines and processes on one store: who lives is told by the database's clock, and one answer is the first."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import ApprovalRequest, Denial, Permit, Run
from humanlayer_agent.processes import identity
from humanlayer_agent.store import heartbeats
from humanlayer_agent.store.postgres.postgres_store import PostgresStore
from humanlayer_agent.testing.patience import until
from tests.store.postgres.test_fleet import Wire
from tests.support import children
from tests.support.forging import forging
from tests.support.keys import make_key
from tests.support.postgres import LocalServer

LATE_MS = heartbeats.SILENT_MS + 1_000


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on another machine: no process of this one can be seen, and the clocks agree on nothing."""
    monkeypatch.setattr(identity, "lives", lambda process: None)
    monkeypatch.setattr(identity, "clock_source", lambda: "another machine")
    monkeypatch.setattr(heartbeats.time, "monotonic_ns", lambda: 1)


def silent(url: str, ms: int) -> None:
    """So long no run and no holder has given a sign of life, while others did without a gap."""
    with forging(url) as connection:
        connection.execute(f"UPDATE run SET beat = beat - {ms}")
        connection.execute(f"UPDATE lease SET beat = beat - {ms}")
        connection.execute(f"UPDATE silence SET since = since - {ms} WHERE what = 'watch'")


def outage(url: str, ms: int) -> None:
    """So long nobody could reach the database."""
    with forging(url) as connection:
        connection.execute(f"UPDATE run SET beat = beat - {ms}")
        connection.execute(f"UPDATE lease SET beat = beat - {ms}")
        connection.execute(f"UPDATE silence SET beat = beat - {ms}, since = since - {ms}")


def test_another_machine_declares_nothing_lost_that_lives(
    gate: Gate, store: PostgresStore, url: str, elsewhere: None
) -> None:
    action = Action("ls", cwd="/srv/app", project="/srv/app", run_id="run-1")
    assert isinstance(gate.admit(action), Permit)
    with closing(PostgresStore(url)) as other:
        other.open_run(Run("run-2", "agent", "another", "os:1:ann"))
        assert other.figures().runs == 2
        assert isinstance(gate.admit(action), Permit)
        silent(url, LATE_MS)
        heartbeats.beat(store.database, identity.identity())  # which says by the database's clock that it lives
        other.reconcile()
        assert other.figures().runs == 2
        silent(url, LATE_MS)
        other.reconcile()
        assert other.figures().runs == 0, "a sign of life is as old as the database says"
    assert isinstance(gate.admit(action), Denial)
    assert store.verify().intact


def test_nobody_is_lost_by_an_outage_and_who_does_not_come_back_is(
    gate: Gate, store: PostgresStore, url: str, elsewhere: None
) -> None:
    action = Action("ls", cwd="/srv/app", project="/srv/app", run_id="run-1")
    assert isinstance(gate.admit(action), Permit)
    assert store.surfaces.take_lease("slack", "one", 30_000)
    heartbeats.beat(store.database, identity.identity())
    for ms in (3_600_000, 60_000, 29_000):  # the network comes back for a moment, and goes again
        outage(url, ms)
        with closing(PostgresStore(url)) as other:  # one that has just begun
            other.reconcile()
            assert not other.surfaces.take_lease("slack", "other", 30_000)
            assert other.figures().runs == 1
    assert isinstance(gate.admit(action), Permit), "what it does counts, though its sign of life is an hour old"
    with closing(PostgresStore(url)) as other:
        silent(url, heartbeats.SILENT_MS - 1_000)
        other.reconcile()
        assert other.figures().runs == 1
        assert not other.surfaces.take_lease("slack", "other", 30_000)
        silent(url, 1_000)
        other.reconcile()
        assert other.figures().runs == 0
        assert other.surfaces.take_lease("slack", "other", 30_000)
    assert isinstance(gate.admit(action), Denial)


def test_one_that_comes_back_late_after_an_outage_lives(store: PostgresStore, url: str, elsewhere: None) -> None:
    store.open_run(Run("run-1", "agent", "another", "os:1:ann"))
    outage(url, LATE_MS)
    store.reconcile()
    silent(url, heartbeats.SILENT_MS - 1_000)
    heartbeats.beat(store.database, identity.identity())
    silent(url, heartbeats.SILENT_MS - 1_000)
    store.reconcile()
    assert store.figures().runs == 1
    with forging(url) as connection:  # a clock of the server that is set back is a gap too, and one that jumps ahead
        connection.execute(f"UPDATE silence SET beat = beat + {LATE_MS}, since = since - {LATE_MS}")
        connection.execute(f"UPDATE run SET beat = beat - {LATE_MS}")
    store.reconcile()
    assert store.figures().runs == 1


def test_where_only_single_commands_look_it_takes_longer(store: PostgresStore, url: str, elsewhere: None) -> None:
    """No process is there for half a minute to see that nobody gives a sign."""
    store.open_run(Run("run-1", "agent", "another", "os:1:ann"))
    for ms, runs in ((3_600_000, 1), (300_000, 1), (299_000, 1), (1_000, 0)):
        outage(url, ms)
        with closing(PostgresStore(url)) as other:
            other.reconcile()
            assert other.figures().runs == runs
    with closing(PostgresStore(url)) as other, other.database.read() as db:
        assert [row["what"] for row in db.execute("SELECT what FROM silence")] == ["watch"], "no note is left over"


BEATING = """
import sys
from humanlayer_agent.approvals.model import Run
from humanlayer_agent.errors import StoreError
from humanlayer_agent.processes import identity
from humanlayer_agent.store import heartbeats
from humanlayer_agent.store.postgres.postgres_store import PostgresStore

heartbeats.EVERY, heartbeats.AGAIN, heartbeats.SILENT_MS, heartbeats.GAP_MS = 0.1, 0.1, 2_000, 700
identity.lives = lambda process: None
store = PostgresStore(sys.argv[1], busy_ms=500)
store.open_run(Run(sys.argv[2], "agent", sys.argv[2], "os:1:ann"))
print("ready", flush=True)
for line in sys.stdin:
    try:
        store.reconcile()
        print("looked", flush=True)
    except StoreError:
        print("away", flush=True)
"""


@pytest.mark.long
def test_an_outage_for_everybody_with_real_processes(
    store: PostgresStore, url: str, postgres: LocalServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All ways to the server are cut for longer than a lease holds, with times a fifteenth of the true ones."""
    wire = Wire(tmp_path_factory.mktemp("wire"), postgres.folder)
    names = ["run-1", "run-2", "run-3"]
    argv = [sys.executable, "-c", BEATING, wire.url(url)]
    started = [
        children.Popen([*argv, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in names
    ]

    def tell(child: "subprocess.Popen[str]") -> str:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("look\n")
        child.stdin.flush()
        return child.stdout.readline().strip()

    def ages() -> dict[str, int]:
        """Since when (ms) each run that goes on has given no sign of life."""
        with store.database.read() as db:
            _, now = heartbeats.clock(db)
            return {row["id"]: now - row["beat"] for row in db.execute("SELECT id, beat FROM run WHERE state = 'open'")}

    try:
        for child in started:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        wire.cut()
        until(lambda: min(ages().values()) > 2_500, "that no lease holds any more")
        wire.mend()
        for child in started:
            until(lambda child=child: tell(child) == "looked", "that it reaches the server")
        until(lambda: max(ages().values()) < 500, "that all are back")
        assert sorted(ages()) == names
        started[0].kill()
        until(lambda: tell(started[1]) == "looked" and len(ages()) == 2, "that one is given up which is gone")
        assert sorted(ages()) == names[1:]
    finally:
        for child in started:
            child.kill()
            child.communicate()
        wire.close()


def test_a_channel_has_one_holder_among_machines(store: PostgresStore, url: str, elsewhere: None) -> None:
    assert store.surfaces.take_lease("slack", "one", 30_000)
    with closing(PostgresStore(url)) as other:
        assert not other.surfaces.take_lease("slack", "other", 30_000)
        silent(url, 29_000)
        assert not other.surfaces.take_lease("slack", "other", 30_000)
        silent(url, 2_000)
        assert other.surfaces.take_lease("slack", "other", 30_000)
    assert not store.surfaces.take_lease("slack", "one", 30_000)


RACE = """
import json, sys
from pathlib import Path
from humanlayer_agent.approvals.model import Approver
from humanlayer_agent.store.access import open_store
from humanlayer_agent.testing.approvers import TEST_AUTHORITY, ScriptedApprovers, answer
from tests.support.keys import open_key

store, hub = open_store(sys.argv[1]), ScriptedApprovers(TEST_AUTHORITY, open_key(Path(sys.argv[2])))
requests = store.requests(state="pending")
print("ready", flush=True)
sys.stdin.readline()
who = Approver("slack:T1/U2", "slack", "chat")
said = [hub.decide(store, each.id, answer(each, sys.argv[3], approver=who)) for each in requests]
print(json.dumps([[each.outcome, each.state] for each in said]))
"""


@pytest.mark.long
def test_one_of_several_decides(
    store: PostgresStore,
    url: str,
    draft: Callable[..., ApprovalRequest],
    gate: Gate,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    key = tmp_path_factory.mktemp("key") / "key"
    make_key(key)
    gate.admit(Action("ls", cwd="/srv/app", project="/srv/app", run_id="run-1"))
    asked = [store.create_request(draft(f"make {number}")).id for number in range(8)]
    started = [
        children.Popen(
            [sys.executable, "-c", RACE, url, str(key), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for kind in ("approve", "reject") * 3
    ]
    for child in started:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in started:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    told = [json.loads(child.communicate()[0]) for child in started]
    for number, request in enumerate(asked):
        outcomes = [said[number] for said in told]
        assert [outcome for outcome, _ in outcomes].count("recorded") == 1
        assert {state for _, state in outcomes} == {store.get(request).state}  # type: ignore[union-attr]
    assert store.verify().intact
