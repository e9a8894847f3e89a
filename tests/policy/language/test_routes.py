"""A rule that names a route which no channels file has is a mistake, said at its place."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.configuration import build_gate
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.language.routes import check_routes
from humanlayer_agent.store.rows import dump_decision, load_decision
from humanlayer_agent.testing.approvers import TEST_AUTHORITY

POLICY = """version: 1
policy: mine
rules:
  - id: careful
    decision: ask
    reason: a test
    route: {route}
    when: {{program: deploy}}
    tests: {{match: [deploy], not_match: [ls]}}
"""
CHANNELS = """version: 1
people: {{alice: {{os_user: alice}}}}
channels: {{terminal: {{type: terminal}}}}
routes:
  {name}: {{approvers: [alice], steps: [{{to: terminal}}]}}
  default: {{approvers: [alice], solo: true, steps: [{{to: terminal}}]}}
"""


def policy(folder: Path, route: str) -> Path:
    path = folder / "policy.yaml"
    path.write_text(POLICY.format(route=route))
    return path


def test_it_is_said_where_it_stands(tmp_path: Path) -> None:
    loaded = load(policy(tmp_path, "careful"))
    check_routes([loaded], {"default", "careful"})
    with pytest.raises(PolicyError) as error:
        check_routes([loaded], {"default", "team"})
    said = str(error.value)
    assert f"{tmp_path}/policy.yaml:7:12: rule careful: there is no route 'careful'" in said
    assert "there are default, team\n    " in said


def test_a_file_that_has_changed_meanwhile_is_not_quoted(tmp_path: Path) -> None:
    path = policy(tmp_path, "careful")
    loaded = load(path)
    path.write_text("something else")
    with pytest.raises(PolicyError, match=r"policy\.yaml:4: rule careful: there is no route") as error:
        check_routes([loaded], {"default"})
    assert "something" not in str(error.value)


def test_a_rule_may_ask_more_of_a_route(tmp_path: Path) -> None:
    path = policy(tmp_path, "{name: careful, quorum: 2, min_assurance: login}")
    director = Director.load(path, project=tmp_path)
    found = director.evaluate(Action("deploy", cwd=str(tmp_path), project=str(tmp_path)))
    assert found.route == {"name": "careful", "quorum": 2, "min_assurance": "login"}
    stored = load_decision(dump_decision(found))
    routes = {"careful": replace(TEST_AUTHORITY.routes["default"], name="careful")}
    rule = replace(TEST_AUTHORITY, routes=routes).rule_for(stored)
    assert (rule.name, rule.quorum, rule.min_assurance) == ("careful", 2, "login")
    with pytest.raises(PolicyError, match="there is no route 'careful'"):
        check_routes([load(path)], {"default"})


@pytest.mark.parametrize(
    ("route", "message"),
    [
        ("{quorum: 0}", "greater than or equal to 1"),
        ("{qorum: 2}", "unknown key 'qorum'; did you mean quorum"),
        ("{min_assurance: none}", "expected 'os'"),
        ("{approvers: [mallory]}", "unknown key 'approvers'"),
        ("[default]", "valid string"),
    ],
)
def test_no_more_than_that(tmp_path: Path, route: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as error:
        load(policy(tmp_path, route))
    assert "policy.yaml:7:" in str(error.value)


@pytest.mark.parametrize(("route", "starts"), [("team", True), ("default", True), ("teem", False)])
def test_no_gate_is_built_with_it(tmp_path: Path, route: str, starts: bool) -> None:
    (tmp_path / "channels.yaml").write_text(CHANNELS.format(name="team"))
    project = tmp_path / "project"
    project.mkdir()
    given: dict[str, Any] = {
        "policy": policy(tmp_path, route),
        "project": project,
        "channels": tmp_path / "channels.yaml",
        "store": tmp_path / "store.sqlite3",
    }
    if starts:
        assert build_gate(**given).authority.routes[route]
    else:
        with pytest.raises(PolicyError, match=r"policy\.yaml:7:12: .* no route 'teem'"):
            build_gate(**given)


def test_without_channels_files_there_is_the_default_only(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with pytest.raises(PolicyError, match="there are default"):
        build_gate(policy=policy(tmp_path, "team"), project=project, store=tmp_path / "store.sqlite3")


def test_a_command_that_does_more_does_not_get_by_with_less(tmp_path: Path) -> None:
    """Two rules ask by different routes: the one that decides names the people, and both say how many and how surely."""
    path = tmp_path / "policy.yaml"
    rule = "  - {{id: {0}, decision: ask, reason: r, severity: {1}, route: {2}, when: {{program: {0}}}, tests: {{match: [{0}], not_match: [ls]}}}}\n"
    path.write_text(
        "version: 1\npolicy: mine\ndefaults: {unmatched: allow}\nrules:\n"
        + rule.format("deploy", "medium", "{name: careful, quorum: 2, min_assurance: login}")
        + rule.format("wipe", "high", "default")
    )
    director = Director.load(path, project=tmp_path)
    routes = TEST_AUTHORITY.routes
    authority = replace(
        TEST_AUTHORITY,
        routes={"default": routes["default"], "careful": replace(routes["two"], name="careful", quorum=3)},
    )

    def rule_of(command: str) -> tuple[str, int, str]:
        found = director.evaluate(Action(command, cwd=str(tmp_path), project=str(tmp_path)))
        asked = authority.rule_for(load_decision(dump_decision(found)))
        return asked.name, asked.quorum, asked.min_assurance

    assert rule_of("deploy") == ("careful", 3, "login")
    assert rule_of("wipe") == ("default", 1, "chat")
    assert rule_of("wipe; deploy") == rule_of("deploy; wipe") == ("default", 3, "login")
