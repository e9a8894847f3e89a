"""`hla policy replay`: recorded runs judged by a policy. Nothing is executed, nobody is asked, nothing is logged."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from humanlayer_agent.cli.policy.replay_grants import print_grants, public_grants
from humanlayer_agent.cli.policy.show import STYLES
from humanlayer_agent.cli.shared.output import print_record, print_records
from humanlayer_agent.cli.shared.records import ReplayedRecord, ReplayRecord
from humanlayer_agent.cli.shared.store_access import open_store
from humanlayer_agent.cli.shared.tables import print_hanging, print_rows
from humanlayer_agent.errors import ConfigError, HumanlayerError
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.replay import Engine, Judged
from humanlayer_agent.policy_tools.replay.approvers import Approvers, Choice
from humanlayer_agent.policy_tools.replay.figures import NO_RULE, Figures, RuleFigures
from humanlayer_agent.policy_tools.replay.formats import FORMATS, Found, Log, find
from humanlayer_agent.policy_tools.replay.run_files import CheckoutReader
from humanlayer_agent.policy_tools.replay.steps import Item, Unreadable
from humanlayer_agent.policy_tools.replay.workers import replayed
from humanlayer_agent.safe_text import one_line
from humanlayer_agent.shell import Reader

INCOMPLETE = 5
_COLUMNS = (
    *("source", "place", "run", "id", "command", "cwd", "verdict", "rule", "rules", "reason", "severity", "parse"),
    *("unread", "missing", "recorded", "confined", "us"),
)
_ROWS_AT_ONCE, _TEXT_AT_ONCE = 10_000, 64_000_000
"""So many rows, or characters, are held in memory before they are written."""
_LISTED = 1_000
"""Names of code that is not there, in figures for programs."""
_NAMED = 10
_INDENT = 7


def run_replay(
    policy: Policy,
    paths: Sequence[Path],
    project: Path | None,
    *,
    confined: bool,
    format: str,
    rows: bool = False,
    top: int | None = None,
    checkout: Path | None = None,
    grant: Choice | None = None,
    jobs: int = 1,
    to: Path | None = None,
) -> int:
    """Replay logs and print what comes of it. Returns the exit code: 5 where rows could not be replayed.

    Args:
        policy: judges.
        paths: files, and folders of them.
        project: the directory that agents worked for, whatever logs say.
        confined: see `engine`.
        rows: print every command, and not the figures.
        top: how many commands are shown; None: the kinds of reasons alone.
        checkout: where the files of the logs' projects are now.
        grant: the scope that simulated approvers choose; None: they approve once, and nothing is remembered.
        jobs: so many processes judge.
        to: a file of the rows is written there, besides: Parquet.

    Raises:
        ConfigError: a log can't be read, or is in no known format.
    """
    found = find(paths)
    figures = Figures(rules={rule.id: RuleFigures(rule.id, rule.decision) for rule in rules_of([policy])})
    if grant is not None and (rows or format == "html"):
        raise ConfigError("--grant has figures alone: leave --rows out, with --format table, json or jsonl")
    approvers = Approvers(grant) if grant is not None else None
    if rows and format == "html":
        raise ConfigError("--rows has no page: --format table, json or jsonl")
    table = Parquet(to) if to is not None else None
    results = replayed(engine([policy], project, confined=confined, checkout=checkout), items(found), jobs)
    judged = figures.count(approvers.watch(results) if approvers is not None else results)
    if table is not None:
        judged = table.written(judged)
    if rows and format == "table":
        _print_replayed(judged)
    elif rows:
        print_records(map(public_row, judged), format)
    for _ in judged:  # what is not printed one by one
        pass
    if rows:
        pass
    elif format == "table":
        print_figures(figures, policy, found, top=top)
        if approvers is not None:
            print_grants(Console(highlight=False), approvers, top)
    elif format == "html":
        from humanlayer_agent.report.pages import replay_page

        print(replay_page(figures, policy, found))
    else:
        record = public(figures, policy, found)
        if approvers is not None:
            record["grants"] = public_grants(approvers)
        print_record(record, format)
    if figures.unreadable_count:
        name_unreadable(figures.unreadable, figures.unreadable_count)
        return INCOMPLETE
    return 0


def engine(
    policies: Sequence[Policy], project: Path | None, *, confined: bool = False, checkout: Path | None = None
) -> Engine:
    """Return the engine that judges recorded commands by `policies`, and by the catalogs of this machine and user.

    Args:
        confined: as if the kernel could confine what is allowed; else only what the log says that of.
        checkout: the directory where the files of the logs' projects are now.

    Raises:
        ConfigError: there is no such directory.
    """
    from humanlayer_agent.configuration import checked_project, find_project, readable
    from humanlayer_agent.policy.layers.catalog_files import find_catalogs

    if checkout is not None and not checkout.is_dir():
        raise ConfigError(f"{checkout}: there is no such directory: --checkout names one with the files of the project")
    catalogs = find_catalogs(None)

    def directors(at: str, confined: bool) -> list[Director]:
        disk, reads = readable(at, confined=confined)
        reader: Reader = CheckoutReader(at, checkout) if checkout is not None else disk
        return [
            Director(
                policy, project=at, reader=reader, observe=policy.observe, confined=confined, reads=reads,
                catalogs=catalogs,
            )
            for policy in policies
        ]  # fmt: skip

    fixed = checked_project(project) if project is not None else None
    return Engine(
        directors, project=fixed, default=find_project, check=checked_project, confined=confined, checkout=checkout
    )


def rules_of(policies: Sequence[Policy]) -> Iterator[Any]:
    """The rules that hold today."""
    from datetime import UTC, datetime

    today = datetime.now(UTC).date().isoformat()
    for policy in policies:
        yield from policy.on(today)


def items(found: Found) -> Iterator[Item]:
    """Yield what stands in the logs, one after the other, with a progress bar; rows that can't be read are among it."""
    yield from found.broken
    with _progress(found.logs) as advance:
        for log in found.logs:
            for number, item in enumerate(_guarded(log)):
                if number % 64 == 0:
                    advance(log, min(log.lines.passed, log.size))
                yield item
            advance(log, log.size)


def log_items(store: str | None = None) -> list[Item]:
    """The commands in the log of a store, to be judged again; none where there is no store."""
    try:
        with closing(open_store(store)) as opened:
            rows = [(str(entry.seq), json.loads(entry.line)) for entry in opened.events()]
    except HumanlayerError:
        if store is not None:
            raise
        return []
    reader = next((each for each in FORMATS if each.recognises([row for _, row in rows[:1]], False)), None)
    return list(reader.read(rows, "the log")) if reader is not None else []


def _guarded(log: Log) -> Iterator[Item]:
    """Yield what stands in a log. A file that can't be read to its end is not replayed as a whole."""
    try:
        yield from log.items()
    except OSError as error:
        yield Unreadable(str(log.path), "the rest of the file", f"can't be read: {error.strerror or error}")


def name_unreadable(rows: Sequence[Unreadable], count: int) -> None:
    """Say on standard error which rows could not be replayed, and why."""
    for row in rows[:_NAMED]:
        place = f"{row.source}: {row.place}" if row.place else row.source
        print(f"humanlayer-agent: {one_line(place)}: {one_line(row.why)}", file=sys.stderr)
    more = f" (the first {_NAMED} are named)" if count > _NAMED else ""
    print(f"humanlayer-agent: {count} {'row' if count == 1 else 'rows'} could not be replayed{more}", file=sys.stderr)


# ---- for people -------------------------------------------------------------------------------------------


def print_figures(
    figures: Figures, policy: Policy, found: Found, *, top: int | None = None, console: Console | None = None
) -> None:
    """Verdicts, the kinds of reasons why commands are stopped, rules, and the slowest.

    Args:
        top: so many of the commands that would be asked about or denied most; None: none.
    """
    console = console or Console(highlight=False)
    runs, files = len(figures.runs), len(found.logs)
    head = Text(policy.name, style="bold")
    head.append(f"  over {counted(figures.commands, 'command')} of {counted(runs, 'run')} in {counted(files, 'file')}")
    console.print(head)
    kinds = sorted({log.format.NAME for log in found.logs})
    console.print(Text(f"read as: {', '.join(kinds)}", style="dim"))
    if figures.no_commands:
        tools = ", ".join(f"{one_line(name)} {n}" for name, n in figures.no_commands.most_common(6))
        console.print(Text(f"{counted(figures.no_commands.total(), 'tool call')} run no command: {tools}", style="dim"))
    if found.others:
        console.print(Text(f"{counted(len(found.others), 'other file')} in the folders: no logs", style="dim"))
    console.print()
    if not figures.commands:
        console.print("no command in it")
        return
    print_rows(console, ("verdict", ">commands", ">share", ""), _verdicts(figures))
    per_run = f"{figures.asks_per_100:.2f} asks per 100 commands, {figures.asks_per_run:.2f} a run"
    console.print(Text(f"\n{per_run}; {len(figures.runs_asked)} of {counted(runs, 'run')} ask at all"))
    if figures.faults:
        console.print(_fault(figures))
    if figures.recorded:
        console.print(_recorded(figures))
    if figures.redacted:
        console.print(Text(f"{counted(figures.redacted, 'command')} with secrets taken out, judged without them"))
    _print_causes(console, figures)
    _print_rules(console, figures)
    if top is not None:
        _print_stopped(console, figures, top)
    _print_slowest(console, figures)


def _print_replayed(judged: Iterable[Judged]) -> None:
    from humanlayer_agent.cli.shared.tables import print_entry

    for row in judged:
        decision = row.decisions[0]
        rules = one_line(", ".join(decision.rules)) or NO_RULE
        print_entry(f"{decision.verdict!s:5}  {rules:30}", one_line(row.step.command), _INDENT)


def counted(count: int, what: str) -> str:
    """A number with its noun.

    Example:
        >>> counted(1, "run"), counted(8956, "command")
        ('1 run', '8,956 commands')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _verdicts(figures: Figures) -> Iterator[Sequence[str | Text]]:
    for verdict in Verdict:
        n, unread = figures.verdicts[verdict], figures.unread[verdict]
        note = f"{unread:,} run code that nobody could read" if unread else ""
        if verdict is Verdict.ALLOW:
            note = ", ".join(f"{count:,} {runs}" for runs, count in figures.confined.most_common())
        share = f"{100 * n / figures.commands:.2f} %"
        yield Text(str(verdict), style=STYLES[str(verdict)]), f"{n:,}", share, Text(note, style="dim")


def _recorded(figures: Figures) -> Text:
    if not figures.changed:
        return Text(f"all {figures.recorded:,} are decided as the log says they were")
    parts = [f"{then} then, {now} now: {n:,}" for (then, now), n in figures.changed.most_common()]
    return Text(f"decided differently than the log says: {'; '.join(parts)}", style="yellow")


def _fault(figures: Figures) -> Text:
    rest = figures.asks - figures.faults
    share = f"{100 * rest / figures.commands:.2f} asks per 100 commands"
    said = f"{counted(figures.faults, 'ask')} of them the log's fault: scripts of a checkout that is not there"
    named = ", ".join(one_line(name) for name, _ in figures.missing.most_common(3))
    hint = f" ({named}{' ...' if len(figures.missing) > 3 else ''}): --checkout DIR reads them"
    return Text(f"{said}{hint}; without them {share}", style="yellow")


def _print_causes(console: Console, figures: Figures) -> None:
    rows = []
    for cause in figures.by_cause():
        share = f"{100 * cause.count / figures.commands:.2f} %"
        kind = Text(one_line(cause.kind), style="yellow" if cause.fault else "")
        rows.append((kind, f"{cause.count:,}", share, short(cause.example.step.command, 400)))
    if rows:
        console.print()
        print_rows(console, ("cause", ">commands", ">share", "an example"), rows)


def _print_rules(console: Console, figures: Figures) -> None:
    asked = [rule for rule in figures.rules.values() if rule.decided[Verdict.ASK] or rule.decided[Verdict.DENY]]
    if asked:
        rows = []
        for rule in sorted(asked, key=lambda r: -(r.decided[Verdict.ASK] + r.decided[Verdict.DENY])):
            numbers = (rule.decided[Verdict.ASK], rule.decided[Verdict.DENY], rule.hits)
            rows.append([one_line(rule.id), *(f"{n:,}" if n else Text("-", style="dim") for n in numbers)])
        console.print()
        print_rows(console, ("rule", ">asks", ">denials", ">applied"), rows)
    if never := figures.never_hit:
        said = f"{len(never)} of {len(figures.rules)} rules met nothing: "
        console.print()
        print_hanging(console, Text(), Text(said + ", ".join(one_line(rule.id) for rule in never), style="dim"))


def _print_stopped(console: Console, figures: Figures, top: int) -> None:
    stopped = figures.most_stopped()
    for title, unread in (("asked about or denied", False), ("code that nobody could read", True)):
        chosen = [each for each in stopped if each.unread is unread]
        if not chosen:
            continue
        rows = []
        for each in chosen[:top]:
            rule = Text(one_line(each.rule), style="dim" if each.rule == NO_RULE else "")
            verdict = Text(str(each.verdict), style=STYLES[str(each.verdict)])
            rows.append((f"{each.count:,}", verdict, rule, short(each.command, 400)))
        console.print()
        print_rows(console, (">times", "verdict", "rule", title), rows)
        if len(chosen) > top:
            console.print(Text(f"and {len(chosen) - top:,} more: --top {len(chosen)}", style="dim"))


def _print_slowest(console: Console, figures: Figures) -> None:
    slowest = sorted(figures.slowest, key=lambda each: -each[0])[:3]
    rows = [(f"{took:,}", Text(short(row.step.command, 400), style="dim")) for took, _, row in slowest]
    console.print()
    print_rows(console, (">µs", "slowest"), rows)
    p50, p99 = figures.percentile(0.5), figures.percentile(0.99)
    console.print(Text(f"half of the commands took at most {p50:,} µs, 99 in 100 at most {p99:,} µs", style="dim"))


def short(command: str, length: int = 110) -> str:
    """A command in one line that fits."""
    shown = one_line(" ".join(command.split()) if len(command) < 10_000 else command[:length])
    return shown if len(shown) <= length else shown[: length - 3] + "..."


# ---- for programs -----------------------------------------------------------------------------------------


def public_row(row: Judged) -> ReplayedRecord:
    """One replayed command, for JSON lines."""
    step, decision = row.step, row.decisions[0]
    record: ReplayedRecord = {
        "source": step.source,
        "place": step.place,
        "run": step.run,
        "id": step.id,
        "command": step.command,
        "cwd": row.cwd,
        "verdict": str(decision.verdict),
        "rules": list(decision.rules),
        "reason": decision.reason,
        "severity": decision.severity,
        "parse": decision.parse,
        "unread": row.unread,
        "missing": list(row.missing),
        "recorded": step.verdict or None,
        "us": row.microseconds,
    }
    if decision.confinement is not None:
        record["confined"] = decision.confinement.name
    return record


class Parquet:
    """A file of replayed rows in Apache Parquet: the columns of `ReplayedRecord`, and `rule`, the one that decided.

    Args:
        path: where it is written once all rows are there; what stood there stays until then.

    Raises:
        ConfigError: what writes it is not installed, or the name does not end in .parquet.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix != ".parquet":
            raise ConfigError(f"{path}: --to writes Parquet, so the name ends in .parquet")
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            from humanlayer_agent.extras import lacks

            raise ConfigError(lacks("Parquet", "parquet", error)) from error
        self._path, self._arrow, self._parquet = path, pyarrow, pyarrow.parquet
        texts, words = pyarrow.list_(pyarrow.string()), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        kinds = {"rules": texts, "missing": texts, "unread": pyarrow.bool_(), "us": pyarrow.int64()}
        kinds |= dict.fromkeys(("source", "run", "verdict", "rule", "severity", "parse", "recorded", "confined"), words)
        self._schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in _COLUMNS])

    def written(self, rows: Iterable[Judged]) -> Iterator[Judged]:
        """Pass rows on, and write the file with the last of them."""
        beside = self._path.with_name(f".{self._path.name}.{os.urandom(8).hex()}")  # nobody can lay a link there
        kept: list[dict[str, Any]] = []
        size = 0
        try:
            with (
                open(beside, "xb") as file,
                self._parquet.ParquetWriter(file, self._schema, compression="zstd") as writer,
            ):
                for row in rows:
                    kept.append(_column_values(row))
                    size += sum(len(value) for value in kept[-1].values() if isinstance(value, str))
                    if len(kept) == _ROWS_AT_ONCE or size >= _TEXT_AT_ONCE:
                        self._write(writer, kept)
                        size = 0
                    yield row
                self._write(writer, kept)
            os.replace(beside, self._path)
        except OSError as error:
            raise ConfigError(f"{self._path}: can't be written: {error.strerror or error}") from error
        finally:
            beside.unlink(missing_ok=True)

    def _write(self, writer: Any, kept: list[dict[str, Any]]) -> None:
        if kept:
            writer.write_table(self._arrow.Table.from_pylist(kept, schema=self._schema))
        kept.clear()


def _column_values(row: Judged) -> dict[str, Any]:
    """A row's columns. Parquet holds Unicode alone: what is none stands as `\\udcff` does in JSON."""
    record: dict[str, Any] = {**public_row(row), "rule": row.decisions[0].rule or None}
    for name, value in record.items():
        if isinstance(value, str):
            record[name] = value.encode("utf-8", "backslashreplace").decode()
        elif isinstance(value, list):
            record[name] = [each.encode("utf-8", "backslashreplace").decode() for each in value]
    return record


def public(figures: Figures, policy: Policy, found: Found) -> ReplayRecord:
    """All figures, as JSON."""
    return {
        "policy": policy.name,
        "files": [str(log.path) for log in found.logs],
        "formats": sorted({log.format.NAME for log in found.logs}),
        "other_files": [str(path) for path in found.others],
        "commands": figures.commands,
        "runs": len(figures.runs),
        "runs_asked": len(figures.runs_asked),
        "verdicts": {str(verdict): figures.verdicts[verdict] for verdict in Verdict},
        "unread": {str(verdict): figures.unread[verdict] for verdict in Verdict if verdict is not Verdict.ALLOW},
        "confined": dict(figures.confined),
        "asks_per_100_commands": round(figures.asks_per_100, 3),
        "asks_per_run": round(figures.asks_per_run, 3),
        "parse": dict(figures.parses),
        "rules": [
            {
                "rule": rule.id,
                "decision": rule.decision or None,
                "applied": rule.hits,
                "decided": {str(verdict): n for verdict, n in sorted(rule.decided.items())},
            }
            for rule in figures.rules.values()
        ],
        "never_hit": [rule.id for rule in figures.never_hit],
        "stopped": [
            {
                "command": each.command,
                "verdict": str(each.verdict),
                "rule": each.first.decisions[0].rule or None,
                "reason": each.reason,
                "count": each.count,
                "runs": len(each.runs),
                "unread": each.unread,
                "first": {"source": each.first.step.source, "place": each.first.step.place},
            }
            for each in figures.most_stopped()
        ],
        "causes": [
            {
                "kind": cause.kind,
                "fault": cause.fault or None,
                "count": cause.count,
                "share": round(cause.count / figures.commands, 5),
                "verdicts": {str(verdict): n for verdict, n in sorted(cause.verdicts.items())},
                "example": {
                    "command": cause.example.step.command,
                    "source": cause.example.step.source,
                    "place": cause.example.step.place,
                },
            }
            for cause in figures.by_cause()
        ],
        "missing": [{"code": name, "count": n} for name, n in figures.missing.most_common(_LISTED)],
        "slowest": [
            {"us": took, "command": row.step.command} for took, _, row in sorted(figures.slowest, key=lambda e: -e[0])
        ],
        "us": {"p50": figures.percentile(0.5), "p99": figures.percentile(0.99)},
        "recorded": {
            "rows": figures.recorded,
            "changed": [{"then": a, "now": b, "count": n} for (a, b), n in figures.changed.most_common()],
        },
        "redacted": figures.redacted,
        "tool_calls_without_command": dict(figures.no_commands),
        "unreadable": {"count": figures.unreadable_count, "rows": [_public_unreadable(r) for r in figures.unreadable]},
    }


def _public_unreadable(row: Unreadable) -> dict[str, str]:
    return {"source": row.source, "place": row.place, "why": row.why}


# ---- progress ---------------------------------------------------------------------------------------------


@contextmanager
def _progress(logs: Iterable[Log]) -> Iterator[Callable[[Log, int], None]]:
    """A bar on the terminal for people who wait; nothing where standard error is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    before: dict[int, int] = {}
    done = 0
    for log in logs:
        before[id(log)] = done
        done += log.size
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("replaying", total=max(done, 1))
        yield lambda log, passed: progress.update(
            task, completed=before[id(log)] + passed, description=one_line(log.path.name)[:40]
        )
