"""unzip, 7z x, cpio: archives whose members are written below a directory."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.programs.special.archives import extracted

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk
    from humanlayer_agent.shell.interpreter.context import Context

_PREVIEWS = frozenset({"list", "test", "pipe", "help", "version"})


def unzip(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """ARCHIVE [members]: members are written below the working directory, or below -d (which moves it)."""
    arguments = read_arguments(spec, fields)
    into = spec_reader.note_options(walk, spec, command, arguments, state, context)
    command.operands += [o.text for o in arguments.operands]
    for each in arguments.operands[:1]:
        operand_effects.path(walk, command, "read", each, state, role="archive", origin=f"{command.program} operand 1")
    if arguments.operands and not command.flags & _PREVIEWS:
        extracted(command, into, f"{command.program} member")


def cpio(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """cpio -i unpacks its input; cpio -o and -p read the files whose names come on the input."""
    arguments = read_arguments(spec, fields)
    into = spec_reader.note_options(walk, spec, command, arguments, state, context)
    command.operands += [o.text for o in arguments.operands]
    if command.flags & {"create", "pass-through"}:
        command.doubt("names on the input")
        for each in arguments.operands:
            operand_effects.path(walk, command, "write", each, state, origin="cpio operand")
    elif "list" not in command.flags:
        # Members may have absolute names unless told otherwise.
        extracted(command, into, "cpio member", anywhere="no-absolute-filenames" not in command.flags)


def ar(walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> None:
    """ar KEYS [position] ARCHIVE [members]: the letters of the first word say what happens."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.operands += [o.text for o in operands]
    keys = (operands[0].text or "").lstrip("-") if operands else ""
    if len(operands) < 2 or not keys or set(keys) & set("abi") or not set(keys) <= set("rqtpxdmcsSuvDUoPTV"):
        command.doubt(command.text)
        return
    reads = bool(set(keys) & set("tpx")) and not set(keys) & set("rqdm")
    operand_effects.path(
        walk, command, "read" if reads else "write", operands[1], state, role="archive", origin="ar archive"
    )
    if "x" in keys:
        extracted(command, state, "ar member")
    if set(keys) & set("rq"):
        for n, each in enumerate(operands[2:], 3):
            operand_effects.path(walk, command, "read", each, state, origin=f"ar operand {n}")


def objcopy(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """objcopy IN [OUT]: without a second operand it rewrites the first."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.operands += [o.text for o in operands]
    for each in operands[2:]:
        command.doubt(each.word.raw)
    for n, each in enumerate(operands[:2], 1):
        kind = "read" if n == 1 and len(operands) > 1 and not operands[1].many else "write"
        operand_effects.path(walk, command, kind, each, state, origin=f"objcopy operand {n}")
