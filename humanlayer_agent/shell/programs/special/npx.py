"""Programs that a JavaScript project has installed: npx and its like run them, and fetch what is not there."""

import posixpath
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.languages import SHELLS, interpreter
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.programs.special import env_sudo

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter

MAX_LEVELS = 32
_STAYS = frozenset({"npm", "npx"})
"""Programs whose --prefix only says where they look: what they run starts where they were started."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_READ = frozenset({"python", *SHELLS})
"""Languages of which scripts are read."""
_REPORTS = frozenset({"report", "check-coverage", "merge", "instrument"})


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """A program that stands in node_modules/.bin is run, as which it is judged; another is fetched first."""
    arguments = read_arguments(spec, fields)
    elsewhere = [use for use in arguments.options if use.option.kind == "directory"]
    others = [use for use in arguments.options if use not in elsewhere]
    looks = spec_reader.note_options(run, spec, Arguments(elsewhere))
    run = spec_reader.note_options(_start(looks, arguments), spec, replace(arguments, options=others))
    words = arguments.operands
    run.command.operands += [o.text for o in words]
    if not words or run.command.flags & {"call", "package"}:
        return
    plain = not arguments.unknown and not arguments.loose
    if run.command.program == "pnpm" or (plain and installed(run.walk, words[0].text, looks.state)):
        run.command.flags.add("local")
        execute(run, words, looks.state)
    else:
        spec_reader.note(run, "package", words[0], origin=f"{run.command.program} operand 1")


def _start(looks: Run, arguments: Arguments) -> Run:
    """Return the run that a program is started in: in the current directory, or in that of each workspace named, which
    nobody knows here. pnpm starts it where it looks for it.
    """
    command, state = looks.command, looks.state.copy()
    if command.program in _STAYS:
        state.cwd = command.cwd
    if (command.flags | arguments.flags()) & {"workspace", "workspaces"}:
        state.cwd = None
    return looks.having(state=state)


def installed(walk: "Interpreter", name: str | None, state: State) -> bool:
    """Is `name` a program in node_modules/.bin, here or above? What an action puts there is asked about by itself."""
    if name is None or not _NAME.fullmatch(name) or not state.cwd:
        return False
    return all(_found(walk, name, cwd) is not None for cwd in state.cwd)


def _found(walk: "Interpreter", name: str, directory: str) -> str | None:
    directory = posixpath.normpath(directory)
    for _ in range(MAX_LEVELS):
        path = posixpath.join(directory, "node_modules", ".bin", name)
        if walk.scripts.source(path) is not None and path not in walk.scripts.written.texts:
            return path
        if directory == "/":
            return None
        directory = posixpath.dirname(directory)
    return None


def execute(run: Run, words: list[Field], looks: State | None = None) -> None:
    """Judge `words` as the command that they are; where it is a script that can be read, by what that does.

    Args:
        looks: the directories that it is looked for in are its; those of `run` where it is None.
    """
    name = words[0].text or ""
    for cwd in (looks or run.state).cwd or () if _NAME.fullmatch(name) else ():
        path = _found(run.walk, name, cwd)
        source = run.walk.scripts.source(path) if path is not None else None
        if path is not None and source is not None and interpreter(source.text or "") in _READ:
            word = spec_reader.implied(run.command, path)
            run.script(word, "node_modules/.bin", arguments=words[1:])
    run.program(words)


def prefix(run: Run, spec: Spec, fields: list[Field]) -> None:
    """nyc and c8 run the command after their options; cross-env and dotenv take NAME=value before it."""
    if run.command.program in ("cross-env", "dotenv"):
        env_sudo.read(run, spec, fields)
        return
    arguments = read_arguments(spec, fields)
    run = spec_reader.note_options(run, spec, arguments)
    words = arguments.operands
    run.command.operands += [o.text for o in words]
    if words and words[0].text not in _REPORTS:
        execute(run, words)
