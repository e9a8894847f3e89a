"""docs/api says what the docstrings say."""

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def make_api() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        yield import_module("make_api")
        del sys.modules["make_api"]


def test_it_is_up_to_date(make_api: ModuleType) -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md")}
    made = make_api.pages()
    old = sorted(name for name in made.keys() | written.keys() if made.get(name) != written.get(name))
    assert old == [], "run `python docs/make_api.py`"


@pytest.mark.long
def test_a_page_has_every_public_name(make_api: ModuleType) -> None:
    made = make_api.pages()
    for name in make_api.MODULES:
        module = make_api.Module(name)
        text = made[f"{name.removeprefix('humanlayer_agent.')}.md"]
        for each in module.public():
            assert f"\n## {each}\n" in text
            found = module.find(each)
            assert found.about or isinstance(found.node, ast.Assign | ast.AnnAssign), f"{name}.{each} has no docstring"


def test_what_a_page_says_of_a_function(make_api: ModuleType) -> None:
    text = make_api.page("humanlayer_agent", {})
    assert "### Director.should_allow\n\n```python\nshould_allow(action: Action) -> tuple[bool, str]\n```" in text
    assert "- `cwd`: the absolute directory it starts in." in text
    assert "### Gate.check" in text, "what a class has of its bases belongs to it"
