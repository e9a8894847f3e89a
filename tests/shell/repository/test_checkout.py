"""Branch, remotes and cleanness of a repository, read without git, are what git itself says; or they are not known."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.shell import HOST, NOWHERE, Checkout, analyse, checkout_in, places_asked

Git = Callable[..., str]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def git(project: Path) -> Git:
    settings = ["user.name=a", "user.email=a@example.org", "commit.gpgsign=false", "init.defaultBranch=main"]
    options = [word for each in settings for word in ("-c", each)]

    def run(*words: str, at: Path = project) -> str:
        done = subprocess.run(["git", *options, *words], cwd=at, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    run("init", "-q")
    (project / "a").write_text("a")
    run("add", "a")
    run("commit", "-qm", "a")
    return run


def look(place: Path, **wanted: bool) -> Checkout:
    return checkout_in(str(place), HOST, **wanted)


def test_a_branch(project: Path, git: Git) -> None:
    assert look(project).branch == "main" == git("branch", "--show-current")
    (project / "deep" / "er").mkdir(parents=True)
    assert look(project / "deep" / "er").branch == "main"
    git("checkout", "-qb", "agent/é-1")
    assert look(project).branch == "agent/é-1"
    git("pack-refs", "--all")
    assert look(project).branch == "agent/é-1"
    git("checkout", "-q", "--detach")
    assert look(project).branch == ""
    git("checkout", "-q", "--orphan", "new")
    assert look(project).branch == "new"


def test_a_linked_work_tree_has_a_branch_of_its_own(project: Path, git: Git, tmp_path: Path) -> None:
    git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    git("remote", "add", "origin", "git@example.org:acme/app.git")
    found = look(tmp_path / "side", remotes=True)
    assert (found.branch, found.remotes) == ("side", ("git@example.org:acme/app.git",))
    assert look(project).branch == "main"


def test_remotes_are_all_addresses(project: Path, git: Git) -> None:
    assert look(project, remotes=True).remotes == ()
    git("remote", "add", "origin", "https://example.org/acme/app")
    git("remote", "add", "other", "https://example.net/x")
    git("remote", "set-url", "--push", "origin", "https://example.com/y")
    assert set(look(project, remotes=True).remotes or ()) == {
        *("https://example.org/acme/app", "https://example.net/x", "https://example.com/y")
    }


@pytest.mark.parametrize(
    "settings",
    [
        "[include]\n\tpath = /x",
        '[includeIf "gitdir:/"]\n\tpath = /x',
        '[url "https://evil.example/"]\n\tinsteadOf = https://example.org/',
        '[remote "o"]\n\turl = "https://a.example"',
        "[remote",
        "[a]\n\tb = \\\n c",
        '[remote "o"]\n\turl = https://a.example\n\tvcs = ext',
    ],
)
def test_settings_that_lead_elsewhere_leave_remotes_unknown(project: Path, git: Git, settings: str) -> None:
    with (project / ".git/config").open("a") as file:
        file.write(f"{settings}\n")
    found = look(project, remotes=True)
    assert (found.branch, found.remotes) == ("main", None)


def test_addresses_need_no_name(project: Path, git: Git) -> None:
    git("remote", "add", "origin", "https://example.org/acme/app")
    git("config", "branch.main.remote", "origin")
    git("config", "branch.other.remote", ".")
    assert look(project, remotes=True).remotes == ("https://example.org/acme/app",)
    for setting in ("branch.main.pushRemote", "branch.other.remote", "remote.pushDefault"):
        git("config", setting, "ssh://evil.example/x")
        assert "ssh://evil.example/x" in (look(project, remotes=True).remotes or ())
        git("config", "--unset", setting)


@pytest.mark.parametrize("folder", ["remotes", "branches"])
def test_remotes_of_earlier_times_are_not_read(project: Path, git: Git, folder: str) -> None:
    (project / ".git" / folder).mkdir(exist_ok=True)
    assert look(project, remotes=True).remotes == ()
    (project / ".git" / folder / "x").write_text("URL: ssh://evil.example/x\n")
    assert look(project, remotes=True).remotes is None


def test_whether_it_is_clean(project: Path, git: Git) -> None:
    assert look(project).clean is None
    assert look(project, clean=True).clean is True
    (project / "new").write_text("b")
    assert look(project, clean=True).clean is True  # git does not track it
    git("add", "new")
    assert look(project, clean=True).clean is False
    git("commit", "-qm", "b")
    assert look(project, clean=True).clean is True
    (project / "a").write_text("changed")
    assert look(project, clean=True).clean is False
    (project / "a").unlink()
    assert look(project, clean=True).clean is False


def test_where_there_is_no_repository(tmp_path: Path) -> None:
    found = look(tmp_path, remotes=True)
    assert (found.branch, found.remotes) == (NOWHERE.branch, NOWHERE.remotes)
    assert (str(tmp_path / ".git/HEAD"), "") in found.files  # to be made meanwhile


def test_what_git_may_read_otherwise_is_not_known(project: Path, git: Git, tmp_path: Path) -> None:
    head, git_folder = project / ".git/HEAD", project / ".git"
    for text in (
        "ref: refs/heads/.invalid",
        "ref: refs/tags/v1",
        "ref: refs/heads/a..b",
        "",
        "main",
        "ref: refs/heads/a b",
    ):
        head.write_text(text)
        assert look(project).branch is None, text
    head.unlink()
    head.symlink_to("refs/heads/main")
    assert look(project).branch is None
    head.unlink()
    head.write_text("ref: refs/heads/main\n")
    (git_folder / "objects").rename(git_folder / "gone")  # git takes it for none, and looks further up
    assert look(project).branch is None
    (git_folder / "gone").rename(git_folder / "objects")
    inner = project / "inner"
    for part in ("objects", "refs"):
        (inner / part).mkdir(parents=True)
    (inner / "HEAD").write_text("ref: refs/heads/main\n")
    assert look(inner).branch is None  # a repository without a work tree
    (project / "link").mkdir()
    (project / "link/.git").symlink_to(git_folder)
    assert look(project / "link").branch is None
    (project / "file").mkdir()
    (project / "file/.git").write_text(f"gitdir: {git_folder}\n")
    assert look(project / "file").branch == "main"
    (project / "file/.git").write_text("elsewhere")
    assert look(project / "file").branch is None
    assert look(git_folder).branch is None


def test_the_files_tell_of_a_change(project: Path, git: Git) -> None:
    (project / "deep").mkdir()
    before = dict(look(project / "deep", remotes=True).files)
    assert {path.removeprefix(str(project)) for path in before} == {
        *("/deep/.git", "/deep/.git/HEAD", "/.git/commondir", "/.git/HEAD", "/.git/config", "/.git/config.worktree")
    }
    git("checkout", "-qb", "other")
    after = dict(look(project / "deep", remotes=True).files)
    assert {path for path in before if before[path] != after[path]} == {str(project / ".git/HEAD")}
    git("init", "-q", at=project / "deep")
    assert look(project / "deep").branch == "main"


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("git push", True),
        ("git -C sub push", True),
        ("cd sub && git push", True),
        ("git add -A && git commit -m x && git push", True),
        ("git status; terraform apply", True),
        ("ls > out; git push", True),
        ("git checkout x && git push", False),
        ("git push & git switch x", False),
        ("git branch -m main x; git push", False),
        ("git remote set-url origin x; git push", False),
        ("git config a.b c; git push", False),
        ("for b in a b; do git checkout $b; git push; done", False),
        ("sudo git push", True),
        ("chroot x git push", False),
        ("GIT_CONFIG_COUNT=1 git push", False),
        ("export HOME=/x; git push", False),
        ("for b in a b; do git push; done", True),
        ("make; git push", False),
        ("npm test && git push", False),
        ("./x.sh; git push", False),
        ("frob; git push", False),
        ("echo 'ref: refs/heads/x' > .git/HEAD; git push", False),
        ("cp x $Y; git push", False),
        ("rm -rf *; git push", False),
        ("GIT_DIR=/x git push", False),
        ("export GIT_WORK_TREE=/x; git push", False),
        ("git --git-dir=/x push", False),
        ("git -c remote.origin.url=x push", False),
        ("git -C $X push", False),
        ("cd $X; git push", False),
        ("git log > .git/HEAD; git push", False),
        ("git log --output=.git/HEAD; git push", False),
        ("git show HEAD:x > .git/config; git push", False),
        ("git log > out; git push", True),
        ("git fetch --set-upstream ssh://evil.example/x; git push", False),
        ("git push -u origin x", True),
    ],
)
def test_an_action_that_may_change_it_leaves_it_unknown(line: str, known: bool) -> None:
    commands = analyse(line, cwd="/srv/app").commands
    asked = [c for c in commands if c.subcommand == "push" or c.program == "terraform"]
    assert asked
    assert all(bool(places_asked(each, commands, settings=True)) is known for each in asked)
    if line == "git -C sub push":
        assert places_asked(asked[0], commands) == ("/srv/app/sub",)
