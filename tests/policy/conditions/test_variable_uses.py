"""Variables from outside that a command uses: harmless, unless a rule that names them asks or denies."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.redaction.secret_names import secret_variables
from humanlayer_agent.shell import analyse

ECHO = "  - {id: echo, decision: allow, when: {program: [echo, cat, cd], effects: {only: []}}}\n"
DENIES = [
    "effect: environment, role: expanded, env: {any: [FOO]}",
    "effect: environment, env: {any: ['F*']}",
    "effect: environment, names: {any_in: [FOO]}",
    "env: {any: [FOO]}",
    "any: [{program: reboot}, {effect: environment, env: {any: [FOO]}}]",
    "all: [{effect: environment}, {env: {any: [FOO]}}]",
]
USES = [
    "echo $FOO", 'echo "${FOO:-x}"', "x=$FOO", "for i in $FOO; do echo; done", "case $FOO in a) ;; esac", "cat <<E\n$FOO\nE",
    "bash -c 'echo $FOO'", "python3 -c 'import os; os.environ[\"FOO\"]'", "echo $((FOO))", "[[ FOO -eq 1 ]]", "x=FOO; echo ${!x}",
]  # fmt: skip
OTHERS = [
    "echo $HOME $BAR",
    "FOO=1; echo $FOO",
    "echo '$FOO'",
    "for FOO in a; do echo $FOO; done",
    "echo ${FOO+x}",
    "cd $PWD",
]


def evaluated(director: Director, command: str) -> tuple[str, tuple[str, ...]]:
    decision = director.evaluate(Action(command, cwd="/nowhere/project"))
    return str(decision.verdict), decision.rules


@pytest.mark.sample(38)
@pytest.mark.parametrize("when", DENIES)
@pytest.mark.parametrize("command", USES)
def test_a_rule_on_any_variable_fires(director_of: Callable[..., Director], when: str, command: str) -> None:
    director = director_of(f"{ECHO}  - {{id: foo, decision: deny, when: {{{when}}}}}\n")
    verdict, rules = evaluated(director, command)
    assert verdict == "deny"
    assert "foo" in rules


@pytest.mark.parametrize("command", OTHERS)
def test_other_variables_are_harmless(director_of: Callable[..., Director], command: str) -> None:
    director = director_of(
        f"{ECHO}  - {{id: foo, decision: deny, when: {{{DENIES[1]}}}}}\n", defaults="{unmatched: allow}"
    )
    decision = director.evaluate(Action(command, cwd="/nowhere/project"))
    assert str(decision.verdict) == "allow"
    assert not decision.default_hit
    assert decision.effects == ()


def test_of_an_unknown_variable_it_may_be_so(director_of: Callable[..., Director]) -> None:
    rules = f"{ECHO}  - {{id: foo, decision: deny, when: {{{DENIES[0]}}}}}\n"
    for command in ("echo ${!X}", "python3 -c 'import os, sys; print(os.environ[sys.argv[1]])'"):
        assert evaluated(director_of(rules), command) == ("ask", ("foo",))
        assert "foo" not in evaluated(director_of(ECHO), command)[1]


def test_a_rule_about_one_program_leaves_the_others_alone(director_of: Callable[..., Director]) -> None:
    rules = f"{ECHO}  - {{id: foo, decision: deny, when: {{program: cat, {DENIES[0]}}}}}\n"
    assert evaluated(director_of(rules), "echo $FOO") == ("allow", ("echo",))
    assert evaluated(director_of(rules), "cat $FOO")[0] == "deny"


def test_an_exception_holds(director_of: Callable[..., Director]) -> None:
    rule = "  - {id: foo, decision: deny, when: {effect: environment, role: expanded}, unless: {env: {any: [HOME]}}}\n"
    assert evaluated(director_of(ECHO + rule), "echo $HOME") == ("allow", ("echo",))
    assert evaluated(director_of(ECHO + rule), "echo $FOO")[0] == "deny"


def test_rules_on_settings_do_not_mean_uses(director_of: Callable[..., Director]) -> None:
    rule = "  - {id: set, decision: deny, when: {effect: environment, role: assignment, env: {any: ['*']}}}\n"
    assert evaluated(director_of(ECHO + rule), "echo $FOO") == ("allow", ("echo",))


def test_what_one_policy_means_another_does_not(director_of: Callable[..., Director]) -> None:
    program = analyse("echo $FOO", cwd="/p")
    from humanlayer_agent.policy.conditions.compiler import Situation

    denying = director_of(f"{ECHO}  - {{id: foo, decision: deny, when: {{{DENIES[0]}}}}}\n")
    verdicts = [
        str(denying.judge(program, Situation()).verdict),
        str(director_of(ECHO).judge(program, Situation()).verdict),
    ]
    assert verdicts == ["deny", "allow"]


@pytest.mark.parametrize(
    "command", ["echo $HOME", "echo $PWD", "ls $VIRTUAL_ENV/bin", "cd $HOME", "echo ${!GIT_*}", "echo $PS4"]
)
def test_nobody_is_asked_about_what_is_harmless(command: str) -> None:
    for policy in ("default", "sandbox"):
        director = Director.load(policy, project="/nowhere/project", environ={"HOME": "/h"})
        decision = director.evaluate(Action(command, cwd="/nowhere/project"))
        assert not any(effect.kind == "environment" for effect in decision.effects)


# ---- the list ------------------------------------------------------------------------------------------------


def write(tmp_path: Path, body: str, extends: str = "") -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(f"version: 1\npolicy: own\n{extends}{body}")
    return path


RULE = (
    "rules: [{id: r, decision: deny, when: {effect: environment, role: expanded, env: {any: [$secret-variables]}}}]\n"
)


def verdicts(path: Path, *names: str) -> list[str]:
    director = Director(load(path), project="/p", environ={"HOME": "/h"})
    return [str(director.evaluate(Action(f"echo ${name}", cwd="/p")).verdict) for name in names]


def test_every_policy_sees_the_list(tmp_path: Path) -> None:
    path = write(tmp_path, f"defaults: {{unmatched: allow}}\n{RULE}")
    assert verdicts(path, "MYSQL_PWD", "GITHUB_PAT", "HOME", "PUBLIC_KEY") == ["deny", "deny", "allow", "allow"]
    assert load(path).scopes[0]["secret-variables"] == secret_variables()


@pytest.mark.parametrize("extends", ["extends: [builtin:default]\n", ""])
def test_a_file_adds_to_it(tmp_path: Path, extends: str) -> None:
    rules = "" if extends else f"defaults: {{unmatched: allow}}\n{RULE}"
    path = write(tmp_path, f"lists: {{secret-variables: {{add: ['ACME_*', '!SORT_KEY']}}}}\n{rules}", extends)
    stops = "ask" if extends else "deny"
    assert verdicts(path, "ACME_ID", "SORT_KEY", "MYSQL_PWD") == [stops, "allow", stops]


def test_a_file_has_its_own_of_that_name(tmp_path: Path) -> None:
    path = write(tmp_path, f"defaults: {{unmatched: allow}}\nlists: {{secret-variables: [ACME]}}\n{RULE}")
    assert verdicts(path, "ACME", "MYSQL_PWD") == ["deny", "allow"]


@pytest.mark.parametrize(
    "when", ["{paths: {any_within: ['!/x']}}", "{hosts: {any_in: [$l]}}", "{env: {any: [A], value_in: ['!/x']}}"]
)
def test_only_names_of_variables_are_taken_out(tmp_path: Path, when: str) -> None:
    with pytest.raises(PolicyError, match="an entry with ! takes out names of variables"):
        load(write(tmp_path, f"lists: {{l: ['!a']}}\nrules: [{{id: r, decision: deny, when: {when}}}]\n"))


def test_it_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from humanlayer_agent.cli import main

    path = write(tmp_path, RULE)
    assert main(["policy", "show", "--policy", str(path), "--project", str(tmp_path)]) == 0
    shown = "".join(capsys.readouterr().out.split())
    assert "$secret-variables" in shown
    assert all(name in shown for name in secret_variables())
    assert main(["policy", "show", "--policy", str(path), "--project", str(tmp_path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["layers"][0]["lists"][0]["secret-variables"] == list(secret_variables())
