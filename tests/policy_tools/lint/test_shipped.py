"""The policies that ship are clean: nothing is found, and nothing is unknown."""

import pytest

from humanlayer_agent.policy.language.loader import find
from humanlayer_agent.policy.language.sources import shipped_names
from humanlayer_agent.policy_tools.lint import lint_file
from tests.support.extent import policies

IGNORED = {"sandbox": {"broad-allow"}, "guard": {"unused-list"}}
"""What comments in them say is meant to be so."""


@pytest.mark.remembered
@pytest.mark.parametrize("name", policies(shipped_names()))
def test_clean(name: str) -> None:
    found = lint_file(find(name))
    assert [(f.check, f.about, f.message) for f in found if not f.ignored] == []
    assert {f.check for f in found} == IGNORED.get(name, set())
    assert all(len(f.ignored) > 20 for f in found), "the reason is one"
