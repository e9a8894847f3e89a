"""Building one word from its pieces: merging literals, the text after quote removal, and what is a pattern."""

import re
from enum import Enum

from humanlayer_agent.shell.syntax.cursor import Source
from humanlayer_agent.shell.syntax.tree import Lit, Part, Word

HOLE = "\x01"
"""Stands for a part that can't glob; no source text contains it, because control characters are refused."""

ASSIGNMENT_LIKE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
TILDE_AFTER = re.compile(r"[=:]~")


class Role(Enum):
    """What bash expands in a word besides `$`: everything, only a tilde, or nothing."""

    WORD = "word"
    VALUE = "value"
    BODY = "body"


def is_pattern(shape: str, role: Role) -> bool:
    """Whether an unquoted glob, brace or tilde makes the word's value depend on more than its text.

    Args:
        shape: the word with HOLE for each part that is quoted or an expansion.
        role: where the word stands.
    """
    if role is Role.BODY:
        return False
    if "~" in shape:
        if shape[0] == "~":
            return True
        if role is Role.VALUE:
            return ":~" in shape
        # `make DESTDIR=~/x`: bash expands a tilde in every word that looks like an assignment
        head = ASSIGNMENT_LIKE.match(shape)
        if head and TILDE_AFTER.search(shape, head.end() - 1):
            return True
    if role is Role.VALUE:
        return False
    if "*" in shape or "?" in shape:
        return True
    bracket = shape.find("[")
    if bracket >= 0 and shape.rfind("]") > bracket + 1:
        return True
    brace = shape.find("{")
    if brace < 0:
        return False
    inside = shape[brace : shape.rfind("}") + 1]
    return "," in inside or ".." in inside


class WordBuilder:
    """Collects the pieces of a word.

    Attributes:
        quoted: any piece so far was quoted.
    """

    __slots__ = ("_parts", "_run", "_run_quoted", "quoted")

    def __init__(self) -> None:
        self.quoted = False
        self._parts: list[Part] = []
        self._run: list[str] = []
        self._run_quoted = False

    def literal(self, text: str, quoted: bool) -> None:
        """Add literal text, after quote removal."""
        if quoted:
            self.quoted = True
        if not text:
            return
        if self._run and self._run_quoted is not quoted:
            self._flush()
        self._run_quoted = quoted
        self._run.append(text)

    def part(self, part: Part) -> None:
        """Add an expansion."""
        self._flush()
        self._parts.append(part)

    def _flush(self) -> None:
        if self._run:
            self._parts.append(Lit("".join(self._run), self._run_quoted))
            self._run = []

    def expansions(self) -> list[Part]:
        """The parts that are not literal."""
        self._flush()
        return [part for part in self._parts if not isinstance(part, Lit)]

    def finish(self, source: Source, start: int, end: int, role: Role = Role.WORD) -> Word:
        """The word, which stands at [start, end) of `source`."""
        self._flush()
        parts = self._parts
        known = [part for part in parts if isinstance(part, Lit)]
        dynamic = len(known) != len(parts)
        text = None if dynamic else "".join([part.text for part in known])
        shape = "".join([part.text if isinstance(part, Lit) and not part.quoted else HOLE for part in parts])
        if role is not Role.BODY and not dynamic and (not parts or (len(parts) == 1 and _whole(parts[0], self.quoted))):
            parts = []
        return Word(
            raw=source.slice(start, end),
            text=text,
            start=source.at(start),
            end=source.at(end),
            dynamic=dynamic,
            pattern=bool(shape) and is_pattern(shape, role),
            quoted=self.quoted,
            parts=parts,
        )


def _whole(part: Part, quoted: bool) -> bool:
    """Whether the word's flags alone say what `part` says."""
    return isinstance(part, Lit) and part.quoted is quoted
