"""`hla exec`: judged, confined, and with the exit code of the command."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from humanlayer_agent.cli.app import app
from humanlayer_agent.cli.exec import command_line
from humanlayer_agent.errors import ConfigError
from tests.support import enclosures

Exec = Callable[..., Result]


@pytest.fixture
def project() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-exec-") as name:
        yield Path(name)


@pytest.fixture
def execute(project: Path, confined_by_default: None, monkeypatch: pytest.MonkeyPatch) -> Exec:
    enclosures.backend()
    monkeypatch.chdir(project)
    return lambda *words: CliRunner().invoke(app, ["exec", "--policy", "default", "--project", str(project), *words])


def test_output_and_exit_code_are_the_commands(execute: Exec) -> None:
    done = execute("--", "bash", "-c", "echo out; exit 7")
    assert (done.output, done.exit_code) == ("out\n", 7)


def test_words_are_one_command(execute: Exec, project: Path) -> None:
    assert execute("--", "touch", "a b").exit_code == 0
    assert [path.name for path in project.iterdir()] == ["a b"]


def test_a_command_in_one_word_is_told_how_to_be_written(execute: Exec, project: Path) -> None:
    done = execute("--", "touch x")
    assert "hla exec -- touch x, or: hla exec -- bash -c 'touch x'" in str(done.exception)
    assert (isinstance(done.exception, ConfigError), list(project.iterdir())) == (True, [])


@pytest.mark.long
def test_it_is_confined(execute: Exec, project: Path) -> None:
    assert execute("--", "bash", "-c", "echo x > $UNKNOWN/../x 2>/dev/null; ls /root").exit_code != 0
    shared = f"{project.name}-shared"
    assert execute("--run", "one", "--", "touch", f"/tmp/{shared}").exit_code == 0
    assert shared in execute("--run", "one", "--", "ls", "/tmp").output
    assert shared not in execute("--run", "two", "--", "ls", "/tmp").output


def test_what_is_not_allowed_does_not_run(execute: Exec, project: Path) -> None:
    done = execute("--", "rm", "-rf", "/srv/nothing/here")
    assert done.exit_code == 126
    assert "it did not run" in done.stderr


@pytest.mark.long
def test_by_hand_nothing_is_judged(execute: Exec, project: Path, caplog: pytest.LogCaptureFixture) -> None:
    (project / ".env").write_text("SECRET=1\n")
    done = execute("--confinement", "project", "--", "bash", "-c", "cat .env; echo x > made; rm -rf /srv/nothing/here")
    assert "SECRET" not in done.output
    assert (project / "made").exists()
    assert execute("--confinement", "project", "--", "touch", ".envrc").exit_code == 0
    assert "a confined command left" in caplog.text
    assert not (project / ".envrc").exists()
    wrong = execute("--confinement", "nothing", "--", "true")
    assert wrong.exit_code != 0
    assert "no confinement is called 'nothing'; there are: installs, online, project, repository" in str(
        wrong.exception
    )


def test_it_ends_in_time(execute: Exec) -> None:
    done = execute("--timeout", "0.5", "--", "sleep", "600")
    assert done.exit_code == 124


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["bash", "-c", "a | b"], "a | b"),
        (["bash", "--norc", "--noprofile", "-c", "a"], "a"),
        (["bash", "-l", "-c", "a"], "bash -l -c a"),
        (["bash", "-c", "a", "b"], "bash -c a b"),
        (["ls", "a b"], "ls 'a b'"),
    ],
)
def test_command_line(words: list[str], text: str) -> None:
    assert command_line(words) == text


def test_what_runs_confined_writes_no_catalog(execute: Exec, project: Path, own_user: Path) -> None:
    """Whatever nobody could read of a command: neither the user's catalog files nor the project's are its to write."""
    own = own_user / ".config/humanlayer-agent/catalog"
    own.mkdir(parents=True, mode=0o700)
    (project / ".humanlayer/catalog").mkdir(parents=True)
    for folder in (own, project / ".humanlayer/catalog"):
        (folder / "frob.yaml").write_text("as it was\n")
        text = f"echo x > {folder}/frob.yaml; echo x > {folder}/new.yaml; rm -rf {folder}; mv {folder} {folder}2"
        execute("--confinement", "project", "--", "bash", "-c", text)
        assert [path.name for path in folder.iterdir()] == ["frob.yaml"]
        assert (folder / "frob.yaml").read_text() == "as it was\n"
