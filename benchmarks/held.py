"""What it costs to run commands held: to the moment when a human could be asked, and to apply what they changed.

    python benchmarks/held.py [--runs N]

`true` and ten commands take turns, confined and held, each in a project that is made anew before it (not measured);
then `true` in a project of 20,000 files. `held` goes from the call to the summary with the lines that changed, and
`applied` is what comes after the answer. A table with medians goes to standard error, the same figures as JSON to
standard output.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RUNS = 15
FILES = 20_000
COMMANDS = {
    "true": "true",
    "rm -rf of 200 files": "rm -rf build",
    "sed -i in 3 files": "sed -i s/alpha/ALPHA/ src/f1.txt src/f2.txt src/f3.txt",
    "python script": 'python3 -c \'open("made", "w").write("x" * 1000)\'',
    "git add and commit": "git add -A && git commit -qm more",
    "git checkout -b": "git checkout -q -b other",
    "mv of a folder": "mv src lib",
    "cp -a of a folder": "cp -a src copied",
    "100 new files": "for i in $(seq 100); do echo $i > new$i; done",
    "tar, and back": "tar cf all.tar src && tar xf all.tar && rm all.tar",
    "find and delete": "find build -name 'f1*' -delete",
}


def fill(project: Path) -> None:
    for folder, count in (("build", 200), ("src", 20)):
        (project / folder).mkdir(parents=True)
        for n in range(count):
            (project / folder / f"f{n}.txt").write_text(f"alpha {n}\n")
    for words in (["init", "-q"], ["config", "user.name", "x"], ["config", "user.email", "x"], ["add", "src"]):
        subprocess.run(["git", *words], cwd=project, check=True)
    subprocess.run(["git", "commit", "-qm", "first"], cwd=project, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-held-") as name:
        os.environ["XDG_STATE_HOME"] = f"{name}/state"
        figures = measured(Path(name), runs)
    for what, each in figures.items():
        rest = "".join(f"{kind} {ms:8.1f} ms   " for kind, ms in each.items())
        print(f"{what:24} {rest}", file=sys.stderr)
    print(json.dumps({"runs": runs, **figures}))


def measured(base: Path, runs: int) -> dict[str, dict[str, float]]:
    from humanlayer_agent.action import Action
    from humanlayer_agent.agents.held_runs import HeldRuns
    from humanlayer_agent.agents.run_enclosures import RunEnclosures
    from humanlayer_agent.approvals.model import Permit
    from humanlayer_agent.confine.confinement import Confinement, Profile
    from humanlayer_agent.confine.proof import interpreter_reads
    from humanlayer_agent.policy.decision import PolicyDecision, Verdict
    from humanlayer_agent.processes.execution import run_command

    project, fixture = base / "project", base / "fixture"
    fill(fixture)
    project.mkdir()
    enclosures = RunEnclosures.of("benchmark", project)
    holder = HeldRuns(enclosures)
    profile = Profile("project", interpreter_reads(), (f"{project}/**",), (f"{project}/**/.git/hooks/**",))
    confinement = Confinement((profile,))
    decision = PolicyDecision(Verdict.ASK, "", "benchmark", "0" * 64, holds=confinement)
    env = enclosures.environment(os.environ)

    def again(source: Path) -> None:
        shutil.rmtree(project)
        subprocess.run(["cp", "-a", source, project], check=True)
        time.sleep(0.02)  # what has changed just now would count as changed by somebody else

    def took(run: Callable[[], object]) -> float:
        clock = time.perf_counter()
        run()
        return (time.perf_counter() - clock) * 1e3

    def medians(command: str, source: Path, *, anew: bool) -> dict[str, float]:
        action = Action(command, cwd=str(project), project=str(project), env=env)
        found: dict[str, list[float]] = {"confined": [], "held": [], "applied": []}

        def confined() -> object:
            enclosure = enclosures.enclosure(confinement)
            argv = (*action.interpreter, command)
            return run_command(argv, cwd=action.cwd, env=env, timeout=60, confinement=enclosure)

        def hold() -> None:
            layer, shown = holder.hold(action, decision)
            assert shown.applicable, shown.partial
            layers.append(layer)

        def apply() -> object:
            made = Action(command, cwd=str(project), project=str(project), layer=layers.pop())
            return holder.apply(Permit("p", "", made, decision, 0))

        layers: list[str] = []
        for _ in range(runs + 1):
            for kind, run in (("confined", confined), ("held", hold), ("applied", apply)):
                if anew and kind != "applied":
                    again(source)
                found[kind].append(took(run))
        return {kind: round(statistics.median(each[1:]), 2) for kind, each in found.items()}

    again(fixture)
    figures = {what: medians(command, fixture, anew=command != "true") for what, command in COMMANDS.items()}
    for n in range(FILES):
        folder = project / f"many/{n // 200}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{n}").write_text(f"{n}\n")
    figures[f"true, {FILES:,} files"] = medians("true", fixture, anew=False)
    figures[f"1 of {FILES:,} files"] = medians("echo x >> many/7/1400", fixture, anew=False)
    holder.close()
    return figures


if __name__ == "__main__":
    main()
