"""Expressions: what they may be, and what they do."""

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from humanlayer_agent.shell.languages.python import names, scopes
from humanlayer_agent.shell.languages.python.engine import TooMuch
from humanlayer_agent.shell.languages.python.library import process_environment
from humanlayer_agent.shell.languages.python.objects import Container, Scope
from humanlayer_agent.shell.languages.python.syntax import (
    attributes,
    calls,
    definitions,
    methods,
    operators,
    statements,
)
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.types import containers, string_values
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    EMPTY,
    NONE,
    PLAIN,
    WORDS,
    Instance,
    Value,
    const,
    numbers,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


def value(engine: "Engine", node: ast.expr) -> Value:
    """What `node` may be."""
    engine.steps += 1
    if engine.steps > engine.limit:
        raise TooMuch
    handler = _EXPRESSIONS.get(type(node))
    return handler(engine, node) if handler is not None else _other(engine, node)


def _other(engine: "Engine", node: ast.AST) -> Value:
    """An expression that this reader does not know: whatever is in it goes where nobody can follow."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            capability_leaks.escape(engine, value(engine, child), type(node).__name__)
        else:
            _other(engine, child)
    return ANYTHING


def _constant(engine: "Engine", node: ast.Constant) -> Value:
    return const(node.value)


def _name(engine: "Engine", node: ast.Name) -> Value:
    return scopes.lookup(engine, node.id)


def _attribute(engine: "Engine", node: ast.Attribute) -> Value:
    return attributes.get(engine, value(engine, node.value), node.attr)


# ---- calls ------------------------------------------------------------------------------------------


def _call(engine: "Engine", node: ast.Call) -> Value:
    func = node.func
    if isinstance(func, ast.Attribute):
        receiver = value(engine, func.value)
        args = arguments(engine, node)
        _at(engine, node)
        if func.attr in names.DOUBTFUL:
            attributes.get(engine, receiver, func.attr)
        if len(receiver) == 1:
            return methods.method(engine, next(iter(receiver)), func.attr, args)
        return engine.union(methods.method(engine, atom, func.attr, args) for atom in receiver)
    called = value(engine, func)
    args = arguments(engine, node)
    _at(engine, node)
    return calls.call(engine, called, args, func.id if isinstance(func, ast.Name) else "")


def _at(engine: "Engine", node: ast.expr) -> None:
    engine.line = engine.fixed or node.lineno


def arguments(engine: "Engine", node: ast.Call) -> Args:
    """The arguments of a call."""
    args = Args(node)
    for each in node.args:
        if isinstance(each, ast.Starred):
            known, rest = containers.sequence(engine, value(engine, each.value))
            if args.rest is None:
                args.positional += known
            else:
                args.rest = args.rest.union(*known)
            if rest is not None:
                args.rest = (args.rest or EMPTY) | rest
        elif args.rest is None:
            args.positional.append(value(engine, each))
        else:
            args.rest |= value(engine, each)
    for keyword in node.keywords:
        if keyword.arg is not None:
            args.named[keyword.arg] = value(engine, keyword.value)
            continue
        named, others = containers.keywords(engine, value(engine, keyword.value))
        for name, held in named.items():
            args.named[name] = args.named.get(name, EMPTY) | held
        if others is not None:
            args.others = (args.others or EMPTY) | others
    return args


def _lambda(engine: "Engine", node: ast.Lambda) -> Value:
    made = definitions.closure(engine, node, "<lambda>")
    if engine.scope.kind == "class":
        made.cls = engine.scope.cls
    return frozenset({made})


# ---- operators --------------------------------------------------------------------------------------


def _binary(engine: "Engine", node: ast.BinOp) -> Value:
    """A chain of operators that leans to the left is read from its first operand on: it may be long."""
    chain: list[ast.BinOp] = [node]
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    result = value(engine, chain[-1].left)
    for each in reversed(chain):
        engine.step()
        result = operators.operation(engine, each, each.op, result, value(engine, each.right))
    return result


def _boolean(engine: "Engine", node: ast.BoolOp) -> Value:
    return EMPTY.union(*[value(engine, each) for each in node.values])


def _unary(engine: "Engine", node: ast.UnaryOp) -> Value:
    inner = value(engine, node.operand)
    if any(isinstance(a, Instance) for a in inner) and not isinstance(node.op, ast.Not):
        return attributes.implicit(engine, inner, ("__neg__", "__pos__", "__invert__")) | ANYTHING
    found = numbers(inner)
    if isinstance(node.op, ast.USub) and found:
        return EMPTY.union(*(const(-n) for n in found))
    if isinstance(node.op, (ast.UAdd, ast.Invert)) and not isinstance(node.op, ast.Invert):
        return inner
    return WORDS if isinstance(node.op, ast.Not) or inner <= WORDS or found else ANYTHING


def _compare(engine: "Engine", node: ast.Compare) -> Value:
    left = value(engine, node.left)
    out: Value = WORDS
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = value(engine, comparator)
        out |= operators.compared(engine, op, left, right)
        left = right
    return out


def _conditional(engine: "Engine", node: ast.IfExp) -> Value:
    value(engine, node.test)
    return value(engine, node.body) | value(engine, node.orelse)


def _walrus(engine: "Engine", node: ast.NamedExpr) -> Value:
    held = value(engine, node.value)
    scope = engine.scope
    while scope.kind == "comprehension" and scope.parent is not None:
        scope = scope.parent
    engine.bind(scope, node.target.id, held)
    return held


# ---- containers -------------------------------------------------------------------------------------


def _sequence(kind: str) -> Callable[["Engine", Any], Value]:
    def make(engine: "Engine", node: ast.List | ast.Tuple | ast.Set) -> Value:
        made = engine.container(node, kind)
        values: list[Value] = []
        rest: Value | None = None
        for each in node.elts:
            starred = isinstance(each, ast.Starred)
            held = value(engine, each.value if isinstance(each, ast.Starred) else each)
            known, further = containers.sequence(engine, held) if starred else ([held], None)
            if rest is None:
                values += known
                rest = further
            else:
                rest = rest.union(*known, further or EMPTY)
        engine.fill(made, values, rest)
        return frozenset({made})

    return make


def _dict(engine: "Engine", node: ast.Dict) -> Value:
    made = engine.container(node, "dict")
    for key, each in zip(node.keys, node.values, strict=True):
        held = value(engine, each)
        if key is None:
            containers.copy(engine, made, held)
        else:
            containers.store(engine, made, value(engine, key), held)
    return frozenset({made})


def _comprehension(engine: "Engine", node: Any) -> Value:
    scope = engine.scopes.get(id(node))
    if scope is None:
        bound = frozenset(name for g in node.generators for name in scopes.targets(g.target))
        scope = engine.scopes[id(node)] = Scope("comprehension", engine.scope, bound)
        scope.closure = engine.scope.closure
    before, loop = engine.scope, engine.loop
    made = engine.container(node, "dict" if isinstance(node, ast.DictComp) else "list")
    engine.loop = id(node)
    for generator in node.generators:
        source = value(engine, generator.iter)
        engine.scope = scope
        statements.assign(engine, generator.target, containers.elements(engine, source))
        for condition in generator.ifs:
            value(engine, condition)
    if isinstance(node, ast.DictComp):
        containers.store(engine, made, value(engine, node.key), value(engine, node.value))
    elif (known := _one_by_one(engine, node, source)) is not None:
        noted = len(engine.unit.acts)
        found: list[Value] = []
        for element in known:
            scope.exact, scope.reader = {node.generators[0].target.id: element}, engine.unit
            found.append(value(engine, node.elt))
        scope.exact = {}
        engine.fill(made, found)
        engine.merge(noted)
    else:
        engine.shuffle(made)
        engine.element(made, value(engine, node.elt))
    engine.scope, engine.loop = before, loop
    return frozenset({made})


def _one_by_one(engine: "Engine", node: Any, source: Value) -> list[Value] | None:
    """The elements of a comprehension's source, where all are known and none is left out: texts are put together so."""
    generator = node.generators[0]
    if (
        len(node.generators) > 1
        or generator.ifs
        or not isinstance(generator.target, ast.Name)
        or isinstance(node, ast.SetComp)
    ):
        return None
    return containers.in_order(engine, source)


def _subscript(engine: "Engine", node: ast.Subscript) -> Value:
    held = value(engine, node.value)
    if isinstance(node.slice, ast.Slice):
        bounds = [
            value(engine, b) if b is not None else NONE for b in (node.slice.lower, node.slice.upper, node.slice.step)
        ]
        return containers.sliced(engine, held, (bounds[0], bounds[1], bounds[2]), node)
    return containers.item(engine, held, value(engine, node.slice), node)


def _slice(engine: "Engine", node: ast.Slice) -> Value:
    for each in (node.lower, node.upper, node.step):
        if each is not None:
            value(engine, each)
    return PLAIN


def _starred(engine: "Engine", node: ast.Starred) -> Value:
    return containers.elements(engine, value(engine, node.value))


def deep(engine: "Engine", held: Value) -> Value:
    """`held` with all that is in its containers."""
    return frozenset(capability_leaks.reachable(engine, held)) if any(isinstance(a, Container) for a in held) else held


# ---- texts ------------------------------------------------------------------------------------------


def _formatted(engine: "Engine", node: ast.JoinedStr) -> Value:
    parts: list[Value] = []
    for each in node.values:
        if isinstance(each, ast.FormattedValue):
            parts.append(_field(engine, each))
        else:
            parts.append(value(engine, each))
    return string_values.concat(parts)


def _field(engine: "Engine", node: ast.FormattedValue) -> Value:
    held = value(engine, node.value)
    if capability_leaks.environment_in(engine, held):
        process_environment.printed(engine)
    spec: str | None = ""
    if node.format_spec is not None:
        value(engine, node.format_spec)
        plain = isinstance(node.format_spec, ast.JoinedStr) and len(node.format_spec.values) == 1
        first = node.format_spec.values[0] if plain and isinstance(node.format_spec, ast.JoinedStr) else None
        spec = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    if any(isinstance(a, Instance) for a in held):
        held |= attributes.implicit(engine, held, ("__str__",)) | attributes.implicit(
            engine, held, ("__format__",), PLAIN
        )
    return string_values.formatted(held, node.conversion, spec)


# ---- functions that wait ----------------------------------------------------------------------------


def _await(engine: "Engine", node: ast.Await) -> Value:
    held = value(engine, node.value)
    if any(isinstance(a, Instance) for a in held):
        return held | attributes.implicit(engine, held, ("__await__",))
    return held


def _yield(engine: "Engine", node: ast.Yield) -> Value:
    held = value(engine, node.value) if node.value is not None else NONE
    _generated(engine, held)
    return ANYTHING


def _yield_from(engine: "Engine", node: ast.YieldFrom) -> Value:
    held = value(engine, node.value)
    _generated(engine, containers.elements(engine, held))
    return ANYTHING | held


def _generated(engine: "Engine", held: Value) -> None:
    closure = engine.unit.closure
    if closure is not None:
        made = engine.container(closure.node, "generator")
        engine.shuffle(made)
        engine.element(made, held)
        engine.add(closure.returns, frozenset({made}))


_EXPRESSIONS: dict[type, Callable[["Engine", Any], Value]] = {
    ast.Constant: _constant, ast.Name: _name, ast.Attribute: _attribute, ast.Call: _call, ast.Lambda: _lambda,
    ast.BinOp: _binary, ast.BoolOp: _boolean, ast.UnaryOp: _unary, ast.Compare: _compare, ast.IfExp: _conditional,
    ast.NamedExpr: _walrus, ast.List: _sequence("list"), ast.Tuple: _sequence("tuple"), ast.Set: _sequence("set"),
    ast.Dict: _dict, ast.ListComp: _comprehension, ast.SetComp: _comprehension, ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension, ast.Subscript: _subscript, ast.Slice: _slice, ast.Starred: _starred,
    ast.JoinedStr: _formatted, ast.FormattedValue: _field, ast.Await: _await, ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
}  # fmt: skip
