"""Obstacles in a coding agent's settings: what keeps its commands from being replaced by ones that run confined.

The coding agent judges the command that it is given back: its user's own rules would no longer see what really runs,
another hook that replaces commands may win, and its own sandbox can't hold ours. What can't be read counts as such.
"""

import fnmatch
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from humanlayer_agent.hooks.client import CONFINE
from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.hooks.hook_settings import our_line

_MACHINE = Path("/etc/claude-code")
"""Where an administrator's settings are (https://code.claude.com/docs/en/settings)."""
_MAX = 8 * 1024 * 1024
_CALL = "Bash"
_BEGINS = [*shlex.quote(sys.executable).split(), "-I", "-m", "humanlayer_agent.cli", "hook", "claude-code"]
_ENDS = ["||", "exit", "2"]
_PLAIN_WORD = re.compile(r"[\w./:=@+-]+", re.ASCII)
_DECIDE = frozenset({"PATH", "HOME", "SHELL", "ENV", "TMPDIR"})
_DECIDE_BEGINNINGS = ("BASH", "CLAUDE_", "HUMANLAYER_", "LD_", "XDG_")


def settings_files(environ: Mapping[str, str], project: Path | None) -> list[Path]:
    """Return where settings of Claude Code may be: the machine's, the user's, the project's, and its local ones."""
    own = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".claude")
    files = [_MACHINE / "managed-settings.json", *sorted(_MACHINE.glob("managed-settings.d/*.json"))]
    files.append(Path(own) / "settings.json")
    if project is not None:
        files += [project / ".claude" / name for name in ("settings.json", "settings.local.json")]
    return files


def obstacles(
    environ: Mapping[str, str], project: Path | None, planned: Mapping[Path, dict[str, Any]] | None = None
) -> list[str]:
    """Return what keeps the commands of Claude Code from being replaced, each as a sentence without its full stop.

    Args:
        environ: says where the user's settings are.
        project: whose settings count as well.
        planned: contents of files (by their paths without links) that are about to be written.
    """
    found: list[str] = []
    ours: set[str] = set()
    reported = False
    for path in settings_files(environ, project):
        try:
            settings = (planned or {}).get(Path(os.path.realpath(path))) or _read(path)
        except (OSError, ValueError, RecursionError) as error:
            found.append(f"{path} can't be read ({error})")
            continue
        of_project = project is not None and path.is_relative_to(project)
        said = [*_in_settings(settings), *(_of_project(settings) if of_project else ())]
        hooks = _mapping(settings.get("hooks"))
        before, after = (filter(_matches, _listed(hooks.get(event))) for event in ("PreToolUse", "PostToolUse"))
        for entry in before:
            if line := _our_line(entry):
                ours.add(line)
            else:
                said.append(f"another hook is asked before {_CALL} as well, and could replace the command again")
        reported |= any(CONFINE in _our_line(entry).split() for entry in after)
        found += [f"{path}: {each}" for each in said]
    if len(ours) > 1:
        found.append("there are several hooks of ours, which differ")
    if not reported:
        found.append("no hook of ours hears what became of a command (hla init --claude-code --confine)")
    return found


def _our_line(entry: Any) -> str:
    """The command of an entry, where it starts our hook and nothing else; "" of any other entry."""
    words = our_line(entry, AGENTS["claude-code"]).split()
    first, last = words[: len(_BEGINS)], words[-len(_ENDS) :]
    plain = all(_PLAIN_WORD.fullmatch(word) for word in words[len(_BEGINS) : -len(_ENDS)])
    return " ".join(words) if first == _BEGINS and last == _ENDS and plain else ""


def _of_project(settings: Mapping[str, Any]) -> Iterator[str]:
    """What stands in a project's own file, which comes with the project."""
    names = _mapping(settings.get("env"))
    if decide := sorted(name for name in names if name in _DECIDE or name.startswith(_DECIDE_BEGINNINGS)):
        yield f"the project sets {', '.join(decide[:3])}, which says how commands are judged and run"


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
