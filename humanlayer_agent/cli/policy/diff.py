"""`hla policy diff`: what changes when one policy takes the place of another, over recorded runs or their own tests."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from humanlayer_agent.cli.policy.replay import INCOMPLETE, counted, engine, items, log_items, name_unreadable, short
from humanlayer_agent.cli.policy.show import STYLES
from humanlayer_agent.cli.shared.output import print_record
from humanlayer_agent.cli.shared.tables import print_rows
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.diff import Change, Diff, acceptable, over_tests, public, unlocked
from humanlayer_agent.policy_tools.diff.acceptance import Accepted, read_accepted
from humanlayer_agent.policy_tools.diff.search import Progress, Search
from humanlayer_agent.policy_tools.replay import Judged
from humanlayer_agent.policy_tools.replay.formats import find
from humanlayer_agent.safe_text import one_line, visible

_SILENT = 8
"""Changes that nothing was found for, by name."""
_HEADLINES = {
    "equivalent": "green",
    "no difference found": "yellow",
    "stricter": "green",
    "looser": "bold red",
    "mixed": "bold red",
}


def run_diff(
    old: Policy,
    new: Policy,
    paths: Sequence[Path],
    project: Path | None,
    *,
    accept: Path | None,
    search: bool = True,
    store: str | None = None,
    confined: bool = False,
    format: str,
    top: int,
) -> int:
    """Compare two policies and print what changes. Returns the exit code: 1 where anything is looser and nobody has
    accepted it, 5 where rows could not be replayed, nothing was compared, or the search was interrupted, else 0.

    Args:
        paths: recorded runs; where there are none, the examples in the rules of both policies are judged.
        project: the directory that agents worked for, whatever logs say.
        accept: a file with accepted loosenings.
        search: look for commands that show what has changed in the rules, also in the log of the store.
        store: the store; None: the user's, where there is one.
        confined: see `engine`.
        top: so many examples of a cell of the matrix.

    Raises:
        ConfigError: a file can't be read or has a mistake.
    """
    accepted = read_accepted(accept) if accept is not None else Accepted()
    if paths:
        diff = Diff(accepted, unlocked=unlocked(old, new))
        diff.count(engine([old, new], project, confined=confined).replay(items(find(paths))))
    else:
        diff = over_tests(old, new, accepted, confined=confined)
    if search:
        log = _of_log(old, new, project, confined, store)
        with _progress() as progress:
            diff.look(Search(old, new, confined=confined, log=log), progress)
    names = (old.name, new.name)
    if format == "table":
        print_diff(diff, *names, over_tests=not paths, top=top)
    elif format in ("json", "jsonl"):
        print_record({"old": names[0], "new": names[1], **public(diff)}, format)
    elif format == "html":
        from humanlayer_agent.report.pages import diff_page

        print(diff_page(diff, old, new, over_tests=not paths))
    elif format == "sarif":
        from humanlayer_agent.policy_tools.sarif import diff_log

        print(json.dumps(diff_log(diff, old, new, folder=Path.cwd()), indent=2))
    elif format == "junit":
        print(junit(diff, *names))
    else:
        print(acceptable(_loosened(diff)), end="")
    for entry, why in accepted.unused():
        said = f"{accept}: stale: {entry.digest[:12]} ({short(entry.command, 60)}): {why}"
        print(f"humanlayer-agent: {one_line(said)}", file=sys.stderr)
    if diff.unreadable_count:
        name_unreadable(diff.unreadable, diff.unreadable_count)
    if not diff.commands and diff.search is None:
        print("humanlayer-agent: nothing was compared: there is no command in it", file=sys.stderr)
        return INCOMPLETE
    if interrupted := diff.search is not None and not diff.search.complete:
        print("humanlayer-agent: interrupted: this is what was found until then", file=sys.stderr)
    if diff.headline in ("looser", "mixed"):
        return 1
    return INCOMPLETE if diff.unreadable_count or interrupted else 0


def _of_log(old: Policy, new: Policy, project: Path | None, confined: bool, store: str | None) -> Iterator[Judged]:
    """Yield what both policies say of the commands in the log of a store, each in its own place."""
    judged = engine([old, new], project, confined=confined).replay(log_items(store))
    yield from (row for row in judged if isinstance(row, Judged))


def _loosened(diff: Diff) -> list[Change]:
    """Return what is looser, and nobody has accepted it."""
    return [c for _, _, changes in diff.cells() for c in changes if c.loosened and not c.accepted]


# ---- for people -------------------------------------------------------------------------------------------


def print_diff(
    diff: Diff, old: str, new: str, *, over_tests: bool, top: int, hint: bool = True, console: Console | None = None
) -> None:
    """The headline, the matrix, and examples of every change, what is looser first; `hint`: how to accept that."""
    console = console or Console(highlight=False)
    over = "of the tests in their rules" if over_tests else f"of {counted(len(diff.runs), 'run')}"
    console.print(
        Text(f"{old} → {new}", style="bold").append(f"  over {counted(diff.commands, 'command')} {over}", "not bold")
    )
    console.print(headline(diff))
    for said in searched(diff):
        console.print(Text(said, style="dim"), soft_wrap=True)
    console.print()
    console.print(_matrix(diff))
    for note in notes(diff):
        console.print(Text(note, style="dim"))
    for before, after, changes in diff.cells():
        _print_cell(console, before, after, changes, top)
    if hint and (loosened := _loosened(diff)):
        console.print()
        said = f"{counted(len(loosened), 'change')} to mend, or to accept: --format accept > FILE, then --accept FILE"
        console.print(Text(said, style="dim"), soft_wrap=True)


def headline(diff: Diff) -> Text:
    """`looser: 3 commands loosened, 14 tightened, 8,939 same`."""
    accepted = f" ({diff.accepted_count:,} more accepted)" if diff.accepted_count else ""
    text = Text(diff.headline, style=_HEADLINES[diff.headline])
    counts = (
        f": {counted(diff.loosened, 'command')} loosened{accepted}, {diff.tightened:,} tightened, {diff.same:,} same"
    )
    return text.append(counts, style="not bold default")


def searched(diff: Diff) -> list[str]:
    """Return what was looked for, and which changes in the rules nothing was found for, a sentence each."""
    search = diff.search
    if search is None:
        return []
    if not search.changes:
        return ["no rule decides anything else"] if search.complete else ["nothing was looked for: interrupted"]
    looser, stricter = (sum(c.loosened is way for c in diff.found) for way in (True, False))
    what = counted(len(search.changes), "changed clause")
    until = "" if search.complete else ", until it was interrupted"
    out = [f"{what}, {search.tried:,} more commands tried{until}: {looser} looser, {stricter} stricter"]
    silent = [f"{one_line(change.name)} ({short(change.text, 80)})" for change in search.silent()]
    more = f"; and {len(silent) - _SILENT} more: --format json" if len(silent) > _SILENT else ""
    if silent:
        out.append(f"no command was found that shows: {'; '.join(silent[:_SILENT])}{more}")
    return out


def notes(diff: Diff) -> list[str]:
    """Return what the verdicts don't show, a sentence each."""
    out = [f"no longer locked, so that lower layers may weaken it: {one_line(what)}" for what in diff.unlocked]
    if diff.other_rule:
        out.append(f"{counted(diff.other_rule, 'command')} decided the same by another rule")
    out += [f"{counted(n, 'command')} asked with less: {one_line(what)}" for what, n in diff.eased.most_common()]
    out += [f"{counted(n, 'command')} allowed as before: {one_line(what)}" for what, n in diff.rehoused.most_common()]
    return out


def _matrix(diff: Diff) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("old \\ new", style="dim")
    for verdict in Verdict:
        table.add_column(Text(str(verdict), style=STYLES[str(verdict)]), justify="right")
    for before in Verdict:
        cells = []
        for after in Verdict:
            n = diff.matrix[before, after]
            looser, stricter = n and after < before, n and after > before
            cells.append(Text(f"{n:,}" if n else "-", style="bold red" if looser else "green" if stricter else "dim"))
        table.add_row(Text(str(before), style=STYLES[str(before)]), *cells)
    return table


def _print_cell(console: Console, old: Verdict, new: Verdict, changes: Sequence[Change], top: int) -> None:
    looser = new < old
    title = Text("\nlooser  " if looser else "\nstricter  ", style="bold red" if looser else "green")
    title.append(str(old), style=STYLES[str(old)]).append(" → ", style="default").append(str(new), STYLES[str(new)])
    given, found = ([c for c in changes if (c.shows is not None) is way] for way in (False, True))
    numbers = [counted(sum(c.count for c in given), "command")] if given else []
    numbers += [f"{counted(len(found), 'changed clause')}"] if found else []
    title.append(f"  {', '.join(numbers)}", style="not bold default")
    console.print(title)
    for change in found[:top]:
        _print_found(console, change)
    shown = {(change.command, change.accepted) for change in found[:top]}
    changes = [change for change in given if (change.command, change.accepted) not in shown]
    rows = []
    for change in changes[:top]:
        before, after = (one_line(rule) or "no rule" for rule in change.rules)
        command = Text(short(change.command, 400))
        if change.accepted:
            command = Text("accepted: ", style="green").append(one_line(change.accepted)).append("  ").append(command)
        rows.append((f"{change.count:,}", Text(change.digest[:12], style="dim"), f"{before} → {after}", command))
    print_rows(console, (">", "", "", ""), rows)
    if len(changes) > top:
        console.print(Text(f"and {len(changes) - top:,} more: --top {len(changes)}, or --format json", style="dim"))


def _print_found(console: Console, change: Change) -> None:
    """What has changed in a rule, and the command that shows it."""
    assert change.shows is not None
    console.print(Text(f"{one_line(change.shows.name)}: {short(change.shows.text, 400)}"), soft_wrap=True)
    before, after = (one_line(rule) or "no rule" for rule in change.rules)
    command = Text(short(change.command, 400))
    if change.accepted:
        command = Text("accepted: ", style="green").append(one_line(change.accepted)).append("  ").append(command)
    if change.first.confined or change.first.step.agent:
        agent = f"proposed by {one_line(change.first.step.agent)}" if change.first.step.agent else ""
        said = ", ".join(filter(None, (agent, "where it is confined" if change.first.confined else "")))
        command.append(f"  ({said})", style="dim")
    print_rows(console, ("", "", ""), [(Text(f"  {change.digest[:12]}", style="dim"), f"{before} → {after}", command)])


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on the terminal for people who wait; nothing where standard error is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[tried]:,} commands"))
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("searching; Ctrl-C shows what was found", total=None, tried=0)
        yield lambda done, of, tried: bar.update(task, completed=done, total=of, tried=tried)


# ---- for programs -----------------------------------------------------------------------------------------


def junit(diff: Diff, old: str, new: str) -> str:
    """JUnit XML: a test case for each command that is looser (failed, unless accepted), and one for all others."""
    loosened = [c for _, _, changes in diff.cells() for c in changes if c.loosened]
    failed = [c for c in loosened if not c.accepted]
    top = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        top,
        "testsuite",
        name=f"policy diff: {one_line(old)} to {one_line(new)}",
        tests=str(len(loosened) + 1),
        failures=str(len(failed)),
        errors=str(int(bool(diff.unreadable_count))),
        skipped="0",
    )
    for change in loosened:
        case = ElementTree.SubElement(suite, "testcase", classname="loosened", name=short(change.command))
        before, after = (rule or "no rule" for rule in change.rules)
        often = f"{change.count} times" if change.shows is None else f"{change.shows.name}: {change.shows.text}"
        said = f"{change.old} ({before}) becomes {change.new} ({after}), {often}; digest {change.digest}"
        if change.accepted:
            ElementTree.SubElement(case, "system-out").text = visible(f"accepted: {change.accepted}\n{said}")
        else:
            failure = ElementTree.SubElement(case, "failure", message=visible(said), type="looser")
            failure.text = visible(f"{change.command}\n{said}")
    case = ElementTree.SubElement(suite, "testcase", classname="policy", name="same or stricter")
    ElementTree.SubElement(case, "system-out").text = f"{diff.tightened} tightened, {diff.same} same"
    if diff.unreadable_count:
        error = ElementTree.SubElement(case, "error", message=f"{diff.unreadable_count} rows could not be replayed")
        error.text = visible("\n".join(f"{r.source}: {r.place}: {r.why}" for r in diff.unreadable[:20]))
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="unicode", xml_declaration=True)
