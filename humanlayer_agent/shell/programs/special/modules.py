"""`python -m NAME`: modules of the standard library with arguments of their own, and modules of the project."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from humanlayer_agent.shell import builtins
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.paths import absolute, dedupe
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.catalog import family, lookup
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.programs.special.archives import extracted
from humanlayer_agent.shell.programs.special.file_names import named

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk
    from humanlayer_agent.shell.interpreter.context import Context

MAX_PARTS = 12
_PROGRAMS = {
    "sphinx": "sphinx-build", "sphinx.cmd.build": "sphinx-build", "sphinx.cmd.quickstart": "sphinx-quickstart",
    "sphinx.ext.apidoc": "sphinx-apidoc", "django": "django-admin", "IPython": "ipython", "py.test": "pytest",
}  # fmt: skip
"""Modules that are a program of another name."""


@lru_cache(maxsize=1_024)
def program_of(name: str) -> Spec | None:
    """What the catalog says of a module: under `python -m NAME`, or as the program that it is."""
    found = lookup(f"python -m {name}") or lookup(_PROGRAMS.get(name, ""))
    plain = name.replace("_", "-")
    return found or (lookup(plain) if family(plain) == "python" and not plain.startswith(("python", "pypy")) else None)


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
    return dedupe([*places, *(absolute(e, cwd) for e in entries for cwd in places or ("/",))])[:16]


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
    from humanlayer_agent.shell.programs.special import python

    if fields:
        python.module(walk, command, fields[0], fields[1:], state, context)
        command.subcommand = "runpy"
    else:
        command.doubt(command.text)


def timeit(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """timeit [-s SETUP] LINE ...: lines of Python."""
    from humanlayer_agent.shell.programs.special import python

    arguments = read_arguments(spec, fields)
    setup = [use.value for use in arguments.options if use.option.name == "setup" and use.value is not None]
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    if "help" in command.flags:
        return
    lines = [word.text for word in (*setup, *arguments.operands)]
    known = [line for line in lines if line is not None]
    text = "\n".join(known) + "\n" if len(known) == len(lines) and not arguments.loose else None
    word = (*arguments.operands, *setup, spec_reader.implied(command, "timeit"))[0]
    python.code(walk, command, word, text, "-m timeit", [], state, context)


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
