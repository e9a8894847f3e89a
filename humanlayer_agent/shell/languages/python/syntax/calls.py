"""Calls: of the program's own functions and classes, of what the tables know, of everything else."""

import ast
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python import names
from humanlayer_agent.shell.languages.python.engine import MAX_NESTED
from humanlayer_agent.shell.languages.python.library import builtin_functions, effects, results, tables
from humanlayer_agent.shell.languages.python.objects import Class, Closure, Container, Partial
from humanlayer_agent.shell.languages.python.syntax import attributes, methods, statements
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.types import containers, path_objects, path_values
from humanlayer_agent.shell.languages.python.unknown_code import argument_doubts, capability_leaks, unknown_calls
from humanlayer_agent.shell.languages.python.values import (
    ANY,
    ANYTHING,
    EMPTY,
    PLAIN,
    Atom,
    Bound,
    Function,
    Instance,
    Lib,
    Mark,
    Method,
    Module,
    Super,
    Type,
    Value,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


def call(engine: "Engine", value: Value, args: Args, label: str = "") -> Value:
    """What `value(...)` does and gives. `label` is how the source names it."""
    if len(value) == 1:
        return _call(engine, next(iter(value)), args, label)
    return engine.union(_call(engine, atom, args, label) for atom in value)


def _call(engine: "Engine", atom: Atom, args: Args, label: str) -> Value:
    engine.step()
    if isinstance(atom, Function):
        return function(engine, atom, args)
    if isinstance(atom, Closure):
        return closure(engine, atom, args)
    if isinstance(atom, Method):
        return closure(engine, atom.closure, args, atom.receiver)
    if isinstance(atom, Lib):
        return unknown_calls.call(engine, args, atom.name.rpartition(".")[2], atom.name)
    if isinstance(atom, Class):
        return construct(engine, atom, args)
    if isinstance(atom, Type):
        return instance(engine, atom, args)
    if isinstance(atom, Bound):
        return _bound(engine, atom, args)
    if isinstance(atom, Partial):
        return partial(engine, atom, args)
    if isinstance(atom, Instance):
        return _instance_called(engine, atom, args, label)
    if isinstance(atom, Module) and atom.name == "?":
        engine.doubt("something of a module is called, and nobody can tell what")
    if atom is ANY or isinstance(atom, Module):
        return unknown_calls.call(engine, args, label, "")
    if isinstance(atom, Mark):
        unknown_calls.call(engine, args, label, "")
        return PLAIN
    return EMPTY


def _bound(engine: "Engine", atom: Bound, args: Args) -> Value:
    """A method that was taken from its object; one that leads to itself is called once."""
    if ("call", atom) in engine.leaving:
        return ANYTHING
    engine.leaving.add(("call", atom))
    out = methods.method(engine, atom.receiver, atom.name, args)
    engine.leaving.discard(("call", atom))
    return out


def _instance_called(engine: "Engine", atom: Instance, args: Args, label: str) -> Value:
    found = attributes.lookup(engine, atom.cls, "__call__")
    out: Value = EMPTY
    for each in found:
        out |= closure(engine, each, args, atom) if isinstance(each, Closure) else _call(engine, each, args, label)
    if not found and attributes.foreign_bases(engine, atom.cls):
        out |= unknown_calls.call(engine, args, label, "")
    return out


# ---- the program's own ------------------------------------------------------------------------------


def closure(engine: "Engine", called: Closure, args: Args, receiver: Atom | None = None) -> Value:
    """A function of the program is called; `receiver` is the object that it was taken from."""
    called.called = True
    engine.step(1 + len(args.positional) + len(called.node.args.args))
    if receiver is not None:
        args = args.before(_receiver(called, receiver))
    _bind(engine, called, args)
    unit = called.unit
    if not unit.runs:
        if engine.depth < MAX_NESTED:
            engine.enter(unit, statements.read)
        else:
            engine.wait(unit)
    return engine.read(called.returns)


def _receiver(called: Closure, receiver: Atom) -> Value:
    if isinstance(receiver, Super):
        receiver = Instance(receiver.cls)
    if receiver is ANY and called.cls is not None:
        receiver = called.cls if called.kind == "class" else Instance(called.cls)
    return frozenset({receiver})


def _bind(engine: "Engine", called: Closure, args: Args) -> None:
    spec, scope = called.node.args, called.scope
    parameters = [*spec.posonlyargs, *spec.args]
    for n, parameter in enumerate(parameters):
        given = args.at(n, parameter.arg)
        engine.add(scope.cell(parameter.arg), called.given.get(parameter.arg, EMPTY) if given is None else given)
    for parameter in spec.kwonlyargs:
        given = args.at(-1, parameter.arg)
        engine.add(scope.cell(parameter.arg), called.given.get(parameter.arg, EMPTY) if given is None else given)
    if spec.vararg is not None:
        held = _packed(engine, called, spec.vararg, "tuple")
        engine.fill(held, args.positional[len(parameters) :], args.rest)
    if spec.kwarg is not None:
        held = _packed(engine, called, spec.kwarg, "dict")
        taken = {p.arg for p in (*spec.args, *spec.kwonlyargs)}
        for name, value in args.named.items():
            if name not in taken:
                engine.element(held, value, name)
        if args.others is not None:
            engine.element(held, args.others)
            engine.key(held, PLAIN)


def _packed(engine: "Engine", called: Closure, parameter: ast.arg, kind: str) -> Container:
    held = engine.container(parameter, kind)
    engine.add(called.scope.cell(parameter.arg), frozenset({held}))
    return held


def open_parameters(engine: "Engine", opened: Closure) -> None:
    """Anything may be passed to `opened`."""
    args = Args.unknown(opened.node)
    if opened.cls is not None and opened.kind != "static":
        family = engine.descendants(opened.cls)
        own: Value = frozenset(family) if opened.kind == "class" else frozenset(map(Instance, family))
        args = args.before(own)
    for name, value in opened.given.items():
        engine.add(opened.scope.cell(name), value)
    if engine.holds("pytest"):
        args.named |= {name: made for name, made in _FIXTURES.items() if name in (opened.scope.local or ())}
    _bind(engine, opened, args)
    if not opened.unit.runs:
        engine.wait(opened.unit)


_FIXTURES = {"tmp_path": path_objects.made(frozenset({path_values.TEMPORARY}))}
"""What pytest passes to a function by the name of the parameter."""


def construct(engine: "Engine", cls: Class, args: Args) -> Value:
    """An instance of a class of the program is made."""
    made = Instance(cls)
    out: Value = frozenset({made})
    initial = attributes.lookup(engine, cls, "__init__")
    for name, found in (("__init__", initial), ("__new__", attributes.lookup(engine, cls, "__new__"))):
        for each in found:
            if isinstance(each, Closure):
                result = closure(engine, each, args, made if name == "__init__" else cls)
                out |= result if name == "__new__" else EMPTY
            else:
                out |= _call(engine, each, args.before(frozenset({made})), name)
    for each in attributes.lookup(engine, cls, "__post_init__"):
        if isinstance(each, Closure):
            closure(engine, each, Args.unknown(args.node), made)
    if not initial:
        _inherited_constructor(engine, cls, args)
    return out


def _inherited_constructor(engine: "Engine", cls: Class, args: Args) -> None:
    foreign = attributes.foreign_bases(engine, cls)
    unread = False
    for base in foreign:
        if isinstance(base, Type) and base.module != "builtins":
            instance(engine, base, args)
        elif isinstance(base, (Lib, Mark, Function)):
            unknown_calls.call(engine, args, cls.name, "")
            unread = True
    for n, value in enumerate(args.positional):
        if n < len(cls.fields):
            engine.store(cls, cls.fields[n], value)
        elif not unread:
            engine.add(engine.unnamed, capability_leaks.only(engine, value))
    for name, value in args.named.items():
        engine.store(cls, name, value)
        engine.add(engine.unnamed, EMPTY if unread else capability_leaks.only(engine, value))
    for hidden in (args.rest, args.others):
        if hidden is not None and not unread:
            engine.add(engine.unnamed, capability_leaks.only(engine, hidden))


# ---- what the tables know ---------------------------------------------------------------------------


def function(engine: "Engine", called: Function, args: Args) -> Value:
    """A function of a known module is called."""
    dotted = called.dotted
    if (special := builtin_functions.special(dotted)) is not None:
        return special(engine, args)
    does = capability_leaks.function_effects(called)
    effects.perform(engine, does, args, dotted)
    if dotted in names.INERT:
        for value in args.every():
            if capability_leaks.environment_in(engine, value):
                engine.act("environment", frozenset({"environment"}), dotted, role="read")
    elif dotted not in names.KEEPS:
        table = tables.module(called.module)
        entry = table.function(called.name) if table is not None else None
        hand_over(engine, args, does, dotted, told=tables.told(called.module, entry))
    return results.of_function(engine, called, args)


def hand_over(engine: "Engine", args: Args, does: tables.Does, dotted: str, *, told: bool) -> None:
    """Arguments that no effect accounts for go to code that is not read here.

    Args:
        told: the tables say all that the function does with what it gets.
    """
    told = told or does == tables.DOUBT
    taken: set[int | str] = {"env"} if any(e.kind in ("program", "shell") for e in does) else set()
    for effect in does:
        if effect.kind != "call":
            if effect.operand is not None:
                taken |= {effect.operand.position, effect.operand.keyword}
            continue
        for operand in (effect.operand, effect.arguments):
            if isinstance(operand, tables.Operand):
                taken |= {operand.position, operand.keyword}
            elif operand is not None:
                return
    for n, value in enumerate(args.positional):
        given = value if n not in taken else frozenset(a for a in value if isinstance(a, Instance))
        _hand_over(engine, given, dotted, told=told)
    for name, value in args.named.items():
        if name not in taken:
            _hand_over(engine, value, dotted, told=told)
    for hidden in (args.rest, args.others):
        if hidden is not None and hidden != ANYTHING:
            _hand_over(engine, hidden, dotted, told=told)
    if dotted in names.FILLING:
        target, *values = [*args.every(), EMPTY]
        containers.fill(engine, target, values)


def _hand_over(engine: "Engine", value: Value, dotted: str, *, told: bool) -> None:
    capability_leaks.escape(engine, value, dotted)
    if not told:
        argument_doubts.of_value(engine, value, dotted.rpartition(".")[2], dotted)


def constructor(kind: Type) -> tables.Does:
    """What making an instance of `kind` does."""
    entry = table.type(kind.name) if (table := tables.module(kind.module)) is not None else None
    return entry.does if entry is not None else ()


def instance(engine: "Engine", kind: Type, args: Args) -> Value:
    """An instance of a known class is made."""
    if kind.module == "builtins":
        return builtin_functions.construct(engine, kind.name, args)
    if (special := builtin_functions.special(kind.dotted)) is not None:
        return special(engine, args)
    does = constructor(kind)
    effects.perform(engine, does, args, kind.dotted)
    if kind.dotted not in names.KEEPS:
        table = tables.module(kind.module)
        entry = table.type(kind.name) if table is not None else None
        hand_over(engine, args, does, kind.dotted, told=tables.told(kind.module, entry))
    return results.of_type(engine, kind, args)


def partial(engine: "Engine", made: Partial, args: Args) -> Value:
    """What functools.partial made is called."""
    first = [engine.read(cell) for cell in made.positional]
    named = {name: engine.read(cell) for name, cell in made.keywords.items()}
    full = Args(args.node, [*first, *args.positional], named | args.named, args.rest, args.others)
    return call(engine, engine.read(made.function), full)


# ---- methods ----------------------------------------------------------------------------------------
