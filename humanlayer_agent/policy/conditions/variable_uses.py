"""The uses of variables that came from outside which are effects: those that a rule asks about or denies.

`echo "$HOME"` does nothing that anybody wants to be asked about, and nearly every script does it. So the analysis only
notes which variables are used (`SimpleCommand.uses`), and a use becomes an effect like any other (`environment`,
`expanded`) where an ask or a deny rule says yes or maybe of it, or where it may be what a `flow` of one comes from. To
be meant, a use has to be named: by `env` or `names`, or by the role `expanded`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.policy.conditions.kleene import NO
from humanlayer_agent.policy.language.policy import Match
from humanlayer_agent.shell import Program, SimpleCommand

if TYPE_CHECKING:
    from humanlayer_agent.policy.conditions.compiler import Clause, Situation


def with_effects(program: Program, meant: "Sequence[Clause]", situation: "Situation") -> Program:
    """Give `program` with those uses as effects that one of the conditions `meant` holds of, or may hold of.

    The given one stays as it is: other policies judge it too.
    """
    commands = [_with_effects(command, meant, situation) if command.uses else command for command in program.commands]
    if all(one is other for one, other in zip(commands, program.commands, strict=True)):
        return program
    return replace(program, commands=commands)


def _with_effects(command: SimpleCommand, meant: "Sequence[Clause]", situation: "Situation") -> SimpleCommand:
    found = [use for use in command.uses if any(clause(command, use, situation) != NO for clause in meant)]
    return replace(command, effects=[*command.effects, *found], uses=[]) if found else command


def naming(match: Match) -> Match | None:
    """Give `match` without the alternatives that name no uses of variables; None where nothing in it names them.

    What a condition excludes it does not name.
    """
    by_name = match.names is not None and "environment" in (match.effect or ())
    if match.env is not None or by_name or "expanded" in (match.role or ()):
        return match
    if any(naming(part) is not None for part in match.all or ()):
        return match
    either = tuple([part for each in match.any or () if (part := naming(each)) is not None])
    return replace(match, any=either) if either else None


def sources(match: Match) -> Iterator[Match]:
    """Give each `from` of a flow in `match`, as far as it names uses of variables."""
    if match.flow is not None:
        if (source := naming(match.flow.source)) is not None:
            yield source
        yield from sources(match.flow.source)
    for part in (*(match.any or ()), *(match.all or ())):
        yield from sources(part)
