"""The fixtures of tests/approvals, and stores on a server of our own that go by its clock."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.store.postgres.postgres_store import PostgresStore
from humanlayer_agent.testing.approvers import ScriptedAsker, ScriptedDirector
from tests.approvals.conftest import Clock, act, backend, decide, draft, in_child, path, postgres
from tests.support.postgres import LocalServer

__all__ = ["act", "backend", "decide", "draft", "in_child", "path", "postgres"]


@pytest.fixture
def clock() -> Clock:
    """The time by which requests are drafted: the true one, as the database has it."""
    made = Clock()
    made.ms = now_ms()
    return made


@pytest.fixture
def url(postgres: LocalServer) -> Iterator[str]:
    """The address of an empty store."""
    with postgres.new_store() as made:
        yield made


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url)) as opened:
        yield opened


@pytest.fixture
def gate(store: PostgresStore) -> Iterator[Gate]:
    """A gate with a run of its own: "rm" is denied, "ask" is asked about and approved, anything else is allowed."""
    director = ScriptedDirector({"rm": Verdict.DENY, "ask": Verdict.ASK})
    with Gate(director, store, ScriptedAsker(["approve"] * 9), agent="agent", run_id="run-1") as made:
        yield made
