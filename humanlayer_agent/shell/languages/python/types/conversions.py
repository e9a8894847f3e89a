"""Texts, numbers and bytes, and functions that only look at what they are given: str, int, chr, print, repr."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python.library import process_environment
from humanlayer_agent.shell.languages.python.objects import Container, File
from humanlayer_agent.shell.languages.python.syntax import attributes, methods
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args, Special
from humanlayer_agent.shell.languages.python.types import containers
from humanlayer_agent.shell.languages.python.types import string_values as strings
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks
from humanlayer_agent.shell.languages.python.values import (
    DATA,
    EMPTY,
    NONE,
    PLAIN,
    SHOWN,
    WORDS,
    Const,
    Instance,
    Value,
    const,
    numbers,
    only_texts,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


def look(engine: "Engine", args: Args) -> None:
    """Whoever gets the whole environment may show it."""
    for value in args.every():
        if capability_leaks.environment_in(engine, value):
            process_environment.printed(engine)


def _inert(result: Value) -> Special:
    def inert(engine: "Engine", args: Args) -> Value:
        look(engine, args)
        whole = EMPTY.union(*args.every())
        if not any(isinstance(a, Instance) for a in whole):
            return result
        return result | attributes.implicit(engine, whole, _BY_FUNCTIONS, whole)

    return inert


def _str(engine: "Engine", args: Args) -> Value:
    value = args.at(0, "object")
    if value is None:
        return const("")
    look(engine, args)
    out = strings.shown(value)
    if len(args.positional) > 1 or args.named:
        out = frozenset(
            a.value.decode("utf-8", "surrogateescape") if isinstance(a, Const) and isinstance(a.value, bytes) else DATA
            for a in value
        )
    if any(isinstance(a, Instance) for a in value):
        out |= attributes.implicit(engine, value, ("__str__", "__repr__"))
    return out


def _print(engine: "Engine", args: Args) -> Value:
    look(engine, args)
    for atom in args.named.get("file", EMPTY):
        if isinstance(atom, File):
            atom.unclear = True
        elif isinstance(atom, Instance):
            methods.method(engine, atom, "write", Args(args.node, [EMPTY.union(PLAIN, *args.positional)]))
    return NONE


def _repr(engine: "Engine", args: Args) -> Value:
    """What repr() gives is data, as long as no class of the program has a say in it."""
    look(engine, args)
    return frozenset({DATA if engine.read(engine.member("__repr__")) else SHOWN})


def _chr(engine: "Engine", args: Args) -> Value:
    found = numbers(args.at(0) or EMPTY)
    return frozenset(chr(n) for n in found if 0 <= n < 0x110000) if found else PLAIN


def _ord(engine: "Engine", args: Args) -> Value:
    found = only_texts(args.at(0) or EMPTY)
    return EMPTY.union(*(const(ord(t)) for t in found if len(t) == 1)) if found else WORDS


def _int(engine: "Engine", args: Args) -> Value:
    value, base = args.at(0) or EMPTY, numbers(args.at(1, "base") or const(10))
    known, counts = only_texts(value), numbers(value)
    if counts is not None:
        return EMPTY.union(*map(const, counts))
    if known is None or base is None or len(base) != 1 or any(len(t) > 400 for t in known):
        return WORDS
    out: Value = EMPTY
    for text in known:
        try:
            out |= const(int(text, base[0]))
        except ValueError:
            continue
    return out or WORDS


def _spelled(change: Callable[[int], str]) -> Special:
    def spell(engine: "Engine", args: Args) -> Value:
        found = numbers(args.at(0) or EMPTY)
        return frozenset(map(change, found)) if found and all(abs(n) < 1 << 64 for n in found) else WORDS

    return spell


def _bytes(engine: "Engine", args: Args) -> Value:
    value = args.at(0)
    if value is None:
        return const(b"")
    if (known := only_texts(value)) is not None:
        return frozenset(known)
    inner = next(iter(value)) if len(value) == 1 else None
    if isinstance(inner, Container):
        parts, rest = containers.sequence(engine, value)
        codes = [numbers(p) for p in parts]
        if rest is None and all(c is not None and len(c) == 1 and 0 <= c[0] < 256 for c in codes):
            return const(bytes(c[0] for c in codes if c))
    return PLAIN


def from_hex(value: Value) -> Value:
    out: Value = EMPTY
    for text in only_texts(value) or []:
        try:
            out |= const(bytes.fromhex(text))
        except ValueError:
            continue
    return out or PLAIN


_BY_FUNCTIONS = (
    "__abs__", "__round__", "__int__", "__float__", "__complex__", "__index__", "__divmod__", "__rdivmod__", "__pow__",
    "__rpow__", "__len__", "__hash__", "__bool__", "__format__", "__dir__", "__bytes__",
)  # fmt: skip
"""Methods that built-in functions call."""

CONSTRUCTORS: dict[str, Special] = {
    "str": _str, "bytes": _bytes, "bytearray": _bytes, "memoryview": _bytes, "int": _int, "float": _inert(WORDS),
    "bool": _inert(WORDS), "complex": _inert(WORDS), "slice": _inert(PLAIN),
}  # fmt: skip
_COUNTING = ("len", "id", "hash", "abs", "round", "callable", "any", "all", "pow", "divmod")
_TELLING = ("ascii", "format", "dir", "input")
SPECIAL: dict[str, Special] = {
    "builtins.print": _print, "builtins.repr": _repr, "builtins.chr": _chr, "builtins.ord": _ord,
    "builtins.hex": _spelled(hex), "builtins.oct": _spelled(oct), "builtins.bin": _spelled(bin),
    **{f"builtins.{name}": _inert(WORDS) for name in _COUNTING},
    **{f"builtins.{name}": _inert(PLAIN) for name in _TELLING},
    **{f"builtins.{name}": _inert(NONE) for name in ("help", "exit", "quit")},
}  # fmt: skip
