"""suggestion-denied: what a rule suggests instead is not allowed by the policy itself."""

import re
from collections.abc import Iterator

from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.language.policy import Rule
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.subject import Subject
from humanlayer_agent.policy_tools.lint.witnesses import Case
from humanlayer_agent.shell import BUILTINS

_QUOTED = re.compile(r"`([^`]+)`")


def check(subject: Subject) -> Iterator[Finding]:
    """Every `quoted command` of every suggestion."""
    # A file that allows nothing is made to be extended: there, only a rule that stops the command tells against it.
    allows = any(rule.verdict is Verdict.ALLOW for rule in subject.rules)
    for rule in subject.linted:
        for command in _QUOTED.findall(rule.rule.suggestion):
            yield from _judged(subject, rule.rule, command, allows)


def _judged(subject: Subject, rule: Rule, command: str, allows: bool) -> Iterator[Finding]:
    place = subject.place(rule, "suggestion")
    case = subject.case(command)
    if "{{" in command or not _is_command(command):
        message = f"can't tell whether `{command}` is a command that would be allowed"
        yield Finding(place, rule.id, message, case.witness, unknown=True)
    elif not case.allowed and (allows or not case.decision.default_hit):
        message = f"suggests `{command}`, for which the verdict is {case.decision.verdict}{_by(case)}"
        yield Finding(place, rule.id, message, case.witness)


def _is_command(text: str) -> bool:
    name = text.split()[0] if text.split() else ""
    return name in BUILTINS or CATALOG.lookup(name.rpartition("/")[2]) is not None


def _by(case: Case) -> str:
    return f" ({', '.join(case.decision.rules) or 'no rule allows it'})"


CHECK = Check("suggestion-denied", "warning", "A rule suggests a command that the policy does not allow.", check)
