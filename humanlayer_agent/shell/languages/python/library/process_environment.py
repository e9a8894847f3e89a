"""The surroundings of the program: os.environ, sys.argv, sys.path, sys.modules."""

import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.behaviour import Act, Text
from humanlayer_agent.shell.languages.python.library import module_values
from humanlayer_agent.shell.languages.python.objects import Container, File
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.types import containers, path_objects, path_values
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    EMPTY,
    ENVIRON,
    NONE,
    PLAIN,
    SYS_MODULES,
    SYS_PATH,
    Atom,
    Below,
    Bound,
    Mark,
    Module,
    Thing,
    Value,
    numbers,
    only_texts,
    operands,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

_WHOLE = frozenset({"environment"})
_TEMPORARY = frozenset({"TMPDIR", "TEMP", "TMP"})
_PLACES = {"HOME": path_values.HOME, "PWD": path_values.HERE}


# ---- os.environ -------------------------------------------------------------------------------------


def printed(engine: "Engine") -> None:
    """All variables are looked at."""
    engine.act("environment", _WHOLE, "os.environ", role="read")


def looked_up(engine: "Engine", name: Value) -> Value:
    """`os.environ[name]`."""
    engine.act("environment", name, "os.environ", role="read")
    known = only_texts(name) or [""]
    return frozenset(_PLACES.get(n, next(iter(PLAIN))) for n in known)


def set_variable(engine: "Engine", name: Value, value: Value | None, origin: str) -> None:
    """A variable is set; `value` is None where it is removed."""
    content = operands(value) if value is not None else []
    if value is not None and _TEMPORARY & set(only_texts(name) or _TEMPORARY) and engine.holds("tempfile"):
        temporary(engine, value)
    if (
        value is not None
        and "HOME" in (only_texts(name) or ["HOME"])
        and re.search(r"expanduser|home\(|~", engine.source)
    ):
        engine.doubt("the home directory is changed")
    for each in operands(name):
        engine.note(Act("environment", (each, *(content if len(content) == 1 else ())), "code", origin, engine.line))


def temporary(engine: "Engine", value: Value) -> None:
    """Temporary files are made in another directory."""
    known = only_texts(value - NONE)
    if value != NONE and not (known and all(t == "/tmp" or (t.startswith("/tmp/") and ".." not in t) for t in known)):
        engine.doubt("temporary files are made in another directory")


def given(engine: "Engine", value: Value, origin: str) -> None:
    """A program gets `value` as its environment."""
    for atom in value:
        if isinstance(atom, Container) and atom.kind == "dict":
            engine.look(atom)
            for name, held in atom.named.items():
                set_variable(engine, frozenset({name}), held, origin)
            unknown = atom.keys - {ENVIRON}
            if unknown or (atom.rest - {ENVIRON} and not atom.keys):
                set_variable(engine, unknown or PLAIN, None, origin)
        elif atom is not ENVIRON and atom not in NONE:
            set_variable(engine, PLAIN, None, origin)


def replaced(engine: "Engine", value: Value) -> None:
    """`os.environ = value`, `os.environ.update(value)`."""
    given(engine, value, "os.environ")


def _environ(engine: "Engine", name: str, args: Args) -> Value:
    first, second = args.at(0), args.at(1)
    if name in ("get", "__getitem__", "pop", "setdefault"):
        if name == "setdefault":
            set_variable(engine, first or PLAIN, second, "os.environ")
        elif name == "pop":
            set_variable(engine, first or PLAIN, None, "os.environ")
        found = looked_up(engine, first or PLAIN)
        return found | (second if second is not None else NONE if name == "get" else EMPTY)
    if name in ("update", "__ior__"):
        for value in args.positional:
            replaced(engine, value if any(isinstance(a, Container) and a.kind == "dict" for a in value) else PLAIN)
        for key, value in args.named.items():
            set_variable(engine, frozenset({key}), value, "os.environ")
        if args.rest is not None or args.others is not None:
            set_variable(engine, PLAIN, None, "os.environ")
        return NONE
    if name in ("__setitem__", "__delitem__"):
        set_variable(engine, first or PLAIN, second, "os.environ")
        return NONE
    if name in ("copy", "__or__", "__copy__"):
        made = engine.container(args.node, "dict", "copy")
        containers.copy(engine, made, frozenset({ENVIRON}))
        return frozenset({made})
    if name in ("clear", "popitem"):
        set_variable(engine, PLAIN, None, "os.environ")
        return PLAIN
    if name in ("items", "values"):
        printed(engine)
        return PLAIN
    return PLAIN


# ---- sys.path, sys.modules, sys.argv ----------------------------------------------------------------


def import_paths(engine: "Engine", value: Value, origin: str) -> None:
    """Modules are looked for in the directories in `value` as well."""
    found: Value = EMPTY
    for atom in value:
        found |= containers.elements(engine, frozenset({atom})) if isinstance(atom, Container) else {atom}
    found -= {SYS_PATH}
    if found:
        engine.act("execute", found, origin, role="import-path")


def method(engine: "Engine", atom: Atom, name: str, args: Args) -> Value:
    """`os.environ.name(...)`, `sys.path.name(...)`, `sys.modules.name(...)`."""
    if atom is ENVIRON:
        return _environ(engine, name, args)
    if atom is SYS_MODULES:
        return _modules(engine, name, args)
    if name in ("append", "extend", "__iadd__", "insert"):
        for value in args.positional[1:] if name == "insert" else args.every():
            import_paths(engine, value, "sys.path")
        if args.rest is not None and name == "insert":
            import_paths(engine, args.rest, "sys.path")
        return NONE
    if name in ("__setitem__", "__add__", "__setslice__", "__init__"):
        for value in args.every():
            import_paths(engine, value, "sys.path")
        return frozenset({SYS_PATH})
    return frozenset({SYS_PATH}) if name == "copy" else PLAIN


def put(engine: "Engine", atom: Mark, index: Value | None, value: Value) -> None:
    """`sys.path[i] = value`, `sys.modules[name] = value`."""
    if atom is SYS_PATH:
        import_paths(engine, value, "sys.path")
    elif atom is SYS_MODULES:
        _replace_module(engine, value)
    else:
        capability_leaks.escape(engine, value, "`[...] =`")


def _replace_module(engine: "Engine", value: Value) -> None:
    capability_leaks.escape(engine, value, "sys.modules")


def _modules(engine: "Engine", name: str, args: Args) -> Value:
    if name in ("get", "__getitem__", "pop"):
        found = loaded_module(engine, args.at(0) or PLAIN)
        default = args.at(1)
        return found | (default if default is not None else NONE if name == "get" else EMPTY)
    if name in ("setdefault", "__setitem__", "update"):
        for value in args.every():
            _replace_module(engine, value)
        return loaded_module(engine, args.at(0) or PLAIN) if name == "setdefault" else NONE
    if name in ("values", "items", "copy"):
        made = engine.container(args.node, "list", name)
        pair = engine.container(args.node, "tuple", "pair")
        engine.element(pair, PLAIN, 0)
        engine.element(pair, frozenset({Module("?")}), 1)
        engine.element(made, frozenset({pair}) if name == "items" else frozenset({Module("?")}))
        return frozenset({made}) if name != "copy" else frozenset({SYS_MODULES})
    return PLAIN


def loaded_module(engine: "Engine", name: Value) -> Value:
    """`sys.modules[name]`."""
    known = only_texts(name)
    if known is None:
        return frozenset({Module("?")})
    return EMPTY.union(*(module_values.module(n) for n in known))


def argv(engine: "Engine") -> Value:
    """sys.argv."""
    held = engine.container(engine.trees[0], "list", "argv")
    if not held.known:
        if engine.argv is None:
            engine.fill(held, [frozenset({engine.path}) if engine.path else PLAIN], PLAIN)
        else:
            engine.fill(held, [from_text(text) for text in engine.argv])
    return frozenset({held})


def from_text(text: Text) -> Value:
    """A Text as a value."""
    if text.choices:
        return frozenset(text.choices)
    return frozenset({Below(text.below, strict=False)}) if text.below is not None else PLAIN


def stream(engine: "Engine") -> File:
    """sys.stdin, sys.stdout, sys.stderr: files that are open already."""
    return engine.site(engine.trees[0], "stream", lambda: File(engine.unit, engine.loop))


# ---- what has to stand somewhere --------------------------------------------------------------------


def thing_elements(engine: "Engine", atom: Thing) -> Value:
    """What iterating over an instance of a known class gives."""
    return ANYTHING


def bound_item(engine: "Engine", atom: Bound, index: Value) -> Value:
    """`Path(p).parents[n]`, and what else looks like an index of a method."""
    if isinstance(atom.receiver, Thing) and path_objects.is_path(atom.receiver) and atom.name == "parents":
        out: Value = frozenset({atom.receiver})
        levels = numbers(index)
        if levels is None or len(levels) != 1 or not 0 <= levels[0] < 20:
            return path_objects.made(PLAIN)
        for _ in range(levels[0] + 1):
            out = path_objects.parent(out)
        return out
    return frozenset({atom})
