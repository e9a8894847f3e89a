"""Programs whose operands stand for other names: the file ln makes, the pieces of split, the parents of rmdir -p."""

import posixpath
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.slots import names_beginning
from humanlayer_agent.shell.programs.spec import Spec

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
    from humanlayer_agent.shell.interpreter.context import Context


def named(word: Field, text: str) -> Field:
    """A field for another literal name that `word` leads to."""
    return Field(word.word, word.start, word.end, text=text, prefix=text)


def rmdir(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """rmdir removes its operands, with -p the directories on the way as well."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    command.operands += [o.text for o in arguments.operands]
    parents = "parents" in command.flags or not command.flags_complete
    for n, each in enumerate(arguments.operands, 1):
        operand_effects.path(walk, command, "delete", each, state, origin=f"rmdir operand {n}")
        above = posixpath.dirname(each.text.rstrip("/")) if parents and each.text else ""
        while above.strip("/"):
            operand_effects.path(
                walk, command, "delete", named(each, above), state, role="parent", origin="rmdir --parents"
            )
            above = posixpath.dirname(above)
        if parents and each.text is None:
            command.doubt(each.word.raw)


def ln(walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> None:
    """ln makes what it is given reachable under another name: it counts as read, the name as written.

    A symbolic link is followed from where it stands, not from the working directory.
    """
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.operands += [o.text for o in operands]
    target: Field | None = None
    for use in arguments.options:
        target = use.value if use.option.name == "target-directory" else target
    into = target is not None
    if target is None and len(operands) > 1:
        target, operands = operands[-1], operands[:-1]
        into = len(operands) > 1
        operand_effects.path(walk, command, "write", target, state, origin="ln operand last")
    for n, each in enumerate(operands, 1):
        _linked(walk, command, each, target, into, state, f"ln operand {n}")
        if target is None:
            name = posixpath.basename((each.text or "").rstrip("/"))
            here = named(each, name) if name else Field(each.word, each.start, each.end)
            operand_effects.path(walk, command, "write", here, state, origin="ln name")


def _linked(
    walk: "Walk", command: SimpleCommand, each: Field, target: Field | None, into: bool, state: State, origin: str
) -> None:
    """Note what the link leads to, from each directory in which it may stand."""
    if "symbolic" not in command.flags or target is None or (each.text or "/").startswith("/"):
        operand_effects.path(walk, command, "read", each, state, origin=origin)
        return
    if target.text is None:
        command.doubt(target.word.raw)
        operand_effects.path(walk, command, "read", each, state, origin=origin)
        return
    places = {target.text} if into else {posixpath.dirname(target.text), target.text}
    for place in sorted(places if ".." in (each.text or "").split("/") else {posixpath.dirname(target.text)}):
        operand_effects.path(
            walk, command, "read", named(each, posixpath.join(place, each.text or "")), state, origin=origin
        )


def split(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """split writes PREFIXaa, PREFIXab ... (x), csplit PREFIX00 ... (xx)."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.operands += [o.text for o in operands]
    if operands:
        operand_effects.path(walk, command, "read", operands[0], state, origin=f"{command.program} operand 1")
    if command.program == "split" and len(operands) > 1:
        spec_reader.note(walk, command, "prefix", operands[1], state, context, origin="split operand 2")
        for word in operands[2:]:
            command.doubt(word.word.raw)
    elif "prefix" not in command.flags:
        first = "x" if command.program == "split" else "xx"
        pieces = names_beginning(spec_reader.implied(command, first), first)
        operand_effects.path(walk, command, "write", pieces, state, origin=f"{command.program} pieces")
