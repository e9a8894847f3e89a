"""The proof that a backend holds on this machine: every wall is tried against a canary, with it and without."""

import json
import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from humanlayer_agent.confine.bubblewrap import Bubblewrap, Enclosure
from humanlayer_agent.confine.confinement import TREE, Confinement, Profile
from humanlayer_agent.confine.mounts import Unenforceable

WALLS = {
    "write": "a file outside is written",
    "read": "a file outside is read",
    "hidden": "a hidden file of the project is read",
    "protected": "a protected file of the project is written",
    "renamed": "the folder of a protected file is moved away",
    "loopback": "a server on this machine is reached",
    "abstract": "a socket without a file is reached",
    "socket": "a socket outside is reached",
    "process": "a process outside is seen",
    "kernel": "a setting of the kernel is opened to be written",
    "keyring": "a keyring of the kernel is read",
}
"""What is tried, and what it would mean that it succeeds."""

_PLACE = os.path.realpath("/var/tmp")
"""Not /tmp: a confined command has one of its own, in which nothing of this would be found."""

_ATTEMPT = """
import ctypes, json, os, platform, socket, sys
given = json.loads(sys.argv[1])
def kernel():
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
def keyring():
    number = {"x86_64": 250, "aarch64": 219}[platform.machine()]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, 0, -5, 0) == -1:  # KEYCTL_GET_KEYRING_ID of the session
        raise OSError(ctypes.get_errno(), "keyctl")
def connect(family, address):
    with socket.socket(family) as own:
        own.settimeout(5)
        own.connect(address)
tries = {
    "write": lambda: open(given["outside"] + "/written", "w").close(),
    "read": lambda: open(given["outside"] + "/secret").read(),
    "hidden": lambda: open(given["project"] + "/.env").read(),
    "protected": lambda: open(given["project"] + "/.git/hooks/post-commit", "w").close(),
    "renamed": lambda: os.rename(given["project"] + "/.git", given["project"] + "/moved"),
    "loopback": lambda: connect(socket.AF_INET, ("127.0.0.1", given["port"])),
    "abstract": lambda: connect(socket.AF_UNIX, "\\0" + given["name"]),
    "socket": lambda: connect(socket.AF_UNIX, given["outside"] + "/socket"),
    "process": lambda: os.stat("/proc/%d/stat" % given["pid"]) and os.kill(given["pid"], 0),
    "kernel": kernel,
    "keyring": keyring,
}
said = {}
for name, attempt in tries.items():
    try:
        attempt()
        said[name] = None
    except Exception as error:
        said[name] = "%s: %s" % (type(error).__name__, error)
print(json.dumps(said))
"""


@dataclass(frozen=True, slots=True)
class Wall:
    """One thing that was tried.

    Args:
        name: one of WALLS.
        held: it failed from inside.
        needed: it succeeds without a confinement, so that the failure inside tells something.
        said: the error inside.
    """

    name: str
    held: bool
    needed: bool
    said: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What was tried on which machine: it counts for this kernel, program and user alone."""

    backend: str
    version: str
    kernel: str
    uid: int
    walls: tuple[Wall, ...]

    @property
    def holds(self) -> bool:
        """Tell whether nothing got out."""
        return len(self.walls) == len(WALLS) and all(wall.held for wall in self.walls)


def prove(backend: Bubblewrap) -> Proof:
    """Try every wall, in a folder that is made for it and removed.

    Raises:
        Unenforceable: nothing can be started confined here; what the program said.
    """
    with _scene() as (project, outside, given):
        free = _run([sys.executable, "-I", "-S", "-c", _ATTEMPT, json.dumps(given)], project)
        _undo(project, outside)
        profile = Profile(
            "proof",
            read=interpreter_reads(),
            write=(str(project) + TREE,),
            protect=(f"{project}/.git/hooks{TREE}",),
            hide=(f"{project}/.env",),
        )
        temporary = project.with_name("temporary")
        temporary.mkdir()
        enclosure = Enclosure(backend, Confinement((profile,)), str(temporary))
        command = [os.path.realpath(sys.executable), "-I", "-S", "-c", _ATTEMPT, json.dumps(given)]
        with enclosure.opened([os.fsencode(word) for word in command], cwd=str(project), env={}) as (argv, descriptors):
            confined = _run(argv, project, *descriptors)
        walls = tuple(
            Wall(name, confined[name] is not None, free[name] is None, confined[name] or "it succeeded")
            for name in WALLS
        )
        left = (outside / "written").exists()
    if left and confined["write"] is not None:
        raise Unenforceable("a file outside was written although that seemed to fail")
    return Proof("bubblewrap", backend.version, os.uname().release, os.getuid(), walls)


def interpreter_reads() -> tuple[str, ...]:
    """Return the path sets that this Python interpreter needs to start."""
    paths = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", sys.base_prefix, sysconfig.get_path("stdlib")]
    found = dict.fromkeys(path for path in (*paths, *map(os.path.realpath, paths)) if os.path.exists(path))
    return tuple(path if os.path.isfile(path) else path + TREE for path in found)


@contextmanager
def _scene() -> Iterator[tuple[Path, Path, dict[str, object]]]:
    """A project, a folder outside, and servers that wait to be reached."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hla-proof-", dir=_PLACE)))
        project, outside = base / "project", base / "outside"
        (project / ".git/hooks").mkdir(parents=True)
        outside.mkdir()
        (project / ".env").write_text("secret")
        (outside / "secret").write_text("secret")
        name = base.name
        listening: list[tuple[int, Any]] = [
            (socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_UNIX, "\0" + name), (socket.AF_UNIX, f"{outside}/socket"),
        ]  # fmt: skip
        servers = []
        for family, address in listening:
            server = stack.enter_context(socket.socket(family))
            server.bind(address)
            server.listen(8)
            servers.append(server)
        port = servers[0].getsockname()[1]
        yield project, outside, {
            "project": str(project), "outside": str(outside), "port": port, "name": name, "pid": os.getpid(),
        }  # fmt: skip


def _undo(project: Path, outside: Path) -> None:
    """Put back what was tried without a confinement, and succeeded."""
    (outside / "written").unlink(missing_ok=True)
    if (project / "moved").exists():
        (project / "moved").rename(project / ".git")
    (project / ".git/hooks/post-commit").unlink(missing_ok=True)


def _run(argv: Sequence[str | bytes], cwd: Path, *descriptors: int) -> dict[str, str | None]:
    done = subprocess.run(
        argv, cwd=cwd, env={"PATH": os.defpath}, pass_fds=descriptors, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    try:
        said: dict[str, str | None] = json.loads(done.stdout)
    except ValueError:
        raise Unenforceable(f"nothing can be started confined: {done.stderr.strip() or done.returncode}") from None
    return said
