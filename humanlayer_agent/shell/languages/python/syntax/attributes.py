"""Attributes: what `x.name` may be, and what storing there does."""

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python import names
from humanlayer_agent.shell.languages.python.library import django_settings, module_values, process_environment, tables
from humanlayer_agent.shell.languages.python.objects import Class, Closure, Container, File, Partial
from humanlayer_agent.shell.languages.python.syntax import calls
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.types import (
    container_methods,
    containers,
    files,
    path_objects,
    string_methods,
)
from humanlayer_agent.shell.languages.python.unknown_code import argument_doubts, capability_leaks
from humanlayer_agent.shell.languages.python.values import (
    ANY,
    ANYTHING,
    DATA,
    EMPTY,
    ENVIRON,
    PLAIN,
    SELF,
    SYS_MODULES,
    SYS_PATH,
    WORD,
    WORDS,
    Atom,
    Bound,
    Code,
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
    const,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

MAX_DOTS = 7
NOWHERE = ast.Pass()
"""Stands for calls that are not in the source."""
OBJECT = Type("builtins", "object")
BUILTINS = Module("builtins")
PYTHON2 = Module("__builtin__")


def get(engine: "Engine", value: Value, name: str) -> Value:
    """What `value.name` may be."""
    name = plain_name(name)
    if len(value) == 1:
        return _get(engine, next(iter(value)), name)
    return engine.union(_get(engine, atom, name) for atom in value)


def plain_name(name: str) -> str:
    """A private name as it stands in its class: `_A__x` is `__x`."""
    if name.startswith("_") and "__" in name and not name.endswith("__") and not name.startswith("__"):
        return "__" + name.partition("__")[2]
    return name


def _get(engine: "Engine", atom: Atom, name: str) -> Value:
    engine.step()
    if (name.startswith("__") or name in names.PECULIAR) and (found := _special(engine, atom, name)) is not None:
        return found
    if isinstance(atom, Lib):
        return module_values.module(name) if name in names.REACHED else _of_library(engine, atom, name)
    if isinstance(atom, Module):
        return module_values.of_module(engine, atom, name)
    if isinstance(atom, (Instance, Class, Super)):
        return of_object(engine, atom, name)
    if isinstance(atom, Mark):
        return _of_mark(engine, atom, name)
    if isinstance(atom, Thing):
        return path_objects.attribute(engine, atom, name) | stored(engine, name)
    if isinstance(atom, Function):
        if name in names.REACHED_ANYWHERE:
            return module_values.module(name)
        plain = tables.standard(atom.module) and not capability_leaks.dangerous(engine, atom)
        if plain and atom.name.count(".") < MAX_DOTS:
            return stored(engine, name) | {Function(atom.module, f"{atom.name}.{name}")}
        return stored(engine, name).union({atom}, ANYTHING)
    if isinstance(atom, (Closure, Method)):
        return stored(engine, name) | _of_function(engine, atom, name)
    if isinstance(atom, (Partial, Bound)):
        return stored(engine, name).union({atom}, ANYTHING)
    if isinstance(atom, Container):
        return container_methods.attribute(engine, atom, name)
    if isinstance(atom, File):
        return files.attribute(engine, atom, name)
    return frozenset({Bound(atom, name)})


def _of_library(engine: "Engine", atom: Lib, name: str) -> Value:
    known = stored(engine, name)
    if known and atom.name == django_settings.OBJECT and name in engine.configured:
        return known
    return known | {Lib(f"{atom.name}.{name}") if atom.name.count(".") < MAX_DOTS else ANY}


def stored(engine: "Engine", name: str) -> Value:
    """What the program stores under `name`, in whatever object."""
    found, unnamed = engine.read(engine.attribute(name)), engine.read(engine.unnamed)
    return found | unnamed if unnamed else found


def implicit(engine: "Engine", holders: Value, methods: Iterable[str], *passed: Value, unknown: bool = False) -> Value:
    """What Python gets from special methods of the program's own objects in `holders`, which it calls by itself."""
    out: Value = EMPTY
    for atom in holders:
        if not isinstance(atom, (Instance, Class)):
            continue
        cls = atom.cls if isinstance(atom, Instance) else atom
        for method in methods:
            for each in lookup(engine, cls, method):
                args = Args.unknown(NOWHERE) if unknown else Args(NOWHERE, list(passed))
                if isinstance(each, Closure):
                    out |= calls.closure(engine, each, args, None if each.kind == "static" else atom)
                else:
                    out |= calls.call(engine, frozenset({each}), args, method)
    return out


def _looked_up(engine: "Engine", atom: Atom, name: str, found: Value) -> Value:
    """What `__getattr__` and descriptors make of an attribute."""
    out: Value = EMPTY
    holder = (
        frozenset({atom if isinstance(atom, (Instance, Class)) else Instance(atom.cls)})
        if isinstance(atom, (Instance, Class, Super))
        else EMPTY
    )
    for method in ("__getattribute__",) if found else ("__getattr__", "__getattribute__"):
        if engine.read(engine.member(method)) and isinstance(atom, (Instance, Class)):
            out |= implicit(engine, holder, (method,), const(name))
    if engine.read(engine.member("__get__")):
        out |= implicit(engine, found, ("__get__",), holder, holder)
    return out


def _of_function(engine: "Engine", atom: Closure | Method, name: str) -> Value:
    closure = atom.closure if isinstance(atom, Method) else atom
    if name in ("__defaults__", "__kwdefaults__"):
        return engine.read(closure.defaults)
    if name in ("setter", "getter", "deleter", "register"):
        return frozenset({Bound(closure, name)})
    return ANYTHING


# ---- special names ----------------------------------------------------------------------------------


def _special(engine: "Engine", atom: Atom, name: str) -> Value | None:
    """`x.__name__`s that mean the same on everything; None for others."""
    if name == "__path__":
        return frozenset({SYS_PATH})
    if name in names.PLAIN_ATTRIBUTES:
        return PLAIN if name != "__spec__" else ANYTHING
    if name in names.DOUBTFUL and not (name == "__import__" and atom in (BUILTINS, SELF)):
        engine.doubt(f"`{name}` leads to names or code that can't be followed")
        return ANYTHING
    if name in names.ANCESTORS:
        own = engine.read(atom.bases) | {atom} if isinstance(atom, Class) else frozenset({atom, ANY})
        return own | {OBJECT}
    if name == "__builtins__":
        return frozenset({BUILTINS})
    if name == "__dict__" and not (isinstance(atom, Mark) and atom is not SELF):
        return frozenset({Namespace(atom)})
    if name == "__class__":
        return class_of(atom)
    if name == "__self__":
        return _self(engine, atom)
    if name == "__get__" and isinstance(atom, Closure):
        return frozenset({Bound(atom, name)})
    if name in names.SAME_OBJECT and not isinstance(atom, (Instance, Class, Super, Mark, Container)):
        return frozenset({atom})
    if name in names.LOOKUPS or name == "__subclasses__":
        return (
            frozenset({Bound(atom, name)})
            if not isinstance(atom, (Instance, Class, Super)) or name == "__subclasses__"
            else None
        )
    if name in ("__init__", "__new__") and isinstance(atom, (Type, Function)):
        return frozenset({atom})
    return None


def class_of(atom: Atom) -> Value:
    """type(x)."""
    if isinstance(atom, Instance):
        return frozenset({atom.cls})
    if isinstance(atom, Thing):
        return frozenset({Type(atom.module, atom.name)})
    if isinstance(atom, File):
        return frozenset({Type("io", "FileIO"), ANY})
    if isinstance(atom, (Closure, Method, Function)):
        return frozenset({Type("types", "FunctionType")})
    if isinstance(atom, Partial):
        return frozenset({Type("functools", "partial")})
    if isinstance(atom, Code):
        return frozenset({Type("types", "CodeType")})
    if isinstance(atom, (Type, Class)):
        return frozenset({Type("builtins", "type"), ANY})
    if isinstance(atom, Module) or atom is SELF:
        return frozenset({Type("types", "ModuleType")})
    name = atom.kind if isinstance(atom, (Const, Container)) else "str" if isinstance(atom, str) else ""
    return frozenset({Type("builtins", name)}) if name in names.BUILTIN_TYPES else ANYTHING


def _self(engine: "Engine", atom: Atom) -> Value:
    if isinstance(atom, Function):
        return frozenset({Module(atom.module)})
    if isinstance(atom, (Bound, Method)):
        return frozenset({atom.receiver})
    if isinstance(atom, Type):
        return frozenset({atom})
    if isinstance(atom, Lib):
        engine.doubt("`__self__` of a library's function may be a module")
    return ANYTHING


def _of_mark(engine: "Engine", atom: Mark, name: str) -> Value:
    if atom is ANY:
        if name in names.REACHED_ANYWHERE:
            return module_values.module(name)
        found = _bind(engine, engine.read(engine.member(name)), atom)
        return found | stored(engine, name) | {Bound(ANY, name) if name in names.UNMISTAKABLE else ANY}
    if atom is SELF:
        cell = engine.module.cell(name)
        return engine.read(cell)
    if atom is WORD and name == "hex":
        return WORDS  # uuid.uuid4().hex
    if atom in (ENVIRON, SYS_PATH, SYS_MODULES):
        return frozenset({Bound(atom, name)})
    return stored(engine, name) | ({Bound(atom, name)} if name in string_methods.METHODS else ANYTHING)


# ---- modules ----------------------------------------------------------------------------------------


# ---- objects of the program -------------------------------------------------------------------------


def of_object(engine: "Engine", atom: Instance | Class | Super, name: str) -> Value:
    """An attribute of an instance or class of the program."""
    cls = atom.cls if isinstance(atom, (Instance, Super)) else atom
    if isinstance(atom, Super):
        found = ancestors(engine, cls, name) or _elsewhere(engine, cls, name)
        receiver: Atom = Instance(cls)
    else:
        found = lookup(engine, cls, name)
        receiver = atom
    out = _bind(engine, found, receiver) | stored(engine, name)
    if not found or isinstance(atom, Super):
        out |= _inherited(engine, atom, cls, name)
    if name.startswith("__") and name.endswith("__") and not found:
        return out | ANYTHING  # what every object has
    return out | _looked_up(engine, atom, name, found)


def _bind(engine: "Engine", found: Value, receiver: Atom) -> Value:
    """Functions of a class, as they are when taken from `receiver`; what a property gives."""
    out: set[Atom] = set()
    for each in found:
        if not isinstance(each, Closure) or each.kind == "static":
            out.add(each)
        elif each.kind == "class":
            out.add(Method(each, each.cls or ANY if receiver is ANY else _class(receiver)))
        elif each.kind == "either":
            out |= {each, Method(each, receiver), Method(each, _class(receiver))}
        elif isinstance(receiver, Class):
            out.add(each)
        else:
            out.add(Method(each, receiver))
            if each.computed:
                capability_leaks.called(engine, each, receiver)
                out |= engine.read(each.returns)
    return frozenset(out)


def _class(receiver: Atom) -> Atom:
    return receiver.cls if isinstance(receiver, (Instance, Super)) else receiver


def lookup(engine: "Engine", cls: Class, name: str) -> Value:
    """What the class or the first of its ancestors that has it holds under `name`."""
    engine.step()
    found = engine.read(cls.scope.cell(name))
    if found and name in cls.definite:
        return found
    return found | ancestors(engine, cls, name)


def ancestors(engine: "Engine", cls: Class, name: str, seen: set[Class] | None = None) -> Value:
    """What the first of the ancestors of a class that has it holds under `name`."""
    seen = _seen(engine, cls, seen)
    for base in engine.read(cls.bases):
        if isinstance(base, Class) and base not in seen:
            found = engine.read(base.scope.cell(name))
            if not found or name not in base.definite:
                found |= ancestors(engine, base, name, seen)
            if found:
                return found
    return EMPTY


def family(engine: "Engine", cls: Class) -> set[Class]:
    """The class and all of its ancestors that are classes of the program."""
    seen: set[Class] = set()
    pending = [cls]
    while pending:
        each = pending.pop()
        if each not in seen:
            _seen(engine, each, seen)
            pending += [base for base in engine.read(each.bases) if isinstance(base, Class)]
    return seen


_SHALLOW = 8
"""So many ancestors cost nothing."""


def _seen(engine: "Engine", cls: Class, seen: set[Class] | None) -> set[Class]:
    found = set() if seen is None else seen
    found.add(cls)
    if len(found) > _SHALLOW:
        engine.step()
    return found


def _elsewhere(engine: "Engine", cls: Class, name: str) -> Value:
    """With several bases, super() may lead to any class."""
    return frozenset(c for c in engine.read(engine.member(name)) if not (isinstance(c, Closure) and c.cls is cls))


def foreign_bases(engine: "Engine", cls: Class) -> Value:
    """The ancestors that are no classes of the program."""
    bases = engine.read(cls.bases)
    if not any(isinstance(base, Class) for base in bases):
        return bases
    found = [engine.read(each.bases) for each in family(engine, cls)]
    return frozenset(base for bases in found for base in bases if not isinstance(base, Class))


def _inherited(engine: "Engine", atom: Atom, cls: Class, name: str) -> Value:
    """What ancestors outside the program have under `name`."""
    out: Value = EMPTY
    for base in foreign_bases(engine, cls):
        if isinstance(base, Type) and name in ("__init__", "__new__") and base.module != "builtins":
            out |= {base}
        elif isinstance(base, Type) and base.module != "builtins":
            owner: Atom = base if isinstance(atom, Class) else Thing(base.module, base.name, DATA)
            if isinstance(atom, Instance) and handed_on(cls, base, name):
                owner = atom
            out |= frozenset({Bound(owner, name)}) if not name.startswith("__") else ANYTHING
        elif isinstance(base, Type):
            out |= PLAIN if name not in ("__init__", "__new__") else EMPTY
            out |= frozenset({Bound(DATA, name)})
        elif name not in cls.stored:
            out |= ANYTHING
    return out


def handed_on(cls: Class, base: Type, name: str) -> tables.Entry | None:
    """The method `name` that `cls` inherits from `base`, where all that it does is to call one that `cls` has itself.

    `requests.Session.get` sends by `self.send`: a class with a `send` of its own decides where that goes.
    """
    entry = tables.method(base.module, base.name, name)
    return entry if entry is not None and entry.through is not None and entry.through[0] in cls.definite else None


# ---- storing ----------------------------------------------------------------------------------------


def put(engine: "Engine", target: Value, name: str, value: Value) -> None:
    """`target.name = value`."""
    name = plain_name(name)
    if name in names.NOT_TO_SET or (name == "__class__" and _of_class(target, value)):
        engine.doubt(f"`{name}` is set")
    if name == "__dict__":
        _replace_names(engine, target, value)
        return
    if name == "__path__":
        process_environment.import_paths(engine, value, name)
    for atom in target:
        _put(engine, atom, name, value)


def _of_class(target: Value, value: Value) -> bool:
    """Does something get a class that other methods come with?"""
    return any(isinstance(a, Class) for a in value) or any(isinstance(a, (Instance, Class, Super)) for a in target)


def remove(engine: "Engine", target: Value, name: str | None) -> None:
    """`del target.name`; None: a name that is not known. A class then has what it inherits, which does other things."""
    for atom in target:
        if isinstance(atom, Class) and (name is None or name in atom.definite):
            engine.doubt(f"{name or 'something'} is removed from the class {atom.name}")


def _put(engine: "Engine", atom: Atom, name: str, value: Value) -> None:
    if isinstance(atom, (Instance, Super)):
        engine.store(atom.cls, name, value)
        if any(not isinstance(b, Type) or b.module != "builtins" for b in foreign_bases(engine, atom.cls)):
            # What others inherit from may work with it.
            _file_named(engine, atom, name, value)
        holder = frozenset({Instance(atom.cls)})
        if engine.read(engine.member("__setattr__")):
            implicit(engine, holder, ("__setattr__",), const(name), value)
        if engine.read(engine.member("__set__")):
            implicit(engine, lookup(engine, atom.cls, name), ("__set__",), holder, value)
    elif isinstance(atom, Class):
        engine.bind(atom.scope, name, value)
    elif atom is SELF:
        engine.add(engine.module.cell(name), value)
    elif isinstance(atom, Module):
        _put_module(engine, atom.name, name, value)
    elif atom is not ANY or value != ANYTHING:
        engine.add(engine.attribute(name), value)
        if not isinstance(atom, (Closure, Method, Partial)):
            capability_leaks.escape(engine, value, f"`.{name} =`")
            _file_named(engine, atom, name, value)


def _file_named(engine: "Engine", atom: Atom, name: str, value: Value) -> None:
    """An attribute of an object of others is set: what it names, they may work with."""
    if (
        name in names.PLAIN_ATTRIBUTES - {"__file__"}
        or name == "url"
        or (isinstance(atom, Thing) and tables.told(atom.module, None))
    ):
        return
    label = "" if name == "__file__" else name
    argument_doubts.of_value(engine, value, label, f"`.{name} =`")


def _replace_names(engine: "Engine", target: Value, value: Value) -> None:
    """`x.__dict__ = value`."""
    named, others = containers.keywords(engine, value)
    for name, held in named.items():
        put(engine, target, name, held)
    if others is not None:
        engine.add(engine.unnamed, others | ANYTHING)


def _put_module(engine: "Engine", owner: str, name: str, value: Value) -> None:
    if (owner, name) == ("os", "environ"):
        process_environment.replaced(engine, value)
    elif (owner, name) == ("sys", "path"):
        process_environment.import_paths(engine, value, "sys.path")
    elif (owner, name) == ("tempfile", "tempdir"):
        process_environment.temporary(engine, value)
    elif (owner, name) == ("sys", "argv"):
        argument_doubts.of_words(engine, value, "sys.argv")
    else:
        _file_named(engine, Module(owner), name, value)
    engine.add(engine.patch(owner, name), value)
    capability_leaks.escape(engine, value, f"{owner}.{name} =")
