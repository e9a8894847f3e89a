"""idle-exception: an exception that has expired, that excuses nothing, or that excuses all that its rule is about."""

from collections.abc import Iterator
from itertools import islice

from humanlayer_agent.policy.conditions.compiler import Clause
from humanlayer_agent.policy.conditions.evaluation import CompiledRule
from humanlayer_agent.policy.conditions.kleene import NO, YES
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.policy import RuleException
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.subject import Subject
from humanlayer_agent.policy_tools.lint.witnesses import Case
from humanlayer_agent.shell import Effect, SimpleCommand

MAX_CASES = 400
"""Commands that each exception is tried on."""


def check(subject: Subject) -> Iterator[Finding]:
    """Every exception to a rule in force; of those of a project to rules above it, the expired ones."""
    for rule, exception in subject.exceptions:
        if not exception.holds(subject.now):
            yield _expired(subject, exception)
        else:
            yield from _idle(subject, rule, exception)
    yield from (_expired(subject, each) for each in subject.policy.exceptions if not each.holds(subject.now))


def _expired(subject: Subject, exception: RuleException) -> Finding:
    message = f"expired on {exception.expires}: {exception.rule} holds without it"
    witness = subject.case((*exception.tests.match, "ls")[0]).witness
    return Finding(subject.place_of(exception, "expires"), exception.rule, message, witness)


def _idle(subject: Subject, rule: CompiledRule, exception: RuleException) -> Iterator[Finding]:
    excuse = next(each for each in rule.excuses if each.by is exception)
    own = [e for e in examples.examples_of_exception(rule.rule, exception) if e.kind == "match"]
    others = [e for e in examples.examples_of(rule.rule) if e.kind == "match"]
    shown = [subject.case(e.command, rule, given=e.given) for e in (*own, *others)]
    concerned = [case for case in shown if _units(case, rule)]
    excused = [case for case in concerned if _all_excused(case, rule, excuse.clause)]
    place = subject.place_of(exception, "when")
    if concerned and len(excused) == len(concerned) and {e.line for e in others} - {e.line for e in own}:
        message = f"excuses all that {rule.rule.id} is shown to be about: override the rule, if that is meant"
        yield Finding(place, rule.rule.id, message, excused[-1].witness)
    elif not excused and not any(_all_excused(c, rule, excuse.clause) for c in islice(subject.cases(rule), MAX_CASES)):
        message = f"found no command that it excuses from {rule.rule.id}"
        nearest = concerned[0] if concerned else subject.case("ls")
        yield Finding(place, rule.rule.id, message, nearest.witness, unknown=not own)


def _units(case: Case, rule: CompiledRule) -> list[tuple[SimpleCommand, Effect | None]]:
    """What of a command the rule is about."""
    return [(c, e) for c, e in case.units(rule) if rule.when(c, e, case.situation) != NO]


def _all_excused(case: Case, rule: CompiledRule, clause: Clause) -> bool:
    units = _units(case, rule)
    return bool(units) and all(clause(c, e, case.situation) == YES for c, e in units)


CHECK = Check(
    "idle-exception",
    "warning",
    "An exception has expired, excuses nothing, or excuses all that its rule is about.",
    check,
)
