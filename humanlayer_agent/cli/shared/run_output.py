"""The end of `run` and `demo`: the exit code, the file of the trajectory, and signals."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

from humanlayer_agent.agents.mini import SupervisedAgent
from humanlayer_agent.agents.supervision import Record
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.locations import default_store_path
from humanlayer_agent.safe_text import visible

INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell has it."""


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


def run_and_report(agent: SupervisedAgent, task: str, output: Path | None = None) -> int:
    """Run the agent to whatever end; the exit code. What ended it in an error is said last.

    Args:
        output: where the trajectory goes; default: beside the user's store.

    Raises:
        ConfigError: the model can't be asked.
    """
    supervisor = agent.env.supervisor
    output = output or default_store_path().parent / "runs" / f"{supervisor.gate.run_id}.traj.json"
    made = _private(output)
    agent.config.output_path = output
    if agent.presenter is not None:
        agent.presenter.trajectory = output
    try:
        status = str(agent.run(task).get("exit_status") or "failed")
        return exit_code(status, supervisor.records)
    except KeyboardInterrupt:
        return INTERRUPTED
    except ConfigError:
        raise
    except Exception as error:  # the model or its API; the trajectory has the traceback
        Console().print(Text(f"{type(error).__name__}: {visible(str(error))}", style="red"))
        return 1
    finally:
        if made and not output.stat().st_size:  # it ended before its first step
            output.unlink()


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


def _private(output: Path) -> bool:
    """Make the file that mini writes the trajectory to, so that only this user can read it: it holds whole commands.

    Returns:
        Whether there was none.
    """
    there = output.exists()
    with suppress(OSError):  # mini says what is wrong, when it writes
        output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    return not there and output.exists()
