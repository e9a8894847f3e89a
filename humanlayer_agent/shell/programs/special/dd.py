"""dd: key=value operands (GNU coreutils 9.1)."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import operand_effects
from humanlayer_agent.shell.programs.spec import Spec

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
    from humanlayer_agent.shell.interpreter.context import Context

_KINDS = {"if": "read", "of": "write"}
_DATA = frozenset(str.split("bs cbs conv count ibs iflag iseek obs oflag oseek seek skip status"))


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note the file that is read and the one that is written."""
    for each in fields:
        if each.text is None:
            name = each.prefix.partition("=")[0] if "=" in each.prefix else None
            if name in _KINDS:
                operand_effects.path(
                    walk, command, _KINDS[name], Field(each.word, each.start, each.end), state, origin=f"dd {name}="
                )
            elif name not in _DATA:
                command.doubt(each.word.raw)
            continue
        name, equals, _ = each.text.partition("=")
        command.flags.add(name)
        if name in _KINDS and equals:
            operand_effects.path(walk, command, _KINDS[name], each.tail(len(name) + 1), state, origin=f"dd {name}=")
        elif name not in _DATA and each.text not in ("--help", "--version"):
            command.doubt(each.text)
