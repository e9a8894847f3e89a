"""Runs one command, and ends with it everything that it started.

This file is a program of its own, and imports next to nothing. There is one reaper for each command: where it can be,
it is forked from a process that waits for that (`serve`, which takes 1 ms), else started anew (10 ms). It makes itself
the *subreaper* of what it starts, so a process that leaves the command's session (setsid, daemons) is still its
descendant and is found when the command ends. It ends everything at once when nothing more can come from its control
socket (file descriptor 0): that is how a time-out and Ctrl-C reach it, and also the death of the supervisor, kill -9
included.

A command may kill it: then the supervisor adopts and ends what is left (`orphans`).

What it can't end: a process of another user (sudo), and work handed to a daemon that was already there (cron,
systemd-run, docker, ssh).
"""

import marshal
import os
import select
import sys
import time

PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 22, 36, 38
SECCOMP_MODE_FILTER = 2
LANDLOCK_RESTRICT_SELF = 446
SIGKILL, SIGPIPE, SIGTERM, SIGXFSZ = 9, 13, 15, 25
NATURAL_END_S = 0.2
"""What was left behind gets this long to end by itself: `>(tee log)` ends right after its shell."""
TERM_S = 0.3
KILL_S = 5.0
SERVE = "serve"
FORKED = b"."
_MOST_DESCRIPTORS = 3


def main() -> None:
    """Run the request from the control socket; report `ready`, then `end RETURNCODE LEFT`, `killed LEFT` or
    `error ERRNO`.
    """
    request = _request()
    if request is None:
        return
    (argv, env, keep_background, stop_signal, calls), descriptors = request
    directory = descriptors.pop(0)
    ruleset = -1 if calls is None else descriptors.pop(0)
    stdin = descriptors.pop(0) if descriptors else -1
    _become_subreaper()
    _report(b"ready\n")
    if _read(1) is None:  # all is ready, so that what was judged is compared as late as can be: it is not that any more
        return
    try:
        os.fchdir(directory)
        os.close(directory)
        shell = _start(argv, env, stdin) if calls is None else _start_restricted(argv, env, ruleset, calls)
    except OSError as error:
        _report(b"error %d\n" % (error.errno or 0))
        return
    returncode = _wait(shell)
    if returncode is None:
        _report(b"killed %d\n" % _kill_all(shell, stop_signal))
        return
    left = 0 if keep_background else _end_leftovers(shell, stop_signal)
    _report(b"end %d %d\n" % (returncode, left))


def serve() -> None:
    """Fork a reaper for each message from the socket that is descriptor 0, until nobody is there any more to ask.

    A message brings the reaper's descriptors 0, 1 and 2. The answers are its process id, and `FORKED` once it is a
    child of whoever adopts our orphans: of the supervisor. What it is to run it is told by its control socket alone.
    """
    _hide()
    while len(descriptors := _received(1)[1]) == _MOST_DESCRIPTORS:
        between = os.fork()
        if between == 0:
            try:
                _fork_orphan(descriptors)
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        os.waitpid(between, 0)
        _report(FORKED)


def _fork_orphan(descriptors: list[int]) -> None:
    """Fork a reaper with these as its descriptors 0, 1 and 2, which is nobody's child as soon as this process ends."""
    pid = os.fork()
    if pid:
        _report(b"%d" % pid)
        return
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    main()


def descendants(root: int) -> list[int]:
    """Process ids of all living descendants of `root`, from /proc (empty where there is none).

    Parents come before their children: who signals them in this order does not make a shell go on to its next command
    because the one before has ended.
    """
    children: dict[int, list[int]] = {}
    for pid, (alive, parent, _) in processes().items():
        if alive:
            children.setdefault(parent, []).append(pid)
    found: dict[int, None] = {}
    stack = [root]
    while stack:
        new = [pid for pid in children.get(stack.pop(), ()) if pid not in found]
        found.update(dict.fromkeys(new))
        stack.extend(new)
    return list(found)


def session_members(session: int) -> set[int]:
    """Process ids of all living members of a session."""
    return {pid for pid, (alive, _, member_of) in processes().items() if member_of == session and alive}


def processes() -> dict[int, tuple[bool, int, int]]:
    """pid -> (alive, parent, session) of every process that /proc shows."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    return {int(name): found for name in names if name.isdigit() and (found := process(int(name)))}


def process(pid: int) -> tuple[bool, int, int] | None:
    """(alive, parent, session) of a process; None where there is none.

    One that is called a zombie lives where only its first thread has ended, and others go on.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    alive = fields[0] not in (b"Z", b"X") or int(fields[17]) > 1
    return alive, int(fields[1]), int(fields[3])


def restrict(ruleset: int, calls: bytes) -> None:
    """Restrict this thread, and whatever it starts, for good.

    Args:
        ruleset: the descriptor of a ruleset of Landlock (see `confine.landlock`).
        calls: a filter of system calls (see `confine.syscall_filter`); none where it is empty.

    Raises:
        OSError: the kernel refuses.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(calls)
    # struct sock_fprog: how many instructions of eight bytes, and where they are. (Little-endian, as is all of that.)
    program = (len(calls) // 8).to_bytes(8, "little") + ctypes.addressof(text).to_bytes(8, "little")
    if (
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
        or libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) < 0
        or (calls and libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) < 0)
    ):
        raise OSError(ctypes.get_errno(), "it can't be restricted")


def _start(argv: list[bytes], env: dict[bytes, bytes], stdin: int = -1) -> int:
    """Start it; `stdin` is the descriptor that it reads its standard input from, and -1 where it gets none."""
    nothing = (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)
    return os.posix_spawn(
        argv[0],
        argv[1:],
        env,
        setpgroup=0,  # of its own, so that `kill 0` in it does not reach us; the session is ours
        setsigmask=(),
        setsigdef=(SIGPIPE, SIGXFSZ),  # Python ignores them, and ignored signals survive exec
        file_actions=[nothing] if stdin < 0 else [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_CLOSE, stdin)],
    )


def _start_restricted(argv: list[bytes], env: dict[bytes, bytes], ruleset: int, calls: bytes) -> int:
    """Start it in a thread that is restricted: we ourselves have to see, and to end, what it starts."""
    import _thread  # threading would be another import to pay for

    result: list[int | OSError] = []
    ended = _thread.allocate_lock()
    ended.acquire()

    def run() -> None:
        try:
            restrict(ruleset, calls)
            os.close(ruleset)
            result.append(_start(argv, env))
        except OSError as error:
            result.append(error)
        finally:
            ended.release()

    _thread.start_new_thread(run, ())
    ended.acquire()
    if isinstance(result[0], OSError):
        raise result[0]
    return result[0]


def _request() -> tuple[tuple[list[bytes], dict[bytes, bytes], bool, int, bytes | None], list[int]] | None:
    """What is to be run, and the descriptors that came with it: the directory, the ruleset where there are `calls`, and
    the standard input where it gets one.
    """
    begin, descriptors = _received(8)
    rest = _read(8 - len(begin)) if begin else None
    body = _read(int.from_bytes(begin + rest, "big")) if rest is not None else None
    return None if body is None else (marshal.loads(body), descriptors)


def _received(size: int) -> tuple[bytes, list[int]]:
    """At most so many bytes from descriptor 0, and the descriptors that came with them: no command inherits these."""
    import _socket  # socket would be another import to pay for

    control = _socket.socket(fileno=0)
    try:
        data, about, _, _ = control.recvmsg(size, _socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS))
    finally:
        control.detach()
    found = [
        int.from_bytes(content[at : at + 4], sys.byteorder)
        for level, kind, content in about
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
        for at in range(0, len(content), 4)
    ]
    for descriptor in found:
        os.set_inheritable(descriptor, False)
    return data, found


def _read(size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        chunk = os.read(0, size - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def _report(line: bytes) -> None:
    try:  # noqa: SIM105  (contextlib would be another import to pay for)
        os.write(0, line)
    except OSError:
        pass  # the supervisor is gone: nobody to tell


def _become_subreaper() -> None:
    if sys.platform != "linux":
        return
    try:
        import ctypes
    except ImportError:  # an interpreter built without it: what leaves the process group is not found then
        return
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _hide()


def _hide() -> None:
    """Keep commands from tracing this process, and what it forks: it would report in their name."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _wait(shell: int) -> int | None:
    """The shell's return code; None where the supervisor wants it to end first."""
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    interval = 20
    if hasattr(os, "pidfd_open"):
        try:
            poll.register(os.pidfd_open(shell), select.POLLIN)
            interval = 1000  # only to reap orphans now and then
        except OSError:
            pass
    while True:
        ready = poll.poll(interval)
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == shell:
                return os.waitstatus_to_exitcode(status)
            if pid == 0:
                break
        if any(fd == 0 for fd, _ in ready):
            return None


def _end_leftovers(shell: int, stop_signal: int) -> int:
    if _childless(NATURAL_END_S):
        return 0
    for pid in descendants(os.getpid()):
        _send(pid, SIGTERM)
    return 0 if _childless(TERM_S) else _kill_all(shell, stop_signal)


def _kill_all(shell: int, stop_signal: int) -> int:
    """Kill every descendant; the number of those that could not be killed."""
    deadline = time.monotonic() + KILL_S
    while time.monotonic() < deadline:
        try:  # noqa: SIM105
            os.killpg(shell, SIGKILL)
        except OSError:
            pass
        for pid in _stop_all(stop_signal):
            _send(pid, SIGKILL)
        if _childless(0.05):
            return 0
    return len(descendants(os.getpid()))


def _stop_all(stop_signal: int) -> set[int]:
    """Stop the descendants first, all of them: what forks faster than it is killed would never end."""
    stopped: set[int] = set()
    for _ in range(100):
        new = set(descendants(os.getpid())) - stopped
        if not new:
            break
        for pid in new:
            _send(pid, stop_signal)
        stopped |= new
    return stopped


def _childless(seconds: float) -> bool:
    """Reap until there is no child left (True) or the time is up (False)."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.005)


def _send(pid: int, signal_number: int) -> None:
    try:  # noqa: SIM105
        os.kill(pid, signal_number)
    except OSError:
        pass


if __name__ == "__main__":
    serve() if sys.argv[1:] == [SERVE] else main()
    os._exit(0)  # the supervisor waits for it, and there is nothing to tidy up
