"""The steps that readers of recorded runs give: commands, other changes of files, and rows that can't be replayed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from humanlayer_agent.action import BASH
from humanlayer_agent.policy.language.policy import Given


@dataclass(frozen=True, slots=True)
class Step:
    """A command that an agent proposed.

    `source` is the file, `place` where in it. `cwd` and `project` are None where the log does not say. `files` and
    `tracked` are as the machine interface has them. `ran`: it was executed, so that what it writes is there later.
    `verdict` and `rule` are what was decided then, where the log says so, and `confined` that it was judged as where
    what is allowed is confined; `given`, what surrounded it. `keeps`: the shell lives on, so that later steps start in
    the directory that this one goes to. `redacted`: secrets in it stand as marks.
    """

    source: str
    place: str
    run: str
    id: str
    command: str
    cwd: str | None = None
    project: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    tracked: tuple[str, ...] = ()
    ran: bool = True
    verdict: str = ""
    rule: str = ""
    type: str = "bash"
    interpreter: tuple[str, ...] = BASH
    agent: str = ""
    keeps: bool = False
    redacted: bool = False
    confined: bool = False
    given: Given | None = None


@dataclass(frozen=True, slots=True)
class Wrote:
    """A tool that is no shell changed the file at `path` (absolute).

    `text` is what it holds now; where that is None, `old` became `new` in it (everywhere, if `every`), and where `old`
    is "" too, nobody knows what it holds.
    """

    run: str
    path: str
    text: str | None = None
    old: str = ""
    new: str = ""
    every: bool = False


def edited(run: str, path: str, kind: str, given: Mapping[str, Any]) -> Wrote | None:
    """Return what a call of a text editor changed, as agents call it; None where it only looks.

    Args:
        kind: `create`, `str_replace`, `insert`, `undo_edit`, `view` ...
        given: its arguments: `file_text`, `old_str`, `new_str`.

    Example:
        >>> edited("r", "/a.py", "create", {"file_text": "x"}).text
        'x'
    """
    if kind in ("view", "view_range", "open") or not path.startswith("/"):
        return None
    text, old, new = (given.get(key) for key in ("file_text", "old_str", "new_str"))
    if kind == "create" and isinstance(text, str):
        return Wrote(run, path, text)
    if kind == "str_replace" and isinstance(old, str) and old:
        return Wrote(run, path, old=old, new=new if isinstance(new, str) else "")
    return Wrote(run, path)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A row that can't be replayed, and why."""

    source: str
    place: str
    why: str
    run: str = ""


@dataclass(frozen=True, slots=True)
class NoCommand:
    """A call of a tool that runs no command: counted, never judged."""

    tool: str


Item = Step | Wrote | Unreadable | NoCommand
Items = Iterator[Item]
Rows = Iterable[tuple[str, dict[str, Any] | str]]
"""The JSON objects of a file with their places; what is wrong with it, where a line holds none."""

SHELL_TOOLS = frozenset(
    {
        *("bash", "bash_command", "execute_bash", "shell", "shell_command", "local_shell", "exec_command", "terminal"),
        *("run_command", "run_shell_command", "run_terminal_cmd", "run_in_terminal", "execute_command"),
    }
)
"""Names (in lower case) under which agents call a shell."""
