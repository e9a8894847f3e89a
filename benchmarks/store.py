"""What the store costs: durable writes against a raw SQLite append in the same run, and look-ups in stores of any size.

    python benchmarks/store.py [--writes N] [--rows 10,1000,100000] [--folder DIR]
    python benchmarks/store.py --agents 50 --rate 0.33 [--seconds 20] [--server postgresql://owner@host/empty_database]

The second form is told of a file, and then of a server, side by side. So many agents are at work at once, each with a
connection of its own, each with so many allowed commands a second at moments of its own, in two processes: how long one
waits until its command may run. Then one to eight processes write as fast as they can (a transaction before a command
runs, and one at its end): transactions a second. Then a human answers in one process what waits in another: how long
after the answer was committed the waiting one has seen it. At last the log is filled up, and verified as a whole.

A raw append is one row of the length of an event, in a file, with the durability of the store (WAL, synchronous=FULL),
by a transaction of its own, once its write-ahead log has been begun anew: as long as that file grows, as it does only
once, each fsync takes twice as long. Against it: a decision of a human on a request that waits (signed, and counted), a
request that is made, and a command that the policy allows, from its judgment (which was made before, and is said at
once) to its end, with what is written before it runs and afterwards. What was judged is what the policy `default` says
of such commands, with all that the store keeps of it. They take turns, so that a busy machine slows all alike; a ratio
is the median of those of the rounds. Every command is another one. Then stores are filled with decided requests, three
events each: how long lists, the inbox, the look-ups of signers and the verification take there. A table goes to
standard error, the same figures as JSON to standard output.
"""

import argparse
import json
import multiprocessing
import random
import secrets
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, cast

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import ApprovalRequest, Outcome, Permit, Run
from humanlayer_agent.audit import events
from humanlayer_agent.audit.verify import Reached
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.director import Director
from humanlayer_agent.store.access import make_store, open_store
from humanlayer_agent.store.log_heads import known_signers, note_signers, signers_at_start
from humanlayer_agent.store.postgres.server import Session, translated
from humanlayer_agent.store.rows import action_fields, decision_fields
from humanlayer_agent.store.sqlite import SQLiteStore, SQLStore
from humanlayer_agent.store.statements import _PLACE, Ledger
from humanlayer_agent.store.transactions import Row
from humanlayer_agent.testing.approvers import TEST_AUTHORITY, ScriptedApprovers, answer

WRITES, ROUNDS = 600, 30
ROWS = (10, 1_000, 100_000)
RAW = "raw append"
ALLOWED = {"decide": 2.0, "create": 2.0, "allowed command": 3.0}
"""How many times a raw append each may take, at the most."""

_PROCESSES = 2
WRITERS = (1, 2, 4, 8)
_ROUNDS = 3
_ANSWERS = 60
_LOG = 100_000  # events, of which the verification is told
_IN_LOG = 1_100  # appends: more than a write-ahead log holds before it is begun anew
_SINCE = 1_000  # events after the last whole verification
_LISTED = 50  # as `hla requests ls` and the inbox show
_PROJECT = "/srv/app"
_REQUESTER = "os:1000:alice"
_ALLOWED = (
    "ls -la src",
    "cd /srv/app && python -m pytest tests/test_api.py -x -q 2>&1 | tail -20",
    "git diff --stat HEAD~1",
    "grep -rn 'def handle' src | head -5",
    "sed -n '1,80p' src/app.py",
)
_ASKED = (
    "git push origin main",
    "rm -rf /srv/data/old",
    "sudo apt-get install -y jq",
    "kubectl delete pod web-1 -n prod",
    "docker system prune -af",
)
_VARIABLES = {"PATH": "/usr/local/bin:/usr/bin:/bin"} | {f"VARIABLE_{n}": f"/home/alice/some/{n}" for n in range(30)}
_TEAM = ScriptedApprovers()


@cache
def director() -> Director:
    """The shipped policy, as it judges where commands run confined."""
    return Director.load("default", project=_PROJECT, confined=True)


@cache
def decision(command: str) -> PolicyDecision:
    """What it says of a command."""
    return director().evaluate(Action(command, cwd=_PROJECT, project=_PROJECT))


class Judged:
    """A Director that has judged before: what is measured is what comes afterwards."""

    def evaluate(self, action: Action) -> PolicyDecision:
        return judged(action)


def judged(action: Action) -> PolicyDecision:
    """What the policy says of an action of ours."""
    return decision(action.content.rpartition(" # ")[0])


def actions(run: str, commands: Sequence[str]) -> Iterator[Action]:
    """Commands of a run, each another one."""
    for number in count():
        command = f"{commands[number % len(commands)]} # {number}"
        yield Action(command, cwd=_PROJECT, project=_PROJECT, run_id=run, agent="bench", env=_VARIABLES)


def draft(action: Action) -> ApprovalRequest:
    """A request about it, that was not made yet."""
    asked, now = judged(action), time.time_ns() // 1_000_000
    rule, body = TEST_AUTHORITY.rule_for(asked), action.body(asked.policy_digest, asked.files)
    return ApprovalRequest(
        id=secrets.token_hex(16), idempotency_key=secrets.token_hex(32), digest=sha256(canonical(body)).hexdigest(),
        body=body, action=action, decision=asked, requester=_REQUESTER, created=now,
        expires=now + 600_000, valid_for=60_000, rule=rule, needed=rule.quorum,
    )  # fmt: skip


def raw(path: Path, length: int) -> Callable[[], None]:
    """Appends a row of so many characters, durably."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE event (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT")

    def append() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO event (body) VALUES (?)", (secrets.token_hex(length // 2),))
        connection.execute("COMMIT")

    log, size = path.with_name(f"{path.name}-wal"), -1
    while log.stat().st_size > size:
        size = log.stat().st_size
        for _ in range(_IN_LOG):
            append()
    return append


class Writes:
    """The three writes, each in turns of so many; what they need is made before the clock goes."""

    def __init__(self, folder: Path) -> None:
        self.store = SQLiteStore(folder / "store.sqlite3")
        self.store.open_run(Run("asked", "bench", "instance", _REQUESTER, "/srv/app"))
        self.gate = Gate(Judged(), self.store, None, run_id="allowed", agent="bench", authority=_TEAM.authority)
        self.asked, self.allowed = actions("asked", _ASKED), actions("allowed", _ALLOWED)
        self.made = list[ApprovalRequest]()
        self.command(next(self.allowed))
        (event,) = self.store.events(type=events.DECISION_EVALUATED.name, last=1)
        self.append = raw(folder / "raw.sqlite3", len(event.body))

    def command(self, action: Action) -> None:
        permit = self.gate.admit(action)
        if not isinstance(permit, Permit) or not permit.started:
            sys.exit(f"not allowed: {permit}")
        self.gate.finish(permit, Outcome(0))

    def create(self, request: ApprovalRequest) -> None:
        self.made.append(self.store.create_request(request, _TEAM.authority))

    def decide(self, request: ApprovalRequest) -> None:
        given = answer(request, "approve")
        if self.store.decide(request.id, given, _TEAM.authority, _TEAM.signer).outcome != "recorded":
            sys.exit("a decision was not recorded")

    def turn(self, share: int) -> "dict[str, Taken]":
        """What one of each takes."""
        drafts = [draft(next(self.asked)) for _ in range(share)]
        commands = [next(self.allowed) for _ in range(share)]
        taken = {RAW: timed(self.append, [()] * share), "create": timed(self.create, [(each,) for each in drafts])}
        taken["decide"] = timed(self.decide, [(each,) for each in self.made[-share:]])
        taken["allowed command"] = timed(self.command, [(each,) for each in commands])
        return taken


Taken = tuple[float, float]
"""Microseconds of time, and of this process's own work."""


def timed(call: Callable[..., None], arguments: list[tuple[Any, ...]]) -> Taken:
    """What a call takes, the medians of these."""
    taken = []
    for each in arguments:
        start, worked = time.perf_counter(), time.process_time()
        call(*each)
        taken.append(((time.perf_counter() - start) * 1e6, (time.process_time() - worked) * 1e6))
    return statistics.median(time for time, _ in taken), statistics.median(work for _, work in taken)


def writes(number: int, folder: Path) -> tuple[dict[str, Taken], dict[str, float]]:
    """What a write takes, and how many times a raw append that is."""
    what = Writes(folder)
    what.turn(1)
    turns = [what.turn(max(1, number // ROUNDS)) for _ in range(ROUNDS)]
    ratios = {name: statistics.median(turn[name][0] / turn[RAW][0] for turn in turns) for name in ALLOWED}
    taken = {}
    for name in turns[0]:
        time, work = (statistics.median(turn[name][each] for turn in turns) for each in (0, 1))
        taken[name] = (round(time, 1), round(work, 1))
    return taken, {name: round(ratio, 2) for name, ratio in ratios.items()}


def filled(store: SQLStore, rows: int) -> None:
    """So many requests that nobody has answered in time. (In few statements: how is not measured.)"""
    run = f"filled {secrets.token_hex(4)}"
    work = actions(run, _ASKED)
    store.open_run(Run(run, "bench", "instance", _REQUESTER, "/srv/app"))
    for begin in range(0, rows, 1_000):
        with store._transaction() as ledger, Together(ledger):
            for _ in range(min(1_000, rows - begin)):
                request(ledger, draft(next(work)))


def request(ledger: Ledger, made: ApprovalRequest) -> None:
    """One that nobody has answered in time."""
    fields = {**action_fields(made.action, made.digest), **decision_fields(made.decision)}
    ledger.append(events.DECISION_EVALUATED, **fields, request=made.id)
    ledger.insert(made)
    row = {"id": made.id, "run_id": made.action.run_id, "digest": made.digest, "created": made.created}
    ledger.settle(cast(Row, row), "expired")


class Together:
    """Has a ledger write at the end, each statement once for all that it was given: a round trip each would take long.

    Nobody else writes meanwhile, so what it asks has the same answer each time; places are counted on from the first.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._true = ledger, ledger._db
        self._writes: dict[str, list[Sequence[Any]]] = {}
        self._known: dict[tuple[str, Sequence[Any]], list[Any]] = {}
        self._places: Iterator[int] = iter(())

    def __enter__(self) -> None:
        (first,) = self._true.execute(_PLACE).fetchone()
        self._places = count(first)
        self._ledger._db = self

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any:
        if statement.startswith(("INSERT", "UPDATE")):
            self._writes.setdefault(statement, []).append(values)
            return Found(1, [])
        if statement == _PLACE:
            return Found(1, [(next(self._places),)])
        if statement.startswith("SELECT 1 FROM request WHERE idempotency_key"):  # each of ours is another one
            return Found(0, [])
        asked = (statement, tuple(values))
        if asked not in self._known:
            self._known[asked] = self._true.execute(statement, values).fetchall()
        return Found(1, self._known[asked])

    def __exit__(self, *failure: object) -> None:
        self._ledger._db = self._true
        if failure[0] is not None:
            return
        for statement, values in sorted(self._writes.items(), key=lambda each: each[0].startswith("UPDATE")):
            if isinstance(self._true, Session):  # which has an event come at the place that it has counted last
                counted = statement.replace("body) VALUES (?", "body) VALUES (setval('audit_event_place', ?)")
                self._true._link.cursor().executemany(translated(counted), values)
            else:
                cast(sqlite3.Connection, self._true).executemany(statement, values)


@dataclass(frozen=True)
class Found:
    """What a statement has found, or changed."""

    rowcount: int
    rows: list[Any]

    def fetchone(self) -> Any:
        return self.rows[0]

    def fetchall(self) -> list[Any]:
        return self.rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)


def reads(rows: int, folder: Path) -> dict[str, float]:
    """Milliseconds that looking takes in a store of so many decided requests."""
    store = SQLiteStore(folder / f"{rows}.sqlite3")
    note_signers(store, _TEAM.authority.signers)
    filled(store, rows)
    with store._transaction() as ledger:
        ledger.append(events.CHANNEL_FAILED, channel="slack", why="it is a benchmark")
        tips = ledger.tips()
        checked = Reached(ledger.write_head(*store._keeper.signer()), tips)
    for _ in range(_SINCE):
        store.record(events.CHANNEL_FAILED, channel="slack", why="it is a benchmark")

    def inbox() -> None:
        store.requests(state="pending")
        store.requests(state="settled", last=_LISTED)

    def signers() -> None:
        known_signers(store)
        signers_at_start(store, "bench", "another instance")

    def since() -> bool:
        found = store.verify(since=checked)
        return found.intact and found.since is not None

    looks: dict[str, tuple[Callable[[], object], int]] = {
        "list": (lambda: store.requests(last=_LISTED), 9),
        "inbox": (inbox, 9),
        "signers": (signers, 9),
        "verify, since": (lambda: _intact(since()), 3),
        "verify, whole": (lambda: _intact(store.verify().intact), 1),
    }
    return {name: round(milliseconds(look, times), 2) for name, (look, times) in looks.items()}


def milliseconds(call: Callable[[], object], times: int) -> float:
    """The median of so many calls."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def _intact(intact: bool) -> None:
    if not intact:
        sys.exit("the log is not intact")


def waits(location: str, agents: int, rate: float, seconds: float) -> dict[str, float]:
    """Milliseconds that agents wait until an allowed command may run."""
    with multiprocessing.get_context("fork").Pool(_PROCESSES) as pool:
        shares = [agents // _PROCESSES + (number < agents % _PROCESSES) for number in range(_PROCESSES)]
        found = pool.starmap(_at_work, [(location, share, rate, seconds, seed) for seed, share in enumerate(shares)])
    taken = sorted(each for share in found for each in share)
    if not taken:
        sys.exit("no agent has done anything: more --seconds")
    return {"commands": len(taken), **_parts(taken, 50, 95, 99)}


def _parts(taken: list[float], *parts: int) -> dict[str, float]:
    """What so many of a hundred do not exceed."""
    ordered = sorted(taken)
    return {f"p{part}": round(ordered[min(len(ordered) - 1, len(ordered) * part // 100)], 1) for part in parts}


def throughput(location: str, writers: int, seconds: float) -> float:
    """Transactions a second of so many processes, each of which begins the next when one is committed."""
    context = multiprocessing.get_context("fork")
    ready, made = context.Barrier(writers, timeout=120), context.SimpleQueue()
    processes = [context.Process(target=_write_on, args=(location, ready, seconds, made)) for _ in range(writers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        sys.exit("a writer has failed")
    return round(sum(made.get() for _ in processes), 1)


def _write_on(location: str, ready: Any, seconds: float, made: Any) -> None:
    run, count = f"writer {secrets.token_hex(8)}", 0
    with (
        closing(open_store(location, busy_ms=60_000)) as store,
        Gate(Judged(), store, None, run_id=run, agent="bench", authority=_TEAM.authority) as gate,
    ):
        commands = actions(run, _ALLOWED)

        def command() -> None:
            permit = gate.admit(next(commands))
            if not isinstance(permit, Permit) or not permit.started:
                sys.exit(f"not allowed: {permit}")
            gate.finish(permit, Outcome(0))

        command()  # the run begins
        ready.wait()
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            command()
            count += 1
        made.put(2 * count / (time.monotonic() - begin))
        ready.wait()  # what ends here slows nobody


def answered(location: str, answers: int) -> dict[str, float]:
    """Milliseconds from the commit of an answer until a process that waits for it has seen it."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_ask_and_wait, args=(location, answers, theirs))
    child.start()
    theirs.close()
    taken, moments = list[float](), random.Random(1)
    with closing(open_store(location)) as store:
        for _ in range(answers):
            request = store.get(ours.recv())
            assert request is not None
            time.sleep(0.05 + moments.random() / 10)  # by now it waits, at any point between two looks
            if (
                store.decide(request.id, answer(request, "approve"), _TEAM.authority, _TEAM.signer).outcome
                != "recorded"
            ):
                sys.exit("a decision was not recorded")
            committed = time.monotonic()
            taken.append(max(0.0, ours.recv() - committed) * 1e3)
    child.join()
    return _parts(taken, 50, 95)


def _ask_and_wait(location: str, answers: int, pipe: Any) -> None:
    """Ask, and wait as any agent does; tell when what was asked is there, and when the answer was seen."""
    run = f"asks {secrets.token_hex(4)}"
    with closing(open_store(location)) as store:
        look, create = store.get, store.create_request
        told = set[str]()

        def seen(request_id: str) -> ApprovalRequest | None:
            found = look(request_id)
            if found is not None and found.state == "approved" and request_id not in told:
                told.add(request_id)
                pipe.send(time.monotonic())
            return found

        def made(*arguments: Any, **named: Any) -> ApprovalRequest:
            request = create(*arguments, **named)
            pipe.send(request.id)
            return request

        store.get, store.create_request = seen, made  # type: ignore[method-assign]
        with Gate(
            Judged(), store, None, run_id=run, agent="bench", requester=_REQUESTER, authority=_TEAM.authority
        ) as gate:
            asked = actions(run, _ASKED)
            for _ in range(answers):
                permit = gate.check(next(asked))
                if not isinstance(permit, Permit):
                    sys.exit(f"not approved: {permit}")


def verified(location: str) -> dict[str, float]:
    """Milliseconds that the whole log takes once it has so many events."""
    with closing(open_store(location)) as store:
        filled(store, max(0, _LOG - store.figures().events) // 3)
        start = time.perf_counter()
        found = store.verify()
        taken = (time.perf_counter() - start) * 1e3
    _intact(found.intact)
    return {"events": found.count, "ms": round(taken, 1)}


def _at_work(location: str, agents: int, rate: float, seconds: float, seed: int) -> list[float]:
    end, taken, failures = time.monotonic() + seconds, list[float](), list[str]()
    ready = threading.Barrier(agents)

    def agent(number: int) -> None:
        moments, run = random.Random(f"{seed} {number}"), f"run {seed} {number}"
        try:
            store = open_store(location, busy_ms=60_000)
            gate = Gate(Judged(), store, None, run_id=run, agent="bench", authority=_TEAM.authority)
            commands = actions(run, _ALLOWED)
            ready.wait()
            while True:
                time.sleep(moments.expovariate(rate))
                if time.monotonic() > end:
                    break
                action = next(commands)
                start = time.perf_counter()
                permit = gate.admit(action)
                took = (time.perf_counter() - start) * 1e3
                if not isinstance(permit, Permit) or not permit.started:
                    failures.append(f"not allowed: {permit}")
                    break
                taken.append(took)
                gate.finish(permit, Outcome(0))
            gate.close()
            store.close()
        except Exception as error:
            failures.append(str(error))
            ready.abort()

    threads = [threading.Thread(target=agent, args=(number,)) for number in range(agents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit(f"{len(failures)} agents have failed: {failures[0]}")
    return taken


def compared(options: argparse.Namespace) -> int:
    """Measure agents at work in a file, and on a server."""
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        stores = {"sqlite": f"{name}/agents.sqlite3"}
        if options.server:
            make_store(options.server)
            stores["postgresql"] = options.server
        for command in (*_ALLOWED, *_ASKED):
            decision(command)

        def each(what: str, measure: Callable[[str], dict[str, float]], rounds: int = 1) -> None:
            """Measure a store and then the other, so often, so that a busy machine slows both; medians."""
            turns = [{kind: measure(location) for kind, location in stores.items()} for _ in range(rounds)]
            for kind in stores:
                part = {name: statistics.median(turn[kind][name] for turn in turns) for name in turns[0][kind]}
                found.setdefault(kind, {})[what] = part
                told = "  ".join(f"{name} {value:,}" for name, value in part.items())
                print(f"{kind:12}{what:24}{told}", file=sys.stderr)

        each("wait_ms", lambda location: waits(location, options.agents, options.rate, options.seconds))
        seconds = options.seconds / _ROUNDS / len(WRITERS)
        each(
            "transactions_a_second",
            lambda location: {str(number): throughput(location, number, seconds) for number in WRITERS},
            _ROUNDS,
        )
        each("answer_seen_ms", lambda location: answered(location, _ANSWERS // _ROUNDS), _ROUNDS)
        each("verify", verified)
    print(json.dumps({"agents": options.agents, "rate": options.rate, **found}))
    return 0


def main() -> int:
    """Measure, and print; 1 where a write takes too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writes", type=int, default=WRITES)
    parser.add_argument("--rows", default=",".join(map(str, ROWS)), help="sizes of stores, of decided requests")
    parser.add_argument("--folder", type=Path, help="on the disk that is to be measured")
    parser.add_argument("--agents", type=int, help="so many agents at work at once, instead of all else")
    parser.add_argument("--rate", type=float, default=0.33, help="allowed commands of each agent in a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--server", help="the address of an empty database, as its owner")
    options = parser.parse_args()
    if options.agents:
        return compared(options)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        taken, ratios = writes(options.writes, Path(name))
        looks = {rows: reads(rows, Path(name)) for rows in map(int, filter(None, options.rows.split(",")))}
    for way, (wall, work) in taken.items():
        times = f"{ratios[way]:>8} times (at most {ALLOWED[way]:g})" if way in ratios else ""
        print(f"{way:18}{wall:>10,.0f} us, {work:>6,.0f} of them work{times}", file=sys.stderr)
    for what in next(iter(looks.values()), {}):
        figures = "".join(f"{each[what]:>12,.2f} ms at {rows:,}" for rows, each in looks.items())
        print(f"{what:18}{figures}", file=sys.stderr)
    print(json.dumps({"us_and_of_work": taken, "times_raw": ratios, "allowed_times": ALLOWED, "rows_ms": looks}))
    return 0 if all(ratios[name] <= limit for name, limit in ALLOWED.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
