"""The process that a coding agent starts before each of its calls: it asks the server, and all else it does is refuse.

Tools take every exit code but 2 for "go on", and so they do when a hook is late. This process therefore judges nothing,
loads nothing that could fail, waits for nothing without a deadline, and answers 2 with the reason unless it was told
something else, whole and in time.
"""

import os
import select
import socket
import sys
import time
import zlib
from collections.abc import Callable

import humanlayer_agent

MAX_INPUT = 1024 * 1024
"""Bytes of a question; a longer one is refused."""

REFUSED = 2
"""The exit code that stops a call, in every tool that we know."""

PASSED = frozenset(
    {
        *("CLAUDE_PROJECT_DIR", "CLAUDE_CODE_SHELL", "CLAUDE_CODE_SHELL_PREFIX", "CLAUDE_ENV_FILE"),
        *(
            "LANG",
            "LC_ALL",
            "LC_CTYPE",
            "GEMINI_PROJECT_DIR",
            "SHELL",
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

_DECIDES = ("HOME", "TMPDIR", "TEMP", "TMP", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "HUMANLAYER_STORE")
_REFUSALS = {
    "claude-code": '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", '
    '"permissionDecisionReason": "%s"}}',
    "gemini-cli": '{"decision": "deny", "reason": "%s"}',
}
_TRIES = 3


class HookFailed(Exception):
    """Raised where there is no answer, with the reason."""


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
        code, out, err = _answer([tool, *options], _read_input(deadline), deadline)
        _write(1, out)
        _write(2, err)
        return code
    except BaseException as error:  # whatever it is, the tool must not go on
        return refuse(tool, str(error) if isinstance(error, HookFailed) else f"{type(error).__name__}: {error}")


def refuse(tool: str, why: str) -> int:
    """Say no in the tool's own form and by the exit code, which is returned."""
    plain = "".join(c for c in why if " " <= c <= "~" and c not in '"\\')[:500]
    reason = f"humanlayer-agent could not judge this, so it was not run: {plain}"
    try:
        if tool in _REFUSALS:
            _write(1, (_REFUSALS[tool] % reason + "\n").encode())
        _write(2, f"{reason}\n".encode())
    except OSError:  # nobody reads: the exit code says it
        pass
    return REFUSED


def identity() -> list[str]:
    """All that decides which server answers: this installation, and the environment that says where things are."""
    package = os.path.dirname(humanlayer_agent.__file__)
    where = [package, humanlayer_agent.__version__, sys.executable, str(os.geteuid())]
    return where + [f"{name}={os.environ.get(name, '')}" for name in _DECIDES]


def folder() -> str:
    """The server's folder: `places.state_folder() / "hooks"`, without what importing that module costs."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.local/state")
    return os.path.join(base, "humanlayer-agent", "hooks")


def socket_name() -> str:
    """The name of the server's socket in its folder: one server each environment."""
    return f"{zlib.crc32(chr(0).join(identity()).encode('utf-8', 'surrogateescape')):08x}.sock"


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


def _answer(options: list[str], data: bytes, deadline: Deadline) -> tuple[int, bytes, bytes]:
    enter_folder()
    given = [f"{name}={value}" for name, value in os.environ.items() if name in PASSED or name.startswith("BASH")]
    texts = [chr(0).join(part).encode("utf-8", "surrogateescape") for part in (identity(), options, given)]
    question = packed(*texts, data)
    for _ in range(_TRIES):
        try:
            code, out, err = unpacked(_exchange(question, deadline))
            if code not in (b"0", b"2"):
                raise ValueError("no exit code")
            return int(code), out, err
        except (ConnectionError, ValueError):  # a server that has just ended, or it died of this question
            continue
    raise HookFailed("the process that judges ends without an answer")


def _exchange(question: bytes, deadline: Deadline) -> bytes:
    with _connected(deadline) as connection:
        connection.settimeout(deadline.left())
        try:
            connection.sendall(question)
            answer = b""
            while True:
                connection.settimeout(deadline.left())
                chunk = connection.recv(65536)
                if not chunk:
                    return answer
                answer += chunk
        except TimeoutError:
            raise HookFailed("no decision came in time") from None


def _connected(deadline: Deadline) -> socket.socket:
    """A connection to the server, which is started where there is none."""
    ended: Callable[[], int | None] | None = None
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
        if ended is None:
            ended = _start_server()
        elif ended() not in (None, 0):  # 0: another one was first
            raise HookFailed(f"the process that judges can't be started (hla hook {sys.argv[-1]} has exit code 2)")
        time.sleep(min(0.01, deadline.left()))


def _start_server() -> Callable[[], int | None]:
    """Start the process that judges; what is returned gives its exit code once it has ended."""
    import subprocess  # only now: it costs as much as everything else here

    return subprocess.Popen(
        [sys.executable, "-I", "-m", "humanlayer_agent.hooks.server"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ).poll


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
