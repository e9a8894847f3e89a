"""The commands that words run as they are expanded: substitutions, arithmetic, expansions that assign."""

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.dataflow import name_lists, name_sources
from humanlayer_agent.shell.environment import outside_variables
from humanlayer_agent.shell.expansion import arithmetic, words
from humanlayer_agent.shell.expansion.field import Field, Located
from humanlayer_agent.shell.interpreter import assignments
from humanlayer_agent.shell.interpreter.context import Context
from humanlayer_agent.shell.interpreter.state import READONLY, State
from humanlayer_agent.shell.reader import DiskLooks
from humanlayer_agent.shell.syntax.tree import Arith, ArrayLit, Assign, Param, Part, ProcSub, Sub, Word

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter


def expand(walk: "Interpreter", each: Word, state: State, context: Context) -> list[Field]:
    """The fields of `each`; what it runs on the way (substitutions) is analysed as well."""
    if each.dynamic:
        word(walk, each, state, context)
    fields = _names(walk, each, state) or _kept(walk, each, state, context) or words.expand(each, state)
    if any(f.pathname for f in fields):
        fields = [unmatched(walk, f, state) for f in fields]
    if walk.fails_on_globs and any(f.glob is not None for f in fields):
        walk.may_abort(state)
    return fields


def unmatched(walk: "Interpreter", found: Field, state: State) -> Field:
    """A word with wildcards which match nothing, so that it stays as it is: `localhost:8000/x?a=b` where there is no
    such folder, and the action has made none.
    """
    first, slash, _ = found.prefix.partition("/")
    if not (slash and ":" in first and found.glob is not None) or state.nullglob or walk.fails_on_globs:
        return found
    here = state.cwd[0] if state.cwd is not None and len(state.cwd) == 1 else ""
    reader = walk.reader if here.startswith("/") else None
    if not isinstance(reader, DiskLooks) or not name_lists.add_no_names(walk.program.commands):
        return found
    names = reader.names(here, deep=False)
    if names is None or first in names or found.glob != found.word.text:
        return found
    return replace(found, text=found.glob, glob=None, prefix=found.glob, pathname=False, many=False)


def _names(walk: "Interpreter", each: Word, state: State) -> list[Field]:
    """The file names that `$(git ls-files)` prints, where the word is nothing else; empty where they are not known."""
    if len(each.parts) != 1 or not isinstance(part := each.parts[0], Sub):
        return []
    if state.havoc or state.lookup("IFS") not in (None, (" \t\n",)) or not walk.program.trace:
        return []
    kind, what, start, _, end = walk.program.trace[-1]
    commands = tuple(walk.program.commands[start:end])
    if kind != "substitution" or what is not part or not commands:
        return []
    found = name_sources.printed(walk, part.script, commands)
    if part.quoted and len(found) != 1:
        return []
    # In quotes several names are one, with ends of lines in it: no file has it.
    several = not part.quoted
    return [replace(f, word=each, start=each.start, end=each.end, many=several, printed=True) for f in found]


def keep_name(walk: "Interpreter", assign: Assign, state: State) -> None:
    """Have a variable hold the file names that `name=$(git ls-files | head -1)` has assigned to it."""
    if assign.append or assign.index is not None or assign.name in state.odd | READONLY:
        return
    if len(found := _names(walk, assign.value, state)) == 1:
        state.assign(assign.name, (Located(found[0], since=walk.program.commands[-1]),))


def _kept(walk: "Interpreter", each: Word, state: State, context: Context) -> list[Field]:
    """The file names that a variable holds to which they were assigned, where they still are what they were."""
    value = words.located(each, state)
    if value is None or value.since is None or not name_lists.once(context.inside):
        return []
    later = list(itertools.takewhile(lambda command: command is not value.since, reversed(walk.program.commands)))
    if len(later) == len(walk.program.commands) or not all(map(name_lists.leaves_names, later)):
        return []
    return [value.at(each)]


def word(walk: "Interpreter", each: Word, state: State, context: Context) -> None:
    """Analyse every script inside `each`, and note in `state` what its expansions assign."""
    parts(walk, each.parts, state, context)


def parts(walk: "Interpreter", found: list[Part], state: State, context: Context) -> None:
    """The same for the parts of one."""
    for part in found:
        match part:
            case Sub():
                _substitution(walk, part, state, context.around("substitution"))
            case ProcSub():
                _substitution(walk, part, state, context.around("process-substitution"))
            case Param():
                parts(walk, part.index_parts, state, context)
                assignments.expansion(walk, part, state, context)
                if part.arg is not None:
                    word(walk, part.arg, state, context)
            case Arith():
                outside_variables.evaluation(walk, part.raw, state)
                parts(walk, part.parts, state, context)
                _arithmetic(walk, part, state, context)
            case ArrayLit():
                for each in part.words:
                    word(walk, each, state, context)


def _substitution(walk: "Interpreter", part: Sub | ProcSub, state: State, context: Context) -> None:
    """`$( )` and `<( )`: a shell of its own."""
    aborted, frames, start = walk.aborted, walk.frames, len(walk.program.commands)
    walk.frames = [*frames]
    walk.script(part.script, state.copy(), context.deeper(stdin=context.stdin.shared()))
    walk.aborted, walk.frames = aborted, frames
    walk.program.trace.append(("substitution", part, start, start, len(walk.program.commands)))


def _arithmetic(walk: "Interpreter", part: Arith, state: State, context: Context) -> None:
    """`$(( ))`: strings that it evaluates, and names that it assigns."""
    if (why := arithmetic.risk(part.raw, part.parts, state)) is not None:
        walk.program.doubt(why)
    if arithmetic.may_fail(part.raw, part.parts, state):
        walk.may_abort(state)
    for name in sorted(arithmetic.assigned(part.raw)):
        walk.implicit(name, None, state, context, part.raw, number=True)
