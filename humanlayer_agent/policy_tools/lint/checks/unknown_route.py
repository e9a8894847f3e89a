"""unknown-route: a rule names a route that no channels file has."""

from collections.abc import Iterator

from humanlayer_agent.policy.language.routes import name_of
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    """Every rule whose route is not there, where it is known which there are."""
    if subject.routes is None:
        return
    for rule in subject.linted:
        if (name := name_of(rule.rule)) not in subject.routes:
            case = subject.any_hit(rule)
            there = ", ".join(sorted(subject.routes)) or "none"
            message = f"names the route {name}, and there is none: agents don't start (there are: {there})"
            yield Finding(subject.place(rule.rule, "route"), rule.rule.id, message, case.witness if case else None)


CHECK = Check("unknown-route", "error", "A rule names a route that no channels file has.", check)
