"""All transformations, by name."""

import random
from functools import cache, lru_cache
from types import MappingProxyType

from humanlayer_agent.policy_tools.metamorphic import argv, layout, options, paths, templates, words
from humanlayer_agent.policy_tools.metamorphic.line import Line
from humanlayer_agent.policy_tools.metamorphic.transformation import Transformation


@cache
def transformations() -> MappingProxyType[str, Transformation]:
    """Every transformation, in the order of its module."""
    found: dict[str, Transformation] = {}
    for module in (words, argv, options, paths, layout, templates):
        for each in module.transformations():
            if each.name in found:
                raise ValueError(f"two transformations are called {each.name}")
            found[each.name] = each
    return MappingProxyType(found)


@cache
def for_each_line() -> frozenset[str]:
    """The names of the transformations that each line is worth: of options, paths and layout. They hang on what its
    words are, or cost little to judge; the others write whatever it is in the same way.
    """
    return frozenset(each.name for module in (options, paths, layout) for each in module.transformations())


def rewrite(text: str, names: tuple[str, ...], *, seed: int, cwd: str, home: str) -> str | None:
    """`text` rewritten by the named transformations, one after the other; None where one does not apply.

    Each takes its chances from `seed`, its name and the text alone, so that it does the same in every composition.

    Example:
        >>> rewrite("rm -rf x", ("split-options", "sequence-before"), seed=0, cwd="/srv", home="/root")
        ':; rm -r -f x'
    """
    for name in names:
        line = _line(text, cwd, home)
        if line is None:
            return None
        changed = transformations()[name].apply(line, random.Random(f"{seed}\0{name}\0{text}"))
        if changed is None or changed == text:
            return None
        text = changed
    return text


@lru_cache(maxsize=256)
def _line(text: str, cwd: str, home: str) -> Line | None:
    """Read a line once for all transformations: without, metamorphic tests of a rule take half as long again."""
    return Line.read(text, cwd=cwd, home=home)
