"""The identity of a process: who runs it, and whether it is still there.

A pid alone is no identity: it is used again. With the boot and the process's start time (Linux) it is.
"""

import os
import pwd
import re
from functools import cache
from pathlib import Path

_UNKNOWN = "-"
_IDENTITY = re.compile(r"(?P<boot>[^:]*):(?P<namespace>[^:]*):(?P<pid>[1-9][0-9]{0,8}):(?P<start>[^:]*)", re.ASCII)
_OUTERMOST = "pid[4026531836]"  # the number that Linux gives the machine's own (PROC_PID_INIT_INO in proc_ns.h)


def os_user() -> str:
    """The stable identity of the user this process runs as: `os:<uid>:<name>`."""
    uid = os.getuid()
    try:
        return f"os:{uid}:{pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"os:{uid}:"


def identity(pid: int | None = None) -> str:
    """The identity of a process, of this one where it is None: boot, pid namespace, pid and start time."""
    number = os.getpid() if pid is None else pid
    return f"{_boot()}:{_namespace()}:{number}:{_start(number)}"


def is_out_of_sight(process: str) -> bool:
    """Tell whether we are in a pid namespace (a container, `unshare -p`) that the process with this identity is not in.

    From inside, nobody can tell whether that process is above us. Outside of all of them everything can be seen.
    """
    if (known := _IDENTITY.fullmatch(process)) is None:
        return _namespace() != _OUTERMOST
    return known["boot"] == _boot() and known["namespace"] != _namespace() != _OUTERMOST


def pid_of(process: str) -> int | None:
    """The pid in an identity; None where it is none."""
    known = _IDENTITY.fullmatch(process)
    return int(known["pid"]) if known is not None else None


def is_gone(process: str) -> bool:
    """Tell whether the process with this identity has certainly ended. False where that can't be known from here."""
    if (known := _IDENTITY.fullmatch(process)) is None:
        return False  # somebody else has written it
    if known["boot"] != _boot():
        return True
    if known["namespace"] != _namespace():
        return False
    pid = int(known["pid"])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it exists, and belongs to somebody else
    now = _start(pid)
    return _UNKNOWN not in (known["start"], now) and now != known["start"]


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _UNKNOWN


@cache
def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid").replace(":", "")
    except OSError:
        return _UNKNOWN


def _start(pid: int) -> str:
    """The start time of a process in clock ticks since boot; "ended" for a zombie; "-" where it can't be read."""
    try:
        # The name in parentheses may hold anything, spaces and parentheses too: count from behind it.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return _UNKNOWN
    return "ended" if fields[0] in ("Z", "X") else fields[19]
