"""The check that no supervised command started this process. What is for humans only refuses to run there.

It is a wall against commands, not against users: who may run whatever they like as this user, root above all, can have
a process that is nobody's descendant (cron, systemd-run, another user's container) run it for them. The policies deny
or ask about these ways, and `doctor` says which they let through.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.processes import identity, reaper
from humanlayer_agent.processes.execution import SUPERVISED

_MAX_ANCESTORS = 1_000
_MARK = f"{SUPERVISED}=1".encode()
_REAPER = os.sep.join(Path(reaper.__file__).parts[-3:]).encode()


def refuse_agents(purpose: str, supervisors: Iterable[str] = ()) -> None:
    """Raise ConfigError where an agent's command has started this process.

    Args:
        purpose: what only a human does, as the rest of a sentence.
        supervisors: see `below_supervision`.
    """
    if below_supervision(supervisors):
        raise ConfigError(f"this is a supervised command: only a human at a terminal of their own {purpose}")


def below_supervision(supervisors: Iterable[str] = ()) -> bool:
    """Tell whether this process, or one that it descends from, is a supervised command; True where that can't be told.

    The mark alone would not do: `env -u` takes it away. But what started us still has it, or is the process that
    watches over supervised commands. Where a command has killed that one, it is a child of the supervisor itself.

    Args:
        supervisors: the identities (`identity.identity`) of processes that supervise an agent now.
    """
    if os.environ.get(SUPERVISED):
        return True
    known = frozenset(supervisors)
    try:
        above = list(_ancestors())
    except OSError:
        return sys.platform == "linux"  # elsewhere there is no /proc to look at
    processes = list(map(identity.identity, above)) if known else []
    return (
        any(map(_is_supervised, above))
        or any(identity.is_same(each, process) for each in processes for process in known)
        or any(map(identity.is_out_of_sight, known))
    )


def _is_supervised(pid: int) -> bool:
    if _MARK in _parts(pid, "environ"):
        return True
    command = _parts(pid, "cmdline")
    return command[1:3] == [b"-I", b"-S"] and len(command) > 3 and command[3].endswith(_REAPER)


def _ancestors() -> Iterator[int]:
    """This process and those above it, as far as /proc tells.

    Raises:
        OSError: /proc is not there, or shows another pid namespace than ours: it would be about other processes.
    """
    pid = os.getpid()
    if int(os.readlink("/proc/self")) != pid:
        raise ProcessLookupError("/proc is that of another pid namespace")
    for _ in range(_MAX_ANCESTORS):
        yield pid
        try:
            pid = identity.stat_of(pid).parent
        except OSError:
            return  # it can be hidden from us (hidepid), as a login's process is
        if pid == 0:
            return


def _parts(pid: int, name: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")
    except OSError:  # another user's
        return []
