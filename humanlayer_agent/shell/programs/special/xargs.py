"""xargs: runs a command with words that it reads from its input.

Where the input is known, so are the words. Where find feeds it, they are paths that find may find, if each ends with
NUL, or none of them is split (`name_lists`).
"""

import re
from dataclasses import replace

from humanlayer_agent.shell.dataflow import name_lists
from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.context import Stdin
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.syntax.tree import Word

MAX_TEXT = 32_768
"""Longest file of words; xargs splits a longer one among several commands."""
MAX_RUNS = 32
"""Most commands that are told apart."""
_UNDERSTOOD = frozenset(
    [
        "arg-file", "null", "delimiter", "max-args", "max-procs", "replace", "no-run-if-empty", "verbose",
        "interactive", "open-tty",
    ]
)  # fmt: skip
"""Options with which the words, and how they are handed out, follow from the input."""
_SPLITS = frozenset(
    ["delimiter", "max-args", "max-chars", "max-lines", "max-procs", "no-run-if-empty", "replace", "verbose"]
)
"""Options with which a name that is no several words stays one."""
_DELIMITERS = {"\\n": "\n", "\\t": "\t", "\\0": "\0"}
_COUNT = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)
_BLANKS = re.compile(r"[ \t\n]+")


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note the command that xargs runs, with unknown words after (or, with -I, in place of) its own."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    words = list(arguments.operands)
    if not words:
        return  # echo
    runs = _runs(run, arguments)
    if runs is not None:
        fed = run.context.stdin.shared() if run.command.flags & {"arg-file", "open-tty"} else Stdin("null")
        run = run.having(context=run.context.fed(fed))
        for each in runs:
            run.program(each, "xargs")
        return
    marker = _marker(run.command)
    shown = Word("{}", None, *run.command.span, dynamic=True)
    more = Field(shown, *run.command.span, many=marker is None)
    listed = _listed(run, words)
    if marker is None:
        words = [*words, *([replace(each, many=True) for each in listed] or [more])]
    else:
        one = listed[0] if len(listed) == 1 else None
        words = [one if one is not None and w.text == marker else _replaced(w, marker, more) for w in words]
    run.program(words, "xargs")


def _runs(run: Run, arguments: Arguments) -> list[list[Field]] | None:
    """The words of each command that is run; None where they are not known."""
    flags, words = run.command.flags, arguments.operands
    if not flags <= _UNDERSTOOD or not run.command.flags_complete or arguments.unknown:
        return None
    if "arg-file" in flags:
        at, text = _file(run, arguments)
    else:
        at = spec_reader.implied(run.command, "")
        text = "" if run.context.stdin.kind == "null" else run.context.stdin.given
    items = _items(text, run.command) if text is not None and len(text) <= MAX_TEXT else None
    if items is None:
        return None
    given = [replace(at, text=item, prefix=item) for item in items]
    if "replace" in flags:
        marker = _marker(run.command)
        if marker is None or "max-args" in flags or any(w.text is None for w in words):
            return None
        runs = [[words[0], *(_filled(word, marker, item) for word in words[1:])] for item in items]
    elif "max-args" in flags:
        most = run.command.options["max-args"][-1] or ""
        if not _COUNT.fullmatch(most):
            return None
        runs = [[*words, *given[n : n + int(most)]] for n in range(0, len(given), int(most))]
    else:
        runs = [[*words, *given]]
    if not given:  # what does not run is judged all the same
        return [list(words)] if "replace" not in flags else None
    return runs if len(runs) <= MAX_RUNS else None


def _items(text: str, command: SimpleCommand) -> list[str] | None:
    """The words in `text`, as the options have them split."""
    flags = command.flags
    if flags >= {"null", "delimiter"}:
        return None
    if flags & {"null", "delimiter"}:
        given = "\\0" if "null" in flags else command.options["delimiter"][-1]
        end = _DELIMITERS.get(given or "", given)
        if end is None or len(end) != 1:
            return None
        items = text.split(end)
        return items if items[-1] else items[:-1]
    if set("'\"\\\0") & set(text):
        return None
    if "replace" not in flags:
        return [word for word in _BLANKS.split(text) if word]
    lines = [line.lstrip(" \t") for line in text.split("\n")]
    return [line for line in lines if line]


def _file(run: Run, arguments: Arguments) -> tuple[Field, str | None]:
    """The file after -a, and its text where that is known."""
    effects = [e for e in run.command.effects if e.kind == "read"]
    values = [use.value for use in arguments.options if use.option.name == "arg-file"]
    if len(effects) != 1 or len(values) != 1 or values[0] is None:
        return spec_reader.implied(run.command, ""), None
    role = effects[0].role
    text = run.walk.scripts.settled(run.command, effects[0], values[0])
    effects[0].role = role
    return values[0], text


def _filled(word: Field, marker: str, item: str) -> Field:
    text = (word.text or "").replace(marker, item)
    return replace(word, text=text, prefix=text)


def _listed(run: Run, words: list[Field]) -> list[Field]:
    """The file names on the input, where they can't be split or joined wrongly."""
    flags = run.command.flags
    if "null" in flags:
        return name_lists.taken(run.context.stdin, "\0")
    # What runs may make names while others are still being found: one in which blanks stand would be split.
    if not flags <= _SPLITS or not run.command.flags_complete or not name_lists.makes_none(words):
        return []
    if "delimiter" in flags and run.command.options["delimiter"] != ["\\n"]:
        return []
    return name_lists.taken(run.context.stdin, "\n")


def _marker(command: SimpleCommand) -> str | None:
    """The text that -I or -i replaces, or None."""
    if not command.flags & {"replace", "replace-optional"}:
        return None
    value = (command.options.get("replace") or command.options.get("replace-optional") or [None])[-1]
    return value or "{}"


def _replaced(word: Field, marker: str, more: Field) -> Field:
    if word.text is None or marker not in word.text:
        return word
    return replace(more, word=replace(more.word, raw=word.word.raw), prefix=word.text.partition(marker)[0])
