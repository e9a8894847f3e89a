"""`hla doctor`: what works here, what does not, and how to mend it."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import typer

from humanlayer_agent.cli.shared.options import FormatOption, ProjectOption
from humanlayer_agent.cli.shared.output import print_records, prints
from humanlayer_agent.cli.shared.records import DoctorRecord
from humanlayer_agent.safe_text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from humanlayer_agent.doctor.checks import Check
    from humanlayer_agent.doctor.context import Finding

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}
_INDENT = 10


@prints(DoctorRecord, many=True)
def doctor(project: ProjectOption = None, output: FormatOption = "table") -> None:
    """Check what is installed, set up and trusted, and really try the walls around agents' commands.

    It mends nothing, and says what to do. Exit code 1 where something failed.

    Example: hla doctor --project ~/src/app
    """
    from humanlayer_agent.doctor.checks import examine
    from humanlayer_agent.doctor.context import context_for

    found = examine(context_for(project, os.environ))
    count: Counter[str] = Counter()
    if output == "table":
        count = print_findings(found)
    else:
        print_records(_records(found, count), output)
    raise typer.Exit(1 if count["failed"] else 0)


def print_findings(found: "Iterable[tuple[Check, Finding]]", console: "Console | None" = None) -> Counter[str]:
    """Print findings as they come, in groups. Returns how many there are of each status."""
    from rich.text import Text

    from humanlayer_agent.cli.shared import tables

    console = console or tables.console()
    count: Counter[str] = Counter()
    group = ""
    for check, finding in found:
        if check.group != group:
            console.print(Text(f"{'' if not group else chr(10)}{check.group}", style="bold"))
            group = check.group
        _print(console, Text(f"  {finding.status:8}", style=_STYLES[finding.status]), finding.said)
        if finding.todo:
            _print(console, Text(" " * _INDENT), f"> {finding.todo}", style="italic")
        count[finding.status] += 1
    console.print(Text(f"\n{_summary(count)}", style=_STYLES[_worst(count)]))
    return count


def _print(console: "Console", head: "Text", text: str, style: str = "") -> None:
    """A status and what is said, in lines of its own below each other."""
    from rich.text import Text

    from humanlayer_agent.cli.shared.tables import print_hanging

    head.pad_right(_INDENT - head.cell_len)
    print_hanging(console, head, Text(visible(text), style=style))


def _records(found: "Iterable[tuple[Check, Finding]]", count: Counter[str]) -> Iterator[DoctorRecord]:
    """The same for programs; `count` gets how many there are of each status."""
    for check, finding in found:
        count[finding.status] += 1
        yield {
            "check": check.name,
            "group": check.group,
            "status": finding.status,
            "said": finding.said,
            "todo": finding.todo,
        }


def _worst(count: Counter[str]) -> str:
    return next(status for status in ("failed", "warning", "ok") if count[status] or status == "ok")


def _summary(count: Counter[str]) -> str:
    if not count["failed"] and not count["warning"]:
        return f"All is well: {count['ok']} checks."
    failed = f"{count['failed']} failed" if count["failed"] else "Nothing failed"
    warned = f"{count['warning']} warning{'s' * (count['warning'] != 1)}"
    return f"{failed}, {warned}, {count['ok']} are fine."
