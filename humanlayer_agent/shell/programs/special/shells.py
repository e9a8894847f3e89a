"""bash, sh and the like: a text after -c, a script file, or what comes on standard input."""

import re

from humanlayer_agent.shell import builtins
from humanlayer_agent.shell.expansion.field import listed
from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

_UNSET = re.compile(r"\+[abefhkmnptuvxBCEHPT]+", re.ASCII)
_VALUED = re.compile(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file", re.ASCII)
_NOT_BASH = frozenset({"zsh", "fish", "csh", "tcsh"})


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note what the shell runs; a text that can't be seen is unread code."""
    arguments = read_arguments(spec, _without_unset_options(fields))
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    if run.command.program in _NOT_BASH:
        run.code(None, what=run.command.text, role="code", origin=run.command.program or "")
        run.doubt(run.command.text)
        return
    if arguments.loose:
        run.code(arguments.loose[0], what=None, role="code", origin=f"{run.command.program} operand")
        return
    if "command" in run.command.flags:
        _text(run, operands)
    elif operands and "stdin" not in run.command.flags:
        if (text := operand_effects.descriptor_text(operands[0], run.state, run.context)) is not None:
            inner = run.context.deeper(via=(*run.context.via, run.command.program or "sh"))
            run.walk.source(text, operands[0], run.state.child(listed(operands[1:])), inner, "string")
        elif builtins.may_reach_process_substitution(operands[0]):
            run.code(operands[0], what=None, role="code", origin=f"{run.command.program} <( )")
            run.doubt(operands[0].word.raw)
        elif operands[0].text in ("/dev/stdin", "/dev/fd/0", "-"):
            _stdin(run, operands[1:])
        else:
            if (operands[0].text or "").startswith(("/dev/fd/", "/proc/")):
                for text in run.walk.heard:
                    _fed(run, text, operands[1:])
            origin = f"{run.command.program} operand 1"
            language = run.command.program or ""
            run.script(operands[0], origin, language=language, arguments=operands[1:])
            if run.command.flags & {"verbose", "xtrace", "option"}:
                run.path("read", operands[0], role="script", origin=origin)  # its lines are printed
    elif not run.command.flags & {"version", "help"}:
        _stdin(run, operands)


def _without_unset_options(fields: list[Field]) -> list[Field]:
    """`fields` without leading words such as `+e`, which switch off what `set` switches on."""
    kept: list[Field] = []
    for n, each in enumerate(fields):
        text = each.text or ""
        if text in ("", "-", "--") or text[0] not in "-+":
            valued = n > 0 and _VALUED.fullmatch(fields[n - 1].text or "") is not None
            if not valued:
                return [*kept, *fields[n:]]
        if not _UNSET.fullmatch(text):
            kept.append(each)
    return kept


def _text(run: Run, operands: list[Field]) -> None:
    if not operands:
        run.doubt("-c")
        return
    if len(operands) > 1 and operands[1].pathname:
        positional, zero = None, None  # of several names the first is $0
    else:
        positional, zero = listed(operands[2:]), operands[1].text if len(operands) > 1 else None
    spec_reader.shell_text(run, operands[0], f"{run.command.program} -c", positional, zero)


def _stdin(run: Run, operands: list[Field]) -> None:
    """The shell reads its script from standard input."""
    stdin = run.context.stdin
    if stdin.kind == "null":
        return
    if stdin.text is None:
        origin = {"pipe": "a pipe", "file": "a file"}.get(stdin.kind, "standard input")
        origin = f"{run.command.program} reads {origin}"
        if (text := operand_effects.input_text(run, origin)) is not None:
            _fed(run, text, operands)
            return
        run.code(None, what=None, role="stdin", origin=origin)
        run.doubt(run.command.text)
        whole = [stdin.whole] if stdin.whole is not None and "\0" not in stdin.whole else []
        for text in [*whole, *run.walk.heard]:  # others may have taken some of it
            _fed(run, text, operands)
        return
    _fed(run, stdin.text, operands)


def _fed(run: Run, text: str, operands: list[Field]) -> None:
    """The shell runs `text`, which it reads from standard input."""
    inner = run.context.deeper(via=(*run.context.via, run.command.program or "sh"))
    word = Field(_word_of(run.command), *run.command.span, text=text)
    child = run.state.child(listed(operands))
    run.walk.source(text, word, child, inner, run.context.stdin.kind)


def _word_of(command: SimpleCommand):  # type: ignore[no-untyped-def]
    from humanlayer_agent.shell.syntax.tree import Word

    return Word(command.text, command.text, *command.span)
