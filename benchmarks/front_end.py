"""How fast the front end reads real commands, against bashlex alone in the same run.

    python benchmarks/front_end.py [--data FILE] [--limit N]

FILE has one JSON object with a "command" a line (default: agent_runs.jsonl in $HLA_DATA, or in ../shared/data).
Distinct commands are timed one by one, best of three; a table goes to standard error, the same figures as JSON to
standard output.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from humanlayer_agent.shell.syntax import fast_path, parse
from humanlayer_agent.shell.syntax.refusal import Unparsed

ROUNDS = 3


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


def import_ms(module: str) -> float:
    """The median time to import a module in a new process, without the interpreter's own start."""
    program = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    runs = [float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(5)]
    return round(statistics.median(runs) * 1e3, 1)


def read_slowly(text: str) -> None:
    """The slow path, which ends in an error where the text is refused."""
    try:
        parse.read(text, [])
    except Unparsed:
        return


def bashlex_parse(text: str) -> None:
    """bashlex alone; it raises six types of error."""
    import bashlex

    try:
        bashlex.parse(text)
    except Exception:
        return


def measure(texts: list[str]) -> dict[str, Any]:
    """All figures."""
    bashlex_times = seconds(bashlex_parse, texts)
    ours = seconds(parse.parse, texts)
    statuses = [parse.parse(text).status for text in texts]
    return {
        "commands": len(texts),
        "parse": figures(ours),
        "slow path": figures(seconds(read_slowly, texts)),
        "slow path with veto": figures(seconds(parse.parse_slowly, texts)),
        "bashlex.parse": figures(bashlex_times),
        "ratio": round(sum(bashlex_times) / sum(ours), 1),
        "fast_share": round(sum(fast_path.read(text) is not None for text in texts) / len(texts), 4),
        "status": {status: statuses.count(status) for status in ("ok", "partial", "failed")},
        "import_ms": {module: import_ms(module) for module in ("humanlayer_agent.shell.syntax.parse", "bashlex")},
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default = Path(os.environ.get("HLA_DATA", "../shared/data")) / "agent_runs.jsonl"
    parser.add_argument("--data", type=Path, default=default, help="JSON lines with a command each")
    parser.add_argument("--limit", type=int, help="how many distinct commands to take")
    options = parser.parse_args()
    if not options.data.exists():
        sys.exit(f"{options.data} is missing; name a file with --data")
    found = measure(commands(options.data, options.limit))
    print(f"{'':22}{'rows/s':>10}{'p50 us':>10}{'p99 us':>10}", file=sys.stderr)
    for name in ("parse", "slow path", "slow path with veto", "bashlex.parse"):
        row = found[name]
        print(f"{name:22}{row['rows_per_s']:>10}{row['p50_us']:>10}{row['p99_us']:>10}", file=sys.stderr)
    print(
        f"{found['commands']} commands, {found['fast_share']:.2%} on the fast path, status {found['status']}\n"
        f"parse against bashlex.parse: {found['ratio']} times its rate; import ms {found['import_ms']}",
        file=sys.stderr,
    )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
