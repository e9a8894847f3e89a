"""bash, sh and the like: a text after -c, a script file, or what comes on standard input."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell import builtins, touch
from humanlayer_agent.shell.arguments import read_arguments
from humanlayer_agent.shell.catalog.spec import Spec
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.state import State
from humanlayer_agent.shell.words import Field

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk
    from humanlayer_agent.shell.context import Context

_NOT_BASH = frozenset({"zsh", "fish", "csh", "tcsh"})


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note what the shell runs; a text that can't be seen is unread code."""
    from humanlayer_agent.shell import invoke

    arguments = read_arguments(spec, fields)
    invoke.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    if command.program in _NOT_BASH:
        touch.code(walk, command, None, what=command.text, role="code", origin=command.program or "")
        command.doubt(command.text)
        return
    if arguments.loose:
        touch.code(walk, command, arguments.loose[0], what=None, role="code", origin=f"{command.program} operand")
        return
    if "command" in command.flags:
        _text(walk, command, operands, state, context)
    elif operands and "stdin" not in command.flags:
        if builtins.may_reach_process_substitution(operands[0]):
            touch.code(walk, command, operands[0], what=None, role="code", origin=f"{command.program} <( )")
            command.doubt(operands[0].word.raw)
        elif operands[0].text in ("/dev/stdin", "/dev/fd/0", "-"):
            _stdin(walk, command, operands[1:], state, context)
        else:
            origin = f"{command.program} operand 1"
            language = command.program or ""
            invoke.script(walk, command, operands[0], state, origin, language=language, arguments=operands[1:])
    elif not command.flags & {"version", "help"}:
        _stdin(walk, command, operands, state, context)


def _text(walk: "Walk", command: SimpleCommand, operands: list[Field], state: State, context: "Context") -> None:
    from humanlayer_agent.shell import invoke

    if not operands:
        command.doubt("-c")
        return
    texts = [o.text for o in operands[2:]]
    known = tuple(t for t in texts if t is not None)
    positional = known if len(known) == len(texts) else None
    invoke.shell_text(walk, command, operands[0], state, context, f"{command.program} -c", positional)


def _stdin(walk: "Walk", command: SimpleCommand, operands: list[Field], state: State, context: "Context") -> None:
    """The shell reads its script from standard input."""
    stdin = context.stdin
    if stdin.kind == "null":
        return
    if stdin.text is None:
        origin = {"pipe": "a pipe", "file": "a file"}.get(stdin.kind, "standard input")
        touch.code(walk, command, None, what=None, role="stdin", origin=f"{command.program} reads {origin}")
        command.doubt(command.text)
        return
    texts = [o.text for o in operands]
    known = tuple(t for t in texts if t is not None)
    inner = context.deeper(via=(*context.via, command.program or "sh"))
    word = Field(_word_of(command), *command.span, text=stdin.text)
    child = state.child(known if len(known) == len(texts) else None)
    walk.source(stdin.text, word, child, inner, stdin.kind)


def _word_of(command: SimpleCommand):  # type: ignore[no-untyped-def]
    from humanlayer_agent.shell.syntax import Word

    return Word(command.text, command.text, *command.span)
