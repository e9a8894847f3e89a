"""The human's own editor on a command."""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from humanlayer_agent.channels.terminal.queue import runtime_directory
from humanlayer_agent.processes import tty
from humanlayer_agent.safe_text import one_line

FALLBACKS = ("editor", "nano", "vi")
"""What is tried where neither $VISUAL nor $EDITOR is set."""
LIMIT = 128 * 1024
"""Bytes of a file that are taken: a longer command line could not be run anyway."""
POLL = 0.05
"""Seconds between two looks at the editor and at the time."""
GRACE = 1.0
"""Seconds that an editor has to end when it is told to."""


class NotEdited(Exception):
    """There is nothing to submit, and why: for the human."""


def edit(text: str, fd: int, over: Callable[[], bool], *, project: str = "") -> str:
    """Opens `text` in $VISUAL or $EDITOR, and returns what was saved, exactly.

    The file lies where every shipped policy keeps agents out, in a folder of its own that is removed afterwards. It
    ends in a newline, as editors want it; one that was added for them is taken off again.

    Args:
        fd: the terminal.
        over: whether the question is over; the editor is ended then.
        project: the directory the agent may write in. No program from there is started.

    Raises:
        NotEdited: no editor that can be trusted, it failed, or it left the file unchanged, empty or unreadable.
        NoTerminal: the folder can't be made.
    """
    argv = _editor(project)
    name = one_line(Path(argv[0]).name)
    try:
        content = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise NotEdited("it has characters that no file can hold: reject it") from None
    added = b"" if content.endswith(b"\n") else b"\n"
    folder = Path(tempfile.mkdtemp(prefix="edit-", dir=runtime_directory()))  # mode 0700
    try:
        file = folder / "command.sh"
        file.write_bytes(content + added)
        code = _run([*argv, str(file)], fd, over)
        saved = _read(file) if code == 0 else b""
    except OSError as error:
        raise NotEdited(f"{name}: {error.strerror}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if code != 0:
        raise NotEdited(f"{name} failed ({code}): nothing was changed")
    if saved == content + added:
        raise NotEdited(f"{name} left it as it was")
    return _text(saved.removesuffix(added), name)


def _editor(project: str) -> list[str]:
    configured = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        argv = shlex.split(configured) or [name for name in FALLBACKS if shutil.which(name)][:1]
    except ValueError as error:
        raise NotEdited(f"$VISUAL or $EDITOR can't be read: {error}") from None
    if not argv:
        raise NotEdited("no editor was found: set $EDITOR")
    name, program = one_line(argv[0]), shutil.which(argv[0])
    if program is None:
        raise NotEdited(f"{name}: no such program")
    if project and any(_below(path, project) for path in (os.path.abspath(program), os.path.realpath(program))):
        raise NotEdited(f"{name} is not started, the agent could have written it: {one_line(program)}")
    return [os.path.abspath(program), *argv[1:]]


def _below(path: str, directory: str) -> bool:
    return any(Path(path).is_relative_to(base) for base in (os.path.abspath(directory), os.path.realpath(directory)))


def _read(file: Path) -> bytes:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(LIMIT + 1)


def _text(saved: bytes, name: str) -> str:
    if len(saved) > LIMIT:
        raise NotEdited(f"what {name} saved is too long for a command line")
    try:
        text = saved.decode()
    except UnicodeDecodeError:
        raise NotEdited(f"what {name} saved is not UTF-8") from None
    if not text.strip() or "\0" in text:
        raise NotEdited(f"what {name} saved is no command: n rejects it")
    return text


def _run(argv: list[str], fd: int, over: Callable[[], bool]) -> int:
    """Runs `argv` as the foreground job of the terminal: its Ctrl-C and Ctrl-Z are not ours."""
    with tty.restored(fd), _background():
        # Not in the project: some editors read settings from where they are started.
        folder = os.path.dirname(argv[-1])
        process = subprocess.Popen(argv, cwd=folder, stdin=fd, stdout=fd, stderr=fd, process_group=0)
        try:
            with _ended_with_us(process):
                os.tcsetpgrp(fd, process.pid)
                while process.poll() is None and not over():
                    if _stopped(process.pid):
                        os.killpg(process.pid, signal.SIGCONT)  # too early at the terminal, or Ctrl-Z: no shell is here
                    time.sleep(POLL)
        finally:
            _end(process)
            os.tcsetpgrp(fd, os.getpgrp())
        return process.returncode


def _stopped(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None
    except ChildProcessError:  # it has ended just now
        return False


@contextmanager
def _background() -> Iterator[None]:
    """For a thread that changes the terminal while another job has it: that would stop the process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _ended_with_us(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """A SIGTERM that ends us ends the editor first."""
    before = signal.getsignal(signal.SIGTERM)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminated(number: int, frame: FrameType | None) -> None:
        _end(process)
        before(number, frame)

    signal.signal(signal.SIGTERM, terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(process: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
            os.killpg(process.pid, signal.SIGCONT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
