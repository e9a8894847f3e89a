"""Excuses from rules: the exceptions in policies, and allows of programs of one's own.

Whoever owns a rule may excuse from it: the exceptions in a file, to its rules and to those that it extends, count.
Nobody below the machine's policy excuses from what that says. A project's policy that the user has trusted is the
user's word: it also excuses from what ships in the user's policy, where that asks, and not about what is severe. From a
locked rule, and from one of critical severity, nobody excuses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from humanlayer_agent.policy.conditions import private_programs
from humanlayer_agent.policy.conditions.compiler import Clause, Compiler, Situation
from humanlayer_agent.policy.conditions.kleene import NO, YES
from humanlayer_agent.policy.conditions.rule_matcher import CompiledRule, Excuse
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.language.policy import Rule, RuleException
from humanlayer_agent.policy.language.sources import BUILTIN
from humanlayer_agent.policy.layers import Layer
from humanlayer_agent.shell import Effect, SimpleCommand


def reaches_above(layers: Sequence[Layer], layer: Layer, above: Layer, rule: Rule) -> bool:
    """Tell whether what `layer` says may excuse from a rule of a layer above it.

    Args:
        layers: all in force, the highest first.
    """
    higher = list(takewhile(lambda each: each is not layer, layers))
    trusted = layer.authority == "project" and layer.trusted and not any(each.policy.defaults.locked for each in higher)
    theirs = above.authority != "machine" and any(each is above for each in higher)
    return trusted and theirs and rule.origin.startswith(BUILTIN) and is_light(rule)


def exceptions_to(layers: Sequence[Layer], layer: Layer, rule: Rule, now: str) -> Iterator[tuple[Layer, RuleException]]:
    """Every exception to `rule` of `layer` that holds at a moment (UTC, ISO 8601), with the layer whose it is."""
    yield from ((layer, each) for each in rule.exceptions if each.holds(now))
    for below in layers:
        if reaches_above(layers, below, layer, rule):
            yield from ((below, each) for each in below.policy.exceptions if each.rule == rule.id and each.holds(now))


def is_light(rule: Rule) -> bool:
    """Tell whether a rule only asks, and about nothing severe."""
    return rule.decision == "ask" and rule.severity in ("low", "medium") and not rule.locked


def compiled(layers: Sequence[Layer], layer: Layer, rule: Rule, now: str, compiler: Compiler) -> list[Excuse]:
    """The exceptions to a rule, ready to judge. Their lists are filled in, so any compiler will do."""
    return [
        Excuse(each, by.authority, compiler.match(each.when, excuses=True))
        for by, each in exceptions_to(layers, layer, rule, now)
    ]


def with_own_programs(layers: Sequence[Layer], rules: Sequence[tuple[Layer, CompiledRule]]) -> list[CompiledRule]:
    """The rules in which an allow of a program of one's own excuses from what is asked because nobody knows it."""
    vouching = [(layer, rule) for layer, rule in rules if private_programs.vouches(rule.rule)]
    found = []
    for layer, rule in rules:
        more = [
            Excuse(allow.rule, allow.layer, _vouched(allow, rule.when))
            for by, allow in vouching
            if is_light(rule.rule) and (by is layer or reaches_above(layers, by, layer, rule.rule))
        ]
        found.append(replace(rule, excuses=(*rule.excuses, *more)) if more else rule)
    return found


def _vouched(allow: CompiledRule, when: Clause) -> Clause:
    """Whether a rule would not be about this if it were known what the program does, and `allow` allows the program."""

    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        own = private_programs.own(command)
        if own is None or (effect is not None and effect is not own):
            return NO
        if allow.judge(command, None, situation) != YES or allow.verdict_in(situation) is not Verdict.ALLOW:
            return NO
        known = private_programs.known(command)
        return (
            YES if when(known, private_programs.known_effect(own) if effect is own else None, situation) == NO else NO
        )

    return judge
