"""Calls of methods."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python import names
from humanlayer_agent.shell.languages.python.library import (
    builtin_functions,
    effects,
    process_environment,
    results,
    tables,
)
from humanlayer_agent.shell.languages.python.objects import Class, Closure, Container, File, Partial
from humanlayer_agent.shell.languages.python.syntax import attributes, calls
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.types import (
    container_methods,
    containers,
    files,
    path_objects,
    path_values,
    string_methods,
)
from humanlayer_agent.shell.languages.python.unknown_code import argument_doubts, reflection, unknown_calls
from humanlayer_agent.shell.languages.python.values import (
    ANY,
    ANYTHING,
    EMPTY,
    ENVIRON,
    PLAIN,
    SELF,
    SYS_MODULES,
    SYS_PATH,
    Atom,
    Bound,
    Const,
    Function,
    Instance,
    Lib,
    Mark,
    Method,
    Module,
    Namespace,
    Super,
    Thing,
    Type,
    Value,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


def method(engine: "Engine", atom: Atom, name: str, args: Args) -> Value:  # noqa: C901
    """What `atom.name(...)` does and gives."""
    if atom is ANY and not name.startswith("__") and name != "mro":
        return _unknown(engine, name, args)
    if isinstance(atom, Lib) or name == "__class__":
        found = attributes.get(engine, frozenset({atom}), name)
        return calls.call(engine, found, args, name)
    if name == "__delattr__":
        attributes.remove(engine, (args.at(0) or EMPTY) | {atom}, None)
        return PLAIN
    if name == "__init__" and isinstance(atom, (File, Thing)):
        return calls.call(engine, attributes.class_of(atom), args, name)
    if isinstance(atom, Container):
        return container_methods.method(engine, atom, name, args)
    if isinstance(atom, Namespace) and name == "__getitem__":
        return containers.item(engine, frozenset({atom}), args.at(0) or PLAIN, args.node)
    if isinstance(atom, File):
        return files.method(engine, atom, name, args)
    if isinstance(atom, Thing):
        return _thing(engine, atom, name, args)
    if isinstance(atom, Namespace):
        return reflection.namespace_method(engine, atom, name, args)
    if atom is ENVIRON or atom is SYS_PATH or atom is SYS_MODULES:
        return process_environment.method(engine, atom, name, args)
    if name in names.LOOKUPS and not isinstance(atom, (str, Const, Instance, Super, Class, Type)):
        return reflection.lookup(engine, frozenset({atom}), args.at(0))
    if name == "mro":
        return attributes.get(engine, frozenset({atom}), name)
    if name == "__subclasses__":
        return reflection.subclasses(engine, atom)
    if isinstance(atom, Type):
        return _unbound(engine, atom, name, args)
    if isinstance(atom, Instance) and (handing := _handing_on(engine, atom, name)):
        return engine.union(_handed_on(engine, atom, base, entry, name, args) for base, entry in handing)
    if isinstance(atom, (str, Const)) or (isinstance(atom, Mark) and atom is not ANY and atom is not SELF):
        return string_methods.method(engine, atom, name, args)
    if atom is ANY:
        return _unknown(engine, name, args)
    if isinstance(atom, Closure) and name == "__get__":
        return frozenset({atom, *(Method(atom, each) for each in args.at(0) or EMPTY)})
    if isinstance(atom, Closure) and name in ("setter", "getter", "deleter"):
        return args.at(0) or EMPTY
    if name == "__getitem__" and not isinstance(atom, (Instance, Class, Super)):
        return containers.item(engine, frozenset({atom}), args.at(0) or PLAIN, args.node)
    if name in ("__setattr__", "__getattribute__") and _by_object(engine, atom, name):
        whole = frozenset[Atom]({Instance(atom.cls) if isinstance(atom, Super) else atom})
        if name == "__getattribute__":
            return reflection.lookup(engine, whole, args.at(0))
        return reflection.set_attribute(engine, args.before(whole))
    if not isinstance(atom, (Module, Function, Instance, Class, Super, Closure, Method, Partial, Bound, Mark)):
        return string_methods.method(engine, atom, name, args)
    return calls.call(engine, attributes.get(engine, frozenset({atom}), name), args, name)


def _by_object(engine: "Engine", atom: Atom, name: str) -> bool:
    """Is the method that which every object has?"""
    if isinstance(atom, Super):
        return True
    cls = atom.cls if isinstance(atom, Instance) else atom
    return isinstance(cls, Class) and not attributes.lookup(engine, cls, name)


def _handing_on(engine: "Engine", atom: Instance, name: str) -> list[tuple[Type, tables.Entry]]:
    """The known classes from which the object inherits a method that calls one of its own, each with that method."""
    if attributes.lookup(engine, atom.cls, name):
        return []
    bases = [base for base in attributes.foreign_bases(engine, atom.cls) if isinstance(base, Type)]
    return [(base, entry) for base in bases if (entry := attributes.handed_on(atom.cls, base, name)) is not None]


def _handed_on(engine: "Engine", atom: Instance, base: Type, entry: tables.Entry, name: str, args: Args) -> Value:
    """An inherited method calls one of the object's own, with an object that stands for the operand."""
    assert entry.through is not None
    calls.hand_over(engine, args, entry.does, f"{base.dotted}.{name}", told=tables.told(base.module, entry))
    called, argument = entry.through
    given = (args.operand(e.operand) for e in entry.does if e.operand is not None)
    operand = EMPTY.union(*(PLAIN if value is None else value for value in given))
    made = frozenset(Thing(base.module, argument, path_values.path_atom(each)) for each in operand)
    own = attributes.get(engine, frozenset({atom}), called)
    return ANYTHING | calls.call(engine, own, Args.unknown(args.node).before(made), called)


def _unknown(engine: "Engine", name: str, args: Args) -> Value:
    """A method of an object that nobody knows."""
    found = attributes.get(engine, ANYTHING, name) - {ANY, Bound(ANY, name)}
    out = calls.call(engine, found, args, name) if found else EMPTY
    return out | unknown_calls.method(engine, name, args)


def _thing(engine: "Engine", atom: Thing, name: str, args: Args) -> Value:
    table = tables.module(atom.module)
    kind = table.type(atom.name) if table is not None else None
    entry = kind.methods.get(name) if kind is not None else None
    payload = frozenset({atom}) if atom.payload is not None else None
    label = f"{atom.module}.{atom.name}.{name}"
    if entry is not None:
        effects.perform(engine, entry.does, args, label, instance=payload)
    if path_objects.is_path(atom):
        return path_objects.method(engine, atom, name, args)
    if name == "__enter__" and entry is None:
        return frozenset({atom if atom.payload is None or atom.module != "tempfile" else atom.payload})
    if entry is None:
        own = attributes.stored(engine, name)
        out = calls.call(engine, own, args, name) if own else EMPTY
        return out | unknown_calls.known_method(engine, atom, name, args)
    calls.hand_over(engine, args, entry.does, label, told=tables.told(atom.module, entry))
    return results.returned(entry.returns, args) if entry.returns else ANYTHING


def _unbound(engine: "Engine", atom: Type, name: str, args: Args) -> Value:
    """`Path.unlink(p)`, `str.upper(s)`, `Path.home()`."""
    if (special := results.CLASS_METHODS.get(f"{atom.dotted}.{name}")) is not None:
        return special(engine, args)
    table = tables.module(atom.module)
    kind = table.type(atom.name) if table is not None else None
    entry = kind.methods.get(name) if kind is not None else None
    first = args.at(0)
    if atom.module == "builtins":
        return builtin_functions.unbound(engine, atom, name, args)
    if entry is None:
        if not tables.told(atom.module, None):
            argument_doubts.judge(engine, args, name, f"{atom.dotted}.{name}")
    else:
        if first is not None and not any(isinstance(a, Thing) for a in first):  # a class method: tarfile.TarFile.open
            does = tuple(e for e in entry.does if entry.returns or e.operand != tables.INSTANCE)
            effects.perform(engine, does, args, f"{atom.dotted}.{name}")
        if first is not None:
            effects.perform(engine, entry.does, args.after(1), f"{atom.dotted}.{name}", instance=first)
    if first is None or not args.positional:
        return ANYTHING
    return EMPTY.union(*(method(engine, each, name, args.after(1)) for each in first)) if entry is None else ANYTHING
