"""A command line that is going to be rewritten: its parse, and what the transformations ask about it."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.shell import Program, analyse, parse, syntax_tree, unportable

Edit = tuple[int, int, str]
"""[start, end) of the text, and what comes in its place."""

BUILTINS = frozenset(
    [
        ".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete",
        "compopt", "continue", "declare", "dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export",
        "false", "fc", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "local", "logout", "mapfile",
        "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift", "shopt", "source",
        "suspend", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
    ]
)  # fmt: skip
"""What bash runs by itself (`compgen -b`, bash 5.2)."""

DECLARERS = frozenset({"declare", "typeset", "local", "export", "readonly"})
"""Builtins whose arguments bash expands as assignments, as long as their name is written plainly."""

# Parameters that another shell, a function or another place has other values of.
_OWN_PARAMETERS = re.compile(r"\$\{?[0-9@*#?$!_-]|PPID|BASH|SHLVL|FUNCNAME|LINENO|RANDOM|PIPESTATUS|DIRSTACK")
# Also where they are not written as a command's name: in a variable, or in a text for another shell.
_BASH_ONLY = re.compile(
    r"\b(builtin|declare|typeset|let|shopt|source|pushd|popd|mapfile|readarray|enable|local|read|eval|trap)\b"
    r"|;&|;;&|~\+|exec -a|export -f|(^|[\s;&|({])\.\s"
)
_DESCRIPTOR = re.compile(r"[<>]&?\s*3|3[<>]|\bexec\b")


@dataclass(frozen=True)
class Line:
    """A command line that parses without doubt. `cwd` and `home` are absolute directories."""

    text: str
    script: syntax_tree.Script
    cwd: str
    home: str

    @classmethod
    def read(cls, text: str, *, cwd: str, home: str) -> "Line | None":
        """The line, or None where there is nothing in it, or it can't be parsed for certain.

        Example:
            >>> Line.read("ls -l", cwd="/srv", home="/root").single.words[0].text
            'ls'
        """
        parsed = parse(text)
        if parsed.status != "ok" or parsed.script is None or parsed.script.body is None:
            return None
        return cls(text, parsed.script, cwd, home)

    @cached_property
    def commands(self) -> list[syntax_tree.Simple]:
        """The simple commands that stand in the line itself, not in a substitution."""
        assert self.script.body is not None
        return list(_simples(self.script.body))

    @cached_property
    def single(self) -> syntax_tree.Simple | None:
        """The simple command that is the whole line, or None. It has words."""
        body = self.script.body
        whole = isinstance(body, syntax_tree.Simple) and self.text.strip(" \t") == self.of(body)
        return body if isinstance(body, syntax_tree.Simple) and body.words and whole else None

    @cached_property
    def inline(self) -> bool:
        """Whether it is one line after which something may follow: no comment, no here-document, no `;` at the end."""
        body, text = self.script.body, self.text.rstrip(" \t")
        assert body is not None
        background = isinstance(body, syntax_tree.Sequence) and len(body.ops) == len(body.parts)
        here_document = "<<" in text.replace("<<<", "")
        return "\n" not in text and body.end == len(text) and not background and not here_document

    @cached_property
    def detached(self) -> bool:
        """Whether another shell, or a function, would expand it in the same way."""
        return _OWN_PARAMETERS.search(self.text) is None

    @cached_property
    def portable(self) -> bool:
        """Whether a POSIX shell reads it as bash does."""
        plain = "\\" not in self.text and _BASH_ONLY.search(self.text) is None
        return plain and not self.functions and unportable(self.script) is None

    @cached_property
    def echoed(self) -> bool:
        """Whether `echo` prints it as it is."""
        return not self.text.startswith("-") and "\\" not in self.text

    @cached_property
    def ascii(self) -> bool:
        return self.text.isascii()

    @cached_property
    def seen(self) -> bool:
        """Whether find leaves it as it is, as an argument of what it runs."""
        return "{}" not in self.text

    @cached_property
    def enclosable(self) -> bool:
        """Whether a substitution may hold it, and lead its output elsewhere by descriptor 3.

        bash 5.2 runs a substitution from its own print of it, in which here-documents and the backslashes of arrays are
        wrong.
        """
        misprinted = "<<" in self.text.replace("<<<", "") or ("=(" in self.text and "\\" in self.text)
        return not misprinted and self.untrapped and _DESCRIPTOR.search(self.text) is None

    @cached_property
    def untrapped(self) -> bool:
        """Whether it sets no trap, which would run later, or somewhere else."""
        return "trap" not in self.text and not any(each.program == "trap" for each in self.program.commands)

    @cached_property
    def unescaped(self) -> bool:
        """Whether it stays as it is inside backquotes, and in a string of another language."""
        return not any(c in self.text for c in '\\`"\n')

    @cached_property
    def unfed(self) -> bool:
        """Whether no code that it runs comes from its standard input: another input would be other code."""
        return not any(e.role == "stdin" for command in self.program.commands for e in command.effects)

    @cached_property
    def functions(self) -> bool:
        """Whether it defines functions, so that a name may stand for one."""
        return any(isinstance(node, syntax_tree.Function) for node in _nodes(self.script.body))

    @cached_property
    def program(self) -> Program:
        """What the line does, as far as it can be told."""
        return analyse(self.text, cwd=self.cwd, environ={"HOME": self.home}, catalog=CATALOG)

    def of(self, node: "syntax_tree.Simple | syntax_tree.Word") -> str:
        """The source of `node`."""
        return self.text[node.start : node.end]

    def free(self) -> Iterator[str]:
        """Names that stand nowhere in the line, for variables and functions."""
        number = 0
        while True:
            number += 1
            if f"w{number}" not in self.text:
                yield f"w{number}"

    def edit(self, edits: Iterable[Edit]) -> str | None:
        """The text with these changes, which must not overlap; None where there are none."""
        out, at = [], 0
        for start, end, new in sorted(edits):
            out += [self.text[at:start], new]
            at = end
        changed = "".join([*out, self.text[at:]])
        return changed if changed != self.text else None

    def argument_words(self, command: syntax_tree.Simple) -> list[syntax_tree.Word]:
        """The words that may be spelled in another way.

        A builtin that reads assignments must be named plainly, and where one of them is an array or is expanded, its
        options must be written plainly.
        """
        if not command.words or command.words[0].raw not in DECLARERS:
            return command.words
        return [] if any(word.dynamic for word in command.words) else command.words[1:]

    def span(self, command: syntax_tree.Simple) -> tuple[int, int] | None:
        """Where its words stand, if nothing else (a redirect) stands between them."""
        start, end = command.words[0].start, command.words[-1].end
        return None if any(start < r.start < end for r in command.redirects) else (start, end)

    def external(self, command: syntax_tree.Simple) -> bool:
        """Whether it runs a program, and not something of bash's."""
        name = command.words[0].static if command.words else None
        return bool(name) and name not in BUILTINS and not self.functions

    def absolute(self, path: str) -> str:
        """`path` as an absolute one, in its shortest form."""
        return posixpath.normpath(posixpath.join(self.cwd, path))


def _nodes(node: syntax_tree.Node | None) -> Iterator[syntax_tree.Node]:
    if node is not None:
        yield node
        for child in syntax_tree.children(node):
            yield from _nodes(child)


def _simples(node: syntax_tree.Node) -> Iterator[syntax_tree.Simple]:
    return (each for each in _nodes(node) if isinstance(each, syntax_tree.Simple))


def spans(
    *parts: Sequence[syntax_tree.Word] | Sequence[syntax_tree.Assign] | Sequence[syntax_tree.Redirect],
) -> list[tuple[int, int]]:
    """Where words, assignments and redirects stand, from left to right."""
    return sorted((each.start, each.end) for some in parts for each in some)


def texts(words: Sequence[syntax_tree.Word]) -> list[str] | None:
    """What `words` stand for, or None where that depends on more than their text."""
    found = [word.static for word in words]
    return [text for text in found if text is not None] if None not in found else None
