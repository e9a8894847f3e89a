"""The hooks of coding agents: where such an agent is set up here, whether it asks us before it runs something, and
whether a hook believes somebody else who answers it.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.doctor import attack
from humanlayer_agent.doctor.context import Context, Finding, failed, ok, warning
from humanlayer_agent.errors import StoreError
from humanlayer_agent.hooks import client, coding_agents
from humanlayer_agent.hooks.obstacles import obstacles
from humanlayer_agent.locations import STORE_VARIABLE, default_store_path
from humanlayer_agent.store.sqlite import SQLiteStore

_MAX = 8 * 1024 * 1024
_MARK = "said by somebody else"
_COMMAND = "rm -rf /nowhere/of-this-test"
_SECONDS = 300
_SEE = "See docs/hooks.md; hla init --claude-code --no-confine goes back."
_RULES = "Write what they say into the policy here."
_REPORT = "Report this, please."


@dataclass(frozen=True, slots=True)
class Tool:
    """A coding agent: where its settings are, under which event our hook stands, and how it gets there."""

    name: str
    folder: str
    files: tuple[str, ...]
    variable: str
    event: str
    hook: str
    todo: str
    rules: str = ""


_VARIABLE = re.compile(r"\w+=")
_SETTINGS = ("settings.json", "settings.local.json")
TOOLS = (
    Tool(
        "Claude Code", ".claude", _SETTINGS, "CLAUDE_CONFIG_DIR", "PreToolUse", "claude-code", "hla init --claude-code"
    ),
    Tool("Gemini CLI", ".gemini", _SETTINGS, "", "BeforeTool", "gemini-cli", "See docs/hooks.md for its settings."),
    Tool(
        "Codex",
        ".codex",
        ("hooks.json", "config.toml"),
        "CODEX_HOME",
        "PreToolUse",
        "codex",
        "See docs/hooks.md.",
        rules="rules",
    ),
)


def hooks(context: Context) -> Iterator[Finding]:
    """Every coding agent that is set up here asks us first, by a program that is there."""
    for tool in TOOLS:
        files = [path for path in _settings(tool, context) if path.is_file()]
        if not files:
            continue
        found: list[tuple[str, str]] = []
        for path in files:
            try:
                found += _ours(path, tool)
            except (OSError, ValueError, RecursionError) as error:
                yield failed(f"{path}: {tool.name}'s settings can't be read: {error}", "Mend the file.")
        lines = [line for line, _ in found]
        if not lines:
            yield warning(
                f"{tool.name} has settings ({files[0]}) and no hook of ours: what it runs is not supervised", tool.todo
            )
        for line in dict.fromkeys(lines):
            yield _working(tool, line, context)
        if tool.rules and (rules := _strict_rules(tool, files[0].parent)):
            yield warning(
                f"{tool.name}'s own rules do not see what a command is once our hook has answered: {rules}", _RULES
            )
        if lines and (missed := _missed(tool, [matcher for _, matcher in found])):
            yield warning(f"{tool.name} does not ask us before calls of {missed}", tool.todo)
        if any(client.CONFINE in line.split() for line in lines):
            why = obstacles(context.environ, context.project)
            yield from (warning(f"{tool.name}'s commands are not confined: {each}", _SEE) for each in why)
            if not why:
                yield ok(f"{tool.name} runs what is allowed of commands confined, where this machine can (see walls)")


def impersonation(context: Context) -> Iterator[Finding]:
    """Ask a real hook, with a folder and a store of its own, while a program answers "allow" at its socket."""
    with tempfile.TemporaryDirectory() as base:
        store, project = Path(base, "store.sqlite3"), Path(base, "project")
        environ = {**context.environ, "XDG_STATE_HOME": base, "CLAUDE_PROJECT_DIR": str(project)}
        environ |= {STORE_VARIABLE: str(store), "XDG_DATA_HOME": base}
        folder = Path(base, "humanlayer-agent", "hooks")
        for each in (project, folder):
            each.mkdir(mode=0o700, parents=True)
        wanted = {"socket": client.socket_name(environ), "reason": _MARK}
        program = [sys.executable, "-I", "-S", attack.__file__, json.dumps(wanted)]
        with subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                ready = process.stdout.readline() == b"ready\n"
                said = _asked(environ, str(project)) if ready else b""
            finally:
                process.kill()
        if not ready:
            yield failed("it is not known whether a hook believes somebody else: nobody could listen in its folder")
        elif _MARK.encode() in said:
            yield failed("a hook believes whoever answers in the place of the process that judges", _REPORT)
        elif not _noted(store):
            yield failed("a hook believes nobody else, and the log does not say that somebody tried", _REPORT)
        else:
            yield ok("a hook believes nobody who answers in the place of the process that judges, and the log has it")
    if last := _noted(default_store_path()):
        yield warning(
            f"a hook was answered in the place of the process that judges (event {last.seq}): {last.event['why']}",
            "Find out what did it: look at what ran before (hla audit query), and what still runs.",
        )


def _asked(environ: dict[str, str], project: str) -> bytes:
    """Return what a hook answers."""
    question = {"hook_event_name": "PreToolUse", "cwd": project, "tool_name": "Bash", "session_id": "doctor"}
    hook = [sys.executable, "-I", "-m", "humanlayer_agent.cli", "hook", "claude-code", "--deadline", str(_SECONDS)]
    data = json.dumps({**question, "tool_input": {"command": _COMMAND}}).encode()
    return subprocess.run(hook, input=data, env=environ, capture_output=True, check=False).stdout


def _noted(path: Path) -> Entry | None:
    """The newest event of a store that says of a hook that it did not believe who answered."""
    try:
        store = SQLiteStore(path, create=False)
    except StoreError:
        return None
    with closing(store):
        return next(store.events(type=events.HOOK_UNPROVEN.name, last=1), None)


def _settings(tool: Tool, context: Context) -> Iterator[Path]:
    """Yield where the settings of a user and of the project may be."""
    home = Path(context.environ.get("HOME") or Path.home())
    own = context.environ.get(tool.variable, "") if tool.variable else ""
    folders = [Path(own or home / tool.folder)]
    if context.project is not None:
        folders.append(context.project / tool.folder)
    yield from (folder / name for folder in folders for name in tool.files)


def _ours(path: Path, tool: Tool) -> list[tuple[str, str]]:
    """The commands of our hooks in a settings file, each with the calls before which it is run."""
    with path.open("rb") as file:
        text = file.read(_MAX)
    found: Any = tomllib.loads(text.decode()) if path.suffix == ".toml" else json.loads(text or b"{}")
    entries = _listed(_mapping(_mapping(found).get("hooks")).get(tool.event))
    return [
        (line, str(_mapping(entry).get("matcher") or "*"))
        for entry in entries
        for hook in _listed(_mapping(entry).get("hooks"))
        if re.search(rf"\bhook {tool.hook}\b", line := str(_mapping(hook).get("command") or ""))
    ]


def _strict_rules(tool: Tool, folder: Path) -> str:
    """The files of a coding agent's own rules that forbid something, or ask about it."""
    found = (path for path in sorted(folder.joinpath(tool.rules).glob("*.rules")) if path.is_file())
    return ", ".join(str(path) for path in found if re.search(r"forbidden|prompt", path.read_text(errors="replace")))


def _missed(tool: Tool, matchers: list[str]) -> str:
    """The calls that we judge and that no hook of ours is run before."""
    if "*" in matchers:
        return ""
    asked = {name for matcher in matchers for name in matcher.split("|")}
    agent = coding_agents.TOOLS[tool.hook]
    known = [*agent.runs, *agent.touches, *([] if agent.leaves else [agent.foreign])]
    return ", ".join([*(name for name in known if name not in asked), *(["other tools"] if agent.leaves else [])])


def _working(tool: Tool, line: str, context: Context) -> Finding:
    """Check that the command of a hook can be started, and what becomes of the tool's call where it can't be."""
    try:
        program = next(word for word in shlex.split(line) if not _VARIABLE.match(word))
    except (ValueError, StopIteration):
        return failed(f"{tool.name}: its hook is no command: {line[:200]}", tool.todo)
    if shutil.which(program, path=context.environ.get("PATH", os.defpath)) is None:
        return failed(f"{tool.name}: its hook can't be started: there is no {program}", tool.todo)
    if not re.search(r"\|\|\s*(exit 2|\{ echo .* >&2; exit 2; \})\s*$", line):
        return failed(
            f"{tool.name}: its hook does not end with `|| exit 2`: where it crashes the tool goes on without us",
            tool.todo,
        )
    return ok(f"{tool.name} asks us before it runs something")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
