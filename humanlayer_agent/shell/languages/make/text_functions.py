"""The functions of make that only work on text (GNU make manual, chapter 8)."""

import posixpath
import re
from collections.abc import Callable

Function = Callable[[list[str], str | None], str | None]
"""Gives the result for arguments that are known and the working directory; None where it can't be told."""

MAX_WORDS = 2_000
MAX_PRODUCT = 1_000_000
"""Most characters that replacing may give, by the lengths alone."""
WORD_COUNTS = {
    "subst": 3, "patsubst": 3, "strip": 1, "filter": 2, "filter-out": 2, "sort": 1, "dir": 1, "notdir": 1,
    "suffix": 1, "basename": 1, "addsuffix": 2, "addprefix": 2, "firstword": 1, "lastword": 1, "word": 2, "words": 1,
    "findstring": 2, "join": 2, "abspath": 1, "shell": 1, "foreach": 3, "if": 3, "info": 1, "warning": 1, "error": 1,
    "eval": 1, "wildcard": 1, "realpath": 1, "value": 1, "origin": 1, "flavor": 1, "file": 2, "wordlist": 3, "guile": 1,
}  # fmt: skip
"""How many arguments a function takes; the last one has the rest of the text, commas too."""


def matched(pattern: str, word: str) -> str | None:
    """The stem where `word` matches `pattern` (one `%`), "" where both are the same text; None where it does not."""
    before, percent, after = pattern.partition("%")
    if not percent:
        return "" if word == pattern else None
    if len(word) < len(before) + len(after) or not word.startswith(before) or not word.endswith(after):
        return None
    return word[len(before) : len(word) - len(after)]


def _patsubst(a: list[str], cwd: str | None) -> str | None:
    if len(a) != 3 or "\\" in a[0] + a[1]:
        return None
    pattern, replacement = a[0].strip(), a[1].strip()
    if len(a[2]) * (len(replacement) + 1) > MAX_PRODUCT:
        return None
    out = []
    for word in a[2].split():
        stem = matched(pattern, word)
        out.append(word if stem is None else replacement.replace("%", stem, 1) if "%" in pattern else replacement)
    return " ".join(out)


def _subst(a: list[str], cwd: str | None) -> str | None:
    if len(a) != 3 or not a[0] or len(a[2]) * (len(a[1]) + 1) > MAX_PRODUCT:
        return None
    return a[2].replace(a[0], a[1])


def _filter(keep: bool) -> Function:
    def function(a: list[str], cwd: str | None) -> str | None:
        if len(a) != 2 or "\\" in a[0]:
            return None
        patterns, words = a[0].split()[:MAX_WORDS], a[1].split()
        if len(patterns) * len(words) > MAX_WORDS * 16:
            return None
        return " ".join(w for w in words if any(matched(p, w) is not None for p in patterns) is keep)

    return function


def _each(change: Callable[[str], str]) -> Function:
    def function(a: list[str], cwd: str | None) -> str | None:
        return " ".join(change(word) for word in a[0].split()) if len(a) == 1 else None

    return function


def _affixed(before: bool) -> Function:
    def function(a: list[str], cwd: str | None) -> str | None:
        if len(a) != 2:
            return None
        words = a[1].split()
        if len(words) > MAX_WORDS or len(words) * len(a[0]) > 32_768:
            return None
        return " ".join(a[0] + word if before else word + a[0] for word in words)

    return function


def _dir(word: str) -> str:
    head, slash, _ = word.rpartition("/")
    return head + slash if slash else "./"


def _suffix(word: str) -> str:
    return posixpath.basename(word)[posixpath.basename(word).rfind(".") :] if "." in posixpath.basename(word) else ""


def _abspath(a: list[str], cwd: str | None) -> str | None:
    if cwd is None or len(a) != 1:
        return None
    return " ".join(posixpath.normpath(posixpath.join(cwd, word)) for word in a[0].split())


def _word(a: list[str], cwd: str | None) -> str | None:
    if len(a) != 2 or not re.fullmatch(r"[1-9][0-9]{0,3}", a[0].strip(), re.ASCII):
        return None
    words = a[1].split()
    return words[int(a[0]) - 1] if int(a[0]) <= len(words) else ""


def _join(a: list[str], cwd: str | None) -> str | None:
    if len(a) != 2:
        return None
    left, right = a[0].split(), a[1].split()
    pairs = max(len(left), len(right))
    left, right = left + [""] * (pairs - len(left)), right + [""] * (pairs - len(right))
    return " ".join(x + y for x, y in zip(left, right, strict=True))


def _one(pick: Callable[[list[str]], str]) -> Function:
    def function(a: list[str], cwd: str | None) -> str | None:
        return pick(a[0].split()) if len(a) == 1 else None

    return function


FUNCTIONS: dict[str, Function | None] = {
    "subst": _subst,
    "patsubst": _patsubst,
    "strip": _each(lambda word: word),
    "filter": _filter(True),
    "filter-out": _filter(False),
    "sort": _one(lambda words: " ".join(sorted(set(words)))),
    "dir": _each(_dir),
    "notdir": _each(lambda word: word.rpartition("/")[2]),
    "suffix": _one(lambda words: " ".join(s for s in map(_suffix, words) if s)),
    "basename": _each(lambda word: word.removesuffix(_suffix(word)) if _suffix(word) else word),
    "addsuffix": _affixed(False),
    "addprefix": _affixed(True),
    "firstword": _one(lambda words: words[0] if words else ""),
    "lastword": _one(lambda words: words[-1] if words else ""),
    "word": _word,
    "words": _one(lambda words: str(len(words))),
    "join": _join,
    "abspath": _abspath,
    **dict.fromkeys(
        str.split(
            """
            call eval file flavor foreach guile if and or info warning error origin realpath shell value wildcard
            wordlist findstring let intcmp
            """
        )
    ),
}
"""What each function gives; None: `values` knows how, or nobody."""
