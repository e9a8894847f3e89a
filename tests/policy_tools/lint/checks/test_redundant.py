"""redundant: what a proof covers is a finding, what merely makes no difference is unknown, and need is shown."""

from collections.abc import Callable

import pytest

from humanlayer_agent.policy_tools.lint import Finding
from humanlayer_agent.policy_tools.lint.checks import redundant
from humanlayer_agent.policy_tools.lint.subject import Subject

Lint = Callable[..., list[Finding]]


ASK = "  - {id: %s, decision: ask, severity: %s, when: %s}\n"


def two(first: str, second: str, *, severity: str = "high") -> str:
    return ASK % ("wide", severity, first) + ASK % ("narrow", "medium", second)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("{effect: delete}", "{effect: delete, program: rm}"),
        ("{program: [rm, mv]}", "{program: rm, flags: {any: [force]}}"),
        ("{program: rm}", "{effect: delete, program: rm}"),
        (
            "{effect: [read, write], paths: {any_within: [/srv/**]}}",
            "{effect: read, paths: {any_within: [/srv/a/**, /srv/b]}}",
        ),
        ("{effect: read, paths: {none_within: [/srv/**]}}", "{effect: read, paths: {none_within: [/srv/**, /opt/**]}}"),
        (
            "{effect: network, hosts: {none_in: [a.example]}}",
            "{effect: network, hosts: {none_in: [a.example, b.example]}}",
        ),
        ("{any: [{program: rm}, {program: mv}]}", "{program: mv}"),
        ("{program: git}", "{any: [{program: git, subcommand: push}, {program: git, subcommand: fetch}]}"),
        ("{effect: read, not: {role: list}}", "{effect: read, role: operand}"),
        ("{effect: environment, env: {any: [PATH, HOME]}}", "{effect: environment, env: {any: [PATH]}}"),
        ("{effect: package, names: {any_in: [a, b]}}", "{effect: package, names: {any_in: [a]}}"),
        (
            "{effect: network, flow: {from: {effect: read}}}",
            "{effect: network, hosts: {any_in: [x]}, flow: {from: {effect: read}}}",
        ),
    ],
)
def test_covered(lint_rules: Lint, wide: str, narrow: str) -> None:
    (found,) = lint_rules(two(wide, narrow), "redundant")
    assert (found.about, found.unknown, found.level) == ("narrow", False, "warning")
    assert "wide (ask, " in found.message
    assert found.witness is not None
    assert {"wide", "narrow"} <= set(found.witness.rules)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("{effect: delete}", "{program: rm}"),
        ("{program: rm, flags: {none: [force]}}", "{program: rm}"),
        ("{effect: read, paths: {none_within: [/srv/**, /opt/**]}}", "{effect: read, paths: {none_within: [/srv/**]}}"),
        ("{effect: read, paths: {any_within: [/srv/a/**]}}", "{effect: read, paths: {any_within: [/srv/**]}}"),
    ],
)
def test_needed(lint_rules: Lint, wide: str, narrow: str) -> None:
    assert lint_rules(two(wide, narrow), "redundant") == []


def test_a_more_severe_rule_is_needed(lint_rules: Lint) -> None:
    rules = two("{effect: delete}", "{effect: delete, program: rm}", severity="low")
    assert lint_rules(rules, "redundant") == []


@pytest.mark.long
def test_a_stricter_rule_covers_whatever_the_severity(lint_rules: Lint) -> None:
    rules = two("{effect: delete}", "{effect: delete, program: rm}", severity="low").replace("ask", "deny", 1)
    (found,) = lint_rules(rules, "redundant")
    assert (found.about, found.unknown) == ("narrow", False)
    assert "decides more" in found.message


@pytest.mark.long
def test_an_exception_of_the_wider_rule_counts(lint_rules: Lint) -> None:
    wide = "{effect: delete}, unless: {program: rm}"
    assert lint_rules(two(wide, "{effect: delete, paths: {any_within: [/srv/**]}}"), "redundant") == []
    (found,) = lint_rules(two(wide, "{effect: delete, program: find}"), "redundant")
    assert not found.unknown, "the exception is about another program"


@pytest.mark.long
def test_of_two_that_say_the_same_the_later_is_too_many(lint_rules: Lint) -> None:
    (found,) = lint_rules(two("{effect: delete}", "{effect: delete}", severity="medium"), "redundant")
    assert (found.about, found.unknown) == ("narrow", False)


@pytest.mark.long
def test_what_several_rules_cover_together_is_unknown(lint_rules: Lint) -> None:
    rules = ASK % ("a", "medium", "{effect: delete, role: operand}")
    rules += ASK % ("b", "medium", "{effect: delete, not: {role: operand}}") + ASK % ("c", "low", "{effect: delete}")
    (found,) = lint_rules(rules, "redundant")
    assert (found.about, found.unknown) == ("c", True)


@pytest.mark.long
def test_allows(lint_rules: Lint) -> None:
    rules = (
        "  - {id: all, decision: allow, when: {effect: read, paths: {all_within: ['${PROJECT}/**']}}}\n"
        "  - {id: some, decision: allow, when: {effect: read, paths: {all_within: ['${PROJECT}/src/**']}}}\n"
        "  - {id: other, decision: allow, when: {effect: read, paths: {all_within: ['/opt/**']}}}\n"
    )
    assert [(f.about, f.unknown) for f in lint_rules(rules, "redundant")] == [("some", False)]


def test_too_many_rules_are_not_compared(subject_of: Callable[..., Subject]) -> None:
    rules = "".join(
        f"  - {{id: r{n}, decision: ask, when: {{program: p{n}}}}}\n" for n in range(redundant.MAX_RULES + 1)
    )
    (found,) = redundant.check(subject_of(rules))
    assert found.unknown
    assert "301 rules" in found.message
