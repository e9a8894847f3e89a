"""Data that goes through files: what one command writes and another reads or runs."""

import fnmatch
from collections.abc import Callable

from humanlayer_agent.shell.paths import plain_path
from humanlayer_agent.shell.program import Effect, SimpleCommand

Names = Callable[[str], tuple[str, ...]]
"""All names of a path: as it is written, and where symbolic links lead."""

_NOWHERE = frozenset({"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/stderr"})
_LINKERS = frozenset({"ln", "link", "mount"})
_LINKING = frozenset({"symbolic-link", "link"})


def written(command: SimpleCommand) -> list[Effect]:
    """The effects of `command` that leave data in files."""
    kinds = ("write", "append", "read") if _links(command) else ("write", "append")
    return [e for e in command.effects if e.kind in kinds and e.operand not in _NOWHERE]


def taken(command: SimpleCommand) -> list[Effect]:
    """The effects of `command` that take data from files."""
    both = _links(command)
    return [e for e in command.effects if _takes(e, both) and e.operand not in _NOWHERE]


def _takes(effect: Effect, both: bool) -> bool:
    if effect.kind == "read":
        return effect.role != "list"  # names are no data
    if effect.kind == "execute":
        return runs_file(effect)
    return effect.kind == "move" or (both and effect.kind == "write")


def runs_file(effect: Effect) -> bool:
    """Is what an execute effect runs a file, or perhaps one?"""
    return effect.operand.startswith("/") if effect.operand is not None else effect.role in ("script", "project")


def _links(command: SimpleCommand) -> bool:
    """Does it give a file a second name? Then data goes both ways."""
    return command.program in _LINKERS or (command.program == "cp" and not _LINKING.isdisjoint(command.flags))


def plain_names(path: str) -> tuple[str, ...]:
    """The path itself; where links lead is not looked up."""
    return (plain_path(path),)


def meet(out: Effect, into: Effect, names: Names) -> bool | None:
    """Is what `out` leaves what `into` takes? True, False where that may be, None where it is not so."""
    if out.operand is None or into.operand is None:
        return False
    found: bool | None = None
    for left in names(out.operand):
        for right in names(into.operand):
            said = _same(out, left, into, right)
            if said:
                return True
            found = said if found is None else found
    return found


def _same(out: Effect, left: str, into: Effect, right: str) -> bool | None:
    if left == right:
        return _exact(out) and _exact(into)
    if right.startswith(left.rstrip("/") + "/"):
        # Below what was written: a directory that was copied, moved, cloned or unpacked.
        return None if out.pattern is not None and _exact(into) and not _matches(out.pattern, right) else False
    if left.startswith(right.rstrip("/") + "/"):
        if into.pattern is not None and _exact(out) and not _matches(into.pattern, left):
            return None
        return into.recursive and into.resolved and _exact(out)
    return None


def _exact(effect: Effect) -> bool:
    """Is it certainly this one file?"""
    return (effect.resolved or effect.unread) and not effect.below and effect.pattern is None


def _matches(pattern: str, path: str) -> bool:
    """May `path` be one of those that the shell's pattern stands for? `*` is taken to match slashes too."""
    short = plain_path(pattern).replace("/**/", "/*")
    return "[" in short or "\\" in short or fnmatch.fnmatchcase(path, short)
