"""Python code that the program makes and runs: exec, eval, compile, and functions that take code as a text."""

import ast
import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python import scopes
from humanlayer_agent.shell.languages.python.library import tables
from humanlayer_agent.shell.languages.python.objects import Cell, Closure, Container
from humanlayer_agent.shell.languages.python.parsing import odd_coding, parse
from humanlayer_agent.shell.languages.python.syntax import calls, expressions, statements
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.types import containers
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    EMPTY,
    ENVIRON,
    NONE,
    SELF,
    SHOWN,
    WORDS,
    Code,
    Const,
    Method,
    Namespace,
    Value,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

_OBJECTS = ANYTHING | WORDS
"""What a function of a library that takes objects as well as texts gets: an object."""


_REACHES = re.compile(
    r"""__|\\                                  # an attribute of Python's own, or a string that may spell one
    |[\w)\]"'}](?<!\bin)(?<!\bif)(?<!\bor)(?<!\band)\s*\[(?!\s*(?:\d+|"[a-z][\w -]*"|'[a-z][\w -]*')\s*\])
    |\|\s*(?:attr|map|groupby|sum|sort|min|max|unique|selectattr|rejectattr)\s*
        \((?!\s*(?:attribute\s*=\s*)?(?:"[a-z][\w.]*"|'[a-z][\w.]*')\s*\))""",
    re.IGNORECASE | re.VERBOSE,
)
"""What an expression of Jinja's can come to everything by: attributes with underscores, and those by a name that it
puts together, as an index or as the argument of a filter (https://jinja.palletsprojects.com/templates, "Variables").
"""


def template(engine: "Engine", value: Value, origin: str) -> None:
    """The texts in `value` are compiled as templates, which can call what they come to by attributes."""
    for atom in value:
        if not isinstance(atom, str) or _REACHES.search(atom):
            engine.doubt(f"{origin} of a template that may reach anything")


def run(engine: "Engine", value: Value, args: Args, origin: str) -> Value:
    """The texts in `value` are run as Python code, here, with the names that can be seen from here."""
    out: Value = EMPTY
    library = not tables.standard(origin)
    spaces = _spaces(engine, args) if origin in ("builtins.exec", "builtins.eval") else EMPTY
    for atom in value:
        text = atom if isinstance(atom, str) else atom.text if isinstance(atom, Code) else None
        if isinstance(atom, Const) and isinstance(atom.value, bytes):
            text = atom.value.decode("utf-8", "replace")
        if text is not None:
            out |= inline(engine, text)
            _filled(engine, text, spaces)
        elif isinstance(atom, (Closure, Method)):
            calls.call(engine, frozenset({atom}), Args(args.node))
        elif atom is SHOWN:
            out |= ANYTHING
        elif not isinstance(atom, Const) and not (library and atom in _OBJECTS):
            engine.doubt(f"{origin.removeprefix('builtins.')} of a text that is not known")
            out |= ANYTHING
    if not value:
        engine.doubt(f"{origin.removeprefix('builtins.')} of a text that is not known")
    return out


def _spaces(engine: "Engine", args: Args) -> Value:
    """The dicts that the code gets its names from and binds names in."""
    given = (args.at(1, "globals") or EMPTY) | (args.at(2, "locals") or EMPTY)
    for atom in given:
        if isinstance(atom, Container) and atom.kind == "dict":
            engine.look(atom)
            for name, held in atom.named.items():
                engine.add(engine.given.setdefault(name, Cell()), held)
            engine.add(engine.injected, atom.rest - {ENVIRON})
        elif not (isinstance(atom, Const) or atom == Namespace(SELF)):
            engine.add(engine.injected, containers.values_of(engine, frozenset({atom})))
    return given


def _filled(engine: "Engine", text: str, spaces: Value) -> None:
    """What the code binds is in the dicts that it was given."""
    for atom in spaces:
        if isinstance(atom, Container) and text in engine.parsed:
            for name in scopes.bound_names(engine.parsed[text]):
                engine.element(atom, scopes.lookup(engine, name), name)


def inline(engine: "Engine", text: str) -> Value:
    """Read `text` as a part of the program; what it gives, where it is an expression."""
    if text in engine.executing:
        return ANYTHING  # it is being read
    if len(engine.executing) > 4:
        engine.doubt("code that makes code is nested too deep")
        return ANYTHING
    if coding := odd_coding(text):  # of bytes it counts, of a text it does not
        engine.doubt(f"code is run that is written in {coding}")
        return ANYTHING
    if text not in engine.parsed:
        engine.step(len(text) // 8)
        try:
            engine.parsed[text] = parse(text.strip(" \t"))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            engine.doubt("code is run that can't be read")
            return ANYTHING
    tree = engine.parsed[text]
    scopes.bind_more(engine, tree)
    engine.executing.add(text)
    line, engine.fixed = engine.line, engine.fixed or engine.line
    try:
        if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
            return expressions.value(engine, tree.body[0].value)
        statements.block(engine, tree.body)
        return NONE
    finally:
        engine.executing.discard(text)
        engine.fixed = engine.fixed if engine.executing else 0
        engine.line = line
