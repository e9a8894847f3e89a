"""What the YAML of a program says is kept between processes: only for exactly that text, and only if it is ours."""

import json
from pathlib import Path

import pytest

from humanlayer_agent.shell.programs import catalog

TEXT = "about: a test\nprograms:\n  x: {operands: {each: delete}}\n"
PARSED = {"about": "a test", "programs": {"x": {"operands": {"each": "delete"}}}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "humanlayer-agent" / "catalog"


def kept(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def test_it_is_kept_for_this_user_alone_and_taken_from_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert catalog._kept(TEXT, "x.yaml") == PARSED
    assert kept(folder).stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(catalog, "_yaml", lambda text, file: pytest.fail("read anew"))
    assert catalog._kept(TEXT, "x.yaml") == PARSED


def test_what_others_can_write_is_not_believed(folder: Path) -> None:
    catalog._kept(TEXT, "x.yaml")
    file = kept(folder)
    file.write_text(json.dumps({**json.loads(file.read_text()), "content": {"programs": {}}}))
    file.chmod(0o620)
    assert catalog._kept(TEXT, "x.yaml") == PARSED


def test_a_link_and_what_was_kept_for_another_text_are_not_believed(folder: Path, tmp_path: Path) -> None:
    catalog._kept(TEXT, "x.yaml")
    file = kept(folder)
    moved = file.rename(tmp_path / "moved.json")
    moved.write_text(json.dumps({"for": file.stem, "content": {}}))
    file.symlink_to(moved)
    assert catalog._kept(TEXT, "x.yaml") == PARSED
    file.unlink()
    other = folder / file.name
    other.write_text(json.dumps({"for": "0" * 64, "content": {}}))
    other.chmod(0o600)
    assert catalog._kept(TEXT, "x.yaml") == PARSED


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"for": 1}'])
def test_a_damaged_file_is_read_anew(folder: Path, damaged: str) -> None:
    catalog._kept(TEXT, "x.yaml")
    kept(folder).write_text(damaged)
    assert catalog._kept(TEXT, "x.yaml") == PARSED


def test_what_json_would_change_is_not_kept(folder: Path) -> None:
    assert catalog._kept("programs: {1: 2026-01-01}\n", "x.yaml")["programs"].keys() == {1}
    assert not folder.exists()


def test_every_program_reads_the_same_from_what_was_kept(folder: Path) -> None:
    places = list(catalog._catalog().places.items())[::40]
    for _, place in places:
        text = f"{place.head}\nprograms:{place.body}"
        first = catalog._kept(text, place.file)
        assert first == catalog._kept(text, place.file) == catalog._yaml(text, place.file)


def test_all_that_the_catalog_says_can_be_kept() -> None:
    """A bare `null:` or `on:` is no text in YAML, and a program that has one would be read anew each time."""
    files = (Path(catalog._SCANNED.folder) / name for name in catalog._SCANNED.files())
    assert [file.name for file in files if not catalog._is_json(catalog._yaml(file.read_text(), file.name))] == []


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*names: str) -> str:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(catalog, "state_path", nowhere)
    assert catalog._kept(TEXT, "x.yaml") == PARSED
