"""no-reason: a rule that tells people neither why it decides so, nor what could be done instead."""

from collections.abc import Iterator

from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    """A rule without a reason, and an ask or deny without a suggestion."""
    for rule in subject.linted:
        lacks = [] if rule.rule.reason else ["reason"]
        if rule.rule.decision != "allow" and not rule.rule.suggestion:
            lacks.append("suggestion")
        if lacks:
            case = subject.any_hit(rule)
            shown = (
                f"; of `{case.command}` people are told only: {case.decision.reason or rule.rule.id}" if case else ""
            )
            message = f"has no {' and no '.join(lacks)}{shown}"
            witness = case.witness if case is not None else None
            yield Finding(subject.place(rule.rule), rule.rule.id, message, witness)


CHECK = Check("no-reason", "note", "A rule has no reason, or an ask or deny has no suggestion.", check)
