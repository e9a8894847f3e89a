"""The program in a text: every simple command that can run, and the effects of each.

Effects: what a simple command does to files, hosts, processes and the system, as far as can be proven.
"""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from humanlayer_agent.shell.expansion.field import Field

if TYPE_CHECKING:
    from humanlayer_agent.shell.script_files.file_texts import Written

EffectKind = Literal[
    "read", "write", "append", "delete", "move", "metadata", "execute", "network", "listen", "privilege",
    "persist", "environment", "process", "package", "vcs-rewrite", "container", "system",
    "database",
]  # fmt: skip
EFFECT_KINDS: tuple[str, ...] = get_args(EffectKind)

WRITERS = frozenset({"tee", "sed", "patch", "git"})
"""Programs whose own operands are files that they write a text to which may be known."""

ONCE = frozenset(
    str.split(
        "bash builtin command dash doas env eval exec ionice nice nohup runuser setsid sh stdbuf su sudo time timeout "
        "zsh"
    )
)
"""Wrappers that run a command once."""

WRITTEN = "written"
"""Stands in `SimpleCommand.inside` for code that an action writes to a file, and that it is not seen to run."""

_LINE_OF_CODE = re.compile(r" line \d+: ")
"""Stands in the origin of effects that program text has."""

_MANY = 200
"""Beyond so many words that are not known, one may be noted twice: to look for it takes longer than to tell it."""

VERSION = "version"
"""The role of the effects by which git gives a file the content of another version, or removes it as there. Their
`value` says which content, as far as that is known, and their `origin` whose."""

LOSS = "loss"
"""The role of the effects that throw away work which git has nowhere else. Their operand says which, for people."""


def code_name(path: str, text: str, language: str, cwd: Sequence[str] | None) -> str:
    """Return a name (hex) for a text as code in a language at a path that runs in one of these directories:
    elsewhere it may do something else.
    """
    from hashlib import sha256

    here = None if cwd is None else sorted(cwd)
    return sha256(f"{language}\0{path}\0{here}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()


ParseStatus = Literal["ok", "partial", "failed"]


@dataclass(slots=True, eq=False)
class Effect:
    """One thing a simple command does.

    Args:
        kind: one of `EFFECT_KINDS`.
        role: in which slot the operand stands (`operand`, `redirect`, `target` ...).
        operand: what it is done to: an absolute path for the file kinds, a host for network, a program, module or piece
            of code for execute, a variable name for environment, a table or a statement for database; None where
            nothing is known about it.
        resolved: False where the operand, or that there is only this one, can't be proven.
        span: where it stands in the text, from and to, in code points.
        origin: where the effect comes from ("rm operand 1", "> redirect").
        source: "own" where it is the command's own options and operands; "redirect", "assignment" or "wrapper".
        unread: it is code that nobody could read.
        below: not resolved, and every possible path lies below `operand`.
        pattern: the absolute glob the path matches, where it comes from one (`operand` is then the directory before its
            first component with a wildcard).
        recursive: everything below the operand is touched as well; of a host: more is asked for than is written.
        contents: so is everything (or everything hidden) directly in it, by a pattern such as `dir/*`.
        value: what a variable is set to, all entries that it may get, separated by colons; the port of a host; what
            people call a database; what a program was built from. None where that is not known.
        sure: False where the code that has it also says how it never comes to it: a stand-in takes its place.

    Example:
        >>> from humanlayer_agent.shell import analyse
        >>> effect = analyse("echo x > $OUT/log", cwd="/srv").commands[0].effects[-1]
        >>> effect.kind, effect.operand, effect.resolved
        ('write', None, False)
    """

    kind: str
    role: str
    operand: str | None
    resolved: bool
    span: tuple[int, int]
    origin: str = ""
    source: str = "own"
    unread: bool = False
    below: bool = False
    pattern: str | None = None
    recursive: bool = False
    contents: bool = False
    value: str | None = None
    sure: bool = True

    @property
    def in_code(self) -> bool:
        """Tell whether program text has it: it may do so in a loop, or not at all."""
        return _LINE_OF_CODE.search(self.origin) is not None

    def public(self) -> dict[str, object]:
        """The form that the machine interface prints (design: stable)."""
        shown = self.pattern or self.operand
        if shown is not None and shown.startswith("/"):
            shown = posixpath.normpath(shown)
        return {
            "kind": self.kind,
            "role": self.role,
            "operand": shown,
            "resolved": self.resolved,
            "unread": self.unread,
            "span": list(self.span),
        }


@dataclass(slots=True, eq=False)
class SimpleCommand:
    """One simple command that can run, at any depth of nesting, after expansion.

    Args:
        program: the name as the catalog knows it ("rm" for /usr/bin/rm too), or None where it can't be known.
        argv: the words after expansion; a word whose value is not known stands as it was written.
        span: where it stands in the text, from and to, in code points.
        text: as it was written.
        via: the wrappers it runs under, outermost first.
        inside: the constructs around it.
        cwd: the directories it may run in; None where that is not known.
        path: the path by which it is called, where it is called by one.
        known: the catalog has the program.
        resolved: program, options and operands are all known to the catalog and certain.
        unresolved: the words (as written) that are not.
        subcommand: as `push` of git.
        flags: canonical option names; `flags_complete` is False where a word of unknown value may add others.
        operands: the words that are no options; None for one that is not known.
        options: the values of options by their canonical names.
        attributes: which account, cluster or place a service is asked in (profile, region, context ...): all values
            that it may have, None for one that is not known. Not there where the program has no such thing.
        verbs: what it asks of a service: see `spec.VERBS`; "unknown" where that is not known.
        effects: everything it does.

    Example:
        >>> from humanlayer_agent.shell import analyse
        >>> command = analyse("sudo rm -rf /srv/old", cwd="/").commands[-1]
        >>> command.program, command.via, sorted(command.flags)
        ('rm', ('sudo',), ['force', 'recursive'])
    """

    program: str | None
    argv: list[str]
    span: tuple[int, int]
    text: str
    via: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    cwd: tuple[str, ...] | None = None
    path: str | None = None
    known: bool = True
    resolved: bool = True
    unresolved: list[str] = field(default_factory=list)
    subcommand: str | None = None
    flags: set[str] = field(default_factory=set)
    flags_complete: bool = True
    operands: list[str | None] = field(default_factory=list)
    options: dict[str, list[str | None]] = field(default_factory=dict)
    attributes: dict[str, list[str | None]] = field(default_factory=dict)
    verbs: frozenset[str] = frozenset()
    effects: list[Effect] = field(default_factory=list)
    words: list[Field] = field(default_factory=list)
    """The words that `argv` shows, with what is known of each."""
    prints: list[Field] = field(default_factory=list)
    """Where its output is a list of file names: what they may be."""
    prints_end: str = "\0"
    """What each of these names ends with: NUL, or a newline where none of them is split at blanks."""

    listed: bool = False
    """Whether `operands` are all that there are, even where there are none."""

    uses: list[Effect] = field(default_factory=list)
    """The variables from outside whose values it uses, as effects (`environment`, `expanded`): most are harmless, so
    whoever judges it says which of them count."""

    moves: tuple[str, ...] | None = ()
    """The directories that code which it runs may change to; None where they are not known."""

    head: bool = False
    """Whether this is no command, but what the head of a loop or a `case` uses."""

    @property
    def places(self) -> tuple[str, ...] | None:
        """The directories that its code may be in; None where they are not known."""
        return None if self.cwd is None or self.moves is None else (*self.cwd, *self.moves)

    def doubt(self, word: str) -> None:
        """Record that `word` keeps this command from being fully resolved."""
        self.resolved = False
        if len(self.unresolved) >= _MANY or word not in self.unresolved:
            self.unresolved.append(word)


Step = tuple[str, object, int, int, int]
"""A construct that the analysis passed: its kind, its piece of the tree, and where in `Program.commands` its commands
begin, where those that its words run end, and where all end (see `dataflow`). Plain, because every command has one."""


@dataclass(slots=True, eq=False)
class Program:
    """Everything an action would run. `status` is ok, partial or failed; `reasons` say why it is not ok.

    When it failed, `commands` holds what could be seen anyway: enough for a deny, never for an allow.
    """

    commands: list[SimpleCommand]
    status: str = "ok"
    reasons: list[str] = field(default_factory=list)
    files: list[tuple[str, str]] = field(default_factory=list)
    """The files that were read because they are run, each with the SHA-256 (hex) of its bytes."""
    judged: set[str] = field(default_factory=set, repr=False)
    """The texts that were judged as code which may be loaded, by `code_name`."""
    trace: list[Step] = field(default_factory=list, repr=False)
    """The constructs that were passed, in the order in which they ended: what `dataflow` reads."""
    written: "Written | None" = field(default=None, repr=False)
    """The texts that it writes to files, as far as they are known."""

    def doubt(self, reason: str) -> None:
        """Note that the analysis is incomplete: `status` becomes partial (a human is asked)."""
        if self.status == "ok":
            self.status = "partial"
        if reason not in self.reasons:
            self.reasons.append(reason)
