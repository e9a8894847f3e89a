"""What settings that are code in JavaScript say: the names of members, and the texts that may be stored under them.

In which object a member is, and whether that is exported at all, does not count: whatever the program stores under a
name may be a setting of it. So nothing is missed by the way in which the object is made.
"""

from collections.abc import Iterator

from humanlayer_agent.shell.languages.javascript.evaluation import Evaluator
from humanlayer_agent.shell.languages.javascript.possible_values import (
    Array,
    Atom,
    Foreign,
    Function,
    Mark,
    Native,
    Number,
    Record,
    Value,
)

_NO_TEXTS = (Number, Function, Record, Foreign, Native)
"""What holds no text, or only such as is stored under a name, or as another module has by itself."""
_OBJECTS = frozenset({Mark.DATA, Mark.CHOSEN, Mark.PICKED})
"""What may be an object of which no more is known."""


def pairs(evaluator: Evaluator) -> list[tuple[str, str | None]]:
    """Return each name with a text that may be stored under it; None: one that is not known. What is stored under no
    name, or one that is not known, has the name "".
    """
    found: dict[tuple[str, str | None], None] = {}
    for name, cell in (*evaluator.members.items(), ("", evaluator.unnamed), ("", evaluator.given)):
        if name == "exports":
            continue  # that is what is given
        found.update(dict.fromkeys((name, text) for text in _texts(cell.value)))
        if name.startswith((".", "/", "~")):
            found["", name] = None
    for function in evaluator.functions:  # settings may be what a function gives; a text alone is none
        given = frozenset(atom for atom in function.returns.value if atom in _OBJECTS or isinstance(atom, Array))
        found.update(dict.fromkeys(("", text) for text in _texts(given)))
    return list(found)


def _texts(value: Value) -> Iterator[str | None]:
    ahead: list[Atom] = list(value)
    seen = set(ahead)
    while ahead:
        atom = ahead.pop()
        if isinstance(atom, Array):
            ahead += [each for each in atom.items.value if each not in seen]
            seen |= atom.items.value
        elif isinstance(atom, str):
            yield atom
        elif not isinstance(atom, _NO_TEXTS) and atom is not Mark.NUMBER:
            yield None
