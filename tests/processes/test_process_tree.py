"""Where the reaper of a command comes from: real processes, among them those that end, stop or trace others."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from humanlayer_agent.action import BASH
from humanlayer_agent.processes import process_tree, reaper
from humanlayer_agent.processes.execution import CommandResult, command_environment, run_command
from humanlayer_agent.processes.process_tree import end_fork_server
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.support import children

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is one way alone elsewhere")

TRACER = """
import ctypes, os, sys
libc, pid = ctypes.CDLL(None), int(sys.argv[1])
SEIZE, CONTINUE = 0x4206, 7
assert libc.ptrace(SEIZE, pid, None, None) == 0
print("it", flush=True)
while os.WIFSTOPPED(status := os.waitpid(pid, 0x40000000)[1]):
    libc.ptrace(CONTINUE, pid, None, os.WSTOPSIG(status))
"""
"""Traces a process to its end, and lets it go on whenever that stops it."""
WATCHER = "tr '\\0' ' ' < /proc/$PPID/cmdline; cut -d' ' -f4 /proc/$PPID/stat"
"""Prints the words of the reaper, and whose child that is."""


def bash(command: str) -> CommandResult:
    return run_command((*BASH, command), cwd="/", env=command_environment(os.environ), timeout=PATIENCE)


@pytest.fixture(autouse=True)
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[process_tree._ForkServers]:
    made = process_tree._ForkServers()
    monkeypatch.setattr(process_tree, "_fork_servers", made)
    monkeypatch.setattr(process_tree, "_ANSWERS_S", PATIENCE)
    yield made
    made.end()


def server_of(servers: process_tree._ForkServers) -> int:
    """The server's process id, after a command that was forked from it."""
    assert bash(WATCHER).output.split()[-2:] == [reaper.SERVE, str(os.getpid())]
    return next(iter(servers.pids))


def is_there(pid: int) -> bool:
    found = reaper.process(pid)
    return found is not None and found[0]


def test_it_is_a_child_of_ours_that_was_forked(servers: process_tree._ForkServers) -> None:
    pid = server_of(servers)
    assert server_of(servers) == pid
    assert process_tree._children() >= {pid}
    assert not process_tree._reapers


def test_a_command_gets_what_it_would_get_of_us(servers: process_tree._ForkServers) -> None:
    """Also of what has changed since the command before."""
    shows = "umask; ulimit -n; ulimit -c; trap; nice; cat /proc/self/oom_score_adj; ls /proc/self/fd | wc -l"
    limits, mask = resource.getrlimit(resource.RLIMIT_NOFILE), os.umask(0o022)
    ignored = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        before = bash(shows).output.splitlines()
        first = server_of(servers)
        os.umask(0o027)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[0] - 1, limits[1]))
        after = bash(shows).output.splitlines()
        assert server_of(servers) != first
    finally:
        os.umask(mask)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        signal.signal(signal.SIGUSR1, ignored)
    assert (before[0], before[1]) == ("0022", str(limits[0]))
    assert (after[0], after[1]) == ("0027", str(limits[0] - 1))
    assert before[2:] == after[2:]


def test_it_is_what_would_be_started_anew(servers: process_tree._ForkServers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command can tell them apart by the last word of its reaper alone."""
    shows = (
        "grep -E '^(Umask|Uid|Gid|Groups|SigIgn|SigCgt|Cap|NoNewPrivs|Seccomp|Cpus|Mems)' /proc/self/status /proc/$PPID/status;"
        "cat /proc/self/limits /proc/self/cgroup; readlink /proc/self/fd/0; ls /proc/self/fd; env | sort; pwd; nice;"
        "cut -d' ' -f 7,8 /proc/self/stat; [ $PPID = $(cut -d' ' -f6 /proc/self/stat) ] && echo the session is its own"
    )
    forked = bash(shows).output
    assert servers.pids
    monkeypatch.setattr(servers, "_failures", process_tree._MOST_FAILURES)
    anew = bash(f"{shows}; {WATCHER}").output
    assert reaper.SERVE not in anew.splitlines()[-1]

    def without_numbers(text: str) -> list[str]:
        return [line.partition("status:")[2] or line for line in text.splitlines()]

    assert "the session is its own" in forked
    assert without_numbers(forked) == without_numbers(anew)[:-1]


class TestItsEnd:
    """Commands run all the same, as they would without it, and in the end it is gone."""

    def test_it_is_killed_between_commands(self, servers: process_tree._ForkServers) -> None:
        for _ in range(process_tree._MOST_FAILURES):
            os.kill(server_of(servers), signal.SIGKILL)
            result = bash(WATCHER)
            assert result.returncode == 0
            assert reaper.SERVE not in result.output
        assert reaper.SERVE not in bash(WATCHER).output
        assert not servers.pids

    def test_a_command_kills_it(self, servers: process_tree._ForkServers) -> None:
        pid = server_of(servers)
        result = bash(f"kill -9 {pid}; echo fine")
        assert (result.output, result.returncode, result.unwatched) == ("fine\n", 0, False)
        assert bash("sleep 600 & echo fine").output == "fine\n"

    def test_a_command_kills_it_and_its_own_reaper(self, servers: process_tree._ForkServers, tmp_path: Path) -> None:
        pid = server_of(servers)
        leaves = f"(setsid sleep 600 & echo $! > {tmp_path}/pid); kill -9 {pid} $PPID; sleep 600"
        result = bash(leaves)
        assert (result.returncode, result.unwatched) == (None, True)
        assert not is_there(int((tmp_path / "pid").read_text()))

    def test_it_is_stopped(self, servers: process_tree._ForkServers, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(process_tree, "_ANSWERS_S", 0.2)
        monkeypatch.setattr(process_tree, "_MOST_FAILURES", 100)
        until(lambda: reaper.SERVE in bash(WATCHER).output, "one that answers in that time")
        pid = next(iter(servers.pids))
        os.kill(pid, signal.SIGSTOP)
        assert reaper.SERVE not in bash(WATCHER).output
        assert not is_there(pid)

    def test_what_it_forks_later_runs_nothing(self, servers: process_tree._ForkServers) -> None:
        """Nobody has the other end of its control socket."""
        server_of(servers)
        assert servers._server is not None
        ours, theirs = process_tree.socket.socketpair()
        with open(os.devnull, "wb", buffering=0) as output, process_tree._starting:
            process_tree._orphans.adopt()
            with theirs:
                late = servers._server.fork(theirs, output, output)
            ours.close()
            assert late.wait() == 0
            process_tree._orphans.let_go_unless(process_tree._reapers)

    def test_it_forks_nothing_that_lacks_a_stream(self, servers: process_tree._ForkServers) -> None:
        """As where it may not have so many descriptors."""
        server_of(servers)
        assert servers._server is not None
        with open(os.devnull, "rb", buffering=0) as only:
            process_tree.socket.send_fds(servers._server._control, [b"\n"], [only.fileno()])
        assert servers._server._control.recv(16) == b""
        assert bash("echo fine").output == "fine\n"

    def test_a_reaper_that_is_no_child_of_ours_is_none(
        self, servers: process_tree._ForkServers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process_tree._orphans, "adopt", lambda: None)
        result = bash(WATCHER)
        assert result.returncode == 0
        assert reaper.SERVE not in result.output
        assert servers._failures == 1

    def test_it_ends_with_the_run_unless_commands_run(self, servers: process_tree._ForkServers) -> None:
        pid = server_of(servers)
        process_tree._reapers.add(1)
        try:
            end_fork_server()
            assert is_there(pid)
        finally:
            process_tree._reapers.discard(1)
        end_fork_server()
        assert reaper.process(pid) is None
        assert server_of(servers) != pid

    def test_an_exception_while_it_is_asked(
        self, servers: process_tree._ForkServers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pid = server_of(servers)
        process_tree._kept.clear()

        def interrupted(*_: object) -> int:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(process_tree.os, "waitid", interrupted)
            with pytest.raises(KeyboardInterrupt):
                bash("echo it ran")
        assert reaper.process(pid) is None
        assert not process_tree._reapers
        assert bash("echo fine").output == "fine\n"
        until(lambda: bash("true").returncode == 0 and not process_tree._kept, "the end of the reaper")

    @pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
    def test_it_ends_with_us(self, how: signal.Signals, tmp_path: Path) -> None:
        source = (
            "import os, time\n"
            "from humanlayer_agent.processes import process_tree\n"
            "from humanlayer_agent.processes.execution import run_command, command_environment\n"
            "run_command(('bash', '-c', 'true'), cwd='/', env=command_environment(os.environ), timeout=600)\n"
            "(pid,) = process_tree._fork_servers.pids\n"
            "open('pid', 'w').write(f'{pid}\\n')\n"
            "time.sleep(600)\n"
        )
        us = children.Popen([sys.executable, "-c", source], cwd=tmp_path, stderr=subprocess.DEVNULL)
        noted = tmp_path / "pid"
        until(lambda: noted.exists() and noted.read_text().endswith("\n"), "a command's end")
        us.send_signal(how)
        us.wait()
        until(lambda: not is_there(int(noted.read_text())), "its end")

    def test_a_fork_of_ours_has_one_of_its_own(self, tmp_path: Path) -> None:
        source = (
            "import os\n"
            "from humanlayer_agent.processes import process_tree\n"
            "from humanlayer_agent.processes.execution import run_command, command_environment\n"
            "def run():\n"
            "    words = ('bash', '-c', 'echo fine')\n"
            "    done = run_command(words, cwd='/', env=command_environment(os.environ), timeout=600)\n"
            "    print(done.output.strip(), *process_tree._fork_servers.pids, flush=True)\n"
            "run()\n"
            "if (pid := os.fork()) == 0:\n"
            "    run()\n"
            "    raise SystemExit\n"
            "os.waitpid(pid, 0)\n"
            "run()\n"
        )
        done = children.run([sys.executable, "-W", "error", "-c", source], capture_output=True, text=True)
        (one, first), (two, other), (three, same) = (line.split() for line in done.stdout.splitlines())
        assert (one, two, three) == ("fine", "fine", "fine")
        assert first == same != other
        assert done.stderr == ""

    def test_whoever_waits_for_whatever_ends_may_be_first(self) -> None:
        assert process_tree._Forked(2**22 + 1).wait() == 0


class TestAttacks:
    """What a command can do to it, which is a process of the same user."""

    def test_there_is_nothing_to_take(self, servers: process_tree._ForkServers) -> None:
        pid = server_of(servers)
        if os.getuid() != 0:
            with pytest.raises(PermissionError):
                os.listdir(f"/proc/{pid}/fd")
            return
        assert Path(f"/proc/{pid}/environ").read_bytes() == b""
        assert sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2"]
        assert os.readlink(f"/proc/{pid}/cwd") == "/"

    def test_nobody_looks_into_it(self, tmp_path: Path, ordinary_user: Callable[[str], list[str]]) -> None:
        source = """
import os
from humanlayer_agent.processes import process_tree
from humanlayer_agent.processes.execution import command_environment, run_command
def run(line):
    return run_command(("bash", "-c", line), cwd="/", env=command_environment(os.environ), timeout=600).output
run("true")
(pid,) = process_tree._fork_servers.pids
look = f"for pid in {pid} $PPID; do for f in mem environ fd/0 cwd root exe; do head -c1 /proc/$pid/$f; done; done 2>&1"
assert (said := run(look)).count("Permission denied") == 12, said
assert {pid} == process_tree._fork_servers.pids
print("held")
"""
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(ordinary_user(source), env=env, cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout == "held\n", done.stderr

    @pytest.mark.skipif(os.getuid() != 0, reason="nobody else can trace what hides itself (allowed in CI)")
    def test_one_that_is_traced_is_not_used(self, servers: process_tree._ForkServers) -> None:
        """Whoever began before it hid itself goes on."""
        pid = server_of(servers)
        assert servers._server is not None
        servers._server._is_untraced = False  # as it is where this is its first
        tracer = children.Popen([sys.executable, "-c", TRACER, str(pid)], stdout=subprocess.PIPE)
        assert tracer.stdout is not None
        with tracer.stdout:
            assert tracer.stdout.read(3) == b"it\n"
            result = bash(f"echo it ran; {WATCHER}")
        assert result.output.startswith("it ran\n")
        assert reaper.SERVE not in result.output
        assert not is_there(pid)
        assert tracer.wait() == 0
