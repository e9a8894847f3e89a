"""The example of a data platform team: 25 rules that hang on time, branch, content, SQL, cost and the like, all of which
hold, with more than 700 examples of their own; and no tool for policies has anything to say against them.
"""

from pathlib import Path

import pytest

from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.language.policy import Match, Policy
from humanlayer_agent.policy_tools.coverage import coverage
from humanlayer_agent.policy_tools.handbook import handbook
from humanlayer_agent.policy_tools.lint import lint_file
from humanlayer_agent.policy_tools.lint.sample_commands import inner_of
from humanlayer_agent.policy_tools.metamorphic.run import run
from tests.support.extent import ALL

PATH = Path(__file__).parents[2] / "examples" / "data-platform.yaml"
CONDITIONS = ("time", "requester", "repo", "attributes", "sql", "limit", "content")


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load(PATH, tested=False)


def clauses(match: Match) -> set[str]:
    found = {name for name in CONDITIONS if getattr(match, name) is not None}
    return found.union(*(clauses(inner) for inner in inner_of(match)))


def test_it_has_25_rules_that_use_each_condition(policy: Policy) -> None:
    assert len(policy.rules) == 25
    assert set().union(*(clauses(rule.when) for rule in policy.rules)) == set(CONDITIONS)


def test_all_of_its_examples_hold(policy: Policy) -> None:
    results = list(examples.run(policy))
    assert [
        (each.example.name, each.example.line, each.expected, each.found) for each in results if not each.passed
    ] == []
    assert len({(each.example.rule.id, each.example.line) for each in results}) >= 700
    for rule in policy.rules:
        kinds = {each.kind for each in examples.examples_of(rule)}
        assert {"match", "maybe", "not_match"} <= kinds, rule.id


def test_its_handbook_tells_what_surrounds_examples(policy: Policy) -> None:
    page = handbook(examples.director_for(policy))
    assert page.count("\n#### ") == 25
    assert "git push  [given {branch: main}]" in page


def test_its_examples_hold_however_they_are_spelled(policy: Policy) -> None:
    found = run(policy, share=0.02 if ALL else 0.001, compositions=0)
    assert [(c.example.name, f.chain, f.rewritten) for c in found for f in c.failures] == []


@pytest.mark.long
def test_lint_finds_nothing() -> None:
    assert lint_file(PATH) == []


@pytest.mark.long
def test_its_examples_show_every_clause(policy: Policy) -> None:
    found = coverage(policy)
    assert [(r.name, c.name) for r in found.rules for c in r.clauses if not c.shown] == []
    assert found.percent == 100
