"""Directors over policies that a test writes itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load

Judge = Callable[..., PolicyDecision]
PROJECT = "/nowhere/project"


@pytest.fixture
def director_of(tmp_path: Path) -> Callable[..., Director]:
    """A Director over the policy text `rules` (the value of `rules:` in YAML), with optional defaults and lists."""

    def build(rules: str, *, defaults: str = "{}", lists: str = "{}", **more: Any) -> Director:
        text = f"version: 1\npolicy: test\ndefaults: {defaults}\nlists: {lists}\nrules:\n{rules}"
        path = tmp_path / "test.yaml"
        path.write_text(text)
        return Director(load(path), project=PROJECT, environ={"HOME": "/nowhere/home"}, **more)

    return build


@pytest.fixture
def judge(director_of: Callable[..., Director]) -> Judge:
    """judge(rules, command, **director options) -> PolicyDecision."""

    def run(rules: str, command: str, **more: Any) -> PolicyDecision:
        return director_of(rules, **more).evaluate(Action(command, cwd=PROJECT))

    return run
