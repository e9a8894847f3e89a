"""A request to show, and a real terminal (a pty read by a terminal emulator) to show it on."""

import copy
import json
import os
import re
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pyte
import pytest

from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.testing.patience import PATIENCE
from tests.agents.conftest import ordinary_user
from tests.channels.asking import build_request
from tests.support import children

__all__ = ["ordinary_user"]


@pytest.fixture(scope="session")
def make_request() -> Callable[..., ApprovalRequest]:
    return build_request


PROGRAM = '''
"""Asks at the terminal and writes what came of it to a file."""
import gc
gc.disable()  # it ends soon: looking through what it imports takes a seventh of its start
import json, os, sys, time
from dataclasses import replace
from humanlayer_agent.channels.terminal import TerminalAsker
from humanlayer_agent.errors import HumanlayerError
from tests.channels.asking import build_grantable, build_request

options = json.loads(sys.argv[1])
request = build_request(*options.get("command", []), **options.get("action", {}))
if "earlier" in options:
    request = build_grantable(*options.get("command", []), earlier=options["earlier"])
if "to_type" in options:
    request = replace(build_grantable(), to_type=options["to_type"])
cancel = options.get("cancel", "")
now_ns = time.time_ns
time.time_ns = lambda: now_ns() + 10**12 * os.path.exists(options.get("late", ""))


def ask():
    return TerminalAsker(bell=lambda: options.get("bell", False)).ask(
        request,
        until=now_ns() // 1_000_000 + 600_000,
        cancelled=lambda: bool(cancel) and os.path.exists(cancel),
    )


async def ask_in_loop():
    return ask()


try:
    if options.get("inside") == "thread":
        import concurrent.futures

        with concurrent.futures.ThreadPoolExecutor() as pool:
            answer = pool.submit(ask).result()
    elif options.get("inside") == "event loop":
        import asyncio

        answer = asyncio.run(ask_in_loop())
    else:
        answer = ask()
    result = None if answer is None else [answer.kind, answer.comment, answer.approver.principal,
                                          answer.presented_digest, answer.input_mode]
    if answer is not None and answer.scope:
        result.append(answer.scope)
except HumanlayerError as error:
    result = [type(error).__name__, str(error)]
with open(options["result"] + ".new", "w") as file:
    json.dump(result, file)
os.rename(options["result"] + ".new", options["result"])
'''


class Emulator(pyte.Screen):
    """pyte's screen with the alternate screen that it lacks (DEC private mode 1049)."""

    primary: tuple[dict[int, Any], Any] | None = None
    _shown: list[str] | None = None

    @property
    def display(self) -> list[str]:
        """Its rows, each of which is put together only where something was written since."""
        if self._shown is None or len(self._shown) != self.lines:
            self._shown = super().display
        else:
            for number in self.dirty & {*range(self.lines)}:
                row = self.buffer[number]
                self._shown[number] = "".join(row[column].data for column in range(self.columns))
        self.dirty.clear()
        return self._shown

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        super().set_mode(*modes, **kwargs)
        if 1049 in modes and kwargs.get("private") and self.primary is None:
            self.primary = (copy.deepcopy(dict(self.buffer)), copy.copy(self.cursor))
            self.erase_in_display(2)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        super().reset_mode(*modes, **kwargs)
        if 1049 in modes and kwargs.get("private") and self.primary is not None:
            rows, self.cursor = self.primary
            self.buffer.clear()
            self.buffer.update(rows)
            self.dirty.update(range(self.lines))
            self.primary = None


def _modes_of_a_new_terminal() -> list[Any]:
    ours, theirs = os.openpty()
    try:
        return termios.tcgetattr(theirs)
    finally:
        os.close(ours)
        os.close(theirs)


class Screen:
    """A child on a pty of its own, and what a terminal would show of its output."""

    def __init__(self, argv: list[str], env: dict[str, str], rows: int, columns: int, result: Path) -> None:
        self._screen = Emulator(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._result = result
        self.raw = b""
        self._gone = False
        self.child = children.spawn(argv[0], argv[1:], env=env, dimensions=(rows, columns), timeout=PATIENCE)
        self.child.delaybeforesend = None
        self.modes = _modes_of_a_new_terminal()  # by now the child may have set others

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display)

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Reads output until `condition()`."""
        end = time.monotonic() + PATIENCE
        while not (self._whole_frame() and condition()):
            if time.monotonic() > end:
                raise AssertionError(f"never seen: {what}\n{self.text()}")
            if self._gone:
                time.sleep(0.01)
                continue
            try:
                data = self.child.read_nonblocking(65536, timeout=0.05)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                if condition():
                    return
                raise AssertionError(f"the program ended before: {what}\n{self.text()}") from None
            self.raw += data
            self._stream.feed(data)

    def _whole_frame(self) -> bool:
        """Whether no synchronised update is half read: a test must not judge a screen that is being drawn."""
        return self.raw.rfind(b"\x1b[?2026l") >= self.raw.rfind(b"\x1b[?2026h")

    def shows(self, text: str) -> None:
        self.until(lambda: text in self.text(), text)

    def armed(self, label: str = "y run once") -> None:
        """Waits until y would count: it is drawn bold then."""
        self.until(lambda: self.bold(label), f"an armed {label!r}")

    def bold(self, label: str) -> bool:
        for row, line in enumerate(self._screen.display):
            column = line.find(label)
            if column >= 0:
                return bool(self._screen.buffer[row][column].bold)
        return False

    def send(self, text: str) -> None:
        self.child.send(text)

    def resize(self, rows: int, columns: int) -> None:
        self._screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def hang_up(self) -> None:
        """Closes the terminal under the program."""
        self.child.ptyproc.fileobj.close()
        self._gone = True

    def result(self, path: Path | None = None) -> Any:
        """What the program got."""
        path = path or self._result
        self.until(path.exists, "a result")
        return json.loads(path.read_text())

    def ended(self) -> None:
        """Reads to the end of the output."""
        self.until(lambda: not self.child.isalive(), "the end of the program")
        try:
            while True:
                data = self.child.read_nonblocking(65536, timeout=PATIENCE)
                self.raw += data
                self._stream.feed(data)
        except pexpect.EOF:
            pass

    def close(self) -> None:
        if self.child.isalive():
            os.kill(self.child.pid, signal.SIGKILL)
            self.child.wait()
        self.child.ptyproc.delayafterclose = 0  # it has ended already
        self.child.close(force=True)


@pytest.fixture
def ask_env(tmp_path: Path) -> dict[str, str]:
    """The environment of a program that asks: a plain terminal, and a queue of its own."""
    root = Path(__file__).parents[2]
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
        "PYTHONPATH": str(root),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }


@pytest.fixture
def ask_argv(tmp_path: Path) -> Callable[..., tuple[list[str], Path]]:
    """Makes the command line of a program that asks, and the file where it leaves its result."""
    made = 0

    def argv(program_text: str = PROGRAM, **options: Any) -> tuple[list[str], Path]:
        nonlocal made
        made += 1
        program = tmp_path / f"program-{made}.py"
        program.write_text(program_text)
        result = tmp_path / f"result-{made}.json"
        arguments = json.dumps({**options, "result": str(result)})
        return [sys.executable, str(program), arguments], result

    return argv


@pytest.fixture
def open_screen(
    ask_argv: Callable[..., tuple[list[str], Path]], ask_env: dict[str, str]
) -> Iterator[Callable[..., Screen]]:
    """Starts the program that asks on a new terminal."""
    opened: list[Screen] = []

    def start(
        *, rows: int = 34, columns: int = 100, env: dict[str, str] | None = None, shell: str = "", **options: Any
    ) -> Screen:
        argv, result = ask_argv(**options)
        if shell:
            argv = ["bash", "--norc", "-c", shell, "bash", *argv]
        opened.append(Screen(argv, {**ask_env, **(env or {})}, rows, columns, result))
        return opened[-1]

    yield start
    for screen in opened:
        screen.close()


@pytest.fixture
def plain() -> Callable[[bytes], str]:
    """Terminal output without its escape sequences."""
    return lambda raw: re.sub(rb"\x1b(\[[0-9;?]*[a-zA-Z]|[()][A-Z0-9]|[=>])", b"", raw).decode("utf-8", "replace")
