"""A request whose agent was killed: humans are told, and an agent that is started again may still have it."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from humanlayer_agent.approvals.model import ApprovalRequest, Run
from humanlayer_agent.channels.contract import Outcome
from humanlayer_agent.channels.plain_text import as_text
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.patience import until
from tests.hub.conftest import team

GONE = "the agent that asked is gone"


@pytest.fixture
def agent(store: SQLiteStore) -> Iterator[int]:
    """A process that has begun the run "run-2" and does nothing more."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            SQLiteStore(store.path).open_run(Run("run-2", "agent", "instance", "os:1000:starter", "/srv/app"))
            os.write(tell, b"x")
            signal.pause()
        finally:
            os._exit(1)
    assert os.read(told, 1) == b"x"
    yield pid
    kill(pid)
    os.close(told)
    os.close(tell)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):  # it was killed before
        pass


@pytest.fixture
def left(store: SQLiteStore, ask: Callable[..., ApprovalRequest], agent: int) -> ApprovalRequest:
    """A pending request of that process."""
    model = ask("make model")
    store.withdraw(model.id, "only its form was needed")
    action = replace(model.action, run_id="run-2")
    return store.create_request(replace(model, id="c3" * 16, idempotency_key="d4" * 32, action=action))


def shown(store: SQLiteStore, request: ApprovalRequest) -> str:
    return next((each.shown for each in store.surfaces.presentations("board", request_id=request.id)), "")


def test_it_is_said_only_when_it_is_certain(store: SQLiteStore, left: ApprovalRequest, agent: int) -> None:
    store.reconcile()
    assert not store.get(left.id).abandoned
    os.kill(agent, signal.SIGSTOP)  # it does not answer, and is there
    store.reconcile()
    assert not store.get(left.id).abandoned
    assert GONE not in as_text(present(store.get(left.id)))
    kill(agent)
    store.reconcile()
    found = store.get(left.id)
    assert (found.state, found.abandoned) == ("pending", True)
    assert GONE in as_text(present(found))
    assert [each.id for each in store.requests(state="pending") if each.abandoned] == [left.id]
    (place,) = [Outcome(found).mark]
    assert place == "pending 0 0 abandoned"
    store.expire(left.id)
    assert not store.get(left.id).abandoned  # nothing can come of it any more
    assert store.verify().intact


def test_what_shows_it_is_brought_up_to_date_and_again_when_an_agent_adopts_it(
    store: SQLiteStore, left: ApprovalRequest, agent: int, serve: Callable[..., object]
) -> None:
    serve()
    until(lambda: shown(store, left) == "pending 0 0", "the delivery")
    kill(agent)
    store.reconcile()
    until(lambda: shown(store, left) == "pending 0 0 abandoned", "that it is gone")
    assert store.get(left.id).state == "pending"  # nothing was decided for it
    store.open_run(Run("run-3", "agent", "instance", "os:1000:starter", "/srv/app"))
    again = replace(left, id="e5" * 16, action=replace(left.action, run_id="run-3"))
    assert store.create_request(again, team()).id == left.id
    until(lambda: shown(store, left) == "pending 0 0", "that somebody is there again")
    assert not store.get(left.id).abandoned
    assert store.verify().intact


def test_a_run_that_ends_leaves_none(store: SQLiteStore, ask: Callable[..., ApprovalRequest], tmp_path: Path) -> None:
    request = ask()
    store.close_run("run-1", "finished")
    found = store.get(request.id)
    assert (found.state, found.abandoned) == ("withdrawn", False)
