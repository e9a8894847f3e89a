"""Functions and classes that the program defines."""

import ast
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python import names, scopes
from humanlayer_agent.shell.languages.python.objects import Class, Closure, FunctionNode, Scope
from humanlayer_agent.shell.languages.python.syntax import attributes, calls, expressions, statements
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.unknown_code import argument_doubts, capability_leaks, execution
from humanlayer_agent.shell.languages.python.values import EMPTY, Bound, Function, Instance, Lib, Type, Value, const

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


def function(engine: "Engine", node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """`def f(...):`"""
    made = closure(engine, node, node.name)
    for parameter in (
        *node.args.posonlyargs,
        *node.args.args,
        *node.args.kwonlyargs,
        node.args.vararg,
        node.args.kwarg,
    ):
        if parameter is not None and parameter.annotation is not None:
            annotation(engine, parameter.annotation)
    if node.returns is not None:
        annotation(engine, node.returns)
    if engine.scope.kind == "class":
        _method(engine, made, node.name)
    value: Value = frozenset({made})
    for decorator in reversed(node.decorator_list):
        value = _decorated(engine, decorator, value)
    engine.bind(engine.scope, node.name, value)


_ANNOTATED = ("__annotations__", "get_annotations", "get_type_hints", "signature(", "fields(")
"""What gives annotations as values."""


def annotation(engine: "Engine", node: ast.expr) -> None:
    """An annotation is evaluated; one that is a text may be, later (typing.get_type_hints)."""
    if not isinstance(node, ast.Constant):
        found = expressions.value(engine, node)
        if any(map(engine.holds, _ANNOTATED)):
            capability_leaks.escape(engine, capability_leaks.only(engine, found), "an annotation")
    elif isinstance(node.value, str) and "(" in node.value:
        execution.inline(engine, node.value)


def _method(engine: "Engine", made: Closure, name: str) -> None:
    made.cls = made.cls or engine.scope.cls
    if name in ("__init_subclass__", "__class_getitem__"):
        made.kind = "class"
    elif name == "__new__" and made.kind == "function":
        made.kind = "static"
    if name in ("__reduce__", "__reduce_ex__"):
        capability_leaks.release(engine, made)
        inner = expressions.deep(engine, engine.read(made.returns))
        if any(capability_leaks.dangerous(engine, atom) for atom in inner):
            engine.doubt(f"`{name}` gives a function that is called when the object is copied")
        capability_leaks.escape(engine, inner, f"`{name}`")


def _decorated(engine: "Engine", decorator: ast.expr, value: Value) -> Value:
    by = expressions.value(engine, decorator)
    engine.line = engine.fixed or decorator.lineno
    for atom in by:
        if (
            isinstance(atom, Bound)
            and atom.name in ("setter", "getter", "deleter")
            and isinstance(atom.receiver, Closure)
        ):
            return value | {atom.receiver}
        kind = _KINDS.get(atom.dotted) if isinstance(atom, (Type, Function)) else None
        for each in value if kind is not None else ():
            if isinstance(each, Closure) and kind is not None:
                each.computed = each.computed or kind == "property"
                each.kind = kind if kind != "property" else each.kind
    result = calls.call(engine, by, Args(decorator, [value]), _label(decorator))
    known = bool(by) and all(isinstance(a, Closure) for a in by)
    transparent = all(
        isinstance(a, (Type, Function)) and (a.dotted in names.DECORATORS or a.module == "builtins") for a in by
    )
    return result if known else value if transparent else value | result


_KINDS = {
    "builtins.staticmethod": "static",
    "builtins.classmethod": "class",
    "builtins.property": "property",
    "functools.cached_property": "property",
}


def _label(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def closure(engine: "Engine", node: FunctionNode, name: str) -> Closure:
    """The function that `node` makes, with its defaults."""
    made = engine.site(node, "closure", lambda: _new(engine, node, name))
    spec = node.args
    positional = [*spec.posonlyargs, *spec.args]
    for parameter, default in zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True):
        _default(engine, made, parameter, default)
    for parameter, keyword in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        if keyword is not None:
            _default(engine, made, parameter, keyword)
    return made


def _new(engine: "Engine", node: FunctionNode, name: str) -> Closure:
    scope = scopes.function_scope(engine, node, engine.scope)
    made = Closure(node, scope, name)
    scope.closure = made
    engine.closures.append(made)
    return made


def _default(engine: "Engine", made: Closure, parameter: ast.arg, default: ast.expr) -> None:
    value = expressions.value(engine, default)
    held = made.given.get(parameter.arg, EMPTY) | value
    if held != made.given.get(parameter.arg):
        made.given[parameter.arg] = held
        _kept(engine, made, parameter, value)
        if made.called or made.escaped:
            engine.add(made.scope.cell(parameter.arg), held)


def _kept(engine: "Engine", made: Closure, parameter: ast.arg, value: Value) -> None:
    """`f.__defaults__`, `f.__kwdefaults__`: the default of `parameter` is in them."""
    listed, named = engine.container(made.node, "tuple", "defaults"), engine.container(made.node, "dict", "defaults")
    engine.shuffle(listed)
    engine.element(listed, value)
    engine.element(named, value, parameter.arg)
    engine.add(made.defaults, frozenset({listed, named}))


METACLASS = Type("builtins", "type")
"""What a class inherits from that makes classes, or has been made by one of the program's."""


def cls(engine: "Engine", node: ast.ClassDef) -> None:
    """`class C(...):`"""
    made = engine.site(node, "class", lambda: _new_class(engine, node))
    for base in node.bases:
        inner = base.value if isinstance(base, ast.Starred) else base
        engine.inherit(made, expressions.value(engine, inner))
    keywords = {k.arg or "**": expressions.value(engine, k.value) for k in node.keywords}
    if not {"metaclass", "**"}.isdisjoint(keywords) or METACLASS in attributes.foreign_bases(engine, made):
        made.definite = frozenset()  # a metaclass makes of the body what it likes
    before, engine.scope = engine.scope, made.scope
    statements.block(engine, node.body)
    engine.scope = before
    engine.line = engine.fixed or node.lineno
    value: Value = frozenset({made})
    for name, given in keywords.items():
        if name == "metaclass":
            value |= _from_metaclass(engine, node, made, given)
    _heirs(engine, node, made, {k: v for k, v in keywords.items() if k not in ("metaclass", "**")}, keywords.get("**"))
    _expose(engine, made)
    for decorator in reversed(node.decorator_list):
        value = _decorated(engine, decorator, value)
    engine.bind(engine.scope, node.name, value)


def _new_class(engine: "Engine", node: ast.ClassDef) -> Class:
    bound: set[str] = set()
    declared: list[ast.Global | ast.Nonlocal] = []
    scopes.collect(node.body, bound, declared, engine.may_hold(":="))
    scope = Scope("class", engine.scope, frozenset(bound))
    scopes.declare(engine, scope, declared)
    made = Class(node.name, scope)
    made.definite = _definite(node.body, removing=engine.may_hold("del"))
    scope.cls = made
    engine.classes.append(made)
    return made


def _definite(body: list[ast.stmt], *, removing: bool) -> frozenset[str]:
    """The names that a class body binds in any case; `removing`: there may be a `del` in it."""
    found: set[str] = set()
    removed = False
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(statement.name)
        elif isinstance(statement, ast.Assign):
            found.update(name for target in statement.targets for name in scopes.targets(target))
        if removing and isinstance(statement, (ast.Delete, ast.If, ast.For, ast.With, ast.Try, ast.While)):
            removed = removed or any(isinstance(inner, ast.Delete) for inner in ast.walk(statement))
    return frozenset() if removed else frozenset(found)


def _heirs(engine: "Engine", node: ast.ClassDef, made: Class, named: dict[str, Value], others: Value | None) -> None:
    """A base class is told of its heirs by `__init_subclass__`."""
    args = Args(node, [], named, None, others)
    for each in attributes.ancestors(engine, made, "__init_subclass__"):
        if isinstance(each, Closure):
            calls.closure(engine, each, args, made)
    if attributes.foreign_bases(engine, made):
        for given in args.every():
            capability_leaks.escape(engine, given, f"class {node.name}")


def _from_metaclass(engine: "Engine", node: ast.ClassDef, made: Class, given: Value) -> Value:
    """What a metaclass of the program makes of the class; that of a library sees all that is in it."""
    out: Value = EMPTY
    for atom in given:
        if isinstance(atom, Class):
            engine.inherit(made, frozenset({atom}))
            for name in ("__new__", "__init__", "__call__", "__prepare__"):
                for each in attributes.lookup(engine, atom, name):
                    if isinstance(each, Closure):
                        out |= calls.closure(engine, each, Args.unknown(node), atom)
            out = frozenset(a for a in out if not isinstance(a, Instance))
        elif isinstance(atom, Type) and atom.dotted in ("builtins.type", "abc.ABCMeta", "enum.EnumMeta"):
            continue
        elif isinstance(atom, Lib):
            capability_leaks.escape(engine, frozenset({made}), "other code")
        else:
            out |= calls.call(engine, frozenset({atom}), Args(node, [const(made.name), EMPTY, EMPTY]), "metaclass")
    return out


def _expose(engine: "Engine", made: Class) -> None:
    """A base class from elsewhere may call what it finds in its heirs."""
    for base in attributes.foreign_bases(engine, made):
        name = base.name if isinstance(base, (Lib, Type, Function)) else ""
        if isinstance(base, Type) and base.module == "builtins":
            continue
        if name.endswith(names.PLAIN_BASES):
            for method, cell in list(made.scope.cells.items()):
                if method.startswith(names.CALLED_BY_BASES):
                    for each in engine.read(cell):
                        if isinstance(each, Closure):
                            capability_leaks.release(engine, each)
        else:
            capability_leaks.escape(engine, frozenset({made}), "other code")
            for cell in list(made.scope.cells.values()):
                argument_doubts.of_paths(engine, engine.read(cell), f"class {made.name}")
