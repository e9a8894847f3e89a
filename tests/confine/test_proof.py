"""The proof holds here, and notices each wall that is missing."""

import struct
from dataclasses import dataclass

import pytest

from humanlayer_agent.confine import syscall_filter
from humanlayer_agent.confine.bubblewrap import Bubblewrap
from humanlayer_agent.confine.mounts import Unenforceable
from humanlayer_agent.confine.proof import WALLS, Proof, prove


def test_every_wall_holds(backend: Bubblewrap) -> None:
    proof = prove(backend)
    assert proof.holds, proof.walls
    assert {wall.name for wall in proof.walls} == WALLS.keys()
    assert all(wall.needed for wall in proof.walls if wall.name not in ("kernel", "keyring"))


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
    proof = prove(weak)
    got = {wall.name for wall in proof.walls if not wall.held}
    assert walls & needed <= got, proof.walls
    assert not proof.holds


def test_a_missing_filter_of_system_calls_is_noticed(backend: Bubblewrap, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)  # SECCOMP_RET_ALLOW
    monkeypatch.setattr(syscall_filter, "program", lambda: everything)
    proof = prove(backend)
    keyring = next(wall for wall in proof.walls if wall.name == "keyring")
    assert not keyring.held or not keyring.needed, proof.walls


def test_what_can_not_start_is_no_proof(backend: Bubblewrap) -> None:
    with pytest.raises(Unenforceable, match="nothing can be started confined"):
        prove(Bubblewrap("/bin/false", "0"))


def test_a_wall_that_was_not_tried_does_not_hold(backend: Bubblewrap) -> None:
    whole = prove(backend)
    assert not Proof(whole.backend, whole.version, whole.kernel, whole.uid, whole.walls[1:]).holds
