"""Reads the words of a program with its Spec, and notes what its options and operands do."""

from collections.abc import Sequence
from dataclasses import replace

from humanlayer_agent.shell import builtins
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.paths import dedupe
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import special, verbs
from humanlayer_agent.shell.programs.arguments import Arguments, OptionUse, assign_slots, read_arguments
from humanlayer_agent.shell.programs.spec import Always, Spec
from humanlayer_agent.shell.syntax.tree import Word

_FILE_SLOTS = frozenset({"read", "list", "write", "append", "delete", "move", "metadata"})
_REPOSITORY = "repository"
"""An effect with this role is on what git keeps of the directory, and on no file that lies in it."""
_RESETS: dict[str, frozenset[str]] = {
    "env": frozenset({"ignore-environment", "unset"}),
    **dict.fromkeys(("sudo", "doas", "su", "runuser", "ssh", "docker", "podman", "kubectl", "chroot"), frozenset()),
}
"""Wrappers that run their command with other variables than the shell exports: always, or with one of these options."""
_SCRIPTS = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), "awk"),
    **dict.fromkeys(("cmake", "ctest"), "cmake"),
    "gunicorn": "python",
    "sed": "sed",
    "jq": "jq",
    "psql": "psql",
    "sqlite3": "sqlite",
}
"""What the script files in options of these programs are written in."""


def apply(run: Run, spec: Spec, fields: Sequence[Field]) -> None:
    """Read `fields` with `spec` and note every effect."""
    if run.command.program == "kill" and len(run.command.words) == len(fields) + 1:
        fields = [_as_job(field, run.state) for field in fields]
        run.command.words = [run.command.words[0], *fields]
    if spec.settings:
        run.walk.scripts.settings.append((run.command, spec.settings))
    if spec.argument_files:
        from humanlayer_agent.shell.programs import operand_effects

        fields = operand_effects.with_argument_files(run, spec.argument_files, fields)
    if spec.grammar:
        special.reader(spec.grammar)(run, spec, list(fields))
        note_effects(run, spec.effects)
    else:
        apply_plain(run, spec, fields)
    if spec.attributes:
        verbs.note_attributes(run, spec.attributes)


def apply_plain(run: Run, spec: Spec, fields: Sequence[Field]) -> None:
    """Do the same by options, slots and sub-commands alone, whatever grammar `spec` names."""
    arguments = read_arguments(spec, fields)
    run = note_options(run, spec, arguments)
    if spec.subcommands:
        _subcommand(run, spec, arguments)
        return
    note_operands(run, spec, arguments)
    if spec.verb:
        verbs.note(run, spec)


def _as_job(field: Field, state: State) -> Field:
    """`$!` as what stands for a job of this shell: `%own`."""
    if field.text is not None or field.choices:
        return field
    from humanlayer_agent.shell.interpreter import assignments

    if not assignments.own_job(field.word, state):
        return field
    return replace(field, text="%own", prefix="%own", glob=None, many=False, pathname=False)


def note_options(run: Run, spec: Spec, arguments: Arguments) -> Run:
    """Flags, doubts, and the effects of option values. Returns the run that the operands are read in (`-C dir`)."""
    if arguments.options:
        run.command.flags |= arguments.flags()
    run = run.having(state=_child_environment(run.command, run.state))
    for word in arguments.unknown:
        run.doubt(word.shown)
    if arguments.unknown or arguments.loose:
        run.command.verbs |= {"unknown"}
    if arguments.loose:
        run.command.flags_complete = False
        for word in arguments.loose:
            # `*` may match a file named like an option: that matters only where an option does something.
            if not word.pathname or spec.dangerous_options():
                run.doubt(word.word.raw)
    for use in arguments.options:
        if use.option.does is not None:
            _option_effect(run, use)
        if use.option.verb:
            run.command.verbs |= {use.option.verb}
        if use.value is None:
            continue
        run.command.options.setdefault(use.option.name, []).append(use.value.text)
        if use.option.kind in ("directory", "project-directory"):
            moved = run.state.copy()
            moved.cwd = builtins.destination(use.value, run.state)
            if use.option.kind == "project-directory" and moved.cwd is not None:
                moved.cwd = None if run.state.cwd is None else dedupe((*run.state.cwd, *moved.cwd))
            run = run.having(state=moved)
        else:
            origin = f"{run.command.program} {use.option.name}"
            note(run, use.option.kind, use.value, role="option", origin=origin)
    return run


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


def _option_effect(run: Run, use: OptionUse) -> None:
    """What an option does by itself. A file that it names only indirectly lies in the working directory."""
    kind, span = use.option.does or "", run.walk.span(use.at.start, use.at.end)
    origin = f"{run.command.program} {use.option.name}"
    if kind in _FILE_SLOTS:
        for cwd in run.state.cwd or (None,):
            run.effect(kind, "option", cwd, False, span, origin, below=cwd is not None)
    else:
        run.effect(kind, "option", use.option.name, True, span, origin)


def _subcommand(run: Run, spec: Spec, arguments: Arguments) -> None:
    operands = arguments.operands
    if not operands:
        note_operands(run, spec, arguments)
        if spec.verb:
            verbs.note(run, spec)
        return
    name = operands[0].text
    sub = spec.subcommands.get(name or "") or run.walk.catalog.lookup(f"{spec.name} {name}")
    run.command.subcommand = f"{run.command.subcommand} {name}" if run.command.subcommand and name else name
    note_effects(run, spec.effects)
    if sub is None or sub.draft:
        run.command.known = False
        run.doubt(operands[0].word.raw)
        run.code(operands[0], what=name, role="subcommand", origin=f"{run.command.program} sub-command", unread=False)
        return
    apply(run, sub, operands[1:])


def note_operands(run: Run, spec: Spec, arguments: Arguments) -> None:
    """What each operand does in the slot that takes it."""
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    run.command.listed = True
    slots = spec.operands
    if spec.variants:
        slots = next((v.operands for v in spec.variants if v.when & run.command.flags), slots)
    recursive = bool(spec.recursive & run.command.flags)
    pairs, excess = assign_slots(slots, operands)
    for word in excess:
        run.doubt(word.word.raw)
        run.command.verbs |= {"unknown"}
    number = 0
    for slot, words in pairs:
        if slot.kind == "command":
            run.program(words)
            continue
        for word in words:
            number += 1
            note(
                run,
                slot.kind,
                word,
                origin=f"{run.command.program} operand {number}",
                recursive=recursive or slot.kind == "move",
            )
    if spec.without_operands is not None and not any(words for slot, words in pairs if slot.kind != "text"):
        kind, value, when = spec.without_operands
        if not when or when & run.command.flags:
            here = implied(run.command, value)
            note(run, kind, here, origin=f"{run.command.program} default", recursive=recursive)
    if spec.effects:
        note_effects(run, spec.effects)


def implied(command: SimpleCommand, value: str) -> Field:
    """A field for an operand that the program supplies itself."""
    start, end = command.span
    word = Word(value, value, start, end)
    return Field(word, start, end, text=value, prefix=value)


def note_effects(run: Run, effects: Sequence[Always]) -> None:
    """Effects that stand for no single word. `run` is that after options such as -C dir."""
    for each in effects:
        if each.when and not each.when & run.command.flags:
            # A word that may add flags may also add this one.
            if run.command.flags_complete:
                continue
        elif each.unless & run.command.flags:
            continue
        certain = not each.when or bool(each.when & run.command.flags)
        here = run.state.cwd if each.operand == "." else (each.operand,)
        for operand in here or (None,):
            in_it = each.kind in _FILE_SLOTS and each.role != _REPOSITORY
            below = in_it and each.operand == "." and operand is not None
            run.effect(
                each.kind,
                each.role,
                operand,
                certain and operand is not None and not below,
                run.command.span,
                run.command.program or "",
                below=below,
            )


def note(  # noqa: C901
    run: Run, kind: str, word: Field, *, role: str = "operand", origin: str = "", recursive: bool = False
) -> None:
    """Note what giving `word` in a slot of this `kind` does."""
    if kind in _FILE_SLOTS:
        if kind == "list":
            run.path("read", word, role="list", origin=origin, recursive=recursive)
        else:
            run.path(kind, word, role=role, origin=origin, recursive=recursive)
    elif kind == "script":
        run.script(word, origin, language=_SCRIPTS.get(run.command.program or "", ""))
    elif kind == "shell":
        shell_text(run, word, origin)
    elif kind == "code":
        run.code(word, what=word.text, role="code", origin=origin)
    elif kind in ("host", "url"):
        if not _noted_as_file(run, word, origin):
            run.host(word, origin=origin)
    elif kind == "remote":
        _remote(run, word, origin, recursive)
    elif kind in ("package", "process"):
        run.plain(kind, word, origin=origin)
    elif kind == "sed":
        from humanlayer_agent.shell.programs.special import sed

        sed.note_script(run, word)
    elif kind in ("git-setting", "git-dir"):
        from humanlayer_agent.shell.programs.special import git

        git.note_setting(run, word, kind, origin)
    elif kind == "upload":
        _upload(run, word, origin)
    elif kind == "environment":
        from humanlayer_agent.shell.environment import code_variables

        name, equals, value = (word.text or "").partition("=")
        if word.text is None or code_variables.steers(name, value if equals else None):
            given = value if equals else None
            run.effect("environment", role, name or None, word.text is not None, run.span(word), origin, value=given)
    elif kind == "command":
        run.program([word])
    elif kind != "text":
        from humanlayer_agent.shell.programs import slot_effects

        slot_effects.note(run, kind, word, origin)


def shell_text(
    run: Run, word: Field, origin: str, positional: tuple[str, ...] | None = None, zero: str | None = None
) -> None:
    """A text that a shell of its own runs."""
    if word.text is None:
        run.code(word, what=None, role="code", origin=origin)
        run.doubt(word.word.raw)
        return
    if any(w.many for w in run.command.words):
        positional = zero = None  # `bash -c '...' $x a`: which of them is $1 depends on how many words $x is
    inner = run.context.deeper(via=(*run.context.via, run.command.program or "?"))
    run.walk.source(word.text, word, run.state.child(positional, zero), inner, "string")


def _noted_as_file(run: Run, word: Field, origin: str) -> bool:
    """Note the file of this machine that a URL with the scheme `file` names: it is read, or written where something is
    sent there. True where no host is contacted.
    """
    text = word.prefix if word.text is None else word.text
    if text[:5].lower() != "file:":
        return False
    if word.text is None:
        run.path("read", replace(word, prefix="", glob=None), origin=origin)
        return False
    from urllib.parse import unquote, urlsplit

    if any(each in text for each in "[]{}"):  # curl reads all that these stand for
        run.doubt(word.word.raw)
        return False
    found = urlsplit(text)
    path = unquote(found.path)
    file = replace(word, text=path, prefix=path)
    run.path("read", file, origin=origin)
    if "upload-file" in run.command.flags or not run.command.flags_complete:
        run.path("write", file, origin=origin)
    return found.netloc.lower() in ("", "localhost", "127.0.0.1")


def _upload(run: Run, word: Field, origin: str) -> None:
    """curl's `-d @file`, `-F name=@file`, `-F name=<file` send a file; other texts are sent as they are."""
    if word.text is None:
        if not word.prefix or word.prefix[0] == "@":
            run.doubt(word.word.raw)
        return
    at = word.text.find("@") if "@" in word.text else word.text.find("=<") + 1
    if at >= 0 and word.text[at : at + 1] in ("@", "<"):
        name = word.tail(at + 1)
        name.text = (name.text or "").partition(";")[0]
        run.path("read", name, role="upload", origin=origin)


def _remote(run: Run, word: Field, origin: str, recursive: bool) -> None:
    """`host:path` or a URL is contacted; anything else is a local path that is read."""
    text = word.text
    if text is None or "://" in text or ":" in text.partition("/")[0]:
        run.host(word, origin=origin)
    else:
        run.path("read", word, origin=origin, recursive=recursive)
