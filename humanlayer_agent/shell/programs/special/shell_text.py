"""Wrappers whose words are joined by blanks and handed to a shell: watch, ssh's remote command, at's input."""

import shlex
from dataclasses import replace
from itertools import islice, product

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.context import Stdin
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec


def watch(run: Run, spec: Spec, fields: list[Field]) -> None:
    """watch [options] words: `sh -c "words"`, with -x the words as they are."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    words = arguments.operands
    if not words:
        return
    if "exec" in run.command.flags:
        run.program(words)
    else:
        joined_shell(run, words)


def pane(run: Run, spec: Spec, fields: list[Field]) -> None:
    """tmux split-window and the like: the text starts where -c says, or in the directory of the session: not known."""
    spec_reader.apply(_elsewhere(run), replace(spec, grammar=""), fields)


def submodules(run: Run, spec: Spec, fields: list[Field]) -> None:
    """git submodule foreach words: `sh -c "words"` in the folder of each submodule, wherever those are."""
    watch(_elsewhere(run), spec, fields)


def _elsewhere(run: Run) -> Run:
    """The same run in a directory that is not known."""
    there = run.state.copy()
    there.cwd = None
    return run.having(state=there)


def joined_shell(run: Run, words: list[Field]) -> None:
    """Run `words`, joined by blanks, as a shell's text."""
    origin = f"{run.command.program} command"
    texts = [w.text for w in words]
    if any(t is None for t in texts):
        run.code(words[0], what=None, role="code", origin=origin)
        run.doubt(next(w.word.raw for w in words if w.text is None))
        return
    joined = " ".join(t or "" for t in texts)
    spec_reader.shell_text(run, Field(words[0].word, words[0].start, words[-1].end, text=joined), origin)


def entr(run: Run, spec: Spec, fields: list[Field]) -> None:
    """entr [options] words: the words as they are, with -s the first as a shell's text."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    words = arguments.operands
    if words and "shell" in run.command.flags:
        spec_reader.shell_text(run, words[0], "entr -s")
    else:
        run.program(words)


def parallel(run: Run, spec: Spec, fields: list[Field]) -> None:
    """parallel joins its words, puts inputs into them and hands the result to a shell: it can't be read beforehand."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    words = arguments.operands
    shown = " ".join(w.shown for w in words)
    run.code(words[0] if words else None, what=shown, role="code", origin="parallel")
    run.doubt(run.command.text)
    # What it most likely runs is judged too.
    start, end = (words[0].start, words[-1].end) if words else run.command.span
    at = spec_reader.implied(run.command, "")
    jobs = _jobs([w.text if w.text is not None else w.word.raw for w in words], run.context.stdin.given)
    if len(jobs) > MAX_JOBS:
        run.walk.program.doubt("parallel runs more commands than are judged")
    for text in jobs[:MAX_JOBS]:
        spec_reader.shell_text(
            run.having(context=run.context.fed(Stdin("null"))), Field(at.word, start, end, text=text), "parallel"
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


def script(run: Run, spec: Spec, fields: list[Field]) -> None:
    """script records what -c's text, or a shell that reads the input, prints."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    spec_reader.note_operands(run, spec, arguments)
    if not run.command.flags & {"command", "help"}:
        run_stdin(run)


def as_user(run: Run, spec: Spec, fields: list[Field]) -> None:
    """pkexec COMMAND, gosu USER COMMAND."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    words = arguments.operands if run.command.program == "pkexec" else arguments.operands[1:]
    if any(o.many for o in arguments.operands[:1]):
        run.doubt(arguments.operands[0].word.raw)
    run.program(words)


def input_script(run: Run, spec: Spec, fields: list[Field]) -> None:
    """at, batch: the commands come on standard input, and run later. `at -f FILE` reads them from a file."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    if run.command.flags & {"file", "list", "remove", "show", "version"} or run.command.program in ("atq", "atrm"):
        return
    run_stdin(run)


def run_stdin(run: Run) -> None:
    """Note that a shell runs what comes on standard input."""
    text = run.context.stdin.text
    if run.context.stdin.kind == "null":
        return
    if text is None:
        run.code(None, what=None, role="stdin", origin=f"{run.command.program} standard input")
        run.doubt(run.command.text)
        return
    word = spec_reader.implied(run.command, text)
    spec_reader.shell_text(run, word, f"{run.command.program} standard input")


def user_shell(run: Run, spec: Spec, fields: list[Field]) -> None:
    """su, runuser, newgrp: a shell as another user, which runs -c's text (an option's slot) or its input."""
    words = [f for f in fields if f.text != "-"]
    arguments = read_arguments(spec, words)
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    if "user" in run.command.flags and operands:  # runuser -u USER command
        run.program(operands)
        return
    for extra in operands[1:]:
        run.doubt(extra.word.raw)  # arguments of the user's shell: a script, -c
    if "command" not in run.command.flags and not run.command.flags & {"version", "help"}:
        run_stdin(run)


def flock(run: Run, spec: Spec, fields: list[Field]) -> None:
    """flock FILE command ..., flock FILE -c 'text', flock NUMBER."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    if not operands or "command" in run.command.flags:
        # -c before the file, or nothing to lock
        if operands:
            run.path("write", operands[0], origin="flock operand 1")
        return
    if len(operands) == 1 and (operands[0].text or "").isdigit():
        return
    run.path("write", operands[0], origin="flock operand 1")
    rest = operands[1:]
    if len(rest) == 2 and rest[0].text in ("-c", "--command"):
        spec_reader.shell_text(run, rest[1], "flock -c")
    else:
        run.program(rest)


def ssh(run: Run, spec: Spec, fields: list[Field]) -> None:
    """ssh [options] host [options] [words]: what the other machine runs is not judged by its paths here."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    if not operands:
        return
    run.host(operands[0], origin="ssh operand 1")
    rest = read_arguments(spec, operands[1:])  # options may follow the host
    spec_reader.note_options(run, spec, rest)
    words = " ".join(o.shown for o in rest.operands) or "a shell of the other machine"
    run.code(operands[0], what=words, role="remote", origin="ssh command", resolved=True, unread=False)
