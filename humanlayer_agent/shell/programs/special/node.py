"""node: code after -e or -p, on standard input, or in a file."""

from humanlayer_agent.shell.expansion.field import Field, positional
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.languages.behaviour import Text
from humanlayer_agent.shell.languages.javascript import module_files
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.spec import Spec

_READ = frozenset({"node", "nodejs", "tsx"})
"""Programs that run what they are given and nothing else. The settings of ts-node may name code."""
_MORE = frozenset({"require", "interactive", "inspect", "reporter", "watch", "conditions"})
"""Options with which more runs, or listens, than the code that is given."""


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note what node runs."""
    arguments = read_arguments(spec, fields)
    known = [use for use in arguments.options if use.option.name != "code"]
    codes = [use for use in arguments.options if use.option.name == "code"]
    arguments.options = known
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    if run.command.flags & {"version"}:
        return
    if "run-tests" in run.command.flags and not codes:
        run.path("execute", spec_reader.implied(run.command, "."), role="project", origin="node --test")
        for each in operands:
            run.path("execute", each, role="project", origin="node --test")
        return
    alone = _alone(run, arguments)
    if codes:
        run.command.flags.add("code")
        for use in codes:
            _code(run, use.value, use.value.text if use.value is not None else None, operands, alone=alone)
    elif operands and operands[0].text not in ("-", "/dev/stdin"):
        _file(run, operands[0], operands[1:], alone=alone)
    else:
        text = run.context.stdin.text if run.context.stdin.kind != "null" else ""
        if text is None:
            text = operand_effects.input_text(run, "node standard input")
        _code(run, None, text, operands, alone=alone)


def _alone(run: Run, arguments: Arguments) -> bool:
    """Is the code that is given all that runs?"""
    given = {use.option.name for use in arguments.options}
    return run.command.program in _READ and not arguments.unknown and not arguments.loose and not given & _MORE


def _code(run: Run, word: Field | None, text: str | None, rest: list[Field], *, alone: bool) -> None:
    """Code that stands in the command itself, or comes with it."""
    from humanlayer_agent.shell.languages.code_effects import perform

    words = positional(rest)
    argv = None if words is None else [Text.of(each) for each in words]
    language = "typescript" if run.command.program == "tsx" else "javascript"
    behaviour = run.walk.code(language, text, argv=argv) if text is not None and alone else None
    if behaviour is None or behaviour.opaque:
        role, origin = ("code", "code") if word is not None else ("stdin", "standard input")
        run.code(word, what=text, role=role, origin=f"{run.command.program} {origin}")
        run.doubt("code" if word is not None else run.command.text)
        if word is not None:
            for n, each in enumerate(rest, 1):
                run.path("read", each, origin=f"{run.command.program} operand {n}")
        return
    perform(run, behaviour, "node")


def _file(run: Run, file: Field, rest: list[Field], *, alone: bool) -> None:
    origin = f"{run.command.program} operand 1"
    if "check" in run.command.flags:
        run.path("read", file, origin=origin)
        return
    run.script(file, origin, language=module_files.language_of(file.text or "") if alone else "", arguments=rest)
