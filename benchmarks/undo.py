"""What `undo: run` costs: commands of a Gate with it and without, in a project of many files.

    python benchmarks/undo.py [--files N] [--runs N]

Both take turns in one process, as the commands of an agent do; times are from the call of `Gate.run` to its end, and
each command changes something else than the one before. `cat` changes nothing. Of `sed -i` it is known what it changes,
which is all that is looked at; `git commit` and a script may change anything, so that the whole project is, twice. The
first look at a project, which reads all of it, stands by itself. A table with medians goes to standard error, the same
figures as JSON to standard output.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from humanlayer_agent import Gate

FILES, RUNS = 20_000, 20
POLICY = """\
version: 1
policy: {undo}
defaults: {{undo: {undo}, unmatched: allow, keep: {{files: 200000}}}}
rules:
  - {{id: never, decision: deny, reason: Never., when: {{program: never}}}}
"""
COMMANDS = {
    "cat": "cat a",
    "sed -i": "sed -i 's/.*/{n}/' a",
    "git commit": "git commit -qm {n} --allow-empty",
    "a script": "sh ./script {n}",
}


def project(top: Path, files: int) -> None:
    """Make a repository with so many files of 1,000 bytes, a hundred in a folder."""
    for n in range(files):
        folder = top / f"folder{n // 100}"
        folder.mkdir(exist_ok=True)
        (folder / f"{n}.txt").write_text(f"{n:0999}\n")
    (top / "a").write_text("a\n")
    (top / "script").write_text("echo $1 > b\n")
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    subprocess.run(["git", "add", "-A"], cwd=top, check=True)
    subprocess.run(["git", "commit", "-qm", "all"], cwd=top, check=True)


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-undo-") as name:
        os.environ |= {"HOME": name, "XDG_DATA_HOME": f"{name}/data", "XDG_STATE_HOME": f"{name}/state"}
        Path(name, ".gitconfig").write_text("[user]\nname = n\nemail = n@example.org\n")
        top = Path(name, "project")
        top.mkdir()
        project(top, given.files)
        os.chdir(top)
        gates: dict[str, Gate] = {}
        for undo in ("none", "run"):
            policy = Path(name, f"{undo}.yaml")
            policy.write_text(POLICY.format(undo=undo))
            gates[undo] = Gate.from_config(policy=policy, project=top, confine=False)
        first = {undo: timed(partial(gate.run, "sh ./script 0")) for undo, gate in gates.items()}
        found: dict[str, dict[str, float]] = {"the first script": first}
        for title, line in COMMANDS.items():
            times: dict[str, list[float]] = {undo: [] for undo in gates}
            for n in range(given.runs):
                for undo, gate in gates.items():
                    times[undo].append(timed(partial(gate.run, line.format(n=f"{n}{undo}"))))
            found[title] = {undo: statistics.median(each) for undo, each in times.items()}
        for gate in gates.values():
            gate.close()
    print(f"{given.files:,} files, {given.runs} runs; ms", file=sys.stderr)
    print(f"{'':18}{'undo: none':>12}{'undo: run':>12}{'ratio':>8}", file=sys.stderr)
    for title, each in found.items():
        ratio = each["run"] / each["none"]
        print(f"{title:18}{each['none']:12.1f}{each['run']:12.1f}{ratio:8.2f}", file=sys.stderr)
    print(json.dumps({"files": given.files, "runs": given.runs, "ms": found}))


if __name__ == "__main__":
    main()
