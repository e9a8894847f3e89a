"""Events of OpenHands: a list of them, one a line, a file for each, or in `history` of a row for each task.

Older ones say what they are by `action` or `observation`, with what belongs to it in `args` or `extras`; those of the
software agent SDK by `kind`, with what the tool was given in `action`. Where the shell is after a command, its
observation says (`metadata.working_dir`). https://github.com/OpenHands/OpenHands, https://github.com/OpenHands/software-agent-sdk
"""

import json
import posixpath
from collections.abc import Iterator
from pathlib import Path
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
    edited,
)

NAME = "OpenHands events"
LOOKS = 'events with "action" and "args", or with "kind": "...Event"; or rows with such a "history"'

_EDITORS = frozenset({"edit", "file_editor", "str_replace_editor", "str_replace_based_edit_tool", "FileEditorAction"})
_SHELLS = frozenset({"run", "TerminalAction", "ExecuteBashAction"})
_TALK = frozenset(
    str.split("message system recall change_agent_state condensation condensation_request null pause resume start stop")
)
"""Older actions that call no tool."""
_KEYS = frozenset({"", "C-c", "C-d", "C-z"})
"""What is typed into a program that runs, and is no command: it waits, or ends it."""


def recognises(first: list[dict[str, Any]], whole: bool) -> bool:
    """Is this the beginning of such a file?"""
    return any(_is_event(row) or any(_is_event(each) for each in _history(row)[:10]) for row in first)


def read(lines: Rows, source: str) -> Items:
    """The commands, one by one."""
    # A file for each event stands in the folder of its conversation.
    alone = Path(source).parent.name == "events"
    run = str(Path(source).parent.parent) if alone else source
    where, refused = _Where(_of_folder(Path(source)) if alone else None), set[str]()
    # Rows of results tell by themselves where they began, and what was refused: a large file of those is read once.
    if not (alone or _history(next((data for _, data in lines), None))):
        where = _Where(next((cwd for _, data in lines if (cwd := _directory(data))), None))
        refused = {id_ for _, data in lines if isinstance(data, dict) for id_ in _refused(data)}
    for place, data in lines:
        if isinstance(data, str):
            yield Unreadable(source, place, data, run=run)
        elif history := _history(data):
            task = f"{source} {data.get('instance_id') or place}"
            within = _Where(next(filter(None, map(_directory, history)), None))
            refused = {id_ for event in history if isinstance(event, dict) for id_ in _refused(event)}
            for number, event in enumerate(history, 1):
                yield from _event(event, source, f"{place} event {number}".strip(), task, within, refused)
        else:
            yield from _event(data, source, place or "the event", run, where, refused)


class _Where:
    """Where the shell of a conversation is; None: nobody said. `project`: where it was first."""

    def __init__(self, first: str | None) -> None:
        self.project = self.cwd = first


def _event(event: Any, source: str, place: str, run: str, where: _Where, refused: set[str]) -> Items:
    if not isinstance(event, dict):
        yield Unreadable(source, place, "not a JSON object", run=run)
        return
    where.cwd = _directory(event) or where.cwd
    where.project = where.project or where.cwd
    if not _is_event(event):
        yield Unreadable(source, place, "not an event: neither action, observation nor kind", run=run)
    elif (called := _called(event)) is not None:
        name, given = called
        yield _done(event, name, given, source, place, run, where, refused)


def _called(event: dict[str, Any]) -> tuple[str, Any] | None:
    """The tool that an event calls and what it is given; None where it calls none."""
    if event.get("kind") == "ActionEvent":
        action = event.get("action")
        kind = action.get("kind") if isinstance(action, dict) else None
        tool = event.get("tool_name")
        known = kind if kind in _SHELLS or kind in _EDITORS else None
        return str(known or tool or kind or "a tool"), action
    if "kind" in event or not isinstance(event.get("action"), str):
        return None  # an observation, or words
    return None if event["action"] in _TALK else (event["action"], event.get("args"))


def _done(
    event: dict[str, Any],
    name: str,
    given: Any,
    source: str,
    place: str,
    run: str,
    where: _Where,
    refused: set[str],
) -> Item:
    if given is None and event.get("kind") == "ActionEvent":
        return NoCommand(f"{name} (a call that was not valid)")
    if not isinstance(given, dict):
        return Unreadable(source, place, f"{name}: what it was given is not an object", run=run)
    if name in _EDITORS or name == "write":
        path = given.get("path")
        if isinstance(path, str) and (path.startswith("/") or where.cwd):
            return _changed(run, posixpath.join(where.cwd or "/", path), name, given) or NoCommand(name)
        return NoCommand(name)
    if name not in _SHELLS and name.lower() not in SHELL_TOOLS:
        return NoCommand(name)
    if event.get("source") not in (None, "agent"):
        return NoCommand(f"{name} (of the {event.get('source')})")
    command = given.get("command")
    if not isinstance(command, str):
        return Unreadable(source, place, f"{name}: no command", run=run)
    if given.get("is_input") is True or command.strip() in _KEYS:
        if command.strip() in _KEYS:
            return NoCommand(f"{name} (keys)")
        return Unreadable(source, place, "typed into a program that runs", run=run)
    ids = {str(event.get("id")), str(event.get("tool_call_id"))}
    ran = given.get("confirmation_state", "confirmed") == "confirmed" and not ids & refused
    id_ = str(event.get("id", place))
    return Step(source, place, run, id_, command, where.cwd, where.project, ran=ran, keeps=where.cwd is None)


def _changed(run: str, path: str, name: str, given: dict[str, Any]) -> Wrote | None:
    if name == "write":
        whole = given.get("start", 0) == 0 and given.get("end", -1) == -1 and isinstance(given.get("content"), str)
        return Wrote(run, path, given["content"] if whole else None)
    return edited(run, path, str(given.get("command") or "edit"), given)


def _refused(event: dict[str, Any]) -> Iterator[str]:
    """The actions that a person has refused, by their ids."""
    if event.get("kind") == "UserRejectObservation" or event.get("observation") == "user_rejected":
        yield from (str(event[key]) for key in ("action_id", "tool_call_id", "cause") if event.get(key) is not None)


def _is_event(row: Any) -> bool:
    if not isinstance(row, dict):
        return False
    if str(row.get("kind", "")).endswith(("Event", "Observation")):
        return "source" in row or "tool_name" in row or "action" in row
    older = isinstance(row.get("action"), str) and "args" in row
    return older or (isinstance(row.get("observation"), str) and "extras" in row)


def _history(row: Any) -> list[Any]:
    """The events in a row of results. Older ones pair each action with its observation."""
    found = row.get("history") if isinstance(row, dict) else None
    if not isinstance(found, list):
        return []
    return [event for each in found for event in (each if isinstance(each, list) else [each])]


def _directory(event: Any) -> str | None:
    """Where the shell is after what was observed."""
    if not isinstance(event, dict):
        return None
    seen = event.get("extras") if isinstance(event.get("observation"), str) else event.get("observation")
    metadata = seen.get("metadata") if isinstance(seen, dict) else None
    found = metadata.get("working_dir") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) and found.startswith("/") else None


def _of_folder(path: Path) -> str | None:
    """Where the shell of a conversation starts, as the file beside its folder of events says."""
    try:
        state = json.loads((path.parent.parent / "base_state.json").read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return None
    workspace = state.get("workspace") if isinstance(state, dict) else None
    found = workspace.get("working_dir") if isinstance(workspace, dict) else None
    return found if isinstance(found, str) and found.startswith("/") else None
