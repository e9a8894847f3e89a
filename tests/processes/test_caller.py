"""A confined command that another process waits for: its output at once, its signals, and where its shell ended."""

import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from humanlayer_agent.action import BASH
from humanlayer_agent.confine.confinement import Unenforceable
from humanlayer_agent.processes.execution import CommandResult, run_command
from humanlayer_agent.testing.patience import PATIENCE
from tests.support import enclosures


class Waiting:
    """Waits for a command, and says something as soon as that has written: a signal, or (0) goodbye."""

    def __init__(self, says: int | None = None) -> None:
        self.umask, self.gone, self.got = 0o027, False, {1: b"", 2: b""}
        self._ours, self._theirs = socket.socketpair()
        self._says = says

    def fileno(self) -> int:
        return self._ours.fileno()

    def receive(self) -> list[int]:
        data = self._ours.recv(100)
        self.gone = not data
        return list(data)

    def write(self, stream: int, data: bytes) -> None:
        self.got[stream] += data
        if self._says:
            self._theirs.send(bytes([self._says]))
        elif self._says == 0:
            self._theirs.close()
        self._says = None

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


class Project:
    """A folder in which commands run confined."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.temporary = folder / "project", folder / "tmp"
        for each in (self.folder, self.folder / "sub", self.temporary):
            each.mkdir()

    def run(self, text: str, caller: Waiting) -> CommandResult:
        enclosure = enclosures.enclosure(self.folder, self.temporary)
        env = {"PATH": "/usr/bin:/bin"}
        try:
            return run_command(
                (*BASH, text), cwd=str(self.folder), env=env, timeout=PATIENCE, confinement=enclosure, caller=caller
            )
        finally:
            caller.close()

    def ends_in(self, text: str) -> str:
        """Where a command ended, below the project; "-" where that is not known."""
        directory = self.run(text, Waiting()).directory
        return str(Path(directory).relative_to(self.folder)) if directory else "-"


@pytest.fixture
def project() -> Iterator[Project]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="hla-caller-") as name:
        yield Project(Path(name).resolve())


def test_streams_stay_apart(project: Project) -> None:
    caller = Waiting()
    result = project.run("echo out; echo err >&2; umask; exit 3", caller)
    assert result.returncode == 3
    assert caller.got == {1: b"out\n0027\n", 2: b"err\n"}
    assert sorted(result.output.split()) == ["0027", "err", "out"]


@pytest.mark.parametrize(
    ("text", "directory"),
    [
        ("true", "."),
        ("cd sub", "sub"),
        ("cd sub; exit 3", "sub"),
        ("set -eu; cd sub; false", "sub"),
        ("cd sub; kill -TERM $$; sleep 5", "sub"),
        ("cd sub; (cd ..; true)", "sub"),
        ("cd sub; bash -c 'cd ..; echo >&197'", "sub"),
        ("cd sub; env -C .. bash -c 'cat <&197 & echo >&197; kill $!'", "sub"),
        ("cd sub; kill -KILL $$", "-"),
        ("cd sub; trap 'echo own' EXIT", "-"),
        ("cd sub; exec 197>&-", "-"),
        ("cd /tmp", "-"),
        ("mkdir gone; cd gone; rmdir ../gone", "-"),
    ],
)
def test_where_the_shell_ended(project: Project, text: str, directory: str) -> None:
    assert project.ends_in(text) == directory


def test_what_tells_its_end_changes_nothing_for_others(project: Project) -> None:
    caller = Waiting()
    project.run("env | grep -c BASH_ENV; bash -c trap; echo $-; cat", caller)
    assert caller.got == {1: b"0\nhBc\n", 2: b""}


def test_signals(project: Project) -> None:
    caller = Waiting(signal.SIGUSR1)
    result = project.run("trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done", caller)
    assert result.returncode == 9


def test_whoever_waits_no_longer_ends_it(project: Project) -> None:
    """By a signal first: only where the machine leaves it no time for its trap is it killed before, and tried again."""
    for _ in range(20):
        result = project.run("trap 'echo > ended' TERM; echo ready; while :; do sleep 0.05; done", Waiting(0))
        assert result.returncode is None
        assert not result.timed_out
        if (project.folder / "ended").exists():
            return
    raise AssertionError("it was killed at once")


def test_nobody_else_waits_for_what_is_not_confined(tmp_path: Path) -> None:
    caller = Waiting()
    with pytest.raises(Unenforceable):
        run_command((*BASH, "touch made"), cwd=str(tmp_path), env={}, timeout=PATIENCE, caller=caller)
    caller.close()
    assert not (tmp_path / "made").exists()
