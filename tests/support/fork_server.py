"""A Python interpreter with its imports done, of which each child that a test starts is forked (see `children`).

A test's child is, as far as anything can see, `exec` of a new interpreter: a child of the process that asked for it, with
its own arguments (in /proc as well), environment, folder, open files, signals, limits, session and terminal. It skips
the half second that Python and our imports take, which was half of the processor time of all tests.
"""

import atexit
import ctypes
import fcntl
import gc
import importlib
import io
import json
import os
import resource
import runpy
import signal
import socket
import struct
import sys
import threading
import time
import types
from contextlib import suppress
from importlib.machinery import BuiltinImporter, SourceFileLoader
from typing import Any

_CLONE = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
_CLONE_PARENT, _CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
_PR_SET_MM, _PR_SET_MM_MAP, _PR_GET_TID_ADDRESS = 35, 14, 40
_HIGH = 512
"""Descriptors from here on are out of the way of the numbers that a child's own are to have."""
_LENGTH = struct.Struct("!I")
_REPLY = struct.Struct("!i")

# PyDLL keeps the interpreter's lock meanwhile, which nobody else is to hold in a child.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.argtypes = [ctypes.c_long] * 6
_libc.syscall.restype = ctypes.c_long
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.sbrk.restype = ctypes.c_void_p


def serve(connection: socket.socket) -> dict[str, Any]:
    """Fork a child for each request; returns in the children only, with what each is to run. Ends with the connection."""
    while True:
        head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 64)
        if not head:
            os._exit(0)  # whoever asked is gone
        asked = json.loads(_exactly(connection, _LENGTH.unpack(head)[0]))
        try:
            in_child = _fork_sibling() == 0
        except OSError as error:
            connection.sendall(_REPLY.pack(-(error.errno or 1)))
            in_child = False
        if in_child:
            channel = fcntl.fcntl(connection.detach(), fcntl.F_DUPFD, _HIGH)
            try:
                _become(asked, descriptors, channel)
            except OSError as error:
                os.write(channel, _REPLY.pack(-(error.errno or 1)))
                os._exit(127)
            os.write(channel, _REPLY.pack(os.getpid()))
            os.close(channel)
            return asked  # type: ignore[no-any-return]
        for descriptor in descriptors:
            os.close(descriptor)


def _exactly(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        data += connection.recv(length - len(data)) or os._exit(0)
    return data


def _fork_sibling() -> int:
    """`os.fork`, but the new process is a child of our parent, who can wait for it as for any that it started."""
    # As the C library's own fork does: the new process knows its thread's number.
    where = ctypes.c_ulong()
    tid = where.value if _libc.prctl(_PR_GET_TID_ADDRESS, ctypes.addressof(where), 0, 0, 0) == 0 else 0
    flags = _CLONE_PARENT | signal.SIGCHLD | ((_CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID) if tid else 0)
    last = (tid, 0) if os.uname().machine == "x86_64" else (0, tid)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _libc.syscall(_CLONE, flags, 0, 0, *last)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone")
    return pid


def _become(asked: dict[str, Any], descriptors: list[int], channel: int) -> None:
    """Make this process what `exec` would have made of it, but for `channel`, over which that is said."""
    folder, *given = (fcntl.fcntl(each, fcntl.F_DUPFD, _HIGH) for each in descriptors)
    os.fchdir(folder)
    for descriptor, number in zip(given, asked["descriptors"], strict=True):
        os.dup2(descriptor, number)
    keep = {*asked["descriptors"], channel}
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in keep:
            with suppress(OSError):  # the one that listed them
                os.close(number)
    if asked["session"]:
        os.setsid()
    if asked["group"] >= 0:
        os.setpgid(0, asked["group"])
    if asked["terminal"]:  # opened here: nobody else, in no other session, has it open when the program begins
        os.set_inheritable(os.open(asked["terminal"], os.O_RDWR), True)
        os.dup2(0, 1)
        os.dup2(0, 2)
    os.umask(asked["umask"])
    for number, limits in asked["limits"]:
        resource.setrlimit(number, limits)
    for number in asked["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, asked["blocked"])
    _as_seen_from_outside(asked["argv"], asked["environ"])
    coerced = os.environ.get("LC_CTYPE")
    os.environ.clear()
    os.environ.update(asked["environ"])
    if coerced:  # by the interpreter, when it found no locale; in the same one, it would do so again
        os.environ.setdefault("LC_CTYPE", coerced)
    time.tzset()
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined] # which the server's imports asked for


def _as_seen_from_outside(argv: list[str], environ: list[list[str]]) -> None:
    """Let /proc show these arguments and this environment: commands of ours look there whom they serve."""
    arguments = b"".join(os.fsencode(each) + b"\0" for each in argv)
    variables = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environ)
    text = ctypes.create_string_buffer(arguments + variables, len(arguments + variables) + 1)
    _kept.append(text)
    with open("/proc/self/stat", "rb") as file:
        stat = [int(each) if each.lstrip(b"-").isdigit() else 0 for each in file.read().rpartition(b")")[2].split()]
    start = ctypes.addressof(text)
    middle, end = start + len(arguments), start + len(arguments + variables)
    code, data, brk = stat[23:25], stat[42:44], stat[44]
    addresses = [*code, *data, brk, _libc.sbrk(0), stat[25], start, middle, middle, end, 0]
    layout = ctypes.create_string_buffer(struct.pack("=12Q2I", *addresses, 0, 0xFFFFFFFF), 104)
    if _libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.addressof(layout), len(layout), 0):
        raise OSError(ctypes.get_errno(), "prctl")


_kept: list[Any] = []


def _new_streams() -> None:
    """sys.stdin, stdout and stderr as the interpreter makes them at its start."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        stream: Any = None
        with suppress(OSError):
            os.fstat(number)
            buffered = not old.write_through  # PYTHONUNBUFFERED is the same for us
            buffer = open(number, "wb" if number else "rb", -1 if buffered or not number else 0, closefd=False)  # noqa: SIM115
            (buffer.raw if isinstance(buffer, io.BufferedIOBase) else buffer).name = f"<{name}>"  # type: ignore[misc]
            by_line = buffered and (number == 2 or buffer.isatty())
            stream = io.TextIOWrapper(buffer, old.encoding, old.errors, "\n", by_line, not buffered)
            stream.mode = "w" if number else "r"
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def run(asked: dict[str, Any]) -> None:
    """What `python -c`, `python -m` and `python FILE` do."""
    way, what, arguments = asked["way"], asked["what"], asked["arguments"]
    _new_streams()
    sys.orig_argv = asked["argv"]
    sys.argv = [what if way == "file" else way, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = {"-c": "", "-m": os.getcwd(), "file": os.path.dirname(os.path.realpath(what))}[way]
    first, path = not sys.flags.safe_path, asked["path"]
    sys.path[first:] = [*path, *(each for each in sys.path[first:] if each not in path)]
    main = types.ModuleType("__main__")
    main.__loader__ = BuiltinImporter  # type: ignore[assignment]
    main.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    if way == "-m":
        sys.modules.pop(what if not hasattr(sys.modules.get(what), "__path__") else f"{what}.__main__", None)
        runpy._run_module_as_main(what)  # type: ignore[attr-defined]
        return
    name, source = "<string>", what.encode(errors="surrogateescape")
    if way == "file":
        main.__file__ = name = os.path.abspath(what)
        main.__loader__ = SourceFileLoader("__main__", name)
        main.__cached__ = None  # type: ignore[attr-defined]
        with io.open_code(name) as file:
            source = file.read()
    exec(compile(source, name, "exec", dont_inherit=True), main.__dict__)


def _without_us(error: BaseException) -> None:
    """The traceback that will be shown is that of the program alone."""
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    hook = sys.excepthook
    sys.excepthook = lambda kind, value, _: hook(kind, value.with_traceback(trace), trace)


def _end(status: int) -> None:
    """Leave as an interpreter does at its end, but for taking its modules apart: that copies every page of theirs.

    Comes back where that has to be seen to, with what is still to be done: output that nobody takes.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError):
            return
    vars(sys.modules["__main__"]).clear()  # what it has open is closed with it
    gc.collect()
    os._exit(status)


def _use_once() -> None:
    """Have our modules make what they make at their first use and keep: patterns, tables. It depends on nothing else."""
    if redactor := sys.modules.get("humanlayer_agent.redaction.redactor"):
        redactor.Redactor().text("NAME=value")
        redactor.Redactor().command("git push; mysql -phunter22")
    if app := sys.modules.get("humanlayer_agent.cli.app"):
        app.command_tree()


def ready(modules: list[str]) -> None:
    """Import `modules`, and take every signal as a new interpreter would."""
    for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        with suppress(OSError):  # those of the C library's own
            signal.signal(each, signal.default_int_handler if each == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for name in modules:
        importlib.import_module(name)
    _use_once()
    assert len(os.listdir("/proc/self/task")) == 1, "what another thread holds would be held in a child for ever"
    gc.collect()
    gc.freeze()  # so that looking for garbage copies no page of what all share


if __name__ == "__main__":
    _connection = socket.socket(fileno=int(sys.argv[1]))
    ready(json.loads(sys.argv[2]))
    _asked = serve(_connection)
    del _connection
    _status: object = 0
    try:
        run(_asked)
    except SystemExit as _error:
        _status = 0 if _error.code is None else _error.code
    except BaseException as _error:
        _without_us(_error)
        raise
    if isinstance(_status, int):
        _end(_status & 0xFF)
    sys.exit(_status)
