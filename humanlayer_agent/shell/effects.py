"""Effects: what a simple command does to files, hosts, processes and the system, as far as can be proven."""

import posixpath
from dataclasses import dataclass
from typing import Literal, get_args

EffectKind = Literal[
    "read", "write", "append", "delete", "move", "metadata", "execute", "network", "listen", "privilege",
    "persist", "environment", "process", "package", "vcs-rewrite", "container", "system",
]  # fmt: skip
EFFECT_KINDS: tuple[str, ...] = get_args(EffectKind)

WRITERS = frozenset({"tee", "sed", "patch", "git"})
"""Programs whose own operands are files that they write a text to which may be known."""

ParseStatus = Literal["ok", "partial", "failed"]


@dataclass(slots=True, eq=False)
class Effect:
    """One thing a simple command does.

    `operand` is what it is done to: an absolute path for the file kinds, a host for network, a program, module
    or piece of code for execute, a variable name for environment; None where nothing is known about it.
    `resolved` is False where the operand, or that there is only this one, can't be proven. For an unresolved path
    `operand` may still hold a directory that every possible path lies below (`below` is then True).
    `pattern` is the absolute glob the path matches, where it comes from one (`operand` is then the directory before its
    first component with a wildcard). `recursive`: everything below the operand is touched as well. `contents`: so is
    everything (or everything hidden) directly in it, by a pattern such as `dir/*`. `unread` marks code
    that nobody could read. `value`: what a variable is set to, all entries that it may get, separated by colons; None
    where that is not known. `origin` says where the effect comes from ("rm operand 1", "> redirect"); `source` is "own"
    where it is the command's own options and operands, "redirect", "assignment", "wrapper" otherwise.
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
