"""Which files a command of git's changes, as git then changes them."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell import HOST, VERSION, Effect, analyse, note_versions
from humanlayer_agent.shell.repository import object_store
from tests.shell.repository.conftest import ENVIRONMENT, Draw, Git
from tests.shell.repository.test_history import commit


def noted(top: Path, text: str, environ: Sequence[str] = ()) -> list[Effect]:
    program = analyse(text, cwd=os.fspath(top))
    note_versions(program, os.fspath(top), HOST, lambda path: True, environ)
    return [effect for command in program.commands for effect in command.effects if effect.role == VERSION]


def doubts(top: Path, text: str, environ: Sequence[str] = ()) -> list[str]:
    """Why it can't be told."""
    found = [effect.operand or "" for effect in noted(top, text, environ) if effect.kind == "vcs-rewrite"]
    return [each.removeprefix("files that can't be told (").removesuffix(")") for each in found]


def paths(top: Path, text: str) -> dict[str, str]:
    """By path below `top`: whether it is written or removed."""
    found = noted(top, text)
    assert all(effect.kind != "vcs-rewrite" and effect.operand for effect in found)
    return {os.path.relpath(effect.operand or "", top): effect.kind for effect in found}


def two_branches(git: Git, top: Path) -> None:
    commit(git, top, "same", "same")
    commit(git, top, "file", "one")
    git("checkout", "-qb", "other")
    commit(git, top, "file", "two")
    commit(git, top, "sub/new", "new")
    git("checkout", "-q", "main")


@pytest.fixture
def scene(drawn: Callable[[Draw], Path]) -> Path:
    return drawn(two_branches)


NEW = {"file": "write", "sub/new": "write"}


@pytest.mark.sample(18)
@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("git checkout other", NEW),
        ("git checkout other --", NEW),
        ("git checkout -f other", NEW),
        ("git checkout --detach other", NEW),
        ("git checkout -B other2 other", NEW),
        ("git checkout -", NEW),
        ("git checkout main...other", {}),
        ("git checkout other~1", {"file": "write"}),
        ("git checkout other; git checkout main", {"file": "write", "sub/new": "delete"}),
        ("git checkout other; git checkout -", {"file": "write", "sub/new": "delete"}),
        ("git switch other && git reset --hard HEAD~1", {"file": "write", "sub/new": "delete"}),
        ("cd sub2 && git checkout other", NEW),
        ("mkdir -p d && cd d && git checkout other", NEW),
        ("git -C . checkout other", NEW),
        ("git checkout other -- file", {"file": "write"}),
        ("git checkout other -- ':(top)file'", {"file": "write", "sub/new": "write"}),
        ("git checkout other -- 's*'", {"file": "write", "sub/new": "write"}),
        ("git checkout other -- sub", {"sub/new": "write"}),
        ("git checkout file", {}),
        ("git checkout nothing", {}),
        ("git checkout -b new", {}),
        ("git checkout -p other", NEW),
        ("git switch -c new other", NEW),
        ("git restore -s other file", {"file": "write"}),
        ("git restore -S -s other file", {}),
        ("git reset --hard other", NEW),
        ("git reset --keep other", NEW),
        ("git reset other", {}),
        ("git reset --soft other", {}),
        ("git merge other", NEW),
        ("git merge -s ours other", {}),
        ("git merge --squash other~1", {"file": "write"}),
        ("git pull . other", NEW),
        ("git cherry-pick other", {"sub/new": "write"}),
        ("git cherry-pick main..other", NEW),
        ("git cherry-pick other ^main", NEW),
        ("git revert other~1", {}),
        ("git checkout other; git revert HEAD~1", {"file": "write", "sub/new": "write"}),
        ("git rebase other", NEW),
        ("git rebase main", {}),
        ("git rebase --abort", {}),
        ("git stash", {}),
        ("git stash pop", {}),
        ("git bisect start", {}),
        ("git worktree add w other", {f"w/{path}": kind for path, kind in NEW.items()}),
        ("git worktree add other", {f"other/{path}": kind for path, kind in NEW.items()}),
        ("git worktree add -b n other", {}),
        ("git worktree add --no-checkout w other", {}),
        ("git branch -f main other", {}),
        ("GIT_EDITOR=true git checkout other", NEW),
    ],
)
def test_what_each_command_changes(scene: Path, text: str, changes: dict[str, str]) -> None:
    assert paths(scene, text) == changes


def test_a_variable_that_moves_the_repository(scene: Path) -> None:
    assert noted(scene, "git checkout other", ["HOME", "PATH"])
    assert doubts(scene, "git checkout other", ["GIT_WORK_TREE"]) == [
        "it works in a repository that is named elsewhere"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "git checkout $X",
        'git merge "$X"',
        'cd "$X" && git checkout other',
        "git pull origin other",
        "git fetch origin && git checkout other",
        "git --git-dir=.git checkout other",
        "GIT_DIR=x git checkout other",
        "git checkout :/two",
        "git checkout main@{yesterday}",
        f"git checkout {'1' * 40}",
        "git update-ref refs/heads/x other && git merge x",
        "false && git branch -f other main; git checkout other",
        "git branch -f main other && git checkout main",
        "git reset --hard other~1; git checkout other; git checkout main",
        "git commit -qm x; git reset --hard HEAD~1",
        "git checkout --ours .",
        "git am < nothing.mbox",
        "git update-index --cacheinfo 100644,x,file; git checkout-index -a",
        "git bisect start --term-bad=broken other main~1",
    ],
)
def test_what_can_not_be_told(scene: Path, text: str) -> None:
    assert len(doubts(scene, text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "git checkout nothing",
        "git checkout .nothing either",
        "git checkout nothing -- file",
        "git merge nothing~3",
        "git checkout other~9",
        "git checkout @{u}",
        "git stash pop",
        "git rebase --abort",
        "git rebase --continue",
        'git commit -m "$X" $FILES',
        "git branch $X",
        'git tag "$X"',
        "git reset -- $X",
        "git restore --staged -- $X",
        "git checkout --theirs file",
        f"git checkout {'1' * 40} -- file",
        "git apply --check nothing.patch",
        "git status; git log; git diff $X",
    ],
)
def test_where_git_refuses_or_changes_no_file_nothing_is_doubted(git: Git, scene: Path, text: str) -> None:
    program = analyse(text, cwd=os.fspath(scene))
    note_versions(program, os.fspath(scene), HOST, lambda path: path.endswith("/new"))
    assert [effect for command in program.commands for effect in command.effects if effect.role == VERSION] == []


def test_where_no_repository_is_nothing_is_doubted(tmp_path: Path) -> None:
    assert noted(tmp_path, "git checkout $X; cd $Y; git merge x; git stash; git worktree add w") == []


@pytest.mark.sample(24)
@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("git branch new other && git checkout new", NEW),
        ("git branch -m other new && git checkout new", NEW),
        ("git tag v1 other; git checkout -q v1", NEW),
        ("git checkout -b new other && git checkout main && git merge new", {"file": "write", "sub/new": "write"}),
        ("git checkout -b new; git checkout other; git checkout -", {"file": "write", "sub/new": "delete"}),
        (
            "git worktree add -b new w other && git merge new",
            {**{f"w/{path}": kind for path, kind in NEW.items()}, **NEW},
        ),
        ("git reset other && git checkout -- .", NEW),
        (
            "git checkout -b new && git reset -q --hard other && git checkout main && git merge new",
            {"file": "write", "sub/new": "write"},
        ),
        ("git reset other -- sub && git checkout sub", {"sub/new": "write"}),
        ("git reset --soft other && git stash", NEW),
        ("git reset --hard other && git reset --hard HEAD~1", {"file": "write", "sub/new": "delete"}),
        ("git restore -S -s other . && git checkout-index -f -a", NEW),
        ("git read-tree -u -m HEAD other", NEW),
        ("git read-tree -u -m other", NEW),
        ("git read-tree --reset -u other", NEW),
        ("git read-tree other", {}),
        ("git read-tree other && git checkout-index -f -a", {**NEW, "same": "write"}),  # of all it has forgotten
        ("git read-tree -n -u --reset other", {}),
        ("git bisect start", {}),
        ("git bisect start other main~1", NEW),
        ("git bisect start; git bisect bad other; git bisect good main~1; git bisect run true", NEW),
        ("git bisect start other main; git bisect reset", NEW),
        ("git bisect start --no-checkout other main~1", {}),
        ("git switch --orphan new", {"file": "delete", "same": "delete"}),
        ("git checkout --orphan new", {}),
        ("git checkout -q other -- --pathspec-from-file=x", {}),
        ("git checkout -q other --pathspec-from-file=x", NEW),
        ("git restore -p -s other", {}),
    ],
)
def test_what_earlier_commands_of_the_action_have_made(scene: Path, text: str, changes: dict[str, str]) -> None:
    assert paths(scene, text) == changes


def test_what_was_put_aside_comes_back(git: Git, scene: Path) -> None:
    (scene / "file").write_text("changed")
    assert paths(scene, "git stash; git checkout other; git stash pop") == NEW
    program = analyse("git stash; git switch -q main; git stash pop", cwd=os.fspath(scene))
    note_versions(program, os.fspath(scene), HOST, lambda path: True)
    assert [[effect.value for effect in each.effects if effect.role == VERSION] for each in program.commands][2] == [""]
    git("stash")
    git("stash", "drop")
    (scene / "same").write_text("older")
    git("stash")
    assert paths(scene, "git stash; git stash pop") == {"same": "write"}  # there may have been nothing to put aside


def test_a_path_that_is_not_known_is_any(scene: Path) -> None:
    for text in ("git checkout -- $F", "git restore -- $F", "git checkout main -- *.md", "git stash push -- $F"):
        assert noted(scene, text) == [], text
    assert paths(scene, "git checkout other -- $F") == NEW
    assert doubts(scene, "git checkout $B -- file2 $F") != []
    (scene / "file").write_text("changed")
    assert paths(scene, 'git checkout -- "$F"') == paths(scene, "git stash push -- $F") == {"file": "write"}


def test_a_submodule_that_follows(git: Git, scene: Path) -> None:
    git("update-index", "--add", "--cacheinfo", f"160000,{git('rev-parse', 'other').strip()},module")
    git("commit", "-qm", "module")
    assert doubts(scene, "git checkout --recurse-submodules other") == ["what its submodules get"]
    assert doubts(scene, "git checkout other") == []
    git("config", "submodule.recurse", "true")
    assert doubts(scene, "git reset -q --hard other") == ["what its submodules get"]


def test_repositories_in_a_folder_that_is_none(git: Git, scene: Path) -> None:
    assert doubts(scene.parent, 'cd "$X" && git checkout other') == ["where it runs is not known"]
    assert noted(scene.parent, "git checkout other; cd nothing; git merge other") == []


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], env=ENVIRONMENT, check=True)
    for text in (
        "git checkout -b x",
        "git switch -c x",
        "git stash",
        "git reset --hard",
        "git add . && git commit -m x",
    ):
        assert noted(tmp_path, text) == [], text


def test_a_branch_of_several_remotes(git: Git, scene: Path) -> None:
    for name in ("one", "two"):
        git("remote", "add", name, ".")
        git("update-ref", f"refs/remotes/{name}/far", "other")
    assert doubts(scene, "git checkout far") == ["several branches are named far"]


def test_commits_that_a_partial_clone_has_not(git: Git, scene: Path) -> None:
    git("config", "uploadpack.allowFilter", "true")
    git("clone", "-q", "--filter=tree:0", "--no-checkout", f"file://{scene}", "../clone")
    (said,) = doubts(scene.parent / "clone", "git checkout origin/other")
    assert said.endswith("is not there")


def test_whose_content_it_is(git: Git, scene: Path) -> None:
    blob = git("rev-parse", "other:file").strip()
    (found,) = noted(scene, "git checkout other -- file")
    assert (found.value, found.origin) == (f"100644 {blob}", "other")
    assert [effect.origin for effect in noted(scene, "git worktree add w other")] == ["other", "other"]
    (scene / "file").write_text("ours")
    for text, whose in (
        ("checkout -- file", "the index"),
        ("restore file", "the index"),
        ("restore -s other .", "other"),
    ):
        assert {effect.origin for effect in noted(scene, f"git {text}")} == {whose}
    git("commit", "-qam", "ours")
    assert {effect.value for effect in noted(scene, "git merge other") if (effect.operand or "").endswith("file")} == {
        ""
    }


def test_what_lies_in_the_work_tree(git: Git, scene: Path) -> None:
    (scene / "file").write_text("changed")
    assert paths(scene, "git checkout -- .") == paths(scene, "git restore file") == {"file": "write"}
    assert paths(scene, "git stash") == paths(scene, "git reset --hard") == {"file": "write"}
    assert paths(scene, "git stash push same") == {}
    (scene / "file").unlink()
    (scene / "file").symlink_to("one")
    assert paths(scene, "git checkout .") == {"file": "write"}
    git("checkout", ".")
    (scene / "file").chmod(0o755)
    assert paths(scene, "git checkout .") == {"file": "write"}
    (scene / "added").write_text("added")
    git("add", "added")
    assert paths(scene, "git reset --hard") == {"file": "write", "added": "delete"}


def test_what_is_committed_meanwhile_is_looked_for_on_the_disk(scene: Path) -> None:
    (scene / "same").write_text("changed")
    assert paths(scene, "git commit -qam x && git checkout other") == {**NEW, "same": "write"}


def test_line_ends_that_git_has_made_are_no_change(git: Git, scene: Path) -> None:
    git("config", "core.autocrlf", "true")
    (scene / "file").unlink()
    git("checkout", "file")
    (scene / "same").write_bytes(b"x\r\ny\r\n")
    git("commit", "-qam", "lines")
    assert paths(scene, "git reset --hard") == {}


def test_a_stash_with_what_was_not_tracked(git: Git, scene: Path) -> None:
    (scene / "file").write_text("changed")
    (scene / "untracked").write_text("x")
    git("stash", "-qu")
    assert paths(scene, "git stash pop") == {"file": "write", "untracked": "write"}
    assert paths(scene, "git stash apply 0") == {"file": "write", "untracked": "write"}
    assert paths(scene, "git stash branch new stash@{0}") == {"file": "write", "untracked": "write"}


def test_what_is_going_on(git: Git, scene: Path) -> None:
    (scene / "file").write_text("ours")
    for text, whose in (
        ("checkout -- file", "the index"),
        ("restore file", "the index"),
        ("restore -s other .", "other"),
    ):
        assert {effect.origin for effect in noted(scene, f"git {text}")} == {whose}
    git("commit", "-qam", "ours")
    git("cherry-pick", "main~1..other", fails=True)
    assert "file" in paths(scene, "git cherry-pick --abort")
    assert paths(scene, "git cherry-pick --continue")["sub/new"] == "write"
    git("cherry-pick", "--abort")
    git("rebase", "other", fails=True)
    assert "sub/new" in paths(scene, "git rebase --abort")
    git("rebase", "--abort")
    git("merge", "other", fails=True)
    assert paths(scene, "git merge --abort") == {"file": "write", "sub/new": "delete"}
    git("merge", "--abort")


def test_bisect_goes_back_to_where_it_began(git: Git, scene: Path) -> None:
    git("bisect", "start", "other", "main~1")
    assert paths(scene, "git bisect reset") != {}


def test_a_remote_branch_of_that_name(git: Git, scene: Path) -> None:
    git("clone", "-q", ".", "../clone")
    git("config", "user.name", "x", at=scene.parent / "clone")
    assert paths(scene.parent / "clone", "git checkout other") == NEW
    assert paths(scene.parent / "clone", "git switch other") == NEW
    assert paths(scene.parent / "clone", "git checkout -b other origin/other") == NEW


def test_a_branch_that_is_named_like_a_path(git: Git, scene: Path) -> None:
    git("branch", "file", "other")
    assert paths(scene, "git checkout file") == NEW  # git asks which one is meant, and does nothing
    assert paths(scene, "git checkout -- file") == {}


def test_many_commits_one_after_the_other(git: Git, scene: Path) -> None:
    git("checkout", "-qb", "long")
    for n in range(30):
        commit(git, scene, f"n{n % 4}" if n != 15 else "odd", str(n))
    git("checkout", "-q", "main")
    commit(git, scene, "ours", "ours")
    expected = dict.fromkeys(("n0", "n1", "n2", "n3", "odd"), "write")
    assert paths(scene, "git cherry-pick main..long") == expected
    assert paths(scene, "git rebase main long") == {**expected, "ours": "write"}


def test_a_file_that_gives_way_to_a_folder_that_both_have_changed(git: Git, top: Path) -> None:
    commit(git, top, "d/x", "1")
    git("checkout", "-qb", "other")
    commit(git, top, "d/x", "2")
    git("checkout", "-q", "main")
    git("rm", "-q", "d/x")
    commit(git, top, "d", "file")
    assert paths(top, "git merge other") == {"d": "delete", "d/x": "write"}


def test_a_name_that_can_not_be_written_down(git: Git, scene: Path) -> None:
    git("checkout", "-qb", "odd")
    with open(os.fsencode(scene) + b"/\xff", "w") as file:
        file.write("x")
    commit(git, scene, "é", "x")
    git("checkout", "-q", "main")
    found = noted(scene, "git checkout odd")
    assert [(each.kind, each.operand) for each in found] == [
        ("write", os.fspath(scene / "é")),
        ("vcs-rewrite", "files that can't be told (the names of some are not UTF-8)"),
    ]


def test_numbers_that_are_none(git: Git, scene: Path) -> None:
    git("checkout", "-q", "main")
    git("merge", "-q", "--no-ff", "-m", "merge", "other")
    assert paths(scene, "git revert -m 1 HEAD") == {"file": "write", "sub/new": "delete"}
    for number in ("²", "9" * 5000, "x", "0"):
        noted(scene, f"git revert -m {number} HEAD; git apply -p{number} file")


def test_nothing_stays_open(git: Git, scene: Path) -> None:
    git("gc", "-q")
    (scene / ".git/packed-refs").write_text(f"{'1' * 40} refs/heads/main\n")
    noted(scene, "git checkout other")
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        assert doubts(scene, "git checkout other") == [f"object {'1' * 40} is not there"]
    assert os.listdir("/proc/self/fd") == before


def test_the_places_of_an_action_share_what_may_be_done(git: Git, scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "; ".join(f"git -C d{n} checkout other" for n in range(9))
    assert len(noted(scene, text)) == 18
    monkeypatch.setattr(object_store, "_MOST_STEPS", 90)
    assert 0 < len(noted(scene, text)) < 18


def test_too_many_files(git: Git, scene: Path) -> None:
    git("checkout", "-qb", "many")
    for n in range(400):
        (scene / str(n)).write_text(str(n))
    git("add", "-A")
    git("commit", "-qm", "many")
    git("checkout", "-q", "main")
    found = noted(scene, "git checkout many")
    assert len(found) == 301
    assert doubts(scene, "git checkout many") == ["they are more than 300"]


def test_a_tree_that_git_does_not_check_out(git: Git, scene: Path) -> None:
    tree = git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=b"100644 .GIT\0" + bytes(20)).strip()
    git("branch", "evil", git("commit-tree", "-m", "x", tree).strip())
    assert doubts(scene, "git checkout evil") == [f"{tree} is no tree that git checks out"]


def test_damaged_objects_are_not_known(git: Git, scene: Path) -> None:
    for path in (scene / ".git/objects").rglob("??/*"):
        path.chmod(0o644)
        path.write_bytes(b"x")
    assert len(doubts(scene, "git checkout other; git merge other; git stash; git reset --hard")) == 4


# ---- any trees ---------------------------------------------------------------------------------------------

FILES = st.dictionaries(st.sampled_from(["a", "b", "d", "d/x", "d/y", "d/e/z"]), st.sampled_from(["1\n", "2\n", "3\n"]))
EXACT = [
    "git checkout -q other",
    "git reset -q --hard other",
    "git merge -q --ff-only later",
    "git checkout -q other -- a d",
]
COVERED = [
    *("git merge -q -m x other", "git cherry-pick other", "git rebase -q other", "git revert --no-edit HEAD"),
    *("git cherry-pick -n base..later", "git restore -s other .", "git stash -q", "git checkout -qf later"),
    "git checkout -q other && git merge -q -m x main",
]


def imported(trees: Sequence[tuple[str, str, dict[str, str]]]) -> bytes:
    lines: list[str] = []
    for branch, parent, files in trees:
        lines += [f"commit refs/heads/{branch}", "committer a <a@b> 1000 +0000", "data 1", "x"]
        lines += [f"from refs/heads/{parent}"] if parent else []
        lines.append("deleteall")
        for name, content in files.items():
            if not any(other.startswith(f"{name}/") for other in files):
                # Contents of its own: where a file seems to be moved, a merge may bring the changes of one to another,
                # which is not followed.
                content = f"{name} {content}"
                lines += [f"M 100644 inline {name}", f"data {len(content)}", content]
        lines.append("")
    return "\n".join([*lines, ""]).encode()


def on_disk(top: Path) -> dict[str, bytes]:
    files = [path for path in top.rglob("*") if path.is_file() and ".git" not in path.relative_to(top).parts]
    return {path.relative_to(top).as_posix(): path.read_bytes() for path in files}


@settings(max_examples=6, deadline=None, phases=[Phase.generate])
@given(
    FILES,
    FILES,
    FILES,
    FILES,
    st.booleans(),
    st.lists(st.sampled_from([*EXACT, *COVERED]), min_size=4, max_size=4, unique=True),
)
def test_git_changes_nothing_else(
    base: dict[str, str],
    ours: dict[str, str],
    other: dict[str, str],
    later: dict[str, str],
    dirty: bool,
    commands: list[str],
) -> None:
    if shutil.which("git") is None:
        pytest.skip("no git here")
    with tempfile.TemporaryDirectory() as name:
        top = Path(name) / "top"

        def git(*words: str, given: bytes | None = None) -> None:
            subprocess.run(["git", *words], cwd=name, env=ENVIRONMENT, input=given, capture_output=True, check=True)

        git("init", "-q", "-b", "main", "top")
        data = imported(
            [("base", "", base), ("main", "base", ours), ("other", "base", other), ("later", "main", later)]
        )
        git("-C", "top", "fast-import", "--quiet", given=data)
        git("-C", "top", "reset", "-q", "--hard")
        if dirty and (top / "a").exists():
            (top / "a").write_text("dirty\n")
        before = on_disk(top)
        for command in commands:
            found = set(paths(top, command))
            copy = Path(name) / "copy"
            shutil.copytree(top, copy)
            subprocess.run(["bash", "-c", command], cwd=copy, env=ENVIRONMENT, capture_output=True)
            after = on_disk(copy)
            shutil.rmtree(copy)
            changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
            changed = {path for path in changed if "~" not in path}  # aside, where a file is to become a folder
            assert changed <= found, command
            if command in EXACT and changed and not dirty:
                assert changed == found, command
