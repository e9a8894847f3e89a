"""From the start of `hla hook` to its answer, as a whole process, against the interpreter alone in the same run.

    python benchmarks/hook.py [--runs N] [--server postgresql://owner@host/empty_database]

Four commands take turns: `python -c pass`; the hook on a command that the policy allows, another one each time (judged,
and written to the log in one durable transaction); on one that it asks about; on one that it denies. The first
question of all starts the process that judges, and is measured by itself. With `--server` a fifth takes its turn: what
the policy allows, with the store on that server. A table with medians goes to standard error,
the same figures as JSON to standard output. Processor time is that of the hook's own process, without the one that
judges.
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
from pathlib import Path

from humanlayer_agent.store.access import make_store

RUNS = 20
ALLOWED_TIMES = 3
"""How many times `python -c pass` a whole answer may take (the issue's bar)."""

_MAIN = "import sys; from humanlayer_agent.cli import main; sys.exit(main())"
BARE = [sys.executable, "-c", "pass"]
HOOK = [sys.executable, "-I", "-m", "humanlayer_agent.cli", "hook", "claude-code"]
COMMANDS = {
    "allow": "grep -n {n} a.py",
    "ask": "curl -s http://h{n}.invalid/x",
    "deny": "hla requests approve {n}",
}


def question(command: str, project: str) -> bytes:
    """What Claude Code writes to a hook's standard input."""
    body = {"hook_event_name": "PreToolUse", "session_id": "bench", "cwd": project, "permission_mode": "default"}
    return json.dumps({**body, "tool_name": "Bash", "tool_input": {"command": command}}).encode()


def processor() -> float:
    """Seconds of processor time of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def milliseconds(command: list[str], environ: dict[str, str], data: bytes = b"") -> tuple[float, float, bytes]:
    """One run: its time, its processor time, and what it printed."""
    start, used = time.perf_counter(), processor()
    done = subprocess.run(
        command, input=data, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    return (time.perf_counter() - start) * 1e3, (processor() - used) * 1e3, done.stdout


def measure(
    runs: int, environ: dict[str, str], project: str, server: str | None = None
) -> tuple[dict[str, float], dict[str, float]]:
    """The first question, and the median of each form; they take turns, so that a busy machine slows all alike.

    Args:
        server: the address of a store there.

    Returns:
        Milliseconds, and those of processor time.
    """
    times: dict[str, list[tuple[float, float]]] = {"first question": [], "python -c pass": []}
    times |= {f"hook, {verdict}": [] for verdict in COMMANDS}
    times["first question"].append(milliseconds(HOOK, environ, question("ls", project))[:2])
    turns = [(f"hook, {verdict}", verdict, environ) for verdict in COMMANDS]
    if server:
        turns.append(("hook on a server, allow", "allow", {**environ, "HUMANLAYER_STORE": server}))
        times[turns[-1][0]] = []
        milliseconds(HOOK, turns[-1][2], question("ls", project))
    for n in range(runs):
        times["python -c pass"].append(milliseconds(BARE, environ)[:2])
        for name, verdict, where in turns:
            *taken, out = milliseconds(HOOK, where, question(COMMANDS[verdict].format(n=n), project))
            if json.loads(out)["hookSpecificOutput"]["permissionDecision"] != verdict:
                sys.exit(f"expected {verdict}: {out!r}")
            times[name].append((taken[0], taken[1]))
    wall, used = (
        {name: round(statistics.median(one[at] for one in each), 1) for name, each in times.items()} for at in (0, 1)
    )
    return wall, used


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--server", help="the address of an empty database, as its owner")
    options = parser.parse_args()
    if options.server:
        make_store(options.server)
    with tempfile.TemporaryDirectory() as home:
        project = Path(home) / "project"
        project.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "HUMANLAYER_"))}
        environ = {**kept, "HOME": home, "CLAUDE_PROJECT_DIR": str(project), "CLAUDE_CODE_SHELL": "/bin/bash"}
        found, used = measure(options.runs, environ, str(project), options.server)
    times, used_times = (
        {name: round(each / all["python -c pass"], 2) for name, each in all.items() if name.startswith("hook")}
        for all in (found, used)
    )
    for name, each in found.items():
        ratio = [f"{all[name]:>7} times" if name in all else "" for all in (times, used_times)]
        print(f"{name:24}{each:>8} ms{ratio[0]:14}  processor{used[name]:>7} ms{ratio[1]}", file=sys.stderr)
    print(f"allowed: {ALLOWED_TIMES} times python -c pass", file=sys.stderr)
    report = {"ms": found, "times_bare": times, "processor_ms": used, "processor_times_bare": used_times}
    print(json.dumps({**report, "allowed_times": ALLOWED_TIMES}))


if __name__ == "__main__":
    main()
