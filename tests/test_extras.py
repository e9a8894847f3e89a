"""What a part needs that is not installed is said in one line, with the command that installs it."""

import os
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from humanlayer_agent.extras import install_command, lacks

CHANNELS = """
version: 1
people: {ada: {slack: T01234567/U01234567, email: ada@example.org, os_user: root}}
channels:
  chat: {type: slack, post_to: C01234567, bot_token_env: SLACK_BOT, app_token_env: SLACK_APP}
  inbox: {type: web, public_url: "http://localhost:8080"}
"""


@pytest.mark.parametrize(
    "extra",
    [
        "mini",
        "slack",
        "mail",
        "web",
        "confine",
        "langchain",
        "openai-agents",
        "pydantic-ai",
        "inspect-ai",
        "claude-agent-sdk",
    ],
)
def test_the_command_installs_what_pyproject_names(extra: str) -> None:
    words = shlex.split(install_command(extra))
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    written = [each for each in metadata.requires("humanlayer-agent") or [] if f'"{extra}"' in each.replace("'", '"')]
    assert [each.partition(";")[0].strip() for each in written] == words[4:] != []


def test_where_it_is_not_installed_the_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", unknown)
    assert install_command("web").endswith("-m pip install --editable '.[web]'")
    assert "needs the extra web (x): " in lacks("It", "web", ImportError("x"))


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """An environment in which no optional package can be imported."""
    for name in ("minisweagent", "litellm", "slack_sdk", "websockets", "imapclient", "starlette", "uvicorn"):
        (tmp_path / "lib").mkdir(exist_ok=True)
        (tmp_path / "lib" / f"{name}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{name}'\")\n")
    (tmp_path / "project").mkdir()
    path = f"{tmp_path / 'lib'}:{Path(__file__).parents[1]}"
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": path, "LANG": "C.UTF-8", "COLUMNS": "400"}


def hla(environ: dict[str, str], *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "humanlayer_agent.cli", *words],
        env=environ, cwd=Path(environ["HOME"]) / "project", capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("demo",), "mini"),
        pytest.param(("run", "-m", "x", "-t", "y"), "mini", marks=pytest.mark.long),
        pytest.param(("channel", "test", "inbox", "--channels", "channels.yaml"), "web", marks=pytest.mark.long),
        (("channel", "ls", "--channels", "channels.yaml"), "slack"),
        (("hub", "--channels", "channels.yaml"), "web"),
        pytest.param(("doctor",), "web", marks=pytest.mark.long),
    ],
)
def test_a_part_that_is_used_without_its_extra_says_so(
    without: dict[str, str], words: tuple[str, ...], extra: str
) -> None:
    home = Path(without["HOME"])
    (home / "project" / "channels.yaml").write_text(CHANNELS)
    if words == ("doctor",):
        (home / ".config/humanlayer-agent").mkdir(parents=True)
        (home / ".config/humanlayer-agent/channels.yaml").write_text(CHANNELS)
    routes = "routes:\n  default: {solo: true, steps: [{to: inbox}]}\n" if words == ("doctor",) else ""
    for path in home.rglob("channels.yaml"):
        path.write_text(CHANNELS + routes)
    without = {**without, "SLACK_BOT": "xoxb-1", "SLACK_APP": "xapp-1"}
    code, said = hla(without, *words)
    assert f"needs the extra {extra} (No module named '" in said
    assert install_command(extra) in " ".join(said.split())
    assert "Traceback" not in said
    assert code != 0 or words[:2] == ("channel", "ls")


@pytest.mark.long
def test_what_judges_and_logs_needs_none(without: dict[str, str]) -> None:
    assert hla(without, "check", "ls")[0] == 0
    code, said = hla(without, "exec", "--", "echo", "hello")
    assert (code, "hello" in said) == (0, True)
    assert hla(without, "audit", "report", "--html", "report.html")[0] == 0
    assert hla(without, "audit", "verify")[0] == 0
