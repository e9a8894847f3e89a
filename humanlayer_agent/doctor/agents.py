"""The hooks of coding agents: where such an agent is set up here, whether it asks us before it runs something."""

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from humanlayer_agent.doctor.context import Context, Finding, failed, ok, warning

_MAX = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Tool:
    """A coding agent: where its settings are, under which event our hook stands, and how it gets there."""

    name: str
    folder: str
    variable: str
    event: str
    hook: str
    todo: str


TOOLS = (
    Tool("Claude Code", ".claude", "CLAUDE_CONFIG_DIR", "PreToolUse", "claude-code", "hla init --claude-code"),
    Tool("Gemini CLI", ".gemini", "", "BeforeTool", "gemini-cli", "See docs/hooks.md for its settings."),
)


def hooks(context: Context) -> Iterator[Finding]:
    """Every coding agent that is set up here asks us first, by a program that is there."""
    for tool in TOOLS:
        files = [path for path in _settings(tool, context) if path.is_file()]
        if not files:
            continue
        lines: list[str] = []
        for path in files:
            try:
                lines += _lines(path, tool)
            except (OSError, ValueError, RecursionError) as error:
                yield failed(f"{path}: {tool.name}'s settings can't be read: {error}", "Mend the file.")
        if not lines:
            yield warning(
                f"{tool.name} has settings ({files[0]}) and no hook of ours: what it runs is not supervised", tool.todo
            )
        for line in dict.fromkeys(lines):
            yield _working(tool, line, context)


def _settings(tool: Tool, context: Context) -> Iterator[Path]:
    """Yield where the settings of a user and of the project may be."""
    home = Path(context.environ.get("HOME") or Path.home())
    own = context.environ.get(tool.variable, "") if tool.variable else ""
    yield Path(own or home / tool.folder) / "settings.json"
    if context.project is not None:
        yield context.project / tool.folder / "settings.json"
        yield context.project / tool.folder / "settings.local.json"


def _lines(path: Path, tool: Tool) -> list[str]:
    """The commands of our hooks in a settings file."""
    with path.open("rb") as file:
        found: Any = json.loads(file.read(_MAX) or b"{}")
    events = _mapping(_mapping(found).get("hooks")).get(tool.event)
    hooks = (hook for entry in _listed(events) for hook in _listed(_mapping(entry).get("hooks")))
    lines = (str(_mapping(hook).get("command") or "") for hook in hooks)
    return [line for line in lines if re.search(rf"\bhook {tool.hook}\b", line)]


def _working(tool: Tool, line: str, context: Context) -> Finding:
    """Check that the command of a hook can be started, and what becomes of the tool's call where it can't be."""
    try:
        program = shlex.split(line)[0]
    except (ValueError, IndexError):
        return failed(f"{tool.name}: its hook is no command: {line[:200]}", tool.todo)
    if shutil.which(program, path=context.environ.get("PATH", os.defpath)) is None:
        return failed(f"{tool.name}: its hook can't be started: there is no {program}", tool.todo)
    if not re.search(r"\|\|\s*exit 2\s*$", line):
        return failed(
            f"{tool.name}: its hook does not end with `|| exit 2`: where it crashes the tool goes on without us",
            tool.todo,
        )
    return ok(f"{tool.name} asks us before it runs something")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
