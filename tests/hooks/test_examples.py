"""The settings in examples/, as the tools run them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from humanlayer_agent.cli.app import command_tree
from humanlayer_agent.hooks.coding_agents import TOOLS, with_hook
from tests.hooks.conftest import CLAUDE, GEMINI, Machine

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "tool", "call", "common"),
    [
        ("claude-code-settings.json", "claude-code", "Bash", CLAUDE),
        ("gemini-cli-settings.json", "gemini-cli", "run_shell_command", GEMINI),
    ],
)
def test_settings(machine: Machine, name: str, tool: str, call: str, common: dict[str, object]) -> None:
    settings = json.loads((EXAMPLES / name).read_text())
    (entry,) = settings["hooks"][TOOLS[tool].event]
    assert entry["matcher"] == TOOLS[tool].matcher()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command, verdict in (("ls", b"allow"), ("rm -rf /", b"deny")):
        question = {**common, "cwd": str(machine.project), "tool_name": call, "tool_input": {"command": command}}
        done = subprocess.run(
            ["/bin/sh", "-c", entry["hooks"][0]["command"]],
            input=json.dumps(question).encode(),
            capture_output=True,
            env={**machine.env, "PATH": path},
        )
        assert done.returncode == 0, done.stderr
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


def test_what_init_writes_is_the_example() -> None:
    example = json.loads((EXAMPLES / "claude-code-settings.json").read_text())
    written = with_hook({}, "tool")
    written["env"]["CLAUDE_CODE_SHELL"] = example["env"]["CLAUDE_CODE_SHELL"]
    command = written["hooks"]["PreToolUse"][0]["hooks"][0]
    command["command"] = "hla hook " + command["command"].partition(" humanlayer_agent.cli hook ")[2]
    assert written == example
