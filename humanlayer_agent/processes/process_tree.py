"""The first process of each command, its reaper, and the orphans of commands: what gets out of a reaper's sight comes
back to us, for a command may kill its reaper.

`reaper` adopts what its command leaves behind. Where the command has killed it, that falls to the next process above
that adopts orphans, and that is this one, as long as a command runs. They can be told from children of our own: what a
reaper has started can never be in our session.
"""

import atexit
import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Protocol

from humanlayer_agent.processes import reaper

_PR_GET_CHILD_SUBREAPER = 37
_ANSWERS_S = 5.0
_MOST_FAILURES = 3
"""So many times a server that reapers are forked from is started anew, where it does not do what it is there for."""
_ABOUT = ("limits", "cgroup", "oom_score_adj")
_OF_STATUS = re.compile(
    rb"^(?:Umask|Uid|Gid|Groups|SigIgn|Cap[A-Z]\w+|NoNewPrivs|Seccomp\w*|Cpus_allowed|Mems_allowed):.*", re.MULTILINE
)

# The interpreter itself, not a virtual environment's link to it: that may lie in the project, where the agent writes.
_PYTHON = os.path.realpath(sys.executable)

_starting = threading.Lock()
_reapers: set[int] = set()  # of commands that run now: children of ours that are no orphans
_kept: set[int] = set()  # what commands were allowed to leave running: somebody must wait for it when it ends


class First(Protocol):
    """The first process of a command: a child of ours, and leader of a session of its own."""

    pid: int

    def kill(self) -> None:
        """End it at once."""
        ...

    def wait(self) -> int:
        """Wait for its end, and return its code."""
        ...


class Brood:
    """The processes of one command, its reaper first.

    Args:
        start: starts the reaper, or what stands for it.
        mark: stands in the environment of every supervised command (`NAME=VALUE`).
    """

    def __init__(self, start: Callable[[], First], mark: str) -> None:
        self._mark = mark.encode()
        with _starting:  # a reaper that is not listed yet would be taken for an orphan
            _kept.difference_update(_reap(_kept.copy()))
            _orphans.adopt()
            try:
                self._before = _children()
                self.reaper = start()
                _reapers.add(self.reaper.pid)
            finally:
                _orphans.let_go_unless(_reapers)

    def end(self, *, reported: bool, keep_background: bool) -> int:
        """Wait for the reaper's end; kill what got out of its sight, and return how many processes that were.

        Args:
            reported: the reaper said how the command ended. Where it did not, it was killed or stopped, and so is
                everything that it may have watched over.
            keep_background: what the command has left running is to stay, where the reaper says that this is all.
        """
        pid = self.reaper.pid
        if not reported:
            self.reaper.kill()
        with suppress(ChildProcessError):  # until it is waited for, its number stands for its session
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        killed: set[int] = set()
        if not reported:
            killed |= _kill_until_gone(lambda: self._orphans() | reaper.session_members(pid) - {pid})
        elif keep_background:
            _kept.update(filter(self._is_marked, self._orphans()))
        else:
            killed |= _kill_until_gone(lambda: set(filter(self._is_marked, self._orphans())))
        self.reaper.wait()
        with _starting:
            _reapers.discard(pid)
            _orphans.let_go_unless(_reapers)
        return len(killed)

    def _orphans(self) -> set[int]:
        """Children of ours that were not there before, and that we have not started; and what they have started."""
        with _starting:
            new = _children() - self._before - _reapers - _fork_servers.pids
        ours = os.getsid(0)
        found = {pid: about for pid in new if (about := reaper.process(pid)) is not None}
        living = {pid for pid, (alive, _, session) in found.items() if alive and session != ours}
        return living.union(*(reaper.descendants(pid) for pid in living))

    def _is_marked(self, pid: int) -> bool:
        try:
            return self._mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:  # another user's, which we could not end
            return False


def start_reaper(output: IO[bytes], errors: IO[bytes]) -> tuple[First, socket.socket]:
    """Start a reaper as the first of a `Brood`; returns it, and our end of its control socket.

    It is forked from a process that waits for that, where there is one that does it; else it is started anew, which
    takes ten times as long.

    Args:
        output, errors: where its streams go, and those of its command.
    """
    if (forked := _fork_servers.fork(output, errors)) is not None:
        return forked
    ours, theirs = socket.socketpair()
    with theirs:
        first = subprocess.Popen(
            _program(), stdin=theirs.fileno(), stdout=output, stderr=errors, env={}, start_new_session=True
        )
        return first, ours


def end_fork_server() -> None:
    """End what waits for more commands, unless commands run now. It is there again for the next one."""
    with _starting:
        if not _reapers:
            _fork_servers.end()


def _program() -> tuple[str, ...]:
    return (_PYTHON, "-I", "-S", reaper.__file__)


class _Forked:
    """A child of ours that another process has forked."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def kill(self) -> None:
        """End it at once. (Until it is waited for, nobody else has its number.)"""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end, and return its code."""
        try:
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:  # this program waits for whatever ends; subprocess says the same then
            return 0


class _ForkServer:
    """A small process that reapers are forked from (`reaper.serve`).

    It has nothing of ours: no environment, no descriptor but its end of a socket that nobody else has an end of, and it
    is told nothing of what the reapers are to run. A command can end or stop it, as it can us, but neither trace it nor
    ask it for anything.
    """

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_ANSWERS_S)
        with theirs:
            process = subprocess.Popen(
                (*_program(), reaper.SERVE),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        self.pid, process.returncode = process.pid, 0  # it is waited for here, and by no fork of ours
        self._is_untraced = False

    def fork(self, control: socket.socket, output: IO[bytes], errors: IO[bytes]) -> _Forked:
        """Fork a reaper.

        Raises:
            OSError: that was not done, or may be done later, by somebody else, or so that we could not wait for it.
        """
        socket.send_fds(self._control, [b"\n"], [control.fileno(), output.fileno(), errors.fileno()])
        pid = 0
        try:
            while (said := self._control.recv(16)) not in (b"", reaper.FORKED):
                pid = int(said)
            if not (said and pid):
                raise ChildProcessError("nothing was forked")
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # it is a child of ours
            if not self._is_untraced and b"\nTracerPid:\t0\n" not in Path(f"/proc/{self.pid}/status").read_bytes():
                raise PermissionError("it is traced")
        except BaseException:
            _kept.update({pid} - {0})
            raise
        self._is_untraced = True  # for good: since it hides itself, nobody can begin to
        return _Forked(pid)

    def end(self) -> None:
        """End it, and wait for that."""
        self._control.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except OSError:  # we are another user by now: it ends since nobody can ask any more
            _kept.add(self.pid)

    def forget(self) -> None:
        """Leave it to the process that we were forked from."""
        self._control.close()


class _ForkServers:
    """The one that there is, if there is one, started in the same circumstances as we are in now."""

    def __init__(self) -> None:
        self._server: _ForkServer | None = None
        self._circumstances: tuple[object, ...] = ()
        self._failures = 0

    @property
    def pids(self) -> set[int]:
        """Return the process id of the one that there is: no orphan."""
        return set() if self._server is None else {self._server.pid}

    def fork(self, output: IO[bytes], errors: IO[bytes]) -> tuple[_Forked, socket.socket] | None:
        """Fork a reaper; None where that can't be done so. Then there is no other end to any control socket of one."""
        if sys.platform != "linux" or self._failures >= _MOST_FAILURES:
            return None
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                found = (*_program(), *_passed_on())
                if self._server is None or self._circumstances != found:
                    self.end()
                    self._server, self._circumstances = _ForkServer(), found
                return self._server.fork(theirs, output, errors), ours
        except OSError:
            self._failures += 1
            self.end()
            ours.close()
            return None
        except BaseException:
            self.end()
            ours.close()
            raise

    def end(self) -> None:
        """End it."""
        server, self._server = self._server, None
        if server is not None:
            server.end()

    def forget(self) -> None:
        """Have none, in a fork of a process that may have one."""
        server, self._server = self._server, None
        if server is not None:
            server.forget()


def _passed_on() -> tuple[object, ...]:
    """What this thread passes on to what it starts, and a command has in the end.

    Raises:
        OSError: it can't be told.
    """
    status, *others = (Path("/proc/thread-self", name).read_bytes() for name in ("status", *_ABOUT))
    if not (found := _OF_STATUS.findall(status)) or not found[0].startswith(b"Umask"):
        raise FileNotFoundError("before Linux 4.7, no file tells the umask")
    spaces = [os.readlink(f"/proc/thread-self/ns/{name}") for name in os.listdir("/proc/thread-self/ns")]
    root = os.stat("/")
    scheduling = (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))
    return (*found, *others, *spaces, root.st_dev, root.st_ino, *scheduling)


def _kill_until_gone(find: Callable[[], set[int]]) -> set[int]:
    """Kill what `find` finds, again and again; returns what was found."""
    deadline = time.monotonic() + reaper.KILL_S
    killed: set[int] = set()
    while (found := find()) and time.monotonic() < deadline:
        killed |= found
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
        _reap(killed)
    return killed


def _reap(pids: set[int]) -> set[int]:
    """Let those of them go that have ended, as far as they are children of ours; returns those."""
    ended = set()
    for pid in pids:
        with suppress(ChildProcessError):
            ended |= {os.waitpid(pid, os.WNOHANG)[0]}
    return ended - {0}


def _children() -> set[int]:
    """Our direct children."""
    try:
        lists = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
    except OSError:  # a thread has ended meanwhile
        lists = []
    if lists:
        return {int(pid) for text in lists for pid in text.split()}
    me = os.getpid()
    return {pid for pid, (_, parent, _) in reaper.processes().items() if parent == me}


class _Adoption:
    """Has orphans of our descendants become our children while commands run: what else this program has started, and
    never waits for, is not to be left with it for the rest of its life.
    """

    def __init__(self) -> None:
        self._before: int | None = None

    def adopt(self) -> None:
        """Adopt orphans from now on."""
        if sys.platform == "linux":
            if self._before is None:
                said = ctypes.c_int()
                _libc().prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(said), 0, 0, 0)
                self._before = said.value
            _libc().prctl(reaper.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def let_go_unless(self, wanted: set[int]) -> None:
        """Be again what we were, unless there still are commands that run."""
        if self._before is not None and not wanted:
            _libc().prctl(reaper.PR_SET_CHILD_SUBREAPER, self._before, 0, 0, 0)
            self._before = None


_orphans = _Adoption()
_fork_servers = _ForkServers()
atexit.register(_fork_servers.end)
os.register_at_fork(after_in_child=_fork_servers.forget)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
