"""Pieces of code that an action puts into files which it does not write as a whole.

`sed -i '1i import os; ...' conftest.py`, or a patch on the standard input, spell out what they add, but not what is
around it. Of such a piece only what is certain counts: what it does with names and texts that stand in it.
"""

import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from humanlayer_agent.shell.interpreter.context import Context
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.languages import by_name
from humanlayer_agent.shell.languages.behaviour import Behaviour
from humanlayer_agent.shell.languages.code_effects import perform
from humanlayer_agent.shell.program import WRITTEN, SimpleCommand

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter

MAX_PIECES = 64
MAX_PIECE = 16_384
_SEPARATORS = "/|#,:@!~%;+="
_AROUND = "import os, shutil, socket, subprocess, sys, pathlib, urllib.request\nfrom pathlib import Path\n"
"""What a file has most likely imported."""
_ADDED = re.compile(
    r"(?:[0-9]+|\$|/(?:[^/\\]|\\.)*/)?(?:,(?:[0-9]+|\$))?[ \t]*[aic](?:[ \t]*\\\n|[ \t]*\\?)((?:.|\n)*)", re.ASCII
)


def of_sed(words: list[str]) -> Iterator[str]:
    """The texts that the scripts among `words` of a sed command put into a file."""
    for word in words[1:]:
        script = word.strip()
        if (found := _ADDED.fullmatch(script)) is not None:
            yield found[1].replace("\\\n", "\n").replace("\\n", "\n").replace("\\t", "\t")
        elif script[:1] == "s" and script[1:2] in _SEPARATORS and script[1:2]:
            parts = script[2:].replace("\\" + script[1], "\0").split(script[1])
            new = script[1].join(parts[1:-1]).replace("\0", script[1])
            yield new.replace("\\n", "\n").replace("\\t", "\t")


def of_patch(text: str) -> Iterator[tuple[str, str]]:
    """The names of files and the runs of lines that a patch adds to them."""
    name, added = "", []
    for line in [*text.split("\n"), "@@"]:
        if line.startswith("+") and not line.startswith("+++ "):
            added.append(line[1:])
            continue
        if added:
            yield name, "\n".join(added)
            added = []
        if line.startswith("+++ "):
            name = line[4:].partition("\t")[0].strip()


def judge(walk: "Interpreter", path: str, text: str, by: SimpleCommand) -> None:
    """Add what the piece `text` of the file at `path` certainly does when it is run."""
    language = by_name(path)
    if language == "gitattributes" and (found := walk.code(language, text, path=path)) is not None and found.opaque:
        perform(Run(walk, by, State(by.cwd, walk.environ, havoc=True), Context(by.inside, by.via)), found, language)
    if language != "python" or not text.strip():
        return
    if len(text) > MAX_PIECE:
        by.doubt(path)
        return
    found = None
    for each in dict.fromkeys((text, textwrap.dedent(text), text.lstrip(" \t;:)"))):
        found = walk.code("python", _AROUND + each + "\n", path=path)
        if found is not None and not found.opaque:
            break
    if found is None or found.opaque:
        return
    certain = [a for a in found.acts if a.operands and not a.many and all(o.known for o in a.operands)]
    certain = [a for a in certain if a.role != "import"]
    if not certain:
        return
    command = SimpleCommand("", [], by.span, by.text, by.via, (*by.inside, WRITTEN), by.cwd)
    context = Context((*by.inside, WRITTEN), by.via, depth=len(by.via) + 1)
    perform(Run(walk, command, State(by.cwd, walk.environ, havoc=True), context), Behaviour(certain), "python")
    if command.effects or not command.resolved:
        walk.program.commands.append(command)
