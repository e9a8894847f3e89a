"""Finds what holds the other end of our terminal, and whether other processes of this user can have it type.

Commands of agents have our user id. They can't type into our terminal by themselves, but a program that holds the other
end of it (a multiplexer, `script`, an editor) types what it is told, and it takes orders from every process of its
user: `tmux send-keys y` presses a key as well as a human does. Terminal emulators and sshd take none; which programs
those are is in multiplexers.yaml, and all others count as ones that do.

The environment that is looked at is this process's own, and the kernel says who holds the terminal: an agent's commands
change neither.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from humanlayer_agent.processes.identity import stat_of
from humanlayer_agent.processes.tty import device_of, terminal_device
from humanlayer_agent.safe_text import one_line

UNKNOWN = "a program that can't be seen from here"
"""Stands for the name of what holds a terminal where that can't be found out."""

_SLAVES = range(136, 144)
"""Major numbers of pseudo terminals on Linux."""
_MASTER = os.makedev(5, 2)  # /dev/ptmx
_INIT = 1


def multiplexer() -> str:
    """Return the name of a program that can type at our controlling terminal and takes orders from other processes of
    this user; "" where there is none.
    """
    for variable, name in _table()["variables"].items():
        if os.environ.get(variable):
            return str(name)
    connection = os.environ.get("SSH_CONNECTION", "").split()
    if len(connection) == 4 and connection[0] == connection[2]:
        return "ssh from this machine"  # what types at its terminal does so here
    try:
        if int(os.readlink("/proc/self")) != os.getpid():
            return UNKNOWN  # /proc is that of another pid namespace
        return _typist_at(terminal_device(), os.getsid(0), frozenset())
    except (OSError, ValueError):
        return UNKNOWN


@dataclass(frozen=True, slots=True)
class _Process:
    """A process as /proc/PID/status describes it. `user` and `group` are its real, effective, saved and file ids."""

    pid: int
    name: str
    parent: int
    user: frozenset[int]
    group: frozenset[int]

    @property
    def is_ours(self) -> bool:
        """True where our commands could give it orders: it runs as this user, or we are root."""
        return os.geteuid() == 0 or os.geteuid() in self.user


def _typist_at(device: int, leader: int, seen: frozenset[int]) -> str:
    """Return the name of what types at a terminal and takes orders; "" where nothing does.

    Args:
        device: the terminal. leader: the pid of the first process of its session; 0 where that can't be seen.
        seen: the terminals that were looked at on the way here.

    Raises:
        OSError: that can't be found out.
    """
    if os.major(device) not in _SLAVES:
        return ""  # a console or a serial line: what types there is hardware
    holders = list(_holders(device)) or _hidden_holder(leader, device)
    return next(filter(None, (_judged(each, seen | {device}) for each in holders)), "")


def _hidden_holder(leader: int, device: int) -> list[_Process]:
    """The process that started a session, where it hides its files: then it is what holds the terminal. Nothing where
    that belongs to somebody else, or is outside of our container.

    Raises:
        OSError: it can't be found out.
    """
    parent = _process(leader).parent
    if not parent:
        return []
    if parent == _INIT:
        raise ProcessLookupError("what has started the session is gone")
    starter = _process(parent)
    if not starter.is_ours:
        return []
    if _holds(starter.pid, device) is not None:
        raise ProcessLookupError("nothing that can be seen holds the terminal")
    return [starter]


def _judged(holder: _Process, seen: frozenset[int]) -> str:
    """Return the name of what holds a terminal; "" where it takes no orders to type."""
    name, is_itself = _program(holder)
    if is_itself and name in _table()["windows"]:
        return ""
    if is_itself and name in _table()["relays"]:
        its = stat_of(holder.pid)
        device = device_of(its.terminal)
        return _typist_at(device, its.session, seen) if device and device not in seen else ""
    return one_line(name) or UNKNOWN


def _program(process: _Process) -> tuple[str, bool]:
    """The name of the program that a process runs, and whether it certainly is the one that this name is known for:
    only root can have put it there, or started it.
    """
    path = f"/proc/{process.pid}/exe"
    try:
        name = os.path.basename(os.readlink(path).removesuffix(" (deleted)"))
        about = os.stat(path)
    except OSError:  # it changed its user or group, and hides what it is
        return process.name, _is_set_up_by_root(process)
    return name, about.st_uid == 0 and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_set_up_by_root(process: _Process) -> bool:
    """Tell whether the name of a process that hides its program is to be believed: it is a server's (sshd), or has a
    group that we can't give to anything.
    """
    if process.group - {os.getgid(), os.getegid(), *os.getgroups()}:
        return True
    with suppress(OSError):
        parent = _process(process.parent)
        return parent.user == {0} and parent.pid != _INIT and parent.name in _table()["windows"]
    return False


def _holders(device: int) -> Iterator[_Process]:
    """Those of our processes that can be seen to have the other end of a terminal open."""
    for name in os.listdir("/proc"):
        if name.isascii() and name.isdigit() and _holds(int(name), device):
            with suppress(OSError):  # it has ended
                if (process := _process(int(name))).is_ours:
                    yield process


def _process(pid: int) -> _Process:
    """Raises OSError: it is not there, or hidden."""
    lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    said = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    user, group = (frozenset(map(int, said[key].split())) for key in ("Uid", "Gid"))
    return _Process(pid, said["Name"], int(said["PPid"]), user, group)


def _holds(pid: int, device: int) -> bool | None:
    """Tell whether a process has the other end of a terminal open; None where it hides its files."""
    try:
        return any(_is_other_end(pid, number, device) for number in os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        return None
    except OSError:  # it has ended
        return False


def _is_other_end(pid: int, number: str, device: int) -> bool:
    try:
        if os.stat(f"/proc/{pid}/fd/{number}").st_rdev != _MASTER:
            return False
        lines = Path(f"/proc/{pid}/fdinfo/{number}").read_text().splitlines()
    except FileNotFoundError:  # it was closed meanwhile
        return False
    index = [line.split()[1] for line in lines if line.startswith("tty-index:")]
    return index in ([], [str(os.minor(device))])  # a kernel that does not say which: it may be ours


@cache
def _table() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("multiplexers.yaml").read_text(encoding="utf-8"))
    return loaded
