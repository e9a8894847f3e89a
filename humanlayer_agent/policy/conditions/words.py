"""Sequences of words against the words of a command, some of which are not known."""

from collections.abc import Sequence
from dataclasses import dataclass

from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.word_patterns import TextSet
from humanlayer_agent.shell.expansion.field import Field

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
        """Is this word one of `item`?"""
        if not self.texts:
            return MAYBE if self.multiplies or item.may_begin(self.prefix) else NO
        answers = {item.has(text) for text in self.texts}
        return answers.pop() if len(answers) == 1 else MAYBE


def argv_matches(items: Sequence[TextSet | None], argv: Sequence[str], fields: Sequence[Field] = ()) -> int:
    """Does `argv` match `items`, of which None is any number of words? no, maybe or yes.

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
    # A pattern stays itself where no file matches it, unless the shell was told otherwise (it is `many` then).
    return _Word((), field.prefix, vanishes=field.many, multiplies=field.many or field.pathname)
