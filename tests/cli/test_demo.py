"""`hla demo`, without a terminal and in a real one (a pty read by a terminal emulator)."""

import json
import os
import pwd
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pyte
import pytest

from humanlayer_agent.cli.demo import workspace
from humanlayer_agent.shell import baseline_of
from tests.support import children, enclosures
from tests.support.keys import PASSPHRASE, make_key

HLA = [sys.executable, "-c", "import sys; from humanlayer_agent.cli import main; sys.exit(main())"]
WAIT = 600
TEXT_IS_TYPED = ("Ctrl-S submit", "Enter reject")
"""Keys of prompts that show the cursor, but while they are drawn."""


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty home, not below a folder for temporary files: there the policy would allow too much."""
    with tempfile.TemporaryDirectory(prefix="hla-test-", dir=pwd.getpwuid(os.getuid()).pw_dir) as directory:
        yield Path(directory)


@pytest.fixture
def environment(home: Path, tmp_path: Path) -> dict[str, str]:
    """A user who has run `hla init`: the program that holds the terminals here is no terminal emulator."""
    key = make_key(home / ".local/share/humanlayer-agent/signing.key")
    channels = home / ".config/humanlayer-agent/channels.yaml"
    channels.parent.mkdir(parents=True)
    channels.write_text(f'version: 1\nsigners:\n  - "{key.fingerprint}"\n')
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "HUMANLAYER_CONFINE": "false",
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "TMPDIR": str(tmp_path),
        "COLUMNS": "150",
    }


def trajectory(output: str) -> dict[str, Any]:
    (path,) = re.findall(r"Trajectory:\s+(\S+\.traj\.json)", output)
    assert Path(path).stat().st_mode & 0o077 == 0, "it holds whole commands"
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


def records(output: str) -> list[tuple[str, str, bool]]:
    """Command, verdict, and whether it ran."""
    info = trajectory(output)["info"]["supervision"]
    return [(r["command"].split()[0], r["verdict"], r["executed"]) for r in info["records"]]


class Screen:
    """The demo on a pty, and what a terminal would show of it."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: Path) -> None:
        self._screen = pyte.Screen(150, 50)
        self._stream = pyte.ByteStream(self._screen)
        self.output = b""
        self.child = children.spawn(argv[0], argv[1:], env=env, cwd=str(cwd), dimensions=(50, 150), timeout=WAIT)
        self.child.delaybeforesend = None

    def until(self, condition: Callable[[], object], what: str) -> None:
        end = time.monotonic() + WAIT
        while not condition():
            assert time.monotonic() < end, f"never seen: {what}\n" + "\n".join(self._screen.display)
            try:
                data = self.child.read_nonblocking(65536, timeout=0.05)
            except pexpect.TIMEOUT:
                continue
            self.output += data
            self._stream.feed(data)

    def armed(self, key: str, command: str = "") -> None:
        """Waits until the prompt about `command` takes `key`: it is drawn bold then."""

        def bold() -> bool:
            if key in TEXT_IS_TYPED and self._screen.cursor.hidden:
                return False  # half of a frame: the text is there, and the key is still drawn as before
            if not any(command in line for line in self._screen.display):
                return False
            for row, line in enumerate(self._screen.display):
                if (column := line.find(key)) >= 0:
                    return bool(self._screen.buffer[row][column].bold)
            return False

        self.until(bold, f"{key} for {command}")

    def prove(self) -> None:
        """Types the passphrase, which is asked for once."""
        asked = "Passphrase of your key"
        self.until(lambda: any(line.startswith(asked) for line in self._screen.display), asked)
        self.child.send(PASSPHRASE + "\r")

    def end(self) -> tuple[int, str]:
        """Exit code, and everything that was printed (without the terminal's control sequences)."""
        while True:
            try:
                self.output += self.child.read_nonblocking(65536, timeout=WAIT)
            except pexpect.EOF:
                break
        self.child.wait()
        code = self.child.exitstatus if self.child.exitstatus is not None else -self.child.signalstatus
        return code, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.output.decode(errors="replace"))


@pytest.fixture
def screen(environment: dict[str, str], tmp_path: Path) -> Iterator[Screen]:
    opened = Screen([*HLA, "demo"], environment, tmp_path)
    yield opened
    opened.child.close(force=True)


def without_terminal(environment: dict[str, str], where: Path) -> str:
    """What the demo prints where nobody can be asked."""
    done = children.run(
        [*HLA, "demo"],
        env=environment,
        cwd=where,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def test_what_is_there_at_the_start_is_the_projects_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program that is as new as the agent counts as brought in by it: nobody has read it, and running tests asks."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(5):
        with workspace() as place:
            since = baseline_of(str(place.project)).since_ns
            assert all(path.stat().st_ctime_ns < since for path in place.project.glob("*.py*"))


def test_without_a_terminal(environment: dict[str, str], tmp_path: Path, home: Path) -> None:
    shown = without_terminal(environment, tmp_path)
    assert "The run ended Submitted" in shown
    assert "not confined here" in shown
    assert "tidy" not in "".join(word for word, _, _ in records(shown))
    assert "2 of them were denied because nobody could be asked" in shown, shown
    ran = records(shown)
    assert len(ran) == 11
    assert [r for r in ran if not r[2]] == [("curl", "ask", False), ("rm", "ask", False), ("hla", "deny", False)]
    assert ran[-4:] == [
        ("git", "allow", True),
        ("hla", "deny", False),
        ("python3", "allow", True),
        ("echo", "allow", True),
    ]
    messages = trajectory(shown)["messages"]
    assert any("FAILED" in str(m.get("content")) for m in messages)
    assert any("Ran 2 tests" in str(m.get("content")) and "OK" in str(m.get("content")) for m in messages)
    (run,) = re.findall(r"hla audit query --run (\w+)", shown)
    events = children.run(
        [*HLA, "audit", "query", "--run", run], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert events.returncode == 0, events.stderr
    assert "curl" in events.stdout
    assert leftovers(tmp_path, home) == []


@pytest.mark.long
def test_what_nobody_can_read_runs_confined(environment: dict[str, str], tmp_path: Path, home: Path) -> None:
    enclosures.backend()
    del environment["HUMANLAYER_CONFINE"]
    shown = without_terminal(environment, tmp_path)
    assert "runs confined here" in shown
    assert "2 of them were denied because nobody could be asked" in shown
    assert [r for r in records(shown) if not r[2]] == [
        ("curl", "ask", False), ("rm", "ask", False), ("hla", "deny", False),
    ]  # fmt: skip
    assert re.search(r"python3 tidy.pyc\s+✓ allowed by [a-z-]+, confined to project\s+wrote tidied.txt", shown), shown
    assert re.search(r"could not write \S+/old-reports/tidied.txt", shown)
    assert leftovers(tmp_path, home) == []


@pytest.mark.long
def test_it_works_without_git(environment: dict[str, str], tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "ls", "cat", "wc", "rm", "setsid"):
        (tools / name).symlink_to(f"/usr/bin/{name}" if Path(f"/usr/bin/{name}").exists() else f"/bin/{name}")
    done = children.run(
        [*HLA, "demo"],
        env={**environment, "PATH": str(tools)},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [r for r in records(done.stdout) if r[0] == "git"]


def test_approve_one_and_refuse_the_other_with_a_reason(screen: Screen, tmp_path: Path, home: Path) -> None:
    screen.armed("n reject", "install.sh")
    screen.child.send("n")
    screen.until(lambda: any("Why not?" in line for line in screen._screen.display), "the question for a reason")
    screen.child.send("nothing from the net, please")
    screen.armed("Enter reject", "Why not? nothing from the net, please")  # read by now: no newline of a paste follows
    screen.child.send("\r")
    screen.prove()
    screen.armed("y run once", "old-reports")
    screen.child.send("y")
    code, output = screen.end()
    assert code == 0, output
    assert ("curl", "ask", False) in records(output)
    assert ("rm", "ask", True) in records(output)
    told = [str(m["content"]) for m in trajectory(output)["messages"] if "refused" in str(m.get("content"))]
    assert len(told) == 1
    assert "nothing from the net, please" in told[0]
    assert "nothing from the net, please" in output
    assert leftovers(tmp_path, home) == []


@pytest.mark.long
def test_edit_what_it_would_delete(screen: Screen, tmp_path: Path, home: Path) -> None:
    screen.armed("n reject", "install.sh")
    screen.child.send("n")
    screen.armed("Enter reject")
    screen.child.send("\r")
    screen.prove()
    screen.armed("e edit", "old-reports")
    screen.child.send("e")
    screen.armed("Ctrl-S submit", "Change the command")
    screen.child.send("\x0becho kept")
    screen.armed("Ctrl-S submit", "1 echo kept")
    screen.child.send("\x13")
    code, output = screen.end()
    assert code == 0, output
    name = pwd.getpwuid(os.getuid()).pw_name
    assert f"changed by {name} to: echo kept" in output
    assert "✎ echo kept" in output
    assert f"not run: rejected by {name}" in output
    principal = f"os:{os.getuid()}:{name}"
    assert principal not in output  # the identity is for the log, the name for people
    info = trajectory(output)["info"]["supervision"]["records"]
    assert [(r["command"].split()[0], r["edited"]) for r in info if r["approver"]] == [
        ("curl", ""),
        ("rm", "echo kept"),
    ]
    assert {r["approver"] for r in info} == {"", principal}
    told = [str(m["content"]) for m in trajectory(output)["messages"] if "changed your command" in str(m["content"])]
    assert len(told) == 1
    assert leftovers(tmp_path, home) == []


@pytest.mark.long
def test_q_ends_the_run(screen: Screen, tmp_path: Path, home: Path) -> None:
    screen.armed("y run once", "install.sh")
    screen.child.send("y")
    screen.prove()
    screen.armed("q stop", "old-reports")
    screen.child.send("q")
    screen.armed("y stop")
    screen.child.send("y")
    code, output = screen.end()
    assert code == 1, output
    assert "The run ended SupervisionTerminated" in output
    assert records(output)[-2:] == [("curl", "ask", True), ("rm", "ask", False)]
    assert leftovers(tmp_path, home) == []


@pytest.mark.long
def test_ctrl_c_ends_the_run(screen: Screen, tmp_path: Path, home: Path) -> None:
    screen.armed("y run once", "install.sh")
    screen.child.sendintr()
    code, output = screen.end()
    assert code == 130, output
    assert "The run ended" in output
    assert "Audit events: hla audit query --run" in output
    assert leftovers(tmp_path, home) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.long)]
)
def test_other_signals_leave_nothing_behind(
    screen: Screen, tmp_path: Path, home: Path, number: signal.Signals, code: int
) -> None:
    screen.armed("y run once", "install.sh")
    screen.child.kill(number)
    assert screen.end()[0] == code
    assert leftovers(tmp_path, home) == []


@pytest.mark.parametrize(("policy", "complaint"), [("no-such-policy", "no-such-policy"), ("/dev/null", "/dev/null")])
def test_a_policy_that_can_not_be_used(
    environment: dict[str, str], tmp_path: Path, home: Path, policy: str, complaint: str
) -> None:
    done = children.run(
        [*HLA, "demo", "--policy", policy], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT
    )
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert leftovers(tmp_path, home) == []


def leftovers(tmp_path: Path, home: Path) -> list[Path]:
    """What the demo made outside the store."""
    return [*tmp_path.glob("hla-demo-*"), *home.glob(".cache/hla-demo-*")]
