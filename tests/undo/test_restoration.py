"""Kept files come back as they were, whatever was done meanwhile, and nothing else is touched."""

import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from humanlayer_agent.confine.confinement import Bounds
from humanlayer_agent.confine.project_files import ProjectFiles, project_files
from humanlayer_agent.undo import restoration
from humanlayer_agent.undo.kept_files import KeptFiles, Manifest
from humanlayer_agent.undo.restoration import Changes, Plan, Step, Undone
from tests.support.extent import examples


class Scene:
    """A project, and where its files are kept."""

    def __init__(self, base: Path) -> None:
        self.project, self.kept = base / "project", KeptFiles(base / "kept")
        self.project.mkdir()

    def keep(self, name: str = "run") -> Manifest:
        found = project_files(str(self.project), None)
        return self.kept.manifest(self.kept.keep(name, str(self.project), found, bounds=Bounds()))

    def changes(self, manifest: Manifest) -> Changes:
        return restoration.changes(manifest, project_files(str(self.project), None))

    def undo(self, manifest: Manifest, chosen: Changes | None = None) -> tuple[Undone, Manifest]:
        """Undo what differs from a manifest; of an undo, what that did."""
        if manifest.permit:
            plan = restoration.plan_of(self.kept, [manifest], [])
        else:
            plan = restoration.plan_since(self.kept, manifest, self.changes(manifest) if chosen is None else chosen)
        if plan.refused:
            return Undone(failed=plan.refused), manifest
        before = restoration.keep_before(self.kept, "run", plan)
        return restoration.undo(self.kept, plan, before), self.kept.manifest(before)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    for name in ("a", "src/b", "src/deep/c"):
        path = made.project / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(name)
    return made


def tree(top: Path) -> dict[str, tuple[str, bytes]]:
    """Every file and link below a folder, with its mode and content."""
    found = {}
    for path in top.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(top))] = ("link", os.fsencode(os.readlink(path)))
        elif path.is_file():
            found[str(path.relative_to(top))] = (stat.filemode(path.stat().st_mode), path.read_bytes())
    return found


def paths(found: Changes) -> tuple[list[str], list[str], list[str]]:
    return [f.path for f in found.deleted], [f.path for f in found.changed], list(found.created)


def test_what_was_deleted_changed_and_created_is_told_apart(scene: Scene) -> None:
    manifest = scene.keep()
    assert not scene.changes(manifest)
    (scene.project / "a").unlink()
    (scene.project / "src/b").write_text("other")
    (scene.project / "src/deep/c").chmod(0o755)
    (scene.project / "new").write_text("new")
    found = scene.changes(manifest)
    assert paths(found) == (["a"], ["src/b", "src/deep/c"], ["new"])
    assert paths(found.within(["src"])) == ([], ["src/b", "src/deep/c"], [])
    assert paths(found.within(["a", "new/"])) == (["a"], [], ["new"])
    assert paths(found.within(["sr", "."])) == paths(found)


def test_it_comes_back_and_what_is_new_stays_unless_that_is_wanted(scene: Scene) -> None:
    before, manifest = tree(scene.project), scene.keep()
    shutil.rmtree(scene.project / "src")
    (scene.project / "a").write_text("other")
    (scene.project / "new").write_text("new")
    found = scene.changes(manifest)
    done, _ = scene.undo(manifest, chosen=Changes(found.deleted, found.changed))
    assert (done.removed, done.failed) == ((), {})
    assert set(done.restored) == {"a", "src", "src/b", "src/deep", "src/deep/c"}
    assert tree(scene.project) == before | {"new": ("-rw-r--r--", b"new")}
    done, _ = scene.undo(manifest)
    assert (done.removed, tree(scene.project)) == (("new",), before)


def test_an_undo_can_be_undone(scene: Scene) -> None:
    manifest = scene.keep()
    (scene.project / "a").write_text("other")
    (scene.project / "src/b").unlink()
    (scene.project / "new").write_text("new")
    damaged = tree(scene.project)
    _, before = scene.undo(manifest)
    assert tree(scene.project) != damaged
    done, _ = scene.undo(before)
    assert (done.failed, tree(scene.project)) == ({}, damaged)


def test_no_planted_link_is_followed(scene: Scene, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "canary").write_text("canary")
    (outside / "b").write_text("theirs")
    manifest = scene.keep()
    shutil.rmtree(scene.project / "src")
    (scene.project / "src").symlink_to(outside)
    (scene.project / "a").unlink()
    (scene.project / "a").symlink_to(outside / "canary")
    found = scene.changes(manifest)
    done, _ = scene.undo(manifest, chosen=Changes(found.deleted, found.changed))
    assert (outside / "canary").read_text() == "canary"
    assert tree(outside) == {"canary": ("-rw-r--r--", b"canary"), "b": ("-rw-r--r--", b"theirs")}
    assert set(done.failed) == {"src/b", "src/deep"}
    assert (scene.project / "a").is_symlink(), "nothing is half undone"
    done, _ = scene.undo(manifest)  # the link is new: it goes where that is wanted
    assert (done.failed, (scene.project / "src/deep/c").read_text()) == ({}, "src/deep/c")
    assert ((scene.project / "a").read_text(), (scene.project / "a").is_symlink()) == ("a", False)
    assert (outside / "canary").exists()


@pytest.mark.long
@pytest.mark.parametrize("way", ["keep", "undo"])
def test_a_folder_that_becomes_a_link_again_and_again_is_never_followed(scene: Scene, tmp_path: Path, way: str) -> None:
    outside, src = tmp_path / "outside", scene.project / "src"
    outside.mkdir()
    (outside / "b").write_text("canary")
    manifest, found = scene.keep(), project_files(str(scene.project), None)
    files, none = (
        {file.path: file for file in manifest.files},
        restoration.keep_before(scene.kept, "run", Plan(str(scene.project))),
    )
    stopped = threading.Event()

    def swap() -> None:
        while not stopped.is_set():
            os.rename(src, tmp_path / "src")
            try:
                src.symlink_to(outside)
            except FileExistsError:
                shutil.rmtree(tmp_path / "src")
                continue
            src.unlink()
            try:
                os.rename(tmp_path / "src", src)
            except OSError:  # it was made anew meanwhile, and has files
                shutil.rmtree(tmp_path / "src")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(150):
            if way == "keep":
                made = scene.kept.keep(f"run-{number}", str(scene.project), found, bounds=Bounds())
                contents = {scene.kept.content(file.content) for file in scene.kept.manifest(made).files}
                assert b"canary" not in contents
            else:
                steps = (Step(files["src/b"], replace(files["a"], path="src/b")),)
                steps = steps if number % 2 else (Step(steps[0].then, steps[0].now),)
                restoration.undo(scene.kept, Plan(str(scene.project), steps), none)
    finally:
        stopped.set()
        swapping.join()
    assert tree(outside) == {"b": ("-rw-r--r--", b"canary")}


def test_a_further_name_of_a_file_is_not_written_through(scene: Scene, tmp_path: Path) -> None:
    manifest = scene.keep()
    (tmp_path / "other").write_text("other")
    (scene.project / "a").unlink()
    os.link(tmp_path / "other", scene.project / "a")
    scene.undo(manifest)
    assert ((scene.project / "a").read_text(), (tmp_path / "other").read_text()) == ("a", "other")


def test_what_can_not_be_kept_is_not_overwritten(scene: Scene) -> None:
    manifest = scene.keep()
    (scene.project / "a").unlink()
    os.mkfifo(scene.project / "a")
    (scene.project / "src/b").unlink()
    (scene.project / "src/b").mkdir()
    (scene.project / "src/b/inside").write_text("x")
    found = scene.changes(manifest)
    done, _ = scene.undo(manifest, chosen=Changes(found.deleted, found.changed))
    assert set(done.failed) == {"a", "src/b"}
    assert done.failed["a"] == "it is neither a file nor a link nor a folder"
    assert stat.S_ISFIFO((scene.project / "a").stat().st_mode)
    assert (scene.project / "src/b/inside").exists()


@pytest.mark.parametrize("when", ["before it is kept", "before it is done"])
def test_what_changed_after_it_was_planned_is_not_overwritten(scene: Scene, when: str) -> None:
    manifest = scene.keep()
    for name in ("a", "src/b"):
        (scene.project / name).write_text("other")
    plan = restoration.plan_since(scene.kept, manifest, scene.changes(manifest))
    if when == "before it is kept":
        (scene.project / "src/b").write_text("later")
        with pytest.raises(OSError, match="could not be kept first"):
            restoration.keep_before(scene.kept, "run", plan)
    else:
        before = restoration.keep_before(scene.kept, "run", plan)
        (scene.project / "src/b").write_text("later")
        done = restoration.undo(scene.kept, plan, before)
        assert (list(done.failed), done.left) == (["src/b"], ("src/b",))
        assert restoration.interrupted(scene.kept, str(scene.project)) == []
    assert [(scene.project / name).read_text() for name in ("a", "src/b")] == ["other", "later"]


def test_what_was_there_and_not_kept_is_never_new(scene: Scene) -> None:
    """What was ignored, left out, held, or not looked through: a changed `.gitignore` makes none of it new."""
    manifest = Manifest(
        "run", str(scene.project), 0, ignored=("a", "ig/"), unseen=("src/deep/",), untouchable=("/**/protected/**",)
    )
    now = ProjectFiles(frozenset(), ("a", "ig/x", "src/deep/c", "src/b", "protected/planted", "igloo"))
    assert restoration.changes(manifest, now).created == ("igloo", "src/b")


def test_what_git_has_is_said(scene: Scene) -> None:
    manifest = Manifest("run", str(scene.project), 0, committed=("a", "gone", "same"))
    now = ProjectFiles(frozenset({"same"}), ("a",), repository=True)
    assert restoration.changes(manifest, now).committed == ("a", "gone")
    assert restoration.changes(manifest, ProjectFiles(frozenset(), ("a",))).committed == ()


# Any tree, any damage

NAMES = st.sampled_from(["a", "b", "A", "ü", "a b", "-x", "\udcff", "a\nb", ".hidden", "*"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.one_of(st.binary(max_size=40), st.integers(0, 5).map(lambda n: n))
"""Of a file its bytes; of a link a number, which says where it leads."""
TARGETS = ("a", "../a", "/etc/passwd", "b/c", "nowhere", ".")
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "delete", "mode"]), PATHS, CONTENTS, st.integers(0, 7)), max_size=12
)


def apply(top: Path, steps: list[tuple[str, str, bytes | int, int]]) -> None:
    """Do to a tree what can be done of this; what stands in the way goes."""
    for how, path, content, mode in steps:
        place = top
        for part in path.split("/")[:-1]:
            place /= part
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                place.unlink()
            place.mkdir(exist_ok=True)
        place /= path.split("/")[-1]
        if how == "mode":
            if place.is_file() and not place.is_symlink():
                place.chmod(0o600 | mode << 3 | mode)
            continue
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        if how == "write" and isinstance(content, int):
            place.symlink_to(TARGETS[content])
        elif how == "write":
            place.write_bytes(content)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.long
@settings(max_examples=examples(200, soak=5_000))
@given(made=STEPS, damage=STEPS)
@example(made=[("write", "a", b"", 0)], damage=[("write", "a/a", b"", 0)])
@example(made=[("write", "a", b"", 0)], damage=[("write", "a/b/c", b"", 0), ("delete", "a/b/c", b"", 0)])
@example(made=[("write", "a/b", b"", 0)], damage=[("write", "a", 4, 0)])
def test_any_tree_comes_back_from_any_damage(
    folder: Path, made: list[tuple[str, str, bytes | int, int]], damage: list[tuple[str, str, bytes | int, int]]
) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        scene = Scene(Path(name))
        apply(scene.project, made)
        before, manifest = tree(scene.project), scene.keep()
        apply(scene.project, damage)
        damaged = tree(scene.project)
        done, undone = scene.undo(manifest)
        assert (done.failed, tree(scene.project)) == ({}, before)
        done, _ = scene.undo(undone)
        assert (done.failed, tree(scene.project)) == ({}, damaged)
