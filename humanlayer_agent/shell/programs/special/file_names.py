"""Programs whose operands stand for other names: the file ln makes, the pieces of split, the parents of rmdir -p, the
text beside a PDF.
"""

import posixpath
import re

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.slot_effects import names_beginning
from humanlayer_agent.shell.programs.spec import Spec


def named(word: Field, text: str) -> Field:
    """A field for another literal name that `word` leads to."""
    return Field(word.word, word.start, word.end, text=text, prefix=text)


def rmdir(run: Run, spec: Spec, fields: list[Field]) -> None:
    """rmdir removes its operands, with -p the directories on the way as well."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    parents = "parents" in run.command.flags or not run.command.flags_complete
    for n, each in enumerate(arguments.operands, 1):
        run.path("delete", each, origin=f"rmdir operand {n}")
        above = posixpath.dirname(each.text.rstrip("/")) if parents and each.text else ""
        while above.strip("/"):
            run.path("delete", named(each, above), role="parent", origin="rmdir --parents")
            above = posixpath.dirname(above)
        if parents and each.text is None:
            run.doubt(each.word.raw)


def ln(run: Run, spec: Spec, fields: list[Field]) -> None:
    """ln makes what it is given reachable under another name: it counts as read, the name as written.

    A symbolic link is followed from where it stands, not from the working directory.
    """
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    target: Field | None = None
    for use in arguments.options:
        target = use.value if use.option.name == "target-directory" else target
    into = target is not None
    if target is None and len(operands) > 1:
        target, operands = operands[-1], operands[:-1]
        into = len(operands) > 1
        run.path("write", target, origin="ln operand last")
    for n, each in enumerate(operands, 1):
        _linked(run, each, target, into, f"ln operand {n}")
        if target is None:
            name = posixpath.basename((each.text or "").rstrip("/"))
            here = named(each, name) if name else Field(each.word, each.start, each.end)
            run.path("write", here, origin="ln name")


def _linked(run: Run, each: Field, target: Field | None, into: bool, origin: str) -> None:
    """Note what the link leads to, from each directory in which it may stand."""
    if "symbolic" not in run.command.flags or target is None or (each.text or "/").startswith("/"):
        run.path("read", each, origin=origin)
        return
    if target.text is None:
        run.doubt(target.word.raw)
        run.path("read", each, origin=origin)
        return
    places = {target.text} if into else {posixpath.dirname(target.text), target.text}
    for place in sorted(places if ".." in (each.text or "").split("/") else {posixpath.dirname(target.text)}):
        run.path("read", named(each, posixpath.join(place, each.text or "")), origin=origin)


def split(run: Run, spec: Spec, fields: list[Field]) -> None:
    """split writes PREFIXaa, PREFIXab ... (x), csplit PREFIX00 ... (xx)."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    if operands:
        run.path("read", operands[0], origin=f"{run.command.program} operand 1")
    if run.command.program == "split" and len(operands) > 1:
        spec_reader.note(run, "prefix", operands[1], origin="split operand 2")
        for word in operands[2:]:
            run.doubt(word.word.raw)
    elif "prefix" not in run.command.flags:
        first = "x" if run.command.program == "split" else "xx"
        pieces = names_beginning(spec_reader.implied(run.command, first), first)
        run.path("write", pieces, origin=f"{run.command.program} pieces")


def pdftotext(run: Run, spec: Spec, fields: list[Field]) -> None:
    """pdftotext writes a text beside the PDF, where it is not told another name."""
    arguments = read_arguments(spec, fields)
    run = spec_reader.note_options(run, spec, arguments)
    spec_reader.note_operands(run, spec, arguments)
    if len(arguments.operands) == 1:
        (source,) = arguments.operands
        if source.text is None:
            run.doubt(source.word.raw)
        else:
            name = posixpath.splitext(source.text)[0] + ".txt"
            run.path("write", named(source, name), origin="pdftotext text")


_PICTURES = frozenset(str.split("png svg eps pdf vdx xmi scxml html atxt utxt tex"))
_PLAIN_NAME = re.compile(r"[\w./-]+", re.ASCII)


def plantuml(run: Run, spec: Spec, fields: list[Field]) -> None:
    """PlantUML writes a picture beside each diagram, or to the directory that is named from there."""
    arguments = read_arguments(spec, fields)
    run = spec_reader.note_options(run, spec, arguments)
    spec_reader.note_operands(run, spec, arguments)
    given = arguments.flags()
    if "version" in given:
        return
    if not arguments.operands:
        run.doubt(run.command.text)  # it opens a window
    values = [(use.option.name, use.value.text if use.value is not None else None) for use in arguments.options]
    charsets = [(value or "").upper() for name, value in values if name == "charset"]
    folders = [value or "*" for name, value in values if name == "output"]
    if not {"UTF-8", "US-ASCII"}.issuperset(charsets) or len(folders) > 1:
        run.doubt(run.command.text)
    for source in arguments.operands:
        folder = folders[0] if folders else "."
        if source.text is None or not _PLAIN_NAME.fullmatch(source.text) or not _PLAIN_NAME.fullmatch(folder):
            run.doubt(source.word.raw)  # it has patterns of its own, and takes quotes away
            continue
        place, name = posixpath.split(posixpath.splitext(source.text)[0])
        for ending in sorted(_PICTURES & given) or ["png"] if "check" not in given else []:
            picture = posixpath.join(place, *folders, f"{name}.{ending}")
            run.path("write", named(source, picture), origin="plantuml picture")
