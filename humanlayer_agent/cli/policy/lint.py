"""`hla policy lint`: runs the linter, and presents what it finds as a table, JSON or SARIF."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from humanlayer_agent.cli.policy.show import STYLES
from humanlayer_agent.cli.shared.output import print_record, print_records
from humanlayer_agent.cli.shared.records import CheckPageRecord, LintRecord
from humanlayer_agent.cli.shared.tables import print_hanging
from humanlayer_agent.errors import ConfigError, did_you_mean
from humanlayer_agent.locations import data_file
from humanlayer_agent.policy.language.loader import find
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.lint import CHECKS, Finding, Witness, lint_all, lint_files
from humanlayer_agent.safe_text import one_line, visible

_LEVELS = {"error": "bold red", "warning": "yellow", "note": "cyan", "unknown": "magenta"}
_ONE = {"error": "error", "warning": "warning", "note": "note", "unknown": "unknown", "ignored": "ignored"}


def run_lint(
    names: Sequence[str],
    layers: Callable[[], Sequence[Policy]],
    *,
    format: str,
    strict: bool,
    all_: bool,
    routes: Collection[str] | None = None,
) -> int:
    """Lint policies and print what is found. Returns the exit code: 1 where something is wrong.

    Args:
        names: shipped policies or files; where there are none, the policies in force.
        layers: gives the policies in force.
        strict: notes, and what is unknown, count as wrong too.
        all_: show also what comments in the files hide.
        routes: the names of those that there are; None where that is not known.

    Raises:
        ConfigError: a policy can't be found or has a mistake.
    """
    files = [find(name) for name in names]
    policies = [] if files else layers()
    with _progress(len(CHECKS) * (len(files) or len(policies))) as advance:
        findings = lint_files(files, advance, routes=routes) if files else lint_all(policies, advance, routes=routes)
    if format == "table":
        print_table(findings, all_)
    elif format == "sarif":
        _sarif(findings)
    else:
        print_records(map(_record, findings), format)
    return 1 if wrong(findings, strict=strict) else 0


def known_routes(project: Path | None) -> Collection[str] | None:
    """The routes of the channels files in force; None where there is no such file, or it can't be used."""
    from humanlayer_agent.channels.settings import load
    from humanlayer_agent.configuration import find_project

    if project is None:
        with suppress(ConfigError):  # there may be none around here
            project = find_project()
    try:
        found = load(project)
    except ConfigError:  # hla doctor says so
        return None
    return frozenset(found.routes) if found.files else None


def wrong(findings: Sequence[Finding], *, strict: bool) -> bool:
    """Tell whether the findings make the exit code 1."""
    if strict:
        return any(not finding.ignored for finding in findings)
    return any(finding.counts and finding.level != "note" for finding in findings)


def print_page(check: str, format: str = "table") -> None:
    """Print the documentation page of a check.

    Raises:
        ConfigError: there is no such check.
    """
    if check not in {each.id for each in CHECKS}:
        raise ConfigError(f"there is no check {one_line(check)}; {did_you_mean(check, [each.id for each in CHECKS])}")
    if format in ("json", "jsonl"):
        page: CheckPageRecord = {"check": check, "page": _page(check)}
        print_record(page, format)
    else:
        Console().print(Markdown(_page(check), code_theme="ansi_dark"))


def _page(check: str) -> str:
    try:
        return data_file("docs/lint", f"{check}.md").read_text(encoding="utf-8")
    except (ConfigError, OSError):
        return next(each.summary for each in CHECKS if each.id == check)


# ---- for people -------------------------------------------------------------------------------------------


def print_table(findings: Sequence[Finding], all_: bool = False, console: Console | None = None) -> None:
    """The findings file by file: place, level, check and rule; what is wrong; the witness."""
    console = console or Console(highlight=False)
    shown = [finding for finding in findings if all_ or not finding.ignored]
    for file in dict.fromkeys(finding.place.file for finding in shown):
        console.print(Text(visible(file, keep=""), style="bold"), soft_wrap=True)
        mine = [finding for finding in shown if finding.place.file == file]
        places = [f"  {finding.place.line}:{finding.place.column}" for finding in mine]
        widths = max(map(len, places)), max(len(_kind(finding)) for finding in mine)
        for place, finding in zip(places, mine, strict=True):
            level = _kind(finding)
            head = Text(f"{place:>{widths[0]}}  ", style="dim")
            head.append(f"{level:<{widths[1]}}  ", style=f"not dim {_LEVELS.get(level, 'dim')}")
            print_hanging(console, head, _body(finding))
        console.print()
    console.print(_summary(findings))
    if shown:
        console.print(Text(f"hla policy lint --explain {shown[0].check}   says more of a check", style="dim"))


def _body(finding: Finding) -> Text:
    text = Text(finding.check, style="bold")
    if finding.about:
        text.append(f"  {one_line(finding.about)}", style="cyan not bold")
    text.append(f"\n{one_line(finding.message)}", style="not bold")
    if finding.witness is not None:
        text.append("\n").append_text(_witness(finding.witness))
    if finding.ignored:
        text.append(f"\nignored: {one_line(finding.ignored)}", style="dim not bold")
    return text


def _witness(witness: Witness) -> Text:
    text = Text("$ ", style="dim not bold").append(one_line(witness.command), style="not dim")
    if not witness.verdict:
        return text.append("   not judged: the policy can't be loaded", style="dim")
    text.append(f"   {witness.verdict}", style=f"{STYLES[witness.verdict]} not dim")
    return text.append(f" ({', '.join(witness.rules) or 'no rule'})", style="dim")


def _kind(finding: Finding) -> str:
    return "ignored" if finding.ignored else "unknown" if finding.unknown else str(finding.level)


def _summary(findings: Sequence[Finding]) -> Text:
    counts = Counter(_kind(finding) for finding in findings)
    plural = {"error": "errors", "warning": "warnings", "note": "notes"}
    parts = [f"{n} {plural.get(kind, kind) if n > 1 else kind}" for kind in _ONE if (n := counts[kind])]
    if not parts:
        return Text(f"clean: {len(CHECKS)} checks found nothing", style="green")
    return Text(", ".join(parts), style="bold")


# ---- for programs -----------------------------------------------------------------------------------------


def _record(finding: Finding) -> LintRecord:
    witness = finding.witness
    return {
        "check": finding.check,
        "level": finding.level,
        "unknown": finding.unknown,
        "ignored": finding.ignored or None,
        "file": finding.place.file,
        "line": finding.place.line,
        "column": finding.place.column,
        "about": finding.about,
        "message": finding.message,
        "witness": None
        if witness is None
        else {"command": witness.command, "verdict": witness.verdict or None, "rules": list(witness.rules)},
    }


def _sarif(findings: Sequence[Finding]) -> None:
    from humanlayer_agent.policy_tools.sarif import lint_log

    print(json.dumps(lint_log(findings, folder=Path.cwd(), help_of=_page), indent=2))


# ---- progress ---------------------------------------------------------------------------------------------


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on the terminal for people who wait; nothing where standard error is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} checks"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("linting", total=total)
        yield lambda check: progress.update(task, advance=1, description=check)
