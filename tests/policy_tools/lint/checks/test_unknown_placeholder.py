"""unknown-placeholder: names that stand for nothing, and spellings that are not read."""

from collections.abc import Callable

import pytest

from humanlayer_agent.policy_tools.lint import Finding

Lint = Callable[..., list[Finding]]


@pytest.mark.parametrize("placeholder", ["{{ path }}", "{{paths}}", "{{ PATHS }}", "{{ paths", "}}"])
def test_it_is_shown_as_it_is(lint_rules: Lint, placeholder: str) -> None:
    rule = (
        f"  - {{id: r, decision: ask, when: {{program: rm}}, reason: 'Deletes {placeholder} of {{{{ program }}}}'}}\n"
    )
    found = lint_rules(rule, "unknown-placeholder")
    assert [f.message.split(" stands")[0] for f in found] == [
        placeholder.replace("{{ paths", "{{") if "}" not in placeholder else placeholder
    ]
    assert found[0].place.path[-1] == "reason"
    assert found[0].witness is not None


@pytest.mark.parametrize("name", ["program", "command", "paths", "hosts", "operand", "effect", "source", "unresolved"])
def test_names_that_are_known(lint_rules: Lint, name: str) -> None:
    rule = f"  - {{id: r, decision: ask, when: {{program: rm}}, suggestion: 'Not {{{{ {name} }}}}', reason: x}}\n"
    assert lint_rules(rule, "unknown-placeholder") == []


def test_a_value_that_looks_like_a_placeholder(lint_rules: Lint) -> None:
    rule = "  - {id: r, decision: ask, when: {program: echo}, reason: 'Says {{ command }}', tests: {match: [\"echo '{{ path }}'\"]}}\n"
    assert lint_rules(rule, "unknown-placeholder") == []
