"""From the last whole verification on: what is read again, what is not, and who may say where that begins."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.audit.chain import Tip
from humanlayer_agent.audit.heads import Head, head_in, head_text, root_of
from humanlayer_agent.audit.verify import Reached
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.keys.key_file import AuditKey
from humanlayer_agent.locations import audit_key_path, data_folder
from humanlayer_agent.store.retention import Purge
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.store.verification_record import last_whole, verify_since_checked, verify_whole
from tests.support.forging import forging
from tests.support.sealing import Sealer

EARLY, LATE = "ask early", "ask late"
Make = Callable[..., Gate]


@pytest.fixture
def key() -> AuditKey:
    return AuditKey.create(audit_key_path())


def work(gate: Gate, *commands: str) -> None:
    for command in commands:
        permit = gate.admit(Action(command, cwd="/", project="/"))
        if isinstance(permit, Permit) and (permit.started or gate.start(permit, permit.action) is None):
            gate.finish(permit, Outcome(0))


@pytest.fixture
def gate(key: AuditKey, make_gate: Make) -> Gate:
    """A run that goes on: what it did early was verified whole, what it did late was not."""
    gate = make_gate(["approve"] * 4)
    work(gate, "ls", EARLY)
    gate.store.write_head()
    return gate


@pytest.fixture
def checked(gate: Gate, store: SQLiteStore) -> Head:
    found = verify_whole(store)
    assert found.intact
    (reached,) = found.newest_heads
    work(gate, "ls -l", LATE)
    return reached.head


def record() -> Path:
    (path,) = data_folder().glob("verified-*.json")
    return path


def tampered(path: Path, *statements: str) -> None:
    """Change rows as whoever may write the file can: without the triggers that would refuse it."""
    with forging(path) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount == 1


def number(store: SQLiteStore, command: str) -> int:
    """Of the event that says what the policy said of this command."""
    return next(entry.seq for entry in store.events(type="decision") if entry.event["command"] == command)


def test_only_what_came_after_is_read(store: SQLiteStore, checked: Head) -> None:
    read: list[int] = []
    found, begins = verify_since_checked(store, progress=read.append)
    assert (found.intact, found.since) == (True, checked)
    assert begins == last_whole(store)
    assert max(read) == found.count - checked.seq < found.count
    whole: list[int] = []
    assert verify_whole(store, progress=whole.append).count == max(whole) == found.count


def test_it_does_not_move_on_by_itself(store: SQLiteStore, gate: Gate, checked: Head) -> None:
    """Else what no whole verification has seen would be passed over, one step after the other."""
    store.write_head()
    assert verify_since_checked(store)[0].since == checked
    assert verify_since_checked(store)[0].since == checked
    assert verify_whole(store).intact
    begins = last_whole(store)
    assert begins is not None
    assert begins.head.seq > checked.seq


def test_without_a_record_everything_is_read(store: SQLiteStore, run: str) -> None:
    """Nobody has a key here that outlasts its process."""
    store.write_head()
    for _ in range(2):
        found, begins = verify_since_checked(store)
        assert (found.intact, found.since, begins) == (True, None, None)
    assert not data_folder().exists() or not list(data_folder().glob("verified-*"))


def test_only_its_owner_reads_it(checked: Head) -> None:
    assert record().stat().st_mode & 0o777 == 0o600


def test_a_head_alone_is_no_record(store: SQLiteStore, gate: Gate, key: AuditKey) -> None:
    """They stand in the log, for whoever would like to have what is before them passed over."""
    (event,) = (entry.event for entry in store.events(type="audit.head"))
    head = head_in(event)
    assert head is not None
    path = data_folder() / f"verified-{head.store}.json"
    for signature in ("", head.signature, key.sign_text(canonical(asdict(head)))):
        path.write_text(json.dumps({"head": head.fields(), "at": head.time, "signature": signature}))
        path.chmod(0o600)
        assert last_whole(store) is None
        assert verify_since_checked(store)[0].since is None
        path.unlink()


def edited(change: Callable[[dict[str, Any]], Any]) -> None:
    said = json.loads(record().read_text())
    change(said)
    record().write_text(json.dumps(said))


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.update(at=said["at"] + 1),
        lambda said: said.update(at="now"),
        lambda said: said["head"]["head"].update(seq=said["head"]["head"]["seq"] + 3),
        lambda said: said["head"]["head"].update(key="process"),
        lambda said: said["head"]["head"].update(store="0" * 32),
        lambda said: said["head"].update(head_signature="0" * 128),
        lambda said: said.update(signature=said["head"]["head_signature"]),
        lambda said: said.update(signature=5),
        lambda said: said.update(head=None),
        lambda said: said.clear(),
    ],
)
def test_a_record_that_was_changed_counts_for_nothing(
    store: SQLiteStore, checked: Head, change: Callable[[dict[str, Any]], Any]
) -> None:
    edited(change)
    assert last_whole(store) is None
    found, begins = verify_since_checked(store)
    assert (found.intact, found.since, begins) == (True, None, None)
    assert last_whole(store) is not None, "it was read whole, and that is recorded"


@pytest.mark.parametrize("what", ["text", "another key", "no key", "others may read it", "a link"])
def test_nor_does_one_of_another_kind(store: SQLiteStore, checked: Head, what: str, tmp_path: Path) -> None:
    if what == "text":
        record().write_text("[[[")
    elif what == "others may read it":
        record().chmod(0o644)
    elif what == "a link":
        record().rename(tmp_path / "elsewhere")
        (data_folder() / f"verified-{checked.store}.json").symlink_to(tmp_path / "elsewhere")
    else:
        audit_key_path().unlink()
        if what == "another key":
            AuditKey.create(audit_key_path())
    assert last_whole(store) is None


def test_the_record_of_another_log(store: SQLiteStore, checked: Head, tmp_path: Path) -> None:
    other = SQLiteStore(tmp_path / "other.sqlite3")
    (event,) = (entry.event for entry in other.events())
    record().rename(data_folder() / f"verified-{event['store']}.json")
    assert last_whole(other) is None


@pytest.mark.parametrize("name", ["../evil", "", "0" * 31, "A" * 32])
def test_a_log_that_names_itself_like_a_path(
    store: SQLiteStore, key: AuditKey, monkeypatch: pytest.MonkeyPatch, path: Path, name: str
) -> None:
    tampered(path, f"UPDATE audit_event SET body = json_set(body, '$.store', '{name}') WHERE seq = 0")
    assert last_whole(store) is None


# What shows


def test_what_was_changed_after_it_shows(store: SQLiteStore, checked: Head, path: Path) -> None:
    seq = number(store, LATE)
    tampered(path, f"UPDATE audit_event SET body = replace(body, '{LATE}', 'ask lame') WHERE seq = {seq}")
    found, _ = verify_since_checked(store)
    assert (found.kind, found.bad_seq, found.since) == ("tampered", seq, checked)


def test_the_event_it_begins_with_must_be_the_same(store: SQLiteStore, checked: Head, path: Path) -> None:
    tampered(path, f"UPDATE audit_event SET body = replace(body, 'run-1', 'run-2') WHERE seq = {checked.seq}")
    found, _ = verify_since_checked(store)
    assert (found.kind, found.bad_seq) == ("tampered", checked.seq)


def test_a_chain_that_is_whole_and_begins_with_another_event_shows(store: SQLiteStore, checked: Head) -> None:
    tips = Sealer(entry for entry in store.events() if entry.seq < checked.seq).tips
    before = Head(checked.store, checked.seq - 1, "0" * 64, checked.seq, 0, root=root_of(tips))
    found = store.verify(since=Reached(before, tips))
    assert (found.kind, found.bad_seq) == ("tampered", before.seq)
    assert "written anew" in found.problem


def test_tips_that_are_not_those_of_the_head_are_not_gone_on_from(store: SQLiteStore, checked: Head) -> None:
    tips = Sealer(entry for entry in store.events() if entry.seq <= checked.seq).tips
    assert store.verify(since=Reached(checked, tips)).since == checked
    assert store.verify(since=Reached(checked, {**tips, "run-1": Tip(0, "0" * 64)})).since is None
    assert store.verify(since=Reached(replace(checked, root=""), tips)).since is None


@pytest.mark.parametrize("cut", [0, 1])
def test_an_end_that_was_cut_off_shows(store: SQLiteStore, checked: Head, path: Path, cut: int) -> None:
    with forging(path) as connection:
        connection.execute("DELETE FROM audit_event WHERE seq >= ?", (checked.seq + cut,))
    found, _ = verify_since_checked(SQLiteStore(path, create=False))  # it has seen nothing of it before
    assert found.kind == "tampered"


def test_rows_that_were_told_of_since_are_compared(store: SQLiteStore, checked: Head, path: Path) -> None:
    tampered(path, "UPDATE request SET state = 'rejected' WHERE action LIKE '%ask late%'")
    found, _ = verify_since_checked(store)
    assert found.kind == "tampered"
    assert "state is 'rejected', and the log says 'approved'" in found.problem


def test_a_row_that_is_missing_shows(store: SQLiteStore, checked: Head, path: Path) -> None:
    tampered(path, "DELETE FROM vote WHERE rowid = (SELECT max(rowid) FROM vote)")
    found, _ = verify_since_checked(store)
    assert "its row is missing" in found.problem


def test_a_row_whose_beginning_was_not_read_is_compared_with_the_rest(
    store: SQLiteStore, gate: Gate, checked: Head, path: Path
) -> None:
    gate.close()
    assert verify_since_checked(store)[0].intact
    tampered(path, "UPDATE run SET state = 'lost' WHERE id = 'run-1'")
    assert "run run-1: state is 'lost'" in verify_since_checked(store)[0].problem


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE audit_event SET body = replace(body, '{EARLY}', 'ask earls') WHERE seq = {{seq}}",
        "UPDATE request SET state = 'rejected' WHERE action LIKE '%ask early%'",
    ],
)
def test_what_was_not_read_is_not_called_intact(
    store: SQLiteStore, checked: Head, path: Path, statement: str, hla: Callable[..., Result]
) -> None:
    tampered(path, statement.format(seq=number(store, EARLY)))
    assert verify_since_checked(store)[0].since == checked
    said = hla("--since-checked").output
    assert f"intact since event {checked.seq}:" in said
    assert f"not read: the {checked.seq} events before that" in said
    assert "intact:" not in said
    assert verify_whole(store).kind == "tampered"
    assert hla().exit_code == 1
    assert hla().output.startswith("TAMPERED")


def test_after_a_purge_everything_is_read(
    store: SQLiteStore, gate: Gate, checked: Head, clock: Any, path: Path
) -> None:
    gate.close()
    clock.pass_ms(100 * 86_400_000)
    assert verify_since_checked(store)[0].since == checked
    purge = Purge(store, before=clock() - 86_400_000, exported=store.write_head())
    assert purge.delete("os:1:me", "a" * 64)
    found, begins = verify_since_checked(store)
    assert (found.intact, found.since, begins) == (True, None, None)
    assert verify_since_checked(store)[0].since is not None, "that was a whole verification, after the purge"


def test_a_head_kept_elsewhere_that_is_older(store: SQLiteStore, checked: Head) -> None:
    old = Head(checked.store, 1, next(store.events(after=0)).hash, 2, 0)
    found, begins = verify_since_checked(store, heads=[old])
    assert (found.intact, found.since, begins) == (True, None, None)
    other = Head(checked.store, 1, "0" * 64, 2, 0)
    assert verify_since_checked(store, heads=[other])[0].bad_seq == 1


def test_a_head_kept_elsewhere_of_the_event_to_go_on_from(store: SQLiteStore, checked: Head) -> None:
    found, begins = verify_since_checked(store, heads=[checked])
    assert (found.intact, found.since, begins is not None) == (True, checked, True)
    for other in (replace(checked, hash="0" * 64), replace(checked, root="0" * 64)):
        assert verify_since_checked(store, heads=[other])[0].bad_seq == checked.seq


# On the command line


@pytest.fixture
def hla(path: Path) -> Callable[..., Result]:
    from humanlayer_agent.cli.audit import audit_commands

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(audit_commands.app, ["verify", *arguments, "--store", str(path)])

    return call


def test_the_command_reads_everything_unless_it_is_told_not_to(
    store: SQLiteStore, gate: Gate, hla: Callable[..., Result], tmp_path: Path
) -> None:
    first = hla("--since-checked")
    assert "everything was read: there was no earlier verification to go on from" in first.output
    count = next(store.events(last=1)).seq + 1
    assert f"intact: {count} events" in first.output
    work(gate, "ls -l")
    head = store.write_head()
    assert f"intact: {count + 5} events" in hla().output
    again = hla("--since-checked")
    assert f"intact since event {head.seq}: 2 events" in again.output
    assert again.exit_code == 0
    assert hla("--since-checked", "--require-head").exit_code == 5, "the tail is not witnessed"
    kept = tmp_path / "kept"
    kept.write_text(head_text(head))
    assert hla("--since-checked", "--head", str(kept)).exit_code == 0


def test_an_export_is_read_whole(tmp_path: Path) -> None:
    from humanlayer_agent.cli.audit import audit_commands

    found = CliRunner().invoke(audit_commands.app, ["verify", str(tmp_path / "export"), "--since-checked"])
    assert "an export is read whole" in str(found.exception)
