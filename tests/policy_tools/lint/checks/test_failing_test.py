"""failing-test: the example itself is the place and the witness."""

from collections.abc import Callable

import pytest

from humanlayer_agent.policy_tools.lint import Finding

Lint = Callable[..., list[Finding]]


@pytest.mark.parametrize(
    ("tests", "said", "failing"),
    [
        ("{match: [rm a, ls]}", "expects that r applies", "ls]"),
        ("{not_match: [ls, rm a]}", "expects that r does not apply", "rm a]"),
        ("{maybe: [rm a]}", "may apply, uncertainly", "rm a]"),
    ],
)
def test_failures(lint_rules: Lint, tests: str, said: str, failing: str) -> None:
    rule = f"  - id: r\n    decision: ask\n    when: {{program: rm}}\n    tests: {tests}\n"
    (found,) = lint_rules(rule, "failing-test")
    assert said in found.message
    assert (found.level, found.place.line, found.place.column) == ("error", 8, rule.splitlines()[-1].index(failing) + 1)
    assert found.witness is not None


def test_passing(lint_rules: Lint) -> None:
    rule = "  - {id: r, decision: ask, when: {program: rm}, tests: {match: [rm a], maybe: ['$X a'], not_match: [ls]}}\n"
    assert lint_rules(rule, "failing-test") == []
