"""Children that run Python: `run`, `Popen` and `spawn` are those of `subprocess` and of pexpect, and start sooner.

A child whose program is `sys.executable` is forked of an interpreter which has our imports done (`fork_server`), one for
each way of starting it that is used twice (options, variables that Python reads at its start). A child of which the
caller names imports may be of another interpreter, and is forked from the first time on. What can't be had so
(`preexec_fn`, another system than Linux, another program) is started as `subprocess` does. Where a new interpreter is
what is tested, its imports or an installed script, use `subprocess` itself.
"""

import atexit
import fcntl
import functools
import importlib.util
import json
import os
import pkgutil
import platform
import pty
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pexpect
import ptyprocess

_SERVER = Path(__file__).with_name("fork_server.py")
_POSSIBLE = (
    sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64") and platform.libc_ver()[0] == "glibc"
)
_OPTIONS = ("-I", "-E", "-s", "-S", "-B", "-P", "-O", "-u")
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "GLIBC_", "MALLOC_")
"""Beginnings of the names of variables that the interpreter reads before any code runs."""
_READ_BY_IMPORTS = ("MSWEA_", "LITELLM_")
"""Those that modules read which a test has imported beforehand."""
_ROOT = str(Path(__file__).parents[2])
"""In PYTHONPATH, it makes no module another one: a child gets it into its `sys.path`, and needs no server for that."""
_LATER = (
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "cryptography.hazmat.primitives.ciphers.aead",
    "cryptography.hazmat.primitives.kdf.scrypt",
    "cryptography.hazmat.primitives.serialization",
    "humanlayer_agent.testing.approvers",
    "prompt_toolkit.input.vt100",
    "prompt_toolkit.key_binding.bindings.search",
    "rich.console",
    "tree_sitter",
    "tree_sitter_bash",
    "tree_sitter_javascript",
    "tree_sitter_typescript",
)
"""What our modules import within functions, and most programs come to."""
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
_LENGTH = struct.Struct("!I")
_REPLY = struct.Struct("!i")
_SURROUNDINGS = dict(os.environ)
_Start = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...], tuple[str, ...]]

MINI = ("humanlayer_agent.agents.mini", "minisweagent.environments.local", "minisweagent.models.test_models")
"""What a program imports that has mini run commands. A test that names it shares mini's own folder with others."""


class _Server:
    """An interpreter that forks itself on demand, with what was imported in it."""

    def __init__(
        self, program: str, options: Sequence[str], environ: Mapping[str, str], modules: Sequence[str], forked: bool
    ) -> None:
        self._lock = threading.Lock()
        self._connection, theirs = socket.socketpair()
        with theirs:
            self._process = (Popen if forked else subprocess.Popen)(
                [program, *options, str(_SERVER), str(theirs.fileno()), json.dumps(modules)],
                env=environ, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip
        atexit.register(self.end)

    def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> int:
        """The pid of the new child. It is ours, with its files, session and signals as asked for."""
        data = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._connection, [_LENGTH.pack(len(data))], descriptors)
            self._connection.sendall(data)
            reply = self._connection.recv(_REPLY.size, socket.MSG_WAITALL)
        assert len(reply) == _REPLY.size, "the fork server ended"
        pid: int = _REPLY.unpack(reply)[0]
        if pid < 0:
            raise OSError(-pid, f"{os.strerror(-pid)}, in the fork server")
        return pid

    def end(self) -> None:
        self._connection.close()
        self._process.wait()


_servers: dict[_Start, _Server] = {}
_used: Counter[_Start] = Counter()
_mine = threading.RLock()


def _server(start: _Start) -> _Server | None:
    """The one for this way of starting; None for the first child of ours, for which alone it would not pay."""
    program, options, environ, imports = start
    with _mine:
        _used[start] += 1
        if start not in _servers and (imports or _used[start] > 1):
            read = (*_READ_AT_START, *_READ_BY_IMPORTS)
            surroundings = {k: v for k, v in _SURROUNDINGS.items() if not k.startswith(read)}
            modules = [*(_ours() if program == sys.executable else ()), *imports]
            # One with imports of its own is forked of the one that has ours alone, where that is there.
            _servers[start] = _Server(program, options, surroundings | dict(environ), modules, bool(imports))
        return _servers.get(start)


@functools.cache
def _ours() -> list[str]:
    """The package's modules, but for those that other packages' agents are needed for, and programs of their own."""
    import humanlayer_agent

    found = [
        m.name for m in pkgutil.walk_packages(humanlayer_agent.__path__, "humanlayer_agent.", onerror=lambda _: None)
    ]
    foreign = (".adapters", ".mini", ".harbor", ".docker", ".harness", ".testing", ".__main__", ".cli.report")
    web = () if importlib.util.find_spec("starlette") and importlib.util.find_spec("uvicorn") else (".web",)
    return [*_LATER, *(name for name in found if not any(part in name for part in (*foreign, *web)))]


def _fork(
    argv: Sequence[Any], environ: Mapping[Any, Any] | None, folder: Any, descriptors: Mapping[int, int], imports: Sequence[str],
    *, session: bool = False, group: int = -1, terminal: str = "", umask: int = -1,
) -> int | None:  # fmt: skip
    """A child that runs `argv`; None where only a new interpreter can.

    Args:
        descriptors: the number in the child -> ours.
        terminal: the path of one for the child's session, from which it reads and to which it writes.
    """
    words = [os.fsdecode(each) for each in argv]
    if not _POSSIBLE or (words[0] != sys.executable and not imports):
        return None
    rest = words[1:]
    options = []
    while rest and rest[0] in _OPTIONS:
        options.append(rest.pop(0))
    way = rest.pop(0) if rest and rest[0] in ("-c", "-m") else "file"
    if not rest or (way == "file" and rest[0].startswith("-")):
        return None
    variables = {os.fsdecode(k): os.fsdecode(v) for k, v in (os.environ if environ is None else environ).items()}
    if "PYTHONINSPECT" in variables:
        return None
    read = _at_start(variables)
    path = []
    if read.get("PYTHONPATH") == _ROOT and not {"-I", "-E"} & {*options}:
        path.append(read.pop("PYTHONPATH"))
    if imports:
        read |= {name: value for name, value in variables.items() if name.startswith(_READ_BY_IMPORTS)}
    server = _server((words[0], tuple(options), tuple(sorted(read.items())), tuple(imports)))
    if server is None:
        return None
    status = dict(
        line.split(":\t", 1) for line in Path("/proc/thread-self/status").read_text().splitlines() if ":\t" in line
    )
    request = {
        "argv": words, "way": way, "what": rest[0], "arguments": rest[1:], "path": path, "environ": list(variables.items()),
        "descriptors": list(descriptors), "session": session, "group": group, "terminal": terminal,
        "umask": umask if umask >= 0 else int(status["Umask"], 8),
        "limits": [(number, resource.getrlimit(number)) for number in _LIMITS],
        "ignored": _signals(status["SigIgn"]), "blocked": _signals(status["SigBlk"]),
    }  # fmt: skip
    place = os.open("." if folder is None else folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return server.fork(request, [place, *descriptors.values()])
    finally:
        os.close(place)


def _at_start(variables: Mapping[str, str]) -> dict[str, str]:
    """What the interpreter makes of these variables before any code runs, in one spelling."""
    found = {k: v for k, v in variables.items() if k.startswith(_READ_AT_START)}
    # All that it asks of a locale is how characters are written.
    kind = next((v for k in ("LC_ALL", "LC_CTYPE", "LANG") if (v := found.get(k))), "")
    legacy = found.get("LC_ALL", "") if kind in ("C", "POSIX") else ""  # then it takes another for it, if it may
    found = {k: v for k, v in found.items() if not k.startswith(("LC_", "LANG"))}
    return found | ({"LC_ALL": legacy} if legacy else {"LANG": kind} if kind not in ("", "C", "POSIX") else {})


def _signals(mask: str) -> list[int]:
    """Those in a mask as /proc shows it; without the two that Python ignores for itself."""
    bits = int(mask, 16)
    return [n for n in signal.valid_signals() if bits >> (n - 1) & 1 and n not in (signal.SIGPIPE, signal.SIGXFSZ)]


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, of which a Python program starts with its imports done.

    Args:
        imports: what is imported beforehand besides our own modules: modules that take long and read no variable that
            differs between tests. With them, the program may be another Python, of which nothing else is imported.
    """

    def __init__(self, *args: Any, imports: Sequence[str] = (), **named: Any) -> None:
        self._imports = imports
        super().__init__(*args, **named)

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if kind is not None:  # or a test that failed would wait for a program that nobody ends
            self.kill()
        super().__exit__(kind, *rest)

    def _execute_child(  # type: ignore[no-untyped-def]
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid, umask,
        start_new_session, process_group,
    ) -> None:  # fmt: skip
        simple = isinstance(args, list | tuple) and close_fds and restore_signals
        other = (executable, preexec_fn, gid, gids, uid, shell or None)
        pid = None
        if simple and all(each is None for each in other):
            ours = {0: p2cread, 1: c2pwrite, 2: errwrite}
            streams = {number: number if fd == -1 else fd for number, fd in ours.items()}
            streams |= {fd: fd for fd in pass_fds}
            pid = _fork(
                args, env, cwd, streams, self._imports, session=start_new_session, group=process_group, umask=umask
            )
        if pid is None:
            super()._execute_child(  # type: ignore[misc]
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
                p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid, umask,
                start_new_session, process_group,
            )  # fmt: skip
            return
        self.pid = pid
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


def run(
    command: Sequence[Any], *, input: Any = None, capture_output: bool = False, timeout: float | None = None, check: bool = False,
    **named: Any,
) -> subprocess.CompletedProcess[Any]:  # fmt: skip
    """`subprocess.run`, over this module's `Popen`."""
    if input is not None:
        named["stdin"] = subprocess.PIPE
    if capture_output:
        named |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(command, **named) as process:
        out, err = process.communicate(input, timeout=timeout)
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class spawn(pexpect.spawn):  # noqa: N801 - it stands for the class it is made from
    """`pexpect.spawn`, of which a Python program starts with its imports done."""

    def __init__(self, *args: Any, imports: Sequence[str] = (), **named: Any) -> None:
        self._imports = imports
        super().__init__(*args, use_poll=True, **named)  # select() takes no descriptor above 1023

    def _spawnpty(self, args: list[Any], **named: Any) -> Any:
        unusual = named["preexec_fn"] or not named["echo"]
        master, slave = pty.openpty()
        name = os.ttyname(slave)
        os.close(slave)
        size = named.get("dimensions") or (24, 80)
        fcntl.ioctl(master, 0x5414, struct.pack("HHHH", *size, 0, 0))  # TIOCSWINSZ
        env, cwd = named.get("env"), named.get("cwd")
        pid = None if unusual else _fork(args, env, cwd, {}, self._imports, session=True, terminal=name)
        if pid is None:
            os.close(master)
            return super()._spawnpty(args, **named)
        process = ptyprocess.PtyProcess(pid, master)
        process.argv, process.env, process.launch_dir = args, env, cwd
        return process
