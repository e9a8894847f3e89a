"""`hla exec --permit WORD`: the stand-in for a command in a coding agent's shell.

The process that judged the command keeps it, and runs it: this one hands in the permit and nothing else, prints what
comes back, passes signals on, and ends as the command did. Where the shell is to go on is written to descriptor 3, if
that is a pipe: the command itself does not have it.

Loads little, for it is started with each command.
"""

import os
import re
import signal
import socket
import stat
import struct
import sys
from contextlib import suppress

from humanlayer_agent.hooks import client

NOT_RUN = 126
"""The exit code where the command did not run: as bash has it for a command that can't be executed."""
ENDED = b"e"
"""A frame of this kind is the last one: the exit code, and where the shell is to go on. Others are of a stream."""
FRAME = struct.Struct(">cI")
"""What comes before the content of a frame: its kind, and how many bytes that has."""

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""The signals that are the command's, and not ours."""

_KILLED = 128 + signal.SIGKILL
_UNREAD = 128 + signal.SIGPIPE
_WORD = re.compile(r"([0-9a-f]{8})-([0-9a-f]{32})", re.ASCII)
_DIRECTORY = 3


def word(permit: str) -> str:
    """Return how a command line names a permit: with the socket of the process that has issued it."""
    return f"{client.socket_name().partition('.')[0]}-{permit}"


def run(given: str) -> int:
    """Have the command of a permit run, and return its exit code; 126 where it did not run.

    Args:
        given: what `word` has made.
    """
    directory = _pipe()
    found = _WORD.fullmatch(given)
    if found is None:
        return _refused("this is no permit")
    try:
        client.enter_folder()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"{found[1]}.sock")
            client.server_pid(connection)
            # A signal that comes while it is asked for is passed on when that is done.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
            for number in PASSED_ON:
                signal.signal(number, lambda number, _: _pass_on(connection, number))
            connection.sendall(client.packed(found[2].encode(), b"%d" % _umask()))
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return _followed(connection, directory)
    except BrokenPipeError:  # nobody reads what the command writes
        return _UNREAD
    except (FileNotFoundError, ConnectionError):
        return _refused("the process that judged it has ended, and its permit with it")
    except (OSError, client.HookFailed) as error:
        return _refused(str(error))


def _followed(connection: socket.socket, directory: int) -> int:
    with connection.makefile("rb") as frames:
        while len(head := frames.read(FRAME.size)) == FRAME.size:
            kind, length = FRAME.unpack(head)
            content = frames.read(length)
            if kind == ENDED:
                code, path = client.unpacked(content)
                if path and directory >= 0:
                    _write(directory, path + b"/.")  # else a shell takes newlines at its end away
                return int(code)
            _write(int(kind), content)
    print("hla exec: the process that ran it was killed, and the command with it", file=sys.stderr)
    return _KILLED


def _refused(why: str) -> int:
    print(f"hla exec: it did not run: {why}", file=sys.stderr)
    return NOT_RUN


def _pipe() -> int:
    """Where it is told where the shell is to go on; -1 where nobody wants to know."""
    with suppress(OSError):
        if stat.S_ISFIFO(os.fstat(_DIRECTORY).st_mode):
            return _DIRECTORY
    return -1


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _pass_on(connection: socket.socket, number: int) -> None:
    with suppress(OSError):
        connection.send(bytes([number]))


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def main(argv: list[str]) -> int:
    """Run `exec --permit`; returns the exit code. (By hand: this runs with every confined command.)"""
    return run(argv[1]) if len(argv) == 2 else _refused("a permit stands alone: hla exec --permit WORD")
