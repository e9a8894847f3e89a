"""git in another directory than the one where the command line begins: it reads the repository there.

`git -C /srv/x log -p` and `cd /srv/x && git log -p` print the files of /srv/x, and follow the settings of that
repository, some of which are commands (git-config(1): core.fsmonitor, core.pager).
"""

import posixpath
from collections.abc import Sequence

from humanlayer_agent.shell.effects import Effect
from humanlayer_agent.shell.program import SimpleCommand


def note_elsewhere(commands: Sequence[SimpleCommand], start: str) -> None:
    """Add what each git among `commands` reads of a repository that does not lie at or below `start`."""
    for command in commands:
        if command.program != "git":
            continue
        for place in _places(command):
            if (place is None or not _below(place, start)) and not _touches(command, place):
                effect = Effect("read", "repository", place, place is not None, command.span, "git's directory")
                command.effects.append(effect)


def _below(path: str, directory: str) -> bool:
    return f"{path}/".startswith(f"{directory.rstrip('/')}/")


def _touches(command: SimpleCommand, place: str | None) -> bool:
    """Is something at or below `place` among its effects already?"""
    paths = [posixpath.normpath(e.operand) for e in command.effects if (e.operand or "").startswith("/") and e.operand]
    return place is not None and any(_below(path, place) for path in paths)


def _places(command: SimpleCommand) -> list[str | None]:
    """The directories it may work in; None: one that is not known."""
    places: list[str | None] = [*command.cwd] if command.cwd is not None else [None]
    for moved in command.options.get("directory", ()):
        places = [
            posixpath.normpath(posixpath.join(place or "/", moved))
            if moved is not None and (place is not None or moved.startswith("/"))
            else None
            for place in places
        ]
    return places
