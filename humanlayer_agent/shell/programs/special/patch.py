"""patch and git apply: the files that a difference changes are named in its text, which may stand in a heredoc."""

import posixpath
import re

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.program import Effect
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.spec import Spec

_NAMED = re.compile(r"^(?:--- |\+\+\+ |Index: |rename (?:from|to) |copy (?:from|to) )(.*)$", re.MULTILINE)
_OTHER_FORMS = re.compile(r"^(?:\*\*\* |[0-9,]+[acd][0-9,]*$|Prereq:|GIT binary patch)", re.MULTILINE)
"""Context diffs, ed scripts and binary patches: their names are not read here."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_./+@%=~-]+", re.ASCII)


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """patch [options] [file [patchfile]]."""
    arguments = read_arguments(spec, fields)
    run = spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    if len(operands) > 1:
        run.path("read", operands[1], origin="patch operand 2")
    for word in operands[2:]:
        run.doubt(word.word.raw)
    if run.command.flags & {"dry-run", "output"}:
        return
    if operands:
        run.path("write", operands[0], origin="patch operand 1")
        return
    texts = [] if "input" in run.command.flags else _given(run)
    note_targets(run, "\n".join(texts) if texts else None, _strip(arguments))


def _given(run: Run) -> list[str]:
    """The differences that it may be given, each noted as what it is: a text in a file, or on its standard input."""
    if run.context.stdin.text is not None:
        return [run.context.stdin.text]
    from humanlayer_agent.shell.script_files import file_texts

    texts = file_texts.given_texts(run)
    for text in texts:
        run.walk.scripts.written.patch(text, run.command)
    return texts


def apply(run: Run, spec: Spec, fields: list[Field]) -> None:
    """git apply [options] [patch...]."""
    arguments = read_arguments(spec, fields)
    run = spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    for n, each in enumerate(arguments.operands, 1):
        run.path("read", each, origin=f"git apply operand {n}")
    if "check" in run.command.flags and not run.command.flags & {"apply", "index"}:
        return
    fed = not arguments.operands or [o.text for o in arguments.operands] == ["-"]
    strip = _strip(arguments)
    note_targets(run, run.context.stdin.text if fed else None, 1 if strip is None else strip)


def _strip(arguments: Arguments) -> int | None:
    for use in arguments.options:
        if use.option.name == "strip" and use.value is not None and (use.value.text or "").isdigit():
            return int(use.value.text or "")
    return None


def note_targets(run: Run, text: str | None, strip: int | None) -> None:
    """Note the files that the difference changes: those it names, or any below the working directory."""
    names = None if text is None else targets(text, strip)
    if names is None:
        for cwd in run.state.cwd or (None,):
            effect = Effect(
                "write", "patched", cwd, False, run.command.span, f"{run.command.program} target", below=cwd is not None
            )
            run.command.effects.append(effect)
        run.doubt(run.command.text)
        return
    start, end = run.command.span
    from humanlayer_agent.shell.programs.spec_reader import implied

    for name in names:
        target = Field(implied(run.command, name).word, start, end, text=name, prefix=name)
        run.path("write", target, role="patched", origin=f"{run.command.program} target")


def targets(text: str, strip: int | None) -> list[str] | None:
    """The names in a unified difference, or None where they are not certain."""
    if _OTHER_FORMS.search(text):
        return None
    found: set[str] = set()
    for match in _NAMED.finditer(text):
        name = match[1].partition("\t")[0].rstrip("\r ")
        if name == "/dev/null":
            continue
        if not _PLAIN_NAME.fullmatch(name):
            return None
        parts = [p for p in name.split("/") if p]
        # Without -p, patch takes what it finds: the last component, or the whole where that exists.
        kept = {posixpath.join(*parts[strip:])} if strip is not None and len(parts) > strip else {name, parts[-1]}
        found |= {name[:1] * (name[:1] == "/" and strip == 0) + k for k in kept}
    return sorted(found) if found else None
