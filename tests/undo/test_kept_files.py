"""Files are kept as they are, once, within bounds, and whatever stands in a project keeps nobody waiting."""

import errno
import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from humanlayer_agent.confine.confinement import Bounds
from humanlayer_agent.confine.project_files import ProjectFiles, project_files
from humanlayer_agent.testing.patience import until
from humanlayer_agent.undo import kept_files
from humanlayer_agent.undo.kept_files import Kept, KeptFiles, Manifest

DAY_MS = 86_400_000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    (top / "src").mkdir(parents=True)
    (top / "notes").write_text("notes\n")
    (top / "src/a.py").write_text("print()\n")
    return top


@pytest.fixture
def store(tmp_path: Path) -> KeptFiles:
    return KeptFiles(tmp_path / "kept")


def keep(
    store: KeptFiles, project: Path, run: str = "run", at: int | None = None, **bounds: int
) -> tuple[Kept, Manifest]:
    found = project_files(str(project), None)
    made = store.keep(run, str(project), found, bounds=Bounds(**bounds), at=at)
    return made, store.manifest(made)


def contents(store: KeptFiles) -> list[str]:
    return sorted(path.name for path in (store.folder / "contents").rglob("*") if path.is_file())


def test_files_and_links_are_kept_as_they_are(store: KeptFiles, project: Path) -> None:
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o750)
    (project / "link").symlink_to("/etc/passwd")
    made, manifest = keep(store, project)
    found = {file.path: (stat.filemode(file.mode), store.content(file.content)) for file in manifest.files}
    assert found == {
        "notes": ("-rw-r--r--", b"notes\n"),
        "src/a.py": ("-rw-r--r--", b"print()\n"),
        "run.sh": ("-rwxr-x---", b"#!/bin/sh\n"),
        "link": ("lrwxrwxrwx", b"/etc/passwd"),
    }
    assert (made.files, made.bytes, made.left_out) == (4, 35, 0)


def test_it_is_for_nobody_else(store: KeptFiles, project: Path) -> None:
    before = os.umask(0)
    try:
        keep(store, project)
    finally:
        os.umask(before)
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in store.folder.rglob("*") if path.is_file()} == {0o600}


def test_it_is_done_once_for_a_run(store: KeptFiles, project: Path) -> None:
    first, _ = keep(store, project)
    (project / "notes").write_text("later\n")
    again, _ = keep(store, project)
    assert again == first


def test_a_run_of_the_same_name_in_another_project_is_another_one(
    store: KeptFiles, project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "theirs").write_text("theirs")
    first, _ = keep(store, project)
    second, manifest = keep(store, other)
    assert [file.path for file in manifest.files] == ["theirs"]
    assert (store.of("run", str(project)), store.of("run", str(other))) == (first, second)


def test_the_same_bytes_are_kept_once(store: KeptFiles, project: Path) -> None:
    (project / "copy").write_text("notes\n")
    keep(store, project, "one")
    before = contents(store)
    second, manifest = keep(store, project, "two")
    assert len(contents(store)) == len(before) + 1, "its manifest"
    assert {file.content for file in manifest.files} <= set(before)
    assert second.files == 3


def test_what_was_not_touched_since_is_not_read_again(
    store: KeptFiles, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, project, "one", at=os.stat(project / "notes").st_ctime_ns // 1_000_000 + 1000)
    (project / "src/a.py").write_text("changed\n")
    read: list[str] = []
    was = kept_files.open_file
    monkeypatch.setattr(kept_files, "open_file", lambda folder, name: read.append(name) or was(folder, name))
    _, manifest = keep(store, project, "two")
    assert read == ["a.py"]
    assert {store.content(file.content) for file in manifest.files} == {b"notes\n", b"changed\n"}


def test_what_is_no_file_is_left_out_and_nobody_waits_for_it(store: KeptFiles, project: Path) -> None:
    os.mkfifo(project / "fifo")
    listening = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(project)  # the address would be too long
    try:
        listening.bind("socket")
    finally:
        os.chdir(here)
        listening.close()
    made, manifest = keep(store, project)
    assert {each.path: each.why for each in manifest.left} == dict.fromkeys(
        ("fifo", "socket"), "neither a file nor a link"
    )
    assert (made.files, made.left_out) == (2, 2)


def test_bounds_hold_and_what_does_not_fit_is_said(store: KeptFiles, project: Path) -> None:
    with open(project / "sparse", "wb") as file:
        file.truncate(1 << 40)
    (project / "src/deep").mkdir()
    (project / "src/deep/more").write_text("x" * 50)
    made, manifest = keep(store, project, bytes=40)
    assert [file.path for file in manifest.files] == ["notes", "src/a.py"]
    assert {each.path for each in manifest.left} == {"sparse", "src/deep/more"}
    assert "more than 40 bytes" in manifest.left[0].why
    assert sum(path.stat().st_size for path in (store.folder / "contents").rglob("*") if path.is_file()) < 5_000
    assert made.left_out == 2
    _, manifest = keep(store, project, "other", files=1)
    assert ([file.path for file in manifest.files], manifest.left[0].why) == (["notes"], "there are more than 1 files")


def test_a_folder_that_became_a_link_is_not_followed(store: KeptFiles, project: Path) -> None:
    found = project_files(str(project), None)
    (project / "src/a.py").unlink()
    (project / "src").rmdir()
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("secret")
    (project / "src").symlink_to(outside)
    made = store.keep("run", str(project), found, bounds=Bounds())
    manifest = store.manifest(made)
    assert [file.path for file in manifest.files] == ["notes"]
    assert [each.path for each in manifest.left] == ["src/a.py"]


def test_paths_that_lead_out_are_not_taken(store: KeptFiles, project: Path) -> None:
    (project.parent / "secret").write_text("secret")
    found = ProjectFiles(frozenset(), ("../secret", "/etc/passwd", "src/../notes", ".git/config", "notes"))
    manifest = store.manifest(store.keep("run", str(project), found, bounds=Bounds()))
    assert [file.path for file in manifest.files] == ["notes"]


def test_a_file_that_goes_on_changing_is_kept_as_it_was_at_one_moment(
    store: KeptFiles, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    was = kept_files._read  # type: ignore[attr-defined]

    def growing(source: int, most: int) -> bytes:
        found: bytes = was(source, most)
        if os.path.samestat(os.fstat(source), os.stat(project / "notes")):
            with open(project / "notes", "a") as file:
                file.write("more\n")
        return found

    monkeypatch.setattr(kept_files, "_read", growing)
    _, manifest = keep(store, project)
    (kept,) = (file for file in manifest.files if file.path == "notes")
    assert store.content(kept.content).startswith(b"notes\n")
    assert [(each.path, each.why[:10]) for each in manifest.left] == [("notes", "it changed")]


def test_what_commands_cannot_write_is_not_kept(store: KeptFiles, project: Path) -> None:
    found = project_files(str(project), None)
    made = store.keep("run", str(project), found, bounds=Bounds(), wanted=lambda path: not path.endswith("/notes"))
    manifest = store.manifest(made)
    assert ([file.path for file in manifest.files], manifest.held) == (["src/a.py"], ("notes",))


def test_a_full_disk_is_an_error_and_leaves_nothing_half(
    store: KeptFiles, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(kept_files.os, "replace", full)
        with pytest.raises(OSError, match="No space"):
            keep(store, project)
    assert (contents(store), store.of("run", str(project))) == ([], None)
    assert keep(store, project)[0].files == 2, "and the next time it works"


@pytest.mark.parametrize("what", ["manifest", "content"])
def test_what_was_tampered_with_is_not_given(store: KeptFiles, project: Path, what: str) -> None:
    made, manifest = keep(store, project)
    digest = made.digest if what == "manifest" else manifest.files[0].content
    (store.folder / "contents" / digest[:2] / digest).write_bytes(b"{}")
    with pytest.raises(OSError, match="is not what it was"):
        store.manifest(made) if what == "manifest" else store.content(digest)


def test_what_is_old_goes_and_what_others_still_name_stays(store: KeptFiles, project: Path) -> None:
    old, manifest = keep(store, project, "old", at=1_000)
    (project / "notes").write_text("newer\n")
    keep(store, project, "new", at=1_000 + 2 * DAY_MS)
    assert store.forget(1_000 + DAY_MS) == 1
    assert [each.run for each in store.all()] == ["new"]
    gone = {file.path: file.content for file in manifest.files}
    assert store.content(gone["src/a.py"]) == b"print()\n"
    assert not {gone["notes"], old.digest} & set(contents(store))
    keep(store, project, "later", at=1_000 + 40 * DAY_MS)
    assert [each.run for each in store.all()] == ["later"], "the next keeping lets go what is too old"


def test_all_runs_together_have_a_bound(store: KeptFiles, project: Path) -> None:
    for number in range(12):
        (project / "big").write_bytes(bytes([number]) * 1_000)
        keep(store, project, f"run-{number}", at=1_000 + number, bytes=1_100)
    runs = [each.run for each in store.all()]
    assert runs[0] == "run-11"
    assert len(runs) < 5
    assert store.size() < 8_000


def test_several_at_once_wait_for_each_other(store: KeptFiles, project: Path) -> None:
    made: list[Kept] = []
    threads = [threading.Thread(target=lambda: made.append(keep(store, project)[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(made) == 4, "all of them have kept it")
    assert len({each.digest for each in made}) == 1


def test_names_of_runs_are_only_names(store: KeptFiles, project: Path) -> None:
    for name in ("../../x", "a/b", "", "\udcff", "x" * 5_000):
        made, manifest = keep(store, project, name)
        assert (store.of(name, str(project)), manifest.run) == (made, name)
    assert not (store.folder.parent / "x.json").exists()


def test_a_folder_of_somebody_elses_choosing_is_refused(store: KeptFiles, project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    store.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="not a folder of this user"):
        keep(store, project)
