"""Where git keeps the files of a project, and what of them it has kept."""

import os
import subprocess
from pathlib import Path

import pytest

from humanlayer_agent.confine.repository import (
    changes_nothing_that_runs,
    is_kept,
    kept_contents,
    repository_folder,
    sources,
    worktree_links,
)

NAMED = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")


def git(where: Path, *words: str) -> bytes:
    env = {"PATH": os.environ["PATH"], "HOME": str(where), "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", *NAMED, *words], cwd=where, env=env, capture_output=True, check=True).stdout


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder with a repository, `main`, of one commit."""
    folder = Path(os.path.realpath(tmp_path))
    (folder / "main").mkdir()
    git(folder / "main", "init", "-q")
    git(folder / "main", "commit", "-q", "--allow-empty", "-m", "x")
    return folder


def test_a_repository_that_lies_in_the_project(base: Path) -> None:
    assert repository_folder(base / "main") == str(base / "main")
    assert repository_folder(base) == str(base)


def test_a_further_worktree(base: Path) -> None:
    git(base / "main", "worktree", "add", "-q", "../side")
    assert repository_folder(base / "side") == str(base / "main/.git")


def test_a_worktree_of_a_bare_repository(base: Path) -> None:
    git(base, "clone", "-q", "--bare", "main", "bare.git")
    git(base / "bare.git", "worktree", "add", "-q", "../side")
    assert repository_folder(base / "side") == str(base / "bare.git")


def test_a_submodule(base: Path) -> None:
    git(base, "clone", "-q", "main", "super")
    git(base / "super", "submodule", "-q", "add", str(base / "main"), "libs/sub")
    assert repository_folder(base / "super/libs/sub") == str(base / "super/.git/modules/libs/sub")
    assert repository_folder(base / "super") == str(base / "super")


def test_what_a_project_alone_says_leads_nowhere(base: Path) -> None:
    git(base / "main", "worktree", "add", "-q", "../side")
    forged = base / "forged"
    forged.mkdir()
    for said in (base / "main/.git", base / "main/.git/worktrees/side", base / "main", base, "nothing", "/"):
        (forged / ".git").write_text(f"gitdir: {said}\n")
        assert repository_folder(forged) == str(forged)
    (forged / ".git").unlink()
    (forged / ".git").symlink_to(base / "side/.git")
    assert repository_folder(forged) == str(forged)


def test_a_folder_of_git_that_the_project_brings_itself_leads_nowhere(base: Path) -> None:
    """Its `commondir` names another repository, which knows nothing of the project."""
    project = base / "project"
    own = project / "own/worktrees/x"
    own.mkdir(parents=True)
    (project / ".git").write_text(f"gitdir: {own}\n")
    (own / "gitdir").write_text(f"{project}/.git\n")
    for said in (str(base / "main/.git"), "../..", "/"):
        (own / "commondir").write_text(f"{said}\n")
        assert repository_folder(project) == str(project)


def test_the_links_of_further_worktrees(base: Path) -> None:
    assert worktree_links(base / "main") == ()
    git(base / "main", "worktree", "add", "-q", "../side")
    assert worktree_links(base / "main") == (f"{base}/side/.git",)
    assert worktree_links(repository_folder(base / "side")) == (f"{base}/side/.git",)


def test_only_a_link_that_leads_back_is_one(base: Path) -> None:
    git(base / "main", "worktree", "add", "-q", "../side")
    secret = base / "secret"
    secret.write_text("hunter2\n")
    for said in (secret, base, base / "main/.git/config", "/"):
        (base / "main/.git/worktrees/side/gitdir").write_text(f"{said}\n")
        assert worktree_links(base / "main") == ()


def kept(top: Path, *paths: str) -> dict[str, frozenset[str]]:
    names = [each for path in paths for each in sources(path)]
    return kept_contents(paths, git(top, "ls-tree", "-z", "HEAD", "--", *names), str(top))


@pytest.fixture
def project(base: Path) -> Path:
    top = base / "main"
    (top / "chart").mkdir()
    (top / "chart/secrets.yaml").write_text("kind: Secret\n")
    (top / ".env.example").write_text("MODE=dev\n")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "y")
    return top


def test_what_git_has_kept_of_a_file_or_of_what_it_was_copied_from(project: Path) -> None:
    (project / ".env").write_text("MODE=dev\n")
    known = kept(project, "chart/secrets.yaml", ".env")
    assert is_kept(f"{project}/chart/secrets.yaml", known)
    assert is_kept(f"{project}/.env", known)
    assert not is_kept(f"{project}/.env.example", known)  # nobody asked


def test_a_content_that_git_has_not_kept_is_a_secret_of_this_machine(project: Path) -> None:
    (project / ".env").write_text("MODE=dev\nTOKEN=hunter2\n")
    (project / "secrets.yaml").write_text("kind: Secret\n")  # elsewhere it is kept
    known = kept(project, "chart/secrets.yaml", ".env", "secrets.yaml")
    assert not is_kept(f"{project}/.env", known)
    assert not is_kept(f"{project}/secrets.yaml", known)
    (project / "chart/secrets.yaml").write_text("password: hunter2\n")
    assert not is_kept(f"{project}/chart/secrets.yaml", known)


def test_what_was_only_added_counts_for_nothing(project: Path) -> None:
    (project / "key.pem").write_text("key\n")
    git(project, "add", "key.pem")
    assert not is_kept(f"{project}/key.pem", kept(project, "key.pem"))


def test_a_link_is_not_followed(project: Path) -> None:
    (project / ".env").symlink_to(".env.example")
    assert not is_kept(f"{project}/.env", kept(project, ".env"))


BEFORE = '[core]\n\tbare = false\n[remote "origin"]\n\turl = ../x\n[branch "main"]\n\tremote = origin\n'


@pytest.mark.parametrize(
    "more",
    [
        "[user]\n\tname = Ann Lee\n\temail = ann@example.org\n",
        '[user]\n\tname = "Ann Lee"\n',
        '[branch "x/y"]\n\tremote = origin\n\tmerge = refs/heads/x/y\n\trebase = true\n',
        '[branch "x"]\n\tremote = .\n\tmerge = refs/heads/main\n',
        '[branch "x"]\n',
    ],
)
def test_who_commits_and_what_branches_follow(more: str) -> None:
    assert changes_nothing_that_runs(BEFORE.encode(), (BEFORE + more).encode())
    assert changes_nothing_that_runs((BEFORE + more).encode(), BEFORE.encode())


@pytest.mark.parametrize(
    "more",
    [
        "\tpushDefault = x\n",
        "[core]\n\tfsmonitor = ./x\n",
        "[core]\n\thooksPath = x\n",
        "[user]\n\tsigningKey = ./x\n",
        "[user]\n\tname = a \\\n[core]\n\tpager = ./x\n",
        "[user]\n\tname = a\n[alias]\n\tname = !./x\n",
        "[user] name = a\n[core] pager = ./x\n",
        '[user]\n\tname = "a\\nb"\n',
        "[user] ; x\n\tname = a\n",
        "[alias]\n\tst = !./x\n",
        '[branch "x"]\n\tremote = https://example.org/x\n',
        '[branch "x"]\n\tremote = evil\n',
        '[branch "x"]\n\tremote = ..\n',
        '[branch "x"]\n\tpushRemote = evil\n',
        '[remote "evil"]\n\turl = ../x\n[branch "x"]\n\tremote = evil\n',
        '[branch "x"]\n\tmergeOptions = --x\n',
        "[include]\n\tpath = ../x\n",
        "[user\n\tname = a\n",
    ],
)
def test_everything_else_may_run_something(more: str) -> None:
    assert not changes_nothing_that_runs(BEFORE.encode(), (BEFORE + more).encode())


def test_no_heading_that_is_part_of_a_value() -> None:
    before = BEFORE + "[alias]\n\tst = status \\\n"
    assert not changes_nothing_that_runs(before.encode(), (before + "[user]\n\tname = !./x\n").encode())
    assert changes_nothing_that_runs(before.encode(), before.encode())


def test_what_is_taken_away_counts_as_well() -> None:
    assert not changes_nothing_that_runs(BEFORE.encode(), BEFORE.replace("\tbare = false\n", "").encode())
