"""Patterns for words: a glob, or a regular expression; and matching that takes linear time, or nearly so.

Sequences of words against the words of a command, some of which are not known.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.language.policy import Text
from humanlayer_agent.shell import Field

if TYPE_CHECKING:
    from humanlayer_agent.policy.conditions.linear_regex import Regex

_WILDCARD = re.compile(r"[*?]")


class TextSet:
    """Words that match one of some patterns.

    Args:
        patterns: globs (`*` any run of characters, `?` any one), or regular expressions; they match the whole word.
    """

    def __init__(self, patterns: Iterable[Text]) -> None:
        found = tuple(patterns)
        globs = [p.glob for p in found if p.glob is not None]
        self._exact = frozenset(glob for glob in globs if not has_star(glob))
        self._globs = tuple(glob for glob in globs if has_star(glob))
        # Most globs are of one of three kinds, all of which are asked at once.
        heads, tails, middles, others = [], [], [], []
        for glob in self._globs:
            if glob[-1] == "*" and not has_star(glob[:-1]):
                heads.append(glob[:-1])
            elif glob[0] == "*" and not has_star(glob[1:]):
                tails.append(glob[1:])
            elif glob[0] == glob[-1] == "*" and not has_star(glob[1:-1]):
                middles.append(glob[1:-1])
            else:
                others.append(glob)
        self._heads, self._tails, self._middles = tuple(heads), tuple(tails), tuple(middles)
        self._other_globs = tuple((longest_text(glob), glob) for glob in others)
        self._regexes = tuple(_regex(p.regex) for p in found if p.regex is not None)

    def has(self, word: str | None) -> int:
        """no, maybe or yes; None is a word of unknown value."""
        if word is None:
            return MAYBE
        if word in self._exact or word.startswith(self._heads) or word.endswith(self._tails):
            return YES
        for middle in self._middles:
            if middle in word:
                return YES
        for text, glob in self._other_globs:
            if text in word and glob_matches(glob, word):
                return YES
        answers = [each.matches(word) for each in self._regexes]
        if True in answers:
            return YES
        return MAYBE if None in answers else NO

    def may_begin(self, prefix: str) -> bool:
        """Tell whether one of these words could begin with `prefix`."""
        if not prefix or any(each.may_begin(prefix) for each in self._regexes):
            return True
        return any(w.startswith(prefix) for w in self._exact) or any(_may_begin(g, prefix) for g in self._globs)


@lru_cache(maxsize=256)
def _regex(pattern: str) -> "Regex":
    from humanlayer_agent.policy.conditions.linear_regex import Regex

    return Regex(pattern)


def _may_begin(pattern: str, prefix: str) -> bool:
    """Tell whether a word that matches `pattern` could begin with `prefix`. Not ruled out where its own wildcard comes
    first.
    """
    head = re.split(r"[*?]", pattern, maxsplit=1)[0]
    return head.startswith(prefix) or prefix.startswith(head)


def has_star(text: str) -> bool:
    """Tell whether a pattern holds a wildcard."""
    return "*" in text or "?" in text


def longest_text(pattern: str) -> str:
    """Return the longest text without wildcards that is in each word which matches `pattern`."""
    return max(_WILDCARD.split(pattern), key=len)


def glob_matches(pattern: str, text: str) -> bool:
    """Tell whether `text` matches `pattern`, in which `*` is any run of characters and `?` any one.

    Going back to the last star suffices, so this takes at most len(pattern) * len(text) steps.
    """
    head, star_sign, tail = pattern.partition("*")
    if not has_star(head + tail):
        if not star_sign:
            return pattern == text
        return len(text) >= len(head) + len(tail) and text.startswith(head) and text.endswith(tail)
    p = t = 0
    star, mark = -1, 0
    while t < len(text):
        if p < len(pattern) and pattern[p] == "*":
            star, mark = p, t
            p += 1
        elif p < len(pattern) and (pattern[p] == "?" or pattern[p] == text[t]):
            p += 1
            t += 1
        elif star >= 0:
            mark += 1
            p, t = star + 1, mark
        else:
            return False
    return all(char == "*" for char in pattern[p:])


def components_match(pattern: Sequence[str], components: Sequence[str]) -> bool:
    """The same for the components of a path, where a component `**` is any number of components."""
    p = t = 0
    star, mark = -1, 0
    while t < len(components):
        if p < len(pattern) and pattern[p] == "**":
            star, mark = p, t
            p += 1
        elif p < len(pattern) and glob_matches(pattern[p], components[t]):
            p += 1
            t += 1
        elif star >= 0:
            mark += 1
            p, t = star + 1, mark
        else:
            return False
    return all(each == "**" for each in pattern[p:])


_OPEN = frozenset("$`*?[{~<>")
"""What a word of unknown value, of which only its spelling is left, can't do without."""

MAX_WORDS = 2_000


@dataclass(frozen=True, slots=True)
class _Word:
    """One word: the texts it may be (none: any with this beginning); how many words it may become."""

    texts: tuple[str, ...]
    prefix: str = ""
    vanishes: bool = False
    multiplies: bool = False

    def matches(self, item: TextSet) -> int:
        """Tell how surely this word is one of `item`."""
        if not self.texts:
            return MAYBE if self.multiplies or item.may_begin(self.prefix) else NO
        answers = {item.has(text) for text in self.texts}
        answer = answers.pop() if len(answers) == 1 else MAYBE
        return min(answer, MAYBE) if self.multiplies else answer


def argv_matches(items: Sequence[TextSet | None], argv: Sequence[str], fields: Sequence[Field] = ()) -> int:
    """Tell how surely `argv` matches `items`, of which None is any number of words: no, maybe or yes.

    A word of unknown value may be anything, and any number of words. `fields` say more of each word, where they are
    there: which value it has for certain, whatever it looks like, and that it is one word.
    """
    if len(argv) > MAX_WORDS:
        return MAYBE
    # best[j]: how surely the words so far match items[:j]
    best = [YES] + [NO] * len(items)
    for j, item in enumerate(items):
        best[j + 1] = best[j] if item is None else NO
    for word in map(_word, fields) if len(fields) == len(argv) else map(_spelled, argv):
        row = [NO] * (len(items) + 1)
        if word.vanishes:
            row[0] = min(best[0], MAYBE)
        for j, item in enumerate(items):
            if item is None:
                row[j + 1] = max(row[j], best[j + 1])
                continue
            row[j + 1] = min(best[j], word.matches(item))
            if word.multiplies:
                row[j + 1] = min(MAYBE, max(row[j + 1], row[j]))
            if word.vanishes:
                row[j + 1] = max(row[j + 1], min(MAYBE, best[j + 1]))
        best = row
    return best[len(items)]


def _spelled(text: str) -> _Word:
    """A word of which only the spelling is left."""
    return _Word((text,)) if _OPEN.isdisjoint(text) else _Word((), vanishes=True, multiplies=True)


def _word(field: Field) -> _Word:
    if field.texts:
        return _Word(field.texts)
    if field.listed:
        return _Word(field.listed, multiplies=True)
    # A pattern stays itself where no file matches it, unless the shell was told otherwise (it is `many` then).
    return _Word((), field.prefix, vanishes=field.many, multiplies=field.many or field.pathname)
