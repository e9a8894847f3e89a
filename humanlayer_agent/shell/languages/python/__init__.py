"""The reader of Python: what code does, found in its source without running it.

`read` gives a Behaviour: the files that are touched, programs and shells that are started, hosts, imports, and doubts
where something can't be told. How values are followed is described in `values` and `engine`, what the functions of
known modules do in `tables`.
"""

import ast
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.behaviour import MOST_STEPS, Behaviour, Text
from humanlayer_agent.shell.languages.python.parsing import odd_coding, parse

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

MAX_SOURCE = 256 * 1024
"""In bytes."""

__all__ = ["read"]


def read(
    source: str, *, argv: Sequence[Text] | None = None, path: str | None = None, steps: int = MOST_STEPS
) -> Behaviour:
    """What `source` does when it is run. Never raises.

    Paths are as the code has them: relative to the working directory, or below the home directory as "~/x".

    Args:
        argv: sys.argv, the script's name first, where it is known.
        path: the absolute path of the script, where it is a file.
        steps: how many may be taken to follow it.
    """
    if len(source) > MAX_SOURCE:
        return _doubtful("the Python code is too long to be read")
    if coding := odd_coding(source):
        return _doubtful(f"the Python code is written in {coding}, which may be other code than it looks")
    try:
        tree = parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        return _doubtful(
            f"line {line}: this is no Python that can be read" if line else "this is no Python that can be read"
        )
    except (RecursionError, MemoryError):
        return _doubtful("the Python code is nested too deep")
    return _read(source, tree, argv, path, steps)


def _doubtful(reason: str) -> Behaviour:
    found = Behaviour(opaque=True)
    found.doubt(reason)
    return found


def _read(source: str, tree: ast.Module, argv: Sequence[Text] | None, path: str | None, steps: int) -> Behaviour:
    from humanlayer_agent.shell.languages.python import acts
    from humanlayer_agent.shell.languages.python.engine import Engine, TooMuch
    from humanlayer_agent.shell.languages.python.types import files
    from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks

    engine = Engine(source, tree, argv, path, capability_leaks.give_up, steps)
    trouble = ""
    try:
        follow(engine, tree)
    except TooMuch:
        trouble = "the Python code is too large to be read to its end"
    except RecursionError:
        trouble = "the Python code is nested too deep"
    except Exception as error:  # a fault of this reader is no permission
        trouble = f"the Python code could not be read ({type(error).__name__})"
    found = engine.behaviour()
    found.acts = acts.doubted(found.acts, tree)
    found.files = files.result(engine)
    if engine.decodes and (name := files.hidden_code(engine)) is not None:
        found.doubt(f"line {engine.decodes}: what is decoded there may become code in {name}")
    found.steady, found.anywhere, found.steps = not trouble, not engine.placed, engine.steps
    if trouble:
        found.doubt(trouble)
    engine.let_go()
    return found


def follow(engine: "Engine", tree: ast.Module) -> None:
    """Read the module, then what it calls, then the functions that nobody seems to call."""
    from humanlayer_agent.shell.languages.python import scopes
    from humanlayer_agent.shell.languages.python.library import django_settings
    from humanlayer_agent.shell.languages.python.syntax import statements
    from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks

    scopes.module_scope(engine, tree)
    if engine.holds(".configure("):
        engine.configured = django_settings.names(tree)
    engine.wait(engine.unit)
    engine.drain(statements.read)
    mentioned: Counter[str] | None = None
    while waiting := [c for c in engine.closures if not c.called and not c.escaped]:
        if mentioned is None:
            mentioned = Counter(re.findall(r"[A-Za-z_]\w*", engine.source))
        # A function that is named nowhere else comes first: it may call the others.
        last = next((c for c in waiting if mentioned[c.name] < 2), waiting[-1])
        capability_leaks.release(engine, last)
        engine.wait(last.unit)
        engine.drain(statements.read)
