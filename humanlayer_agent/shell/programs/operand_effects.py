"""Turns an operand into effects: the one place where a word becomes a path, a host, a package, a piece of code."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.field import PROCESS_SUBSTITUTION, Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.paths import absolute_path, split_pattern, takes_all, unescape
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.syntax.tree import ProcSub

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
    from humanlayer_agent.shell.interpreter.context import Context

_OPEN = re.compile(r"(?:/dev/fd|/proc/self/fd|/proc/thread-self/fd)/([0-9]+)", re.ASCII)
"""What is open in the process that looks: `<< EOF` and the like put texts there."""
_STREAMS = frozenset(
    {"/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/0", "/dev/fd/1", "/dev/fd/2", PROCESS_SUBSTITUTION}
)


def path(
    walk: "Walk",
    command: SimpleCommand,
    kind: str,
    target: Field,
    state: State,
    *,
    role: str = "operand",
    origin: str = "",
    source: str = "own",
    recursive: bool = False,
) -> None:
    """Add a file effect of `kind` for every path that `target` may be, from every directory the shell may be in."""
    span, text = walk.span(target.start, target.end), target.text
    if text is not None and state.cwd is not None and len(state.cwd) == 1:
        stream = text in _STREAMS or (text == "-" and source == "own")
        if not stream or kind not in ("read", "list", "write", "append"):
            operand = text if text.startswith("/") else absolute_path(text, state.cwd[0])
            command.effects.append(
                Effect(kind, role, operand, True, span, origin, source, False, False, None, recursive)
            )
        return

    def add(operand: str | None, resolved: bool, below: bool = False) -> None:
        command.effects.append(
            Effect(kind, role, operand, resolved, span, origin, source, False, below, None, recursive)
        )

    texts = target.texts
    if texts:
        for text in texts:
            stream = text in _STREAMS or (text == "-" and source == "own")
            if stream and kind in ("read", "list", "write", "append"):
                continue
            if text.startswith("/"):
                add(text, True)
            elif state.cwd is None:
                add(None, False)
            else:
                for cwd in state.cwd:
                    add(absolute_path(text, cwd), True)
        return
    if target.glob is not None:
        for cwd in ("/",) if target.glob.startswith("/") else state.cwd or ():
            pattern = absolute_path(target.glob, cwd)
            base, safe = split_pattern(pattern)
            contents = target.pathname and takes_all(pattern)
            matched = pattern if safe else None
            command.effects.append(
                Effect(
                    kind, role, unescape(base), safe, span, origin, source,
                    pattern=matched, recursive=recursive, contents=contents,
                )
            )  # fmt: skip
        if not target.glob.startswith("/") and state.cwd is None:
            add(None, False)
        return
    if target.below is not None:
        add(target.below, False, True)
        return
    add(None, False)


def script(
    walk: "Walk",
    command: SimpleCommand,
    word: Field,
    state: State,
    origin: str,
    *,
    language: str | None = None,
    arguments: Sequence[Field] | None = None,
) -> None:
    """A file that is executed: what it does stands in it.

    Args:
        language: that of the program which runs it; None: its first line tells, "" that nothing does.
        arguments: the words it is given, None where they are not known.
    """
    before = len(command.effects)
    path(walk, command, "execute", word, state, role="script", origin=origin)
    for effect in command.effects[before:]:
        effect.unread, effect.resolved = True, False
        walk.scripts.add(command, effect, word, state, language, arguments)


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


def host(walk: "Walk", command: SimpleCommand, target: Field, *, kind: str = "network", origin: str = "") -> None:
    """Add a network effect for `target`: a URL, user@host, host:path or host:port."""
    span = walk.span(target.start, target.end)
    for text in target.texts or (None,):
        name = None if text is None else host_of(text)
        command.effects.append(Effect(kind, "operand", name, name is not None, span, origin))


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


def code(
    walk: "Walk",
    command: SimpleCommand,
    target: Field | None,
    *,
    what: str | None,
    role: str,
    origin: str,
    resolved: bool = False,
    unread: bool = True,
    source: str = "own",
) -> None:
    """Add an execute effect: code that this command runs."""
    span = walk.span(target.start, target.end) if target is not None else command.span
    command.effects.append(Effect("execute", role, what, resolved, span, origin, source, unread=unread))


def plain(walk: "Walk", command: SimpleCommand, kind: str, target: Field, *, origin: str) -> None:
    """Add an effect whose operand is the text itself: a package, a process, a variable."""
    span = walk.span(target.start, target.end)
    for text in target.texts or (None,):
        command.effects.append(Effect(kind, "operand", text, text is not None, span, origin))


def printed(walk: "Walk", command: SimpleCommand, name: str | None, target: Field | None, *, origin: str) -> None:
    """Note that the value of a variable (or of all: "environment") is printed: secrets are kept there."""
    span = walk.span(target.start, target.end) if target is not None else command.span
    command.effects.append(Effect("environment", "printed", name, name is not None, span, origin))
