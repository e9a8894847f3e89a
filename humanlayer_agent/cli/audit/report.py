"""`hla audit report`: what a log tells, for the people who answer for it.

`hla audit evidence`: what it shows for the clauses of a law or a standard.
"""

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from humanlayer_agent.cli.audit.verify import (
    HeadOption,
    RequireHeadOption,
    by_anchor,
    kept_heads,
    unopened,
    unwitnessed,
    verify_files,
)
from humanlayer_agent.cli.shared.completion import run_ids
from humanlayer_agent.cli.shared.options import FORMAT, FormatOption, StoreOption
from humanlayer_agent.cli.shared.output import print_record, prints
from humanlayer_agent.cli.shared.records import EvidenceRecord, ReportRecord
from humanlayer_agent.cli.shared.store_access import open_store, time_text
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.locations import default_store_path

if TYPE_CHECKING:
    from humanlayer_agent.audit.chain import Entry
    from humanlayer_agent.audit.heads import Head
    from humanlayer_agent.audit.verify import Verification
    from humanlayer_agent.report.evidence import Evidence
    from humanlayer_agent.report.facts import Facts, Wanted
    from humanlayer_agent.report.integrity import Integrity


HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write it to this file, as a page only you can read.")
]
ExportOption = Annotated[Path | None, typer.Option("--export", metavar="FILE", help="An export, instead of a store.")]
SinceOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="From then on: 2026-11-02, 2026-11-02T14:00Z, or 7d.")
]
UntilOption = Annotated[str | None, typer.Option(metavar="TIME", help="Before then.")]
RunOption = Annotated[str | None, typer.Option(metavar="ID", help="Only this run.", autocompletion=run_ids)]


@prints(ReportRecord)
def report(
    html: HtmlOption = None,
    output: Annotated[Literal["table", "json", "jsonl", "csv"], FORMAT] = "table",
    store: StoreOption = None,
    export: ExportOption = None,
    head: HeadOption = None,
    require_head: RequireHeadOption = False,
    since: SinceOption = None,
    until: UntilOption = None,
    run: RunOption = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="NAME|FILE", help="Of the page: whose rules that were never hit are named."),
    ] = None,
) -> None:
    """Report on a log: integrity, approvals, denials, rules, attention. Exit codes as `audit verify` has them.

    The whole log is verified, also where only a part of it is told.

    Example: hla audit report --html report.html --since 30d
    """
    _check(html, output, store, export, head)
    wanted = _wanted(run, since, until)
    proof, entries = _opened(store, export, kept_heads(head))
    facts = _collected(wanted, entries)
    if html is not None:
        from humanlayer_agent.report.pages import audit_page

        rules, base = _rules(facts, policy)
        _write(html, audit_page(facts, proof, rules=rules, policy=base))
        print(f"{html}: {proof.headline}")
    elif output == "table":
        _print_summary(facts, proof)
    else:
        from humanlayer_agent.report.as_data import as_csv, as_json_data

        if output == "csv":
            sys.stdout.write(as_csv(facts))
        else:
            print_record(as_json_data(facts, proof), output)
        print(f"humanlayer-agent: {proof.headline}", file=sys.stderr)
    raise typer.Exit(proof.exit_code or unwitnessed(proof.witnessed is not None, require_head))


@prints(EvidenceRecord)
def evidence(
    map: Annotated[
        Literal["eu-ai-act", "soc2", "iso42001"], typer.Option("--map", help="Whose clauses it is arranged by.")
    ],
    html: HtmlOption = None,
    output: FormatOption = "table",
    store: StoreOption = None,
    export: ExportOption = None,
    head: HeadOption = None,
    require_head: RequireHeadOption = False,
    since: SinceOption = None,
    until: UntilOption = None,
    run: RunOption = None,
) -> None:
    """Show what a log has for each clause of a law or a standard, each figure with the command that shows it.

    It is evidence of what was recorded, and says of no clause that it is met. The same log and times give the same
    bytes. Exit codes as `audit verify` has them: what can't be relied on says so at its top.

    Examples: hla audit evidence --map soc2 --since 30d --html soc2.html;  hla audit evidence --map
    eu-ai-act --format json
    """
    from humanlayer_agent.report.evidence import collected

    _check(html, output, store, export, head)
    wanted = _wanted(run, since, until)
    proof, entries = _opened(store, export, kept_heads(head))
    log = ("--export", str(export)) if export is not None else ("--store", store) if store is not None else ()
    with _progress("reading") as told:
        found = collected(map, wanted, _counting(entries(), told), proof, log)
    if html is not None:
        from humanlayer_agent.report.pages import evidence_page

        _write(html, evidence_page(found))
        print(f"{html}: {proof.headline}")
    elif output == "table":
        _print_evidence(found)
    else:
        from humanlayer_agent.report.as_data import evidence_as_json_data

        print_record(evidence_as_json_data(found), output)
        print(f"humanlayer-agent: {proof.headline}", file=sys.stderr)
    raise typer.Exit(proof.exit_code or unwitnessed(proof.witnessed is not None, require_head))


def _check(html: Path | None, output: str, store: str | None, export: Path | None, head: str | None) -> None:
    """Raise ConfigError where these options do not go together."""
    if html is not None and output != "table":
        raise ConfigError("--html FILE writes a page, and prints nothing else: leave --format out")
    for read in (export, head, store, default_store_path() if store is None and export is None else None):
        if html is not None and read is not None and html.exists() and Path(read).exists() and html.samefile(read):
            raise ConfigError(f"{html}: is what the page would be made of: name another file for the page")
    if store is not None and export is not None:
        raise ConfigError("name a store or an export, not both")
    if export is not None and head is not None and export.exists() and Path(head).exists() and export.samefile(head):
        raise ConfigError(f"{head}: a head that stands in the log itself witnesses nothing: name one kept elsewhere")


def _wanted(run: str | None, since: str | None, until: str | None) -> "Wanted":
    from humanlayer_agent.approvals.store_interface import now_ms
    from humanlayer_agent.audit.search import moment
    from humanlayer_agent.report.facts import Wanted

    first, last = (None if said is None else moment(said, now_ms()) for said in (since, until))
    if first is not None and last is not None and first >= last:
        raise ConfigError(f"--since {since} is not before --until {until}: nothing lies between them")
    return Wanted(run, first, last)


def _print_evidence(found: "Evidence") -> None:
    """Print the clauses with their figures; the page and JSON have the commands and the records."""
    from rich.text import Text

    from humanlayer_agent.cli.shared.tables import console, print_hanging, print_rows
    from humanlayer_agent.report.evidence import figures
    from humanlayer_agent.safe_text import one_line

    out = console()
    print_hanging(out, Text(), Text(one_line(found.integrity.headline), style="bold"))
    print_hanging(out, Text(), Text(f"{found.map.of}: what the log shows, and not whether a clause is met"))
    period = f"{time_text(found.since)} to {time_text(found.until)}, {found.facts.events:,} events"
    print_hanging(out, Text(), Text(period))
    for clause in found.map.clauses:
        out.print()
        print_hanging(out, Text(), Text(f"{clause.clause}: {clause.about}", style="bold"))
        rows = [(f"{found.counts[name]:,}", figures()[name].says) for name in clause.figures]
        print_rows(out, (">", ""), rows, whole=True)
    out.print()
    print_hanging(out, Text(), Text("With commands and records: hla audit evidence --html FILE, or --format json"))


def _print_summary(facts: "Facts", proof: "Integrity") -> None:
    """Print the figures that a person looks for first; the page and the other formats have all of it."""
    from collections import Counter

    from rich.text import Text

    from humanlayer_agent.audit.events import GLASS_BROKEN
    from humanlayer_agent.cli.shared.tables import console, print_hanging, print_rows
    from humanlayer_agent.report.attention import attention
    from humanlayer_agent.safe_text import one_line

    out, found = console(), attention(facts)
    print_hanging(out, Text(), Text(one_line(proof.headline), style="bold"))
    first, last = (time_text(at) if at is not None else "-" for at in (facts.first, facts.last))
    states = Counter(request.state for request in facts.requests.values())

    def counts(of: Any) -> str:
        return ", ".join(f"{n:,} {name}" for name, n in sorted(of.items()) if n) or "none"

    rows = [
        ("from", first),
        ("to", last),
        ("runs", f"{len(facts.runs):,}"),
        ("decisions", counts(facts.verdicts)),
        ("requests", counts(states)),
        ("attention", f"{found.asks_per_100:.2f} asks per 100 commands"),
        ("denials", f"{len(facts.denials):,}"),
    ]
    if broken := facts.types[GLASS_BROKEN.name]:
        rows.append(("BREAK-GLASS", f"{broken:,} times somebody signed outside of a route"))
    out.print()
    print_rows(out, ("", ""), rows, whole=True)
    rules = sorted(facts.rules.values(), key=lambda rule: -rule.applied)
    if rules:
        out.print()
        table = [(f"{rule.applied:,}", one_line(rule.id or "no rule"), counts(rule.decided)) for rule in rules]
        print_rows(out, (">applied", "rule", "decided"), table, whole=True)
    out.print()
    print_hanging(out, Text(), Text("All of it: hla audit report --html FILE, or --format json"))


def _opened(
    store: str | None, export: Path | None, heads: "list[Head]"
) -> "tuple[Integrity, Callable[[], Iterator[Entry]]]":
    """Return what the verifier says of the log, and its events."""
    from humanlayer_agent.report.integrity import integrity

    if export is not None:
        proof = integrity(verify_files([export], heads), str(export), heads)
        return proof, lambda: _as_verified(entries_of(export), proof)
    try:
        opened = open_store(store)
    except ConfigError as error:
        return integrity(unopened(error), store or str(default_store_path())), lambda: iter(())

    def check(known: "list[Head]") -> "Verification":
        with _progress("verifying") as told:
            return opened.verify(heads=known, progress=told)

    proof = integrity(by_anchor(opened, heads, check), opened.location, heads)
    return proof, lambda: _as_verified(opened.events(), proof)


def _as_verified(entries: "Iterable[Entry]", proof: "Integrity") -> "Iterator[Entry]":
    """The events of an intact log that were verified, and no others: it is read a second time.

    Raises:
        ConfigError: they are not there any more; what comes through a pipe is read once.
    """
    if proof.problem:
        yield from entries
        return
    read = sha256()
    for entry in islice(entries, proof.count):
        hash_ = sha256(entry.body)
        if hash_.hexdigest() != entry.hash:
            break
        read.update(hash_.digest())
        yield entry
    if read.hexdigest() != proof.digest:
        raise ConfigError(f"{proof.source}: is not what was verified a moment ago: try again, and not through a pipe")


def entries_of(export: Path) -> "Iterator[Entry]":
    """The whole lines of an export. Raises ConfigError where it can't be read."""
    from humanlayer_agent.audit.export import Torn, read_entries

    try:
        with export.open("rb") as stream, suppress(Torn):
            yield from read_entries(stream)
    except OSError as error:
        raise ConfigError(f"{export}: {error.strerror}") from error


def _collected(wanted: "Wanted", entries: "Callable[[], Iterator[Entry]]") -> "Facts":
    from humanlayer_agent.report.facts import Facts

    with _progress("reading") as told:
        return Facts(wanted).collect(_counting(entries(), told))


def _counting(entries: "Iterator[Entry]", told: Callable[[int], None]) -> "Iterator[Entry]":
    for number, entry in enumerate(entries, 1):
        if number % 1_000 == 0:
            told(number)
        yield entry


def _rules(facts: "Facts", policy: str | None) -> tuple[list[str], str]:
    """The ids of the rules in force, as far as they are known, and the policy that a change would start from."""
    from humanlayer_agent.policy.language.loader import find, load
    from humanlayer_agent.policy.language.sources import shipped_names

    names = [policy] if policy is not None else sorted({p.name for p in facts.policies.values()})
    if not names or (policy is None and not set(names) <= set(shipped_names())):
        return [], names[0] if len(names) == 1 and set(names) <= set(shipped_names()) else "./policy.yaml"
    today = datetime.now(UTC).date().isoformat()
    rules = [rule.id for name in names for rule in load(find(name), tested=False).on(today)]
    return list(dict.fromkeys(rules)), names[0]


def _write(path: Path, page: str) -> None:
    """Write the page: for its owner alone, because it tells what agents did."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, 0o600)
            file.write(page)
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror}") from error


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int], None]]:
    """A counter of events on the terminal for people who wait; nothing where standard error is no terminal."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:,.0f} events"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda count: progress.update(task, completed=count)
