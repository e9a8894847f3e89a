"""Agents, hubs and humans as processes of their own; hubs are killed with -9 at any moment."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from humanlayer_agent.hub import lease
from humanlayer_agent.processes.identity import pid_of
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.patience import until
from humanlayer_agent.testing.scripted_channel import Board
from tests.hub.conftest import ALICE, BOB
from tests.support import children, extent
from tests.support.keys import make_key

COMMON = """
import json, sys
from pathlib import Path
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person, Step
from tests.support.keys import open_key
from humanlayer_agent.processes.identity import pid_of
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.scripted_channel import Board, ScriptedChannel

folder = Path(sys.argv[1])
signer = open_key(folder / "key")
store = SQLiteStore(folder / "store.sqlite3", busy_ms=600_000)
people = (Person("alice", ("email:alice@example.com",)), Person("bob", ("email:bob@example.com",)),
          Person("starter", ("os:1000:starter",)))
rule = ApprovalRule(
    "default", ("alice", "bob"), steps=(Step("board"),), timeout_ms=int(sys.argv[2]), valid_for_ms=600_000
)
authority = Authority(people, {"default": rule}, {signer.fingerprint})
"""

AGENT = (
    COMMON
    + """
from tests.support.asking_agent import ask_often

told = ask_often(store, authority, sys.argv[3], int(sys.argv[4]), requester="os:1000:starter")
print(json.dumps(told))
"""
)

HUB = (
    COMMON
    + """
from humanlayer_agent.hub import lease
from humanlayer_agent.hub.hub import Hub

lease.TTL = float(sys.argv[3])
hub = Hub(store, ["board"], lambda name: ScriptedChannel(Board(folder / "board"), name), authority, signer)
hub.start()
print("started", flush=True)
sys.stdin.read()
hub.close()
"""
)


class Machines:
    """The processes of a test."""

    def __init__(self, folder: Path, timeout_ms: int) -> None:
        self.folder = folder
        self._timeout = str(timeout_ms)
        self._all: list[subprocess.Popen[str]] = []
        make_key(folder / "key")
        self.board = Board(folder / "board")
        self.store = SQLiteStore(folder / "store.sqlite3", busy_ms=600_000)

    def agent(self, name: str, count: int) -> subprocess.Popen[str]:
        return self._start(AGENT, name, str(count))

    def hub(self, ttl: float = lease.TTL) -> subprocess.Popen[str]:
        """A hub that is up. `ttl`: seconds that its lease holds where it does not renew it."""
        started = self._start(HUB, str(ttl))
        assert started.stdout is not None
        assert started.stdout.readline() == "started\n"
        return started

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", program, str(self.folder), self._timeout, *arguments]
        environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        process = children.Popen(argv, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._all.append(process)
        return process

    def holder(self) -> int:
        """The pid of the process that serves the board; 0 where none does."""
        lease = self.store.surfaces.lease("board")
        return pid_of(lease.process) or 0 if lease else 0

    def standing(self) -> str:
        """Who still waits for what, and which messages have buttons: for what a wait in vain says."""
        lines = [f"the board is served by {self.holder()}; processes: {[(one.pid, one.poll()) for one in self._all]}"]
        lines += [f"not acknowledged: {given}" for given in self.board.answers()]
        open_to = {message["request"] for message in self.board.messages() if message["offers"]}
        for request in self.store.requests():
            if request.state != "pending" and request.id not in open_to:
                continue
            lines.append(f"{request.id} is {request.state}, {len(self.store.votes(request.id))} votes")
            surfaces = self.store.surfaces
            lines += [f"  {each}" for each in surfaces.deliveries(request.id)]
            lines += [f"  {each}" for each in surfaces.presentations("board", request_id=request.id)]
            lines += [f"  {each}" for each in self.board.messages(request.id)]
            lines += [f"  {each.event}" for each in self.store.events(request=request.id)]
        return "\n".join(lines)

    def close(self) -> None:
        for process in self._all:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self.store.close()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Callable[..., Machines]]:
    made: list[Machines] = []

    def make(timeout_ms: int = 600_000) -> Machines:
        made.append(Machines(tmp_path, timeout_ms))
        return made[-1]

    yield make
    for each in made:
        each.close()


class Humans:
    """They answer whatever waits, somehow, and sometimes twice."""

    def __init__(self, board: Board, seed: int) -> None:
        self._board = board
        self._random = random.Random(seed)
        self._answered: set[str] = set()

    def look(self) -> int:
        """Answer some of what waits; how many messages were answered by now."""
        for message in self._board.messages():
            if message["id"] in self._answered or not message["offers"] or self._random.random() < 0.5:
                continue
            for _ in range(self._random.choice((1, 1, 2))):
                kind = self._random.choice(("approve", "approve", "reject"))
                self._board.answer(message["id"], kind, self._random.choice((ALICE, BOB)))
            self._answered.add(message["id"])
        return len(self._answered)


AGENTS, EACH, KILLS = (4, 25, 10) if extent.ALL else (3, 8, 3)


@pytest.mark.long
def test_hubs_that_are_killed_lose_no_decision_and_leave_no_button(machines: Callable[..., Machines]) -> None:
    """Agents with many requests, two hubs, and again and again the one that serves the channel is killed with -9."""
    world = machines()
    hubs = [world.hub(), world.hub()]
    agents = [world.agent(f"agent{n}", EACH) for n in range(AGENTS)]
    humans = Humans(world.board, seed=9)
    until(lambda: len(world.board.messages()) > 5, "the first messages")
    for kill in range(KILLS):
        for _ in range(random.Random(kill).randrange(1, 20)):
            humans.look()
        pid = until(world.holder, "a hub that serves the board")
        os.kill(pid, signal.SIGKILL)
        (dead,) = [hub for hub in hubs if hub.pid == pid]
        dead.wait()
        hubs.remove(dead)
        until(lambda dead=dead: world.holder() not in (0, dead.pid), "the other hub")
        hubs.append(world.hub())
    until(
        lambda: humans.look() and all(agent.poll() is not None for agent in agents),
        world.standing,
        progress=lambda: len(list(world.store.events())),  # each of some thousand waits for the disk
    )
    told = [tuple(each) for agent in agents for each in json.loads(agent.communicate()[0]).values()]

    requests = world.store.requests()
    assert len(told) == len(requests) == AGENTS * EACH
    states = Counter(request.state for request in requests)
    assert set(states) == {"approved", "rejected"}, (states, Counter(what for _, what in told))
    assert Counter(len(world.store.votes(request.id)) for request in requests) == {1: len(requests)}
    ran = {request_id for request_id, what in told if what == "ran"}
    assert ran == {request.id for request in requests if request.state == "approved"}
    assert len(list(world.store.events(type="exec.started"))) == len(ran)
    until(lambda: not any(message["offers"] for message in world.board.messages()), world.standing)
    for request in requests:
        (who,) = [vote.person for vote in world.store.votes(request.id)]
        said = {message["state"] for message in world.board.messages(request.id)}
        until(
            lambda request=request, who=who: (
                {  # type: ignore[misc]
                    message["state"] for message in world.board.messages(request.id)
                }
                == {f"{request.state} by {who}"}
            ),
            f"{said}",
        )
    assert len(list(world.store.events(type="lease.taken"))) >= KILLS + 1
    assert world.store.verify().intact


@pytest.mark.long
def test_a_hub_that_is_stopped_gives_way_too(machines: Callable[..., Machines]) -> None:
    """It is there, and does nothing: its lease runs out. When it wakes up it sees that another serves the channel."""
    world = machines()
    first = world.hub(ttl=1.5)
    until(lambda: world.holder() == first.pid, "the first hub")
    second = world.hub()
    with world.store.database.write():  # stopped while it writes itself, it would keep everybody from writing
        os.kill(first.pid, signal.SIGSTOP)
        os.waitpid(first.pid, os.WUNTRACED)
    try:
        until(lambda: world.holder() == second.pid, "the second hub")
    finally:
        os.kill(first.pid, signal.SIGCONT)
    agent = world.agent("agent", 3)
    humans = Humans(world.board, seed=1)
    until(lambda: humans.look() == 3 and agent.poll() is not None, "the end of the agent")
    assert len(world.board.messages()) == 3
    assert world.holder() == second.pid


def test_with_no_hub_at_all_the_deadline_denies(machines: Callable[..., Machines]) -> None:
    world = machines(timeout_ms=1_500)
    agent = world.agent("agent", 1)
    out, _ = agent.communicate()
    ((_, reason),) = json.loads(out).values()
    assert reason == (
        "a human must approve this, and nobody answered within 1 s (board: no process serves it: start hla hub)"
    )


def test_with_a_channel_that_is_down_the_deadline_denies_and_says_why(machines: Callable[..., Machines]) -> None:
    world = machines()
    world.hub()
    world.board.fault = "down"
    agent = world.agent("agent", 1)
    (request,) = until(lambda: world.store.requests(state="pending"), "the request")
    until(lambda: any(each.why for each in world.store.surfaces.deliveries(request.id)), "a delivery that failed")
    world.store.expire(request.id)  # as the hub does at the deadline
    out, _ = agent.communicate()
    ((request_id, reason),) = json.loads(out).values()
    assert "board: the board can't be reached" in reason
    assert [request.state for request in world.store.requests()] == ["expired"]
    assert request_id
