"""The text being read: a cursor, its limits, and the way back from a nested text to the original offsets."""

import re

from humanlayer_agent.shell.syntax.refusal import Unparsed

MAX_CHARS = 1 << 16
"""Longest text that is read, in code points."""
MAX_DEPTH = 24
"""Deepest nesting of substitutions, groups, loops and the like, counted together."""
MAX_WORDS = 4000
"""Most words, redirects and separators of one text, at all depths together."""
MAX_STEPS = 8 * MAX_CHARS
"""Most cursor steps for one text: the bound on work that no input can pass."""

BLANK = " \t"
NEWLINE = "\n"

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_ORDINARY = bytes([9, 10, *range(32, 127)])
"""All of ASCII that is read: a tab, a newline, and what can be printed."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def refusal(text: str) -> str | None:
    """Why `text` is refused before a character of it is read, or None.

    A carriage return or an escape sequence can make a human see another command than bash runs, NUL ends the
    text for `bash -c`, and what Python calls a surrogate bash never gets as such.
    """
    if len(text) > MAX_CHARS:
        return "text too long"
    ascii_only = text.isascii()
    if ascii_only and not text.encode().translate(None, _ORDINARY):
        return None  # as most are
    if _CONTROL.search(text):
        return "control character"
    if not ascii_only and _SURROGATE.search(text):
        return "undecodable bytes"
    return None


class Budget:
    """What one call of `parse` may still spend; shared by all nested lexers.

    Attributes:
        words: words left.
        steps: cursor steps left (one a token, word piece or body line).
    """

    __slots__ = ("steps", "words")

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.words = MAX_WORDS
        self.steps = steps

    def word(self) -> None:
        """Spend one word.

        Raises:
            Unparsed: there are more than MAX_WORDS.
        """
        self.words -= 1
        if self.words < 0:
            raise Unparsed("too many words")

    def step(self) -> None:
        """Spend one step.

        Raises:
            Unparsed: the text costs more than MAX_STEPS.
        """
        self.steps -= 1
        if self.steps < 0:
            raise Unparsed("too much work")


class Source:
    """A text and where its characters stand in the original.

    Most texts are the original itself. The body of backticks and of an unquoted here-document is another
    text (escapes, tabs and line continuations removed): there `offsets[i]` is the original offset of character i,
    with one more for the end.
    """

    __slots__ = ("offsets", "original", "text")

    def __init__(self, text: str, original: str | None = None, offsets: list[int] | None = None) -> None:
        self.text = text
        self.original = text if original is None else original
        self.offsets = offsets

    def at(self, index: int) -> int:
        """The original offset of character `index` of this text."""
        return index if self.offsets is None else self.offsets[index]

    def slice(self, start: int, end: int) -> str:
        """The original text between two indexes of this text."""
        return self.original[self.at(start) : self.at(end)]


class Cursor:
    """A position in a source, with the moves that every lexer needs."""

    def __init__(self, source: Source, budget: Budget, depth: int) -> None:
        self.source = source
        self.text = source.text
        self.index = 0
        self.length = len(source.text)
        self.budget = budget
        self.depth = depth

    def fail(self, reason: str) -> Unparsed:
        """The error to raise for a construct that is refused here."""
        return Unparsed(reason, self.source.at(min(self.index, self.length)))

    def enter(self) -> None:
        """Go one level deeper.

        Raises:
            Unparsed: that is deeper than MAX_DEPTH.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail("nested too deeply")

    def peek(self, ahead: int = 0) -> str:
        """The character `ahead` of the cursor, or "" past the end."""
        index = self.index + ahead
        return self.text[index] if index < self.length else ""

    def looking_at(self, string: str) -> bool:
        """Whether `string` stands at the cursor."""
        return self.text.startswith(string, self.index)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """`pattern` matched at the cursor, which does not move."""
        return pattern.match(self.text, self.index)

    def continuation(self) -> None:
        """Pass a backslash-newline that stands between tokens.

        bash deletes it before it makes tokens, so inside one it joins what we would see apart (`b\\⏎c=1`, `&\\⏎&`).

        Raises:
            Unparsed: it may be inside a token.
        """
        before = self.text[self.index - 1] if self.index else ""
        after = self.peek(2)
        apart = before in " \t\n" or after in " \t\n"
        if not apart and not (before in ";|&()<>" and (after.isalnum() or after in "_./")):
            raise self.fail("line continuation inside a token")
        self.index += 2

    def blanks(self) -> None:
        """Pass blanks and line continuations."""
        text = self.text
        while self.index < self.length:
            if text[self.index] in BLANK:
                self.index += 1
            elif text.startswith("\\\n", self.index):
                self.continuation()
            else:
                return
            self.budget.step()

    def comment(self) -> None:
        """Pass a comment, up to its newline. A backslash at its end continues nothing."""
        end = self.text.find(NEWLINE, self.index)
        self.index = self.length if end < 0 else end
