"""The context of a command: constructs around it, wrappers, nesting, standard input."""

from dataclasses import dataclass, replace

from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import SimpleCommand

Ends = tuple[State | None, State | None]
"""The states after a command that succeeded and after one that failed; None where it can't end so."""

MAX_DEPTH = 24
MAX_FOLLOWED = 32
"""Most rounds of loops that are followed one by one in one analysis."""


@dataclass(frozen=True, slots=True)
class Stdin:
    """Where a command's standard input comes from: nothing special, a pipe, or a text (None: not known).

    `raw` is the text where it holds NUL, which few programs can do with; `whole` what several commands read together;
    `file` the absolute path of what is read from its beginning, where it is a file with a name that is known.
    """

    kind: str = "inherit"
    text: str | None = None
    offset: int = 0
    producer: tuple[SimpleCommand, ...] = ()
    raw: str | None = None
    whole: str | None = None
    file: str = ""
    names_of: tuple[SimpleCommand, ...] = ()
    """What prints the names that a loop reads, where nothing that runs meanwhile makes others."""

    @classmethod
    def of(cls, kind: str, text: str | None, offset: int = 0, producer: tuple[SimpleCommand, ...] = ()) -> "Stdin":
        """An input of this `kind` that gives `text`, in which NUL may be."""
        if text is not None and "\0" in text:
            return cls(kind, None, offset, producer, text)
        return cls(kind, text, offset, producer)

    @property
    def given(self) -> str | None:
        """The text, in which NUL may be."""
        return self.text if self.text is not None else self.raw

    def shared(self) -> "Stdin":
        """The same input for several commands: each gets what those before it left, or put there (`exec < f`)."""
        if self is NOTHING_SPECIAL:
            return self
        kind = "inherit" if self.kind == "null" else self.kind
        return Stdin(kind, whole=self.given or self.whole, names_of=self.names_of)


NOTHING_SPECIAL = Stdin()


@dataclass(frozen=True, slots=True)
class Context:
    """`inside` are the constructs around, `via` the wrappers, `calls` the functions being called."""

    inside: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    depth: int = 0
    stdin: Stdin = NOTHING_SPECIAL
    calls: tuple[str, ...] = ()
    descriptors: tuple[tuple[str, Stdin], ...] = ()
    """Other descriptors ("5") that this command alone was given, where their text is known."""

    def within(self, construct: str) -> "Context":
        """Inside `construct`, whose standard input is nothing special."""
        return Context((*self.inside, construct), self.via, self.depth, NOTHING_SPECIAL, self.calls)

    def around(self, construct: str) -> "Context":
        """Inside `construct`, with the same standard input."""
        return Context((*self.inside, construct), self.via, self.depth, self.stdin, self.calls)

    def fed(self, stdin: Stdin) -> "Context":
        """With this standard input."""
        if stdin is self.stdin:
            return self
        return Context(self.inside, self.via, self.depth, stdin, self.calls, self.descriptors)

    def deeper(self, **changes: object) -> "Context":
        """One level deeper; every recursion that is not the tree's own goes through here."""
        return replace(self, depth=self.depth + 1, **changes)  # type: ignore[arg-type]
