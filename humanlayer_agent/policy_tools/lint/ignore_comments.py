"""Comments that say that a finding is meant to be so.

    # lint: ignore broad-allow - this policy is for containers

Above a line, or at its end, inside a rule or a list: it counts for that rule or list; at `rules:` or `lists:`, for all
of them. It names the checks, and must give a reason, which is reported with the finding.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from humanlayer_agent.policy.language.yaml_positions import Key
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.subject import File, Subject

_COMMENT = re.compile(r"(?:^|\s)#\s*lint:")
_SAID = re.compile(r"ignore\s+(?P<checks>[a-z-]+(?:\s*,\s*[a-z-]+)*)\s+-\s+(?P<reason>\S.*)")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment in a file: where it stands, the checks it names, its reason, and what it counts for.

    `checks` is empty where it is not of the form above.
    """

    line: int
    column: int
    checks: tuple[str, ...]
    reason: str
    path: tuple[Key, ...]

    def covers(self, finding: Finding) -> bool:
        return finding.check in self.checks and finding.place.path[: len(self.path)] == self.path


def ignored(subject: Subject, findings: Iterable[Finding], known: Collection[str]) -> Iterator[Finding]:
    """`findings`, those that a comment covers with its reason; and a finding for each comment that is of no use.

    Args:
        known: the names of all checks.
    """
    comments = {file.source.name: list(_comments(file)) for file in subject.files if file.linted}
    used: set[int] = set()
    for finding in findings:
        comment = next((c for c in comments[finding.place.file] if c.covers(finding)), None)
        if comment is None:
            yield finding
        else:
            used.add(id(comment))
            yield replace(finding, ignored=comment.reason)
    for file in subject.files:
        for comment in comments.get(file.source.name, ()):
            if id(comment) not in used:
                yield _unused(file, comment, known)


def _comments(file: File) -> Iterator[Comment]:
    lines = file.document.text.split("\n")
    for number, text in enumerate(lines, 1):
        found = _COMMENT.search(text)
        if found is None or not _is_comment(file, number, found.start()):
            continue
        said = _SAID.fullmatch(text[found.end() :].strip())
        checks = tuple(re.split(r"\s*,\s*", said["checks"])) if said else ()
        above = not text[: found.start()].strip()
        path = _path(file, _next(lines, number) if above else number)
        yield Comment(number, text.index("#", found.start()) + 1, checks, said["reason"] if said else "", path)


def _is_comment(file: File, line: int, start: int) -> bool:
    """Is it no part of a text that stands on the line?"""
    values = (p for p in file.document.positions.values() if p.line == line and p.width < 10_000)
    return not any(p.column - 1 <= start < p.column - 1 + p.width for p in values)


def _next(lines: list[str], number: int) -> int:
    """The next line with something other than a comment."""
    for n, text in enumerate(lines[number:], number + 1):
        if text.strip() and not text.lstrip().startswith("#"):
            return n
    return number


def _path(file: File, line: int) -> tuple[Key, ...]:
    """The rule or list that the line belongs to, or all of them."""
    # A section stands where its key is; its value begins with the first rule or list.
    found = [path for path, at in file.document.positions.items() if at.line == line and len(path) > 1]
    plain = [path[:-1] if path[-1] == "\0key" else path for path in found]
    first = min(plain, key=len, default=("\0nothing",))
    return first[:2] if first[0] in ("rules", "lists") else ("\0nothing",)


def _unused(file: File, comment: Comment, known: Collection[str]) -> Finding:
    strange = [name for name in comment.checks if name not in known]
    if not comment.checks:
        message = "expected: lint: ignore CHECK - REASON"
    elif strange:
        message = f"there is no check {', '.join(strange)}"
    else:
        message = f"hides nothing: {', '.join(comment.checks)} finds nothing here"
    about = str(comment.path[1]) if len(comment.path) > 1 and comment.path[0] == "lists" else ""
    place = replace(file.place(comment.path), line=comment.line, column=comment.column)
    return Finding(place, about, message, None, CHECK.id, CHECK.level)


CHECK = Check("unused-ignore", "note", "A comment hides no finding.", lambda subject: ())
