"""Where the log can't be written nothing runs, and the log says so afterwards."""

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.agents.supervision import Supervision, Supervisor
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Denial, Outcome, Permit
from humanlayer_agent.audit import events
from humanlayer_agent.errors import StoreError
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedDirector
from tests.support.forging import forging

WRITTEN = "the audit log can't be written: "


def gate_on(path: Path, **limits: Any) -> Gate:
    return Gate(ScriptedDirector({"rm": Verdict.DENY}), SQLiteStore(path, **limits), None)


def act(command: str = "ls") -> Action:
    return Action(command, cwd="/srv", project="/srv")


@pytest.fixture
def locked(path: Path) -> Iterator[Callable[[], sqlite3.Connection]]:
    opened: list[sqlite3.Connection] = []

    def lock() -> sqlite3.Connection:
        opened.append(sqlite3.connect(path, isolation_level=None))
        opened[-1].execute("BEGIN IMMEDIATE")
        return opened[-1]

    yield lock
    for connection in opened:
        connection.close()


def test_degraded_until_a_write_succeeds(path: Path, locked: Callable[[], sqlite3.Connection]) -> None:
    gate = gate_on(path, busy_ms=10)
    store = gate.store
    assert isinstance(store, SQLiteStore)
    permit = gate.check(act())
    assert isinstance(permit, Permit)
    assert store.degraded is None
    other = locked()
    started = gate.start(permit, permit.action)
    assert isinstance(started, Denial)
    assert (started.by, started.reason[: len(WRITTEN)]) == ("store", WRITTEN)
    assert isinstance(gate.check(act("rm x")), Denial)
    assert store.degraded is not None
    assert store.degraded.failures == 2
    assert "locked" in store.degraded.why
    other.execute("ROLLBACK")
    assert isinstance(gate.check(act()), Permit)
    assert store.degraded is None
    said = [entry.event for entry in store.events()][-2:]
    assert [event["type"] for event in said] == ["audit.degraded", "decision.evaluated"]
    assert (said[0]["failures"], "locked" in said[0]["why"]) == (2, True)
    assert said[0]["since"] <= said[0]["at"]
    assert not list(store.events(type="exec"))
    assert store.verify().intact


def test_what_a_method_refuses_is_no_fault_of_the_log(path: Path) -> None:
    store = SQLiteStore(path)
    with pytest.raises(StoreError):
        store.withdraw("no-such-request", "why")
    with pytest.raises(StoreError):
        store.get("\ud800")
    assert store.degraded is None


def test_the_command_is_not_run_and_the_agent_reads_126(path: Path, locked: Callable[[], sqlite3.Connection]) -> None:
    """The whole way of an agent's command, with the log locked after it was judged."""
    ran: list[Action] = []
    supervisor = Supervisor(gate_on(path, busy_ms=10), Supervision())

    def run(action: Action) -> Outcome:
        ran.append(action)
        return Outcome(0)

    assert supervisor.supervise(act(), run).executed
    locked()
    record = supervisor.supervise(act("make"), run)
    assert (record.executed, record.by, len(ran)) == (False, "store", 1)
    assert WRITTEN in record.text


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB, which only root can make."""
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("a small file system can't be mounted here (allowed in CI: the quota below is tested instead)")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def filled(gate: Gate) -> tuple[list[str], Denial]:
    """Run commands until one is denied; which permits were started, and the denial."""
    started: list[str] = []
    for number in range(4_000):
        permit = gate.check(act(f"echo {number} " + "x" * 400))
        denial = permit if isinstance(permit, Denial) else gate.start(permit, permit.action)
        if isinstance(denial, Denial):
            return started, denial
        assert isinstance(permit, Permit)
        started.append(permit.id)
        gate.finish(permit, Outcome(0))
    raise AssertionError("it never became full")


def test_disk_full(small: Path) -> None:
    """Nothing that was acknowledged is lost, nothing runs, and with room again it goes on and says so."""
    path = small / "store.sqlite3"
    ballast = small / "ballast"
    ballast.write_bytes(b"\0" * 200_000)
    gate = gate_on(path)
    started, denial = filled(gate)
    assert denial.reason.startswith(WRITTEN)
    known = [entry.event["permit"] for entry in SQLiteStore(path, create=False).events(type="exec.started")]
    assert known[: len(started)] == started
    assert len(known) <= len(started) + 1
    ballast.unlink()
    assert isinstance(gate.check(act()), Permit)
    assert len(list(gate.store.events(type="audit.degraded"))) == 1
    assert gate.store.verify().intact  # type: ignore[attr-defined]


def test_a_quota_is_reached(tmp_path: Path) -> None:
    """The same with RLIMIT_FSIZE, in a process of its own; afterwards the log is intact and goes on."""
    path = tmp_path / "store.sqlite3"
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            gate = gate_on(path)
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            started, denial = filled(gate)
            os._exit(0 if started and denial.reason.startswith(WRITTEN) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    store = SQLiteStore(path)
    store.record(events.POLICY_LOADED, run="later")
    assert store.verify().intact


def test_a_copied_log_can_be_verified_and_its_digests_compared(path: Path, tmp_path: Path) -> None:
    gate = gate_on(path)
    gate.check(act("mysql -phunter22 db"))
    gate.close()
    copy = tmp_path / "copy.sqlite3"
    gate.store.close()
    shutil.copy(path, copy)
    assert SQLiteStore(copy, create=False).verify().intact
    with forging(copy) as connection:
        connection.execute("UPDATE permit SET digest = ?", ("e" * 64,))
    assert "digest is" in SQLiteStore(copy, create=False).verify().problem
