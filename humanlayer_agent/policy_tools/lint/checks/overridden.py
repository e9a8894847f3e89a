"""overridden: an `override` that has expired, or that changes nothing."""

from collections.abc import Iterator

from humanlayer_agent.policy.conditions.evaluation import CompiledRule
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.policy import Override, Rule
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.implication import Prover, condition
from humanlayer_agent.policy_tools.lint.subject import Subject
from humanlayer_agent.policy_tools.lint.witnesses import Case

_SAID = ("decision", "severity", "reason", "suggestion", "route", "grant")


def check(subject: Subject) -> Iterator[Finding]:
    """Every override of the files that are linted."""
    for rule in subject.written:
        if rule.override is not None:
            found = _expired if rule.override.expires < subject.now else _idle
            yield from found(subject, rule, rule.override)


def _expired(subject: Subject, rule: Rule, override: Override) -> Iterator[Finding]:
    message = f"expired on {override.expires}: {override.rule} holds again, and this rule says nothing"
    place = subject.place(rule, "override", "expires")
    yield Finding(place, rule.id, message, _example(subject, rule).witness)


def _idle(subject: Subject, rule: Rule, override: Override) -> Iterator[Finding]:
    """An override without which all is decided the same."""
    compiled = next((each for each in subject.rules if each.rule is rule), None)
    if compiled is None:
        return
    original = next(r for r in subject.policy.rules if r.overridden is not None and r.overridden.rule == rule.id)
    before = _before(subject, rule)
    if any(_told_apart(case, before) for case in subject.cases(compiled)):
        return
    same = all(getattr(rule, key) == getattr(original, key) for key in _SAID) and _equal(subject, compiled, before)
    what = "says what it replaces says" if same else "found no command that is decided otherwise without it"
    place = subject.place(rule, "override")
    message = f"{what} ({override.rule}, {original.origin})"
    yield Finding(place, rule.id, message, _example(subject, rule).witness, unknown=not same)


def _equal(subject: Subject, compiled: CompiledRule, before: Director) -> bool:
    """Do both rules have the same condition?"""
    rule = compiled.rule
    override = rule.override
    original = next(c for c in before.in_force().rules.all if override is not None and c.rule.id == override.rule)
    one, other = (condition(each, subject.compiler(each.rule)) for each in (compiled, original))
    return Prover().covers(one, other) and Prover().covers(other, one)


def _before(subject: Subject, rule: Rule) -> Director:
    """The policy as it is without the override."""
    bodies = []
    for each, body in zip(subject.policy.rules, subject.policy.body["rules"], strict=True):
        if each.overridden is not None and each.overridden.rule == rule.id:
            bodies.append({key: value for key, value in body.items() if key != "overridden"})
        elif each is not rule:
            bodies.append(body)
    return subject.changed(bodies)


def _told_apart(case: Case, before: Director) -> bool:
    """Does the override change anything that is decided or said?"""
    old = before.judge(case.program, case.situation, case.command)
    new = case.decision
    return any(
        getattr(old, key) != getattr(new, key)
        for key in ("verdict", "severity", "default_hit", "route", "limits", "reason", "suggestion")
    )


def _example(subject: Subject, rule: Rule) -> Case:
    """A command that the rule was written for."""
    first = next((each for each in examples.examples_of(rule) if each.kind in ("match", "maybe")), None)
    if first is not None:
        return subject.case(first.command, given=first.given)
    from humanlayer_agent.policy_tools.lint import sample_commands

    return subject.case(next(sample_commands.commands(subject, rule), "ls"))


CHECK = Check("overridden", "warning", "An override has expired, or changes nothing.", check)
