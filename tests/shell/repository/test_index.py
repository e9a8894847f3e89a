"""git's index as git writes it; and forged ones."""

import hashlib
import struct
from pathlib import Path

import pytest

from humanlayer_agent.shell.repository.index import index_entries
from tests.shell.repository.conftest import Git
from tests.shell.repository.test_history import commit


def forged(version: int, names: list[bytes], kept: list[bytes] | None = None) -> bytes:
    """An index of entries without content; in version 4 with how much of the name before is dropped."""
    parts = [struct.pack(">4sII", b"DIRC", version, len(names))]
    for n, name in enumerate(names):
        entry = bytes(24) + struct.pack(">I", 0o100644) + bytes(12) + bytes(20) + b"\0\1"
        entry += (kept[n] if kept else b"") + name + (b"\0" if version == 4 else b"")
        parts.append(entry + (b"" if version == 4 else bytes(8 - len(entry) % 8)))
    data = b"".join(parts)
    return data + hashlib.sha1(data).digest()


@pytest.mark.parametrize("version", [2, 4])
def test_as_git_writes_it(git: Git, top: Path, version: int) -> None:
    for name in ("a", "d/b", "d/e/c"):
        commit(git, top, name, name)
    git("update-index", "--index-version", str(version))
    found = index_entries((top / ".git/index").read_bytes())
    assert {name: tracked.blob.hex() for name, tracked in found.items()} == {
        name: git("rev-parse", f":{name.decode()}").strip() for name in (b"a", b"d/b", b"d/e/c")
    }


def test_a_part_of_what_git_reads(git: Git, top: Path) -> None:
    commit(git, top, "a", "a")
    git("update-index", "--split-index")
    assert index_entries((top / ".git/index").read_bytes()) == {}


@pytest.mark.parametrize(
    "name", [b"../x", b"/x", b"a/../../x", b"a//b", b".git/config", b"a/.git/x", b"", b"a/.", b"x" * 5000]
)
def test_what_is_no_path_of_a_file(name: bytes) -> None:
    assert index_entries(forged(2, [b"a"])).keys() == {b"a"}
    assert index_entries(forged(2, [b"a", name])) == {}


def test_names_that_go_on_from_each_other_without_end() -> None:
    assert len(index_entries(forged(4, [b"a"] * 4000, [b"\0"] * 4000))) == 4000
    assert index_entries(forged(4, [b"a"] * 200_000, [b"\0"] * 200_000)) == {}


def test_more_dropped_than_there_is() -> None:
    assert index_entries(forged(4, [b"ab", b"c"], [b"\0", b"\3"])) == {}
