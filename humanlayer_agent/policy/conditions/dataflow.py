"""The `flow` clause: can data of what `from` matches come to the command or effect that is judged?

The shell module says where data can come (`shell.dataflow`); here each command is asked whether its data is meant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.language.policy import Flow, Match
from humanlayer_agent.shell import Effect, Program, SimpleCommand

if TYPE_CHECKING:
    from humanlayer_agent.policy.conditions.compiler import Situation
    from humanlayer_agent.shell import Flows, Reached

Judge = Callable[[SimpleCommand, Effect | None, Any], int]

Source = Effect | SimpleCommand | None

_BRINGS = frozenset({"read", "network", "environment"})
_LEAVES = frozenset({"write", "append", "network", "listen"})


Found = list[tuple[int, Effect | None]]
"""What of one command a `from` matches: how surely, and which effect (None: the command itself). The surest first."""


@dataclass(slots=True)
class Origins:
    """The matches of a `from` in one action: by the command's number, and by its id; and where data of it can come."""

    found: dict[int, Found]
    own: dict[int, Found]
    reached: "Reached | None"
    by_effect: bool


@dataclass(slots=True)
class Tracing:
    """The findings of the `flow` clauses so far in one action. `source` is where the last one that held begins."""

    program: Program | None = None
    flows: "Flows | None" = None
    origins: dict[int, Origins] = field(default_factory=dict)
    source: Source = None


def about_effects(match: Match) -> bool:
    """Tell whether a rule with this condition is asked about each effect."""
    to = match.flow.to if match.flow is not None else None
    return (
        match.effect is not None
        or any(about_effects(m) for m in (*(match.any or ()), *(match.all or ())))
        or (to is not None and about_effects(to))
    )


def traces(match: Match) -> bool:
    """Tell whether a `flow` stands anywhere in this condition."""
    inner = (*(match.any or ()), *(match.all or ()), *([match.negated] if match.negated is not None else []))
    return match.flow is not None or any(traces(m) for m in inner)


def flow(written: Flow, compile_match: Callable[[Match], Judge]) -> Judge:
    """The clause that `written` describes."""
    source = compile_match(written.source)
    to = compile_match(written.to) if written.to is not None else None
    ways = frozenset(written.through) if written.through is not None else None
    by_effect = about_effects(written.source)

    def judge(command: SimpleCommand, effect: Effect | None, situation: "Situation") -> int:
        wanted = YES if to is None else to(command, effect, situation)
        tracing = situation.tracing
        if wanted == NO or tracing.program is None:
            return min(wanted, MAYBE)
        origins = tracing.origins.get(id(source))
        if origins is None:
            commands = tracing.program.commands
            found = _matching(source, by_effect, commands, situation)
            own = {id(commands[number]): said for number, said in found.items()}
            reached = _reached(found, ways, tracing, situation)
            origins = tracing.origins[id(source)] = Origins(found, own, reached, by_effect)
        tracing.source = None
        value, tracing.source = _arriving(origins, command, effect, tracing.program)
        if ways is None and value < wanted:
            value, tracing.source = max((value, tracing.source), _within(origins, command, effect), key=_first)
        return min(wanted, value)

    return judge


def _first(pair: tuple[int, object]) -> int:
    return pair[0]


def _matching(
    source: Judge, by_effect: bool, commands: Sequence[SimpleCommand], situation: "Situation"
) -> dict[int, Found]:
    """The commands of which data is meant."""
    found: dict[int, Found] = {}
    for number, command in enumerate(commands):
        said: Found
        if by_effect:
            said = [(value, e) for e in command.effects if (value := source(command, e, situation)) != NO]
            if not command.effects:
                said = [(source(command, None, situation), None)]  # it may be meant by its name
            elif not said and _hides_effects(command):
                said = [(min(MAYBE, source(command, None, situation)), None)]
        else:
            said = [(source(command, None, situation), None)]
        if said and said[0][0] != NO:
            found[number] = sorted(said, key=lambda each: -each[0])
    return found


def _hides_effects(command: SimpleCommand) -> bool:
    """Tell whether it may do more than was seen. Code that nobody has read is a matter of its own: it needs no flow to
    do harm.
    """
    return not command.resolved and not any(e.unread for e in command.effects)


def _reached(
    found: dict[int, Found], ways: frozenset[str] | None, tracing: Tracing, situation: "Situation"
) -> "Reached | None":
    """Return where their data can come. None where there is nothing to come from, or no other command to come to."""
    if not found or tracing.program is None or len(tracing.program.commands) < 2:
        return None
    if tracing.flows is None:
        from humanlayer_agent.shell import Flows

        tracing.flows = Flows(tracing.program, situation.links.names)
    return tracing.flows.reached({number: said[0][0] == YES for number, said in found.items()}, ways)


def _arriving(origins: Origins, command: SimpleCommand, effect: Effect | None, program: Program) -> tuple[int, Source]:
    """Tell how surely data comes from another command, and from where."""
    for arrival in origins.reached.at(command, effect) if origins.reached is not None else ():
        what, by = origins.found[arrival.origin][0][1], program.commands[arrival.origin]
        if what is None and origins.by_effect and by is command:
            continue  # what is not understood, fed with what is not understood of it
        return YES if arrival.sure else MAYBE, what or by
    return NO, None


def _within(origins: Origins, command: SimpleCommand, effect: Effect | None) -> tuple[int, Source]:
    """The same from elsewhere in the command: what it reads goes to what it writes and sends."""
    if effect is None or effect.kind not in _LEAVES:
        return NO, None
    for value, each in origins.own.get(id(command), ()):
        if each is None or each is effect or each.kind not in _BRINGS:
            continue
        if each.kind != "network" or effect.kind not in ("network", "listen"):
            return value, each
    return NO, None
