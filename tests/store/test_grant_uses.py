"""What a grant has let through, as people are shown it: from the log, without the secrets in it."""

from pathlib import Path

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Permit
from humanlayer_agent.policy.director import Director
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker

TOKEN = "ghp_" + "a1B2" * 9


def test_each_use_names_what_ran(tmp_path: Path) -> None:
    """Another run between them is not mistaken for it."""
    store = SQLiteStore(tmp_path / "store.sqlite3")
    director = Director.load("default", project="/srv/app")
    gate = Gate(director, store, ScriptedAsker([("grant", "hour")]), run_id="one")
    other = Gate(director, store, ScriptedAsker(), run_id="two")

    def run(gate: Gate, command: str) -> Permit:
        permit = gate.check(Action(command, cwd="/srv/app", project="/srv/app"))
        assert isinstance(permit, Permit)
        return permit

    run(gate, "curl https://example.org/first")
    (grant,) = store.grants.given()
    assert store.grants.uses(grant.id) == []
    run(gate, f"curl https://example.org/a/{TOKEN}")
    run(other, "ls")
    run(other, "curl -s https://example.org/b")
    run(gate, "ls")
    uses = store.grants.uses(grant.id)
    assert [(use.use, use.run, use.command[:26]) for use in uses] == [
        (1, "one", "curl https://example.org/a"),
        (2, "two", "curl -s https://example.or"),
    ]
    assert not any(TOKEN in use.command for use in uses)
    assert store.grants.uses("0" * 32) == []
