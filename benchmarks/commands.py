"""What a supervised command costs beside itself, and what of that is the comparison of what it was judged by.

    python benchmarks/commands.py [--runs N]

`true` is run bare (`subprocess`), and by `run_command` as judged by no file, by one and by sixteen small scripts.
Beside the time on the clock stands the time on the processor, of us and of what we started. Then the comparison alone:
the look when the permit is consumed, the one right before the start, and the one after the end. A table with medians
goes to standard error, the same figures as JSON to standard output.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from humanlayer_agent.action import BASH, FileDigest
from humanlayer_agent.processes.execution import command_environment, run_command
from humanlayer_agent.processes.file_swaps import JudgedFiles, WorkingDirectory
from humanlayer_agent.shell import DiskReader

RUNS = 200
FILES = (0, 1, 16)


def processor() -> float:
    """Seconds of processor time, of this process and of all children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def milliseconds(run: Callable[[], object], runs: int) -> dict[str, float]:
    """The median on the clock, and the mean on the processor, whose clock is too coarse for one run."""
    run()
    times, before = [], processor()
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return {"clock": round(statistics.median(times), 3), "processor": round((processor() - before) * 1e3 / runs, 3)}


def written(folder: Path, count: int) -> list[FileDigest]:
    """`count` scripts of 2 kB."""
    files = []
    for number in range(count):
        path = folder / f"{number}.sh"
        path.write_text("echo something\n" * 140)
        files.append(FileDigest(str(path), DiskReader.digest(str(path))))
    return files


def measure(runs: int, folder: Path) -> dict[str, dict[str, float]]:
    """Every form, in milliseconds."""
    env = command_environment(os.environ)
    argv = (*BASH, "true")
    figures = {"bare": milliseconds(lambda: subprocess.run(argv, cwd=folder, env=env, check=True), runs)}
    scripts = written(folder, max(FILES))
    time.sleep(0.05)  # else the first look waits until the scripts are older than a tick
    for count in FILES:

        def supervised(count: int = count) -> None:
            judged = JudgedFiles(WorkingDirectory.at(str(folder)), scripts[:count])
            judged.look()
            run_command(argv, cwd=str(folder), env=env, timeout=60, judged=judged)
            judged.changes()

        def compared(count: int = count) -> None:
            judged = JudgedFiles(WorkingDirectory.at(str(folder)), scripts[:count])
            os.close(judged.directory.open())
            judged.look()
            judged.check()
            judged.changes()

        figures[f"run_command, {count} files"] = milliseconds(supervised, runs)
        figures[f"the comparison alone, {count} files"] = milliseconds(compared, runs * 10)
    return figures


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(parser.parse_args().runs, Path(folder))
    for name, each in figures.items():
        print(f"{name:36} {each['clock']:9.3f} ms  {each['processor']:9.3f} ms processor", file=sys.stderr)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
