"""Each recipe of the cookbook does what stands below it, and loosens nothing else. That its examples hold and the lint finds
nothing in it is tested with the page (test_pages.py).
"""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.loader import find, load
from humanlayer_agent.policy.language.policy import Policy
from tests.support.pages import ROOT

BEGINNING = "version: 1\npolicy: team\nextends: [builtin:default]\n"
RECIPES: list[dict[str, Any]] = [
    recipe
    for section in yaml.safe_load((ROOT / "docs/cookbook.yaml").read_text(encoding="utf-8"))
    for recipe in section["recipes"]
]
COMMANDS = sorted({each for recipe in RECIPES for said in recipe["commands"].values() for each in said})


def verdicts(policy: Policy) -> dict[str, Verdict]:
    director = examples.director_for(policy, observe=False, confined=False)
    return {each: director.evaluate(Action(each, cwd=examples.PROJECT)).verdict for each in COMMANDS}


@cache
def by_default() -> dict[str, Verdict]:
    return verdicts(load(find("default")))


@pytest.mark.sample(1)
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe["title"])
def test_a_recipe(recipe: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    path.write_text(BEGINNING + recipe["policy"])
    found = verdicts(load(path))
    wanted = {each: Verdict[verdict.upper()] for verdict, commands in recipe["commands"].items() for each in commands}
    assert {each: found[each] for each in wanted} == wanted
    looser = {each for each in COMMANDS if found[each] < by_default()[each]}
    assert looser <= set(recipe["commands"].get("allow", ()))


def test_there_are_forty() -> None:
    assert f"has {len(RECIPES)} to copy" in (ROOT / "README.md").read_text()
    assert len({recipe["title"] for recipe in RECIPES}) == len(RECIPES) >= 40
