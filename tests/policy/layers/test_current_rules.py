"""The rules in force: a rule that is an error stops the engine, and the digest is over all that decides."""

from hashlib import sha256
from pathlib import Path

import pytest

from humanlayer_agent.action import Action, canonical, encodable
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load

PROJECT = "/nowhere/project"
SHIPPED = ("default", "strict", "ci", "sandbox")
RULE = "- {id: rules, decision: allow, when: {program: ls}}\n"


def written(tmp_path: Path, rules: str, lists: str = "{}") -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(f"version: 1\npolicy: mine\nlists: {lists}\nrules:\n{rules}")
    return path


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


@pytest.mark.parametrize(
    "where", ["unless: {not: %s}", "when: {any: [%s, {program: b}]}", "when: {program: {path: [%s]}}"]
)
def test_so_is_one_that_stands_deep(where: str, tmp_path: Path) -> None:
    condition = "nowhere/x" if "path:" in where else "{paths: {all_within: [nowhere/x]}}"
    condition = where % condition
    when = "" if condition.startswith("when") else "when: {program: frob}, "
    path = written(tmp_path, f"  {RULE}  - {{id: broken, decision: deny, {when}{condition}}}\n")
    with pytest.raises(PolicyError):
        Director.load(path, project=PROJECT)


def test_so_is_one_that_a_variable_makes_wrong() -> None:
    with pytest.raises(PolicyError):
        Director.load("default", project=PROJECT, environ={"HOME": "relative"})


@pytest.mark.parametrize("name", SHIPPED)
def test_the_digest_is_that_of_the_whole(name: str) -> None:
    director = Director.load(name, project=PROJECT, environ={"HOME": "/nowhere/home"})
    (layer,) = director.layers
    body = layer.policy.body
    whole = {
        "layers": [
            {
                "authority": "given",
                "trusted": True,
                "confinements": body["confinements"],
                "defaults": body["defaults"],
                "scopes": body["scopes"],
                "rules": [{k: v for k, v in rule.items() if k != "origin"} for rule in body["rules"]],
            }
        ],
        "variables": {name: encodable(value) for name, value in director.variables.items()},
    }
    assert director.digest == sha256(canonical(whole)).hexdigest()


def test_what_was_compiled_holds_for_the_next_director_only_while_links_lead_where_they_did(tmp_path: Path) -> None:
    """Rules are compiled once for policy, variables and links: a link that is put elsewhere counts at once."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    place = tmp_path / "place"
    place.symlink_to(tmp_path / "a")
    rules = (
        f"  {RULE}  - {{id: there, decision: deny, when: {{effect: delete, paths: {{any_within: ['{place}/**']}}}}}}\n"
    )
    path = written(tmp_path, rules)

    def decided(target: str) -> str:
        director = Director.load(path, project=PROJECT)
        return director.evaluate(Action(f"rm {tmp_path}/{target}/x", cwd=PROJECT)).verdict.name

    assert (decided("a"), decided("b")) == ("DENY", "ASK")
    place.unlink()
    place.symlink_to(tmp_path / "b")
    assert (decided("a"), decided("b")) == ("ASK", "DENY")


def test_nor_for_another_policy_project_or_day(tmp_path: Path) -> None:
    path = written(tmp_path, "  - {id: frobs, decision: deny, when: {program: frob}}\n")
    extended = tmp_path / "more.yaml"
    extended.write_text(
        "version: 1\npolicy: more\nextends: ./mine.yaml\nrules:\n  - id: frobs\n    decision: ask\n"
        "    when: {program: frob}\n    override: {rule: frobs, reason: later, expires: 2030-01-01}\n"
    )

    def decided(path: Path, day: str, project: str = PROJECT) -> tuple[str, str]:
        director = Director(load(path), project=project, today=lambda: day)
        return director.evaluate(Action("frob", cwd=PROJECT)).verdict.name, director.digest

    before, after = (decided(extended, day) for day in ("2029-12-31", "2030-01-02"))
    assert (before[0], after[0]) == ("ASK", "DENY")
    assert decided(extended, "2029-12-31") == before
    assert decided(path, "2029-12-31")[0] == "DENY"
    assert decided(extended, "2029-12-31", "/nowhere/else")[1] != before[1]


def test_a_policy_that_changes_within_a_process_is_read_anew(tmp_path: Path) -> None:
    path = written(tmp_path, "  - {id: frobs, decision: deny, when: {program: frob}}\n")
    assert Director.load(path, project=PROJECT).evaluate(Action("frob", cwd=PROJECT)).verdict.name == "DENY"
    written(tmp_path, "  - {id: frobs, decision: ask, when: {program: frob}}\n")
    assert Director.load(path, project=PROJECT).evaluate(Action("frob", cwd=PROJECT)).verdict.name == "ASK"
