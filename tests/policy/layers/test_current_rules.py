"""A Director that judges one action compiles what can concern it; its answers are those of any other."""

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.canonical_json import canonical, encodable
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import examples, needed_rules
from humanlayer_agent.policy.language.loader import cache_folder, find, load
from humanlayer_agent.policy.language.policy import policy_from
from humanlayer_agent.policy.layers.current_rules import LONGEST
from tests.support.extent import SOAK

PROJECT = "/nowhere/project"
SHIPPED = ("default", "strict", "ci", "sandbox")
RULE = "- {id: rules, decision: allow, when: {program: ls}}\n"


def once(policy: str | Path, **more: object) -> Director:
    environ = {"HOME": "/nowhere/home"}
    return Director.load(policy, project=PROJECT, environ=environ, once=True, **more)  # type: ignore[arg-type]


def written(tmp_path: Path, rules: str, lists: str = "{}") -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(f"version: 1\npolicy: mine\nlists: {lists}\nrules:\n{rules}")
    return path


@pytest.mark.parametrize("name", SHIPPED)
def test_one_action_is_judged_as_by_any_director(name: str) -> None:
    usual = Director.load(name, project=PROJECT, environ={"HOME": "/nowhere/home"})
    commands = [*dict.fromkeys(each.command for each in examples.examples(load(find(name))))][:: 1 if SOAK else 8]
    commands += ["", "ls -la", "echo 'x", "$(cat a) b", "cd /srv && make", "frobnicate x > ~/.ssh/y"]
    for command in commands:
        action = Action(command, cwd=PROJECT)
        director = Director(usual.layers, project=PROJECT, environ={"HOME": "/nowhere/home"}, once=True)
        mine, theirs = director.decide(action), usual.decide(action)
        mine.microseconds = theirs.microseconds = 0
        assert repr(mine) == repr(theirs), command


def test_no_more_is_compiled_than_can_concern_it() -> None:
    director = once("default")
    program = director.program(Action("ls -la", cwd=PROJECT))
    some = director.in_force().judging(program)
    everything = director.in_force().rules
    assert 0 < len(some.all) < len(everything.all) / 3
    for kind in (None, *{effect.kind for command in program.commands for effect in command.effects}):
        ids = [[r.rule.id for r in rules.concerning("ls", kind)] for rules in (some, everything)]
        assert ids[0] == ids[1]


def test_a_second_action_is_judged_by_all_rules() -> None:
    director = once("default")
    assert str(director.evaluate(Action("ls -la", cwd=PROJECT)).verdict) == "allow"
    assert str(director.evaluate(Action("rm -rf /", cwd=PROJECT)).verdict) == "deny"
    in_force = director.in_force()
    assert in_force.judging(director.program(Action("ls", cwd=PROJECT))) is in_force.rules


def test_what_can_not_be_parsed_meets_all_rules() -> None:
    director = once("default")
    program = director.program(Action("'", cwd=PROJECT))
    assert not program.commands
    assert director.in_force().judging(program) is director.in_force().rules


@pytest.mark.parametrize(
    "pattern",
    ["${NOWHERE}/x", "build/**", "${PROJECT}/${NOWHERE}", "x" * 1001, "~root/x", "$HOME/x"],
)
def test_a_rule_that_is_an_error_is_one_for_every_command(pattern: str, tmp_path: Path) -> None:
    """Also where it could not concern the command: a broken policy stops the engine."""
    broken = f"  - {{id: broken, decision: deny, when: {{program: frob, effect: delete, paths: {{any_within: ['{pattern}']}}}}}}\n"
    path = written(tmp_path, f"  {RULE}{broken}")
    with pytest.raises(PolicyError):
        Director.load(path, project=PROJECT)
    with pytest.raises(PolicyError):
        once(path)


@pytest.mark.parametrize(
    "where", ["unless: {not: %s}", "when: {any: [%s, {program: b}]}", "when: {program: {path: [%s]}}"]
)
def test_so_is_one_that_stands_deep(where: str, tmp_path: Path) -> None:
    condition = "nowhere/x" if "path:" in where else "{paths: {all_within: [nowhere/x]}}"
    condition = where % condition
    when = "" if condition.startswith("when") else "when: {program: frob}, "
    path = written(tmp_path, f"  {RULE}  - {{id: broken, decision: deny, {when}{condition}}}\n")
    with pytest.raises(PolicyError):
        once(path)


@pytest.mark.parametrize("home", ["relative", "/" + "x" * LONGEST])
def test_so_is_one_that_a_variable_makes_wrong(home: str) -> None:
    for is_once in (False, True):
        try:
            director = Director.load("default", project=PROJECT, environ={"HOME": home}, once=is_once)
        except PolicyError:
            assert home == "relative"
        else:
            assert home != "relative"
            assert director.in_force()._all is not None, "all rules are compiled where that is not certain"


def test_overrides_depend_on_the_day_so_nothing_is_known_ahead(tmp_path: Path) -> None:
    rule = "  - {id: look-around, override: {rule: look-around, reason: x, expires: '2030-01-01'}, decision: ask, "
    path = written(tmp_path, rule + "when: {program: ls}}\n")
    path.write_text(path.read_text().replace("lists:", "extends: [builtin:default]\nlists:"))
    policy = load(path)
    assert policy.ahead is None
    assert policy.ahead == needed_rules.known(policy)
    assert str(once(path).evaluate(Action("ls", cwd=PROJECT)).verdict) == "ask"


@pytest.mark.parametrize("name", SHIPPED)
def test_the_digest_is_that_of_the_whole(name: str) -> None:
    director = once(name)
    (layer,) = director.layers
    assert layer.policy.ahead is not None
    body = layer.policy.body
    whole = {
        "layers": [
            {
                "authority": "given",
                "trusted": True,
                "defaults": body["defaults"],
                "scopes": body["scopes"],
                "rules": [{k: v for k, v in rule.items() if k != "origin"} for rule in body["rules"]],
            }
        ],
        "variables": {name: encodable(value) for name, value in director.variables.items()},
    }
    assert director.digest == sha256(canonical(whole)).hexdigest()
    assert director.digest == Director.load(name, project=PROJECT, environ={"HOME": "/nowhere/home"}).digest


def test_what_is_known_ahead_is_kept_with_the_compiled_policy(tmp_path: Path, own_user: Path) -> None:
    first = load(find("default"))
    again = load(find("default"))
    assert first.ahead == again.ahead == needed_rules.known(first)
    (path,) = cache_folder().glob("*.json")
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_what_is_not_known_of_every_rule_is_known_of_none() -> None:
    director = once("default")
    (layer,) = director.layers
    assert layer.policy.ahead is not None
    fewer = {**layer.policy.ahead, "limits": layer.policy.ahead["limits"][:3]}
    policy = policy_from(layer.policy.body, fewer)
    director = Director(policy, project=PROJECT, environ={"HOME": "/nowhere/home"}, once=True)
    assert str(director.evaluate(Action("rm -rf /", cwd=PROJECT)).verdict) == "deny"


def test_rules_are_the_same_objects_however_they_are_asked_for(director_of: Callable[..., Director]) -> None:
    policy = director_of(f"  {RULE}").layers[0].policy
    assert policy.rule(0) is policy.rules[0] is policy.on("2026-01-01")[0]
