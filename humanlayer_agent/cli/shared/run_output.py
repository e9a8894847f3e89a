"""The output of `run` and `demo`: each step as it happens, and the table at the end."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from humanlayer_agent.agents.mini import SupervisedAgent
from humanlayer_agent.agents.mini.environment import model_words
from humanlayer_agent.agents.supervision import Record, Supervisor
from humanlayer_agent.approvals.model import person
from humanlayer_agent.locations import default_store_path
from humanlayer_agent.safe_text import one_line, visible

INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell has it."""

_OUTPUT_LINES = 8
_WIDE = 140
_STYLES = {"allow": "green", "ask": "yellow", "deny": "red"}


class NarratedAgent(SupervisedAgent):
    """A supervised agent that says on `console` why it does something.

    What was decided is said by a `narrator`, the `watch` of its environment.
    """

    def __init__(self, model: Any, env: Any, *, console: Console, **kwargs: Any) -> None:
        self.console = console
        super().__init__(model, env, **kwargs)

    def add_messages(self, *messages: dict[str, Any]) -> list[dict[str, Any]]:
        """mini's, and the model's words are printed."""
        for message in messages:
            if message.get("role") == "assistant" or message.get("object") == "response":
                self.console.print(Text(f"\n● {visible(model_words(message)) or '(no words)'}", style="bold"))
            elif (message.get("extra") or {}).get("interrupt_type") == "FormatError":
                self.console.print(Text("  the model's answer held no usable command", style="yellow"))
        added: list[dict[str, Any]] = super().add_messages(*messages)
        return added


def narrator(console: Console) -> Callable[[Record, str], None]:
    """The `watch` of a supervised environment that prints each command, the decision, and the first lines of output."""

    def watch(record: Record, output: str) -> None:
        print_record(console, record)
        print_output(console, output)

    return watch


def print_observed(console: Console, supervisor: Supervisor) -> None:
    """Say it where the policy is only observed: then nothing stands between the agent and the shell."""
    if getattr(supervisor.gate.director, "observe", False):
        banner = " OBSERVED, NOT ENFORCED: the policy is evaluated and recorded; every command runs "
        console.print(Text(banner, style="bold white on red"))


def print_record(console: Console, record: Record) -> None:
    """One command and what was decided about it."""
    console.print(_indented(Text("$ ", style="dim") + Text(_first_line(record.command)), 2))
    if record.edited:
        changed = Text(f"✎ changed by {one_line(person(record.approver))} to: ", style="yellow")
        console.print(_indented(changed + Text(_first_line(record.edited)), 4))
    if record.executed:
        asked = record.approver and record.verdict != "allow"
        how = f"approved by {person(record.approver)}" if asked else f"allowed by {record.rule or 'the policy'}"
        if not record.approver and record.verdict not in ("allow", ""):
            how = f"only observed: the policy says {record.verdict} ({record.rule or 'no rule allows it'})"
        where = f", {record.runs}" if record.runs else ""
        ending = where + ("" if record.returncode == 0 else f", exit code {record.returncode}")
        console.print(_indented(Text(f"✓ {one_line(how)}{ending}", style="green"), 4))
    else:
        console.print(_indented(Text(f"✗ not run: {one_line(_reason(record))}", style="red"), 4))


def _first_line(command: str) -> str:
    lines = visible(command).splitlines() or [""]
    return lines[0] + (f"  … ({len(lines)} lines)" if len(lines) > 1 else "")


def _reason(record: Record) -> str:
    """Return why it was decided so, with people's names: their identities are in the log and in the trajectory."""
    reason = record.reason or ("" if record.executed else record.text)
    return reason.replace(record.approver, person(record.approver)) if record.approver else reason


def print_output(console: Console, output: str) -> None:
    """The first lines of a command's output."""
    lines = visible(output).splitlines()
    for line in lines[:_OUTPUT_LINES]:
        console.print(_indented(Text(line, style="dim", overflow="ellipsis", no_wrap=True), 6))
    if len(lines) > _OUTPUT_LINES:
        console.print(_indented(Text(f"… {len(lines) - _OUTPUT_LINES} more lines", style="dim"), 6))


def _indented(text: Text, columns: int) -> Padding:
    return Padding(text, (0, 0, 0, columns), expand=False)


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
        rule, who, why = record.rule or "-", person(record.approver) or record.by, _why(record)
        if wide:
            cells = (Text(one_line(cell)) for cell in (rule, who, why))
            table.add_row(str(number), Group(*action), _verdict(record), *cells)
        else:
            below = f"{rule}, {who}: {why}" if why else f"{rule}, {who}"
            for line in action:
                line.truncate(room, overflow="ellipsis")
            table.add_row(str(number), Group(*action, Text(one_line(below), style="dim")), _verdict(record))
    return table


def _verdict(record: Record) -> Text:
    verdict = Text(record.verdict or "-", style=_STYLES.get(record.verdict, "dim"))
    return verdict.append(" → ran" if record.executed else " → not run", style="green" if record.executed else "red")


def _why(record: Record) -> str:
    why = _reason(record)
    return f'{why} "{record.comment}"' if record.comment else why


@contextmanager
def signals_end_cleanly() -> Iterator[None]:
    """SIGTERM and SIGHUP leave through the same doors as Ctrl-C: commands end, the run is closed, folders go."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    heeded = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]  # nohup
    before = {number: signal.signal(number, leave) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_and_report(agent: NarratedAgent, task: str, output: Path | None = None) -> int:
    """Run the agent to whatever end, print the table and where to look further; the exit code.

    Args:
        output: where the trajectory goes; default: beside the user's store.
    """
    supervisor = agent.env.supervisor
    output = output or default_store_path().parent / "runs" / f"{supervisor.gate.run_id}.traj.json"
    _private(output)
    agent.config.output_path = output
    status = "failed"
    try:
        status = str(agent.run(task).get("exit_status") or status)
        code = exit_code(status, supervisor.records)
    except KeyboardInterrupt:
        status, code = "Interrupted", INTERRUPTED
    except Exception as error:  # the model or its API; the trajectory has the traceback
        status, code = type(error).__name__, 1
        agent.console.print(Text(f"\n{visible(str(error))}", style="red"))
    print_ending(agent.console, supervisor, status)
    agent.console.print(f"Trajectory:   {escape(str(output))}", soft_wrap=True, highlight=False)
    command = f"hla audit query --run {supervisor.gate.run_id}"
    agent.console.print(f"Audit events: {escape(command)}", soft_wrap=True, highlight=False)
    return code


def print_ending(console: Console, supervisor: Supervisor, status: str) -> None:
    """The table, and what the figures say."""
    records = supervisor.records
    console.print()
    console.print(closing_table(records, console.width))
    asked = [record for record in records if record.verdict == "ask" or record.edited]
    ran = sum(record.executed for record in records)
    console.print(
        f"The run ended [bold]{escape(status)}[/bold]: {len(records)} commands, {ran} ran, "
        f"{len(records) - ran} did not; {len(asked)} needed a human."
    )
    if nobody := sum(record.by == "nobody" for record in asked):
        console.print(
            f"[yellow]{nobody} of them {'was' if nobody == 1 else 'were'} denied because nobody could be asked[/yellow]"
            " (no terminal, no answer, or none that counts). Run it in a terminal to decide yourself."
        )


def exit_code(status: str, records: Sequence[Record]) -> int:
    """0 Submitted; 3 where it ended because nobody could be asked; 130 Ctrl-C at the prompt, or a q that
    nothing proves to be a human's; 1 otherwise.
    """
    if status == "Submitted":
        return 0
    last = [record for record in records if record.by not in ("run", "message")][-1:]
    if status == "SupervisionTerminated" and last and not last[0].approver:
        return INTERRUPTED
    return 3 if status == "SupervisionDenials" and last and last[0].by == "nobody" else 1


def _private(output: Path) -> None:
    """Make the file that mini writes the trajectory to, so that only this user can read it: it holds whole commands."""
    with suppress(OSError):  # mini says what is wrong, when it writes
        output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
