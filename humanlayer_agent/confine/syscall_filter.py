"""A seccomp filter: system calls that no namespace holds back, refused to what runs confined.

The kernel's keyrings are in no namespace, nor are the sockets by which a virtual machine talks to its host (vsock) or
to devices. io_uring makes sockets past every filter. https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

import errno
import platform
import struct
from dataclasses import dataclass

from humanlayer_agent.confine.confinement import Unenforceable


@dataclass(frozen=True, slots=True)
class _Machine:
    """What a processor's system calls are known by."""

    architecture: int
    keyrings: tuple[int, int, int]
    """add_key, request_key, keyctl"""
    sockets: tuple[int, int]
    """socket, socketpair"""


_MACHINES = {
    "x86_64": _Machine(0xC000003E, (248, 249, 250), (41, 53)),
    "aarch64": _Machine(0xC00000B7, (217, 218, 219), (198, 199)),
}
_IO_URING = (425, 426, 427)
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: what lies in the network namespace, and is used."""
_X32 = 0x40000000
"""x86_64 has the same calls once more, with this bit."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Where they stand in struct seccomp_data. (Of an argument the lower half: the kernel takes a family as an int.)"""
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


def program() -> bytes:
    """Return the filter, as `bwrap --seccomp` reads it.

    Raises:
        Unenforceable: the numbers of this machine's system calls are not known here.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        raise Unenforceable(f"system calls of {platform.machine()} can't be filtered: x86_64 and aarch64 are known")
    return _assembled(
        [
            (_LOAD, _ARCHITECTURE, ""),
            (_EQUAL, machine.architecture, "known"),
            (_RETURN, _KILL, ""),
            (_LOAD, _NUMBER, "known:"),
            *([(_AT_LEAST, _X32, "refuse")] if platform.machine() == "x86_64" else []),
            *((_EQUAL, number, "refuse") for number in machine.keyrings),
            *((_EQUAL, number, "missing") for number in _IO_URING),
            *((_EQUAL, number, "socket") for number in machine.sockets),
            (_RETURN, _ALLOW, ""),
            (_RETURN, _ERROR | errno.EPERM, "refuse:"),
            (_RETURN, _ERROR | errno.ENOSYS, "missing:"),
            (_LOAD, _FIRST_ARGUMENT, "socket:"),
            *((_EQUAL, family, "family") for family in _FAMILIES),
            (_RETURN, _ERROR | errno.EAFNOSUPPORT, ""),
            (_RETURN, _ALLOW, "family:"),
        ]
    )


def _assembled(lines: list[tuple[int, int, str]]) -> bytes:
    """The instructions: `name:` is where one stands, `name` where it goes on if it is so (only ahead)."""
    places = {name: at for at, (_, _, name) in enumerate(lines) if name.endswith(":")}
    out = b""
    for at, (code, value, name) in enumerate(lines):
        ahead = places[f"{name}:"] - at - 1 if name and not name.endswith(":") else 0
        out += struct.pack("=HBBI", code, ahead, 0, value)
    return out
