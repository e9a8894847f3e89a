"""Remembers what programs with literal words do, so that the same command is not read anew.

Only a command whose reading has looked at nothing but its words and the directory is kept: it is read with stand-ins
for everything else, which have no other attributes, so the first look elsewhere ends the attempt. What is remembered is
found by the command's text, where it stands and where it runs: those say all that went in. Code is found by its text,
and by its path and its words where its reader has looked at them; of a shell script the tree is kept. Scripts are first
written, then run several times.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, cast

from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.context import Context
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.syntax.parse import Parse

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk
    from humanlayer_agent.shell.languages.behaviour import Behaviour

MAX_ENTRIES = 8_192
MAX_TEXT = 500
MAX_PROGRAMS = 1_024
MAX_WIDER = 4
MAX_CODE = 4_000_000
"""Most characters of code that are kept; a tree counts as TREE times its text."""
TREE = 20
MAX_ACTS = 500

Key = tuple[str, int, tuple[str, ...] | None, tuple[str, ...], tuple[str, ...]]
"""The text and where it begins; the directories it may run in; the wrappers and constructs around it."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Stands in for a State."""

    cwd: tuple[str, ...] | None


class _Spans:
    """Stands in for the Walk, and for a Context."""

    __slots__ = ()

    @staticmethod
    def span(start: int, end: int) -> tuple[int, int]:
        """See `Walk.span`."""
        return start, end


_SPANS = _Spans()


def stand_ins(
    cwd: tuple[str, ...] | None, command: SimpleCommand
) -> "tuple[Walk, SimpleCommand, list[Field], State, Context]":
    """What `command` is read with: an AttributeError says that it depends on more."""
    return cast("Walk", _SPANS), command, command.words, cast(State, _Place(cwd)), cast(Context, _SPANS)


class Remembered:
    """Commands that were read before; the oldest go first. Thread-safe: reading takes no lock."""

    def __init__(self, size: int = MAX_ENTRIES) -> None:
        self._wider: dict[str, int] = {}
        """How many more commands of a program have depended on more than have not."""
        self._size = size
        self._commands: dict[Key, SimpleCommand | None] = {}
        self._code: dict[tuple[str, Hashable], Behaviour] = {}
        self._trees: dict[str, Parse] = {}
        self._code_size = self._trees_size = 0
        self._lock = Lock()

    def get(self, key: Key) -> SimpleCommand | None:
        """The command as it was read, to be changed freely."""
        found = self._commands.get(key)
        return _again(found) if found is not None else None

    def worth_it(self, program: str, key: Key) -> bool:
        """Is it worth while to find out whether the command can be kept?

        It must have been asked for before: most never are, and to remember them would only cost time. And commands of
        the program must not mostly depend on more.
        """
        if self._wider.get(program, 0) >= MAX_WIDER:
            return False
        if key in self._commands:
            return True
        if len(key[0]) <= MAX_TEXT:
            self._keep(key, None)
        return False

    def put(self, program: str, key: Key, command: SimpleCommand | None) -> None:
        """Remember `command`, as it is now. None: it depends on more."""
        if len(self._wider) >= MAX_PROGRAMS:
            self._wider.clear()
        self._wider[program] = self._wider.get(program, 0) + (1 if command is None else -1)
        if command is not None and len(command.effects) <= MAX_TEXT:
            self._keep(key, _again(command))

    def code(self, language: str, text: str, place: Hashable) -> "Behaviour | None":
        """What the code `text` does at `place`: its path and its words."""
        found = self._code.get((text, language)) or self._code.get((text, (language, place)))
        return _same(found) if found is not None else None

    def put_code(self, language: str, text: str, place: Hashable, found: "Behaviour") -> None:
        """Remember what `text` does."""
        if not found.steady or len(found.acts) + len(found.files) + len(found.doubts) > MAX_ACTS:
            return
        key = text, language if found.anywhere else (language, place)
        with self._lock:
            if key not in self._code:
                self._code[key] = _same(found)
                self._code_size += len(text)
            while self._code_size > MAX_CODE:
                oldest = next(iter(self._code))
                self._code_size -= len(oldest[0])
                del self._code[oldest]

    def tree(self, text: str) -> Parse | None:
        """The tree of a shell script, which is never changed."""
        return self._trees.get(text)

    def put_tree(self, text: str, parsed: Parse) -> None:
        """Remember the tree of `text`, if nothing stood in its way: what did may be gone the next time."""
        if parsed.status != "ok":
            return
        with self._lock:
            if text not in self._trees:
                self._trees[text] = parsed
                self._trees_size += TREE * len(text)
            while self._trees_size > MAX_CODE:
                oldest = next(iter(self._trees))
                self._trees_size -= TREE * len(oldest)
                del self._trees[oldest]

    def _keep(self, key: Key, command: SimpleCommand | None) -> None:
        with self._lock:
            self._commands[key] = command
            if len(self._commands) > self._size:
                del self._commands[next(iter(self._commands))]


def _again(command: SimpleCommand) -> SimpleCommand:
    # Effects and doubts are added to a command after it was read; nothing else of it changes then.
    return SimpleCommand(
        command.program,
        command.argv,
        command.span,
        command.text,
        command.via,
        command.inside,
        command.cwd,
        command.path,
        command.known,
        command.resolved,
        [*command.unresolved],
        command.subcommand,
        command.flags,
        command.flags_complete,
        command.operands,
        command.options,
        [*command.effects],
        command.words,
        command.prints,
        command.listed,
        [*command.uses],
    )


def _same(found: "Behaviour") -> "Behaviour":
    lists = [*found.acts], [*found.doubts], [*found.directories], [*found.files]
    from humanlayer_agent.shell.languages.behaviour import Behaviour

    return Behaviour(*lists, found.opaque, found.steady, found.anywhere)
