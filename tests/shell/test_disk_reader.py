"""Files that agents run: what is read, what counts as the project's own."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.disk_reader import DiskReader, GivenReader
from humanlayer_agent.shell.reader import MAX_TEXT
from humanlayer_agent.shell.repository.index import index_entries


def git(folder: Path, *words: str) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, env=environ)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "sub").mkdir()
    for name in ("run.sh", "sub/tool.py", "sub/täst.py", "a" * 200 + ".sh"):
        (tmp_path / name).write_text(f"echo {name[:20]}\n")
    git(tmp_path, "add", ".")
    return tmp_path


@pytest.mark.parametrize("version", [2, 3, 4])
def test_tracked_and_unmodified_is_project_code(repository: Path, version: int) -> None:
    if version == 3:
        (repository / "later").write_text("x")
        git(repository, "add", "--intent-to-add", "later")
    elif version == 4:
        git(repository, "update-index", "--index-version=4")
    assert (repository / ".git/index").read_bytes()[7] == version
    reader = DiskReader(repository)
    for name in ("run.sh", "sub/tool.py", "sub/täst.py", "a" * 200 + ".sh"):
        source = reader.read(str(repository / name))
        assert source is not None
        assert source.project, name
        assert source.sha256 == hashlib.sha256((repository / name).read_bytes()).hexdigest()


def test_a_change_takes_that_away(repository: Path) -> None:
    reader = DiskReader(repository)
    (repository / "run.sh").write_text("rm -rf /srv/x\n")
    source = reader.read(str(repository / "run.sh"))
    assert source is not None
    assert not source.project
    assert source.text == "rm -rf /srv/x\n"


def test_git_add_does_not_make_project_code(repository: Path) -> None:
    reader = DiskReader(repository)
    (repository / "own.sh").write_text("echo own\n")
    git(repository, "add", "own.sh")
    source = reader.read(str(repository / "own.sh"))
    assert source is not None
    assert not source.project


def test_a_link_is_what_it_leads_to(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "run.sh"
    outside.write_text("echo run.sh\n")  # the same content as the tracked file
    (repository / "link.sh").symlink_to(outside)
    (repository / "inner.sh").symlink_to("run.sh")
    reader = DiskReader(repository)
    led, inner = reader.read(str(repository / "link.sh")), reader.read(str(repository / "inner.sh"))
    assert led is not None
    assert not led.project
    assert inner is not None
    assert inner.project


def test_a_project_below_the_working_tree(repository: Path) -> None:
    source = DiskReader(repository / "sub").read(str(repository / "sub/tool.py"))
    assert source is not None
    assert source.project


def test_a_worktree_has_its_own_index(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    git(repository, "-c", "user.name=a", "-c", "user.email=b@c", "commit", "-qm", "x")
    tree = tmp_path_factory.mktemp("trees") / "tree"
    git(repository, "worktree", "add", "-q", str(tree))
    source = DiskReader(tree).read(str(tree / "run.sh"))
    assert source is not None
    assert source.project


def test_what_can_not_be_read_as_code(tmp_path: Path) -> None:
    (tmp_path / "long.sh").write_bytes(b"#" * (MAX_TEXT + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    reader = DiskReader(tmp_path)
    for name in ("long.sh", "binary"):
        source = reader.read(str(tmp_path / name))
        assert source is not None
        assert source.text is None
        assert source.sha256


def test_only_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = DiskReader(tmp_path)
    assert reader.read(str(tmp_path / "pipe")) is None
    assert reader.read(str(tmp_path)) is None
    assert reader.read(str(tmp_path / "missing")) is None
    assert reader.read("/dev/zero") is None
    assert reader.read("a\0b") is None


def test_a_broken_index_means_nothing_is_tracked(repository: Path) -> None:
    index = repository / ".git/index"
    data = bytearray(index.read_bytes())
    data[40] ^= 1
    index.write_bytes(bytes(data))
    source = DiskReader(repository).read(str(repository / "run.sh"))
    assert source is not None
    assert not source.project


@given(st.binary(max_size=300))
def test_any_bytes_as_an_index(data: bytes) -> None:
    assert isinstance(index_entries(b"DIRC" + data), dict)


def test_given_files() -> None:
    reader = GivenReader({"/p/a.py": "print(1)"}, ["/p/b.py"])
    a, b = reader.read("/p/./a.py"), reader.read("/p/x/../b.py")
    assert a is not None
    assert (a.text, a.project) == ("print(1)", False)
    assert b is not None
    assert (b.text, b.project) == (None, True)
    assert reader.read("/p/c.py") is None
