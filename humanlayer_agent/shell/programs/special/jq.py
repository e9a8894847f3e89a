"""jq: options with two values (--arg name value), then a filter and files."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
    from humanlayer_agent.shell.interpreter.context import Context

_PAIRS = {"--arg": "text", "--argjson": "text", "--slurpfile": "read", "--rawfile": "read", "--argfile": "read"}


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note the files that jq reads; its filter can't write or run anything, but print the environment."""
    words: list[Field] = []
    i = 0
    while i < len(fields):
        kind = _PAIRS.get(fields[i].text or "")
        if kind is None:
            words.append(fields[i])
            i += 1
            continue
        if kind == "read" and i + 2 < len(fields):
            operand_effects.path(
                walk, command, "read", fields[i + 2], state, role="option", origin=f"jq {fields[i].text}"
            )
        for value in fields[i + 1 : i + 3]:
            if value.many:
                command.doubt(value.word.raw)
        i += 3
    arguments = read_arguments(spec, words)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = list(arguments.operands)
    if "from-file" not in command.flags and operands:
        spec_reader.note(walk, command, "jq", operands.pop(0), state, context, origin="jq filter")
    command.operands += [o.text for o in operands]
    if "args" in command.flags:
        command.doubt("--args")
        return
    for n, each in enumerate(operands, 1):
        operand_effects.path(walk, command, "read", each, state, origin=f"jq operand {n}")
