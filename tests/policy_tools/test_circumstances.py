"""Lint, coverage, metamorphic tests, diff and the handbook judge examples in the circumstances that these are given."""

from pathlib import Path

from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy_tools.coverage import coverage
from humanlayer_agent.policy_tools.diff import over_tests
from humanlayer_agent.policy_tools.diff.acceptance import Accepted
from humanlayer_agent.policy_tools.handbook import handbook
from humanlayer_agent.policy_tools.lint.linter import lint
from humanlayer_agent.policy_tools.metamorphic import run as rewriting
from tests.policy.conditions.test_circumstances import HOURS


def test_the_tools_of_policies_know_the_circumstances(tmp_path: Path) -> None:
    hours = tmp_path / "hours.yaml"
    hours.write_text(HOURS)
    policy = load(hours)
    assert lint(policy) == []
    shown = {clause.name: clause.shown for clause in coverage(policy).rules[0].clauses}
    assert shown["when.not.time.hours"] == 'kubectl apply -f x.yaml  [given {time: "2026-11-27T17:30:00Z"}]'
    assert shown["when.not.time.days"] == 'kubectl delete pod a  [given {time: "2026-11-28T09:30:00Z"}]'
    assert "kubectl delete pod a  [given {time: " in handbook(examples.director_for(policy))
    found = rewriting.run(policy, share=0.02, compositions=0)
    assert [checked for checked in found if checked.failures] == []
    later = hours.with_name("later.yaml")
    later.write_text(HOURS.replace("09:00-17:00", "09:00-19:00").replace("T18:30", "T19:30"))
    changes = over_tests(policy, load(later), Accepted())
    assert [str(change.command) for _, _, each in changes.cells() for change in each] == ["kubectl apply -f x.yaml"]
