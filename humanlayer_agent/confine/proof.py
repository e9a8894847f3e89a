"""The proof that a backend holds on this machine: every wall is tried against a canary, with it and without."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from humanlayer_agent.confine.bubblewrap import Bubblewrap, Enclosure, find
from humanlayer_agent.confine.confinement import TREE, Confinement, Profile, Unenforceable
from humanlayer_agent.locations import read_own_json, write_own_json

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
    "machine": "a socket to the host of this virtual machine is made",
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
    "machine": lambda: socket.socket(40, socket.SOCK_STREAM).close(),  # AF_VSOCK
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
    """What was tried, with which program, on which machine: it counts for that alone.

    Args:
        backend: what held, or did not.
        machine: what the result depends on (`facts`).
        walls: what was tried.
    """

    backend: Bubblewrap
    machine: dict[str, str]
    walls: tuple[Wall, ...]

    @property
    def holds(self) -> bool:
        """Tell whether nothing got out."""
        return len(self.walls) == len(WALLS) and all(wall.held for wall in self.walls)


def proven(folder: Path | str, *, find: Callable[[], Bubblewrap] = find) -> Proof:
    """Return the proof that a backend holds here: the one that is kept, where it is still that machine, else a new one.

    Args:
        folder: where it is kept; only this user may write there.
        find: says which program is used.

    Raises:
        Unenforceable: none holds; why, and where that is known, what would change it.
    """
    backend = find()
    machine = facts(backend)
    path = Path(folder) / f"{backend.name}.json"
    if (kept := _kept(path, backend, machine)) is not None:
        return kept
    try:
        proof = prove(backend)
    except Unenforceable as why:
        raise Unenforceable(f"{why}{remedy()}") from None
    if not proof.holds:
        open_walls = ", ".join(f"{WALLS[wall.name]} ({wall.said})" for wall in proof.walls if not wall.held)
        raise Unenforceable(f"{backend.name} does not hold on this machine: {open_walls}{remedy()}")
    write_own_json(path, {"machine": proof.machine, "walls": [asdict(wall) for wall in proof.walls]})
    return proof


def facts(backend: Bubblewrap) -> dict[str, str]:
    """Return what a proof depends on: the kernel and its settings, what holds us ourselves, the program, the user."""
    system = os.uname()
    return {
        "kernel": f"{system.sysname} {system.release} {system.version} {system.machine}",
        "program": f"{backend.path} {backend.version} {_digest(backend.path, *_identity(backend.path))}",
        "user": f"{os.getuid()} {os.geteuid()} {os.getgid()}",
        "held by": " ".join(
            f"{name} {_status().get(name, '')}" for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
        ),
        **{path: _said(path) for path in (*(path for path, _, _ in _SETTINGS), "/proc/self/attr/current")},
    }


def remedy() -> str:
    """Return what would let a confinement be enforced here, as a further sentence; "" where nothing is known."""
    for path, wrong, change in _SETTINGS:
        if _said(path) == wrong and (os.geteuid() != 0 or path.endswith("max_user_namespaces")):
            return f". What would change it: {change}"
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv") or _status().get("Seccomp") == "2":
        return f". In a container, what would change it: {_CONTAINER}"
    return ""


_SETTINGS = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), "
        "or an AppArmor profile that lets this bwrap make user namespaces",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "sudo sysctl -w kernel.unprivileged_userns_clone=1 (Debian)",
    ),
    ("/proc/sys/user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
)
"""A setting of the kernel, the value that forbids user namespaces, and the command that changes it."""
_CONTAINER = "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined"


def _said(path: str) -> str:
    try:
        return Path(path).read_text().strip("\0\n ")
    except OSError:
        return ""


def _status() -> dict[str, str]:
    lines = (line.partition(":") for line in _said("/proc/self/status").splitlines())
    return {name: value.strip() for name, _, value in lines}


def _identity(path: str) -> tuple[int, ...]:
    about = os.stat(path)
    return about.st_dev, about.st_ino, about.st_size, about.st_ctime_ns


@lru_cache(maxsize=4)
def _digest(path: str, *_identity: int) -> str:
    """The SHA-256 of a file, read again when it is another one."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _kept(path: Path, backend: Bubblewrap, machine: dict[str, str]) -> Proof | None:
    """The proof in a file that only we can have written, where it is one of this machine, and holds."""
    content = read_own_json(path)
    if content is None or content.get("machine") != machine:
        return None
    try:
        walls = tuple(Wall(**wall) for wall in content["walls"])
    except (KeyError, TypeError):
        return None
    proof = Proof(backend, machine, walls)
    return proof if proof.holds and {wall.name for wall in walls} == WALLS.keys() else None


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
        enclosure = Enclosure(backend, Confinement((profile,)), str(temporary), aside=str(outside))
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
    return Proof(backend, facts(backend), walls)


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
