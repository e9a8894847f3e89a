"""The pages that are made from the code say what the code says."""

import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.support.pages import ROOT

MADE = ("adapters", "cli", "cookbook", "doors", "policy-file", "tools")


@pytest.fixture
def makers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    monkeypatch.setattr(sys, "argv", ["hla"])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("make_"):
            del sys.modules[name]


@pytest.mark.parametrize("name", MADE)
def test_a_made_page_is_up_to_date(name: str, makers: None) -> None:
    maker = f"make_{name.replace('-', '_')}"
    made: str = import_module(maker).page()
    assert (ROOT / f"docs/{name}.md").read_text(encoding="utf-8") == made, f"run python docs/{maker}.py"
