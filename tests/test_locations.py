"""Where our own files are, in the spelling of `pathlib`."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent import locations
from humanlayer_agent.locations import note_port, own_ports

_PATHS = st.lists(st.sampled_from(["a", "..", ".", "", ".b", "c.d", "~", " "]), max_size=6).map("/".join)


@given(_PATHS, st.sampled_from(["", "/", "//", "///"]))
def test_paths_are_spelled_as_pathlib_does(path: str, start: str) -> None:
    assert locations.spelled(start + path) == str(Path(start + path))


@given(_PATHS)
def test_upwards_is_the_path_and_its_parents(path: str) -> None:
    plain = Path("/" + path)
    assert list(locations.upwards(str(plain))) == [str(plain), *map(str, plain.parents)]


def test_existing_is_as_pathlib_says(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("file", "gone", "loop", "none", "file/below", "a\0b", "x" * 300):
        path = tmp_path / name
        try:
            expected = path.exists()
        except OSError as error:
            with pytest.raises(OSError, match=str(error.strerror)):
                locations.exists(str(path))
        else:
            assert locations.exists(str(path)) is expected, name


@pytest.mark.parametrize("home", ["/home/x", "/home/x/", "/home//x/./y", "/", "", "relative", None])
def test_folders_are_below_the_home(home: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = (locations.STORE_VARIABLE, locations.PASSPHRASE_VARIABLE)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", *variables):
        monkeypatch.delenv(name, raising=False)
    if home is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", home)
    assert locations.home_folder() == str(Path.home())
    assert locations.state_folder() == Path.home() / ".local/state/humanlayer-agent"
    assert locations.own_places() == {
        "STORE": str(locations.default_store_path()),
        "PASSPHRASE_FILE": str(locations.data_folder() / "passphrase"),
        "PACKAGE": str(Path(locations.__file__).parent),
        "OWN_PROGRAMS": str(Path(sys.executable).parent),
        "OWN_CONFIG": str(locations.config_folder()),
        "OWN_STATE": str(locations.state_folder()),
        "OWN_DATA": str(locations.data_folder()),
    }


def test_nobody_knows_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "~nobody")
    with pytest.raises(RuntimeError):
        locations.home_folder()


def test_settings_name_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", f"{tmp_path}/a/./b/")
    assert locations.state_path("x", "y") == str(tmp_path / "a/b/humanlayer-agent/x/y")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # the specification: not absolute is not set
    assert locations.state_path().startswith(str(Path.home()))
    monkeypatch.setenv(locations.STORE_VARIABLE, "store")
    assert locations.default_store_path() == Path(os.getcwd()) / "store"


def test_the_file_with_the_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(locations.PASSPHRASE_VARIABLE, "/run//credentials/hub")
    assert locations.own_places()["PASSPHRASE_FILE"] == "/run/credentials/hub"
    for unusable in ("", "relative", "~/x"):
        monkeypatch.setenv(locations.PASSPHRASE_VARIABLE, unusable)
        assert locations.own_places()["PASSPHRASE_FILE"] == str(locations.data_folder() / "passphrase")


def test_what_is_reached_through_the_project_lies_in_it(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project / "src", outside):
        folder.mkdir(parents=True)
    (project / "out").symlink_to(outside)
    (outside / "in").symlink_to(project / "src")
    (outside / "here").symlink_to(project / "out/none")
    inside = (project, project / "src/../x", project / "out", project / "out/x", outside / "in/x", project / "out/in")
    for path in inside:
        assert locations.is_inside(path, project), path
    for path in (outside, outside / "x", tmp_path, tmp_path / "project-2", Path("/")):
        assert not locations.is_inside(path, project), path
    assert not locations.is_inside(project, None)


def test_where_something_of_ours_listens_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert own_ports() == frozenset()
    for port in (8765, 80, 80):
        note_port(port)
    (tmp_path / "state/humanlayer-agent/listening/x").touch()
    assert own_ports() == {8765, 80}
    note_port(80, listens=False)
    note_port(81, listens=False)
    assert own_ports() == {8765}
