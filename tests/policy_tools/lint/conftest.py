"""Policies that a test writes itself, linted."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy_tools.lint import CHECKS, Finding, lint_file
from humanlayer_agent.policy_tools.lint.subject import Subject

Lint = Callable[..., list[Finding]]


@pytest.fixture
def lint_rules(tmp_path: Path) -> Lint:
    """lint_rules(rules, check, lists=..., more=...) -> what one check finds in a policy with these rules."""

    checks = {check.id: check for check in CHECKS}

    def run(rules: str, name: str, *, lists: str = "{}", more: str = "") -> list[Finding]:
        path, check = policy_file(tmp_path, rules, lists=lists, more=more), checks[name]
        try:
            subject = Subject(load(path, tested=False))
        except PolicyError:
            return lint_file(path)
        return [replace(f, check=name, level=f.level or check.level) for f in check.run(subject)]

    return run


@pytest.fixture
def subject_of(tmp_path: Path) -> Callable[..., Subject]:
    """subject_of(rules, lists=...) -> the policy as the checks see it."""

    def build(rules: str, *, lists: str = "{}") -> Subject:
        return Subject(load(policy_file(tmp_path, rules, lists=lists), tested=False))

    return build


def policy_file(folder: Path, rules: str, *, lists: str = "{}", more: str = "") -> Path:
    path = folder / "p.yaml"
    path.write_text(f"version: 1\npolicy: p\n{more}lists: {lists}\nrules:\n{rules}")
    return path
