"""python: code after -c or on standard input, a module, or a script file. Code is not read yet: it counts as unread."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell import touch
from humanlayer_agent.shell.arguments import read_arguments
from humanlayer_agent.shell.catalog import lookup
from humanlayer_agent.shell.catalog.spec import Spec
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.state import State
from humanlayer_agent.shell.words import Field

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Context, Walk

_MODULES_AS_PROGRAMS = {"pytest": "pytest", "pip": "pip", "unittest": "python-unittest"}
"""Modules whose arguments are those of a program in the catalog."""


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note what python runs. `-c` and `-m` end its own options."""
    from humanlayer_agent.shell import invoke

    arguments = read_arguments(spec, fields)
    invoke.note_options(walk, spec, command, arguments, state, context)
    if "module" in command.flags:
        _module(walk, command, arguments.operands, state, context)
    elif "code" in command.flags:
        value = next(u.value for u in arguments.options if u.option.name == "code")
        touch.code(walk, command, value, what=value.text if value else None, role="code", origin="python -c")
        command.doubt("-c")
    elif arguments.operands and arguments.operands[0].text not in ("-", "/dev/stdin"):
        invoke.script(walk, command, arguments.operands[0], state, "python operand 1")
    elif not command.flags & {"version", "help"}:
        touch.code(walk, command, None, what=context.stdin.text, role="stdin", origin="python standard input")
        command.doubt(command.text)


def _module(walk: "Walk", command: SimpleCommand, rest: list[Field], state: State, context: "Context") -> None:
    from humanlayer_agent.shell import invoke

    name = (command.options.get("module") or [None])[-1]
    command.subcommand = name
    program = _MODULES_AS_PROGRAMS.get(name or "")
    spec = lookup(program) if program else None
    if spec is not None:
        invoke.apply(walk, spec, command, rest, state, context)
        return
    touch.code(walk, command, None, what=name, role="module", origin="python -m", unread=True)
    command.doubt(f"-m {name}")
