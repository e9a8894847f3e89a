"""The variables that `read` and `mapfile` set, where their input is known.

Only options whose meaning follows from the text alone. Anything unusual gives None: not known.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from humanlayer_agent.shell.expansion.field import Field, positional
from humanlayer_agent.shell.interpreter.context import Stdin
from humanlayer_agent.shell.interpreter.state import Glob, State

MAX_LINES = 1_000
"""Most elements of an array that are tracked."""

Found = dict[str, str | tuple[str, ...]]
"""What variables (texts) and indexed arrays (tuples) are set to."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_BLANKS = " \t\n"

VALUED = {"read": "adinNptu", "mapfile": "dnOsuCc", "readarray": "dnOsuCc"}
"""Builtins that fill variables from their input, and the options of theirs that have a value."""


@dataclass(slots=True)
class Reading:
    """How `read` or `mapfile` is called. `delimiter` ends a line; "" stands for NUL. `flags` are letters."""

    delimiter: str = "\n"
    flags: set[str] = field(default_factory=set)
    array: str | None = None
    names: tuple[str, ...] = ()


def separators(state: State) -> str | None:
    """The characters at which text splits (IFS), or None where they are not known."""
    if state.default_ifs:
        return _BLANKS
    value = state.lookup("IFS")
    return value[0] if value is not None and len(value) == 1 and not isinstance(value[0], Glob) else None


def reading(program: str, fields: Sequence[Field]) -> Reading | None:
    """How `program` (read, mapfile, readarray) is called with these words; None: not known, or not for certain."""
    words = positional(list(fields))
    if words is None:
        return None
    flags, valued = ("rs", "adp") if program == "read" else ("t", "d")
    out = Reading()
    i = 0
    while i < len(words) and words[i].startswith("-") and len(words[i]) > 1:
        word, i = words[i], i + 1
        if word == "--":
            break
        for at, letter in enumerate(word[1:], 2):
            if letter in flags:
                out.flags.add(letter)
                continue
            if letter not in valued or (at == len(word) and i >= len(words)):
                return None
            value, i = (word[at:], i) if at < len(word) else (words[i], i + 1)
            if letter == "a":
                out.array = value
            elif letter == "d":
                out.delimiter = value[:1]
            break
    out.names = tuple(words[i:])
    if program != "read":
        out.array, out.names = (*out.names, "MAPFILE")[0], out.names[1:]
    named = [*out.names, *([out.array] if out.array is not None else [])]
    good = all(_NAME.fullmatch(name) for name in named) and len(set(named)) == len(named)
    return out if good and not (program != "read" and out.names) and out.delimiter.isascii() else None


def filled(program: str, words: Sequence[str]) -> list[str]:
    """Return the variables that `program` may fill when it is called with `words`, whatever else they say."""
    names: list[str] = []
    valued = ""
    for word in words:
        if valued:
            names += [word] if valued == "a" else []
            valued = ""
        elif len(word) < 2 or word[0] != "-":
            names.append(word)
        else:
            at = next((n for n, letter in enumerate(word) if n and letter in VALUED[program]), 0)
            valued = word[at] if at == len(word) - 1 else ""
            names += [word[2:]] if word[:2] == "-a" and word[2:] else []
    return names or ["REPLY" if program == "read" else "MAPFILE"]


def split(text: str, delimiter: str) -> list[str]:
    """The lines of `text`, each without what ends it; the last may end with the text."""
    lines = text.split(delimiter or "\0")
    return lines if lines[-1] else lines[:-1]


def text_for(how: Reading, stdin: Stdin) -> str | None:
    """The input where it is known. NUL means something only where it ends lines."""
    return stdin.given if how.delimiter == "" else stdin.text


def found(program: str, fields: Sequence[Field], state: State, stdin: Stdin) -> Found:
    """What the command sets, given its words and its whole input; empty where that is not known."""
    how = reading(program, fields)
    text = text_for(how, stdin) if how is not None else None
    if how is None or text is None:
        return {}
    if program != "read":
        return _mapped(how, text)
    return _read(how, split(text, how.delimiter)[0] if text else "", separators(state), text)


def _mapped(how: Reading, text: str) -> Found:
    lines = split(text, how.delimiter)
    if how.array is None or len(lines) > MAX_LINES:
        return {}
    if "t" not in how.flags and how.delimiter:
        ends = text.endswith(how.delimiter)
        lines = [line + how.delimiter for line in lines[:-1]] + [line + how.delimiter * ends for line in lines[-1:]]
    return {how.array: tuple(lines)}


def _read(how: Reading, line: str, ifs: str | None, text: str) -> Found:
    if "r" not in how.flags and "\\" in text:
        return {}  # it may continue the line, and takes the meaning of what follows
    if how.array is None and not how.names:
        return {"REPLY": line}
    if ifs is None or not ifs.isascii() or (how.array is not None and how.names):
        return {}
    if how.array is not None:
        words = _words(line, ifs)
        return {how.array: tuple(words)} if len(words) <= MAX_LINES else {}
    out: Found = {}
    rest = line
    for name in how.names[:-1]:
        out[name], rest = _word(rest, ifs)
    blanks = "".join(c for c in ifs if c in _BLANKS)
    rest = rest.strip(blanks) if blanks else rest
    if rest and rest[-1] in ifs:
        return {}  # whether the last separator goes depends on what else there is
    out[how.names[-1]] = rest
    return out


def _word(text: str, ifs: str) -> tuple[str, str]:
    """The first word of `text`, and what follows the separator after it."""
    blanks = "".join(c for c in ifs if c in _BLANKS)
    text = text.lstrip(blanks) if blanks else text
    end = next((n for n, c in enumerate(text) if c in ifs), len(text))
    rest = text[end:].lstrip(blanks) if blanks else text[end:]
    if rest and rest[0] in ifs and rest[0] not in blanks:
        rest = rest[1:].lstrip(blanks) if blanks else rest[1:]
    return text[:end], rest


def _words(text: str, ifs: str) -> list[str]:
    out: list[str] = []
    blanks = "".join(c for c in ifs if c in _BLANKS)
    rest = text.strip(blanks) if blanks else text
    while rest:
        word, rest = _word(rest, ifs)
        out.append(word)
    return out
