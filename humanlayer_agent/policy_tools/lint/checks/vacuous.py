"""vacuous: the condition of a rule can never hold, so that the rule says nothing."""

from collections.abc import Iterator

from humanlayer_agent.policy.conditions.evaluation import CompiledRule
from humanlayer_agent.policy.conditions.kleene import NO
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.implication import Prover, condition, impossible
from humanlayer_agent.policy_tools.lint.subject import Subject
from humanlayer_agent.policy_tools.lint.witnesses import Case


def check(subject: Subject) -> Iterator[Finding]:
    """A rule that applies to no command for certain: shown by a proof, else unknown."""
    for rule in subject.linted:
        if not any(hit.certain for case in subject.hit_by(rule) for hit in case.hits_of(rule)):
            yield from _finding(subject, rule)


def _finding(subject: Subject, rule: CompiledRule) -> Iterator[Finding]:
    found = condition(rule, subject.compiler(rule.rule))
    nearest, failed = _nearest(subject, rule)
    near = f"; `{nearest.command}` comes nearest, where {_listed(failed)} not so" if nearest and failed else ""
    why, field = impossible(found.when), "when"
    if why:
        message = f"`when` can never hold: {why}{near}"
    elif Prover().excused(found):
        field, message = "unless", "`unless` excuses everything that `when` is about"
        nearest = next((c for c in subject.cases(rule) if _held(c, rule)), nearest)
    elif subject.any_hit(rule) is not None:
        return  # it may apply to commands that are not fully known: that is not nothing
    else:
        message = f"found no command that it applies to{near}"
    unknown = not why and field == "when"
    witness = nearest.witness if nearest is not None else None
    yield Finding(subject.place(rule.rule, field), rule.rule.id, message, witness, unknown=unknown)


def _nearest(subject: Subject, rule: CompiledRule) -> tuple[Case | None, list[str]]:
    """The command for which the fewest clauses fail, and those."""
    best: tuple[Case | None, list[str]] = (None, [])
    for case in subject.cases(rule):
        failed = case.failed(rule)
        if failed is not None and (best[0] is None or len(failed) < len(best[1])):
            best = case, failed
    return best


def _held(case: Case, rule: CompiledRule) -> bool:
    return any(rule.when(command, effect, case.situation) != NO for command, effect in case.units(rule))


def _listed(names: list[str]) -> str:
    shown = ", ".join("`not`" if name == "negated" else f"`{name}`" for name in names)
    return f"{shown} {'is' if len(names) == 1 else 'are'}"


CHECK = Check("vacuous", "error", "The condition of a rule can never hold.", check)
