"""The reader of JavaScript and TypeScript: what a program for node does, found in its source without running it.

`read` gives a Behaviour, as the reader of Python does: the files that are touched, programs and shells that are
started, hosts, modules that are loaded, and doubts where something can't be told. It goes by what is known: a kind of
syntax, a global, a member or a module that is in no table of ours (`node_api.yaml`) is a doubt.

How the text becomes a tree is in `source_tree`, what a value may be in `possible_values`, how it is followed in
`evaluation`. What can do something (a module such as `fs`, its functions) is followed through names, parameters and
what functions give; put anywhere else, it is a doubt.
"""

from collections.abc import Sequence

from humanlayer_agent.shell.languages.behaviour import MOST_STEPS, Behaviour, Text

__all__ = ["read"]


def read(
    text: str,
    *,
    argv: Sequence[Text] | None = None,
    path: str | None = None,
    typed: bool = False,
    steps: int = MOST_STEPS,
) -> Behaviour:
    """What `text` does when node runs it. Never raises.

    Args:
        argv: process.argv from the script's name on, where it is known.
        path: the absolute path of the script, where it is a file.
        typed: it is TypeScript.
        steps: how many may be taken to follow it.
    """
    from humanlayer_agent.shell.languages.javascript import control_statements
    from humanlayer_agent.shell.languages.javascript.evaluation import Evaluator, TooMuch
    from humanlayer_agent.shell.languages.javascript.source_tree import Unreadable, parse

    evaluator = None
    try:
        evaluator = Evaluator(parse(text, typed=typed), argv, path, steps)
        evaluator.run(control_statements.program)
        found = evaluator.behaviour()
        found.steady, found.steps = True, evaluator.steps
        return found
    except Unreadable as error:
        reason = str(error)
    except TooMuch:
        reason = "the JavaScript code is too large to be followed"
    except RecursionError:
        reason = "the JavaScript code is nested too deep"
    except Exception as error:  # a fault of this reader is no permission
        reason = f"the JavaScript code could not be read ({type(error).__name__})"
    found = Behaviour(opaque=True, steps=evaluator.steps if evaluator is not None else 0)
    found.doubt(reason)
    return found
