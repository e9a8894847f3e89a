"""`hla policy coverage`: what the tests of a policy show of its rules, and what a log of commands meets."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from humanlayer_agent.action import Action
from humanlayer_agent.cli.json_lines import BadRow, Row, read_row
from humanlayer_agent.cli.policy.show import STYLES
from humanlayer_agent.cli.shared.output import print_records
from humanlayer_agent.cli.shared.records import CoverageRecord
from humanlayer_agent.cli.shared.tables import print_rows
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.coverage import Clause, Coverage, RuleCoverage, count, coverage, key
from humanlayer_agent.safe_text import one_line
from humanlayer_agent.shell import GivenReader

INCOMPLETE = 5
_WIDTH = 20
Counts = Mapping[str, tuple[int, int]]


def run_coverage(
    policies: Sequence[Policy], director: Callable[[], Director], log: Path | None, *, format: str, fail_under: float
) -> int:
    """Print the coverage of policies. Returns the exit code: 1 below `fail_under`, 5 where rows of the log are bad.

    Args:
        director: judges the rows of the log; it has exactly these policies.
        log: JSON lines as `hla check --format jsonl` reads them.
        fail_under: a percentage.

    Raises:
        ConfigError: the log can't be read.
    """
    with _progress() as advance:
        found = [coverage(policy, advance) for policy in policies]
        counts, bad = _counted(director(), log) if log is not None else (None, 0)
    if format == "table":
        print_coverage(found, counts)
    else:
        print_records((_record(each, counts) for each in found), format)
    if bad:
        print(f"humanlayer-agent: {log}: {bad} rows could not be read", file=sys.stderr)
        return INCOMPLETE
    return 1 if any(each.percent < fail_under for each in found) else 0


def _counted(director: Director, log: Path) -> tuple[Counts, int]:
    """Return how often each rule applies and decides in a log; and the number of bad rows."""
    rows: list[Row] = []
    bad = 0
    try:
        with log.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            for line in file:
                try:
                    rows.append(read_row(line))
                except BadRow:
                    bad += 1
    except OSError as error:
        raise ConfigError(f"{log}: can't be read: {error.strerror}") from error
    return count(director, (_action(director, row) for row in rows)), bad


def _action(director: Director, row: Row) -> tuple[Action, GivenReader | None]:
    given = GivenReader(row.files, row.tracked) if row.files or row.tracked else None
    return Action(row.command, cwd=row.cwd or director.project), given


# ---- for people -------------------------------------------------------------------------------------------


def print_coverage(found: Sequence[Coverage], counts: Counts | None = None, console: Console | None = None) -> None:
    """A line with a bar a rule, and below what no example shows, with an example that would."""
    console = console or Console(highlight=False)
    for each in found:
        shown, of = each.points
        head = Text(each.policy.name, style="bold").append(f"  {each.percent:.1f} %  ", style="bold")
        idle = f", {each.idle} idle" if each.idle else ""
        console.print(
            head.append_text(_bar(shown, of, 0, _WIDTH)).append(f"  {shown} of {of} shown{idle}", style="dim")
        )
        if not each.rules:
            console.print(Text("  no rules of its own", style="dim"))
        else:
            _print_rules(console, each, counts)
        if shown < of or each.idle:
            console.print(Text("\n  what no test shows, and an example that would", style="dim"))
        for rule in each.rules:
            _print_missing(console, rule)
        console.print()


def _print_rules(console: Console, found: Coverage, counts: Counts | None) -> None:
    titles = ("  rule", ">matched", ">decided", *((">in log", ">decided") if counts is not None else ()), "clauses")
    rows: list[list[str | Text]] = []
    for each in found.rules:
        numbers = [each.matched, each.decided, *(counts.get(key(each.rule), (0, 0)) if counts is not None else ())]
        cells = [Text(str(n) if n else "never", style="" if n else "red") for n in numbers]
        shown, of = sum(bool(clause.shown) for clause in each.clauses), len(each.clauses)
        bar = _bar(shown, of, sum(clause.idle for clause in each.clauses), of).append(f" {shown}/{of}", style="dim")
        rows.append([Text("  ").append(each.rule.id, style=STYLES[each.rule.decision]), *cells, bar])
    print_rows(console, titles, rows)


def _bar(shown: int, of: int, idle: int, width: int) -> Text:
    """Return a bar of what is shown, what is idle, what is neither; only all of it fills the bar."""
    width = min(width, _WIDTH)
    full = width if shown >= of else min(width - 1, round(width * shown / of))
    still = min(width - full, -(-width * idle // of) if idle else 0)
    rest = width - full - still
    return Text("█" * full, style="green").append("▒" * still, style="yellow").append("░" * rest, style="red")


def _print_missing(console: Console, rule: RuleCoverage) -> None:
    missing = [clause for clause in rule.clauses if not clause.shown]
    if rule.decided and not missing:
        return
    console.print(Text(f"  {rule.name}", style="bold").append(f"  {one_line(rule.origin)}", style="dim"))
    if not rule.decided:
        console.print(Text("    decides in no example", style="red"))
    for clause in missing:
        what = "no test fails without it" if clause.change == "without" else "no test fails where it never holds"
        console.print(Text(f"    {clause.name}: ").append(what, style="dim"))
        console.print(Text("      ").append_text(_proposal(clause)), soft_wrap=True)


def _proposal(clause: Clause) -> Text:
    if clause.proposed is None:
        return Text("idle: found no command for which it makes a difference", style="yellow")
    kind, command = clause.proposed
    return Text(f"{kind}: ", style="dim").append(f"[{_quoted(command)}]", style="cyan not dim")


def _quoted(command: str) -> str:
    """A command as it can stand in the list of examples."""
    return json.dumps(command, ensure_ascii=False)


# ---- for programs -----------------------------------------------------------------------------------------


def _record(found: Coverage, counts: Counts | None) -> CoverageRecord:
    rules: list[dict[str, Any]] = []
    for each in found.rules:
        row = {
            "rule": each.rule.id,
            "exception": each.exception is not None,
            "origin": each.origin,
            "matched": each.matched,
            "decided": each.decided,
            "clauses": [_public_clause(clause) for clause in each.clauses],
        }
        if counts is not None:
            matched, decided = counts.get(key(each.rule), (0, 0))
            row["log"] = {"matched": matched, "decided": decided}
        rules.append(row)
    shown, of = found.points
    return {
        "policy": found.policy.name,
        "percent": round(found.percent, 1),
        "shown": shown,
        "of": of,
        "idle": found.idle,
        "rules": rules,
    }


def _public_clause(clause: Clause) -> dict[str, Any]:
    proposed = clause.proposed
    return {
        "where": clause.name,
        "clause": clause.text,
        "change": clause.change,
        "shown": clause.shown or None,
        "proposed": proposed and {"kind": proposed[0], "command": proposed[1]},
    }


# ---- progress ---------------------------------------------------------------------------------------------


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on the terminal for people who wait; nothing where standard error is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("trying clauses"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, of: progress.update(task, completed=done, total=of)
