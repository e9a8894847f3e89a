"""Compilers, interpreters: what they write or run follows from several words together."""

import posixpath
import re
from dataclasses import replace

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.languages.code_effects import perform
from humanlayer_agent.shell.paths import escape
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.spec import Always, Spec
from humanlayer_agent.shell.programs.special.file_names import named

_WRITES_OR_RUNS = re.compile(
    r"plugin|dump|profile|save-opt|module-mapper|callgraph|stack-usage|auto-profile|pass-plugin|[lpa],"
    r"|opt-info.*=|diagnostics-add-output|use-ld=(?!(?:bfd|gold|lld|mold)$)|(?!\w+-prefix-map=)[^=]*=.*/",
    re.ASCII,
)
"""Values of a compiler's -f and -W that load code, write files, name one, or pass options on (-Wl,...)."""


_LINKS = re.compile(
    r"l,(?:-?-?(?:rpath(?:-link)?[,=][^,]*|as-needed|no-as-needed|no-undefined|gc-sections|export-dynamic|start-group|end-group"
    r"|Bstatic|Bdynamic|whole-archive|no-whole-archive|allow-multiple-definition|strip-all|z,[a-z]+|dead_strip|O\d|s|x)(?:,|\Z))+",
    re.ASCII,
)
"""What may be passed on to the linker: where libraries are looked for at run time, and what is left out."""
_LINKED = re.compile(r"\.(?:o|a|lo|obj|lib|dylib|so(?:\.[0-9.]+)?)\Z", re.ASCII)
"""Names of what was compiled before."""
_ENDINGS = {"compile": ".o", "assembly": ".s", "dependencies": ".d", "coverage": ".gcno"}
"""What the options of a compiler put beside or in place of what it makes, named after each operand."""
_BELOW_HERE = (Always("write", "build", ".", frozenset(), frozenset()),)
_BESIDE = frozenset({".d", ".gcno"})


def compiler(run: Run, spec: Spec, fields: list[Field]) -> None:  # noqa: C901
    """A C compiler reads its operands and writes -o, a.out, or an object file for each."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    for use in arguments.options:
        if use.option.name == "level" and use.value is not None and use.value.text is None:
            run.doubt(use.value.word.raw)
        elif use.option.name == "level" and use.value is not None and _LINKS.fullmatch(use.value.text or ""):
            continue
        elif use.option.name == "level" and use.value is not None and _WRITES_OR_RUNS.match(use.value.text or ""):
            run.doubt(use.at.word.raw)
    operands = [o for o in arguments.operands if o.text != "-"]
    run.command.operands += [o.text for o in operands]
    for n, each in enumerate(operands, 1):
        linked = "language" not in run.command.flags and _LINKED.search(each.text or each.glob or "")
        spec_reader.note(run, "read" if linked else "c-source", each, origin=f"{run.command.program} operand {n}")
    if len(operands) < len(arguments.operands):
        _given_source(run)
    if run.command.flags & {"version", "shown", "print"} or not arguments.operands:
        return
    endings = [ending for flag, ending in _ENDINGS.items() if flag in run.command.flags]
    if "keep" not in run.command.flags and (endings or "output" not in run.command.flags):
        for each in operands:
            stem = posixpath.splitext(posixpath.basename(each.text or ""))[0]
            if stem:
                for ending in endings if "output" not in run.command.flags else [e for e in endings if e in _BESIDE]:
                    beside = spec_reader.implied(run.command, stem + ending)
                    run.path("write", beside, origin="compiler output")
            elif endings:
                target = Field(each.word, each.start, each.end)
                run.path("write", target, origin="compiler output")
    if "output" in run.command.flags:
        return
    if not run.command.flags & {"compile", "assembly"}:
        run.path("write", spec_reader.implied(run.command, "a.out"), origin=f"{run.command.program} output")
        return
    for each in operands if "keep" in run.command.flags else ():
        stem = posixpath.splitext(posixpath.basename(each.text or ""))[0]
        target = named(each, stem) if stem else Field(each.word, each.start, each.end)
        if stem:
            spec_reader.note(run, "prefix", named(each, stem + "."), origin="compiler output")
        else:
            run.path("write", target, origin="compiler output")


def _given_source(run: Run) -> None:
    """A source on standard input."""
    text, here = run.context.stdin.text, (run.state.cwd or ("/",))[0]
    behaviour = run.walk.code("c-source", text, path=f"{here}/-", files=run.walk.scripts.look) if text else None
    if behaviour is not None:
        perform(run, behaviour, "c-source")
    elif run.context.stdin.kind not in ("null", "terminal") and text != "":
        run.doubt("a source on standard input")


_PERL_OPTIONS = re.compile(r"-(?:[npaw]|l[0-7]*|0[0-7]*)*(?:[eE]|F(?:[:,;|=]|\\t)|i(?:\.?[\w~]+)?)?", re.ASCII)
"""Options of perl that change only how lines are read and printed, and -i."""
_PERL_PIECE = re.compile(r"[l0][0-7]*|[FidDCMmIxeEV](?:.|\n)*|(?:.|\n)", re.ASCII)


def javac(run: Run, spec: Spec, fields: list[Field]) -> None:
    """javac writes `.class` files: where -d says, or beside the sources, of which it looks for further ones itself."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    spec_reader.note_operands(run, spec, arguments)
    if "version" in run.command.flags:
        return
    here = spec_reader.implied(run.command, ".")
    given = [use for use in arguments.options if use.option.name in ("processors", "source-path")]
    if not any(use.option.name == "processors" for use in given) and "no-processor" not in run.command.flags:
        run.path("execute", here, role="project", origin="javac class path")
    folders = ["."]
    for use in given:
        if use.value is not None:
            folders += _class_path(run, use.value, processors=use.option.name == "processors")
    if "output" in run.command.flags:
        return
    for each in arguments.operands:
        start = each.text if each.text is not None else each.prefix if each.glob is not None else None
        if start is None:
            run.doubt(each.word.raw)
        elif posixpath.dirname(start):
            folders.append(posixpath.dirname(start))
    if "class-path" in run.command.flags:
        spec_reader.note_effects(run, _BELOW_HERE)  # sources are found there as well
    for folder in dict.fromkeys(folders):
        below = "**/" if folder == "." or given else ""
        classes = f"{escape(folder)}/{below}*.class"
        run.path("write", replace(spec_reader.implied(run.command, folder), text=None, glob=classes), role="build")


def _class_path(run: Run, value: Field, *, processors: bool) -> list[str]:
    """The folders in a path of classes or sources: sources that are found there are compiled, too. `processors`: those
    of annotations that are found there are run.
    """
    if value.text is None:
        run.doubt(value.word.raw)
        return []
    folders = []
    for each in value.text.split(":"):
        place = each.removesuffix("/*").rstrip("/") or ("/" if each.startswith("/") else ".")
        if processors and "no-processor" not in run.command.flags:
            where = Field(value.word, value.start, value.end, text=place, prefix=place)
            run.path("execute", where, role="project", origin="javac class path")
        if not each.endswith((".jar", "/*")):
            folders.append(place)
    return folders


def interpreter(run: Run, spec: Spec, fields: list[Field]) -> None:
    """perl, ruby ...: code in an option, in a file, or on standard input."""
    arguments = read_arguments(spec, _apart(fields) if run.command.program == "perl" else fields)
    harmless = _prints_only(run.command, arguments)
    if harmless:
        arguments.options = [use for use in arguments.options if use.option.name != "code"]
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    if run.command.flags & {"version", "help"}:
        return
    if harmless or "code" in run.command.flags:
        if not harmless:
            run.doubt("code")
        # The code decides what it does with its operands; perl -i rewrites them.
        _operands(run, arguments)
    elif operands and operands[0].text != "-":
        file, *rest = operands
        origin, language = f"{run.command.program} operand 1", run.command.program or ""
        run.script(file, origin, language=language, arguments=rest)
    else:
        run.code(None, what=run.context.stdin.text, role="stdin", origin=f"{run.command.program} standard input")
        run.doubt(run.command.text)


def _apart(fields: list[Field]) -> list[Field]:
    """perl's options one by one: in `-lane` only digits belong to -l; what follows -i, -F and the like is theirs."""
    out: list[Field] = []
    i = 0
    while i < len(fields):
        text = fields[i].text
        if text is None or len(text) < 2 or text[0] != "-" or text[1] == "-":
            break
        pieces = _PERL_PIECE.findall(text[1:])
        out += [replace(fields[i], text="-" + piece, prefix="-" + piece) for piece in pieces]
        i += 1
        if pieces[-1] in ("e", "E") and i < len(fields):
            out.append(fields[i])
            i += 1
    return out + fields[i:]


def _operands(run: Run, arguments: Arguments) -> None:
    """What code in an option is given: files, as far as anybody can tell."""
    words = [use.at.text or "" for use in arguments.options]
    if run.command.program == "perl":
        edits = [word for word in words if word.startswith("-i")]
        in_place, suffix = bool(edits), (edits or [""])[-1][2:]
    else:
        in_place, suffix = run.command.program == "ruby" and any("i" in word[1:] for word in words), ""
    for n, each in enumerate(arguments.operands, 1):
        origin = f"{run.command.program} operand {n}"
        run.path("write" if in_place else "read", each, origin=origin)
        if suffix and each.text is not None:
            run.path("write", named(each, each.text + suffix), role="backup", origin=origin)


def _prints_only(command: SimpleCommand, arguments: Arguments) -> bool:
    """Whether all code in the options only prints, or edits what it prints."""
    from humanlayer_agent.shell.languages import one_liners

    program = command.program or ""
    codes = [use for use in arguments.options if use.option.name == "code"]
    if not codes or arguments.loose or arguments.unknown or (program == "lua" and arguments.operands):
        return False
    for use in arguments.options:
        word = use.at.text or ""
        if program == "perl" and not _PERL_OPTIONS.fullmatch(word):
            return False
        if program != "perl" and use.option.name != "code":
            return False
    for use in codes:
        word = use.at.text or ""
        option = f"-{word[-1:]}" if program == "perl" else word.partition("=")[0]
        text = use.value.text if use.value is not None else None
        if text is None or not one_liners.prints_only(program, option, text):
            return False
    return one_liners.safe_operands(program, [o.text for o in arguments.operands])
