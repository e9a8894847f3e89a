"""Trajectories in the Agent Trajectory Interchange Format (ATIF 1.x, docs/rfcs/0001-trajectory-format.md of Harbor).

A call of a shell has its command line in `arguments.command`. Agents that type into a terminal have `keystrokes`: a
line that ends with Enter is a command line; anything else (Ctrl-C, an answer to a prompt) is not known to be one.
"""

import shlex
from typing import Any

from humanlayer_agent.policy_tools.replay.steps import SHELL_TOOLS, Items, NoCommand, Rows, Step, Unreadable

NAME = "ATIF trajectory"
LOOKS = 'a JSON object with "schema_version": "ATIF-..."'

MAX_DEPTH = 8


def recognises(first: list[dict[str, Any]], whole: bool) -> bool:
    """Is this the beginning of such a file?"""
    return bool(first) and whole and str(first[0].get("schema_version", "")).startswith("ATIF")


def read(lines: Rows, source: str) -> Items:
    """The commands, one by one."""
    for place, data in lines:
        if isinstance(data, str):
            yield Unreadable(source, place, data)
            continue
        yield from _trajectory(data, source, "", 0)


def _trajectory(data: dict[str, Any], source: str, within: str, depth: int) -> Items:
    run = f"{source}{within}"
    steps = data.get("steps")
    if not isinstance(steps, list):
        yield Unreadable(source, within.strip() or "the trajectory", "steps is not a list", run=run)
        return
    for number, step in enumerate(steps, 1):
        place = f"{within.strip()} step {number}".strip()
        calls = step.get("tool_calls") if isinstance(step, dict) else None
        if not isinstance(step, dict) or not isinstance(calls, list | None):
            yield Unreadable(source, place, "not a step with a list of tool_calls", run=run)
            continue
        for n, call in enumerate(calls or (), 1):
            where = place if len(calls or ()) == 1 else f"{place}, call {n}"
            yield _called(call, source, where, run, f"{number}.{n}")
    inner = data.get("subagent_trajectories")
    for number, each in enumerate(inner if isinstance(inner, list) else (), 1):
        name = f"{within} subagent {number}"
        if isinstance(each, dict) and depth < MAX_DEPTH:
            yield from _trajectory(each, source, name, depth + 1)
        else:
            yield Unreadable(source, name.strip(), "not a trajectory", run=run)


def _called(call: Any, source: str, place: str, run: str, id_: str) -> Step | Unreadable | NoCommand:
    name = call.get("function_name") if isinstance(call, dict) else None
    if not isinstance(name, str):
        return Unreadable(source, place, "a tool call without function_name", run=run)
    if name.lower() not in SHELL_TOOLS:
        return NoCommand(name)
    arguments = call.get("arguments")
    if not isinstance(arguments, dict):
        return Unreadable(source, place, "arguments is not an object", run=run)
    cwd = next((arguments[k] for k in ("cwd", "workdir", "working_directory") if k in arguments), None)
    cwd = cwd if isinstance(cwd, str) and cwd.startswith("/") else None
    if isinstance(keys := arguments.get("keystrokes"), str):
        if not keys.strip():
            return NoCommand(f"{name} (waits)")
        if not keys.endswith("\n") or any(c < " " and c not in "\n\t" for c in keys):
            return Unreadable(source, place, "keys that are no command line", run=run)
        return Step(source, place, run, id_, keys.rstrip("\n"), cwd, keeps=True)
    command = arguments.get("command", arguments.get("cmd"))
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        plain = len(command) == 3 and command[0] in ("bash", "/bin/bash") and command[1] in ("-c", "-lc")
        command = command[2] if plain else shlex.join(command)
    if not isinstance(command, str):
        return Unreadable(source, place, "a call of a shell without a command", run=run)
    return Step(source, place, run, id_, command, cwd)
