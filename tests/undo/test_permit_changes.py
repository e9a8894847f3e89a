"""What the command of a permit changes is found by a look before and one after it, and only that is undone."""

import fcntl
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.confine.confinement import Bounds
from humanlayer_agent.undo import permit_changes, restoration
from humanlayer_agent.undo.kept_files import Kept, KeptFiles, Manifest
from humanlayer_agent.undo.permit_changes import PermitChanges, Scope
from humanlayer_agent.undo.restoration import Plan, Undone

WHOLE, USUAL = Scope(whole=True), Bounds()


class Scene:
    """A project, and what is kept of it."""

    def __init__(self, base: Path) -> None:
        self.top, self.kept = base / "project", KeptFiles(base / "kept")
        for name in ("a", "src/b", "src/deep/c"):
            (self.top / name).parent.mkdir(exist_ok=True, parents=True)
            (self.top / name).write_text(f"{name}\n")
        self.changes = PermitChanges(self.kept, str(self.top))

    @contextmanager
    def command(self, permit: str, scope: Scope = WHOLE, bounds: Bounds = USUAL) -> Iterator[None]:
        """The body is what a command does."""
        self.changes.before("run", permit, scope, bounds)
        yield
        self.changes.after(permit)

    def sh(self, permit: str, line: str, scope: Scope = WHOLE, bounds: Bounds = USUAL) -> None:
        with self.command(permit, scope, bounds):
            subprocess.run(["bash", "-c", line], cwd=self.top, check=True)

    def manifests(self) -> list[Manifest]:
        return restoration.manifests_of(self.kept, str(self.top))

    def plan(self, *permits: str, paths: tuple[str, ...] = ()) -> Plan:
        found = self.manifests()
        own = [each for each in found if each.permit in permits]
        return restoration.plan_of(self.kept, own, [each for each in found if each not in own], paths)

    def undo(self, *permits: str, paths: tuple[str, ...] = ()) -> Undone:
        plan = self.plan(*permits, paths=paths)
        if plan.refused:
            return Undone(failed=plan.refused)
        return restoration.undo(self.kept, plan, restoration.keep_before(self.kept, "run", plan))

    def tree(self) -> dict[str, tuple[int, bytes]]:
        found = {}
        for path in self.top.rglob("*"):
            about = path.lstat()
            content = os.fsencode(os.readlink(path)) if path.is_symlink() else b""
            found[str(path.relative_to(self.top))] = (
                about.st_mode,
                path.read_bytes() if stat.S_ISREG(about.st_mode) else content,
            )
        return found


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_only_what_was_changed_stays_in_the_list(scene: Scene) -> None:
    before = scene.tree()
    scene.sh("p1", "echo more >> a; rm -r src/deep; mkdir new; ln -s a new/l; chmod 600 src/b")
    (record,) = scene.kept.all()
    assert (record.created, record.changed, record.deleted, record.permit) == (2, 2, 2, "p1")
    (manifest,) = scene.manifests()
    assert [file.path for file in manifest.files] == ["a", "src/b", "src/deep", "src/deep/c"]
    assert scene.undo("p1").failed == {}
    assert scene.tree() == before


def test_what_is_named_is_all_that_is_looked_at(scene: Scene) -> None:
    with scene.command("p1", Scope(paths=("src/deep", "new/x"))):
        shutil.rmtree(scene.top / "src/deep")
        (scene.top / "new/x").mkdir(parents=True)
        (scene.top / "a").write_text("by somebody else\n")
    (manifest,) = scene.manifests()
    assert [file.path for file in manifest.after or ()] == ["new", "new/x", "src/deep", "src/deep/c"]
    assert scene.undo("p1").failed == {}
    assert ((scene.top / "src/deep/c").exists(), (scene.top / "new").exists()) == (True, False)
    assert (scene.top / "a").read_text() == "by somebody else\n"


def test_an_undo_is_undone_like_a_command(scene: Scene) -> None:
    scene.sh("p1", "echo more >> a; rm -r src; mkdir new")
    after = scene.tree()
    scene.undo("p1")
    (undo,) = (each.permit for each in scene.kept.all() if each.permit != "p1")
    assert undo.startswith(restoration.UNDO)
    assert scene.undo(undo).failed == {}
    assert scene.tree() == after
    assert scene.undo("p1").failed == {}, "and it is the command's again"


def test_a_run_is_undone_as_one_unless_something_came_between(scene: Scene) -> None:
    before = scene.tree()
    scene.sh("p1", "echo 1 >> a; mkdir n; echo 1 > n/f")
    scene.sh("p2", "echo 2 >> a; rm src/b; mv n m")
    assert scene.plan("p1").refused == {"a": "it was changed since, by p2"}
    changed = scene.tree()
    assert scene.undo("p1", "p2").failed == {}
    assert scene.tree() == before
    (undo,) = (each.permit for each in scene.kept.all() if each.permit.startswith(restoration.UNDO))
    scene.undo(undo)
    assert scene.tree() == changed
    scene.undo("p2")
    (scene.top / "a").write_text("by hand\n")
    assert scene.undo("p1").failed == {
        "a": "it was changed since, by hand, or by something before which nothing was kept"
    }
    scene.sh("p3", "echo 3 >> a")
    assert "between two commands" in scene.undo("p1", "p3").failed["a"]


def test_later_files_in_a_new_folder_keep_it(scene: Scene) -> None:
    scene.sh("p1", "mkdir n; echo 1 > n/f")
    (scene.top / "n/later").write_text("mine")
    assert scene.undo("p1").failed == {"n": "n/later came into it later"}
    assert (scene.top / "n/f").exists()
    assert scene.undo("p1", paths=("n/f",)).failed == {}
    assert os.listdir(scene.top / "n") == ["later"]


def test_a_folder_that_is_gone_or_a_link_now_is_not_written_in(scene: Scene, tmp_path: Path) -> None:
    scene.sh("p1", "rm src/deep/c")
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    shutil.rmtree(scene.top / "src")
    assert scene.undo("p1").failed == {"src/deep/c": "the folder that it was in is gone"}
    (scene.top / "src").symlink_to(outside)
    assert scene.undo("p1").failed == {"src/deep/c": "the folder that it was in is gone"}
    assert list((outside / "deep").iterdir()) == []


def test_commands_at_the_same_time_are_not_told_apart(scene: Scene) -> None:
    with scene.command("p1"), scene.command("p2", Scope(paths=("src",))):
        (scene.top / "a").write_text("one\n")
        (scene.top / "src/b").write_text("two\n")
    assert scene.plan("p1").refused == {"src/b": "p2 ran at the same time, and which of them changed it is not known"}
    assert scene.undo("p1", paths=("a",)).failed == {}
    assert scene.undo("p1", "p2").failed == {}
    assert (scene.top / "src/b").read_text() == "src/b\n"


def test_nobody_undoes_while_a_command_runs_and_no_command_starts_meanwhile(scene: Scene) -> None:
    with scene.command("p1"), pytest.raises(BlockingIOError), scene.kept.in_use(str(scene.top), alone=True):
        pass
    with scene.kept.in_use(str(scene.top), alone=True):
        (lock,) = scene.kept.folder.glob("?*.lock")
        with open(lock) as opened, pytest.raises(BlockingIOError):  # what a command would wait for
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    scene.sh("p2", "rm a")


@pytest.mark.parametrize(
    ("prepare", "line", "path", "why"),
    [
        ("mkfifo p", "rm p", "p", "neither a file nor a link"),
        ("ln a h", "echo more >> a", "a", "further names"),
        ("chmod u+s a", "echo more >> a; chmod 755 a", "a", "lends its owner's rights"),
        ("truncate -s 20000 big", "truncate -s 0 big", "big", "more than 10000 bytes"),
    ],
)
def test_what_can_not_be_put_back_is_said_and_all_else_stays(
    scene: Scene, prepare: str, line: str, path: str, why: str
) -> None:
    subprocess.run(["bash", "-c", prepare], cwd=scene.top, check=True)
    scene.sh("p1", f"{line}; rm src/b", bounds=Bounds(bytes=10_000))
    assert why in scene.undo("p1").failed[path]
    assert not (scene.top / "src/b").exists()
    assert scene.undo("p1", paths=("src",)).failed == {}
    assert (scene.top / "src/b").exists()


def test_attributes_are_said(scene: Scene) -> None:
    try:
        os.setxattr(scene.top / "a", "user.note", b"x")
    except OSError:
        pytest.skip("this file system keeps no attributes")
    scene.sh("p1", "rm a")
    assert "extended attributes" in scene.undo("p1").failed["a"]


def test_what_was_not_looked_at_is_said(scene: Scene) -> None:
    scene.sh("p1", "rm a", bounds=Bounds(files=2))
    assert scene.undo("p1").failed == {"src/": permit_changes.NOT_SEEN}
    assert scene.undo("p1", paths=("a",)).failed == {}


def test_the_end_of_a_command_that_is_not_known_is_what_is_there(scene: Scene) -> None:
    before = scene.tree()
    scene.changes.before("run", "p1", WHOLE, Bounds())
    (scene.top / "a").write_text("other\n")
    shutil.rmtree(scene.top / "src")
    killed = Scene.__new__(Scene)
    killed.top, killed.kept = scene.top, KeptFiles(scene.kept.folder)
    assert killed.undo("p1").failed == {}
    assert scene.tree() == before


def test_it_is_for_nobody_else_and_secrets_stay_so(scene: Scene) -> None:
    (scene.top / ".env").write_text("SECRET=1\n")
    (scene.top / ".env").chmod(0o600)
    scene.sh("p1", "echo SECRET=2 > .env; chmod 644 a")
    for path in scene.kept.folder.rglob("*"):
        assert stat.S_IMODE(path.lstat().st_mode) in (0o600, 0o700), path
    scene.undo("p1")
    assert stat.S_IMODE((scene.top / ".env").stat().st_mode) == 0o600


def test_what_nothing_names_goes_when_room_is_needed(scene: Scene) -> None:
    (scene.top / "large").write_bytes(os.urandom(30_000))
    scene.sh("p1", "rm a", bounds=Bounds(bytes=40_000))
    assert scene.kept.size() > 30_000, "what was not changed need not be read again"
    again = PermitChanges(KeptFiles(scene.kept.folder), str(scene.top))
    again.before("run", "p2", Scope(paths=("src",)), Bounds(bytes=1_000))
    again.after("p2")
    assert scene.kept.size() < 5_000
    assert scene.undo("p1").failed == {}
    (scene.top / "large").write_bytes(b"")
    scene.sh("p3", "rm src/b")
    assert scene.undo("p3").failed == {}, "and what was forgotten is kept anew"


@pytest.mark.parametrize("what", [".", "contents", "runs"])
def test_a_store_that_is_a_link_is_refused(scene: Scene, tmp_path: Path, what: str) -> None:
    scene.sh("p1", "rm a")
    place = scene.kept.folder / what
    os.rename(place, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", str(place))
    with pytest.raises(OSError, match="not a folder of this user's own"):
        scene.changes.before("run", "p2", WHOLE, Bounds())


def test_the_list_of_another_permit_is_not_taken_for_one_s_own(scene: Scene) -> None:
    scene.sh("p1", "rm a")
    scene.sh("p2", "rm src/b")
    (second, first) = scene.kept.all()
    name = scene.kept._name(first.run, first.project, first.permit)
    name.write_text(name.read_text().replace(first.digest, second.digest))
    with pytest.raises(OSError, match="is not of p1"):
        scene.manifests()


def test_a_file_that_has_become_huge_is_not_read(scene: Scene) -> None:
    scene.sh("p1", "rm a")
    with open(scene.top / "a", "wb") as file:
        file.truncate(1 << 42)
    assert "by hand" in scene.undo("p1").failed["a"]


def test_a_folder_with_an_access_list_does_not_come_back_without_it(scene: Scene) -> None:
    """Its mode alone may let in others than those whom the list let in."""
    try:
        os.setxattr(scene.top / "src", "user.x", b"1")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    scene.sh("p1", "rm -r src; rm a")
    assert "it has extended attributes, which are not kept" in scene.undo("p1").failed["src"]
    assert not (scene.top / "a").exists()
    assert scene.undo("p1", paths=("a",)).failed == {}
    assert scene.undo("p1", paths=("src",)).failed == {}
    assert (scene.top / "src/b").read_text() == "src/b\n"
    scene.sh("p2", 'python3 -c \'import os; os.mkdir("made"); os.setxattr("made", "user.x", b"1")\'')
    assert scene.undo("p2").failed == {}, "what is new goes, whatever it has"


def test_what_is_kept_does_not_lie_in_the_project(scene: Scene) -> None:
    changes = PermitChanges(KeptFiles(scene.top / "data"), str(scene.top))
    with pytest.raises(OSError, match="lies in the project"):
        changes.before("run", "p1", WHOLE, USUAL)


# git


def git(scene: Scene, line: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(scene.top.parent)}
    begin = "git config user.name n; git config user.email e@example.org"
    subprocess.run(["bash", "-c", f"git init -q; {begin}; {line}"], cwd=scene.top, check=True, env=env)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (".git/hooks/pre-commit", "touch ran\n"),
        (".git/config", "[core]\n\tfsmonitor = ./evil\n"),
        (".git/info/attributes", "* filter=evil\n"),
        (".GIT/hooks/pre-commit", "touch ran\n"),
        (".git/modules/x/config", "[core]\n\tfsmonitor = ./evil\n"),
        (".git/rebase-merge/git-rebase-todo", "exec ./evil\n"),
        ("sub/.git", "gitdir: ../evil\n"),
        (".git/hooks/post-commit", Path("../../evil")),
        (".git/config", Path("../evil")),
        ("sub/.git", Path("../evil")),
    ],
)
def test_what_git_would_run_comes_back_only_where_a_human_names_it(
    scene: Scene, path: str, content: str | Path
) -> None:
    git(scene, "git add -A; git commit -qm 1")
    place = scene.top / path
    place.parent.mkdir(exist_ok=True, parents=True)
    if isinstance(content, Path):
        place.unlink(missing_ok=True)
        place.symlink_to(content)
    else:
        place.write_text(content)
    scene.sh("p1", f"rm a; rm {path}")
    assert "git may run code by it" in scene.undo("p1").failed[path]
    assert not (scene.top / "a").exists()
    assert scene.undo("p1", paths=(path,)).failed == {}
    assert (place.readlink() if isinstance(content, Path) else place.read_text()) == content


def test_who_commits_is_undone_although_git_s_settings_are_not(scene: Scene) -> None:
    git(scene, "true")
    before = scene.tree()
    scene.sh("p1", "git config user.name other")
    assert scene.undo("p1").failed == {}
    assert scene.tree() == before


def test_a_commit_that_git_has_thrown_away_does_not_come_back(scene: Scene) -> None:
    git(scene, "git add -A; git commit -qm 1; git checkout -qb b; git commit -q --allow-empty -m 2; git checkout -q -")
    scene.sh("p1", "git branch -qD b")
    scene.sh("p2", "rm -f .git/ORIG_HEAD; git reflog expire --expire=now --all; git gc -q --prune=now")
    assert "git no longer has" in scene.undo("p1").failed[".git/refs/heads/b"]


# kill -9


def _dies(at: int) -> Callable[..., Any]:
    """Have this process kill itself right before its system call number `at` of those that change a file."""
    count = iter(range(at + 1))

    def wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            if next(count) == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return counted

    return wrapped


CALLS = ("unlink", "rename", "replace", "mkdir", "rmdir", "fchmod", "chmod", "symlink", "fsync")


def test_it_is_killed_at_every_step_and_done_as_a_whole_or_not_at_all(scene: Scene) -> None:
    before = scene.tree()
    scene.sh(
        "p1",
        "echo more >> a; chmod 600 src/b; rm -r src/deep; mkdir -p n/m; echo x > n/m/f; ln -s a l; rm src/b; mkdir src/b",
    )
    after = scene.tree()
    at, ended = 0, False
    while not ended:
        plan = scene.plan("p1")
        assert not plan.refused
        pid = os.fork()
        if not pid:
            try:
                dies = _dies(at)
                for name in CALLS:
                    setattr(os, name, dies(getattr(os, name)))
                restoration.undo(scene.kept, plan, restoration.keep_before(scene.kept, "run", plan))
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        ended = status == 0
        assert ended or os.WIFSIGNALED(status), at
        (half,) = restoration.interrupted(scene.kept, str(scene.top)) or (None,)
        if half is not None:
            assert restoration.finish(scene.kept, half).failed == {}, at
            assert restoration.interrupted(scene.kept, str(scene.top)) == []
        done = scene.tree()
        assert done in (before, after), at
        assert half is None or done == before, at
        if done == before and not ended:
            (undo, *_) = (each.permit for each in scene.kept.all() if each.permit.startswith(restoration.UNDO))
            assert scene.undo(undo).failed == {}, at
            assert scene.tree() == after
            for each in scene.kept.all():  # one history is like the other
                if each.permit != "p1":
                    scene.kept._name(each.run, each.project, each.permit).unlink()
        at += 1
    assert at > 20
    assert scene.tree() == before


def test_what_was_changed_after_it_was_killed_stays(scene: Scene) -> None:
    scene.sh("p1", "echo more >> a; rm -r src")
    plan = scene.plan("p1")
    record: Kept = restoration.keep_before(scene.kept, "run", plan)
    restoration._journal(scene.kept, record).parent.mkdir()
    from humanlayer_agent.locations import write_own_json

    write_own_json(
        restoration._journal(scene.kept, record), {"digest": record.digest, "permit": record.permit}, required=True
    )
    (scene.top / "a").write_text("by hand\n")
    (half,) = restoration.interrupted(scene.kept, str(scene.top))
    assert list(restoration.finish(scene.kept, half).failed) == ["a"]
    assert ((scene.top / "a").read_text(), (scene.top / "src/b").exists()) == ("by hand\n", True)
