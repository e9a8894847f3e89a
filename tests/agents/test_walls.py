"""What agent commands can't do to the person at the terminal: real processes on a real terminal."""

import os
import re
import select
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from humanlayer_agent.testing.patience import PATIENCE, until

ROOT = Path(__file__).parents[2]

PROGRAM = """
import fcntl, os, subprocess, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # this terminal is ours
from minisweagent.environments.local import LocalEnvironment
from humanlayer_agent.agents.mini import SupervisedEnvironment

class Allow:
    def should_allow(self, action):
        return True, "anything goes"

environment = SupervisedEnvironment(LocalEnvironment(timeout=600), director=Allow(), user=object())
terminal = os.ttyname(0)

def agent(command):
    output = environment.execute({"command": command})
    return output["output"], output["returncode"]
"""

INJECT = """
import fcntl, sys, termios
try:
    for byte in b"typed by the agent\\n":
        fcntl.ioctl(open(sys.argv[1], "rb", buffering=0), termios.TIOCSTI, bytes([byte]))
    print("injected")
except OSError as error:
    print("refused", error.errno)
"""


class Terminal:
    """A program on a terminal of its own, run by an ordinary user."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: Path) -> None:
        self.master, slave = os.openpty()
        attributes = termios.tcgetattr(slave)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        if os.getuid() == 0:
            os.chown(os.ttyname(slave), 65534, 65534)
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd, start_new_session=True
        )
        os.close(slave)
        self.shown = ""

    def until(self, pattern: str) -> "re.Match[str]":
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.shown)):
            assert time.monotonic() < deadline, f"never seen: {pattern}\n{self.shown}"
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self.master, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"it ended before: {pattern}\n{self.shown}") from None
        return found

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal(
    project: Path, tmp_path: Path, ordinary_user: Callable[[str], list[str]]
) -> Iterator[Callable[[str], Terminal]]:
    opened = []

    def start(source: str) -> Terminal:
        for directory in (project, tmp_path):
            directory.chmod(0o777)
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "HUMANLAYER_CONFINE": "false",
            "PYTHONPATH": str(ROOT),
            "HUMANLAYER_STORE": str(project / "store.sqlite3"),
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_GLOBAL_CONFIG_DIR": str(project / "mini"),
            "OPENAI_API_KEY": "sk-very-secret",
        }
        opened.append(Terminal(ordinary_user(PROGRAM + source), env, project))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.mark.long
def test_it_can_not_eat_what_the_human_types(terminal: Callable[[str], Terminal]) -> None:
    program = terminal(
        """
print("before", flush=True)
print("agent got", agent("cat; cat /dev/tty; head -c1 <&2; echo end"), flush=True)
print("human typed", repr(input()), flush=True)
"""
    )
    program.until("before")
    program.type("my words\n")
    program.until(r"agent got")
    assert "my words" not in program.until(r"agent got .*end.*\n").group()
    assert program.until(r"human typed .*").group().strip() == "human typed 'my words'"


@pytest.mark.long
def test_it_can_not_type_into_the_prompt(terminal: Callable[[str], Terminal], project: Path) -> None:
    (project / "inject.py").write_text(INJECT)
    program = terminal(
        """
inject = [sys.executable, "inject.py", terminal]
print("agent:", agent(" ".join(inject)), flush=True)
print("control:", subprocess.run(inject, stdout=subprocess.PIPE, text=True).stdout, flush=True)
"""
    )
    assert "refused" in program.until(r"agent: .*\n").group()
    control = program.until(r"control: \w+").group()
    legacy = Path("/proc/sys/dev/tty/legacy_tiocsti")
    if not legacy.exists() or legacy.read_text().strip() == "1":
        assert control == "control: injected"  # or this test would prove nothing


def test_it_can_not_read_the_key(terminal: Callable[[str], Terminal]) -> None:
    program = terminal(
        """
look = "env; for p in $PPID %d; do tr '\\\\0' '\\\\n' < /proc/$p/environ; done 2>&1" % os.getpid()
print("agent got", agent(look), "end of it", flush=True)
"""
    )
    seen = program.until(r"(?s)agent got .*end of it").group()
    assert "HUMANLAYER_SUPERVISED=1" in seen
    assert "Permission denied" in seen
    assert "sk-very-secret" not in seen


@pytest.mark.long
def test_ctrl_c_at_the_terminal_ends_the_command(terminal: Callable[[str], Terminal], project: Path) -> None:
    program = terminal(
        """
print("before", flush=True)
try:
    agent("trap '' INT TERM; echo $$ > pid; setsid sleep 600 & echo $! > child; sleep 600")
except KeyboardInterrupt:
    print("interrupted", [os.path.exists("/proc/" + open(f).read().strip()) for f in ("pid", "child")], flush=True)
"""
    )
    until(lambda: (project / "child").exists() and (project / "child").read_text().endswith("\n"), "the command")
    program.type("\x03")
    assert program.until(r"interrupted .*\n").group().strip() == "interrupted [False, False]"
