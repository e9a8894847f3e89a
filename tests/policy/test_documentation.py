"""What docs/policies.md shows is a policy that works, and it names every clause."""

import re
from pathlib import Path

import pytest

from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.field_types import keys_of
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.language.policy import Match
from humanlayer_agent.policy.language.sources import shipped_names

TEXT = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()


_SHOWN = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("shown", _SHOWN, ids=["a file", "confinements"])
def test_the_policy_it_shows(tmp_path: Path, shown: str) -> None:
    path = tmp_path / "team.yaml"
    path.write_text(shown if shown.startswith("version: 1\n") else f"version: 1\npolicy: team\n{shown}")
    policy = load(path)
    failed = [(r.example.rule.id, r.example.command, r.expected, r.found) for r in examples.run(policy) if not r.passed]
    assert [f for f in failed if not next(r for r in policy.rules if r.id == f[0]).inherited] == []


@pytest.mark.parametrize("name", [*keys_of(Match)])
def test_every_clause_is_named(name: str) -> None:
    assert f"`{name}" in TEXT


def test_every_shipped_policy_is_named() -> None:
    assert re.findall(r"^\| `(\w+)` \|", TEXT.partition("## A file")[0], re.MULTILINE) == [
        "default",
        "strict",
        "ci",
        "sandbox",
        "guard",
    ]
    assert shipped_names() == ["ci", "default", "guard", "sandbox", "strict"]
