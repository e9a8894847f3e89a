"""Commands of git's that make other versions of protected files: asked about before, and then as without us."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent import Action, ActionDenied, Gate
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.processes.execution import run_command
from tests.agents.conftest import Human

GIT = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": "/nonexistent",
}
SCENE = """
git init -q -b main .
printf '%s\n' '[user]' 'name = a' 'email = a@example.org' >> .git/config
mkdir -p .vscode sub; echo 1 > .vscode/tasks.json; echo s > .vscode/settings.json; echo a > a.txt; echo e > sub/.envrc
echo ignored > .gitignore; git add -A; git commit -qm one
git checkout -qb plain; echo p > p.txt; git add -A; git commit -qm plain
git checkout -qb other main; echo 2 > .vscode/tasks.json; mkdir -p .github/workflows
echo ci > .github/workflows/ci.yml; git rm -q sub/.envrc; echo o > o.txt; git add -A; git commit -qm two
git tag -a v1 -m v1; echo 3 > .vscode/tasks.json; git commit -qam three
git checkout -q main; echo b > b.txt; git add -A; git commit -qm four
git tag start; git checkout -q other; git checkout -q main
echo 9 > .vscode/tasks.json; git stash -q
git diff main other -- .vscode > other.patch; git format-patch --stdout -1 other -- .vscode > other.mbox
rm -f .git/hooks/*
"""
CHANGES = {  # by what is run: what it would change, as the human is told
    "git checkout -q other": [".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"],
    "git switch -q other": [".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"],
    "git checkout -q v1": [".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"],
    "git checkout -q -b new other~1": [".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"],
    "git checkout -q --detach other^{commit}": [".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"],
    "git merge -q other": [".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"],
    "git merge -q --no-commit other": [".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"],
    "git cherry-pick other~1": [".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"],
    "git cherry-pick -n main..other": [".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"],
    "git checkout -q other -- .vscode o.txt": [".vscode/tasks.json"],
    "git restore --source=other .vscode/tasks.json": [".vscode/tasks.json"],
    "git restore --source other .": [".vscode/tasks.json", "sub/.envrc"],
    "git stash pop -q": [".vscode/tasks.json"],
    "git stash apply stash@{0}": [".vscode/tasks.json"],
    "git checkout -q plain && git merge -q other": [".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"],
    "git reset -q --hard other": [".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"],
    "git rebase -q other": [".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"],
    "git checkout -q -": [".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"],
    "git stash branch new": [".vscode/tasks.json"],
    "git am -q other.mbox": [".vscode/tasks.json"],
    "git worktree add -q wt other": ["wt/.github/workflows/ci.yml", "wt/.vscode/tasks.json"],
    "git apply other.patch": [".vscode/tasks.json"],
}
SAME = [
    "git checkout -q plain",
    "git switch -q plain",
    "git merge -q plain",
    "git cherry-pick plain",
    "git revert --no-edit HEAD",
    "git restore --source=plain .vscode a.txt",
    "git checkout -q plain -- .vscode p.txt",
    "git checkout -- a.txt",
    "git worktree add -q wt plain",
    "git checkout -q -b new",
    "git merge -q main",
]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `scene` is a copy of: git is run many times for it."""
    folder = tmp_path_factory.mktemp("scene")
    done = subprocess.run(["bash", "-ec", SCENE], cwd=folder, env={**os.environ, **GIT}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder / "ignored").write_text("x")
    return folder


@pytest.fixture
def scene(place: Path, drawn: Path) -> Path:
    """A repository, whose branch `other` has other protected files, and `plain` the same."""
    project = Path(shutil.copytree(drawn, place / "project", symlinks=True, dirs_exist_ok=True))
    git(project, "update-index", "-q", "--refresh")  # else git takes copies for changed files until it has read them
    return project


def left(project: Path) -> tuple[str, dict[str, bytes | str]]:
    """What stands in a work tree: as git sees it, and the files themselves."""
    status = subprocess.run(
        ["git", "status", "--porcelain", "--branch"],
        cwd=project,
        env={**os.environ, **GIT},
        capture_output=True,
        text=True,
    ).stdout
    found: dict[str, bytes | str] = {}
    for path in sorted(project.rglob("*")):
        name = path.relative_to(project).as_posix()
        if name.split("/")[0] == ".git" or name.endswith("/.git"):
            continue
        found[name] = "folder" if path.is_dir() else os.readlink(path) if path.is_symlink() else path.read_bytes()
    return status, found


def plainly(project: Path, command: str) -> tuple[str, dict[str, bytes | str]]:
    """What the same command leaves without us, in a copy."""
    copy = project.parent / "copy"
    shutil.copytree(project, copy, symlinks=True)
    git(copy, "update-index", "-q", "--refresh")
    subprocess.run(["bash", "-c", command], cwd=copy, env={**os.environ, **GIT}, capture_output=True)
    return left(copy)


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", CHANGES)
def test_what_was_refused_leaves_everything_and_what_was_approved_what_git_leaves(
    gate: Gate, human: Human, scene: Path, command: str
) -> None:
    before = left(scene)
    with pytest.raises(ActionDenied):
        gate.run(f"{command} # once", env=GIT)  # what is refused stays refused
    assert left(scene) == before
    human.approves = True
    expected = plainly(scene, command)
    result = gate.run(command, env=GIT)
    assert len(human.asked) == 2
    for path in CHANGES[command]:
        assert all(path in asked for asked in human.asked)
    assert result.moved == ()
    assert left(scene) == expected


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", SAME)
def test_nobody_is_asked_where_nothing_protected_differs(gate: Gate, human: Human, scene: Path, command: str) -> None:
    expected = plainly(scene, command)
    gate.run(command, env=GIT)
    assert human.asked == []
    assert left(scene) == expected


# ---- attacks -----------------------------------------------------------------------------------------------


def git(project: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=project, env={**os.environ, **GIT}, capture_output=True, text=True
    ).stdout


def tampering(human: Human, act: Callable[[], object]) -> None:
    """While the human reads, something else is done; then they approve."""
    query = human.query

    def changed(prompt: str, *, options: list[str]) -> str:
        act()
        return query(prompt, options=options)

    human.approves = True
    human.query = changed  # type: ignore[method-assign]


def test_a_branch_that_changes_while_a_human_reads(gate: Gate, human: Human, scene: Path) -> None:
    before = left(scene)[1]
    git(scene, "branch", "evil", "other~1")
    tampering(human, lambda: git(scene, "branch", "-f", "other", "evil"))
    with pytest.raises(ActionDenied):
        gate.run("git checkout -q other", env=GIT)
    assert left(scene)[1] == before


@pytest.mark.sample(2)
@pytest.mark.parametrize("command", ["git reset -q --hard other", "git rebase -q other", "git checkout -qf other"])
def test_what_discards_work_runs_confined_once_approved(gate: Gate, scene: Path, command: str) -> None:
    decision = gate.director.evaluate(Action(command, cwd=os.fspath(scene)))
    assert decision.verdict is Verdict.ASK
    assert decision.confinement is not None
    lifted = {os.path.relpath(path, scene) for each in decision.confinement.profiles for path in each.lift}
    assert lifted == {".github/workflows/ci.yml", ".vscode/tasks.json", "sub/.envrc"}


def test_what_was_not_approved_is_held(gate: Gate, human: Human, scene: Path) -> None:
    """The enclosure of an approved command: another file of the folder, a new one, and a link in the place of it."""
    human.approves = True
    assert gate.enclosures is not None
    decision = gate.director.evaluate(Action("git checkout -q other -- .vscode/tasks.json", cwd=os.fspath(scene)))
    assert decision.confinement is not None
    enclosure = gate.enclosures.enclosure(decision.confinement)
    tries = (
        "echo x > .vscode/settings.json; rm .vscode/settings.json; mv .vscode/settings.json y; echo new > .vscode/new;"
        "mkdir .vscode/sub; echo new > .vscode/sub/new; echo x > sub/.envrc; mv sub gone; echo x > .github;"
        "rm .vscode/tasks.json; echo mine > .vscode/tasks.json; echo x > .git/hooks/post-checkout"
    )
    words = ("bash", "-c", tries)
    result = run_command(
        words, cwd=os.fspath(scene), env={"PATH": os.environ["PATH"]}, timeout=60, confinement=enclosure
    )
    found = left(scene)[1]
    assert found[".vscode/tasks.json"] == b"mine\n"
    assert (found[".vscode/settings.json"], found["sub/.envrc"]) == (b"s\n", b"e\n")
    assert ".vscode/new" not in found
    assert ".vscode/sub" not in found
    assert not (scene / ".git/hooks/post-checkout").exists()
    assert {os.path.relpath(each.path, scene) for each in result.moved} >= {".vscode/new", ".vscode/sub"}


def test_a_link_is_not_put_in_the_place_of_a_folder_that_is_opened(gate: Gate, human: Human, scene: Path) -> None:
    shutil.rmtree(scene / ".vscode")
    (scene / ".vscode").mkdir()
    (scene / ".vscode/tasks.json").write_text("1\n")
    decision = gate.director.evaluate(Action("git checkout -q other -- .vscode/tasks.json", cwd=os.fspath(scene)))
    assert decision.confinement is not None
    assert gate.enclosures is not None
    enclosure = gate.enclosures.enclosure(decision.confinement)
    words = ("bash", "-c", "mkdir evil; echo x > evil/settings.json; rm -r .vscode; ln -s evil .vscode")
    run_command(words, cwd=os.fspath(scene), env={"PATH": os.environ["PATH"]}, timeout=60, confinement=enclosure)
    assert not (scene / ".vscode").is_symlink()


def test_a_link_on_the_way_opens_nothing_behind_it(gate: Gate, human: Human, scene: Path) -> None:
    """What the tree has below a folder that is a link by now lies elsewhere, which nobody was asked about."""
    (scene / "elsewhere/.vscode").mkdir(parents=True)
    (scene / "elsewhere/.vscode/tasks.json").write_text("kept\n")
    git(scene, "checkout", "-q", "-b", "deep")
    (scene / "deep/.vscode").mkdir(parents=True)
    (scene / "deep/.vscode/tasks.json").write_text("deep\n")
    git(scene, "add", "deep")
    git(scene, "commit", "-qm", "deep")
    git(scene, "checkout", "-q", "main")
    shutil.rmtree(scene / "deep", ignore_errors=True)
    (scene / "deep").symlink_to("elsewhere")
    human.approves = True
    gate.run("git checkout -qf deep", env=GIT)
    assert (scene / "elsewhere/.vscode/tasks.json").read_text() == "kept\n"


@pytest.mark.long
def test_links_in_the_trees(gate: Gate, human: Human, scene: Path) -> None:
    git(scene, "checkout", "-q", "-b", "links")
    git(scene, "rm", "-rq", ".vscode", "sub")
    (scene / "code").mkdir()
    (scene / "code/tasks.json").write_text("evil\n")
    (scene / ".vscode").symlink_to("code")
    (scene / "sub").symlink_to("code")
    git(scene, "add", "code", ".vscode", "sub")
    git(scene, "commit", "-qm", "links")
    git(scene, "checkout", "-q", "main")
    before = left(scene)
    with pytest.raises(ActionDenied):
        gate.run("git checkout -q links", env=GIT)
    for path in (".vscode", ".vscode/settings.json", ".vscode/tasks.json", "sub/.envrc"):
        assert path in human.asked[0]
    assert left(scene) == before
    human.approves = True
    expected = plainly(scene, "git switch -q links")
    gate.run("git switch -q links", env=GIT)
    assert left(scene) == expected


def test_names_in_another_case_are_other_files(gate: Gate, human: Human, scene: Path) -> None:
    git(scene, "checkout", "-q", "-b", "case")
    (scene / ".VSCODE").mkdir()
    (scene / ".VSCODE/tasks.json").write_text("x\n")
    if (scene / ".vscode/tasks.json").read_text() == "x\n":
        pytest.skip("names in another case are the same files here")
    git(scene, "add", ".VSCODE")
    git(scene, "commit", "-qm", "case")
    git(scene, "checkout", "-q", "main")
    expected = plainly(scene, "git checkout -q case")
    gate.run("git checkout -q case", env=GIT)
    assert human.asked == []
    assert left(scene) == expected


def test_a_branch_that_is_named_like_a_path(gate: Gate, human: Human, scene: Path) -> None:
    git(scene, "branch", "sub", "other")
    human.approves = True
    expected = plainly(scene, "git checkout -q sub")
    gate.run("git checkout -q sub", env=GIT)
    assert left(scene) == expected


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [b".git", b".GIT", b".."])
def test_trees_that_git_does_not_check_out(gate: Gate, human: Human, scene: Path, name: bytes) -> None:
    blob = git(scene, "rev-parse", "main:a.txt").strip()
    made, inner = "", b"100644 config\0" + bytes.fromhex(blob)
    for content in (inner, b""):
        content = content or b"40000 " + name + b"\0" + bytes.fromhex(made)
        made = subprocess.run(
            ["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"], cwd=scene, input=content, capture_output=True
        ).stdout.decode().strip()  # fmt: skip
    git(scene, "branch", "evil", git(scene, "commit-tree", "-m", "x", made).strip())
    before = left(scene)
    config = (scene / ".git/config").read_bytes()
    human.approves = True
    gate.run("git checkout -q evil", env=GIT)
    assert "is no tree that git checks out" in human.asked[0]
    assert (scene / ".git/config").read_bytes() == config
    assert not (scene.parent / "config").exists()
    assert left(scene) == before


UNKNOWN = {
    "git checkout -q other": "objects are replaced",
    "git merge -q other && git stash": "objects are replaced",
    'git reset -q --hard "$X"': "objects are replaced",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", UNKNOWN)
def test_where_it_can_not_be_told_a_human_is_asked(gate: Gate, human: Human, scene: Path, command: str) -> None:
    git(scene, "replace", "main~1", "plain")  # some object stands for another: it is not followed
    before = left(scene)
    with pytest.raises(ActionDenied):
        gate.run(f"{command} # once", env=GIT)
    assert left(scene) == before
    human.approves = True
    expected = plainly(scene, command)
    gate.run(command, env=GIT)
    for asked in human.asked:
        assert f"would replace files that can't be told ({UNKNOWN[command]}" in " ".join(asked.split())
        assert "not confined" in asked
    assert left(scene) == expected


def test_a_branch_that_a_program_has_moved_nobody_knows(gate: Gate, human: Human, scene: Path) -> None:
    program = scene / "tool"
    shutil.copy(shutil.which("git") or "", program)
    with pytest.raises(ActionDenied):
        gate.run("./tool branch -qf plain other; git checkout -q plain", env=GIT)
    assert "an earlier command may have moved plain" in " ".join(human.asked[0].split())


@pytest.mark.long
def test_a_mixture_that_nobody_foresaw_is_told(
    gate: Gate, human: Human, scene: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The file is hidden: nobody looks for those."""
    git(scene, "branch", "secrets")
    (scene / "server.pem").write_text("one\n")
    git(scene, "add", "-A")
    git(scene, "commit", "-qm", "pem")
    (scene / "server.pem").write_text("mine\n")
    human.approves = True
    result = gate.run("git checkout -qf secrets", env=GIT)
    assert "server.pem" in human.asked[0]
    assert (scene / "server.pem").read_text() == "mine\n"
    assert "mixture of two versions" in result.note
    assert "server.pem" in result.note
    assert "mixture of two versions" in caplog.text
