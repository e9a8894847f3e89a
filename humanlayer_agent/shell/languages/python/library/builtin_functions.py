"""Functions and classes that are treated one by one, and the built-in classes."""

from functools import cache
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python import names
from humanlayer_agent.shell.languages.python.library import wrappers
from humanlayer_agent.shell.languages.python.objects import Class, Closure, Scope
from humanlayer_agent.shell.languages.python.syntax import attributes, calls, methods
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args, Special
from humanlayer_agent.shell.languages.python.types import containers, conversions, iteration
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks, reflection
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    EMPTY,
    NONE,
    PLAIN,
    Atom,
    Instance,
    Super,
    Thing,
    Type,
    Value,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


def _type(engine: "Engine", args: Args) -> Value:
    value = args.at(0) or EMPTY
    if len(args.positional) < 2:
        return EMPTY.union(*(attributes.class_of(a) for a in value))
    bases, body = args.at(1) or EMPTY, args.at(2) or EMPTY
    named, others = containers.keywords(engine, body)
    made = engine.site(args.node, "class", lambda: _class(engine))
    engine.inherit(made, containers.elements(engine, bases))
    for name, held in named.items():
        for each in held:
            if isinstance(each, Closure) and each.cls is None:
                each.cls = made
        engine.bind(made.scope, name, held)
    if others is not None:
        engine.add(engine.unnamed, others)
    return frozenset({made})


def _class(engine: "Engine") -> Class:

    made = Class("type", Scope("class", engine.scope))
    engine.classes.append(made)
    return made


def _super(engine: "Engine", args: Args) -> Value:
    scope = engine.scope
    while scope is not None and (scope.closure is None or scope.closure.cls is None):
        scope = scope.parent  # type: ignore[assignment]
    first = args.at(0)
    found: set[Atom] = {Super(a) for a in first or () if isinstance(a, Class)}
    if scope is not None and scope.closure is not None and scope.closure.cls is not None:
        found.add(Super(scope.closure.cls))
    return frozenset(found) or ANYTHING


def _object(engine: "Engine", args: Args) -> Value:
    return frozenset({Thing("builtins", "object")})


def construct(engine: "Engine", name: str, args: Args) -> Value:
    """An instance of a built-in class."""
    known = _constructors().get(name)
    if known is not None:
        return known(engine, args)
    for value in args.every():
        capability_leaks.escape(engine, value, name)
    return ANYTHING


def unbound(engine: "Engine", kind: Type, name: str, args: Args) -> Value:
    """`str.upper(x)`, `dict.fromkeys(...)`, `bytes.fromhex(...)`."""
    if name == "fromhex" and kind.name in ("bytes", "bytearray"):
        return conversions.from_hex(args.at(0) or EMPTY)
    if name == "fromkeys":
        made = engine.container(args.node, "dict", "made")
        for key in containers.elements(engine, args.at(0) or EMPTY):
            containers.store(engine, made, frozenset({key}), args.at(1) or NONE)
        return frozenset({made})
    if name in ("maketrans", "from_bytes"):
        return PLAIN
    first = args.at(0)
    if name == "__call__":
        return calls.call(engine, first or EMPTY, args.after(1), "")
    if name == "__getitem__":
        return containers.item(engine, first or EMPTY, args.at(1) or PLAIN, args.node)
    if name in ("__new__", "__init__"):
        own = frozenset(Instance(a) for a in first or EMPTY if isinstance(a, Class))
        return own | construct(engine, kind.name, args.after(1))
    if name in names.LOOKUPS:
        return reflection.lookup(engine, first or EMPTY, args.at(1))
    if name in ("__setattr__",):
        return reflection.set_attribute(engine, args)
    if first is None:
        return ANYTHING
    capability_leaks.escape(engine, frozenset(a for a in first if isinstance(a, Type)), f"{kind.name}.{name}")
    return engine.union(
        methods.method(engine, atom, name, args.after(1)) for atom in first if not isinstance(atom, Type)
    )


_OWN: dict[str, Special] = {"type": _type, "super": _super, "object": _object}


@cache
def _special() -> dict[str, Special]:
    return {**reflection.SPECIAL, **iteration.SPECIAL, **conversions.SPECIAL, **wrappers.SPECIAL}


@cache
def _constructors() -> dict[str, Special]:
    return {**_OWN, **iteration.CONSTRUCTORS, **conversions.CONSTRUCTORS, **wrappers.CONSTRUCTORS}


def special(dotted: str) -> Special | None:
    """What a call of the function `dotted` does and gives, where it is treated on its own."""
    return _special().get(dotted)
