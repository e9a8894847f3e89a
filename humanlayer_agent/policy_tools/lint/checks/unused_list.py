"""unused-list: a list that nothing names."""

from collections.abc import Iterable, Iterator
from typing import Any

from humanlayer_agent.policy.conditions.path_patterns import fill
from humanlayer_agent.policy_tools.lint import boundary_values
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.subject import File, Subject


def check(subject: Subject) -> Iterator[Finding]:
    """Every list of the files that are linted, which nothing in them or in the files that extend them names."""
    for n, file in enumerate(subject.files):
        lists = file.document.data.get("lists") or {}
        for name, value in lists.items() if file.linted else ():
            # What is added to a list of an extended file is used where that list is.
            if isinstance(value, list | str) and not _used(name, subject.files[n:]):
                command = _command(subject, n, name)
                message = f"nothing names ${name}: nothing is decided by it"
                yield Finding(file.place(("lists", name)), f"${name}", message, subject.case(command).witness)


def used(finding: Finding, subjects: Iterable[Subject]) -> bool:
    """Is the list that a finding is about used in one of these policies?"""
    for subject in subjects:
        for n, file in enumerate(subject.files):
            if file.source.name == finding.place.file and _used(finding.about[1:], subject.files[n:]):
                return True
    return False


def _used(name: str, files: tuple[File, ...]) -> bool:
    reference = f"${name}"
    parts = ("rules", "exceptions", "lists", "confinements")
    return any(reference in _strings([file.document.data.get(part) for part in parts]) for file in files)


def _strings(value: Any) -> set[str]:
    """Every text in `value`, but for the examples of rules, which may hold anything."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):
        return set().union(*(_strings(inner) for key, inner in value.items() if key != "tests"))
    return set().union(*(_strings(inner) for inner in value)) if isinstance(value, list) else set()


def _command(subject: Subject, scope: int, name: str) -> str:
    """A command about the first thing in the list."""
    entry = next(iter(subject.policy.scopes[scope].get(name, ())), "a")
    if entry.startswith(("/", "~", "**/", "${")):
        return f"cat {boundary_values.path_in(fill(entry, subject.director.variables))}"
    return f"curl https://{boundary_values.host_in(entry)}" if "." in entry else f"printenv {entry}"


CHECK = Check("unused-list", "note", "No rule, no exception and no confinement names a list.", check)
