"""The behaviour of a piece of code (a Python script, a Makefile's recipe), before it is known where it runs.

The readers of languages give a Behaviour; `perform` turns it into the effects and commands of an action.
"""

from dataclasses import dataclass, field

MOST_STEPS = 1_000_000
"""More than any reader takes by itself to follow a program."""


@dataclass(frozen=True, slots=True)
class Text:
    """What a string in code may be: one of `choices`; else a path `below` a directory; else anything.

    `below` is absolute or relative to the working directory ("." is that itself); the path has no `..` beyond it.
    `prefix` is a known beginning of a text that is not known as a whole ("https://example.org/").
    """

    choices: tuple[str, ...] = ()
    below: str | None = None
    prefix: str = ""

    @classmethod
    def of(cls, *choices: str) -> "Text":
        """One of `choices`."""
        return cls(tuple(dict.fromkeys(choices)))

    @property
    def known(self) -> bool:
        return bool(self.choices)


UNKNOWN = Text()


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that code does.

    `kind` is a kind of effect, and `operands` then holds the one thing it is done to; or it is "shell" (a shell runs
    the text), "program" (a program is run: its words) or "python" (Python code is run in turn). `many`: "program" has
    further words that are not known. `cwd` is the directory that "shell" and "program" are run in, where it is given.
    `sure`: False where the code has a stand-in for it, so that it may never be done.
    `origin` names the function ("os.remove"), `line` the line of the code, from 1 (0: not known).
    """

    kind: str
    operands: tuple[Text, ...]
    role: str = "code"
    origin: str = ""
    line: int = 0
    recursive: bool = False
    many: bool = False
    cwd: Text | None = None
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Found:
    """What a file may hold when it is run: every content, () where there is no such file, None where nobody can tell.

    `project`: it is the project's own code; `texts` are then known or not.
    """

    texts: tuple[str, ...] | None = ()
    project: bool = False


NOT_THERE = Found()


@dataclass(slots=True, eq=False)
class Behaviour:
    """All that code does.

    `doubts` are sentences without a full stop that say what could not be told ("line 3: exec of a text that is not
    known"): whoever asks a human shows them. `directories` are those that the code may change to. `files` are those
    that it writes with a known text: what they do counts when they are run. `opaque`: nobody could read it at all.
    `unread`: what the doubts are about is code that nobody has read, and not a program or a function that nobody knows.
    `steady`: read again, the text does the same; `anywhere`: whatever its path and its words are. `steps`: what it took
    to follow it.
    """

    acts: list[Act] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    directories: list[Text] = field(default_factory=list)
    files: list[tuple[Text, str | None]] = field(default_factory=list)
    opaque: bool = False
    unread: bool = False
    steady: bool = False
    anywhere: bool = False
    steps: int = 0

    def doubt(self, reason: str) -> None:
        """Something here can't be told."""
        if reason not in self.doubts:
            self.doubts.append(reason)


def too_much() -> Behaviour:
    """Return what is said of code that nobody reads: for the action more was read than one decision may cost."""
    found = Behaviour(opaque=True)
    found.doubt("there is more code than one decision reads")
    return found
