"""What a step of mini-swe-agent costs, supervised and confined, beside the same step without supervision.

    python benchmarks/steps.py [--runs N] [--only WORD]

A step is mini's own: the model's answer (a script's), its command, the observation. Both agents are mini's default
agent, one of them supervised by the shipped policy `default`, with a store of its own, and they take turns in one
process on one project. The commands are those of real runs, and `true`, in which there is nothing but the step. One
round comes before those that are measured, as in a run that comes back to a command. A row gives the medians on the
clock, the means on the processor (user and system, of all processes; its clock is too coarse for one step), and both
as ratios. A table goes to standard error, the same figures as JSON to standard output. A program that is not installed
is left out, and named.
"""

import argparse
import json
import logging
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUNS = 20
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
    "gcc": "gcc -o hello hello.c && ./hello",
    "node": "node -e 'console.log(6 * 7)'",
    "write": "cat > notes.txt <<'EOT'\nwhat was found\nEOT\nwc -l notes.txt",
}
PROGRAMS = {"gcc": "gcc", "node": "node", "git status": "git", "git log": "git"}


def used() -> float:
    """Seconds of processor time, ours and of all that has ended."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, kinds))


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


def step_of(agent: Any, command: str) -> Callable[[], None]:
    """Return what has an agent take one step with this command."""
    action = {"command": command, "tool_call_id": "call_1"}
    call = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": json.dumps(action)}}
    message = {"role": "assistant", "content": "", "tool_calls": [call], "extra": {"actions": [action], "cost": 0.0}}
    agent.model.config.outputs = [message]

    def step() -> None:
        agent.messages, agent.model.current_index = [], -1
        output = agent.step()[-1]
        if output["extra"]["returncode"] != 0:
            raise SystemExit(f"{command}: {output['content']}")

    return step


def measure(command: str, agents: dict[str, Any], runs: int) -> dict[str, float]:
    """One row: every agent's milliseconds, and what the supervised one takes of the other's."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in agents}
    steps = {name: step_of(agent, command) for name, agent in agents.items()}
    for _ in range(runs + 1):
        for name, step in steps.items():
            clock, processor = time.perf_counter(), used()
            step()
            taken[name].append(((time.perf_counter() - clock) * 1e3, (used() - processor) * 1e3))
    row = {}
    for name, each in taken.items():
        row[name] = round(statistics.median(clock for clock, _ in each[1:]), 2)
        row[f"{name}, processor"] = round(statistics.fmean(processor for _, processor in each[1:]), 2)
    row["ratio"] = round(row["confined"] / row["mini"], 2)
    row["ratio, processor"] = round(row["confined, processor"] / row["mini, processor"], 2)
    return row


def said(row: dict[str, float], of: str) -> str:
    """One kind of figures, for people."""
    return f"{row[f'mini{of}']:7.1f} ms, confined {row[f'confined{of}']:7.1f} ms {row[f'ratio{of}']:6.2f} x"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", help="only commands whose name has this word")
    given = parser.parse_args()
    os.environ.update(MSWEA_SILENT_STARTUP="1", MSWEA_CONFIGURED="true", LITELLM_LOCAL_MODEL_COST_MAP="True")
    logging.basicConfig(level=logging.WARNING)
    # Not in a folder for temporary files: a confined command has a /tmp of its own.
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-steps-") as name:
        project = Path(name, "project")
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        os.environ.update(PATH=path, PYTHONDONTWRITEBYTECODE="1", XDG_STATE_HOME=f"{name}/state")
        make_project(project)
        figures = table(project, Path(name, "store.sqlite3"), given.runs, given.only or "")
    print(json.dumps({"runs": given.runs, **figures}))


def table(project: Path, store: Path, runs: int, only: str) -> dict[str, dict[str, float]]:
    """Measure every command, and print its row."""
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.test_models import DeterministicToolcallModel

    from humanlayer_agent.agents.mini import SupervisedAgent

    def model() -> Any:
        return DeterministicToolcallModel(outputs=[], cost_per_call=0.0)

    settings = {"policy": "default", "project": project, "store": store, "confine": True}
    environments = [LocalEnvironment(cwd=str(project), timeout=120) for _ in range(2)]
    agents: dict[str, Any] = {
        "mini": DefaultAgent(model(), environments[0], **TEMPLATES),
        "confined": SupervisedAgent(model(), environments[1], **TEMPLATES, supervision=settings),
    }
    agents["confined"].env.new_run()
    figures = {}
    try:
        for name, command in COMMANDS.items():
            if only not in name:
                continue
            if (program := PROGRAMS.get(name)) and shutil.which(program) is None:
                print(f"{name:12} {program} is not installed", file=sys.stderr)
                continue
            row = figures[name] = measure(command, agents, runs)
            print(f"{name:12} {said(row, '')}, of processor {said(row, ', processor')}", file=sys.stderr)
    finally:
        agents["confined"].env.end_run("finished")
    return figures


if __name__ == "__main__":
    main()
