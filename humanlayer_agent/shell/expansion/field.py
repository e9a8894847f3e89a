"""A Field: what one word of a command becomes, as far as that is certain."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.interpreter.state import Anything, Glob, Paths
from humanlayer_agent.shell.syntax.tree import Param, Word

if TYPE_CHECKING:
    from humanlayer_agent.shell.program import SimpleCommand

PROCESS_SUBSTITUTION = "/dev/fd/63"
"""What bash puts in the place of `<( )`: a path of this form."""

WILD = re.compile(r"[*?]|\[.*\]", re.DOTALL)
WILD_CHARACTER = re.compile(r"[*?\[]")


@dataclass(slots=True, eq=False)
class Field:
    """One word after expansion (or, where `many`, any number of words).

    Exactly one of these holds: `text` is the literal; `choices` are the literals it may be; `glob` is a pattern
    (literal wildcards escaped with a backslash) that every value matches; none of them: the value is dynamic.
    `prefix` is the literal text it certainly starts with. `below`: every value is a path below this directory.
    """

    word: Word
    start: int
    end: int
    text: str | None = None
    choices: tuple[str, ...] = ()
    glob: str | None = None
    prefix: str = ""
    many: bool = False
    below: str | None = None
    pathname: bool = False
    """`glob` comes from wildcards in the command (not from a variable): it may become several words, or stay itself."""
    seen_from: str | None = None
    """`below` holds for a command in this directory: in another one the same names are others."""
    names: tuple[str, ...] = ()
    """Every value is one of these paths below `below`, from there."""
    printed: bool = False
    """It stands for names of files that a program has printed, each of which is one word."""
    exact: bool = False
    """`glob` is, letter by letter, the pattern that bash looks for."""
    no_option: bool = False
    """The disk was asked: no name that it stands for begins with a dash."""
    listed: tuple[str, ...] = ()
    """All names that it stands for, in an order that is not known."""
    whole: str | None = None
    """It is one of the names that wildcards became which take all that is in a folder: the pattern on the first of
    them, "" on the others."""

    @property
    def shown(self) -> str:
        """The word for argv: its value where it is known, else as it was written."""
        return self.text if self.text is not None else self.word.raw

    @property
    def texts(self) -> tuple[str, ...]:
        """Every literal it may be; empty where that is not known."""
        return (self.text,) if self.text is not None else self.choices

    @property
    def dynamic(self) -> bool:
        return self.text is None and not self.choices and self.glob is None

    def may_be_option(self) -> bool:
        """True unless the value (or, where it is many, each of them) certainly does not begin with a dash."""
        if self.texts:
            return any(t.startswith("-") for t in self.texts)
        if self.below is not None or self.no_option:
            return False
        if self.many or not self.prefix:
            # Of several words only the first begins with the prefix.
            return self.glob is None or (self.glob[:1] in ("*", "?", "[", "-") and not self.glob.startswith("[0-9]"))
        return self.prefix.startswith("-")

    def tail(self, count: int) -> "Field":
        """The value without its first `count` characters (an option's attached value), which must be known."""
        start = min(self.start + count, self.end)
        if self.text is not None:
            return Field(self.word, start, self.end, text=self.text[count:])
        assert self.glob is not None
        rest = self.glob
        for _ in range(count):
            rest = rest[2:] if rest[0] == "\\" else rest[1:]
        return Field(
            self.word, start, self.end, glob=rest, prefix=self.prefix[count:], many=self.many, pathname=self.pathname
        )


class Located(Glob):
    """The value of a variable that is a name which a program has printed.

    `odd`: perhaps one that splits into words. `since`: the command that assigned it. Then it may be several names, each
    on a line, and holds only as long as no later command of the action may make something else of them.

    What it may be stands in `field`. A word of which it is only a part is not known.
    """

    field: Field
    odd: bool
    since: "SimpleCommand | None"

    def __new__(cls, field: Field, *, odd: bool = False, since: "SimpleCommand | None" = None) -> "Located":
        made = super().__new__(cls, "**")
        made.field, made.odd, made.since = replace(field, many=False), odd, since
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Located) and self._told() == other._told()

    def __hash__(self) -> int:
        return hash(self._told())

    def _told(self) -> tuple[object, ...]:
        f = self.field
        return f.glob, f.prefix, f.below, f.seen_from, f.names, self.odd, id(self.since)

    def at(self, word: Word) -> Field:
        """The field of a word that is nothing but the variable."""
        many = self.since is not None and isinstance(word.parts[0], Param) and not word.parts[0].quoted
        return replace(self.field, word=word, start=word.start, end=word.end, many=many)


def positional(fields: list[Field]) -> tuple[str, ...] | None:
    """`fields` as positional parameters, or None where a value, or even their number, is not known."""
    texts = tuple([f.text for f in fields if f.text is not None])
    return texts if len(texts) == len(fields) else None


def listed(fields: Sequence[Field]) -> tuple[str, ...] | None:
    """`fields` as the elements of a list: texts, and what stands for others. None where their number is not known."""
    out: list[str] = []
    for each in fields:
        if each.many:
            return None
        if each.text is not None:
            out.append(each.text)
        elif each.glob is None:
            out.append(Anything("*"))
        else:
            out.append(Paths(each.glob) if each.pathname else Glob(each.glob))
    return tuple(out)


def certain(elements: Sequence[str]) -> int:
    """How many of the first `elements` stand for one text each: after `Paths` all places are shifted."""
    return next((n for n, each in enumerate(elements) if isinstance(each, Paths)), len(elements))


def bare_pattern(word: Word) -> bool:
    """Is `word` nothing but unquoted text, in which wildcards may stand, and no braces and tildes?"""
    if word.dynamic or word.quoted or word.parts:
        return False
    text = word.text or ""
    return not ("{" in text or "~" in text or "\\" in text)


def wildcards(word: Word, *, nullglob: bool = False) -> Field:
    """The field of a word of which `bare_pattern` is true."""
    text = word.text or ""
    if WILD.search(text) is None:
        return Field(word, word.start, word.end, text, (), None, text)
    first = WILD_CHARACTER.search(text)
    head = text[: first.start()] if first is not None else text
    return Field(word, word.start, word.end, None, (), text, head, nullglob, None, True, exact=True)
