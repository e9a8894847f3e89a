"""JSON lines of the machine interface, and a reader of them: `{"id": "1", "command": "ls", "cwd": "/srv/app"}`.

Two more keys count here: `run` says which rows belong together, `project` what directory the agent worked for.
"""

import json
from dataclasses import dataclass
from typing import Any

from humanlayer_agent.policy_tools.replay.steps import Items, Rows, Step, Unreadable

NAME = "rows of the machine interface"
LOOKS = 'JSON lines with "id" and "command"'


class BadRow(Exception):
    """A line that is no row; `id` is what could be read of it."""

    def __init__(self, message: str, id_: Any = None) -> None:
        super().__init__(message)
        self.id = id_


@dataclass(frozen=True, slots=True)
class Row:
    id: Any
    command: str
    cwd: str | None
    files: dict[str, str]
    tracked: list[str]


def read_row(line: str) -> Row:
    """The row in `line`. Raises BadRow."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRow(f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise BadRow("not a JSON object")
    return row_of(data)


def row_of(data: dict[str, Any]) -> Row:
    """The row in a JSON object. Raises BadRow."""
    id_ = data.get("id")
    if "id" not in data or id_ is None:
        raise BadRow("no id")
    if not isinstance(data.get("command"), str):
        raise BadRow("command is not a string", id_)
    cwd = data.get("cwd")
    if cwd is not None and not (isinstance(cwd, str) and cwd.startswith("/")):
        raise BadRow("cwd is not an absolute path", id_)
    files, tracked = data.get("files", {}), data.get("tracked", [])
    if not isinstance(files, dict) or not all(isinstance(v, str) for v in files.values()):
        raise BadRow("files is not a mapping of paths to texts", id_)
    if not isinstance(tracked, list) or not all(isinstance(p, str) for p in tracked):
        raise BadRow("tracked is not a list of paths", id_)
    return Row(id_, data["command"], cwd, files, tracked)


def recognises(first: list[dict[str, Any]], whole: bool) -> bool:
    """Is this the beginning of such a file?"""
    return any("command" in row and "id" in row for row in first)


def read(lines: Rows, source: str) -> Items:
    """The rows."""
    for place, data in lines:
        if isinstance(data, str):
            yield Unreadable(source, place, data)
            continue
        run, project = data.get("run"), data.get("project")
        try:
            row = row_of(data)
        except BadRow as error:
            yield Unreadable(source, place, str(error), run=str(run or ""))
            continue
        yield Step(
            source,
            place,
            run=str(run) if run is not None else source,
            id=str(row.id),
            command=row.command,
            cwd=row.cwd,
            project=project if isinstance(project, str) and project.startswith("/") else None,
            files=row.files,
            tracked=tuple(row.tracked),
        )
