"""A log that was set back, deleted or torn: who has seen more of it notices, and the anchor has."""

import json
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Approver, Denial, Permit, Refused
from humanlayer_agent.audit import events
from humanlayer_agent.audit.anchor import Anchor, anchor_file, anchor_of, read_anchor, write_anchor
from humanlayer_agent.audit.heads import Head, heads_in, is_signed, signed
from humanlayer_agent.errors import StoreError, StoreTampered
from humanlayer_agent.keys.key_file import AuditKey
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import anchor_folder, audit_key_path
from humanlayer_agent.store.log_heads import accept_loss
from humanlayer_agent.store.log_position import LogLost
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.store.verification_record import last_whole, verify_since_checked, verify_whole
from humanlayer_agent.testing.approvers import TEST_AUTHORITY
from tests.support import children
from tests.support.forging import forging

SIGNER = Signer()
TRUSTED = TEST_AUTHORITY.trusting(SIGNER.fingerprint)
TESTER = Approver("os:1000:tester", "command-line", "terminal")


def write(store: SQLiteStore, count: int = 1) -> None:
    for _ in range(count):
        store.record(events.POLICY_LOADED, run="r")


def erase(path: Path, after: int) -> None:
    with forging(path) as connection:
        assert connection.execute("DELETE FROM audit_event WHERE seq > ?", (after,)).rowcount


def anchored(path: Path) -> Anchor:
    found = anchor_of(path)
    assert found is not None
    return found


# A process that runs


def test_what_this_process_has_seen_must_still_be_there(
    path: Path, make_gate: Callable[..., Gate], act: Callable[..., Any]
) -> None:
    gate = make_gate()
    permit = gate.check(act("ls"))
    assert isinstance(permit, Permit)
    erase(path, after=2)
    for denial in (gate.start(permit, act("ls")), gate.check(act("ls"))):
        assert isinstance(denial, Denial)
        assert denial.by == "store"
        assert "was set back while it was in use: event 3 is gone" in denial.reason
    with pytest.raises(StoreTampered):
        gate.store.votes("x")


def test_another_event_in_the_same_place(store: SQLiteStore, path: Path) -> None:
    write(store, 2)
    erase(path, after=1)
    write(SQLiteStore(path, anchored=False), 5)
    with pytest.raises(StoreTampered, match="event 2 is gone"):
        write(store)


def test_what_was_seen_in_reading_counts_too(store: SQLiteStore, path: Path) -> None:
    reader = SQLiteStore(path, create=False)
    write(store, 2)
    list(reader.events())
    erase(path, after=1)
    with pytest.raises(StoreTampered):
        list(reader.events())


def test_whoever_notices_leaves_word_for_others(store: SQLiteStore, path: Path) -> None:
    """The anchor is a second behind. Who has seen more than it says writes that down."""
    write(store, 5)
    assert anchored(path).head.seq < 5
    erase(path, after=3)
    SQLiteStore(path).close()  # nobody who begins now can know
    with pytest.raises(StoreTampered):
        write(store)
    assert anchored(path).head.seq == 5
    with pytest.raises(LogLost, match=r"its log ends at event 3 .* and events 4 to 5 are missing"):
        SQLiteStore(path)


def test_a_stop_that_another_process_wrote_is_not_undone_unseen(
    store: SQLiteStore, path: Path, clock: Any, make_gate: Callable[..., Gate], act: Callable[..., Any]
) -> None:
    """This process has seen nothing of it yet: who stopped has moved the anchor, and that counts for everybody."""
    gate = make_gate()
    assert isinstance(gate.check(act("ls")), Permit)
    before = list(store.events())[-1].seq
    with closing(SQLiteStore(path, clock=clock)) as human:
        human.halts.stop("os:1000:bob")
    with forging(path) as connection:
        connection.execute("DELETE FROM halt")
        connection.execute("DELETE FROM audit_event WHERE seq > ?", (before,))
    denial = gate.check(act("ls"))
    assert isinstance(denial, Denial)
    assert f"its log ends at event {before}" in denial.reason
    assert list(SQLiteStore(path, create=False).events(type="exec")) == []


def test_a_stop_that_does_not_stand_is_none(store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something undoes it at once: `stop` looks at it as another process would."""
    from humanlayer_agent.store import stops

    real = stops._clear

    def undone(ledger: Any) -> None:
        real(ledger)
        for name in ("halt_no_delete", "audit_event_no_delete"):
            ledger.change(f"DROP TRIGGER {name}")
        ledger.change("DELETE FROM halt")
        ledger.change("DELETE FROM audit_event WHERE type = 'supervision.stopped'")

    from humanlayer_agent.store import schema

    monkeypatch.setattr(schema, "check", schema.version_of)
    monkeypatch.setattr(stops, "_clear", undone)
    with pytest.raises(StoreTampered, match="does not stand there"):
        store.halts.stop("os:1000:bob")


@pytest.mark.parametrize("checkpointed", [False, True])
def test_the_end_of_the_write_ahead_log_is_overwritten(store: SQLiteStore, path: Path, checkpointed: bool) -> None:
    wal = path.with_name(f"{path.name}-wal")
    write(store, 40)
    if checkpointed:  # then it begins at the front again, and what is behind its end is of before
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(RESTART)")
        write(store, 2)
    content = wal.read_bytes()
    hash_ = list(store.events())[-1].hash.encode()
    write(store)
    assert content != wal.read_bytes()
    hash_ = list(store.events())[-1].hash.encode()
    place = wal.read_bytes().index(hash_)
    with wal.open("r+b") as file:
        file.seek(place)
        file.write(b"x" * 100)
    for _ in range(2):
        with pytest.raises(StoreTampered, match="was overwritten while it was in use"):
            write(store)


def test_what_others_write_to_it_is_fine(store: SQLiteStore, path: Path) -> None:
    """Also where it begins anew, and where a transaction was given up in the middle."""
    other = SQLiteStore(path)
    for mode in ("PASSIVE", "RESTART", "TRUNCATE"):
        for each in (store, other, store):
            write(each, 3)
        with closing(sqlite3.connect(path)) as third:
            third.execute("PRAGMA cache_size=2")
            third.execute("BEGIN IMMEDIATE")
            third.executemany(
                "INSERT INTO run (id, agent, instance, requester, project, process, started) VALUES (?, '', '', '', '', '', 1)",
                ((str(n) * 99,) for n in range(300)),
            )
            third.execute("ROLLBACK")  # it has written pages out, behind the end
        write(store)
        with closing(sqlite3.connect(path)) as third:
            third.execute(f"PRAGMA wal_checkpoint({mode})")
    write(store, 400)
    assert store.verify().intact


def test_the_file_itself_written_over(store: SQLiteStore, path: Path) -> None:
    """SQLite goes on with the pages that it holds in memory: it does not notice."""
    write(store, 3)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        kept = path.read_bytes()
        write(store, 3)
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.write(kept)
        file.truncate()
    with pytest.raises(StoreTampered, match="event 6 is gone"):
        write(store)


@pytest.mark.parametrize("way", ["write", "read"])
def test_a_newer_version_has_changed_the_store_meanwhile(store: SQLiteStore, path: Path, way: str) -> None:
    """Whatever it changed: its number is looked at under the lock."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(StoreError, match="was written by a newer humanlayer-agent"):
        write(store) if way == "write" else store.votes("x")


# The anchor


def test_it_is_a_signed_head_beside_the_audit_key(store: SQLiteStore, path: Path) -> None:
    AuditKey.create(audit_key_path())
    write(store, 3)
    store.close()
    file = anchored(path).file
    assert file.parent.parent == audit_key_path().parent
    assert [file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777] == [0o600, 0o700]
    (head,) = heads_in(file.read_text())
    assert is_signed(head)
    assert (head.seq, head.key, head.signer) == (3, "user", AuditKey(audit_key_path()).fingerprint)


def test_it_is_written_once_a_second(store: SQLiteStore, path: Path, clock: Any) -> None:
    write(store, 5)
    assert anchored(path).head.seq == 0
    clock.pass_ms(1_000)
    write(store, 5)
    assert anchored(path).head.seq == 6
    clock.pass_ms(-1)  # somebody sets it back
    write(store)
    assert anchored(path).head.seq == 11
    head = store.write_head()
    assert anchored(path).head == head


def test_several_processes_share_one(store: SQLiteStore, path: Path, clock: Any) -> None:
    with closing(SQLiteStore(path, clock=clock)) as other:
        clock.pass_ms(5_000)
        write(other)
    kept = anchored(path)
    write(store)
    assert anchored(path) == kept


def test_an_older_one_does_not_replace_it(store: SQLiteStore, path: Path) -> None:
    write(store, 3)
    early = store._keeper
    seen = store.database.position.seen
    write(store, 3)
    head = store.write_head()
    store.database.position.seen = seen
    assert early.anchor(store.database.position, 1)
    assert anchored(path).head == head


def test_a_log_that_was_written_anew(store: SQLiteStore, path: Path) -> None:
    write(store, 3)
    store.close()
    erase(path, after=1)
    with closing(SQLiteStore(path, anchored=False)) as other:
        write(other, 7)
    with pytest.raises(LogLost, match="was written anew: event 3, or one before it, is not the one that stood there"):
        SQLiteStore(path)
    assert not SQLiteStore(path, create=False).verify(heads=[anchored(path).head]).intact


@pytest.mark.parametrize("way", ["removed", "emptied", "another", "begun"])
def test_a_store_that_is_gone(store: SQLiteStore, path: Path, way: str) -> None:
    """No empty one is made in its place, and none that was made elsewhere takes it."""
    write(store, 3)
    store.close()
    path.unlink()
    if way == "emptied":
        path.touch()
    elif way == "another":
        with closing(SQLiteStore(path.with_name("another"))) as other:
            write(other, 9)
        path.with_name("another").rename(path)
    elif way == "begun":
        from humanlayer_agent.store.connection import Database

        Database(path).close()
    content = path.read_bytes() if path.exists() else None
    for _ in range(2):
        with pytest.raises(LogLost, match="is gone, or another one is in its place: its log went to event 3"):
            SQLiteStore(path)
        assert (path.read_bytes() if path.exists() else None) == content


def test_a_write_ahead_log_that_was_torn_when_nobody_lived(path: Path) -> None:
    """SQLite drops the end, and says nothing: the anchor does."""
    program = """if True:
        import os, signal, sys
        from humanlayer_agent.audit import events
        from humanlayer_agent.store.sqlite import SQLiteStore
        now = 1_700_000_000_000
        store = SQLiteStore(sys.argv[1], clock=lambda: now)
        for _ in range(4):
            store.record(events.POLICY_LOADED, run="r")
        now += 1_000
        store.record(events.POLICY_LOADED, run="r")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    child = children.run([sys.executable, "-c", program, str(path)])
    assert child.returncode == -signal.SIGKILL
    with path.with_name(f"{path.name}-wal").open("r+b") as file:
        file.seek(-3_000, os.SEEK_END)
        file.write(os.urandom(3_000))
    with pytest.raises(LogLost, match=r"its log ends at event 4 .* and event 5 is missing"):
        SQLiteStore(path)


def test_a_store_that_was_moved(store: SQLiteStore, path: Path, clock: Any) -> None:
    write(store, 3)
    store.close()
    place = path.with_name("moved")
    path.rename(place)
    clock.pass_ms(1_000)
    with closing(SQLiteStore(place, clock=clock)) as moved:
        write(moved)
    assert anchored(place).head.seq == 4
    SQLiteStore(path).close()  # nothing is missing where it was
    erase(place, after=2)
    with pytest.raises(LogLost):
        SQLiteStore(place)


def test_another_machine_that_shares_the_home(store: SQLiteStore, path: Path) -> None:
    """Its stores are others, also those with the same path."""
    write(store, 3)
    store.close()
    write_anchor(replace(anchored(path), host="another"))
    path.unlink()
    SQLiteStore(path).close()


def test_an_older_version_made_the_store(store: SQLiteStore, path: Path) -> None:
    write(store)
    store.close()
    shutil.rmtree(anchor_folder())
    SQLiteStore(path).close()
    assert anchored(path).head.seq == 1


def test_that_it_was_lost_is_in_the_log(store: SQLiteStore, path: Path) -> None:
    """An agent's command may have removed it, to set the log back."""
    write(store, 3)
    store.write_head()
    store.close()
    shutil.rmtree(anchor_folder())
    with closing(SQLiteStore(path)) as other:
        (event,) = (entry.event for entry in other.events(type="audit.anchored"))
    assert event["file"] == str(anchored(path).file)
    with closing(SQLiteStore(path)) as other:
        assert len(list(other.events(type="audit.anchored"))) == 1


def test_where_none_can_be_written_everything_works(path: Path) -> None:
    anchor_folder().parent.mkdir(parents=True)
    anchor_folder().write_text("no folder")
    with closing(SQLiteStore(path)) as store:
        write(store, 3)
        store.write_head()
    with closing(SQLiteStore(path)) as store:
        assert [entry.event["type"] for entry in store.events(type="audit")] == ["audit.opened", "audit.head"]


def test_a_store_among_temporary_files(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever tests with our stores leaves nothing in their own folder, and may use the same path again."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for _ in range(2):
        with closing(SQLiteStore(path)) as store:
            write(store, 3)
            store.write_head()
        path.unlink()
    assert not anchor_folder().exists()


def forged(head: Head, **fields: Any) -> str:
    return " ".join(["hla-head-1", *(f"{name}={getattr(replace(head, **fields), name)}" for name in head.__slots__)])


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", "null", '{"format": "humanlayer-agent anchor 1"}', "forged", "\x00" * 300, "loose"],
)
def test_what_nobody_has_signed_says_nothing(store: SQLiteStore, path: Path, content: str) -> None:
    """A crash may leave half a file. Who forges one without a key keeps nobody from anything."""
    write(store, 3)
    store.close()
    file = anchored(path).file
    if content == "forged":
        said = json.loads(file.read_text())
        content = json.dumps(said | {"head": forged(anchored(path).head, seq=900, hash="a" * 64)})
    if content == "loose":
        file.chmod(0o644)
    else:
        file.write_text(content)
    with closing(SQLiteStore(path)) as other:
        write(other)
    assert anchored(path).head.seq >= 3


@pytest.mark.sample(2)
@pytest.mark.parametrize("identity", ["../../x", "", "a" * 31, 7, None, "A" * 32])
def test_an_identity_that_is_no_name_of_a_file(path: Path, identity: Any) -> None:
    SQLiteStore(path).close()
    shutil.rmtree(anchor_folder())
    with forging(path) as connection:
        connection.execute("UPDATE audit_event SET body = json_set(body, '$.store', ?)", (identity,))
    SQLiteStore(path).close()
    assert not anchor_folder().exists()
    assert not list(anchor_folder().parent.glob("../*.json"))


# Going on without what is lost


@pytest.fixture
def lost(store: SQLiteStore, path: Path) -> LogLost:
    write(store, 5)
    store.close()
    erase(path, after=2)
    with pytest.raises(LogLost) as error:
        SQLiteStore(path)
    return error.value


def test_a_human_goes_on_without_it(lost: LogLost, path: Path) -> None:
    with closing(SQLiteStore(path, anchored=False)) as opened:
        assert accept_loss(opened, lost.loss, TESTER, "the disk", TRUSTED, SIGNER) is None
    with closing(SQLiteStore(path)) as again:
        write(again)
        (event,) = (entry.event for entry in again.events(type="audit.loss-accepted"))
        assert again.verify().intact
    head = lost.loss.anchor.head
    assert event["lost"] == {"store": head.store, "seq": 5, "hash": head.hash, "time": head.time}
    assert (event["left"], event["person"], event["comment"]) == (2, "tester", "the disk")
    assert anchored(path).head.seq > 2


def test_it_verifies_from_there_on_although_more_was_verified_before(store: SQLiteStore, path: Path) -> None:
    AuditKey.create(audit_key_path())
    write(store, 5)
    store.write_head()
    assert verify_whole(store).intact
    assert last_whole(store) is not None
    store.close()
    erase(path, after=2)
    with pytest.raises(LogLost) as error:
        SQLiteStore(path)
    with closing(SQLiteStore(path, anchored=False)) as opened:
        assert accept_loss(opened, error.value.loss, TESTER, "", TRUSTED, SIGNER) is None
        write(opened, 9)
        found, begins = verify_since_checked(opened)
        assert (found.intact, begins) == (True, None), found.problem


def test_it_goes_on_in_place_of_a_store_that_is_gone(store: SQLiteStore, path: Path) -> None:
    write(store, 5)
    store.close()
    former = anchored(path)
    path.unlink()
    with pytest.raises(LogLost) as error:
        SQLiteStore(path)
    with closing(SQLiteStore(path, anchored=False)) as opened:
        assert accept_loss(opened, error.value.loss, TESTER, "", TRUSTED, SIGNER) is None
        assert [entry.event["type"] for entry in opened.events()] == [
            "audit.opened",
            "audit.loss-accepted",
            "audit.head",
        ]
    SQLiteStore(path).close()
    assert not former.file.exists()
    assert anchored(path).head.store != former.head.store


@pytest.mark.parametrize(
    ("who", "authority"),
    [
        (replace(TESTER, principal="os:9:eve"), TRUSTED),
        (replace(TESTER, assurance="chat"), TRUSTED),
        (TESTER, TEST_AUTHORITY),
    ],
)
def test_who_may_not(lost: LogLost, path: Path, who: Approver, authority: Any) -> None:
    with closing(SQLiteStore(path, anchored=False)) as opened:
        assert isinstance(accept_loss(opened, lost.loss, who, "", authority, SIGNER), Refused)
    with pytest.raises(LogLost):
        SQLiteStore(path)


def test_one_that_nobody_has_signed_does_not_verify(lost: LogLost, path: Path) -> None:
    with closing(SQLiteStore(path, anchored=False)) as opened:
        said = lost.loss.fields() | {"approver": {"principal": "os:1"}, "person": "tester"}
        opened.record(
            events.AUDIT_LOSS_ACCEPTED, **said, comment="", signer=SIGNER.fingerprint, loss_signature="ab" * 64
        )
        assert "its signature is not one" in opened.verify().problem


def test_a_process_that_has_seen_what_is_lost_does_not_go_on(store: SQLiteStore, path: Path) -> None:
    """Whatever a human accepts: its agent acted on what is gone."""
    write(store, 5)
    erase(path, after=2)
    with pytest.raises(StoreTampered):
        write(store)
    with pytest.raises(LogLost) as error:
        SQLiteStore(path)
    with closing(SQLiteStore(path, anchored=False)) as opened:
        assert accept_loss(opened, error.value.loss, TESTER, "", TRUSTED, SIGNER) is None
    with pytest.raises(StoreTampered):
        write(store)
    SQLiteStore(path).close()


def test_an_anchor_by_another_key_of_ours_counts(store: SQLiteStore, path: Path) -> None:
    """The audit key may have been made anew: whoever has signed it, that much stood there."""
    write(store, 5)
    store.close()
    kept = anchored(path)
    write_anchor(replace(kept, head=signed(replace(kept.head, seq=7, hash="b" * 64), Signer())))
    with pytest.raises(LogLost):
        SQLiteStore(path)
    assert read_anchor(anchor_file(kept.head.store)) is not None
