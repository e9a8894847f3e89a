"""Runs one judged command on this machine, and keeps it away from the supervisor.

The command gets its own session without a terminal, nothing to read on stdin, an environment of listed variables
only, and its stdout and stderr in one pipe. When it ends, times out or is interrupted, `reaper` ends what it started;
a confined one is in a `namespace`, which ends as a whole.
"""

import contextlib
import logging
import marshal
import math
import os
import selectors
import shutil
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import IO, Any, Protocol

from humanlayer_agent.confine.bubblewrap import Enclosure
from humanlayer_agent.confine.confinement import Unenforceable
from humanlayer_agent.confine.journal import MovedAside
from humanlayer_agent.confine.landlock import Restriction
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.locations import PASSPHRASE_VARIABLE, is_inside
from humanlayer_agent.processes import reaper
from humanlayer_agent.processes.file_swaps import JudgedFiles, WorkingDirectory
from humanlayer_agent.processes.memory_protection import protect_secrets
from humanlayer_agent.processes.namespace import Namespace
from humanlayer_agent.processes.process_tree import Brood, First, start_reaper
from humanlayer_agent.processes.tool_variables import is_listed
from humanlayer_agent.shell import keeps_ascii

OUTPUT_LIMIT = 10_000_000
"""Bytes of output that are kept: the first and the last half of it."""

SUPERVISED = "HUMANLAYER_SUPERVISED"
"""Set to 1 in the environment of every supervised command."""

_MARK = f"{SUPERVISED}=1"

_CHANGES_THE_SHELL = frozenset(
    {
        *("ENV", "SHELLOPTS", "POSIXLY_CORRECT", "CDPATH", "GLOBIGNORE", "EXECIGNORE", "IFS", "PS4"),
        *("TEXTDOMAIN", "TEXTDOMAINDIR"),  # $"..." is translated
    }
)

_LOCALES = "bash reads them in that character set, and they are judged as UTF-8 (use C.UTF-8, or another with UTF-8)"

_GO = b"\n"
_REAPER_ENDS_S = reaper.KILL_S + 2
_LOOK_S = 0.2
"""Seconds between two looks at how much a held run has written."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The end of a command.

    Args:
        output: of both streams; of very much, the first and the last part.
        returncode: negative for a signal, and None where nobody saw its end.
        timed_out: it was killed because it took too long.
        unwatched: it has ended or deceived the process that watches over it: what it did then nobody knows.
        left: so many processes could not be ended with it (those of another user).
        duration_ms: milliseconds it took.
        moved: what a confined one has left at protected places, and where it is now.
        lost: names in the home folder that a confined one has made there: nothing of it is kept.
        note: what to tell whoever proposed it besides its output.
        network: how many connections were forwarded for it (`reached`), and how many were not (`refused`), by host.
        directory: where its shell was when it ended, for a `Caller`; "" where that is not known, or is only there for a
            confined command.
        filled: it was ended because it had written, or started, more than it may.
        tried: what it has tried that a held run can't show: "the network", "processes that go on".
    """

    output: str
    returncode: int | None
    timed_out: bool = False
    unwatched: bool = False
    left: int = 0
    duration_ms: int = 0
    moved: tuple[MovedAside, ...] = ()
    lost: tuple[str, ...] = ()
    note: str = ""
    network: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    directory: str = ""
    filled: bool = False
    tried: tuple[str, ...] = ()


class Caller(Protocol):
    """Whoever waits for a command as for one of their own: gets what it writes at once, and passes signals on.

    `umask` is theirs, and `gone` says that they wait no longer: that ends the command.
    """

    umask: int
    gone: bool

    def fileno(self) -> int:
        """Return what can be read when there is something to `receive`."""
        ...

    def receive(self) -> list[int]:
        """Return the signals that the command is to get."""
        ...

    def write(self, stream: int, data: bytes) -> None:
        """Pass on what the command has written to standard output (1) or standard error (2)."""
        ...


def changes_the_shell(name: str) -> bool:
    """Tell whether a variable of this name changes what bash makes of a command line.

    Such a variable is never passed, whoever asks for it: the command would not mean what was judged.
    """
    return name in _CHANGES_THE_SHELL or name.startswith("BASH")


def _is_locale(name: str) -> bool:
    """Tell whether it says in which character set a shell reads."""
    return name in ("LANG", "LC_ALL", "LC_CTYPE")


def command_environment(
    environ: Mapping[str, str],
    extra_env: Mapping[str, str] | None = None,
    pass_env: Iterable[str] = (),
    project: str = "",
    *,
    inherits: Callable[[str, str], bool] = is_listed,
) -> dict[str, str]:
    """The environment of a supervised command. Git is told by it to take no folder for a bare repository by its looks.

    Args:
        environ: our own environment, of which variables are taken as `inherits` says. Its PATH is taken as `safe_path`
            says, and a locale only where bash reads commands in it as they were judged.
        extra_env: variables set for commands on purpose (the `env:` of mini's environment).
        pass_env: further names that are taken from `environ`.
        project: the directory the agent works for.
        inherits: tells of a name and its value whether it is taken from `environ`; what would change how bash reads
            the command never is.

    Raises:
        ConfigError: a name that would change how bash reads the command, such as BASH_ENV, a locale that would, or the
            name of the variable which says where the user's passphrase is.

    Example:
        >>> env = command_environment({"PATH": "/bin", "OPENAI_API_KEY": "sk"}, {"PAGER": "cat"})
        >>> {name: value for name, value in env.items() if not name.startswith("GIT_CONFIG")}
        {'PATH': '/bin', 'PAGER': 'cat', 'HUMANLAYER_SUPERVISED': '1'}
    """
    wanted = set(pass_env)
    extra = dict(extra_env or {})
    for name in sorted(wanted | extra.keys()):
        if changes_the_shell(name):
            raise ConfigError(
                f"{name} can't be passed to supervised commands: it changes how bash reads them, "
                "and then they would not do what was judged. Remove it from `env` and `pass_env`."
            )
        if _is_locale(name) and not keeps_ascii(value := extra.get(name, environ.get(name, ""))):
            raise ConfigError(f"{name}={value} can't be passed to supervised commands: {_LOCALES}")
        if name == PASSPHRASE_VARIABLE:
            raise ConfigError(f"{name} can't be passed to supervised commands: remove it from `env` and `pass_env`.")
    taken = {
        name: value
        for name, value in environ.items()
        if name in wanted
        or (keeps_ascii(value) if _is_locale(name) else inherits(name, value) and not changes_the_shell(name))
    }
    if path := taken.get("PATH"):
        taken["PATH"] = safe_path(path, project)
    return _without_bare_repositories(taken | extra) | {SUPERVISED: "1"}


def _without_bare_repositories(env: dict[str, str]) -> dict[str, str]:
    """A folder that looks like a bare repository may have a configuration that runs code: git is to be told of it.

    https://git-scm.com/docs/git-config#Documentation/git-config.txt-safebareRepository
    """
    said = env.get("GIT_CONFIG_COUNT", "0")
    count = int(said) if said.isascii() and said.isdigit() else 0
    return env | {
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": _BARE,
        f"GIT_CONFIG_VALUE_{count}": "explicit",
    }


def _with_bare_repositories(env: Mapping[str, str]) -> dict[str, str]:
    """Take that back for a command that is confined: tests of what works with git make such repositories, and what the
    settings of one would run reaches no more than the test itself.
    """
    last = int(env.get("GIT_CONFIG_COUNT", "0")) - 1
    ours = env.get(f"GIT_CONFIG_KEY_{last}") == _BARE
    return {**env, f"GIT_CONFIG_VALUE_{last}": "all"} if ours else dict(env)


_BARE = "safe.bareRepository"


@lru_cache(maxsize=64)
def safe_path(path: str, project: str) -> str:
    """PATH without the directories where an agent may put programs unasked: then `ls` is the `ls` that was judged.

    What is not absolute goes, and what lies in the project but for the folders of its environments (virtual
    environments, node_modules): the shipped policies ask before those are changed. It is said once.

    Example:
        >>> safe_path("/usr/bin:.:/bin", "/srv/app")
        '/usr/bin:/bin'
    """
    kept: list[str] = []
    left_out: list[str] = []
    for folder in path.split(os.pathsep):
        (left_out if _is_the_agents(folder, project) else kept).append(folder)
    if left_out:
        logging.getLogger("humanlayer_agent").warning(
            "Warning: PATH of supervised commands is without %s: the agent could put programs there. "
            "Set PATH in the environment's `env` where they are needed.",
            ", ".join(repr(folder) for folder in left_out),
        )
    return os.pathsep.join(kept)


def _is_the_agents(folder: str, project: str) -> bool:
    if not os.path.isabs(folder):
        return True
    if not project or not is_inside(Path(folder), Path(project)):
        return False
    above = Path(os.path.abspath(folder)).parent
    return not (
        (above / "pyvenv.cfg").is_file()
        or (above / "conda-meta").is_dir()
        or folder.rstrip("/").endswith("/node_modules/.bin")
    )


def run_command(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout: float,
    judged: JudgedFiles | None = None,
    keep_background: bool = False,
    output_limit: int = OUTPUT_LIMIT,
    confinement: Enclosure | None = None,
    restriction: Restriction | None = None,
    caller: Caller | None = None,
) -> CommandResult:
    """Run `argv` and wait for its end. Whatever happens, the command is not running afterwards.

    Args:
        argv: program and arguments; the program is looked up by `find_program`.
        cwd: an existing directory.
        env: its whole environment (see `command_environment`).
        timeout: seconds until it is killed; the result then has the output so far.
        judged: what it was judged by: it starts only where that is still so, in the directory that was judged.
        keep_background: leave alone what the command still has running when it ends.
        output_limit: bytes of output to keep.
        confinement: what the command is started in: it can reach nothing else. Nothing that it starts outlives it.
        restriction: what the command is held to where there is no `confinement`.
        caller: who waits for it, where that is another process; only of bash that runs confined.

    Raises:
        OSError: it can't be started (no such directory, argument list too long, ...).
        Unenforceable: it was not started, because the confinement can't be enforced here.
        ValueError: a NUL or a lone surrogate in `argv`, `cwd` or `env`.
        NotAsJudged: it was not started, because a file or the directory is not what was judged.
    """
    output = _Bounded(output_limit)
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        directory = (judged.directory if judged else WorkingDirectory.at(cwd)).open()
        stack.callback(os.close, directory)
        if confinement and confinement.takes_bare_repositories:
            env = _with_bare_repositories(env)
        program, encoded, pairs = _encoded(argv, env)
        moved = stack.enter_context(confinement.journal()) if confinement else []
        watch: _Watch | Namespace
        with contextlib.ExitStack() as started:
            pipe, writer = _pipe(stack, started)
            sinks: dict[int, Callable[[bytes], None]] = {pipe: output.add}
            errors = writer
            if caller is not None:
                pipe_of_errors, errors = _pipe(stack, started)
                sinks = {pipe: output.passing_to(caller, 1), pipe_of_errors: output.passing_to(caller, 2)}
            if confinement is None and caller is not None:
                raise Unenforceable("nobody else waits for what is not confined")
            if confinement is None:
                ruleset = [stack.enter_context(restriction.ruleset())] if restriction else []
                calls = restriction.calls() if restriction else None
                request = ([program, *encoded], pairs, keep_background, int(signal.SIGSTOP), calls)
                watch = _Watch(request, [directory, *ruleset], writer, keep_background=keep_background)
            elif keep_background:
                raise Unenforceable("nothing that a confined command starts can outlive it (keep_background)")
            else:
                shell = os.fsencode(find_program("bash"))
                watch = Namespace(
                    confinement,
                    shell=shell,
                    program=program,
                    argv=encoded,
                    cwd=cwd,
                    env=pairs,
                    mark=_MARK,
                    output=writer,
                    errors=errors,
                    is_shell=caller is not None,
                    umask=caller.umask if caller is not None else -1,
                )
        try:
            if watch.is_ready(begin + timeout):
                if judged:
                    judged.check()
                    if isinstance(watch, Namespace):
                        judged.check_inside(watch.view)
                watch.start(directory)
                filled = confinement.is_full if confinement is not None and confinement.is_layered else None
                _follow(watch, sinks, begin + timeout, caller, filled)
        finally:
            watch.end()
        for pipe, sink in sinks.items():
            _drain(pipe, sink)
    if watch.refused:
        raise Unenforceable(f"the confinement can't be enforced here: {output.text().strip()}")
    if watch.error:
        raise OSError(watch.error, os.strerror(watch.error), argv[0])
    return CommandResult(
        output=output.text(),
        returncode=watch.returncode,
        timed_out=watch.timed_out,
        unwatched=watch.unwatched,
        left=watch.left,
        duration_ms=int((time.monotonic() - begin) * 1000),
        moved=tuple(moved),
        network=watch.reached if isinstance(watch, Namespace) else {},
        lost=watch.lost,
        directory=watch.directory,
        filled=confinement is not None and confinement.is_layered and watch.timed_out and confinement.is_full(),
        tried=watch.tried if isinstance(watch, Namespace) else (),
    )


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, IO[bytes]]:
    """A pipe, each of whose ends is open until that stack is left."""
    read_end, write_end = os.pipe()
    reader.callback(os.close, read_end)
    return read_end, writer.enter_context(open(write_end, "wb", buffering=0))


@cache
def find_program(name: str) -> str:
    """The absolute path of `name`: the system's own before anything on PATH, which may lie in the project.

    Raises:
        ConfigError: there is none.
    """
    found = shutil.which(name, path=os.confstr("CS_PATH")) or shutil.which(name)
    if found is None:
        raise ConfigError(f"{name} was not found on this machine: supervised commands can't be run without it")
    return os.path.abspath(found)


@cache
def warn_unless_protected() -> None:
    """Hide our memory and environment from commands, and say so once where that does not hold."""
    protection = protect_secrets()
    if not protection.holds:
        logging.getLogger("humanlayer_agent").warning(
            "Warning: agent commands can read the secrets of this process: %s.", protection.why_not
        )


def _encoded(argv: Sequence[str], env: Mapping[str, str]) -> tuple[bytes, list[bytes], dict[bytes, bytes]]:
    """The program, its arguments and its environment as they are given to the kernel."""
    # UTF-8 whatever our locale is: the model's text is Unicode, and was judged as such.
    encoded = [part.encode("utf-8", "surrogateescape") for part in argv]
    pairs = {k.encode("utf-8", "surrogateescape"): v.encode("utf-8", "surrogateescape") for k, v in env.items()}
    if any(b"\0" in text for text in (*encoded, *pairs, *pairs.values())):
        raise ValueError("embedded null byte")
    return os.fsencode(find_program(argv[0])), encoded, pairs


class _Watch:
    """The supervisor's end of one reaper."""

    alarm = math.inf
    refused = False
    lost: tuple[str, ...] = ()
    directory = ""

    def __init__(
        self,
        request: tuple[Any, ...],
        descriptors: Sequence[int],
        output: IO[bytes],
        *,
        keep_background: bool,
        errors: IO[bytes] | None = None,
    ) -> None:
        self.keep_background = keep_background
        self._request, self._descriptors = marshal.dumps(request), descriptors

        def start() -> First:
            first, self.control = start_reaper(output, errors or output)
            return first

        self.brood = Brood(start, mark=_MARK)
        self.returncode: int | None = None
        self.left = 0
        self.error = 0
        self.timed_out = False
        self.unwatched = False
        self.ready = False
        self.reported = False
        self.gone = False
        self._received = b""

    @property
    def finished(self) -> bool:
        return self.reported or self.gone

    def fileno(self) -> int:
        return self.control.fileno()

    def start(self, directory: int) -> None:
        """Tell the reaper to start the command; where, it knows."""
        self.control.sendall(_GO)

    def receive(self) -> None:
        """Take in what the reaper reports; the end of the stream is its own end."""
        try:
            data = self.control.recv(4096)
        except ConnectionError:
            data = b""
        self.gone |= not data
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            word, *numbers = line.split()
            values = [int(n) for n in numbers]
            if word == b"ready":
                self.ready = True
                continue
            self.reported = True
            if word == b"end":
                self.returncode, self.left = values
            elif word == b"killed":
                (self.left,) = values
            else:
                (self.error,) = values

    def is_ready(self, deadline: float) -> bool:
        """Wait until the reaper can start the command at once, or has ended; False where the time is up before."""
        socket.send_fds(self.control, [len(self._request).to_bytes(8, "big")], self._descriptors)
        self.control.sendall(self._request)
        while not (self.ready or self.gone):
            self.control.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                self.receive()
            except TimeoutError:
                self.timed_out = True
                return False
        self.control.settimeout(None)
        return True

    def end(self) -> None:
        """Make the reaper kill what still runs, and make sure that it did."""
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_WR)
        self.control.settimeout(_REAPER_ENDS_S)
        with contextlib.suppress(TimeoutError):  # it was stopped
            while not self.finished:
                self.receive()
        orphans = self.brood.end(reported=self.reported, keep_background=self.keep_background)
        self.control.close()
        self.unwatched = not self.reported or orphans > 0


class PipedProgram:
    """A program that somebody talks to by its standard input and output, for as long as it runs; its standard error is
    ours. Whatever happens, kill -9 of this process included, nothing of it is running afterwards.

    Args:
        argv: program and arguments; the program is looked up by `find_program`.
        cwd: an existing directory.
        env: its whole environment (see `command_environment`).

    Attributes:
        stdin: what it reads; ours to write to, and to close.
        stdout: what it writes, up to its end; ours to read from, and to close.

    Raises:
        ConfigError: there is no such program.
        OSError: there is no such directory.
    """

    def __init__(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> None:
        program, encoded, pairs = _encoded(argv, env)
        with contextlib.ExitStack() as failed, contextlib.ExitStack() as theirs:
            directory = WorkingDirectory.at(cwd).open()
            theirs.callback(os.close, directory)
            stdin, ours = os.pipe()
            theirs.callback(os.close, stdin)
            self.stdin = failed.enter_context(open(ours, "wb", buffering=0))
            ours, output = os.pipe()
            self.stdout = failed.enter_context(open(ours, "rb", buffering=0))
            writer = theirs.enter_context(open(output, "wb", buffering=0))
            errors = theirs.enter_context(open(os.dup(2), "wb", buffering=0))
            command = ([program, *encoded], pairs, False, int(signal.SIGSTOP), None)
            self._watch = _Watch(command, [directory, stdin], writer, keep_background=False, errors=errors)
            failed.callback(self._watch.end)
            if self._watch.is_ready(time.monotonic() + _REAPER_ENDS_S):
                self._watch.start(directory)
            failed.pop_all()

    def wait(self, seconds: float) -> bool:
        """Wait until it has ended by itself; False where it has not after so many seconds."""
        self._watch.control.settimeout(max(seconds, 0.001))
        with contextlib.suppress(TimeoutError):
            while not self._watch.finished:
                self._watch.receive()
        return self._watch.finished

    def end(self) -> int | None:
        """End it, with all that it has started. Returns its exit code, where it had ended by itself.

        Raises:
            OSError: it could not even be started.
        """
        self._watch.end()
        if self._watch.error:
            raise OSError(self._watch.error, os.strerror(self._watch.error))
        return self._watch.returncode


def _follow(
    watch: _Watch | Namespace,
    sinks: Mapping[int, Callable[[bytes], None]],
    deadline: float,
    caller: Caller | None,
    is_full: Callable[[], bool] | None = None,
) -> None:
    with selectors.DefaultSelector() as selector:
        for each in (*sinks, watch, *((caller,) if caller is not None else ())):
            selector.register(each, selectors.EVENT_READ)
        while not watch.finished and not (caller is not None and caller.gone):
            now = time.monotonic()
            if now >= deadline or (is_full is not None and is_full()):
                watch.timed_out = True
                return
            if now >= watch.alarm:
                watch.receive()
                continue
            until = min(deadline, watch.alarm) - now
            for key, _ in selector.select(until if is_full is None else min(until, _LOOK_S)):
                if key.fileobj is watch:
                    watch.receive()
                elif key.fileobj is caller and isinstance(watch, Namespace):
                    for number in caller.receive():
                        watch.signal(number)
                elif data := os.read(key.fd, 65536):
                    sinks[key.fd](data)
                else:
                    selector.unregister(key.fd)


def _drain(pipe: int, sink: Callable[[bytes], None]) -> None:
    """Read what was written before the end; a process that still holds the pipe must not make us wait."""
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        for _ in range(1024):  # such a process must not keep us reading either
            data = os.read(pipe, 65536)
            if not data:
                return
            sink(data)


class _Bounded:
    """Keeps the first and the last half of a limit, and counts what it leaves out."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._left_out = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room]
        if rest := data[room:]:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail_size > self._half:
            first = self._tail.popleft()
            excess = min(len(first), self._tail_size - self._half)
            self._tail_size -= excess
            self._left_out += excess
            if excess < len(first):
                self._tail.appendleft(first[excess:])

    def passing_to(self, caller: Caller, stream: int) -> Callable[[bytes], None]:
        """Return what keeps data as `add` does, and passes it on at once."""

        def add(data: bytes) -> None:
            self.add(data)
            caller.write(stream, data)

        return add

    def text(self) -> str:
        tail = b"".join(self._tail)
        if self._left_out:
            marker = f"\n[... {self._left_out} bytes of output left out here ...]\n".encode()
            return _decode(bytes(self._head) + marker + tail)
        return _decode(bytes(self._head) + tail)


def _decode(data: bytes) -> str:
    # As mini reads it: text mode, which makes every line end a newline.
    return data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
