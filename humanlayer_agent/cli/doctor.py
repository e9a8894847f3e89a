"""`hla doctor`: what works here, what does not, and how to mend it."""

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.safe_text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from humanlayer_agent.doctor.checks import Check
    from humanlayer_agent.doctor.context import Finding

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}
_INDENT = 10


def doctor(
    project: Annotated[
        Path | None, typer.Option("--project", metavar="DIR", help="The directory the agent works for.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings for programs.")] = False,
) -> None:
    """Check what is installed, set up and trusted, and really try the walls around agents' commands.

    It mends nothing, and says what to do. Exit code 1 where something failed.

    Example: hla doctor --project ~/src/app
    """
    from humanlayer_agent.doctor.checks import examine
    from humanlayer_agent.doctor.context import context_for

    found = examine(context_for(project, os.environ))
    count = print_json(found) if as_json else print_findings(found)
    raise typer.Exit(1 if count["failed"] else 0)


def print_findings(found: "Iterable[tuple[Check, Finding]]", console: "Console | None" = None) -> Counter[str]:
    """Print findings as they come, in groups. Returns how many there are of each status."""
    from rich.console import Console
    from rich.text import Text

    console = console or Console(highlight=False)
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
    from rich.table import Table
    from rich.text import Text

    row = Table.grid()
    row.add_column(width=_INDENT, no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(head, Text(visible(text), style=style))
    console.print(row)


def print_json(found: "Iterable[tuple[Check, Finding]]") -> Counter[str]:
    """The same for programs: one object."""
    findings = [
        {
            "check": check.name,
            "group": check.group,
            "status": finding.status,
            "said": finding.said,
            "todo": finding.todo,
        }
        for check, finding in found
    ]
    count = Counter(each["status"] for each in findings)
    print(json.dumps({"ok": not count["failed"], "findings": findings}, indent=2))
    return count


def _worst(count: Counter[str]) -> str:
    return next(status for status in ("failed", "warning", "ok") if count[status] or status == "ok")


def _summary(count: Counter[str]) -> str:
    if not count["failed"] and not count["warning"]:
        return f"All is well: {count['ok']} checks."
    failed = f"{count['failed']} failed" if count["failed"] else "Nothing failed"
    warned = f"{count['warning']} warning{'s' * (count['warning'] != 1)}"
    return f"{failed}, {warned}, {count['ok']} are fine."
