"""Methods of lists, dicts, sets and generators."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python.library import process_environment
from humanlayer_agent.shell.languages.python.objects import Container
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.types import containers
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks
from humanlayer_agent.shell.languages.python.values import ANYTHING, EMPTY, ENVIRON, NONE, PLAIN, WORDS, Bound, Value

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


def method(engine: "Engine", held: Container, name: str, args: Args) -> Value:  # noqa: C901
    """`held.name(...)`."""
    if (change := _CHANGES.get(name)) is not None:
        return change(engine, held, args)
    engine.look(held)
    inside = held.rest.union(*(held.items or ()), *held.named.values())
    if name in ("pop", "popleft", "popitem", "get", "__getitem__"):
        first = args.at(0)
        if name in ("pop", "popleft") and held.kind != "dict":
            engine.shuffle(held)
        out = containers.element_of(engine, held, first) if first is not None and name != "popitem" else inside
        if name == "popitem":
            return _pair(engine, held, args, containers.keys_of(held), inside)
        default = args.at(1)
        return out | (default if default is not None else NONE if name == "get" else EMPTY)
    if name == "items":
        made = engine.container(args.node, "list", "items")
        engine.element(made, _pair(engine, held, args, containers.keys_of(held), inside))
        if ENVIRON in inside:
            process_environment.printed(engine)
        return frozenset({made})
    if name in ("keys", "values"):
        made = engine.container(args.node, "list", name)
        engine.element(made, containers.keys_of(held) if name == "keys" else inside)
        if ENVIRON in inside and name == "values":
            process_environment.printed(engine)
        return frozenset({made})
    if name == "copy":
        return _copied(engine, held, args)
    if name in _GATHERING:
        for value in args.every():
            containers.copy(engine, held, value)
        return frozenset({held})
    if name in ("__next__", "__anext__", "__enter__", "__aenter__"):
        return inside | {held}
    if name in ("send", "throw", "asend"):
        for value in args.every():
            capability_leaks.escape(engine, value, "a generator")
        return inside
    if name in ("index", "count", "__len__", "__contains__", "__sizeof__"):
        containers.compared(engine, inside, args.at(0) or EMPTY)
        return WORDS
    return _others(engine, held, name, args)


def _others(engine: "Engine", held: Container, name: str, args: Args) -> Value:
    """What is no method of a list or dict: that of a class which behaves like one, perhaps."""
    for value in args.every():
        capability_leaks.escape(engine, value, f".{name}")
    return held.rest.union(ANYTHING, *(held.items or ()), *held.named.values())


def attribute(engine: "Engine", held: Container, name: str) -> Value:
    """`held.name`: a method, or what a class that behaves like a list keeps its elements in."""
    if name in METHODS:
        return frozenset({Bound(held, name)})
    engine.look(held)
    return held.rest.union({held}, ANYTHING, *(held.items or ()), *held.named.values())


def _copied(engine: "Engine", held: Container, args: Args) -> Value:
    made = engine.container(args.node, held.kind, "copy")
    containers.merge(engine, made, held)
    return frozenset({made})


def _pair(engine: "Engine", held: Container, args: Args, keys: Value, inside: Value) -> Value:
    pair = engine.container(args.node, "tuple", "pair")
    engine.element(pair, engine.bounded(EMPTY, keys), 0)
    engine.element(pair, engine.bounded(EMPTY, inside), 1)
    return frozenset({pair})


def _append(engine: "Engine", held: Container, args: Args) -> Value:
    for value in args.every():
        engine.element(held, value)
    return NONE


def _prepend(engine: "Engine", held: Container, args: Args) -> Value:
    engine.shuffle(held)
    return _append(engine, held, args)


def _insert(engine: "Engine", held: Container, args: Args) -> Value:
    engine.shuffle(held)
    value = args.at(1)
    engine.element(held, value if value is not None else EMPTY)
    return NONE


def _extend(engine: "Engine", held: Container, args: Args) -> Value:
    for value in args.every():
        engine.element(held, containers.elements(engine, value))
    return NONE


def _update(engine: "Engine", held: Container, args: Args) -> Value:
    for value in args.positional:
        containers.copy(engine, held, value)
    for name, value in args.named.items():
        engine.element(held, value, name)
    for hidden in (args.rest, args.others):
        if hidden is not None:
            engine.element(held, containers.values_of(engine, hidden))
            engine.key(held, PLAIN)
    return NONE


def _setdefault(engine: "Engine", held: Container, args: Args) -> Value:
    value = args.at(1)
    containers.store(engine, held, args.at(0), value if value is not None else NONE)
    return containers.element_of(engine, held, args.at(0) or PLAIN)


def _setitem(engine: "Engine", held: Container, args: Args) -> Value:
    containers.store(engine, held, args.at(0), args.at(1) or EMPTY)
    return NONE


def _reorder(engine: "Engine", held: Container, args: Args) -> Value:
    engine.shuffle(held)
    key = args.at(-1, "key")
    if key is not None:
        from humanlayer_agent.shell.languages.python.syntax import calls

        calls.call(engine, key, Args(args.node, [containers.elements(engine, frozenset({held}))]))
    return NONE


def _nothing(engine: "Engine", held: Container, args: Args) -> Value:
    return NONE


def _lost(engine: "Engine", held: Container, args: Args) -> Value:
    engine.shuffle(held)
    return NONE


_CHANGES = {
    "append": _append,
    "add": _append,
    "appendleft": _prepend,
    "insert": _insert,
    "extend": _extend,
    "extendleft": _extend,
    "__iadd__": _extend,
    "update": _update,
    "setdefault": _setdefault,
    "__setitem__": _setitem,
    "sort": _reorder,
    "reverse": _lost,
    "remove": _lost,
    "discard": _nothing,
    "clear": _lost,
    "__imul__": _lost,
    "close": _nothing,
    "__delitem__": _lost,
    "rotate": _lost,
}
_GATHERING = frozenset(str.split("union symmetric_difference difference intersection __iter__ __copy__ __deepcopy__"))
METHODS = frozenset(_CHANGES) | frozenset(
    str.split(
        """
        pop popleft popitem get items keys values copy union difference intersection symmetric_difference send throw
        asend index count issubset issuperset isdisjoint move_to_end most_common __getitem__ __next__ __anext__ __len__
        __contains__ __iter__ __enter__ __exit__
        """
    )
)
