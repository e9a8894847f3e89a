"""bash, sh and the like: a text after -c, a script file, or what comes on standard input."""

import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell import builtins
from humanlayer_agent.shell.expansion.field import listed
from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
    from humanlayer_agent.shell.interpreter.context import Context

_UNSET = re.compile(r"\+[abefhkmnptuvxBCEHPT]+", re.ASCII)
_VALUED = re.compile(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file", re.ASCII)
_NOT_BASH = frozenset({"zsh", "fish", "csh", "tcsh"})


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note what the shell runs; a text that can't be seen is unread code."""
    arguments = read_arguments(spec, _without_unset_options(fields))
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    if command.program in _NOT_BASH:
        operand_effects.code(walk, command, None, what=command.text, role="code", origin=command.program or "")
        command.doubt(command.text)
        return
    if arguments.loose:
        operand_effects.code(
            walk, command, arguments.loose[0], what=None, role="code", origin=f"{command.program} operand"
        )
        return
    if "command" in command.flags:
        _text(walk, command, operands, state, context)
    elif operands and "stdin" not in command.flags:
        if (text := operand_effects.descriptor_text(operands[0], state, context)) is not None:
            inner = context.deeper(via=(*context.via, command.program or "sh"))
            walk.source(text, operands[0], state.child(listed(operands[1:])), inner, "string")
        elif builtins.may_reach_process_substitution(operands[0]):
            operand_effects.code(walk, command, operands[0], what=None, role="code", origin=f"{command.program} <( )")
            command.doubt(operands[0].word.raw)
        elif operands[0].text in ("/dev/stdin", "/dev/fd/0", "-"):
            _stdin(walk, command, operands[1:], state, context)
        else:
            if (operands[0].text or "").startswith(("/dev/fd/", "/proc/")):
                for text in walk.heard:
                    _fed(walk, command, text, operands[1:], state, context)
            origin = f"{command.program} operand 1"
            language = command.program or ""
            operand_effects.script(walk, command, operands[0], state, origin, language=language, arguments=operands[1:])
    elif not command.flags & {"version", "help"}:
        _stdin(walk, command, operands, state, context)


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


def _text(walk: "Walk", command: SimpleCommand, operands: list[Field], state: State, context: "Context") -> None:
    if not operands:
        command.doubt("-c")
        return
    if len(operands) > 1 and operands[1].pathname:
        positional, zero = None, None  # of several names the first is $0
    else:
        positional, zero = listed(operands[2:]), operands[1].text if len(operands) > 1 else None
    spec_reader.shell_text(walk, command, operands[0], state, context, f"{command.program} -c", positional, zero)


def _stdin(walk: "Walk", command: SimpleCommand, operands: list[Field], state: State, context: "Context") -> None:
    """The shell reads its script from standard input."""
    stdin = context.stdin
    if stdin.kind == "null":
        return
    if stdin.text is None:
        origin = {"pipe": "a pipe", "file": "a file"}.get(stdin.kind, "standard input")
        operand_effects.code(walk, command, None, what=None, role="stdin", origin=f"{command.program} reads {origin}")
        command.doubt(command.text)
        whole = [stdin.whole] if stdin.whole is not None and "\0" not in stdin.whole else []
        for text in [*whole, *walk.heard]:  # others may have taken some of it
            _fed(walk, command, text, operands, state, context)
        return
    _fed(walk, command, stdin.text, operands, state, context)


def _fed(
    walk: "Walk", command: SimpleCommand, text: str, operands: list[Field], state: State, context: "Context"
) -> None:
    """The shell runs `text`, which it reads from standard input."""
    inner = context.deeper(via=(*context.via, command.program or "sh"))
    word = Field(_word_of(command), *command.span, text=text)
    child = state.child(listed(operands))
    walk.source(text, word, child, inner, context.stdin.kind)


def _word_of(command: SimpleCommand):  # type: ignore[no-untyped-def]
    from humanlayer_agent.shell.syntax.tree import Word

    return Word(command.text, command.text, *command.span)
