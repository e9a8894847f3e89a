"""Real processes: one use that is left is had by one, and a revoked grant lets nothing through once it is revoked."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person
from humanlayer_agent.approvals.model import ApprovalRequest, Approver, Run
from humanlayer_agent.policy.decision import Limits, PolicyDecision, Verdict
from humanlayer_agent.processes.identity import identity
from humanlayer_agent.store.access import open_store
from humanlayer_agent.store.sqlite import SQLStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST, ScriptedApprovers
from tests.support import children, extent
from tests.support.granting import READ
from tests.support.keys import make_key, open_key

STORES = ("sqlite", "postgres")
BY_ADDRESS = True
ROUNDS = extent.some(60, 8, soak=200)
AGENTS = 6
PEOPLE = (Person("alice", ("os:1000:alice",)), Person("bob", ("os:2:bob",)))
RULES = {"default": ApprovalRule("default", ("bob",))}
BOB = Approver("os:2:bob", "terminal", "terminal")

if extent.SOAK:
    pytestmark = pytest.mark.timeout(3_600)

AGENT = """
import json, sys
from pathlib import Path
from humanlayer_agent.approvals.model import Execution, Permit
from humanlayer_agent.processes import identity
from tests.approvals.test_grant_races import asked, approvers
from humanlayer_agent.store.access import open_store

path, key, limit = sys.argv[1], Path(sys.argv[2]), int(sys.argv[4])
identity.identity = lambda pid=None: sys.argv[3]  # whoever is not the run's own process is refused before the race
store, team = open_store(path, busy_ms=600_000), approvers(key)

def one(number):
    action, decision = asked(number, limit)
    permit = store.grants.use(
        action, decision, action.digest(decision.policy_digest),
        requester="os:1000:alice", authority=lambda: team.authority, use_by_ms=600_000,
    )
    if permit is None:
        return False
    return isinstance(store.consume(permit, permit.digest, team.authority), Execution)
"""

RACE = (
    AGENT
    + """
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps([number for number in range(int(sys.argv[5])) if one(number)]))
"""
)

FULL_SPEED = (
    AGENT
    + """
print("ready", flush=True)
sys.stdin.readline()
ran = 0
while store.grants.given(active=True):
    for number in range(int(sys.argv[5])):
        ran += one(number)
print(json.dumps(ran))
"""
)


def approvers(key: Path) -> ScriptedApprovers:
    return ScriptedApprovers(Authority(PEOPLE, RULES), open_key(key))


def asked(number: int, limit: int) -> tuple[Action, PolicyDecision]:
    """The action of a round: each has a project of its own."""
    project = f"/srv/{number}"
    action = Action("cat x", cwd=project, project=project, run_id="run-1", agent="agent")
    ask = replace(READ, limits=Limits(max_uses=limit))
    return action, PolicyDecision(Verdict.ASK, "asks", "test", POLICY_DIGEST, asks=(ask,))


Child = subprocess.Popen[str]


@pytest.fixture
def race(path: Path, tmp_path: Path, draft: Callable[..., ApprovalRequest]) -> Iterator[Callable[..., Any]]:
    """A store with a grant for each round, of so many uses; and agents that wait to begin."""
    key, started = tmp_path / "key", list[Child]()
    store = open_store(path, busy_ms=600_000)
    make_key(key)
    store.open_run(Run("run-1", "agent", "instance", "os:1000:alice"))

    def begin(program: str, limit: int) -> tuple[SQLStore, list[str], list[Child]]:
        grants = []
        for number in range(ROUNDS):
            action, decision = asked(number, limit)
            made = replace(
                draft("x", ttl=10**12),
                action=action,
                decision=decision,
                digest=action.digest(POLICY_DIGEST),
                body=action.body(POLICY_DIGEST),
                rule=RULES["default"],
            )
            request = store.create_request(made)
            assert approvers(key).vote(store, request, "approve", BOB, scope="action").state == "approved"
            grants.append(request.id)
        for _ in range(AGENTS):
            child = children.Popen(
                [sys.executable, "-c", program, *map(str, (path, key, identity(), limit, ROUNDS))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            started.append(child)
        for child in started:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        return store, grants, started

    yield begin
    for child in started:
        child.kill()
        child.communicate()
    store.close()


def go(agents: list[Child]) -> None:
    for child in agents:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()


def told(agents: list[Child]) -> list[Any]:
    outputs = [child.communicate()[0] for child in agents]
    assert [child.returncode for child in agents] == [0] * len(agents)
    return [json.loads(output) for output in outputs]


@pytest.mark.long
def test_one_use_is_left(race: Callable[..., Any]) -> None:
    store, grants, agents = race(RACE, 1)
    go(agents)
    wins = Counter(number for won in told(agents) for number in won)
    assert wins == dict.fromkeys(range(ROUNDS), 1), "each by one"
    assert Counter(entry.event["grant"] for entry in store.events(type="grant.used")) == dict.fromkeys(grants, 1)
    assert len(list(store.events(type="exec.started"))) == ROUNDS
    found = store.verify()
    assert found.intact, found


@pytest.mark.long
def test_one_use_is_left_and_some_are_killed(race: Callable[..., Any]) -> None:
    """kill -9 wherever they are: a use may be lost, and is never had twice."""
    store, grants, agents = race(RACE, 1)
    go(agents)
    for child in agents[:3]:
        child.kill()
        child.wait()
    wins = Counter(number for won in told(agents[3:]) for number in won)
    assert not wins or max(wins.values()) == 1
    used = Counter(entry.event["grant"] for entry in store.events(type="grant.used"))
    assert used == dict.fromkeys(grants, 1)
    assert len(list(store.events(type="exec.started"))) <= ROUNDS
    found = store.verify()
    assert found.intact, found


def test_once_it_is_revoked_it_lets_nothing_through(race: Callable[..., Any]) -> None:
    """Agents at full speed, and one grant after the other is taken back: the log has the order of it all."""
    store, grants, agents = race(FULL_SPEED, 50)
    go(agents)
    for grant in grants:
        assert store.grants.revoke(grant, "os:2:bob")
    ran = sum(told(agents))
    of: dict[str, str] = {}
    revoked: set[str] = set()
    started = 0
    for entry in store.events():
        event = entry.event
        if event["type"] == "grant.used":
            assert event["grant"] not in revoked, "used after it was revoked"
            of[event["permit"]] = event["grant"]
        elif event["type"] == "grant.revoked":
            revoked.add(event["grant"])
        elif event["type"] == "exec.started":
            assert of[event["permit"]] not in revoked, "ran after its grant was revoked"
            started += 1
    assert revoked == set(grants)
    assert started == ran
    found = store.verify()
    assert found.intact, found
