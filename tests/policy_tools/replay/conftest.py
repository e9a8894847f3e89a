"""Recorded runs: of mini-swe-agent itself, and as other programs write them."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.configuration import checked_project
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy_tools.replay import Engine, Judged
from humanlayer_agent.policy_tools.replay.steps import Item, NoCommand, Step, Unreadable

PROJECT = "/srv/app"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file of JSON lines, or one JSON document."""

    def make(name: str, *rows: Any, whole: Any = None, indent: int | None = None) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if whole is not None:
            path.write_text(json.dumps(whole, indent=indent))
        else:
            path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return path

    return make


@pytest.fixture
def replay() -> Callable[..., list[Judged | Unreadable | NoCommand]]:
    """Judge items by the policy "default"."""

    def make(items: Iterable[Item], project: Path | None = None) -> list[Judged | Unreadable | NoCommand]:
        def directors(at: str, confined: bool) -> list[Director]:
            environ = {"HOME": "/home/u"}
            return [Director.load("default", project=at, environ=environ, tested=False, confined=confined)]

        engine = Engine(directors, project=project, default=lambda: Path(PROJECT), check=checked_project)
        return list(engine.replay(items))

    return make


@pytest.fixture
def step() -> Callable[..., Step]:
    """A command of one run."""

    def make(command: str, **fields: Any) -> Step:
        given = {"source": "log", "place": "line 1", "run": "r", "id": "1", "cwd": PROJECT} | fields
        return Step(command=command, **given)

    return make


@pytest.fixture
def verdicts(replay: Any, step: Any) -> Callable[..., list[str]]:
    """The verdicts on commands of one run, one after the other."""

    def make(*commands: str) -> list[str]:
        return [str(row.decisions[0].verdict) for row in replay(step(command) for command in commands)]

    return make
