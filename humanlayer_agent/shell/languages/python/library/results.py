"""The results of functions of the standard library, where they matter: paths, texts, containers, modules."""

import posixpath
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python import names
from humanlayer_agent.shell.languages.python.library import process_environment, tables, text_codecs
from humanlayer_agent.shell.languages.python.objects import Cell, Closure, Container, Partial
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args, Special
from humanlayer_agent.shell.languages.python.types import containers, path_objects, path_values
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    EMPTY,
    NONE,
    PICKLED,
    PLAIN,
    WORDS,
    Below,
    Function,
    Lib,
    Namespace,
    PathAtom,
    Thing,
    Type,
    Value,
    const,
    only_texts,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]*", re.ASCII)


def of_function(engine: "Engine", called: Function, args: Args) -> Value:
    """What `called(...)` gives."""
    dotted = called.dotted
    if (result := RESULTS.get(dotted) or text_codecs.RESULTS.get(dotted)) is not None:
        return result(engine, args)
    if dotted in names.DECORATORS:
        return frozenset({called}).union(*args.every())
    if dotted in names.KEEPS:
        return _kept(engine, args)
    if (file := engine.sites.get((id(args.node), "file"))) is not None and _opens(called):
        return frozenset({file})  # type: ignore[arg-type]
    entry = table.function(called.name) if (table := tables.module(called.module)) is not None else None
    if entry is not None and entry.returns:
        return returned(entry.returns, args)
    return ANYTHING


def _opens(called: Function) -> bool:
    return called.name in ("open", "openfp") and called.module in (
        "builtins",
        "io",
        "codecs",
        "_io",
        "gzip",
        "bz2",
        "lzma",
    )


def returned(name: str, args: Args) -> Value:
    """An instance of the class `name` ("module.name")."""
    if name == "number":
        return WORDS
    module, _, kind = name.rpartition(".")
    table = tables.module(module)
    entry = table.type(kind) if table is not None else None
    return frozenset({Thing(table.name if table else module, entry.name if entry else kind)})


def of_type(engine: "Engine", kind: Type, args: Args) -> Value:
    """What making an instance of `kind` gives."""
    if (result := RESULTS.get(kind.dotted)) is not None:
        return result(engine, args)
    if kind.dotted == "functools.cached_property":
        for atom in first(args):
            if isinstance(atom, Closure):
                atom.computed = True
    if kind.dotted in names.DECORATORS:
        return frozenset({kind}).union(*args.every())
    if kind.dotted in names.KEEPS:
        return _kept(engine, args)
    if kind.dotted in ("io.FileIO", "_io.FileIO"):
        file = engine.sites.get((id(args.node), "file"))
        return frozenset({file}) if file is not None else ANYTHING  # type: ignore[arg-type]
    entry = table.type(kind.name) if (table := tables.module(kind.module)) is not None else None
    if entry is not None and entry.value is not None:
        value = args.at(entry.value)
        return frozenset(
            Thing(kind.module, kind.name, path_values.path_atom(a)) for a in (PLAIN if value is None else value)
        )
    return frozenset({Thing(kind.module, kind.name)})


def _kept(engine: "Engine", args: Args) -> Value:
    """Something that holds what it was given: it is in its elements, its attributes, and what its methods give."""
    held = EMPTY.union(*args.every())
    made = engine.container(args.node, "list", "kept")
    engine.shuffle(made)
    engine.element(made, held | containers.elements(engine, frozenset(a for a in held if isinstance(a, Container))))
    return ANYTHING | {made}


# ---- paths ------------------------------------------------------------------------------------------


def first(args: Args) -> Value:
    value = args.at(0)
    if value is not None:
        return value
    return EMPTY.union(*args.named.values()) or PLAIN


def _path(change: Callable[[PathAtom], PathAtom]) -> Special:
    def result(engine: "Engine", args: Args) -> Value:
        return path_values.each(first(args), change)

    return result


def _join(engine: "Engine", args: Args) -> Value:
    out: Value = frozenset(path_values.path_atom(a) for a in (args.positional[0] if args.positional else PLAIN))
    for value in args.positional[1:]:
        if len(out) * len(value) > 64:
            return PLAIN
        out = frozenset(
            path_values.join(path_values.path_atom(a), path_values.path_atom(b)) for a in out for b in value
        )
    return out if args.rest is None else path_values.each(out, lambda p: path_values.join(p, next(iter(PLAIN))))  # type: ignore[arg-type]


def _normal(path: PathAtom) -> PathAtom:
    return posixpath.normpath(path) if isinstance(path, str) and not path_values.climbs(path) else path


def _split(directory: bool) -> Special:
    def result(engine: "Engine", args: Args) -> Value:
        made = engine.container(args.node, "tuple")
        for atom in first(args):
            path = path_values.path_atom(atom)
            pair = (
                (path_values.parent(path), path_values.name(path)) if directory else path_values.split_extension(path)
            )
            engine.element(made, frozenset({pair[0]}), 0)
            engine.element(made, frozenset({pair[1]}), 1)
        return frozenset({made})

    return result


def _relative(engine: "Engine", args: Args) -> Value:
    return (
        path_values.each(first(args), path_values.relative) if len(args.positional) == 1 and not args.named else PLAIN
    )


def _glob(engine: "Engine", args: Args) -> Value:
    found = path_values.each(first(args), path_values.matches)
    if (root := args.at(-1, "root_dir")) is not None and root != NONE:
        found = frozenset(a if isinstance(a, Below) else next(iter(PLAIN)) for a in found)
    return listed(engine, args, found)


def listed(engine: "Engine", args: Args, value: Value) -> Value:
    made = engine.container(args.node, "list")
    engine.element(made, value)
    return frozenset({made})


def _directory(args: Args) -> Value:
    value = args.at(0)
    return const(".") if value is None or value == NONE else value


def _listdir(engine: "Engine", args: Args) -> Value:
    return listed(engine, args, frozenset({Below(".")}))


def _walk(engine: "Engine", args: Args) -> Value:
    triple = engine.container(args.node, "tuple")
    inner = engine.container(args.node, "list", "names")
    engine.element(inner, frozenset({Below(".")}))
    roots = frozenset(path_values.inside(path_values.path_atom(a), strict=False) for a in _directory(args))
    for n, held in enumerate((roots, frozenset({inner}), frozenset({inner}))):
        engine.element(triple, held, n)
    return listed(engine, args, frozenset({triple}))


def _scandir(engine: "Engine", args: Args) -> Value:
    found = (path_values.inside(path_values.path_atom(a)) for a in _directory(args))
    return listed(engine, args, frozenset(Thing("os", "DirEntry", p) for p in found))


def _new_path(engine: "Engine", args: Args) -> Value:
    if not args.positional and args.rest is None:
        return path_objects.made(const("."))
    return path_objects.made(_join(engine, args) if args.positional else PLAIN)


def _temporary(engine: "Engine", args: Args, position: int) -> Value:
    """A name in the directory for temporary files, or in that which is given."""
    plain = True  # what is random in the name then makes it a name that means nothing
    for place, name in ((position - 2, "suffix"), (position - 1, "prefix")):
        part = args.at(place, name)
        if part is not None and not all("/" not in text for text in only_texts(part - NONE) or ["/"] if part != NONE):
            engine.act("write", PLAIN, "tempfile")
            return PLAIN
        plain = plain and (
            part is None or all(_PLAIN_NAME.fullmatch(text) for text in only_texts(part - NONE) or ["/"])
        )
    given = args.at(position, "dir")
    fresh = path_values.TEMPORARY if plain else Below("/tmp")
    if given is None or given == NONE:
        return frozenset({fresh})
    return frozenset(path_values.inside(path_values.path_atom(a)) if a not in NONE else fresh for a in given)


def _mkdtemp(engine: "Engine", args: Args) -> Value:
    return _temporary(engine, args, 2)


def _mkstemp(engine: "Engine", args: Args) -> Value:
    made = engine.container(args.node, "tuple")
    engine.element(made, WORDS, 0)
    engine.element(made, _temporary(engine, args, 2), 1)
    return frozenset({made})


def _temporary_file(engine: "Engine", args: Args) -> Value:
    from humanlayer_agent.shell.languages.python.objects import File

    file = engine.site(args.node, "file", lambda: File(engine.unit, engine.loop))
    file.paths |= _temporary(engine, args, 6)
    file.modes.add("write")
    if file not in engine.files:
        engine.files.append(file)
    return frozenset({file})


def _temporary_directory(engine: "Engine", args: Args) -> Value:
    return frozenset(
        Thing("tempfile", "TemporaryDirectory", path_values.path_atom(a)) for a in _temporary(engine, args, 2)
    )


def _copied_to(engine: "Engine", args: Args) -> Value:
    return args.at(1, "dst") or PLAIN


# ---- texts ------------------------------------------------------------------------------------------


# ---- the rest ---------------------------------------------------------------------------------------


def _getenv(engine: "Engine", args: Args) -> Value:
    found = process_environment.looked_up(engine, args.at(0, "key") or PLAIN)
    default = args.at(1, "default")
    return found | (NONE if default is None else default)


def _partial(engine: "Engine", args: Args) -> Value:
    if not args.positional or args.rest is not None:
        for value in args.every():
            capability_leaks.escape(engine, value, "functools.partial")
        return ANYTHING
    made = engine.site(args.node, "partial", Partial)
    if made.function.value and len(made.positional) != len(args.positional) - 1:
        capability_leaks.escape(engine, EMPTY.union(*args.every()), "functools.partial")
        return ANYTHING
    engine.add(made.function, args.positional[0])
    for n, value in enumerate(args.positional[1:]):
        if n == len(made.positional):
            made.positional.append(Cell())
        engine.add(made.positional[n], value)
    for name, value in args.named.items():
        engine.add(made.keywords.setdefault(name, Cell()), value)
    return frozenset({made})


def _same(engine: "Engine", args: Args) -> Value:
    return first(args)


def _all(engine: "Engine", args: Args) -> Value:
    held = EMPTY.union(*args.every())
    return held | listed(engine, args, held)


def _chain(engine: "Engine", args: Args) -> Value:
    return listed(engine, args, EMPTY.union(*(containers.elements(engine, v) for v in args.every())))


def _flattened(engine: "Engine", args: Args) -> Value:
    return listed(engine, args, containers.elements(engine, containers.elements(engine, first(args))))


def _mapping(engine: "Engine", args: Args) -> Value:
    made = engine.container(args.node, "dict", "made")
    for value in args.positional:
        containers.copy(engine, made, frozenset(a for a in value if not isinstance(a, (Type, Function))))
    for name, value in args.named.items():
        engine.element(made, value, name)
    for hidden in (args.rest, args.others):
        if hidden is not None:
            engine.element(made, hidden)
            engine.key(made, PLAIN)
    return frozenset({made})


def _view(engine: "Engine", args: Args) -> Value:
    """A mapping that shows others: what is put into it is put into them."""
    shown = (a for value in args.positional for a in value if isinstance(a, (Container, Namespace)))
    return _mapping(engine, args).union(shown)


def _defaulting(engine: "Engine", args: Args) -> Value:
    from humanlayer_agent.shell.languages.python.syntax import calls

    made = _mapping(engine, args.after(1))
    default = calls.call(engine, args.positional[0], Args(args.node)) if args.positional else EMPTY
    for atom in made:
        if isinstance(atom, Container):
            engine.element(atom, default)
    return made


def _namespace(engine: "Engine", args: Args) -> Value:
    """types.SimpleNamespace(name=value)."""
    for name, value in args.named.items():
        engine.add(engine.attribute(name), value)
    for hidden in (args.others, args.rest, *args.positional):
        if hidden is not None:
            capability_leaks.escape(engine, hidden, "SimpleNamespace")
    return ANYTHING


def _spec(engine: "Engine", args: Args) -> Value:
    return frozenset({Thing("importlib.util", "spec_from_file_location")})


def _module_of_spec(engine: "Engine", args: Args) -> Value:
    value = args.at(0, "spec") or PLAIN
    if not all(isinstance(a, Thing) and a.name == "spec_from_file_location" for a in value - NONE):
        engine.doubt("a module is made of a specification that is not known")
    return frozenset({Lib("module")})


def _reloaded(engine: "Engine", args: Args) -> Value:
    return first(args)


RESULTS: dict[str, Special] = {
    "os.path.join": _join, "os.path.dirname": _path(path_values.parent), "os.path.basename": _path(path_values.name),
    "os.path.abspath": _path(path_values.absolute), "os.path.realpath": _path(path_values.absolute),
    "os.path.normpath": _path(_normal), "os.path.normcase": _path(_normal),
    "os.path.expanduser": _path(path_values.expand_user),
    "os.path.split": _split(True), "os.path.splitext": _split(False), "os.path.relpath": _relative,
    "os.fspath": _path(lambda p: p), "os.fsdecode": _path(lambda p: p), "os.fsencode": _path(lambda p: p),
    "os.getcwd": lambda engine, args: frozenset({path_values.HERE}),
    "os.getcwdb": lambda engine, args: frozenset({path_values.HERE}),
    "os.listdir": _listdir, "os.walk": _walk, "os.fwalk": _walk, "os.scandir": _scandir,
    "os.getenv": _getenv, "os.getenvb": _getenv,
    "glob.glob": _glob, "glob.iglob": _glob, "pathlib.Path": _new_path,
    "shutil.copy": _copied_to, "shutil.copy2": _copied_to, "shutil.copyfile": _copied_to, "shutil.move": _copied_to,
    "shutil.copytree": _copied_to,
    "tempfile.gettempdir": lambda engine, args: const("/tmp"),
    "tempfile.gettempdirb": lambda engine, args: const("/tmp"),
    "tempfile.mkdtemp": _mkdtemp, "tempfile.mktemp": _mkdtemp, "tempfile.mkstemp": _mkstemp,
    "tempfile.NamedTemporaryFile": _temporary_file, "tempfile.TemporaryFile": _temporary_file,
    "tempfile.SpooledTemporaryFile": _temporary_file, "tempfile.TemporaryDirectory": _temporary_directory,
    "functools.partial": _partial,
    "copy.copy": _same, "copy.deepcopy": _same, "typing.cast": lambda engine, args: args.at(1) or PLAIN,
    "asyncio.run": _same, "asyncio.gather": _all, "asyncio.wait_for": _same, "asyncio.create_task": _same,
    "asyncio.ensure_future": _same, "asyncio.shield": _same,
    "itertools.chain": _chain, "itertools.chain.from_iterable": _flattened, "itertools.islice": _chain,
    "itertools.cycle": _chain, "collections.deque": _chain, "collections.OrderedDict": _mapping,
    "collections.ChainMap": _view, "collections.UserDict": _view, "types.MappingProxyType": _view,
    "collections.Counter": _mapping, "random.choice": lambda engine, args: containers.elements(engine, first(args)),
    "collections.defaultdict": _defaulting, "types.SimpleNamespace": _namespace,
    "importlib.reload": _reloaded, "importlib.util.spec_from_file_location": _spec,
    "importlib.util.module_from_spec": _module_of_spec,
    "pickle.dumps": lambda engine, args: frozenset({PICKLED}),
    "uuid.uuid4": lambda engine, args: WORDS, "uuid.uuid1": lambda engine, args: WORDS,
    "time.time": lambda engine, args: WORDS, "time.time_ns": lambda engine, args: WORDS,
    "time.perf_counter": lambda engine, args: WORDS, "os.getpid": lambda engine, args: WORDS,
    "random.randint": lambda engine, args: WORDS, "random.random": lambda engine, args: WORDS,
    "random.randrange": lambda engine, args: WORDS, "secrets.token_hex": lambda engine, args: WORDS,
}  # fmt: skip

CLASS_METHODS: dict[str, Special] = {
    "pathlib.Path.home": lambda engine, args: path_objects.made(frozenset({path_values.HOME})),
    "pathlib.Path.cwd": lambda engine, args: path_objects.made(frozenset({path_values.HERE})),
}
