"""regex-slow: a regular expression that can't be matched in linear time, or that needs a large automaton."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.linear_regex import MAX_STATES, Regex
from humanlayer_agent.policy.language import sources, yaml_positions
from humanlayer_agent.policy.language.policy import Source
from humanlayer_agent.policy_tools.lint.finding import Check, Finding, Place, Witness
from humanlayer_agent.policy_tools.lint.subject import File, Subject

LARGE = 300
"""States beyond which a pattern is slow: each character of a word takes up to so many steps."""


def check(subject: Subject) -> Iterator[Finding]:
    """Every regular expression of the files that are linted."""
    for file in subject.files:
        if file.linted:
            for finding, word in _of(file):
                yield _with_witness(subject, file, finding, word)


def of_broken_file(path: Path) -> list[Finding]:
    """The findings in a file that can't be loaded (for which one of them may be the reason); without a verdict."""
    raw = sources.read(path)
    try:
        document = yaml_positions.decode(raw, sources.name_of(path))
    except PolicyError:
        return []
    file = File(Source(document.name, str(path), ""), document, linted=True)
    refused = [(finding, word) for finding, word in _of(file) if finding.level == "error"]
    return [_unjudged(file, finding, word) for finding, word in refused]


def _of(file: File) -> Iterator[tuple[Finding, str]]:
    """Findings without a witness, each with a word that the pattern is to be tried on."""
    for path, pattern in _patterns(file.document.data, ()):
        place = file.place(path)
        try:
            regex = Regex(pattern)
        except ValueError as error:
            yield (
                Finding(place, _about(file, path), f"`{pattern}` can't be used: {error}", None, level="error"),
                "a" * 40,
            )
            continue
        if regex.size > LARGE:
            message = f"`{pattern}` takes up to {regex.size} steps for each character of a word (at most {MAX_STATES})"
            yield Finding(place, _about(file, path), message, None, level="warning"), regex.shortest() or "a" * 40


def _patterns(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "regex" and isinstance(inner, str):
                yield (*path, key), inner
            else:
                yield from _patterns(inner, (*path, key))
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from _patterns(inner, (*path, n))


def _about(file: File, path: tuple[str | int, ...]) -> str:
    """The id of the rule that `path` leads into."""
    rule = _rule(file, path)
    return str(rule.get("id", "")) if rule is not None else ""


def _rule(file: File, path: tuple[str | int, ...]) -> dict[str, Any] | None:
    if len(path) < 2 or path[0] != "rules":
        return None
    found = file.document.data["rules"][path[1]]
    return found if isinstance(found, dict) else None


def _command(file: File, place: Place, word: str) -> str:
    """A command with a word that costs most: after the program of the rule's first example, if it has one."""
    rule = _rule(file, place.path) or {}
    tests = rule.get("tests")
    examples = tests.get("match") if isinstance(tests, dict) else None
    start = str(examples[0]).split(" ")[0] if isinstance(examples, list) and examples else "echo"
    return f"{start} {word}"


def _with_witness(subject: Subject, file: File, finding: Finding, word: str) -> Finding:
    witness = subject.case(_command(file, finding.place, word)).witness
    return Finding(finding.place, finding.about, finding.message, witness, level=finding.level)


def _unjudged(file: File, finding: Finding, word: str) -> Finding:
    witness = Witness(_command(file, finding.place, word))
    return Finding(finding.place, finding.about, finding.message, witness, CHECK.id, finding.level)


CHECK = Check("regex-slow", "warning", "A regular expression can't be matched in linear time, or is large.", check)
