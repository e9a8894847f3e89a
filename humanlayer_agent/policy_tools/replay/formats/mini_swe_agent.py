"""Trajectories of mini-swe-agent: version 2 (`extra.actions` of each message), and 1 (one fenced block a message)."""

import re
from typing import Any

from humanlayer_agent.policy_tools.replay.steps import Items, Rows, Step, Unreadable

NAME = "mini-swe-agent trajectory"
LOOKS = 'a JSON object with "messages" and "info" or "trajectory_format"'

_FENCED = re.compile(r"```(?:bash|mswea_bash_command)[ \t]*\n(.*?)\n```", re.DOTALL)
"""What version 1 runs. A message that does not have exactly one is answered with an error, and nothing runs."""


def recognises(first: list[dict[str, Any]], whole: bool) -> bool:
    """Is this the beginning of such a file?"""
    data = first[0] if first and whole else {}
    return isinstance(data.get("messages"), list) and ("info" in data or "trajectory_format" in data)


def read(lines: Rows, source: str) -> Items:
    """The commands, one by one."""
    for place, data in lines:
        if isinstance(data, str):
            yield Unreadable(source, place, data)
            continue
        cwd = _cwd(data)
        second = any(
            isinstance(m, dict) and isinstance(m.get("extra"), dict) and "actions" in m["extra"]
            for m in data["messages"]
        )
        for number, message in enumerate(data["messages"]):
            if not isinstance(message, dict):
                yield Unreadable(source, f"message {number}", "not a JSON object", run=source)
                continue
            actions, problem = _actions(message) if second else _fenced(message)
            if problem:
                yield Unreadable(source, f"message {number}", problem, run=source)
            for n, action in enumerate(actions):
                command = action.get("command") if isinstance(action, dict) else None
                place = f"message {number}" if len(actions) == 1 else f"message {number}, action {n}"
                if isinstance(command, str):
                    yield Step(source, place, run=source, id=f"{number}.{n}", command=command, cwd=cwd)
                else:
                    yield Unreadable(source, place, "an action without a command", run=source)


def _actions(message: dict[str, Any]) -> tuple[list[Any], str]:
    """What version 2 ran because of `message`, and what is wrong with it."""
    extra = message.get("extra")
    actions = extra.get("actions") if isinstance(extra, dict) else None
    if actions is None:
        return [], ""
    return (actions, "") if isinstance(actions, list) else ([], "extra.actions is not a list")


def _fenced(message: dict[str, Any]) -> tuple[list[Any], str]:
    """What version 1 ran because of `message`, and what is wrong with it."""
    if message.get("role") != "assistant":
        return [], ""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if not isinstance(content, str):
        return [], "content is not a text"
    found = _FENCED.findall(content)
    return ([{"command": found[0].strip()}] if len(found) == 1 else []), ""


def _cwd(data: dict[str, Any]) -> str | None:
    """Where commands start, as the configuration of the environment says."""
    value: Any = data
    for key in ("info", "config", "environment", "cwd"):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) and value.startswith("/") else None
