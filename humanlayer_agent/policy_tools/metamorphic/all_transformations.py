"""All transformations, by name."""

import random
from functools import cache
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


def rewrite(text: str, names: tuple[str, ...], *, seed: int, cwd: str, home: str) -> str | None:
    """`text` rewritten by the named transformations, one after the other; None where one does not apply.

    Each takes its chances from `seed`, its name and the text alone, so that it does the same in every composition.

    Example:
        >>> rewrite("rm -rf x", ("split-options", "sequence-before"), seed=0, cwd="/srv", home="/root")
        ':; rm -r -f x'
    """
    for name in names:
        line = Line.read(text, cwd=cwd, home=home)
        if line is None:
            return None
        changed = transformations()[name].apply(line, random.Random(f"{seed}\0{name}\0{text}"))
        if changed is None or changed == text:
            return None
        text = changed
    return text
