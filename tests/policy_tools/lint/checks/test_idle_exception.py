"""idle-exception: expired, without effect, or of everything; and what the other checks say of exceptions."""

from collections.abc import Callable

import pytest

from humanlayer_agent.policy_tools.lint import Finding

Lint = Callable[..., list[Finding]]
RULE = (
    "  - {id: own, decision: ask, reason: r, suggestion: s, when: {program: frob},"
    " tests: {match: [frob a, frob b], not_match: [ls]}}\n"
)
GH = "{program: gh, subcommand: pr view}"
TESTS = "{match: [gh pr view 1], not_match: [gh pr list]}"


def exception(rule: str, when: str, tests: str = "{}", expires: str = "2999-01-01") -> str:
    return f"exceptions:\n  - {{rule: {rule}, when: {when}, reason: y, expires: {expires}, tests: {tests}}}\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("written", "said", "unknown"),
    [
        (exception("service-reads", GH, TESTS, "2020-01-01"), "expired on 2020-01-01", False),
        (exception("service-reads", "{program: frob}"), "found no command that it excuses", True),
        (exception("own", "{program: frob}"), "excuses all that own is shown to be about", False),
        (exception("service-reads", "{effect: network}"), "excuses all that service-reads is shown", False),
    ],
)
def test_what_is_found(lint_rules: Lint, written: str, said: str, unknown: bool) -> None:
    (found,) = lint_rules(RULE, "idle-exception", more="extends: [builtin:default]\n" + written)
    assert said in found.message
    assert (found.unknown, found.level) == (unknown, "warning")
    assert found.witness is not None
    assert found.place.line == 5


@pytest.mark.parametrize(
    "written", [exception("service-reads", GH, TESTS), exception("own", "{argv: [frob, a]}", "{match: [frob a]}")]
)
def test_what_is_well(lint_rules: Lint, written: str) -> None:
    assert not lint_rules(RULE, "idle-exception", more="extends: [builtin:default]\n" + written)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("check", "written", "said"),
    [
        ("no-test", exception("service-reads", GH), "the exception has no `match` and no `not_match` example"),
        ("no-test", exception("service-reads", GH, "{match: [gh pr view 1]}"), "has no `not_match` example"),
        ("failing-test", exception("service-reads", GH, "{match: [gh pr list]}"), "excused from service-reads"),
        ("never-matches", exception("network", "{hosts: {any_in: ['https://x.org']}}"), "compared without scheme"),
        ("partial-excuse", exception("own", "{operands: {any: [a]}}"), "for one of its words"),
    ],
)
def test_what_other_checks_say_of_one(lint_rules: Lint, check: str, written: str, said: str) -> None:
    (found,) = lint_rules(RULE, check, more="extends: [builtin:default]\n" + written)
    assert said in found.message
    assert found.place.line == 5


def test_a_list_that_only_an_exception_names_is_used(lint_rules: Lint) -> None:
    more = "extends: [builtin:default]\n" + exception("read-outside-project", "{paths: {all_within: [$mine]}}")
    assert not lint_rules(RULE, "unused-list", lists="{mine: [/srv/x]}", more=more)


@pytest.mark.long
def test_an_allow_is_not_shadowed_by_a_rule_that_excuses_it(lint_rules: Lint) -> None:
    allow = "  - {id: pr, decision: allow, when: {program: gh, effect: network, role: service-read}}\n"
    more = "extends: [builtin:default]\n"
    (found,) = lint_rules(allow, "shadowed", more=more)
    assert found.about == "pr"
    assert not lint_rules(allow, "shadowed", more=more + exception("service-reads", GH, TESTS))
