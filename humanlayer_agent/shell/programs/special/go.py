"""The reader of `go`: packages to run or build, and texts of options for its compiler and linker."""

import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.programs import operand_effects

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk

_SAFE = re.compile(
    r"(?:[\w./]+=)?-(?:[sw]|N|l|m(?:=\d)?|B|e|S|race|msan|v|short|cover|count=\d+|timeout=\w+|tags=[\w,]+|failfast|json"
    r"|run=.*|skip=.*|run|skip|tags|timeout|count|bench|bench=.*|benchmem|benchtime=\w+|p=\d+|parallel=\d+|shuffle=\w+"
    r"|covermode=\w+|dwarf=(?:true|false)|compressdwarf=(?:true|false)|buildid=|checklinkname=0|X(?:=.*)?)",
    re.ASCII | re.DOTALL,
)
"""Options that start no other program (as -extld does) and write no file."""


def package(walk: "Walk", command: SimpleCommand, word: Field, state: State, origin: str) -> None:
    """`x.go` is a file that is run or compiled; ./x and /x are directories; x@v1 is fetched first; x is a name."""
    text = word.text
    if command.subcommand == "run" and _is_argument(command, text):
        return
    if text is None:
        operand_effects.path(walk, command, "execute", word, state, role="project", origin=origin)
    elif text.endswith(".go") and command.subcommand == "run":
        operand_effects.script(walk, command, word, state, origin, language="")
    elif "@" in text and command.subcommand in ("run", "install"):
        command.effects.append(Effect("package", "operand", text, True, walk.span(word.start, word.end), origin))
    elif text.startswith(("/", ".")) and text not in (".", "./..."):
        place = text.removesuffix("...").rstrip("/") or "/"
        operand_effects.path(
            walk, command, "execute", Field(word.word, word.start, word.end, text=place, prefix=place), state,
            role="project", origin=origin,
        )  # fmt: skip


def _is_argument(command: SimpleCommand, text: str | None) -> bool:
    """`go run a.go b.go x` and `go run ./cmd x`: what follows the files, or the package, is the program's own."""
    operands = command.operands
    if text is None or text not in operands:
        return False
    files = next((n for n, o in enumerate(operands) if not (o or "").endswith(".go")), len(operands))
    return operands.index(text) >= max(files, 1)


def flags(walk: "Walk", command: SimpleCommand, word: Field, state: State, origin: str) -> None:
    """Options in one text: code wherever they are not known to be harmless."""
    parts = (word.text or "").replace("'", " ").replace('"', " ").split()
    if word.text is None or any(part.startswith("-") and not _SAFE.fullmatch(part) for part in parts):
        operand_effects.code(walk, command, word, what=word.text, role="code", origin=origin)
        command.doubt(word.word.raw)
    elif any("=-" in part and not _SAFE.fullmatch(part) for part in parts):
        command.doubt(word.word.raw)
