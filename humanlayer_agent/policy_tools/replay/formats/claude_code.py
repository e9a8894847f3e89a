"""Session files of Claude Code (`~/.claude/projects/*/*.jsonl`): an entry a line, tool calls in `message.content`.

`Bash` runs a command in the entry's `cwd`; `Write` and `Edit` change files that later commands may run. Whether a
person has refused a call is not told apart: what it would have done counts as done.
"""

import json
from typing import Any

from humanlayer_agent.policy_tools.replay.steps import (
    SHELL_TOOLS,
    Item,
    Items,
    NoCommand,
    Rows,
    Step,
    Unreadable,
    Wrote,
)

NAME = "Claude Code session"
LOOKS = 'JSON lines with "type": "assistant" and "message"'

_KINDS = frozenset({"user", "assistant"})


def recognises(first: list[dict[str, Any]], whole: bool) -> bool:
    """Is this the beginning of such a file?"""
    return any(row.get("type") in _KINDS and isinstance(row.get("message"), dict) for row in first)


def read(lines: Rows, source: str) -> Items:
    """The commands, one by one."""
    seen: set[str] = set()
    projects: dict[str, str] = {}
    for place, data in lines:
        if isinstance(data, str):
            yield Unreadable(source, place, data)
            continue
        message = data.get("message")
        if data.get("type") != "assistant" or not isinstance(message, dict):
            continue
        content = message.get("content")
        if isinstance(content, str):
            continue
        session = data.get("sessionId")
        run = session if isinstance(session, str) else source
        if not isinstance(content, list):
            yield Unreadable(source, place, "message.content is neither a text nor a list", run=run)
            continue
        cwd = data.get("cwd")
        cwd = cwd if isinstance(cwd, str) and cwd.startswith("/") else None
        if cwd is not None:
            projects.setdefault(run, cwd)
        for block in content:
            if not isinstance(block, dict) or block.get("type") != "tool_use":
                continue
            id_ = str(block.get("id") or place)
            same = json.dumps([run, id_, block.get("name"), block.get("input")], sort_keys=True)
            if same in seen:  # a session that goes on repeats what was before
                continue
            seen.add(same)
            yield _called(block, source, place, run, id_, cwd, projects.get(run))


def _called(
    block: dict[str, Any], source: str, place: str, run: str, id_: str, cwd: str | None, project: str | None
) -> Item:
    name, given = block.get("name"), block.get("input")
    if not isinstance(name, str) or not isinstance(given, dict):
        return Unreadable(source, place, "a tool call without name and input", run=run)
    if name.lower() in SHELL_TOOLS:
        if isinstance(command := given.get("command"), str):
            return Step(source, place, run, id_, command, cwd, project)
        return Unreadable(source, place, f"{name} without a command", run=run)
    path = given.get("file_path")
    if isinstance(path, str) and path.startswith("/"):
        if name == "Write" and isinstance(given.get("content"), str):
            return Wrote(run, path, given["content"])
        if name == "Edit" and isinstance(given.get("old_string"), str) and isinstance(given.get("new_string"), str):
            return Wrote(
                run, path, old=given["old_string"], new=given["new_string"], every=given.get("replace_all") is True
            )
        if name in ("Write", "Edit", "MultiEdit"):
            return Wrote(run, path)
    return NoCommand(name)
