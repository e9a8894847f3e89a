"""What is said to be at stake: counted against what really is on the disk and in the repository."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.shell import HOST, analyse, blast_radius
from humanlayer_agent.shell.repository import blast_radius as module
from tests.shell.repository.conftest import Draw, Git
from tests.shell.repository.test_history import commit


def said(top: Path, text: str, **more: str) -> tuple[str, ...]:
    return blast_radius(analyse(text, cwd=os.fspath(top)), project=os.fspath(top), view=HOST, **more)


def draw(git: Git, top: Path) -> None:
    """Committed, changed and untracked files, a nested repository, a remote with a branch that has gone on."""
    for name in ("docs/a.md", "docs/b.md", "src/x.py"):
        commit(git, top, name, "first")
    git("init", "-q", "--bare", "../remote")
    git("remote", "add", "origin", "../remote")
    git("push", "-q", "-u", "origin", "main")
    commit(git, top, "src/y.py", "second")
    git("push", "-q", "origin", "main:ahead")
    git("fetch", "-q", "origin")
    (top / "docs/b.md").write_text("changed")
    (top / "docs/new\x1b.md").write_text("new")
    (top / "nested").mkdir()
    git("init", "-q", "nested")
    (top / "nested/z").write_text("z")


@pytest.fixture
def scene(drawn: Callable[[Draw], Path]) -> Path:
    return drawn(draw)


def test_what_goes_is_counted_and_what_is_nowhere_else_is_named(scene: Path) -> None:
    size = sum(file.stat().st_size for file in (scene / "docs").iterdir())
    (one,) = said(scene, "rm -rf docs")
    assert one == (
        f"Deletes 3 files and 1 folder ({size} bytes) at docs; 1 is in a commit; "
        "2 are in no commit: docs/b.md, docs/new\x1b.md."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rm docs/*.md", "Deletes 3 files ("),
        ("rm src/x.py", "at src/x.py; 1 is in a commit."),
        ("rm -rf nested", "With it goes a whole repository, its history included:"),
        ("rm -rf .", "With it goes a whole repository, its history included:"),
        ("rm -rf .git", "With it goes a whole repository, its history included:"),
        ("rm nothing", "Deletes nothing: there is no such file now."),
        ("echo x > docs/b.md", "Changes 1 file (7 bytes) at docs/b.md; 1 is in no commit: docs/b.md."),
        ("cp src/x.py docs/b.md", "Changes 1 file (7 bytes) at docs/b.md"),
        ("rm -rf ../remote", "; none of it is under version control."),
        ("curl https://example.org/x > docs/b.md", "Reaches example.org."),
    ],
)
def test_each_kind_is_told(scene: Path, text: str, expected: str) -> None:
    assert any(expected in each for each in said(scene, text)), said(scene, text)


@pytest.mark.parametrize("text", ["echo x > src/x.py", "echo x > brand-new", "ls", 'rm -rf "$X"', "mkdir z"])
def test_nothing_is_said_where_nothing_is_lost_or_known(scene: Path, text: str) -> None:
    assert said(scene, text) == ()


def test_no_commit_is_said_to_keep_what_goes_with_its_own_repository(scene: Path) -> None:
    assert not any("in a commit" in each for each in said(scene, "rm -rf ."))


def test_what_lies_in_another_repository_is_said(scene: Path) -> None:
    assert any(each == f"That is in another repository: {scene}/nested." for each in said(scene, "rm nested/z")), said(
        scene, "rm nested/z"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("git push", "Pushes 1 commit ("),
        ("git push origin main:new", "Pushes main to origin as new, of which nothing is known here."),
        ("git push origin :main", "Deletes the branch main of origin."),
        ("git push origin --delete main", "Deletes the branch main of origin."),
        ("git push --all", "Pushes more than one branch to origin."),
        ("git push -f origin HEAD~1:ahead", "It throws away 1 commit ("),
        ("git push origin +HEAD~1:ahead", "It throws away 1 commit ("),
        ("git push origin HEAD~1:ahead", "It is refused, or throws away 1 commit ("),
        ("git push origin $B", "Pushes something: what, and to which branch, can't be told."),
        ("git push origin no-such-branch", "Pushes something: what, and to which branch, can't be told."),
    ],
)
def test_a_push_says_its_commits_and_its_branch(scene: Path, text: str, expected: str) -> None:
    assert any(each.startswith(expected) for each in said(scene, text)), said(scene, text)


def test_a_variable_that_leads_git_elsewhere_leaves_it_open(scene: Path) -> None:
    found = blast_radius(
        analyse("git push", cwd=os.fspath(scene)), project=os.fspath(scene), view=HOST, environ=["GIT_DIR"]
    )
    assert found == ("Pushes something: what, and to which branch, can't be told.",)


def test_a_link_is_what_is_deleted_and_not_what_it_leads_to(scene: Path) -> None:
    (scene / "link").symlink_to("docs")
    (one,) = said(scene, "rm -rf link")
    assert one.startswith("Deletes 1 file (")


def test_it_is_bounded_and_says_so(scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 2)
    assert said(scene, "rm -rf docs")[0].startswith("Deletes more than ")


def test_it_does_not_fill_the_screen(scene: Path) -> None:
    found = said(scene, f"git push origin {' '.join(f':b{n}' for n in range(500))}")
    assert len(found) == module.MAX_SENTENCES + 1
    assert found[-1] == f"{500 - module.MAX_SENTENCES} more things like these are at stake."


def test_hard_links_are_not_counted_as_lost(scene: Path) -> None:
    os.link(scene / "docs/b.md", scene / "kept")
    assert "1 of them has further names (hard links): what they hold stays there." in said(scene, "rm -rf docs")


def test_what_can_not_be_entered_is_said(scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, folder: str) -> None:
        raise PermissionError(13, "no", folder)

    monkeypatch.setattr("humanlayer_agent.shell.view.View.entries", refuse)
    assert "Not everything there could be looked at: it may be more." in said(scene, "rm -rf docs")
