"""The reader of JavaScript and TypeScript: what a program for node does, found in its source without running it.

`read` gives a Behaviour, as the reader of Python does: the files that are touched, programs and shells that are
started, hosts, modules that are loaded, and doubts where something can't be told. It goes by what is known: a kind of
syntax, a global, a member or a module that is in no table of ours (`node_api.yaml`) is a doubt.

How the text becomes a tree is in `source_tree`, what a value may be in `possible_values`, how it is followed in
`evaluation`. What can do something (a module such as `fs`, its functions) is followed through names, parameters and
what functions give; put anywhere else, it is a doubt.
"""

from collections.abc import Sequence

from humanlayer_agent.shell.languages.behaviour import Behaviour, Text

__all__ = ["read", "read_settings"]

Pair = tuple[str, str | None]


def read(text: str, *, argv: Sequence[Text] | None = None, path: str | None = None, typed: bool = False) -> Behaviour:
    """What `text` does when node runs it. Never raises.

    Args:
        argv: process.argv from the script's name on, where it is known.
        path: the absolute path of the script, where it is a file.
        typed: it is TypeScript.
    """
    return _read(text, argv, path, typed, None)


def read_settings(text: str, *, path: str, typed: bool = False) -> tuple[Behaviour, list[Pair]]:
    """What `text` does when a tool loads it as its settings, and what these say: names, each with a text that may be
    stored under it, in whatever object; None: one that is not known. Never raises.

    Args:
        path: the absolute path of the file.
        typed: it is TypeScript.
    """
    pairs: list[Pair] = []
    return _read(text, None, path, typed, pairs), pairs


def _read(text: str, argv: Sequence[Text] | None, path: str | None, typed: bool, pairs: list[Pair] | None) -> Behaviour:
    from humanlayer_agent.shell.languages.javascript import control_statements
    from humanlayer_agent.shell.languages.javascript.evaluation import Evaluator, TooMuch, settings
    from humanlayer_agent.shell.languages.javascript.source_tree import Unreadable, parse

    try:
        evaluator = Evaluator(parse(text, typed=typed), argv, path, configures=pairs is not None)
        evaluator.run(control_statements.program)
        found = evaluator.behaviour()
        found.steady = True
        if pairs is not None:
            pairs += settings(evaluator)
        return found
    except Unreadable as error:
        reason = str(error)
    except TooMuch:
        reason = "the JavaScript code is too large to be followed"
    except RecursionError:
        reason = "the JavaScript code is nested too deep"
    except Exception as error:  # a fault of this reader is no permission
        reason = f"the JavaScript code could not be read ({type(error).__name__})"
    found = Behaviour(opaque=True)
    found.doubt(reason)
    return found
