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


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Runs git in a new repository, or below it, and returns what it prints."""
    if shutil.which("git") is None:
        pytest.skip("no git here")
    top = tmp_path / "repository"

    def run(*words: str, given: bytes = b"", at: Path = top, fails: bool = False) -> str:
        done = subprocess.run(["git", *words], cwd=at, env=ENVIRONMENT, input=given, capture_output=True)
        assert fails or done.returncode == 0, done.stderr
        return os.fsdecode(done.stdout)

    top.mkdir()
    run("init", "-q", "-b", "main")
    return run


@pytest.fixture
def top(git: Git, tmp_path: Path) -> Path:
    return tmp_path / "repository"
