"""Our hook in Claude Code's settings: what is added to them, and nothing else of them is changed."""

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hooks.coding_agents import TOOLS
from humanlayer_agent.processes.execution import SUPERVISED

_OURS = re.compile(r"\bhumanlayer_agent\.cli hook claude-code\b")
_ASK = re.compile(r"--ask (tool|wait|deny)\b")
_SECONDS = {"wait": (590, 600)}
_USUAL = (50, 60)
_SHELL = "CLAUDE_CODE_SHELL"
_MAX = 8 * 1024 * 1024


def settings_path() -> Path:
    """The user's settings file of Claude Code, where a link to it leads."""
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    return Path(os.path.realpath(Path(folder) / "settings.json"))


def read_settings(path: Path) -> dict[str, Any]:
    """The settings; empty where there is no file.

    Raises:
        ConfigError: it can't be read, or is no JSON object: then it is not touched.
    """
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MAX) or b"{}")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: can't be read as JSON ({error}): mend it first, nothing was changed") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: a JSON object was expected; nothing was changed")
    return found


def hook_entry(ask: str, python: str = sys.executable) -> dict[str, Any]:
    """Our entry under `hooks.PreToolUse`.

    The tool goes on where a hook can't be started, crashes or is late. Therefore `|| exit 2`, and our own deadline is
    below the tool's. `-I`: nothing in the agent's directory or environment takes the place of our modules.

    Args:
        ask: see `hla hook --help`.
        python: the interpreter that has this package.
    """
    deadline, timeout = _SECONDS.get(ask, _USUAL)
    options = f"--ask {ask} --deadline {deadline}"
    line = f"{shlex.quote(python)} -I -m humanlayer_agent.cli hook claude-code {options} || exit 2"
    hook = {"type": "command", "command": line, "timeout": timeout}
    return {"matcher": TOOLS["claude-code"].matcher(), "hooks": [hook]}


def with_hook(settings: dict[str, Any], ask: str | None = None) -> dict[str, Any]:
    """`settings` with our entry, in the place of an older one of ours; the rest is as it was, in its order.

    Commands of the tool are marked as supervised (so that `hla requests approve` and the like refuse them), and run by
    bash, because that is how they are judged: another shell that is named already stays, and then everything asks.

    Args:
        ask: see `hla hook --help`; None keeps that of an older entry, else "tool".

    Raises:
        ConfigError: a part of them is not of the type that Claude Code expects.
    """
    hooks = _section(settings, "hooks", dict, {})
    events = _section(hooks, "PreToolUse", list, [])
    ask = ask or next((found[1] for each in events if (found := _ASK.search(_our_line(each)))), "tool")
    others = [each for each in events if not _our_line(each)]
    environ = _section(settings, "env", dict, {})
    added = {SUPERVISED: "1"} if environ.get(_SHELL) else {SUPERVISED: "1", _SHELL: shutil.which("bash") or "/bin/bash"}
    return {
        **settings,
        "env": {**environ, **added},
        "hooks": {**hooks, "PreToolUse": [*others, hook_entry(ask)]},
    }


def other_shell(settings: dict[str, Any]) -> str:
    """The shell that these settings name, where it is not bash; else ""."""
    shell = str(settings.get("env", {}).get(_SHELL) or "")
    return shell if shell and os.path.basename(shell) != "bash" else ""


def _our_line(entry: Any) -> str:
    """The command of an entry that is ours; "" where it is somebody else's."""
    hooks = entry.get("hooks") if isinstance(entry, dict) else None
    lines = [str(each.get("command")) for each in (hooks if isinstance(hooks, list) else []) if isinstance(each, dict)]
    return lines[0] if len(lines) == 1 and _OURS.search(lines[0]) else ""


def _section(where: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    found = where.get(name, default)
    if not isinstance(found, kind):
        raise ConfigError(f"Claude Code's settings: {name} has another form than expected; nothing was changed")
    return found
