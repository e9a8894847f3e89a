"""Repositories that git itself has made, without the settings of whoever runs the tests."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
    **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
}

Git = Callable[..., str]
Draw = Callable[[Git, Path], None]
"""Has git make a scene in a new repository, whose top is the second argument, and beside it."""


def within(top: Path) -> Git:
    """Runs git in a repository, or below it, and returns what it prints."""

    def run(*words: str, given: bytes = b"", at: Path = top, fails: bool = False) -> str:
        done = subprocess.run(["git", *words], cwd=at, env=ENVIRONMENT, input=given, capture_output=True)
        assert fails or done.returncode == 0, done.stderr
        return os.fsdecode(done.stdout)

    return run


class Drawing:
    """A scene that git has made, of which each test gets a copy: to have it made again takes ten times as long."""

    def __init__(self, folder: Path, draw: Draw) -> None:
        self._folder = folder
        top = folder / "repository"
        top.mkdir()
        git = within(top)
        git("init", "-q", "-b", "main")
        for sample in (top / ".git/hooks").iterdir():
            sample.unlink()
        draw(git, top)
        files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
        self._naming = [path.relative_to(folder) for path in files if os.fsencode(folder) in path.read_bytes()]
        indexed = any(path.name == "index" for path in files)
        self._tops = [path.parent.relative_to(folder) for path in folder.rglob(".git")] if indexed else []

    def copy(self, to: Path) -> None:
        """Write the scene there; to git it is as if it had been made there."""
        shutil.copytree(self._folder, to, symlinks=True, dirs_exist_ok=True)
        for name in self._naming:
            (to / name).write_bytes((to / name).read_bytes().replace(os.fsencode(self._folder), os.fsencode(to)))
        for top in self._tops:  # the index says of each file where it lies on the disk
            within(to / top)("update-index", "-q", "--refresh", fails=True)


@pytest.fixture(scope="session")
def drawings() -> dict[Draw, Drawing]:
    """What tests of this session have drawn."""
    return {}


@pytest.fixture
def drawn(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, drawings: dict[Draw, Drawing]
) -> Callable[[Draw], Path]:
    """Draws a scene in the test's folder, and returns the top of its repository."""
    if shutil.which("git") is None:
        pytest.skip("no git here")

    def drawn(draw: Draw) -> Path:
        if draw not in drawings:
            drawings[draw] = Drawing(tmp_path_factory.mktemp("drawing"), draw)
        drawings[draw].copy(tmp_path)
        return tmp_path / "repository"

    return drawn


def nothing(git: Git, top: Path) -> None:
    """A repository in which nothing was committed yet."""


@pytest.fixture
def top(tmp_path: Path, drawn: Callable[[Draw], Path]) -> Path:
    repository = tmp_path / "repository"
    return repository if repository.exists() else drawn(nothing)


@pytest.fixture
def git(top: Path) -> Git:
    """Runs git in a new repository, or below it, and returns what it prints."""
    return within(top)
