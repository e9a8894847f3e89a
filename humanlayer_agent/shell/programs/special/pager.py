"""less and the like: a word that begins with + is a command of the pager, which may run others (+!cmd)."""

import re

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

_HARMLESS = re.compile(r"\+\+?([0-9]*[gGFp%]?|[/?][^!|]*)")


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note the files that are read, and initial commands that are not known to be harmless."""
    words: list[Field] = []
    for each in fields:
        if each.text is not None and each.text.startswith("+"):
            if not _HARMLESS.fullmatch(each.text):
                run.code(each, what=each.text, role="code", origin=f"{run.command.program} +")
                run.doubt(each.word.raw)
        elif each.text is None and each.prefix.startswith("+"):
            run.doubt(each.word.raw)
        else:
            words.append(each)
    arguments = read_arguments(spec, words)
    spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    for n, each in enumerate(arguments.operands, 1):
        run.path("read", each, origin=f"{run.command.program} operand {n}")
