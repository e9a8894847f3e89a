"""What holds the other end of a terminal: real programs, as this user and as an ordinary one."""

import itertools
import os
import pty
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.processes.multiplexer import UNKNOWN, multiplexer
from humanlayer_agent.testing.patience import until

ROOT = Path(__file__).parents[2]
LOOK = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from humanlayer_agent.processes.multiplexer import multiplexer
with open(sys.argv[1] + ".new", "w") as file:
    file.write(multiplexer())
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""
HIDE = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.prctl(15, sys.argv.pop(1).encode())  # PR_SET_NAME
libc.prctl(4, 0)  # PR_SET_DUMPABLE: what it is, and what it has open, is hidden from its own user
"""
SPAWN = """
import os, pty, sys
pty.spawn(sys.argv[1:], lambda fd: os.read(fd, 1024), lambda fd: b"")
"""
SERVED = """
import ctypes, os, pty, sys
libc = ctypes.CDLL(None)
theirs, own, group = sys.argv[1:4]
libc.prctl(15, theirs.encode())  # PR_SET_NAME
if os.fork():
    os.wait()
    sys.exit()
libc.prctl(15, own.encode())
pid, terminal = pty.fork()
if not pid:
    input()
    os.execvp(sys.argv[4], sys.argv[4:])
os.setgroups([])
os.setresgid(65534, int(group), int(group))
os.setresuid(65534, 65534, 65534)  # from here on it is hidden from its own user
os.write(terminal, b"\\n")
while os.read(terminal, 1024):
    pass
"""
VARIABLES = ("TMUX", "STY", "ZELLIJ", "KITTY_LISTEN_ON", "SSH_CONNECTION")
BARE = {name: value for name, value in os.environ.items() if name not in VARIABLES}
NOBODY = 65534

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root makes programs that others can't (allowed in CI)")


@pytest.fixture
def look(tmp_path: Path, ordinary_user: Callable[[str], list[str]]) -> Callable[..., str]:
    """Have a program hold a terminal at which another looks who holds it; gives what that saw."""
    numbers = itertools.count()

    def started(
        *holders: str | list[str], ordinary: bool = False, served: bool = False, env: dict[str, str] | None = None
    ) -> str:
        """Return what was seen.

        Args:
            holders: from the outermost; the path of a `script`, or a command that takes another after it.
            served: only what looks is the ordinary user's.
        """
        folder = tmp_path / f"look-{next(numbers)}"
        folder.mkdir()
        folder.chmod(0o777)
        *drop, python, _, source = ordinary_user(LOOK) if ordinary else [sys.executable, "-c", LOOK]
        (folder / "look.py").write_text(source)
        line, seen = [python, str(folder / "look.py"), str(folder / "seen")], folder / "seen"
        line = [*drop, *line] if served else line
        for holder in reversed(holders):
            line = [holder, "-qec", shlex.join(line), "/dev/null"] if isinstance(holder, str) else [*holder, *line]
        outer, theirs = pty.openpty()  # for what wants a terminal itself
        if ordinary and os.getuid() == 0:
            os.chown(os.ttyname(theirs), NOBODY, NOBODY)
        try:
            process = subprocess.Popen(
                [*(() if served else drop), *line], stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/",
                env=BARE | {"TERM": "xterm"} | (env or {}), start_new_session=True,
            )  # fmt: skip
            with process:
                until(lambda: seen.exists() or process.poll() not in (None, 0), "a look at the terminal")
                assert process.stderr is not None
                assert seen.exists(), process.stderr.read()
        finally:
            os.close(outer)
            os.close(theirs)
        return seen.read_text()

    return started


@pytest.fixture
def copied(tmp_path: Path) -> Callable[..., str]:
    """Make a copy of `script`, which is a program that holds a terminal, under another name."""

    def copy(name: str, owner: int = 0, mode: int = 0o755) -> str:
        path = tmp_path / "programs" / name
        path.parent.mkdir(exist_ok=True)
        shutil.copy(str(shutil.which("script")), path)
        if os.getuid() == 0:
            os.chown(path, owner, 5)
        path.chmod(mode)
        return str(path)

    return copy


both = pytest.mark.parametrize(
    "ordinary", [False, pytest.param(True, marks=pytest.mark.long)], ids=["this user", "an ordinary user"]
)
told = pytest.mark.parametrize("told", [True, False], ids=["with its variable", "without its variable"])


@both
def test_script_takes_orders(look: Callable[..., str], ordinary: bool) -> None:
    assert look("script", ordinary=ordinary) == "script"


@both
def test_a_program_that_nobody_knows_may_take_some(look: Callable[..., str], ordinary: bool) -> None:
    assert look([sys.executable, "-c", SPAWN], ordinary=ordinary).startswith("python")


@both
@told
def test_tmux_takes_orders(look: Callable[..., str], tmp_path: Path, ordinary: bool, told: bool) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    folder = tmp_path / "sockets"
    folder.mkdir()
    folder.chmod(0o777)
    new = ["tmux", "-f", "/dev/null", "-S", str(folder / "tmux"), "new-session", "-d"]
    assert look(new if told else [*new, "env", "-u", "TMUX"], ordinary=ordinary) == "tmux"


@both
@told
def test_screen_takes_orders(look: Callable[..., str], tmp_path: Path, ordinary: bool, told: bool) -> None:
    if shutil.which("screen") is None:
        pytest.skip("screen is not installed")
    folder = tmp_path / "screens"
    folder.mkdir(mode=0o700)
    if ordinary and os.getuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    new = ["screen", "-D", "-m"]
    env = {"SCREENDIR": str(folder), "HOME": str(folder)}
    assert look(new if told else [*new, "env", "-u", "STY"], ordinary=ordinary, env=env).lower() == "screen"


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("TMUX", "/run/x,1,0", "tmux"),
        ("STY", "1.pts-0", "screen"),
        ("ZELLIJ", "0", "zellij"),
        ("SSH_CONNECTION", "::1 40000 ::1 22", "ssh from this machine"),
    ],
)
def test_what_the_environment_says_is_enough(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, name: str
) -> None:
    for each in VARIABLES:
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(variable, value)
    assert multiplexer() == name


@needs_root
def test_ssh_from_elsewhere_is_a_login(look: Callable[..., str], copied: Callable[..., str]) -> None:
    elsewhere = {"SSH_CONNECTION": "192.0.2.7 40000 192.0.2.1 22"}
    assert look(copied("sshd"), env=elsewhere) == ""


def test_where_it_can_not_be_found_out(tmp_path: Path) -> None:
    """Without a terminal is one such case."""
    done = subprocess.run([sys.executable, "-c", LOOK, str(tmp_path / "seen")], env=BARE, start_new_session=True)
    assert done.returncode == 0
    assert (tmp_path / "seen").read_text() == UNKNOWN


# What takes no orders


@needs_root
@both
def test_a_terminal_emulator_takes_none(look: Callable[..., str], copied: Callable[..., str], ordinary: bool) -> None:
    assert look(copied("xterm"), ordinary=ordinary) == ""


@needs_root
def test_one_that_others_can_write_may_be_anything(look: Callable[..., str], copied: Callable[..., str]) -> None:
    for path in (copied("xterm", owner=NOBODY), copied("xterm", mode=0o777)):
        assert look(path, ordinary=True) == "xterm"


@needs_root
@pytest.mark.parametrize(
    ("root", "name", "group", "seen"),
    [
        ("sshd", "sshd", NOBODY, ""),  # a login
        ("gnome-shell", "xterm", 5, ""),  # Debian's, which writes into utmp; its screen does too
        ("gnome-shell", "screen", 5, "screen"),
        ("cron", "sshd", NOBODY, "sshd"),  # whose jobs give themselves what names they like
        ("sshd", "made-up", NOBODY, "made-up"),
    ],
)
def test_one_that_hides_is_believed_its_name_where_root_has_set_it_up(
    look: Callable[..., str], root: str, name: str, group: int, seen: str
) -> None:
    assert look([sys.executable, "-c", SERVED, root, name, str(group)], ordinary=True, served=True) == seen


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["xterm", "sshd", "sudo"])
def test_one_that_hides_otherwise_is_not(look: Callable[..., str], name: str) -> None:
    assert look([sys.executable, "-c", HIDE + SPAWN, name], ordinary=True) == name


@needs_root
def test_what_hands_on_counts_as_what_types_to_it(look: Callable[..., str], copied: Callable[..., str]) -> None:
    """`sudo` makes a terminal, and types there what it is typed itself."""
    assert look(copied("xterm"), copied("sudo")) == ""
    assert look("script", copied("sudo")) == "script"
