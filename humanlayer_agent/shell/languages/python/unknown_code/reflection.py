"""Attributes and names by value, and code by name: getattr, vars, globals, exec, __import__, inspect.getmembers."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python.library import tables
from humanlayer_agent.shell.languages.python.objects import Class, Container, Scope
from humanlayer_agent.shell.languages.python.syntax import attributes, imports
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args, Special
from humanlayer_agent.shell.languages.python.types import containers, iteration
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks, execution
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    EMPTY,
    NONE,
    PLAIN,
    SELF,
    WORDS,
    Atom,
    Code,
    Instance,
    Lib,
    Module,
    Namespace,
    Super,
    Thing,
    Type,
    Value,
    only_texts,
    texts,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


def lookup(engine: "Engine", value: Value, name: Value | None, default: Value | None = None) -> Value:
    """`getattr(value, name)`."""
    known = only_texts(name) if name is not None else None
    out = default if default is not None else EMPTY
    if known:
        return out.union(*(attributes.get(engine, value, each) for each in known))
    for atom in value:
        out |= _any_attribute(engine, atom)
    return out


def _any_attribute(engine: "Engine", atom: Atom) -> Value:
    """Some attribute of `atom`, nobody knows which."""
    if isinstance(atom, Module) or atom is SELF:
        if atom is SELF:
            return containers.names_of(engine, Namespace(SELF))
        if capability_leaks.dangerous(engine, atom):
            engine.doubt(f"an attribute of {atom.name} whose name is not known")
        return ANYTHING
    if isinstance(atom, Lib) and _may_be_module(atom):
        engine.doubt(f"an attribute of {atom.name} whose name is not known")
    if isinstance(atom, (Instance, Class, Super)):
        cls = atom if isinstance(atom, Class) else atom.cls
        held = containers.names_of(engine, Namespace(cls))
        every = [attributes.get(engine, frozenset({atom}), name) for name in list(cls.scope.cells)]
        return held.union(ANYTHING, *every)
    if isinstance(atom, (Thing, Type)) and _effective(atom):
        engine.doubt(f"an attribute of {atom.module}.{atom.name} whose name is not known")
    return ANYTHING


def _may_be_module(atom: Lib) -> bool:
    last = atom.name.rpartition(".")[2]
    return last.islower() or ("_" not in last and last[:1].islower())


def _effective(atom: Thing | Type) -> bool:
    kind = table.type(atom.name) if (table := tables.module(atom.module)) is not None else None
    return kind is not None and kind.effective


def _getattr(engine: "Engine", args: Args) -> Value:
    return lookup(engine, args.at(0) or EMPTY, args.at(1), args.at(2) if len(args.positional) > 2 else None)


def set_attribute(engine: "Engine", args: Args) -> Value:
    target, name, value = args.at(0) or EMPTY, args.at(1), args.at(2) or EMPTY
    known = only_texts(name) if name is not None else None
    if known:
        for each in known:
            attributes.put(engine, target, each, value)
        return NONE
    for atom in target:
        if isinstance(atom, Module) and capability_leaks.dangerous(engine, atom):
            engine.doubt(f"an attribute of {atom.name} whose name is not known is set")
        if not isinstance(atom, Instance):
            capability_leaks.escape(engine, value, "setattr")
    engine.add(engine.unnamed, value)
    return NONE


def _hasattr(engine: "Engine", args: Args) -> Value:
    lookup(engine, frozenset(a for a in args.at(0) or EMPTY if isinstance(a, (Instance, Class))), args.at(1))
    return WORDS


def _delattr(engine: "Engine", args: Args) -> Value:
    for name in args.at(1) or EMPTY:
        attributes.remove(engine, args.at(0) or EMPTY, name if isinstance(name, str) else None)
    return NONE


def _vars(engine: "Engine", args: Args) -> Value:
    value = args.at(0)
    if value is None:
        _handed_out(engine)
    return _globals(engine, args) if value is None else frozenset(Namespace(a) for a in value)


def _globals(engine: "Engine", args: Args) -> Value:
    return frozenset({Namespace(SELF)})


def _handed_out(engine: "Engine") -> None:
    """Where a class's body hands out its names, they may be taken from it."""
    scope: Scope | None = engine.scope
    while scope is not None and scope.kind == "comprehension":
        scope = scope.parent
    if scope is not None and scope.cls is not None:
        scope.cls.definite = frozenset()


def _locals(engine: "Engine", args: Args) -> Value:
    """The names that can be seen here; those of functions are as good as those of the module."""
    _handed_out(engine)
    if engine.scope is engine.module:
        return frozenset({Namespace(SELF)})
    held = engine.container(args.node, "dict")
    for name, cell in list(engine.scope.cells.items()):
        engine.element(held, engine.read(cell), name)
    return frozenset({held})


def namespace_method(engine: "Engine", space: Namespace, name: str, args: Args) -> Value:
    """`vars(x).name(...)`."""
    first = args.at(0)
    if name in ("get", "pop", "__getitem__", "setdefault"):
        if name == "setdefault":
            containers.put(engine, frozenset({space}), first, args.at(1) or NONE)
        return containers.by_name(engine, space.owner, first or PLAIN, space) | (args.at(1) or NONE)
    if name in ("update", "__setitem__"):
        for value in args.positional:
            named, others = containers.keywords(engine, value)
            for key, held in named.items():
                attributes.put(engine, frozenset({space.owner}), key, held)
            if others is not None:
                containers.put(engine, frozenset({space}), PLAIN, others)
        for key, held in args.named.items():
            attributes.put(engine, frozenset({space.owner}), key, held)
        return NONE
    if name in ("values", "items", "copy"):
        held = containers.names_of(engine, space)
        made = engine.container(args.node, "list", name)
        pair = engine.container(args.node, "tuple", "pair")
        engine.element(pair, PLAIN, 0)
        engine.element(pair, held, 1)
        engine.element(made, frozenset({pair}) if name == "items" else held)
        return frozenset({made}) if name != "copy" else frozenset({space})
    return PLAIN


def subclasses(engine: "Engine", atom: Atom) -> Value:
    """`cls.__subclasses__()`: that of a class which everything inherits from leads everywhere."""
    if isinstance(atom, (Class, Lib)) or (isinstance(atom, Type) and atom.module != "builtins"):
        return ANYTHING.union(c for c in engine.classes)
    engine.doubt("`__subclasses__` leads to classes that can't be followed")
    return ANYTHING


def _exec(engine: "Engine", args: Args) -> Value:
    execution.run(engine, args.at(0, "source") or PLAIN, args, "builtins.exec")
    return NONE


def _eval(engine: "Engine", args: Args) -> Value:
    return execution.run(engine, args.at(0, "source") or PLAIN, args, "builtins.eval") or PLAIN


def _compile(engine: "Engine", args: Args) -> Value:
    for name in texts(args.at(1, "filename") or EMPTY):
        if name.startswith(("/", "~", "..")):
            engine.act("read", frozenset({name}), "builtins.compile")  # a traceback shows its lines
    known = only_texts(args.at(0, "source") or EMPTY)
    return frozenset(map(Code, known)) if known else ANYTHING


def _import(engine: "Engine", args: Args) -> Value:
    value = args.at(0, "name") or PLAIN
    imports.by_name(engine, value, "__import__")
    listed = args.at(3, "fromlist")
    return imports.modules(engine, value, top=listed is None or listed == NONE)


def _import_module(engine: "Engine", args: Args) -> Value:
    value = args.at(0, "name") or PLAIN
    imports.by_name(engine, value, "importlib.import_module")
    return imports.modules(engine, value)


def _breakpoint(engine: "Engine", args: Args) -> Value:
    """A debugger takes commands from standard input; PYTHONBREAKPOINT may name any other function."""
    if any(True for _ in args.every()) or engine.holds("PYTHONBREAKPOINT"):
        engine.doubt("breakpoint() calls what the environment names")
    else:
        engine.doubt("breakpoint() runs what it reads from standard input")
    return NONE


def _members(engine: "Engine", args: Args) -> Value:
    """inspect.getmembers: pairs of a name and what it stands for."""
    held = containers.values_of(engine, frozenset(Namespace(a) for a in args.at(0) or EMPTY))
    pair = engine.container(args.node, "tuple", "pair")
    engine.element(pair, PLAIN, 0)
    engine.element(pair, held, 1)
    return iteration.gathered(engine, args, frozenset({pair}))


def _type_hints(engine: "Engine", args: Args) -> Value:
    """typing.get_type_hints: texts are evaluated; those in the source are read where they stand."""
    if engine.holds("__annotations__"):
        engine.doubt("annotations are evaluated that may have been changed")
    return ANYTHING


def _evaluated_later(engine: "Engine", args: Args) -> Value:
    """typing.ForwardRef: a text that may be evaluated."""
    for text in only_texts(args.at(0) or EMPTY) or []:
        if "(" in text:
            execution.inline(engine, text)
    return ANYTHING


def _isinstance(engine: "Engine", args: Args) -> Value:
    kinds = args.at(1) or EMPTY
    kinds |= containers.elements(engine, frozenset(a for a in kinds if isinstance(a, Container)))
    attributes.implicit(
        engine, kinds, ("__instancecheck__", "__subclasscheck__", "__subclasshook__"), args.at(0) or EMPTY
    )
    return WORDS


SPECIAL: dict[str, Special] = {
    "builtins.hasattr": _hasattr,
    "builtins.getattr": _getattr, "builtins.setattr": set_attribute, "builtins.delattr": _delattr,
    "builtins.vars": _vars, "builtins.globals": _globals, "builtins.locals": _locals, "builtins.exec": _exec,
    "builtins.eval": _eval,
    "builtins.compile": _compile, "builtins.__import__": _import, "builtins.breakpoint": _breakpoint,
    "builtins.isinstance": _isinstance, "builtins.issubclass": _isinstance, "importlib.import_module": _import_module,
    "importlib.__import__": _import, "inspect.getmembers": _members, "inspect.getmembers_static": _members,
    "inspect.get_annotations": _type_hints, "typing.get_type_hints": _type_hints, "typing.ForwardRef": _evaluated_later,
}  # fmt: skip
