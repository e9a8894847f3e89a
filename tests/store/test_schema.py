"""The second wall: what the database itself refuses, whatever a program says."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.model import ApprovalRequest, Permit, Run
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST, TEST_APPROVER, ScriptedApprovers, answer

H = "'" + "a" * 64 + "'"
ID = "'" + "b" * 32 + "'"
TEAM = ScriptedApprovers()
VOTE = (
    "INSERT INTO vote SELECT 'new', id, '{answer}', '{principal}', 'test', 'terminal', digest, '', 'api', 1, 1, '', "
    "'{person}', 0, 'key', replace(hex(zeroblob(64)), '00', 'ab'), '[]' FROM request"
)
SIGNED = "'mallory', 0, signer, signature, member_of"
CHILD = (
    "INSERT INTO request (id, run_id, idempotency_key, digest, body, action, decision, requester, created, expires, "
    f"valid_for, parent) SELECT {ID}, {{run}}, {H}, digest, body, {{action}}, decision, requester, created, expires, "
    "valid_for, id FROM request WHERE state = {of}"
)


@pytest.fixture
def raw(
    store: SQLiteStore,
    run: str,
    path: Path,
    draft: Callable[..., ApprovalRequest],
    act: Callable[..., Action],
    decide: Callable[..., PolicyDecision],
) -> Iterator[sqlite3.Connection]:
    """A plain connection to a store with one request of each of four kinds, and a consumed and an unused permit."""
    halt = store.halts.stop("os:1000:tester")
    assert store.halts.resume([halt], TEST_APPROVER, "", TEAM.authority, TEAM.signer) is None
    edited = store.create_request(draft("zero"), TEAM.authority)
    TEAM.decide(store, edited.id, answer(edited, "edit", edited="four"))
    for command, kind in (("one", "approve"), ("two", "reject"), ("three", None)):
        request = store.create_request(draft(command), TEAM.authority)
        if kind:
            TEAM.decide(store, request.id, answer(request, kind))  # type: ignore[arg-type]
    TEAM.vote(store, store.create_request(draft("six", route="two"), TEAM.authority))
    for command in ("four", "five"):
        action = act(command)
        digest = action.digest(POLICY_DIGEST)
        permit = store.allow(action, decide(Verdict.ALLOW), digest, use_by_ms=10_000, authority=TEAM.authority)
        assert isinstance(permit, Permit)
    store.consume(permit, permit.digest, TEAM.authority)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys=ON")
    yield connection
    connection.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE audit_event SET body = replace(body, 'run-1', 'run-2')", "append-only"),
        ("DELETE FROM audit_event WHERE seq = 3", "append-only"),
        (f"INSERT INTO audit_event (seq, hash, body) VALUES (999, {H}, '{{}}')", "not the next link|NOT NULL"),
        (
            f"INSERT OR REPLACE INTO audit_event (seq, hash, body) SELECT seq, {H}, body FROM audit_event WHERE seq=2",
            "link",
        ),
        ("UPDATE request SET digest = " + H, "immutable"),
        ("UPDATE request SET body = x'7b7d'", "immutable"),
        ("UPDATE request SET expires = expires + 1", "immutable"),
        ("UPDATE request SET valid_for = valid_for + 1", "immutable"),
        ("UPDATE request SET decision = '{}'", "immutable"),
        ("UPDATE request SET decided = decided + 1 WHERE state = 'approved'", "decided only once"),
        ("UPDATE request SET run_id = run_id WHERE state = 'approved'", "only a pending"),
        ("UPDATE request SET state = 'approved', decided = 1 WHERE state = 'pending'", "votes do not approve"),
        ("UPDATE request SET state = 'approved' WHERE state = 'rejected'", "illegal transition|votes do"),
        ("UPDATE request SET state = 'pending', decided = NULL WHERE state = 'rejected'", "illegal transition|once"),
        ("UPDATE request SET state = 'rejected' WHERE state = 'approved'", "illegal transition|no vote has"),
        ("UPDATE request SET state = 'lapsed', decided = 1 WHERE state = 'pending'", "illegal transition"),
        ("UPDATE request SET state = 'fine' WHERE state = 'approved'", "illegal transition|CHECK"),
        ("UPDATE request SET state = 'expired' WHERE state = 'pending'", "CHECK"),
        ("UPDATE request SET state = 'superseded', decided = 1 WHERE state = 'pending'", "no vote has"),
        ("UPDATE request SET state = 'superseded' WHERE state = 'approved'", "illegal transition|no vote"),
        ("UPDATE request SET state = 'approved' WHERE state = 'superseded'", "illegal transition|votes do"),
        ("UPDATE request SET state = 'pending', decided = NULL WHERE state = 'superseded'", "illegal transition|once"),
        ("UPDATE request SET parent = NULL", "immutable"),
        ("UPDATE request SET parent = (SELECT id FROM request WHERE state = 'superseded')", "immutable"),
        (CHILD.format(run="run_id", action="action", of="'superseded'"), "was not edited to this"),
        (CHILD.format(run="run_id", action="""'{"content": "four"}'""", of="'rejected'"), "was not edited to this"),
        (CHILD.format(run="run_id", action="""'{"content": "four"}'""", of="'pending'"), "was not edited to this"),
        ("UPDATE request SET needed = 1 WHERE needed = 2", "immutable"),
        ("UPDATE request SET rule = ''", "immutable"),
        ("UPDATE request SET escalated = 1 WHERE state = 'approved'", "only a pending one"),
        ("UPDATE request SET escalated = 0 WHERE state = 'pending'", "only further"),
        ("UPDATE request SET state = 'approved', decided = 1 WHERE needed = 2", "votes do not approve"),
        ("UPDATE request SET state = 'answered', decided = 1 WHERE state = 'pending'", "no vote has"),
        ("UPDATE request SET state = 'rejected', decided = 1 WHERE needed = 2", "no vote has"),
        ("UPDATE request SET state = 'revoked' WHERE state = 'approved'", "no vote has"),
        (f"{VOTE.format(answer='approve', principal='x', person='tester')} WHERE needed = 2", "UNIQUE"),
        (f"{VOTE.format(answer='reject', principal='x', person='tester')} WHERE needed = 2", "UNIQUE"),
        (f"{VOTE.format(answer='approve', principal='os:1000:tester', person='x')} WHERE needed = 2", "UNIQUE"),
        (f"{VOTE.format(answer='approve', principal='x', person='')} WHERE needed = 2", "known and signed"),
        (
            f"{VOTE.format(answer='approve', principal='x', person='x')} WHERE needed = 2".replace(
                "'terminal'", "'best'"
            ),
            "known and signed",
        ),
        (
            f"{VOTE.format(answer='approve', principal='x', person='x')} WHERE needed = 2".replace("'ab'", "'a'"),
            "CHECK",
        ),
        (
            f"{VOTE.format(answer='approve', principal='x', person='x')} WHERE needed = 2".replace("'key'", "''"),
            "CHECK",
        ),
        (f"{VOTE.format(answer='revoke', principal='x', person='x')} WHERE needed = 2", "does not wait"),
        (f"{VOTE.format(answer='reject', principal='x', person='x')} WHERE state = 'approved'", "does not wait"),
        (
            "INSERT INTO vote SELECT 'new', (SELECT id FROM request WHERE state = 'pending' AND needed = 1), 'approve', 'm', channel, "
            f"assurance, presented_digest, '', input_mode, at, pid, 'rm -rf /', {SIGNED} FROM vote WHERE answer = 'reject'",
            "CHECK",
        ),
        (
            "INSERT INTO vote SELECT 'new', (SELECT id FROM request WHERE state = 'pending' AND needed = 1), 'edit', 'm', channel, "
            f"assurance, presented_digest, '', input_mode, at, pid, '', {SIGNED} FROM vote WHERE answer = 'reject'",
            "CHECK",
        ),
        ("DELETE FROM request", "kept"),
        (
            "INSERT INTO request (id, run_id, idempotency_key, digest, body, action, decision, requester, created, "
            "expires, valid_for, state, decided) VALUES "
            f"({ID}, 'run-1', {H}, {H}, x'00', '', '', '', 1, 2, 1, 'approved', 1)",
            "must begin as pending",
        ),
        ("UPDATE vote SET answer = 'approve'", "immutable"),
        ("DELETE FROM vote", "kept"),
        (
            "INSERT INTO vote SELECT 'new', request_id, 'approve', 'mallory', channel, assurance, presented_digest, "
            f"'', input_mode, at, pid, '', {SIGNED} FROM vote WHERE answer = 'reject'",
            "does not wait",
        ),
        ("UPDATE permit SET state = 'issued' WHERE state = 'consumed'", "illegal transition"),
        ("UPDATE permit SET use_by = use_by + 1", "immutable"),
        ("UPDATE permit SET request_id = NULL", "immutable"),
        ("DELETE FROM permit", "kept"),
        (
            f"INSERT INTO permit (id, run_id, request_id, digest, issued, use_by) SELECT {ID}, run_id, id, digest, "
            "1, 2 FROM request WHERE state = 'rejected'",
            "needs an approved request",
        ),
        (
            f"INSERT INTO permit (id, run_id, digest, issued, use_by, state) "
            f"VALUES ({ID}, 'run-1', {H}, 1, 2, 'consumed')",
            "needs an approved request",
        ),
        ("UPDATE execution SET process = 'x'", "immutable"),
        (
            "INSERT INTO execution (permit_id, process, started) SELECT id, 'x', 1 FROM permit WHERE state = 'consumed'",
            "only the process of its run",
        ),
        ("DELETE FROM execution", "kept"),
        (
            "INSERT INTO execution (permit_id, process, started) SELECT id, 'x', 1 FROM permit WHERE state = 'issued'",
            "needs a consumed permit",
        ),
        ("UPDATE halt SET principal = 'mallory'", "immutable"),
        ("DELETE FROM halt", "kept"),
        ("UPDATE resumption SET comment = 'x'", "immutable"),
        ("DELETE FROM resumption", "kept"),
        (
            f"INSERT INTO resumption SELECT {ID}, halt, at, principal, '', channel, assurance, '', signer, signature "
            "FROM resumption",
            "CHECK",
        ),
        (
            f"INSERT INTO resumption SELECT {ID}, halt, at, principal, person, channel, 'os', '', signer, signature "
            "FROM resumption",
            "CHECK",
        ),
        (
            f"INSERT INTO resumption SELECT {ID}, halt, at, principal, person, channel, assurance, '', signer, '' "
            "FROM resumption",
            "CHECK",
        ),
        ("UPDATE run SET requester = 'mallory'", "immutable"),
        ("UPDATE run SET ended = 1", "CHECK"),
        ("DELETE FROM run", "kept"),
        ("UPDATE request SET created = 'yesterday'", "immutable|cannot store TEXT"),
    ],
)
def test_refused(raw: sqlite3.Connection, statement: str, message: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=message):
        raw.execute(statement)


def test_a_run_that_ended_does_not_open_again(raw: sqlite3.Connection, store: SQLiteStore) -> None:
    store.close_run("run-1", "finished")
    with pytest.raises(sqlite3.IntegrityError, match="illegal transition"):
        raw.execute("UPDATE run SET state = 'open', ended = NULL")


def test_an_execution_ends_once(raw: sqlite3.Connection) -> None:
    raw.execute("UPDATE execution SET state = 'finished', finished = 1, returncode = 0")
    with pytest.raises(sqlite3.IntegrityError, match="illegal transition"):
        raw.execute("UPDATE execution SET returncode = 1")


def test_the_child_of_an_edit(raw: sqlite3.Connection, store: SQLiteStore) -> None:
    """One, of the same run, when the edit has superseded its parent: with nothing else wrong it is taken."""
    store.open_run(Run("run-2", "agent", "instance", "os:1000:alice"))
    child = CHILD.format(run="run_id", action="""'{"content": "four"}'""", of="'superseded'")
    with pytest.raises(sqlite3.IntegrityError, match="was not edited to this"):
        raw.execute(child.replace("run_id, 'aaa", "'run-2', 'aaa"))
    raw.execute(
        "INSERT INTO vote SELECT 'new', request.id, 'edit', 'm', channel, assurance, request.digest, '', input_mode, "
        f"at, vote.pid, 'four', {SIGNED} FROM vote, request WHERE vote.answer = 'reject' AND request.state = 'pending' AND needed = 1"
    )
    with pytest.raises(sqlite3.IntegrityError, match="was not edited to this"):
        raw.execute(child.replace("'superseded'", "'pending'"))
    raw.execute(child)
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        raw.execute(child.replace(ID, "'" + "c" * 32 + "'").replace(H, "'" + "c" * 64 + "'"))


def test_one_pending_request_a_key(raw: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        raw.execute(
            "INSERT INTO request (id, run_id, idempotency_key, digest, body, action, decision, requester, created, "
            f"expires, valid_for) SELECT {ID}, run_id, idempotency_key, digest, body, action, decision, requester, "
            "created, expires, valid_for FROM request WHERE state = 'pending'"
        )


def test_queries_can_not_be_told_another_story_than_the_body(raw: sqlite3.Connection) -> None:
    """What events are searched by is computed from the hashed bytes: there is no second column to forge."""
    with pytest.raises(sqlite3.OperationalError, match="generated column"):
        raw.execute("INSERT INTO audit_event (seq, hash, body, type) VALUES (1, '', '', 'x')")


def test_a_permit_of_what_is_not_approved_any_more(raw: sqlite3.Connection, store: SQLiteStore) -> None:
    request = store.requests(state="approved")[0]
    assert isinstance(store.permit(request, TEAM.authority, use_by_ms=10_000), Permit)
    raw.execute("DROP TRIGGER request_settled_by_vote")
    raw.execute("UPDATE request SET state = 'lapsed' WHERE state = 'approved'")
    with pytest.raises(sqlite3.IntegrityError, match="its request is not approved"):
        raw.execute("UPDATE permit SET state = 'consumed' WHERE request_id IS NOT NULL")


def test_what_was_used_can_not_be_revoked(raw: sqlite3.Connection, store: SQLiteStore) -> None:
    request = store.requests(state="approved")[0]
    permit = store.permit(request, TEAM.authority, use_by_ms=10_000)
    assert isinstance(permit, Permit)
    store.consume(permit, permit.digest, TEAM.authority)
    with pytest.raises(sqlite3.IntegrityError, match="does not wait"):
        raw.execute(f"{VOTE.format(answer='revoke', principal='x', person='x')} WHERE state = 'approved'")
