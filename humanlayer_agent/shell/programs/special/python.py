"""python: code after -c or on standard input, a module, or a script file.

`python -m NAME`: modules of the standard library with arguments of their own, and modules of the project.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from humanlayer_agent.shell import builtins
from humanlayer_agent.shell.expansion.field import positional
from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.paths import absolute_path, dedupe
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.catalog import Catalog
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.programs.special.archives import extracted
from humanlayer_agent.shell.programs.special.file_names import named

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
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

    name = word.text if word is not None else None
    command.subcommand = name
    spec = program_of(name, walk.catalog) if name else None
    own(walk, command, name or "?", rest, state, known=spec is not None)
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


MAX_PARTS = 12
_PROGRAMS = {
    "sphinx": "sphinx-build", "sphinx.cmd.build": "sphinx-build", "sphinx.cmd.quickstart": "sphinx-quickstart",
    "sphinx.ext.apidoc": "sphinx-apidoc", "django": "django-admin", "IPython": "ipython", "py.test": "pytest",
}  # fmt: skip
"""Modules that are a program of another name."""


def program_of(name: str, catalog: Catalog) -> Spec | None:
    """What the catalog says of a module: under `python -m NAME`, or as the program that it is."""
    found = catalog.lookup(f"python -m {name}") or catalog.lookup(_PROGRAMS.get(name, ""))
    plain = name.replace("_", "-")
    if found is not None or catalog.family(plain) != "python" or plain.startswith(("python", "pypy")):
        return found
    return catalog.lookup(plain)


def own(walk: "Walk", command: SimpleCommand, name: str, rest: Sequence[Field], state: State, *, known: bool) -> None:
    """Look for a module in the project: it comes before one that is installed. Unread where it is neither."""
    walk.scripts.later(command, partial(_own, walk, command, name, list(rest), state.copy(), known))


def _own(walk: "Walk", command: SimpleCommand, name: str, rest: list[Field], state: State, known: bool) -> None:
    parts = name.split(".")
    if len(parts) <= MAX_PARTS and all(part.isidentifier() for part in parts):
        for place in _places(state):
            run, found = _files(walk, f"{place.rstrip('/')}/{'/'.join(parts)}", place)
            known |= found
            for path in run:
                word = spec_reader.implied(command, path)
                operand_effects.script(walk, command, word, state, "python -m", language="python", arguments=rest)
    if not known:
        what = None if name == "?" else name
        operand_effects.code(walk, command, None, what=what, role="module", origin="python -m", unread=True)
        command.doubt(f"-m {name}")


def _places(state: State) -> tuple[str, ...]:
    """Where python looks first: the working directory, and what this action puts into PYTHONPATH."""
    places = state.cwd or ()
    entries = [e for value in state.lookup("PYTHONPATH") or () for e in value.split(":") if e]
    return dedupe([*places, *(absolute_path(e, cwd) for e in entries for cwd in places or ("/",))])[:16]


def _files(walk: "Walk", base: str, place: str) -> tuple[list[str], bool]:
    """The files that run for the module at `base`, and whether it is there: packages on the way are run as well."""

    there = walk.scripts.there
    run = [path for path in (f"{base}.py", f"{base}/__main__.py") if there(path)]
    imported: list[str] = []
    package = base
    while package != place and len(package) > len(place):
        imported += [f"{package}/__init__.py", *([f"{package}.py"] if package != base else [])]
        package = package.rpartition("/")[0]
    return [path for path in reversed(imported) if there(path)] + run, bool(run)


# ---- modules with arguments of their own ------------------------------------------------------------


def runpy(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """runpy NAME ...: what `python -m NAME ...` does."""

    if fields:
        module(walk, command, fields[0], fields[1:], state, context)
        command.subcommand = "runpy"
    else:
        command.doubt(command.text)


def timeit(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """timeit [-s SETUP] LINE ...: lines of Python."""

    arguments = read_arguments(spec, fields)
    setup = [use.value for use in arguments.options if use.option.name == "setup" and use.value is not None]
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    if "help" in command.flags:
        return
    lines = [word.text for word in (*setup, *arguments.operands)]
    known = [line for line in lines if line is not None]
    text = "\n".join(known) + "\n" if len(known) == len(lines) and not arguments.loose else None
    word = (*arguments.operands, *setup, spec_reader.implied(command, "timeit"))[0]
    code(walk, command, word, text, "-m timeit", [], state, context)


def archive(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """zipfile and tarfile: -l and -t read, -c writes, -e unpacks into a directory."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.operands += [o.text for o in operands]
    origin = f"python -m {command.subcommand}"
    if "create" in command.flags:
        for n, each in enumerate(operands):
            operand_effects.path(walk, command, "read" if n else "write", each, state, origin=origin, recursive=n > 0)
        return
    for each in operands[: 1 if "extract" in command.flags else None]:
        operand_effects.path(walk, command, "read", each, state, role="archive", origin=origin)
    if "extract" in command.flags:
        into = state.copy()
        for each in operands[1:2]:
            into.cwd = builtins.destination(each, state)
        # Members of a tar archive may have any name, unless a filter is asked for.
        filtered = (command.options.get("filter") or [None])[-1] in ("data", "tar")
        anywhere = command.subcommand == "tarfile" and not filtered
        extracted(command, into, f"{origin} member", anywhere=anywhere)


def gzip(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """gzip writes NAME.gz beside NAME; with -d NAME beside NAME.gz."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    command.operands += [o.text for o in arguments.operands]
    for n, each in enumerate(arguments.operands, 1):
        if each.text == "-":
            continue
        origin = f"python -m gzip operand {n}"
        operand_effects.path(walk, command, "read", each, state, origin=origin)
        unpacks = "decompress" in command.flags
        if each.text is None or (unpacks and not each.text.endswith(".gz")):
            command.doubt(each.word.raw)
            continue
        result = each.text.removesuffix(".gz") if unpacks else each.text + ".gz"
        operand_effects.path(walk, command, "write", named(each, result), state, role="result", origin=origin)
