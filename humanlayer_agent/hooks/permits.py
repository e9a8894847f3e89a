"""Permits that were handed to a coding agent in the place of its commands: until they are used, and reported as used.

What runs is what was judged: the action is kept here, in the process that judged it, and who comes with a permit brings
nothing but its name.
"""

import os
import shlex
import socket
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from humanlayer_agent.approvals.model import Permit
from humanlayer_agent.hooks import client, permit_use
from humanlayer_agent.processes import identity

USE_BY_MS = 120_000
"""So long a permit waits. A coding agent that is allowed a command starts it at once, without a prompt; on a busy
machine "at once" may take a while. What is not used by then is not going to be, or by somebody else."""

_KEPT = 1_000
_REPORTED_S = 10.0
"""So long a command that goes on in the background may take to start after it was reported."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "busybox"})
_SIGNALS = frozenset(permit_use.PASSED_ON)
_MOST_ANCESTORS = 64


@dataclass(frozen=True, slots=True)
class Handed:
    """A permit in the hands of a coding agent.

    Args:
        permit: lets one action run.
        session: the session of the coding agent that it is for (`judge`).
        proposed: the command that the tool was about to run, and `command` what it was answered to run.
        tool: the identity of the process of the coding agent that asked.
        lapses: when nobody may use it any more, in monotonic seconds.
        presented: set once that agent's own shell came with it.
    """

    permit: Permit
    session: Any
    proposed: str
    command: str
    tool: str
    lapses: float = field(default_factory=lambda: time.monotonic() + USE_BY_MS / 1000)
    presented: threading.Event = field(default_factory=threading.Event)

    def why_not(self, pid: int | None) -> str:
        """Return why a process may not use it; "" where it may."""
        return "" if pid is not None and self.tool in _above(pid) else "it belongs to another session"

    def why_wrong(self, inputs: Mapping[str, Any], *, failed: bool) -> str:
        """Return what is wrong with a call that is said to have ended; "" where it is this one, and used the permit.

        Args:
            inputs: of the call, as the coding agent reports them.
            failed: it may not even have started.
        """
        if inputs.get("command") != self.command:
            return "what the coding agent ran is not what its hook had answered"
        wait = _REPORTED_S if inputs.get("run_in_background") else 0
        used = failed or self.presented.wait(wait)
        return "" if used else "a command of the coding agent ended without using its permit"


class HandedPermits:
    """All of them, of every session. Thread-safe; the oldest are forgotten, and refused like unknown ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: OrderedDict[str, Handed] = OrderedDict()
        self._by_call: OrderedDict[tuple[str, str, str], Handed] = OrderedDict()

    def add(self, handed: Handed, call: tuple[str, str, str]) -> None:
        """Keep a permit that is handed out for a call (the tool, its session, and its own number of the call)."""
        with self._lock:
            self._by_id[handed.permit.id] = self._by_call[call] = handed
            for kept in (self._by_id, self._by_call):
                while len(kept) > _KEPT:
                    kept.popitem(last=False)

    def find(self, permit: str) -> Handed | None:
        """Return the one of this name."""
        with self._lock:
            return self._by_id.get(permit)

    def of(self, call: tuple[str, str, str]) -> Handed | None:
        """Return the one that was handed out for a call, once: what is reported twice is looked at once."""
        with self._lock:
            return self._by_call.pop(call, None)


class Shell:
    """The coding agent's shell, which waits for a command at the other end of a connection (see `permit_use`).

    Args:
        umask: its own.
    """

    def __init__(self, connection: socket.socket, umask: int) -> None:
        self.umask = umask
        self.gone = False
        self._connection = connection
        connection.settimeout(None)

    def fileno(self) -> int:
        """Return what can be read when there is something to `receive`."""
        return self._connection.fileno()

    def receive(self) -> list[int]:
        """Return the signals that the command is to get."""
        try:
            data = self._connection.recv(64)
        except OSError:
            data = b""
        self.gone |= not data
        return [number for number in data if number in _SIGNALS]

    def write(self, stream: int, data: bytes) -> None:
        """Pass on what the command has written."""
        self._send(b"%d" % stream, data)

    def end(self, code: int, directory: str = "", says: str = "") -> None:
        """Say that it has ended, or did not run: with which exit code, where the shell goes on, and what besides."""
        if says:
            self.write(2, f"hla exec: {says}\n".encode("utf-8", "replace"))
        self._send(permit_use.ENDED, client.packed(b"%d" % code, os.fsencode(directory)))

    def _send(self, kind: bytes, content: bytes) -> None:
        try:
            self._connection.sendall(permit_use.FRAME.pack(kind, len(content)) + content)
        except OSError:
            self.gone = True


def replaced(permit: str) -> str:
    """Return what a coding agent's shell is to run instead of a command: then it goes on where that has ended.

    The folder comes by a descriptor that the command does not get. No alias and no function of the user's shell takes
    the place of a program that is named with its folder.
    """
    program = f"{shlex.quote(sys.executable)} -I -m humanlayer_agent.cli exec --permit {permit_use.word(permit)}"
    return (
        f'{{ hla_folder="$({program} 3>&1 >&4 4>&-)" && hla_code=0 || hla_code=$?; }} 4>&1; '
        'builtin cd -- "${hla_folder:-.}"; (exit "$hla_code")'
    )


def tool_process(hook: int | None) -> str:
    """Return the identity of the coding agent's process that has started a hook, by a shell or not; "" where that is
    not known.
    """
    above = _above(hook) if hook is not None else []
    for process in above[1:]:
        pid = identity.pid_of(process)
        with suppress(OSError), open(f"/proc/{pid}/comm") as file:
            if file.read().strip() not in _SHELLS:
                return process
    return ""


def _above(pid: int) -> list[str]:
    """The identities of a process and of those above it."""
    found: list[str] = []
    with suppress(OSError):
        while pid > 1 and len(found) < _MOST_ANCESTORS:
            parent = identity.stat_of(pid).parent
            found.append(identity.identity(pid))
            pid = parent
    return found
