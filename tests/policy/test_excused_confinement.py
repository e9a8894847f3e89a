"""What an exception excuses, where commands run confined: it runs as if a human had approved it."""

from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import find, load

POLICY = """
version: 1
policy: p
extends: [builtin:default]
rules:
  - {id: notes, decision: allow, when: {effect: read, paths: {all_within: [/srv/notes/**]}}}
  - {id: reviews, decision: allow, when: {program: gh, subcommand: pr view, effect: network, role: service-read}}
  - {id: api, decision: allow, when: {program: curl, effect: network, hosts: {any_in: [api.example.org]}}}
exceptions:
  - {rule: read-outside-project, when: {paths: {all_within: [/srv/notes/**]}}, reason: y, expires: 2999-01-01}
  - {rule: service-reads, when: {program: gh, subcommand: pr view}, reason: y, expires: 2999-01-01}
  - {rule: network, when: {program: curl, hosts: {any_in: [api.example.org]}}, reason: y, expires: 2999-01-01}
  - {rule: unread-code, when: {program: python3}, reason: y, expires: 2999-01-01}
"""


@pytest.fixture
def directors(tmp_path: Path) -> tuple[Director, Director]:
    """That of default, and that of default with exceptions; both confine what they allow."""
    path = tmp_path / "p.yaml"
    path.write_text(POLICY)
    default, excusing = (
        Director(load(each), project="/nowhere/project", environ={"HOME": "/nowhere/home"}, confined=True)
        for each in (find("default"), path)
    )
    return default, excusing


def judged(directors: tuple[Director, Director], command: str) -> tuple[PolicyDecision, PolicyDecision]:
    before, after = (each.evaluate(Action(command, cwd="/nowhere/project")) for each in directors)
    return before, after


@pytest.mark.parametrize(
    "command",
    [
        "cat /srv/notes/a.md",
        "cat /srv/notes/a.md | grep -c x > count",
        "curl -s https://api.example.org/v1",
        "gh pr view 12",
        "gh pr view 12; cat /srv/notes/a.md",
    ],
)
def test_it_runs_in_what_a_human_would_have_let_it_run_in(directors: tuple[Director, Director], command: str) -> None:
    before, after = judged(directors, command)
    assert (str(before.verdict), str(after.verdict)) == ("ask", "allow")
    assert reached(after) == reached(before)


def reached(decision: PolicyDecision) -> object:
    """What it can reach that it runs in; None where it runs in nothing."""
    held = decision.confinement
    if held is None:
        return None
    sets = [{path for profile in held.profiles for path in getattr(profile, kind)} for kind in ("read", "write")]
    return sets, held.network, set(held.hosts)


@pytest.mark.parametrize(
    "command",
    [
        "gh pr view 12; python3 x.py",  # unread code would not be confined
        "curl -s https://api.example.org/v1; python3 x.py",  # and here it would reach that host
        "curl -s https://api.example.org/v1 | python3",
        "gh pr view 12; frob",
        "cat /srv/notes/a.md /srv/other",
        "cat /srv/notes/a.md; python3 x.py",
    ],
)
def test_where_something_else_could_reach_that_nothing_is_excused(
    directors: tuple[Director, Director], command: str
) -> None:
    before, after = judged(directors, command)
    assert (str(before.verdict), str(after.verdict)) == ("ask", "ask")
    assert set(after.rules) <= set(before.rules)
    assert reached(after) == reached(before)


def test_what_a_rule_allows_confined_needs_no_excuse(directors: tuple[Director, Director]) -> None:
    before, after = judged(directors, "python3 x.py")
    assert (str(before.verdict), str(after.verdict)) == ("allow", "allow")
    assert after.confinement is not None
