"""What in a coding agent's settings keeps its commands from being replaced by ones that run confined.

The coding agent judges the command that it is given back: its user's own rules would no longer see what really runs,
another hook that replaces commands may win, and its own sandbox can't hold ours. What can't be read counts as such.
"""

import fnmatch
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from humanlayer_agent.hooks.client import CONFINE
from humanlayer_agent.hooks.coding_agents import our_line

_MACHINE = Path("/etc/claude-code")
"""Where an administrator's settings are (https://code.claude.com/docs/en/settings)."""
_MAX = 8 * 1024 * 1024
_CALL = "Bash"


def settings_files(environ: Mapping[str, str], project: Path | None) -> list[Path]:
    """Return where settings of Claude Code may be: the machine's, the user's, the project's, and its local ones."""
    own = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".claude")
    files = [_MACHINE / "managed-settings.json", *sorted(_MACHINE.glob("managed-settings.d/*.json"))]
    files.append(Path(own) / "settings.json")
    if project is not None:
        files += [project / ".claude" / name for name in ("settings.json", "settings.local.json")]
    return files


def obstacles(environ: Mapping[str, str], project: Path | None) -> list[str]:
    """Return what keeps the commands of Claude Code from being replaced, each as a sentence without its full stop.

    Args:
        environ: says where the user's settings are.
        project: whose settings count as well.
    """
    found: list[str] = []
    hooks: list[Any] = []
    reported = False
    for path in settings_files(environ, project):
        try:
            settings = _read(path)
        except (OSError, ValueError, RecursionError) as error:
            found.append(f"{path} can't be read ({error})")
            continue
        found += [f"{path}: {each}" for each in _in_settings(settings)]
        entries = _mapping(settings.get("hooks"))
        hooks += [(path, entry) for entry in _listed(entries.get("PreToolUse"))]
        reported |= any(CONFINE in our_line(entry) for entry in _listed(entries.get("PostToolUse")))
    ours = {line for _, entry in hooks if (line := our_line(entry))}
    found += [
        f"{path}: another hook is asked before {_CALL} as well, and could replace the command again"
        for path, entry in hooks
        if not our_line(entry) and _matches(entry)
    ]
    if len(ours) > 1:
        found.append("settings have hooks of ours that differ")
    if not reported:
        found.append("no hook of ours hears what became of a command (PostToolUse): hla init --claude-code --confine")
    return found


def _in_settings(settings: Mapping[str, Any]) -> Iterator[str]:
    """What stands in one file beside hooks."""
    rules = _mapping(settings.get("permissions"))
    for kind in ("deny", "ask"):
        for rule in _listed(rules.get(kind)):
            if not isinstance(rule, str) or fnmatch.fnmatchcase(_CALL, rule.partition("(")[0].strip()):
                yield f"the rule {rule!r} of permissions.{kind} would not see the command any more"
    if _mapping(settings.get("sandbox")).get("enabled"):
        yield "its own sandbox is switched on, inside of which nothing else can be confined"
    if plugins := [name for name, on in _mapping(settings.get("enabledPlugins")).items() if on]:
        yield f"plugins can bring hooks that are not seen here ({', '.join(plugins[:3])})"


def _matches(entry: Any) -> bool:
    """Tell whether an entry under `PreToolUse` may be about commands: whatever is not understood is."""
    matcher = _mapping(entry).get("matcher", "")
    if not isinstance(matcher, str) or matcher in ("", "*"):
        return True
    try:
        return re.search(matcher, _CALL) is not None
    except re.error:
        return True


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MAX) or b"{}")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    """What is no list, and is there, counts as one thing that nobody understands."""
    return value if isinstance(value, list) else [] if value is None else [value]
