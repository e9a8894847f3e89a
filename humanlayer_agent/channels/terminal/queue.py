"""One question at a time on a terminal, in the order they came, across threads and processes.

Whoever wants to ask puts a ticket (a file it holds a lock on) into a queue directory. The kernel drops the lock of a
process that dies, so a killed asker never blocks the others.
"""

import fcntl
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from humanlayer_agent.errors import NoTerminal
from humanlayer_agent.locations import state_folder

POLL = 0.1
"""Seconds between two looks at the queue."""


def runtime_directory() -> Path:
    """A directory that only we can write, in our state folder, which every shipped policy denies to agents.

    Raises:
        NoTerminal: it can't be made, or is not ours alone.
    """
    path = state_folder() / "run"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise NoTerminal(f"questions can't be queued in {path}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise NoTerminal(f"{path} must be a directory that only uid {os.getuid()} can write (chmod 700)")
    return path


class Turn:
    """A place in the queue of one terminal."""

    def __init__(self, directory: Path, ticket: Path) -> None:
        self._directory = directory
        self._ticket = ticket

    def waiting(self) -> int:
        """Return how many others wait while we ask, also one whose earlier ticket came into the queue late."""
        return sum(1 for path in _live(self._directory) if path.name != self._ticket.name)

    def _first(self) -> bool:
        return all(path.name >= self._ticket.name for path in _live(self._directory))


@contextmanager
def turn(terminal: str, *, give_up: Callable[[], bool], directory: Path | None = None) -> Iterator[Turn | None]:
    """Waits until it is our turn to ask at `terminal`; None where `give_up()` became true before.

    Args:
        terminal: a name for it, the same in every process that can ask there.

    Raises:
        NoTerminal: the queue can't be kept.
    """
    queue = (directory or runtime_directory()) / f"tty-{terminal}"
    try:
        queue.mkdir(mode=0o700, exist_ok=True)
        ticket, lock = _take_ticket(queue)
    except OSError as error:
        raise NoTerminal(f"questions can't be queued in {queue}: {error.strerror}") from error
    try:
        place = Turn(queue, ticket)
        while not place._first():
            if give_up():
                yield None
                return
            time.sleep(POLL)
        # The order is by tickets, the exclusion by this lock: a ticket may be published late.
        with _exclusive(queue / "asking", give_up) as held:
            yield place if held else None
    finally:
        with suppress(OSError):
            ticket.unlink()
        os.close(lock)


def _take_ticket(queue: Path) -> tuple[Path, int]:
    name = f"{time.time_ns():020d}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    unlocked = queue / f".{name}"
    fd = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        return unlocked.rename(queue / f"{name}.ticket"), fd  # seen by others only when it is locked
    except BaseException:
        os.close(fd)
        raise


def _live(queue: Path) -> list[Path]:
    """Tickets whose owner lives; those of the dead are removed."""
    found = []
    for path in queue.glob("*.ticket"):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # it went away
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            found.append(path)
        else:
            with suppress(OSError):
                path.unlink()
        finally:
            os.close(fd)
    return found


@contextmanager
def _exclusive(path: Path, give_up: Callable[[], bool]) -> Iterator[bool]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if give_up():
                    yield False
                    return
                time.sleep(POLL)
            else:
                yield True
                return
    finally:
        os.close(fd)
