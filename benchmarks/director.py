"""How fast whole decisions are on real commands, against bashlex alone in the same run; and how much is understood.

    python benchmarks/director.py [--data FILE] [--rows N] [--policy NAME]

FILE has one JSON object a line: "command", and where the command runs scripts, "files" (their texts by path) and
"tracked" (paths under version control). Default: agent_runs.jsonl in $HLA_DATA, or in ../shared/data. Each distinct
command is judged once in the order of the file, first of all in a new process, by a Director of its own for each "run"
that the rows name ("as met": processor time, without that of making Directors); in the same round, right after it,
bashlex.parse, and ast.parse on the Python that the decision read. That is what a user meets.

Then each is timed by itself, in turns with bashlex.parse, best of some rounds. Decisions are never remembered, but a
Director remembers what code does that it has read. So each figure is told twice: of a Director that is made anew for
each round and has seen nothing ("anew"), and of one that goes on from round to round.

Two forms: rows without program text; and rows in which the text of scripts is judged (they come with files, or write
Python, or hold it). Then `check --format jsonl` as one process over all rows. A table goes to standard error, the same
figures as JSON to standard output.
"""

import argparse
import ast
import compileall
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import bashlex

import humanlayer_agent
from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.director import Director
from humanlayer_agent.shell import GivenReader, SimpleCommand
from humanlayer_agent.shell.languages import python

ROUNDS = 9
PROJECT = "/testbed"
_SCRIPTS = frozenset({"written", "script-file"})


@dataclass(frozen=True, slots=True)
class Row:
    """One command, ready to be judged; `row` is as it stands in the file."""

    action: Action
    reader: GivenReader | None
    row: dict[str, Any]

    @property
    def text(self) -> str:
        return self.action.content


def rows_of(path: Path, limit: int | None) -> list[Row]:
    """The rows with distinct commands, in the order of the file; spread over it where there is a limit."""
    distinct: dict[str, dict[str, Any]] = {}
    with path.open() as lines:
        for line in lines:
            row = json.loads(line)
            distinct.setdefault(row["command"], row)
    found = list(distinct.values())
    found = found[:: max(1, len(found) // limit)][:limit] if limit else found
    return [_row(row) for row in found]


def _row(row: dict[str, Any]) -> Row:
    files, tracked = row.get("files", {}), row.get("tracked", [])
    reader = GivenReader(files, tracked) if files or tracked else None
    return Row(Action(row["command"], cwd=row.get("cwd", PROJECT)), reader, row)


def decide(director: Director, row: Row) -> PolicyDecision:
    """Make a whole decision."""
    return director.evaluate(row.action, row.reader)


def bashlex_alone(row: Row) -> None:
    try:
        bashlex.parse(row.text)
    except Exception:  # it refuses a fifth of real commands, in six ways
        return


def ast_alone(texts: Sequence[str]) -> None:
    for text in texts:
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue


def texts_of(director: Director, row: Row) -> list[str] | None:
    """The Python that is read for this row; None where no program text is judged, of whatever language."""
    read: Any = python.read
    texts: list[str] = []

    def noted(text: str, **more: Any) -> Any:
        texts.append(text)
        return read(text, **more)

    python.read = noted
    try:
        program = director.program(row.action, row.reader)
    finally:
        python.read = read
    judged = row.row.get("files") or any(not _SCRIPTS.isdisjoint(command.inside) for command in program.commands)
    return texts if texts or judged else None


# ---- timing -----------------------------------------------------------------------------------------


def in_turns(functions: dict[str, Callable[[Row], object]], rows: Sequence[Row]) -> dict[str, list[list[float]]]:
    """The times of each row by function and round. The functions take turns, so that a busy machine slows all alike."""
    times: dict[str, list[list[float]]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            times[name].append(list(_timed(function, rows)))
    return times


def _timed(function: Callable[[Row], object], rows: Sequence[Row]) -> Iterator[float]:
    for row in rows:
        start = time.perf_counter()
        function(row)
        yield time.perf_counter() - start


def best(rounds: Sequence[Sequence[float]]) -> list[float]:
    """The best time of each row."""
    return [min(each) for each in zip(*rounds, strict=True)]


def figures(times: Sequence[float]) -> dict[str, float]:
    """Rows a second; median, 95th and 99th percentile in microseconds."""
    cuts = statistics.quantiles(times, n=100)
    return {
        "rows_per_s": round(len(times) / sum(times)),
        "p50_us": round(statistics.median(times) * 1e6, 1),
        "p95_us": round(cuts[94] * 1e6, 1),
        "p99_us": round(cuts[98] * 1e6, 1),
    }


def against_bashlex(director: Director, rows: Sequence[Row], policy: str) -> dict[str, Any]:
    """Decisions and bashlex.parse on the same rows; `ratio` is that of their rates, `p99` ours to bashlex's median."""
    times = in_turns({"decision": lambda row: decide(director, row), "bashlex.parse": bashlex_alone}, rows)
    rounds = []
    for _ in range(ROUNDS):
        rounds.append([*_timed(partial(decide, Director.load(policy, project=PROJECT)), rows)])
    theirs = best(times["bashlex.parse"])
    found: dict[str, Any] = {"rows": len(rows), "bashlex.parse": figures(theirs)}
    for name, ours in (("decision", best(times["decision"])), ("anew", best(rounds))):
        told = figures(ours)
        told["ratio"] = round(sum(theirs) / sum(ours), 2)
        told["p99_to_bashlex_p50"] = round(told["p99_us"] / found["bashlex.parse"]["p50_us"], 2)
        found[name] = told
    return found


@dataclass(frozen=True, slots=True)
class Met:
    """The processor time (s) of one row, as a user meets it, and of parsers alone on what it holds."""

    decision: float
    bashlex: float
    ast: float
    text: bool


def as_met(rows: Sequence[Row], policy: str) -> list[Met]:
    """Judge each row once in order by the Director of its run."""
    gc.collect()
    gc.freeze()  # the rows, all of which the garbage collector would go through within one decision
    of_run: dict[Any, Director] = {}
    taken = []
    for row in rows:
        run = row.row.get("run")
        if run not in of_run:  # one run at a time: the memory of others would be searched for garbage, too
            of_run = {run: Director.load(policy, project=row.row.get("project", PROJECT))}
        decision = _spent(decide, of_run[run], row)
        taken.append((decision, _spent(bashlex_alone, row), row))
    found = []
    new = Director.load(policy, project=PROJECT)
    for decision, parsed, row in taken:
        texts = texts_of(new, row)
        found.append(Met(decision, parsed, _spent(ast_alone, texts or ()), texts is not None))
    return found


def _spent(function: Callable[..., object], *given: object) -> float:
    start = time.process_time()
    function(*given)
    return time.process_time() - start


def met_figures(found: Sequence[Met]) -> dict[str, float]:
    """What `figures` tells of the decisions, with the longest; how many times as fast they are as bashlex.parse; and
    where Python is read, how many times as long they take as ast.parse does.
    """
    ours, theirs = [each.decision for each in found], [each.bashlex for each in found]
    told = figures(ours)
    told["max_us"] = round(max(ours) * 1e6, 1)
    told["ratio"] = round(sum(theirs) / sum(ours), 2)
    told["p99_to_bashlex_p50"] = round(told["p99_us"] / (statistics.median(theirs) * 1e6), 2)
    if all(each.text for each in found):
        told["times_ast"] = round(sum(ours) / sum(each.ast for each in found), 1)
    return told


def one_process(rows: Sequence[Row], policy: str) -> dict[str, Any]:
    """`check --format jsonl` over all rows: rows by the time of the whole process."""
    lines = "".join(json.dumps({**row.row, "id": str(n), "cwd": row.action.cwd}) + "\n" for n, row in enumerate(rows))
    start_up = "import sys; from humanlayer_agent.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", start_up, "check", "--format", "jsonl", "--policy", policy]
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([*command, "--project", PROJECT], input=lines.encode(), check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - start)
    return {"rows": len(rows), "rows_per_s": round(len(rows) / statistics.median(taken))}


# ---- what is understood -----------------------------------------------------------------------------


def understood(command: SimpleCommand) -> bool:
    """Is everything about `command` certain, but for the code it runs?"""
    effects = [e for e in command.effects if not (e.kind == "execute" and e.unread)]
    if not command.known and not any(e.unread for e in command.effects):
        return False
    # What keeps a command unresolved besides its effects are unknown options; code that it runs is judged apart.
    return all(e.resolved or e.below for e in effects) and (command.resolved or len(effects) < len(command.effects))


def share_understood(director: Director, rows: Sequence[Row]) -> tuple[float, list[tuple[str, int]]]:
    """The share of simple commands that are understood, and the words that most often stand in the way."""
    total = good = 0
    doubts: Counter[str] = Counter()
    for row in rows:
        for command in director.program(row.action).commands:
            total += 1
            if understood(command):
                good += 1
            else:
                doubts[f"{command.program}: {(command.unresolved or ['effect'])[0]}"[:60]] += 1
    return good / total, doubts.most_common(8)


# ---- the whole --------------------------------------------------------------------------------------


def measure(rows: Sequence[Row], policy: str) -> dict[str, Any]:
    """All figures."""
    met = as_met(rows, policy)
    director = Director.load(policy, project=PROJECT)
    text = [each.text for each in met]
    result: dict[str, Any] = {"commands": len(rows)}
    without = [row for row, yes in zip(rows, text, strict=True) if not yes]
    result["as met"] = {
        "no program text": met_figures([each for each in met if not each.text]),
        "with program text": met_figures([each for each in met if each.text]),
        "all rows": met_figures(met),
    }
    result["no program text"] = against_bashlex(director, without, policy)
    result["with program text"] = against_bashlex(
        director, [r for r, yes in zip(rows, text, strict=True) if yes], policy
    )
    result["all rows"] = against_bashlex(director, rows, policy)
    result["check --format jsonl"] = one_process(rows, policy)
    result["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    result["resolved"], result["in_the_way"] = share_understood(director, rows)
    return result


def table(result: dict[str, Any]) -> str:
    """The same for people."""
    lines = [f"{'as met':26}{'rows/s':>10}{_HEADS}{'max us':>10}{'ratio':>8}{'p99/p50':>9}{'ast.parse':>11}"]
    for form, told in result["as met"].items():
        of_ast = f"{told['times_ast']:>10}x" if "times_ast" in told else ""
        ratios = f"{told['max_us']:>10}{told['ratio']:>8}{told['p99_to_bashlex_p50']:>9}"
        lines.append(f"{form:26}{_numbers(told)}{ratios}{of_ast}")
    lines += ["", f"{'warm, best of rounds':34}{'rows':>8}{'rows/s':>10}{_HEADS}{'ratio':>8}{'p99/p50':>9}"]
    for form in ("no program text", "with program text", "all rows"):
        found = result[form]
        for name in ("decision", "anew", "bashlex.parse"):
            row = found[name]
            ratios = f"{row['ratio']:>8}{row['p99_to_bashlex_p50']:>9}" if "ratio" in row else ""
            lines.append(f"{form + ': ' + name:34}{found['rows']:>8}{_numbers(row)}{ratios}")
    found = result["check --format jsonl"]
    lines.append(f"{'check --format jsonl, whole process':34}{found['rows']:>7}{found['rows_per_s']:>10}")
    lines.append(f"memory: {result['peak_mb']} MB at most for this process")
    lines.append(f"{result['resolved']:.2%} of simple commands resolved; most often in the way: {result['in_the_way']}")
    return "\n".join(lines)


def _numbers(row: dict[str, float]) -> str:
    return f"{row['rows_per_s']:>10}{row['p50_us']:>10}{row['p95_us']:>10}{row['p99_us']:>10}"


_HEADS = f"{'p50 us':>10}{'p95 us':>10}{'p99 us':>10}"


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = Path(os.environ.get("HLA_DATA") or Path(__file__).parent.parent.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=folder / "agent_runs.jsonl")
    parser.add_argument("--rows", type=int, help="how many distinct commands to take: a short form")
    parser.add_argument("--policy", default="default")
    options = parser.parse_args()
    compileall.compile_dir(Path(humanlayer_agent.__file__).parent, quiet=2)  # as those of an installed package are
    if not options.data.exists():
        sys.exit(f"{options.data} is missing; name a file with --data")
    result = measure(rows_of(options.data, options.rows), options.policy)
    print(table(result), file=sys.stderr)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
