"""What a command sets a variable to.

What the variable held before is the user's own where the script has not set it: `PYTHONPATH=src:$PYTHONPATH` adds
`src`, and nothing else is the command's doing.
"""

import re
from collections.abc import Iterator, Sequence

from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.expansion.words import expand, literal_values
from humanlayer_agent.shell.interpreter.state import BASH_VARIABLES, MAX_CHOICES, State, Value
from humanlayer_agent.shell.syntax.tree import Param, Part, Word

_PREVIOUS = "\0"
"""Stands for what the variable held before. No text of a shell holds this character."""

_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=", re.ASCII)
_CHOOSING = frozenset(["", ":-", "-", ":+", "+"])
"""What may be done to the previous value without changing a part of it."""


def values(name: str, word: Word, state: State, *, append: bool = False, declared: bool = False) -> Value:
    """The values that `name` may get by this assignment, without the entries it had before; None where not known.

    Args:
        name: the variable.
        word: the value; with `declared` all of `name=value`, as it stands after export and its like.
        state: what is known where the word is expanded.
        append: it is `+=`.
    """
    if name in state.odd or "\0" in word.raw:
        return None
    mentioned = _mentions(name, word.raw) - declared
    if not mentioned and not append:
        return _read(word, state, declared)
    if not state.untouched(name):
        before = state.lookup(name) if name not in state.arrays else None
        return _after(before if append else (), _read(word, state, declared))
    if mentioned > _plain_mentions(name, word.parts):
        return None
    # bash gives PATH a value where it has none, so there is no empty entry beside what is added.
    unset = state.closed and name not in state.environ and name not in BASH_VARIABLES
    out: dict[str, None] = {}
    for before in [(_PREVIOUS,)] if name == "PATH" else [()] if unset else [(), ("",), (_PREVIOUS,)]:
        assumed = state.copy()
        assumed.variables[name] = before
        found = _after(before if append else (), _read(word, assumed, declared))
        if found is None:
            return None
        for value in found:
            parts = value.split(":")
            if any(_PREVIOUS in part and part != _PREVIOUS for part in parts):
                return None
            out[":".join(part for part in parts if part != _PREVIOUS)] = None
    return tuple(out) if len(out) <= MAX_CHOICES else None


def declared(name: str, field: Field, state: State) -> Value:
    """The same for a word of export and its like, `name=value` or `name+=value`; `state` is that before the command."""
    word, text = field.word, field.text
    if field.many:
        return None
    if word.dynamic and _ASSIGNED.match(word.raw):  # only unexpanded it tells its own entries from those it had
        return values(name, word, state, append=word.raw.startswith(name + "+="), declared=True)
    if text is None:
        return None
    value = text.partition("=")[2]
    literal = Word(value, value, field.start, field.end)
    return values(name, literal, state, append=text.startswith(name + "+="))


def entries(found: Sequence[str]) -> str:
    """Every entry of these values, separated by colons."""
    return ":".join(dict.fromkeys([entry for value in found for entry in value.split(":")]))


def _read(word: Word, state: State, declared: bool) -> Value:
    if not declared:
        found = literal_values(word, state)
        # A pattern is no text: it stands for several.
        return found if found is None or all(type(each) is str for each in found) else None
    fields = expand(word, state, declaration=True)
    if len(fields) != 1 or not fields[0].texts:
        return None
    return tuple(text.partition("=")[2] for text in fields[0].texts)


def _after(before: Value, found: Value) -> Value:
    """Each of the values after each of what stands before them."""
    if found is None or before is None or any(type(each) is not str for each in before):
        return None
    return tuple(dict.fromkeys(head + value for head in before or ("",) for value in found))


def _mentions(name: str, text: str) -> int:
    return name in text and len(re.findall(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", text, re.ASCII))


def _plain_mentions(name: str, parts: Sequence[Part]) -> int:
    """How often `parts` name the variable to take its value as it is, or to choose by whether it has one."""
    return sum(part.name == name and part.index is None for part in _choosing(parts))


def _choosing(parts: Sequence[Part]) -> Iterator[Param]:
    for part in parts:
        if isinstance(part, Param) and part.op in _CHOOSING:
            yield part
            if part.arg is not None:
                yield from _choosing(part.arg.parts)
