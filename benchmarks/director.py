"""How fast whole decisions are on real commands, against bashlex alone in the same run; and how much is understood.

    python benchmarks/director.py [--data FILE] [--limit N] [--policy NAME]

FILE has one JSON object with a "command" a line (default: agent_runs.jsonl in $HLA_DATA, or in ../shared/data).
Distinct commands are timed one by one, best of three; a table goes to standard error, the same figures as JSON to
standard output. "resolved" is the share of simple commands whose program, options and effects are all certain, but for
code that they run.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from humanlayer_agent.actions import Action
from humanlayer_agent.policy.director import Director
from humanlayer_agent.shell.program import SimpleCommand

ROUNDS = 3
PROJECT = "/testbed"


def commands(path: Path, limit: int | None) -> list[str]:
    """The distinct commands of a file, in its order."""
    with path.open() as rows:
        return list(dict.fromkeys(json.loads(row)["command"] for row in rows))[:limit]


def seconds(function: Callable[[str], object], texts: list[str]) -> list[float]:
    """The best time of each text."""
    best = [float("inf")] * len(texts)
    for _ in range(ROUNDS):
        for index, text in enumerate(texts):
            start = time.perf_counter()
            function(text)
            best[index] = min(best[index], time.perf_counter() - start)
    return best


def figures(times: list[float]) -> dict[str, float]:
    """Rows a second, and the median and 99th percentile in microseconds."""
    cuts = statistics.quantiles(times, n=100)
    return {
        "rows_per_s": round(len(times) / sum(times)),
        "p50_us": round(statistics.median(times) * 1e6, 1),
        "p99_us": round(cuts[98] * 1e6, 1),
    }


def understood(command: SimpleCommand) -> bool:
    """Is everything about `command` certain, but for the code it runs?"""
    effects = [e for e in command.effects if not (e.kind == "execute" and e.unread)]
    if not command.known and not any(e.unread for e in command.effects):
        return False
    # What keeps a command unresolved besides its effects are unknown options; code that it runs is judged apart.
    return all(e.resolved or e.below for e in effects) and (command.resolved or len(effects) < len(command.effects))


def share_understood(director: Director, texts: list[str]) -> tuple[float, list[tuple[str, int]]]:
    """The share of simple commands that are understood, and the words that most often stand in the way."""
    total = good = 0
    doubts: Counter[str] = Counter()
    for text in texts:
        for command in director.program(Action(text, cwd=PROJECT)).commands:
            total += 1
            if understood(command):
                good += 1
            else:
                doubts[f"{command.program}: {(command.unresolved or ['effect'])[0]}"[:60]] += 1
    return good / total, doubts.most_common(8)


def bashlex_alone(text: str) -> None:
    import bashlex

    try:
        bashlex.parse(text)
    except Exception:  # it refuses a fifth of real commands, in six ways
        return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = Path(os.environ.get("HLA_DATA") or Path(__file__).parent.parent.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=folder / "agent_runs.jsonl")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--policy", default="default")
    args = parser.parse_args()
    texts = commands(args.data, args.limit)
    director = Director.load(args.policy, project=PROJECT)
    result: dict[str, Any] = {"commands": len(texts)}
    result["decision"] = figures(seconds(lambda t: director.evaluate(Action(t, cwd=PROJECT)), texts))
    result["analysis"] = figures(seconds(lambda t: director.program(Action(t, cwd=PROJECT)), texts))
    result["bashlex.parse"] = figures(seconds(bashlex_alone, texts))
    result["ratio"] = round(result["decision"]["rows_per_s"] / result["bashlex.parse"]["rows_per_s"], 2)
    result["resolved"], doubts = share_understood(director, texts)
    print(f"{'':20}{'rows/s':>10}{'p50 us':>10}{'p99 us':>10}", file=sys.stderr)
    for name in ("decision", "analysis", "bashlex.parse"):
        row = result[name]
        print(f"{name:20}{row['rows_per_s']:>10}{row['p50_us']:>10}{row['p99_us']:>10}", file=sys.stderr)
    print(f"{len(texts)} commands; decisions run at {result['ratio']} times the rate of bashlex.parse", file=sys.stderr)
    print(f"{result['resolved']:.2%} of simple commands resolved; most often in the way: {doubts}", file=sys.stderr)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
