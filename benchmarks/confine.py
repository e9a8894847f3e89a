"""What a confinement costs: a command as it is, through the reaper, confined, and confined with 50 hidden files.

    python benchmarks/confine.py [--runs N]

The four take turns in one process, as the commands of an agent do. `bash` is the bare command, the others are
`run_command`, from the call to the end of everything. Beside the time on the clock stands that on the processor (user
and system, of all processes), which tells more on a busy machine. A table with medians goes to standard error, the same
figures as JSON to standard output.
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

from humanlayer_agent.action import BASH
from humanlayer_agent.confine.bubblewrap import Enclosure, find
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.confine.proof import interpreter_reads, prove
from humanlayer_agent.processes.execution import command_environment, run_command

RUNS = 40
MASKS = 50
COMMAND = (*BASH, "true")


def used() -> float:
    """Seconds of processor time, ours and of all that has ended."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, kinds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    runs = parser.parse_args().runs
    backend = find()
    assert prove(backend).holds
    env = command_environment(os.environ)
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-confine-") as name:
        project, temporary = Path(name, "project"), Path(name, "tmp")
        (project / ".git/hooks").mkdir(parents=True)
        temporary.mkdir()
        for n in range(MASKS):
            (project / f"{n}.env").write_text("x")
        time.sleep(0.05)  # what has just changed is looked at again
        plain = Profile("project", interpreter_reads(), (f"{project}/**",), (f"{project}/**/.git/hooks/**",))
        masked = Profile("masked", plain.read, plain.write, plain.protect, (f"{project}/**/*.env",))

        def confined(profile: Profile) -> Callable[[], object]:
            enclosure = Enclosure(backend, Confinement((profile,)), str(temporary), f"{name}/aside")
            return lambda: run_command(COMMAND, cwd=str(project), env=env, timeout=60, confinement=enclosure)

        forms: dict[str, Callable[[], object]] = {
            "bash": lambda: subprocess.run(COMMAND, cwd=project, env=env, stdin=subprocess.DEVNULL, check=True),
            "reaper": lambda: run_command(COMMAND, cwd=str(project), env=env, timeout=60),
            "confined": confined(plain),
            f"confined, {MASKS} masks": confined(masked),
        }
        taken: dict[str, list[tuple[float, float]]] = {form: [] for form in forms}
        for _ in range(runs + 1):
            for form, run in forms.items():
                clock, processor = time.perf_counter(), used()
                run()
                taken[form].append(((time.perf_counter() - clock) * 1e3, (used() - processor) * 1e3))
    figures = {
        form: {
            "ms": round(statistics.median(clock for clock, _ in each[1:]), 2),
            "processor ms": round(statistics.fmean(processor for _, processor in each[1:]), 2),
        }
        for form, each in taken.items()
    }
    for form, each in figures.items():
        ratio = each["ms"] / figures["reaper"]["ms"]
        print(
            f"{form:24} {each['ms']:8.1f} ms {each['processor ms']:8.1f} ms of processor {ratio:6.2f} x",
            file=sys.stderr,
        )
    print(
        json.dumps(
            {
                "runs": runs,
                "confined to reaper": round(figures["confined"]["ms"] / figures["reaper"]["ms"], 3),
                **figures,
            }
        )
    )


if __name__ == "__main__":
    main()
