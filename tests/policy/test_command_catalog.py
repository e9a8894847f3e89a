"""What the YAML of a program says is kept between processes: only for exactly that text, and only if it is ours."""

import json
from pathlib import Path

import pytest

from humanlayer_agent.policy import command_catalog
from humanlayer_agent.policy.command_catalog import CATALOG, StateFolder
from humanlayer_agent.shell import Catalog

TEXT = "# a test\nprograms:\n  one:\n    about: x\n    operands: [delete]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the catalog of the test is kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog" / "a.yaml").write_text(TEXT)
    return tmp_path / "state" / "humanlayer-agent" / "catalog"


def read(tmp_path: Path) -> str:
    """What a new process has of the program."""
    return repr(Catalog(str(tmp_path / "catalog"), cache=StateFolder()).lookup("one"))


def kept(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def test_it_is_kept_for_this_user_alone_and_taken_from_there(folder: Path, tmp_path: Path) -> None:
    first = read(tmp_path)
    file = kept(folder)
    assert file.stat().st_mode & 0o777 == 0o600
    assert read(tmp_path) == first
    held = json.loads(file.read_text())
    held["content"]["programs"]["one"]["about"] = "taken from what was kept"
    file.write_text(json.dumps(held))
    assert "taken from what was kept" in read(tmp_path)


def test_what_others_can_write_is_not_believed(folder: Path, tmp_path: Path) -> None:
    first = read(tmp_path)
    file = kept(folder)
    file.write_text(json.dumps({**json.loads(file.read_text()), "content": {"programs": {}}}))
    file.chmod(0o620)
    assert read(tmp_path) == first


def test_a_link_and_what_was_kept_for_another_text_are_not_believed(folder: Path, tmp_path: Path) -> None:
    first = read(tmp_path)
    file = kept(folder)
    moved = file.rename(tmp_path / "moved.json")
    moved.write_text(json.dumps({"for": file.stem, "content": {}}))
    file.symlink_to(moved)
    assert read(tmp_path) == first
    file.unlink()
    other = folder / file.name
    other.write_text(json.dumps({"for": "0" * 64, "content": {}}))
    other.chmod(0o600)
    assert read(tmp_path) == first


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"for": 1}'])
def test_a_damaged_file_is_read_anew(folder: Path, tmp_path: Path, damaged: str) -> None:
    first = read(tmp_path)
    kept(folder).write_text(damaged)
    assert read(tmp_path) == first


def test_every_program_reads_the_same_from_what_was_kept(folder: Path) -> None:
    names, plain = CATALOG.names()[::40], Catalog()
    for _ in range(2):
        again = Catalog(cache=StateFolder())
        assert [repr(again.lookup(name)) for name in names] == [repr(plain.lookup(name)) for name in names]


def test_without_a_home_nothing_is_kept(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*names: str) -> str:
        raise RuntimeError("Could not determine home directory.")

    first = read(tmp_path)
    kept(folder).unlink()
    monkeypatch.setattr(command_catalog, "state_path", nowhere)
    assert read(tmp_path) == first
    assert not list(folder.iterdir())
