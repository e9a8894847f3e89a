"""Repositories that are not the project's own: what git obeys there, shown with git, and what is found of it."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell import analyse
from humanlayer_agent.shell.disk_reader import DiskReader
from humanlayer_agent.shell.repository.settings import is_inert, settings_in

ENVIRON = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *words: str, fails: bool = False) -> str:
    env = {**ENVIRON, "HOME": str(folder)}
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, env=env)
    assert fails or done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = Path(os.path.realpath(tmp_path)) / "app"
    (project / "docs").mkdir(parents=True)
    (project / "docs/a.txt").write_text("a\n")
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "start")
    return project


def asks(project: Path, command: str, reader: DiskReader | None = None) -> bool:
    program = analyse(command, cwd=str(project), environ={"HOME": "/h"}, reader=reader or DiskReader(project))
    return any(e.kind == "execute" and e.unread for c in program.commands for e in c.effects)


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def monitor(project: Path) -> str:
    return f"[core]\n\tfsmonitor = touch {project.parent}/ran;\n"


def ran(project: Path) -> bool:
    return (project.parent / "ran").exists()


def planted(project: Path) -> None:
    git(project, "init", "-q", "--bare", "sub")
    put(project / "sub/config", f"[core]\n\tbare = false\n\tworktree = ..\n{monitor(project)}")


def led_by_a_file(project: Path) -> None:
    planted(project)
    put(project / "led/.git", "gitdir: ../sub\n")


def led_by_a_link(project: Path) -> None:
    git(project, "init", "-q", "x")
    put(project / "x/.git/config", monitor(project))
    (project / "led").mkdir()
    (project / "led/.git").symlink_to("../x/.git")


def separate(project: Path, at: str = "led") -> None:
    git(project, "init", "-q", "--separate-git-dir=meta", at)
    put(project / "meta/config", monitor(project))


def common(project: Path) -> None:
    planted(project)
    put(project / "led/.git/HEAD", "ref: refs/heads/main\n")
    put(project / "led/.git/commondir", "../../sub\n")


def of_the_work_tree(project: Path) -> None:
    git(project, "init", "-q", "led")
    put(project / "led/.git/config", "[extensions]\n\tworktreeConfig = true\n")
    put(project / "led/.git/config.worktree", monitor(project))


def included(project: Path) -> None:
    git(project, "init", "-q", "led")
    put(project / "more", monitor(project))
    put(project / "led/.git/config", "[include]\n\tpath = ../../more\n")


def on_one_line(project: Path) -> None:
    git(project, "init", "-q", "led")
    put(project / "led/.git/config", f"[core] fsmonitor = touch {project.parent}/ran;\n")


def continued(project: Path) -> None:
    git(project, "init", "-q", "led")
    put(project / "led/.git/config", f"[core]\n\tfsmonitor = touch \\\n{project.parent}/ran;\n")


def hook(project: Path) -> None:
    git(project, "init", "-q", "led")
    put(project / "led/.git/hooks/post-index-change", f"#!/bin/sh\ntouch {project.parent}/ran\n")
    (project / "led/.git/hooks/post-index-change").chmod(0o755)
    put(project / "led/a", "a\n")
    git(project / "led", "-c", "core.hooksPath=/nowhere", "add", "a")
    (project / "led/a").touch()
    os.utime(project / "led/a", (1, 1))


def driver(project: Path) -> None:
    git(project, "init", "-q", "led")
    put(project / "led/a", "a\n")
    git(project / "led", "add", "a")
    put(project / "led/.gitattributes", "* filter=x\n")
    put(project / "led/.git/config", f'[filter "x"]\n\tclean = touch {project.parent}/ran; cat\n')
    os.utime(project / "led/a", (1, 1))


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    ("make", "where"),
    [
        (planted, "sub"),
        *[
            (make, "led")
            for make in (
                *(led_by_a_file, led_by_a_link, separate, common, of_the_work_tree, included, on_one_line),
                *(continued, hook, driver),
            )
        ],
    ],
)
def test_code_in_settings_is_unread(project: Path, make: Callable[[Path], None], where: str) -> None:
    make(project)
    for command in (f"cd {where} && git status", f"git -C {where} diff", f"(cd {where}; bash -c 'git ls-files -m')"):
        assert asks(project, command), command
    assert not asks(project, "git status")
    git(project / where, "status", fails=True)
    assert ran(project)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "command",
    [
        "git -C plain status",
        "cd plain && git log && git commit -qam x",
        "git -C docs log",
        "cd .git && git log",
        "cd .git/hooks; git status",
        "git -C bare.git log",
        "git -C tree diff",
        "cd module && git log",
        "git clone -q plain c && git -C c log",
        "git clone -q plain c && cd c && git status",
        "git worktree add -q w2 && cd w2 && git status",
        "git init -q new && cd new && git add . && git commit -qm x",
        "git checkout -q -b x && git status",
        "cp -r docs more && git add more && git status",
        "tar xf a.tar && git status",
    ],
)
def test_a_harmless_one_costs_no_question(project: Path, command: str) -> None:
    git(project, "init", "-q", "plain")
    for name, value in {"user.name": "A", "branch.main.remote": "origin", "color.ui": "auto"}.items():
        git(project / "plain", "config", name, value)
    git(project / "plain", "commit", "-q", "--allow-empty", "-m", "x")
    git(project, "clone", "-q", "--bare", "plain", "bare.git")
    git(project, "worktree", "add", "-q", "tree")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", "./plain", "module")
    assert not asks(project, command)


@pytest.mark.parametrize(
    "command",
    [
        "cp -r ../evil docs && cd docs && git status",
        "tar xf a.tar && git -C docs status",
        "rsync -a ../evil/ docs; cd docs; git log",
        "git checkout -q other && git -C docs status",
        "git clone -q . c && git -C c/docs log",
        "git init -q --separate-git-dir=m q && echo x >> m/config && git -C q status",
        "mkdir n && echo 'gitdir: ../m' > n/.git && cd n && git status",
        "for x in 1 2; do git -C docs status; cp -r ../evil docs; done",
    ],
)
def test_what_the_action_itself_may_change(project: Path, command: str) -> None:
    assert asks(project, command)


def test_git_status_goes_into_submodules(project: Path) -> None:
    separate(project)
    git(project / "led", "-c", "core.fsmonitor=false", "commit", "-q", "--allow-empty", "-m", "x")
    assert not asks(project, "git status")
    git(project, "add", "led")
    assert asks(project, "git status")
    assert asks(project, "cd docs && git diff")
    git(project, "status")
    assert ran(project)


def test_git_status_goes_into_submodules_that_another_index_names(project: Path) -> None:
    separate(project)
    git(project / "led", "-c", "core.fsmonitor=false", "commit", "-q", "--allow-empty", "-m", "x")
    git(project, "add", "led")
    git(project, "update-index", "--split-index")
    put(project / "docs/b.txt", "b\n")
    git(project, "add", "docs")
    assert asks(project, "git diff")
    git(project, "status")
    assert ran(project)


def test_git_status_goes_into_submodules_of_a_folder_that_is_one_name_in_the_index(project: Path) -> None:
    for name in ("deep/a.txt", "deeper/a.txt"):
        put(project / name, "a\n")
    git(project, "add", "-A")
    git(project, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},deep/led")
    git(project, "commit", "-qm", "x")
    git(project, "sparse-checkout", "init", "--cone", "--sparse-index")
    git(project, "sparse-checkout", "set", "docs")
    assert not asks(project, "git status")
    (project / "deep").mkdir()
    separate(project, "deep/led")
    assert asks(project, "git status")
    git(project, "status")
    assert ran(project)


def test_git_goes_into_a_submodule_that_it_brings_itself(project: Path) -> None:
    git(project, "checkout", "-qb", "other")
    separate(project)
    git(project / "led", "-c", "core.fsmonitor=false", "commit", "-q", "--allow-empty", "-m", "x")
    git(project, "add", "led")
    git(project, "-c", "core.fsmonitor=false", "commit", "-qm", "x")
    git(project, "checkout", "-q", "-")
    (project.parent / "ran").unlink(missing_ok=True)
    git(project, "status")
    assert not ran(project)
    for command in (
        "git status",
        "git checkout -q other",
        "git status; git checkout -q other",
        "git checkout -q -b new; git status",
    ):
        assert not asks(project, command), command
    for command in ("git checkout -q other; git status", "for x in 1 2; do git status; git checkout -q other; done"):
        assert asks(project, command), command
    git(project, "checkout", "-q", "other")
    git(project, "status")
    assert ran(project)


def test_the_project_is_what_was_there_at_the_start(project: Path) -> None:
    reader = DiskReader(project)
    put(project / ".git/config", monitor(project))
    assert not asks(project, "git status", reader)  # no action gets there without a question
    git(project, "init", "-q", "other")
    (project / ".git").rename(project / "kept")
    (project / "other/.git").rename(project / ".git")
    assert not asks(project, "git status", reader)
    put(project / ".git/config", monitor(project) + "[core]\n\thooksPath = x\n")
    (project / ".git").rename(project / "other/.git")
    assert asks(project, "git -C other status", reader)


def test_a_folder_without_a_repository(tmp_path: Path) -> None:
    reader = DiskReader(tmp_path)
    planted(tmp_path)
    assert not asks(tmp_path, "git status", reader)
    assert asks(tmp_path, "git -C sub status", reader)


def test_hooks_in_the_work_tree(project: Path) -> None:
    put(project / "scripts/hooks/pre-commit", "#!/bin/sh\ntrue\n")
    (project / "scripts/hooks/pre-commit").chmod(0o755)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "hooks")
    git(project, "config", "core.hooksPath", "scripts/hooks")
    reader = DiskReader(project)
    assert not asks(project, "git commit -qam x", reader)
    put(project / "scripts/hooks/pre-commit", f"touch {project.parent}/ran\n")
    assert asks(project, "git commit -qam x", reader)
    put(project / "docs/a.txt", "b\n")
    git(project, "commit", "-qam", "x")
    assert ran(project)
    git(project, "config", "core.hooksPath", ".husky/_")  # there it is asked about when one is written
    put(project / ".husky/_/pre-commit", "true\n")
    assert not asks(project, "git commit -qam x", reader)


def test_what_was_read_belongs_to_the_action(project: Path) -> None:
    git(project, "init", "-q", "plain")
    program = analyse("git -C plain status", cwd=str(project), reader=DiskReader(project))
    assert [path for path, _ in program.files] == [f"{project}/plain/.git/config"]


@pytest.mark.parametrize(
    "text", ["[core", "[core]\nx y = 1", "x = 1", '[a "b]\nc = 1', "[core]\nfsmonitor = x \\\ny", "[core]\n\x0bx = 1"]
)
def test_what_is_not_understood(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        list(settings_in(text))


KEYS = st.sampled_from(["core.fsmonitor", "user.name", "diff.x.textconv", "core.bare", "alias.a", "remote.x.url"])


@given(st.lists(st.tuples(KEYS, st.text("ab c/.", max_size=6)), max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_no_setting_is_overlooked(given: list[tuple[str, str]], newline: str) -> None:
    lines = []
    for key, value in given:
        section, _, name = key.rpartition(".")
        top, _, rest = section.partition(".")
        lines.append(f'[{top} "{rest}"]' if rest else f"[{top}]")
        lines[-1] += f" {name}={value}"
    assert [key for key, _ in settings_in(newline.join(lines))] == [key for key, _ in given]


def test_inert_settings() -> None:
    for key in ("user.name", "Core.AutoCRLF", "remote.origin.url", "branch.a.b.merge", "submodule.x.active"):
        assert is_inert(key, "x"), key
    for key in ("core.fsmonitor", "core.worktree", "filter.x.clean", "remote.x.uploadpack", "include.path"):
        assert not is_inert(key, "x"), key
    assert is_inert("core.pager", "cat")
    assert not is_inert("remote.x.url", "ext::sh -c x")
