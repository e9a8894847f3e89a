"""The smallest form of a failure: as few transformations as can be, then as few words as can be."""

import itertools
from collections.abc import Iterator

from humanlayer_agent.policy.language.examples import HOME, PROJECT
from humanlayer_agent.policy_tools.metamorphic.line import Line, spans
from humanlayer_agent.policy_tools.metamorphic.run import Bench, Failure
from humanlayer_agent.shell import syntax_tree

MAX_STEPS = 200
"""How many smaller forms are tried."""


def smallest(bench: Bench, failure: Failure) -> Failure:
    """The smallest failure of the same kind that can be found in a bounded number of steps."""
    if failure.hardened:
        return failure
    failure = _fewer_transformations(bench, failure)
    for _ in range(MAX_STEPS):
        found = next((f for text in smaller(failure.original) if (f := bench.weakened(text, failure.chain))), None)
        if found is None:
            break
        failure = found
    return failure


def _fewer_transformations(bench: Bench, failure: Failure) -> Failure:
    for count in range(1, len(failure.chain)):
        for chain in itertools.combinations(failure.chain, count):
            found = bench.weakened(failure.original, chain)
            if found is not None:
                return found
    return failure


def smaller(text: str) -> Iterator[str]:
    """Command lines with one part less: a command of a list or pipeline, a redirect, an assignment, a word."""
    line = Line.read(text, cwd=PROJECT, home=HOME)
    if line is None:
        return
    body = line.script.body
    if isinstance(body, syntax_tree.Sequence | syntax_tree.Pipeline):
        for part in body.parts:
            if text[part.start : part.end] != text:
                yield text[part.start : part.end]
    for command in line.commands:
        for start, end in spans(command.redirects, command.assigns, command.words[1:]):
            shorter = f"{text[:start].rstrip(' ')} {text[end:].lstrip(' ')}".strip(" ")
            if shorter != text:
                yield shorter
