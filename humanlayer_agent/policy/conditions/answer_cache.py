"""Which rules can be answered once for many effects: those that ask about nothing but what a short key holds.

Most rules ask what kind of effect it is, in which role, and in which path sets it lies. The answer is the same for
every effect of which these are the same, so it is kept (`evaluation.Rules`). A rule that asks about anything else is
asked each time.
"""

from collections.abc import Hashable

from humanlayer_agent.policy.conditions.compiler import FILE_KINDS, Situation
from humanlayer_agent.policy.conditions.path_patterns import MAX_LENGTH, PathIndex
from humanlayer_agent.policy.conditions.symlinks import led_to
from humanlayer_agent.policy.language.policy import Match, Program, Rule
from humanlayer_agent.shell.program import Effect, SimpleCommand

_CLAUSES = Match.__match_args__
_PROGRAM = Program.__match_args__

_INNER = frozenset({"any", "all", "negated"})
_OF_EFFECT = frozenset({"effect", "role", "recursive", "resolved", "unread", "paths", "program"}) | _INNER
"""What `effect_key` holds, besides the rules that concern the program and the kind of effect."""
_OF_COMMAND = frozenset({"resolved", "effects", "program"}) | _INNER
"""What `command_key` holds, besides the rules that concern the program."""


def settled(rule: Rule, *, by_effect: bool) -> bool:
    """Does the answer of `rule` follow from the key alone?"""
    allowed = _OF_EFFECT if by_effect else _OF_COMMAND
    return _within(rule.when, allowed) and (rule.unless is None or _within(rule.unless, allowed))


def settled_clauses(match: Match, *, by_effect: bool) -> frozenset[str]:
    """The clauses of `match` whose answers follow from the key: where they say no, so does the whole."""
    allowed = _OF_EFFECT if by_effect else _OF_COMMAND
    return frozenset([name for name in _CLAUSES if getattr(match, name) is not None and _follows(match, name, allowed)])


def _within(match: Match, allowed: frozenset[str]) -> bool:
    return all(_follows(match, name, allowed) for name in _CLAUSES if getattr(match, name) is not None)


def _follows(match: Match, clause: str, allowed: frozenset[str]) -> bool:
    if clause not in allowed:
        return False
    if clause == "program":
        return all(getattr(match.program, name) is None for name in _PROGRAM if name != "names")
    if clause == "negated":
        return match.negated is not None and _within(match.negated, allowed)
    return clause not in _INNER or all(_within(each, allowed) for each in getattr(match, clause))


def effect_key(effect: Effect, situation: Situation, index: PathIndex) -> Hashable | None:
    """All that a settled rule asks of `effect`; None where that is too long to be kept."""
    where: Hashable = None
    operand = effect.operand
    if effect.kind in FILE_KINDS and (effect.kind != "execute" or (operand or "").startswith("/")):
        where = index.place(effect, situation.links)
        if effect.pattern is not None and operand is not None:
            if len(effect.pattern) > MAX_LENGTH:
                return None
            names = situation.links.names(operand)
            where = (effect.pattern, effect.below, effect.contents, names, led_to(effect, situation.links), where)
    return where, effect.role, effect.resolved, effect.unread, effect.recursive


def command_key(command: SimpleCommand) -> Hashable:
    """All that a settled rule asks of `command`."""
    return command.resolved, frozenset([effect.kind for effect in command.effects])
