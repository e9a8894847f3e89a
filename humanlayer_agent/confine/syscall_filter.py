"""A seccomp filter: system calls that no namespace holds back, refused to what runs confined.

The kernel's keyrings are not in any namespace. https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

import errno
import platform
import struct

from humanlayer_agent.confine.confinement import Unenforceable

_ARCHITECTURES = {
    # audit architecture, and the numbers of: add_key, request_key, keyctl
    "x86_64": (0xC000003E, (248, 249, 250)),
    "aarch64": (0xC00000B7, (217, 218, 219)),
}
_X32 = 0x40000000
"""x86_64 has the same calls once more, with this bit."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_REFUSE = 0x00050000 | errno.EPERM


def program() -> bytes:
    """Return the filter, as `bwrap --seccomp` reads it.

    Raises:
        Unenforceable: the numbers of this machine's system calls are not known here.
    """
    known = _ARCHITECTURES.get(platform.machine())
    if known is None:
        raise Unenforceable(f"system calls of {platform.machine()} can't be filtered: x86_64 and aarch64 are known")
    architecture, refused = known
    lines = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    if platform.machine() == "x86_64":
        lines += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE)]
    for n, number in enumerate(refused):
        lines.append((_EQUAL, len(refused) - n, 0, number))
    lines += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
