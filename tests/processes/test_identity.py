"""The identity of a process: a row of the store may hold anything there."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from humanlayer_agent.processes import ancestry, identity
from humanlayer_agent.testing.patience import until
from tests.support import children, headless


def parts() -> list[str]:
    return identity.identity().split(":")


def test_this_process_is_there() -> None:
    assert identity.lives(identity.identity()) is True


def test_a_process_that_has_ended_is_gone() -> None:
    child = children.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    known = identity.identity(child.pid)
    assert identity.lives(known) is True
    child.communicate(b"\n")
    assert identity.lives(known) is False


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_process_whose_first_thread_has_ended_is_there(tmp_path: Path) -> None:
    child = children.Popen([sys.executable, "-c", headless.PROGRAM], cwd=tmp_path)
    known = identity.identity(child.pid)
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the end of its first thread")
    assert identity.lives(known) is True
    child.kill()
    child.wait()
    assert identity.lives(known) is False


def test_a_pid_that_was_used_again_is_another_process() -> None:
    *where, pid, start = parts()
    assert identity.lives(":".join((*where, pid, str(int(start) - 1)))) is False


def test_a_process_reads_its_own_start_once_and_a_fork_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    known = identity.identity()
    with monkeypatch.context() as unreadable:
        unreadable.delattr(identity, "stat_of")
        assert identity.identity() == known
    told, tell = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.write(tell, identity.identity().encode())
        finally:
            os._exit(0)
    os.close(tell)
    os.waitpid(pid, 0)
    with os.fdopen(told) as heard:
        forked = heard.read()
    assert identity.pid_of(forked) == pid
    assert not identity.is_same(forked, known)


def test_a_start_that_could_not_be_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known = identity.identity()
    identity._read_own_start.cache_clear()
    with monkeypatch.context() as broken:
        broken.setattr(identity, "stat_of", lambda pid: os.stat("/proc/none"))  # as where too many files are open
        assert identity.identity() == known.rpartition(":")[0] + ":-"
    assert identity.identity() == known


@pytest.mark.parametrize("part", range(3), ids=["machine", "boot", "pid namespace"])
def test_what_is_elsewhere_is_neither_there_nor_gone(part: int) -> None:
    """Two machines may share a store, and a state folder may be copied: another boot proves nothing by itself."""
    for pid in (str(os.getpid()), "4194304"):  # one that is there, and one that can't be
        known = parts()
        known[3] = pid
        known[part] = "another"
        assert identity.lives(":".join(known)) is None


def test_an_identity_of_an_older_version() -> None:
    _, boot, namespace, pid, start = parts()
    assert identity.lives(f"{boot}:{namespace}:{pid}:{start}") is True
    assert identity.lives(f"{boot}:{namespace}:{pid}:{int(start) - 1}") is False
    assert identity.lives(f"another-boot:{namespace}:{pid}:{start}") is None


def test_a_start_that_can_not_be_read_proves_nothing() -> None:
    *where, _ = parts()
    assert identity.lives(":".join((*where, "-"))) is None


@pytest.mark.parametrize(
    "wrong", ["", "x", "a:b:c:d", ":::", "a:b:-1:d", "a:b:0:d", "a:b:1:d:e", "a:b:1", f"a:b:{2**70}:d"]
)
def test_what_is_no_identity_proves_nothing(wrong: str) -> None:
    machine, boot, namespace, *_ = parts()
    for text in (
        wrong,
        *(wrong.replace("a:b", where) for where in (f"{boot}:{namespace}", f"{machine}:{boot}:{namespace}")),
    ):
        assert identity.lives(text) is None
        assert not identity.is_same(text, identity.identity())
        assert identity.is_out_of_sight(text) is identity.is_out_of_sight(f"{boot}:another:{os.getpid()}:0")


# The machine


def other_machine(home: Path, monkeypatch: pytest.MonkeyPatch, *, host: str = "") -> str:
    """The machine id that a process with this home has, on a host with this id of its own."""
    monkeypatch.setenv("HOME", str(home))
    with monkeypatch.context() as there:
        if host:
            (home / "machine-id").write_text(host)
            there.setattr(identity, "_HOST", home / "machine-id")
        identity.machine.cache_clear()
        found = identity.machine()
    identity.machine.cache_clear()
    return found


def test_a_machine_has_one_id_that_only_its_user_reads(own_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = other_machine(own_user, monkeypatch)
    assert other_machine(own_user, monkeypatch) == first
    kept = own_user / ".local/state/humanlayer-agent/machine.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert list(kept.parent.iterdir()) == [kept]
    assert first not in kept.read_text()


def test_a_user_is_one_of_this_machine_where_the_store_is_on_a_server(
    own_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUMANLAYER_STORE", str(own_user / "store.sqlite3"))
    _, plain = identity.os_user().split(":", 1)
    monkeypatch.setenv("HUMANLAYER_STORE", "postgresql://one@db.example.com/humanlayer")
    assert identity.os_user() == f"os:{identity.machine()[:12]}/{plain}"
    assert os.getuid() == int(plain.split(":")[0])


def test_a_state_folder_that_was_copied_or_is_shared_makes_no_two_machines_one(
    own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = other_machine(own_user, monkeypatch, host="a" * 32)
    shutil.copytree(own_user, tmp_path / "copy")
    assert other_machine(tmp_path / "copy", monkeypatch, host="a" * 32) == first
    assert other_machine(tmp_path / "copy", monkeypatch, host="b" * 32) != first
    assert other_machine(own_user, monkeypatch, host="b" * 32) != first


def test_without_a_folder_that_can_be_written_the_host_names_the_machine(
    own_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_user / ".local").write_text("")
    one, other = (other_machine(own_user, monkeypatch, host=host * 32) for host in "ab")
    assert "-" != one != other
    monkeypatch.setattr(identity, "_HOST", own_user / "none")
    assert other_machine(own_user, monkeypatch) == "-"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux names the boot")
def test_to_name_the_clock_makes_no_file(own_user: Path) -> None:
    """A heartbeat that goes on where the home has become another one must leave nothing there."""
    assert identity.clock_source()
    assert list(own_user.iterdir()) == []


def test_processes_that_start_at_once_agree(own_user: Path) -> None:
    program = "import sys; from humanlayer_agent.processes import identity; sys.stdin.read(); print(identity.machine())"
    started = [
        children.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(6)
    ]
    for each in started:
        assert each.stdin is not None
        each.stdin.close()
    assert len({each.stdout.read() for each in started}) == 1
    for each in started:
        each.wait()
        each.stdout.close()


def test_another_state_folder_hides_nobody_who_is_above(tmp_path: Path) -> None:
    """What a command can set for itself is no way out of what it may not do."""
    program = (
        "import sys; from humanlayer_agent.processes import ancestry; print(ancestry.below_supervision(sys.argv[1:]))"
    )
    supervisor = identity.identity()
    for environ in ({}, {"XDG_STATE_HOME": str(tmp_path)}, {"HOME": str(tmp_path)}):
        command = [sys.executable, "-c", program, supervisor]
        assert children.run(command, capture_output=True, env={**os.environ, **environ}).stdout == b"True\n"
    assert not ancestry.below_supervision([supervisor.replace(f":{os.getpid()}:", ":1:")])
