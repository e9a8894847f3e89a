"""Trajectories of SWE-agent (`INSTANCE.traj`): a JSON object with a turn an entry of `trajectory`.

`action` is what its shell ran, `state` how that stood afterwards: a mapping, or JSON as text before version 1.1, with
`working_dir` and `open_file`. SWE-agent's own tools stand in `action` too, under names that its shell has for them:
they run no command, but some change files that later ones run.
https://swe-agent.com/latest/usage/trajectories/
"""

import json
import posixpath
import shlex
from typing import Any

from humanlayer_agent.policy_tools.replay.steps import Item, Items, NoCommand, Rows, Step, Unreadable, Wrote, edited

NAME = "SWE-agent trajectory"
LOOKS = 'a JSON object with "trajectory", whose entries have "action" and "observation"'

_TOOLS = frozenset(
    str.split(
        """open goto scroll_up scroll_down create edit insert append search_dir search_file find_file filemap submit
        str_replace_editor view_image exit_forfeit exit_cost exit_context exit_format exit_api exit_error
        review_on_submit"""
    )
)
"""Names of its own tools. `create` and the like are no programs, and mean what its shell has for them."""
_CHANGE_OPEN_FILE = frozenset({"edit", "insert", "append"})


def recognises(first: list[dict[str, Any]], whole: bool) -> bool:
    """Is this the beginning of such a file?"""
    turns = first[0].get("trajectory") if first and whole else None
    return isinstance(turns, list) and any(
        isinstance(turn, dict) and "action" in turn and "observation" in turn for turn in turns[:10]
    )


def read(lines: Rows, source: str) -> Items:
    """The commands, one by one."""
    for place, data in lines:
        if isinstance(data, str):
            yield Unreadable(source, place, data)
            continue
        turns = data["trajectory"]
        states = [_state(turn) for turn in turns]
        project = next((cwd for state in states if (cwd := _path(state, "working_dir"))), None)
        before: dict[str, Any] = {"working_dir": project}
        for number, turn in enumerate(turns, 1):
            action = turn.get("action") if isinstance(turn, dict) else None
            if isinstance(action, str):
                yield from _acted(action.strip("\n"), source, f"turn {number}", project, before)
            else:
                yield Unreadable(source, f"turn {number}", "a turn without an action", run=source)
            before |= {key: value for key, value in states[number - 1].items() if value}


def _acted(command: str, source: str, place: str, project: str | None, state: dict[str, Any]) -> Items:
    words = command.split(None, 2)
    if not words:
        yield NoCommand("(no action)")
    elif words[0] in _TOOLS:
        yield _of_its_own(command, words, source, state)
    else:
        cwd = _path(state, "working_dir")
        yield Step(source, place, source, place.removeprefix("turn "), command, cwd, project, keeps=cwd is None)


def _of_its_own(command: str, words: list[str], run: str, state: dict[str, Any]) -> Item:
    """A call of one of SWE-agent's own tools, and the file that it changes."""
    name = words[0]
    if name in _CHANGE_OPEN_FILE and (path := _path(state, "open_file")) is not None:
        return Wrote(run, path)
    if name == "create" and len(words) > 1:
        return Wrote(run, posixpath.join(_path(state, "working_dir") or "/", words[1]))
    if name != "str_replace_editor":
        return NoCommand(name)
    try:
        _, kind, path, *rest = shlex.split(command)
    except ValueError:  # too few words, or quotes that don't close
        return NoCommand(name)
    given = {rest[n].removeprefix("--"): rest[n + 1] for n in range(len(rest) - 1) if rest[n].startswith("--")}
    return edited(run, path, kind, given) or NoCommand(name)


def _state(turn: Any) -> dict[str, Any]:
    state = turn.get("state") if isinstance(turn, dict) else None
    if isinstance(state, str):
        try:
            state = json.loads(state)
        except (ValueError, RecursionError):
            state = None
    return state if isinstance(state, dict) else {}


def _path(state: dict[str, Any], key: str) -> str | None:
    value = state.get(key)
    return value if isinstance(value, str) and value.startswith("/") else None
