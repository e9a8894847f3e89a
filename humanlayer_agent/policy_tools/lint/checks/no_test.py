"""no-test: a rule without an example that it matches, or without one that it must leave alone."""

import shlex
from collections.abc import Iterator

from humanlayer_agent.policy.conditions.evaluation import CompiledRule
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy_tools.lint import sample_commands
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.subject import Subject
from humanlayer_agent.policy_tools.lint.witnesses import Case


def check(subject: Subject) -> Iterator[Finding]:
    """Every rule in force; the witness is an example that could be added."""
    for rule in subject.linted:
        if sample_commands.about_calls(rule.rule.when):
            continue  # the examples are commands
        kinds = {each.kind for each in examples.examples_of(rule.rule) if each.exception is None}
        if kinds.isdisjoint({"match", "maybe"}):
            hit = next((c for c in subject.hit_by(rule) if any(h.certain for h in c.hits_of(rule))), None)
            found = f"it applies to `{hit.command}`" if hit else "found no command that it applies to"
            yield _finding(
                subject, rule, f"no `match` example shows where it applies; {found}", hit or _miss(subject, rule)
            )
        if "not_match" not in kinds:
            miss = _miss(subject, rule)
            found = f"; it does not apply to `{miss.command}`" if miss else ""
            yield _finding(subject, rule, f"no `not_match` example shows what it leaves alone{found}", miss)
    for rule, exception in subject.exceptions:
        shown = {each.kind for each in examples.examples_of_exception(rule.rule, exception)}
        lacks = [kind for kind in examples.EXCUSED if kind not in shown]
        if lacks:
            hit = subject.any_hit(rule)
            message = f"the exception has no {' and no '.join(f'`{kind}`' for kind in lacks)} example"
            witness = hit.witness if hit is not None else None
            yield Finding(subject.place_of(exception, "tests"), rule.rule.id, message, witness)


def _finding(subject: Subject, rule: CompiledRule, message: str, example: Case | None) -> Finding:
    witness = example.witness if example is not None else None
    return Finding(subject.place(rule.rule, "tests"), rule.rule.id, message, witness)


def _miss(subject: Subject, rule: CompiledRule) -> Case | None:
    """A command that it leaves alone: for one clause only, else one that only speaks of what it matches."""
    if len(rule.clauses) > 1:
        for case in subject.cases(rule):
            failed = case.failed(rule)
            if not case.hits_of(rule) and case.decision.parse == "ok" and failed is not None and len(failed) == 1:
                return case
    hit = subject.any_hit(rule)
    told = subject.case(f"echo {shlex.quote(hit.command)}") if hit is not None else None
    if told is not None and not told.hits_of(rule):
        return told
    return next((case for case in subject.cases(rule) if not case.hits_of(rule)), None)


CHECK = Check(
    "no-test", "warning", "A rule or exception has no example that it matches, or none that it must leave alone.", check
)
