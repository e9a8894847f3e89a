"""Patterns against patterns: could a path that a shell's pattern stands for lie in a policy's?"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from humanlayer_agent.policy.conditions.word_patterns import glob_matches, longest_text

MAX_STEPS = 40_000
"""Beyond this the answer is yes: an overlap that was not ruled out."""

_LONGEST_NAME = 255
_PLAIN = re.compile(r"[^*?\[\\]*")

T = TypeVar("T")


def overlap(wild: str, pattern: str, recursive: bool) -> bool:
    """Tell whether a path that the shell pattern `wild` stands for could be matched by the policy pattern `pattern`.

    In `wild`, a component that begins with a wildcard does not match names that begin with a dot, unless it begins with
    two stars (find's -name); a component `**` is any number of components.
    """
    left = components(wild)
    right = tuple([c for c in pattern.split("/") if c != ""])
    return len(wild) * len(pattern) > MAX_STEPS or components_overlap((*left, "**") if recursive else left, right)


def components(wild: str) -> tuple[str, ...]:
    """Return the components of a shell pattern."""
    return tuple([c for c in wild.split("/") if c not in ("", ".")])


@lru_cache(maxsize=1024)
def components_overlap(wild: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """The same for the components of both, which are not too long. Many rules of a policy have the same patterns."""
    return _meet(wild, pattern, "**", _names)


def _meet(left: Sequence[T], right: Sequence[T], star: T, same: Callable[[T, T], bool]) -> bool:
    """Tell whether there is a sequence that both match, where `star` stands for any run of items."""
    # What stands before the first star of both, and after the last, is met item by item; mostly that is the answer.
    first, ends = 0, (len(left), len(right))
    while first < min(ends) and left[first] != star and right[first] != star:
        if not same(left[first], right[first]):
            return False
        first += 1
    last = 0
    while last < min(ends) - first and left[-1 - last] != star and right[-1 - last] != star:
        if not same(left[-1 - last], right[-1 - last]):
            return False
        last += 1
    left, right = left[first : ends[0] - last], right[first : ends[1] - last]
    if (len(left) == 1 and left[0] == star) or (len(right) == 1 and right[0] == star):
        return True  # whatever the other one is
    # Row by row: reach[j] says whether left[:i] and right[:j] have one in common.
    reach = [True] + [False] * len(right)
    for j, item in enumerate(right):
        reach[j + 1] = reach[j] and item == star
    for each in left:
        row = [reach[0] and each == star] + [False] * len(right)
        for j, item in enumerate(right):
            if item == star or each == star:
                # A star ends here, or takes one item more of the other side.
                row[j + 1] = row[j] or reach[j + 1]
            else:
                row[j + 1] = reach[j] and same(each, item)
        reach = row
    return reach[len(right)]


def _names(wild: str, pattern: str) -> bool:
    """Tell whether one file name could match both. Brackets are taken as any character."""
    hidden = pattern.startswith(".")
    if wild[:1] in ("*", "?", "[") and not wild.startswith("**") and hidden:
        return False
    ours, theirs = _shape(wild), _shape(pattern)
    if not (ours.head.startswith(theirs.head) or theirs.head.startswith(ours.head)):
        return False
    if theirs.plain and not ours.odd:
        return ours.text in pattern and glob_matches(wild, pattern)
    if ours.plain and not theirs.odd:
        return theirs.text in wild and glob_matches(pattern, wild)
    if max(len(wild), len(pattern)) > _LONGEST_NAME:
        return _meet(_tokens(wild), _tokens(pattern), "\0*", _same)
    return _meet(_remembered(wild), _remembered(pattern), "\0*", _same)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is soon seen of the pattern of a name.

    Attributes:
        head: the characters before the first wildcard, or what may be one.
        text: the longest text that is in each name which matches, where it is not `odd`.
        plain: it is one name.
        odd: it holds more than stars and question marks.
    """

    head: str
    text: str
    plain: bool
    odd: bool


@lru_cache(maxsize=1024)
def _shape(text: str) -> _Shape:
    first = head(text)
    odd = "[" in text or "\\" in text
    return _Shape(first, "" if odd else longest_text(text), len(first) == len(text), odd)


def head(text: str) -> str:
    """Return the characters before the first wildcard, or what may be one."""
    found = _PLAIN.match(text)
    return found[0] if found is not None else ""


def _same(left: str, right: str) -> bool:
    return left == right or "\0?" in (left, right)


def _tokens(text: str) -> tuple[str, ...]:
    """Characters, with "\0*" for any run and "\0?" for any one character."""
    out: list[str] = []
    i = 0
    while i < len(text):
        char = text[i]
        if char == "\\" and i + 1 < len(text):
            out.append(text[i + 1])
            i += 2
            continue
        if char == "[" and (end := text.find("]", i + 2)) > 0:
            out.append("\0?")
            i = end + 1
            continue
        out.append("\0" + char if char in "*?" else char)
        i += 1
    return tuple(out)


_remembered = lru_cache(maxsize=2048)(_tokens)
"""The names of files and folders in policies, over and over."""
