"""Values: what an expression of JavaScript may be, as a set of atoms.

A text that is known is a `str`. Everything that can do something is an atom of its own, and is never dropped from a
set: only texts are, for `TEXT`, where there are too many.
"""

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.behaviour import Text

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.javascript.source_tree import Node

MAX_TEXTS = 24
MAX_LENGTH = 65_536


class Mark(Enum):
    """Things of which no more is known."""

    NUMBER = "a number, a boolean or nothing"
    TEXT = "a text"
    DATA = "data, or an object of this text, whose members do nothing that is not seen"
    CHOSEN = "any member of an object, array or text of this program: a constructor of those, at worst"
    PICKED = "any member of something, by a name that is not known: it may be a constructor"
    METHOD = "a method of the language's own objects"
    PROTOTYPE = "what the language's own objects inherit from"


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class Native:
    """A module, function or object of node, by its name in the tables; `@Server`: an instance."""

    name: str


@dataclass(frozen=True, slots=True)
class Foreign:
    """Something of a module that is judged by itself, by the last name it was reached by."""

    name: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """A text of which the beginning is known."""

    text: str


@dataclass(frozen=True, slots=True)
class Below:
    """A path below a directory, without `..`."""

    directory: str


@dataclass(frozen=True, slots=True)
class Entry:
    """The name of something in a directory, or the object that stands for it."""

    directory: str


@dataclass(frozen=True, slots=True)
class Here:
    """A path from the directory where the program was started."""

    path: str


class Cell:
    """What is stored under one name, in whatever order."""

    __slots__ = ("growths", "value")

    def __init__(self) -> None:
        self.value: Value = EMPTY
        self.growths = 0


class Function:
    """A function, method or class of the text. `called`: the text calls it; `assumed`: somebody else may.

    `base` is what a class extends.
    """

    __slots__ = ("assumed", "base", "called", "given", "inputs", "is_class", "maker", "node", "receiver", "returns")

    def __init__(self, node: "Node", *, is_class: bool = False) -> None:
        self.node, self.is_class = node, is_class
        self.inputs: list[Cell] = []
        self.given, self.returns, self.receiver, self.base = Cell(), Cell(), Cell(), Cell()
        self.called = self.assumed = False
        self.maker: Function | None = None


class Array:
    """An array that the text makes. `words` are its elements in order, None where they may be others."""

    __slots__ = ("items", "words")

    def __init__(self) -> None:
        self.items = Cell()
        self.words: list[Value] | None = []


class Record:
    """An object that the text makes from a literal. `open`: it may have members that are not seen."""

    __slots__ = ("fields", "inherits_environment", "open")

    def __init__(self) -> None:
        self.fields: dict[str, Cell] = {}
        self.open = self.inherits_environment = False


Atom = str | Mark | Number | Native | Foreign | Prefix | Below | Entry | Here | Function | Array | Record
Value = frozenset[Atom]

EMPTY: Value = frozenset()
NUMBER: Value = frozenset({Mark.NUMBER})
TEXT: Value = frozenset({Mark.TEXT})
DATA: Value = frozenset({Mark.DATA})
CHOSEN: Value = frozenset({Mark.CHOSEN, Mark.DATA})
PICKED: Value = frozenset({Mark.PICKED, Mark.DATA})
_KNOWN = (str, Prefix, Below, Entry, Here, Number)


def fewer(value: Value) -> Value:
    """`value` with TEXT for what is known of its texts, and NUMBER for its numbers."""
    out: set[Atom] = {a for a in value if not isinstance(a, _KNOWN)}
    if any(isinstance(a, Number) for a in value):
        out.add(Mark.NUMBER)
    if any(isinstance(a, _KNOWN) and not isinstance(a, Number) for a in value):
        out.add(Mark.TEXT)
    return frozenset(out)


def bounded(value: Value) -> Value:
    """`value`, with fewer texts where there are too many."""
    if len(value) > MAX_TEXTS and sum(isinstance(a, _KNOWN) for a in value) > MAX_TEXTS:
        return fewer(value)
    if any(isinstance(a, str) and len(a) > MAX_LENGTH for a in value):
        return fewer(value)
    return value


def is_numeric(value: Value) -> bool:
    """Can it be nothing but a number, a boolean or nothing?"""
    return bool(value) and all(a is Mark.NUMBER or isinstance(a, Number) for a in value)


def known_texts(value: Value) -> list[str] | None:
    """All that it may be as text; None where it may be something else."""
    out = [a if isinstance(a, str) else a.text if isinstance(a, Number) else None for a in value]
    return sorted(t for t in out if t is not None) if value and None not in out else None


def joined(values: Iterable[Value]) -> Value:
    """The texts that all of `values` make, one after the other."""
    out: Value = frozenset({""})
    for value in values:
        out = bounded(frozenset(_both(a, b) for a in out for b in value or TEXT))
    return out


def _both(left: Atom, right: Atom) -> Atom:
    """One text from two."""
    end = right.text if isinstance(right, Number) else right
    if left == "":
        return end if isinstance(end, _KNOWN) else Mark.TEXT
    if isinstance(left, Number):
        left = left.text
    if end == "":
        return left if isinstance(left, _KNOWN) else Mark.TEXT
    if isinstance(end, str):
        if isinstance(left, str):
            return left + end
        if isinstance(left, Here):
            return Here(left.path + end) if end.startswith("/") else Mark.TEXT
        if isinstance(left, Prefix):
            return left
        if isinstance(left, Below | Entry) and _stays(end) and ("/" not in end or isinstance(left, Below)):
            return left
        return Mark.TEXT
    if isinstance(end, Entry) and isinstance(left, str | Here | Below):
        if isinstance(left, str) and left.endswith("/"):
            return Below(posixpath.normpath(left))
        if isinstance(left, Here) and left.path.endswith("/"):
            return Below(posixpath.normpath(left.path))
        return left if isinstance(left, Below) else Mark.TEXT
    if isinstance(left, str):
        return Prefix(left)
    return left if isinstance(left, Prefix) else Mark.TEXT


def _stays(end: str) -> bool:
    """Does a path stay in its directory where `end` goes behind it, whatever follows?"""
    return ".." not in end and "/." not in end and not end.endswith(".")


def operands(value: Value, *, moved: bool = False) -> list[Text]:
    """`value` as operands of acts. `moved`: paths from where the program was started are not known any more."""
    choices = [a if isinstance(a, str) else a.text for a in value if isinstance(a, str | Number)]
    choices += [a.path for a in value if isinstance(a, Here) and not moved]
    out = [Text.of(*sorted(choices))] if choices else []
    for atom in value:
        if isinstance(atom, Below) and not (moved and not atom.directory.startswith("/")):
            out.append(Text(below=atom.directory))
        elif isinstance(atom, Prefix):
            out.append(Text(prefix=atom.text))
        elif not isinstance(atom, str | Number | Here | Function) or (moved and isinstance(atom, Here)):
            out.append(Text())
    return [*out[: bool(choices)], *sorted(set(out[bool(choices) :]), key=_order)] or [Text()]


def _order(text: Text) -> tuple[str, str]:
    return text.below or "", text.prefix


def in_order(values: Iterable[Atom]) -> list[Atom]:
    """The atoms of a value, texts in an order that is the same in each process."""
    return sorted(values, key=lambda atom: (type(atom).__name__, str(atom) if isinstance(atom, str) else _name(atom)))


def _name(atom: Atom) -> str:
    found = (getattr(atom, name, None) for name in ("text", "directory", "path", "name"))
    return next((each for each in found if isinstance(each, str)), "")
