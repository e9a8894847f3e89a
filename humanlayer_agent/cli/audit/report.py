"""`hla audit report`: what a log tells, for the people who answer for it."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.audit.verify import HeadOption, kept_heads, verify_files
from humanlayer_agent.cli.shared.store_access import StoreOption, open_store
from humanlayer_agent.errors import ConfigError

if TYPE_CHECKING:
    from humanlayer_agent.audit.chain import Entry
    from humanlayer_agent.audit.heads import Head
    from humanlayer_agent.report.facts import Facts, Wanted
    from humanlayer_agent.report.integrity import Integrity


def report(
    html: Annotated[Path | None, typer.Option("--html", help="Write the report to this file, as one page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every question to a human as CSV.")] = False,
    store: StoreOption = None,
    export: Annotated[Path | None, typer.Option("--export", help="An export, instead of a store.")] = None,
    head: HeadOption = None,
    since: Annotated[str | None, typer.Option(help="From then on: 2026-11-02, 2026-11-02T14:00Z, or 7d.")] = None,
    until: Annotated[str | None, typer.Option(help="Before then.")] = None,
    run: Annotated[str | None, typer.Option(help="Only this run.")] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", help="The policy in force: its rules that were never hit are named.")
    ] = None,
) -> None:
    """Report on a log: integrity, approvals, denials, rules, attention. Exit codes as `audit verify` has them.

    The whole log is verified, also where only a part of it is told.

    Example: hla audit report --html report.html --since 30d
    """
    if sum((html is not None, as_json, as_csv)) != 1:
        raise ConfigError("say what to make: --html FILE, --json or --csv")
    if store is not None and export is not None:
        raise ConfigError("name a store or an export, not both")
    if export is not None and head is not None and export.exists() and Path(head).exists() and export.samefile(head):
        raise ConfigError(f"{head}: a head that stands in the log itself witnesses nothing: name one kept elsewhere")
    from humanlayer_agent.approvals.store_interface import now_ms
    from humanlayer_agent.audit.search import moment
    from humanlayer_agent.report.facts import Wanted

    proof, entries = _opened(store, export, kept_heads(head))
    facts = _collected(
        Wanted(run, *(None if said is None else moment(said, now_ms()) for said in (since, until))), entries
    )
    if html is not None:
        from humanlayer_agent.report.pages import audit_page

        rules, base = _rules(facts, policy)
        _write(html, audit_page(facts, proof, rules=rules, policy=base))
        print(f"{html}: {proof.headline}")
    else:
        from humanlayer_agent.report.as_data import as_csv as csv_text
        from humanlayer_agent.report.as_data import as_json_data

        sys.stdout.write(csv_text(facts) if as_csv else json.dumps(as_json_data(facts, proof), indent=2) + "\n")
        print(f"humanlayer-agent: {proof.headline}", file=sys.stderr)
    raise typer.Exit(proof.exit_code)


def _opened(
    store: str | None, export: Path | None, heads: "list[Head]"
) -> "tuple[Integrity, Callable[[], Iterator[Entry]]]":
    """Return what the verifier says of the log, and its events."""
    from humanlayer_agent.report.integrity import integrity

    if export is not None:
        return integrity(verify_files([export], heads), str(export), heads), lambda: _of_file(export)
    opened = open_store(store)
    with _progress("verifying") as told:
        found = opened.verify(heads=heads, progress=told)
    return integrity(found, str(opened.path), heads), opened.events


def _of_file(export: Path) -> "Iterator[Entry]":
    """The whole lines of an export."""
    from humanlayer_agent.audit.export import Torn, read_entries

    with export.open("rb") as stream, suppress(Torn):
        yield from read_entries(stream)


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
