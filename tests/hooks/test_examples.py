"""The settings in examples/, as the agents run them, and what `hla init` writes for each."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.cli.app import command_tree
from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.hooks.hook_settings import with_hook
from tests.hooks.conftest import COMMANDS, Machine, question

EXAMPLES = Path(__file__).parents[2] / "examples"
SETTINGS = {
    "claude-code": "claude-code-settings.json",
    "gemini-cli": "gemini-cli-settings.json",
    "codex": "codex-hooks.json",
    "copilot": "copilot-hooks.json",
    "cursor": "cursor-hooks.json",
}


def line_of(settings: dict[str, Any], name: str) -> str:
    (entry,) = settings["hooks"][AGENTS[name].events[0]]
    (hook,) = entry.get("hooks") or [entry]
    return str(hook.get("command") or hook["bash"])


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(machine: Machine, name: str) -> None:
    settings = json.loads((EXAMPLES / SETTINGS[name]).read_text())
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command, verdict in (("ls", b"allow"), ("rm -rf /", b"deny")):
        asked = question(name, COMMANDS[name], {"command": command}, cwd=str(machine.project))
        done = subprocess.run(
            ["/bin/sh", "-c", line_of(settings, name)],
            input=json.dumps(asked).encode(),
            capture_output=True,
            env={**machine.env, "PATH": path},
            cwd=machine.project,
        )
        refuses = AGENTS[name].by_code and verdict == b"deny"
        assert done.returncode == (2 if refuses else 0), done.stderr
        assert b'"' + verdict + b'"' in done.stdout


def test_mcp_servers() -> None:
    """Every entry is a call of `hla` that can be made, and names a server as rules do."""
    servers = json.loads((EXAMPLES / "mcp-servers.json").read_text())["mcpServers"]
    group = command_tree().commands["mcp"]
    for name, entry in servers.items():
        assert (entry["command"], entry["args"][0]) == ("hla", "mcp")
        if entry["args"][1] == "ask":
            assert group.commands["ask"].make_context("ask", entry["args"][2:]).params["deadline"] == 50
            continue
        context = group.make_context("mcp", entry["args"][1:])
        given, (server,) = context.params, context.meta.values()
        assert given["name"] == name
        assert bool(server) is not bool(given["http"])
        assert set(given["pass_env"] or ()) == set(entry.get("env", ()))


@pytest.mark.parametrize("name", SETTINGS)
def test_what_init_writes_is_the_example(name: str) -> None:
    example = json.loads((EXAMPLES / SETTINGS[name]).read_text())
    written = with_hook(AGENTS[name], {})
    if "env" in written:
        written["env"]["CLAUDE_CODE_SHELL"] = example["env"]["CLAUDE_CODE_SHELL"]
    line = line_of(written, name)
    python = f"{sys.executable} -I -m humanlayer_agent.cli hook"
    assert (
        json.loads(
            json.dumps(written).replace(json.dumps(line)[1:-1], json.dumps(line.replace(python, "hla hook"))[1:-1])
        )
        == example
    )
