"""How long decisions take on texts that somebody made to take long, and how that grows with the text.

    python benchmarks/hostile.py [--policy NAME] [--size N] [--only TEXT]

Each construct of `tests/support/growing_texts.yaml` is repeated, or nested, to 1,000 characters, 2,000 and so on to N.
Each text is judged once, in a process of its own in which a short one of its kind was judged before. Told are processor
times in milliseconds; and "growth", by which power of its length the time of the longest text grew from one eighth of
it (1: in proportion). A table of the slowest goes to standard error, all figures as JSON to standard output.
"""

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

from humanlayer_agent.policy.director import Director
from tests.support.growing_texts import FOLDER, Construct, constructs

SHORTEST = 1_000
MOST_S = 60.0


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


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="default")
    parser.add_argument("--size", type=int, default=64_000, help="the longest text, in characters")
    parser.add_argument("--only", default="", help="constructs whose names hold this")
    options = parser.parse_args()
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
