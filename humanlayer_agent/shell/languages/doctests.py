"""Examples in docstrings and documents: what stands behind `>>>` is Python that `doctest` runs, all of it in order.

The prompts are those of doctest in Python's library reference, How are Docstring Examples Recognized?
"""

import re
from collections.abc import Callable

from humanlayer_agent.shell.languages import read as read_code
from humanlayer_agent.shell.languages.behaviour import Behaviour, Found

_EXAMPLE = re.compile(r"^([^\S\n]*)>>>(?: (.*)|)((?:\n\1\.\.\.(?: .*|)$)*)", re.MULTILINE)


def whole(text: str, path: str | None, files: Callable[[str], Found] | None) -> Behaviour:
    """What all examples of a text do, each for itself where they are no program together."""
    found = examples(text)
    together = read_code("python", "\n".join(found) + "\n", path=path) if found else Behaviour()
    if together is not None and not together.opaque:
        return together
    out = Behaviour()
    for example in found:  # one that is no Python fails, and the others run
        each = read_code("python", example + "\n", path=path)
        if each is not None and not each.opaque:
            out.acts += each.acts
            out.directories += each.directories
            out.files += each.files
            for reason in each.doubts:
                out.doubt(reason)
    return out


def examples(text: str) -> list[str]:
    r"""Return the code of every example.

    Example:
        >>> examples("Adds.\n\n    >" + ">> for x in y:\n    ...     print(x)\n    1\n")
        ['for x in y:\n    print(x)']
    """
    out = []
    for match in _EXAMPLE.finditer(text.expandtabs(8)):
        more = [line[len(match[1]) + 4 :] for line in match[3].split("\n")[1:]]
        out.append("\n".join([match[2] or "", *more]))
    return [each for each in out if each.strip()]
