"""Real stores on real files, a clock that a test moves, and child processes."""

import os
import pickle
import secrets
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import ApprovalRequest, Permit, Run
from humanlayer_agent.policy.decision import Ask, PolicyDecision, Verdict
from humanlayer_agent.store import heartbeats
from humanlayer_agent.store.postgres.postgres_store import PostgresStore
from humanlayer_agent.store.sqlite import SQLiteStore, SQLStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST, TEST_AUTHORITY, ScriptedAsker, ScriptedDirector
from tests.support.granting import ALICE, BOB, READ, TEAM, TESTER, reading
from tests.support.postgres import LocalServer, local_server

START = 1_700_000_000_000


class Clock:
    """Milliseconds that only the test moves; `seconds` is the monotonic clock beside it."""

    def __init__(self) -> None:
        self.ms = START
        self.ticks = 100.0

    def __call__(self) -> int:
        return self.ms

    def seconds(self) -> float:
        return self.ticks

    def pass_ms(self, ms: int) -> None:
        """Time passes: both clocks move."""
        self.ms += ms
        self.ticks += ms / 1000

    def jump_ms(self, ms: int) -> None:
        """Somebody sets the clock: no time passes."""
        self.ms += ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(heartbeats, "clock", lambda db: ("the test", int(made.ticks * 1000)))
    return made


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of a module that says STORES run with each of these; those that take the path of the store only with a file,
    unless the module says BY_ADDRESS: its path may be an address.

    On a server all of them run in `make test-all`.
    """
    if "backend" in metafunc.fixturenames and (stores := getattr(metafunc.module, "STORES", ())):
        marks = {"postgres": [pytest.mark.long]}
        both = "path" not in metafunc.fixturenames or getattr(metafunc.module, "BY_ADDRESS", False)
        both = both and not any(mark.name == "file" for mark in metafunc.definition.iter_markers())
        chosen = [pytest.param(each, marks=marks.get(each, [])) for each in stores if both or each == "sqlite"]
        metafunc.parametrize("backend", chosen, indirect=True)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> str:
    """Which kind of store it is."""
    return getattr(request, "param", "sqlite")


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path, backend: str) -> Iterator[Path | str]:
    """Where the store is: a file, or the address of an empty store on a server."""
    if backend == "sqlite":
        yield tmp_path / "data" / "store.sqlite3"
    else:
        with request.getfixturevalue("postgres").new_store() as url:
            yield url


@pytest.fixture(scope="session")
def postgres() -> Iterator[LocalServer]:
    """A PostgreSQL server for the tests of this process."""
    with local_server() as server:
        yield server


@pytest.fixture
def store(request: pytest.FixtureRequest, backend: str, clock: Clock) -> Iterator[SQLStore]:
    where = request.getfixturevalue("path")  # not asked for by name: a test that does needs to know where it is
    made = SQLiteStore if backend == "sqlite" else PostgresStore
    with closing(made(where, clock=clock)) as opened:
        yield opened


@pytest.fixture
def run(store: SQLiteStore) -> str:
    store.open_run(Run("run-1", "agent", "instance", "os:1000:alice", "/srv/app"))
    return "run-1"


@pytest.fixture
def act() -> Callable[..., Action]:
    def make(content: str = "make deploy", **fields: Any) -> Action:
        return Action(content, **{"cwd": "/srv/app", "project": "/srv/app", "run_id": "run-1"} | fields)

    return make


@pytest.fixture
def decide() -> Callable[..., PolicyDecision]:
    def make(verdict: Verdict = Verdict.ASK, **fields: Any) -> PolicyDecision:
        chosen = {"reason": "a rule says so", "rules": ("r1",)} | fields
        return PolicyDecision(verdict, policy="test", policy_digest=POLICY_DIGEST, **chosen)

    return make


@pytest.fixture
def draft(
    clock: Clock, act: Callable[..., Action], decide: Callable[..., PolicyDecision]
) -> Callable[..., ApprovalRequest]:
    def make(
        content: str = "make deploy", *, key: str = "", run_id: str = "run-1", ttl: int = 600_000, **said: Any
    ) -> ApprovalRequest:
        action, decision = act(content, run_id=run_id), decide(**said)
        rule = TEST_AUTHORITY.rule_for(decision)
        return ApprovalRequest(
            id=secrets.token_hex(16),
            idempotency_key=key or secrets.token_hex(32),
            digest=action.digest(POLICY_DIGEST),
            body=action.body(POLICY_DIGEST),
            action=action,
            decision=decision,
            requester="os:1000:alice",
            created=clock(),
            expires=clock() + ttl,
            valid_for=60_000,
            rule=rule,
            needed=rule.quorum,
        )

    return make


@pytest.fixture
def make_gate(store: SQLiteStore, clock: Clock) -> Callable[..., Gate]:
    """A gate over the test's store: "rm" is denied, "ask" is asked about, anything else is allowed."""

    def make(script: Any = (), **fields: Any) -> Gate:
        asker = fields.pop("asker", None) or ScriptedAsker(script)
        director = fields.pop("director", None) or ScriptedDirector({"rm": Verdict.DENY, "ask": Verdict.ASK})
        chosen = {"clock": clock, "monotonic": clock.seconds, "run_id": "run-1", "agent": "agent"} | fields
        return Gate(director, chosen.pop("store", store), asker, **chosen)

    return make


@pytest.fixture
def give(store: SQLiteStore, draft: Callable[..., ApprovalRequest], run: str) -> Callable[..., ApprovalRequest]:
    """A request that bob approves with a scope, and the tester with another where there are two."""

    def make(*asks: Ask, scopes: tuple[str, ...] = ("run",), content: str = "cat x", **said: Any) -> ApprovalRequest:
        request = store.create_request(draft(content, asks=asks or (READ,), **said), TEAM.authority)
        for approver, scope in zip((BOB, TESTER), scopes, strict=False):
            assert TEAM.vote(store, request, "approve", approver, scope=scope).outcome == "recorded"
        return request

    return make


@pytest.fixture
def use(
    store: SQLiteStore, act: Callable[..., Action], decide: Callable[..., PolicyDecision]
) -> Callable[..., Permit | None]:
    """What grants make of an action that is asked about."""

    def make(*asks: Ask, content: str = "cat y", said: Any = None, by: Any = None, **fields: Any) -> Permit | None:
        action, decision = act(content, **fields), decide(asks=asks or (reading("/srv/data/y"),))
        decision = replace(decision, **(said or {}))
        used: Permit | None = (by or store).grants.use(
            action,
            decision,
            action.digest(decision.policy_digest),
            requester=ALICE,
            authority=lambda: TEAM.authority,
            use_by_ms=10_000,
        )
        return used

    return make


@pytest.fixture
def in_child() -> Callable[..., Any]:
    """Calls a function in a forked child process and returns its result, or fails with its traceback."""

    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            try:
                result = (True, function(*arguments))
            except BaseException:
                result = (False, traceback.format_exc())
            with os.fdopen(writer, "wb") as stream:
                stream.write(pickle.dumps(result))
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            data = stream.read()
        os.waitpid(pid, 0)
        fine, value = pickle.loads(data)
        assert fine, value
        return value

    return call
