"""Runs one command of the analysis: finds what its name means, reads its arguments, notes what it does."""

import posixpath

from humanlayer_agent.light.patterns import re
from humanlayer_agent.light.records import replace
from humanlayer_agent.light.typed import TYPE_CHECKING, Sequence
from humanlayer_agent.shell import builtins, environment, grammars, touch, variables
from humanlayer_agent.shell.arguments import Arguments, OptionUse, assign_slots, read_arguments
from humanlayer_agent.shell.catalog import STANDARD_DIRECTORIES, lookup
from humanlayer_agent.shell.catalog.spec import Always, Slot, Spec
from humanlayer_agent.shell.context import MAX_DEPTH, Context, Ends
from humanlayer_agent.shell.effects import Effect
from humanlayer_agent.shell.fields import Field
from humanlayer_agent.shell.paths import absolute, logical, shortest
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.state import State, join
from humanlayer_agent.shell.syntax import Simple, Word

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk

_FILE_SLOTS = frozenset({"read", "list", "write", "append", "delete", "move", "metadata"})
_PREFIXES = frozenset({"command", "builtin", "exec"})
_RESETS: dict[str, frozenset[str]] = {
    "env": frozenset({"ignore-environment", "unset"}),
    **dict.fromkeys(("sudo", "doas", "su", "runuser", "ssh", "docker", "podman", "kubectl", "chroot"), frozenset()),
}
"""Wrappers that run their command with other variables than the shell exports: always, or with one of these options."""
_SCRIPTS = {**dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), "awk"), "sed": "sed", "jq": "jq"}
"""What the script files in options of these programs are written in."""
_INTERPRETER = re.compile(
    r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|[bdazk]?sh|bash|fish|busybox|toybox|env|[gmn]?awk|pip|uv|uvx|npm"
    r"|npx|curl|wget|git|ssh|scp|rsync|nc|ncat|socat)[0-9.]*",
    re.ASCII,
)
"""Programs that run, fetch or send what they are given, in any release, and in an environment of a project's own."""
_LOADER = re.compile(r"ld(?:-linux|-musl|-[0-9])[A-Za-z0-9_.-]*", re.ASCII)
_OWN_ROOT = re.compile(r"/proc/(?:self|thread-self)/root(?:/|\Z)")
_STDIN_READERS = frozenset(
    [
        "cat", "head", "tail", "tee", "sed", "awk", "gawk", "grep", "sort", "uniq", "wc", "xargs", "ssh",
        "python", "python3", "perl", "ruby", "node", "sh", "bash", "dash", "dd", "tr", "cut", "od", "xxd",
        "base64", "less", "more", "psql", "mysql", "sqlite3", "docker", "kubectl", "ffmpeg", "bc", "gzip",
        "tar", "tac", "rev", "nl", "paste", "fold",
    ]
)  # fmt: skip


def run(
    walk: "Walk",
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
    if name.text is None:
        command.known = False
        command.doubt(name.word.raw)
        touch.code(walk, command, name, what=None, role="program", origin="program", unread=False)
        # It may be a function or a builtin, so nothing is certain after it.
        unknown = state.lost() if shell else state
        return unknown, unknown
    if not shell:
        return _external(walk, command, fields, state, context)
    if functions and name.text in state.functions:
        return _function(walk, fields, state, context, span, text)
    if name.text in _PREFIXES:
        return _prefix(walk, command, fields, state, context)
    if (handler := builtins.HANDLERS.get(name.text)) is not None:
        return handler(walk, command, fields[1:], state, context)
    return _external(walk, command, fields, state, context)


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
    walk: "Walk", fields: list[Field], state: State, context: Context, span: tuple[int, int], text: str, shell: bool
) -> Ends:
    """A program name that may be one of several: each is noted as if it ran."""
    won: State | None = None
    lost: State | None = None
    for choice in fields[0].choices:
        name = replace(fields[0], text=choice, choices=())
        a, b = run(walk, [name, *fields[1:]], state, context, span, text, shell=shell)
        won, lost = join(won, a), join(lost, b)
    return won, lost


def _function(
    walk: "Walk", fields: list[Field], state: State, context: Context, span: tuple[int, int], text: str
) -> Ends:
    """A name that is, or may be, a function."""
    name = fields[0].text or ""
    won, lost = builtins.call(walk, name, fields[1:], state, context)
    if None not in state.functions[name]:
        return won, lost
    # Where it is not certainly defined, the name may also mean what it always means.
    a, b = run(walk, fields, state, context, span, text, functions=False)
    return join(won, a), join(lost, b)


def _prefix(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: Context) -> Ends:
    """`command`, `builtin`, `exec`: they run what follows, without functions."""
    name = command.program or ""
    rest = fields[1:]
    while rest and rest[0].text is not None and len(rest[0].text) > 1 and rest[0].text.startswith("-"):
        option = rest[0].text
        rest = rest[1:]
        if option == "--":
            break
        if name == "command" and set(option[1:]) <= set("pvV") and option != "-p":
            return state, state  # only tells what a name means
        if name == "exec" and option == "-a":
            rest = rest[1:]
        elif not (name == "command" and option == "-p") and not (name == "exec" and set(option[1:]) <= set("cl")):
            command.doubt(option)
    if not rest:
        return state, state
    if rest[0].may_be_option() and rest[0].text is None:
        command.doubt(rest[0].word.raw)
    inner = replace(context, via=(*context.via, name))
    if name == "exec":
        run(walk, rest, state, inner, command.span, command.text, shell=False)
        return None, None
    return run(walk, rest, state, inner, command.span, command.text, functions=False)


# ---- programs -------------------------------------------------------------------------------------


def _external(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: Context) -> Ends:
    outside(walk, command, fields, state, context)
    if context.stdin.kind == "script":
        doubt_input(walk, command)
    return state, state


def outside(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: Context) -> None:
    """Note what a program does, which the shell finds in PATH or by its path."""
    name = fields[0]
    text = name.text or ""
    if "/" in text:
        command.path = text
        # `/tmp/x/../../usr/bin/ls` may be anything: /tmp/x may be a link. Slashes and dots more or less change nothing.
        directory, base = posixpath.split(shortest(text))
        if directory in STANDARD_DIRECTORIES:
            command.program = base
        else:
            # A file of this name: what it does stands in it, not in the catalog.
            command.known = False
            touch.script(walk, command, name, state, "program", arguments=fields[1:])
            other = _elsewhere(text, state) or _by_its_name(base)
            if other is not None and context.depth < MAX_DEPTH:
                inner = context.deeper()
                run(
                    walk,
                    [replace(name, text=other), *fields[1:]],
                    state,
                    inner,
                    command.span,
                    command.text,
                    shell=False,
                )
            return
    spec = lookup(command.program or "")
    if spec is None:
        command.known = False
        command.doubt(text)
        touch.code(walk, command, name, what=text, role="program", origin="program", unread=False)
        return
    apply(walk, spec, command, fields[1:], state, context)


def _elsewhere(text: str, state: State) -> str | None:
    """The standard program that the path `text` leads to where no link lies on the way of its `..`."""
    for cwd in state.cwd or ("/",):
        path = logical(_OWN_ROOT.sub("/", shortest(absolute(text, cwd))), "/")
        if posixpath.dirname(path) in STANDARD_DIRECTORIES:
            return path if path != shortest(text) else None
    return None


def _by_its_name(base: str) -> str | None:
    """The program that a file named `base` says it is: `.venv/bin/python` is most likely Python.

    Whatever else it may be, it is judged as that program too.
    """
    known = _INTERPRETER.fullmatch(base)
    if known is None:
        return "ld.so" if _LOADER.fullmatch(base) else None
    return base if lookup(base) is not None else known[1]


def doubt_input(walk: "Walk", command: SimpleCommand) -> None:
    """`command` runs in a script that is its standard input: it may take lines of it."""
    known = command.program in _STDIN_READERS and lookup(command.program or "") is not None
    if known and not _reads_a_file(command):
        walk.program.doubt(f"{command.program} takes lines of the script that is being run")


def _reads_a_file(command: SimpleCommand) -> bool:
    return any(e.kind == "read" and e.source == "own" and e.role != "default" for e in command.effects)


def apply(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: Sequence[Field], state: State, context: Context
) -> None:
    """Read `fields` with `spec` and note every effect."""
    if command.program == "kill" and len(command.words) == len(fields) + 1:
        fields = [_as_job(field, state) for field in fields]
        command.words = [command.words[0], *fields]
    if spec.grammar:
        grammars.reader(spec.grammar)(walk, spec, command, list(fields), state, context)
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
    if field.text is not None or field.choices or not variables.own_job(field.word, state):
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
    sub = spec.subcommands.get(name or "") or lookup(f"{spec.name} {name}")
    command.subcommand = f"{command.subcommand} {name}" if command.subcommand and name else name
    note_effects(walk, spec.effects, command, state)
    if sub is None:
        command.known = False
        command.doubt(operands[0].word.raw)
        touch.code(
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
    run(walk, words, state, inner, command.span, command.text, shell=False)


def note(
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
            touch.path(walk, command, "read", word, state, role="list", origin=origin, recursive=recursive)
        else:
            touch.path(walk, command, kind, word, state, role=role, origin=origin, recursive=recursive)
    elif kind == "script":
        script(walk, command, word, state, origin, language=_SCRIPTS.get(command.program or "", ""))
    elif kind == "shell":
        shell_text(walk, command, word, state, context, origin)
    elif kind == "code":
        touch.code(walk, command, word, what=word.text, role="code", origin=origin)
    elif kind in ("host", "url"):
        touch.host(walk, command, word, origin=origin)
    elif kind == "remote":
        _remote(walk, command, word, state, origin, recursive)
    elif kind in ("package", "process"):
        touch.plain(walk, command, kind, word, origin=origin)
    elif kind == "sed":
        from humanlayer_agent.shell.grammars import sed

        sed.note_script(walk, command, word, state, context)
    elif kind in ("git-setting", "git-dir"):
        from humanlayer_agent.shell.grammars import git

        git.note_setting(walk, command, word, kind, origin)
    elif kind == "upload":
        _upload(walk, command, word, state, origin)
    elif kind == "environment":
        name, equals, value = (word.text or "").partition("=")
        if word.text is None or environment.selects_code(name, value if equals else None):
            command.effects.append(
                Effect(
                    "environment", role, name or None, word.text is not None, walk.span(word.start, word.end), origin,
                    value=value if equals else None,
                )
            )  # fmt: skip
    elif kind == "command":
        _command(walk, command, [word], state, context)
    elif kind != "text":
        from humanlayer_agent.shell.grammars import slots

        slots.note(walk, command, kind, word, state, context, origin)


def script(
    walk: "Walk",
    command: SimpleCommand,
    word: Field,
    state: State,
    origin: str,
    *,
    language: str = "",
    arguments: Sequence[Field] | None = None,
) -> None:
    """A file that is executed (see touch.script)."""
    touch.script(walk, command, word, state, origin, language=language, arguments=arguments)


def shell_text(
    walk: "Walk", command: SimpleCommand, word: Field, state: State, context: Context, origin: str,
    positional: tuple[str, ...] | None = None, zero: str | None = None,
) -> None:  # fmt: skip
    """A text that a shell of its own runs."""
    if word.text is None:
        touch.code(walk, command, word, what=None, role="code", origin=origin)
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
        touch.path(walk, command, "read", name, state, role="upload", origin=origin)


def _remote(walk: "Walk", command: SimpleCommand, word: Field, state: State, origin: str, recursive: bool) -> None:
    """`host:path` or a URL is contacted; anything else is a local path that is read."""
    text = word.text
    if text is None or "://" in text or ":" in text.partition("/")[0]:
        touch.host(walk, command, word, origin=origin)
    else:
        touch.path(walk, command, "read", word, state, origin=origin, recursive=recursive)


__all__ = ["Slot", "apply", "note", "note_effects", "note_operands", "note_options", "run", "script", "shell_text"]
