"""The names in effects that are neither paths nor hosts: packages, modules, units, sub-commands, variables.

A variable's value is read as a list of directories, separated by colons.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from humanlayer_agent.policy.conditions import containment
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.path_patterns import PathSet
from humanlayer_agent.policy.conditions.word_patterns import TextSet, glob_matches
from humanlayer_agent.policy.language.policy import Text
from humanlayer_agent.shell import Effect, SimpleCommand, absolute_path

if TYPE_CHECKING:
    from humanlayer_agent.policy.conditions.compiler import Situation

_PATHS_AND_HOSTS = frozenset({"read", "write", "append", "delete", "move", "metadata", "network", "listen"})
_ANY_TIME = frozenset({"loop", "function", "trap", "background"})
"""What is inside these may run before or beside anything else."""

OF_VALUES = frozenset({"options", "attributes", "flags", "hosts", "names", "env", "tool", "repo", "sql", "content"})
"""Clauses that hold where one value matches; where they let something through, only where every one does."""

MAX_PLACES = 256
"""Most directories that are looked at for one value."""


def named(command: SimpleCommand, effect: Effect | None) -> list[Effect]:
    """The effects (or the one that is judged) that name something.

    That packages are installed at all is an effect too, of which the command's packages are the names.
    """
    effects = command.effects if effect is None else [effect]
    if any(_installs(each) for each in effects):
        effects = [*(each for each in effects if not _installs(each)), *_packages(command)]
    return [e for e in effects if e.kind not in _PATHS_AND_HOSTS and not _is_path(e)]


def _is_path(effect: Effect) -> bool:
    """Tell whether it is about a place, where that is no package, which may lie anywhere."""
    return effect.kind != "package" and (effect.operand or "").startswith("/")


def _installs(effect: Effect) -> bool:
    return effect.kind == "package" and effect.role in ("itself", "environment")


def _packages(command: SimpleCommand) -> list[Effect]:
    """The packages of a command, one of them unknown where a file or the project names them, or nobody does."""
    packages = [each for each in command.effects if each.kind == "package" and not _installs(each)]
    listed = any(each.kind == "read" and each.role == "option" for each in command.effects)
    return packages if packages and not listed else [*packages, Effect("package", "operand", None, False, command.span)]


def name_in(effect: Effect, patterns: Sequence[str]) -> int:
    """Tell how surely the name in `effect` is one of `patterns`."""
    if effect.operand is None:
        return MAYBE
    # Of code and of a setting it is the content or the value that may be unknown: the name stands there.
    if not (effect.resolved or effect.kind == "execute" or effect.role == "assignment"):
        return MAYBE
    return YES if any(glob_matches(pattern, effect.operand) for pattern in patterns) else NO


def variables(
    names: Sequence[str], places: PathSet | None, *, every: bool = False
) -> Callable[[SimpleCommand, Effect | None, "Situation"], int]:
    """Return a test of whether an effect sets or prints one of these variables, and (with `places`) to directories that
    all lie there; with `every`, whether all of them do.
    """
    wanted = VariableNames(names)

    def judge(command: SimpleCommand, effect: Effect | None, situation: "Situation") -> int:
        answers = []
        for each in command.effects if effect is None else (effect,):
            if each.kind == "environment":
                value = _named(each, wanted)
                if value != NO and places is not None:
                    value = min(value, _lies_in(each, places, command, situation))
                answers.append(value)
        return (min if every else max)(answers, default=NO)

    return judge


class VariableNames:
    """Names of variables: the last pattern that matches one decides, and `!` before it says that it is none of them."""

    def __init__(self, patterns: Sequence[str]) -> None:
        runs = groupby(reversed(patterns), key=lambda pattern: pattern.startswith("!"))
        self._runs = [
            (without, TextSet(Text(glob=pattern.removeprefix("!")) for pattern in run)) for without, run in runs
        ]

    def has(self, name: str) -> int:
        """no or yes."""
        for without, run in self._runs:
            if run.has(name) == YES:
                return NO if without else YES
        return NO


def _named(effect: Effect, wanted: VariableNames) -> int:
    if effect.operand is None or not (effect.resolved or effect.role == "assignment"):
        return MAYBE
    return wanted.has(effect.operand)


def _lies_in(effect: Effect, places: PathSet, command: SimpleCommand, situation: "Situation") -> int:
    if effect.role in ("printed", "expanded"):
        return NO
    if effect.value is None:
        # Where no place of these can be reached, it does not matter that it is named.
        held = situation.confinement is not None and not containment.any_of(places, situation.confinement)
        return NO if held else MAYBE
    entries = effect.value.split(":")
    relative = not all(entry.startswith("/") for entry in entries)
    users = _directories(command, situation) if relative else frozenset()
    if users is None or len(entries) * max(1, len(users)) > MAX_PLACES:
        return MAYBE
    value = YES
    for entry in entries:
        for path in [entry] if entry.startswith("/") else [absolute_path(entry, cwd) for cwd in sorted(users)]:
            value = min(value, places.every(Effect("read", "value", path, True, effect.span), situation.links))
    return value


def _directories(command: SimpleCommand, situation: "Situation") -> frozenset[str] | None:
    """Return where a relative entry may be looked up from; None where that is not known.

    What uses the variable does so from its own directory, which may be another by then.
    """
    found = situation.directories
    if not found:
        later = frozenset[str]()
        known = True
        for each in situation.commands:
            if not _ANY_TIME.isdisjoint(each.inside):
                known, later = known and each.cwd is not None, later.union(each.cwd or ())
        for each in reversed(situation.commands):
            known, later = known and each.cwd is not None, later.union(each.cwd or ())
            known = known and len(later) <= MAX_PLACES
            found[id(each)] = later if known else None
    return found.get(id(command))
