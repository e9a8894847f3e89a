"""What a grant lets through at the Gate: a real policy judges, links are followed, and nothing else is skipped by it."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Denial, Outcome, Permit
from humanlayer_agent.confine.confinement import Bounds, Confinement, Profile
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.director import Director
from humanlayer_agent.testing.approvers import ScriptedAsker

STORES = ("sqlite", "postgres")


@pytest.fixture
def place() -> Iterator[Path]:
    """A project, and places beside it, at the top of the disk: reads are granted below their third folder."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        root = Path(name)
        for folder in ("app", "data", "other"):
            (root / folder).mkdir()
        for file in ("data/x", "data/y", "other/z"):
            (root / file).write_text("text\n")
        (root / "policy.yaml").write_text(
            "version: 1\npolicy: test\ndefaults: {unmatched: allow, maybe: ask}\nrules:\n"
            "  - {id: outside, decision: ask, when: {effect: [read, write], paths: {none_within: ['${PROJECT}/**']}}}\n"
        )
        yield root


Propose = Callable[[str], Permit | Denial]


@pytest.fixture
def gate(place: Path, make_gate: Callable[..., Gate]) -> Callable[..., tuple[Gate, ScriptedAsker, Propose]]:
    """A gate of which the first question is granted for the run, and what it says to a command."""

    def make(scope: str = "run", director: Any = None, **fields: Any) -> tuple[Gate, ScriptedAsker, Propose]:
        asker = ScriptedAsker([("grant", scope), "reject"])
        judge = director or Director.load(str(place / "policy.yaml"), project=str(place / "app"), environ={})
        made = make_gate(director=judge, asker=asker, **fields)

        def propose(command: str) -> Permit | Denial:
            project = str(place / "app")
            return made.check(Action(command.replace("SRV", str(place)), cwd=project, project=project))

        return made, asker, propose

    return make


def test_asked_once(gate: Callable[..., Any]) -> None:
    made, asker, propose = gate()
    first = propose("cat SRV/data/x")
    assert isinstance(first, Permit)
    assert first.granted == ()
    for number in (1, 2):
        permit = propose("grep text SRV/data/y")
        assert isinstance(permit, Permit)
        assert [use.use for use in permit.granted] == [number]
        assert made.start(permit, permit.action) is None
        assert isinstance(made.start(permit, permit.action), Denial), "each permit is good once"
        made.finish(permit, Outcome(0))
    assert len(asker.asked) == 1
    assert isinstance(propose("cat SRV/other/z"), Denial)
    assert len(asker.asked) == 2


def test_a_link_that_leads_elsewhere_when_it_starts(gate: Callable[..., Any], place: Path) -> None:
    made, _, propose = gate()
    propose("cat SRV/data/x")
    permit = propose("cat SRV/data/y")
    assert isinstance(permit, Permit)
    assert permit.granted
    (place / "data/y").unlink()
    (place / "data/y").symlink_to(place / "other/z")
    denial = made.start(permit, permit.action)
    assert isinstance(denial, Denial)
    assert "leads to" in denial.reason
    assert not list(made.store.events(type="exec.started"))


def test_the_same_text_that_does_something_else_now(gate: Callable[..., Any], place: Path) -> None:
    _, asker, propose = gate("action")
    (place / "app/out").symlink_to(place / "data/x")
    assert isinstance(propose("echo x > out"), Permit)
    assert isinstance(propose("echo x > out"), Permit)
    assert len(asker.asked) == 1
    (place / "app/out").unlink()
    (place / "app/out").symlink_to(place / "other/z")
    assert isinstance(propose("echo x > out"), Denial)
    assert len(asker.asked) == 2


def test_another_policy_asks_again(gate: Callable[..., Any], place: Path) -> None:
    made, asker, propose = gate()
    propose("cat SRV/data/x")
    text = (place / "policy.yaml").read_text()
    (place / "policy.yaml").write_text(text.replace("decision: ask,", "decision: ask, reason: Other words,"))
    made.director = Director.load(str(place / "policy.yaml"), project=str(place / "app"), environ={})
    assert isinstance(propose("cat SRV/data/y"), Denial)
    assert len(asker.asked) == 2


def test_what_was_refused_stays_refused(gate: Callable[..., Any]) -> None:
    _, asker, propose = gate()
    propose("cat SRV/data/x")
    assert isinstance(propose("cat SRV/data/y SRV/other/z"), Denial)
    assert isinstance(propose("cat SRV/data/y SRV/other/z"), Denial)
    assert len(asker.asked) == 2


def test_a_policy_that_is_observed_needs_none(gate: Callable[..., Any], place: Path) -> None:
    director = Director.load(str(place / "policy.yaml"), project=str(place / "app"), environ={}, observe=True)
    made, asker, propose = gate(director=director)
    for _ in range(2):
        permit = propose("cat SRV/data/x")
        assert isinstance(permit, Permit)
        assert permit.granted == ()
    assert asker.asked == []
    assert made.store.grants.given() == []


def test_an_edit_is_asked_about(gate: Callable[..., Any], place: Path, make_gate: Callable[..., Gate]) -> None:
    """Who edits a command has seen what they edit: nothing of that is granted."""
    made, _, propose = gate()
    propose("cat SRV/data/x")
    made._asking._asker = other = ScriptedAsker([("edit", f"cat {place}/data/y"), "approve"])
    answered = propose("cat SRV/other/z")
    assert isinstance(answered, Permit)
    assert answered.granted == ()
    assert [request.action.content for request in other.asked] == [f"cat {place}/other/z", f"cat {place}/data/y"]


class Unkept:
    """A keeper that keeps nothing."""

    def keep(self, run: str, confinement: Confinement, bounds: Bounds) -> Any:
        raise OSError("the disk is full")


def test_files_that_could_not_be_kept_are_told_of_all_the_same(gate: Callable[..., Any], place: Path) -> None:
    """That what is lost can't be brought back is no part of what was granted."""
    inner = Director.load(str(place / "policy.yaml"), project=str(place / "app"), environ={})

    class Confined:
        def evaluate(self, action: Action) -> PolicyDecision:
            held = Confinement((Profile("project", write=(f"{place}/app/**",)),))
            decision = inner.evaluate(action)
            return replace(decision, confinement=held, keep=Bounds() if action.content.endswith("/y") else None)

    _, asker, propose = gate(director=Confined(), keeper=Unkept())
    assert isinstance(propose("cat SRV/data/x"), Permit)
    assert isinstance(propose("cat SRV/data/x"), Permit)
    assert len(asker.asked) == 1
    assert isinstance(propose("cat SRV/data/y"), Denial)
    assert len(asker.asked) == 2
    assert "can't be kept" in asker.asked[-1].decision.reason
