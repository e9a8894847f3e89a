"""Every command of git's that rewrites a work tree, and every way in which a protected file may differ.

A difference asks and names its files; what is refused leaves everything; what is approved leaves what git leaves without
us; and where nothing protected differs, nobody is asked, and git leaves the same. Never a mixture of two versions.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from humanlayer_agent import Action, ActionDenied, Gate
from tests.agents.conftest import Human
from tests.agents.test_work_trees import GIT, git, left, plainly

BASE = """
git init -q -b main .
printf '%s\\n' '[user]' 'name = a' 'email = a@example.org' >> .git/config
rm -f .git/hooks/*
mkdir -p .vscode sub/deep/.vscode docs; echo 1 > .vscode/tasks.json; echo s > .vscode/settings.json; echo a > a.txt
echo e > sub/.envrc; echo n > sub/deep/.vscode/tasks.json; echo d > docs/d; echo canary > sub/deep/.envrc
printf 'series\\nran\\n' > .gitignore
git add -A; git commit -qm base; git tag base
"""
CHANGES = {  # by what it is called: how it is made, and which protected files differ
    "changed": ("echo 2 > .vscode/tasks.json", [".vscode/tasks.json"]),
    "added": ("mkdir -p .github/workflows; echo c > .github/workflows/ci.yml", [".github/workflows/ci.yml"]),
    "deleted": ("git rm -q sub/.envrc", ["sub/.envrc"]),
    "mode": ("chmod +x .vscode/tasks.json", [".vscode/tasks.json"]),
    "link": ("ln -sf ../a.txt .vscode/tasks.json", [".vscode/tasks.json"]),
    "nested": ("echo 2 > sub/deep/.vscode/tasks.json", ["sub/deep/.vscode/tasks.json"]),
    "folder": ("git rm -rq .vscode; ln -s docs .vscode", [".vscode", ".vscode/settings.json", ".vscode/tasks.json"]),
    "nothing": ("true", []),
}
PROTECTED = [
    ".vscode/tasks.json",
    ".vscode/settings.json",
    "sub/.envrc",
    "sub/deep/.vscode/tasks.json",
    "sub/deep/.envrc",
]
OTHER = "echo other >> a.txt; echo new > o.txt; git rm -q docs/d"
DRAW = """
git checkout -qb {name} base; {change}; {other}; git add -A; git commit -qm {name}
git format-patch -q --stdout -1 > ../{name}.mbox; git diff base {name} > ../{name}.patch
git checkout -qb {name}-back; git revert --no-edit HEAD; git checkout -q main
git read-tree -u --reset {name}
git stash -q && git update-ref refs/stashes/{name} refs/stash && git stash drop -q || git reset -q --hard
"""
HEADS = {  # the few that begin elsewhere: what is done first, without us
    "git stash -q": "git read-tree -u --reset {name}",
    "git revert --no-edit HEAD": "git checkout -q {name}",
    "git reset -q --hard HEAD~1": "git checkout -q {name}",
    "git stash pop -q": "git update-ref --create-reflog -m x refs/stash refs/stashes/{name}",
    "git cherry-pick --abort": "echo mine > a.txt; git commit -qam mine; git cherry-pick {name}; true",
    "git merge --abort": "echo mine > a.txt; git commit -qam mine; git merge -q {name}; true",
}
COMMANDS = [
    *(
        "git checkout -q {name}",
        "git checkout -qf {name}",
        "git switch -q --detach {name}",
        "git checkout -q {name} -- .",
    ),
    *("git checkout -q {name}~0", "git restore --source={name} -SW .", "git merge -q {name}"),
    *(
        "git cherry-pick {name}",
        "git rebase -q {name}",
        "git reset -q --hard {name}",
        "git read-tree -u --reset {name}",
    ),
    *("git read-tree -um HEAD {name}", "git read-tree {name} && git checkout-index -fa", "git am -q ../{name}.mbox"),
    *("git apply ../{name}.patch", "git bisect start {name}-back main", "git worktree add -q wt {name}"),
    *("git branch new {name} && git switch -q new", "git reset -q {name} && git checkout-index -fa"),
    *("git stash -q && git checkout -q {name} && git stash pop -q", *HEADS),
]
REFUSED = {("git stash -q", "folder"), ("git stash pop -q", "folder")}
"""What git itself can't do: "beyond a symbolic link"."""
NEVER_REMOVES = ("git checkout -q {name} -- .", "checkout-index", "git worktree add -q wt {name}")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with a branch for each change, and beside it their patches."""
    folder = tmp_path_factory.mktemp("versions")
    (folder / "project").mkdir()
    script = BASE + "".join(DRAW.format(name=name, change=how, other=OTHER) for name, (how, _) in CHANGES.items())
    script += "git repack -adq; git pack-refs --all"  # every test copies what stands there, file by file, twice
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder / "project", env={**os.environ, **GIT}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def scene(place: Path, drawn: Path) -> Iterator[Path]:
    shutil.copytree(drawn, place, symlinks=True, dirs_exist_ok=True)
    git(place / "project", "update-index", "-q", "--refresh")
    return place / "project"


def differing(command: str, change: str) -> list[str]:
    """The protected files that a human has to be told of."""
    paths = CHANGES[change][1]
    if command.startswith("git read-tree {name} &&"):
        paths = sorted({*paths, *PROTECTED})  # it forgets what it knew of the files, and makes all of them anew
    if any(each in command for each in NEVER_REMOVES):
        paths = [path for path in paths if change not in ("deleted", "folder") or path == ".vscode"]
    if "worktree" in command:
        paths = [f"wt/{path}" for path in paths]
    return paths


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("command", "change"),
    [(command, change) for command in COMMANDS for change in CHANGES if (command, change) not in REFUSED],
)
def test_what_differs_is_asked_about_and_the_tree_is_what_git_makes(
    gate: Gate, human: Human, scene: Path, command: str, change: str
) -> None:
    text = command.format(name=change)
    if first := HEADS.get(command, "").format(name=change):
        subprocess.run(["bash", "-c", first], cwd=scene, env={**os.environ, **GIT}, capture_output=True)
    git(scene, "update-index", "-q", "--refresh")
    before, expected = left(scene), plainly(scene, text)
    assert human.asked == []
    try:
        gate.run(f"{text} # refused", env=GIT)
        assert left(scene) == expected
        assert differing(command, change) == [], "nobody was asked"
        return
    except ActionDenied:
        assert left(scene) == before
    asked = "".join(human.asked[0].split())
    assert all(path in asked for path in differing(command, change))
    assert "maybeamongthem" not in asked
    human.approves = True
    result = gate.run(text, env=GIT)
    assert left(scene) == expected
    assert result.moved == ()
    assert "mixture" not in result.note


EVIL = (
    "echo ran >> ran; echo evil > .vscode/settings.json; echo evil > sub/deep/.envrc; echo evil > .envrc;"
    "rm -f .vscode/settings.json; ln -sf /etc/passwd .vscode/settings.json; mv .vscode gone; mkdir -p .vscode/more;"
    "echo evil > .git/hooks/pre-push; echo evil > .git/hooks/post-checkout; echo '[core] pager = evil' >> .git/config;"
)
PLANTED = [".envrc", ".vscode/more", ".git/hooks/pre-push", "gone"]


def with_hook(project: Path) -> None:
    hook = project / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\n{EVIL}\n")
    hook.chmod(0o755)


def with_filter(project: Path) -> None:
    git(project, "config", "filter.x.smudge", f"sh -c '{EVIL.replace(chr(39), chr(34))} cat'")
    (project / ".git/info").mkdir(exist_ok=True)
    (project / ".git/info/attributes").write_text("*.txt filter=x\n")


@pytest.mark.sample(2)
@pytest.mark.parametrize("armed", [with_hook, with_filter])
@pytest.mark.parametrize("command", ["git checkout -q changed", "git switch -q added", "git checkout -qf deleted"])
def test_an_approval_opens_exactly_these_files(
    gate: Gate, human: Human, scene: Path, armed: Callable[[Path], None], command: str
) -> None:
    """A hook or a filter that was there runs with the command, and tries what lies beside the files that are opened."""
    change = command.split()[-1]
    armed(scene)
    held = [".vscode/settings.json", "sub/deep/.envrc", ".git/config", ".git/hooks/post-checkout"]
    before = {path: (scene / path).read_bytes() for path in held if (scene / path).exists()}
    human.approves = True
    decision = gate.director.evaluate(Action(command, cwd=os.fspath(scene)))
    assert decision.confinement is not None
    lifted = [path for each in decision.confinement.profiles for path in each.lift]
    assert [os.path.relpath(path, scene) for path in lifted] == CHANGES[change][1]
    gate.run(command, env=GIT)
    assert (scene / "ran").exists()
    assert {path: (scene / path).read_bytes() for path in before} == before
    assert not any((scene / path).exists() for path in PLANTED)
    assert [each for each in git(scene, "diff", "--name-only", change).split() if each != "a.txt"] == []
