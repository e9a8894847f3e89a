"""Reads the words of a program with its Spec, and notes what its options and operands do."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell import builtins
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter import command_lookup
from humanlayer_agent.shell.interpreter.context import MAX_DEPTH, Context
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, special
from humanlayer_agent.shell.programs.arguments import Arguments, OptionUse, assign_slots, read_arguments
from humanlayer_agent.shell.programs.spec import Always, Spec
from humanlayer_agent.shell.syntax.tree import Word

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk

_FILE_SLOTS = frozenset({"read", "list", "write", "append", "delete", "move", "metadata"})
_RESETS: dict[str, frozenset[str]] = {
    "env": frozenset({"ignore-environment", "unset"}),
    **dict.fromkeys(("sudo", "doas", "su", "runuser", "ssh", "docker", "podman", "kubectl", "chroot"), frozenset()),
}
"""Wrappers that run their command with other variables than the shell exports: always, or with one of these options."""
_SCRIPTS = {**dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), "awk"), "sed": "sed", "jq": "jq"}
"""What the script files in options of these programs are written in."""


def apply(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: Sequence[Field], state: State, context: Context
) -> None:
    """Read `fields` with `spec` and note every effect."""
    if command.program == "kill" and len(command.words) == len(fields) + 1:
        fields = [_as_job(field, state) for field in fields]
        command.words = [command.words[0], *fields]
    if spec.grammar:
        special.reader(spec.grammar)(walk, spec, command, list(fields), state, context)
        note_effects(walk, spec.effects, command, state)
        return
    arguments = read_arguments(spec, fields)
    state = note_options(walk, spec, command, arguments, state, context)
    if spec.subcommands:
        _subcommand(walk, spec, command, arguments, state, context)
        return
    note_operands(walk, spec, command, arguments, state, context)


def _as_job(field: Field, state: State) -> Field:
    """`$!` as what stands for a job of this shell: `%own`."""
    if field.text is not None or field.choices:
        return field
    from humanlayer_agent.shell.interpreter import assignments

    if not assignments.own_job(field.word, state):
        return field
    return replace(field, text="%own", prefix="%own", glob=None, many=False, pathname=False)


def note_options(
    walk: "Walk", spec: Spec, command: SimpleCommand, arguments: Arguments, state: State, context: Context
) -> State:
    """Flags, doubts, and the effects of option values. Returns the state the operands are read in (`-C dir`)."""
    if arguments.options:
        command.flags |= arguments.flags()
    state = _child_environment(command, state)
    for word in arguments.unknown:
        command.doubt(word.shown)
    if arguments.loose:
        command.flags_complete = False
        for word in arguments.loose:
            # `*` may match a file named like an option: that matters only where an option does something.
            if not word.pathname or spec.dangerous_options():
                command.doubt(word.word.raw)
    for use in arguments.options:
        if use.option.does is not None:
            _option_effect(walk, command, use, state)
        if use.value is None:
            continue
        command.options.setdefault(use.option.name, []).append(use.value.text)
        if use.option.kind == "directory":
            moved = state.copy()
            moved.cwd = builtins.destination(use.value, state)
            state = moved
        else:
            origin = f"{command.program} {use.option.name}"
            note(walk, command, use.option.kind, use.value, state, context, role="option", origin=origin)
    return state


def _child_environment(command: SimpleCommand, state: State) -> State:
    """The state that what a wrapper runs starts in: sudo and the like pass on few variables, some another directory."""
    resets = _RESETS.get(command.program or "")
    if resets is None or (resets and not resets & command.flags):
        return state
    out = state.copy()
    if command.program != "env" or "ignore-environment" in command.flags:
        out.forget(None)
    if command.flags & {"login", "chroot"} and command.program != "env":
        out.cwd = None
    return out


def _option_effect(walk: "Walk", command: SimpleCommand, use: OptionUse, state: State) -> None:
    """What an option does by itself. A file that it names only indirectly lies in the working directory."""
    kind, span = use.option.does or "", walk.span(use.at.start, use.at.end)
    origin = f"{command.program} {use.option.name}"
    if kind in _FILE_SLOTS:
        for cwd in state.cwd or (None,):
            command.effects.append(Effect(kind, "option", cwd, False, span, origin, below=cwd is not None))
    else:
        command.effects.append(Effect(kind, "option", use.option.name, True, span, origin))


def _subcommand(
    walk: "Walk", spec: Spec, command: SimpleCommand, arguments: Arguments, state: State, context: Context
) -> None:
    operands = arguments.operands
    if not operands:
        note_operands(walk, spec, command, arguments, state, context)
        return
    name = operands[0].text
    sub = spec.subcommands.get(name or "") or walk.catalog.lookup(f"{spec.name} {name}")
    command.subcommand = f"{command.subcommand} {name}" if command.subcommand and name else name
    note_effects(walk, spec.effects, command, state)
    if sub is None:
        command.known = False
        command.doubt(operands[0].word.raw)
        operand_effects.code(
            walk,
            command,
            operands[0],
            what=name,
            role="subcommand",
            origin=f"{command.program} sub-command",
            unread=False,
        )
        return
    apply(walk, sub, command, operands[1:], state, context)


def note_operands(
    walk: "Walk", spec: Spec, command: SimpleCommand, arguments: Arguments, state: State, context: Context
) -> None:
    """What each operand does in the slot that takes it."""
    operands = arguments.operands
    command.operands += [o.text for o in operands]
    command.listed = True
    slots = spec.operands
    if spec.variants:
        slots = next((v.operands for v in spec.variants if v.when & command.flags), slots)
    recursive = bool(spec.recursive & command.flags)
    pairs, excess = assign_slots(slots, operands)
    for word in excess:
        command.doubt(word.word.raw)
    number = 0
    for slot, words in pairs:
        if slot.kind == "command":
            _command(walk, command, words, state, context)
            continue
        for word in words:
            number += 1
            note(
                walk, command, slot.kind, word, state, context,
                origin=f"{command.program} operand {number}", recursive=recursive or slot.kind == "move",
            )  # fmt: skip
    if spec.without_operands is not None and not any(words for slot, words in pairs if slot.kind != "text"):
        kind, value, when = spec.without_operands
        if not when or when & command.flags:
            here = implied(command, value)
            note(walk, command, kind, here, state, context, origin=f"{command.program} default", recursive=recursive)
    if spec.effects:
        note_effects(walk, spec.effects, command, state)


def implied(command: SimpleCommand, value: str) -> Field:
    """A field for an operand that the program supplies itself."""
    start, end = command.span
    word = Word(value, value, start, end)
    return Field(word, start, end, text=value, prefix=value)


def note_effects(walk: "Walk", effects: Sequence[Always], command: SimpleCommand, state: State) -> None:
    """Effects that stand for no single word. `state` is that after options such as -C dir."""
    for each in effects:
        if each.when and not each.when & command.flags:
            # A word that may add flags may also add this one.
            if command.flags_complete:
                continue
        elif each.unless & command.flags:
            continue
        certain = not each.when or bool(each.when & command.flags)
        here = state.cwd if each.operand == "." else (each.operand,)
        for operand in here or (None,):
            below = each.operand == "." and operand is not None and each.kind in _FILE_SLOTS
            command.effects.append(
                Effect(
                    each.kind, each.role, operand, certain and operand is not None and not below,
                    command.span, command.program or "", below=below,
                )
            )  # fmt: skip


def _command(walk: "Walk", command: SimpleCommand, words: list[Field], state: State, context: Context) -> None:
    """The rest of a wrapper's words is another command, run without a shell."""
    if not words:
        return
    inner = context.deeper(via=(*context.via, command.program or "?"))
    if inner.depth > MAX_DEPTH:
        walk.program.doubt("nested too deep")
        return
    command_lookup.run(walk, words, state, inner, command.span, command.text, shell=False)


def note(  # noqa: C901
    walk: "Walk",
    command: SimpleCommand,
    kind: str,
    word: Field,
    state: State,
    context: Context,
    *,
    role: str = "operand",
    origin: str = "",
    recursive: bool = False,
) -> None:
    """Note what giving `word` in a slot of this `kind` does."""
    if kind in _FILE_SLOTS:
        if kind == "list":
            operand_effects.path(walk, command, "read", word, state, role="list", origin=origin, recursive=recursive)
        else:
            operand_effects.path(walk, command, kind, word, state, role=role, origin=origin, recursive=recursive)
    elif kind == "script":
        operand_effects.script(walk, command, word, state, origin, language=_SCRIPTS.get(command.program or "", ""))
    elif kind == "shell":
        shell_text(walk, command, word, state, context, origin)
    elif kind == "code":
        operand_effects.code(walk, command, word, what=word.text, role="code", origin=origin)
    elif kind in ("host", "url"):
        operand_effects.host(walk, command, word, origin=origin)
    elif kind == "remote":
        _remote(walk, command, word, state, origin, recursive)
    elif kind in ("package", "process"):
        operand_effects.plain(walk, command, kind, word, origin=origin)
    elif kind == "sed":
        from humanlayer_agent.shell.programs.special import sed

        sed.note_script(walk, command, word, state, context)
    elif kind in ("git-setting", "git-dir"):
        from humanlayer_agent.shell.programs.special import git

        git.note_setting(walk, command, word, kind, origin)
    elif kind == "upload":
        _upload(walk, command, word, state, origin)
    elif kind == "environment":
        from humanlayer_agent.shell.environment import code_variables

        name, equals, value = (word.text or "").partition("=")
        if word.text is None or code_variables.selects_code(name, value if equals else None):
            command.effects.append(
                Effect(
                    "environment", role, name or None, word.text is not None, walk.span(word.start, word.end), origin,
                    value=value if equals else None,
                )
            )  # fmt: skip
    elif kind == "command":
        _command(walk, command, [word], state, context)
    elif kind != "text":
        from humanlayer_agent.shell.programs import slots

        slots.note(walk, command, kind, word, state, context, origin)


def shell_text(
    walk: "Walk", command: SimpleCommand, word: Field, state: State, context: Context, origin: str,
    positional: tuple[str, ...] | None = None, zero: str | None = None,
) -> None:  # fmt: skip
    """A text that a shell of its own runs."""
    if word.text is None:
        operand_effects.code(walk, command, word, what=None, role="code", origin=origin)
        command.doubt(word.word.raw)
        return
    if any(w.many for w in command.words):
        positional = zero = None  # `bash -c '...' $x a`: which of them is $1 depends on how many words $x is
    inner = context.deeper(via=(*context.via, command.program or "?"))
    walk.source(word.text, word, state.child(positional, zero), inner, "string")


def _upload(walk: "Walk", command: SimpleCommand, word: Field, state: State, origin: str) -> None:
    """curl's `-d @file`, `-F name=@file`, `-F name=<file` send a file; other texts are sent as they are."""
    if word.text is None:
        if not word.prefix or word.prefix[0] == "@":
            command.doubt(word.word.raw)
        return
    at = word.text.find("@") if "@" in word.text else word.text.find("=<") + 1
    if at >= 0 and word.text[at : at + 1] in ("@", "<"):
        name = word.tail(at + 1)
        name.text = (name.text or "").partition(";")[0]
        operand_effects.path(walk, command, "read", name, state, role="upload", origin=origin)


def _remote(walk: "Walk", command: SimpleCommand, word: Field, state: State, origin: str, recursive: bool) -> None:
    """`host:path` or a URL is contacted; anything else is a local path that is read."""
    text = word.text
    if text is None or "://" in text or ":" in text.partition("/")[0]:
        operand_effects.host(walk, command, word, origin=origin)
    else:
        operand_effects.path(walk, command, "read", word, state, origin=origin, recursive=recursive)
