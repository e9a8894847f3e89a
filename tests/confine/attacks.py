"""Tries to get out, in every way that a program of its own can, and prints what came of each try.

One interpreter for all of them: started confined by the tests, and once more without a confinement, as the control.
What it aims at are canaries that the tests have made. It is a program of its own, with the standard library alone.
"""

import collections
import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import shutil
import signal
import socket
import struct
import sys
import termios
import time

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
# Name: number on x86_64, on aarch64. https://github.com/torvalds/linux/blob/master/include/uapi/asm-generic/unistd.h
NUMBERS = {
    "ptrace": (101, 117), "pivot_root": (155, 41), "acct": (163, 89), "settimeofday": (164, 170), "mount": (165, 40),
    "umount2": (166, 39), "swapon": (167, 224), "sethostname": (170, 161), "init_module": (175, 105), "quotactl": (179, 60),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "unshare": (272, 97), "perf_event_open": (298, 241),
    "fanotify_init": (300, 262), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "setns": (308, 268), "process_vm_readv": (310, 270),
    "kcmp": (312, 272), "finit_module": (313, 273), "bpf": (321, 280), "kexec_load": (246, 104), "syslog": (103, 116), "renameat2": (316, 276),
    "setresuid": (117, 147), "capset": (126, 91), "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190), "ioprio_set": (251, 30),
    "mq_open": (240, 180), "open_tree": (428, 428), "fsopen": (430, 430), "pidfd_open": (434, 434), "mount_setattr": (442, 442),
    "pidfd_getfd": (438, 438), "io_uring_setup": (425, 425), "copy_file_range": (326, 285), "clock_settime": (227, 112), "lookup_dcookie": (212, 18),
}  # fmt: skip
AT, PARENT = -100, os.getppid()
given = json.loads(sys.argv[1]) if __name__ == "__main__" else collections.defaultdict(str)
OUT, PROJECT, HOME, VICTIM = given["outside"], given["project"], given["home"], given["victim"]


def call(name, *words):
    number = NUMBERS[name][0 if X86 else 1]
    LIBC.syscall.restype = ctypes.c_long
    done = LIBC.syscall(ctypes.c_long(number), *(ctypes.c_long(w) if isinstance(w, int) else w for w in words))
    if done == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def write(path, flags=os.O_WRONLY | os.O_CREAT):
    descriptor = os.open(path, flags, 0o644)
    os.write(descriptor, b"written")
    os.close(descriptor)


def read(path):
    with open(path, "rb") as file:
        assert file.read(64), "nothing is in it"


def opened(path):
    """Opens it to be written, and writes nothing."""
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def made_link(target, name):
    if os.path.lexists(name):
        os.unlink(name)
    os.symlink(target, name)
    return name


def connect(family, address, kind=socket.SOCK_STREAM, protocol=0):
    with socket.socket(family, kind, protocol) as own:
        own.settimeout(3)
        own.connect(address)
        own.send(b"reached")
        if kind == socket.SOCK_DGRAM and family != socket.AF_UNIX:
            assert own.recv(16) == b"answered"


def fast_open():
    with socket.socket() as own:
        own.settimeout(3)
        own.sendto(b"reached", getattr(socket, "MSG_FASTOPEN", 0x20000000), ("127.0.0.1", given["port"]))


def interfaces():
    """Finds the machine's own network by name."""
    names = [name for _, name in socket.if_nameindex()]
    assert any(
        name != "lo" and not name.startswith(("sit", "tunl", "ip6tnl", "gre", "erspan", "ip_vti", "ip6_vti"))
        for name in names
    ), names


def climb():
    """Goes up from a folder that it holds open."""
    here = os.open(".", os.O_RDONLY)
    for _ in range(20):
        above = os.open("..", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = above
    os.close(os.open(OUT.lstrip("/") + "/secret", os.O_RDONLY, dir_fd=here))


def by_handle():
    """Opens a file by its number, past all paths (needs a capability)."""
    handle = ctypes.create_string_buffer(struct.pack("Ii", 120, 0) + bytes(120))
    mount = ctypes.c_int()
    call("name_to_handle_at", AT, (OUT + "/secret").encode(), handle, ctypes.byref(mount), 0)
    root = os.open("/", os.O_RDONLY)
    os.close(call("open_by_handle_at", root, handle, os.O_RDONLY))


def peek(pid):
    """Reads the memory of another process."""
    with open(f"/proc/{pid}/maps") as maps:
        at = int(next(maps).split("-")[0], 16)
    into = ctypes.create_string_buffer(8)
    local, remote = struct.pack("QQ", ctypes.addressof(into), 8), struct.pack("QQ", at, 8)
    assert call("process_vm_readv", pid, local, 1, remote, 1, 0) == 8


def traced(pid):
    call("ptrace", 0x4206, pid, 0, 0)  # PTRACE_SEIZE
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.05)
    call("ptrace", 17, pid, 0, 0)
    os.kill(pid, signal.SIGCONT)


def taken(pid):
    """Takes an open file of another process."""
    process = call("pidfd_open", pid, 0)
    os.close(call("pidfd_getfd", process, 1, 0))


def typed(path):
    """Types into a terminal as if a human did."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(descriptor, termios.TIOCSTI, b"x")


def shared_memory():
    address = call("shmat", given["shm"], 0, 0)
    assert ctypes.string_at(address, 3) == b"shm"


def became(uid):
    """In a child: the rest goes on as who we are."""
    if os.getuid() == uid:
        raise OSError(errno.EPERM, "it is already")
    pid = os.fork()
    if pid == 0:
        try:
            call("setresuid", uid, uid, uid)
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise OSError(status, os.strerror(status))


def in_child(act):
    pid = os.fork()
    if pid == 0:
        try:
            act()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
        except BaseException:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise OSError(status, os.strerror(status) if status > 0 else "signal")


def raised_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard + 1))


def gained():
    """Runs a program with the rights of its owner."""
    su = next(path for path in ("/usr/bin/su", "/bin/su", "/usr/bin/passwd") if os.path.exists(path))
    pid = os.fork()
    if pid == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(null, each)
        os.execv(su, [su, "--help"])
    with open(f"/proc/{pid}/status") as status:
        wanted = next(line for line in status if line.startswith("NoNewPrivs"))
    os.waitpid(pid, 0)
    assert wanted.split()[1] == "0", "it gains nothing"


def exchanged(one, other):
    call("renameat2", AT, one.encode(), AT, other.encode(), 2)


def mapped():
    """Changes a file through memory."""
    descriptor = os.open(OUT + "/secret", os.O_RDWR)
    with mmap.mmap(descriptor, 1) as memory:
        memory[0] = memory[0]


def unnamed():
    """Makes a file without a name, and then gives it one."""
    descriptor = os.open(OUT, os.O_TMPFILE | os.O_WRONLY)
    os.link(f"/proc/self/fd/{descriptor}", OUT + "/written", follow_symlinks=True)


def planted(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write(path)


def alive(pid):
    os.kill(pid, 0)
    assert os.path.exists(f"/proc/{pid}")


def foreign():
    """Sees processes that it has not started."""
    found = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    assert len(found) > 8, found


def keyring(name, *words):
    def attempt():
        call(name, *words)

    return attempt


def x32(number):
    def attempt():
        if not X86:
            raise OSError(errno.ENOSYS, "only x86_64 has it")
        if LIBC.syscall(ctypes.c_long(0x40000000 + number), 0, ctypes.c_long(-5), 0) == -1:
            raise OSError(ctypes.get_errno(), "x32")

    return attempt


def mounted(kind, source, target, flags=0):
    return lambda: call("mount", source.encode(), target.encode(), kind.encode(), flags, 0)


def unshared(flag):
    return lambda: in_child(lambda: call("unshare", flag))


def device(major, minor):
    def attempt():
        name = f"{PROJECT}/device-{major}-{minor}"
        os.mknod(name, 0o600 | 0o020000, os.makedev(major, minor))
        os.close(os.open(name, os.O_RDONLY))

    return attempt


NEW = {
    "user": 0x10000000,
    "mount": 0x20000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
}
SECRET, GIT = OUT + "/secret", PROJECT + "/.git"

ATTACKS = {
    # Files outside.
    "write a new file": lambda: write(OUT + "/written"),
    "append": lambda: write(SECRET, os.O_WRONLY | os.O_APPEND),
    "read": lambda: read(SECRET),
    "list": lambda: os.listdir(OUT),
    "remove": lambda: os.unlink(OUT + "/removable"),
    "move in": lambda: os.rename(OUT + "/movable", "moved"),
    "move out": lambda: os.rename("src/mine", OUT + "/written"),
    "make a folder": lambda: os.mkdir(OUT + "/written"),
    "remove a folder": lambda: os.rmdir(OUT + "/empty"),
    "make a link there": lambda: os.symlink("/", OUT + "/written"),
    "make a pipe there": lambda: os.mkfifo(OUT + "/written"),
    "make a socket there": lambda: socket.socket(socket.AF_UNIX).bind(OUT + "/written"),
    "a hard link of what is outside": lambda: os.link(SECRET, "linked"),
    "a hard link outside": lambda: os.link("src/mine", OUT + "/written"),
    "rights": lambda: os.chmod(SECRET, 0o644),
    "owner": lambda: os.chown(SECRET, os.getuid(), os.getgid()),
    "times": lambda: os.utime(SECRET, (0, 0)),
    "shorten": lambda: os.truncate(SECRET, 3),
    "attributes": lambda: os.setxattr(SECRET, "user.x", b"y"),
    "read through a link": lambda: read(made_link(SECRET, "l1")),
    "write through a link": lambda: write(made_link(OUT, "l2") + "/written"),
    "write through a link to a link": lambda: write(made_link(made_link(OUT, PROJECT + "/l3"), "l4") + "/written"),
    "through its own root": lambda: read("/proc/self/root" + SECRET),
    "through the root of the first": lambda: read("/proc/1/root" + SECRET),
    "through the folder of its parent": lambda: read(f"/proc/{PARENT}/cwd/../outside/secret"),
    "up from where it is": climb,
    "by its number": by_handle,
    "through memory": mapped,
    "without a name first": unnamed,
    "exchange": lambda: exchanged("src/mine", OUT + "/exchangeable"),
    "run what is there": lambda: in_child(lambda: os.execv(OUT + "/program", ["program"])),
    "load what is there": lambda: ctypes.CDLL(OUT + "/library.so"),
    "a pipe that somebody reads": lambda: opened(OUT + "/pipe"),
    "beside the project": lambda: write(os.path.dirname(PROJECT) + "/written"),
    # The same user's own.
    "a key": lambda: read(HOME + "/.ssh/id_ed25519"),
    "keys that let others in": lambda: planted(HOME + "/.ssh/authorized_keys"),
    "a start-up file": lambda: planted(HOME + "/.bashrc"),
    "a service": lambda: planted(HOME + "/.config/systemd/user/x.service"),
    "a program that starts with the desktop": lambda: planted(HOME + "/.config/autostart/x.desktop"),
    "settings of git": lambda: planted(HOME + "/.gitconfig"),
    "settings of the agent": lambda: planted(HOME + "/.claude/settings.json"),
    "the store": lambda: write(HOME + "/.local/share/humanlayer-agent/store.db", os.O_RDWR),
    "the signing key": lambda: read(HOME + "/.config/humanlayer-agent/key"),
    "the proof of this confinement": lambda: planted(HOME + "/.local/state/humanlayer-agent/bubblewrap.json"),
    # Hidden and protected.
    "a hidden file": lambda: read(".env"),
    "a hidden file under another name": lambda: (os.link(".env", "e1"), read("e1")),
    "a hidden file moved": lambda: (os.rename(".env", "e2"), read("e2")),
    "a hidden file with other rights": lambda: (os.chmod(".env", 0o644), read(".env")),
    "a hidden file replaced": lambda: (write("e3"), os.replace("e3", ".env")),
    "a hidden folder": lambda: os.listdir("secrets"),
    "a hidden folder from a descriptor": lambda: read(f"/proc/self/fd/{os.open('secrets', os.O_PATH)}/token"),
    "a protected file": lambda: write(GIT + "/config", os.O_WRONLY | os.O_APPEND),
    "a protected file removed": lambda: os.unlink(GIT + "/config"),
    "a protected file replaced": lambda: (write("c1"), os.replace("c1", GIT + "/config")),
    "a protected file exchanged": lambda: exchanged("src/mine", GIT + "/config"),
    "a protected file moved": lambda: os.rename(GIT + "/config", "c2"),
    "the rights of a protected file": lambda: os.chmod(GIT + "/config", 0o666),
    "the times of a protected file": lambda: os.utime(GIT + "/config", (0, 0)),
    "a protected file by a hard link": lambda: (os.link(GIT + "/config", "c3"), write("c3", os.O_WRONLY)),
    "a protected file opened again": lambda: opened(f"/proc/self/fd/{os.open(GIT + '/config', os.O_RDONLY)}"),
    "a new file in a protected folder": lambda: write(GIT + "/hooks/post-commit"),
    "a protected folder moved": lambda: os.rename(GIT + "/hooks", "h1"),
    "what holds a protected folder moved": lambda: os.rename(GIT, "g1"),
    "what holds a protected folder exchanged": lambda: (os.mkdir("g2"), exchanged("g2", GIT)),
    "a mount taken off": lambda: call("umount2", (GIT + "/config").encode(), 2),
    "a mask taken off": lambda: call("umount2", (PROJECT + "/.env").encode(), 2),
    "a mount made writable": mounted("", "", GIT + "/hooks", 32 | 4096),  # MS_REMOUNT | MS_BIND
    "the project as a whole moved": lambda: os.rename(PROJECT, PROJECT + "-moved"),
    # Mounts and namespaces.
    "a mount": mounted("tmpfs", "none", PROJECT + "/src"),
    "a bind mount": mounted("", "/", PROJECT + "/src", 4096),
    "/proc once more": mounted("proc", "proc", PROJECT + "/src"),
    "/sys": mounted("sysfs", "sysfs", PROJECT + "/src"),
    "the root made writable": mounted("", "", "/", 32 | 4096),
    "a tree of mounts": lambda: os.close(call("open_tree", AT, b"/", 1)),  # OPEN_TREE_CLONE
    "a file system": lambda: os.close(call("fsopen", b"tmpfs", 0)),
    "attributes of a mount": lambda: call("mount_setattr", AT, b"/", 0, struct.pack("4Q", 0, 1, 0, 0), 32),
    "another root": lambda: in_child(lambda: os.chroot(PROJECT)),
    "a pivoted root": lambda: in_child(lambda: call("pivot_root", PROJECT.encode(), PROJECT.encode())),
    **{f"a new {kind} namespace": unshared(flag) for kind, flag in NEW.items()},
    "a new user namespace and its mounts": lambda: in_child(lambda: call("unshare", NEW["user"] | NEW["mount"])),
    **{f"the {kind} namespace of another": (lambda k: lambda: in_child(lambda: call("setns", os.open(f"/proc/{VICTIM}/ns/{k}", os.O_RDONLY), 0)))(kind) for kind in ("mnt", "net", "pid", "ipc", "uts", "user")},
    "the namespaces of its parent": lambda: in_child(lambda: call("setns", call("pidfd_open", PARENT, 0), 0x20000)),
    # Rights.
    "root": lambda: became(0),
    "somebody else": lambda: became(1),
    "capabilities": lambda: call("capset", struct.pack("Ii", 0x20080522, 0), struct.pack("6I", 1 << 21, 1 << 21, 0, 0, 0, 0)),
    "the rights of a program's owner": gained,
    "a higher limit": raised_limit,
    "a higher priority": lambda: in_child(lambda: os.nice(-5)),
    "a real-time priority": lambda: in_child(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))),
    "a priority of disks": lambda: in_child(lambda: call("ioprio_set", 1, 0, 1 << 13)),
    # The kernel.
    "its name": lambda: in_child(lambda: call("sethostname", os.uname().nodename.encode(), len(os.uname().nodename))),
    "its clock": lambda: call("clock_settime", 0, 0),
    "its messages": lambda: call("syslog", 3, ctypes.create_string_buffer(64), 64),
    "its programs": lambda: os.close(call("bpf", 0, struct.pack("IIII", 2, 4, 4, 1) + bytes(56), 72)),
    "its counters": lambda: os.close(call("perf_event_open", struct.pack("IIQ", 0, 112, 0) + bytes(96), 0, 0, -1, 0)),
    "its modules": lambda: call("init_module", 0, 0, b""),
    "a new kernel": lambda: call("kexec_load", 0, 0, 0, 0),
    "its swap": lambda: call("swapon", b"/nowhere", 0),
    "its accounts": lambda: call("acct", b"/nowhere"),
    "notices of every file": lambda: os.close(call("fanotify_init", 0, 0)),
    "the session keyring": keyring("keyctl", 0, -5, 0),
    "a new key": keyring("add_key", b"user", b"hla-test", b"x", 1, -2),
    "a key of others": keyring("request_key", b"user", b"hla-test", 0, 0),
    "the keyring by the other numbers": x32(250),
    "/proc/sys": lambda: opened("/proc/sys/kernel/core_pattern"),
    "the host's name in /proc": lambda: opened("/proc/sys/kernel/hostname"),
    "/proc/sysrq-trigger": lambda: opened("/proc/sysrq-trigger"),
    "/proc/kcore": lambda: read("/proc/kcore"),
    "/proc/keys": lambda: read("/proc/keys"),
    "/sys/fs/cgroup": lambda: os.listdir("/sys/fs/cgroup"),
    "/sys/kernel": lambda: os.listdir("/sys/kernel"),
    "its guard against being killed": lambda: in_child(lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-900")),
    # Devices and terminals.
    "a new device of memory": device(1, 1),
    "a new device of a disk": device(8, 0),
    **{f"/dev/{name}": (lambda n: lambda: os.close(os.open("/dev/" + n, os.O_RDWR | os.O_NONBLOCK)))(name) for name in ("mem", "kmsg", "sda", "vda", "fuse", "kvm", "net/tun", "console", "loop-control", "rtc0", "uinput")},
    "its own terminal": lambda: typed("/dev/tty"),
    "the terminal of a human": lambda: typed(given["terminal"]),
    "the terminal of a human, read": lambda: os.close(os.open(given["terminal"], os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)),
    "memory that others share": lambda: read("/dev/shm/" + given["name"]),
    # Processes.
    "processes of others": foreign,
    "a process of the same user": lambda: alive(VICTIM),
    "a signal": lambda: os.kill(VICTIM, signal.SIGCONT),
    "a signal to its group": lambda: os.killpg(os.getpgid(VICTIM), signal.SIGCONT),
    "a descriptor of a process": lambda: os.close(call("pidfd_open", VICTIM, 0)),
    "an open file of a process": lambda: taken(VICTIM),
    "tracing": lambda: traced(VICTIM),
    "memory of a process": lambda: peek(VICTIM),
    "the environment of a process": lambda: read(f"/proc/{VICTIM}/environ"),
    "the files of a process": lambda: os.listdir(f"/proc/{VICTIM}/fd"),
    "the folder of a process": lambda: os.listdir(f"/proc/{VICTIM}/cwd/"),
    "the priority of a process": lambda: os.setpriority(os.PRIO_PROCESS, VICTIM, os.getpriority(os.PRIO_PROCESS, VICTIM)),
    "the limits of a process": lambda: resource.prlimit(VICTIM, resource.RLIMIT_NOFILE),
    "the processors of a process": lambda: os.sched_setaffinity(VICTIM, os.sched_getaffinity(VICTIM)),
    "the supervisor": lambda: os.kill(given["supervisor"], 0),
    # What processes share.
    "shared memory": shared_memory,
    "a queue of messages": lambda: call("msgget", given["key"], 0),
    "semaphores": lambda: call("semget", given["key"], 0, 0),
    "a queue by name": lambda: os.close(call("mq_open", given["name"].encode(), os.O_RDONLY, 0, 0)),
    # Sockets of every family.
    "TCP": lambda: connect(socket.AF_INET, ("127.0.0.1", given["port"])),
    "TCP to another address of this machine": lambda: connect(socket.AF_INET, ("127.1.2.3", given["port"])),
    "TCP to no address": lambda: connect(socket.AF_INET, ("0.0.0.0", given["port"])),
    "TCP 6": lambda: connect(socket.AF_INET6, ("::1", given["port6"])),
    "TCP 6 to an address of version 4": lambda: connect(socket.AF_INET6, ("::ffff:127.0.0.1", given["port"])),
    "TCP at once": fast_open,
    "MPTCP": lambda: connect(socket.AF_INET, ("127.0.0.1", given["port"]), protocol=262),
    "UDP": lambda: connect(socket.AF_INET, ("127.0.0.1", given["udp"]), socket.SOCK_DGRAM),
    "the machine's metadata": lambda: connect(socket.AF_INET, ("169.254.169.254", 80)),
    "the internet": lambda: connect(socket.AF_INET, ("192.0.2.1", 443)),
    "a name": lambda: socket.getaddrinfo("example.com", 443, family=socket.AF_INET),
    "interfaces": interfaces,
    "raw IP": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close(),
    "packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3).close(),
    "the host of this virtual machine": lambda: socket.socket(40, socket.SOCK_STREAM).close(),
    "the kernel's ciphers": lambda: socket.socket(38, socket.SOCK_SEQPACKET).close(),
    "Bluetooth": lambda: socket.socket(31, socket.SOCK_RAW, 1).close(),
    "requests to the kernel in a ring": lambda: os.close(call("io_uring_setup", 8, ctypes.create_string_buffer(120))),
    "a socket by its path": lambda: connect(socket.AF_UNIX, OUT + "/socket"),
    "a socket by a link": lambda: connect(socket.AF_UNIX, made_link(OUT + "/socket", PROJECT + "/l5")),
    "a socket of datagrams": lambda: connect(socket.AF_UNIX, OUT + "/datagrams", socket.SOCK_DGRAM),
    "a socket of packets": lambda: connect(socket.AF_UNIX, OUT + "/packets", socket.SOCK_SEQPACKET),
    "a socket without a path": lambda: connect(socket.AF_UNIX, "\0" + given["name"]),
    "a socket of datagrams without a path": lambda: connect(socket.AF_UNIX, "\0" + given["name"] + "-datagrams", socket.SOCK_DGRAM),
    "a multiplexer of terminals": lambda: connect(socket.AF_UNIX, given["tmux"]),
    "a socket in /tmp": lambda: connect(socket.AF_UNIX, given["in tmp"]),
    "the bus of the system": lambda: os.stat("/run/dbus"),
    "daemons in /run": lambda: os.stat("/run/" + os.listdir("/run")[0]),
    # Those who run things later.
    **{path: (lambda p: lambda: os.listdir(p) and opened(p))(path) for path in ("/etc/cron.d", "/var/spool/cron", "/var/spool/cron/crontabs", "/var/spool/at", "/etc/systemd/system", "/run/systemd")},
}  # fmt: skip


def tried(name):
    """Says why an attack failed; None where it did not."""
    try:
        ATTACKS[name]()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return None


def tried_alone(name):
    """The same in a process of its own, and in a project as it was before the first."""
    for each in os.listdir(PROJECT):
        is_folder = os.path.isdir(each) and not os.path.islink(each)
        shutil.rmtree(each) if is_folder else os.unlink(each)
    for path, text in given["files"].items():
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        if text is not None:
            with open(path, "w") as file:
                file.write(text)
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.write(theirs, json.dumps(tried(name)).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(ours, 65536))


def main():
    os.chdir(PROJECT)
    attempt = tried_alone if "files" in given else tried
    print(json.dumps({name: attempt(name) for name in given.get("only", ATTACKS)}))


if __name__ == "__main__":
    main()
