"""python: code after -c or on standard input, a module, or a script file."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.effects import Effect
from humanlayer_agent.shell.expansion.field import positional
from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk
    from humanlayer_agent.shell.interpreter.context import Context


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note what python runs. `-c` and `-m` end its own options."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    given = {use.option.name: use.value for use in arguments.options}  # not the flags: profilers come here again
    if "inspect" in given and context.stdin.kind != "null":
        # After its code it reads more.
        operand_effects.code(walk, command, None, what=command.text, role="stdin", origin="python -i")
        command.doubt("-i")
    if "module" in given:
        module(walk, command, given["module"], arguments.operands, state, context)
    elif "code" in given:
        value = given["code"]
        text = value.text if value is not None else None
        code(walk, command, value, text, "-c", arguments.operands, state, context)
    elif arguments.operands and arguments.operands[0].text not in ("-", "/dev/stdin"):
        file, *rest = arguments.operands
        operand_effects.script(walk, command, file, state, "python operand 1", language="python", arguments=rest)
    elif not given.keys() & {"version", "help"}:
        text = context.stdin.text if context.stdin.kind != "null" else ""
        code(walk, command, None, text, "standard input", arguments.operands[1:], state, context)


def code(
    walk: "Walk", command: SimpleCommand, word: Field | None, text: str | None, origin: str, rest: list[Field],
    state: State, context: "Context",
) -> None:  # fmt: skip
    """Code that stands in the command itself."""
    from humanlayer_agent.shell import languages as reading
    from humanlayer_agent.shell.languages.performance import perform

    words = positional(rest)
    argv = None if words is None else [reading.Text.of("-c" if word is not None else ""), *map(reading.Text.of, words)]
    behaviour = walk.code("python", text, argv=argv) if text is not None else None
    if behaviour is None or behaviour.opaque:
        role = "code" if word is not None else "stdin"
        operand_effects.code(walk, command, word, what=text, role=role, origin=f"python {origin}")
        command.doubt("-c" if word is not None else command.text)
        return
    perform(walk, command, behaviour, state, context, "python")


def module(
    walk: "Walk", command: SimpleCommand, word: Field | None, rest: list[Field], state: State, context: "Context"
) -> None:
    """What `python -m word rest` does."""
    from humanlayer_agent.shell.programs.special import modules

    name = word.text if word is not None else None
    command.subcommand = name
    spec = modules.program_of(name) if name else None
    modules.own(walk, command, name or "?", rest, state, known=spec is not None)
    if spec is not None:
        spec_reader.apply(walk, spec, command, rest, state, context)


def pytest(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """pytest: its debugger (--pdb, --trace) runs what it is given on standard input."""
    arguments = read_arguments(spec, fields)
    state = spec_reader.note_options(walk, spec, command, arguments, state, context)
    command.operands += [o.text for o in arguments.operands]
    for n, each in enumerate(arguments.operands, 1):
        spec_reader.note(walk, command, "project", each, state, context, origin=f"{command.program} operand {n}")
    given = context.stdin.kind not in ("null", "inherit") or _input_was_moved(walk)
    if command.flags & {"pdb", "pdbcls"} and given:
        operand_effects.code(walk, command, None, what=command.text, role="stdin", origin="pytest --pdb")
        command.doubt("--pdb")


def _input_was_moved(walk: "Walk") -> bool:
    """`exec < file`: what runs after it reads the file."""
    return any(each.program == "exec" and each.effects for each in walk.program.commands)


_DJANGO = {
    **dict.fromkeys(
        str.split(
            """flush migrate loaddata dumpdata createsuperuser changepassword dbshell inspectdb clearsessions
            createcachetable remove_stale_contenttypes"""
        ),
        ("network", "database"),
    ),
    **dict.fromkeys(("runserver", "testserver"), ("listen", "server")),
    "sendtestemail": ("network", "mail server"),
}
"""Commands of Django that reach beyond the project (django-admin and manage.py, in its documentation)."""
_DJANGO_PLACES = {"--pythonpath": "project", "--template": "remote", "--output": "write", "-o": "write"}
"""Options of Django's commands that name something, and the slot that says what."""


def django(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """django-admin COMMAND: startproject and startapp write a directory, the others run the project's code."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.subcommand = operands[0].text if operands else None
    for option, value in zip(operands[1:], operands[2:] + operands[:1], strict=False):
        name, equals, _ = (option.text or "").partition("=")
        if slot := _DJANGO_PLACES.get(name):
            word = option.tail(len(name) + 1) if equals else value
            spec_reader.note(walk, command, slot, word, state, context, origin=f"django-admin {name}")
    if beyond := _DJANGO.get(command.subcommand or ""):
        command.effects.append(Effect(beyond[0], "itself", beyond[1], True, command.span, "django-admin"))
    if command.subcommand in ("startproject", "startapp"):
        rest = read_arguments(spec, operands[1:])
        spec_reader.note_options(walk, spec, command, rest, state, context)
        for each in rest.operands[:1] if len(rest.operands) == 1 else rest.operands[1:]:
            operand_effects.path(walk, command, "write", each, state, origin="django-admin directory")
    elif operands or not command.flags & {"version"}:
        note_project(walk, command, state)
        if command.subcommand in ("shell", "dbshell") and context.stdin.kind != "null":
            operand_effects.code(
                walk, command, operands[0], what=command.text, role="stdin", origin="django-admin shell"
            )
            command.doubt(command.text)


def note_project(walk: "Walk", command: SimpleCommand, state: State) -> None:
    """Note that the code of the project in the working directory runs."""
    for cwd in state.cwd or (None,):
        effect = Effect("execute", "project", cwd, cwd is not None, command.span, command.program or "python")
        command.effects.append(effect)
