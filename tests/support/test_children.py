"""A child that is forked of the server is what a new interpreter would be."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from humanlayer_agent.testing.patience import until
from tests.support import children

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere each child is a new interpreter: allowed in CI"
)

LOOK = """
import gc, json, os, resource, signal, sys, threading
def tty():
    try:
        return os.ttyname(os.open("/dev/tty", os.O_RDWR)) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError as error:
        return error.errno
def stream(s):
    return s and [s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.newlines, s.fileno(), s.isatty(),
                  s.closed, type(s.buffer).__name__, s.buffer.name, raw(s).name, raw(s).mode, raw(s).closefd]
def raw(s):
    return getattr(s.buffer, "raw", s.buffer)
def proc(name):
    with open("/proc/self/" + name, "rb") as file:
        return file.read().decode(errors="surrogateescape")
main = sys.modules["__main__"]
seen = {
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "flags": str(sys.flags), "environ": dict(os.environ),
    "cmdline": proc("cmdline"), "environment": sorted(proc("environ").split("\\0")), "comm": proc("comm"),
    "descriptors": sorted(os.listdir("/proc/self/fd")), "cwd": os.getcwd(), "umask": os.umask(0), "parent": os.getppid(),
    "leads": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()], "group": os.getpgid(os.getppid()) == os.getpgrp(),
    "limits": [resource.getrlimit(n) for n in range(10)], "handlers": {n: str(signal.getsignal(n)) for n in range(1, 65)},
    "blocked": [*signal.pthread_sigmask(signal.SIG_BLOCK, ())], "threads": threading.active_count(), "gc": gc.get_threshold(),
    "native": threading.get_native_id() == os.getpid() == threading.main_thread().native_id, "tty": tty(),
    "streams": [stream(s) for s in (sys.stdin, sys.stdout, sys.stderr)], "same": sys.stdout is sys.__stdout__,
    "main": sorted(set(vars(main)) - {"__annotations__"}), "name": __name__, "doc": main.__doc__, "spec": main.__spec__ and [main.__spec__.name, main.__spec__.origin],
    "file": getattr(main, "__file__", None), "hook": sys.excepthook is sys.__excepthook__, "loader": str(main.__loader__)[:50],
    "status": [line for line in proc("status").splitlines() if line.startswith(("Sig", "Cap", "NoNew", "Seccomp"))][2:],
}
data = json.dumps(seen, sort_keys=True)
with open(seen["environ"]["SAYS"], "w") as file:
    file.write(data)
"""
Look = Callable[..., Any]


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    monkeypatch.setenv("SAYS", str(tmp_path / "says"))

    def look(start: Callable[..., Any], arguments: list[str], **options: Any) -> dict[str, Any]:
        """What a child sees that is started like this."""
        with start([sys.executable, *arguments], **options) as process:
            process.communicate(timeout=300)
        assert process.returncode == 0
        return json.loads((tmp_path / "says").read_text())  # type: ignore[no-any-return]

    return look


WAYS = {
    "code": ["-c", LOOK, "one", "--two", ""],
    "isolated": ["-I", "-c", LOOK],
    "module": ["-m", "looking", "one"],
    "unbuffered": ["-I", "-u", "-c", LOOK],
    "package": ["-m", "looked", "one"],
    "file": ["looking.py", "one"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "looked").mkdir(parents=True)
    for name in ("looking.py", "looked/__main__.py", "looked/__init__.py"):
        (folder / name).write_text('"""Of its own."""\n' + LOOK if "init" not in name else "")
    return folder


@pytest.mark.long
def test_nothing_tells_them_apart(look: Look, folder: Path) -> None:
    reading, writing = os.pipe()
    cases: list[dict[str, Any]] = [
        {},
        {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT},
        {"stdin": subprocess.PIPE, "start_new_session": True, "pass_fds": [reading]},
        {"process_group": 0, "umask": 0o27},
        {
            "env": {"SAYS": os.environ["SAYS"], "LC_ALL": "C.UTF-8", "ODD\udcff": "\udcfe =x"},
            "stdout": subprocess.DEVNULL,
        },
        {"env": {"SAYS": os.environ["SAYS"], "PYTHONPATH": str(folder), "LC_ALL": "C"}},
        {"env": {"SAYS": os.environ["SAYS"], "PYTHONPATH": str(Path(__file__).parents[2]), "LC_ALL": "C.UTF-8"}},
    ]
    for case in cases:
        for way, arguments in WAYS.items():
            options = {"cwd": folder, "env": dict(os.environ), **case}
            for _ in range(2):
                got = look(children.Popen, arguments, **options)
            assert got == look(subprocess.Popen, arguments, **options), f"{way}, {case}"
    os.close(reading)
    os.close(writing)


def test_signals_limits_and_masks_are_those_of_who_starts_it(look: Look, folder: Path) -> None:
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    mask = os.umask(0o77)
    try:
        got = [
            look(start, WAYS["code"], cwd=folder, env=dict(os.environ))
            for start in (children.Popen, children.Popen, subprocess.Popen)
        ]
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.umask(mask)
    assert got[1] == got[2]
    assert (got[1]["umask"], got[1]["blocked"]) == (0o77, [signal.SIGUSR1])


def test_a_test_that_fails_does_not_wait_for_a_program_that_nobody_ends() -> None:
    with pytest.raises(AssertionError), children.Popen(["sleep", "600"]) as process:
        raise AssertionError
    assert process.returncode == -signal.SIGKILL


ENDS = {
    "exit code": "import sys; sys.exit(7)",
    "exit message": "import sys; sys.exit('no')",
    "uncaught": "def f():\n  raise ValueError('no')\nprint('before', flush=True)\nf()",
    "syntax": "1 +",
    "own hook": "import sys\nsys.excepthook = lambda *a: print('mine', a[1], a[2].tb_frame.f_code.co_name)\nraise KeyError(1)",
    "interrupted": "import os, signal; os.kill(os.getpid(), signal.SIGINT); input()",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "aborted": "import os; os.abort()",
    "raised": "import signal; signal.raise_signal(signal.SIGTERM)",
    "nothing is lost": "import atexit, sys, threading\nprint('unflushed')\nf = open(sys.argv[1], 'w')\nf.write('kept')\n"
    "atexit.register(print, 'last')\nthreading.Thread(target=lambda: print('joined')).start()",
    "closed at last": "import sys\ndef main():\n  kept = [open(sys.argv[1], 'w')]\n  kept.append(kept)\n  kept[0].write('kept')\n"
    "  sys.exit(3)\nmain()",
    "nobody reads": "import os\nread, write = os.pipe()\nos.close(read)\nos.dup2(write, 1)\nprint('unflushed')",
    "reads": "import sys; print(repr(sys.stdin.read()), repr(input))",
    "random": "import random, uuid, tempfile; print(random.random() == random.random(), tempfile.tempdir)",
    "children": "import os, subprocess\npid = os.fork()\npid or os._exit(3)\nprint(os.waitpid(pid, 0)[1])\n"
    "print(subprocess.run(['sh', '-c', 'echo $0; ls /proc/self/fd | wc -l'], capture_output=True).stdout)",
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("program", ENDS.values(), ids=ENDS)
def test_it_ends_alike(program: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", program, str(tmp_path / "file")]
    got = []
    for run in (subprocess.run, children.run, children.run):
        done = run(command, input="a\r\nb", capture_output=True, text=True, timeout=300)
        kept = (tmp_path / "file").read_text() if (tmp_path / "file").exists() else None
        got.append((done.returncode, done.stdout, done.stderr, kept))
    assert got[0] == got[1] == got[2]


def test_random_numbers_are_its_own() -> None:
    command = [sys.executable, "-c", "import random, uuid, os; print(random.random(), uuid.uuid4(), os.urandom(4))"]
    assert len({children.run(command, capture_output=True, timeout=300).stdout for _ in range(4)}) == 4


def test_on_a_terminal(look: Look, tmp_path: Path) -> None:
    seen = []
    for spawn in (pexpect.spawn, children.spawn, children.spawn):
        child = spawn(
            sys.executable,
            ["-c", LOOK + "print(os.get_terminal_size(), input('? '))"],
            timeout=300,
            dimensions=(30, 90),
            env=os.environ,
        )
        child.expect_exact("? ")
        child.sendline("yes")
        child.expect(pexpect.EOF)
        child.close()
        seen.append([child.exitstatus, child.before, json.loads((tmp_path / "says").read_text())])
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][2]["tty"] is True


def test_a_closed_terminal_hangs_up() -> None:
    for spawn in (pexpect.spawn, children.spawn, children.spawn):
        child = spawn(sys.executable, ["-c", "print('here', flush=True); input()"], timeout=300)
        child.expect_exact("here")
        child.ptyproc.fileobj.close()  # its own `close` gives up where a busy machine takes half a second
        until(lambda child=child: not child.isalive(), "its end")
        assert child.signalstatus == signal.SIGHUP


def test_it_is_forked() -> None:
    """All of the above would hold as well if each were a new interpreter."""
    command = [sys.executable, "-c", "import sys; print('humanlayer_agent.policy' in sys.modules)"]
    assert [children.run(command, capture_output=True, text=True).stdout for _ in range(2)][1] == "True\n"


@pytest.mark.parametrize("wrong", [{"cwd": "/no/such/folder"}, {"cwd": "/etc/passwd"}, {"pass_fds": [999]}])
def test_what_can_not_be_started(wrong: dict[str, Any]) -> None:
    for run in (subprocess.run, children.run, children.run):
        with pytest.raises(OSError, match=r"No such|Not a dir|Bad file"):
            run([sys.executable, "-c", "pass"], **wrong).check_returncode()
