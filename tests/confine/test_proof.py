"""The proof holds here, and notices each wall that is missing."""

import json
import os
import struct
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from humanlayer_agent.confine import proof, syscall_filter
from humanlayer_agent.confine.bubblewrap import Bubblewrap
from humanlayer_agent.confine.confinement import Unenforceable
from humanlayer_agent.confine.proof import WALLS, Proof, Wall, facts, prove, proven, remedy


def test_every_wall_holds(backend: Bubblewrap) -> None:
    shown = prove(backend)
    assert shown.holds, shown.walls
    assert {wall.name for wall in shown.walls} == WALLS.keys()
    assert all(wall.needed for wall in shown.walls if wall.name not in ("kernel", "keyring", "machine"))


@dataclass(frozen=True, slots=True)
class Weakened(Bubblewrap):
    """A bubblewrap that has other words in place of these."""

    changed: tuple[tuple[str, str], ...] = ()

    def words(self, *args: object, **options: object) -> list[str]:
        words = Bubblewrap.words(self, *args, **options)  # type: ignore[arg-type]
        for old, new in self.changed:
            length = len(old.split())
            found = [n for n in range(len(words)) if words[n : n + length] == old.split()]
            assert found, old
            for n in reversed(found):
                words[n : n + length] = new.split()
        return words


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("changed", "walls"),
    [
        ([("--unshare-net", "")], {"loopback", "abstract"}),
        ([("--unshare-pid", ""), ("--proc /proc", "--bind /proc /proc")], {"process"}),
        ([("--ro-bind /proc/sys /proc/sys", "")], {"kernel"}),
        ([("--remount-ro /", "--bind /var/tmp /var/tmp")], {"write", "read", "hidden", "protected", "socket"}),
    ],
    ids=["network", "processes", "kernel", "files"],
)
def test_a_wall_that_is_missing_is_noticed(
    backend: Bubblewrap, changed: list[tuple[str, str]], walls: set[str]
) -> None:
    needed = {wall.name for wall in prove(backend).walls if wall.needed}
    weak = Weakened(backend.path, backend.version, tuple(changed))
    if not walls & needed:
        assert prove(weak).holds  # this user can't do that anyway
        return
    shown = prove(weak)
    got = {wall.name for wall in shown.walls if not wall.held}
    assert walls & needed <= got, shown.walls
    assert not shown.holds


def test_a_missing_filter_of_system_calls_is_noticed(backend: Bubblewrap, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)  # SECCOMP_RET_ALLOW
    monkeypatch.setattr(syscall_filter, "program", lambda: everything)
    keyring = next(wall for wall in prove(backend).walls if wall.name == "keyring")
    assert not keyring.held or not keyring.needed, keyring


def test_what_can_not_start_is_no_proof(backend: Bubblewrap) -> None:
    with pytest.raises(Unenforceable, match="nothing can be started confined"):
        prove(Bubblewrap("/bin/false", "0"))


def test_a_wall_that_was_not_tried_does_not_hold(backend: Bubblewrap) -> None:
    whole = prove(backend)
    assert not replace(whole, walls=whole.walls[1:]).holds


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Bubblewrap]:
    """Each time that the walls are tried: a program of which nobody asks whether it holds, since that takes long."""
    times: list[Bubblewrap] = []

    def instead(backend: Bubblewrap) -> Proof:
        times.append(backend)
        return Proof(backend, facts(backend), tuple(Wall(name, True, True, "no") for name in WALLS))

    monkeypatch.setattr(proof, "prove", instead)
    return times


@pytest.fixture
def program(tmp_path: Path) -> Bubblewrap:
    (tmp_path / "bwrap").write_bytes(b"one")
    return Bubblewrap(str(tmp_path / "bwrap"), "0.11")


def test_a_proof_is_kept(tried: list[Bubblewrap], program: Bubblewrap, tmp_path: Path) -> None:
    folder = tmp_path / "proofs"
    first = proven(folder, find=lambda: program)
    assert proven(folder, find=lambda: program) == first
    assert len(tried) == 1
    assert (folder / "bubblewrap.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "change", ["binary", "version", "kernel", "user", "setting", "file", "others", "walls", "wall"]
)
def test_a_stale_proof_is_tried_anew(
    change: str, tried: list[Bubblewrap], program: Bubblewrap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proven(tmp_path, find=lambda: program)
    kept = tmp_path / "bubblewrap.json"
    if change == "binary":
        Path(program.path).write_bytes(b"two")
    elif change == "version":
        program = replace(program, version="0.12")
    elif change == "kernel":
        now = os.uname()
        monkeypatch.setattr(os, "uname", lambda: os.uname_result((now[0], now[1], "9.9", *now[3:])))
    elif change == "user":
        monkeypatch.setattr(os, "getuid", lambda: 4711)
    elif change == "setting":
        monkeypatch.setattr(proof, "_said", lambda path: "1")
    elif change == "file":
        kept.write_text("{")
    elif change == "others":
        kept.chmod(0o644)
    else:
        content = json.loads(kept.read_text())
        content["walls"] = content["walls"][1:] if change == "walls" else [*content["walls"][1:], {"name": "write"}]
        kept.write_text(json.dumps(content))
    proven(tmp_path, find=lambda: program)
    assert len(tried) == 2


def test_a_proof_that_fails_is_not_kept(backend: Bubblewrap, tmp_path: Path) -> None:
    weak = Weakened(backend.path, backend.version, (("--remount-ro /", "--bind /var/tmp /var/tmp"),))
    with pytest.raises(Unenforceable, match="bubblewrap does not hold on this machine: a file outside is written"):
        proven(tmp_path, find=lambda: weak)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("path", "said", "told"),
    [
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl -w kernel.apparmor_restrict"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
        ("/proc/self/status", "Name:\tx\nSeccomp:\t2", "docker run --security-opt seccomp=unconfined"),
    ],
)
def test_it_says_what_would_change_it(path: str, said: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(proof, "_said", lambda asked: said if asked == path else "")
    assert told in remedy()
