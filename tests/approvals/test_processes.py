"""Real processes: races for one decision and one use, and kill -9 wherever it hurts."""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.approvals.model import ApprovalRequest, Refused, Run
from humanlayer_agent.approvals.sqlite import SQLiteStore

Child = subprocess.Popen[str]


@pytest.fixture
def spawn() -> Iterator[Callable[..., Child]]:
    """Starts Python processes; none of them outlives the test."""
    children: list[Child] = []

    def start(program: str, *arguments: object) -> Child:
        child = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


def line(child: Child) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def results(children: list[Child]) -> list[Any]:
    """Let children that wait at their start go on together, and collect what each prints at its end."""
    for child in children:
        assert line(child) == "ready"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    outputs = [child.communicate()[0] for child in children]
    assert [child.returncode for child in children] == [0] * len(children)
    return [json.loads(output) for output in outputs]


RACE = """
import json, random, sys
from humanlayer_agent.approvals.model import Approver, Execution, Permit
from humanlayer_agent.approvals.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import answer

path, number = sys.argv[1], int(sys.argv[2])
store = SQLiteStore(path, busy_ms=60_000)
requests = store.requests()
random.Random(number).shuffle(requests)
print("ready", flush=True)
sys.stdin.readline()
recorded, used = [], []
kind = "approve" if number % 3 else "reject"
for request in requests:
    given = answer(request, kind, approver=Approver(f"os:{number}:x", "test", "terminal"))
    if store.decide(request.id, given).outcome == "recorded":
        recorded.append(request.id)
    permit = store.permit(request.id, request.action, request.decision, use_by_ms=60_000)
    for _ in range(2):
        if isinstance(permit, Permit) and isinstance(store.consume(permit.id, permit.digest), Execution):
            used.append(request.id)
print(json.dumps([recorded, used]))
"""


def test_six_processes_race(spawn: Callable[..., Child], path: Path, draft: Callable[..., ApprovalRequest]) -> None:
    store = SQLiteStore(path)
    store.open_run(Run("run-1", "agent", "instance", "os:1000:alice"))
    drafts = [draft(f"command {number}", ttl=10**12) for number in range(40)]
    wanted = {store.create_request(request).id for request in drafts}
    answers = results([spawn(RACE, path, number) for number in range(6)])
    assert Counter(one for recorded, _ in answers for one in recorded) == Counter(wanted)
    states = {request.id: request.state for request in store.requests()}
    assert set(states.values()) <= {"approved", "rejected"}
    approved = {one for one, state in states.items() if state == "approved"}
    assert Counter(one for _, used in answers for one in used) == Counter(approved)
    verified = store.verify()
    assert verified.intact, verified
    kinds = Counter(entry.event["type"] for entry in store.events())
    assert kinds["vote.recorded"] == len(wanted)
    assert kinds["vote.late"] == 5 * len(wanted)
    assert kinds["exec.started"] == len(approved)


CONSUME = """
import json, sys
from humanlayer_agent.approvals.model import Execution
from humanlayer_agent.approvals.sqlite import SQLiteStore

store = SQLiteStore(sys.argv[1], busy_ms=60_000)
permits = json.loads(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps([isinstance(store.consume(*permit), Execution) for permit in permits]))
"""


def test_six_processes_have_the_same_permits(
    spawn: Callable[..., Child], path: Path, act: Callable[..., Any], decide: Callable[..., Any]
) -> None:
    store = SQLiteStore(path)
    store.open_run(Run("run-1", "agent", "instance", "os:1000:alice"))
    permits = [store.allow(act(), decide(), "d" * 64, use_by_ms=60_000) for _ in range(30)]
    listed = json.dumps([[permit.id, permit.digest] for permit in permits])
    answers = results([spawn(CONSUME, path, listed) for _ in range(6)])
    assert [sum(column) for column in zip(*answers, strict=True)] == [1] * len(permits)


APPEND = """
import json, sys
from contextlib import contextmanager
from humanlayer_agent.approvals.sqlite import SQLiteStore
from humanlayer_agent.audit import events
from humanlayer_agent.errors import StoreError

class HeadBeforeLock(SQLiteStore):
    "The bug that six other projects shipped: the head is read before the lock is held."

    @contextmanager
    def _transaction(self):
        with self._database.read() as connection:
            head = connection.execute("SELECT seq, hash FROM audit_event ORDER BY seq DESC LIMIT 1").fetchone()
        with super()._transaction() as ledger:
            if head is not None:
                ledger.head = lambda: events_entry(head)
            yield ledger

def events_entry(row):
    from humanlayer_agent.audit.chain import Entry
    return Entry(row["seq"], row["hash"], b"")

path, kind = sys.argv[1:]
store = (HeadBeforeLock if kind == "broken" else SQLiteStore)(path, busy_ms=60_000)
print("ready", flush=True)
sys.stdin.readline()
written = 0
for number in range(150):
    try:
        store.record(events.POLICY_LOADED, run="r", number=number)
        written += 1
    except StoreError:
        pass
print(json.dumps(written))
"""


@pytest.mark.parametrize("kind", ["real", "broken"])
def test_writers_in_four_processes_make_one_chain(spawn: Callable[..., Child], path: Path, kind: str) -> None:
    """And without the lock they don't: what the first case asserts is false in the second."""
    store = SQLiteStore(path)
    written = results([spawn(APPEND, path, kind) for _ in range(4)])
    whole = written == [150] * 4 and store.verify().count == 601
    assert whole == (kind == "real")
    assert store.verify().intact  # the schema refuses a link that does not fit


@pytest.mark.parametrize("kind", ["real", "broken"])
def test_without_the_triggers_a_missing_lock_breaks_the_chain(
    spawn: Callable[..., Child], path: Path, kind: str
) -> None:
    """The same with the second wall down, and `seq` counted under the lock: only the verifier is left to see it."""
    program = APPEND.replace('Entry(row["seq"]', 'Entry(newest(row["seq"])').replace(
        "def events_entry", "def newest(seq):\n    return store._database._connection.execute("
        "'SELECT max(seq) FROM audit_event').fetchone()[0]\n\ndef events_entry"
    )  # fmt: skip
    store = SQLiteStore(path)
    with store._transaction() as ledger:
        ledger._db.execute("DROP TRIGGER audit_event_linked")
    assert results([spawn(program, path, kind) for _ in range(4)]) == [150] * 4
    found = store.verify()
    assert found.intact == (kind == "real")
    assert found.intact or "does not follow" in found.problem


# kill -9

SUPERVISED = """
import subprocess, sys
from humanlayer_agent.actions import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.approvals.sqlite import SQLiteStore
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.testing.approvers import ScriptedDirector, answer

path, marker, stop_at, kind = sys.argv[1:]

def at(step):
    "Say where we are; wait there for the end if that is the step to die at."
    print(step, flush=True)
    if step == stop_at:
        sys.stdin.readline()

class Human:
    name = "test"

    def ask(self, request, *, until, cancelled):
        at("asked " + request.id)
        at("asked")
        return answer(request, kind)

gate = Gate(ScriptedDirector(otherwise=Verdict.ASK), SQLiteStore(path), Human(), instance="the agent")
action = Action(f"echo ran >> {marker}", cwd="/", project="/")
permit = gate.check(action)
at("approved")
if isinstance(permit, Permit) and gate.start(permit, action) is None:
    at("consumed")
    done = subprocess.run([*action.interpreter, action.content])
    at("executed")
    gate.finish(permit, Outcome(done.returncode))
else:
    at("denied")
at("end")
"""


def steps(child: Child, until: str) -> list[str]:
    seen: list[str] = []
    while (step := line(child)) != until:
        assert step, seen
        seen.append(step)
    return seen


@pytest.mark.parametrize(
    ("moment", "ran", "unknown"), [("asked", 0, 0), ("approved", 0, 0), ("consumed", 0, 1), ("executed", 1, 1)]
)
def test_killed_and_started_again(
    spawn: Callable[..., Child], path: Path, tmp_path: Path, moment: str, ran: int, unknown: int
) -> None:
    """One approval never leads to a second run; the restarted agent asks anew, or waits for the same request."""
    marker = tmp_path / "marker"

    def runs() -> int:
        return marker.read_text().count("ran") if marker.exists() else 0

    first = spawn(SUPERVISED, path, marker, moment, "approve")
    asked = steps(first, moment)[0] if moment != "asked" else line(first)
    if moment == "asked":
        assert line(first) == "asked"
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert runs() == ran

    again = spawn(SUPERVISED, path, marker, "", "reject")
    asked_again = steps(again, "end")[0]
    assert again.wait() == 0
    assert runs() == ran
    assert (asked == asked_again) == (moment == "asked")

    store = SQLiteStore(path)
    for row in store._database._open().execute("SELECT id, digest FROM permit").fetchall():
        assert isinstance(store.consume(row["id"], row["digest"]), Refused)
    kinds = Counter(entry.event["type"] for entry in store.events())
    assert kinds["exec.unknown"] == unknown
    assert kinds["exec.started"] == unknown
    assert kinds["request.adopted"] == (moment == "asked")
    assert store.verify().intact


EDITED = """
import sys
from humanlayer_agent.actions import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.sqlite import SQLiteStore
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.testing.approvers import ScriptedDirector, answer

path, stop_at, edited = sys.argv[1:]

def at(step):
    print(step, flush=True)
    if step == stop_at:
        sys.stdin.readline()

class Director(ScriptedDirector):
    def evaluate(self, action):
        at("judging " + action.content)
        return super().evaluate(action)

class Human:
    name = "test"

    def ask(self, request, *, until, cancelled):
        at("asked " + request.action.content)
        return answer(request, "edit", edited=edited)

gate = Gate(Director({"ask": Verdict.ASK}), SQLiteStore(path), Human(), instance="the agent")
gate.check(Action("ask", cwd="/", project="/"))
at("end")
"""


@pytest.mark.parametrize(
    ("edited", "moment", "states"),
    [
        ("ls", "judging ls", ["superseded"]),
        ("ls", "end", ["superseded"]),
        ("ask less", "judging ask less", ["superseded"]),
        ("ask less", "asked ask less", ["superseded", "pending"]),
    ],
)
def test_killed_at_an_edit(
    spawn: Callable[..., Child], path: Path, edited: str, moment: str, states: list[str]
) -> None:
    """Nothing can be run that was not permitted, and a restarted agent is asked about its command anew."""
    first = spawn(EDITED, path, moment, edited)
    steps(first, moment)
    first.send_signal(signal.SIGKILL)
    first.wait()
    store = SQLiteStore(path)
    assert [request.state for request in store.requests()] == states
    assert not list(store.events(type="exec"))

    again = spawn(EDITED, path, "judging ask", edited)
    assert line(again) == "judging ask"
    permits = store._database._open().execute("SELECT id, digest FROM permit").fetchall()
    assert len(permits) == (moment == "end")
    for row in permits:
        assert isinstance(store.consume(row["id"], row["digest"]), Refused)
    assert again.stdin is not None
    again.stdin.write("go on\n")
    again.stdin.flush()
    assert line(again) == "asked ask"
    assert not list(store.events(type="request.adopted"))
    assert store.verify().intact


WRITER = """
import sys
from humanlayer_agent.approvals.sqlite import SQLiteStore
from humanlayer_agent.actions import Action
from humanlayer_agent.approvals.model import Outcome, Run
from humanlayer_agent.policy.decision import PolicyDecision, Verdict

store = SQLiteStore(sys.argv[1])
store.open_run(Run(sys.argv[2], "agent", "i", "u"))
decision = PolicyDecision(Verdict.ALLOW, "", "", "0" * 64)
number = 0
while True:
    action = Action(f"echo {number}", run_id=sys.argv[2])
    permit = store.allow(action, decision, "d" * 64, use_by_ms=60_000)
    store.consume(permit.id, permit.digest)
    print(permit.id, flush=True)
    store.finish(permit.id, Outcome(0))
    number += 1
"""


def test_what_was_acknowledged_survives_kill_9(spawn: Callable[..., Child], path: Path) -> None:
    """Two writers at once, killed at a random point of their work, four times."""
    acknowledged: list[str] = []
    for attempt in range(4):
        writers = [spawn(WRITER, path, f"run-{attempt}-{side}") for side in range(2)]
        for writer in writers:
            acknowledged += [line(writer) for _ in range(5 + 3 * attempt)]
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
        for writer in writers:
            assert writer.stdout is not None
            acknowledged += [text.strip() for text in writer.stdout.readlines() if len(text) == 33]
            writer.wait()  # its end of the pipe is closed before it has ended
    store = SQLiteStore(path)
    store.reconcile()
    started = {entry.event["permit"] for entry in store.events(type="exec.started")}
    ended = Counter(
        entry.event["permit"] for kind in ("exec.finished", "exec.unknown") for entry in store.events(type=kind)
    )
    assert set(acknowledged) <= started
    assert set(ended) == started
    assert set(ended.values()) == {1}
    found = store.verify()
    assert found.intact, found
