"""make, compilers, interpreters: what they write or run follows from several words together."""

import posixpath
import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell import touch
from humanlayer_agent.shell.arguments import read_arguments
from humanlayer_agent.shell.catalog.spec import Spec
from humanlayer_agent.shell.grammars.names import named
from humanlayer_agent.shell.grammars.python import note_project
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.state import State
from humanlayer_agent.shell.words import Field

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk
    from humanlayer_agent.shell.context import Context

_COMMAND_VARIABLES = frozenset({"SHELL", ".SHELLFLAGS", "MAKEFLAGS", "MAKE", "MAKEFILES", "GNUMAKEFLAGS"})
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.,/+=:@%-]*", re.ASCII)
_WRITES_OR_RUNS = re.compile(
    r"plugin|dump|profile|save-opt|module-mapper|callgraph|stack-usage|auto-profile|pass-plugin|[lpa],", re.ASCII
)
"""Values of a compiler's -f and -W that load code, write files or pass options on (-Wl,...)."""


def make(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """make runs the project's rules; a variable on the command line may put other commands into them."""
    from humanlayer_agent.shell import invoke

    arguments = read_arguments(spec, fields)
    state = invoke.note_options(walk, spec, command, arguments, state, context)
    command.operands += [o.text for o in arguments.operands]
    for each in arguments.operands:
        name, equals, value = (each.text if each.text is not None else each.prefix).partition("=")
        name = name.rstrip(":+?!")
        if each.text is None or "$" in name:
            command.doubt(each.word.raw)
        elif equals and (name in _COMMAND_VARIABLES or not _PLAIN_VALUE.fullmatch(value)):
            touch.code(walk, command, each, what=value, role="setting", origin=f"make {name}=", unread=False)
            command.doubt(each.word.raw)
    if "version" not in command.flags:
        note_project(walk, command, state)


def compiler(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """A C compiler reads its operands and writes -o, a.out, or an object file for each."""
    from humanlayer_agent.shell import invoke

    arguments = read_arguments(spec, fields)
    invoke.note_options(walk, spec, command, arguments, state, context)
    for use in arguments.options:
        if use.option.name == "level" and use.value is not None and use.value.text is None:
            command.doubt(use.value.word.raw)
        elif use.option.name == "level" and use.value is not None and _WRITES_OR_RUNS.match(use.value.text or ""):
            command.doubt(use.at.word.raw)
    operands = [o for o in arguments.operands if o.text != "-"]
    command.operands += [o.text for o in operands]
    for n, each in enumerate(operands, 1):
        if (each.text or each.prefix).startswith("@"):
            command.doubt(each.word.raw)
        touch.path(walk, command, "read", each, state, origin=f"{command.program} operand {n}")
    if "output" in command.flags or command.flags & {"version"} or not arguments.operands:
        return
    if "compile" not in command.flags:
        touch.path(walk, command, "write", invoke.implied(command, "a.out"), state, origin=f"{command.program} output")
        return
    for each in operands:
        stem = posixpath.splitext(posixpath.basename(each.text or ""))[0]
        target = named(each, stem) if stem else Field(each.word, each.start, each.end)
        if stem:
            invoke.note(walk, command, "prefix", named(each, stem + "."), state, context, origin="compiler output")
        else:
            touch.path(walk, command, "write", target, state, origin="compiler output")


def interpreter(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """perl, ruby, node ...: code in an option, in a file, or on standard input."""
    from humanlayer_agent.shell import invoke

    arguments = read_arguments(spec, fields)
    invoke.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.operands += [o.text for o in operands]
    if command.flags & {"version", "help"}:
        return
    if "code" in command.flags:
        command.doubt("code")
        # The code decides what it does with its operands; perl -i rewrites them.
        in_place = any(use.at.text is not None and "i" in use.at.text[1:] for use in arguments.options)
        for n, each in enumerate(operands, 1):
            kind = "write" if in_place and command.program in ("perl", "ruby") else "read"
            touch.path(walk, command, kind, each, state, origin=f"{command.program} operand {n}")
    elif operands and operands[0].text != "-":
        invoke.script(walk, command, operands[0], state, f"{command.program} operand 1")
    else:
        touch.code(
            walk, command, None, what=context.stdin.text, role="stdin", origin=f"{command.program} standard input"
        )
        command.doubt(command.text)
