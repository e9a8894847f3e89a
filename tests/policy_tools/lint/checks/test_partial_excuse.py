"""partial-excuse: what lets a command through for one of its words."""

from collections.abc import Callable

import pytest

from humanlayer_agent.policy_tools.lint import Finding

Lint = Callable[..., list[Finding]]

BY_SOME = "{operands: {any: [x]}}"


@pytest.mark.parametrize(
    "rule",
    [
        "decision: ask, when: {program: rm}, unless: %s",
        "decision: deny, when: {program: rm, not: %s}",
        "decision: allow, when: {program: rm, any: [%s, {operands: {all: [y]}}]}",
        "decision: allow, when: {program: rm}, unless: {not: %s}",
    ],
)
def test_one_operand_suffices(lint_rules: Lint, rule: str) -> None:
    (found,) = lint_rules(
        f"  - {{id: r, {rule % BY_SOME}, tests: {{match: [], not_match: [rm x]}}}}\n", "partial-excuse"
    )
    assert "`operands: any`" in found.message
    assert found.witness is not None
    assert (found.unknown, found.witness.command) == (False, "rm x /srv/other")


@pytest.mark.parametrize(
    "rule",
    [
        "decision: ask, when: {program: rm, operands: {any: [x]}}",
        "decision: allow, when: {program: rm}, unless: {operands: {any: [x]}}",
        "decision: ask, when: {program: rm}, unless: {operands: {all: [x]}}",
        "decision: ask, when: {effect: delete}, unless: {paths: {any_within: [/srv/**]}}",
        "decision: ask, when: {program: rm}, unless: {argv: [rm, '...']}",
    ],
)
def test_what_is_meant_so(lint_rules: Lint, rule: str) -> None:
    assert lint_rules(f"  - {{id: r, {rule}}}\n", "partial-excuse") == []


@pytest.mark.parametrize("clause", ["paths: {any_within: [/srv/**]}", "argv: [rm, '...', x, '...']"])
def test_paths_and_words(lint_rules: Lint, clause: str) -> None:
    (found,) = lint_rules(
        f"  - {{id: r, decision: ask, when: {{program: rm}}, unless: {{{clause}}}}}\n", "partial-excuse"
    )
    assert f"`{clause.partition(':')[0]}:" in found.message
