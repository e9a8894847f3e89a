"""The one function that makes text safe to show, before any channel.

A command is chosen by a model that may have read hostile text. It must not be able to move a cursor, colour,
hide, reorder or retitle anything on the screen of the person who is asked to approve it, and two commands that do
different things must not look the same because of characters that can't be seen.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_PLAIN = re.compile(r"[\n\t -~]*").fullmatch

MARKS_PER_LETTER = 2
"""Combining marks that one letter may carry (Vietnamese needs two); more of them smear over the lines around."""

_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc")
"""Characters of visible categories that draw nothing."""

_LOOK_ALIKES = {
    "\u01c0": "|", "\u01c3": "!", "\u02d0": ":", "\u037e": ";", "\u2010": "-", "\u2011": "-", "\u2012": "-",
    "\u2024": ".", "\u2044": "/", "\u2060": "", "\u2212": "-", "\u2215": "/", "\u2216": "\\", "\u2217": "*",
    "\u2223": "|", "\u2236": ":", "\u223c": "~", "\u29f5": "\\", "\u29f8": "/", "\ua789": ":",
}  # fmt: skip
"""Symbols that are drawn like a character the shell gives a meaning to."""

_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC")
"""Scripts with letters that are drawn like Latin ones."""

_LETTERS = re.compile(r"[^\W\d_]+")
# Possessive and anchored on a visible character: linear on any text.
_WIDE_GAP = re.compile(r"\S[ \t]{40,}+\S")
_BLANK_LINES = re.compile(r"\S[ \t]*+(?:\n[ \t]*+){11,}+\S")


def visible(text: str, *, keep: str = "\n\t", ascii_only: bool = False) -> str:
    r"""`text` with every character that could act on a screen, or can't be seen on it, spelled out.

    Control characters (C0, C1, DEL) become `\xNN`; format, bidirectional, zero-width, blank, private, unassigned and
    surrogate characters, spaces other than U+0020, variation selectors, and combining marks that are overlaid, too
    many, or not on a letter, become `\u{...}`. The result contains no terminal escape of any kind, and making it
    visible again changes nothing.

    Args:
        keep: the control characters that stay as they are; "" for text that must be one line.
        ascii_only: spell out everything outside ASCII, for a terminal that can't show it.

    Example:
        >>> visible("ls \x1b[2J\u202egpj.exe")
        'ls \\x1b[2J\\u{202e}gpj.exe'
    """
    if _PLAIN(text) and ("\n" in keep or "\n" not in text) and ("\t" in keep or "\t" not in text):
        return text
    return "".join(shown for shown, _ in characters(text, keep=keep, ascii_only=ascii_only))


def one_line(text: str, *, ascii_only: bool = False) -> str:
    r"""`text` made safe for a place that has one line: newlines and tabs are spelled out too (`\x0a`, `\x09`)."""
    return visible(text, keep="", ascii_only=ascii_only)


def characters(text: str, *, keep: str = "\n\t", ascii_only: bool = False) -> Iterator[tuple[str, bool]]:
    """For each character of `text`: how it is shown, and whether it had to be spelled out."""
    marks = MARKS_PER_LETTER  # a mark at the very start has no letter to stand on
    for char in text:
        kind = _kind(char)
        if kind == "control":
            odd = char not in keep
        elif kind == "mark":
            odd = marks >= MARKS_PER_LETTER
        else:
            odd = kind not in ("letter", "shown")
        odd = odd or (ascii_only and char > "~")
        if odd or kind != "mark":
            marks = 0 if kind == "letter" and not odd else MARKS_PER_LETTER
        else:
            marks += 1
        yield (_spelled(char) if odd else char), odd


def _spelled(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0xA0 else f"\\u{{{code:x}}}"


@lru_cache(maxsize=4096)
def _kind(char: str) -> str:
    """Return how a character is treated: letter, shown, mark, control, or the name of what is odd about it."""
    category = unicodedata.category(char)
    if category == "Cc":
        return "control"
    if char in _BLANK:
        return "blank"
    if odd := {"Cf": "format", "Co": "private", "Cn": "unassigned", "Cs": "surrogate", "Zl": "line", "Zp": "line"}.get(
        category
    ):
        return "bidirectional" if unicodedata.bidirectional(char) in _BIDI_CONTROLS else odd
    if category == "Zs":
        return "shown" if char == " " else "space"
    if category[0] == "M":
        if unicodedata.combining(char) == 1 or category == "Me":
            return "overlay"  # drawn through the letter: a struck-out word is still there
        if unicodedata.name(char, "").startswith(("VARIATION SELECTOR", "MONGOLIAN FREE VARIATION")):
            return "variation selector"
        return "mark"
    return "letter" if category[0] == "L" else "shown"


_BIDI_CONTROLS = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


# ---- what a reader should be told -------------------------------------------------------------------


def warnings(text: str) -> list[str]:
    """Return what could mislead somebody who reads `text`, one short sentence each; [] for ordinary text.

    Names the characters that `visible` spells out, and, because those are shown as they are, letters and symbols that
    look like others, right-to-left letters, and gaps that push a part of the command out of sight.
    """
    if _PLAIN(text):
        return _gaps(text)
    return [*_spelled_out(text), *_look_alikes(text), *_right_to_left(text), *_gaps(text)]


def _spelled_out(text: str) -> list[str]:
    counts: dict[str, int] = {}
    for char, (_, odd) in zip(text, characters(text), strict=True):
        if odd:
            counts[char] = counts.get(char, 0) + 1
    if not counts:
        return []
    total = sum(counts.values())
    named = [f"{_named(char)}{f' x {n}' if n > 1 else ''}" for char, n in list(counts.items())[:5]]
    more = f", and {len(counts) - 5} other kinds" if len(counts) > 5 else ""
    noun = "character that is" if total == 1 else "characters that are"
    return [f"{total} {noun} invisible or would act on the screen, spelled out here: {', '.join(named)}{more}"]


_CONTROL_NAMES = {
    "\0": "NULL",
    "\a": "BELL",
    "\b": "BACKSPACE",
    "\r": "CARRIAGE RETURN",
    "\x1b": "ESCAPE",
    "\x7f": "DELETE",
    "\x85": "NEXT LINE",
    "\x9b": "CONTROL SEQUENCE INTRODUCER",
}


def _named(char: str) -> str:
    name = _CONTROL_NAMES.get(char) or unicodedata.name(char, "") or _kind(char)
    return f"U+{ord(char):04X} {name}"


def _look_alikes(text: str) -> list[str]:
    found: list[str] = []
    for word in _LETTERS.findall(text):
        if word.isascii() or not any("a" <= c.lower() <= "z" for c in word):
            continue
        strange = next((c for c in word if unicodedata.name(c, "").startswith(_SCRIPTS)), None)
        if strange is not None:
            found.append(f"a word mixes Latin letters with {_named(strange)}")
    for char in dict.fromkeys(text):
        if char in _LOOK_ALIKES:
            found.append(f"{_named(char)} looks like {_LOOK_ALIKES[char]}")
        elif unicodedata.decomposition(char).startswith(("<wide>", "<font>")):
            found.append(f"{_named(char)} looks like {unicodedata.normalize('NFKC', char)}")
    kinds = list(dict.fromkeys(found))
    shown = kinds[:3]
    return [*shown, f"{len(kinds) - 3} more look-alikes"] if len(kinds) > 3 else shown


def _right_to_left(text: str) -> list[str]:
    if any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text if c > "\u0590"):
        return [
            "right-to-left letters: a terminal or browser may show the words around them in another order than they run"
        ]
    return []


def _gaps(text: str) -> list[str]:
    found = []
    if _WIDE_GAP.search(text):
        found.append("a line goes on after a gap of 40 or more blanks")
    if _BLANK_LINES.search(text):
        found.append("the command goes on after 10 or more empty lines")
    return found
