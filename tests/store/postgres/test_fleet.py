"""A whole fleet at work, while what it stands on fails: nothing acknowledged is lost, and every approval is used once.

Machines are processes (`tests.support.fleet`). Meanwhile hubs are killed, the database is restarted, the clock of one
machine is ten minutes off, and the network of another is cut. What decisions take is printed beside what they take one
agent with a file at the same time: how much more that is says how busy the machine is, too.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.errors import StoreError
from humanlayer_agent.processes.identity import pid_of
from humanlayer_agent.store.postgres.postgres_store import PostgresStore
from humanlayer_agent.testing.patience import until
from humanlayer_agent.testing.scripted_channel import Board
from tests.support import children, extent
from tests.support.fleet import PEOPLE
from tests.support.keys import make_key
from tests.support.postgres import LocalServer, local_server

CLOCK_OFF_S = 600
_SOCKET = ".s.PGSQL.5432"
_ANEW_S = 5.0


@dataclass(frozen=True)
class Size:
    """How large a fleet is, how long and how often in a second each agent does something, which part of that is asked
    about, and how often what fails.
    """

    machines: int
    agents: int
    seconds: float
    rate: float
    asked: float
    kills: int
    restarts: int
    cut_s: float


SIZE = Size(20, 50, 60, 0.33, 0.15, 5, 2, 8) if extent.SOAK else Size(3, 6, 5, 2.0, 0.4, 1, 1, 1.5)


class Wire:
    """A way to the server that can be cut: then what is sent is swallowed, and nobody is told."""

    def __init__(self, folder: Path, server: Path) -> None:
        self._folder, self._server = folder, server
        self._whole = threading.Event()
        self._whole.set()
        self._open: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / _SOCKET))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        """The address of a store, by this way."""
        return url.replace(f"host={self._server}", f"host={self._folder}")

    def cut(self) -> None:
        self.was_cut = time.monotonic()
        self._whole.clear()

    def mend(self) -> None:
        """Connections that were there are gone; new ones are whole."""
        gone, self._open = self._open, []
        for each in gone:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._whole.set()
        self.was_mended = time.monotonic()

    def close(self) -> None:
        self.mend()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                try:
                    far.connect(str(self._server / _SOCKET))
                except OSError:  # it is being restarted
                    near.close()
                    continue
                self._open += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self._whole.is_set():
                    self._whole.wait()
                    break
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Fleet:
    """The processes of a test, and the humans who answer at the board."""

    def __init__(self, folder: Path, server: LocalServer, url: str) -> None:
        self.url, self.folder, self._server = url, folder, server
        self.board = Board(folder / "board")
        self._key = make_key(folder / "key").fingerprint
        self._random = random.Random(28)
        self._answered: set[str] = set()
        self._all: list[subprocess.Popen[str]] = []
        self.away: list[tuple[float, float]] = []  # when the database was
        self._hubs: list[subprocess.Popen[str]] = []
        self.agents: list[subprocess.Popen[str]] = []

    def machine(self, name: str, agents: int, url: str = "", **about: Any) -> subprocess.Popen[str]:
        """A machine with agents."""
        usual = {"seconds": SIZE.seconds, "rate": SIZE.rate, "asked": SIZE.asked, "ran": str(self.folder / "ran")}
        return self._start(name, role="agents", url=url or self.url, agents=agents, **usual | about)

    def hub(self) -> None:
        """A machine with a hub, which is up."""
        about = {"board": str(self.folder / "board"), "key_file": str(self.folder / "key"), "ttl": 2.0}
        started = self._start(f"hub{len(self._all)}", role="hub", url=self.url, **about)
        assert started.stdout is not None
        assert started.stdout.readline() == "started\n"
        self._hubs.append(started)

    def kill_hub(self) -> None:
        """Kill the hub that serves the board, and start another."""
        pid = until(self._holder, "a hub that serves the board")
        os.kill(pid, signal.SIGKILL)
        (dead,) = [hub for hub in self._hubs if hub.pid == pid]
        dead.wait()
        self._hubs.remove(dead)
        self.hub()

    def restart(self) -> None:
        """Restart the database, as after a crash."""
        begin = time.monotonic()
        self._server.kill()
        self._server.start()
        self.away.append((begin, time.monotonic()))

    def answer(self) -> None:
        """Humans answer what waits, some of it twice."""
        for message in self.board.messages():
            if message["id"] not in self._answered and message["offers"] and self._random.random() < 0.5:
                self._answered.add(message["id"])
                for _ in range(self._random.choice((1, 1, 2))):
                    kind = self._random.choice(("approve", "approve", "approve", "reject"))
                    self.board.answer(message["id"], kind, self._random.choice(PEOPLE))

    def told(self) -> list[dict[str, Any]]:
        """What the agents of each machine were told, once all have ended."""
        running = lambda: [agent for agent in self.agents if agent.poll() is None]  # noqa: E731
        until(
            lambda: (self.answer(), not running())[1], lambda: f"that {len(running())} machines end", progress=running
        )
        assert [agent.returncode for agent in self.agents] == [0] * len(self.agents)
        return [json.loads(agent.communicate()[0]) for agent in self.agents]

    def close(self) -> None:
        for process in self._all:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _start(self, name: str, **about: Any) -> subprocess.Popen[str]:
        home = self.folder / name
        home.mkdir()
        told = json.dumps({"name": name, "key": self._key, **about})
        kinds = ("STATE", "DATA", "CONFIG")
        environ = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[3]),
            **{f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in kinds},
        }
        argv = [sys.executable, "-m", "tests.support.fleet", told]
        process = children.Popen(argv, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._all.append(process)
        return process

    def _holder(self) -> int:
        with suppress(StoreError), closing(PostgresStore(self.url, create=False)) as store:
            lease = store.surfaces.lease("board")
            pid = pid_of(lease.process) or 0 if lease else 0
            return pid if pid in {hub.pid for hub in self._hubs} else 0
        return 0


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[tuple[Fleet, Wire]]:
    with local_server(durable=extent.SOAK, connections=250) as server, server.new_store() as url:
        other = server.folder / "wire"
        other.mkdir()
        made, wire = Fleet(tmp_path, server, url), Wire(other, server.folder)
        try:
            yield made, wire
        finally:
            made.close()
            wire.close()


def p99(taken: list[tuple[float, float]]) -> float:
    """What 99 of 100 do not exceed, in ms."""
    ordered = sorted(milliseconds for _, milliseconds in taken)
    return ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]


@pytest.mark.long
def test_nothing_is_lost_and_every_approval_is_used_once(fleet: tuple[Fleet, Wire], tmp_path: Path) -> None:
    world, wire = fleet
    for _ in range(2):
        world.hub()
    shares = [SIZE.agents // SIZE.machines + (n < SIZE.agents % SIZE.machines) for n in range(SIZE.machines)]
    for number, share in enumerate(shares):
        about: dict[str, Any] = {"clock": CLOCK_OFF_S} if number == 0 else {}
        if number == 1:
            about["url"] = wire.url(world.url)
        world.agents.append(world.machine(f"m{number}", share, **about))
    alone = world.machine("alone", 1, str(tmp_path / "alone.sqlite3"), rate=2.0, asked=0, ran=str(tmp_path / "other"))
    begun = time.monotonic()
    faults: list[tuple[float, Callable[[], object]]] = [
        *(((n + 0.5) / SIZE.kills, world.kill_hub) for n in range(SIZE.kills)),
        *(((n + 0.6) / SIZE.restarts, world.restart) for n in range(SIZE.restarts)),
        (0.4, wire.cut),
        (0.4 + SIZE.cut_s / SIZE.seconds, wire.mend),
    ]
    for share_of_time, fault in sorted(faults, key=lambda each: each[0]):
        while time.monotonic() < begun + share_of_time * SIZE.seconds:
            world.answer()
            time.sleep(0.05)
        fault()
    told = world.told()
    reference = json.loads(alone.communicate()[0])["allowed"]

    ran = [line.split(" ") for line in (world.folder / "ran").read_text().splitlines()]
    refused = {request for each in told for request in each["refused"]}
    with closing(PostgresStore(world.url, create=False)) as store:
        assert store.verify().intact
        started = {entry.event["permit"]: entry.event.get("request") for entry in store.events(type="exec.started")}
        assert {permit for _, permit in ran} == {permit for each in told for permit in each["permits"]}
        assert len({permit for _, permit in ran}) == len(ran), "nothing ran twice"
        assert {(request or None, permit) for request, permit in ran} <= {(r, p) for p, r in started.items()}
        finished = {entry.event["permit"] for entry in store.events(type="exec.finished")}
        assert {permit for _, permit in ran} <= finished
        uses = Counter(request for request in started.values() if request)
        requests = store.requests()
        approved = {request.id for request in requests if request.state == "approved"}
        assert uses.keys() <= approved
        assert set(uses.values()) <= {1}
        assert approved - uses.keys() <= refused, "what was not used, the store could not let run"
        assert all(len(store.votes(request)) == 1 for request in approved)
        assert not [request for request in requests if request.state == "pending"]
        ends = Counter(entry.event["state"] for entry in store.events(type="run.finished"))
        assert ends == {"finished": SIZE.agents}
        events = store.figures().events
    assert uses
    taken = [each for machine in told for each in machine["allowed"]]
    # Once the database or the network is back, all connect anew: that is told apart.
    away = [world.away + [(wire.was_cut, wire.was_mended)] * (number == 1) for number in range(SIZE.machines)]
    calm = [
        each
        for machine, times in zip(told, away, strict=True)
        for each in machine["allowed"]
        if not any(begin < each[0] < end + _ANEW_S for begin, end in times)
    ]
    slowest = sorted(calm, key=lambda each: -each[1])[:6]
    print(f"the slowest in calm times: {[(round(at - begun, 1), took) for at, took in slowest]}")
    print(
        f"{len(taken)} allowed, {len(requests)} asked, {len(uses)} of {len(approved)} approvals used, {events} events"
    )
    print(f"p99 of an allowed decision: {p99(taken)} ms, in calm times ({len(calm)}) {p99(calm)} ms; ", end="")
    print(f"of one agent with a file at the same time: {p99(reference)} ms")
    print(f"the database was away for {[round(end - begin, 1) for begin, end in world.away]} s; denials:")
    for why, count in sum((Counter(each["denials"]) for each in told), Counter()).most_common():
        print(f"{count:6} {why}")
