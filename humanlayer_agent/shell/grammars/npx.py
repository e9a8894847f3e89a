"""Programs that a JavaScript project has installed: npx and its like run them, and fetch what is not there."""

import posixpath
import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell import invoke, noting, touch
from humanlayer_agent.shell.arguments import read_arguments
from humanlayer_agent.shell.catalog.spec import Spec
from humanlayer_agent.shell.code import SHELLS, interpreter
from humanlayer_agent.shell.context import MAX_DEPTH
from humanlayer_agent.shell.grammars import env
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.state import State
from humanlayer_agent.shell.words import Field

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk
    from humanlayer_agent.shell.context import Context

MAX_LEVELS = 32
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_READ = frozenset({"python", *SHELLS})
"""Languages of which scripts are read."""
_REPORTS = frozenset({"report", "check-coverage", "merge", "instrument"})


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """A program that stands in node_modules/.bin is run, as which it is judged; another is fetched first."""
    arguments = read_arguments(spec, fields)
    state = noting.note_options(walk, spec, command, arguments, state, context)
    words = arguments.operands
    command.operands += [o.text for o in words]
    if not words or command.flags & {"call", "package"}:
        return
    plain = not arguments.unknown and not arguments.loose
    if command.program == "pnpm" or (plain and installed(walk, words[0].text, state)):
        command.flags.add("local")
        run(walk, command, words, state, context)
    else:
        noting.note(walk, command, "package", words[0], state, context, origin=f"{command.program} operand 1")


def installed(walk: "Walk", name: str | None, state: State) -> bool:
    """Is `name` a program in node_modules/.bin, here or above? What an action puts there is asked about by itself."""
    if name is None or not _NAME.fullmatch(name) or not state.cwd:
        return False
    return all(_found(walk, name, cwd) is not None for cwd in state.cwd)


def _found(walk: "Walk", name: str, directory: str) -> str | None:
    directory = posixpath.normpath(directory)
    for _ in range(MAX_LEVELS):
        path = posixpath.join(directory, "node_modules", ".bin", name)
        if walk.scripts.source(path) is not None and path not in walk.scripts.written.texts:
            return path
        if directory == "/":
            return None
        directory = posixpath.dirname(directory)
    return None


def run(walk: "Walk", command: SimpleCommand, words: list[Field], state: State, context: "Context") -> None:
    """Judge `words` as the command that they are; where it is a script that can be read, by what that does."""
    name = words[0].text or ""
    for cwd in state.cwd or () if _NAME.fullmatch(name) else ():
        path = _found(walk, name, cwd)
        source = walk.scripts.source(path) if path is not None else None
        if path is not None and source is not None and interpreter(source.text or "") in _READ:
            word = noting.implied(command, path)
            touch.script(walk, command, word, state, "node_modules/.bin", arguments=words[1:])
    inner = context.deeper(via=(*context.via, command.program or "npx"))
    if inner.depth > MAX_DEPTH:
        walk.program.doubt("nested too deep")
        return
    invoke.run(walk, words, state, inner, command.span, command.text, shell=False)


def prefix(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """nyc and c8 run the command after their options; cross-env and dotenv take NAME=value before it."""
    if command.program in ("cross-env", "dotenv"):
        env.read(walk, spec, command, fields, state, context)
        return
    arguments = read_arguments(spec, fields)
    state = noting.note_options(walk, spec, command, arguments, state, context)
    words = arguments.operands
    command.operands += [o.text for o in words]
    if words and words[0].text not in _REPORTS:
        run(walk, command, words, state, context)
