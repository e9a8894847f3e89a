"""What a command sees of the disk that has a /tmp of its own: links, folders, files, and somebody who swaps them."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from humanlayer_agent.shell.disk_reader import DiskReader
from humanlayer_agent.shell.view import HOST, View


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return Path(os.path.realpath(tmp_path / "runs"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return Path(os.path.realpath(tmp_path / "project"))


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Path]:
    """A folder in the machine's own /tmp, of a name that nobody else has."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="hla-view-") as name:
        yield Path(name)


@pytest.fixture
def view(temporary: Path, project: Path) -> View:
    return View(str(temporary), shown=(str(project),))


def text(view: View, path: object) -> str | None:
    source = DiskReader("/nowhere", view).read(str(path))
    return None if source is None else source.text


def test_its_own_tmp_is_read_and_never_the_machines(view: View, temporary: Path, machines: Path) -> None:
    (machines / "x.sh").write_text("machine\n")
    assert text(HOST, machines / "x.sh") == "machine\n"
    assert text(view, machines / "x.sh") is None
    own = temporary / machines.name
    own.mkdir()
    (own / "x.sh").write_text("own\n")
    assert text(view, machines / "x.sh") == "own\n"
    assert DiskReader.digest(str(machines / "x.sh"), view) == DiskReader.digest(str(own / "x.sh"))


def test_what_lasts_longer_on_the_machine_is_in_its_own_tmp_too(view: View, temporary: Path) -> None:
    name = f"hla-{temporary.parent.name}"
    (temporary / name).write_text("own\n")
    assert text(view, f"/var/tmp/{name}") == "own\n"
    assert view.real(f"/var/tmp/{name}/../x") == "/tmp/x"
    assert (name, False, False) in view.entries(view.real("/var/tmp"))
    assert HOST.real("/var/tmp/x") == os.path.realpath("/var/tmp/x")
    below = View(str(temporary), shown=("/var/tmp/project",))  # there no link can be
    assert below.real("/var/tmp/x") == os.path.realpath("/var/tmp/x")


def test_an_empty_tmp_has_nothing(machines: Path, project: Path) -> None:
    (machines / "x.sh").write_text("machine\n")
    assert text(View(""), machines / "x.sh") is None
    assert View("").look(str(machines)).found is None
    (project / "x.sh").write_text("project\n")
    assert text(View("", shown=(str(project),)), project / "x.sh") == "project\n"


def test_what_some_see_and_others_do_not_is_not_read(temporary: Path, machines: Path) -> None:
    (machines / "x.sh").write_text("machine\n")
    (temporary / machines.name).mkdir()
    (temporary / machines.name / "x.sh").write_text("own\n")
    assert text(View(str(temporary), unknown=(str(machines),)), machines / "x.sh") is None


@pytest.mark.parametrize(
    ("target", "leads"),
    [
        ("/tmp/{name}/x.sh", "own"),
        ("../../../../../../../../../../tmp/{name}/x.sh", "own"),
        ("/tmp/{name}/back/x.sh", "project"),
        ("/tmp/{name}/up", "project"),
        ("/tmp/{name}/../{name}/./x.sh", "own"),
        ("/tmp/{name}/back/../project/x.sh", "project"),
        ("/tmp/{name}/loop/x.sh", None),
        ("/proc/self/root/tmp/{name}/x.sh", None),
        ("/dev/fd/0", None),
    ],
)
def test_links_lead_where_they_lead_inside(
    view: View, temporary: Path, project: Path, machines: Path, target: str, leads: str | None
) -> None:
    own = temporary / machines.name
    own.mkdir()
    (own / "x.sh").write_text("own")
    (machines / "x.sh").write_text("machine")
    (project / "x.sh").write_text("project")
    (own / "back").symlink_to(project)
    (own / "up").symlink_to(f"{project}/x.sh")
    (own / "loop").symlink_to(f"/tmp/{machines.name}/loop")
    (project / "link.sh").symlink_to(target.format(name=machines.name))
    assert text(view, project / "link.sh") == leads


def test_a_path_is_as_the_machine_has_it_where_nothing_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x").write_text("x")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "self").symlink_to("self")
    for path in ("link/x", "link/../a/x", "a/./x", "no/../a/x", "link/no/x", "self", "self/x", "a/x/y", "", "a/"):
        assert HOST.real(f"{tmp_path}/{path}") == os.path.realpath(f"{tmp_path}/{path}"), path
    assert HOST.real("/") == "/"


def test_what_is_shown_is_in_folders_even_before_they_are_made(view: View, project: Path, temporary: Path) -> None:
    above = project.parent
    if not str(above).startswith("/tmp/"):
        pytest.skip("temporary files are elsewhere")
    assert view.look(str(above)).is_directory
    assert (project.name, False, True) in list(view.entries(str(above)))
    (temporary / "made").write_text("x")
    (temporary / "way").symlink_to(project)
    found = {name: (is_link, is_directory) for name, is_link, is_directory in view.entries("/tmp")}
    assert (found["made"], found["way"]) == ((False, False), (True, False))
    assert found[str(above).split("/")[2]] == (False, True)


class Swapped(View):
    """Whoever writes the folder puts a link in the place of a directory, once it is known where a path leads."""

    def place(self, path: str) -> str | None:
        folder = Path(str(self.temporary), "d")
        if path == "/tmp/d/x.sh" and not folder.is_symlink() and folder.exists():
            found = super().place(path)
            if Path(str(self.temporary), "ready").exists():
                folder.rename(folder.with_name("before"))
                folder.symlink_to(Path(str(self.temporary)).parent / "elsewhere")
            return found
        return super().place(path)


def test_nobody_leads_a_look_out_of_the_folder(temporary: Path) -> None:
    (temporary / "d").mkdir()
    (temporary / "d/x.sh").write_text("own")
    (temporary.parent / "elsewhere").mkdir()
    (temporary.parent / "elsewhere/x.sh").write_text("secret")
    view = Swapped(str(temporary))
    assert text(view, "/tmp/d/x.sh") == "own"
    (temporary / "ready").touch()
    assert text(view, "/tmp/d/x.sh") is None


def test_a_pipe_is_not_waited_for(view: View, temporary: Path) -> None:
    os.mkfifo(temporary / "pipe")
    assert text(view, "/tmp/pipe") is None
