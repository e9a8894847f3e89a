"""What an exception excuses, where commands run confined: it runs as if a human had approved it."""

from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import find, load
from humanlayer_agent.store.rows import decision_fields, dump_decision, load_decision

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


@pytest.mark.sample(1)
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
    told = {(each.rule, each.by.rpartition("/")[2].partition(":")[0]) for each in after.excused}
    assert told == {(rule, "p.yaml") for rule in before.rules}, "every rule that would have asked is told"
    assert {each.text for each in after.excused} == {
        f"until 2999-01-01 by the exception {each.by}: y" for each in after.excused
    }
    assert before.excused == ()


def reached(decision: PolicyDecision) -> object:
    """What it can reach that it runs in; None where it runs in nothing."""
    held = decision.confinement
    if held is None:
        return None
    sets = [{path for profile in held.profiles for path in getattr(profile, kind)} for kind in ("read", "write")]
    return sets, held.network, set(held.hosts)


@pytest.mark.sample(2)
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
    assert after.excused == ()
    assert reached(after) == reached(before)


def test_what_a_rule_allows_confined_needs_no_excuse(directors: tuple[Director, Director]) -> None:
    before, after = judged(directors, "python3 x.py")
    assert (str(before.verdict), str(after.verdict)) == ("allow", "allow")
    assert after.confinement is not None


def test_what_was_excused_is_told_where_nothing_is_confined_and_stays_with_the_stored_decision(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(POLICY)
    decision = Director(load(path), project="/nowhere/project").evaluate(Action("gh pr view 12; gh pr view 13"))
    assert decision.verdict is Verdict.ALLOW
    assert [each.rule for each in decision.excused] == ["service-reads"]
    assert load_decision(dump_decision(decision)).excused == decision.excused
    assert decision_fields(decision)["excused"] == [
        {"rule": "service-reads", "by": f"{path}:11", "text": f"until 2999-01-01 by the exception {path}:11: y"}
    ]


def test_a_rule_that_does_not_apply_anyway_is_not_told_as_excused(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "version: 1\npolicy: p\nrules:\n"
        "  - {id: reads, decision: ask, when: {effect: read}, unless: {paths: {all_within: [/srv/a/**]}}}\n"
        "  - {id: all, decision: allow, when: {program: cat}}\n"
        "  - {id: read, decision: allow, when: {effect: read}}\n"
        "exceptions:\n"
        "  - {rule: reads, when: {paths: {all_within: [/srv/**]}}, reason: y, expires: 2999-01-01}\n"
    )
    director = Director(load(path), project="/srv/p")
    found = {name: director.evaluate(Action(f"cat {name}")).excused for name in ("/srv/a/x", "/srv/b/x")}
    assert {name: [each.rule for each in excused] for name, excused in found.items()} == {
        "/srv/a/x": [],
        "/srv/b/x": ["reads"],
    }
