"""What docs/policies.md shows is a policy that works, and docs/policy-file.md names every clause."""

import re
from pathlib import Path

import pytest

from humanlayer_agent.policy.language.field_types import keys_of
from humanlayer_agent.policy.language.loader import find, load
from humanlayer_agent.policy.language.policy import Match
from humanlayer_agent.policy.language.sources import shipped_names
from humanlayer_agent.policy_tools.diff import over_tests
from humanlayer_agent.policy_tools.diff.acceptance import Accepted

PAGES = Path(__file__).parents[2] / "docs"
TEXT = (PAGES / "policies.md").read_text()
KEYS = (PAGES / "policy-file.md").read_text()


FIRST = re.findall(r"```yaml title=\"team.yaml\"\n(.*?)```", TEXT, re.DOTALL)[0]
"""The first example that a reader copies."""


@pytest.mark.sample(1)
@pytest.mark.parametrize("confined", [False, True])
def test_the_first_example_loosens_what_it_names_and_nothing_else(tmp_path: Path, confined: bool) -> None:
    path = tmp_path / "team.yaml"
    path.write_text(FIRST)
    found = over_tests(load(find("default")), load(path), Accepted(), confined=confined)
    loosened = [change.command for change in found.changes.values() if change.loosened]
    assert loosened
    assert [each for each in loosened if "go.sum" not in each and "/srv/toolbox" not in each] == []
    assert not found.unlocked
    assert not found.eased


@pytest.mark.parametrize("name", [*keys_of(Match)])
def test_every_clause_is_named(name: str) -> None:
    assert f"`{name}`" in KEYS


def test_every_shipped_policy_is_named() -> None:
    assert re.findall(r"^\| `(\w+)` \|", TEXT.partition("## A file")[0], re.MULTILINE) == [
        "default",
        "strict",
        "ci",
        "sandbox",
        "guard",
    ]
    assert shipped_names() == ["ci", "default", "guard", "sandbox", "strict"]
