"""Which uncommitted work a command would throw away, and that nothing is said where nothing would be lost."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from humanlayer_agent.shell import HOST, LOSS, Beginning, analyse, note_losses
from humanlayer_agent.shell.repository import object_store
from tests.shell.repository.conftest import Draw, Git
from tests.shell.repository.test_history import commit


def said(
    top: Path, text: str, *, beginning: Beginning | None = None, environ: Sequence[str] = (), at: str = ""
) -> tuple[str | None, ...]:
    """What a command is said to throw away, and what the catalog says of it that still stands."""
    program = analyse(text, cwd=os.path.normpath(top / at))
    note_losses(program, os.fspath(top), HOST, beginning, environ)
    effects = [effect for command in program.commands for effect in command.effects if effect.kind == "vcs-rewrite"]
    assert all(effect.resolved for effect in effects if effect.role == LOSS)
    return tuple(effect.operand for effect in effects)


def committed(git: Git, top: Path) -> None:
    """A repository in which everything is committed."""
    for name in ("README.md", "docs/a.md", "docs/b.md", "one/x", "two/x"):
        commit(git, top, name, "first")
    commit(git, top, "README.md", "second")
    git("branch", "merged")
    git("checkout", "-qb", "ahead")
    commit(git, top, "new", "new")
    git("checkout", "-q", "main")


def uncommitted(git: Git, scene: Path) -> None:
    """The same with a changed file, a staged change, an untracked file, a stash, and a further work tree."""
    committed(git, scene)
    (scene / "docs/b.md").write_text("stashed")
    git("stash", "-q")
    (scene / "README.md").write_text("mine")
    (scene / "docs/a.md").write_text("staged")
    git("add", "docs")
    (scene / "notes").write_text("x")
    (scene / "two/y").write_text("x")
    git("worktree", "add", "-q", "../further", "merged")
    (scene.parent / "further/docs/b.md").write_text("mine")


@pytest.fixture
def scene(drawn: Callable[[Draw], Path]) -> Path:
    return drawn(committed)


@pytest.fixture
def changed(drawn: Callable[[Draw], Path]) -> Path:
    return drawn(uncommitted)


README, STAGED = "uncommitted changes of README.md", "uncommitted changes of docs/a.md"
BOTH = "uncommitted changes of README.md, docs/a.md"
ANY = "uncommitted changes, perhaps of README.md, docs/a.md"
IGNORED = "untracked files, what is not ignored of "
LOST = [
    ("git checkout -- README.md", README),
    ("git checkout README.md docs/b.md", README),
    ("git -C docs checkout ../README.md", README),
    ("cd docs && git checkout HEAD a.md", STAGED),
    ("git restore README.md docs", README),
    ("git restore -SW docs", STAGED),
    ("git restore --source=HEAD~1 README.md", README),
    ("git checkout HEAD~1 -- .", BOTH),
    ("git checkout -f", BOTH),
    ("git checkout --force ahead", BOTH),
    ("git switch --discard-changes ahead", BOTH),
    ("git checkout --theirs README.md", README),
    ("git checkout -p", ANY),
    ("git restore $X", ANY),
    ("git checkout -- $(cat list)", ANY),
    ("git checkout '*.md'", ANY),
    ("git checkout :README.md", ANY),
    ("git --git-dir=.git checkout -- README.md", ANY),
    ("GIT_WORK_TREE=. git checkout -- README.md", ANY),
    ("git -c clean.requireForce=false clean -x", "untracked files: notes, two/y"),
    ("git reset --hard", BOTH),
    ("git reset --hard ahead", BOTH),
    ("git reset --hard HEAD~1", f"{BOTH}; 1 commits of the branch"),
    ("git reset --merge", BOTH),
    ("git rm -f README.md", README),
    ("git rm -f --pathspec-from-file=list", "uncommitted changes, perhaps of README.md, docs"),
    ("git checkout --pathspec-from-file=list", "uncommitted changes, perhaps of README.md, docs"),
    ("git rm -rf .", BOTH),
    ("git clean -fdx", "untracked files: notes, two/y"),
    ("git clean -f", f"{IGNORED}notes, two/y"),
    ("git clean -f two", f"{IGNORED}two/y"),
    ("git clean -xf '*'", "untracked files: notes, two/y"),
    ("cd two && git clean -f", f"{IGNORED}two/y"),
    ("git stash drop", "stash WIP on main"),
    ("git stash drop stash@{0}", "stash WIP on main"),
    ("git stash clear", "stash WIP on main"),
    ("git branch -D ahead merged", "branch ahead with 1 commits that are not in HEAD"),
    ("git worktree remove --force ../further", "uncommitted changes of docs/b.md"),
    ("git worktree remove -f ../further", "uncommitted changes of docs/b.md"),
    ("rsync -a --delete one/ two/", "uncommitted changes of two/y"),
    ("rsync -a --delete --exclude=x one/ .", "uncommitted changes of README.md, docs/a.md, notes, two/y"),
    ("git status && git checkout -- README.md", README),
    ("for f in README.md; do git checkout -- $f; done", README),
    ("bash -c 'git checkout -- README.md'", README),
]
KEPT = [
    "git checkout -- docs/b.md",
    "git checkout ahead",
    "git checkout -b new",
    "git restore --staged .",
    'git restore --staged "$X"',
    "git restore docs",
    "git switch ahead",
    "git reset",
    "git reset HEAD~1",
    "git reset --soft HEAD~1",
    "git rm docs/b.md",
    "git rm --cached README.md",
    "git clean -n",
    "git clean -ndx",
    "git stash",
    "git stash list",
    "git branch -D merged",
    "git branch -d ahead",
    "git worktree remove ../further",
    "git merge ahead",
    "git pull",
    "rsync -a one/ two/",
    "rsync -a --delete one/ ../elsewhere/",
]


@pytest.mark.sample(9)
@pytest.mark.parametrize(("text", "lost"), LOST)
def test_what_would_be_lost_is_named(changed: Path, text: str, lost: str) -> None:
    (found,) = said(changed, text)
    assert found is not None
    assert found.startswith(lost)
    assert found.count(",") == lost.count(",")


@pytest.mark.sample(11)
@pytest.mark.parametrize("text", KEPT)
def test_nothing_is_said_where_nothing_would_be_lost(changed: Path, text: str) -> None:
    assert said(changed, text) == ()


@pytest.mark.sample(14)
@pytest.mark.parametrize("text", [text for text, lost in LOST if "commits" not in lost and "worktree" not in text])
def test_nothing_is_said_of_what_is_clean(scene: Path, text: str) -> None:
    assert said(scene, text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "git checkout other 2>/dev/null; git reset --hard",
        "./run && git reset --hard",
        "git stash pop; git reset --hard",
        "git reset --hard; git checkout ahead",
        "git commit -am x && git reset --hard HEAD~1",
        "git reset --hard nothing",
        "git reset --hard $X",
        "git stash drop; git stash pop",
        "git checkout -qf ahead; git branch -D main",
        "git branch -D nothing",
        "git checkout -B main",
        "git branch -M merged main",
        "git push -f",
        "git commit --amend",
    ],
)
def test_what_is_said_in_general_stands_where_it_is_not_alone_or_not_known(scene: Path, text: str) -> None:
    assert said(scene, text)


@pytest.mark.parametrize("text", ["git reset --hard && git clean -fdx", "git clean -fdq; git reset --hard; git status"])
def test_what_only_throws_away_takes_nothing_from_the_other(scene: Path, text: str) -> None:
    assert said(scene, text) == ()


def test_untracked_files_that_a_version_replaces(git: Git, scene: Path) -> None:
    (scene / "new").write_text("mine")
    assert said(scene, "git checkout ahead -- new") == said(scene, "git checkout -f ahead")
    assert said(scene, "git checkout ahead -- .") == ("uncommitted changes of new",)
    assert said(scene, "git checkout ahead") == ()


def test_many_files_are_counted(scene: Path) -> None:
    for n in range(9):
        (scene / f"n{n}").write_text("x")
    assert said(scene, "git clean -fx") == ("untracked files: n0, n1, n2, n3, n4 and 4 more",)


def test_a_name_that_can_not_be_written_down(scene: Path) -> None:
    with open(os.fsencode(scene) + b"/\xff", "w") as file:
        file.write("x")
    assert said(scene, "git clean -fx") == (r"untracked files: '\udcff'",)


def test_what_was_removed_is_not_lost(scene: Path) -> None:
    (scene / "README.md").unlink()
    shutil.rmtree(scene / "docs")
    assert said(scene, "git checkout -- README.md docs; git restore .") == said(scene, "git reset --hard") == ()


def test_a_change_that_keeps_size_and_time_of_change_to_the_second(scene: Path) -> None:
    about = (scene / "README.md").stat()
    (scene / "README.md").write_text("secund")
    fraction = (about.st_mtime_ns + 1) % 10**9
    os.utime(scene / "README.md", ns=(about.st_atime_ns, about.st_mtime_ns // 10**9 * 10**9 + fraction))
    assert said(scene, "git checkout README.md") == (README,)


def test_where_it_can_not_be_told(git: Git, changed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_MOST_STEPS", 4)
    assert said(changed, "git checkout -- README.md") == ("uncommitted changes, if there are any",)
    assert said(changed, "git reset --hard") == ("uncommitted changes",)


@pytest.mark.parametrize("form", ["split index", "split index that lists nothing", "damaged index", "sha256"])
def test_repositories_that_are_not_read(git: Git, changed: Path, form: str) -> None:
    if form == "split index":
        git("update-index", "--split-index")
    elif form == "split index that lists nothing":
        for name in git("ls-files").splitlines():
            os.utime(changed / name, (1, 1))
        index = changed / ".git/index"
        for words in (("-q", "--refresh"), ("--split-index",)):
            # git lists again what may have changed since it wrote the index: it wrote it long after everything else.
            os.utime(index, (index.stat().st_mtime + 60,) * 2)
            git("update-index", *words, fails=True)
        assert (changed / ".git/index").read_bytes()[8:12] == bytes(4)
    elif form == "damaged index":
        (changed / ".git/index").write_bytes(b"DIRC nothing")
    else:
        git("config", "extensions.objectFormat", "sha256")
    assert said(changed, "git checkout -- README.md") == ("uncommitted changes, if there are any",)
    assert said(changed, "git checkout ahead") == ()


def test_a_folder_that_is_a_link(changed: Path) -> None:
    (changed.parent / "link").symlink_to(changed / "docs")
    assert said(changed, f"cd {changed.parent}/link && git checkout HEAD a.md") == (STAGED,)


def test_modes_that_git_does_not_keep(git: Git, scene: Path) -> None:
    (scene / "README.md").chmod(0o755)
    assert said(scene, "git checkout README.md") == (README,)
    git("config", "core.fileMode", "false")
    assert said(scene, "git checkout README.md") == ()


def test_a_file_that_is_too_large_to_be_read(changed: Path) -> None:
    with (changed / "README.md").open("wb") as file:
        file.truncate(9 << 20)
    assert said(changed, "git checkout docs/b.md") == ()
    assert said(changed, "git checkout README.md") == (README,)


def test_no_repository(tmp_path: Path) -> None:
    assert said(tmp_path, "git checkout -- README.md") == ()
    assert said(tmp_path, "git reset --hard") == ("uncommitted changes",)


def test_a_variable_that_moves_the_repository(changed: Path) -> None:
    assert said(changed, "git reset --hard", environ=["GIT_WORK_TREE"]) == ("uncommitted changes",)


# ---- what the run itself has changed -------------------------------------------------------------------------


def test_what_was_changed_since_the_beginning_is_the_runs_own(git: Git, changed: Path) -> None:
    beginning = Beginning(os.fspath(changed / "docs"), HOST)
    (changed / "docs/b.md").write_text("by the run")
    (changed / "one/x").write_text("by the run")
    git("add", "one")
    assert said(changed, "git checkout -- docs one", beginning=beginning) == ()
    assert said(changed, "git reset --hard", beginning=beginning) == (BOTH,)
    (changed / "README.md").write_text("mine, and more by the run")
    (changed / "docs/a.md").write_text("staged, and more by the run")
    git("add", "-A")
    assert said(changed, "git restore -SW .", beginning=beginning)[0] == f"{BOTH}, notes, two/y"


def test_of_another_work_tree_nothing_is_the_runs_own(changed: Path) -> None:
    beginning = Beginning(os.fspath(changed), HOST)
    assert said(changed.parent / "further", "git checkout .", beginning=beginning) == (
        "uncommitted changes of docs/b.md",
    )
    assert said(changed, "git checkout README.md", beginning=Beginning("/", HOST)) == (README,)
