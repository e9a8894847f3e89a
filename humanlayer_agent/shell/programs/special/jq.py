"""jq: options with two values (--arg name value), then a filter and files."""

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

_PAIRS = {"--arg": "text", "--argjson": "text", "--slurpfile": "read", "--rawfile": "read", "--argfile": "read"}


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
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
            run.path("read", fields[i + 2], role="option", origin=f"jq {fields[i].text}")
        for value in fields[i + 1 : i + 3]:
            if value.many:
                run.doubt(value.word.raw)
        i += 3
    arguments = read_arguments(spec, words)
    spec_reader.note_options(run, spec, arguments)
    operands = list(arguments.operands)
    if "from-file" not in run.command.flags and operands:
        spec_reader.note(run, "jq", operands.pop(0), origin="jq filter")
    run.command.operands += [o.text for o in operands]
    if "args" in run.command.flags:
        run.doubt("--args")
        return
    for n, each in enumerate(operands, 1):
        run.path("read", each, origin=f"jq operand {n}")
