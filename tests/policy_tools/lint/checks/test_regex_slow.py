"""regex-slow: what is refused is a finding instead of an error, what is large is a warning."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.linear_regex import Regex
from humanlayer_agent.policy_tools.lint import Finding

Lint = Callable[..., list[Finding]]


RULE = (
    "  - {id: r, decision: ask, when: {program: grep, operands: {any: [{regex: %s}]}}, tests: {match: [grep %s b]}}\n"
)


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=x)y", "(?<!a)b", "a{999}b{999}", "x" * 201, "(a"])
def test_refused(lint_rules: Lint, pattern: str) -> None:
    (found,) = lint_rules(RULE % (f"'{pattern}'", "a"), "regex-slow")
    assert (found.level, found.about, found.place.line) == ("error", "r", 5)
    assert found.witness is not None
    assert found.witness.command.startswith("grep aaaa")
    assert found.witness.verdict == ""


def test_large(lint_rules: Lint) -> None:
    (found,) = lint_rules(RULE % ("'[ab]{200}[0-9]{150}'", "a"), "regex-slow")
    assert found.level == "warning"
    assert "steps" in found.message
    assert found.witness is not None
    word = found.witness.command.removeprefix("grep ")
    assert Regex("[ab]{200}[0-9]{150}").matches(word)


def test_ordinary(lint_rules: Lint) -> None:
    assert lint_rules(RULE % ("'0*[2-7][0-7]{3}'", "0777"), "regex-slow") == []


def test_a_policy_that_is_broken_otherwise_is_an_error(lint_rules: Lint) -> None:
    with pytest.raises(PolicyError, match="expected 'allow', 'ask' or 'deny'"):
        lint_rules("  - {id: r, decision: perhaps, when: {program: x}}\n", "regex-slow")


@given(st.from_regex(r"([a-c]|\[[a-c]\]|\.|\(([a-c]\|?)+\))([*+?]|\{[1-3]\})?([a-c]|\\d)*", fullmatch=True))
def test_a_shortest_text_matches(pattern: str) -> None:
    regex = Regex(pattern)
    text = regex.shortest()
    assert text is not None
    assert regex.matches(text)
    assert not any(regex.matches(text[:n]) for n in range(len(text)))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("", ""), ("a*", ""), ("(ab|c)d+", "cd"), (r"\d{3}", "000"), (r"\S\s", "A "), (r"[^ -~]", None)],
)
def test_the_shortest_text(pattern: str, text: str | None) -> None:
    assert Regex(pattern).shortest() == text
