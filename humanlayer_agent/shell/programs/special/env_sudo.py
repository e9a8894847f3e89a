"""env and sudo: assignments, then a command; `env -S` splits one text into words."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter import assignments, command_lookup
from humanlayer_agent.shell.interpreter import assignments as settings
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
    from humanlayer_agent.shell.interpreter.context import Context

_LISTS = frozenset({"PYTHONPATH", "PATH"})
"""Directories without blanks, so that what they held before stays one word."""
_PLAIN_SPLIT = re.compile(r"[A-Za-z0-9_./=:@,+\- \t]*", re.ASCII)
"""Texts that `env -S` splits at blanks and does nothing else to (no quotes, escapes or variables)."""


def _adds(walk: "Walk", command: SimpleCommand, word: Field, state: State) -> bool:
    """`env PYTHONPATH=$PYTHONPATH:. x` adds to a list of directories that the script has not set, as export does."""
    name, equals, _ = word.prefix.partition("=")
    if name not in _LISTS or not equals or not state.untouched(name):
        return False
    found = settings.declared(name, replace(word, many=False), state)
    if found is None:
        return False
    span, value = walk.span(word.start, word.end), settings.entries(found)
    command.effects.append(Effect("environment", "operand", name, True, span, "env assignment", value=value))
    if word.many:
        command.unresolved = [raw for raw in command.unresolved if raw != word.word.raw]
        command.resolved = not command.unresolved
    return True


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note the variables that are set and the command that runs with them."""
    arguments = read_arguments(spec, fields)
    state = spec_reader.note_options(walk, spec, command, arguments, state, context)
    words: list[Field] = []
    for use in arguments.options:
        if use.option.name == "split-string" and use.value is not None:
            if use.value.text is None or not _PLAIN_SPLIT.fullmatch(use.value.text):
                command.doubt(use.value.word.raw)
                return
            words += [
                Field(use.value.word, use.value.start, use.value.end, text=t, prefix=t) for t in use.value.text.split()
            ]
    words += arguments.operands
    scoped = state.copy()
    for gone in command.options.get("unset", ()) if command.program == "env" else ():
        scoped.forget(None if gone is None else [gone])
        if gone is not None:
            scoped.variables[gone] = ()
    while words and (words[0].text is None or "=" in words[0].text):
        first = words.pop(0)
        if first.text is None:
            if _adds(walk, command, first, state):
                name = first.prefix.partition("=")[0]
                scoped.forget([name])
                scoped.exported |= {name}
                continue
            command.doubt(first.word.raw)
            if first.dynamic:
                break
            continue
        name, _, value = first.text.partition("=")
        spec_reader.note(walk, command, "environment", first, state, context, origin=f"{command.program} assignment")
        assignments.points_to(walk, command, name, (value,), state, first.start, first.end)
        scoped.assign(name, (value,))
        scoped.exported |= {name}
    if words:
        inner = context.deeper(via=(*context.via, command.program or "env"))
        if inner.depth > 24:
            walk.program.doubt("nested too deep")
            return
        command_lookup.run(walk, words, scoped, inner, command.span, command.text, shell=False)
    elif command.program == "env" and not command.flags & {"help", "list-signal"}:
        operand_effects.printed(walk, command, "environment", None, origin="env")
