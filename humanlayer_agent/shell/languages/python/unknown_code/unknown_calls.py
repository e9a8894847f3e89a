"""Calls of code that is not read here: libraries, the project, objects that nobody knows.

That such code runs is said by its import. What it is handed may still tell: paths outside any project, hosts.
"""

import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.behaviour import Act, Text
from humanlayer_agent.shell.languages.python import names
from humanlayer_agent.shell.languages.python.library import django_settings, tables, wrappers
from humanlayer_agent.shell.languages.python.library import module_values as library
from humanlayer_agent.shell.languages.python.syntax import attributes
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.types import files
from humanlayer_agent.shell.languages.python.unknown_code import argument_doubts, capability_leaks
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    EMPTY,
    PLAIN,
    WORDS,
    Thing,
    Value,
    only_texts,
    texts,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

_WORDLIKE = frozenset({"hexdigest", "strftime"})
"""Methods that give a text without a slash."""
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def call(engine: "Engine", args: Args, label: str, library: str) -> Value:
    """A function that is not read here is called. `library` is its dotted name, where it comes from an import."""
    network = False
    if library.endswith(("patch.object", "patch.dict")):
        return wrappers.patched(engine, args)
    if library:
        table = tables.module(library.partition(".")[0])
        network = table is not None and table.network
    if library == django_settings.CALL:
        for name in engine.configured.intersection(args.named):
            engine.add(engine.attribute(name), args.named[name])
    kind = names.UNMISTAKABLE.get(label)
    if kind in ("shell", "program") or label == "rmtree":
        _unmistakable(engine, kind or "", label, args, args.at(0) or PLAIN)
    argument_doubts.judge(engine, args, label, library or label, network=network)
    return ANYTHING | _imported(engine, args, label)


def _imported(engine: "Engine", args: Args, label: str) -> Value:
    """A function that makes a module, or something in it, of its name: django's import_string("os.system")."""
    if not {w.lower() for w in _WORDS.findall(label)} & names.IMPORT_WORDS:
        return EMPTY
    out: Value = EMPTY
    for value in args.every():
        for text in texts(value):
            top, _, rest = text.replace(":", ".").partition(".")
            if top in tables.STANDARD and all(part.isidentifier() for part in rest.split(".") if rest):
                found = library.module(top)
                for part in rest.split(".") if rest else ():
                    found = attributes.get(engine, found, part)
                out |= found
    return out


def known_method(engine: "Engine", thing: Thing, name: str, args: Args) -> Value:
    """A method of a known class of which the tables say nothing."""
    table = tables.module(thing.module)
    if tables.told(thing.module, None):
        for value in args.every():
            capability_leaks.escape(engine, value, f".{name}")
    else:
        network = table is not None and table.network
        argument_doubts.judge(engine, args, name, f"{thing.module}.{thing.name}.{name}", network=network)
    return ANYTHING


def method(engine: "Engine", name: str, args: Args) -> Value:
    """A method of an object that nobody knows."""
    kind = names.UNMISTAKABLE.get(name)
    if kind is not None:
        _unmistakable(engine, kind, name, args, PLAIN)
        if kind not in ("shell", "program", "doubt") and args.positional and only_texts(args.positional[0]):
            engine.act(kind, args.positional[0], f".{name}")
    elif name == "kill":
        engine.act("process", PLAIN, ".kill")
    elif name == "open":
        _open(engine, args)
    elif name == "load_module":
        engine.doubt("`.load_module()` gives a module that can't be followed")
    argument_doubts.judge(engine, args, name, f".{name}")
    if name in _WORDLIKE:
        return WORDS if name != "strftime" or "/" not in "".join(texts(args.at(0) or PLAIN)) else PLAIN
    return ANYTHING | _imported(engine, args, name)


def _unmistakable(engine: "Engine", kind: str, name: str, args: Args, operand: Value) -> None:
    if kind == "shell":
        _run(engine, kind, args, name)
    elif kind == "program":
        _program(engine, args, name)
    elif kind == "doubt":
        engine.doubt(f"what .{name} does can't be told")
    else:
        engine.act(kind, operand, f".{name}", recursive=name == "rmtree")


def _run(engine: "Engine", kind: str, args: Args, name: str) -> None:
    known = texts(args.at(0) or PLAIN)
    engine.note(Act(kind, (Text.of(*known),), "code", f".{name}", engine.line))


def _program(engine: "Engine", args: Args, name: str) -> None:
    from humanlayer_agent.shell.languages.python.library import subprocesses

    effect = tables.Effect(
        "program", tables.Operand(0, "args"), words="rest" if name.endswith(("l", "lp", "le")) else None
    )
    subprocesses.start(engine, effect, args.at(0) or PLAIN, args, f".{name}")


def _open(engine: "Engine", args: Args) -> None:
    """`x.open("w")`, `x.open(path, "w")`."""
    for value in (*args.positional[:2], *(v for k, v in args.named.items() if k == "mode")):
        for text in texts(value):
            kinds = files.kinds_of(text) if len(text) <= 4 else None
            for kind in sorted((kinds or set()) - {"read"}):
                engine.act(kind, PLAIN, ".open")
