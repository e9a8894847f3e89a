"""How long `humanlayer-agent check` takes as a whole process, against the interpreter alone in the same run.

    python benchmarks/startup.py [--runs N]

Three commands take turns: `python -c pass`; `check 'ls -la'`, which the fast path reads; and a command that needs
bashlex and the second parser. The policy was compiled before, as it is after the first use, and so were the modules.
Beside the time on the clock stands the time on the processor (user and system), which tells more on a busy machine. A
table with medians goes to standard error, the same figures as JSON to standard output.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

RUNS = 20
ALLOWED_MS = 60
"""How much longer `check 'ls -la'` may take where `python -c pass` takes 10 ms; in proportion elsewhere. The slow path
has no bar of its own: most of it is the import of bashlex, and hooks ask a process that has imported it."""

_MAIN = "import sys; from humanlayer_agent.cli import main; sys.exit(main())"
FORMS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "check 'ls -la'": [sys.executable, "-c", _MAIN, "check", "ls -la"],
    "check, slow path": [sys.executable, "-c", _MAIN, "check", 'for f in *.py; do cat "$f"; done'],
}


def milliseconds(command: list[str], environ: dict[str, str]) -> tuple[float, float]:
    """One run: its time on the clock, and on the processor."""
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (time.perf_counter() - start) * 1e3, (used.ru_utime + used.ru_stime) * 1e3


def measure(runs: int, environ: dict[str, str]) -> dict[str, tuple[float, float]]:
    """The medians of each form; they take turns, so that a busy machine slows all alike."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in FORMS}
    for n in range(runs + 1):
        for name, command in FORMS.items():
            taken = milliseconds(command, environ)
            if n:  # the first compiles the policy and the modules
                times[name].append(taken)
    return {
        name: (_median([wall for wall, _ in each]), _median([cpu for _, cpu in each])) for name, each in times.items()
    }


def _median(times: list[float]) -> float:
    return round(statistics.median(times), 1)


def summary(bare: float, quick: float, slow: float) -> dict[str, float]:
    """How the forms stand to each other."""
    return {
        "check_above_bare_ms": round(quick - bare, 1),
        "in_proportion_ms": round((quick - bare) / bare * 10, 1),
        "slow_path_times_bare": round(slow / bare, 2),
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "HOME": home, "XDG_STATE_HOME": f"{home}/state", "PYTHONPYCACHEPREFIX": f"{home}/pyc"}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its modules compiled
        found = measure(options.runs, environ)
    clock, processor = (summary(*(each[n] for each in found.values())) for n in (0, 1))
    allowed = {"in_proportion_ms": ALLOWED_MS}
    for name, (wall, cpu) in found.items():
        print(f"{name:20}{wall:>8} ms{cpu:>8} ms of processor time", file=sys.stderr)
    for name, result in (("clock", clock), ("processor", processor)):
        print(
            f"{name}: check 'ls -la' takes {result['check_above_bare_ms']} ms more than the interpreter alone, "
            f"{result['in_proportion_ms']} ms where that took 10 ms (allowed: {ALLOWED_MS}); "
            f"the slow path {result['slow_path_times_bare']} times as long",
            file=sys.stderr,
        )
    ms = {name: {"clock": wall, "processor": cpu} for name, (wall, cpu) in found.items()}
    print(json.dumps({"ms": ms, "clock": clock, "processor": processor, "allowed": allowed}))


if __name__ == "__main__":
    main()
