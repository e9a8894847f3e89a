"""The controlling terminal: opening it, knowing whether it is ours, and leaving it as it was found.

Who else could read what is typed at our terminal: processes that have it open, and are not of its session.

Supervised commands have sessions of their own, so one that waits to read along is found here, unless it hides: of what
can't be dumped only root sees the files. It is a hint to the human, and no wall.
"""

import codecs
import locale
import os
import select
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from humanlayer_agent.errors import NoTerminal
from humanlayer_agent.processes.identity import stat_of

_LEAVE = b"\x1b[?2026l\x1b[?1049l\x1b[?2004l\x1b[?25h\x1b[?7h\x1b[0m\r"
"""End of a synchronised update, alternate screen and bracketed paste off; cursor, autowrap and plain text back."""


_LOOK = 0.1
"""Seconds between two looks at whether somebody still waits for a line."""


@contextmanager
def controlling_terminal() -> Iterator[int]:
    """A file descriptor of /dev/tty, also where stdin and stdout are pipes.

    Raises:
        NoTerminal: there is none, we are a background job of it (reading would stop us), or it can't show UTF-8.
    """
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise NoTerminal(f"there is no terminal to ask at (/dev/tty: {error.strerror})") from error
    try:
        if not in_foreground(fd):
            raise NoTerminal("this is a background job: it may not read from the terminal")
        encoding = locale.getencoding()
        if codecs.lookup(encoding).name != "utf-8":
            raise NoTerminal(f"the terminal's characters are {encoding}; a command is shown exactly only with UTF-8")
        yield fd
    finally:
        os.close(fd)


def in_foreground(fd: int) -> bool:
    """Tell whether we may read from the terminal."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


def terminal_name() -> str:
    """The same in every process that has this controlling terminal: it has one session, and a session has only it."""
    return str(os.getsid(0))


def terminal_device() -> int:
    """The device of our controlling terminal. (/dev/tty is another one.) Raises OSError: there is none."""
    number = stat_of(os.getpid()).terminal
    if not number:
        raise OSError("no controlling terminal")
    return device_of(number)


def device_of(number: int) -> int:
    """The device that /proc/PID/stat calls by a number; 0 for none."""
    return os.makedev(number >> 8 & 0xFFF, number & 0xFF | number >> 12 & 0xFFF00)


def discard_input(fd: int) -> None:
    """Forgets what was typed and not read yet."""
    with suppress(termios.error):
        termios.tcflush(fd, termios.TCIFLUSH)


def write(fd: int, text: str) -> None:
    """Writes all of `text`; a terminal that went away is not an error here."""
    data = text.encode("utf-8", "replace")
    with suppress(OSError):
        while data:
            data = data[os.write(fd, data) :]


def read_line(fd: int, over: Callable[[], bool] | None = None) -> str:
    """One line as the terminal gives it, without its end; "" where the terminal has ended, or nobody waits any more
    (`over`).
    """
    data = b""
    while not data.endswith(b"\n") and len(data) < 4096:
        while over is not None and not select.select([fd], [], [], _LOOK)[0]:
            if over():
                return ""
        more = os.read(fd, 1024)
        if not more:
            return ""
        data += more
    return data.decode("utf-8", "replace").removesuffix("\n")


@contextmanager
def restored(fd: int) -> Iterator[None]:
    """Leaves the terminal as it was, however the block ends; a SIGTERM that would kill us restores it first."""
    try:
        before = termios.tcgetattr(fd)
    except termios.error as error:
        raise NoTerminal(f"the terminal does not answer: {error}") from error

    def restore() -> None:
        with suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSANOW, before)

    def terminated(number: int, frame: FrameType | None) -> None:
        restore()
        with suppress(OSError):
            os.write(fd, _LEAVE)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    handled = (
        threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if handled:
        signal.signal(signal.SIGTERM, terminated)
    try:
        yield
    finally:
        if handled:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        restore()


class ModeWatch:
    """Notices that another program changed the terminal's modes (`stty`, a job that was stopped and went on)."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._wanted: list[Any] | None = None

    def repair(self) -> bool:
        """Puts the modes back to what they were at the first call; whether that was needed."""
        try:
            found = termios.tcgetattr(self._fd)
            if self._wanted is None:
                self._wanted = found
            if found == self._wanted or not in_foreground(self._fd):
                return False
            termios.tcsetattr(self._fd, termios.TCSANOW, self._wanted)
        except termios.error:
            return False
        return True


def listeners() -> list[str]:
    """Their names and pids, for the human; [] where /proc does not tell."""
    try:
        terminal = terminal_device()
        pids = [int(name) for name in os.listdir("/proc") if name.isascii() and name.isdigit()]
    except OSError:
        return []
    own = os.getsid(0)
    return [f"{_name(pid)} (pid {pid})" for pid in pids if _session(pid) != own and terminal in _devices(pid)]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _devices(pid: int) -> Iterator[int]:
    """The devices that a process has open, as far as we may know."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        try:
            yield os.stat(f"{folder}/{name}").st_rdev
        except OSError:
            continue


def _name(pid: int) -> str:
    try:
        return ascii(Path(f"/proc/{pid}/comm").read_text(errors="replace").strip())
    except OSError:
        return "a process"
