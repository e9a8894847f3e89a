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

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.model import ApprovalRequest, Permit, Refused, Run
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.processes.identity import identity
from humanlayer_agent.store import schema
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import TEST_AUTHORITY
from tests.support import children, extent
from tests.support.keys import make_key

Child = subprocess.Popen[str]


@pytest.fixture
def spawn() -> Iterator[Callable[..., Child]]:
    """Starts Python processes; none of them outlives the test."""
    started: list[Child] = []

    def start(program: str, *arguments: object) -> Child:
        child = children.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def line(child: Child) -> str:
    """The next line that a child writes, whole."""
    assert child.stdout is not None
    text: str = child.stdout.readline()
    assert text.endswith("\n"), f"it ended (exit code {child.wait()}) after {text!r}"
    return text.strip()


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


TEAM = """
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person
from humanlayer_agent.approvals.model import Approver
from tests.support.keys import open_key
from humanlayer_agent.testing.approvers import ScriptedApprovers

people = tuple(Person(f"p{n}", (f"os:{n}",)) for n in range(6))
names = tuple(person.id for person in people)
routes = {
    "default": ApprovalRule("default", names, solo=True),
    "two": ApprovalRule("two", names, quorum=2, solo=True),
}

def team(key):
    return ScriptedApprovers(Authority(people, routes), open_key(key))

def approver(number):
    return Approver(f"os:{number}:x", "test", "terminal")
"""

RACE = (
    TEAM
    + """
import json, random, sys
from pathlib import Path
from humanlayer_agent.approvals.model import Execution, Permit
from humanlayer_agent.processes import identity
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import answer

path, key, number = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
identity.identity = lambda pid=None: sys.argv[4]  # whoever is not the run's own process is refused before the race
store, team = SQLiteStore(path, busy_ms=600_000), team(key)
requests = store.requests()
random.Random(number).shuffle(requests)
print("ready", flush=True)
sys.stdin.readline()
decided, used, replays = [], [], []
kind = "approve" if number % 3 else "reject"
for request in requests:
    given = answer(request, kind, approver=approver(number))
    result = team.decide(store, request.id, given)
    if result.outcome == "recorded" and result.state != "pending":
        decided.append(request.id)
    replays.append(team.decide(store, request.id, given).outcome)
    permit = store.permit(request, team.authority, use_by_ms=600_000)
    for _ in range(2):
        if isinstance(permit, Permit) and isinstance(store.consume(permit, permit.digest, team.authority), Execution):
            used.append(request.id)
    replays.append("issued" if isinstance(store.permit(request, team.authority, use_by_ms=600_000), Permit) else "late")
print(json.dumps([decided, used, sorted(set(replays))]))
"""
)


REQUESTS, ROUNDS = (200, 150) if extent.ALL else (40, 40)


def test_six_processes_race(
    spawn: Callable[..., Child], path: Path, tmp_path: Path, draft: Callable[..., ApprovalRequest]
) -> None:
    """Every other request needs two approvals: one decision each, one use each, no replay counts."""
    store = SQLiteStore(path)
    store.open_run(Run("run-1", "agent", "instance", "os:1000:alice"))
    key = tmp_path / "key"
    make_key(key)
    drafts = [draft(f"command {n}", ttl=10**12, route="two" if n % 2 else "default") for n in range(REQUESTS)]
    wanted = {store.create_request(request).id for request in drafts}
    results_ = results([spawn(RACE, path, key, number, identity()) for number in range(6)])
    assert Counter(one for decided, _, _ in results_ for one in decided) == Counter(wanted)
    settled = {request.id: request for request in store.requests()}
    assert {request.state for request in settled.values()} <= {"approved", "rejected", "lapsed"}
    approved = {one for one, request in settled.items() if request.state != "rejected"}
    assert Counter(one for _, used, _ in results_ for one in used) == Counter(approved)
    assert {outcome for _, _, replays in results_ for outcome in replays} <= {"duplicate", "late"}
    for request in settled.values():
        votes = [vote.answer for vote in store.votes(request.id)]
        assert votes.count("reject") == (request.state == "rejected")
        assert votes.count("approve") == request.needed if request.id in approved else votes[-1] == "reject"
    verified = store.verify()
    assert verified.intact, verified
    kinds = Counter(entry.event["type"] for entry in store.events())
    assert kinds["exec.started"] == len(approved)
    assert kinds["vote.recorded"] + kinds["vote.late"] >= 6 * len(wanted)


CONSUME = """
import json, sys
from humanlayer_agent.action import Action
from humanlayer_agent.approvals.model import Execution, Permit
from humanlayer_agent.processes import identity
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.testing.approvers import TEST_AUTHORITY

DECISION = PolicyDecision(Verdict.ALLOW, "", "", "0" * 64)

identity.identity = lambda pid=None: sys.argv[3]  # whoever is not the run's own process is refused before the race
store = SQLiteStore(sys.argv[1], busy_ms=600_000)
permits = json.loads(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps([
    isinstance(store.consume(Permit(one, digest, Action("", run_id="run-1"), DECISION, 2**50), digest, TEST_AUTHORITY), Execution)
    for one, digest in permits
]))
"""


@pytest.mark.long
def test_six_processes_have_the_same_permits(
    spawn: Callable[..., Child], path: Path, act: Callable[..., Any], decide: Callable[..., Any]
) -> None:
    store = SQLiteStore(path)
    store.open_run(Run("run-1", "agent", "instance", "os:1000:alice"))
    permits = [store.allow(act(), decide(Verdict.ALLOW), "d" * 64, use_by_ms=600_000) for _ in range(30)]
    listed = json.dumps([[permit.id, permit.digest] for permit in permits])
    answers = results([spawn(CONSUME, path, listed, identity()) for _ in range(6)])
    assert [sum(column) for column in zip(*answers, strict=True)] == [1] * len(permits)


APPEND = """
import json, sys
from contextlib import contextmanager
from dataclasses import replace
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.store.statements import Ledger
from humanlayer_agent.audit import events
from humanlayer_agent.errors import StoreError

class HeadBeforeLock(SQLiteStore):
    "The bug that six other projects shipped: the newest event is read before the lock is held."

    early = None

    def read_tip(self):
        with self._database.read() as connection:
            return Ledger(connection, 0).tip("")

    @contextmanager
    def _transaction(self):
        early, self.early = self.early or self.read_tip(), None
        with super()._transaction() as ledger:
            ledger.tip = lambda chain: known(early)
            yield ledger

def known(tip):
    return tip

path, kind, rounds = sys.argv[1:]
store = (HeadBeforeLock if kind == "broken" else SQLiteStore)(path, busy_ms=600_000)
if kind == "broken":
    store.early = store.read_tip()  # all of them, before any writes: the race is lost in every run
print("ready", flush=True)
sys.stdin.readline()
written = 0
for number in range(int(rounds)):
    try:
        store.record(events.POLICY_LOADED, run="r", number=number)
        written += 1
    except StoreError:
        pass
print(json.dumps(written))
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["real", "broken"])
def test_writers_in_four_processes_make_one_chain(spawn: Callable[..., Child], path: Path, kind: str) -> None:
    """And without the lock they don't: what the first case asserts is false in the second."""
    store = SQLiteStore(path)
    written = results([spawn(APPEND, path, kind, ROUNDS) for _ in range(4)])
    whole = written == [ROUNDS] * 4 and store.verify().count == 4 * ROUNDS + 1
    assert whole == (kind == "real")
    assert store.verify().intact  # the schema refuses a link that does not fit


UNCHECKED = "from humanlayer_agent.store import schema\nschema.check = schema.version_of\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["real", "broken"])
def test_without_the_triggers_a_missing_lock_breaks_the_chain(
    spawn: Callable[..., Child], path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with the second wall down, which nobody looks at, and links counted under the lock: only the verifier is
    left to see it.
    """
    monkeypatch.setattr(schema, "check", schema.version_of)
    program = UNCHECKED + APPEND.replace(
        "return tip", "return replace(tip, link=store._database._connection.execute("
        "'SELECT max(link) FROM audit_event').fetchone()[0])"
    )  # fmt: skip
    store = SQLiteStore(path)
    with store._transaction() as ledger:
        ledger._db.execute("DROP TRIGGER audit_event_linked")
    assert results([spawn(program, path, kind, ROUNDS) for _ in range(4)]) == [ROUNDS] * 4
    found = store.verify()
    assert found.intact == (kind == "real")
    assert found.intact or "does not follow" in found.problem


# kill -9


def replay(store: SQLiteStore, row: Any) -> Any:
    """Somebody has a permit's row, and makes a permit of it."""
    decision = PolicyDecision(Verdict.ALLOW, "", "", "0" * 64)
    request = store.get(row["request_id"]) if row["request_id"] else None
    permit = Permit(row["id"], row["digest"], Action("", run_id=row["run_id"]), decision, 2**50, request=request)
    return store.consume(permit, row["digest"], TEST_AUTHORITY)


SUPERVISED = """
import subprocess, sys
from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.testing.approvers import TEST_APPROVER, ScriptedDirector, answer

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

gate = Gate(
    ScriptedDirector(otherwise=Verdict.ASK), SQLiteStore(path), Human(), instance="the agent",
    requester=TEST_APPROVER.principal,
)
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


@pytest.mark.sample(2)
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
    for row in store._database._open().execute("SELECT id, digest, request_id, run_id FROM permit").fetchall():
        assert isinstance(replay(store, row), Refused)
    kinds = Counter(entry.event["type"] for entry in store.events())
    assert kinds["exec.unknown"] == unknown
    assert kinds["exec.started"] == unknown
    assert kinds["request.adopted"] == (moment == "asked")
    assert store.verify().intact


EDITED = """
import sys
from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.testing.approvers import TEST_APPROVER, ScriptedDirector, answer

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

gate = Gate(
    Director({"ask": Verdict.ASK}), SQLiteStore(path), Human(), instance="the agent", requester=TEST_APPROVER.principal
)
gate.check(Action("ask", cwd="/", project="/"))
at("end")
"""


@pytest.mark.sample(2)
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
    permits = store._database._open().execute("SELECT id, digest, request_id, run_id FROM permit").fetchall()
    assert len(permits) == (moment == "end")
    for row in permits:
        assert isinstance(replay(store, row), Refused)
    assert again.stdin is not None
    again.stdin.write("go on\n")
    again.stdin.flush()
    assert line(again) == "asked ask"
    assert not list(store.events(type="request.adopted"))
    assert store.verify().intact


WRITER = """
import sys
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.action import Action
from humanlayer_agent.approvals.model import Outcome, Run
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.testing.approvers import TEST_AUTHORITY

store = SQLiteStore(sys.argv[1], busy_ms=600_000)
store.open_run(Run(sys.argv[2], "agent", "i", "u"))
decision = PolicyDecision(Verdict.ALLOW, "", "", "0" * 64)
number = 0
while True:
    action = Action(f"echo {number}", run_id=sys.argv[2])
    permit = store.allow(action, decision, "d" * 64, use_by_ms=600_000)
    store.consume(permit, permit.digest, TEST_AUTHORITY)
    print(permit.id, flush=True)
    store.finish(permit.id, Outcome(0))
    number += 1
"""


@pytest.mark.long
def test_what_was_acknowledged_survives_kill_9(spawn: Callable[..., Child], path: Path) -> None:
    """Two writers at once, killed at a random point of their work, several times."""
    acknowledged: list[str] = []
    for attempt in range(extent.some(4, here=2)):
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
