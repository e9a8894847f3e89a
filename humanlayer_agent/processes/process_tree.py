"""The orphans of commands: what gets out of a reaper's sight comes back to us, for a command may kill its reaper.

`reaper` adopts what its command leaves behind. Where the command has killed it, that falls to the next process above
that adopts orphans, and that is this one, as long as a command runs. They can be told from children of our own: what a
reaper has started can never be in our session.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from humanlayer_agent.processes import reaper

_PR_GET_CHILD_SUBREAPER = 37

_starting = threading.Lock()
_reapers: set[int] = set()  # of commands that run now: children of ours that are no orphans
_kept: set[int] = set()  # what commands were allowed to leave running: somebody must wait for it when it ends


class Brood:
    """The processes of one command, its reaper first.

    Args:
        argv, options: as `subprocess.Popen` takes them, for the reaper.
        mark: stands in the environment of every supervised command (`NAME=VALUE`).
    """

    def __init__(self, argv: Sequence[str | bytes], mark: str, **options: Any) -> None:
        self._mark = mark.encode()
        with _starting:  # a reaper that is not listed yet would be taken for an orphan
            _reap(_kept)
            _orphans.adopt()
            try:
                self._before = _children()
                self.reaper = subprocess.Popen(argv, start_new_session=True, **options)
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
            new = _children() - self._before - _reapers
        ours = os.getsid(0)
        found = {pid: about for pid in new if (about := reaper.process(pid)) is not None}
        living = {pid for pid, (alive, _, session) in found.items() if alive and session != ours}
        return living.union(*(reaper.descendants(pid) for pid in living))

    def _is_marked(self, pid: int) -> bool:
        try:
            return self._mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:  # another user's, which we could not end
            return False


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


def _reap(pids: set[int]) -> None:
    """Let those of them go that have ended, as far as they are children of ours."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


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


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
