"""shadowed: an allow that never decides, because an ask or deny always applies too."""

from collections.abc import Iterator

from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.implication import Prover, condition
from humanlayer_agent.policy_tools.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    """An allow that was found in no command that is allowed: shown by a proof, else unknown."""
    prover = Prover()
    stops = [
        condition(rule, subject.compiler(rule.rule)) for rule in subject.rules if rule.verdict is not Verdict.ALLOW
    ]
    for rule in subject.linted:
        hit = next(subject.hit_by(rule), None) if rule.verdict is Verdict.ALLOW else None
        if hit is None or any(case.allowed for case in subject.hit_by(rule)):
            continue
        mine = condition(rule, subject.compiler(rule.rule))
        # Where it applies only confined, what asks but for that allows too.
        others = [each for each in stops if not (rule.rule.only_confined and each.rule.confined is not None)]
        shadow = next((each.rule.rule for each in others if prover.stops(mine, each)), None)
        if shadow is not None:
            message = f"never decides: {shadow.id} ({shadow.decision}, {shadow.origin}) applies wherever it does"
        else:
            by = ", ".join(hit.decision.rules) or "no other rule allows the rest of it"
            message = f"found no command that it allows: {by}"
        yield Finding(subject.place(rule.rule), rule.rule.id, message, hit.witness, unknown=shadow is None)


CHECK = Check("shadowed", "error", "An allow never decides: an ask or deny always applies too.", check)
