"""no-reason: what people are told without one."""

from collections.abc import Callable

import pytest

from humanlayer_agent.policy_tools.lint import Finding

Lint = Callable[..., list[Finding]]


@pytest.mark.parametrize(
    ("rule", "lacks"),
    [
        ("decision: ask, when: {program: rm}", "has no reason and no suggestion"),
        ("decision: ask, when: {program: rm}, reason: x", "has no suggestion"),
        ("decision: allow, when: {effect: read, paths: {all_within: [/srv/**]}}", "has no reason"),
    ],
)
def test_lacking(lint_rules: Lint, rule: str, lacks: str) -> None:
    (found,) = lint_rules(f"  - {{id: r, {rule}}}\n", "no-reason")
    assert found.message.startswith(lacks)
    assert found.level == "note"
    assert found.witness is not None


@pytest.mark.parametrize(
    "rule",
    [
        "decision: ask, when: {program: rm}, reason: x, suggestion: y",
        "decision: allow, when: {effects: {only: []}}, reason: x",
    ],
)
def test_nothing_lacking(lint_rules: Lint, rule: str) -> None:
    assert lint_rules(f"  - {{id: r, {rule}}}\n", "no-reason") == []
