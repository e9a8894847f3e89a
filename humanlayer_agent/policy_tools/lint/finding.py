"""A finding of the linter, with its place and its witness, a command that shows it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from humanlayer_agent.policy_tools.lint.subject import Subject

Level = Literal["note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands in a policy file: `file` is its name in messages, `disk` its path.

    `path` leads to the value in the document; line and column count from 1, columns in code points.
    """

    file: str
    disk: str
    line: int
    column: int
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Witness:
    """A command that shows a finding, what the policy says of it, and by which rules.

    `verdict` is "" where the policy can't be loaded, so that it judges nothing.
    """

    command: str
    verdict: str = ""
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a policy.

    `about` is the id of the policy's rule, or the list. `unknown`: it could be neither shown nor ruled out. `ignored`
    is the reason that a comment in the file gives for it to be so. The linter fills in `check`, and `level` where it
    is empty.
    """

    place: Place
    about: str
    message: str
    witness: Witness | None
    check: str = ""
    level: Level | Literal[""] = ""
    unknown: bool = False
    ignored: str = ""

    @property
    def counts(self) -> bool:
        """Is it known to be wrong, and not meant to be so?"""
        return not self.unknown and not self.ignored


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its name (also that of its documentation page), and one sentence on what it finds."""

    id: str
    level: Level
    summary: str
    run: "Callable[[Subject], Iterable[Finding]]"
