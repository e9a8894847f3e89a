"""python: code after -c or on standard input, a module, or a script file.

`python -m NAME`: modules of the standard library with arguments of their own, and modules of the project.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from humanlayer_agent.shell import builtins
from humanlayer_agent.shell.expansion.field import positional
from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.paths import absolute_path, dedupe
from humanlayer_agent.shell.program import Effect
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.catalog import Catalog
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.programs.special.archives import extracted
from humanlayer_agent.shell.programs.special.file_names import named

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter
    from humanlayer_agent.shell.languages.behaviour import Text


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note what python runs. `-c` and `-m` end its own options."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    given = {use.option.name: use.value for use in arguments.options}  # not the flags: profilers come here again
    if "inspect" in given and run.context.stdin.kind != "null":
        # After its code it reads more.
        run.code(None, what=run.command.text, role="stdin", origin="python -i")
        run.doubt("-i")
    if "module" in given:
        module(run, given["module"], arguments.operands)
    elif "code" in given:
        value = given["code"]
        text = value.text if value is not None else None
        code(run, value, text, "-c", arguments.operands)
    elif arguments.operands and arguments.operands[0].text not in ("-", "/dev/stdin"):
        file, *rest = arguments.operands
        run.script(file, "python operand 1", language="python", arguments=rest)
    elif not given.keys() & {"version", "help"}:
        text = run.context.stdin.text if run.context.stdin.kind != "null" else ""
        if text is None:
            text = operand_effects.input_text(run, "python standard input")
        code(run, None, text, "standard input", arguments.operands[1:])


def code(run: Run, word: Field | None, text: str | None, origin: str, rest: list[Field]) -> None:
    """Code that stands in the command itself."""
    from humanlayer_agent.shell import languages as reading
    from humanlayer_agent.shell.languages.code_effects import perform

    words = positional(rest)
    argv = None if words is None else [reading.Text.of("-c" if word is not None else ""), *map(reading.Text.of, words)]
    behaviour = run.walk.code("python", text, argv=argv) if text is not None else None
    if text is None or behaviour is None or behaviour.opaque:
        role = "code" if word is not None else "stdin"
        run.code(word, what=text, role=role, origin=f"python {origin}")
        run.doubt("-c" if word is not None else run.command.text)
        return
    perform(run, behaviour, "python")
    if "import" in text:
        _imported(run, [act.operands[0] for act in behaviour.acts if act.role == "import"])


MAX_IMPORTED = 64
"""Files that are looked at for what code imports."""


def _imported(run: Run, modules: Sequence["Text"]) -> None:
    """Note where such code finds modules first: in the working directory, and in what is linked there."""
    names = [name.split(".") for text in modules for name in text.choices]
    below = {"/".join(parts) for parts in names if all(part.isidentifier() for part in parts)}
    paths = ("", *(f"/{each}{ending}" for each in sorted(below) for ending in ("", ".py", "/__init__.py")))
    for cwd in run.state.cwd or (None,):
        for path in paths[:MAX_IMPORTED]:
            place = f"{cwd.rstrip('/')}{path}" if cwd is not None else None
            effect = Effect("execute", "script", place, place is not None, run.command.span, "python import")
            run.command.effects.append(effect)


def module(run: Run, word: Field | None, rest: list[Field]) -> None:
    """What `python -m word rest` does."""

    name = word.text if word is not None else None
    run.command.subcommand = name
    spec = program_of(name, run.walk.catalog) if name else None
    own(run, name or "?", rest, known=spec is not None)
    if spec is not None:
        spec_reader.apply(run, spec, rest)


def pytest(run: Run, spec: Spec, fields: list[Field]) -> None:
    """pytest: its debugger (--pdb, --trace) runs what it is given on standard input."""
    arguments = read_arguments(spec, fields)
    run = spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    for n, each in enumerate(arguments.operands, 1):
        spec_reader.note(run, "project", each, origin=f"{run.command.program} operand {n}")
    given = run.context.stdin.kind not in ("null", "inherit") or _input_was_moved(run.walk)
    if run.command.flags & {"pdb", "pdbcls"} and given:
        run.code(None, what=run.command.text, role="stdin", origin="pytest --pdb")
        run.doubt("--pdb")


def _input_was_moved(walk: "Interpreter") -> bool:
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


def django(run: Run, spec: Spec, fields: list[Field]) -> None:
    """django-admin COMMAND: startproject and startapp write a directory, the others run the project's code."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.subcommand = operands[0].text if operands else None
    for option, value in zip(operands[1:], operands[2:] + operands[:1], strict=False):
        name, equals, _ = (option.text or "").partition("=")
        if slot := _DJANGO_PLACES.get(name):
            word = option.tail(len(name) + 1) if equals else value
            spec_reader.note(run, slot, word, origin=f"django-admin {name}")
    if beyond := _DJANGO.get(run.command.subcommand or ""):
        run.effect(beyond[0], "itself", beyond[1], True, run.command.span, "django-admin")
    if run.command.subcommand in ("startproject", "startapp"):
        rest = read_arguments(spec, operands[1:])
        spec_reader.note_options(run, spec, rest)
        for each in rest.operands[:1] if len(rest.operands) == 1 else rest.operands[1:]:
            run.path("write", each, origin="django-admin directory")
    elif operands or not run.command.flags & {"version"}:
        note_project(run)
        if run.command.subcommand in ("shell", "dbshell") and run.context.stdin.kind != "null":
            run.code(operands[0], what=run.command.text, role="stdin", origin="django-admin shell")
            run.doubt(run.command.text)


def note_project(run: Run) -> None:
    """Note that the code of the project in the working directory runs."""
    for cwd in run.state.cwd or (None,):
        effect = Effect("execute", "project", cwd, cwd is not None, run.command.span, run.command.program or "python")
        run.command.effects.append(effect)


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


def own(run: Run, name: str, rest: Sequence[Field], *, known: bool) -> None:
    """Look for a module in the project: it comes before one that is installed. Unread where it is neither."""
    run.walk.scripts.later(run.command, partial(_own, run.having(state=run.state.copy()), name, list(rest), known))


def _own(run: Run, name: str, rest: list[Field], known: bool) -> None:
    parts = name.split(".")
    if len(parts) <= MAX_PARTS and all(part.isidentifier() for part in parts):
        for place in _places(run.state):
            starts, found = _files(run.walk, f"{place.rstrip('/')}/{'/'.join(parts)}", place)
            known |= found
            for path in starts:
                word = spec_reader.implied(run.command, path)
                run.script(word, "python -m", language="python", arguments=rest)
    if not known:
        what = None if name == "?" else name
        run.code(None, what=what, role="module", origin="python -m", unread=True)
        run.doubt(f"-m {name}")


def _places(state: State) -> tuple[str, ...]:
    """Where python looks first: the working directory, and what this action puts into PYTHONPATH."""
    places = state.cwd or ()
    entries = [e for value in state.lookup("PYTHONPATH") or () for e in value.split(":") if e]
    return dedupe([*places, *(absolute_path(e, cwd) for e in entries for cwd in places or ("/",))])[:16]


def _files(walk: "Interpreter", base: str, place: str) -> tuple[list[str], bool]:
    """The files that run for the module at `base`, and whether it is there: packages on the way are run as well."""

    there = walk.scripts.there
    starts = [path for path in (f"{base}.py", f"{base}/__main__.py") if there(path)]
    imported: list[str] = []
    package = base
    while package != place and len(package) > len(place):
        imported += [f"{package}/__init__.py", *([f"{package}.py"] if package != base else [])]
        package = package.rpartition("/")[0]
    return [path for path in reversed(imported) if there(path)] + starts, bool(starts)


# ---- modules with arguments of their own ------------------------------------------------------------


def runpy(run: Run, spec: Spec, fields: list[Field]) -> None:
    """runpy NAME ...: what `python -m NAME ...` does."""

    if fields:
        module(run, fields[0], fields[1:])
        run.command.subcommand = "runpy"
    else:
        run.doubt(run.command.text)


def timeit(run: Run, spec: Spec, fields: list[Field]) -> None:
    """timeit [-s SETUP] LINE ...: lines of Python."""

    arguments = read_arguments(spec, fields)
    setup = [use.value for use in arguments.options if use.option.name == "setup" and use.value is not None]
    spec_reader.note_options(run, spec, arguments)
    if "help" in run.command.flags:
        return
    lines = [word.text for word in (*setup, *arguments.operands)]
    known = [line for line in lines if line is not None]
    text = "\n".join(known) + "\n" if len(known) == len(lines) and not arguments.loose else None
    word = (*arguments.operands, *setup, spec_reader.implied(run.command, "timeit"))[0]
    code(run, word, text, "-m timeit", [])


def archive(run: Run, spec: Spec, fields: list[Field]) -> None:
    """zipfile and tarfile: -l and -t read, -c writes, -e unpacks into a directory."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    origin = f"python -m {run.command.subcommand}"
    if "create" in run.command.flags:
        for n, each in enumerate(operands):
            run.path("read" if n else "write", each, origin=origin, recursive=n > 0)
        return
    for each in operands[: 1 if "extract" in run.command.flags else None]:
        run.path("read", each, role="archive", origin=origin)
    if "extract" in run.command.flags:
        into = run.state.copy()
        for each in operands[1:2]:
            into.cwd = builtins.destination(each, run.state)
        # Members of a tar archive may have any name, unless a filter is asked for.
        filtered = (run.command.options.get("filter") or [None])[-1] in ("data", "tar")
        anywhere = run.command.subcommand == "tarfile" and not filtered
        extracted(run.command, into, f"{origin} member", anywhere=anywhere)


def gzip(run: Run, spec: Spec, fields: list[Field]) -> None:
    """gzip writes NAME.gz beside NAME; with -d NAME beside NAME.gz."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    for n, each in enumerate(arguments.operands, 1):
        if each.text == "-":
            continue
        origin = f"python -m gzip operand {n}"
        run.path("read", each, origin=origin)
        unpacks = "decompress" in run.command.flags
        if each.text is None or (unpacks and not each.text.endswith(".gz")):
            run.doubt(each.word.raw)
            continue
        result = each.text.removesuffix(".gz") if unpacks else each.text + ".gz"
        run.path("write", named(each, result), role="result", origin=origin)
