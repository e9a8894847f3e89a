"""Our hook in the settings of coding agents: what is added to them, and nothing else of them is changed.

Agents go on where a hook can't be started, crashes or is late. Therefore `|| exit 2`, and our own deadline is below the
agent's. `-I`: nothing in the agent's directory or environment takes the place of our modules.
"""

import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hooks.client import CONFINE
from humanlayer_agent.hooks.coding_agents import LATER_S, CodingAgent
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.tools.catalog import load

_ASK = re.compile(r"--ask\W+(tool|wait|deny)\b")
_SHELL = "CLAUDE_CODE_SHELL"
_MAX = 8 * 1024 * 1024
_PLUGINS = Path(__file__).with_name("plugins")
_ENDS = "|| exit 2"
_ENDS_LOUDLY = '|| { echo "hla hook failed" >&2; exit 2; }'
"""Codex goes on where a hook ends with exit code 2 and no word."""


def settings_path(agent: CodingAgent, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the file of the user's settings in which our hook stands, where a link to it leads."""
    return Path(os.path.realpath(settings_folder(agent, environ) / agent.files[0]))


def settings_folder(agent: CodingAgent, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's settings."""
    home = Path(environ.get("HOME") or Path.home())
    own = environ.get(agent.variable) if agent.variable else None
    if own:
        return Path(own)
    configured = environ.get("XDG_CONFIG_HOME", "")
    if agent.folder.startswith(".config/") and os.path.isabs(configured):
        return Path(configured) / agent.folder.removeprefix(".config/")
    return home / agent.folder


def read_settings(path: Path) -> dict[str, Any]:
    """Return what a settings file says; empty where there is none.

    Raises:
        ConfigError: it can't be read, or is no object: then it is not touched.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MAX)
        found = tomllib.loads(text.decode()) if path.suffix == ".toml" else json.loads(text or b"{}")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: can't be read ({error}): mend it first, nothing was changed") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: an object was expected; nothing was changed")
    return found


def hook_line(agent: CodingAgent, ask: str, python: str = sys.executable, *, confine: bool = False) -> str:
    """Return the command that an agent is to start before each of its calls.

    Args:
        ask: see `hla hook --help`.
        python: the interpreter that has this package.
        confine: what is allowed is to run confined.
    """
    project = "" if agent.sets_project else f'{agent.project}="$PWD" '
    ends = _ENDS_LOUDLY if agent.rewrites else _ENDS
    return f"{project}{shlex.join(hook_words(agent, ask, python, confine=confine))} {ends}"


def hook_words(agent: CodingAgent, ask: str, python: str = sys.executable, *, confine: bool = False) -> list[str]:
    """Return the words of that command."""
    options = ["--ask", ask, "--deadline", str(agent.seconds(ask)), *([CONFINE] if confine else [])]
    return [python, "-I", "-m", "humanlayer_agent.cli", "hook", agent.name, *options]


def hook_entry(agent: CodingAgent, ask: str, python: str = sys.executable, *, confine: bool = False) -> dict[str, Any]:
    """Return our entry in the list of an agent's hooks."""
    line = hook_line(agent, ask, python, confine=confine)
    name, unit = agent.timeout
    late = {name: (agent.seconds(ask) + LATER_S) * unit}
    if agent.entry == "bash":
        return {"type": "command", "bash": line, **late}
    if agent.entry == "command":
        return {"command": line, **late, agent.closed: True}
    return {"matcher": "*", "hooks": [{"type": "command", "command": line, **late}]}


def plugin_text(agent: CodingAgent, ask: str, python: str = sys.executable) -> str:
    """Return the file that is our hook, where an agent takes one."""
    (path,) = _PLUGINS.glob(f"{agent.name}.*")
    words = hook_words(agent, ask, python)
    late = str((agent.seconds(ask) + LATER_S) * 1000)
    command = json.dumps(words) if path.suffix == ".js" else shlex.join(words)
    return path.read_text(encoding="utf-8").replace("@COMMAND@", command).replace("@LATE@", late)


def with_hook(
    agent: CodingAgent, settings: dict[str, Any], ask: str | None = None, confine: bool | None = None
) -> dict[str, Any]:
    """Return `settings` with our entry, in the place of an older one of ours; the rest is as it was, in its order.

    Commands of Claude Code are marked as supervised (so that `hla requests approve` and the like refuse them), and run
    by bash, because that is how they are judged: another shell that is named already stays, and then everything asks.

    Args:
        ask: see `hla hook --help`; None keeps that of an older entry, else it is the agent's usual one.
        confine: what is allowed is to run confined; then a second entry hears what became of it. None keeps that of an
            older entry.

    Raises:
        ConfigError: a part of them is not of the type that the agent expects.
    """
    hooks = _section(agent, settings, "hooks", dict, {})
    there = {event: _section(agent, hooks, event, list, []) for event in agent.events}
    older = [line for entries in there.values() for each in entries if (line := our_line(each, agent))]
    ask = ask or kept_ask(agent, "\n".join(older))
    confine = any(CONFINE in line for line in older) if confine is None else confine
    entry = hook_entry(agent, ask, confine=confine)
    listed = {
        event: [*(each for each in entries if not our_line(each, agent)), entry] for event, entries in there.items()
    }
    if agent.after:
        ends = _section(agent, hooks, after := agent.after[0], list, [])
        heard = [each for each in ends if not our_line(each, agent)] + (
            [{**entry, "matcher": _commands(agent)}] if confine else []
        )
        listed |= {after: heard} if heard or ends else {}
    version = {"version": settings.get("version", 1)} if agent.entry in ("bash", "command") else {}
    environ = {"env": _environ(agent, settings)} if agent.name == "claude-code" else {}
    return {**settings, **version, **environ, "hooks": {**hooks, **listed}}


def _commands(agent: CodingAgent) -> str:
    return "|".join(name for name, tool in load().agents[agent.name].tools.items() if tool.runs)


def kept_ask(agent: CodingAgent, text: str) -> str:
    """Return what our hook says about asking, where it stands already; else what is usual."""
    found = _ASK.search(text)
    return found[1] if found is not None and found[1] in agent.asks else agent.asks[0]


def other_shell(settings: dict[str, Any]) -> str:
    """Return the shell that settings of Claude Code name, where it is not bash; else ""."""
    shell = str(settings.get("env", {}).get(_SHELL) or "")
    return shell if shell and os.path.basename(shell) != "bash" else ""


def our_line(entry: Any, agent: CodingAgent) -> str:
    """Return the command of an entry that is ours; "" where it is somebody else's."""
    lines = lines_of(entry)
    ours = re.compile(rf"\bhumanlayer_agent\.cli hook {agent.name}\b")
    return lines[0] if len(lines) == 1 and ours.search(lines[0]) else ""


def lines_of(entry: Any) -> list[str]:
    """Return the commands of an entry, whichever form it has."""
    if not isinstance(entry, dict):
        return []
    inner = entry.get("hooks")
    entries = inner if isinstance(inner, list) else [entry]
    return [
        str(each.get("bash") or each.get("command") or "")
        for each in entries
        if isinstance(each, dict) and (each.get("bash") or each.get("command") or inner)
    ]


def _environ(agent: CodingAgent, settings: dict[str, Any]) -> dict[str, Any]:
    environ = _section(agent, settings, "env", dict, {})
    shell = {} if environ.get(_SHELL) else {_SHELL: shutil.which("bash") or "/bin/bash"}
    return {**environ, SUPERVISED: "1", **shell}


def _section(agent: CodingAgent, where: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    found = where.get(name, default)
    if not isinstance(found, kind):
        raise ConfigError(f"{agent.title}'s settings: {name} has another form than expected; nothing was changed")
    return found
