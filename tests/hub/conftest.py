"""A store, a team with routes, a board with humans, and hubs over them."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person, Step
from humanlayer_agent.approvals.model import ApprovalRequest, Run
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.hub import channel_service
from humanlayer_agent.hub import hub as hub_module
from humanlayer_agent.hub.hub import Hub
from humanlayer_agent.keys.signing import process_signer
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST
from humanlayer_agent.testing.patience import PATIENCE
from humanlayer_agent.testing.scripted_channel import Board, ScriptedChannel

ALICE, BOB, EVE = "email:alice@example.com", "email:bob@example.com", "email:eve@example.com"


def team(*steps: Step, **fields: Any) -> Authority:
    """alice and bob may approve what "os:1000:starter" starts, and the key of this process counts."""
    rule = ApprovalRule("default", ("alice", "bob"), steps=steps or (Step("board"),), **fields)
    people = (Person("alice", (ALICE,)), Person("bob", (BOB,)), Person("starter", ("os:1000:starter",)))
    return Authority(people, {"default": rule}).trusting(process_signer().fingerprint)


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that gets no processor for a while has the time to settle what is left."""
    for module in (hub_module, channel_service):
        monkeypatch.setattr(module, "LAST", PATIENCE)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(tmp_path / "store.sqlite3")
    opened.open_run(Run("run-1", "agent", "instance", "os:1000:starter", "/srv/app"))
    yield opened
    opened.close()


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path / "board")


@pytest.fixture
def ask(store: SQLiteStore) -> Callable[..., ApprovalRequest]:
    """Makes a pending request."""

    def make(
        command: str = "make deploy", *, authority: Authority | None = None, ttl: int = 600_000, age: int = 0
    ) -> ApprovalRequest:
        action = Action(command, cwd="/srv/app", project="/srv/app", run_id="run-1", agent="agent")
        decision = PolicyDecision(Verdict.ASK, "a rule says so", "test", POLICY_DIGEST, rules=("r1",))
        rule = (authority or team()).rule_for(decision)
        now = now_ms() - age
        return store.create_request(
            ApprovalRequest(
                id=secrets.token_hex(16),
                idempotency_key=secrets.token_hex(32),
                digest=action.digest(POLICY_DIGEST),
                body=action.body(POLICY_DIGEST),
                action=action,
                decision=decision,
                requester="os:1000:starter",
                created=now,
                expires=now + ttl,
                valid_for=60_000,
                rule=rule,
                needed=rule.quorum,
            )
        )

    return make


@pytest.fixture
def serve(store: SQLiteStore, board: Board) -> Iterator[Callable[..., Hub]]:
    """Starts a hub for the channel "board"; `said` collects its lines."""
    made: list[Hub] = []

    def start(authority: Authority | None = None, **fields: Any) -> Hub:
        build = fields.pop("build", lambda name: ScriptedChannel(board, name))
        channels = fields.pop("channels", ["board"])
        hub = Hub(fields.pop("store", store), channels, build, authority or team(), process_signer(), **fields)
        made.append(hub)
        hub.start()
        return hub

    yield start
    for hub in made:
        hub.close(PATIENCE)
