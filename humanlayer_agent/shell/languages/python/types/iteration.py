"""Functions over elements: map, filter, sorted, zip, list, dict, functools.reduce."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python.objects import Container
from humanlayer_agent.shell.languages.python.syntax import attributes, calls
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args, Special
from humanlayer_agent.shell.languages.python.types import containers
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    EMPTY,
    PLAIN,
    WORDS,
    Bound,
    Function,
    Instance,
    Type,
    Value,
    const,
    numbers,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


def gathered(engine: "Engine", args: Args, value: Value, kind: str = "list") -> Value:
    made = engine.container(args.node, kind, "made")
    engine.shuffle(made)
    engine.element(made, value)
    return frozenset({made})


def _elementwise(engine: "Engine", args: Args, called: Value, sources: list[Value]) -> Value:
    passed = Args(args.node, [containers.elements(engine, s) for s in sources])
    return calls.call(engine, called, passed, "")


def _map(engine: "Engine", args: Args) -> Value:
    if not args.positional:
        capability_leaks.escape(engine, args.rest or EMPTY, "map")
        return ANYTHING
    called, sources = args.positional[0], args.positional[1:]
    known = containers.in_order(engine, sources[0]) if len(sources) == 1 else None
    if known is None or not all(isinstance(a, (Function, Type, Bound)) for a in called):
        return gathered(engine, args, _elementwise(engine, args, called, sources or [ANYTHING]))
    made = engine.container(args.node, "list", "made")
    engine.fill(made, [calls.call(engine, called, Args(args.node, [element]), "") for element in known])
    return frozenset({made})


def _filter(engine: "Engine", args: Args) -> Value:
    source = args.at(1) or EMPTY
    _elementwise(engine, args, args.at(0) or EMPTY, [source])
    return gathered(engine, args, containers.elements(engine, source))


def _sorted(engine: "Engine", args: Args) -> Value:
    source = args.at(0) or EMPTY
    _key(engine, args, containers.elements(engine, source))
    return gathered(engine, args, containers.elements(engine, source))


def _key(engine: "Engine", args: Args, value: Value) -> None:
    containers.compared(engine, value, value)
    if (key := args.at(-1, "key")) is not None:
        calls.call(engine, key, Args(args.node, [value]), "")


def _extreme(engine: "Engine", args: Args) -> Value:
    first = args.at(0) or EMPTY
    value = containers.elements(engine, first) if len(args.positional) == 1 else EMPTY.union(*args.positional)
    _key(engine, args, value)
    return value | (args.at(-1, "default") or EMPTY)


def _zip(engine: "Engine", args: Args) -> Value:
    made = engine.container(args.node, "list", "made")
    row = engine.container(args.node, "tuple", "row")
    for n, source in enumerate(args.positional):
        engine.element(row, containers.elements(engine, source), n)
    if args.rest is not None:
        engine.element(row, containers.elements(engine, args.rest))
    engine.element(made, frozenset({row}))
    return frozenset({made})


def _enumerate(engine: "Engine", args: Args) -> Value:
    made = engine.container(args.node, "list", "made")
    row = engine.container(args.node, "tuple", "row")
    engine.element(row, WORDS, 0)
    engine.element(row, containers.elements(engine, args.at(0, "iterable") or EMPTY), 1)
    engine.element(made, frozenset({row}))
    return frozenset({made})


def _iter(engine: "Engine", args: Args) -> Value:
    if len(args.positional) > 1:
        return gathered(engine, args, calls.call(engine, args.positional[0], Args(args.node), ""))
    return args.at(0) or EMPTY


def _next(engine: "Engine", args: Args) -> Value:
    source = args.at(0) or EMPTY
    found = containers.elements(engine, source) | attributes.implicit(engine, source, ("__next__", "__anext__"))
    return found | (args.at(1) or EMPTY)


def _sum(engine: "Engine", args: Args) -> Value:
    inner = containers.elements(engine, args.at(0) or EMPTY)
    if any(isinstance(a, Instance) for a in inner):
        return inner | attributes.implicit(engine, inner, ("__add__", "__radd__"), inner | WORDS)
    return frozenset(a for a in inner if isinstance(a, Container)) | (WORDS if inner <= WORDS else PLAIN)


def _copied(kind: str) -> Special:
    def make(engine: "Engine", args: Args) -> Value:
        made = engine.container(args.node, kind, "made")
        for value in args.positional[:1]:
            containers.copy(engine, made, value)
        if kind == "dict":
            for name, value in args.named.items():
                engine.element(made, value, name)
            if args.others is not None:
                engine.element(made, args.others)
                engine.key(made, PLAIN)
        if args.rest is not None:
            engine.element(made, containers.elements(engine, args.rest))
        if kind == "set":
            engine.shuffle(made)
        return frozenset({made})

    return make


def _reversed(engine: "Engine", args: Args) -> Value:
    known = containers.in_order(engine, args.at(0) or EMPTY)
    if known is not None:
        made = engine.container(args.node, "list", "made")
        engine.fill(made, known[::-1])
        return frozenset({made})
    source = args.at(0) or EMPTY
    other = containers.elements(engine, attributes.implicit(engine, source, ("__reversed__",)))
    return gathered(engine, args, containers.elements(engine, source) | other)


def _range(engine: "Engine", args: Args) -> Value:
    given = [numbers(v) for v in args.positional]
    made = engine.container(args.node, "list", "made")
    if args.rest is None and given and all(g is not None and len(g) == 1 for g in given):
        try:
            counted = range(*[g[0] for g in given if g])
        except (ValueError, TypeError):
            counted = range(0)
        if len(counted) <= 8:
            for n in counted:
                engine.element(made, const(n))
            return frozenset({made})
    engine.element(made, WORDS)
    return frozenset({made})


def _reduce(engine: "Engine", args: Args) -> Value:
    inner = containers.elements(engine, args.at(1) or EMPTY)
    held = inner | (args.at(2) or EMPTY)
    if (known := containers.in_order(engine, args.at(1) or EMPTY)) is not None and len(known) > 1:
        held = known[0] if len(args.positional) < 3 else args.positional[2]
        for element in known[1:] if len(args.positional) < 3 else known:
            held = calls.call(engine, args.at(0) or EMPTY, Args(args.node, [held, element]), "")
        return held
    for _ in range(2):
        held |= calls.call(engine, args.at(0) or EMPTY, Args(args.node, [held, inner]), "")
    return held


CONSTRUCTORS: dict[str, Special] = {
    "map": _map, "filter": _filter, "zip": _zip, "enumerate": _enumerate, "reversed": _reversed, "range": _range,
    "list": _copied("list"), "tuple": _copied("tuple"), "set": _copied("set"), "frozenset": _copied("set"),
    "dict": _copied("dict"),
}  # fmt: skip
SPECIAL: dict[str, Special] = {
    "builtins.sorted": _sorted, "builtins.min": _extreme, "builtins.max": _extreme, "builtins.iter": _iter,
    "builtins.aiter": _iter, "builtins.next": _next, "builtins.anext": _next, "builtins.sum": _sum,
    "functools.reduce": _reduce,
}  # fmt: skip
