"""Imports: modules by statement and by name."""

import ast
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.behaviour import Act, Text
from humanlayer_agent.shell.languages.python.library import module_values, subprocesses, tables
from humanlayer_agent.shell.languages.python.objects import Container
from humanlayer_agent.shell.languages.python.syntax import attributes
from humanlayer_agent.shell.languages.python.types import containers
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    EMPTY,
    NONE,
    SELF,
    Const,
    Lib,
    Module,
    Value,
    const,
    only_texts,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


def noted(engine: "Engine", name: str, origin: str = "import") -> Value:
    """The module `name` is imported. Those of the standard library don't count as code of somebody else."""
    if name.startswith("__main__."):
        engine.doubt("a module is imported from one that is no package")
    if name.endswith(".__main__"):
        run_as_program(engine, name.removesuffix(".__main__"), origin)
    elif not tables.standard(name):
        engine.note(Act("execute", (Text.of(name),), "import", origin, engine.line))
    return module_values.module(name)


def run_as_program(engine: "Engine", name: str, origin: str) -> None:
    """The module `name` is run as `python -m` does, with the words in sys.argv."""
    for held in attributes.get(engine, frozenset({Module("sys")}), "argv"):
        known, rest = containers.sequence(engine, frozenset({held}))
        words = ["python3", "-m", name]
        texts = [*map(Text.of, words), *map(subprocesses.word, known[1:])]
        engine.note(Act("program", tuple(texts), "code", origin, engine.line, many=rest is not None))


def plain(engine: "Engine", node: ast.Import) -> None:
    """`import a.b`, `import a.b as c`."""
    for alias in node.names:
        found = noted(engine, alias.name)
        if alias.asname is not None:
            engine.bind(engine.scope, alias.asname, found)
        else:
            top = alias.name.partition(".")[0]
            engine.bind(engine.scope, top, module_values.module(top))


def some(engine: "Engine", node: ast.ImportFrom) -> None:
    """`from a import b`."""
    name = "." * node.level + (node.module or "")
    if node.level:
        found: Value = frozenset({Lib(name)})
        for alias in node.names if not node.module else ():
            engine.note(Act("execute", (Text.of(name + alias.name),), "import", "import", engine.line))
        if node.module:
            noted(engine, name)
    else:
        if node.module == "__future__":
            return
        found = noted(engine, name)
    for alias in node.names:
        if alias.name == "*":
            engine.stars += [a for a in found if isinstance(a, Module) and a not in engine.stars]
            continue
        bound = (
            attributes.get(engine, found, alias.name)
            if not node.level or node.module
            else frozenset({Lib(name + alias.name)})
        )
        engine.bind(engine.scope, alias.asname or alias.name, bound)


def by_name(engine: "Engine", value: Value, origin: str) -> None:
    """A module is imported whose name is a value."""
    known = only_texts(value - NONE)
    if known is None:
        inner = frozenset(a for a in value if isinstance(a, Container))
        if inner and inner == value:
            by_name(engine, containers.elements(engine, inner), origin)
        elif value - NONE and not all(isinstance(a, (Module, Lib)) or a is SELF for a in value):
            engine.doubt("a module is imported whose name is not known")
        return
    for name in known:
        noted(engine, name.partition(":")[0], origin)


def run(engine: "Engine", value: Value, origin: str) -> None:
    """runpy.run_module: a module is run whose name is a value."""
    by_name(engine, value, origin)
    for name in only_texts(value - NONE) or ():
        if not name.endswith(".__main__"):
            run_as_program(engine, name, origin)


def modules(engine: "Engine", value: Value, *, top: bool = False) -> Value:
    """The modules that the texts in `value` name; what `__import__` gives is the `top` one."""
    known = only_texts(value)
    if known is None:
        return ANYTHING
    return EMPTY.union(
        *(module_values.module(name.partition(".")[0] if top else name.lstrip(".") or name) for name in known)
    )


def configuration(engine: "Engine", value: Value, origin: str) -> None:
    """logging.config.dictConfig: a configuration names classes, and files that they write."""
    for atom in value:
        if not isinstance(atom, Container):
            if not isinstance(atom, (str, Const)):
                engine.doubt("a logging configuration that is not known")
            continue
        engine.look(atom)
        if "()" in atom.named or atom.keys:
            engine.doubt("a logging configuration that makes objects")
        if (path := atom.named.get("filename")) is not None:
            engine.act("append", path, origin)
        if (name := atom.named.get("class")) is not None:
            classes = only_texts(name)
            if classes is None:
                engine.doubt("a logging configuration with a class that is not known")
            for each in classes or ():
                noted(engine, each.rpartition(".")[0] or each, origin)
        for key, held in list(atom.named.items()):
            inner = held | containers.elements(
                engine, frozenset(a for a in held if isinstance(a, Container) and a.kind != "dict")
            )
            nested = frozenset(a for a in inner if isinstance(a, Container))
            if nested:
                configuration(engine, nested, origin)
            elif (
                key in ("handlers", "formatters", "filters")
                and held - const(None)
                and not all(isinstance(a, (str, Const, Container)) for a in inner)
            ):
                engine.doubt("a logging configuration that is not known")
