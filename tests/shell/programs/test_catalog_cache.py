"""A cache that is handed in spares the catalog the reading of YAML, and changes nothing that it says."""

import json
from pathlib import Path

from humanlayer_agent.shell.programs import catalog
from humanlayer_agent.shell.programs.catalog import SHIPPED, Catalog


class Memory:
    """A cache that holds what JSON gives back."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self.loaded = 0

    def load(self, key: str) -> object | None:
        self.loaded += key in self.held
        return json.loads(self.held[key]) if key in self.held else None

    def store(self, key: str, content: object) -> None:
        self.held[key] = json.dumps(content)


def test_what_was_stored_is_taken_from_there() -> None:
    cache = Memory()
    first = Catalog(cache=cache).lookup("rm")
    assert len(cache.held) == 1
    assert cache.loaded == 0
    assert repr(Catalog(cache=cache).lookup("rm")) == repr(first) == repr(Catalog().lookup("rm"))
    assert cache.loaded == 1


def test_it_is_found_by_the_text_that_was_read(tmp_path: Path) -> None:
    cache, file = Memory(), tmp_path / "a.yaml"
    for about in ("removes", "copies"):
        file.write_text(f"# a\nprograms:\n  one:\n    about: {about}\n")
        found = Catalog(str(tmp_path), cache=cache).lookup("one")
        assert found is not None
        assert found.about == about


def test_what_json_would_change_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# a\nshared: {1: 2026-01-01}\nprograms:\n  one:\n    about: x\n")
    cache = Memory()
    assert Catalog(str(tmp_path), cache=cache).lookup("one") is not None
    assert not cache.held


def test_all_that_the_catalog_says_can_be_kept() -> None:
    """A bare `null:` or `on:` is no text in YAML, and a program that has one would be read anew each time."""
    files = (Path(SHIPPED.folder) / name for name in SHIPPED.files())
    assert [file.name for file in files if not catalog._is_json(catalog._yaml(file.read_text(), file.name))] == []
