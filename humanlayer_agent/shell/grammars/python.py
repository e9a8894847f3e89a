"""python: code after -c or on standard input, a module, or a script file. Code is not read yet: it counts as unread."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell import touch
from humanlayer_agent.shell.arguments import read_arguments
from humanlayer_agent.shell.catalog import lookup
from humanlayer_agent.shell.catalog.spec import Spec
from humanlayer_agent.shell.effects import Effect
from humanlayer_agent.shell.fields import positional
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.state import State
from humanlayer_agent.shell.words import Field

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk
    from humanlayer_agent.shell.context import Context

_MODULES_AS_PROGRAMS = {
    "pytest": "pytest", "pip": "pip", "coverage": "coverage", "mypy": "mypy", "flake8": "flake8", "pylint": "pylint",
    "black": "black", "isort": "isort", "ruff": "ruff", "tox": "tox", "nox": "nox", "sphinx": "sphinx-build",
    "django": "django-admin", "twine": "twine", "virtualenv": "virtualenv", "pyflakes": "pyflakes",
    "pycodestyle": "pycodestyle", "autopep8": "autopep8", "yapf": "yapf", "pre_commit": "pre-commit", "pipx": "pipx",
    "uv": "uv", "poetry": "poetry", "cython": "cython", "bandit": "bandit",
}  # fmt: skip
"""Modules whose arguments are those of a program in the catalog. Others stand there as `python -m NAME`."""


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note what python runs. `-c` and `-m` end its own options."""
    from humanlayer_agent.shell import invoke

    arguments = read_arguments(spec, fields)
    invoke.note_options(walk, spec, command, arguments, state, context)
    if "module" in command.flags:
        _module(walk, command, arguments.operands, state, context)
    elif "code" in command.flags:
        value = next(u.value for u in arguments.options if u.option.name == "code")
        text = value.text if value is not None else None
        _code(walk, command, value, text, "-c", arguments.operands, state, context)
    elif arguments.operands and arguments.operands[0].text not in ("-", "/dev/stdin"):
        file, *rest = arguments.operands
        invoke.script(walk, command, file, state, "python operand 1", language="python", arguments=rest)
    elif not command.flags & {"version", "help"}:
        text = context.stdin.text if context.stdin.kind != "null" else ""
        _code(walk, command, None, text, "standard input", arguments.operands[1:], state, context)


def _code(
    walk: "Walk", command: SimpleCommand, word: Field | None, text: str | None, origin: str, rest: list[Field],
    state: State, context: "Context",
) -> None:  # fmt: skip
    """Code that stands in the command itself."""
    from humanlayer_agent.shell import code
    from humanlayer_agent.shell.code.perform import perform

    words = positional(rest)
    argv = None if words is None else [code.Text.of("-c" if word is not None else ""), *map(code.Text.of, words)]
    behaviour = code.read("python", text, argv=argv) if text is not None else None
    if behaviour is None or behaviour.opaque:
        role = "code" if word is not None else "stdin"
        touch.code(walk, command, word, what=text, role=role, origin=f"python {origin}")
        command.doubt("-c" if word is not None else command.text)
        return
    perform(walk, command, behaviour, state, context, "python")


def _module(walk: "Walk", command: SimpleCommand, rest: list[Field], state: State, context: "Context") -> None:
    from humanlayer_agent.shell import invoke

    name = (command.options.get("module") or [None])[-1]
    command.subcommand = name
    program = _MODULES_AS_PROGRAMS.get(name or "", f"python -m {name}")
    spec = lookup(program)
    if spec is not None:
        invoke.apply(walk, spec, command, rest, state, context)
        return
    touch.code(walk, command, None, what=name, role="module", origin="python -m", unread=True)
    command.doubt(f"-m {name}")


def django(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """django-admin COMMAND: startproject and startapp write a directory, the others run the project's code."""
    from humanlayer_agent.shell import invoke

    arguments = read_arguments(spec, fields)
    invoke.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.subcommand = operands[0].text if operands else None
    if command.subcommand in ("startproject", "startapp"):
        rest = read_arguments(spec, operands[1:])
        invoke.note_options(walk, spec, command, rest, state, context)
        for each in rest.operands[:1] if len(rest.operands) == 1 else rest.operands[1:]:
            touch.path(walk, command, "write", each, state, origin="django-admin directory")
    elif operands or not command.flags & {"version"}:
        note_project(walk, command, state)


def note_project(walk: "Walk", command: SimpleCommand, state: State) -> None:
    """Note that the code of the project in the working directory runs."""
    for cwd in state.cwd or (None,):
        effect = Effect("execute", "project", cwd, cwd is not None, command.span, command.program or "python")
        command.effects.append(effect)
