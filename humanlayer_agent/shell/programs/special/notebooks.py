"""jupyter nbconvert and papermill: they read a notebook, may run its cells, and write what becomes of it."""

import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.paths import absolute_path, dedupe
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.slots import names_beginning
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.programs.special.file_names import named

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
    from humanlayer_agent.shell.interpreter.context import Context

_ENDINGS = {
    "html": (".html",), "slides": (".slides.html",), "script": (".py", ".txt"), "python": (".py",), "pdf": (".pdf",),
    "webpdf": (".pdf",), "markdown": (".md", "_files/"), "latex": (".tex", "_files/"), "rst": (".rst", "_files/"),
    "asciidoc": (".asciidoc", "_files/"), "notebook": (".nbconvert.ipynb",),
}  # fmt: skip
"""What nbconvert puts behind a notebook's name, by the format that is asked for."""
_KERNELS = frozenset({"python3", "python", ""})
_PARAMETERS = frozenset({"-p", "--parameters", "-r", "--parameters_raw"})


def nbconvert(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """nbconvert [--execute] NOTEBOOK ...: writes files whose names begin as the notebook's, where it lies."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    command.operands += [o.text for o in arguments.operands]
    if "version" in command.flags:
        return
    _kernel(command)
    endings = _endings(command)
    output = (command.options.get("output") or [""])[-1]
    directory = (command.options.get("output-dir") or [""])[-1]
    for n, each in enumerate(arguments.operands, 1):
        origin = f"nbconvert operand {n}"
        if "execute" in command.flags:
            notebook(walk, command, each, state, origin)
        else:
            operand_effects.path(walk, command, "read", each, state, origin=origin)
        if "inplace" in command.flags:
            # The cells stay as they are.
            operand_effects.path(walk, command, "write", each, state, role="build", origin=origin)
        elif "stdout" not in command.flags:
            _result(walk, command, each, output, directory, endings, state)


def _endings(command: SimpleCommand) -> tuple[str, ...]:
    """How the names of the results end."""
    form = (command.options.get("to") or ["html"])[-1] or "?"
    if form not in _ENDINGS:
        command.doubt(f"--to {form}")
    if form == "notebook" and "output" in command.flags:
        return (".ipynb",)
    return _ENDINGS.get(form, (".",))


def papermill(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """papermill IN OUT: parameters are put into the notebook as code, so that nobody has read what runs then."""
    words: list[Field] = []
    i, given = 0, False
    while i < len(fields):
        parameter = fields[i].text in _PARAMETERS
        given |= parameter
        if not parameter:
            words.append(fields[i])
        i += 3 if parameter else 1
    arguments = read_arguments(spec, words)
    inner = spec_reader.note_options(walk, spec, command, arguments, state, context)
    command.operands += [o.text for o in arguments.operands]
    if "version" in command.flags or not arguments.operands:
        return
    _kernel(command)
    source, *rest = arguments.operands
    if "://" in source.prefix + (source.text or ""):
        operand_effects.host(walk, command, source, origin="papermill operand 1")
        operand_effects.code(walk, command, source, what=source.text, role="script", origin="papermill operand 1")
        command.doubt(source.word.raw)
    elif given or "parameters" in command.flags or source.text in (None, "-"):
        operand_effects.code(walk, command, source, what=source.text, role="script", origin="papermill operand 1")
        command.doubt(source.word.raw)
    else:
        notebook(walk, command, source, state, "papermill operand 1", beside=inner)
    for each in rest[:1]:
        spec_reader.note(walk, command, "remote-write", each, state, context, origin="papermill operand 2")
    for each in rest[1:]:
        command.doubt(each.word.raw)


def notebook(
    walk: "Walk", command: SimpleCommand, word: Field, state: State, origin: str, *, beside: State | None = None
) -> None:
    """A notebook whose cells are run: from where it lies, from here, or from a directory that is given (`beside`)."""
    if word.text is not None and not word.text.endswith(".ipynb"):
        word = named(word, word.text + ".ipynb")
    places = None if state.cwd is None or (beside is not None and beside.cwd is None) else state.cwd
    if places is not None and beside is not None:
        places = dedupe((*places, *(beside.cwd or ())))
    if places is None or word.text is None or places == state.cwd:
        operand_effects.script(walk, command, word, state, origin, language="notebook")
        return
    moved = replace(state, cwd=places)
    for cwd in state.cwd or ():
        operand_effects.script(
            walk, command, named(word, absolute_path(word.text, cwd)), moved, origin, language="notebook"
        )


def _kernel(command: SimpleCommand) -> None:
    """Another kernel may run any program."""
    for name in command.options.get("kernel", ()):
        if name not in _KERNELS:
            command.doubt(f"kernel {name}")


def _result(
    walk: "Walk", command: SimpleCommand, word: Field, output: str | None, directory: str | None,
    endings: tuple[str, ...], state: State,
) -> None:  # fmt: skip
    if word.text is None or output is None or directory is None:
        operand_effects.path(
            walk, command, "write", Field(word.word, word.start, word.end), state, origin="nbconvert result"
        )
        return
    stem = output or posixpath.splitext(posixpath.basename(word.text))[0]
    place = posixpath.join(directory or posixpath.dirname(word.text), stem)
    for ending in endings:
        name = place if place.endswith(ending) else place + ending
        target = names_beginning(word, name) if ending == "_files/" else named(word, name)
        operand_effects.path(walk, command, "write", target, state, role="result", origin="nbconvert result")
