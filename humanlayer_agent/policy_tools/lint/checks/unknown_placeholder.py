"""unknown-placeholder: a reason or suggestion with a `{{ name }}` that stands for nothing."""

import re
from collections.abc import Iterator

from humanlayer_agent.policy.verdict import render
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.subject import Subject

_ANY = re.compile(r"\{\{[^{}]*\}\}|\{\{|\}\}")


def check(subject: Subject) -> Iterator[Finding]:
    """Every placeholder of every rule that hits something."""
    for rule in subject.linted:
        for field in ("reason", "suggestion"):
            placeholders = dict.fromkeys(_ANY.findall(getattr(rule.rule, field)))
            case = subject.any_hit(rule) if placeholders else None
            if case is None:
                continue
            hit = case.hits_of(rule)[0]
            for placeholder in placeholders:
                # A value may look like a placeholder itself, so the name is tried and not what comes of it.
                if render(placeholder, hit) == placeholder:
                    message = f"{placeholder} stands for nothing: people are shown it as it is"
                    yield Finding(subject.place(rule.rule, field), rule.rule.id, message, case.witness)


CHECK = Check(
    "unknown-placeholder", "warning", "A reason or suggestion has a placeholder that stands for nothing.", check
)
