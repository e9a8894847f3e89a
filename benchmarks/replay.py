"""How long a replay takes in one process and in several, over many rows of real runs. Nothing is executed.

    python benchmarks/replay.py [--data FILE...] [--rows N] [--part N] [--jobs 1,2] [--policy NAME]

FILE has one JSON object a line: "command", "cwd" and "run". Default: agent_runs.jsonl and multilang_runs.jsonl in
$HLA_DATA, or in ../shared/data. Rows are repeated, under other names of runs, until there are N. They are replayed in
parts, each by `hla policy replay` in a new process: of one part with each number of jobs in turn, so that whatever else
the machine does falls on all of them. Rows of all numbers of jobs must be the same, apart from their times.

Printed are wall time, processor time of all processes together, and the largest memory of one of them; a table on
standard error, JSON on standard output. On a busy machine only the ratios count.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from typing import Any

DATA = Path(os.environ.get("HLA_DATA", Path(__file__).parents[2] / "shared" / "data"))


def rows_of(paths: list[Path]) -> Iterator[str]:
    """The rows of all files, again and again, each time as other runs."""
    rows = [json.loads(line) for path in paths for line in path.open()]
    for time_round in count():
        for row in rows:
            yield json.dumps({**row, "run": f"{row.get('run', '')}-{time_round}"}) + "\n"


def replay(path: Path, policy: str, jobs: int) -> tuple[float, float, int, str]:
    """Wall seconds, processor seconds, largest KiB, and the digest of the rows without their times."""
    command = [sys.executable, "-m", "humanlayer_agent.cli", "policy", "replay", policy, str(path)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    digest = sha256()
    options = ["--rows", "--format", "jsonl", "--jobs", str(jobs)]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            digest.update(json.dumps({**json.loads(line), "us": 0}).encode())
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"hla policy replay: exit code {process.returncode}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used, after.ru_maxrss, digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, nargs="+", default=[DATA / f"{n}_runs.jsonl" for n in ("agent", "multilang")]
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--part", type=int, default=20_000)
    parser.add_argument("--jobs", default="1,2")
    parser.add_argument("--policy", default="default")
    given = parser.parse_args()
    numbers = [int(each) for each in given.jobs.split(",")]
    figures: dict[int, dict[str, Any]] = {n: {"rows": 0, "wall_s": 0.0, "cpu_s": 0.0, "kib": 0} for n in numbers}
    source = rows_of(given.data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        for part in range(0, given.rows, given.part):
            size = min(given.part, given.rows - part)
            path.write_text("".join(islice(source, size)))
            seen = set()
            for jobs in numbers if part // given.part % 2 == 0 else reversed(numbers):
                wall, cpu, kib, digest = replay(path, given.policy, jobs)
                seen.add(digest)
                mine = figures[jobs]
                mine["rows"] += size
                mine["wall_s"] += wall
                mine["cpu_s"] += cpu
                mine["kib"] = max(mine["kib"], kib)
            if len(seen) != 1:
                raise SystemExit(f"rows {part} to {part + size}: not the same with all numbers of jobs")
            print(f"{part + size:,} rows, the same with --jobs {given.jobs}", file=sys.stderr)
    first = figures[numbers[0]]
    print(f"{'jobs':>4} {'rows':>9} {'wall s':>9} {'cpu s':>9} {'wall':>7} {'cpu':>7}", file=sys.stderr)
    for jobs, mine in figures.items():
        ratios = f"{mine['wall_s'] / first['wall_s']:7.2f} {mine['cpu_s'] / first['cpu_s']:7.2f}"
        print(f"{jobs:4} {mine['rows']:9,} {mine['wall_s']:9.1f} {mine['cpu_s']:9.1f} {ratios}", file=sys.stderr)
    print(json.dumps({str(jobs): mine for jobs, mine in figures.items()}))


if __name__ == "__main__":
    main()
