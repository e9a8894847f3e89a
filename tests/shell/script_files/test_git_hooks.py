"""A person's hooks load what the project has: what changed there is judged before git runs them."""

import os
import subprocess
from pathlib import Path

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.disk_reader import DiskReader

LFS = """#!/bin/sh
command -v git-lfs >/dev/null 2>&1 || { echo >&2 "git-lfs was not found on your path."; exit 2; }
git lfs post-checkout "$@"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository without hooks."""
    top = Path(os.path.realpath(tmp_path)) / "app"
    (top / "docs").mkdir(parents=True)
    (top / "a.py").write_text("x = 1\n")
    identity = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "--template="], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run(["git", "-C", str(top), *who, *words], check=True, env={**os.environ, **identity})
    return top


def hook(project: Path, name: str, text: str = "#!/bin/sh\npytest -q\n", folder: str = ".git/hooks") -> None:
    """Set up a hook."""
    place = project / folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(0o755)


def loads(project: Path, command: str, cwd: str = ".") -> list[str]:
    """The hooks by which `command` loads the project."""
    program = analyse(command, cwd=os.path.normpath(project / cwd), reader=DiskReader(project))
    return [
        effect.origin.removeprefix("git's hook ")
        for each in program.commands
        for effect in each.effects
        if effect.kind == "execute" and effect.role == "project"
    ]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("pre-commit", "git commit -qm x"),
        ("commit-msg", "cd docs && git commit -qm x"),
        ("post-checkout", "git checkout -q other"),
        ("post-checkout", "git worktree add x"),
        ("post-merge", "git merge other"),
        ("pre-push", "git push"),
        ("applypatch-msg", "git am x.patch"),
        ("post-index-change", "git status"),
        ("reference-transaction", "git branch x"),
        ("pre-commit", "bash -c 'git commit -qm x'"),
    ],
)
def test_git_loads_the_project_by_its_hooks(project: Path, name: str, command: str) -> None:
    assert loads(project, command) == []
    hook(project, name)
    assert loads(project, command) == [name]


@pytest.mark.parametrize("command", ["git status", "git log", "git add a.py", "git checkout -b x", "git diff"])
def test_other_commands_do_not(project: Path, command: str) -> None:
    hook(project, "pre-commit")
    assert loads(project, command) == []


def test_what_git_brings_itself_loads_nothing(project: Path) -> None:
    hook(project, "post-checkout", LFS)
    hook(project, "post-checkout.sample")
    assert loads(project, "git checkout other") == []
    hook(project, "post-checkout", LFS + "make\n")
    assert loads(project, "git checkout other") == ["post-checkout"]


def test_hooks_in_another_folder(project: Path) -> None:
    subprocess.run(["git", "-C", str(project), "config", "core.hooksPath", ".husky/_"], check=True)
    hook(project, "pre-commit", '. "$0/../h"\n', ".husky/_")
    assert loads(project, "git commit -m x") == []
    hook(project, "pre-commit", "npm test\n", ".husky")
    assert loads(project, "git commit -m x")[0] == "pre-commit"  # and what the new hook does


def test_what_changed_is_judged_before_a_hook_loads_it(project: Path) -> None:
    hook(project, "pre-commit")
    reader = DiskReader(project)
    (project / "conftest.py").write_text("import os; os.remove('/srv/x')\n")
    program = analyse("git commit -qm x", cwd=str(project), reader=reader)
    assert ("delete", "/srv/x") in [(e.kind, e.operand) for c in program.commands for e in c.effects]


def test_another_repository_has_hooks_of_its_own(project: Path, tmp_path: Path) -> None:
    hook(project, "pre-commit")
    assert loads(project, f"git -C {tmp_path} commit -m x", "..") == []
