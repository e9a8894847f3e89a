"""How long decisions take on texts that somebody made to take long, and how that grows with the text.

    python benchmarks/hostile.py [--policy NAME] [--size N] [--only TEXT]
    python benchmarks/hostile.py --pairs N [--size N] [--seed N] [--seconds N]

Each construct of `tests/support/growing_texts.yaml` is repeated, or nested, to 1,000 characters, 2,000 and so on to N.
Each text is judged once, in a process of its own in which a short one of its kind was judged before. Told are processor
times in milliseconds; and "growth", by which power of its length the time of the longest text grew from one eighth of
it (1: in proportion). A table of the slowest goes to standard error, all figures as JSON to standard output.

With --pairs, so many pairs of constructs are drawn, of one kind or of two. Both grow in one action: from a sixteenth of
N to N characters, each time twice as long. They are judged in this process, by Directors that have not seen the text.
Beside it stands what bashlex.parse and ast.parse take for the same texts, where they are shell or Python.
"""

import argparse
import ast
import json
import math
import multiprocessing
import os
import random
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import bashlex

from humanlayer_agent.action import Action
from humanlayer_agent.policy.director import Director
from humanlayer_agent.shell import GivenReader
from tests.support.growing_texts import FOLDER, Construct, constructs

SHORTEST = 1_000
MOST_S = 60.0
PARSERS: dict[str, Callable[[str], object]] = {"command line": bashlex.parse, "python": ast.parse}


def judged(construct: Construct, size: int, policy: str, answer: Connection) -> None:
    """Judge one text, and tell the processor time (s) and the verdict."""
    director = Director.load(policy, project=FOLDER)
    director.evaluate(*construct.action(0))
    action, reader = construct.action(size)
    start = time.process_time()
    decision = director.evaluate(action, reader)
    answer.send((time.process_time() - start, decision.verdict.name.lower()))


def timed(construct: Construct, size: int, policy: str) -> tuple[float, str]:
    """The same in a process of its own; more than `MOST_S` is not waited for."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=judged, args=(construct, size, policy, theirs))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(MOST_S) else (MOST_S, "none in time")
    except EOFError:
        return MOST_S, "the process ended"
    finally:
        process.kill()
        process.join()


def measure(construct: Construct, longest: int, policy: str) -> dict[str, Any]:
    """All figures of one construct."""
    taken, verdict, size = [], "", SHORTEST
    while size <= longest:
        seconds, verdict = timed(construct, size, policy)
        taken.append(round(seconds * 1000, 1))
        size *= 2
    eighth = taken[-4] if len(taken) > 3 else taken[0]
    growth = math.log2(max(taken[-1], 0.1) / max(eighth, 0.1)) / max(1, min(3, len(taken) - 1))
    return {"construct": str(construct), "ms": taken, "growth": round(growth, 2), "verdict": verdict}


def together(first: Construct, second: Construct, size: int) -> tuple[Action, GivenReader, list[str]]:
    """Return an action with half of `size` of each, the files that it has, and all texts in it."""
    commands, files, texts = [], {}, []
    for n, construct in enumerate((first, second)):
        text = construct.text(size // 2)
        texts.append(text)
        files.update({f"{FOLDER}/{name}": given for name, given in construct.files})
        if construct.path:
            folder = f"{FOLDER}/{n}"
            files[f"{folder}/{construct.path}"] = text
            commands.append(f"(cd {folder} && {construct.command})")
        else:
            commands.append(text)
    return Action("\n".join(commands), cwd=FOLDER), GivenReader(files), texts


def spent(function: Callable[..., Any], *given: object) -> tuple[float, Any]:
    """Return the processor time of a call in milliseconds, and what it returned; None where it raised."""
    start, found = time.process_time(), None
    with suppress(Exception):
        found = function(*given)
    return (time.process_time() - start) * 1000, found


def grown(first: Construct, second: Construct, options: argparse.Namespace) -> Iterator[tuple[float, int, float, str]]:
    """Yield of each size the milliseconds of a decision, the characters, the milliseconds of parsers alone (0: none is
    for it), and the verdict.
    """
    director = Director.load(options.policy, project=FOLDER)
    both = [PARSERS.get(each.kind) for each in (first, second)]
    for halvings in range(4, -1, -1):
        action, reader, texts = together(first, second, options.size >> halvings)
        ours, decision = spent(director.evaluate, action, reader)
        parsed = [spent(parser, text)[0] for parser, text in zip(both, texts, strict=True) if parser]
        verdict = "none: it raised" if decision is None else decision.verdict.name.lower()
        yield ours, sum(map(len, texts)), sum(parsed) if all(both) else 0.0, verdict


def pairs(options: argparse.Namespace) -> None:
    """Judge pairs of constructs, and print."""
    draw, known = random.Random(options.seed), constructs()
    warnings.simplefilter("ignore")  # what ast.parse says of hostile code
    taken: list[tuple[float, int, float, str, str]] = []
    growths: list[tuple[float, str]] = []
    end = time.monotonic() + options.seconds
    while len(taken) < 5 * options.pairs and time.monotonic() < end:
        first, second = draw.choice(known), draw.choice(known)
        found, name = [*grown(first, second, options)], f"{first} + {second}"
        taken += [(*each, name) for each in found]
        if found[1][0] > 1:  # ms: less is not measured well
            growths.append((math.log2(found[-1][0] / found[1][0]) / 3, name))
    taken.sort(reverse=True)
    milliseconds = [each[0] for each in taken]
    with_parsers = [each for each in taken if each[2]]
    growths.sort(reverse=True)
    cuts = statistics.quantiles(milliseconds, n=1000)
    result = {
        "texts": len(taken),
        "verdicts": Counter(verdict for *_, verdict, _ in taken),
        "ms": {"p50": cuts[499], "p99": cuts[989], "p999": cuts[998], "max": milliseconds[0]},
        "shell and python": len(with_parsers),
        "of them above twice their parsers": sum(ours > 2 * parsed for ours, _, parsed, *_ in with_parsers),
        "ours to parsers": sum(each[0] for each in with_parsers) / sum(each[2] for each in with_parsers),
        "growth above 1.25": sum(growth > 1.25 for growth, _ in growths),
        "growths": len(growths),
        "slowest": taken[:20],
        "steepest": growths[:10],
    }
    for name, value in result.items():
        print(f"{name}: {value}" if not isinstance(value, list) else f"{name}:", file=sys.stderr)
        for row in value if isinstance(value, list) else ():
            print("   ", *(round(each, 2) if isinstance(each, float) else each for each in row), file=sys.stderr)
    print(json.dumps(result))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="default")
    parser.add_argument("--size", type=int, default=64_000, help="the longest text, in characters")
    parser.add_argument("--only", default="", help="constructs whose names hold this")
    parser.add_argument("--pairs", type=int, default=0, help="how many pairs of constructs to draw instead")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="when to stop drawing pairs")
    options = parser.parse_args()
    if options.pairs:
        pairs(options)
        return
    found = []
    for construct in constructs():
        if options.only in str(construct):
            found.append(measure(construct, options.size, options.policy))
            if os.isatty(2):
                print(f"\r{len(found)} of {len(constructs())}", end="", file=sys.stderr)
    found.sort(key=lambda row: -max(row["ms"]))
    print(
        f"\n{'the slowest, ms of processor time':40}{'growth':>8}  {'at 1,000, 2,000, ... characters'}", file=sys.stderr
    )
    for row in found[:20]:
        print(f"{row['construct']:40}{row['growth']:>8}  {row['ms']} {row['verdict']}", file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
