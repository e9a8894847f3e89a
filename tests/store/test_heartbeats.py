"""Alive is a lease: processes on machines of their own, each with its state folder, its boot and its clocks.

Nobody here waits for half a minute to pass: a machine's clock goes on when the test says so.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.testing.patience import until
from tests.support import children
from tests.support.extent import some

MACHINE = """
import json, os, sys
from dataclasses import replace
from pathlib import Path
from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Denial, Outcome, Permit
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.processes import identity
from humanlayer_agent.store import heartbeats
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import TEST_AUTHORITY, ScriptedApprovers, ScriptedAsker, ScriptedDirector

path, boot, host, skew, every = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
if boot:
    identity._boot = lambda: boot
identity._HOST = host
passed = 10**9
if every:
    heartbeats.EVERY = every
else:  # its clock goes on when the test says so, and its heart beats then
    heartbeats.EVERY = 86_400
    heartbeats.clock = lambda db: (identity.clock_source(), passed)
store = SQLiteStore(path, clock=lambda: now_ms() + skew, busy_ms=600_000)
gates, permits = {}, {}

def action(run, command):
    return Action(command, cwd="/", project="/", run_id=run)

def gate(run):
    if run not in gates:
        director = ScriptedDirector({"ask": Verdict.ASK, "rm": Verdict.DENY})
        gates[run] = Gate(director, store, ScriptedAsker(["approve"] * 9), run_id=run, instance="the agent", use_by_ms=10**9)
    return gates[run]

def said(answer):
    return answer.reason if isinstance(answer, Denial) else "permitted"

class Do:
    def identity(self):
        return identity.identity()

    def pass_ms(self, ms):
        global passed
        passed += ms

    def check(self, run, command):
        answer = gate(run).check(action(run, command))
        if isinstance(answer, Permit):
            permits[run] = answer
            return {"id": answer.id, "digest": answer.digest, "use_by": answer.use_by}
        return said(answer)

    def start(self, run, command):
        return said(gate(run).start(permits[run], action(run, command)) or permits[run])

    def start_stolen(self, run, owner, stolen, command):
        "Somebody else's permit, by our API, under a run of our own."
        decision = PolicyDecision(Verdict.ALLOW, "", "test", gate(run).director.evaluate(action(run, command)).policy_digest)
        permit = Permit(stolen["id"], stolen["digest"], action(owner, command), decision, stolen["use_by"])
        return said(gate(run).start(permit, action(run, command)) or permit)

    def consume_stolen(self, owner, stolen):
        "The same, under the name of its own run."
        permit = Permit(stolen["id"], stolen["digest"], action(owner, "x"), PolicyDecision(Verdict.ALLOW, "", "", "0" * 64),
                        stolen["use_by"])
        result = store.consume(permit, stolen["digest"], TEST_AUTHORITY)
        return getattr(result, "reason", "executed")

    def beat(self):
        heartbeats.beat(store.database, identity.identity())

    def reconcile(self):
        store.reconcile()

    def take_lease(self, holder):
        return store.surfaces.take_lease("slack", holder, 30_000)

    def end(self):
        sys.exit()  # without closing anything

print("ready", flush=True)
for line in sys.stdin:
    name, *arguments = json.loads(line)
    print(json.dumps(getattr(Do(), name)(*arguments)), flush=True)
"""


class Machine:
    """A machine with one process.

    Args:
        home: with its state folder. boot: its boot id; "" for the real one. host: what its /etc/machine-id holds.
        skew: ms that its wall clock is ahead. every: seconds between two heartbeats by the real clock; else the test says
            how time passes.
    """

    def __init__(
        self, path: Path, home: Path, *, boot: str = "", host: str = "", skew: int = 0, every: float = 0
    ) -> None:
        home.mkdir(exist_ok=True)
        (home / "machine-id").write_text(host)
        argv = [sys.executable, "-c", MACHINE, path, boot, home / "machine-id", skew, every]
        environ = {**os.environ, "HOME": str(home)}
        self.process = children.Popen(
            list(map(str, argv)), env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: object) -> Any:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.stdin.write(json.dumps([name, *arguments]) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline() or "null")

        return call

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def machine(path: Path, tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    made: list[Machine] = []

    def start(name: str, **about: Any) -> Machine:
        about = {"boot": str(uuid.uuid4()), "host": name} | about
        made.append(Machine(path, about.pop("home", tmp_path / name), **about))
        return made[-1]

    yield start
    for each in made:
        each.kill()


@pytest.fixture
def look(path: Path) -> Callable[[str], list[tuple[Any, ...]]]:
    """What stands in the store, whoever writes it."""

    def rows(query: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(path)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    return rows


RUNS = "SELECT id, state FROM run ORDER BY id"
EVENTS = "SELECT count(*) FROM audit_event"
Look = Callable[[str], list[tuple[Any, ...]]]
Start = Callable[..., Machine]


@pytest.mark.sample(1)
@pytest.mark.parametrize("skew", [0, 600_000, -600_000], ids=["same time", "10 minutes ahead", "10 minutes behind"])
def test_another_machine_takes_nothing_from_one_that_lives(machine: Start, look: Look, skew: int) -> None:
    first, second = machine("first"), machine("second", skew=skew)
    assert isinstance(first.check("run-1", "ls"), dict)
    assert first.take_lease("one")
    assert isinstance(second.check("run-2", "ls"), dict)
    assert not second.take_lease("two")
    for _ in range(20):  # 100 s
        second.pass_ms(5_000)
        first.pass_ms(5_000)
        first.beat()
        first.take_lease("one")
        second.reconcile()
        assert not second.take_lease("two")
    assert look(RUNS) == [("run-1", "open"), ("run-2", "open")]
    assert first.start("run-1", "ls") == "permitted"


def test_one_that_is_silent_for_half_a_minute_is_gone(machine: Start, look: Look) -> None:
    first, second = machine("first"), machine("second")
    first.check("run-1", "ls")
    first.take_lease("one")
    first.kill()
    second.check("run-2", "ls")
    assert not second.take_lease("two")
    second.pass_ms(29_000)
    first_look = look(RUNS)
    second.pass_ms(1_000)
    second.reconcile()
    assert first_look == [("run-1", "open"), ("run-2", "open")]
    assert look(RUNS) == [("run-1", "lost"), ("run-2", "open")]
    assert second.take_lease("two")
    assert look("SELECT count(*) FROM silence WHERE what LIKE 'run %'") == [(0,)]


def test_a_process_that_looks_once_leaves_a_note_for_the_next(machine: Start, look: Look) -> None:
    """After a restart of the machine, say: nobody is there for half a minute, as each command is a process."""
    first = machine("first")
    first.check("run-1", "ls")
    first.kill()
    boot = str(uuid.uuid4())
    for passed, state in ((0, "open"), (29_000, "open"), (31_000, "lost")):
        later = machine("first", boot=boot)
        later.pass_ms(passed)
        later.reconcile()
        later.kill()
        assert look(RUNS) == [("run-1", state)]


def test_a_state_folder_that_was_copied_to_another_machine(machine: Start, look: Look, tmp_path: Path) -> None:
    """A virtual machine and its clone have the same folder and the same /etc/machine-id."""
    first = machine("first", home=tmp_path / "shared", host="same")
    first.check("run-1", "ls")
    second = machine("second", home=tmp_path / "shared", host="same")
    one, other = first.identity(), second.identity()
    assert one.split(":")[0] == other.split(":")[0]
    second.check("run-2", "ls")
    assert look(RUNS) == [("run-1", "open"), ("run-2", "open")]


def test_where_it_is_seen_a_process_is_gone_at_once_and_never_for_being_late(machine: Start, look: Look) -> None:
    """A machine that slept, or is loaded: who is there is there."""
    boot = str(uuid.uuid4())
    late, dead, other = (machine("one", boot=boot) for _ in range(3))
    late.check("run-1", "ls")
    dead.check("run-2", "ls")
    dead.take_lease("dead")
    os.kill(late.process.pid, signal.SIGSTOP)
    dead.kill()
    other.pass_ms(3_600_000)
    other.reconcile()
    assert look(RUNS) == [("run-1", "open"), ("run-2", "lost")]
    assert other.take_lease("other")
    os.kill(late.process.pid, signal.SIGCONT)
    assert late.start("run-1", "ls") == "permitted"


def test_a_run_that_was_given_up_does_nothing_more(machine: Start, look: Look) -> None:
    """It slept, another run took its place, and it wakes up: what it had is refused, and nobody is asked for it."""
    first, second = machine("first"), machine("second")
    first.check("run-1", "ls")
    second.reconcile()
    second.pass_ms(30_000)
    second.check("run-2", "ls")
    assert look(RUNS) == [("run-1", "lost"), ("run-2", "open")]
    first.beat()
    assert "no sign of life" in first.start("run-1", "ls")
    for command in ("ls", "ask", "ask"):
        assert "no sign of life" in first.check("run-1", command)
    assert look("SELECT count(*) FROM request") == [(0,)]
    assert second.start("run-2", "ls") == "permitted"
    assert look("SELECT run_id FROM execution JOIN permit ON permit.id = permit_id") == [("run-2",)]
    assert look("SELECT state FROM run WHERE id = 'run-1'") == [("lost",)]


def test_one_run_can_not_start_the_permit_of_another(machine: Start, look: Look) -> None:
    """Another process of the same user has the permit's id, digest and run, and uses our API."""
    boot = str(uuid.uuid4())
    owner, thief = machine("one", boot=boot), machine("one", boot=boot)
    permit = owner.check("run-1", "ls")
    assert "another run" in thief.start_stolen("run-2", "run-1", permit, "ls")
    assert "another process" in thief.consume_stolen("run-1", permit)
    assert look("SELECT count(*) FROM execution") == [(0,)]
    refused = look("SELECT body FROM audit_event WHERE type = 'permit.refused' ORDER BY seq")
    told = [json.loads(body) for (body,) in refused]
    assert [(each["permit"], each["run"], each["used_by"]) for each in told] == [
        (permit["id"], "run-1", "run-2"),
        (permit["id"], "run-1", "run-1"),
    ]
    assert owner.start("run-1", "ls") == "permitted", "it is still its own"
    assert "another" in thief.consume_stolen("run-1", permit)


# The thread


def test_the_heart_beats_as_long_as_a_run_goes_on_and_says_nothing_in_the_log(machine: Start, look: Look) -> None:
    one = machine("one", every=0.001)
    one.check("run-1", "ls")
    events = look(EVENTS)
    seen: set[int] = set()
    until(lambda: seen.add(look("SELECT beat FROM run")[0][0]) or len(seen) > 3, "several heartbeats")
    assert look(EVENTS) == events
    one.end()
    assert one.process.wait() == 0, "it keeps no process from ending"


FORKS = """
import os, sys
from humanlayer_agent.approvals.model import Run
from humanlayer_agent.errors import StoreError
from humanlayer_agent.store import heartbeats
from humanlayer_agent.store.sqlite import SQLiteStore

heartbeats.EVERY = 0.002
store = SQLiteStore(sys.argv[1], busy_ms=600_000)
store.open_run(Run("run-1", "agent", "instance", "os:1000:alice"))
for number in range(int(sys.argv[2])):
    pid = os.fork()
    if pid == 0:
        try:
            store.requests()
            os._exit(1)
        except StoreError:
            pass
        store.close()
        anew = SQLiteStore(sys.argv[1], busy_ms=600_000)
        anew.open_run(Run(f"child-{number}", "agent", "instance", "os:1000:alice"))
        anew.close_run(f"child-{number}", "finished")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
print("done")
"""


@pytest.mark.long
def test_a_fork_never_meets_a_heartbeat(path: Path) -> None:
    """A child may open the store anew: no lock of the thread that is not there any more is held in it."""
    done = children.run([sys.executable, "-c", FORKS, str(path), str(some(50, here=8))], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
