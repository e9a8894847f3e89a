"""tar: what it does hangs on the operation, which may stand in a first word without a dash (tar xzf a.tgz).

Source: the manual of GNU tar 1.34. Extracting writes below the directory of -C; several options run commands.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.effects import Effect
from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.slots import is_remote
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.syntax.tree import Word

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk
    from humanlayer_agent.shell.interpreter.context import Context

_ARCHIVE = {
    "create": "write",
    "append": "append",
    "update": "append",
    "catenate": "append",
    "delete": "write",
    "extract": "read",
    "list": "read",
    "diff": "read",
    "test-label": "read",
}
_READS_OPERANDS = frozenset({"create", "append", "update", "catenate"})


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note the archive, the files that go into it, and where its members are written."""
    arguments = read_arguments(spec, _with_dash(spec, fields))
    start = state
    state = spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.operands += [o.text for o in operands]
    modes = command.flags & _ARCHIVE.keys()
    shows = command.flags & {"help", "version", "usage", "show-defaults"}
    if not shows and (len(modes) != 1 or not command.flags_complete):
        command.doubt(command.text)
    for mode in sorted(modes):
        _archives(walk, command, arguments, _ARCHIVE[mode], start)
    if sum(use.option.kind == "directory" for use in arguments.options) > 1:
        state = replace(state, cwd=None)  # each holds for the operands after it
    if "files-from" in command.flags:
        command.doubt("--files-from")
    if modes & _READS_OPERANDS:
        for n, each in enumerate(operands, 1):
            operand_effects.path(walk, command, "read", each, state, origin=f"tar operand {n}", recursive=True)
            if "remove-files" in command.flags:
                operand_effects.path(walk, command, "delete", each, state, origin="tar --remove-files", recursive=True)
    if "extract" in modes and not command.flags & {"to-stdout", "to-command"}:
        extracted(command, state, "tar member", anywhere=bool(command.flags & {"absolute-names", "transform"}))


def extracted(command: SimpleCommand, state: State, origin: str, *, anywhere: bool = False) -> None:
    """Members of an archive are written below the working directory: nobody knows which."""
    for cwd in (None,) if anywhere else state.cwd or (None,):
        effect = Effect("write", "extracted", cwd, False, command.span, origin, below=cwd is not None)
        command.effects.append(effect)


def _archives(walk: "Walk", command: SimpleCommand, arguments: Arguments, kind: str, state: State) -> None:
    for use in arguments.options:
        if use.option.name != "file" or use.value is None:
            continue
        text = use.value.text
        if text is not None and is_remote(text) and "force-local" not in command.flags:
            operand_effects.host(walk, command, use.value, origin="tar --file")
            command.doubt(text)  # a remote archive is reached through rsh or rmt
        else:
            operand_effects.path(walk, command, kind, use.value, state, role="archive", origin="tar --file")


def _with_dash(spec: Spec, fields: list[Field]) -> list[Field]:
    """`tar xzf a b` as `tar -x -z -f a b`: values of a first word without a dash are the next words, in order."""
    first = fields[0].text if fields else None
    if not first or first.startswith("-"):
        return fields
    rest = fields[1:]
    out: list[Field] = []
    for letter in first:
        word = Word(f"-{letter}", f"-{letter}", fields[0].start, fields[0].end)
        out.append(Field(word, fields[0].start, fields[0].end, text=f"-{letter}", prefix=f"-{letter}"))
        option = spec.short.get(letter)
        if option is not None and option.arity == 1 and rest:
            out.append(rest.pop(0))
    return out + rest
