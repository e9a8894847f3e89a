"""Patterns of commands, as lists of other tools write them, as conditions on the words of a command.

Other tools compare a pattern with the text of a command; we compare words, however they are quoted. Where a `*` may
stand for several words there and for one here, an allow gets narrower, and a deny is written so that it does not.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product, takewhile
from os.path import expanduser
from typing import Any

from humanlayer_agent.policy.language.policy import Match, Program
from humanlayer_agent.policy.language.schema import broad

ANY_WORDS = "..."
LOOSER = "looser here: "
"""How a note begins that says what is let through here, and not there."""
_OPERATORS = frozenset(";&|<>()`$\n\r\t\0")
_SPECIAL = frozenset("\\.[]{}()*+?|^$")
_KINDS = [
    *("read", "write", "append", "delete", "move", "metadata", "execute", "network", "listen", "process", "package"),
    "database",
]
"""What a command that is allowed by its words may do. Not: variables before it and another user, which are no part of
its words; and what lasts or can't be undone (history that is written anew, services, containers, the system)."""
_KEYWORDS = frozenset(
    (
        "if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done", "in",
        "function", "time", "coproc", "{", "}", "!", "[[", "]]",
    )
)  # fmt: skip
_MOST_VARIANTS = 8
_PIECE = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)|(?P<blank>\ )|(?P<plain>.)""", re.DOTALL
)

Condition = dict[str, Any]


class NotCarried(ValueError):
    """Raised for what no condition of ours says; its text is the reason."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a pattern: pieces of text, between which anything may stand. Or a regular expression."""

    pieces: tuple[str, ...]
    regex: str = ""

    @property
    def text(self) -> str | None:
        """The word, where it is only one."""
        return self.pieces[0] if len(self.pieces) == 1 and not self.regex else None


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A command by its words; `open`: more words may follow."""

    words: tuple[Word, ...]
    open: bool

    @property
    def first(self) -> str | None:
        """The program, where it is known."""
        return self.words[0].text if self.words else None

    def example(self) -> str:
        """Return a command that matches."""
        from shlex import join

        return join([word.text or "".join(word.pieces) or "x" for word in self.words])


def literal(words: Iterable[str], *, open: bool) -> CommandPattern:
    """Return the pattern of exactly these words."""
    return CommandPattern(tuple(Word((word,)) for word in words), open)


def parsed(text: str, wildcards: str = "*") -> CommandPattern:
    """Return the pattern in a text with wildcards, that stand for anything, blanks too.

    Args:
        text: as a shell would read it: quotation marks and `\\\\` take the meaning of what they hold.
        wildcards: what stands for anything; "" for nothing.

    Raises:
        NotCarried: it is no plain command.

    Example:
        >>> parsed("git * main").words[1].pieces
        ('', '')
    """
    words: list[list[str]] = [[]]
    for found in _PIECE.finditer(text):
        kind, piece = str(found.lastgroup), found[str(found.lastgroup)]
        if kind == "blank":
            words.append([])
            continue
        if kind == "plain":
            _check_plain(piece)
        if kind == "double" and set(piece) & set("$`"):
            raise NotCarried("what stands behind `$` is not known before it runs")
        current = words[-1] or [""]
        if kind == "plain" and piece in wildcards:
            current.append("")
        else:
            current[-1] += re.sub(r'\\(["\\])', r"\1", piece) if kind == "double" else piece
        words[-1] = current
    words = [word for word in words if word]
    if not words:
        raise NotCarried("it names no command")
    return _closed(words)


def _check_plain(character: str) -> None:
    if character in "'\"\\":
        raise NotCarried("a quotation mark or a backslash at its end is open")
    if character in _OPERATORS:
        raise NotCarried(f"{character!r} makes it more than one plain command, and each is judged by itself")


def _closed(words: list[list[str]]) -> CommandPattern:
    """What a `*` at the end stands for are further words, too."""
    last, open_ = words[-1], False
    if len(last) > 1 and not last[-1]:
        open_ = True
        if not any(last):
            words = words[:-1]
            if not words:
                raise NotCarried("it matches every command")
    if words[0][0].partition("=")[1]:
        raise NotCarried("variables before a command are no part of its words: they are judged by themselves")
    return CommandPattern(tuple(Word(tuple(word)) for word in words), open_)


# ---- conditions -----------------------------------------------------------------------------------------------


def stopping(pattern: CommandPattern) -> list[Condition]:
    """Return the conditions of which one holds wherever the pattern matches, for a rule that asks or denies.

    The program counts wherever it lies, and behind `sudo` and the like.

    Raises:
        NotCarried: it has too many wildcards inside of words, or names no program.
    """
    if pattern.first in _KEYWORDS:
        raise NotCarried(f"{pattern.first} begins no command of its own for bash: what it leads in is judged")
    choices = [_stopping_words(word, n == len(pattern.words) - 1) for n, word in enumerate(pattern.words)]
    found = []
    for choice in product(*choices):
        argv = [each for words in choice for each in words] + [ANY_WORDS] * pattern.open
        if pattern.first is not None:
            found.append({"program": _base(pattern.first), "argv": _tidy(["*", *argv[1:]])})
        else:
            found.append({"argv": _tidy(argv)})
        if len(found) > _MOST_VARIANTS:
            raise NotCarried("it has too many wildcards inside of words")
    return found


def _stopping_words(word: Word, is_last: bool) -> list[list[Any]]:
    if not word.regex and (word.pieces[0] == "~" or word.pieces[0].startswith("~/")):
        # A shell puts the home in its place.
        rest = (word.pieces[0][1:], *word.pieces[1:])
        return [[{"regex": _homes() + ".*".join(map(escaped, rest))}]]
    if word.regex or word.text is not None:
        return [[_written(word)]]
    if not any(word.pieces):
        return [[ANY_WORDS]]
    if is_last and word.pieces[-1] == "" and len(word.pieces) == 2:
        return [[_written(word)]]
    apart: list[Any] = []
    for n, piece in enumerate(word.pieces):
        both = ("",) * (n > 0) + (piece,) + ("",) * (n < len(word.pieces) - 1)
        apart += [*([ANY_WORDS] if n else []), *([_written(Word(both))] if piece else [])]
    return [[_written(word)], apart]


def _homes() -> str:
    """A regular expression for the homes of people, as the words of a command have them."""
    usual, mine = "~|/root|/(home|Users)/[^/]+", expanduser("~")
    return f"({usual})" if re.fullmatch(usual, mine) else f"({usual}|{escaped(mine)})"


def looser(pattern: CommandPattern) -> list[str]:
    """Return what a rule that asks or denies lets through, where a comparison of texts does not."""
    notes = []
    words = [word for word in pattern.words if not word.regex]
    if words and pattern.open and len(words[-1].pieces) == 2 and not words[-1].pieces[-1]:
        words[-1] = Word(words[-1].pieces[:1])  # what follows does not matter
    if any(word.text is None for word in words):
        notes.append(f"{LOOSER}words are compared, without redirections, nor what a shell expands or quotes in one")
    if any("~" in word.regex for word in pattern.words):
        notes.append(f"{LOOSER}where a shell puts a home for `~`")
    if any(set(piece) & set("*?[") for word in words for piece in word.pieces):
        notes.append(f"{LOOSER}where a shell would put file names for its `*`, `?` or `[`, it asks")
    return notes


def named(pattern: CommandPattern) -> tuple[Condition, list[str]]:
    """Return the condition under which a command surely is what a pattern says, and what is narrower here.

    Raises:
        NotCarried: its program is not known.
    """
    if pattern.first is None:
        raise NotCarried("it would allow programs that it does not name")
    notes: list[str] = []
    argv: list[Any] = []
    for n, word in enumerate(pattern.words):
        if word.text is None and not word.regex and not any(word.pieces):
            argv += ["*", ANY_WORDS]
            continue
        argv.append(_written(word))
        if (
            word.text is None
            and not word.regex
            and not (n == len(pattern.words) - 1 and pattern.open and len(word.pieces) == 2)
        ):
            notes.append("a wildcard inside of a word stands for no blanks here")
    argv += [ANY_WORDS] * pattern.open
    return {"program": _base(pattern.first), "argv": _tidy(argv)}, notes


def allowing(pattern: CommandPattern) -> tuple[list[Condition], list[str]]:
    """Return the conditions under which a command is allowed, the second for its effects, and what is narrower here.

    Raises:
        NotCarried: it would let anything through.
    """
    base, notes = named(pattern)
    program = str(pattern.first)
    known = takewhile(lambda word: word.text is not None or word.regex, pattern.words[1:])
    bare = not any(map(_narrows, known))
    if (pattern.open or ANY_WORDS in base["argv"]) and bare and broad(Match(program=Program(names=(_base(program),)))):
        notes.append(f"`{program}` alone can run any code: allowed is what only reads inside the project")
        inside = {"effect": "read", "paths": {"all_within": ["${PROJECT}/**"]}}
        return [base | {"resolved": True, "effects": {"only": ["read"]}}, base | inside], notes
    return [base, base | {"effect": _KINDS}], notes


def _narrows(word: Word) -> bool:
    """Tell whether a word says what a program is to do: an option such as `-c` says how."""
    return "." not in word.regex if word.regex else bool(word.text) and not str(word.text).startswith("-")


def _base(program: str) -> str:
    return program.rstrip("/").rpartition("/")[2] or program


def _written(word: Word) -> Any:
    """A word as `argv` has it."""
    if word.regex:
        return {"regex": word.regex}
    if word.text is not None and word.text != ANY_WORDS and not set(word.text) & set("*?"):
        return word.text
    if word.text is None and not any(set(piece) & set("*?") for piece in word.pieces):
        return "*".join(word.pieces)
    return {"regex": ".*".join(map(escaped, word.pieces))}


def escaped(text: str) -> str:
    """Return a regular expression for exactly this text."""
    return "".join(f"\\{c}" if c in _SPECIAL else c for c in text)


def _tidy(argv: Sequence[Any]) -> list[Any]:
    """Without a second `...` beside another."""
    return [each for n, each in enumerate(argv) if each != ANY_WORDS or n == 0 or argv[n - 1] != ANY_WORDS]
