"""Which files of a project a commit has: git says so, held to reading, and runs nothing of the repository's."""

import os
import subprocess
from pathlib import Path

import pytest

from humanlayer_agent.confine.project_files import Asked, project_files
from humanlayer_agent.processes.execution import find_program
from tests.support import enclosures


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    for name in ("tmp", "aside"):
        (tmp_path / name).mkdir()
    return Asked(enclosures.backend(), find_program("git"), str(tmp_path / "tmp"), str(tmp_path / "aside"))


@pytest.fixture
def project(scene: Path) -> Path:
    """A repository with one commit, and files in every state."""
    top = scene / "repository"
    (top / "src").mkdir(parents=True)
    for name in ("same", "changed", "deleted", "staged", "unwatched", "src/a"):
        (top / name).write_text("committed\n")
    (top / ".gitignore").write_text("*.log\nbuild/\n")
    git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "first")
    for name in ("changed", "staged", "unwatched", "new", "src/b", "x.log"):
        (top / name).write_text("mine\n")
    (top / "deleted").unlink()
    (top / "build").mkdir()
    (top / "build/out").write_text("made\n")
    git(top, "add", "staged")
    git(top, "update-index", "--assume-unchanged", "unwatched")
    return top


def git(where: Path, *words: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(where)}
    subprocess.run(["git", *words], cwd=where, env=env, check=True, capture_output=True)


def test_what_a_commit_has_and_what_it_has_not(project: Path, asked: Asked) -> None:
    found = project_files(str(project), asked)
    assert found.repository
    assert found.committed == {".gitignore", "same", "src/a"}
    assert sorted(found.loose) == ["changed", "new", "src/b", "staged", "unwatched"]
    assert {"build/", "x.log"} <= set(found.ignored)


def test_a_folder_of_a_repository_is_a_project_too(project: Path, asked: Asked) -> None:
    found = project_files(str(project / "src"), asked)
    assert (found.committed, found.loose) == ({"a"}, ("b",))


def test_before_the_first_commit_nothing_is_committed(scene: Path, asked: Asked) -> None:
    top = scene / "fresh"
    top.mkdir()
    git(top, "init", "-q")
    (top / "a").write_text("a")
    (top / "b").write_text("b")
    git(top, "add", "a")
    found = project_files(str(top), asked)
    assert (found.repository, found.committed, sorted(found.loose)) == (True, frozenset(), ["a", "b"])


def test_the_files_of_a_repository_in_it_are_its_files(project: Path, asked: Asked) -> None:
    (project / "nested/deep").mkdir(parents=True)
    git(project / "nested", "init", "-q")
    (project / "nested/deep/file").write_text("x")
    assert "nested/deep/file" in project_files(str(project), asked).loose


def test_names_are_taken_as_they_are(project: Path, asked: Asked) -> None:
    names = ["a\nb", " space ", "-rf", "*", '"quoted"', "UPPER", "upper", "\udcff", "ü"]
    for name in names:
        (project / name).write_text(name.encode("utf-8", "surrogateescape").hex())
    assert set(names) <= set(project_files(str(project), asked).loose)


@pytest.mark.parametrize(
    "setting", ["core.fsmonitor", "filter.x.clean", "core.hooksPath", "core.pager", "diff.external"]
)
def test_nothing_of_the_repository_reaches_out(project: Path, asked: Asked, setting: str) -> None:
    outside = project.parent / "outside/ran"
    (project / ".gitattributes").write_text("* filter=x\n")
    git(project, "config", setting, f"touch {outside} {project}/ran; cat")
    found = project_files(str(project), asked)
    assert not outside.exists()
    assert not (project / "ran").exists()
    assert "new" in found.loose


def test_without_git_no_file_is_committed(project: Path, asked: Asked) -> None:
    found = project_files(str(project), None)
    assert (found.repository, found.committed) == (False, frozenset())
    assert {"same", "x.log", "build/out", "src/a"} <= set(found.loose)
    assert not [path for path in found.loose if path.startswith(".git/")]


def test_a_repository_that_git_does_not_read_is_none(project: Path, asked: Asked) -> None:
    (project / ".git/index").write_bytes(b"no index")
    found = project_files(str(project), asked)
    assert (found.repository, "same" in found.loose) == (False, True)


def test_a_link_to_a_folder_is_a_file(project: Path, asked: Asked) -> None:
    (project / "away").symlink_to(project.parent / "outside")
    for each in (asked, None):
        loose = project_files(str(project), each).loose
        assert "away" in loose
        assert not [path for path in loose if path.startswith("away/")]
