"""A supervised run on a terminal: the model's words, each command and what was decided about it, and the table at the
end. `hla run`, the demo and both versions of mini show a run by this."""

import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from humanlayer_agent.agents.supervision import Record, Supervisor
from humanlayer_agent.approvals.model import person
from humanlayer_agent.safe_text import one_line, visible

if TYPE_CHECKING:
    from humanlayer_agent.agents.enforcement import EnforcingEnvironment

_OUTPUT_LINES = 8
_WIDE = 140
_STYLES = {"allow": "green", "ask": "yellow", "deny": "red"}


class Presenter:
    """Shows one supervised agent's runs on a console.

    Args:
        console: default: standard output.
        says: what the agent shows by itself, so that it is not shown twice: "" nothing, "steps" the model's words,
            commands and their output (mini's interactive agent), "screen" all until the run ends (the full screen).
    """

    trajectory: Path | None = None
    """Named at the end."""

    def __init__(self, console: Console | None = None, *, says: str = "") -> None:
        self.console = console or Console()
        self._says = says
        self._before = 0
        self._commands = 0

    def opening(self, supervisor: Supervisor) -> None:
        """Begin a run. Where the policy is only observed that is said: nothing stands between agent and shell then."""
        self._before = len(supervisor.records)
        if self._says != "screen" and getattr(supervisor.gate.director, "observe", False):
            banner = " OBSERVED, NOT ENFORCED: the policy is evaluated and recorded; every command runs "
            self.console.print(Text(banner, style="bold white on red"))

    def note(self, words: str) -> None:
        """Show a remark of ours."""
        if words and self._says != "screen":
            self.console.print(Text(visible(words), style="yellow"))

    def words(self, words: str, commands: Sequence[str] = ()) -> None:
        """Show what the model says, without the blocks that hold `commands`: each of them is shown with its verdict."""
        self._commands = len(commands)
        if self._says:
            return
        for command in commands:
            words = re.sub(rf"```[^\n]*\n\s*{re.escape(command.strip())}\s*```", "", words)
        self.console.print(Text(f"\n● {visible(words.strip()) or '(no words)'}", style="bold"))

    def no_command(self) -> None:
        """Show that the model's answer could not be used."""
        if not self._says:
            self.console.print(Text("  the model's answer held no usable command", style="yellow"))

    def record(self, record: Record, output: str) -> None:
        """Show one command, the decision, and the first lines of output; the `watch` of a supervised environment."""
        if self._says == "screen":
            return
        self._command(record)
        if not self._says:
            self._output(output)

    def _command(self, record: Record) -> None:
        if not self._says or self._commands > 1:  # else it stands right above
            self.console.print(_indented(Text("$ ", style="dim") + Text(_first_line(record.command)), 2))
        if record.edited:
            changed = Text(f"✎ changed by {one_line(person(record.approver))} to: ", style="yellow")
            self.console.print(_indented(changed + Text(_first_line(record.edited)), 4))
        if record.executed:
            asked = record.approver and record.verdict != "allow"
            who = f"allowed by {_by_grants(record)}" if record.grants else f"approved by {person(record.approver)}"
            how = who if asked else f"allowed by {record.rule or 'the policy'}"
            if not record.approver and record.verdict not in ("allow", ""):
                how = f"only observed: the policy says {record.verdict} ({record.rule or 'no rule allows it'})"
            where = f", {record.runs}" if record.runs else ""
            ending = where + ("" if record.returncode == 0 else f", exit code {record.returncode}")
            self.console.print(_indented(Text(f"✓ {one_line(how)}{ending}", style="green"), 4))
        else:
            self.console.print(_indented(Text(f"✗ not run: {one_line(_reason(record))}", style="red"), 4))

    def _output(self, output: str) -> None:
        lines = visible(output).splitlines()
        for line in lines[:_OUTPUT_LINES]:
            self.console.print(_indented(Text(line, style="dim", overflow="ellipsis", no_wrap=True), 6))
        if len(lines) > _OUTPUT_LINES:
            self.console.print(_indented(Text(f"… {len(lines) - _OUTPUT_LINES} more lines", style="dim"), 6))

    def closing(self, supervisor: Supervisor, status: str) -> None:
        """End a run: the table, what the figures say, and where to look further."""
        records = supervisor.records[self._before :]
        self.console.print()
        if records:
            self.console.print(closing_table(records, self.console.width))
        asked = [record for record in records if (record.verdict == "ask" or record.edited) and not record.grants]
        granted = sum(bool(record.grants) for record in records)
        ran = sum(record.executed for record in records)
        self.console.print(
            f"The run ended [bold]{escape(visible(status))}[/bold]: {len(records)} commands, {ran} ran, "
            f"{len(records) - ran} did not; {len(asked)} needed a human"
            + (f", {granted} ran by a grant." if granted else ".")
        )
        if nobody := sum(record.by == "nobody" for record in asked):
            self.console.print(
                f"[yellow]{nobody} of them {'was' if nobody == 1 else 'were'} denied because nobody could be asked"
                "[/yellow] (no terminal, no answer, or none that counts). Run it in a terminal to decide yourself."
            )
        if self.trajectory is not None and self.trajectory.exists() and self.trajectory.stat().st_size:
            self.console.print(f"Trajectory:   {escape(str(self.trajectory))}", soft_wrap=True, highlight=False)
        if run := getattr(supervisor.gate, "run_id", ""):
            self.console.print(f"Audit events: hla audit query --run {escape(run)}", soft_wrap=True, highlight=False)


def attached(environment: "EnforcingEnvironment", console: Console | None = None, says: str = "") -> Presenter | None:
    """Return what shows the commands of `environment` from now on, as far as its settings want that.

    None where somebody watches already (then it is theirs to show), where `show` is false, and where it is not given
    and standard output is no terminal, or we are in one thread of several.
    """
    show = environment.settings.show
    if show is None:
        show = sys.stdout is not None and sys.stdout.isatty() and threading.current_thread() is threading.main_thread()
    if not show or environment.watch is not None:
        return None
    presenter = Presenter(console, says=says)
    environment.watch = presenter.record
    return presenter


def closing_table(records: Sequence[Record], width: int) -> Table:
    """Action, verdict, rule, who and why of every command of a run.

    Args:
        width: columns of the screen; where they don't suffice, rule, who and why stand below the action.
    """
    title = "What the agent wanted, and what became of it"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    wide = width >= _WIDE
    room = max(24, width - 26)  # what number, verdict and margins leave
    table.add_column("", justify="right", style="dim", no_wrap=True)
    table.add_column("action", no_wrap=wide, max_width=(room - 42) // 2 if wide else room)
    table.add_column("verdict", no_wrap=True, min_width=14)
    if wide:
        table.add_column("rule", overflow="fold", max_width=24)
        table.add_column("who", overflow="fold", max_width=12)
        table.add_column("why", overflow="fold", max_width=(room - 42) // 2)
    for number, record in enumerate(records, 1):
        action = [Text(one_line(record.command.partition("\n")[0]), overflow="ellipsis", no_wrap=True)]
        if record.edited:
            edited = one_line(record.edited.partition("\n")[0])
            action.append(Text(f"✎ {edited}", style="yellow", overflow="ellipsis", no_wrap=True))
        who = _by_grants(record) or person(record.approver) or record.by
        rule, why = record.rule or "-", _why(record)
        if wide:
            cells = (Text(one_line(cell)) for cell in (rule, who, why))
            table.add_row(str(number), Group(*action), _verdict(record), *cells)
        else:
            below = f"{rule}, {who}: {why}" if why else f"{rule}, {who}"
            for line in action:
                line.truncate(room, overflow="ellipsis")
            table.add_row(str(number), Group(*action, Text(one_line(below), style="dim")), _verdict(record))
    return table


def _by_grants(record: Record) -> str:
    return " and ".join(record.grants)


def _verdict(record: Record) -> Text:
    verdict = Text(record.verdict or "-", style=_STYLES.get(record.verdict, "dim"))
    return verdict.append(" → ran" if record.executed else " → not run", style="green" if record.executed else "red")


def _why(record: Record) -> str:
    why = _reason(record)
    return f'{why} "{record.comment}"' if record.comment else why


def _first_line(command: str) -> str:
    lines = visible(command).splitlines() or [""]
    return lines[0] + (f"  … ({len(lines)} lines)" if len(lines) > 1 else "")


def _reason(record: Record) -> str:
    """Return why it was decided so, with people's names: their identities are in the log and in the trajectory."""
    reason = record.reason or ("" if record.executed else record.text)
    return reason.replace(record.approver, person(record.approver)) if record.approver else reason


def _indented(text: Text, columns: int) -> Padding:
    return Padding(text, (0, 0, 0, columns), expand=False)
