"""Commands: what stands between words, turned into a skeleton that bashlex can be trusted with.

The skeleton is a line of reserved words, operators and inert words `W0`, `W1`, ...; each W stands for an entry
(a word, an assignment, a redirect, or a marker of ours). bashlex 0.18 drops or rejects some constructs, so they are
written in forms that it reads rightly, and `tree` restores them:

    newline                 ;  (or nothing, where a newline separates nothing)
    case x in a) b;; esac   { Case ; { Arm ; b ; } ; }
    elif c; then b          else Elif ; if c ; then b ... ; fi
    for ((..)); do          while ArithFor ; do
    for x; select x in a    for W in LoopHead W ; do
    [[ .. ]], (( .. ))      { Leaf ; }
    function f              W ( )
    time                    (nothing)
"""

from dataclasses import dataclass

from humanlayer_agent.shell.syntax.tree import ArithCommand, Assign, Redirect, Test, Word

# ---- what a W stands for --------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class FunctionName:
    """The name in a function definition."""

    word: Word


@dataclass(slots=True, eq=False)
class CaseHead:
    """`case subject in`."""

    subject: Word


@dataclass(slots=True, eq=False)
class Arm:
    """`pattern | pattern )`."""

    patterns: list[Word]


@dataclass(slots=True, eq=False)
class Elif:
    """Here an `elif` was written as `else` and `if`."""


@dataclass(slots=True, eq=False)
class ArithFor:
    """`for (( head ))`."""

    head: Word


@dataclass(slots=True, eq=False)
class LoopHead:
    """`for` or `select`; `listed` says that `in` is there."""

    kind: str
    listed: bool


Entry = Word | Assign | Redirect | FunctionName | CaseHead | Arm | Elif | ArithFor | LoopHead | Test | ArithCommand


class Skeleton:
    """The skeleton of one script, and what it stands for.

    Attributes:
        tokens: the text for bashlex, token by token.
        spans: where each token stands in the original, index by index.
        entries: what W0, W1, ... stand for.
    """

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.spans: list[tuple[int, int]] = []
        self.entries: list[Entry] = []

    def token(self, token: str, start: int, end: int) -> None:
        """Add a reserved word or operator that stands at [start, end) of the original."""
        self.tokens.append(token)
        self.spans.append((start, end))

    def entry(self, entry: Entry, start: int, end: int) -> None:
        """Add a W."""
        self.token(f"W{len(self.entries)}", start, end)
        self.entries.append(entry)

    def ended(self) -> bool:
        """Whether the last token ends a command, so that a newline after it separates."""
        last = self.tokens[-1] if self.tokens else ""
        return last[:1] == "W" or last in ("}", ")", "fi", "done")

    def separate(self, at: int) -> None:
        """Add a separator where a command has ended."""
        if self.ended():
            self.token(";", at, at)
