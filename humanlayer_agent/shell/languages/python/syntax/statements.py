"""Statements: what they bind, and what they do."""

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from humanlayer_agent.shell.languages.python import scopes
from humanlayer_agent.shell.languages.python.engine import TooMuch
from humanlayer_agent.shell.languages.python.library import process_environment
from humanlayer_agent.shell.languages.python.objects import Container, Outside, Unit
from humanlayer_agent.shell.languages.python.syntax import (
    attributes,
    definitions,
    expressions,
    imports,
    methods,
    operators,
)
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.types import containers
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks, reflection
from humanlayer_agent.shell.languages.python.values import (
    ANY,
    ANYTHING,
    EMPTY,
    ENVIRON,
    PLAIN,
    SYS_PATH,
    Atom,
    Instance,
    Namespace,
    Thing,
    Value,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


def read(engine: "Engine", unit: Unit) -> None:
    """Read a unit from beginning to end."""
    if isinstance(unit.body, Outside):
        capability_leaks.follow(engine, unit.body)
        return
    if isinstance(unit.body, ast.expr):
        result = expressions.value(engine, unit.body)
        if unit.closure is not None:
            engine.add(unit.closure.returns, result)
        return
    block(engine, unit.body)


def block(engine: "Engine", body: Sequence[ast.stmt]) -> None:
    """Read statements."""
    for node in body:
        engine.steps += 1
        if engine.steps > engine.limit:
            raise TooMuch
        engine.line = engine.fixed or node.lineno
        handler = _STATEMENTS.get(type(node))
        if handler is not None:
            handler(engine, node)
        else:
            _other(engine, node)


def _other(engine: "Engine", node: ast.AST) -> None:
    """A statement that this reader does not know: its expressions are read all the same."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            expressions.value(engine, child)
        elif isinstance(child, ast.stmt):
            block(engine, [child])
        else:
            _other(engine, child)


def _expression(engine: "Engine", node: ast.Expr) -> None:
    if not isinstance(node.value, ast.Constant):
        expressions.value(engine, node.value)


def _assign(engine: "Engine", node: ast.Assign) -> None:
    value = expressions.value(engine, node.value)
    for target in node.targets:
        assign(engine, target, value)


def assign(engine: "Engine", target: ast.AST, value: Value) -> None:
    """`target = value`."""
    if isinstance(target, ast.Name):
        engine.bind(engine.scope, target.id, value)
    elif isinstance(target, ast.Attribute):
        attributes.put(engine, expressions.value(engine, target.value), target.attr, value)
    elif isinstance(target, ast.Subscript):
        holder = expressions.value(engine, target.value)
        if isinstance(target.slice, ast.Slice):
            expressions.value(engine, target.slice)
            containers.put(engine, holder, None, value)
        else:
            containers.put(engine, holder, expressions.value(engine, target.slice), value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(engine, target, value)
    elif isinstance(target, ast.Starred):
        assign(engine, target.value, value)


def _unpack(engine: "Engine", target: ast.Tuple | ast.List, value: Value) -> None:
    starred = next((n for n, each in enumerate(target.elts) if isinstance(each, ast.Starred)), None)
    for n, each in enumerate(target.elts):
        if starred is None or n < starred:
            assign(engine, each, containers.at(engine, value, n))
        elif n == starred:
            held = engine.container(each, "list")
            known, rest = containers.sequence(engine, value)
            after = len(target.elts) - n - 1
            if rest is None and len(value) == 1:
                engine.fill(held, known[n : len(known) - after])
            else:
                engine.shuffle(held)
                engine.element(held, containers.elements(engine, value))
            assign(engine, each, frozenset({held}))
        else:
            known, rest = containers.sequence(engine, value)
            exact = rest is None and len(value) == 1 and len(known) >= len(target.elts) - 1
            assign(engine, each, known[n - len(target.elts)] if exact else containers.elements(engine, value))


def _augment(engine: "Engine", node: ast.AugAssign) -> None:
    before = expressions.value(engine, node.target)
    value = expressions.value(engine, node.value)
    if SYS_PATH in before:
        process_environment.import_paths(engine, value, "sys.path")
    if ENVIRON in before:
        process_environment.replaced(engine, value)
    for space in before:
        if isinstance(space, Namespace):
            reflection.namespace_method(engine, space, "update", Args(node, [value]))
    lists = frozenset(a for a in before if isinstance(a, Container))
    for held in lists:
        if isinstance(held, Container):
            if held.kind == "dict":
                containers.copy(engine, held, value)
            else:
                if not isinstance(node.op, ast.Add):
                    engine.shuffle(held)
                engine.element(held, containers.elements(engine, value))
    if rest := before - lists - {ENVIRON, SYS_PATH}:
        assign(engine, node.target, operators.operation(engine, node, node.op, rest, value))


def _annotated(engine: "Engine", node: ast.AnnAssign) -> None:
    definitions.annotation(engine, node.annotation)
    if engine.scope.kind == "class" and engine.scope.cls is not None and isinstance(node.target, ast.Name):
        fields = engine.scope.cls.fields
        if node.target.id not in fields:
            fields.append(node.target.id)
    if node.value is not None:
        assign(engine, node.target, expressions.value(engine, node.value))


def _return(engine: "Engine", node: ast.Return) -> None:
    value = expressions.value(engine, node.value) if node.value is not None else EMPTY
    closure = engine.unit.closure
    if closure is not None:
        engine.add(closure.returns, value)


def _delete(engine: "Engine", node: ast.Delete) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name) and engine.executing and engine.scope.cls is not None:
            attributes.remove(engine, frozenset({engine.scope.cls}), target.id)
        elif isinstance(target, ast.Attribute):
            attributes.remove(engine, expressions.value(engine, target.value), target.attr)
        elif isinstance(target, ast.Subscript):
            holder = expressions.value(engine, target.value)
            index = expressions.value(engine, target.slice)
            if ENVIRON in holder:
                process_environment.set_variable(engine, index, None, "os.environ")
            attributes.implicit(engine, holder, ("__delitem__",), index)
            for atom in holder:
                if isinstance(atom, Container) and atom.kind != "dict":
                    engine.shuffle(atom)


def _for(engine: "Engine", node: ast.For | ast.AsyncFor) -> None:
    source = expressions.value(engine, node.iter)
    before, engine.loop = engine.loop, id(node)
    assign(engine, node.target, containers.elements(engine, source))
    block(engine, node.body)
    engine.loop = before
    block(engine, node.orelse)


def _while(engine: "Engine", node: ast.While) -> None:
    before, engine.loop = engine.loop, id(node)
    expressions.value(engine, node.test)
    block(engine, node.body)
    engine.loop = before
    block(engine, node.orelse)


def _if(engine: "Engine", node: ast.If) -> None:
    """`elif` is an `if` in an `else`; a long chain of them is no depth."""
    branch: ast.If | None = node
    while branch is not None:
        expressions.value(engine, branch.test)
        block(engine, branch.body)
        rest = branch.orelse
        branch = rest[0] if len(rest) == 1 and isinstance(rest[0], ast.If) else None
        if branch is None:
            block(engine, rest)
        else:
            engine.step()
            engine.line = engine.fixed or branch.lineno


def _with(engine: "Engine", node: ast.With | ast.AsyncWith) -> None:
    for item in node.items:
        value = expressions.value(engine, item.context_expr)
        entered = _entered(engine, value)
        if item.optional_vars is not None:
            assign(engine, item.optional_vars, entered)
    block(engine, node.body)


def _entered(engine: "Engine", value: Value) -> Value:
    """What `with value as x` binds."""
    out: set[Atom] = set()
    for atom in value:
        if isinstance(atom, Container):
            out |= containers.elements(engine, frozenset({atom}))
        elif isinstance(atom, Instance):
            whole = frozenset[Atom]({atom})
            out |= attributes.implicit(engine, whole, ("__enter__", "__aenter__"))
            attributes.implicit(engine, whole, ("__exit__", "__aexit__"), unknown=True)
            if attributes.foreign_bases(engine, atom.cls):
                out |= {atom, ANY}
        elif isinstance(atom, Thing):
            out |= methods.method(engine, atom, "__enter__", Args(_ENTER))
        else:
            out.add(atom)
    return frozenset(out)


_ENTER = ast.Pass()
"""Stands for what `with` calls."""


def _try(engine: "Engine", node: ast.Try) -> None:
    block(engine, node.body)
    for handler in node.handlers:
        if handler.type is not None:
            expressions.value(engine, handler.type)
        if handler.name:
            engine.bind(engine.scope, handler.name, engine.read(engine.raised) | ANYTHING)
        block(engine, handler.body)
    block(engine, node.orelse)
    block(engine, node.finalbody)


def _raise(engine: "Engine", node: ast.Raise) -> None:
    for each in (node.exc, node.cause):
        if each is not None:
            value = expressions.value(engine, each)
            engine.add(engine.raised, frozenset(a for a in value if not isinstance(a, str)))


def _assert(engine: "Engine", node: ast.Assert) -> None:
    expressions.value(engine, node.test)
    if node.msg is not None:
        expressions.value(engine, node.msg)


def _match(engine: "Engine", node: ast.Match) -> None:
    subject = expressions.value(engine, node.subject)
    parts = subject | containers.elements(engine, frozenset(a for a in subject if isinstance(a, Container)))
    parts |= containers.values_of(engine, frozenset(a for a in subject if isinstance(a, (Container, Instance))))
    if any(isinstance(a, Instance) for a in subject):
        parts |= EMPTY.union(*(engine.read(cell) for cell in list(engine.attributes.values())))
    for case in node.cases:
        for pattern in ast.walk(case.pattern):
            if isinstance(pattern, ast.MatchValue):
                expressions.value(engine, pattern.value)
            elif isinstance(pattern, ast.MatchClass):
                expressions.value(engine, pattern.cls)
        for name in scopes.captured(case.pattern):
            engine.bind(engine.scope, name, _matched(engine, case.pattern, name, parts))
        if case.guard is not None:
            expressions.value(engine, case.guard)
        block(engine, case.body)


def _matched(engine: "Engine", pattern: ast.AST, name: str, parts: Value) -> Value:
    """What a name in a pattern may stand for: the subject, something in it, or a list of that."""
    inner = parts
    for _ in range(3):
        inner |= containers.elements(engine, frozenset(a for a in inner if isinstance(a, Container)))
    for node in ast.walk(pattern):
        if (
            isinstance(node, (ast.MatchStar, ast.MatchMapping))
            and (getattr(node, "name", None) or getattr(node, "rest", None)) == name
        ):
            held = engine.container(node, "list" if isinstance(node, ast.MatchStar) else "dict")
            engine.element(held, inner)
            engine.key(held, PLAIN)
            return frozenset({held})
    return inner


def _nothing(engine: "Engine", node: ast.AST) -> None:
    return None


def _alias(engine: "Engine", node: ast.AST) -> None:
    """`type X = ...`"""
    value = expressions.value(engine, node.value)  # type: ignore[attr-defined]
    assign(engine, node.name, value)  # type: ignore[attr-defined]


# The modules below import this one: their functions are looked up when they are needed.


def _import(engine: "Engine", node: ast.Import) -> None:
    imports.plain(engine, node)


def _import_from(engine: "Engine", node: ast.ImportFrom) -> None:
    imports.some(engine, node)


def _function(engine: "Engine", node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    definitions.function(engine, node)


def _class(engine: "Engine", node: ast.ClassDef) -> None:
    definitions.cls(engine, node)


_STATEMENTS: dict[type, Callable[["Engine", Any], None]] = {
    ast.Expr: _expression, ast.Assign: _assign, ast.AugAssign: _augment, ast.AnnAssign: _annotated,
    ast.Return: _return, ast.Delete: _delete, ast.For: _for, ast.AsyncFor: _for, ast.While: _while, ast.If: _if,
    ast.With: _with, ast.AsyncWith: _with, ast.Try: _try, ast.TryStar: _try, ast.Raise: _raise, ast.Assert: _assert,
    ast.Match: _match, ast.Import: _import, ast.ImportFrom: _import_from, ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function, ast.ClassDef: _class, ast.Global: _nothing,
    ast.Nonlocal: _nothing, ast.Pass: _nothing, ast.Break: _nothing, ast.Continue: _nothing,
}  # fmt: skip
if hasattr(ast, "TypeAlias"):
    _STATEMENTS[ast.TypeAlias] = _alias
