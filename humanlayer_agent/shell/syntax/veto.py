"""A second opinion: tree-sitter-bash reads the same text, and may veto what our parser says.

It is a veto and never a fallback. Alone tree-sitter hides commands (backticks in a here-document, lax
here-document ends), but its faults are not ours: every hole that our front end ever had would have shown here.
"""

import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

from humanlayer_agent.shell.syntax.cursor import Budget, Source
from humanlayer_agent.shell.syntax.refusal import Unparsed
from humanlayer_agent.shell.syntax.tree import Script, Simple, Word, simples

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_parser: "Parser | None" = None

_KEYWORD_COMMANDS = ("declaration_command", "unset_command")
"""Nodes of commands that tree-sitter takes for keywords (`export`, `unset`): the name is their first child."""


MAX_VETO_CHARS = 1 << 14
"""Longest text that gets a second opinion: on errors tree-sitter takes quadratic time (64 KB of `)`: 19 s)."""
MAX_WITNESS_CHARS = 1 << 12
"""How much of a refused text is searched for commands."""
_STEPS_EACH = 4
"""Cursor steps that words of witnesses may cost for each character: one that stands within another is read twice."""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def plain(text: str) -> str:
    """`text` with `%`, an ordinary character for bash, for each character that is not ASCII.

    tree-sitter-bash 0.25 looks characters up in C's table for bytes: one emoji can crash the process. It also takes
    blanks of other alphabets for blanks, which bash does not. Offsets stay the same, and are now those of bytes too.
    """
    return _NOT_ASCII.sub("%", text)


def tree(text: str) -> "Node":
    """tree-sitter's tree of `plain(text)`. It is loaded for the first text that needs it."""
    global _parser
    if _parser is None:
        library = _binding("tree_sitter")
        _parser = library.Parser(library.Language(_binding("tree_sitter_bash").language()))
    return _parser.parse(plain(text).encode("ascii")).root_node


def _binding(name: str) -> Any:
    """What the package `name` is in C, without what its `__init__` imports besides, which takes several times as long.

    These are `typing` and `importlib.resources`. Where the package is built otherwise, it is imported as it is.
    """
    package = find_spec(name)
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec(f"{name}._binding", places) if places else None
    if spec is None or spec.loader is None:
        return import_module(name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def walk(root: "Node") -> Iterator["Node"]:
    """Every node below `root`, without recursion: tree-sitter's trees can be deep."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _text(node: "Node | None") -> str:
    return (node.text or b"").decode("ascii") if node is not None else ""


def _command_names(root: "Node") -> Iterator[str]:
    """The name of every simple command in tree-sitter's tree, as written."""
    for node in walk(root):
        if node.type == "command":
            names = [child for child in node.children if child.type not in _NOT_NAMES]
            # tree-sitter takes the reserved word `time` for a program
            while names and _text(names[0]) == "time":
                names = names[1:]
                while names and _text(names[0]) in ("-p", "--"):
                    names = names[1:]
            if names:
                yield _text(names[0])
        elif node.type in _KEYWORD_COMMANDS or (node.type == "test_command" and _text(node.children[0]) == "["):
            yield _text(node.children[0])


_NOT_NAMES = frozenset(["variable_assignment", "variable_assignments", "file_redirect", "herestring_redirect"])


def _our_names(script: Script) -> Iterator[str]:
    for command in simples(script):
        words = command.words
        if words and words[0].raw == "time":  # after `|` it is a program, for tree-sitter it always is
            words = [word for word in words[1:] if word.raw not in ("-p", "--")]
        if words:
            yield plain(words[0].raw)


def objection(text: str, script: Script) -> str | None:
    """Why tree-sitter does not agree that `script` is what `text` runs, or None where it agrees."""
    if len(text) > MAX_VETO_CHARS:
        return "too long for the second parser"
    root = tree(text)
    if root.has_error:
        return "tree-sitter reports a syntax error"
    if Counter(_command_names(root)) != Counter(_our_names(script)):
        return "tree-sitter sees other commands"
    return None


def witnesses(text: str) -> list[Simple]:
    """The simple commands that tree-sitter finds in a text that was refused, errors and all; best effort.

    Args:
        text: what was refused; no more than MAX_WITNESS_CHARS of it are read.
    """
    found = []
    budget = Budget(_STEPS_EACH * min(len(text), MAX_WITNESS_CHARS))
    for node in walk(tree(text[:MAX_WITNESS_CHARS])):
        if node.type == "command":
            parts = [child for child in node.children if child.type not in _NOT_NAMES]
            words = [_word(text[part.start_byte : part.end_byte], budget) for part in parts]
            if words:
                found.append(Simple(words, [], [], words[0].start, words[-1].end))
    return found


def _word(raw: str, budget: Budget) -> Word:
    """The word that `raw` is, where our lexer can read it within the budget; its offsets are its own."""
    from humanlayer_agent.shell.syntax.commands import CommandLexer

    lexer = CommandLexer(Source(raw), budget, [])
    try:
        word = lexer.word()
    except Unparsed:
        word = None
    if word is None or lexer.index < lexer.length:
        return Word(raw, raw, 0, len(raw), quoted=True)
    return word
