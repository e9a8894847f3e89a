"""git's objects as git reads them; and damaged, huge and endless ones."""

import hashlib
import os
import random
import struct
import tracemalloc
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.repository import object_store
from humanlayer_agent.shell.repository.object_store import Allowance, NotKnown, ObjectStore
from humanlayer_agent.shell.view import HOST
from tests.shell.repository.conftest import Git

BLOB, OFFSET, NAME = 3, 6, 7


def stored(folder: Path) -> ObjectStore:
    return ObjectStore(os.fspath(folder), HOST, Allowance())


def number(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def header(kind: int, size: int) -> bytes:
    first = kind << 4 | size & 15
    return bytes([first | (128 if size > 15 else 0)]) + (number(size >> 4) if size > 15 else b"")


def packed(folder: Path, entries: Sequence[tuple[bytes, int, bytes, bytes]]) -> None:
    """Write a pack: by name the kind, what stands before the content, and the content (whose size may be given)."""
    data, places = b"PACK" + struct.pack(">II", 2, len(entries)), {}
    for name, kind, before, content in entries:
        places[name] = len(data)
        data += header(kind, len(content)) + before + zlib.compress(content)
    names = sorted(places)
    index = b"\377tOc" + struct.pack(">I", 2)
    index += b"".join(struct.pack(">I", sum(name[0] <= n for name in names)) for n in range(256))
    index += b"".join(names) + bytes(4 * len(names)) + b"".join(struct.pack(">I", places[name]) for name in names)
    (folder / "pack").mkdir(parents=True, exist_ok=True)
    (folder / "pack/pack-x.pack").write_bytes(data + hashlib.sha1(data).digest())
    (folder / "pack/pack-x.idx").write_bytes(index + bytes(40))


def blob(content: bytes) -> bytes:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).digest()


def committed(git: Git, top: Path) -> None:
    """Some commits whose trees and blobs are alike, so that git makes deltas of them."""
    random.seed(5)
    lines = [str(random.random()) for _ in range(400)]
    for n in range(6):
        for folder in ("", "a/", "a/b/", "c/"):
            (top / folder).mkdir(parents=True, exist_ok=True)
            for each in range(5):
                lines[each * n] = str(n)
                (top / f"{folder}{each}.txt").write_text("\n".join(lines))
        git("add", "-A")
        git("commit", "-qm", str(n))
    git("tag", "-a", "v1", "-m", "v1")


def check(git: Git, folder: Path) -> None:
    listed = git("cat-file", "--batch-all-objects", "--batch-check").splitlines()
    assert len(listed) > 40
    with stored(folder) as store:
        for line in listed:
            name, kind, size = line.split()
            found = store.get(bytes.fromhex(name))
            assert (found[0], len(found[1])) == (kind, int(size))


def test_loose(git: Git, top: Path) -> None:
    committed(git, top)
    check(git, top / ".git/objects")


def test_packed_with_deltas(git: Git, top: Path) -> None:
    committed(git, top)
    git("gc", "-q", "--aggressive")
    assert list((top / ".git/objects/pack").glob("*.pack"))
    check(git, top / ".git/objects")


def test_several_packs_deltas_by_name_and_loose(git: Git, top: Path) -> None:
    committed(git, top)
    git("-c", "repack.useDeltaBaseOffset=false", "repack", "-qd")
    (top / "new.txt").write_text("new")
    git("add", "-A")
    git("commit", "-qm", "more")
    git("repack", "-q")
    (top / "new.txt").write_text("newer")
    git("add", "-A")
    git("commit", "-qm", "most")
    check(git, top / ".git/objects")


def test_borrowed_objects(git: Git, top: Path) -> None:
    committed(git, top)
    git("gc", "-q")
    git("clone", "-qs", ".", "../other")
    assert not list((top.parent / "other/.git/objects/pack").iterdir())
    check(git, top.parent / "other/.git/objects")


def test_names_by_their_beginning(git: Git, top: Path) -> None:
    committed(git, top)
    for _ in range(2):
        name = git("rev-parse", "HEAD").strip()
        with stored(top / ".git/objects") as store:
            assert store.beginning_with(name[:10]) == [bytes.fromhex(name)]
            assert store.beginning_with("0123456789abc") == []
        git("gc", "-q")


# ---- hostile ones ------------------------------------------------------------------------------------------


def refused(folder: Path, name: bytes) -> None:
    """It can't be told, and little memory was needed to find out."""
    tracemalloc.start()
    try:
        with stored(folder) as store, pytest.raises(NotKnown):
            store.get(name)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def loose(folder: Path, name: bytes, data: bytes) -> None:
    path = folder / name.hex()[:2] / name.hex()[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nothing of zlib",
        zlib.compress(b"blob 3\0abcd"),
        zlib.compress(b"blob 5\0abcd"),
        zlib.compress(b"blob 4\0abcd")[:-4],
        zlib.compress(b"blob 4\0abcx"),
        zlib.compress(b"blub 4\0abcd"),
        zlib.compress(b"blob -4\0abcd"),
        zlib.compress(b"blob 99999999999\0abcd"),
        zlib.compress(b"x" * 100),
    ],
)
def test_damaged_loose_objects(tmp_path: Path, data: bytes) -> None:
    loose(tmp_path, blob(b"abcd"), data)
    refused(tmp_path, blob(b"abcd"))


@pytest.mark.long
def test_a_loose_object_that_unpacks_to_very_much(tmp_path: Path) -> None:
    name = blob(b"bomb")
    loose(tmp_path, name, zlib.compress(b"blob 4\0" + bytes(150 << 20)))
    refused(tmp_path, name)


def test_what_is_no_file(tmp_path: Path) -> None:
    name = blob(b"pipe")
    (tmp_path / name.hex()[:2]).mkdir()
    os.mkfifo(tmp_path / name.hex()[:2] / name.hex()[2:])
    refused(tmp_path, name)


def test_deltas_that_lead_to_each_other(tmp_path: Path) -> None:
    one, other = bytes([1]) * 20, bytes([2]) * 20
    delta = number(4) + number(4) + b"\x90\x04"
    packed(tmp_path, [(one, NAME, other, delta), (other, NAME, one, delta)])
    refused(tmp_path, one)


@pytest.mark.parametrize("back", [b"\x00", b"\x7f", b"\xff" * 9 + b"\x7f"])
def test_deltas_whose_base_is_nowhere(tmp_path: Path, back: bytes) -> None:
    packed(tmp_path, [(bytes([1]) * 20, OFFSET, back, number(4) + number(4) + b"\x90\x04")])
    refused(tmp_path, bytes([1]) * 20)


def test_a_delta_of_which_little_makes_very_much(tmp_path: Path) -> None:
    base = bytes(1 << 20)
    delta = number(len(base)) + number(600 << 20) + b"\xf0\xff\xff\xff" * 40
    packed(tmp_path, [(blob(base), BLOB, b"", base), (bytes([1]) * 20, NAME, blob(base), delta)])
    refused(tmp_path, bytes([1]) * 20)


def test_many_deltas_each_of_much(tmp_path: Path) -> None:
    base = bytes(7 << 20)
    entries, before = [(blob(base), BLOB, b"", base)], blob(base)
    delta = number(len(base)) + number(len(base)) + b"\xf0\x00\x00\x10" * 7
    for n in range(60):
        name = bytes([n]) * 20
        entries.append((name, NAME, before, delta))
        before = name
    packed(tmp_path, entries)
    refused(tmp_path, before)


@pytest.mark.long
def test_many_deltas_that_unpack_to_much_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_MOST_IN_ALL", 24 << 20)
    names = [bytes([n]) * 20 for n in range(40)]
    packed(tmp_path, [(one, NAME, base, bytes(6 << 20)) for one, base in pairwise(names)])
    tracemalloc.start()
    try:
        refused(tmp_path, names[0])
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()


def test_a_place_that_no_file_has(tmp_path: Path) -> None:
    packed(tmp_path, [(blob(b"abcd"), BLOB, b"", b"abcd")])
    index = tmp_path / "pack/pack-x.idx"
    data = index.read_bytes()
    at = len(data) - 40 - 4
    index.write_bytes(data[:at] + b"\x80\0\0\0" + b"\xff" * 8 + data[at + 4 :])
    refused(tmp_path, blob(b"abcd"))


def test_the_packs_of_all_alternates_are_counted_together(tmp_path: Path) -> None:
    packed(tmp_path / "0", [(blob(b"abcd"), BLOB, b"", b"abcd")])
    for n in range(6):
        folder = tmp_path / str(n) / "pack"
        folder.mkdir(parents=True, exist_ok=True)
        for each in range(30):
            for kind in ("pack", "idx"):
                os.link(tmp_path / f"0/pack/pack-x.{kind}", folder / f"pack-{each}.{kind}")
    (tmp_path / "0/info").mkdir()
    (tmp_path / "0/info/alternates").write_text("".join(f"../{n}\n" for n in range(1, 6)))
    refused(tmp_path / "0", blob(b"abcd"))


@pytest.mark.parametrize(
    "delta",
    [
        b"",
        b"\xff" * 30,
        number(4) + number(4) + b"\x00",
        number(5) + number(4) + b"\x90\x04",
        number(4) + number(4) + b"\x91\x03\x04",
        number(4) + number(9) + b"\x90\x04",
        number(4) + number(3) + b"\x90\x04",
        number(4) + number(4) + b"\x04ab",
    ],
)
def test_deltas_that_do_not_fit(tmp_path: Path, delta: bytes) -> None:
    packed(tmp_path, [(blob(b"abcd"), BLOB, b"", b"abcd"), (bytes([1]) * 20, NAME, blob(b"abcd"), delta)])
    with stored(tmp_path) as store:
        assert store.get(blob(b"abcd")) == ("blob", b"abcd")
    refused(tmp_path, bytes([1]) * 20)


@pytest.mark.parametrize("name", [b".git", b".GIT", b"..", b".", b"a/b", b"", b"git~1", b"n" * 256])
def test_trees_with_names_that_git_does_not_check_out(git: Git, top: Path, name: bytes) -> None:
    content = b"100644 " + name + b"\0" + bytes(20)
    tree = git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=content).strip()
    with stored(top / ".git/objects") as store, pytest.raises(NotKnown):
        store.tree(bytes.fromhex(tree))


def test_alternates_that_lead_to_each_other(tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        (tmp_path / one / "info").mkdir(parents=True)
        (tmp_path / one / "info/alternates").write_text(f"../{other}\n")
    loose(tmp_path / "b", blob(b"abcd"), zlib.compress(b"blob 4\0abcd"))
    with stored(tmp_path / "a") as store:
        assert store.get(blob(b"abcd")) == ("blob", b"abcd")


def test_alternates_without_end(tmp_path: Path) -> None:
    (tmp_path / "info").mkdir()
    (tmp_path / "info/alternates").write_text("\n".join(f"/nowhere/{n}" for n in range(50)))
    with pytest.raises(NotKnown):
        stored(tmp_path)


def test_what_may_be_done_is_used_up(git: Git, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(git, top)
    monkeypatch.setattr(object_store, "_MOST_STEPS", 8)
    names = git("rev-list", "--all").split()
    with stored(top / ".git/objects") as store:
        for name in names[:4]:
            store.get(bytes.fromhex(name))
        with pytest.raises(NotKnown):
            store.get(bytes.fromhex(names[4]))


@given(st.data())
def test_flipped_bytes_are_not_known_or_the_same(data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder, base = Path(name), b"a line\n" * 50
        changed = base[:100] + b"new" + base[100:]
        delta = number(len(base)) + number(len(changed)) + b"\x90\x64\x03new" + b"\xb1\x64" + struct.pack("<H", 250)
        entries = [(blob(base), BLOB, b"", base), (blob(changed), NAME, blob(base), delta)]
        packed(folder, entries)
        with stored(folder) as store:
            assert store.get(blob(changed)) == ("blob", changed)
        path = folder / "pack" / data.draw(st.sampled_from(["pack-x.pack", "pack-x.idx"]))
        content = bytearray(path.read_bytes())
        for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
            content[at] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.sampled_from([len(content), len(content) // 2]))])
        for whole in (base, changed):
            try:
                with stored(folder) as store:
                    assert store.get(blob(whole)) == ("blob", whole)
            except NotKnown:
                pass
