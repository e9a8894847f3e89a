"""no-test: which kind of example lacks, and one that could be added."""

from collections.abc import Callable

import pytest

from humanlayer_agent.policy_tools.lint import Finding

Lint = Callable[..., list[Finding]]


@pytest.mark.parametrize(
    ("tests", "lacking"),
    [
        ("{}", ["`match`", "`not_match`"]),
        ("{match: [rm -f a]}", ["`not_match`"]),
        ("{not_match: [ls]}", ["`match`"]),
        ('{maybe: [rm "$X"], not_match: [ls]}', []),
        ("{match: [rm -f a], not_match: [ls]}", []),
    ],
)
def test_what_lacks(lint_rules: Lint, tests: str, lacking: list[str]) -> None:
    rule = f"  - {{id: r, decision: ask, when: {{program: rm, flags: {{any: [force]}}}}, tests: {tests}}}\n"
    found = lint_rules(rule, "no-test")
    assert [f.message.split()[1] for f in found] == lacking
    assert all(f.level == "warning" for f in found)


def test_the_witnesses_are_examples_that_could_be_added(lint_rules: Lint) -> None:
    rule = "  - {id: r, decision: ask, when: {program: rm, flags: {any: [force]}}%s}\n"
    hit, miss = (f.witness for f in lint_rules(rule % "", "no-test"))
    assert hit is not None
    assert miss is not None
    added = f", tests: {{match: [{hit.command!r}], not_match: [{miss.command!r}]}}"
    assert lint_rules(rule % added, "no-test") == []
    assert lint_rules(rule % added, "failing-test") == []
    assert miss.command.startswith("rm "), "one clause away"
