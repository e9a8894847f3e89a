"""What a command was judged by is compared until it has ended: real files, swapped in every way we know."""

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.action import BASH, FileDigest
from humanlayer_agent.errors import NotAsJudged
from humanlayer_agent.processes.execution import command_environment, run_command
from humanlayer_agent.processes.file_swaps import JudgedFiles, WorkingDirectory
from humanlayer_agent.shell import HOST, DiskReader, View
from humanlayer_agent.testing.patience import PATIENCE

linux = pytest.mark.skipif(sys.platform != "linux", reason="renameat2 and inotify: only Linux has them")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """`link.sh` leads to `bin/run.sh`; `evil.sh` and `evil/run.sh` are what is swapped in."""
    for name, text in (
        ("bin/run.sh", "echo judged\n"),
        ("evil/run.sh", "echo swapped\n"),
        ("evil.sh", "echo swapped\n"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "link.sh").symlink_to("bin/run.sh")
    (tmp_path / "evil-link.sh").symlink_to("evil.sh")
    return tmp_path


def judged(project: Path, *names: str) -> JudgedFiles:
    files = [FileDigest(f"{project}/{name}", DiskReader.digest(f"{project}/{name}")) for name in names]
    return JudgedFiles(WorkingDirectory.at(str(project)), files)


def exchange(one: Path, other: Path) -> None:
    assert ctypes.CDLL(None).renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2) == 0


def renamed(project: Path) -> None:
    exchange(project / "bin/run.sh", project / "evil.sh")


def relinked(project: Path) -> None:
    exchange(project / "link.sh", project / "evil-link.sh")


def moved(project: Path) -> None:
    exchange(project / "bin", project / "evil")


def written(project: Path) -> None:
    """In place, and the time of the last write set back."""
    path = project / "bin/run.sh"
    before, text = path.stat(), path.read_text()
    path.write_text("echo swapped\n" if "judged" in text else "echo judged\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


SWAPS = [renamed, relinked, moved, written]


@linux
@pytest.mark.parametrize("swap", SWAPS)
def test_what_is_swapped_in_a_tmp_of_the_commands_own_is_told(swap: Callable[[Path], None], project: Path) -> None:
    own = View(os.path.realpath(project))
    (project / "link.sh").unlink()
    (project / "link.sh").symlink_to("/tmp/bin/run.sh")
    (project / "evil-link.sh").unlink()
    (project / "evil-link.sh").symlink_to("/tmp/evil.sh")
    files = [FileDigest("/tmp/link.sh", DiskReader.digest("/tmp/link.sh", own))]
    assert files[0].sha256 == DiskReader.digest(str(project / "bin/run.sh"))
    one = JudgedFiles(WorkingDirectory.at(str(project)), files, own)
    assert one.look() == tuple(files)
    one.check()
    swap(project)
    (change,) = one.changes()
    assert (change.path, change.sha256) == ("/tmp/link.sh", files[0].sha256)
    assert change.found != change.sha256
    with pytest.raises(NotAsJudged):
        one.check()


@linux
@pytest.mark.parametrize("swap", SWAPS)
def test_what_is_swapped_is_told(swap: Callable[[Path], None], project: Path) -> None:
    one = judged(project, "link.sh")
    one.look()
    swap(project)
    (change,) = one.changes()
    assert change.path == str(project / "link.sh")
    assert change.sha256 == one.files[0].sha256
    assert change.found == DiskReader.digest(str(project / "evil.sh" if swap is relinked else project / "link.sh"))
    assert change.found != change.sha256


@linux
@pytest.mark.parametrize("swap", SWAPS)
def test_what_is_put_back_is_told(swap: Callable[[Path], None], project: Path) -> None:
    one = judged(project, "link.sh")
    one.look()
    swap(project)
    swap(project)
    (change,) = one.changes()
    assert change.found == change.sha256


@linux
@pytest.mark.parametrize("swap", SWAPS)
def test_what_is_swapped_before_does_not_start(swap: Callable[[Path], None], project: Path) -> None:
    one = judged(project, "link.sh")
    one.look()
    swap(project)
    env = command_environment(os.environ)
    with pytest.raises(NotAsJudged, match=r"link\.sh: no longer what was judged"):
        run_command((*BASH, "touch ran"), cwd=str(project), env=env, timeout=PATIENCE, judged=one)
    assert not (project / "ran").exists()
    assert one.changes() != ()


def test_who_changes_nothing_is_not_told(project: Path) -> None:
    """Reading, and what an ordinary run does beside: new files in the same directories."""
    one = judged(project, "link.sh", "bin/run.sh")
    assert one.look() == one.files
    command = "bash link.sh; cat bin/run.sh; mkdir bin/__pycache__; touch bin/new x; rm x; mv bin/new y; mv evil e"
    result = run_command(
        (*BASH, command), cwd=str(project), env=command_environment(os.environ), timeout=PATIENCE, judged=one
    )
    assert result.output == "judged\necho judged\n"
    assert one.changes() == ()


def test_what_is_touched_before_the_start_is_no_change(project: Path) -> None:
    one = judged(project, "bin/run.sh")
    one.look()
    (project / "bin/run.sh").touch()
    one.check()
    assert one.changes() == ()


def test_what_is_not_there_or_no_file(project: Path) -> None:
    one = judged(project, "bin/run.sh")
    shutil.rmtree(project / "bin")
    assert one.look() == (FileDigest(str(project / "bin/run.sh"), ""),)
    with pytest.raises(NotAsJudged):
        one.check()
    (project / "bin").mkdir()
    os.mkfifo(project / "bin/run.sh")  # nobody waits for a writer
    assert one.look() == (FileDigest(str(project / "bin/run.sh"), ""),)
    loop = judged(project, "loop")
    (project / "loop").symlink_to("loop")
    assert loop.look() == (FileDigest(str(project / "loop"), ""),)


def test_an_interpreter_is_recognized_as_it_was_judged(project: Path) -> None:
    """Its hash is over the place where it is installed."""
    python = Path("/usr/bin/python3")
    if not python.exists():
        pytest.skip("there is no /usr/bin/python3")
    (project / "python").symlink_to(python)
    one = judged(project, "python")
    source = DiskReader(project).read(str(project / "python"))
    assert source is not None
    assert source.installed
    assert one.look() == (FileDigest(str(project / "python"), source.sha256),)
    one.check()
    assert one.changes() == ()


class TestNames:
    """The names that wildcards stood for when the command was judged."""

    @pytest.fixture
    def one(self, project: Path) -> JudgedFiles:
        return judged(project, "bin//*.sh")

    def test_they_are_the_same(self, one: JudgedFiles, project: Path) -> None:
        (project / "bin/new.txt").touch()
        assert one.look() == one.files
        one.check()
        assert one.changes() == ()

    @pytest.mark.parametrize("name", ["new.sh", "-rf.sh"])
    def test_one_that_has_come(self, name: str, one: JudgedFiles, project: Path) -> None:
        one.look()
        (project / "bin" / name).touch()
        env = command_environment(os.environ)
        with pytest.raises(NotAsJudged, match=r"bin//\*\.sh: no longer what was judged"):
            run_command((*BASH, "touch ran"), cwd=str(project), env=env, timeout=PATIENCE, judged=one)
        assert not (project / "ran").exists()
        assert one.look() != one.files

    def test_one_that_has_gone(self, one: JudgedFiles, project: Path) -> None:
        (project / "bin/run.sh").unlink()
        assert one.look() != one.files
        with pytest.raises(NotAsJudged):
            one.check()

    def test_a_folder_that_has_gone(self, one: JudgedFiles, project: Path) -> None:
        shutil.rmtree(project / "bin")
        assert one.look() == (FileDigest(f"{project}/bin//*.sh", ""),)

    def test_what_comes_later_is_no_matter_but_an_option(self, one: JudgedFiles, project: Path) -> None:
        one.look()
        (project / "bin/new.sh").touch()
        assert one.changes() == ()
        top = judged(project, "/*")
        top.look()
        (project / "new").touch()
        (project / "--reference=x").touch()
        assert [change.path for change in top.changes()] == [f"{project}//*"]

    def test_the_command_itself_sees_no_more(self, one: JudgedFiles, project: Path) -> None:
        one.check_inside(HOST)
        other = project / "root"
        (other / str(project / "bin").lstrip("/")).mkdir(parents=True)
        one.check_inside(View(root=str(other)))  # fewer: what is hidden can't deceive
        (other / str(project / "bin/-rf.sh").lstrip("/")).touch()
        with pytest.raises(NotAsJudged):
            one.check_inside(View(root=str(other)))

    def test_a_folder_that_is_gone_to_is_there_all_the_time(self, project: Path) -> None:
        """Where `cd` fails, what comes after it runs somewhere else."""
        one = judged(project, "/bin/.")
        one.look()
        one.check_inside(HOST)
        other = project / "root"
        (other / str(project).lstrip("/")).mkdir(parents=True)
        with pytest.raises(NotAsJudged):
            one.check_inside(View(root=str(other)))
        (project / "bin").rename(project / "old")
        assert [change.path for change in one.changes()] == [f"{project}//bin/."]
        with pytest.raises(NotAsJudged):
            one.check()


class TestWorkingDirectory:
    """The directory that was judged, wherever its path leads meanwhile."""

    def test_another_one_in_its_place(self, project: Path) -> None:
        directory = WorkingDirectory.at(str(project / "bin"))
        (project / "bin").rename(project / "away")
        (project / "evil").rename(project / "bin")
        with pytest.raises(NotAsJudged, match="bin: no longer what was judged"):
            directory.open()
        (project / "bin").rmdir() if not any((project / "bin").iterdir()) else shutil.rmtree(project / "bin")
        with pytest.raises(FileNotFoundError):
            directory.open()

    def test_a_link_to_it_that_leads_elsewhere(self, project: Path) -> None:
        (project / "here").symlink_to("bin")
        directory = WorkingDirectory.at(str(project / "here"))
        (project / "here").unlink()
        (project / "here").symlink_to("evil")
        with pytest.raises(NotAsJudged):
            directory.open()

    def test_the_same_one_at_another_place(self, project: Path) -> None:
        """`..` is another directory there."""
        (project / "here").symlink_to("bin")
        directory = WorkingDirectory.at(str(project / "here"))
        (project / "bin").rename(project / "evil/bin")
        (project / "here").unlink()
        (project / "here").symlink_to("evil/bin")
        with pytest.raises(NotAsJudged):
            directory.open()

    def test_one_that_was_not_there(self, project: Path) -> None:
        directory = WorkingDirectory.at(str(project / "new"))
        (project / "new").mkdir()
        with pytest.raises(NotAsJudged):
            directory.open()

    @pytest.mark.skipif(sys.platform != "linux", reason="a descriptor of what can't be listed: only Linux has that")
    def test_one_that_can_only_be_entered(self, project: Path) -> None:
        (project / "bin").chmod(0o311)
        os.close(WorkingDirectory.at(str(project / "bin")).open())

    def test_the_command_starts_there(self, project: Path) -> None:
        """It is swapped when all but the start is done."""

        class Swapping(JudgedFiles):
            def check(self) -> None:
                (project / "bin").rename(project / "away")
                (project / "evil").rename(project / "bin")

        one = Swapping(WorkingDirectory.at(str(project / "bin")), ())
        result = run_command(
            (*BASH, "cat run.sh"),
            cwd=str(project / "bin"),
            env=command_environment(os.environ),
            timeout=PATIENCE,
            judged=one,
        )
        assert result.output == "echo judged\n"
