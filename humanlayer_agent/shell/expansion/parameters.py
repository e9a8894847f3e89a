"""Parameter expansion: the values of `$x`, `${x:-y}`, `${x%.py}`, `"$@"`, where they are known."""

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from humanlayer_agent.shell.expansion.field import certain
from humanlayer_agent.shell.interpreter.state import COUNTERS, MAX_CHOICES, Glob, State, Value, one
from humanlayer_agent.shell.syntax import ansi
from humanlayer_agent.shell.syntax.refusal import Unparsed
from humanlayer_agent.shell.syntax.tree import Param, Word

Sliced = TypeVar("Sliced", str, tuple[str, ...])
Reader = Callable[[Word, State], Value]
"""Gives the values of a word in which nothing splits."""

_ALWAYS_NUMBERS = frozenset("$?#")
_OFFSETS = re.compile(r" ?(-?[0-9]{1,6})(?::([0-9]{1,6}))?", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEY = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_CASES: dict[str, Callable[[str], str]] = {
    "^^": str.upper,
    ",,": str.lower,
    "^": lambda text: text[:1].upper() + text[1:],
    ",": lambda text: text[:1].lower() + text[1:],
}


def number_pattern(part: Param, state: State) -> str | None:
    """A pattern of the integers that `$?`, `$#`, `${#x}`, `$RANDOM` may give; None: perhaps it is no integer."""
    if part.op == "length":
        return "[0-9]*"
    if part.op or part.index is not None:
        return None
    if part.name in _ALWAYS_NUMBERS or (part.name in COUNTERS and state.is_number(part.name)):
        return "[0-9]*"
    return "*" if state.is_number(part.name) else None


def elements(part: Param, state: State) -> tuple[str, ...] | None:
    """The words of `$@`, `$*`, `${a[@]}`, `${a[*]}`, `${a[@]:1}` where they are known; None: not known, or no list."""
    if part.op not in ("", ":"):
        return None
    positional = part.name in ("@", "*") and part.index is None
    listed = state.positional if positional else state.arrays.get(part.name) if part.index in ("@", "*") else None
    if positional and listed is None and state.fresh:
        state.work.wondered = True
    if part.op == "" or listed is None:
        return listed
    offsets = _offsets(part)
    if offsets is None:
        return None
    if positional:
        if offsets[0] < 0 or (offsets[0] == 0 and state.zero is None):
            return None  # from the end $0 is counted with them
        listed = (state.zero or "", *listed)
    if certain(listed) < len(listed) and not (0 <= offsets[0] <= certain(listed) and offsets[1] is None):
        return None
    return _slice(listed, *offsets)


def values(part: Param, state: State, read: Reader) -> Value:
    """The values of a parameter expansion that is one text, or None where they can't be known."""
    if part.op == "length":
        return _length(part, state)
    if part.op == "translate":
        # Into the language of the locale, by a catalogue of messages that this variable names.
        return read(part.arg, state) if part.arg is not None and state.unused("TEXTDOMAIN") else None
    value = _indirect(part, state) if part.op == "!" else _variable(part, state)
    if value is None or part.op in ("", "!"):
        return value if value is None else value or ("",)
    if part.op.lstrip(":") in ("-", "=", "+", "?") and part.op != ":":
        return _fallback(part, value, state, read)
    if any(isinstance(v, Glob) for v in value):
        return None
    change = _change(part, state, read)
    if change is None:
        return None
    changed = [change(v) for v in value or ("",)]
    return _distinct(v for v in changed if v is not None) if None not in changed else None


def _variable(part: Param, state: State) -> Value:
    """What the variable, parameter or array element holds; () where it is unset."""
    name = part.name
    if part.index is not None:
        if name in state.entries and _KEY.fullmatch(part.index):
            entry = state.entries[name].get(part.index)
            return (entry,) if entry is not None else ()
        elements = state.arrays.get(name)
        if elements is None or not part.index.isascii() or not part.index.isdigit():
            return None
        return _element(elements, int(part.index))
    if name.isdigit():
        if int(name) == 0:
            return (state.zero,) if state.zero is not None else None
        if state.positional is None:
            state.work.wondered |= state.fresh
            return None
        return _element(state.positional, int(name) - 1)
    if not (name[:1].isalpha() or name[:1] == "_"):
        return None
    if name == "PWD" and name not in state.variables and not state.havoc:
        return state.cwd
    if name in state.references:
        targets = state.references[name]
        target = targets[0] if len(targets) == 1 else None
        return state.lookup(target) if target is not None and target not in state.references else None
    return state.lookup(name)


def _element(listed: tuple[str, ...], index: int) -> Value:
    if index > certain(listed):
        return None
    found = listed[index : index + 1]
    return one(found[0]) if found else found


def _indirect(part: Param, state: State) -> Value:
    """`${!x}`: what the variable holds that x names."""
    plain = part.index is None and (part.arg is None or not part.arg.raw) and part.name not in state.odd
    names = _variable(part, state) if plain else None
    if names is None or len(names) != 1 or isinstance(names[0], Glob) or not _NAME.fullmatch(names[0]):
        return None
    value = state.lookup(names[0]) if names[0] != part.name else None
    return value if value is None else value or ("",)


def _length(part: Param, state: State) -> Value:
    if part.index in ("@", "*") or part.name in ("@", "*", "#"):
        return None
    value = _variable(part, state)
    if value is None or any(isinstance(v, Glob) or not v.isascii() for v in value):
        return None  # how many characters bash counts depends on the locale
    return _distinct(str(len(v)) for v in value or ("",))


def _fallback(part: Param, value: tuple[str, ...], state: State, read: Reader) -> Value:
    """`${x:-y}` and its family: each value of x may select y."""
    base, colon = part.op.lstrip(":"), part.op.startswith(":")
    out: list[str] = []
    for each in value or (None,):
        chosen: Value
        if (each is None or (colon and each == "")) is (base == "+"):
            chosen = ("",) if base == "+" else (each or "",)
        else:
            chosen = None if base == "?" else _argument(part, state, read)
        if chosen is None:
            return None
        out += chosen
    return _distinct(out)


def _argument(part: Param, state: State, read: Reader) -> Value:
    if part.arg is None:
        return ("",)
    if ":~" in part.arg.raw:
        return None
    if (
        part.arg.quoted
        and not part.quoted
        and not re.fullmatch(r"[A-Za-z0-9_./,:=@%+-]+", part.arg.text or "", re.ASCII)
    ):
        return None  # some of it splits, globs and vanishes, and some of it does not
    return read(part.arg, state)


def _change(part: Param, state: State, read: Reader) -> Callable[[str], str | None] | None:
    """What the operator does to a text, where it is certain for ASCII texts; the function gives None elsewhere."""
    if part.op in _CASES:
        return _ascii(_CASES[part.op]) if part.arg is None or not part.arg.raw else None
    if part.op == ":":
        offsets = _offsets(part)
        return _ascii(lambda text: _slice(text, *offsets)) if offsets is not None else None
    if part.op == "@":
        return _unescaped if part.arg is not None and part.arg.raw == "E" else None
    argument = read(part.arg, state) if part.arg is not None else ("",)
    if argument is None or len(argument) != 1 or isinstance(argument[0], Glob):
        return None
    if part.op in ("#", "##", "%", "%%"):
        return _trim(part, argument[0])
    return _replace(part, argument[0])


def _ascii(change: Callable[[str], str]) -> Callable[[str], str | None]:
    return lambda text: change(text) if text.isascii() else None


def _unescaped(text: str) -> str | None:
    """`${x@E}`: escapes are decoded as in $'...'."""
    if not text.isascii() or "'" in text:
        return None
    try:
        return ansi.decode(text)
    except Unparsed:
        return None


def _offsets(part: Param) -> tuple[int, int | None] | None:
    """The numbers in `${x:offset:count}`, or None where they are not plain."""
    match = _OFFSETS.fullmatch(part.arg.text or "") if part.arg is not None and not part.arg.dynamic else None
    if match is None or (match[1].startswith("-") and not match[0].startswith(" ")):
        return None
    return int(match[1]), None if match[2] is None else int(match[2])


def _slice(value: Sliced, offset: int, count: int | None) -> Sliced:
    start = offset if offset >= 0 else len(value) + offset
    if not 0 <= start <= len(value):
        return value[:0]
    return value[start:] if count is None else value[start : start + count]


def _trim(part: Param, argument: str) -> Callable[[str], str | None] | None:
    """`#` and `%` with a plain text, or `*` beside one plain text (`${x##*/}`, `${x%/*}`)."""
    head = part.op[0] == "#"
    assert part.arg is not None
    if not _special(part.arg, argument):
        return lambda text: text.removeprefix(argument) if head else text.removesuffix(argument)
    star, plain = (argument[:1], argument[1:]) if head else (argument[-1:], argument[:-1])
    if star != "*" or not plain or part.arg.quoted or any(c in "*?[\\" for c in plain):
        return None
    longest = len(part.op) == 2

    def cut(text: str) -> str:
        at = text.rfind(plain) if longest is head else text.find(plain)
        if at < 0:
            return text
        return text[at + len(plain) :] if head else text[:at]

    return cut


def _replace(part: Param, argument: str) -> Callable[[str], str | None] | None:
    """`${x/old/new}` with plain texts."""
    assert part.arg is not None
    if part.arg.quoted or part.arg.dynamic or "~" in argument or "\\" in part.arg.raw:
        return None
    old, _, new = argument.partition("/")
    if not old or "&" in new or _special(part.arg, old):
        return None
    if part.op == "//":
        return lambda text: text.replace(old, new)
    if part.op == "/":
        return lambda text: text.replace(old, new, 1)
    if part.op == "/#":
        return lambda text: new + text.removeprefix(old) if text.startswith(old) else text
    return lambda text: text.removesuffix(old) + new if text.endswith(old) else text


def _special(word: Word, text: str) -> bool:
    """True where `text` may be a pattern: wildcards that are not certainly quoted, or a group of extglob."""
    plain = all(c not in "*?[\\(" for c in text)
    return not plain and not (word.quoted and not word.dynamic and len(word.parts) <= 1 and not word.pattern)


def _distinct(texts: Iterable[str]) -> Value:
    out = tuple(dict.fromkeys(texts))
    return out if len(out) <= MAX_CHOICES else None
