"""The reader of `go`: packages to run or build, and texts of options for its compiler and linker."""

import re

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.program import SimpleCommand

_SAFE = re.compile(
    r"(?:[\w./]+=)?-(?:[sw]|N|l|m(?:=\d)?|B|e|S|race|msan|v|short|cover|count=\d+|timeout=\w+|tags=[\w,]+|failfast|json"
    r"|run=.*|skip=.*|run|skip|tags|timeout|count|bench|bench=.*|benchmem|benchtime=\w+|p=\d+|parallel=\d+|shuffle=\w+"
    r"|covermode=\w+|dwarf=(?:true|false)|compressdwarf=(?:true|false)|buildid=|checklinkname=0|X(?:=.*)?)",
    re.ASCII | re.DOTALL,
)
"""Options that start no other program (as -extld does) and write no file."""


def package(run: Run, word: Field, origin: str) -> None:
    """`x.go` is a file that is run or compiled; ./x and /x are directories; x@v1 is fetched first; x is a name."""
    text = word.text
    if run.command.subcommand == "run" and _is_argument(run.command, text):
        if text is None or text.startswith(("/", "~")) or ".." in text.split("/"):
            run.path("read", word, role="argument", origin=origin)  # the project's code may do anything with it
        return
    if text is None:
        run.path("execute", word, role="project", origin=origin)
    elif text.endswith(".go") and run.command.subcommand == "run":
        run.script(word, origin, language="")
    elif "@" in text and run.command.subcommand in ("run", "install"):
        run.effect("package", "operand", text, True, run.span(word), origin)
    elif text.startswith(("/", ".")) and text not in (".", "./..."):
        place = text.removesuffix("...").rstrip("/") or "/"
        run.path(
            "execute", Field(word.word, word.start, word.end, text=place, prefix=place), role="project", origin=origin
        )


def _is_argument(command: SimpleCommand, text: str | None) -> bool:
    """`go run a.go b.go x` and `go run ./cmd x`: what follows the files, or the package, is the program's own."""
    operands = command.operands
    if text is None or text not in operands:
        return False
    files = next((n for n, o in enumerate(operands) if not (o or "").endswith(".go")), len(operands))
    return operands.index(text) >= max(files, 1)


def flags(run: Run, word: Field, origin: str) -> None:
    """Options in one text: code wherever they are not known to be harmless."""
    parts = (word.text or "").replace("'", " ").replace('"', " ").split()
    if word.text is None or any(part.startswith("-") and not _SAFE.fullmatch(part) for part in parts):
        run.code(word, what=word.text, role="code", origin=origin)
        run.doubt(word.word.raw)
    elif any("=-" in part and not _SAFE.fullmatch(part) for part in parts):
        run.doubt(word.word.raw)
