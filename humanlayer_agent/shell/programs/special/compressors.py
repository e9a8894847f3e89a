"""gzip, bzip2, xz, zstd, lz4: each operand is replaced by another file, whose name follows from its own."""

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.programs.special.file_names import named

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


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note what is read, and what is written and removed in its place."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = list(arguments.operands)
    run.command.operands += [o.text for o in operands]
    flags, program = run.command.flags, run.command.program or ""
    if flags & {"files", "files0"}:
        run.doubt("--files")
    unpacks = program in _UNPACKERS or bool(flags & {"decompress", "uncompress"})
    prints = bool(flags & {"stdout", "list", "test", "output", "train"})
    keeps = "rm" not in flags if program in _KEEPERS else "keep" in flags
    if program in ("lz4", "unlz4") and len(operands) == 2 and not prints and "multiple" not in flags:
        run.path("write", operands.pop(), origin="lz4 operand 2")
        prints = True  # the name of the output is given
    for n, each in enumerate(operands, 1):
        origin = f"{program} operand {n}"
        recursive = "recursive" in flags
        run.path("read", each, origin=origin, recursive=recursive)
        if prints and "rm" not in flags:
            continue
        if not keeps:
            run.path("delete", each, role="replaced", origin=origin, recursive=recursive)
        if not prints:
            _result(run, each, unpacks, origin)


def _result(run: Run, each: Field, unpacks: bool, origin: str) -> None:
    """Note the file that is written in place of (or beside) `each`."""
    if (
        run.command.flags & {"recursive", "name", "suffix", "output-dir-flat", "output-dir-mirror", "format"}
        or each.text is None
    ):
        # Names in a directory, from a header, or of a kind not spelled out: somewhere beside what is read.
        for effect in [e for e in run.command.effects if e.kind == "read" and e.origin == origin]:
            below = effect.operand is not None and (effect.recursive or effect.below)
            run.effect("write", "result", effect.operand if below else None, False, effect.span, origin, below=below)
        return
    name = _unpacked(each.text) if unpacks else each.text + _suffix(run.command.program or "")
    if name is None:
        run.doubt(each.word.raw)  # gunzip looks for NAME.gz
    else:
        run.path("write", named(each, name), role="result", origin=origin)


def _suffix(program: str) -> str:
    return _SUFFIX[_UNPACKERS.get(program, program)]


def _unpacked(name: str) -> str | None:
    """The name without the ending of a compressed file; None where it has none."""
    for short, long in _SHORTENED.items():
        if name.endswith(short):
            return name.removesuffix(short) + long
    head, dot, ending = name.rpartition(".")
    return head if dot and "/" not in ending else None
