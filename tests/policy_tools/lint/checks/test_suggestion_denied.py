"""suggestion-denied: every quoted command is judged by the policy itself."""

from collections.abc import Callable

import pytest

from humanlayer_agent.policy_tools.lint import Finding

Lint = Callable[..., list[Finding]]


READS = "  - {id: reads, decision: allow, when: {effect: read, paths: {all_within: ['${PROJECT}/**']}}}\n"
RULE = "  - {id: r, decision: ask, when: {effect: [write, append, delete]}, suggestion: %s}\n"


@pytest.mark.parametrize(
    ("suggestion", "said"),
    [
        ("Use `rm a`.", "ask (r)"),
        ("Show it with `cat a`, or `cat /srv/a`.", "ask (no rule allows it)"),
    ],
)
def test_not_allowed(lint_rules: Lint, suggestion: str, said: str) -> None:
    (found,) = lint_rules(READS + RULE % repr(suggestion), "suggestion-denied")
    assert said in found.message
    assert not found.unknown
    assert found.place.path[-1] == "suggestion"


@pytest.mark.parametrize(
    "suggestion", ["Show it with `cat a`.", "Run rm a.", "Nothing", "", "Look: `ls -la`, `grep -rn x src`"]
)
def test_allowed(lint_rules: Lint, suggestion: str) -> None:
    assert lint_rules(READS + RULE % repr(suggestion), "suggestion-denied") == []


@pytest.mark.parametrize("suggestion", ["Look at `notes.md`.", "Run `{{ program }} --help`.", "` `"])
def test_what_may_be_no_command_is_unknown(lint_rules: Lint, suggestion: str) -> None:
    (found,) = lint_rules(READS + RULE % repr(suggestion), "suggestion-denied")
    assert found.unknown


def test_a_file_that_allows_nothing_is_made_to_be_extended(lint_rules: Lint) -> None:
    assert lint_rules(RULE % "Show it with `cat a`.", "suggestion-denied") == []
    (found,) = lint_rules(RULE % "Use `rm a`.", "suggestion-denied")
    assert not found.unknown
