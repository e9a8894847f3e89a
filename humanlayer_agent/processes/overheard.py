"""Who else could read what is typed at our terminal: processes that have it open, and are not of its session.

Supervised commands have sessions of their own, so one that waits to read along is found here, unless it hides: of what
can't be dumped only root sees the files. It is a hint to the human, and no wall.
"""

import os
from collections.abc import Iterator
from pathlib import Path


def listeners() -> list[str]:
    """Their names and pids, for the human; [] where /proc does not tell."""
    try:
        terminal = _terminal()
        pids = [int(name) for name in os.listdir("/proc") if name.isascii() and name.isdigit()]
    except OSError:
        return []
    own = os.getsid(0)
    return [f"{_name(pid)} (pid {pid})" for pid in pids if _session(pid) != own and terminal in _devices(pid)]


def _terminal() -> int:
    """The device of our controlling terminal. (/dev/tty is another one.) Raises OSError: there is none."""
    number = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[4])
    if not number:
        raise OSError("no controlling terminal")
    return os.makedev(number >> 8 & 0xFFF, number & 0xFF | number >> 12 & 0xFFF00)


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
