"""Where our own files are, in the spelling of `pathlib`."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent import locations
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hooks import log_proof
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


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The store.yaml of the user and of the machine, which are not there yet; no variable names a store."""
    monkeypatch.delenv("HUMANLAYER_STORE")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(locations, "MACHINE_FOLDER", str(tmp_path / "machine"))
    found = {"user": tmp_path / "user" / "humanlayer-agent", "machine": tmp_path / "machine"}
    for folder in found.values():
        folder.mkdir(parents=True)
    return {whose: folder / "store.yaml" for whose, folder in found.items()}


SERVER = "postgresql://me@db.example.com/hla"


def test_the_store_that_settings_name(settings: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    default = str(locations.default_store_path())
    assert locations.store_location() == default
    settings["machine"].write_text(f"# the fleet's\n\nstore: {SERVER}\n")
    assert locations.store_location() == SERVER
    assert locations.is_address(locations.store_location())
    assert str(locations.default_store_path()) == default, "what policies guard is still a file"
    assert locations.own_places()["STORE"] == default
    settings["user"].write_text("store: '/srv/own.db'")
    assert (
        locations.store_location() == str(locations.default_store_path()) == log_proof.store_location() == "/srv/own.db"
    )
    monkeypatch.setenv("HUMANLAYER_STORE", "sqlite:////srv/named.db")
    assert locations.store_location() == "sqlite:////srv/named.db"
    assert str(locations.default_store_path()) == "/srv/named.db"


@pytest.mark.parametrize(
    "text", ["", "store:", "store: a\nstore: b", "path: a", "- store: a", "\udcff".encode("utf-8", "surrogateescape")]
)
def test_settings_that_name_no_store(settings: dict[str, Path], text: str | bytes) -> None:
    settings["user"].write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=r"store\.yaml"):
        locations.store_location()


def test_settings_that_others_can_write_name_no_store(settings: dict[str, Path]) -> None:
    settings["machine"].write_text(f"store: {SERVER}")
    settings["machine"].chmod(0o666)
    with pytest.raises(ConfigError, match="can be written by others"):
        locations.store_location()


def test_a_project_names_no_store(settings: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = locations.store_location()
    for name in ("store.yaml", ".humanlayer/store.yaml"):
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(f"store: {SERVER}")
    monkeypatch.chdir(tmp_path / "project")
    assert locations.store_location() == default
