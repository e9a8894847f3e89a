"""The identity of a process: who runs it, on which machine, and whether it is still there.

A pid alone is no identity: it is used again. With the machine, the boot and the process's start time (Linux) it is.
"""

import hashlib
import os
import pwd
import re
import secrets
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.locations import is_address, read_own_json, state_path, store_location, write_own_json

_UNKNOWN = "-"
_ENDED = "ended"
_IDENTITY = re.compile(
    r"(?:(?P<machine>[^:]*):)?"  # older versions did not write it
    r"(?P<boot>[^:]*):(?P<namespace>[^:]*):(?P<pid>[1-9][0-9]{0,8}):(?P<start>[^:]*)",
    re.ASCII,
)
_HOST = Path("/etc/machine-id")
_OUTERMOST = "pid[4026531836]"  # the number that Linux gives the machine's own (PROC_PID_INIT_INO in proc_ns.h)


def os_user() -> str:
    """The stable identity of the user this process runs as: `os:<uid>:<name>`.

    Where the configured store is on a server, that of a user of this machine: `os:<machine>/<uid>:<name>`.
    """
    uid, name = os.getuid(), ""
    with suppress(KeyError):
        name = pwd.getpwuid(uid).pw_name
    return f"os:{machine_name()}/{uid}:{name}" if _is_on_a_server() else f"os:{uid}:{name}"


def machine_name() -> str:
    """Return what this machine is called in identities of its users: the beginning of its id."""
    return machine()[:12]


def _is_on_a_server() -> bool:
    try:
        return is_address(store_location())
    except ConfigError:  # no store can be opened then
        return False


def identity(pid: int | None = None) -> str:
    """The identity of a process, of this one where it is None: machine, boot, pid namespace, pid and start time."""
    number = os.getpid() if pid is None else pid
    start = _own_start(number) if pid is None else _start(number)
    return f"{machine()}:{_boot()}:{_namespace()}:{number}:{start}"


def is_same(one: str, other: str) -> bool:
    """Tell whether two identities are of one process.

    Which machine id they were written with does not matter: a command can be given another state folder.
    """
    known, also = _IDENTITY.fullmatch(one), _IDENTITY.fullmatch(other)
    return known is not None and also is not None and known.groups()[1:] == also.groups()[1:]


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


def lives(process: str) -> bool | None:
    """Tell whether the process with this identity is there, where the table of processes shows that.

    Returns:
        None: it shows nothing about it. The process is of another machine, boot or pid namespace, or the start time of
        the one that has its pid now can't be read. That the boot is another one proves nothing: two machines may share
        a store, or copies of a state folder.
    """
    known = _IDENTITY.fullmatch(process)
    if known is None or known["namespace"] != _namespace() or known["boot"] != _boot():
        return None
    if known["machine"] not in (None, machine()) or _UNKNOWN == known["boot"] == (known["machine"] or _UNKNOWN):
        return None
    pid = int(known["pid"])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it exists, and belongs to somebody else
    now = _start(pid)
    if now == _ENDED:
        return False
    return None if _UNKNOWN in (known["start"], now) else now == known["start"]


def clock_source() -> str:
    """Return the name of the clock that `time.monotonic` reads: two processes with the same name see the same time."""
    # The machine only where there is no boot: to give it an id writes a file, which a heartbeat has no reason to do.
    kernel = next((known for tell in (_boot, machine) if (known := tell()) != _UNKNOWN), None) or _nameless()
    return f"{kernel}:{_link('time')}"


@cache
def machine() -> str:
    """Return the id of this machine: made once, and kept in the user's state folder.

    A state folder may be copied, or shared over a network: what stands there counts together with the host's own id.
    "-" where there is neither.
    """
    path = state_path("machine.json")
    made = read_own_json(path)
    if made is None:
        write_own_json(path, {"id": secrets.token_hex(16)}, once=True)
        made = read_own_json(path)
    try:
        host = _HOST.read_text(errors="replace").strip()
    except OSError:
        host = ""
    kept = str((made or {}).get("id", ""))
    return hashlib.sha256(f"{kept}\n{host}".encode()).hexdigest()[:32] if kept or host else _UNKNOWN


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _UNKNOWN


@cache
def _namespace() -> str:
    return _link("pid")


@cache
def _nameless() -> str:
    """A name that no other process has."""
    return secrets.token_hex(16)


def _link(namespace: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{namespace}").replace(":", "")
    except OSError:
        return _UNKNOWN


class Stat(NamedTuple):
    """What the kernel says of a process (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html).

    `alive`: it is no zombie, or only its first thread is one, and others go on.
    `terminal` is the number of its controlling terminal, 0 for none (see `tty.device_of`); `start` is in clock ticks
    since boot.
    """

    alive: bool
    parent: int
    session: int
    terminal: int
    start: str


def stat_of(pid: int) -> Stat:
    """Return what /proc says of a process.

    Raises:
        OSError: it is not there, or hidden from us.
    """
    # The name in parentheses may hold anything, spaces and parentheses too: count from behind it.
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode("ascii").split()
    alive = fields[0] not in ("Z", "X") or int(fields[17]) > 1
    return Stat(alive, int(fields[1]), int(fields[3]), int(fields[4]), fields[19])


def _start(pid: int) -> str:
    """The start time of a process; "ended" for a zombie; "-" where it can't be read."""
    try:
        stat = stat_of(pid)
    except OSError:
        return _UNKNOWN
    return stat.start if stat.alive else _ENDED


def _own_start(pid: int) -> str:
    """The start time of this process, whose pid this is: a failure to read it is not remembered."""
    try:
        return _read_own_start(pid)
    except OSError:
        return _UNKNOWN


@cache
def _read_own_start(pid: int) -> str:
    return stat_of(pid).start


os.register_at_fork(after_in_child=_read_own_start.cache_clear)  # a child may get the pid of one that is gone
