"""overridden: expired, or without effect."""

from collections.abc import Callable

import pytest

from humanlayer_agent.policy_tools.lint import Finding

Lint = Callable[..., list[Finding]]


BASE = "extends: [builtin:strict]\n"
RULE = (
    "  - id: tidy\n    override: {rule: changes, reason: x, expires: %s}\n    decision: ask\n    severity: medium\n"
    '    reason: "%s"\n    suggestion: "Show what you would change, for example with `git diff`."\n    when: %s\n'
    "    unless: {paths: {all_within: [/dev/null]}}\n"
)
SAME = ("{{ does }}.", "{effect: [write, append, delete, move, metadata]}")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("expires", "reason", "when", "said", "unknown"),
    [
        ("2020-01-01", *SAME, "expired on 2020-01-01", False),
        ("2999-01-01", *SAME, "says what it replaces says", False),
        ("2999-01-01", SAME[0], "{effect: [metadata, move, delete, append, write]}", "says what it replaces", False),
        (
            "2999-01-01",
            SAME[0],
            "{any: [{effect: [write, append]}, {effect: [delete, move, metadata]}]}",
            "found no",
            True,
        ),
    ],
)
def test_overrides(lint_rules: Lint, expires: str, reason: str, when: str, said: str, unknown: bool) -> None:
    (found,) = lint_rules(RULE % (expires, reason, when), "overridden", more=BASE)
    assert said in found.message
    assert (found.unknown, found.level, found.about) == (unknown, "warning", "tidy")
    assert found.witness is not None
    assert "changes" in found.message


@pytest.mark.parametrize(("reason", "when"), [("Otherwise.", SAME[1]), (SAME[0], "{effect: [write, append]}")])
def test_an_override_that_changes_something(lint_rules: Lint, reason: str, when: str) -> None:
    assert lint_rules(RULE % ("2999-01-01", reason, when), "overridden", more=BASE) == []
