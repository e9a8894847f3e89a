"""Lists, tuples, dicts, sets and generators: their elements, and their methods."""

import ast
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python.engine import bounded
from humanlayer_agent.shell.languages.python.library import process_environment
from humanlayer_agent.shell.languages.python.objects import Class, Container, File
from humanlayer_agent.shell.languages.python.syntax import attributes
from humanlayer_agent.shell.languages.python.types import string_values as strings
from humanlayer_agent.shell.languages.python.unknown_code import argument_doubts, capability_leaks
from humanlayer_agent.shell.languages.python.values import (
    ANY,
    ANYTHING,
    DATA,
    EMPTY,
    ENVIRON,
    MAX_TEXTS,
    NONE,
    PLAIN,
    SYS_MODULES,
    WORDS,
    Atom,
    Bound,
    Const,
    Function,
    Instance,
    Lib,
    Mark,
    Module,
    Namespace,
    Thing,
    Type,
    Value,
    const,
    numbers,
    only_texts,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

MAX_ORDERED = 200
"""Longer lists are not looked at one element after the other."""


# ---- elements ---------------------------------------------------------------------------------------


def elements(engine: "Engine", value: Value) -> Value:
    """What iterating over `value` gives."""
    return bounded(EMPTY, engine.union(_elements(engine, atom) for atom in value), 0)


def _elements(engine: "Engine", atom: Atom) -> Value:
    if isinstance(atom, Container):
        engine.look(atom)
        if atom.kind == "dict":
            return keys_of(atom)
        return atom.rest.union(*(atom.items or ()), *atom.named.values())
    if isinstance(atom, str):
        return frozenset(atom) if len(set(atom[: MAX_TEXTS * 4])) <= MAX_TEXTS and len(atom) <= MAX_TEXTS * 4 else PLAIN
    if isinstance(atom, Const):
        return WORDS if isinstance(atom.value, bytes) else EMPTY
    if isinstance(atom, Instance):
        return _iterated(engine, atom)
    if isinstance(atom, Class):
        held = EMPTY.union(*(engine.read(cell) for cell in atom.scope.cells.values()))
        return held | {Instance(atom)}
    if atom is ENVIRON:
        process_environment.printed(engine)
        return PLAIN
    if isinstance(atom, File) or (isinstance(atom, Mark) and atom is not ANY):
        return PLAIN
    if isinstance(atom, (Type, Function, Module)):
        return frozenset({atom, ANY})
    if isinstance(atom, Bound):
        return frozenset({atom})
    if isinstance(atom, Thing):
        return process_environment.thing_elements(engine, atom)
    return PLAIN if isinstance(atom, Namespace) else ANYTHING


def _iterated(engine: "Engine", atom: Instance) -> Value:
    """What iterating over an object of the program gives."""
    whole = frozenset[Atom]({atom})
    out: Value = EMPTY
    iterators = attributes.implicit(engine, whole, ("__iter__", "__aiter__"))
    for each in iterators:
        if isinstance(each, Instance):
            out |= attributes.implicit(engine, frozenset({each}), ("__next__", "__anext__"))
        else:
            out |= _elements(engine, each)
    if not iterators:
        out |= attributes.implicit(engine, whole, ("__getitem__",), WORDS)
    fields = [engine.read(engine.attribute(f)) for f in atom.cls.fields]
    return out.union(engine.read(engine.unnamed), ANYTHING, *fields)


def keys_of(held: Container) -> Value:
    return frozenset(held.named) | (held.keys if ENVIRON not in held.keys else held.keys - {ENVIRON} | PLAIN)


def at(engine: "Engine", value: Value, position: int) -> Value:
    """The element of `value` at `position`, as unpacking gives it."""
    out: Value = EMPTY
    for atom in value:
        if isinstance(atom, Container) and atom.kind != "dict" and atom.items is not None:
            engine.look(atom)
            if -len(atom.items) <= position < len(atom.items) and (position >= 0 or not atom.rest):
                out |= atom.items[position] | (atom.rest if position >= len(atom.items) else EMPTY)
            else:
                out |= atom.rest if position >= 0 else elements(engine, frozenset({atom}))
        elif isinstance(atom, str):
            out |= strings.item(atom, const(position))
        else:
            out |= _elements(engine, atom)
    return out


def sequence(engine: "Engine", value: Value) -> tuple[list[Value], Value | None]:
    """The elements of `value` in order, as far as they are known, and what further ones may be."""
    if (
        len(value) == 1
        and isinstance(atom := next(iter(value)), Container)
        and atom.items is not None
        and atom.kind != "dict"
    ):
        engine.look(atom)
        return list(atom.items), atom.rest or None
    known = [a for a in value if isinstance(a, Container) and a.kind == "tuple" and a.items is not None]
    if known and len(known) == len(value):
        for each in known:
            engine.look(each)
        rows = [each.items or [] for each in known]
        surely = min(map(len, rows))
        rest = EMPTY.union(*(v for row in rows for v in row[surely:]), *(each.rest for each in known))
        return [EMPTY.union(*column) for column in zip(*(row[:surely] for row in rows), strict=True)], rest or None
    return [], elements(engine, value)


def in_order(engine: "Engine", value: Value) -> list[Value] | None:
    """The elements of `value`, where all of them are known constants and in a known order."""
    if len(value) != 1:
        return None
    atom = next(iter(value))
    if isinstance(atom, str):
        return [frozenset({c}) for c in atom] if len(atom) <= MAX_ORDERED else None
    if isinstance(atom, Const) and isinstance(atom.value, bytes):
        return [const(n) for n in atom.value] if len(atom.value) <= MAX_ORDERED else None
    if not isinstance(atom, Container) or atom.items is None or atom.rest or atom.kind == "dict":
        return None
    engine.look(atom)
    constant = all(len(v) == 1 and isinstance(next(iter(v)), (str, Const)) for v in atom.items)
    return list(atom.items) if constant and len(atom.items) <= MAX_ORDERED else None


def keywords(engine: "Engine", value: Value) -> tuple[dict[str, Value], Value | None]:
    """The items of a dict as keyword arguments."""
    named: dict[str, Value] = {}
    others: Value | None = None
    for atom in value:
        if isinstance(atom, Container) and atom.kind == "dict":
            engine.look(atom)
            for key, held in atom.named.items():
                named[key] = named.get(key, EMPTY) | held
            if atom.rest or atom.keys:
                others = (others or EMPTY) | atom.rest
        elif not (isinstance(atom, Const) and atom.value is None):
            others = (others or EMPTY) | values_of(engine, frozenset({atom}))
            if isinstance(atom, Instance):
                capability_leaks.escape(engine, frozenset({atom}), "**")
    return named, others


def values_of(engine: "Engine", value: Value) -> Value:
    """What the values of a dict are."""
    out: Value = EMPTY
    for atom in value:
        if isinstance(atom, Container):
            engine.look(atom)
            out = out.union(atom.rest, *(atom.items or ()), *atom.named.values())
        elif isinstance(atom, Namespace):
            out |= names_of(engine, atom)
        elif atom is ENVIRON:
            process_environment.printed(engine)
            out |= PLAIN
        elif atom is SYS_MODULES:
            out |= {Module("?")}
        elif isinstance(atom, Instance):
            out |= _elements(engine, atom)
        else:
            out |= PLAIN if isinstance(atom, Mark) and atom is not ANY else ANYTHING
    return engine.bounded(EMPTY, out)


def names_of(engine: "Engine", space: Namespace) -> Value:
    """All that the names of a module, class or object stand for."""
    owner = space.owner
    if isinstance(owner, (Instance, Class)):
        cls = owner.cls if isinstance(owner, Instance) else owner
        held = [engine.read(cell) for cell in (*engine.attributes.values(), *cls.scope.cells.values())]
        return engine.read(engine.unnamed).union(*held)
    if isinstance(owner, Module):
        return frozenset({Module("?")}) if capability_leaks.dangerous(engine, owner) else ANYTHING
    held = [engine.read(cell) for cell in list(engine.module.cells.values())]
    return ANYTHING.union({attributes.BUILTINS}, *held) if not isinstance(owner, Lib) else ANYTHING


# ---- x[i] -------------------------------------------------------------------------------------------


def item(engine: "Engine", value: Value, index: Value, node: ast.AST) -> Value:
    """`value[index]`."""
    return engine.union(_item(engine, atom, index) for atom in value)


def _item(engine: "Engine", atom: Atom, index: Value) -> Value:
    if isinstance(atom, Container):
        return element_of(engine, atom, index)
    if isinstance(atom, str):
        return strings.item(atom, index)
    if isinstance(atom, Const):
        return strings.item(atom.value, index) if isinstance(atom.value, bytes) else EMPTY
    if atom is ENVIRON:
        return process_environment.looked_up(engine, index)
    if atom is SYS_MODULES:
        return process_environment.loaded_module(engine, index)
    if isinstance(atom, (Namespace, Module)):
        owner = atom.owner if isinstance(atom, Namespace) else atom
        return by_name(engine, owner, index, atom)
    if isinstance(atom, (Instance, Class)):
        methods = ("__class_getitem__",) if isinstance(atom, Class) else ("__getitem__", "__missing__")
        found = attributes.implicit(engine, frozenset({atom}), methods, index)
        if isinstance(atom, Class):
            return found | {atom}
        return found if found and not attributes.foreign_bases(engine, atom.cls) else found | _iterated(engine, atom)
    if isinstance(atom, (Type, Function)):
        return frozenset({atom})
    if isinstance(atom, Bound):
        return process_environment.bound_item(engine, atom, index)
    if isinstance(atom, Mark) and atom is not ANY:
        return PLAIN
    if isinstance(atom, Lib):
        argument_doubts.of_value(engine, index, "", f"{atom.name}[...]")
    return (
        PLAIN if isinstance(atom, File) else frozenset({atom, ANY}) if not isinstance(atom, (Lib, Mark)) else ANYTHING
    )


def by_name(engine: "Engine", owner: Atom, index: Value, shown: Atom) -> Value:
    """`vars(x)[name]`."""
    known = only_texts(index)
    if known:
        return EMPTY.union(*(attributes.get(engine, frozenset({owner}), name) for name in known))
    if isinstance(owner, Module) and capability_leaks.dangerous(engine, owner):
        engine.doubt(f"a name of {owner.name} that is not known is looked up")
        return ANYTHING
    return names_of(engine, shown if isinstance(shown, Namespace) else Namespace(owner))


def element_of(engine: "Engine", held: Container, index: Value) -> Value:
    engine.look(held)
    positions = numbers(index)
    if held.kind == "dict":
        known = only_texts(index)
        if known is None:
            return held.rest.union(*held.named.values())
        found = held.rest.union(*(held.named.get(key, EMPTY) for key in known))
        if ENVIRON in found:
            process_environment.looked_up(engine, index)
            found = found - {ENVIRON} | PLAIN
        return found
    if positions is not None and held.items is not None and len(positions) <= MAX_TEXTS:
        return EMPTY.union(*(at(engine, frozenset({held}), n) for n in positions))
    return held.rest.union(*(held.items or ()))


def sliced(engine: "Engine", value: Value, bounds: tuple[Value, Value, Value], node: ast.AST) -> Value:
    """`value[a:b:c]`."""
    given = _slice(bounds)
    out: set[Atom] = set()
    for atom in value:
        text = atom.value if isinstance(atom, Const) else atom
        if isinstance(text, (str, bytes)):
            out |= const(text[given]) if given is not None and given.step != 0 else PLAIN
        elif isinstance(atom, Container):
            made = engine.container(node, "list" if atom.kind != "tuple" else "tuple")
            _part(engine, made, atom, given)
            out.add(made)
        elif isinstance(atom, Instance):
            out |= ANYTHING | attributes.implicit(engine, frozenset({atom}), ("__getitem__",), ANYTHING)
        else:
            out |= PLAIN if isinstance(atom, Mark) and atom is not ANY else {atom}
    return frozenset(out)


def _slice(bounds: tuple[Value, Value, Value]) -> slice | None:
    """The slice; None where a bound is not known."""
    found: list[int | None] = []
    for value in bounds:
        known = numbers(value)
        if value and value != NONE and (known is None or len(known) != 1):
            return None
        found.append(known[0] if known and value != NONE else None)
    return slice(*found)


def _part(engine: "Engine", made: Container, source: Container, given: slice | None) -> None:
    engine.look(source)
    if given is not None and source.items is not None and given.step in (None, 1):
        to_the_end = given.stop is None and (given.start or 0) >= 0
        if not source.rest or to_the_end:
            engine.fill(made, source.items[given], source.rest or None)
            return
    engine.shuffle(made)
    engine.element(made, source.rest.union(*(source.items or ())))


def put(engine: "Engine", target: Value, index: Value | None, value: Value, origin: str = "") -> None:
    """`target[index] = value`; `index` is None for a slice."""
    for atom in target:
        if isinstance(atom, Container):
            store(engine, atom, index, value if index is not None else elements(engine, value))
        elif atom is ENVIRON:
            process_environment.set_variable(engine, index or PLAIN, value, "os.environ")
        elif isinstance(atom, Mark) and atom is not ANY and atom is not DATA:
            process_environment.put(engine, atom, index, value)
        elif isinstance(atom, Namespace):
            _put_name(engine, atom, index, value)
        elif isinstance(atom, Instance) and attributes.lookup(engine, atom.cls, "__setitem__"):
            attributes.implicit(
                engine, frozenset({atom}), ("__setitem__",), index if index is not None else PLAIN, value
            )
        elif not isinstance(atom, (str, Const)):
            capability_leaks.escape(engine, value, "`[...] =`")
            if not isinstance(atom, Instance):
                argument_doubts.of_paths(engine, value, "`[...] =`")
            engine.add(engine.unnamed, capability_leaks.only(engine, value) if isinstance(atom, Instance) else EMPTY)
            if index is not None and capability_leaks.loaded(engine, index):
                capability_leaks.escape(engine, index, "`[...] =`")


def _put_name(engine: "Engine", space: Namespace, index: Value | None, value: Value) -> None:
    known = only_texts(index) if index is not None else None
    if known:
        for name in known:
            attributes.put(engine, frozenset({space.owner}), name, value)
    elif isinstance(space.owner, (Instance, Class)):
        engine.add(engine.unnamed, value)
    else:
        engine.doubt("a name that is not known is bound")


def store(engine: "Engine", held: Container, index: Value | None, value: Value) -> None:
    """`held[index] = value`."""
    if held.kind == "dict":
        known = only_texts(index) if index is not None else None
        if known:
            for key in known:
                engine.element(held, value, key)
            return
        engine.key(held, index if index is not None else PLAIN)
        engine.element(held, value)
        return
    engine.shuffle(held)
    engine.element(held, value)


def fill(engine: "Engine", target: Value, values: list[Value]) -> None:
    """A function puts `values` into the container `target`."""
    for atom in target:
        if isinstance(atom, Container):
            engine.shuffle(atom)
            for value in values:
                engine.element(atom, value | elements(engine, frozenset(a for a in value if isinstance(a, Container))))


# ---- making and methods -----------------------------------------------------------------------------


def copy(engine: "Engine", made: Container, source: Value) -> None:
    """`made` gets all elements of `source`."""
    for atom in source:
        if isinstance(atom, Container) and (atom.kind == "dict") == (made.kind == "dict"):
            merge(engine, made, atom)
        elif isinstance(atom, Container) and made.kind == "dict":
            pairs = elements(engine, frozenset({atom}))
            engine.key(made, at(engine, pairs, 0))
            engine.element(made, at(engine, pairs, 1))
        elif made.kind == "dict":
            if atom is ENVIRON:
                engine.key(made, frozenset({ENVIRON}))
                engine.element(made, frozenset({ENVIRON}))
            else:
                engine.key(made, PLAIN)
                engine.element(made, values_of(engine, frozenset({atom})))
                if isinstance(atom, Instance):
                    capability_leaks.escape(engine, frozenset({atom}), "dict")
        else:
            engine.shuffle(made)
            engine.element(made, _elements(engine, atom))


def merge(engine: "Engine", made: Container, source: Container) -> None:
    engine.look(source)
    if source is made:
        return
    for key, held in list(source.named.items()):
        engine.element(made, held, key)
    if source.items is None or made.kind in ("set", "dict"):
        if made.kind != "dict":
            engine.shuffle(made)
        engine.element(made, source.rest.union(*(source.items or ())))
    else:
        engine.fill(made, source.items, source.rest or None)
    if source.keys:
        engine.key(made, source.keys)


def compared(engine: "Engine", one: Value, other: Value) -> Value:
    """Objects of the program are compared with others."""
    methods = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
    return attributes.implicit(engine, one, methods, other) | attributes.implicit(engine, other, methods, one)
