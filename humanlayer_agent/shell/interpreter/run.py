"""One command in its place: what travels together while it is read, and how what it does is noted."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.field import PROCESS_SUBSTITUTION, Field
from humanlayer_agent.shell.interpreter.context import MAX_DEPTH, Context
from humanlayer_agent.shell.interpreter.state import EFFECT, WILDCARDS
from humanlayer_agent.shell.paths import absolute_path, split_pattern, takes_all, unescape
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.programs.operand_effects import host_of, port_of

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter
    from humanlayer_agent.shell.interpreter.state import State

_STREAMS = frozenset(
    {"/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/0", "/dev/fd/1", "/dev/fd/2", PROCESS_SUBSTITUTION}
)
_AUTHORITY = re.compile(r"(?:https?://)?[A-Za-z0-9.-]+(?::[0-9]+)?/", re.ASCII)
_TAKES = frozenset({"delete", "move", "metadata"})
_EDITORS = frozenset(str.split("black chmod dos2unix gofmt isort prettier ruff sed touch"))
"""Programs that change files, and leave them there with what they hold."""


class Run:
    """A command that runs: the analysis it is met in, what the shell knows then, and what stands around it.

    Its methods are the one place where a word becomes a path, a host, a package, a piece of code.

    Args:
        walk: the analysis.
        command: what is noted of the command.
        state: what the shell knows where it runs. Others share it: take `having` to change it for what follows.
        context: the constructs and wrappers around it, and its input.
    """

    __slots__ = ("command", "context", "state", "walk")

    def __init__(self, walk: "Interpreter", command: SimpleCommand, state: "State", context: Context) -> None:
        self.walk, self.command, self.state, self.context = walk, command, state, context

    def having(
        self,
        *,
        command: SimpleCommand | None = None,
        state: "State | None" = None,
        context: Context | None = None,
    ) -> "Run":
        """Return the same run with another command, with another state or in another context."""
        return Run(self.walk, command or self.command, state or self.state, context or self.context)

    def doubt(self, word: str) -> None:
        """Note that `word` keeps the command from being fully resolved."""
        self.command.doubt(word)

    def effect(
        self, kind: str, role: str, operand: str | None, resolved: bool, span: tuple[int, int], origin: str = "",
        source: str = "own", *, unread: bool = False, below: bool = False, pattern: str | None = None,
        recursive: bool = False, contents: bool = False, value: str | None = None, sure: bool = True,
    ) -> None:  # fmt: skip
        """Note an effect of the command."""
        self.walk.work.left -= EFFECT
        self.command.effects.append(
            Effect(
                kind, role, operand, resolved, span, origin, source,
                unread, below, pattern, recursive, contents, value, sure,
            )
        )  # fmt: skip

    def span(self, word: Field) -> tuple[int, int]:
        """Return where `word` stands in the action's own text."""
        return self.walk.span(word.start, word.end)

    def program(self, words: list[Field], wrapper: str | None = None) -> None:
        """Note what the program does that this command, a wrapper, starts with `words`: no shell looks it up.

        Args:
            words: the program's name and its arguments; none, and nothing is started.
            wrapper: what `via` calls this command, where that is not its own name.
        """
        if not words:
            return
        from humanlayer_agent.shell.interpreter import command_lookup

        command = self.command
        inner = self.context.deeper(via=(*self.context.via, wrapper or command.program or "?"))
        if inner.depth > MAX_DEPTH:
            self.walk.program.doubt("nested too deep")
            return
        command_lookup.run_words(self.walk, words, self.state, inner, command.span, command.text, shell=False)

    def path(
        self,
        kind: str,
        target: Field,
        *,
        role: str = "operand",
        origin: str = "",
        source: str = "own",
        recursive: bool = False,
    ) -> None:
        """Add a file effect of `kind` for every path that `target` may be, from every directory the shell may be in."""
        if (counted := _counted(kind, target)) is None:
            return
        target = counted
        span, text = self.span(target), target.text
        if text is not None and self.state.cwd is not None and len(self.state.cwd) == 1:
            stream = text in _STREAMS or (text == "-" and source == "own")
            if not stream or kind not in ("read", "list", "write", "append"):
                operand = text if text.startswith("/") else absolute_path(text, self.state.cwd[0])
                self.effect(kind, role, operand, True, span, origin, source, recursive=recursive)
            return

        def add(operand: str | None, resolved: bool, below: bool = False) -> None:
            self.effect(kind, role, operand, resolved, span, origin, source, below=below, recursive=recursive)

        texts = target.texts
        if texts:
            for text in texts:
                stream = text in _STREAMS or (text == "-" and source == "own")
                if stream and kind in ("read", "list", "write", "append"):
                    continue
                if text.startswith("/"):
                    add(text, True)
                elif self.state.cwd is None:
                    add(None, False)
                else:
                    for cwd in self.state.cwd:
                        add(absolute_path(text, cwd), True)
            return
        if target.glob is not None and self.walk.work.spend(WILDCARDS):
            for cwd in ("/",) if target.glob.startswith("/") else self.state.cwd or ():
                pattern = absolute_path(target.glob, cwd)
                base, safe = split_pattern(pattern)
                contents = target.pathname and takes_all(pattern)
                matched = pattern if safe else None
                self.effect(
                    kind, role, unescape(base), safe, span, origin, source,
                    pattern=matched, recursive=recursive, contents=contents,
                )  # fmt: skip
            if not target.glob.startswith("/") and self.state.cwd is None:
                add(None, False)
            return
        if target.below is not None and (target.seen_from is None or self.state.cwd == (target.seen_from,)):
            self._below(kind, target, add)
            return
        add(None, False)

    def _below(self, kind: str, target: Field, add: Callable[[str, bool, bool], None]) -> None:
        """Add the effects for the names that `target` may be, or for some path below its directory. To lose many files
        is more than to lose each of them.
        """
        directory = target.below or "/"
        if target.names and (kind in ("read", "list") or self.command.program in _EDITORS):
            for name in target.names:
                add(absolute_path(name, directory), True, False)
        else:
            add(directory, False, True)

    def script(
        self,
        word: Field,
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
        before = len(self.command.effects)
        self.path("execute", word, role="script", origin=origin)
        for effect in self.command.effects[before:]:
            effect.unread, effect.resolved = True, False
            self.walk.scripts.add(self.command, effect, word, self.state, language, arguments)

    def host(self, target: Field, *, kind: str = "network", origin: str = "", sure: bool = True) -> None:
        """Add a network effect for `target`: a URL, user@host, host:path or host:port."""
        span = self.span(target)
        for text in target.texts or (_authority(target),):
            name = None if text is None else host_of(text)
            port = None if text is None or name is None else port_of(text)
            self.effect(kind, "operand", name, name is not None, span, origin, value=port, sure=sure)

    def code(
        self,
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
        span = self.span(target) if target is not None else self.command.span
        self.effect("execute", role, what, resolved, span, origin, source, unread=unread)

    def plain(self, kind: str, target: Field, *, origin: str) -> None:
        """Add an effect whose operand is the text itself: a package, a process, a variable."""
        span = self.span(target)
        for text in target.texts or (None,):
            self.effect(kind, "operand", text, text is not None, span, origin)

    def printed(self, name: str | None, target: Field | None, *, origin: str) -> None:
        """Note that the value of a variable (or of all: "environment") is printed: secrets are kept there."""
        span = self.span(target) if target is not None else self.command.span
        self.effect("environment", "printed", name, name is not None, span, origin)


def _counted(kind: str, target: Field) -> Field | None:
    """A word with wildcards as the names that it stands for, where they are known; None where another word counts for
    it. To lose all that is in a folder is more than to lose each of the names.
    """
    if target.whole is None and not target.listed:
        return target
    if kind not in _TAKES:
        return replace(target, glob=None, choices=target.listed) if target.listed else target
    if target.listed:
        return target if takes_all(target.glob or "") else replace(target, glob=None, choices=target.listed)
    return replace(target, text=None, glob=target.whole, pathname=True) if target.whole else None


def _authority(target: Field) -> str | None:
    """The beginning of a URL up to its path, where it is known: `localhost:8000/x?a=b` has wildcards behind it."""
    found = _AUTHORITY.match(target.prefix) if target.glob is not None and not target.many else None
    return found[0] if found is not None else None
