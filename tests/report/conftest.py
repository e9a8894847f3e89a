"""Histories to report on: one that a real Gate wrote, and ones that are sealed by hand."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.audit.events import EVENT_TYPES
from humanlayer_agent.policy.director import Director
from humanlayer_agent.store.sqlite import SQLiteStore
from tests.support.history import PROJECT, write_history
from tests.support.sealing import Sealer

START = 1_793_577_600_000


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a short made-up history: three days of a team."""
    path = tmp_path_factory.mktemp("history") / "store.sqlite3"
    director = Director.load("default", project=PROJECT, environ={"HOME": "/home/alice"}, tested=False)
    write_history(path, director, days=3, runs=(1, 2), commands=25, seed=3).close()
    return path


@pytest.fixture
def entries(history: Path) -> list[Entry]:
    store = SQLiteStore(history, create=False)
    found = list(store.events())
    store.close()
    return found


Event = tuple[str, dict[str, Any]]


@pytest.fixture
def sealed() -> Callable[[Sequence[Event]], list[Entry]]:
    """Entries of events given as (type, fields), a second apart (or at the `at` among their fields)."""

    def make(events: Sequence[Event]) -> list[Entry]:
        seal, out = Sealer(), list[Entry]()
        for n, (name, fields) in enumerate((("audit.opened", {"store": "5f" * 16, "version": "1"}), *events)):
            rest = {k: v for k, v in fields.items() if k != "at"}
            at = fields.get("at", START + n * 1000)
            out.append(seal(EVENT_TYPES[name], rest, at=at))
        return out

    return make


@pytest.fixture
def decided() -> Callable[..., Event]:
    def make(command: str, verdict: str, rule: str = "r1", **fields: Any) -> Event:
        said = {"run": "run-1", "agent": "a", "step": 1, "command": command, "cwd": "/srv/app", "project": "/srv/app"}
        said |= {"verdict": verdict, "rule": rule, "rules": [rule], "reason": f"because {rule}", "severity": "high"}
        return "decision.evaluated", said | {"policy": "default", "policy_digest": "d" * 64, "enforced": True} | fields

    return make


@pytest.fixture
def voted() -> Callable[..., Event]:
    def make(request: str, answer: str, outcome: str = "recorded", **fields: Any) -> Event:
        who = {"principal": "slack:T1/U2", "channel": "slack", "assurance": "login"}
        said = {"run": "run-1", "request": request, "answer": answer, "approver": who, "person": "bob", "solo": False}
        said |= {"presented_digest": "e" * 64, "decision_id": "x", "comment": "", "input_mode": "click", "signer": ""}
        return f"vote.{outcome}", said | fields

    return make
