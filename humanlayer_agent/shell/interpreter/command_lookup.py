"""Runs one command of the analysis: finds what its name means, a function, a builtin or a program."""

import posixpath
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell import builtins
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.assignments import note_lost_path
from humanlayer_agent.shell.interpreter.context import MAX_DEPTH, Context, Ends
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State, join
from humanlayer_agent.shell.paths import absolute_path, logical, shortest
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.catalog import INTERPRETER, LOADER, STANDARD_DIRECTORIES, Catalog
from humanlayer_agent.shell.syntax.tree import Simple

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter

_PREFIXES = frozenset({"command", "builtin", "exec"})
_FROM_PATH = frozenset(
    str.split(
        """command exec env nohup timeout gtimeout nice ionice time gtime stdbuf setsid chrt taskset unbuffer
        xargs gxargs find gfind fd parallel watch sudo doas bash sh dash zsh ksh script flock strace ltrace"""
    )
)
"""Wrappers that run what PATH of this machine has. Others (`uv run`, `npx`, `docker run`, `ssh`) run what goes by the
name in a project, a package, a container or another machine: no file of a person's describes that."""
_OWN_ROOT = re.compile(r"/proc/(?:self|thread-self)/root(?:/|\Z)")
_STDIN_READERS = frozenset(
    [
        "cat", "head", "tail", "tee", "sed", "awk", "gawk", "grep", "sort", "uniq", "wc", "xargs", "ssh",
        "python", "python3", "perl", "ruby", "node", "sh", "bash", "dash", "dd", "tr", "cut", "od", "xxd",
        "base64", "less", "more", "psql", "mysql", "sqlite3", "docker", "kubectl", "ffmpeg", "bc", "gzip",
        "tar", "tac", "rev", "nl", "paste", "fold",
    ]
)  # fmt: skip


def run_words(
    walk: "Interpreter",
    fields: list[Field],
    state: State,
    context: Context,
    span: tuple[int, int],
    text: str,
    *,
    shell: bool = True,
    functions: bool = True,
) -> Ends:
    """Note what running `fields` does.

    `shell` is False below a wrapper program, which finds programs only; `functions` is False after `command`.
    """
    name = fields[0]
    if name.choices:
        return _each_choice(walk, fields, state, context, span, text, shell)
    argv = [f.text if f.text is not None else f.word.raw for f in fields]
    command = SimpleCommand(name.text, argv, span, text, context.via, context.inside, state.cwd)
    command.words = fields
    walk.program.commands.append(command)
    run = Run(walk, command, state, context)
    if name.text is None:
        command.known = False
        command.doubt(name.word.raw)
        run.code(name, what=None, role="program", origin="program", unread=False)
        # It may be a function or a builtin, so nothing is certain after it.
        unknown = state.lost() if shell else state
        return unknown, unknown
    if not shell:
        return _external(run, fields)
    if functions and name.text in state.functions:
        return _function(walk, fields, state, context, span, text)
    if name.text in _PREFIXES:
        return _prefix(run, fields)
    if (handler := builtins.HANDLERS.get(name.text)) is not None:
        return handler(run, fields[1:])
    return _external(run, fields)


def is_builtin(name: str, state: State) -> bool:
    """Is `name` something else than a program's: a builtin's, a function's?"""
    return name in builtins.HANDLERS or name in _PREFIXES or name in state.functions


def leaves_state(node: Simple, state: State) -> bool:
    """Is it certain that neither the words of `node` nor what they name change `state` itself?"""
    if not node.words:
        return False
    name = node.words[0].static
    if name is None or (is_builtin(name, state) and (name in state.functions or name not in builtins.PURE)):
        return False
    for word in node.words:
        if word.dynamic:
            return False
    for assign in node.assigns:
        if assign.value.dynamic or assign.index is not None:
            return False
    for redirect in node.redirects:
        if redirect.target.dynamic or redirect.fd.startswith("{"):
            return False
        if redirect.body is not None and redirect.body.dynamic:
            return False
    return True


def _each_choice(
    walk: "Interpreter",
    fields: list[Field],
    state: State,
    context: Context,
    span: tuple[int, int],
    text: str,
    shell: bool,
) -> Ends:
    """A program name that may be one of several: each is noted as if it ran."""
    won: State | None = None
    lost: State | None = None
    for choice in fields[0].choices:
        name = replace(fields[0], text=choice, choices=())
        a, b = run_words(walk, [name, *fields[1:]], state, context, span, text, shell=shell)
        won, lost = join(won, a), join(lost, b)
    return won, lost


def _function(
    walk: "Interpreter", fields: list[Field], state: State, context: Context, span: tuple[int, int], text: str
) -> Ends:
    """A name that is, or may be, a function."""
    name = fields[0].text or ""
    won, lost = builtins.call(walk, name, fields[1:], state, context)
    if None not in state.functions[name]:
        return won, lost
    # Where it is not certainly defined, the name may also mean what it always means.
    a, b = run_words(walk, fields, state, context, span, text, functions=False)
    return join(won, a), join(lost, b)


def _prefix(run: Run, fields: list[Field]) -> Ends:
    """`command`, `builtin`, `exec`: they run what follows, without functions."""
    name = run.command.program or ""
    rest = fields[1:]
    while rest and rest[0].text is not None and len(rest[0].text) > 1 and rest[0].text.startswith("-"):
        option = rest[0].text
        rest = rest[1:]
        if option == "--":
            break
        if name == "command" and set(option[1:]) <= set("pvV") and option != "-p":
            return run.state, run.state  # only tells what a name means
        if name == "exec" and "c" in option[1:] and option != "-a":
            note_lost_path(run, rest)
        if name == "exec" and option == "-a":
            rest = rest[1:]
        elif not (name == "command" and option == "-p") and not (name == "exec" and set(option[1:]) <= set("cl")):
            run.doubt(option)
    if not rest:
        return run.state, run.state
    if rest[0].may_be_option() and rest[0].text is None:
        run.doubt(rest[0].word.raw)
    inner = replace(run.context, via=(*run.context.via, name))
    if name == "exec":
        run_words(run.walk, rest, run.state, inner, run.command.span, run.command.text, shell=False)
        return None, None
    return run_words(run.walk, rest, run.state, inner, run.command.span, run.command.text, functions=False)


# ---- programs -------------------------------------------------------------------------------------


def _external(run: Run, fields: list[Field]) -> Ends:
    outside(run, fields)
    if run.context.stdin.kind == "script":
        doubt_input(run)
    return run.state, run.state


def outside(run: Run, fields: list[Field]) -> None:
    """Note what a program does, which the shell finds in PATH or by its path."""
    name = fields[0]
    text = name.text or ""
    if "/" in text:
        run.command.path = text
        # `/tmp/x/../../usr/bin/ls` may be anything: /tmp/x may be a link. Slashes and dots more or less change nothing.
        directory, base = posixpath.split(shortest(text))
        if directory in STANDARD_DIRECTORIES:
            run.command.program = base
        else:
            # A file of this name: what it does stands in it, not in the catalog.
            run.command.known = False
            run.script(name, "program", arguments=fields[1:])
            other = _elsewhere(text, run.state) or _by_its_name(base, run.walk.catalog)
            if other is not None and run.context.depth < MAX_DEPTH:
                inner = run.context.deeper()
                run_words(
                    run.walk,
                    [replace(name, text=other), *fields[1:]],
                    run.state,
                    inner,
                    run.command.span,
                    run.command.text,
                    shell=False,
                )
            return
    catalog, program = run.walk.catalog, run.command.program or ""
    spec = catalog.lookup(program)
    elsewhere = catalog.is_added(program) and not _FROM_PATH.issuperset(run.context.via)
    if spec is None or spec.draft or elsewhere:
        run.command.known = False
        run.doubt(text)
        run.code(name, what=text, role="program", origin="program", unread=False)
        return
    spec_reader.apply(run, spec, fields[1:])


def _elsewhere(text: str, state: State) -> str | None:
    """The standard program that the path `text` leads to where no link lies on the way of its `..`."""
    for cwd in state.cwd or ("/",):
        path = logical(_OWN_ROOT.sub("/", shortest(absolute_path(text, cwd))), "/")
        if posixpath.dirname(path) in STANDARD_DIRECTORIES:
            return path if path != shortest(text) else None
    return None


def _by_its_name(base: str, catalog: Catalog) -> str | None:
    """The program that a file named `base` says it is: `.venv/bin/python` is most likely Python.

    Whatever else it may be, it is judged as that program too.
    """
    known = INTERPRETER.fullmatch(base)
    if known is None:
        return "ld.so" if LOADER.fullmatch(base) else None
    return base if catalog.lookup(base) is not None else known[1]


def doubt_input(run: Run) -> None:
    """A command runs in a script that is its standard input: it may take lines of it."""
    known = run.command.program in _STDIN_READERS and run.walk.catalog.lookup(run.command.program or "") is not None
    if known and not _reads_a_file(run.command):
        run.walk.program.doubt(f"{run.command.program} takes lines of the script that is being run")


def _reads_a_file(command: SimpleCommand) -> bool:
    return any(e.kind == "read" and e.source == "own" and e.role != "default" for e in command.effects)
