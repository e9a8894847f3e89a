"""The lines of a Makefile, and where in them a reference, a comment or an operator ends (GNU make 4.4, `read.c`)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMMENT = re.compile(r"(?<!\\)(?:\\\\)*#")
_PAIRS = {"(": ")", "{": "}"}
_MODIFIERS = frozenset({"export", "override", "private", "define", "undefine"})


@dataclass(frozen=True, slots=True)
class Line:
    """One logical line: `raw` still holds the backslashes and newlines that continue it. `number` counts from 1."""

    number: int
    raw: str

    @property
    def recipe(self) -> bool:
        """It begins with a tab: behind a rule it is for the shell."""
        return self.raw.startswith("\t")

    @property
    def joined(self) -> str:
        """The line as make reads it: continuations are one blank."""
        parts = self.raw.split("\\\n")
        for n, part in enumerate(parts[:-1]):
            pairs = len(part) - len(part.rstrip("\\"))
            parts[n] = part[: len(part) - pairs].rstrip(" \t") + "\\" * (pairs // 2)
        return " ".join([parts[0], *(part.lstrip(" \t") for part in parts[1:])])

    @property
    def command(self) -> str:
        """The line as a recipe has it: the shell sees the continuations, without the tab in front of each."""
        return self.raw.removeprefix("\t").replace("\\\n\t", "\\\n")


def lines(text: str) -> Iterator[Line]:
    """The logical lines of `text`."""
    held: list[str] = []
    number = 1
    for at, physical in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        held.append(physical)
        if (len(physical) - len(physical.rstrip("\\"))) % 2:
            continue
        yield Line(number, "\n".join(held))
        held, number = [], at + 1
    if held:
        yield Line(number, "\n".join(held))


def reference_end(text: str, at: int) -> int:
    """The index behind the reference whose `$` stands at `at`: `$x`, `$(...)` or `${...}`."""
    opener = text[at + 1 : at + 2]
    closer = _PAIRS.get(opener)
    if closer is None:
        return min(at + 2, len(text))
    depth = 0
    for i in range(at + 1, len(text)):
        if text[i] == opener:
            depth += 1
        elif text[i] == closer:
            depth -= 1
            if depth == 0:
                return i + 1
    return len(text)


def find(text: str, wanted: str, start: int = 0) -> int:
    """The index of the first character of `wanted` outside of references that no backslash protects; -1 without."""
    i = start
    while i < len(text):
        if text[i] == "$":
            i = reference_end(text, i)
        elif text[i] == "\\" and text[i + 1 : i + 2] in (*wanted, "\\"):
            i += 2
        elif text[i] in wanted:
            return i
        else:
            i += 1
    return -1


def uncommented(text: str) -> tuple[str, bool]:
    """`text` without its comment, and whether releases of make agree on where that begins."""
    at = find(text, "#")
    first = _COMMENT.search(text)
    return (text if at < 0 else text[:at]).replace("\\#", "#"), (first.end() - 1 if first is not None else -1) == at


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name op value`, with the words in front of it (export, override ...). `op` is "" after define without one."""

    name: str
    op: str
    value: str
    words: frozenset[str] = frozenset()


def assignment(text: str) -> Assignment | None:
    """The assignment that `text` (without comment) is; None where it is none."""
    words: set[str] = set()
    rest = text.lstrip(" \t")
    while True:
        found = _definition(rest)
        if found is not None:
            return Assignment(*found, frozenset(words))
        word = re.split(r"[ \t]", rest, maxsplit=1)[0]
        if word not in _MODIFIERS:
            return None
        words.add(word)
        rest = rest[len(word) :].lstrip(" \t")
        if word in ("define", "undefine"):
            name, op, _ = _definition(rest) or (rest.rstrip(" \t"), "", "")
            return Assignment(name, op, "", frozenset(words)) if rest else None
        if not rest:
            return None


def _definition(text: str) -> tuple[str, str, str] | None:
    """name, operator and value, as make's parse_variable_definition finds them."""
    i = 0
    while i < len(text):
        c = text[i]
        if c == "$":
            i = reference_end(text, i)
            continue
        if c in " \t" or c in "=:+?!":
            at = i
            while at < len(text) and text[at] in " \t":
                at += 1
            match = re.match(r":{0,3}=|[+?!]=", text[at:])
            if match is not None:
                return text[:i], match[0], text[at + match.end() :].lstrip(" \t")
            if c in " \t:=":
                return None
        i += 1
    return None
