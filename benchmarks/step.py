"""What a step of mini-swe-agent costs, as it is, supervised, and supervised and confined.

    python benchmarks/step.py [--runs N] [--minutes M] [--only WORD]

A step is mini's own: the model's answer (a script's), its command, the observation. The agents are mini's default one,
as it is and supervised by the shipped policy `default`, with a store of its own; they take turns in one process on one
project. The commands are `true`, in which there is nothing but the step, and ten of real runs. In a round every agent
takes one step with every command, each time another agent first: what else the machine does meanwhile is in all rows
alike. One round comes before those that are measured, as in a run that comes back to a command. With --minutes it ends
with the round in which that time is over, and the figures are those of fewer rounds: how many, they say (`runs`). A row
gives the medians on the clock, the means on the processor (user and system, of all processes; its clock is too coarse
for one step), and both as ratios to mini's own. The last line is the memory of a process in which one agent alone has
taken a step with `true`. How far it is, and then a table, go to standard error, the same figures as JSON to standard
output. What is not there, a program or bubblewrap, is left out, and named.

It measures the version of mini that is installed: in an environment with 1.17, that one.
"""

import argparse
import json
import logging
import math
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

RUNS = 100
SAID_EVERY_S = 10
AGENTS = ("mini", "supervised", "confined")
HELLO = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'
MODULE = 'def median(values):\n    """Return the middle value."""\n    return sorted(values)[len(values) // 2]\n'
TEST = "from stats import median\n\n\ndef test_median():\n    assert median([3, 1, 2]) == 2\n"
TEMPLATES: dict[str, Any] = {"system_template": "", "instance_template": "{{task}}"}
FILES = 200

COMMANDS = {
    "true": "true",
    "ls": "ls -la",
    "git status": "git status --short",
    "git log": "git log --oneline -5 && git diff --stat",
    "grep": "grep -rn 'def value_1' src",
    "find": "find . -name '*.py' -newer stats.py | head",
    "sed": "sed -n '1,40p' stats.py",
    "python": "python3 -c 'import json; print(json.dumps([1, 2]))'",
    "pytest": "python3 -m pytest -q -p no:cacheprovider test_stats.py",
    "gcc": "gcc -o hello hello.c",
    "write": "cat > notes.txt <<'EOT'\nwhat was found\nEOT\nwc -l notes.txt",
}
PROGRAMS = {"gcc": "gcc", "git status": "git", "git log": "git"}
MEMORY_OF = "--memory-of"


def used() -> float:
    """Seconds of processor time, ours, of all that has ended, and of children that go on from step to step."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    children = " ".join(path.read_text() for path in Path("/proc/self/task").glob("*/children")).split()
    # utime, stime, cutime and cstime, counted from behind the name: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15] for pid in children)
    ticks = sum(sum(map(int, each)) for each in stats)
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, kinds)) + ticks / os.sysconf("SC_CLK_TCK")


def make_project(project: Path) -> None:
    """A small repository with something to find, to test and to build."""
    (project / "src").mkdir(parents=True)
    for number in range(FILES):
        (project / f"src/part_{number}.py").write_text(f"def value_{number}():\n    return {number}\n" * 10)
    for name, content in {"stats.py": MODULE, "test_stats.py": TEST, "hello.c": HELLO}.items():
        (project / name).write_text(content)
    person = ["-c", "user.name=bench", "-c", "user.email=bench@example.invalid", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*person, "commit", "-q", "-m", "A project"]):
        subprocess.run(["git", *words], cwd=project, check=True, stdin=subprocess.DEVNULL)


@cache
def is_version_1() -> bool:
    """Tell whether it is mini's version 1 that is installed."""
    return version("mini-swe-agent").startswith("1.")


def agent_of(kind: str, project: Path, store: Path) -> Any:
    """One of `AGENTS`, in a run."""
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models import test_models

    model: Any
    if is_version_1():
        model = test_models.DeterministicModel(outputs=[], cost_per_call=0.0)
    else:
        model = test_models.DeterministicToolcallModel(outputs=[], cost_per_call=0.0)
    environment = LocalEnvironment(cwd=str(project), timeout=120)
    if kind == "mini":
        return DefaultAgent(model, environment, **TEMPLATES)
    if is_version_1():
        from humanlayer_agent.agents.mini_v1 import SupervisedAgent
    else:
        from humanlayer_agent.agents.mini import SupervisedAgent
    settings = {"policy": "default", "project": project, "store": store, "confine": kind == "confined"}
    agent: Any = SupervisedAgent(model, environment, **TEMPLATES, supervision=settings)
    agent.env.new_run()
    return agent


def step_of(agent: Any, command: str) -> Callable[[], None]:
    """Return what has an agent take one step with this command."""
    action = {"command": command, "tool_call_id": "call_1"}
    call = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": json.dumps(action)}}
    message = {"role": "assistant", "content": "", "tool_calls": [call], "extra": {"actions": [action], "cost": 0.0}}
    outputs = [f"```bash\n{command}\n```" if is_version_1() else message]

    def step() -> None:
        agent.model.config.outputs = outputs
        agent.messages, agent.model.current_index = [], -1
        output = agent.step() if is_version_1() else agent.step()[-1]["extra"]
        if output["returncode"] != 0:
            raise SystemExit(f"{command}: {output}")

    return step


Taken = list[tuple[float, float]]
"""What an agent's steps with a command have taken: milliseconds on the clock, and on the processor."""


def measure(commands: dict[str, str], agents: dict[str, Any], runs: int, until: float) -> dict[str, dict[str, Taken]]:
    """Have the agents take steps, round by round.

    Args:
        runs: so many rounds, beside the first.
        until: on the clock; no round begins later.

    Returns:
        By command and agent what each step has taken, without the first.
    """
    steps = {name: {kind: step_of(agent, line) for kind, agent in agents.items()} for name, line in commands.items()}
    taken: dict[str, dict[str, Taken]] = {name: {kind: [] for kind in agents} for name in commands}
    begun = told = time.perf_counter()
    done = -1
    while done < runs and (done < 1 or time.perf_counter() < until):
        first = (done + 1) % len(agents)
        for name, kinds in steps.items():
            for kind in [*kinds, *kinds][first : first + len(kinds)]:
                clock, processor = time.perf_counter(), used()
                kinds[kind]()
                taken[name][kind].append(((time.perf_counter() - clock) * 1e3, (used() - processor) * 1e3))
        done += 1
        now = time.perf_counter()
        if now - told > SAID_EVERY_S or done == 0:
            told, left = now, (now - begun) / (done + 1) * (runs - done)
            print(f"round {done} of {runs}, at most {max(0, min(left, until - now)):.0f} s more", file=sys.stderr)
    return {name: {kind: each[1:] for kind, each in kinds.items()} for name, kinds in taken.items()}


def row_of(taken: dict[str, Taken]) -> dict[str, float]:
    """One row: every agent's milliseconds, and what the supervised ones take of mini's own."""
    row = {}
    for name, each in taken.items():
        row[name] = round(statistics.median(clock for clock, _ in each), 2)
        row[f"{name}, processor"] = round(statistics.fmean(processor for _, processor in each), 2)
    for name in [each for each in taken if each != "mini"]:
        for of in ("", ", processor"):
            row[f"{name} ratio{of}"] = round(row[f"{name}{of}"] / row[f"mini{of}"], 2)
    return row


def said(row: dict[str, float], of: str) -> str:
    """One kind of figures, for people."""
    others = (name for name in AGENTS[1:] if name in row)
    more = (f"{name} {row[f'{name}{of}']:6.1f} {row[f'{name} ratio{of}']:5.2f} x" for name in others)
    return f"mini {row[f'mini{of}']:6.1f} ms, {', '.join(more)}"


def memory_of(kind: str, project: Path, store: Path) -> None:
    """Print the most memory (MB) that this process had while it took one step."""
    agent = agent_of(kind, project, store)
    step_of(agent, "true")()
    if kind != "mini":
        agent.env.end_run("finished")
    said = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())  # ru_maxrss may be that of the parent
    print(round(int(said[1]) / 1024, 1) if said else math.nan)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--minutes", type=float, default=math.inf, help="end with the round in which these are over")
    parser.add_argument("--only", help="only commands whose name has this word")
    parser.add_argument(MEMORY_OF, nargs=3, metavar=("AGENT", "PROJECT", "STORE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.update(MSWEA_SILENT_STARTUP="1", MSWEA_CONFIGURED="true", LITELLM_LOCAL_MODEL_COST_MAP="True")
    logging.basicConfig(level=logging.WARNING)
    if given.memory_of:
        kind, project, store = given.memory_of
        memory_of(kind, Path(project), Path(store))
        return
    # Not in a folder for temporary files: a confined command has a /tmp of its own.
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-step-") as name:
        project = Path(name, "project")
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        os.environ.update(PATH=path, PYTHONDONTWRITEBYTECODE="1", XDG_STATE_HOME=f"{name}/state")
        make_project(project)
        agents = agents_of(project, Path(name))
        until = time.perf_counter() + given.minutes * 60
        figures = table(agents, given.runs, until, given.only or "")
        memory = memories(list(agents), project, Path(name))
    print(json.dumps({"mini-swe-agent": version("mini-swe-agent"), **figures, "memory, MB": memory}))


def agents_of(project: Path, folder: Path) -> dict[str, Any]:
    """Every agent that can be here."""
    from humanlayer_agent.errors import ConfigError

    agents = {}
    for kind in AGENTS:
        try:
            agents[kind] = agent_of(kind, project, folder / f"{kind}.sqlite3")
        except ConfigError as error:
            print(f"{kind}: {error}", file=sys.stderr)
    return agents


def table(agents: dict[str, Any], runs: int, until: float, only: str) -> dict[str, Any]:
    """Measure the commands, and print a row for each; the agents' runs end with it."""
    commands = {}
    for name, command in COMMANDS.items():
        if (program := PROGRAMS.get(name)) and shutil.which(program) is None:
            print(f"{name:12} {program} is not installed", file=sys.stderr)
        elif only in name:
            commands[name] = command
    try:
        taken = measure(commands, agents, runs, until)
    finally:
        for kind in agents.keys() - {"mini"}:
            agents[kind].env.end_run("finished")
    rounds = {len(each) for kinds in taken.values() for each in kinds.values()}
    figures: dict[str, Any] = {"runs": min(rounds, default=0)}
    for name, kinds in taken.items():
        row = figures[name] = row_of(kinds)
        print(f"{name:12} {said(row, '')}; of processor {said(row, ', processor')}", file=sys.stderr)
    return figures


def memories(kinds: list[str], project: Path, folder: Path) -> dict[str, float]:
    """Measure the memory that each agent takes, in a process of its own, and print it."""
    found = {}
    for kind in kinds:
        words = [sys.executable, __file__, MEMORY_OF, kind, str(project), str(folder / f"memory-{kind}.sqlite3")]
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        found[kind] = float(done.stdout)
    print("memory       " + ", ".join(f"{kind} {megabytes} MB" for kind, megabytes in found.items()), file=sys.stderr)
    return found


if __name__ == "__main__":
    main()
