"""Makefiles: the recipes that making a target may run, as texts for the shell (GNU make 4.4).

Both branches of a condition count. What can't be told (a function of make's that is not read here, a file that nobody
can read) is a doubt where a recipe that may run, or a line that make reads, depends on it.
"""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from humanlayer_agent.shell.languages.behaviour import Behaviour, Found, Text
from humanlayer_agent.shell.languages.make.makefile import Reader
from humanlayer_agent.shell.languages.make.recipes import Made, run
from humanlayer_agent.shell.languages.make.variables import MAX_STEPS, Environment, Texts

__all__ = ["Made", "read", "whole"]


def read(
    sources: Sequence[tuple[str, Texts]],
    *,
    goals: Sequence[str] | None = None,
    given: Mapping[str, str] | None = None,
    files: Callable[[str], Found] | None = None,
    environment: Environment = lambda name: (),
    directory: str | None = None,
    search: Sequence[str] = (),
    steps: int = MAX_STEPS,
) -> Made:
    """What `make` does with a Makefile.

    Args:
        sources: the Makefiles, read one after the other: the name of each, and every content that it may have.
        goals: the targets; (): the default one; None: any.
        given: variables of the command line.
        files: gives the files that are included, by absolute path.
        environment: the values of environment variables (see `variables.Environment`).
        directory: where make runs.
        search: directories in which it looks for included files as well.
        steps: how many references to variables may be followed.
    """
    reader = Reader(goals, given or {}, files, environment, directory, search)
    reader.variables.most_steps = min(steps, MAX_STEPS)
    for name, texts in sources:
        reader.contents(name, texts)
    made = run(reader, goals, [name for name, _ in sources])
    made.behaviour.steps = min(reader.variables.steps, steps)
    return made


def whole(text: str, path: str | None, files: Callable[[str], Found] | None) -> Behaviour:
    """All that the recipes of a Makefile do, whichever target is made."""
    directory, name = posixpath.split(path or "Makefile")
    made = read([(name, (text,))], files=files, directory=directory or None)
    if directory:
        made.behaviour.acts = [replace(act, cwd=Text.of(directory)) for act in made.behaviour.acts]
    return made.behaviour
