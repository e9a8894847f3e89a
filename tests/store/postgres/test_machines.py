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
from tests.support import children
from tests.support.forging import forging
from tests.support.keys import make_key

LATE_MS = heartbeats.SILENT_MS + 1_000


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on another machine: no process of this one can be seen, and the clocks agree on nothing."""
    monkeypatch.setattr(identity, "lives", lambda process: None)
    monkeypatch.setattr(identity, "clock_source", lambda: "another machine")
    monkeypatch.setattr(heartbeats.time, "monotonic_ns", lambda: 1)


def silent(url: str, ms: int) -> None:
    """So long nobody has given a sign of life."""
    with forging(url) as connection:
        connection.execute(f"UPDATE run SET beat = beat - {ms}")
        connection.execute(f"UPDATE lease SET beat = beat - {ms}")


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
