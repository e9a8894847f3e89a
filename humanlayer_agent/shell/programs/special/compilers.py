"""Compilers, interpreters: what they write or run follows from several words together."""

import posixpath
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.programs.special.file_names import named

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
    from humanlayer_agent.shell.interpreter.context import Context

_WRITES_OR_RUNS = re.compile(
    r"plugin|dump|profile|save-opt|module-mapper|callgraph|stack-usage|auto-profile|pass-plugin|[lpa],"
    r"|opt-info.*=|diagnostics-add-output|use-ld=(?!(?:bfd|gold|lld|mold)$)|(?!\w+-prefix-map=)[^=]*=.*/",
    re.ASCII,
)
"""Values of a compiler's -f and -W that load code, write files, name one, or pass options on (-Wl,...)."""


_LINKS = re.compile(
    r"l,(?:-?-?(?:rpath(?:-link)?[,=][^,]*|as-needed|no-as-needed|no-undefined|gc-sections|export-dynamic|start-group|end-group"
    r"|Bstatic|Bdynamic|whole-archive|no-whole-archive|allow-multiple-definition|strip-all|z,[a-z]+|dead_strip|O\d|s|x)(?:,|\Z))+",
    re.ASCII,
)
"""What may be passed on to the linker: where libraries are looked for at run time, and what is left out."""
_ENDINGS = {"compile": ".o", "assembly": ".s", "dependencies": ".d", "coverage": ".gcno"}
"""What the options of a compiler put beside or in place of what it makes, named after each operand."""
_BESIDE = frozenset({".d", ".gcno"})


def compiler(  # noqa: C901
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """A C compiler reads its operands and writes -o, a.out, or an object file for each."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    for use in arguments.options:
        if use.option.name == "level" and use.value is not None and use.value.text is None:
            command.doubt(use.value.word.raw)
        elif use.option.name == "level" and use.value is not None and _LINKS.fullmatch(use.value.text or ""):
            continue
        elif use.option.name == "level" and use.value is not None and _WRITES_OR_RUNS.match(use.value.text or ""):
            command.doubt(use.at.word.raw)
    operands = [o for o in arguments.operands if o.text != "-"]
    command.operands += [o.text for o in operands]
    for n, each in enumerate(operands, 1):
        if (each.text or each.prefix).startswith("@"):
            command.doubt(each.word.raw)
        operand_effects.path(walk, command, "read", each, state, origin=f"{command.program} operand {n}")
    if command.flags & {"version", "shown", "print"} or not arguments.operands:
        return
    endings = [ending for flag, ending in _ENDINGS.items() if flag in command.flags]
    if "keep" not in command.flags and (endings or "output" not in command.flags):
        for each in operands:
            stem = posixpath.splitext(posixpath.basename(each.text or ""))[0]
            if stem:
                for ending in endings if "output" not in command.flags else [e for e in endings if e in _BESIDE]:
                    beside = spec_reader.implied(command, stem + ending)
                    operand_effects.path(walk, command, "write", beside, state, origin="compiler output")
            elif endings:
                target = Field(each.word, each.start, each.end)
                operand_effects.path(walk, command, "write", target, state, origin="compiler output")
    if "output" in command.flags:
        return
    if not command.flags & {"compile", "assembly"}:
        operand_effects.path(
            walk, command, "write", spec_reader.implied(command, "a.out"), state, origin=f"{command.program} output"
        )
        return
    for each in operands if "keep" in command.flags else ():
        stem = posixpath.splitext(posixpath.basename(each.text or ""))[0]
        target = named(each, stem) if stem else Field(each.word, each.start, each.end)
        if stem:
            spec_reader.note(walk, command, "prefix", named(each, stem + "."), state, context, origin="compiler output")
        else:
            operand_effects.path(walk, command, "write", target, state, origin="compiler output")


_PERL_OPTIONS = re.compile(r"-(?:[npaw]|l[0-7]*|0[0-7]*)*(?:[eE]|F(?:[:,;|=]|\\t)|i(?:\.?[\w~]+)?)?", re.ASCII)
"""Options of perl that change only how lines are read and printed, and -i."""
_PERL_PIECE = re.compile(r"[l0][0-7]*|[FidDCMmIxeEV](?:.|\n)*|(?:.|\n)", re.ASCII)


def interpreter(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """perl, ruby, node ...: code in an option, in a file, or on standard input."""
    arguments = read_arguments(spec, _apart(fields) if command.program == "perl" else fields)
    harmless = _prints_only(command, arguments)
    if harmless:
        arguments.options = [use for use in arguments.options if use.option.name != "code"]
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.operands += [o.text for o in operands]
    if command.flags & {"version", "help"}:
        return
    if "run-tests" in command.flags and "code" not in command.flags:
        operand_effects.path(
            walk, command, "execute", spec_reader.implied(command, "."), state, role="project", origin="node --test"
        )
        for each in operands:
            operand_effects.path(walk, command, "execute", each, state, role="project", origin="node --test")
        return
    if harmless or "code" in command.flags:
        if not harmless:
            command.doubt("code")
        # The code decides what it does with its operands; perl -i rewrites them.
        _operands(walk, command, arguments, state)
    elif operands and operands[0].text != "-":
        file, *rest = operands
        origin, language = f"{command.program} operand 1", command.program or ""
        operand_effects.script(walk, command, file, state, origin, language=language, arguments=rest)
    else:
        operand_effects.code(
            walk, command, None, what=context.stdin.text, role="stdin", origin=f"{command.program} standard input"
        )
        command.doubt(command.text)


def _apart(fields: list[Field]) -> list[Field]:
    """perl's options one by one: in `-lane` only digits belong to -l; what follows -i, -F and the like is theirs."""
    out: list[Field] = []
    i = 0
    while i < len(fields):
        text = fields[i].text
        if text is None or len(text) < 2 or text[0] != "-" or text[1] == "-":
            break
        pieces = _PERL_PIECE.findall(text[1:])
        out += [replace(fields[i], text="-" + piece, prefix="-" + piece) for piece in pieces]
        i += 1
        if pieces[-1] in ("e", "E") and i < len(fields):
            out.append(fields[i])
            i += 1
    return out + fields[i:]


def _operands(walk: "Walk", command: SimpleCommand, arguments: Arguments, state: State) -> None:
    """What code in an option is given: files, as far as anybody can tell."""
    words = [use.at.text or "" for use in arguments.options]
    if command.program == "perl":
        edits = [word for word in words if word.startswith("-i")]
        in_place, suffix = bool(edits), (edits or [""])[-1][2:]
    else:
        in_place, suffix = command.program == "ruby" and any("i" in word[1:] for word in words), ""
    for n, each in enumerate(arguments.operands, 1):
        origin = f"{command.program} operand {n}"
        operand_effects.path(walk, command, "write" if in_place else "read", each, state, origin=origin)
        if suffix and each.text is not None:
            operand_effects.path(
                walk, command, "write", named(each, each.text + suffix), state, role="backup", origin=origin
            )


def _prints_only(command: SimpleCommand, arguments: Arguments) -> bool:
    """Whether all code in the options only prints, or edits what it prints."""
    from humanlayer_agent.shell.languages import one_liners

    program = command.program or ""
    codes = [use for use in arguments.options if use.option.name == "code"]
    if not codes or arguments.loose or arguments.unknown or (program == "lua" and arguments.operands):
        return False
    for use in arguments.options:
        word = use.at.text or ""
        if program == "perl" and not _PERL_OPTIONS.fullmatch(word):
            return False
        if program != "perl" and use.option.name != "code":
            return False
    for use in codes:
        word = use.at.text or ""
        option = f"-{word[-1:]}" if program == "perl" else word.partition("=")[0]
        text = use.value.text if use.value is not None else None
        if text is None or not one_liners.prints_only(program, option, text):
            return False
    return one_liners.safe_operands(program, [o.text for o in arguments.operands])
