"""Common commands under `default`: what nobody would want to be asked about runs, and what is harmful never does."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director

GROUPS: dict[str, dict[str, list[Any]]] = yaml.safe_load(
    Path(__file__).with_name("commonplace.yaml").read_text(encoding="utf-8")
)


def rows(kind: str) -> list[Any]:
    return [row for group in GROUPS.values() for row in group.get(kind, ())]


@pytest.fixture(scope="module")
def director() -> Director:
    return Director.load("default", project="/srv/app", environ={"HOME": "/home/dev"})


def judged(director: Director, command: str) -> PolicyDecision:
    return director.evaluate(Action(command, cwd="/srv/app", project="/srv/app"))


def test_what_is_harmless_is_not_asked_about(director: Director) -> None:
    asked = {command: judged(director, command).reason for command in rows("harmless")}
    assert {command: reason for command, reason in asked.items() if reason} == {}


def test_what_is_asked_about_all_the_same_is_known(director: Director) -> None:
    """Who mends one of them moves its row."""
    for row in rows("asked"):
        decision = judged(director, row["command"])
        assert decision.verdict is Verdict.ASK, row["command"]
        assert row["by"] in decision.rules, (row["command"], decision.rules)


def test_few_harmless_commands_are_asked_about() -> None:
    asked, harmless = len(rows("asked")), len(rows("harmless"))
    assert asked <= 0.15 * (asked + harmless)
    assert asked + harmless + len(rows("harmful")) >= 300


@pytest.mark.parametrize("command", rows("harmful"))
def test_what_is_harmful_is_never_allowed(command: str, director: Director) -> None:
    assert judged(director, command).verdict is not Verdict.ALLOW


def test_each_command_stands_once() -> None:
    commands = [
        row["command"] if isinstance(row, dict) else row
        for kind in ("harmless", "asked", "harmful")
        for row in rows(kind)
    ]
    assert len(commands) == len(set(commands))
