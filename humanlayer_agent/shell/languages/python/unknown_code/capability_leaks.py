"""Values that can do something: which they are, and what becomes of them where nobody can follow.

A function or module of the tables that does something may be called, bound, stored and handed to the program's own
functions: all of that is followed. Handed to other code it counts as called with arguments that are not known.
"""

import ast
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python import names
from humanlayer_agent.shell.languages.python.engine import MAX_NESTED
from humanlayer_agent.shell.languages.python.library import effects, tables
from humanlayer_agent.shell.languages.python.objects import Class, Closure, Container, File, Outside, Partial, Unit
from humanlayer_agent.shell.languages.python.syntax import calls, methods, statements
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.unknown_code import argument_doubts
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    ENVIRON,
    SELF,
    SYS_MODULES,
    SYS_PATH,
    Atom,
    Below,
    Bound,
    Const,
    Function,
    Instance,
    Lib,
    Method,
    Module,
    Namespace,
    Place,
    Prefix,
    Thing,
    Type,
    Value,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

Object = Closure | Method | Partial | Bound | Container | Class | Instance | File | Namespace
_OBJECTS = (Container, Closure, Class, Method, Partial, Bound, Instance, File, Namespace)
_PLAIN = frozenset({str, Const, Lib, Place, Below, Prefix, Thing})
"""What does nothing in the hands of others."""
_CALLABLE = (Function, Module, Type, Closure, Method, Partial, Bound, Container, Namespace, Instance, Class)
_SYSTEM = frozenset({Module("os"), Module("posix"), Module("nt")})
_NOBODY = "other code"
"""Who calls a function that nobody seems to call."""
_NODE = ast.Pass()
"""Stands for calls that are not in the source."""
_REFLECTIVE = frozenset(
    {"exec", "eval", "__import__", "compile", "globals", "locals", "vars", "setattr", "open", "breakpoint"}
)


def dangerous(engine: "Engine", atom: Atom) -> bool:
    """Does calling `atom`, or an attribute of it, do something?"""
    if isinstance(atom, Function):
        if atom.module == "builtins" and atom.name in _REFLECTIVE:
            return True
        return bool(function_effects(atom))
    if isinstance(atom, Module):
        table = tables.module(atom.name)
        return table is None or table.dangerous
    if isinstance(atom, Type):
        entry = table.type(atom.name) if (table := tables.module(atom.module)) is not None else None
        return entry is not None and bool(entry.does)
    return False


def function_effects(function: Function) -> tables.Does:
    """What calling `function` does."""
    table = tables.module(function.module)
    if table is None:
        return tables.DOUBT
    entry = table.function(function.name)
    if entry is not None:
        return entry.does
    private = function.name.startswith("_") and not function.name.startswith("__")
    return tables.DOUBT if private and tables.standard(function.module) else table.others


def loaded(engine: "Engine", value: Value) -> bool:
    """May `value` be, or hold, something that can be called to an effect?"""
    return any(isinstance(a, _CALLABLE) or a is SYS_MODULES for a in value)


def only(engine: "Engine", value: Value) -> Value:
    """What in `value` can be called to an effect."""
    return frozenset(
        a for a in value if isinstance(a, (Closure, Method, Partial, Bound, Container)) or dangerous(engine, a)
    )


def called(engine: "Engine", closure: Closure, receiver: Atom) -> None:
    """Python calls a method of `receiver` by itself."""
    calls.closure(engine, closure, Args(closure.node), receiver)


def release(engine: "Engine", closure: Closure) -> None:
    """`closure` may be called by code that is not read here, which gets what it returns."""
    escape(engine, frozenset({closure}), _NOBODY)


def escape(engine: "Engine", value: Value, whither: str, *, changes: bool = False) -> None:
    """`value` goes where nobody can follow; `changes`: to code that may put something into lists and objects."""
    for atom in value:
        if type(atom) in _PLAIN:
            continue
        if isinstance(atom, _OBJECTS):
            _leaves(engine, atom, whither, changes)
        elif isinstance(atom, (Function, Type, Module)):
            if dangerous(engine, atom):
                _handed(engine, atom, whither)
        elif atom is ENVIRON:
            engine.act("environment", frozenset({"environment"}), whither, role="read")
        elif atom is SYS_MODULES or atom is SYS_PATH:
            engine.doubt(f"{atom} is handed to {whither}")


def give_up(engine: "Engine", value: Value) -> None:
    """`value` is too much to be followed."""
    escape(engine, value, "too many places", changes=True)


def _leaves(engine: "Engine", atom: Object, whither: str, changes: bool) -> None:
    """An object is outside from now on: whatever is in it, or comes into it, is so as well."""
    if (atom, changes) in engine.outside:
        return
    if isinstance(atom, Closure):
        atom.escaped = True
    unit = engine.outside[atom, changes] = Unit(Outside(atom, whither, changes, engine.line), engine.module)
    if isinstance(atom, Container) and engine.depth < MAX_NESTED:
        engine.enter(
            unit, statements.read
        )  # what it may hold then is known before anybody looks: nothing is read twice
    else:
        engine.wait(unit)


def follow(engine: "Engine", outside: Outside) -> None:
    """What code that is not read here may do with an object."""
    engine.line = outside.line
    atom, whither, changes = outside.atom, outside.whither, outside.changes
    if isinstance(atom, (Closure, Method)):
        closure = atom if isinstance(atom, Closure) else atom.closure
        closure.escaped = True
        calls.open_parameters(engine, closure)
        returned = engine.read(closure.returns)
        escape(engine, returned, "a result")
        if whither != _NOBODY:
            argument_doubts.of_value(engine, returned, "", whither)
    elif isinstance(atom, Partial):
        calls.partial(engine, atom, Args.unknown(_NODE))
    elif isinstance(atom, Bound):
        methods.method(engine, atom.receiver, atom.name, Args.unknown(_NODE))
    elif isinstance(atom, Container):
        _contents(engine, atom, whither, changes)
    elif isinstance(atom, Class):
        _members(engine, atom)
    elif isinstance(atom, Instance):
        _stored(engine, atom, whither, changes)
    elif isinstance(atom, File):
        atom.unclear = True
    elif atom.owner is SELF:
        engine.doubt(f"the names of this module are handed to {whither}")
    elif not isinstance(atom.owner, Instance):
        escape(engine, frozenset({atom.owner}), whither)


def _members(engine: "Engine", cls: Class) -> None:
    for name, cell in list(cls.scope.cells.items()):
        for each in engine.read(cell):
            if not isinstance(each, Closure) or name not in names.CALLED_BY_NAME or name == "__call__":
                escape(engine, frozenset({each}), f"{cls.name}.{name}")
    escape(engine, engine.read(cls.bases), "other code")


def _stored(engine: "Engine", atom: Instance, whither: str, changes: bool) -> None:
    escape(engine, frozenset({atom.cls}), whither)
    atom.cls.readers.add(engine.unit)
    for name in sorted(atom.cls.stored):
        if changes:
            engine.add(engine.attribute(name), ANYTHING)
        escape(engine, engine.read(engine.attribute(name)), whither)


def _handed(engine: "Engine", atom: Function | Type | Module, whither: str) -> None:
    if isinstance(atom, Module):
        engine.doubt(f"the module {atom.name} is handed to {whither}")
    elif isinstance(atom, Function) and atom.module == "builtins" and atom.name in _REFLECTIVE:
        engine.doubt(f"{atom.name} is handed to {whither}")
    else:
        does = function_effects(atom) if isinstance(atom, Function) else calls.constructor(atom)
        effects.perform(engine, does, Args.unknown(_NODE), atom.dotted)


def _contents(engine: "Engine", container: Container, whither: str, changes: bool) -> None:
    if changes and container.kind in ("list", "dict", "set") and not container.shared:
        container.shared, container.handed = True, [*(container.items or ())]
        engine.shuffle(container)
        engine.element(container, ANYTHING)
        engine.key(container, ANYTHING)
    engine.look(container)
    for value in attributes_of(container):
        escape(engine, value, whither, changes=changes)


def attributes_of(container: Container) -> list[Value]:
    """All elements of `container`."""
    return [*(container.items or container.handed), *container.named.values(), container.rest, container.keys]


def reachable(engine: "Engine", value: Value, depth: int = 3) -> set[Atom]:
    """The atoms in `value`, and in the containers in it, that many levels deep."""
    found: set[Atom] = set(value)
    level = [a for a in value if isinstance(a, Container)]
    while level and depth:
        depth -= 1
        inner: set[Atom] = set()
        for container in level:
            engine.look(container)
            inner.update(*attributes_of(container), container.named)
        engine.step(len(inner) // 8)
        level = [a for a in inner - found if isinstance(a, Container)]
        found |= inner
    return found


def environment_in(engine: "Engine", value: Value) -> bool:
    """Is the whole environment, or a copy of it, in `value`?"""
    held = False
    for atom in value:
        if atom is ENVIRON or (isinstance(atom, Namespace) and atom.owner in _SYSTEM):
            return True
        held = held or isinstance(atom, Container)
    return held and ENVIRON in reachable(engine, value)
