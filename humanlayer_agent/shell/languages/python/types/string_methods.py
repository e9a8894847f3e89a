"""Methods of texts, known or not, as calls: `x.join(...)`, `x.format(...)`, `x.split(...)`."""

import re
import string
from collections.abc import Callable
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python.library import process_environment
from humanlayer_agent.shell.languages.python.objects import Class, Closure, Container
from humanlayer_agent.shell.languages.python.syntax import attributes
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.types import containers, string_values
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks
from humanlayer_agent.shell.languages.python.values import (
    EMPTY,
    NONE,
    PLAIN,
    WORDS,
    Atom,
    Const,
    Instance,
    Method,
    Module,
    Namespace,
    Value,
    const,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

_TRUTHS = frozenset(
    str.split(
        """
        startswith endswith isdigit isalpha isalnum isspace isupper islower isidentifier isdecimal isnumeric isprintable
        istitle isascii bit_length is_integer
        """
    )
)
METHODS = (
    _TRUTHS | string_values.METHODS | {"join", "format", "format_map", "append", "extend", "insert", "update", "add"}
)
_SHORT = 1_000
"""Longest text that is no work."""


def method(engine: "Engine", atom: Atom, name: str, args: Args) -> Value:
    """`text.name(...)`."""
    if any(capability_leaks.environment_in(engine, value) for value in args.every()):
        process_environment.printed(engine)
    if name == "join":
        return _join(engine, atom, args)
    if name in ("format", "format_map", "__mod__"):
        return _format(engine, atom, name, args)
    for value in args.every():
        if capability_leaks.loaded(engine, value) and name not in _TRUTHS:
            capability_leaks.escape(engine, value, f".{name}")
    if name in _TRUTHS:
        return WORDS
    if args.rest is not None or args.others is not None:
        return PLAIN
    if (size := len(string_values.known(atom) or "")) > _SHORT:
        engine.step(size // _SHORT)
    found = string_values.method(atom, name, [*args.positional, *args.named.values()])
    if isinstance(found, list):
        made = engine.container(args.node, "tuple" if name.endswith("partition") else "list", "parts")
        engine.fill(made, found)
        return frozenset({made})
    if found is not None:
        return found
    return NONE if name in ("append", "extend", "insert", "sort", "update", "add") else PLAIN


def _join(engine: "Engine", atom: Atom, args: Args) -> Value:
    value = args.at(0)
    if value is None:
        return PLAIN
    separator = atom if isinstance(atom, str) else None
    if isinstance(atom, Const) and isinstance(atom.value, bytes):
        separator = atom.value.decode("utf-8", "surrogateescape")
    if separator is None or len(value) != 1:
        return PLAIN
    inner = next(iter(value))
    if isinstance(inner, str):
        return string_values.joined(separator, [frozenset(c) for c in inner])
    if not isinstance(inner, Container) or inner.kind in ("dict", "set", "generator"):
        return PLAIN
    parts, rest = containers.sequence(engine, value)
    if rest is not None or inner.items is None:
        return PLAIN
    return string_values.joined(separator, parts)


def _format(engine: "Engine", atom: Atom, name: str, args: Args) -> Value:
    for value in args.every():
        capability_leaks.escape(engine, frozenset(a for a in value if isinstance(a, Instance)), ".format")
    if not isinstance(atom, str):
        for value in args.every():
            if any(isinstance(a, _REACHING) for a in value):
                engine.doubt("a text that is not known may name any attribute of what it is filled with")
        return PLAIN
    if args.rest is not None or args.others is not None:
        for hidden in (args.rest, args.others):
            capability_leaks.escape(engine, hidden or EMPTY, ".format")
    mapping = args.at(0) or EMPTY

    def named(key: str) -> Value:
        if name == "format":
            return args.named.get(key, PLAIN)
        return _looked_at(engine, containers.item(engine, mapping, frozenset({key}), args.node))

    _followed(engine, atom, args, named)
    positional = args.positional if args.rest is None and name == "format" else None
    return string_values.braces(atom, positional, named)


_STEP = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")
_REACHING = (Module, Class, Closure, Method, Instance, Namespace)
"""What has attributes that lead on to others."""


def _followed(engine: "Engine", template: str, args: Args, named: Callable[[str], Value]) -> None:
    """The attributes and items that the fields of `template` name: "{0.environ[HOME]}"."""
    used = 0
    try:
        fields = list(string.Formatter().parse(template))
    except ValueError:
        return
    for _, field, spec, _ in fields:
        if spec and "{" in spec:
            _followed(engine, spec, args, named)
        if field is None:
            continue
        first = re.split(r"[.\[]", field, maxsplit=1)[0]
        steps = _STEP.findall(field, len(first))
        if first == "":
            first, used = str(used), used + 1
        value = (args.at(int(first)) or EMPTY) if first.isdecimal() else named(first)
        for attribute, key in steps:
            if attribute:
                value = attributes.get(engine, value, attribute)
            else:
                index = const(int(key)) if key.isdecimal() else const(key)
                value = containers.item(engine, value, index, args.node)
            _looked_at(engine, value)


def _looked_at(engine: "Engine", value: Value) -> Value:
    if capability_leaks.environment_in(engine, value):
        process_environment.printed(engine)
    return value
