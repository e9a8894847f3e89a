"""What a human started from: git's index as it was, less what actions brought in, and the time of the first of them."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from humanlayer_agent.shell.baseline import Baseline, blob_name, place_name
from humanlayer_agent.shell.disk_reader import DiskReader, baseline_of


def git(folder: Path, *words: str) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, env=environ)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    git(work, "init", "-q")
    (work / "a.py").write_text("a = 1\n")
    (work / "src/b.py").write_text("b = 1\n")
    git(work, "add", ".")
    return work


def baseline(work: Path) -> Baseline:
    """What is there now, where every file counts as changed since."""
    return replace(baseline_of(str(work)), since_ns=1)


def test_what_was_brought_in_is_not_its_own(work: Path) -> None:
    before = baseline(work)
    assert before.has(str(work / "a.py"), b"a = 1\n")
    assert not before.has(str(work / "a.py"), b"a = 2\n")
    assert not replace(before, brought={blob_name(b"a = 1\n")}).has(str(work / "a.py"), b"a = 1\n")
    elsewhere = replace(before, brought={place_name(b"src/b.py", blob_name(b"a = 1\n"))})
    assert elsewhere.has(str(work / "a.py"), b"a = 1\n")


def test_a_later_index_says_what_was_brought_in(work: Path) -> None:
    before = baseline(work)
    (work / "new.py").write_text("new\n")
    (work / "src/b.py").write_text("a = 1\n")
    git(work, "add", ".")
    later = (work / ".git/index").read_bytes()
    assert before.brought_by(later) == {blob_name(b"new\n"), place_name(b"src/b.py", blob_name(b"a = 1\n"))}
    assert before.brought_by(later, [baseline_of(str(work))]) == before.brought_by(before.index) == set()


def test_a_changed_file_is_found_whatever_its_times_say(work: Path) -> None:
    reader = DiskReader(work, baseline=baseline(work))
    every = ["a.py", "src/b.py"]
    assert reader.changed(lambda path: path.endswith(".py")) == []
    about = (work / "a.py").stat()
    (work / "a.py").write_text("a = 2\n")
    os.utime(work / "a.py", ns=(about.st_atime_ns, about.st_mtime_ns))
    (work / "src/new.py").write_text("")
    found = reader.changed(lambda path: path.endswith(".py"))
    assert found is not None
    assert sorted(found) == [str(work / "a.py"), str(work / "src/new.py")]
    (work / "a.py").write_text("a = 1\n")
    assert reader.changed(lambda path: path.endswith("a.py")) == []
    assert DiskReader(work, baseline=Baseline(str(work))).changed(lambda path: path.endswith(tuple(every))) is not None


def test_what_no_action_can_have_changed_is_the_humans(work: Path) -> None:
    (work / "untracked.py").write_text("x\n")
    since = (work / "untracked.py").stat().st_ctime_ns
    for since_ns, found in ((since + 1, []), (since, [str(work / "untracked.py")])):
        reader = DiskReader(work, baseline=replace(baseline(work), since_ns=since_ns))
        assert reader.changed(lambda path: path.endswith("untracked.py")) == found


def test_folders_of_tools_are_not_looked_through_unless_an_action_wrote_there(work: Path) -> None:
    (work / "node_modules/m").mkdir(parents=True)
    (work / "node_modules/m/index.js").write_text("f()\n")
    reader = DiskReader(work, baseline=baseline(work))
    assert reader.changed(lambda path: path.endswith(".js")) == []
    wrote = [str(work / "node_modules/m")]
    reader = DiskReader(work, baseline=replace(baseline(work), wrote=wrote))
    assert reader.changed(lambda path: path.endswith(".js")) == [str(work / "node_modules/m/index.js")]


def test_a_folder_of_tools_that_is_named_is_looked_through(work: Path) -> None:
    (work / "tests/venv").mkdir(parents=True)
    (work / "tests/venv/conftest.py").write_text("x\n")
    reader = DiskReader(work, baseline=baseline(work))
    assert reader.changed(lambda path: path.endswith("conftest.py")) == []
    found = [str(work / "tests/venv/conftest.py")]
    assert reader.changed(lambda path: path.endswith("conftest.py"), [str(work / "tests/venv")]) == found


def test_links_that_were_made_since_are_followed(work: Path, tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    (tmp_path / "e/conftest.py").write_text("x\n")
    (work / "tests").symlink_to(tmp_path / "e")
    (work / "loop").symlink_to(work)
    reader = DiskReader(work, baseline=baseline(work))
    found = reader.changed(lambda path: path.endswith("conftest.py"))
    assert found is not None
    assert str(work / "tests/conftest.py") in found


def test_a_place_outside_the_project_is_looked_at_with_what_stands_above_it(work: Path, tmp_path: Path) -> None:
    (tmp_path / "e/sub").mkdir(parents=True)
    for name in ("conftest.py", "e/sub/x.py", "other.py"):
        (tmp_path / name).write_text("x\n")
    reader = DiskReader(work, baseline=baseline(work))
    found = reader.changed(lambda path: path.endswith(("conftest.py", "x.py")), [str(tmp_path / "e/sub")])
    assert found is not None
    assert sorted(found) == [str(tmp_path / "conftest.py"), str(tmp_path / "e/sub/x.py")]
    assert reader.changed(lambda path: True, [str(tmp_path / "no-such-place")]) is not None
