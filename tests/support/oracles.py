"""Other parsers' opinions of what a text runs: shfmt, tree-sitter-bash, bashlex and bash itself. For tests only.

No text is ever executed: shfmt and tree-sitter only parse, bash is run with `-n`, or to print a function that it read.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from humanlayer_agent.shell.syntax.tree import Script, simples
from humanlayer_agent.shell.syntax.veto import tree, walk

Argv = tuple[str, ...]
"""The words of a simple command, as written."""


def find_shfmt() -> str | None:
    """The shfmt program (package shfmt-py puts it beside the Python that runs), or None."""
    beside = Path(sys.executable).with_name("shfmt")
    return str(beside) if beside.exists() else shutil.which("shfmt")


def our_argv(script: Script) -> list[Argv]:
    """The words of every simple command of ours that has any."""
    return [tuple(word.raw for word in command.words) for command in simples(script) if command.words]


def shfmt_argv(text: str, shfmt: str) -> list[Argv] | None:
    """The words of every simple command in shfmt's tree, or None where it sees a syntax error.

    Args:
        text: the script.
        shfmt: path of the program.
    """
    run = subprocess.run([shfmt, "-ln", "bash", "-tojson"], input=text.encode(), capture_output=True, check=False)
    if run.returncode:
        return None
    return list(_shfmt_commands(json.loads(run.stdout), text.encode()))


def _shfmt_commands(node: Any, text: bytes) -> Iterator[Argv]:
    if isinstance(node, list):
        for item in node:
            yield from _shfmt_commands(item, text)
    elif isinstance(node, dict):
        kind = node.get("Type")
        if kind == "CallExpr" and node.get("Args"):
            yield tuple(_shfmt_source(word, text) for word in node["Args"])
        elif kind == "DeclClause":
            yield (node["Variant"]["Value"], *(_shfmt_source(word, text) for word in node.get("Args", ())))
        elif kind == "LetClause":
            yield ("let", *(_shfmt_source(word, text) for word in node["Exprs"]))
        for child in node.values():
            yield from _shfmt_commands(child, text)


def _shfmt_source(node: Any, text: bytes) -> str:
    return text[node["Pos"].get("Offset", 0) : node["End"]["Offset"]].decode("utf-8", "replace")


def tree_sitter_argv(text: str) -> list[Argv] | None:
    """The words of every simple command in tree-sitter's tree, or None where it sees a syntax error."""
    root = tree(text)
    if root.has_error:
        return None
    found = []
    for node in walk(root):
        if node.type in ("command", "declaration_command", "unset_command", "test_command"):
            words = [child for child in node.children if child.type not in _TREE_SITTER_OTHERS]
            if node.type == "declaration_command":
                words = list(node.children)
            argv = tuple(text[child.start_byte : child.end_byte] for child in words)
            if node.type == "test_command":  # an expression, whose words are deeper
                argv = tuple(text[node.start_byte : node.end_byte].split())
            if argv[:1] == ("time",):  # a reserved word, which tree-sitter takes for a program
                argv = argv[1:]
            if argv and argv[0] != "[[":
                found.append(argv)
    return found


_TREE_SITTER_OTHERS = frozenset(["variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"])


def bash_accepts(text: str) -> bool:
    """Whether `bash -n` reads `text` without a word. It executes nothing."""
    run = subprocess.run(["bash", "--norc", "--noprofile", "-n", "-c", text], capture_output=True, check=False)
    return run.returncode == 0 and not run.stderr


class OracleCrashed(Exception):
    """The other parser died of a fault of its own (bash 5.2 corrupts its heap on some nested substitutions)."""


def bash_prints(text: str) -> str | None:
    """`text` as bash prints it back, as the body of a function that is defined and never called.

    Raises OracleCrashed where bash dies of it. Give it generated scripts only: text that leaves the function's braces
    would run.
    """
    program = f"f() {{\n{text}\n}}\ndeclare -f f"
    run = subprocess.run(["bash", "--norc", "--noprofile", "-c", program], capture_output=True, check=False)
    if run.returncode < 0:
        raise OracleCrashed(text)
    return None if run.returncode or run.stderr else run.stdout.decode("utf-8", "replace")
