"""kill -9 at every step from the ask to the outcome: nothing acknowledged is lost, and nothing runs twice.

One store for all rounds, as on a machine where an agent dies again and again. Every other command needs two approvals;
then come commands that the policy itself allows, which are judged and started in one transaction.
"""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Approver, Denial, Outcome, Permit
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.store.access import open_store
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.store.statements import Ledger
from humanlayer_agent.testing.approvers import POLICY_DIGEST, ScriptedApprovers, answer
from tests.support import extent
from tests.support.keys import make_key, open_key

STORES = ("sqlite", "postgres")
BY_ADDRESS = True

ANN, BOB = Approver("os:1:ann", "terminal", "terminal"), Approver("slack:T/U", "slack", "chat")
TEAM = Authority(
    (Person("ann", ("os:1",)), Person("bob", ("slack:T/U",))),
    {
        "one": ApprovalRule("one", ("ann", "bob"), solo=True),
        "two": ApprovalRule("two", ("ann", "bob"), quorum=2, solo=True),
    },
)
ASKED, ALLOWED = ("create_request", "decide", "permit", "consume", "finish"), ("admit", "finish")
CALLS = (*ASKED, "admit")


def stops(calls: tuple[str, ...]) -> list[str]:
    """Every step of these calls, and of the command between the last two."""
    steps = [f"{when} {call}" for call in calls for when in ("before", "inside", "after")]
    return [*steps[:-3], "before execute", "after execute", *steps[-3:]]


STOPS = stops(ASKED)
EVERY = [*(("one", stop) for stop in STOPS), *(("two", stop) for stop in STOPS),
         *(("free", stop) for stop in stops(ALLOWED))]  # fmt: skip
ROUNDS = 100 if extent.SOAK else len(EVERY)
"""Once with one approval, once with two, once with none, at every step."""


class Stepping:
    """A store that says where it is, and what it has acknowledged."""

    def __init__(self, store: SQLiteStore, say: Callable[..., None]) -> None:
        self.store, self.say, self.inside = store, say, ""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)
        if name not in CALLS:
            return method

        def call(*args: Any, **fields: Any) -> Any:
            self.say(f"before {name}")
            self.inside = name
            result = method(*args, **fields)
            self.inside = ""
            self.say(f"after {name}", acknowledged=_acknowledged(name, args, result))
            return result

        return call


def _acknowledged(name: str, args: tuple[Any, ...], result: Any) -> str:
    """The id of what the store has said is done; "" where it has refused."""
    match name:
        case "decide":
            return str(args[1].decision_id) if result.outcome == "recorded" else ""
        case "consume":
            return str(getattr(result, "permit_id", ""))
        case "finish":
            return str(args[0]) if result else ""
    return str(getattr(result, "id", ""))


class Human:
    """Ann, at the terminal."""

    name = "terminal"

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer:
        return answer(request, self.kind, approver=ANN)


class Director:
    def evaluate(self, action: Action) -> PolicyDecision:
        needs = action.content.split()[0]
        if needs == "free":
            return PolicyDecision(Verdict.ALLOW, "allows", "test", POLICY_DIGEST)
        return PolicyDecision(Verdict.ASK, "asks", "test", POLICY_DIGEST, route=needs)


def halting(method: Callable[..., Any], store: Stepping) -> Callable[..., Any]:
    """A step of a transaction that is written, and not committed."""

    def call(*args: Any, **fields: Any) -> Any:
        result = method(*args, **fields)
        if store.inside:
            store.say(f"inside {store.inside}")
        return result

    return call


def agent(path: Path, key: Path, marker: Path, command: str, kind: Any, stop: str, out: int, wait: int) -> None:
    """One life of the agent, up to `stop`; there it waits for its end."""

    def say(step: str, acknowledged: str = "") -> None:
        os.write(out, f"{json.dumps([step, acknowledged])}\n".encode())
        if step == stop:
            os.read(wait, 1)

    store = Stepping(open_store(path), say)
    for name in ("append", "issue"):
        setattr(Ledger, name, halting(getattr(Ledger, name), store))
    signer = open_key(key)
    hub = ScriptedApprovers(TEAM, signer)

    def second(seconds: float) -> None:
        """While the first waits for others, Bob answers too."""
        (request,) = store.requests(state="pending")
        hub.vote(store, request, kind, BOB)

    gate = Gate(
        Director(), store, Human(kind), authority=TEAM.trusting(signer.fingerprint), signer=signer, sleep=second,
        instance="the agent", requester="os:1:ann",
    )  # fmt: skip
    action = Action(command, cwd="/", project="/")
    permit = gate.admit(action)
    if isinstance(permit, Permit) and (permit.started or gate.start(permit, action) is None):
        say("before execute")
        with marker.open("a") as file:
            file.write(f"{permit.id} {command}\n")
        say("after execute", permit.id)
        gate.finish(permit, Outcome(0))
    assert kind == "approve" or isinstance(permit, Denial)
    say("end")


def live(*arguments: Any, stop: str) -> list[tuple[str, str]]:
    """Fork an agent, kill it where it stops, and return what it said."""
    (reading, out), (wait, waiting) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reading)
            os.close(waiting)
            agent(*arguments, stop, out, wait)
            status = 0
        finally:
            os._exit(status)
    os.close(out)
    os.close(wait)
    said: list[tuple[str, str]] = []
    with os.fdopen(reading) as stream:
        for line in stream:
            step, acknowledged = json.loads(line)
            said.append((step, acknowledged))
            if step == stop:
                os.kill(pid, signal.SIGKILL)
    os.close(waiting)
    _, status = os.waitpid(pid, 0)
    assert (os.WTERMSIG(status) == signal.SIGKILL) if stop else status == 0, said
    return said


def test_killed_at_every_step(tmp_path: Path) -> None:
    path, key, marker = tmp_path / "store", tmp_path / "key", tmp_path / "marker"
    make_key(key)
    marker.touch()
    acknowledged: dict[str, list[str]] = {call: [] for call in (*CALLS, "execute")}
    for number in range(0, ROUNDS, extent.some(1, here=3)):
        needs, stop = EVERY[number % len(EVERY)]
        command = f"{needs} {number}"
        said = live(path, key, marker, command, "approve", stop=stop)
        assert said[-1][0] == stop
        ran = sum(f" {command}\n" in line for line in marker.open())
        assert ran == (stop in STOPS[STOPS.index("after execute") :]), stop
        # It is started again, and proposes the same; now nobody approves it any more.
        again = command if needs != "free" else f"one {number}"
        said += live(path, key, marker, again, "reject", stop="")
        assert sum(f" {command}\n" in line for line in marker.open()) == ran, stop
        for step, what in said:
            if what:
                acknowledged[step.split()[1]].append(what)

    store = open_store(path)
    store.reconcile()
    found = store.verify()
    assert found.intact, found
    known: dict[str, Counter[str]] = {}
    for entry in store.events():
        event = entry.event
        for kind, name in (("request.created", "request"), ("vote.recorded", "decision_id"), ("exec.started", "permit"),
                           ("exec.finished", "permit"), ("exec.unknown", "permit")):  # fmt: skip
            if event["type"] == kind:
                known.setdefault(kind, Counter())[event[name]] += 1
    assert set(acknowledged["create_request"]) <= set(known["request.created"])
    assert set(acknowledged["decide"]) <= set(known["vote.recorded"])
    assert {*acknowledged["consume"], *acknowledged["admit"]} <= set(known["exec.started"])
    assert set(acknowledged["finish"]) <= set(known["exec.finished"])
    assert set(acknowledged["permit"]) <= {row[0] for row in store._database._open().execute("SELECT id FROM permit")}
    executed = Counter(line.split()[0] for line in marker.open())
    assert set(acknowledged["execute"]) <= set(executed)
    assert set(executed) <= set(known["exec.started"]), "nothing ran that was not written before"
    assert set(executed.values()) == {1}
    ended = known["exec.finished"] + known["exec.unknown"]
    assert ended == known["exec.started"]
    assert set(ended.values()) == {1}
    assert len(executed) < len(known["exec.started"]), "some died between the permit and the command"
