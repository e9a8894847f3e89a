"""vacuous: contradictions are proven, what is merely not found is unknown."""

from collections.abc import Callable

import pytest

from humanlayer_agent.policy_tools.lint import Finding

Lint = Callable[..., list[Finding]]

CONTRADICTIONS = {
    "{effect: network, paths: {any_within: [/srv/**]}}": "has no paths",
    "{effect: read, hosts: {any_in: [x]}}": "has no hosts",
    "{effect: [read, write], env: {any: [HOME]}}": "has no variables",
    "{effect: delete, effects: {only: [read]}}": "rules out the effect delete",
    "{effect: read, all: [{effect: write}]}": "`effect` can't be two things",
    "{resolved: true, not: {resolved: true}}": "`not` rules out what `resolved`",
    "{all: [{resolved: true}, {resolved: false}]}": "`resolved` can't be two things",
    "{program: rm, all: [{program: [cp, mv]}]}": "two programs",
    "{program: rm, flags: {all: [force], none: [force]}}": "`flags`: what `none` rules out",
    "{effects: {any: [read], only: [write]}}": "`any` asks for what `only` rules out",
    "{effects: {all: [read], only: [write]}}": "`all` asks for what `only` rules out",
    "{effect: read, paths: {any_within: [/srv/a], none_within: [/srv/**]}}": "everything inside",
    "{effect: read, not: {effect: [read, write]}}": "`not` rules out what `effect`",
    "{effect: read, any: [{effect: write}, {effect: delete}]}": "two things",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize(("when", "said"), CONTRADICTIONS.items())
def test_contradictions(lint_rules: Lint, when: str, said: str) -> None:
    (found,) = lint_rules(f"  - {{id: r, decision: deny, when: {when}}}\n", "vacuous")
    assert said in found.message
    assert (found.level, found.unknown, found.about) == ("error", False, "r")
    assert found.witness is not None


@pytest.mark.long
def test_unless_excuses_everything(lint_rules: Lint) -> None:
    rule = (
        "  - {id: r, decision: ask, when: {effect: delete, program: rm}, unless: {effect: [delete, move]},"
        " tests: {match: [], not_match: [rm a]}}\n"
    )
    (found,) = lint_rules(rule, "vacuous")
    assert "`unless` excuses everything" in found.message
    assert found.witness is not None
    assert (found.witness.command, found.unknown) == ("rm a", False)
    assert found.place.path[-1] == "unless"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "when",
    [
        "{program: rm, operands: {any: [very-special-name-9], none: [very-special-name-9]}}",
        "{effect: read, role: no-such-role}",
        "{program: rm, all: [{flags: {any: [force]}}, {flags: {none: [force]}}]}",
    ],
)
def test_what_is_only_not_found_is_unknown(lint_rules: Lint, when: str) -> None:
    (found,) = lint_rules(f"  - {{id: r, decision: allow, when: {when}}}\n", "vacuous")
    assert found.unknown
    assert "found no command" in found.message


@pytest.mark.parametrize(
    "rule",
    [
        "{id: r, decision: deny, when: {program: terraform, argv: [terraform, apply, ...]}}",
        "{id: r, decision: ask, when: {effect: read, paths: {any_within: ['**/very/special/*.name']}}}",
        "{id: r, decision: ask, when: {program: {regex: 'q[0-9]{3}x'}}}",
        "{id: r, decision: ask, when: {effect: network, hosts: {none_in: [a.example.org]}}}",
        "{id: r, decision: ask, when: {via: sudo, inside: loop, program: ls}}",
        "{id: r, decision: ask, when: {parse: failed}}",
        "{id: r, decision: ask, when: {effect: execute, role: function, names: {any_in: ['send_*']}}}",
        "{id: r, decision: ask, when: {agent: [{regex: 'a[0-9]+'}, b], program: ls}}",
        "{id: r, decision: ask, when: {program: git, subcommand: push, flags: {any: [force]}}}",
        "{id: r, decision: ask, when: {effect: read, paths: {contents_of: [/srv/x]}}}",
        "{id: r, decision: ask, when: {effect: network, flow: {from: {effect: read, paths: {any_within: ['**/x.key']}}}}}",
    ],
)
def test_rules_without_examples_are_tried_on_commands_made_of_their_clauses(lint_rules: Lint, rule: str) -> None:
    assert lint_rules(f"  - {rule}\n", "vacuous") == []
