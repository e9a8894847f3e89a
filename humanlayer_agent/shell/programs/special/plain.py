"""Programs whose words are data, whatever they look like: echo, printf, test, sleep."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs.spec import Spec

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk
    from humanlayer_agent.shell.interpreter.context import Context


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note the words as operands; they have no effect."""
    command.operands += [f.text for f in fields]
