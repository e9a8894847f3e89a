"""`hla mcp`: how it is called, and what is refused before anything starts. (What it does: tests/hooks/gateway.)"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from humanlayer_agent.cli import main
from humanlayer_agent.processes.execution import SUPERVISED

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Usage: hla mcp [OPTIONS] -- SERVER... | COMMAND"),
        (("--name", "x"), "name the server: hla mcp -- COMMAND, or hla mcp --http URL"),
        (("--",), "name the server"),
        (("--http", "https://example.org", "--", "x"), "name the server"),
        (("npx", "x"), "there is no command 'npx'"),
        (("--nme", "x", "--", "y"), "there is no option --nme; did you mean --name?"),
        (("--name", "x", "ask"), "go with none of its commands"),
        (("ask", "--", "x"), "go with none of its commands"),
        (("--bearer-env", "X", "--", "y"), "--bearer-env is for --http"),
        (("--pass-env", "X", "--http", "https://example.org"), "--pass-env is for a COMMAND"),
        (("--bearer-env", "NO_SUCH", "--http", "https://example.org"), "NO_SUCH is not set"),
        (("--header-from", "X=env:PATH", "--", "y"), "--header-from is for --http"),
        (("--header-from", "X=secret", "--http", "https://example.org"), "is never given here"),
        (("--header-from", "X=env:PATH", "--header-from", "x=env:PATH", "--http", "https://example.org"), "named once"),
        (("--listen", "0", "--", "true"), "--listen"),
        (("--listen", "8931", "--policy", "no-such", "--", "true"), "no-such"),
        (("--listen", "8931", "ask"), "go with none of its commands"),
        (("--http", "ftp://example.org"), "is no address of a server"),
        (("--pass-env", "BASH_ENV", "--", "true"), "BASH_ENV can't be passed"),
        (("--pass-env", "HUMANLAYER_PASSPHRASE_FILE", "--", "true"), "HUMANLAYER_PASSPHRASE_FILE can't be passed"),
        (("--name", "a__b", "--", "x"), "'a__b' can't be a server's name"),
        (("--name", "a_", "--", "x"), "'a_' can't be a server's name"),
        (("--name", "a b", "--", "x"), "'a b' can't be a server's name"),
        (("--", "..."), "'' can't be a server's name: name it with --name"),
        (("--", "no-such-server"), "no-such-server was not found"),
        (("--policy", "no-such", "--", "true"), "no-such"),
        (("--deadline", "0", "--", "true"), "--deadline"),
    ],
)
def test_what_is_called_wrongly(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["hla"])
    assert main(["mcp", *words]) == 2
    out, err = capsys.readouterr()
    assert said in out + err


def test_a_supervised_command_starts_no_server(project: Path) -> None:
    """It would be one that nobody has judged."""
    done = subprocess.run(
        [sys.executable, "-m", "humanlayer_agent.cli", "mcp", "--", "touch", "canary"],
        env={**os.environ, SUPERVISED: "1"}, input=b"", capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"only a human at a terminal of their own starts servers" in done.stderr
    assert not (project / "canary").exists()


def test_a_server_that_ends_at_once(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "humanlayer_agent.cli", "mcp", "--", "sh", "-c", "echo no >&2"],
        stdin=subprocess.PIPE, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1)  # whichever is seen to end first
    assert b"no\n" in done.stderr


def test_http_without_the_extra(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('No module named mcp')")
    done = subprocess.run(
        [sys.executable, "-m", "humanlayer_agent.cli", "mcp", "--http", "https://example.org"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, input="", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "hla mcp --http needs the extra mcp" in done.stderr


@pytest.mark.parametrize("kept", ["{", "[]", '{"version": 2}', '{"version": 1, "server": ["demo"], "tools": {}}'])
def test_lists_of_tools_that_nobody_can_read(project: Path, kept: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They are never taken for none: then everything would be seen for the first time."""
    from humanlayer_agent.hooks.gateway.tool_lists import ToolLists

    lists = ToolLists("demo", "true")
    lists.note([{"name": "x"}], begins=True, ends=True)
    (path,) = (Path(os.environ["HOME"]) / ".local/state/humanlayer-agent/mcp").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(kept)
    assert main(["mcp", "--name", "demo", "--", "true"]) == 2
    assert "is not what this version has written" in capsys.readouterr().err
