"""The names that a piece of code binds, and the places where a name is looked for."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python import names
from humanlayer_agent.shell.languages.python.library import module_values, tables
from humanlayer_agent.shell.languages.python.objects import FunctionNode, Scope
from humanlayer_agent.shell.languages.python.syntax import attributes
from humanlayer_agent.shell.languages.python.values import ANYTHING, EMPTY, PLAIN, Function, Type, Value

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_BINDS_NOTHING = (ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.Pass)
"""Statements without blocks, in which only `:=` binds."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NO_BLOCKS = (*_DEFINITIONS, ast.Assign, ast.Import, ast.ImportFrom, ast.AugAssign, ast.AnnAssign)
"""Statements that hold no others, or others that bind elsewhere."""


def function_names(node: FunctionNode, walrus: bool) -> tuple[frozenset[str], list[ast.Global | ast.Nonlocal]]:
    """The names that a function binds, and its `global` and `nonlocal` statements."""
    spec = node.args
    bound = {p.arg for p in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
    bound.update(p.arg for p in (spec.vararg, spec.kwarg) if p is not None)
    declared: list[ast.Global | ast.Nonlocal] = []
    if not isinstance(node, ast.Lambda):
        collect(node.body, bound, declared, walrus)
    elif walrus:
        bound.update(_walruses(node.body))
    return frozenset(bound), declared


def collect(body: Sequence[ast.AST], bound: set[str], declared: list[ast.Global | ast.Nonlocal], walrus: bool) -> None:  # noqa: C901
    """Add to `bound` the names that the statements `body` bind, not looking into functions and classes."""
    for node in body:
        if isinstance(node, _BINDS_NOTHING):
            if walrus:
                bound.update(_walruses(node))
            continue
        if isinstance(node, ast.Assign):
            for target in node.targets:
                bound.update(targets(target))
        elif isinstance(node, _DEFINITIONS):
            bound.add(node.name)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor)):
            bound.update(targets(node.target))
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    bound.update(targets(item.optional_vars))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update(a.asname or a.name.partition(".")[0] for a in node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            declared.append(node)
        elif isinstance(node, ast.match_case):
            bound.update(captured(node.pattern))
        elif type(node).__name__ == "TypeAlias":
            bound.update(targets(node.name))  # type: ignore[attr-defined]
        if walrus and not isinstance(node, _DEFINITIONS):
            bound.update(_walruses(node))
        elif walrus:
            for inner in (*node.decorator_list, *getattr(node, "bases", ())):  # type: ignore[attr-defined]
                bound.update(_walruses(inner))
        if not isinstance(node, _NO_BLOCKS):
            for block in _BLOCKS:
                inner_body = getattr(node, block, None)
                if inner_body:
                    collect(inner_body, bound, declared, walrus)


def _walruses(node: ast.AST) -> Iterator[str]:
    """Names that `:=` binds; in a function's own expressions they are the function's."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.NamedExpr):
            yield inner.target.id


def targets(node: ast.AST) -> Iterator[str]:
    """The names in the target of an assignment."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, (ast.Tuple, ast.List)):
        for each in node.elts:
            yield from targets(each)
    elif isinstance(node, ast.Starred):
        yield from targets(node.value)


def captured(pattern: ast.AST) -> Iterator[str]:
    """The names that a pattern of `match` binds."""
    for node in ast.walk(pattern):
        if isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest


def module_scope(engine: "Engine", tree: ast.Module) -> None:
    """Find what the module binds, and what functions bind in it by `global`."""
    bound: set[str] = set()
    collect(tree.body, bound, [], engine.holds(":="))
    if engine.holds("global"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Global):
                bound.update(node.names)
    engine.module.local = frozenset(bound)


def function_scope(engine: "Engine", node: FunctionNode, parent: Scope) -> Scope:
    """The scope of a function that stands in `parent`."""
    found, declared = function_names(node, engine.may_hold(":="))
    scope = Scope("function", parent, found)
    declare(engine, scope, declared)
    return scope


def declare(engine: "Engine", scope: Scope, declared: Sequence[ast.Global | ast.Nonlocal]) -> None:
    """Let `global` and `nonlocal` send names elsewhere."""
    for statement in declared:
        for name in statement.names:
            scope.declared[name] = engine.module if isinstance(statement, ast.Global) else outer(scope, name, engine)


def outer(scope: Scope, name: str, engine: "Engine") -> Scope:
    """The function around `scope` that binds `name`."""
    above = scope.parent
    while above is not None and not (
        above.kind in ("function", "comprehension") and above.local is not None and name in above.local
    ):
        above = above.parent
    return above if above is not None else engine.module


def lookup(engine: "Engine", name: str) -> Value:
    """What `name` stands for here."""
    scope: Scope | None = engine.scope
    first = True
    out: Value = engine.read(engine.injected)
    if (given := engine.given.get(name)) is not None:
        out |= engine.read(given)
    while scope is not None:
        if name in scope.declared:
            return (
                out | _global(engine, name)
                if scope.declared[name] is engine.module
                else out | engine.read(scope.declared[name].cell(name))
            )
        if scope.kind == "module":
            break
        if scope.kind == "class":
            # A name that a class body binds is the outer one before that.
            if first and scope.local is not None and name in scope.local:
                out = engine.read(scope.cell(name))
        elif scope.local is not None and name in scope.local:
            exact = name in scope.exact and scope.reader is engine.unit
            return out | (scope.exact[name] if exact else engine.read(scope.cell(name)))
        first = first and scope.kind == "comprehension"
        scope = scope.parent
    if (
        name == "__class__"
        and scope is not None
        and engine.scope.closure is not None
        and engine.scope.closure.cls is not None
    ):
        return frozenset({engine.scope.closure.cls})
    if name.startswith("__") and not name.endswith("__"):
        # In a class it may be that of a name with the class's in front.
        out = out.union(
            *(
                engine.read(cell)
                for key, cell in list(engine.module.cells.items())
                if attributes.plain_name(key) == name
            )
        )
    return out | _global(engine, name) if out else _global(engine, name)


def _global(engine: "Engine", name: str) -> Value:
    module = engine.module
    if module.local is not None and name in module.local:
        found = engine.read(module.cell(name))
        return found | _builtin(engine, name) if name in names.BUILTINS else found
    found = engine.read(module.cell(name))
    starred = _starred(engine, name) if engine.stars else EMPTY
    if name in names.BUILTINS:
        return found | starred | _builtin(engine, name)
    if starred:
        return found | starred
    if name in names.PLAIN_NAMES:
        return found | (frozenset({"__main__"}) if name == "__name__" else PLAIN)
    if name == "__builtins__":
        return found | {attributes.BUILTINS}
    if name in names.PYTHON2:
        return found | module_values.of_module(engine, attributes.PYTHON2, name)
    if name == "__loader__":
        engine.doubt("`__loader__` leads to code that can't be followed")
    return found | ANYTHING


def _starred(engine: "Engine", name: str) -> Value:
    """What `from m import *` may bind to `name`."""
    out: Value = EMPTY
    for star in engine.stars:
        table = tables.module(star.name)
        if table is not None and (table.function(name) or table.type(name) or table.value(name)):
            out |= module_values.of_module(engine, star, name)
    return out


def bound_names(tree: ast.Module) -> set[str]:
    """The names that a text binds."""
    bound: set[str] = set()
    collect(tree.body, bound, [], walrus=True)
    return bound


def bind_more(engine: "Engine", tree: ast.Module) -> None:
    """A text that is executed binds names where it is executed."""
    bound = bound_names(tree)
    scope = engine.scope
    while scope.kind == "comprehension" and scope.parent is not None:
        scope = scope.parent
    for each in {scope, engine.module}:
        each.local = (each.local or frozenset()) | bound


@cache
def _of_builtins(name: str) -> Value:
    """What one of `names.BUILTINS` stands for."""
    return frozenset({Type("builtins", name) if name in names.BUILTIN_TYPES else Function("builtins", name)})


def _builtin(engine: "Engine", name: str) -> Value:
    if name == "__file__":
        return frozenset({engine.path}) if engine.path is not None else PLAIN
    if name in names.PLAIN_NAMES:
        return frozenset({"__main__"}) if name == "__name__" else PLAIN
    if name == "__loader__":
        engine.doubt("`__loader__` leads to code that can't be followed")
        return ANYTHING
    patched = engine.read(engine.patch("builtins", name))
    return _of_builtins(name) | patched if patched else _of_builtins(name)
