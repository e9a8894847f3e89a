"""less and the like: a word that begins with + is a command of the pager, which may run others (+!cmd)."""

import re
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

_HARMLESS = re.compile(r"\+\+?([0-9]*[gGFp%]?|[/?][^!|]*)")


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note the files that are read, and initial commands that are not known to be harmless."""
    words: list[Field] = []
    for each in fields:
        if each.text is not None and each.text.startswith("+"):
            if not _HARMLESS.fullmatch(each.text):
                operand_effects.code(walk, command, each, what=each.text, role="code", origin=f"{command.program} +")
                command.doubt(each.word.raw)
        elif each.text is None and each.prefix.startswith("+"):
            command.doubt(each.word.raw)
        else:
            words.append(each)
    arguments = read_arguments(spec, words)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    command.operands += [o.text for o in arguments.operands]
    for n, each in enumerate(arguments.operands, 1):
        operand_effects.path(walk, command, "read", each, state, origin=f"{command.program} operand {n}")
