"""gzip, bzip2, xz, zstd, lz4: each operand is replaced by another file, whose name follows from its own."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.programs.special.file_names import named

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
    from humanlayer_agent.shell.interpreter.context import Context

_SUFFIX = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "lzma": ".lzma", "zstd": ".zst", "lz4": ".lz4", "pigz": ".gz"}
_UNPACKERS = {
    "gunzip": "gzip",
    "bunzip2": "bzip2",
    "unxz": "xz",
    "unlzma": "lzma",
    "unzstd": "zstd",
    "unlz4": "lz4",
    "unpigz": "pigz",
}
_SHORTENED = dict.fromkeys((".tgz", ".taz", ".tbz", ".tbz2", ".txz", ".tlz", ".tzst"), ".tar")
_KEEPERS = frozenset({"zstd", "unzstd", "lz4", "unlz4"})
"""These keep the file that they read, unless told otherwise (--rm)."""


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note what is read, and what is written and removed in its place."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = list(arguments.operands)
    command.operands += [o.text for o in operands]
    flags, program = command.flags, command.program or ""
    if flags & {"files", "files0"}:
        command.doubt("--files")
    unpacks = program in _UNPACKERS or bool(flags & {"decompress", "uncompress"})
    prints = bool(flags & {"stdout", "list", "test", "output", "train"})
    keeps = "rm" not in flags if program in _KEEPERS else "keep" in flags
    if program in ("lz4", "unlz4") and len(operands) == 2 and not prints and "multiple" not in flags:
        operand_effects.path(walk, command, "write", operands.pop(), state, origin="lz4 operand 2")
        prints = True  # the name of the output is given
    for n, each in enumerate(operands, 1):
        origin = f"{program} operand {n}"
        recursive = "recursive" in flags
        operand_effects.path(walk, command, "read", each, state, origin=origin, recursive=recursive)
        if prints and "rm" not in flags:
            continue
        if not keeps:
            operand_effects.path(
                walk, command, "delete", each, state, role="replaced", origin=origin, recursive=recursive
            )
        if not prints:
            _result(walk, command, each, unpacks, state, origin)


def _result(walk: "Walk", command: SimpleCommand, each: Field, unpacks: bool, state: State, origin: str) -> None:
    """Note the file that is written in place of (or beside) `each`."""
    if (
        command.flags & {"recursive", "name", "suffix", "output-dir-flat", "output-dir-mirror", "format"}
        or each.text is None
    ):
        # Names in a directory, from a header, or of a kind not spelled out: somewhere beside what is read.
        for effect in [e for e in command.effects if e.kind == "read" and e.origin == origin]:
            below = effect.operand is not None and (effect.recursive or effect.below)
            command.effects.append(
                Effect("write", "result", effect.operand if below else None, False, effect.span, origin, below=below)
            )
        return
    name = _unpacked(each.text) if unpacks else each.text + _suffix(command.program or "")
    if name is None:
        command.doubt(each.word.raw)  # gunzip looks for NAME.gz
    else:
        operand_effects.path(walk, command, "write", named(each, name), state, role="result", origin=origin)


def _suffix(program: str) -> str:
    return _SUFFIX[_UNPACKERS.get(program, program)]


def _unpacked(name: str) -> str | None:
    """The name without the ending of a compressed file; None where it has none."""
    for short, long in _SHORTENED.items():
        if name.endswith(short):
            return name.removesuffix(short) + long
    head, dot, ending = name.rpartition(".")
    return head if dot and "/" not in ending else None
