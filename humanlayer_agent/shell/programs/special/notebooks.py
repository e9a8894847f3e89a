"""jupyter nbconvert and papermill: they read a notebook, may run its cells, and write what becomes of it."""

import posixpath
from dataclasses import replace

from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.paths import absolute_path, dedupe
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.slot_effects import names_beginning
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.programs.special.file_names import named

_ENDINGS = {
    "html": (".html",), "slides": (".slides.html",), "script": (".py", ".txt"), "python": (".py",), "pdf": (".pdf",),
    "webpdf": (".pdf",), "markdown": (".md", "_files/"), "latex": (".tex", "_files/"), "rst": (".rst", "_files/"),
    "asciidoc": (".asciidoc", "_files/"), "notebook": (".nbconvert.ipynb",),
}  # fmt: skip
"""What nbconvert puts behind a notebook's name, by the format that is asked for."""
_KERNELS = frozenset({"python3", "python", ""})
_PARAMETERS = frozenset({"-p", "--parameters", "-r", "--parameters_raw"})


def nbconvert(run: Run, spec: Spec, fields: list[Field]) -> None:
    """nbconvert [--execute] NOTEBOOK ...: writes files whose names begin as the notebook's, where it lies."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    if "version" in run.command.flags:
        return
    _kernel(run.command)
    endings = _endings(run.command)
    output = (run.command.options.get("output") or [""])[-1]
    directory = (run.command.options.get("output-dir") or [""])[-1]
    for n, each in enumerate(arguments.operands, 1):
        origin = f"nbconvert operand {n}"
        if "execute" in run.command.flags:
            notebook(run, each, origin)
        else:
            run.path("read", each, origin=origin)
        if "inplace" in run.command.flags:
            # The cells stay as they are.
            run.path("write", each, role="build", origin=origin)
        elif "stdout" not in run.command.flags:
            _result(run, each, output, directory, endings)


def _endings(command: SimpleCommand) -> tuple[str, ...]:
    """How the names of the results end."""
    form = (command.options.get("to") or ["html"])[-1] or "?"
    if form not in _ENDINGS:
        command.doubt(f"--to {form}")
    if form == "notebook" and "output" in command.flags:
        return (".ipynb",)
    return _ENDINGS.get(form, (".",))


def papermill(run: Run, spec: Spec, fields: list[Field]) -> None:
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
    inner = spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    if "version" in run.command.flags or not arguments.operands:
        return
    _kernel(run.command)
    source, *rest = arguments.operands
    if "://" in source.prefix + (source.text or ""):
        run.host(source, origin="papermill operand 1")
        run.code(source, what=source.text, role="script", origin="papermill operand 1")
        run.doubt(source.word.raw)
    elif given or "parameters" in run.command.flags or source.text in (None, "-"):
        run.code(source, what=source.text, role="script", origin="papermill operand 1")
        run.doubt(source.word.raw)
    else:
        notebook(run, source, "papermill operand 1", beside=inner.state)
    for each in rest[:1]:
        spec_reader.note(run, "remote-write", each, origin="papermill operand 2")
    for each in rest[1:]:
        run.doubt(each.word.raw)


def notebook(run: Run, word: Field, origin: str, *, beside: State | None = None) -> None:
    """A notebook whose cells are run: from where it lies, from here, or from a directory that is given (`beside`)."""
    if word.text is not None and not word.text.endswith(".ipynb"):
        word = named(word, word.text + ".ipynb")
    places = None if run.state.cwd is None or (beside is not None and beside.cwd is None) else run.state.cwd
    if places is not None and beside is not None:
        places = dedupe((*places, *(beside.cwd or ())))
    if places is None or word.text is None or places == run.state.cwd:
        run.script(word, origin, language="notebook")
        return
    moved = replace(run.state, cwd=places)
    for cwd in run.state.cwd or ():
        run.having(state=moved).script(named(word, absolute_path(word.text, cwd)), origin, language="notebook")


def _kernel(command: SimpleCommand) -> None:
    """Another kernel may run any program."""
    for name in command.options.get("kernel", ()):
        if name not in _KERNELS:
            command.doubt(f"kernel {name}")


def _result(run: Run, word: Field, output: str | None, directory: str | None, endings: tuple[str, ...]) -> None:
    if word.text is None or output is None or directory is None:
        run.path("write", Field(word.word, word.start, word.end), origin="nbconvert result")
        return
    stem = output or posixpath.splitext(posixpath.basename(word.text))[0]
    place = posixpath.join(directory or posixpath.dirname(word.text), stem)
    for ending in endings:
        name = place if place.endswith(ending) else place + ending
        target = names_beginning(word, name) if ending == "_files/" else named(word, name)
        run.path("write", target, role="result", origin="nbconvert result")
