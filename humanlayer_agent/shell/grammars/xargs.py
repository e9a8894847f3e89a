"""xargs: runs a command with words that it reads from its input.

Where `find -print0` feeds `xargs -0`, those words are paths that find may find; else they are unknown: without NUL
between them, a file name with blanks in it becomes several words.
"""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.arguments import Arguments, read_arguments
from humanlayer_agent.shell.catalog.spec import Spec
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.state import State
from humanlayer_agent.shell.syntax import Word
from humanlayer_agent.shell.words import Field

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk
    from humanlayer_agent.shell.context import Context

MAX_TEXT = 32_768
"""Longest file of words; xargs splits a longer one among several commands."""
_TOGETHER = frozenset({"arg-file", "null", "no-run-if-empty", "verbose", "interactive", "open-tty"})
"""Options with which all words go to one command."""
_BLANKS = re.compile(r"[ \t\n]+")


def read(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """Note the command that xargs runs, with unknown words after (or, with -I, in place of) its own."""
    from humanlayer_agent.shell import invoke

    arguments = read_arguments(spec, fields)
    invoke.note_options(walk, spec, command, arguments, state, context)
    words = list(arguments.operands)
    if not words:
        return  # echo
    inner = context.deeper(via=(*context.via, "xargs"))
    if inner.depth > 24:
        walk.program.doubt("nested too deep")
        return
    given = _given(walk, command, arguments)
    if given is not None:
        invoke.run(walk, [*words, *given], state, inner, command.span, command.text, shell=False)
        return
    marker = _marker(command)
    shown = Word("{}", None, *command.span, dynamic=True)
    more = Field(shown, *command.span, many=marker is None)
    listed = _listed(command, context)
    words = [*words, *(listed or [more])] if marker is None else [_replaced(w, marker, more) for w in words]
    invoke.run(walk, words, state, inner, command.span, command.text, shell=False)


def _given(walk: "Walk", command: SimpleCommand, arguments: Arguments) -> list[Field] | None:
    """The words in the file after -a, where they all go to one command; None where that is not known."""
    if not command.flags <= _TOGETHER or "arg-file" not in command.flags or not command.flags_complete:
        return None
    effects = [e for e in command.effects if e.kind == "read"]
    values = [use.value for use in arguments.options if use.option.name == "arg-file"]
    if len(effects) != 1 or len(values) != 1 or values[0] is None:
        return None
    role = effects[0].role
    text = walk.scripts.settled(command, effects[0], values[0])
    effects[0].role = role
    if text is None or len(text) > MAX_TEXT or ("null" not in command.flags and set("'\"\\") & set(text)):
        return None
    words = text.removesuffix("\0").split("\0") if "null" in command.flags else _BLANKS.split(text)
    if "null" in command.flags and not text:
        words = []
    return [replace(values[0], text=word, prefix=word) for word in words if word or "null" in command.flags]


def _listed(command: SimpleCommand, context: "Context") -> list[Field]:
    """The file names on the input, where they can't be split or joined wrongly: NUL on both sides."""
    producer = context.stdin.producer
    if "null" not in command.flags or len(producer) != 1:
        return []
    return [replace(f, many=False) for f in producer[0].prints]


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
