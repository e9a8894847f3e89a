"""Sequences of words against the words of a command, some of which are not known."""

from collections.abc import Sequence

from humanlayer_agent.policy.texts import TextSet
from humanlayer_agent.policy.values import MAYBE, NO, YES

_OPEN = frozenset("$`*?[{~<>")
"""What a word of unknown value, which stands in argv as it was written, can't do without."""

MAX_WORDS = 2_000


def argv_matches(items: Sequence[TextSet | None], argv: Sequence[str]) -> int:
    """Does `argv` match `items`, of which None is any number of words? no, maybe or yes.

    A word of unknown value may be anything, and any number of words.
    """
    if len(argv) > MAX_WORDS:
        return MAYBE
    # best[j]: how surely the words so far match items[:j]
    best = [YES] + [NO] * len(items)
    for j, item in enumerate(items):
        best[j + 1] = best[j] if item is None else NO
    for word in argv:
        unknown = not _OPEN.isdisjoint(word)
        row = [NO] * (len(items) + 1)
        if unknown:
            row[0] = min(best[0], MAYBE)  # it may be no word at all
        for j, item in enumerate(items):
            if item is None:
                row[j + 1] = max(row[j], best[j + 1])
            elif unknown:
                # It may be this item, several of them, or nothing.
                row[j + 1] = min(MAYBE, max(best[j], best[j + 1], row[j]))
            else:
                row[j + 1] = min(best[j], item.has(word))
        best = row
    return best[len(items)]
