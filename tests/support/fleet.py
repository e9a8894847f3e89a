"""Machines of a fleet on one store: each a process with an id, folders and a clock of its own, with agents or with a hub.

    python -m tests.support.fleet '{"role": "agents", ...}'

Agents say at the end what they were told, as one line of JSON; a hub serves the board until it is ended.
"""

import json
import os
import random
import sys
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

REQUESTER = "os:1000:starter"
PEOPLE = ("email:alice@example.com", "email:bob@example.com")


def set_clock(seconds: float) -> None:
    """Have the wall clock of this process be wrong by so much, for whoever reads it from here on."""
    wall, wall_ns = time.time, time.time_ns
    time.time = lambda: wall() + seconds
    time.time_ns = lambda: wall_ns() + int(seconds * 1e9)


def team(fingerprint: str) -> Any:
    """Alice and Bob may approve, by answers that one key vouches for."""
    from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person, Step

    people = (Person("alice", PEOPLE[:1]), Person("bob", PEOPLE[1:]), Person("starter", (REQUESTER,)))
    rule = ApprovalRule("default", ("alice", "bob"), steps=(Step("board"),), timeout_ms=600_000, valid_for_ms=600_000)
    return Authority(people, {"default": rule}, {fingerprint})


class Agents:
    """The agents of a machine: each with a run and connections of its own, at moments of its own.

    What is approved or allowed "runs" by a line in a file: the request, "" where nobody was asked, and the permit.
    """

    def __init__(self, about: dict[str, Any]) -> None:
        self._about = about
        self._lock = threading.Lock()
        self._ran = os.open(about["ran"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.told: dict[str, Any] = {"allowed": [], "permits": [], "refused": [], "denials": Counter()}

    def work(self) -> dict[str, Any]:
        """Work for so many seconds; returns what they were told."""
        names = [f"{self._about['name']}-{number}" for number in range(self._about["agents"])]
        ready = threading.Barrier(len(names))
        threads = [threading.Thread(target=self._agent, args=(name, ready)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.told

    def _agent(self, name: str, ready: threading.Barrier) -> None:
        from humanlayer_agent.approvals.gate import Gate
        from humanlayer_agent.errors import StoreError
        from humanlayer_agent.policy.decision import Verdict
        from humanlayer_agent.store.access import open_store
        from humanlayer_agent.testing.approvers import ScriptedDirector
        from humanlayer_agent.testing.patience import until

        moments = random.Random(name)
        director = ScriptedDirector({"deploy": Verdict.ASK})
        with closing(open_store(self._about["url"], busy_ms=10_000)) as store:
            gate = Gate(
                director, store, None, agent=name, requester=REQUESTER, instance=name, max_denials=0,
                authority=team(self._about["key"]), use_by_ms=60_000,
            )  # fmt: skip
            self._do(gate, f"ls {name}")  # the run begins
            ready.wait()
            with self._lock:
                self.told["allowed"].clear()  # all begin at once, which is none of what is measured
            end, number = time.monotonic() + self._about["seconds"], 0
            pause = threading.Event()
            while not pause.wait(moments.expovariate(self._about["rate"])) and time.monotonic() < end:
                number += 1
                asks = moments.random() < self._about["asked"]
                self._do(gate, f"make deploy {name} {number}" if asks else f"ls {name} {number}")

            def closed() -> bool:
                with suppress(StoreError):
                    gate.close()
                    return True
                return False

            until(closed, "that the run is closed")

    def _do(self, gate: Any, command: str) -> None:
        from humanlayer_agent.action import Action
        from humanlayer_agent.approvals.model import Outcome, Permit

        action = Action(command, cwd="/srv/app", project="/srv/app")
        start = time.perf_counter()
        found = gate.admit(action)
        took = (time.perf_counter() - start) * 1e3
        denial = found if not isinstance(found, Permit) else None
        if isinstance(found, Permit) and not found.started:
            denial = gate.start(found, found.action)
        with self._lock:
            if denial is not None:
                self.told["denials"][denial.reason[:200]] += 1
                self.told["refused"].append(denial.request_id or found.request_id)
            else:
                os.write(self._ran, f"{found.request_id} {found.id}\n".encode())
                self.told["permits"].append(found.id)
                if not found.request_id:
                    self.told["allowed"].append((time.monotonic(), round(took, 2)))
        if denial is None:
            gate.finish(found, Outcome(0))


def serve(about: dict[str, Any]) -> None:
    """Be a hub, until standard input is closed."""
    from humanlayer_agent.hub import lease
    from humanlayer_agent.hub.hub import Hub
    from humanlayer_agent.store.access import open_store
    from humanlayer_agent.testing.scripted_channel import Board, ScriptedChannel
    from tests.support.keys import open_key

    lease.TTL = about["ttl"]
    signer = open_key(Path(about["key_file"]))
    with closing(open_store(about["url"])) as store:
        board = Board(Path(about["board"]))
        hub = Hub(store, ["board"], lambda name: ScriptedChannel(board, name), team(signer.fingerprint), signer)
        hub.start()
        print("started", flush=True)
        sys.stdin.read()
        hub.close()


def main() -> None:
    """Be the machine that the only argument tells of."""
    about = json.loads(sys.argv[1])
    set_clock(about.get("clock", 0))
    if about["role"] == "hub":
        serve(about)
    else:
        print(json.dumps(Agents(about).work()))


if __name__ == "__main__":
    main()
