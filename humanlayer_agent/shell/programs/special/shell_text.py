"""Wrappers whose words are joined by blanks and handed to a shell: watch, ssh's remote command, at's input."""

import shlex
from itertools import islice, product
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter import command_lookup
from humanlayer_agent.shell.interpreter.context import Stdin
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
    from humanlayer_agent.shell.interpreter.context import Context


def watch(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """watch [options] words: `sh -c "words"`, with -x the words as they are."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    words = arguments.operands
    if not words:
        return
    if "exec" in command.flags:
        run_words(walk, command, words, state, context)
    else:
        joined_shell(walk, command, words, state, context)


def joined_shell(walk: "Walk", command: SimpleCommand, words: list[Field], state: State, context: "Context") -> None:
    """Run `words`, joined by blanks, as a shell's text."""
    origin = f"{command.program} command"
    texts = [w.text for w in words]
    if any(t is None for t in texts):
        operand_effects.code(walk, command, words[0], what=None, role="code", origin=origin)
        command.doubt(next(w.word.raw for w in words if w.text is None))
        return
    joined = " ".join(t or "" for t in texts)
    spec_reader.shell_text(
        walk, command, Field(words[0].word, words[0].start, words[-1].end, text=joined), state, context, origin
    )


def entr(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """entr [options] words: the words as they are, with -s the first as a shell's text."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    words = arguments.operands
    if words and "shell" in command.flags:
        spec_reader.shell_text(walk, command, words[0], state, context, "entr -s")
    else:
        run_words(walk, command, words, state, context)


def parallel(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """parallel joins its words, puts inputs into them and hands the result to a shell: it can't be read beforehand."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    words = arguments.operands
    shown = " ".join(w.shown for w in words)
    operand_effects.code(walk, command, words[0] if words else None, what=shown, role="code", origin="parallel")
    command.doubt(command.text)
    # What it most likely runs is judged too.
    start, end = (words[0].start, words[-1].end) if words else command.span
    at = spec_reader.implied(command, "")
    jobs = _jobs([w.text if w.text is not None else w.word.raw for w in words], context.stdin.given)
    if len(jobs) > MAX_JOBS:
        walk.program.doubt("parallel runs more commands than are judged")
    for text in jobs[:MAX_JOBS]:
        spec_reader.shell_text(
            walk, command, Field(at.word, start, end, text=text), state, context.fed(Stdin("null")), "parallel"
        )


MAX_JOBS = 32
"""Most commands of parallel that are judged by themselves."""


def _jobs(words: list[str], stdin: str | None) -> list[str]:
    """The commands that parallel makes of `words` and of the lines of its input, as GNU parallel quotes them."""
    sources: list[list[str]] = []
    template = words[: next((n for n, word in enumerate(words) if word.startswith(":::")), len(words))]
    for word in words[len(template) :]:
        if word.startswith(":::"):
            sources.append([])
        else:
            sources[-1].append(word)
    if not sources and stdin is not None:
        sources.append(stdin.splitlines())
    if not template:
        return [text for source in sources for text in source]
    joined = " ".join(template)
    jobs: list[str] = []
    for values in islice(product(*sources), MAX_JOBS + 1):
        inputs = [shlex.quote(value) for value in values]
        text = joined.replace("{}", " ".join(inputs))
        for number, value in enumerate(inputs, 1):
            text = text.replace(f"{{{number}}}", value)
        jobs.append(text if text != joined or not inputs else f"{joined} {' '.join(inputs)}")
    return jobs or [joined]


def script(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """script records what -c's text, or a shell that reads the input, prints."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    spec_reader.note_operands(walk, spec, command, arguments, state, context)
    if not command.flags & {"command", "help"}:
        run_stdin(walk, command, state, context)


def as_user(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """pkexec COMMAND, gosu USER COMMAND."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    words = arguments.operands if command.program == "pkexec" else arguments.operands[1:]
    if any(o.many for o in arguments.operands[:1]):
        command.doubt(arguments.operands[0].word.raw)
    run_words(walk, command, words, state, context)


def run_words(walk: "Walk", command: SimpleCommand, words: list[Field], state: State, context: "Context") -> None:
    """Run `words` as a command of their own, found without a shell."""
    if not words:
        return
    inner = context.deeper(via=(*context.via, command.program or "?"))
    if inner.depth > 24:
        walk.program.doubt("nested too deep")
        return
    command_lookup.run(walk, words, state, inner, command.span, command.text, shell=False)


def input_script(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """at, batch: the commands come on standard input, and run later. `at -f FILE` reads them from a file."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    command.operands += [o.text for o in arguments.operands]
    if command.flags & {"file", "list", "remove", "show", "version"} or command.program in ("atq", "atrm"):
        return
    run_stdin(walk, command, state, context)


def run_stdin(walk: "Walk", command: SimpleCommand, state: State, context: "Context") -> None:
    """Note that a shell runs what comes on standard input."""
    text = context.stdin.text
    if context.stdin.kind == "null":
        return
    if text is None:
        operand_effects.code(walk, command, None, what=None, role="stdin", origin=f"{command.program} standard input")
        command.doubt(command.text)
        return
    word = spec_reader.implied(command, text)
    spec_reader.shell_text(walk, command, word, state, context, f"{command.program} standard input")


def user_shell(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """su, runuser, newgrp: a shell as another user, which runs -c's text (an option's slot) or its input."""
    words = [f for f in fields if f.text != "-"]
    arguments = read_arguments(spec, words)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.operands += [o.text for o in operands]
    if "user" in command.flags and operands:  # runuser -u USER command
        run_words(walk, command, operands, state, context)
        return
    for extra in operands[1:]:
        command.doubt(extra.word.raw)  # arguments of the user's shell: a script, -c
    if "command" not in command.flags and not command.flags & {"version", "help"}:
        run_stdin(walk, command, state, context)


def flock(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """flock FILE command ..., flock FILE -c 'text', flock NUMBER."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.operands += [o.text for o in operands]
    if not operands or "command" in command.flags:
        # -c before the file, or nothing to lock
        if operands:
            operand_effects.path(walk, command, "write", operands[0], state, origin="flock operand 1")
        return
    if len(operands) == 1 and (operands[0].text or "").isdigit():
        return
    operand_effects.path(walk, command, "write", operands[0], state, origin="flock operand 1")
    rest = operands[1:]
    if len(rest) == 2 and rest[0].text in ("-c", "--command"):
        spec_reader.shell_text(walk, command, rest[1], state, context, "flock -c")
    else:
        run_words(walk, command, rest, state, context)


def ssh(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """ssh [options] host [options] [words]: what the other machine runs is not judged by its paths here."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    command.operands += [o.text for o in operands]
    if not operands:
        return
    operand_effects.host(walk, command, operands[0], origin="ssh operand 1")
    rest = read_arguments(spec, operands[1:])  # options may follow the host
    spec_reader.note_options(walk, spec, command, rest, state, context)
    words = " ".join(o.shown for o in rest.operands) or "a shell of the other machine"
    operand_effects.code(
        walk, command, operands[0], what=words, role="remote", origin="ssh command", resolved=True, unread=False
    )
