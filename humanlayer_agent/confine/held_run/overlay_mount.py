"""Puts layers over folders, and becomes the program that is named: what that writes there lies in the layers.

    python -I -S overlay_mount.py N (FOLDER UPPER WORK) * N PROGRAM ARGUMENT ...

It runs by itself, and imports nothing of ours. It needs user namespaces, and overlayfs in them (Linux 5.11). Bubblewrap
0.8 can't do this itself, and starts inside.
"""

import ctypes
import os
import resource
import sys

_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000
_NO_SUID, _NO_DEVICES, _RECURSIVE, _PRIVATE = 2, 4, 0x4000, 1 << 18
LARGEST_FILE = 1 << 29
"""Bytes of a file."""
_DATA = 8 << 30
_PROCESSES = 2048


def main(arguments: list[str]) -> None:
    """Mount, and become the program. Nothing of the program runs where that can't be."""
    count = 3 * int(arguments[0])
    folders, program = arguments[1 : count + 1], arguments[count + 1 :]
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.geteuid(), os.getegid()

    def call(what: str, result: int) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")

    call("no user namespace", libc.unshare(_NEW_USER | _NEW_MOUNTS))
    for name, line in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)
    call("mounts are shared", libc.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None))
    for folder, *layer in zip(folders[::3], folders[1::3], folders[2::3], strict=True):
        # By descriptors: a path may have signs in it that the options of a mount give a meaning.
        opened = [os.open(each, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW) for each in (folder, *layer)]
        below, upper, work = (f"/proc/self/fd/{each}" for each in opened)
        options = f"lowerdir={below},upperdir={upper},workdir={work},userxattr,volatile"
        flags = _NO_SUID | _NO_DEVICES
        call("no overlay", libc.mount(b"overlay", os.fsencode(folder), b"overlay", flags, options.encode()))
        for each in opened:
            os.close(each)
    for limit, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, LARGEST_FILE),
        (resource.RLIMIT_DATA, _DATA),
        (resource.RLIMIT_NPROC, _PROCESSES),
    ):
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))
    os.execv(program[0], program)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.exit(f"a held run can't be made: {error.strerror or error}")
