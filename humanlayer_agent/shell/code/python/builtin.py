"""Built-in functions and classes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from humanlayer_agent.shell.code.python import (
    attributes,
    calls,
    capabilities,
    containers,
    effects,
    environ,
    execution,
    imports,
    names,
    paths,
    strings,
    tables,
    texts,
)
from humanlayer_agent.shell.code.python.arguments import Args
from humanlayer_agent.shell.code.python.objects import Cell, Class, Closure, Container, File, Partial
from humanlayer_agent.shell.code.python.values import (
    ANY,
    ANYTHING,
    DATA,
    EMPTY,
    ENVIRON,
    NONE,
    PICKLED,
    PLAIN,
    SELF,
    SHOWN,
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
    Module,
    Namespace,
    Super,
    Thing,
    Type,
    Value,
    const,
    numbers,
    only_texts,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.code.python.engine import Engine

Special = Callable[["Engine", Args], Value]


# ---- attributes and names by value ------------------------------------------------------------------


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
        if capabilities.dangerous(engine, atom):
            engine.doubt(f"an attribute of {atom.name} whose name is not known")
        return ANYTHING
    if isinstance(atom, Lib) and _may_be_module(atom):
        engine.doubt(f"an attribute of {atom.name} whose name is not known")
    if isinstance(atom, Instance | Class | Super):
        cls = atom if isinstance(atom, Class) else atom.cls
        held = containers.names_of(engine, Namespace(cls))
        every = [attributes.get(engine, frozenset({atom}), name) for name in list(cls.scope.cells)]
        return held.union(ANYTHING, *every)
    if isinstance(atom, Thing | Type) and _effective(atom):
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


def _setattr(engine: "Engine", args: Args) -> Value:
    target, name, value = args.at(0) or EMPTY, args.at(1), args.at(2) or EMPTY
    known = only_texts(name) if name is not None else None
    if known:
        for each in known:
            attributes.put(engine, target, each, value)
        return NONE
    for atom in target:
        if isinstance(atom, Module) and capabilities.dangerous(engine, atom):
            engine.doubt(f"an attribute of {atom.name} whose name is not known is set")
        if not isinstance(atom, Instance):
            capabilities.escape(engine, value, "setattr")
    engine.add(engine.unnamed, value)
    return NONE


def _delattr(engine: "Engine", args: Args) -> Value:
    return NONE


def _vars(engine: "Engine", args: Args) -> Value:
    value = args.at(0)
    return _globals(engine, args) if value is None else frozenset(Namespace(a) for a in value)


def _globals(engine: "Engine", args: Args) -> Value:
    return frozenset({Namespace(SELF)})


def _locals(engine: "Engine", args: Args) -> Value:
    """The names that can be seen here; those of functions are as good as those of the module."""
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
    if isinstance(atom, Class | Lib) or (isinstance(atom, Type) and atom.module != "builtins"):
        return ANYTHING.union(c for c in engine.classes)
    engine.doubt("`__subclasses__` leads to classes that can't be followed")
    return ANYTHING


# ---- code -------------------------------------------------------------------------------------------


def _exec(engine: "Engine", args: Args) -> Value:
    execution.run(engine, args.at(0, "source") or PLAIN, args, "builtins.exec")
    return NONE


def _eval(engine: "Engine", args: Args) -> Value:
    return execution.run(engine, args.at(0, "source") or PLAIN, args, "builtins.eval") or PLAIN


def _compile(engine: "Engine", args: Args) -> Value:
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
    """PYTHONBREAKPOINT may name any function, which gets the arguments."""
    if any(True for _ in args.every()) or "PYTHONBREAKPOINT" in engine.source:
        engine.doubt("breakpoint() calls what the environment names")
    return NONE


# ---- functions that call, and functions over elements -----------------------------------------------


def _elementwise(engine: "Engine", args: Args, called: Value, sources: list[Value]) -> Value:
    passed = Args(args.node, [containers.elements(engine, s) for s in sources])
    return calls.call(engine, called, passed, "")


def _held(engine: "Engine", args: Args, value: Value, kind: str = "list") -> Value:
    made = engine.container(args.node, kind, "made")
    engine.shuffle(made)
    engine.element(made, value)
    return frozenset({made})


def _map(engine: "Engine", args: Args) -> Value:
    if not args.positional:
        capabilities.escape(engine, args.rest or EMPTY, "map")
        return ANYTHING
    called, sources = args.positional[0], args.positional[1:]
    known = containers.in_order(engine, sources[0]) if len(sources) == 1 else None
    if known is None or not all(isinstance(a, Function | Type | Bound) for a in called):
        return _held(engine, args, _elementwise(engine, args, called, sources or [ANYTHING]))
    made = engine.container(args.node, "list", "made")
    for n, element in enumerate(known):
        engine.element(made, calls.call(engine, called, Args(args.node, [element]), ""), n)
    return frozenset({made})


def _filter(engine: "Engine", args: Args) -> Value:
    source = args.at(1) or EMPTY
    _elementwise(engine, args, args.at(0) or EMPTY, [source])
    return _held(engine, args, containers.elements(engine, source))


def _sorted(engine: "Engine", args: Args) -> Value:
    source = args.at(0) or EMPTY
    _key(engine, args, containers.elements(engine, source))
    return _held(engine, args, containers.elements(engine, source))


def _key(engine: "Engine", args: Args, value: Value) -> None:
    containers.compared(engine, value, value)
    if (key := args.at(-1, "key")) is not None:
        calls.call(engine, key, Args(args.node, [value]), "")


def _extreme(engine: "Engine", args: Args) -> Value:
    first = args.at(0) or EMPTY
    value = containers.elements(engine, first) if len(args.positional) == 1 else EMPTY.union(*args.positional)
    _key(engine, args, value)
    return value | (args.at(-1, "default") or EMPTY)


def _zip(engine: "Engine", args: Args) -> Value:
    made = engine.container(args.node, "list", "made")
    row = engine.container(args.node, "tuple", "row")
    for n, source in enumerate(args.positional):
        engine.element(row, containers.elements(engine, source), n)
    if args.rest is not None:
        engine.element(row, containers.elements(engine, args.rest))
    engine.element(made, frozenset({row}))
    return frozenset({made})


def _enumerate(engine: "Engine", args: Args) -> Value:
    made = engine.container(args.node, "list", "made")
    row = engine.container(args.node, "tuple", "row")
    engine.element(row, WORDS, 0)
    engine.element(row, containers.elements(engine, args.at(0, "iterable") or EMPTY), 1)
    engine.element(made, frozenset({row}))
    return frozenset({made})


def _iter(engine: "Engine", args: Args) -> Value:
    if len(args.positional) > 1:
        return _held(engine, args, calls.call(engine, args.positional[0], Args(args.node), ""))
    return args.at(0) or EMPTY


def _next(engine: "Engine", args: Args) -> Value:
    found = containers.elements(engine, args.at(0) or EMPTY)
    return found | (args.at(1) or EMPTY)


def _sum(engine: "Engine", args: Args) -> Value:
    inner = containers.elements(engine, args.at(0) or EMPTY)
    if any(isinstance(a, Instance) for a in inner):
        return inner | attributes.implicit(engine, inner, ("__add__", "__radd__"), inner | WORDS)
    return frozenset(a for a in inner if isinstance(a, Container)) | (WORDS if inner <= WORDS else PLAIN)


def _copied(kind: str) -> Special:
    def make(engine: "Engine", args: Args) -> Value:
        made = engine.container(args.node, kind, "made")
        for value in args.positional[:1]:
            containers.copy(engine, made, value)
        if kind == "dict":
            for name, value in args.named.items():
                engine.element(made, value, name)
            if args.others is not None:
                engine.element(made, args.others)
                engine.key(made, PLAIN)
        if args.rest is not None:
            engine.element(made, containers.elements(engine, args.rest))
        if kind == "set":
            engine.shuffle(made)
        return frozenset({made})

    return make


def _reversed(engine: "Engine", args: Args) -> Value:
    known = containers.in_order(engine, args.at(0) or EMPTY)
    if known is not None:
        made = engine.container(args.node, "list", "made")
        for n, element in enumerate(reversed(known)):
            engine.element(made, element, n)
        return frozenset({made})
    return _held(engine, args, containers.elements(engine, args.at(0) or EMPTY))


# ---- functions that make functions ------------------------------------------------------------------


def _deferred(name: str) -> Special:
    """operator.attrgetter("x"), operator.methodcaller("x", ...): they wait for an object."""

    def defer(engine: "Engine", args: Args) -> Value:
        made = engine.site(args.node, "partial", Partial)
        engine.add(made.function, frozenset({Function("operator", name)}))
        for n, value in enumerate(args.positional if args.rest is None else [PLAIN]):
            if n == len(made.positional):
                made.positional.append(Cell())
            engine.add(made.positional[n], value)
        for key, value in args.named.items():
            engine.add(made.keywords.setdefault(key, Cell()), value)
        return frozenset({made})

    return defer


def _attributes_got(engine: "Engine", args: Args) -> Value:
    out: Value = EMPTY
    for name in args.positional[:-1]:
        known = only_texts(name)
        for path in known or [""]:
            held = args.positional[-1]
            for part in path.split(".") if known else [None]:
                held = lookup(engine, held, const(part) if part is not None else PLAIN)
            out |= held
    return out if len(args.positional) == 2 else _held(engine, args, out, "tuple")


def _method_called(engine: "Engine", args: Args) -> Value:
    if len(args.positional) < 2:
        return ANYTHING
    found = lookup(engine, args.positional[-1], args.positional[0])
    return calls.call(engine, found, Args(args.node, args.positional[1:-1], args.named, None, args.others), "")


def _members(engine: "Engine", args: Args) -> Value:
    """inspect.getmembers: pairs of a name and what it stands for."""
    held = containers.values_of(engine, frozenset(Namespace(a) for a in args.at(0) or EMPTY))
    pair = engine.container(args.node, "tuple", "pair")
    engine.element(pair, PLAIN, 0)
    engine.element(pair, held, 1)
    return _held(engine, args, frozenset({pair}))


def _reduce(engine: "Engine", args: Args) -> Value:
    inner = containers.elements(engine, args.at(1) or EMPTY)
    held = inner | (args.at(2) or EMPTY)
    if (known := containers.in_order(engine, args.at(1) or EMPTY)) is not None and len(known) > 1:
        held = known[0] if len(args.positional) < 3 else args.positional[2]
        for element in known[1:] if len(args.positional) < 3 else known:
            held = calls.call(engine, args.at(0) or EMPTY, Args(args.node, [held, element]), "")
        return held
    for _ in range(2):
        held |= calls.call(engine, args.at(0) or EMPTY, Args(args.node, [held, inner]), "")
    return held


def _unpickled(engine: "Engine", args: Args) -> Value:
    """pickle.loads: what was pickled here holds nothing new."""
    if args.at(0) != frozenset({PICKLED}):
        engine.doubt("what pickle.loads does can't be told")
    return ANYTHING


def _patched(engine: "Engine", args: Args) -> Value:
    """mock.patch.object(owner, name, new), mock.patch.dict(mapping, values): the first is no argument of anything."""
    target, name = args.at(0) or EMPTY, args.at(1, "attribute")
    objects = frozenset(a for a in target if isinstance(a, Instance | Class))
    if objects:
        _setattr(engine, Args(args.node, [objects, name or PLAIN, args.at(2, "new") or ANYTHING]))
    for atom in target:
        if isinstance(atom, Container):
            containers.method(engine, atom, "update", args.after(1))
    for value in (*args.positional[1:], *args.named.values(), args.rest or EMPTY, args.others or EMPTY):
        capabilities.escape(engine, value, "a patch")
        if ENVIRON in (args.at(0) or EMPTY):
            environ.given(engine, frozenset(a for a in value if isinstance(a, Container)), "os.environ")
    return ANYTHING


# ---- texts and numbers ------------------------------------------------------------------------------


def _str(engine: "Engine", args: Args) -> Value:
    value = args.at(0, "object")
    if value is None:
        return const("")
    _look(engine, args, "str")
    out = strings.shown(value)
    if len(args.positional) > 1 or args.named:
        out = frozenset(a.value.decode("utf-8", "surrogateescape") if isinstance(a, Const) and isinstance(a.value, bytes) else DATA for a in value)
    if any(isinstance(a, Instance) for a in value):
        out |= attributes.implicit(engine, value, ("__str__", "__repr__"))
    return out


def _look(engine: "Engine", args: Args, name: str) -> None:
    for value in args.every():
        if capabilities.environment_in(engine, value):
            environ.printed(engine)


def _inert(result: Value, name: str) -> Special:
    def look(engine: "Engine", args: Args) -> Value:
        _look(engine, args, name)
        return result

    return look


def _print(engine: "Engine", args: Args) -> Value:
    _look(engine, args, "print")
    for atom in args.named.get("file", EMPTY):
        if isinstance(atom, File):
            atom.unclear = True
        elif isinstance(atom, Instance):
            calls.method(engine, atom, "write", Args(args.node, [EMPTY.union(PLAIN, *args.positional)]))
    return NONE


def _isinstance(engine: "Engine", args: Args) -> Value:
    kinds = args.at(1) or EMPTY
    kinds |= containers.elements(engine, frozenset(a for a in kinds if isinstance(a, Container)))
    attributes.implicit(engine, kinds, ("__instancecheck__", "__subclasscheck__", "__subclasshook__"), args.at(0) or EMPTY)
    return WORDS


def _repr(engine: "Engine", args: Args) -> Value:
    """What repr() gives is data, as long as no class of the program has a say in it."""
    _look(engine, args, "repr")
    return frozenset({DATA if engine.read(engine.member("__repr__")) else SHOWN})


def _evaluated_later(engine: "Engine", args: Args) -> Value:
    """typing.ForwardRef: a text that may be evaluated."""
    for text in only_texts(args.at(0) or EMPTY) or []:
        if "(" in text:
            execution.inline(engine, text)
    return ANYTHING


def _type_hints(engine: "Engine", args: Args) -> Value:
    """typing.get_type_hints: annotations that are texts are evaluated; those in the source are read where they stand."""
    if "__annotations__" in engine.source:
        engine.doubt("annotations are evaluated that may have been changed")
    return ANYTHING


def _chr(engine: "Engine", args: Args) -> Value:
    found = numbers(args.at(0) or EMPTY)
    return frozenset(chr(n) for n in found if 0 <= n < 0x110000) if found else PLAIN


def _ord(engine: "Engine", args: Args) -> Value:
    found = only_texts(args.at(0) or EMPTY)
    return EMPTY.union(*(const(ord(t)) for t in found if len(t) == 1)) if found else WORDS


def _int(engine: "Engine", args: Args) -> Value:
    value, base = args.at(0) or EMPTY, numbers(args.at(1, "base") or const(10))
    known, counts = only_texts(value), numbers(value)
    if counts is not None:
        return EMPTY.union(*map(const, counts))
    if known is None or base is None or len(base) != 1 or any(len(t) > 400 for t in known):
        return WORDS
    out: Value = EMPTY
    for text in known:
        try:
            out |= const(int(text, base[0]))
        except ValueError:
            continue
    return out or WORDS


def _spelled(change: Callable[[int], str]) -> Special:
    def spell(engine: "Engine", args: Args) -> Value:
        found = numbers(args.at(0) or EMPTY)
        return frozenset(map(change, found)) if found and all(abs(n) < 1 << 64 for n in found) else WORDS

    return spell


def _bytes(engine: "Engine", args: Args) -> Value:
    value = args.at(0)
    if value is None:
        return const(b"")
    if (known := only_texts(value)) is not None:
        return frozenset(known)
    inner = next(iter(value)) if len(value) == 1 else None
    if isinstance(inner, Container):
        parts, rest = containers.sequence(engine, value)
        codes = [numbers(p) for p in parts]
        if rest is None and all(c is not None and len(c) == 1 and 0 <= c[0] < 256 for c in codes):
            return const(bytes(c[0] for c in codes if c))
    return PLAIN


def _range(engine: "Engine", args: Args) -> Value:
    given = [numbers(v) for v in args.positional]
    made = engine.container(args.node, "list", "made")
    if args.rest is None and given and all(g is not None and len(g) == 1 for g in given):
        try:
            counted = range(*[g[0] for g in given if g])
        except (ValueError, TypeError):
            counted = range(0)
        if len(counted) <= 8:
            for n in counted:
                engine.element(made, const(n))
            return frozenset({made})
    engine.element(made, WORDS)
    return frozenset({made})


# ---- classes ----------------------------------------------------------------------------------------


def _type(engine: "Engine", args: Args) -> Value:
    value = args.at(0) or EMPTY
    if len(args.positional) < 2:
        return EMPTY.union(*(attributes.class_of(a) for a in value))
    bases, body = args.at(1) or EMPTY, args.at(2) or EMPTY
    named, others = containers.keywords(engine, body)
    made = engine.site(args.node, "class", lambda: _class(engine))
    engine.add(made.bases, containers.elements(engine, bases))
    for name, held in named.items():
        for each in held:
            if isinstance(each, Closure) and each.cls is None:
                each.cls = made
        engine.bind(made.scope, name, held)
    if others is not None:
        engine.add(engine.unnamed, others)
    return frozenset({made})


def _class(engine: "Engine") -> Class:
    from humanlayer_agent.shell.code.python.objects import Scope

    made = Class("type", Scope("class", engine.scope))
    engine.classes.append(made)
    return made


def _super(engine: "Engine", args: Args) -> Value:
    scope = engine.scope
    while scope is not None and (scope.closure is None or scope.closure.cls is None):
        scope = scope.parent  # type: ignore[assignment]
    first = args.at(0)
    found: set[Atom] = {Super(a) for a in first or () if isinstance(a, Class)}
    if scope is not None and scope.closure is not None and scope.closure.cls is not None:
        found.add(Super(scope.closure.cls))
    return frozenset(found) or ANYTHING


def _wrapped(kind: str) -> Special:
    """staticmethod, classmethod, property: the function, which is called in another way."""

    def wrap(engine: "Engine", args: Args) -> Value:
        out: Value = EMPTY
        for value in args.every():
            for atom in value:
                if not isinstance(atom, Closure) and kind == "property":
                    capabilities.escape(engine, frozenset({atom}), "property")
                if isinstance(atom, Closure):
                    if kind == "property":
                        atom.computed = True
                    else:
                        atom.kind = kind
                    if kind == "property":
                        out |= engine.read(atom.returns)
            out |= value
        return out

    return wrap


def _object(engine: "Engine", args: Args) -> Value:
    return frozenset({Thing("builtins", "object")})


CONSTRUCTORS: dict[str, Special] = {
    "map": _map, "filter": _filter, "zip": _zip, "enumerate": _enumerate, "reversed": _reversed,
    "list": _copied("list"), "tuple": _copied("tuple"), "set": _copied("set"), "frozenset": _copied("set"),
    "dict": _copied("dict"), "str": _str, "bytes": _bytes, "bytearray": _bytes, "memoryview": _bytes, "int": _int,
    "float": _inert(WORDS, "float"), "bool": _inert(WORDS, "bool"), "complex": _inert(WORDS, "complex"),
    "range": _range, "slice": _inert(PLAIN, "slice"), "type": _type, "super": _super, "object": _object,
    "staticmethod": _wrapped("static"), "classmethod": _wrapped("class"), "property": _wrapped("property"),
}  # fmt: skip

SPECIAL: dict[str, Special] = {
    f"builtins.{name}": special
    for name, special in {
        "getattr": _getattr, "setattr": _setattr, "delattr": _delattr, "vars": _vars, "globals": _globals,
        "locals": _locals, "exec": _exec, "eval": _eval, "compile": _compile, "__import__": _import,
        "breakpoint": _breakpoint, "sorted": _sorted, "min": _extreme, "max": _extreme, "iter": _iter, "next": _next,
        "aiter": _iter, "anext": _next, "sum": _sum, "print": _print, "chr": _chr, "ord": _ord, "hex": _spelled(hex),
        "oct": _spelled(oct), "bin": _spelled(bin), "len": _inert(WORDS, "len"), "id": _inert(WORDS, "id"),
        "hash": _inert(WORDS, "hash"), "abs": _inert(WORDS, "abs"), "round": _inert(WORDS, "round"),
        "repr": _repr, "ascii": _inert(PLAIN, "ascii"), "format": _inert(PLAIN, "format"),
        "isinstance": _isinstance, "issubclass": _isinstance,
        "hasattr": _inert(WORDS, "hasattr"), "callable": _inert(WORDS, "callable"), "dir": _inert(PLAIN, "dir"),
        "input": _inert(PLAIN, "input"), "any": _inert(WORDS, "any"), "all": _inert(WORDS, "all"),
        "pow": _inert(WORDS, "pow"), "divmod": _inert(WORDS, "divmod"), "help": _inert(NONE, "help"),
        "exit": _inert(NONE, "exit"), "quit": _inert(NONE, "quit"),
    }.items()
}  # fmt: skip
SPECIAL["importlib.import_module"] = _import_module
SPECIAL["operator.attrgetter"] = _deferred("attrgetter()")
SPECIAL["operator.methodcaller"] = _deferred("methodcaller()")
SPECIAL["operator.attrgetter()"] = _attributes_got
SPECIAL["operator.methodcaller()"] = _method_called
SPECIAL["functools.reduce"] = _reduce
SPECIAL["typing.ForwardRef"] = _evaluated_later
SPECIAL["typing.get_type_hints"] = SPECIAL["inspect.get_annotations"] = _type_hints
SPECIAL["pickle.loads"] = _unpickled
SPECIAL["unittest.mock.patch.object"] = SPECIAL["unittest.mock.patch.dict"] = _patched
SPECIAL["inspect.getmembers"] = SPECIAL["inspect.getmembers_static"] = _members
SPECIAL["importlib.__import__"] = _import


def construct(engine: "Engine", name: str, args: Args) -> Value:
    """An instance of a built-in class."""
    special = CONSTRUCTORS.get(name)
    if special is not None:
        return special(engine, args)
    for value in args.every():
        capabilities.escape(engine, value, name)
    return ANYTHING


def unbound(engine: "Engine", kind: Type, name: str, args: Args) -> Value:
    """`str.upper(x)`, `dict.fromkeys(...)`, `bytes.fromhex(...)`."""
    if name == "fromhex" and kind.name in ("bytes", "bytearray"):
        return _from_hex(args.at(0) or EMPTY)
    if name == "fromkeys":
        made = engine.container(args.node, "dict", "made")
        for key in containers.elements(engine, args.at(0) or EMPTY):
            containers.store(engine, made, frozenset({key}), args.at(1) or NONE)
        return frozenset({made})
    if name in ("maketrans", "from_bytes"):
        return PLAIN
    first = args.at(0)
    if name == "__call__":
        return calls.call(engine, first or EMPTY, args.after(1), "")
    if name == "__getitem__":
        return containers.item(engine, first or EMPTY, args.at(1) or PLAIN, args.node)
    if name in ("__new__", "__init__"):
        own = frozenset(Instance(a) for a in first or EMPTY if isinstance(a, Class))
        return own | construct(engine, kind.name, args.after(1))
    if name in names.LOOKUPS:
        return lookup(engine, first or EMPTY, args.at(1))
    if name in ("__setattr__",):
        return _setattr(engine, args)
    if first is None:
        return ANYTHING
    capabilities.escape(engine, frozenset(a for a in first if isinstance(a, Type)), f"{kind.name}.{name}")
    return engine.union(calls.method(engine, atom, name, args.after(1)) for atom in first if not isinstance(atom, Type))


def _from_hex(value: Value) -> Value:
    out: Value = EMPTY
    for text in only_texts(value) or []:
        try:
            out |= const(bytes.fromhex(text))
        except ValueError:
            continue
    return out or PLAIN


__all__ = ["ANY", "SPECIAL", "WORD", "Bound", "Function", "Mark", "construct", "effects", "lookup", "paths", "texts"]
