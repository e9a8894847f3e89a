"""patch and git apply: the files that a difference changes are named in its text, which may stand in a heredoc."""

import posixpath
import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.spec import Spec

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
    from humanlayer_agent.shell.interpreter.context import Context

_NAMED = re.compile(r"^(?:--- |\+\+\+ |Index: |rename (?:from|to) |copy (?:from|to) )(.*)$", re.MULTILINE)
_OTHER_FORMS = re.compile(r"^(?:\*\*\* |[0-9,]+[acd][0-9,]*$|Prereq:|GIT binary patch)", re.MULTILINE)
"""Context diffs, ed scripts and binary patches: their names are not read here."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_./+@%=~-]+", re.ASCII)


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """patch [options] [file [patchfile]]."""
    arguments = read_arguments(spec, fields)
    state = spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.operands += [o.text for o in operands]
    if len(operands) > 1:
        operand_effects.path(walk, command, "read", operands[1], state, origin="patch operand 2")
    for word in operands[2:]:
        command.doubt(word.word.raw)
    if command.flags & {"dry-run", "output"}:
        return
    if operands:
        operand_effects.path(walk, command, "write", operands[0], state, origin="patch operand 1")
        return
    text = None if "input" in command.flags else context.stdin.text
    note_targets(walk, command, text, _strip(arguments), state)


def apply(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """git apply [options] [patch...]."""
    arguments = read_arguments(spec, fields)
    state = spec_reader.note_options(walk, spec, command, arguments, state, context)
    command.operands += [o.text for o in arguments.operands]
    for n, each in enumerate(arguments.operands, 1):
        operand_effects.path(walk, command, "read", each, state, origin=f"git apply operand {n}")
    if "check" in command.flags and not command.flags & {"apply", "index"}:
        return
    fed = not arguments.operands or [o.text for o in arguments.operands] == ["-"]
    strip = _strip(arguments)
    note_targets(walk, command, context.stdin.text if fed else None, 1 if strip is None else strip, state)


def _strip(arguments: Arguments) -> int | None:
    for use in arguments.options:
        if use.option.name == "strip" and use.value is not None and (use.value.text or "").isdigit():
            return int(use.value.text or "")
    return None


def note_targets(walk: "Walk", command: SimpleCommand, text: str | None, strip: int | None, state: State) -> None:
    """Note the files that the difference changes: those it names, or any below the working directory."""
    names = None if text is None else _targets(text, strip)
    if names is None:
        for cwd in state.cwd or (None,):
            effect = Effect(
                "write", "patched", cwd, False, command.span, f"{command.program} target", below=cwd is not None
            )
            command.effects.append(effect)
        command.doubt(command.text)
        return
    start, end = command.span
    from humanlayer_agent.shell.programs.spec_reader import implied

    for name in names:
        target = Field(implied(command, name).word, start, end, text=name, prefix=name)
        operand_effects.path(walk, command, "write", target, state, role="patched", origin=f"{command.program} target")


def _targets(text: str, strip: int | None) -> list[str] | None:
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
