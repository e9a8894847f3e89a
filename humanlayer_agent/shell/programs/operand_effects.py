"""Reads what an operand names: the host in it, and the text that can be read from it."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.syntax.tree import ProcSub, Word

if TYPE_CHECKING:
    from humanlayer_agent.shell.interpreter.context import Context, Stdin
    from humanlayer_agent.shell.interpreter.run import Run

_OPEN = re.compile(r"(?:/dev/fd|/proc/self/fd|/proc/thread-self/fd)/([0-9]+)", re.ASCII)
"""What is open in the process that looks: `<< EOF` and the like put texts there."""
_REPEATS = frozenset({"parallel", "watch"})
"""Wrappers that may start a program several times: the second one goes on in the middle of the file."""
_PORT = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]+):([0-9]{1,5})", re.ASCII)
_PORTS = {"http": "80", "ws": "80", "https": "443", "wss": "443", "ftp": "21", "ssh": "22", "git": "9418"}


def descriptor_text(target: Field, state: State, context: "Context") -> str | None:
    """What can be read from `target` where it is `<( )` or an open descriptor (`/dev/fd/5`); None: not known."""
    if any(isinstance(p, ProcSub) for p in target.word.parts):
        from humanlayer_agent.shell.expansion import output, words

        text = output.of_process(target.word, state, words.expand)
        return None if text is None or "\0" in text else text
    if target.text == "/dev/stdin":
        return context.stdin.text
    found = _OPEN.fullmatch(target.text or "")
    number = found[1].lstrip("0") if found is not None else None
    if number is None:
        return None
    return context.stdin.text if not number else next((i.text for fd, i in context.descriptors if fd == number), None)


def input_text(run: "Run", origin: str) -> str | None:
    """The text of the file that a program runs as it reads it from its standard input, which is noted as an effect;
    None where it is no file, or one that is not known.
    """
    path = _input_file(run.context.stdin)
    if not path or _REPEATS & {*run.context.via}:
        return None
    span = run.command.span
    word = Field(Word(run.command.text, path, *span), *span, text=path, prefix=path)
    before = len(run.command.effects)
    run.path("execute", word, role="script", origin=origin)
    for effect in run.command.effects[before:]:
        text = run.walk.scripts.settled(run.command, effect, word)
        if text is not None and "\0" not in text:
            return text
        del run.command.effects[before:]
    return None


def _input_file(stdin: "Stdin") -> str:
    """The file that is all of the input: `sh < f`, `cat f | sh`; "" where there is none, or more."""
    if stdin.file or len(stdin.producer) != 1:
        return stdin.file
    (cat,) = stdin.producer
    reads = [effect for effect in cat.effects if effect.kind == "read"]
    if cat.program != "cat" or cat.flags or cat.via or not cat.resolved or len(cat.operands) != 1 or len(reads) != 1:
        return ""
    only = reads[0].resolved and not reads[0].below and reads[0].pattern is None and reads[0].source == "own"
    return (reads[0].operand or "") if only else ""


def host_of(text: str) -> str | None:
    """The host in a URL, `user@host:path` or `host:port`; None where there is none to be found."""
    try:
        if "://" in text:
            from urllib.parse import urlsplit

            parsed = urlsplit(text)
            return parsed.hostname.lower() if parsed.hostname else ("localhost" if parsed.scheme == "file" else None)
        rest = text.rpartition("@")[2]
        if rest.startswith("["):
            return rest[1:].partition("]")[0].lower() or None
        name = rest.partition("/")[0].partition(":")[0].lower()
    except ValueError:
        return None
    return name if name and not any(c in name for c in "{}[]*$`\\ ") else None


def port_of(text: str) -> str | None:
    """The port in a URL (that of its scheme where none is written) or `host:port`; None where there is none."""
    try:
        if "://" in text:
            from urllib.parse import urlsplit

            parsed = urlsplit(text)
            return str(parsed.port) if parsed.port else _PORTS.get(parsed.scheme.lower())
    except ValueError:
        return None
    found = _PORT.fullmatch(text.rpartition("@")[2].partition("/")[0])
    return found[1] if found is not None else None


MAX_WORDS = 500
"""Most words that a file of arguments may have."""


def with_argument_files(run: "Run", form: str, fields: Sequence[Field]) -> Sequence[Field]:
    """Return the words with those of files of arguments (`mypy @args.txt`) in place of their names. A file is read that
    the action does not write, and that names no further one; with any other the command is in doubt.

    Args:
        form: how words stand in such a file: see `spec.ARGUMENT_FILES`.
        fields: the words after the program's name.
    """
    if not any(_names_words(word) for word in fields):
        return fields
    out: list[Field] = []
    for word in fields:
        if not _names_words(word):
            out.append(word)
            continue
        words = _words_of(run, form, word)
        if words is None:
            run.code(word, what=word.text, role="setting", origin="file of arguments")
            run.doubt(word.word.raw)
        else:
            out += [replace(word, text=text, prefix=text) for text in words]
    return out


def _names_words(word: Field) -> bool:
    """Is it, or may it be, the name of a file of arguments? An @ alone is an operand."""
    texts = word.texts or (word.prefix,)
    return any(text[:1] == "@" and text != "@" for text in texts) or (not word.texts and word.prefix == "@")


def _words_of(run: "Run", form: str, word: Field) -> list[str] | None:
    """The words of the file that `word` names; None where they are not known."""
    if word.text is None:
        return None
    before = len(run.command.effects)
    run.path("read", word.tail(1), role="option", origin="file of arguments")
    found = run.command.effects[before:]
    text = run.walk.scripts.settled(run.command, found[0], word) if len(found) == 1 else None
    if text is None:
        return None
    try:
        words = text.splitlines() if form == "lines" else shlex.split(text)
    except ValueError:
        return None
    further = any(each[:1] == "@" for each in words)
    return None if further or len(words) > MAX_WORDS or "\0" in text else words
