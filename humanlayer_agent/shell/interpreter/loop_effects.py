"""The changes that a piece of script may make in its shell when it runs, found by looking at its text only.

A loop's body starts from whatever an earlier round left behind: this says what that may be.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from humanlayer_agent.shell.expansion import arithmetic
from humanlayer_agent.shell.syntax.tree import (
    Arith,
    ArithCommand,
    Assign,
    Function,
    Group,
    Loop,
    Node,
    Param,
    Part,
    Pipeline,
    Simple,
    Test,
    Word,
    children,
    words_of,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ARGUMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=|\[)", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
DECLARERS = frozenset(["declare", "typeset", "local", "export", "readonly"])
_SETTERS = DECLARERS | frozenset(["read", "printf", "mapfile", "readarray", "getopts", "let", "unset", "wait"])
_MOVERS = frozenset(("cd", "pushd", "popd"))
_ANYTHING = frozenset(("eval", ".", "source", "trap", "command", "builtin", "exec"))
_IMPLIED = {"read": "REPLY", "mapfile": "MAPFILE", "readarray": "MAPFILE", "getopts": "OPTARG"}

Definitions = Mapping[str, Sequence[Function | None]]


@dataclass(slots=True)
class Changes:
    """`names` are assigned (`anything`: any may be), those in `numbers` only integers. `moves`: the directory changes.

    `declared` may be exported or given an attribute, `unset` removed; `functions` are defined on the way.
    """

    names: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    """Names that are assigned something that may not be an integer."""
    declared: set[str] = field(default_factory=set)
    unset: set[str] = field(default_factory=set)
    functions: dict[str, list[Function]] = field(default_factory=dict)
    anything: bool = False
    moves: bool = False
    positional: bool = False
    options: bool = False

    @property
    def numbers(self) -> set[str]:
        return self.names - self.texts - self.declared - self.unset

    def text(self, name: str) -> None:
        self.names.add(name)
        self.texts.add(name)

    def everything(self) -> None:
        self.anything = self.moves = self.positional = self.options = True


def changes(node: Node, functions: Definitions) -> Changes:
    """What running `node` may change, with the functions that it may call."""
    out = Changes()
    _Survey(out, functions).survey(node)
    return out


class _Survey:
    """One survey. Each function that is called is looked at once, in whatever order it is defined and called."""

    def __init__(self, out: Changes, functions: Definitions) -> None:
        self.out, self.functions = out, functions
        self.names: set[str] = set()
        self.bodies: set[int] = set()
        self.pending: list[Node] = []

    def survey(self, root: Node) -> None:
        self.pending.append(root)
        while self.pending:
            node = self.pending.pop()
            if isinstance(node, Function):
                self.define(node)
            elif isinstance(node, Pipeline) or (isinstance(node, Group) and node.subshell):
                continue  # runs in a shell of its own
            else:
                self.node(node)
                self.pending += children(node)

    def define(self, function: Function) -> None:
        """In another round a function may be called before the line that defines it."""
        name = function.name.text or ""
        self.out.functions.setdefault(name, []).append(function)
        if name in self.names:
            self.enter(function)

    def call(self, name: str) -> None:
        self.names.add(name)
        for function in (*self.functions.get(name, ()), *self.out.functions.get(name, ())):
            if function is not None:
                self.enter(function)

    def enter(self, function: Function) -> None:
        if id(function) not in self.bodies:
            self.bodies.add(id(function))
            self.pending.append(function.body)

    def node(self, node: Node) -> None:
        """Note what `node` itself changes."""
        for word in words_of(node):
            self.parts(word.parts)
        for redirect in getattr(node, "redirects", ()):
            if redirect.fd.startswith("{"):
                self.out.text(redirect.fd[1:-1])
        if isinstance(node, Loop):
            if node.name is not None:
                self.out.text(node.name.text or "")
                self.out.text("REPLY")
            if node.head is not None:
                self.out.names |= arithmetic.assigned(node.head.raw)
        elif isinstance(node, ArithCommand):
            self.out.names |= arithmetic.assigned(node.word.raw)
        elif isinstance(node, Test):
            for word in node.words:
                self.out.names |= arithmetic.assigned(word.raw)
        elif isinstance(node, Simple):
            for assign in node.assigns:
                self.assign(assign)
            if node.words:
                self.command(node.words)

    def assign(self, assign: Assign) -> None:
        self.out.names.add(assign.name)
        if assign.index is not None:
            self.out.names |= arithmetic.assigned(assign.index)
        self.parts(assign.index_parts)
        value = assign.value
        number = isinstance(value.parts[0], Arith) if len(value.parts) == 1 else _INTEGER.fullmatch(value.static or "")
        if not number or assign.append or assign.index is not None:
            self.out.texts.add(assign.name)

    def command(self, words: list[Word]) -> None:
        program = words[0].static
        if program is None:
            self.out.everything()
            return
        self.call(program)
        if program in _ANYTHING:
            self.out.everything()
        self.out.moves |= program in _MOVERS
        self.out.positional |= program in ("set", "shift")
        self.out.options |= program == "shopt"
        if program in _SETTERS:
            self.setter(program, words[1:])

    def setter(self, program: str, words: list[Word]) -> None:
        if program == "printf" and words and (words[0].static or "-v")[:2] != "-v":
            return
        if program in _IMPLIED:
            self.out.text(_IMPLIED[program])
        for word in words:
            named = _ARGUMENT.match(word.raw)
            if word.static is None and named is None and program != "let":
                self.out.anything = True
                return
            names = {named[1]} if named is not None else set(_NAME.findall(word.static or word.raw))
            for name in names:
                self.out.text(name)
            if program in DECLARERS:
                self.out.declared |= names
            if program == "unset":
                self.out.unset |= names

    def parts(self, parts: list[Part]) -> None:
        for part in parts:
            if isinstance(part, Param):
                if part.op in ("=", ":="):
                    self.out.text(part.name)
                if part.op == ":" and part.arg is not None:
                    self.out.names |= arithmetic.assigned(part.arg.raw)
                if part.index is not None:
                    self.out.names |= arithmetic.assigned(part.index)
                self.parts(part.index_parts)
                if part.arg is not None:
                    self.parts(part.arg.parts)
            elif isinstance(part, Arith):
                self.out.names |= arithmetic.assigned(part.raw)
                self.parts(part.parts)
