"""env and sudo: assignments, then a command; `env -S` splits one text into words."""

import re
from dataclasses import replace

from humanlayer_agent.shell.environment.code_variables import steers
from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter import assignments
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

_LISTS = frozenset({"PYTHONPATH", "PATH"})
"""Directories without blanks, so that what they held before stays one word."""
_PLAIN_SPLIT = re.compile(r"[A-Za-z0-9_./=:@,+\- \t]*", re.ASCII)
"""Texts that `env -S` splits at blanks and does nothing else to (no quotes, escapes or variables)."""


def _adds(run: Run, word: Field) -> bool:
    """`env PYTHONPATH=$PYTHONPATH:. x` adds to a list of directories that the script has not set, as export does."""
    name, equals, _ = word.prefix.partition("=")
    if name not in _LISTS or not equals or not run.state.untouched(name):
        return False
    found = assignments.declared(name, replace(word, many=False), run.state)
    if found is None:
        return False
    span, value = run.span(word), assignments.entries(found)
    run.effect("environment", "operand", name, True, span, "env assignment", value=value)
    if word.many:
        run.command.unresolved = [raw for raw in run.command.unresolved if raw != word.word.raw]
        run.command.resolved = not run.command.unresolved
    return True


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note the variables that are set and the command that runs with them."""
    arguments, first = read_arguments(spec, fields), len(run.walk.program.commands)
    run = spec_reader.note_options(run, spec, arguments)
    given: list[Field] = []
    words: list[Field] = []
    for use in arguments.options:
        if use.option.name == "split-string" and use.value is not None:
            if use.value.text is None or not _PLAIN_SPLIT.fullmatch(use.value.text):
                run.doubt(use.value.word.raw)
                return
            words += [
                Field(use.value.word, use.value.start, use.value.end, text=t, prefix=t) for t in use.value.text.split()
            ]
    words += arguments.operands
    scoped = run.state.copy()
    for gone in run.command.options.get("unset", ()) if run.command.program == "env" else ():
        scoped.forget(None if gone is None else [gone])
        if gone is not None:
            scoped.variables[gone] = ()
    while words and (words[0].text is None or "=" in words[0].text):
        word = words.pop(0)
        if word.text is None:
            if _adds(run, word):
                name = word.prefix.partition("=")[0]
                scoped.forget([name])
                scoped.exported |= {name}
                continue
            run.doubt(word.word.raw)
            if word.dynamic:
                break
            continue
        name, _, value = word.text.partition("=")
        spec_reader.note(run, "environment", word, origin=f"{run.command.program} assignment")
        assignments.points_to(run, name, (value,), word.start, word.end)
        scoped.assign(name, (value,))
        scoped.exported |= {name}
        given.append(word)
    cleared = "ignore-environment" in run.command.flags or "PATH" in run.command.options.get("unset", ())
    if run.command.program == "env" and cleared and not any((word.text or "").startswith("PATH=") for word in given):
        assignments.note_lost_path(run, words)
    if words:
        run.having(state=scoped).program(words)
        programs = assignments.programs_apart(run.walk, first)
        for word in given if programs else ():
            name, _, value = (word.text or "").partition("=")
            if not steers(name, value):  # that was noted above
                assignments.note_effect(run, name, (value,), word.start, word.end, programs=programs)
    elif run.command.program == "env" and not run.command.flags & {"help", "list-signal"}:
        run.printed("environment", None, origin="env")
