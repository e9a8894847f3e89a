"""shadowed: an allow under an ask or deny that always applies too."""

from collections.abc import Callable

import pytest

from humanlayer_agent.policy_tools.lint import Finding

Lint = Callable[..., list[Finding]]


ALLOW = "  - {id: mine, decision: allow, when: %s}\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("allow", "stop"),
    [
        ("{effect: network, hosts: {any_in: [a.example]}}", "{effect: [network, listen]}"),
        ("{effect: delete, program: rm, paths: {all_within: ['${PROJECT}/**']}}", "{program: [rm, mv]}"),
        ("{effect: read, paths: {all_within: [/srv/a/**]}}", "{effect: read, paths: {none_within: ['${PROJECT}/**']}}"),
        ("{effect: read, role: list, paths: {all_within: [/srv/**]}}", "{effect: read}, unless: {role: operand}"),
    ],
)
def test_shadowed(lint_rules: Lint, allow: str, stop: str) -> None:
    found = lint_rules(ALLOW % allow + f"  - {{id: stop, decision: ask, when: {stop}}}\n", "shadowed")
    assert [f.about for f in found] == ["mine"]
    assert found[0].witness is not None
    assert found[0].witness.verdict == "ask"
    assert "mine" not in found[0].witness.rules


@pytest.mark.long
def test_it_is_proven_or_unknown(lint_rules: Lint) -> None:
    stop = "  - {id: stop, decision: deny, when: {effect: read, paths: {none_within: ['${PROJECT}/**']}}}\n"
    (found,) = lint_rules(ALLOW % "{effect: read, paths: {all_within: [/srv/a/**]}}" + stop, "shadowed")
    assert found.unknown, "that two sets of paths have nothing in common is not proven"
    proven = "  - {id: stop, decision: deny, when: {effect: read}}\n"
    (found,) = lint_rules(ALLOW % "{effect: read, paths: {all_within: [/srv/a/**]}}" + proven, "shadowed")
    assert (found.unknown, found.level) == (False, "error")
    assert "stop (deny, " in found.message


@pytest.mark.parametrize(
    "stop",
    [
        "{effect: network, hosts: {none_in: [a.example]}}",
        "{effect: network}, unless: {hosts: {any_in: [a.example]}}",
        "{program: wget}",
    ],
)
def test_an_allow_that_decides(lint_rules: Lint, stop: str) -> None:
    allow = ALLOW % "{effect: network, hosts: {any_in: [a.example]}}"
    assert lint_rules(allow + f"  - {{id: stop, decision: ask, when: {stop}}}\n", "shadowed") == []


CONFINED = """\
  - {{id: asks, decision: ask, when: {{effect: network}}, {asks}}}
  - {{id: ours, decision: allow, confined: project, when: {{effect: network, hosts: {{any_in: [a.example]}}}}}}
  - {{id: never, decision: deny, when: {{program: {{regex: "[a-z]+"}}}}}}
"""
MORE = 'defaults: {confine: project}\nconfinements: {project: {write: ["${PROJECT}/**"]}}\n'


@pytest.mark.long
def test_what_asks_only_where_nothing_is_confined_shadows_nothing_that_is(lint_rules: Lint) -> None:
    rules = [CONFINED.format(asks=asks) for asks in ("confined: project", "severity: low")]
    (confined,), (always,) = (lint_rules(each, "shadowed", more=MORE) for each in rules)
    assert "asks" not in confined.message.split(":")[0]
    assert "never decides: asks (ask, " in always.message
