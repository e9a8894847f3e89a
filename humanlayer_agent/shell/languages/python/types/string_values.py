"""Texts: joining, formatting, and the methods of str and bytes, over known and half-known texts."""

import posixpath
import re
from collections.abc import Callable, Iterable

from humanlayer_agent.shell.languages.python.types import path_values
from humanlayer_agent.shell.languages.python.values import (
    ANY,
    ANYTHING,
    DATA,
    EMPTY,
    MAX_LENGTH,
    MAX_TEXTS,
    PLAIN,
    WORD,
    WORDS,
    Atom,
    Below,
    Const,
    Mark,
    Place,
    Prefix,
    Thing,
    Value,
    const,
    numbers,
    only_texts,
)

Piece = str | Place | Below | Prefix | Mark


def concat(parts: Iterable[Value]) -> Value:
    """The texts that `parts` make when they are joined."""
    out: Value = frozenset({""})
    for part in parts:
        if len(out) == len(part) == 1:
            (first,), (second,) = out, part
            out = frozenset((_add(piece(first), piece(second)),))
            continue
        if len(out) * len(part) > MAX_TEXTS:
            out, part = _shorter(out), frozenset(a if isinstance(a, Mark) else DATA for a in part)
        out = frozenset(_add(piece(a), piece(b)) for a in out for b in part)
    return out


def _shorter(value: Value) -> Value:
    """What the texts begin with."""
    first = posixpath.commonprefix([a for a in value if isinstance(a, str)])
    whole = all(isinstance(a, str) for a in value)
    return frozenset({Prefix(first)}) if first and whole else PLAIN


def piece(atom: Atom) -> Piece:
    """`atom` as str() and f-strings show it."""
    if isinstance(atom, (str, Place, Below, Prefix)):
        return atom
    if isinstance(atom, Const):
        return str(atom.value)
    if isinstance(atom, Thing) and atom.payload is not None:
        return atom.payload
    return atom if atom is WORD else DATA


def _add(a: Piece, b: Piece) -> Piece:
    if a == "":
        return b
    if b == "":
        return a
    if isinstance(a, Prefix):
        return a
    if isinstance(a, str):
        return _after_text(a, b)
    if isinstance(a, Place):
        return _after_place(a, b)
    if isinstance(a, Below):
        if isinstance(b, str) and not path_values.climbs(b) and (b.startswith("/") or a.strict):
            return Below(a.directory, a.strict or b.strip("/.") != "", a.anchored)
        return Below(a.directory, a.strict, a.anchored) if b is WORD and a.strict else DATA
    if a is WORD:
        if b is WORD or (isinstance(b, str) and "/" not in b):
            return WORD
        return Below(".") if isinstance(b, str) and not path_values.climbs(b) else DATA
    return DATA


def _after_text(a: str, b: Piece) -> Piece:
    if isinstance(b, str):
        return a + b if len(a) + len(b) <= MAX_LENGTH else Prefix(a[:1000])
    if isinstance(b, Prefix):
        return Prefix(a + b.text)
    if "://" in a or any(c.isspace() for c in a) or posixpath.basename(a) in (".", ".."):
        return Prefix(a)
    if b is WORD:
        return Below(posixpath.dirname(a) or ".")
    if isinstance(b, Below) and not b.anchored and not b.directory.startswith("/"):
        return path_values.join(a, b) if a.endswith("/") else Below(posixpath.dirname(a) or ".")
    return Prefix(a)


def _after_place(a: Place, b: Piece) -> Piece:
    slashed = isinstance(b, str) and b.startswith("/")
    if a.text in ("", ".", "~", "..") or a.text.endswith(("/.", "/..")):
        if not isinstance(b, str) or not slashed:
            return Prefix("~") if a.text == "~" and b is WORD else DATA
        return Place((a.text or ".") + b)
    if isinstance(b, str):
        return Place(a.text + b) if "/" in a.text or not a.text.startswith("~") or slashed else DATA
    if b is WORD and not a.text.startswith("~"):
        return Below(posixpath.dirname(a.text) or ".", anchored=True)
    return Prefix(a.text) if a.text.startswith("~") else DATA


def shown(value: Value) -> Value:
    """str(value)."""
    return frozenset(piece(a) for a in value)


# ---- formatting -------------------------------------------------------------------------------------

_PERCENT = re.compile(r"%(?:\((?P<key>[^)]*)\))?(?P<flags>[#0\- +]*[0-9]*(?:\.[0-9]+)?)(?P<kind>[a-zA-Z%])")
_BRACES = re.compile(r"\{\{|\}\}|\{(?P<field>[^{}!:]*)(?P<conversion>![rsa])?(?P<spec>:[^{}]*)?\}")


def percent(template: str, positional: list[Value] | None, named: Callable[[str], Value]) -> Value:
    """`template % values`; `positional` is None where they are not known."""
    parts: list[Value] = []
    last = used = 0
    for match in _PERCENT.finditer(template):
        parts.append(const(template[last : match.start()]))
        last = match.end()
        if match["kind"] == "%":
            parts.append(const("%"))
        elif match["key"] is not None:
            parts.append(_formatted(named(match["key"]), match["flags"], match["kind"]))
        elif positional is None or used >= len(positional):
            parts.append(PLAIN)
        else:
            parts.append(_formatted(positional[used], match["flags"], match["kind"]))
            used += 1
    return concat([*parts, const(template[last:])])


def _formatted(value: Value, flags: str, kind: str) -> Value:
    if not flags and kind == "s":
        return shown(value)
    if kind in "diufFeEgGxXo" and not flags.strip("0123456789."):
        found = numbers(value)
        return shown(value) if found and kind in "di" and not flags else WORDS
    return PLAIN


def braces(template: str, positional: list[Value] | None, named: Callable[[str], Value]) -> Value:
    """`template.format(...)`."""
    parts: list[Value] = []
    last = used = 0
    for match in _BRACES.finditer(template):
        parts.append(const(template[last : match.start()]))
        last = match.end()
        if match[0] in ("{{", "}}"):
            parts.append(const(match[0][0]))
            continue
        key = match["field"]
        if key == "":
            key, used = str(used), used + 1
        if match["conversion"] or not key.replace("_", "a").isalnum():
            parts.append(PLAIN)
        elif key.isdecimal():
            known = positional is not None and int(key) < len(positional)
            parts.append(_spec(positional[int(key)], match["spec"]) if known and positional is not None else PLAIN)
        else:
            parts.append(_spec(named(key), match["spec"]))
    rest = template[last:]
    return PLAIN if "{" in rest or "}" in rest else concat([*parts, const(rest)])


def _spec(value: Value, spec: str | None) -> Value:
    if not spec or spec == ":":
        return shown(value)
    numeric = all(a is WORD or (isinstance(a, Const) and a.kind == "int") for a in value)
    return WORDS if numeric and re.fullmatch(r":0?[0-9]*(?:\.[0-9]+)?[dxXfb]?", spec) else PLAIN


def formatted(value: Value, conversion: int, spec: str | None) -> Value:
    """One `{...}` of an f-string. `spec` is None where it is computed."""
    if conversion not in (-1, ord("s")):
        return PLAIN if not all(a is WORD for a in value) else WORDS
    if spec is None:
        return PLAIN
    return _spec(value, ":" + spec if spec else None)


# ---- methods ----------------------------------------------------------------------------------------

_SAME = frozenset(
    str.split(
        """
        strip lstrip rstrip lower upper title capitalize swapcase casefold replace removeprefix removesuffix expandtabs
        center ljust rjust zfill translate decode encode hex
        """
    )
)
"""Methods that give a text."""
_PARTS = frozenset(str.split("split rsplit splitlines partition rpartition"))
_COUNTED = frozenset(str.split("find rfind index rindex count __len__ __hash__"))
_SHAPING = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})


METHODS = _SAME | _PARTS | _COUNTED


def known(atom: Atom) -> str | bytes | None:
    """The text that `atom` is; None where it is none that is known."""
    value = atom if isinstance(atom, str) else atom.value if isinstance(atom, Const) else None
    return value if isinstance(value, (str, bytes)) else None


def method(receiver: Atom, name: str, arguments: list[Value]) -> Value | list[Value] | None:
    """What `receiver.name(*arguments)` gives; a list where that is several; None where it is no method of texts."""
    if name in _COUNTED:
        return WORDS if name in ("count", "__len__", "__hash__") else PLAIN
    if name not in _SAME and name not in _PARTS:
        return None
    constants = [_constants(a) for a in arguments]
    text = known(receiver)
    if text is None or any(c is None or len(c) != 1 for c in constants):
        return _unknown(receiver, name)
    if name in _SHAPING and not all(not isinstance(c[0], int) or c[0] < 1000 for c in constants if c):
        return PLAIN
    if name == "replace" and len(constants) > 1 and constants[1] and len(text) * len(str(constants[1][0])) > MAX_LENGTH:
        return PLAIN
    try:
        result = getattr(text, name)(*[c[0] for c in constants if c])
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError):
        return PLAIN
    if isinstance(result, (list, tuple)):
        return [const(each) for each in result] if len(result) <= 200 else _unknown(receiver, name)
    return const(result)


def _constants(value: Value) -> list[str | bytes | int | None] | None:
    found = [a if isinstance(a, str) else a.value for a in value if isinstance(a, (str, Const))]
    return found if len(found) == len(value) else None


def _unknown(receiver: Atom, name: str) -> Value | list[Value] | None:
    if receiver is ANY:
        return ANYTHING
    if name in _PARTS:
        return None
    if isinstance(receiver, (Below, Place, Prefix, str)) and name in ("encode", "decode"):
        return frozenset({receiver})
    if receiver is WORD and name in ("lower", "upper", "hex", "zfill", "encode", "decode"):
        return WORDS
    return PLAIN


def joined(separator: str, parts: list[Value] | None) -> Value:
    """`separator.join(parts)`."""
    if parts is None or len(parts) > 200:
        return PLAIN
    pieces: list[Value] = []
    for n, part in enumerate(parts):
        if n and separator:
            pieces.append(const(separator))
        pieces.append(part)
    return concat(pieces)


def repeated(value: Value, times: Value) -> Value:
    """`text * n`."""
    found, counts = only_texts(value), numbers(times)
    if not found or not counts or any(len(t) * abs(n) > 10_000 for t in found for n in counts):
        return PLAIN
    return frozenset(t * n for t in found for n in counts)


def item(text: str | bytes, index: Value) -> Value:
    """`text[index]`."""
    positions = numbers(index)
    if positions is None or len(positions) > MAX_TEXTS:
        return PLAIN if isinstance(text, bytes) or len(set(text)) > MAX_TEXTS else frozenset(text) or EMPTY
    return frozenset(a for n in positions if -len(text) <= n < len(text) for a in const(text[n]))
