"""A request whose agent was killed: humans are told, and an agent that is started again may still have it."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.approvals.model import ApprovalRequest, Run
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.channels.contract import Outcome
from humanlayer_agent.channels.plain_text import as_text
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.processes import identity
from humanlayer_agent.store import heartbeats
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
def passing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets so many ms pass by the clock of heartbeats; those of this process, which lives, are written anew."""

    def pass_ms(ms: int) -> None:
        name, now = heartbeats.clock(None)
        monkeypatch.setattr(heartbeats, "clock", lambda db: (name, now + ms))

    return pass_ms


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


def told(store: SQLiteStore, request: ApprovalRequest) -> list[tuple[str, str]]:
    """The ends of a request that the log tells of, each with its reason."""
    found = (entry.event for entry in store.events(request=request.id, type="request"))
    return [(event["type"], event.get("why", "")) for event in found if event["type"] != "request.created"]


def test_nobody_is_asked_any_more_for_an_agent_that_was_killed(
    store: SQLiteStore, left: ApprovalRequest, agent: int, serve: Callable[..., object], passing: Callable[[int], None]
) -> None:
    serve()
    until(lambda: shown(store, left) == "pending 0 0", "the delivery")
    passing(heartbeats.LEFT_MS)  # by itself that closes nothing
    store.reconcile()
    assert store.get(left.id).state == "pending"
    kill(agent)
    store.reconcile()
    found = store.get(left.id)
    assert (found.state, found.abandoned, found.ending) == ("withdrawn", True, "abandoned")
    assert told(store, left) == [("request.withdrawn", "its agent is gone")]
    until(lambda: shown(store, left) == "withdrawn 0 0 abandoned", "that it is closed")
    assert GONE not in as_text(present(found))  # nothing can be approved any more
    assert store.verify().intact


def test_the_same_agent_has_time_to_come_back(
    store: SQLiteStore, left: ApprovalRequest, agent: int, passing: Callable[[int], None]
) -> None:
    kill(agent)
    passing(heartbeats.LEFT_MS // 2)  # and as much as went by on a busy machine
    store.reconcile()
    assert (store.get(left.id).state, store.get(left.id).abandoned) == ("pending", True)
    store.open_run(Run("run-3", "agent", "instance", "os:1000:starter", "/srv/app"))
    again = replace(left, id="e5" * 16, action=replace(left.action, run_id="run-3"))
    assert store.create_request(again, team()).id == left.id
    passing(heartbeats.LEFT_MS * 2)
    store.reconcile()
    assert (store.get(left.id).state, store.get(left.id).abandoned) == ("pending", False)


def test_a_process_that_has_the_pid_of_one_that_is_gone_keeps_nothing_open(
    store: SQLiteStore, left: ApprovalRequest, agent: int, passing: Callable[[int], None], monkeypatch: Any
) -> None:
    """The pid is used again: by a process that started at another time."""
    with monkeypatch.context() as before:
        before.setattr(identity, "_own_start", lambda pid: "1")
        store.open_run(Run("run-4", "agent", "instance", "os:1000:starter", "/srv/app"))
    action = replace(left.action, run_id="run-4")
    other = store.create_request(replace(left, id="f6" * 16, idempotency_key="a7" * 32, action=action))
    passing(heartbeats.LEFT_MS)
    store.reconcile()
    assert (store.get(other.id).ending, store.get(left.id).state) == ("abandoned", "pending")


def test_one_that_is_there_keeps_its_request_whatever_was_thought_of_its_run(
    store: SQLiteStore, left: ApprovalRequest, agent: int, passing: Callable[[int], None]
) -> None:
    """From another container it was not seen, and did not answer: its run was given up there."""
    with store.database.write() as db:
        db.execute("UPDATE run SET state = 'lost', ended = 1 WHERE id = 'run-2'")
    passing(heartbeats.LEFT_MS * 2)
    store.reconcile()
    assert store.get(left.id).state == "pending"
    kill(agent)
    store.reconcile()
    assert store.get(left.id).ending == "abandoned"


def test_what_was_withdrawn_before_its_agent_died_was_not_withdrawn_for_that(
    store: SQLiteStore, left: ApprovalRequest, agent: int, passing: Callable[[int], None]
) -> None:
    store.withdraw(left.id, "the run goes another way")
    until(lambda: now_ms() > (store.get(left.id).decided or 0), "another moment")
    kill(agent)
    passing(heartbeats.LEFT_MS)
    store.reconcile()
    assert (store.get(left.id).state, store.get(left.id).ending) == ("withdrawn", "withdrawn")


def test_a_run_that_ends_leaves_none(store: SQLiteStore, ask: Callable[..., ApprovalRequest], tmp_path: Path) -> None:
    request = ask()
    store.close_run("run-1", "finished")
    found = store.get(request.id)
    assert (found.state, found.abandoned) == ("withdrawn", False)
