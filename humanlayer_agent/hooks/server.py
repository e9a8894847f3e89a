"""The process that answers hooks: it has everything loaded and open, so that a question takes milliseconds.

The first question starts it, in the background; it ends by itself when nothing was asked for a while, when its socket
is gone, and when a file of this package has changed. It listens on a Unix socket in a folder that only this user can
enter. It gives no rights: whoever asks is told what the policy says, and a human is asked only by our own channels.
"""

import fcntl
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import humanlayer_agent
from humanlayer_agent.audit import events
from humanlayer_agent.errors import HumanlayerError
from humanlayer_agent.hooks import client, log_proof
from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.hooks.judge import Judge, Options
from humanlayer_agent.hooks.permits import Shell
from humanlayer_agent.hooks.questions import BadQuestion, Question
from humanlayer_agent.processes.memory_protection import protect_secrets

IDLE_S = 7_200
_LOOK_S = 5.0
_READ_S = 10.0
_MAX_MESSAGE = client.MAX_INPUT + 262_144
_PACKAGE = Path(humanlayer_agent.__file__).parent


class Server:
    """Serves one socket until it is idle or outdated.

    Args:
        idle: seconds without a question after which it ends; 0 where it is for one question only.
    """

    def __init__(self, idle: float = IDLE_S) -> None:
        self._idle = idle
        self._judge = Judge(lasts=idle > 0)
        self._code = _Code()
        self._asked = time.monotonic()
        self._busy = 0
        self._lock = threading.Lock()

    def serve(self) -> None:
        """Answer questions. Returns at once where another process does already."""
        client.enter_folder()
        name = client.socket_name()
        lock = os.open(f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        Path(name).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name)
            listener.listen(128)
            listener.settimeout(_LOOK_S)
            self._accept(listener, name, os.stat(name).st_ino)
        os.close(lock)  # the next one may begin
        while self._busy:  # a human may be about to answer
            time.sleep(0.05)
        self._judge.close()

    def serve_alone(self, connection: socket.socket, why: str) -> None:
        """Answer one question, of the process that has started this one because nobody else could be believed.

        Args:
            why: what was wrong with who answered first, for the log.
        """
        held = connection.dup()  # the answer is over once the log has all of it, and this process ends
        self._judge.note(events.HOOK_UNPROVEN, why=why)
        self._serve_one(connection)
        self._judge.close()
        held.close()

    def _accept(self, listener: socket.socket, name: str, inode: int) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                if _inode(name) != inode:
                    return  # no client finds us any more
                with self._lock:
                    quiet = not self._busy and time.monotonic() - self._asked > self._idle
                if not quiet:
                    continue
                break
            if self._code.changed():
                Path(name).unlink(missing_ok=True)  # first: the client asks again, and must not find us
                connection.close()
                return
            with self._lock:
                self._busy += 1
                self._asked = time.monotonic()
            threading.Thread(target=self._serve_one, args=(connection,), daemon=True).start()
        Path(name).unlink(missing_ok=True)

    def _serve_one(self, connection: socket.socket) -> None:
        try:
            with connection:
                if _same_user(connection):
                    self._reply(_received(connection), connection)
        except OSError:
            pass  # nobody waits for it
        finally:
            with self._lock:
                self._busy -= 1
                self._asked = time.monotonic()

    def _reply(self, message: bytes, connection: socket.socket) -> None:
        """Answer a question, or have the command of a permit run (`permit_use`)."""
        about = client.peer(connection)
        pid = about[0] if about else None
        if message.partition(b"\n")[0].count(b" ") == 1:
            permit, umask = client.unpacked(message)
            self._judge.carry_out(permit.decode(), pid, Shell(connection, int(umask) & 0o777))
            return
        answer = self._answer(message, _gone(connection), pid)
        connection.settimeout(_READ_S)
        connection.sendall(answer)

    def _answer(self, message: bytes, gone: Callable[[], bool], pid: int | None = None) -> bytes:
        """Return what the client prints and exits with. Whatever goes wrong here is a refusal."""
        try:
            nonce, identity, arguments, given, data = client.unpacked(message)
            if _texts(identity) != client.identity():
                raise BadQuestion("the question was meant for another installation")
            name, *options = _texts(arguments)
            environ = dict(each.partition("=")[::2] for each in _texts(given))
            question = Question(AGENTS[name], data, log_proof.digest(message), nonce, pid)
            reply = self._judge.answer(question, Options.parse(options), environ, gone)
            if reply.verdict == "deny" and question.ended:  # too late for a no: the exit code makes it heard
                return client.packed(b"2", b"", _encoded(reply.reason), b"")
            if reply.verdict == "deny":
                return client.packed(b"0", client.STOP if reply.stop else b"", _encoded(reply.reason), b"")
            return client.packed(b"0", question.rendered(reply), b"", self._judge.proof(question))
        except (BadQuestion, HumanlayerError) as error:
            return _refusal(str(error))
        except BaseException as error:
            return _refusal(f"{type(error).__name__}: {error}")


class _Code:
    """The files of this package that are loaded, and whether one of them has changed since."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self.changed()

    def changed(self) -> bool:
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if path and path not in self._seen and path.startswith(str(_PACKAGE)):
                self._seen[path] = _modified(path)
        return any(_modified(path) != time for path, time in self._seen.items())


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def _texts(joined: bytes) -> list[str]:
    return joined.decode("utf-8", "surrogateescape").split("\0") if joined else []


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _refusal(why: str) -> bytes:
    """The same as the client says where it has no answer, with more of the reason."""
    return client.packed(b"2", b"", _encoded(f"humanlayer-agent could not judge this, so it was not run: {why}"), b"")


def _received(connection: socket.socket) -> bytes:
    """A whole message: its first line says how long it is. Raises OSError where it does not come."""
    connection.settimeout(_READ_S)
    data = b""
    while True:
        line, found, rest = data.partition(b"\n")
        if found and len(rest) >= sum(int(each) for each in line.split(b" ") if each.isdigit()):
            return data
        chunk = connection.recv(1 << 20)
        if not chunk or len(data) + len(chunk) > _MAX_MESSAGE:
            raise ConnectionError("not a whole question")
        data += chunk


def _gone(connection: socket.socket) -> Callable[[], bool]:
    """Return a test of whether the client has closed its end: it says nothing more after its question."""
    return lambda: bool(select.select([connection], [], [], 0)[0])


def _same_user(connection: socket.socket) -> bool:
    """Nobody else can enter the folder; where the system can say who asks, it is looked at too."""
    found = client.peer(connection)
    return found is None or found[1] == os.geteuid()


def main() -> int:
    """Serve until idle, or the one question of who has started it. Exit code 2 where that is not possible."""
    os.umask(0o077)
    # Ctrl-C at the tool's terminal is not ours. Were it ignored, no command that is started here could be interrupted.
    signal.signal(signal.SIGINT, lambda *_: None)
    protect_secrets()
    alone = next((each.removeprefix(client.ALONE) for each in sys.argv if each.startswith(client.ALONE)), None)
    try:
        if alone is None:
            Server().serve()
        else:
            Server(idle=0).serve_alone(socket.socket(fileno=0), alone)
    except (OSError, HumanlayerError, client.HookFailed):
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
