"""Keeps other processes of the same user, agents' commands above all, out of this process's memory."""

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path

_PR_GET_DUMPABLE, _PR_SET_DUMPABLE, _CAP_SYS_PTRACE = 3, 4, 19


@dataclass(frozen=True, slots=True)
class Protection:
    """The protection of this process's memory and environment from commands: whether it holds, and why not."""

    holds: bool
    why_not: str = ""


def protect_secrets() -> Protection:
    """Make this process undumpable, so that a command of the same user can't read its memory or /proc/PID/environ.

    It lasts for the life of the process. It does not hold against a process that may trace any other
    (CAP_SYS_PTRACE, which root has outside most containers), and there is no such thing outside Linux.
    """
    if sys.platform != "linux":
        return Protection(False, "only Linux can hide a process's memory from its own user")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) != 0:
        return Protection(False, "the kernel refused PR_SET_DUMPABLE")
    if _commands_may_trace():
        who = "root" if os.geteuid() == 0 else "a user with CAP_SYS_PTRACE"
        return Protection(False, f"it runs as {who}, and so do they; run it as an ordinary user")
    return Protection(True)


def _commands_may_trace() -> bool:
    # A command started by root gets back whatever the bounding set has.
    wanted = "CapBnd:" if os.geteuid() == 0 else "CapEff:"
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(wanted):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_PTRACE & 1)
    return True
