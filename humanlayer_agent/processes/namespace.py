"""One command in a process namespace of its own, and the end of everything in it.

What runs confined needs no `reaper`: nothing leaves the namespace, and it ends as a whole when its first process does.
That first process is bubblewrap's, which follows its parent, another one of bubblewrap's, which follows us: kill -9 of
the supervisor included. That parent would end everything as soon as the command itself has ended, so it is held
(SIGSTOP) meanwhile: what is left gets its time, and a SIGTERM, as it does from the reaper.

The command waits at a gate until it is told to start. Until then its input is a socket of ours, through which the
kernel tells who it is, as numbered outside.
"""

import contextlib
import fcntl
import math
import os
import re
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import cached_property, partial
from itertools import islice
from typing import IO

from humanlayer_agent.confine import forwarder
from humanlayer_agent.confine.bubblewrap import Enclosure
from humanlayer_agent.confine.confinement import Unenforceable
from humanlayer_agent.errors import NotAsJudged
from humanlayer_agent.processes import reaper
from humanlayer_agent.processes.process_tree import Brood
from humanlayer_agent.shell import View

_GATE = (b"--norc", b"-c", b'echo >&0; read -r go && exec -a "$0" "$@" </dev/null')
"""For bash. (--norc: else it takes its input for a connection from afar, and reads start-up files.)"""
_TELLS_ITS_END = (
    b"unset BASH_ENV; exec 198<&-; trap '{ builtin echo >&197 && builtin read -r <&197; } 2>/dev/null || :' EXIT"
)
"""For a bash whose last directory is wanted. It says only that it ends, and waits: the kernel says where it is."""
_GATE_OF_A_SHELL = (
    *_GATE[:2],
    b'echo >&0; read -r go && BASH_ENV=/dev/fd/198 exec -a "$0" "$@" 197<&0 </dev/null 198<<<"%s"' % _TELLS_ITS_END,
)
_MOST_LISTED = 1000
_CREDENTIALS = struct.Struct("iII")
NETWORK, WENT_ON = "the network", "processes that go on"
_COUNTERS = ("snmp", "snmp6")
_COUNTED = frozenset(
    {b"Ip:OutNoRoutes", b"Ip:OutRequests", b"Tcp:ActiveOpens", b"Udp:OutDatagrams"}
    | {b"Ip6OutNoRoutes", b"Udp6OutDatagrams"}
)
"""What the kernel counts of a network where something is sent, or has no way to go; of IPv6 without what it sends by
itself."""
# https://www.kernel.org/doc/html/latest/filesystems/pidfs.html: struct pidfd_info, PIDFD_INFO_EXIT, PIDFD_GET_INFO
_INFO = struct.Struct("Q52xi")
_INFO_EXIT = 1 << 3
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11


class _Stage(Enum):
    """How far a command has come: what it leaves behind is given its time in `LEFT`, and told to end after that."""

    WAITING = auto()
    RUNNING = auto()
    LEFT = auto()
    TERMINATED = auto()


class Namespace:
    """A confined command, from its start to the end of everything that it started.

    Args:
        enclosure: what it is started in.
        shell: the path of bash.
        program: the path of the program.
        argv: its arguments, its name first.
        cwd: where it starts.
        env: its whole environment.
        mark: what stands in the environment of every supervised command (`NAME=VALUE`), and in bubblewrap's.
        output, errors: where its streams go.
        is_shell: it is bash, and it is wanted in which `directory` that ends.
        umask: what new files may not have of rights; ours where it is -1.

    Raises:
        Unenforceable: the confinement can't be enforced here.
        OSError: it can't be started: the argument list is too long, for example.
    """

    unwatched = False
    """Nobody can deceive what watches over it: that is outside."""
    lost: tuple[str, ...] = ()
    """What it has left in the home folder, where that is the command's own, once all has ended."""
    directory: str = ""
    """Where the shell was when it ended; "" where that is not known, or is not there for anybody else."""

    def __init__(
        self,
        enclosure: Enclosure,
        *,
        shell: bytes,
        program: bytes,
        argv: Sequence[bytes],
        cwd: str,
        env: Mapping[bytes, bytes],
        mark: str,
        output: IO[bytes],
        errors: IO[bytes],
        is_shell: bool = False,
        umask: int = -1,
    ) -> None:
        if not hasattr(os, "pidfd_open"):
            raise Unenforceable("this Python can't watch a process by a descriptor (os.pidfd_open, Linux 5.3)")
        gate = [shell, *(_GATE_OF_A_SHELL if is_shell else _GATE), argv[0], program, *argv[1:]]
        name, _, value = mark.partition("=")
        with contextlib.ExitStack() as stack:
            read_end, write_end = os.pipe()
            self._info = read_end
            stack.callback(os.close, write_end)
            started, descriptors = stack.enter_context(enclosure.opened(gate, cwd=cwd, env=env, info=write_end))
            self._control, theirs = socket.socketpair()
            stack.enter_context(theirs)
            self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            start = partial(
                subprocess.Popen,
                started,
                stdin=theirs.fileno(),
                stdout=output,
                stderr=errors,
                pass_fds=descriptors,
                cwd="/",
                env={name: value},
                umask=umask,
                start_new_session=True,
            )
            self._brood = Brood(start, mark=mark)
        self._is_shell = is_shell
        self._hosts = enclosure.confinement.hosts
        self._forwarder: forwarder.Forwarder | None = None
        self.reached: dict[str, dict[str, int]] = {}
        """How many connections were made for the command, and how many refused, by host."""
        self.error = self.left = 0
        self.returncode: int | None = None
        self._is_layered = enclosure.is_layered
        self._counters: list[int] = []
        self.tried: tuple[str, ...] = ()
        """What it has tried that nothing of its layers shows."""
        self._own_home = enclosure.home(env)
        self._home, self._there = -1, set[str]()
        self.timed_out = self.finished = self.refused = False
        self.alarm = math.inf
        self._events = select.epoll()
        self._command = self._first = -1
        self._stage = _Stage.WAITING

    def fileno(self) -> int:
        """Return what can be read when there is something to `receive`."""
        return self._events.fileno()

    def is_ready(self, deadline: float) -> bool:
        """Wait until the command stands at its gate, and has the network that it may have; False where the time is up
        before, or it was `refused`.

        Raises:
            Unenforceable: nothing can forward its connections.
        """
        self._control.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            data, about, _, _ = self._control.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
        except TimeoutError:
            self.timed_out = True
            return False
        except ConnectionError:
            data = b""
        if not data:
            self.refused = True
            return False
        self._pid: int = _CREDENTIALS.unpack(about[0][2])[0]
        if (first := self._first_pid) is None:
            self.refused = True
            return False
        self._command, self._first = os.pidfd_open(self._pid), os.pidfd_open(first)
        self._look_at_home()
        if self._is_layered:
            self._counters = [
                os.open(f"/proc/{self._pid}/net/{each}", os.O_RDONLY | os.O_CLOEXEC) for each in _COUNTERS
            ]
        self._events.register(self._command, select.EPOLLIN)
        os.kill(self._brood.reaper.pid, signal.SIGSTOP)
        if self._hosts:
            try:
                self._forwarder = forwarder.started(self._pid, self._hosts, os.environ)
            except OSError as error:
                raise Unenforceable(f"its connections can't be forwarded: {error.strerror or error}") from None
        return True

    @property
    def view(self) -> View:
        """Return what the command sees, once it stands at its gate."""
        return View(root=f"/proc/{self._pid}/root")

    def start(self, directory: int) -> None:
        """Open the gate.

        Raises:
            NotAsJudged: the command would start in another directory than that of this descriptor.
        """
        inside = f"/proc/{self._pid}/cwd"
        outside = os.readlink(f"/proc/self/fd/{directory}")
        # A folder with a layer over it is another one to the kernel.
        layered = self._is_layered and os.readlink(inside) == outside
        if not (layered or os.path.samestat(os.stat(inside), os.fstat(directory))):
            raise NotAsJudged([outside])
        self._stage = _Stage.RUNNING
        self._control.sendall(b"\n")
        if self._is_shell:
            self._control.settimeout(None)
            self._events.register(self._control, select.EPOLLIN)

    def receive(self) -> None:
        """Take in that the shell is about to end, that the command has, that all has, or that the time of what is left
        is up.
        """
        if self._stage is _Stage.RUNNING and not _is_over(self._command, 0):
            self._look_at_directory()
        elif self._stage is _Stage.RUNNING:
            self._events.unregister(self._command)
            self._stop_listening()
            self._events.register(self._first, select.EPOLLIN)
            self._stage, self.alarm = _Stage.LEFT, time.monotonic() + reaper.NATURAL_END_S
        elif self._stage is _Stage.LEFT and not _is_over(self._first, 0):
            self.signal(signal.SIGTERM)
            self._stage, self.alarm = _Stage.TERMINATED, time.monotonic() + reaper.TERM_S
        else:
            self.finished = True

    def signal(self, number: int) -> None:
        """Send a signal to everything that the command consists of now."""
        if self._stage is not _Stage.WAITING:
            for pid in reaper.descendants(self._first_pid or 0):
                with contextlib.suppress(OSError):
                    os.kill(pid, number)

    def _look_at_directory(self) -> None:
        """Take in where the shell is. That it is the shell who says that it ends, and where that is, the kernel says:
        what else runs there can say nothing, and the shell nothing but the truth.
        """
        data, about, _, _ = self._control.recvmsg(_MOST_LISTED, socket.CMSG_SPACE(_CREDENTIALS.size))
        if not data:
            self._stop_listening()
        elif about and _CREDENTIALS.unpack(about[0][2])[0] == self._pid:
            with contextlib.suppress(OSError):
                inside = f"/proc/{self._pid}/cwd"
                path = os.readlink(inside)
                self.directory = path if os.path.samestat(os.stat(inside), os.stat(path)) else ""
            with contextlib.suppress(OSError):
                self._control.send(b"\n", socket.MSG_DONTWAIT)

    def _stop_listening(self) -> None:
        if self._is_shell:
            self._is_shell = False
            self._events.unregister(self._control)

    def end(self) -> None:
        """End everything that still runs, and wait until it has ended."""
        if self._forwarder is not None:
            self.reached = self._forwarder.end()
        try:
            if self._first >= 0 and not self.finished:
                if self._stage is not _Stage.WAITING:
                    self.signal(signal.SIGTERM)
                    _is_over(self._first, reaper.TERM_S)
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            elif self.finished:
                os.kill(self._brood.reaper.pid, signal.SIGCONT)  # it ends by itself, and all that is left with it
        finally:
            self._brood.end(reported=self.finished, keep_background=False)
            if self._first >= 0:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._first, signal.SIGKILL)
            if self._first >= 0 and not _is_over(self._first, reaper.KILL_S):
                self.left = 1
            elif (first := self._first_pid) is not None:
                _reap(first)
            if self.finished:
                self.returncode = self._status()
            went_on = self._stage is _Stage.TERMINATED or (self._stage is _Stage.LEFT and not self.finished)
            self.tried = tuple(what for what, is_so in ((NETWORK, self._has_counted()), (WENT_ON, went_on)) if is_so)
            for descriptor in (self._command, self._first, *self._counters):
                if descriptor >= 0:
                    os.close(descriptor)
            self._events.close()
            self._control.close()
            if self._home >= 0:
                with contextlib.suppress(OSError), os.scandir(self._home) as left:
                    names = {entry.name for entry in islice(left, _MOST_LISTED)}
                    self.lost = tuple(sorted(names - self._there))
                os.close(self._home)

    def _has_counted(self) -> bool:
        """Tell whether anything was sent, or found no way, in the network of a command that has none."""
        for descriptor in self._counters:
            with contextlib.suppress(OSError, ValueError):
                if any(count for name, count in _counts(os.pread(descriptor, 1 << 16, 0)) if name in _COUNTED):
                    return True
        return False

    def _look_at_home(self) -> None:
        """Keep the home folder, where it is the command's own, so that it can be told what is lost with it."""
        with contextlib.suppress(OSError):
            if self._own_home:
                self._home = os.open(self.view.root + self._own_home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                self._there = set(os.listdir(self._home))

    @cached_property
    def _first_pid(self) -> int | None:
        """The first process of the namespace, as numbered outside; None where it has not come to that."""
        os.set_blocking(self._info, False)
        try:
            said = re.search(rb'"child-pid": (\d+)', os.read(self._info, 4096))
        except BlockingIOError:
            said = None
        os.close(self._info)
        return int(said[1]) if said else None

    def _status(self) -> int:
        """The return code: negative for a signal where the kernel tells it (Linux 6.15), else as a shell has it."""
        with contextlib.suppress(OSError):
            mask, status = _INFO.unpack(fcntl.ioctl(self._command, _GET_INFO, _INFO.pack(_INFO_EXIT, 0)))
            if mask & _INFO_EXIT:
                return os.waitstatus_to_exitcode(status)
        return self._brood.reaper.wait()


def _counts(text: bytes) -> Iterator[tuple[bytes, int]]:
    """The counters in /proc/net/snmp, where their names stand in one line and their values in the next, or in snmp6,
    where each has a line.
    """
    names: list[bytes] = []
    for line in text.splitlines():
        first, *words = line.split()
        if len(words) == 1 and not first.endswith(b":"):
            yield first, int(words[0])
        elif words and words[0][:1].isalpha():
            names = words
        else:
            yield from ((first + name, int(value)) for name, value in zip(names, words, strict=False))


def _is_over(descriptor: int, seconds: float) -> bool:
    """Wait so long for the end of a process."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _reap(pid: int) -> None:
    """Let a process go that has become a child of ours, since its parent has ended, and that is about to end."""
    deadline = time.monotonic() + reaper.KILL_S
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.001)
