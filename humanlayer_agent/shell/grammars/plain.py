"""Programs whose words are data, whatever they look like: echo, printf, test, sleep."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.catalog.spec import Spec
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.state import State
from humanlayer_agent.shell.words import Field

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk
    from humanlayer_agent.shell.context import Context


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note the words as operands; they have no effect."""
    command.operands += [f.text for f in fields]
