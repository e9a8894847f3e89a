"""The process that a coding agent starts before each of its calls: it asks the server, and all else it does is refuse.

Tools take every exit code but 2 for "go on", and so they do when a hook is late. This process therefore judges nothing,
loads nothing that could fail, waits for nothing without a deadline, and answers 2 with the reason unless it was told
something else, whole and in time.

Whoever can write the server's folder can answer in its place. So nothing but a refusal is believed without a proof in
the log (`log_proof`), and whoever can't give it is not asked again: a process that only this one can talk to judges.
"""

import os
import select
import socket
import struct
import sys
import time
import zlib
from collections.abc import Callable, Mapping

import humanlayer_agent
from humanlayer_agent.hooks.coding_agents import AGENTS, REFUSALS

MAX_INPUT = 8 * 1024 * 1024
"""Bytes of a question; a longer one is refused."""

MAX_ANSWER = 4 * MAX_INPUT
"""Bytes of an answer, which may repeat a question in an escaped form; a longer one is none."""

REFUSED = 2
"""The exit code that stops a call, in every tool that we know."""

SERVER = (sys.executable, "-I", "-m", "humanlayer_agent.hooks.server")
"""How the server is started, and what it must look like."""

ALONE = "--alone="
"""Before the reason why a server is started for one question alone, whose connection is its standard input."""

STOP = b"stop"
"""What a refusal says beside its reason where the tool is to end its work."""

PASSED = frozenset(
    {
        *(name for agent in AGENTS.values() for name in (*agent.shells, *agent.around)),
        *(agent.project for agent in AGENTS.values()),
        "PATH",
        *(
            "LANG",
            "LC_ALL",
            "LC_CTYPE",
            "SHELLOPTS",
            "POSIXLY_CORRECT",
            "CDPATH",
            "GLOBIGNORE",
            "EXECIGNORE",
        ),
    }
)
"""What the server is told of our environment, beside what begins with BASH (exported functions too): where the project
is, and what commands will be run by."""

CONFINE = "--confine"
"""The option by which commands that are allowed run confined."""

_DECIDES = ("HOME", "TMPDIR", "TEMP", "TMP", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "HUMANLAYER_STORE")
_ENDS = ', "continue": false, "stopReason": %s'
_TRIES = 3
_PEER = "3i"  # struct ucred: pid, uid, gid


class HookFailed(Exception):
    """Raised where there is no answer, with the reason."""


class Unproven(HookFailed):
    """Raised where whoever answers is not the process that judges, as far as can be seen, with what was wrong."""


class Deadline:
    """A point in time by which everything must be done.

    Args:
        seconds: from now.
    """

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left.

        Raises:
            HookFailed: none.
        """
        if (left := self._at - time.monotonic()) <= 0:
            raise HookFailed("no decision came in time")
        return left


def run(tool: str, options: list[str], seconds: float) -> int:
    """Pass the question on standard input on, print the answer, and return the exit code: 0 or 2.

    Args:
        tool: the coding agent's name ("claude-code").
        options: for the judge, as `judge.Options` takes them.
        seconds: by then it is refused; it must be less than the tool waits.
    """
    try:
        deadline = Deadline(seconds)
        answer = _answer([tool, *options], _read_input(deadline), deadline)
        if not answer.proof:
            return deny(tool, answer.text, code=answer.code, stop=answer.stop)
        _write(1, answer.out)
        return answer.code
    except BaseException as error:  # whatever it is, the tool must not go on
        return refuse(tool, str(error) if isinstance(error, HookFailed) else f"{type(error).__name__}: {error}")


def refuse(tool: str, why: str) -> int:
    """Say that it could not be judged, in the tool's own form and by the exit code, which is returned."""
    plain = "".join(c for c in why if " " <= c <= "~" and c not in '"\\')[:500]
    return deny(tool, f"humanlayer-agent could not judge this, so it was not run: {plain}", code=REFUSED)


def deny(tool: str, reason: str, *, code: int, stop: bool = False) -> int:
    """Say no in the tool's own form; returns the exit code.

    Args:
        reason: for the model.
        code: 0 where a policy or a human says no; 2 where nobody could, for which the reason is on standard error too.
        stop: the tool is to end its work.
    """
    agent = AGENTS.get(tool)
    if agent is not None and agent.by_code:
        code = REFUSED
    try:
        if code == REFUSED:  # without a word there, Codex goes on
            _write(2, f"{reason}\n".encode("utf-8", "replace"))
    except OSError:
        pass
    try:
        if agent is not None:
            quoted = _quoted(reason)
            ends = _ENDS % quoted if stop and agent.ends else ""
            _write(1, f"{REFUSALS[agent.form].replace('%s', quoted)}{ends}}}\n".encode())
    except OSError:
        return REFUSED  # nobody reads: the exit code says it
    return code


def is_passed(name: str) -> bool:
    """Tell whether the server is told of this variable to judge by."""
    return name in PASSED or name.startswith("BASH")


def _quoted(text: str) -> str:
    """The text as JSON has it, in ASCII. (Importing `json` would cost a sixth of all that is done here.)"""
    units = memoryview(text.encode(f"utf-16-{sys.byteorder[0]}e", "surrogatepass")).cast("H")
    return '"' + "".join(chr(u) if 32 <= u < 127 and u not in b'"\\' else f"\\u{u:04x}" for u in units) + '"'


def identity(environ: Mapping[str, str] = os.environ) -> list[str]:
    """All that decides which server answers: this installation, and the environment that says where things are."""
    package = os.path.dirname(humanlayer_agent.__file__)
    where = [package, humanlayer_agent.__version__, sys.executable, str(os.geteuid())]
    server = sorted(name for name in environ if name.startswith("PG"))  # as libpq finds a server of databases
    return where + [f"{name}={environ.get(name, '')}" for name in (*_DECIDES, *server)]


def folder() -> str:
    """The server's folder: `places.state_folder() / "hooks"`, without what importing that module costs."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.local/state")
    return os.path.join(base, "humanlayer-agent", "hooks")


def socket_name(environ: Mapping[str, str] = os.environ) -> str:
    """The name of the server's socket in its folder: one server each environment."""
    return f"{zlib.crc32(chr(0).join(identity(environ)).encode('utf-8', 'surrogateescape')):08x}.sock"


def enter_folder() -> None:
    """Make the server's folder the working directory: a socket's path may only have some 100 bytes.

    Raises:
        HookFailed: it does not belong to us alone.
    """
    place = folder()
    os.makedirs(place, mode=0o700, exist_ok=True)
    os.chdir(place)
    about = os.stat(".")
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise HookFailed(f"{place} must belong to you, with mode 700 (chmod 700 {place})")


def packed(*parts: bytes) -> bytes:
    """Several texts in one message: their lengths in a line, then they."""
    return b" ".join(b"%d" % len(part) for part in parts) + b"\n" + b"".join(parts)


def unpacked(message: bytes) -> list[bytes]:
    """The reverse of `packed`. Raises ValueError where anything is missing or left over."""
    line, found, rest = message.partition(b"\n")
    lengths = [int(each) for each in line.split(b" ")]
    if not found or min(lengths) < 0 or sum(lengths) != len(rest):
        raise ValueError("not a whole message")
    out, at = [], 0
    for length in lengths:
        out.append(rest[at : at + length])
        at += length
    return out


def _read_input(deadline: Deadline) -> bytes:
    data = b""
    while len(data) <= MAX_INPUT:
        if not select.select([0], [], [], deadline.left())[0]:
            continue
        chunk = os.read(0, MAX_INPUT + 1 - len(data))
        if not chunk:
            return data
        data += chunk
    raise HookFailed(f"the question is longer than {MAX_INPUT} bytes")


class _Answer:
    """What the server says: what is to be printed and the proof of it, or, without a proof, a refusal."""

    def __init__(self, message: bytes) -> None:
        code, self.out, text, self.proof = unpacked(message)
        if code not in (b"0", b"2") or (self.proof and code != b"0"):
            raise ValueError("no exit code")
        self.code = int(code)
        self.text = text.decode("utf-8", "replace")
        self.stop = self.out == STOP


def _answer(options: list[str], data: bytes, deadline: Deadline) -> _Answer:
    enter_folder()
    whole = CONFINE in options  # commands get their variables from here then
    given = [f"{name}={value}" for name, value in os.environ.items() if whole or is_passed(name)]
    texts = [chr(0).join(part).encode("utf-8", "surrogateescape") for part in (identity(), options, given)]
    nonce = os.urandom(16)  # so that an answer is good for one question only, and digests in the log can't be guessed
    question = packed(nonce, *texts, data)
    asked = False
    try:
        for _ in range(_TRIES):
            try:
                with _connected(deadline) as connection:
                    pid = server_pid(connection)
                    asked = True
                    return _proved(question, nonce, data, connection, pid, deadline)
            except (ConnectionError, ValueError):  # a server that has just ended, or it died of this question
                continue
        if not asked:
            raise Unproven("who listens at the socket of the process that judges has ended, and another answers there")
    except Unproven as error:
        answer = _judged_apart(question, nonce, data, str(error), deadline)
        _write(2, f"humanlayer-agent: {error}, so a process of its own has judged\n".encode("utf-8", "replace"))
        return answer
    raise HookFailed("the process that judges ends without an answer")


def _proved(
    question: bytes, nonce: bytes, data: bytes, connection: socket.socket, pid: int | None, deadline: Deadline
) -> _Answer:
    """Ask, and believe what is more than a refusal only if the log, as this process reads it, says the same.

    Raises:
        Unproven: it does not.
    """
    answer = _Answer(_exchange(connection, question, deadline))
    if answer.proof:
        from humanlayer_agent.hooks.log_proof import check

        seconds = deadline.left()
        check(answer.proof, question=question, nonce=nonce, data=data, out=answer.out, pid=pid, seconds=seconds)
    return answer


def _judged_apart(question: bytes, nonce: bytes, data: bytes, why: str, deadline: Deadline) -> _Answer:
    """The answer of a process that was started for this question alone, over a connection that has no name.

    Args:
        why: what was wrong with who answered first, for the log.
    """
    import subprocess

    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            judge = subprocess.Popen(
                [*SERVER, f"{ALONE}{why}"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        try:
            return _proved(question, nonce, data, ours, judge.pid, deadline)
        except (ConnectionError, ValueError):
            raise HookFailed(f"{why}, and a process of its own could not judge either") from None


def server_pid(connection: socket.socket) -> int | None:
    """The process at the other end, which looks as the server does that is started here; None where nobody can say.

    Raises:
        Unproven: it does not, or belongs to somebody else.
        ConnectionError: it has ended.
    """
    found = peer(connection)
    if found is None:
        return None
    pid, uid = found
    if uid != os.geteuid():
        raise Unproven(f"the socket of the process that judges is answered by another user ({uid})")
    arguments: list[bytes] = []
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = file.read().split(b"\0")[:-1]
        program = os.readlink(f"/proc/{pid}/exe")
    except PermissionError:  # it hides its memory, as ours does
        program = os.path.realpath(sys.executable)
    except OSError:
        arguments = []
    if not arguments:
        raise ConnectionError(f"process {pid} has ended")
    if arguments != [os.fsencode(each) for each in SERVER] or program != os.path.realpath(sys.executable):
        raise Unproven(f"process {pid} answers at the socket of the process that judges, and is another program")
    return pid


def peer(connection: socket.socket) -> tuple[int, int] | None:
    """The process and user at the other end of a connection; None where the system can't say."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_PEER))
    pid, uid, _ = struct.unpack(_PEER, found)
    return pid, uid


def _exchange(connection: socket.socket, question: bytes, deadline: Deadline) -> bytes:
    connection.settimeout(deadline.left())
    waits = select.poll()
    waits.register(connection, select.POLLIN)
    waits.register(1, 0)
    try:
        connection.sendall(question)
        answer = b""
        while len(answer) <= MAX_ANSWER:
            ready = [descriptor for descriptor, _ in waits.poll(deadline.left() * 1000)]
            if 1 in ready:  # who has asked was killed: what waits for a human is withdrawn by our end
                raise HookFailed("nobody reads the answer any more")
            if not ready:
                continue
            connection.settimeout(deadline.left())
            chunk = connection.recv(65536)
            if not chunk:
                return answer
            answer += chunk
    except TimeoutError:
        raise HookFailed("no decision came in time") from None
    raise HookFailed(f"the answer is longer than {MAX_ANSWER} bytes")


def _connected(deadline: Deadline) -> socket.socket:
    """A connection to the server, which is started where there is none.

    Raises:
        Unproven: it is said to be there, and can't be reached.
    """
    started, ended = 0, _none_yet
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(deadline.left())
            connection.connect(socket_name())
            return connection
        except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
            connection.close()
        except BaseException:
            connection.close()
            raise
        code = ended()
        if code == 0 and started == _TRIES:  # another one was first, and does not listen where it should
            raise Unproven("the socket of the process that judges is gone, or does not answer")
        if code == 0:
            started, ended = started + 1, _start_server()
        elif code is not None:
            raise HookFailed(f"the process that judges can't be started (hla hook {sys.argv[-1]} has exit code 2)")
        time.sleep(min(0.01, deadline.left()))


def _none_yet() -> int | None:
    return 0


def _start_server() -> Callable[[], int | None]:
    """Start the process that judges; what is returned gives its exit code once it has ended."""
    import subprocess  # only now: it costs as much as everything else here

    return subprocess.Popen(
        SERVER,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ).poll


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
