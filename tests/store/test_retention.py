"""What is settled, old and exported may be deleted: it is gone, and everything else still agrees with the log."""

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Outcome, Permit
from humanlayer_agent.audit import events
from humanlayer_agent.audit.heads import Head
from humanlayer_agent.errors import StoreError
from humanlayer_agent.report.facts import Facts
from humanlayer_agent.store.retention import Purge, Purged
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.store.statements import Ledger
from humanlayer_agent.testing.approvers import ScriptedApprovers, answer
from tests.support.forging import forging

DAY = 86_400_000
SECRET, INTENT = "hunter22-secret", "what the model said to itself"
SHA = "a" * 64


def work(gate: Gate, act: Callable[..., Action], *commands: str) -> None:
    for command in commands:
        permit = gate.check(act(command, model_intent=INTENT))
        if isinstance(permit, Permit) and command != "true":
            gate.start(permit, permit.action)
            gate.finish(permit, Outcome(0))


@pytest.fixture
def old(make_gate: Callable[..., Gate], act: Callable[..., Action], store: SQLiteStore, clock: Any) -> SQLiteStore:
    """A run of 100 days ago in which everything has happened once, and one of today that goes on."""
    script = [("approve", "fine"), ("reject", "no"), None, ("edit", "ask five"), "approve", ("edit", "ls -l")]
    with make_gate(script, run_id="run-old", instance="old") as gate:
        work(gate, act, "ls", f"ask mysql -p{SECRET}", "ask two", "ask three", "ask four", "ask six", "rm x", "true")
    clock.pass_ms(100 * DAY)
    work(make_gate(["approve", "reject"], run_id="run-new", instance="new"), act, "ls", "ask new", "ask no")
    assert store.verify().intact
    return store


def exported(store: SQLiteStore) -> Head:
    return store.write_head()


def counts(store: SQLiteStore) -> dict[str, int]:
    with store.database.read() as connection:
        return {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("request", "vote", "permit", "execution", "purging")
        }


def bytes_of(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.iterdir() if each.is_file())


def test_what_goes_is_gone_from_the_bytes_and_the_rest_agrees(old: SQLiteStore, path: Path, clock: Any) -> None:
    before = counts(old)
    told = Facts().collect(old.events())
    assert SECRET.encode() in bytes_of(path)
    assert INTENT.encode() in bytes_of(path)
    purge = Purge(old, before=clock() - 30 * DAY, exported=exported(old))
    would = purge.would_go()
    assert counts(old) == before, "looking changes nothing"
    done = purge.delete("os:1:ann", SHA)
    assert done == would
    assert (done.requests, done.votes) == (6, 5)
    assert purge.erase()
    now = counts(old)
    assert now["request"] == before["request"] - done.requests == 2
    assert now["vote"] == before["vote"] - done.votes == 2
    assert now["permit"] == now["execution"] == 2
    assert now["purging"] == 0
    assert SECRET.encode() not in bytes_of(path)
    assert INTENT.encode() in bytes_of(path), "of the run of today"
    found = old.verify()
    assert found.intact, found
    (event,) = (entry.event for entry in old.events(type="retention"))
    assert (event["by"], event["requests"], event["sha256"]) == ("os:1:ann", 6, SHA)
    after = Facts().collect(old.events())
    assert (after.requests, after.denials, after.verdicts) == (told.requests, told.denials, told.verdicts)


def test_also_for_who_opens_it_later_and_again(old: SQLiteStore, path: Path, clock: Any) -> None:
    Purge(old, before=clock() - 30 * DAY, exported=exported(old)).delete("os:1:ann", SHA)
    old.close()
    with closing(SQLiteStore(path, clock=clock)) as other:
        assert other.verify().intact
        again = Purge(other, before=clock() - 30 * DAY, exported=exported(other))
        assert again.would_go() == Purged(0, 0, 0)
        clock.pass_ms(100 * DAY)
        rest = Purge(other, before=clock() - 30 * DAY, exported=exported(other))
        assert rest.delete("os:1:ann", SHA).requests == 2
        assert other.verify().intact
        assert counts(other)["request"] == 0


def test_what_was_not_exported_stays(old: SQLiteStore, clock: Any) -> None:
    """The head of the export must cover the last event of it."""
    heads = [entry.event["head"]["seq"] for entry in old.events(type="audit.head")]
    first = min(heads)
    cut = next(e for e in old.events(type="audit.head") if e.event["head"]["seq"] == first).event
    head = Head(**cut["head"], signer=cut["signer"], signature=cut["head_signature"])
    far = clock() + 1_000 * DAY
    purge = Purge(old, before=far, exported=head)
    assert purge.would_go().requests <= 6
    everything = Purge(old, before=far, exported=exported(old)).would_go()
    assert everything.requests == 8
    assert purge.would_go().requests < everything.requests


@pytest.mark.parametrize("state", ["pending", "approved", "running"])
def test_what_is_not_settled_stays(
    store: SQLiteStore, run: str, draft: Callable[..., Any], clock: Any, state: str
) -> None:
    team = ScriptedApprovers()
    request = store.create_request(draft())
    if state != "pending":
        team.vote(store, request)
    if state == "running":
        permit = store.permit(request, team.authority, use_by_ms=10_000)
        assert isinstance(permit, Permit)
        store.consume(permit, permit.digest, team.authority)
    clock.pass_ms(100 * DAY)
    store.record(events.CHANNEL_FAILED, channel="x", why="x")
    assert Purge(store, before=clock(), exported=exported(store)).would_go() == Purged(0, 0, 0)


def test_an_edit_and_what_it_was_made_of_go_together(
    make_gate: Callable[..., Gate], act: Callable[..., Action], store: SQLiteStore, clock: Any
) -> None:
    def later(request: ApprovalRequest) -> Answer:
        clock.pass_ms(5_000)
        return answer(request, "reject")

    began = clock()
    work(make_gate([("edit", "ask again"), later]), act, "ask one")
    clock.pass_ms(DAY)
    head = exported(store)
    assert [request.state for request in store.requests()] == ["superseded", "rejected"]
    assert Purge(store, before=began + 2_000, exported=head).would_go().requests == 0
    assert Purge(store, before=began + 6_000, exported=head).delete("os:1:ann", SHA).requests == 2
    assert store.verify().intact


def test_it_is_overwritten_at_once_and_the_file_shrinks(
    make_gate: Callable[..., Gate], act: Callable[..., Action], store: SQLiteStore, clock: Any, path: Path
) -> None:
    """Also where the process ends before it has written the file anew."""
    with make_gate(["approve"]) as gate:
        work(gate, act, f"ask mysql -p{SECRET} -e '{'x' * 50_000}'")
    clock.pass_ms(100 * DAY)
    purge = Purge(store, before=clock() - DAY, exported=exported(store))
    assert purge.delete("os:1:ann", SHA).requests == 1
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert connection.execute("PRAGMA freelist_count").fetchone()[0] > 0
        assert SECRET.encode() not in bytes_of(path)
        assert purge.erase()
        assert connection.execute("PRAGMA freelist_count").fetchone()[0] == 0


def test_events_that_came_while_it_was_looked_at(
    old: SQLiteStore, clock: Any, make_gate: Callable[..., Gate], act: Callable[..., Action]
) -> None:
    purge = Purge(old, before=clock() - 30 * DAY, exported=exported(old))
    work(make_gate(["approve"], run_id="run-3", instance="3"), act, "ls", "ask more")
    assert purge.delete("os:1:ann", SHA) == purge.would_go()
    assert old.verify().intact


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM vote WHERE request_id IN (SELECT id FROM request WHERE run_id = 'run-new')", "is missing"),
        ("DELETE FROM execution", "its row is missing"),
        ("UPDATE request SET requester = 'mallory'", "requester is 'mallory'"),
        (
            "INSERT INTO permit SELECT hex(randomblob(16)), run_id, NULL, digest, issued, use_by, 'issued' FROM permit",
            "no event made this row",
        ),
    ],
)
def test_a_row_that_goes_or_changes_otherwise_still_shows(
    old: SQLiteStore, path: Path, clock: Any, statement: str, says: str
) -> None:
    Purge(old, before=clock() - 30 * DAY, exported=exported(old)).delete("os:1:ann", SHA)
    with forging(path) as connection:
        assert connection.execute(statement).rowcount > 0
    assert says in old.verify().problem


@pytest.mark.parametrize(
    ("form", "requests", "says"),
    [(1, 1, "not one that this program writes"), (1, 8, "no event made this row"), (3, 8, "not one that")],
)
def test_an_event_that_says_it_and_nothing_was_deleted(
    old: SQLiteStore, clock: Any, form: int, requests: int, says: str
) -> None:
    """Our own code writes it; one of a later version, that deletes by other rules, is nothing to guess at."""
    would = Purge(old, before=clock() + DAY, exported=exported(old)).would_go()
    fields = {"form": form, "by": "x", "before": clock() + DAY, "through": 10**6, "votes": would.votes, "sha256": SHA}
    old.record(events.RETENTION_PURGED, **fields, requests=requests, permits=would.permits)
    assert would.requests == 8
    assert says in old.verify().problem


def test_what_was_deleted_and_comes_back_shows(old: SQLiteStore, path: Path, clock: Any) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ATTACH ? AS apart", (str(path.with_name("kept")),))
        connection.execute("CREATE TABLE apart.kept AS SELECT * FROM request")
        connection.commit()
    Purge(old, before=clock() - 30 * DAY, exported=exported(old)).delete("os:1:ann", SHA)
    with forging(path) as connection:
        connection.execute("ATTACH ? AS apart", (str(path.with_name("kept")),))
        connection.execute("INSERT OR IGNORE INTO request SELECT * FROM apart.kept")
    assert "no event made this row" in old.verify().problem


def test_nothing_goes_from_a_store_that_was_tampered_with(old: SQLiteStore, path: Path, clock: Any) -> None:
    head = exported(old)
    with forging(path) as connection:
        connection.execute("UPDATE vote SET comment = 'x'")
    with pytest.raises(StoreError, match="not as its log says"):
        Purge(old, before=clock(), exported=head)


def test_an_export_of_another_store(old: SQLiteStore, clock: Any, tmp_path: Path) -> None:
    with closing(SQLiteStore(tmp_path / "another")) as other, pytest.raises(StoreError, match="of the log"):
        Purge(old, before=clock(), exported=exported(other))


@pytest.mark.parametrize("table", ["request", "vote", "permit", "execution"])
def test_nobody_else_deletes(old: SQLiteStore, path: Path, table: str) -> None:
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError, match="kept"):
        connection.execute(f"DELETE FROM {table}")


def test_even_a_purge_does_not_delete_what_is_young(old: SQLiteStore, path: Path, clock: Any) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO purging VALUES (1, ?, 0)", (clock() - 30 * DAY,))
        with pytest.raises(sqlite3.IntegrityError, match="kept"):
            connection.execute("DELETE FROM vote")


@pytest.mark.parametrize("when", ["before the event", "after the event"])
def test_killed_in_the_middle(old: SQLiteStore, path: Path, clock: Any, when: str) -> None:
    head, before = exported(old), counts(old)
    pid = os.fork()
    if pid == 0:
        append = Ledger.append

        def killed(ledger: Ledger, kind: Any, **fields: Any) -> None:
            if when == "after the event":
                append(ledger, kind, **fields)
            os.kill(os.getpid(), signal.SIGKILL)

        other = SQLiteStore(path, clock=clock)
        Ledger.append = killed  # type: ignore[method-assign]
        Purge(other, before=clock() - 30 * DAY, exported=head).delete("os:1:ann", SHA)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    assert counts(old) == before
    assert old.verify().intact


def test_a_reader_that_holds_older_pages_is_said(old: SQLiteStore, path: Path, clock: Any) -> None:
    other = SQLiteStore(path, clock=clock, busy_ms=50)
    purge = Purge(other, before=clock() - 30 * DAY, exported=exported(other))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM request").fetchone()
        purge.delete("os:1:ann", SHA)
        assert purge.erase() is False
        reader.execute("ROLLBACK")
    assert purge.erase() is True
    assert SECRET.encode() not in bytes_of(path)
    other.close()
