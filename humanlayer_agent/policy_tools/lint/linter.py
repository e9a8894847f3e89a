"""Runs every check on a policy."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.lint import ignore_comments
from humanlayer_agent.policy_tools.lint.checks import (
    broad_allow,
    failing_test,
    idle_exception,
    never_matches,
    no_reason,
    no_test,
    overridden,
    partial_excuse,
    redundant,
    regex_slow,
    shadowed,
    suggestion_denied,
    unknown_placeholder,
    unknown_route,
    unused_list,
    vacuous,
)
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.subject import Subject

Progress = Callable[[str], None]

CHECKS: tuple[Check, ...] = tuple(
    module.CHECK
    for module in (
        broad_allow,
        failing_test,
        idle_exception,
        never_matches,
        no_reason,
        no_test,
        overridden,
        partial_excuse,
        redundant,
        regex_slow,
        shadowed,
        suggestion_denied,
        unknown_placeholder,
        unknown_route,
        ignore_comments,
        unused_list,
        vacuous,
    )
)
"""Every check, by name."""


def lint(
    policy: Policy, progress: Progress = lambda check: None, *, routes: Collection[str] | None = None
) -> list[Finding]:
    """Everything that is wrong with a policy, by place.

    What ships with the package is taken as it is, unless it is the policy itself.

    Args:
        progress: is told the name of each check before it runs.
        routes: the names of those that there are; None where that is not known.

    Raises:
        PolicyError: a file of it has changed since it was loaded.
    """
    return lint_all([policy], progress, routes=routes)


def lint_all(
    policies: Sequence[Policy], progress: Progress = lambda check: None, *, routes: Collection[str] | None = None
) -> list[Finding]:
    """The same for several policies: what two have in common counts once, and a list that one of them uses is used."""
    subjects = [Subject(policy, routes=routes) for policy in policies]
    found = dict.fromkeys(finding for subject in subjects for finding in _linted(subject, progress))
    return _sorted(f for f in found if f.check != unused_list.CHECK.id or not unused_list.used(f, subjects))


def lint_file(
    path: Path, progress: Progress = lambda check: None, *, routes: Collection[str] | None = None
) -> list[Finding]:
    """The same for a file. One that is refused for a regular expression gives findings instead of an error.

    Raises:
        PolicyError: it can't be loaded for another reason.
    """
    return lint_files([path], progress, routes=routes)


def lint_files(
    paths: Sequence[Path], progress: Progress = lambda check: None, *, routes: Collection[str] | None = None
) -> list[Finding]:
    """The same for several files."""
    policies, refused = [], []
    for path in paths:
        try:
            policies.append(load(path, tested=False))
        except PolicyError:
            found = regex_slow.of_broken_file(path)
            if not found:
                raise
            refused += found
    return _sorted([*refused, *lint_all(policies, progress, routes=routes)])


def _linted(subject: Subject, progress: Progress) -> Iterator[Finding]:
    found: list[Finding] = []
    for check in CHECKS:
        progress(check.id)
        found += (replace(f, check=check.id, level=f.level or check.level) for f in check.run(subject))
    return ignore_comments.ignored(subject, found, {check.id for check in CHECKS})


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda f: (f.place.file, f.place.line, f.place.column, f.check))
