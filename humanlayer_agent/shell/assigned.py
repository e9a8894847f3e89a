"""Which variables a piece of script may assign, found by looking at its text only."""

import re
from collections.abc import Iterator

from humanlayer_agent.shell.syntax import (
    Arith,
    ArithCommand,
    Function,
    Loop,
    Node,
    Param,
    Part,
    Simple,
    Test,
    children,
    words_of,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SETTERS = frozenset(
    "read printf declare typeset local export readonly mapfile readarray getopts let unset wait set shift".split()
)
_MOVERS = frozenset(("cd", "pushd", "popd"))
_ANYTHING = frozenset(("eval", ".", "source", "trap", "command", "builtin"))


def assigned_names(node: Node) -> tuple[set[str] | None, bool]:
    """The names that running `node` may assign (None: any), and whether it may change the directory."""
    names: set[str] = set()
    moves = False
    for each in _nodes(node):
        found, moved = _one(each)
        moves |= moved
        if found is None:
            return None, True
        names |= found
    return names, moves


def arithmetic_names(text: str) -> set[str]:
    """Names in an arithmetic text that assigns anything (`=`, `++`, `--`)."""
    return set(_NAME.findall(text)) if "=" in text or "++" in text or "--" in text else set()


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node):
        yield from _nodes(child)


def _one(node: Node) -> tuple[set[str] | None, bool]:
    names: set[str] = set()
    for word in words_of(node):
        names |= _in_parts(word.parts)
    if isinstance(node, Loop):
        if node.name is not None:
            names.add(node.name.text or "")
        if node.head is not None:
            names |= set(_NAME.findall(node.head.raw))
    elif isinstance(node, ArithCommand):
        names |= arithmetic_names(node.word.raw)
    elif isinstance(node, Test):
        names.add("BASH_REMATCH")
    elif isinstance(node, Simple):
        return _simple(node, names)
    elif isinstance(node, Function):
        return names, False
    return names, False


def _simple(node: Simple, names: set[str]) -> tuple[set[str] | None, bool]:
    names |= {a.name for a in node.assigns}
    for redirect in node.redirects:
        if redirect.fd.startswith("{"):
            names.add(redirect.fd[1:-1])
    if not node.words:
        return names, False
    program = node.words[0].text
    if program is None or program in _ANYTHING:
        return None, True
    if program in _SETTERS:
        for word in node.words[1:]:
            if word.text is None and not _NAME.match(word.raw):
                return None, False
            names |= set(_NAME.findall(word.raw))
        names |= {"REPLY", "MAPFILE", "OPTARG", "OPTIND"}
    return names, program in _MOVERS


def _in_parts(parts: list[Part]) -> set[str]:
    names: set[str] = set()
    for part in parts:
        if isinstance(part, Param):
            if part.op in ("=", ":="):
                names.add(part.name)
            if part.arg is not None:
                names |= _in_parts(part.arg.parts)
        elif isinstance(part, Arith):
            names |= arithmetic_names(part.raw) | _in_parts(part.parts)
    return names
