"""Look-ups take as many steps in a large store as in a small one: by an index, and up to a limit.

Steps are counted, of SQLite's own machine (https://www.sqlite.org/c3ref/progress_handler.html), and never time.
"""

import ast
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.model import ApprovalRequest, Execution, Outcome, Permit, Run
from humanlayer_agent.audit.verify import Reached
from humanlayer_agent.errors import AgentsStopped
from humanlayer_agent.policy.decision import Ask, PolicyDecision, Verdict
from humanlayer_agent.processes.identity import identity
from humanlayer_agent.store import answer_record, deliveries, grants, sqlite, statements, stops
from humanlayer_agent.store.heartbeats import beat
from humanlayer_agent.store.log_heads import known_signers, note_signers, signers_at_start
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST, TEST_APPROVER, ScriptedApprovers, answer
from tests.support.sealing import Sealer

TEAM = ScriptedApprovers()
GROWING = r"audit_event|request|vote|permit|execution|run|presentation|delivery|grant_use"
OPEN = r"run_open|permit_issued|execution_started"
"""Indexes of what goes on at this moment only: reading one from end to end reads nothing that is over."""

NEWEST = re.compile(
    r"ORDER BY seq DESC LIMIT 1$|FROM audit_event LIMIT 1\) AS first$|ORDER BY created DESC, request.rowid DESC LIMIT \?$"
)
"""Reads from an end of a table, or of an index, and only so far as a limit goes."""

Draft = Callable[..., ApprovalRequest]


class Explained(sqlite3.Connection):
    """Asks for the plan of every statement, before it runs it."""

    plans: dict[str, list[str]]

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", sql):
            found = super().execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
            self.plans[" ".join(sql.split())] = [row[3] for row in found]
        return super().execute(sql, parameters)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The plans of all statements of the stores that are opened from now on."""
    Explained.plans = {}
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Explained))
    return Explained.plans


class Used:
    """A store of which everything is asked, once."""

    def __init__(self, store: SQLiteStore, draft: Draft, clock: Any) -> None:
        self.store, self.draft, self.clock = store, draft, clock
        self.allowed = Action("ls", cwd="/", project="/", run_id="run-1")
        self.decision = PolicyDecision(Verdict.ALLOW, "fine", "test", POLICY_DIGEST)
        self.digest = self.allowed.digest(POLICY_DIGEST)

    def run(self, name: str) -> None:
        self.store.open_run(Run(name, "agent", "instance", "os:1000:alice"))

    def ask(self, command: str, **said: Any) -> ApprovalRequest:
        return self.store.create_request(self.draft(command, **said), TEAM.authority)

    def asks(self) -> None:
        store = self.store
        one, two, three, four = (self.ask(command) for command in "1234")
        TEAM.vote(store, one)
        permit = store.permit(one, TEAM.authority, use_by_ms=10_000)
        assert isinstance(permit, Permit)
        store.consume(permit, permit.digest, TEAM.authority)
        store.finish(permit.id, Outcome(0))
        TEAM.decide(store, two.id, answer(two, "edit", edited="ls"))
        TEAM.vote(store, three)
        TEAM.vote(store, three, "revoke")
        with store._transaction() as ledger:
            row = ledger.request(four.id)
            assert row is not None
            ledger.escalate(row, 1, "slack", "me")
        _ = store.collect(replace(four), TEAM.authority)
        _ = store.expire(four.id), store.votes(one.id), store.get(one.id), store.ids(one.id[:4])
        rule = replace(TEAM.authority.routes["default"], slow_down_ms=1, second_after=1)
        careful = ScriptedApprovers(Authority(TEAM.authority.people, {"default": rule}))
        careful.vote(store, self.ask("severe", severity="high"))
        for state in (None, "pending", "settled", "approved"):
            for run, last in (("run-1", None), ("run-1", 5), (None, 5)):
                _ = store.requests(state=state, run=run, last=last)  # type: ignore[arg-type]
        _ = store.requests(state="pending")

    def approved(self, count: int) -> None:
        """So many that were approved and run: they stay approved."""
        for number in range(count):
            request = self.ask(f"approved {number}", run_id="run-0")
            TEAM.vote(self.store, request)
            permit = self.store.permit(request, TEAM.authority, use_by_ms=10_000)
            assert isinstance(permit, Permit)
            self.store.consume(permit, permit.digest, TEAM.authority)
            self.store.finish(permit.id, Outcome(0))

    def shows(self) -> None:
        surfaces, request = self.store.surfaces, self.ask("shown")
        for _ in range(2):
            assert surfaces.take_lease("slack", "me", 1_000)
        surfaces.begin_delivery(request.id, 0, "slack")
        surfaces.delivered(request.id, 0, "slack", {"ts": "1"}, request.digest, complete=True)
        surfaces.undelivered(request.id, 1, "slack", "no", retry_at=5)
        (shown,) = surfaces.presentations("slack", request_id=request.id)
        surfaces.settled(shown.id, "pending 0 0")
        surfaces.reminded(shown.id, 1)
        surfaces.unsettled(shown.id, "gone")
        _ = surfaces.lease("slack"), surfaces.waiting(), surfaces.deliveries(), surfaces.deliveries(request.id)
        _ = surfaces.unfinished("slack"), surfaces.open_presentations("slack")
        surfaces.release_lease("slack", "me")

    def allows(self) -> None:
        store, action = self.store, (self.allowed, self.decision, self.digest)
        store.void(store.allow(*action, use_by_ms=10_000).id, "no")
        self.command()
        store.record_decision(*action)
        _ = store.halts.running(), store.supervisors()

    def grants(self) -> None:
        store, grants = self.store, self.store.grants
        decision = PolicyDecision(Verdict.ASK, "asks", "test", POLICY_DIGEST, asks=(Ask("r1", "", "command"),))
        for last in (False, True):
            request = self.ask("granted", asks=decision.asks)
            TEAM.vote(store, request, scope="action")
            for how in ("used", "left"):
                permit = grants.use(
                    request.action,
                    request.decision,
                    request.digest,
                    requester=request.requester,
                    authority=lambda: TEAM.authority,
                    use_by_ms=10_000,
                )
                assert isinstance(permit, Permit)
                if how == "used":
                    assert isinstance(store.consume(permit, permit.digest, TEAM.authority), Execution)
                    store.finish(permit.id, Outcome(0))
            assert grants.revoke(request.id, "os:1:bob", "enough") or last
            _ = (
                grants.uses(request.id),
                grants.get(request.id),
                grants.given(project="/srv/app", active=True),
                grants.given(),
            )

    def command(self) -> None:
        """One that the policy allows, from its decision to its end."""
        digest = self.digest
        permit = self.store.admit(
            self.allowed, self.decision, digest, digest, use_by_ms=10_000, authority=TEAM.authority
        )
        assert isinstance(permit, Permit)
        self.store.finish(permit.id, Outcome(0))

    def reads(self) -> None:
        store = self.store
        note_signers(store, TEAM.authority.signers)
        head = store.write_head()
        tips = Sealer(entry for entry in store.events() if entry.seq <= head.seq).tips
        assert store.verify(since=Reached(head, tips)).since == head
        _ = known_signers(store), signers_at_start(store, "agent", "instance"), store.redactor()
        store.first_decision("agent", "instance", "/srv/app")
        store.figures()
        request = store.requests(last=1)[0].id
        for run in (None, "run-1"):
            for which in (None, request):
                for kind in (None, "vote", "vote.recorded"):
                    _ = [list(store.events(run=run, request=which, type=kind, last=last)) for last in (None, 3)]

    def ends(self) -> None:
        store, key = self.store, "5" * 64
        left = self.ask("left", key=key)
        unused = self.ask("unused")
        TEAM.vote(store, unused)
        self.run("run-2")
        other = self.ask("left", key=key, run_id="run-2")
        assert other.id != left.id
        with store._transaction() as ledger:
            ledger.adopt(left.id, "run-2")
            assert ledger.in_use()
        store.withdraw(left.id, "no")
        store.terminate(other.id, "no")
        halt = store.halts.stop("os:1:bob")
        with suppress(AgentsStopped):
            store.record_decision(self.allowed, self.decision, self.digest)
        store.halts.resume([halt], TEST_APPROVER, "", TEAM.authority, TEAM.signer)
        store.people.remove("carol", ["os:1:carol"], [], "os:1:bob")
        assert not store.halts.standing(TEAM.authority)
        self.ask("late")
        self.clock.pass_ms(10**7)
        store.reconcile()
        store.close_run("run-1", "finished")


@pytest.fixture
def used(plans: dict[str, list[str]], path: Path, clock: Any, draft: Draft) -> Used:
    return Used(SQLiteStore(path, clock=clock), draft, clock)


def test_every_statement_uses_an_index(plans: dict[str, list[str]], used: Used) -> None:
    used.run("run-1")
    for part in (used.asks, used.shows, used.allows, used.grants, used.reads, used.ends):
        part()
    for module in (statements, sqlite, stops, deliveries, answer_record, grants):
        for begin in literals(module):
            assert any(sql.startswith(begin) for sql in plans), f"not tried: {begin}"
    for sql, steps in plans.items():
        scans = [
            each for each in steps if re.match(rf"SCAN ({GROWING})\b(?! USING (COVERING )?INDEX ({OPEN})\b)", each)
        ]
        assert not scans or NEWEST.search(sql), (sql, steps)


def literals(module: Any) -> Iterator[str]:
    """How the statements begin that a module is written with."""
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        text = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            said = " ".join(text.value.split())
            if re.match(r"(SELECT|INSERT|UPDATE|DELETE|WITH) ", said):
                yield said


class Steps:
    """Counts what SQLite does for a call."""

    def __init__(self, store: SQLiteStore) -> None:
        self.store, self.count = store, 0

    def one(self) -> int:
        self.count += 1
        return 0

    def of(self, call: Callable[[], Any]) -> int:
        with self.store.database.alone():  # a heartbeat meanwhile would be counted too
            call()  # what is read once only
            with self.store.database.read() as connection:
                pass
            self.count = 0
            connection.set_progress_handler(self.one, 1)
            try:
                call()
            finally:
                connection.set_progress_handler(None, 1)
        return self.count


def grown(store: SQLiteStore, draft: Draft, count: int) -> None:
    """So many more requests that were decided, runs that ended, and events."""
    with store._transaction() as ledger:
        for number in range(count):
            run = Run(f"old {len(store.ids(''))} {number}", "agent", f"instance {number}", "os:1000:alice")
            ledger.start_run(run)
            request = draft(f"old {number}", run_id=run.id)
            ledger.insert(request)
            row = ledger.request(request.id)
            assert row is not None
            ledger.settle(row, "expired")
            ledger.end_run(run.id, "finished", "fine")


def test_no_statement_of_a_write_is_prepared_each_time(used: Used) -> None:
    prepared: list[Any] = []

    def heard(*said: Any) -> int:  # SQLite asks what a statement may do when it prepares one
        prepared.append(said)
        return sqlite3.SQLITE_OK

    def write(number: int) -> None:
        used.command()
        TEAM.vote(used.store, used.ask(f"write {number}"))
        beat(used.store.database, identity())  # else its thread may do so meanwhile, for the first time

    used.run("run-1")
    with used.store.database.read() as connection:
        connection.set_authorizer(heard)
    write(1)
    assert prepared
    prepared.clear()
    write(2)
    assert prepared == []


def test_an_answer_reads_the_votes_on_its_request_once(used: Used) -> None:
    used.run("run-1")
    request = used.ask("ls")
    said: list[str] = []
    with used.store.database.read() as connection:
        connection.set_trace_callback(said.append)
    TEAM.vote(used.store, request)
    connection.set_trace_callback(None)
    assert len([each for each in said if each.startswith("SELECT * FROM vote WHERE request_id")]) == 1
    assert used.store.requests(state="approved")


@pytest.mark.long
def test_no_look_up_takes_longer_the_more_there_is(
    store: SQLiteStore, run: str, draft: Draft, clock: Any, path: Path
) -> None:
    note_signers(store, TEAM.authority.signers)
    waiting = store.create_request(draft("waits"), TEAM.authority)
    used = Used(store, draft, clock)
    used.run("run-0")
    used.allowed = replace(used.allowed, run_id="run-0")
    steps = Steps(store)
    calls: dict[str, Callable[[], Any]] = {
        "signers": lambda: known_signers(store),
        "signers of a run": lambda: signers_at_start(store, "agent", "instance"),
        "signers of no run": lambda: signers_at_start(store, "agent", "never"),
        "one type": lambda: list(store.events(type="signers.changed")),
        "one family": lambda: list(store.events(type="signers")),
        "newest of a family": lambda: list(store.events(type="run", last=3)),
        "events of a run": lambda: list(store.events(run="run-1")),
        "votes of a request": lambda: list(store.events(request=waiting.id, type="vote")),
        "what waits": lambda: store.requests(state="pending"),
        "inbox": lambda: store.requests(state="settled", last=5),
        "newest": lambda: store.requests(last=5),
        "of a run": lambda: store.requests(run="run-1"),
        "by its beginning": lambda: store.ids(waiting.id[:20]),
        "stops": lambda: store.halts.standing(None),
        "supervisors": store.supervisors,
        "what others left": store.reconcile,
        "an allowed command": used.command,
    }
    used.approved(20)
    grown(store, draft, 20)
    few = {name: steps.of(call) for name, call in calls.items()}
    used.approved(20)
    grown(store, draft, 400)
    many = {name: steps.of(call) for name, call in calls.items()}
    slower = {name: (few[name], many[name]) for name in calls if many[name] > 1.2 * few[name] + 20}
    assert not slower
