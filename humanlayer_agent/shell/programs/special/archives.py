"""tar: what it does hangs on the operation, which may stand in a first word without a dash (tar xzf a.tgz).

Source: the manual of GNU tar 1.34. Extracting writes below the directory of -C; several options run commands.

unzip, 7z x, cpio: archives whose members are written below a directory.
"""

from dataclasses import replace

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.slot_effects import is_remote
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.syntax.tree import Word

_ARCHIVE = {
    "create": "write",
    "append": "append",
    "update": "append",
    "catenate": "append",
    "delete": "write",
    "extract": "read",
    "list": "read",
    "diff": "read",
    "test-label": "read",
}
_READS_OPERANDS = frozenset({"create", "append", "update", "catenate"})


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note the archive, the files that go into it, and where its members are written."""
    arguments = read_arguments(spec, _with_dash(spec, fields))
    start = run.state
    run = spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    modes = run.command.flags & _ARCHIVE.keys()
    shows = run.command.flags & {"help", "version", "usage", "show-defaults"}
    if not shows and (len(modes) != 1 or not run.command.flags_complete):
        run.doubt(run.command.text)
    for mode in sorted(modes):
        _archives(run.having(state=start), arguments, _ARCHIVE[mode])
    if sum(use.option.kind == "directory" for use in arguments.options) > 1:
        run = run.having(state=replace(run.state, cwd=None))  # each holds for the operands after it
    if "files-from" in run.command.flags:
        run.doubt("--files-from")
    if modes & _READS_OPERANDS:
        for n, each in enumerate(operands, 1):
            run.path("read", each, origin=f"tar operand {n}", recursive=True)
            if "remove-files" in run.command.flags:
                run.path("delete", each, origin="tar --remove-files", recursive=True)
    if "extract" in modes and "to-stdout" in run.command.flags:
        _members(run, operands, "tar")
    if "extract" in modes and not run.command.flags & {"to-stdout", "to-command"}:
        extracted(
            run.command, run.state, "tar member", anywhere=bool(run.command.flags & {"absolute-names", "transform"})
        )


def _members(run: Run, members: list[Field], program: str) -> None:
    """Members of an archive that are printed: they are called as the files are that were packed."""
    for member in members:
        origin = f"{program} member"
        run.path("read", member, role="found", origin=origin)
        if any(c in (member.text or "") for c in "*?["):
            spec_reader.note(run, "name-glob", member, origin=origin)


def extracted(command: SimpleCommand, state: State, origin: str, *, anywhere: bool = False) -> None:
    """Members of an archive are written below the working directory: nobody knows which."""
    for cwd in (None,) if anywhere else state.cwd or (None,):
        effect = Effect("write", "extracted", cwd, False, command.span, origin, below=cwd is not None)
        command.effects.append(effect)


def _archives(run: Run, arguments: Arguments, kind: str) -> None:
    for use in arguments.options:
        if use.option.name != "file" or use.value is None:
            continue
        text = use.value.text
        if text is not None and is_remote(text) and "force-local" not in run.command.flags:
            run.host(use.value, origin="tar --file")
            run.doubt(text)  # a remote archive is reached through rsh or rmt
        else:
            run.path(kind, use.value, role="archive", origin="tar --file")


def _with_dash(spec: Spec, fields: list[Field]) -> list[Field]:
    """`tar xzf a b` as `tar -x -z -f a b`: values of a first word without a dash are the next words, in order."""
    first = fields[0].text if fields else None
    if not first or first.startswith("-"):
        return fields
    rest = fields[1:]
    out: list[Field] = []
    for letter in first:
        word = Word(f"-{letter}", f"-{letter}", fields[0].start, fields[0].end)
        out.append(Field(word, fields[0].start, fields[0].end, text=f"-{letter}", prefix=f"-{letter}"))
        option = spec.short.get(letter)
        if option is not None and option.arity == 1 and rest:
            out.append(rest.pop(0))
    return out + rest


_PREVIEWS = frozenset({"list", "test", "pipe", "help", "version"})


def unzip(run: Run, spec: Spec, fields: list[Field]) -> None:
    """ARCHIVE [members]: members are written below the working directory, or below -d (which moves it)."""
    arguments = read_arguments(spec, fields)
    into = spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    for each in arguments.operands[:1]:
        run.path("read", each, role="archive", origin=f"{run.command.program} operand 1")
    if "pipe" in run.command.flags:
        _members(run, arguments.operands[1:], run.command.program or "")
    if arguments.operands and not run.command.flags & _PREVIEWS:
        extracted(run.command, into.state, f"{run.command.program} member")


def cpio(run: Run, spec: Spec, fields: list[Field]) -> None:
    """cpio -i unpacks its input; cpio -o and -p read the files whose names come on the input."""
    arguments = read_arguments(spec, fields)
    into = spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    if run.command.flags & {"create", "pass-through"}:
        run.doubt("names on the input")
        for each in arguments.operands:
            run.path("write", each, origin="cpio operand")
    elif "list" not in run.command.flags:
        # Members may have absolute names unless told otherwise.
        extracted(run.command, into.state, "cpio member", anywhere="no-absolute-filenames" not in run.command.flags)


def ar(run: Run, spec: Spec, fields: list[Field]) -> None:
    """ar KEYS [position] ARCHIVE [members]: the letters of the first word say what happens."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    keys = (operands[0].text or "").lstrip("-") if operands else ""
    if len(operands) < 2 or not keys or set(keys) & set("abi") or not set(keys) <= set("rqtpxdmcsSuvDUoPTV"):
        run.doubt(run.command.text)
        return
    reads = bool(set(keys) & set("tpx")) and not set(keys) & set("rqdm")
    run.path("read" if reads else "write", operands[1], role="archive", origin="ar archive")
    if "x" in keys:
        extracted(run.command, run.state, "ar member")
    if set(keys) & set("rq"):
        for n, each in enumerate(operands[2:], 3):
            run.path("read", each, origin=f"ar operand {n}")


def objcopy(run: Run, spec: Spec, fields: list[Field]) -> None:
    """objcopy IN [OUT]: without a second operand it rewrites the first."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    for each in operands[2:]:
        run.doubt(each.word.raw)
    for n, each in enumerate(operands[:2], 1):
        kind = "read" if n == 1 and len(operands) > 1 and not operands[1].many else "write"
        run.path(kind, each, origin=f"objcopy operand {n}")
