"""Rows edited with SQL, the triggers dropped: the verifier finds each."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.store import schema
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import TEST_APPROVER
from tests.support.forging import forging
from tests.support.sealing import Sealer


@pytest.fixture
def used(make_gate: Callable[..., Gate], act: Callable[..., object], store: SQLiteStore) -> SQLiteStore:
    """A store in which everything has happened once, and everything agrees."""
    script = [("approve", "fine"), ("reject", "no \ud800"), None]
    edits = [("edit", "ask five"), "approve", ("edit", "ls -l"), ("edit", "rm x")]
    signer = Signer()
    trusted = Authority.alone(os_user(), TEST_APPROVER.principal).trusting(signer.fingerprint)
    halt = store.halts.stop("os:1000:tester", "no \ud800")
    assert store.halts.resume([halt], TEST_APPROVER, "go on", trusted, signer) is None
    gate = make_gate([*script, *edits], authority=trusted)
    for command in ("ls", "ask one", "ask two", "ask three", "ask four", "ask six", "ask seven", "rm x", "true"):
        permit = gate.check(act(command))  # type: ignore[arg-type]
        if isinstance(permit, Permit) and command != "true":
            gate.start(permit, permit.action)
            gate.finish(permit, Outcome(0))
    assert store.verify().intact
    return store


def edit(path: Path, *statements: str) -> None:
    with forging(path) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount != 0, statement


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (
            "UPDATE audit_event SET body = replace(body, 'rm x', 'ls x') WHERE type = 'decision.evaluated'",
            "its hash is not",
        ),
        ("UPDATE audit_event SET hash = substr(hash, 33) || substr(hash, 1, 32) WHERE seq = 5", "its hash is not"),
        ("UPDATE audit_event SET body = body || ' ' WHERE seq = 5", "not canonical"),
        ("DELETE FROM audit_event WHERE seq = 5", "is missing"),
        ("DELETE FROM audit_event WHERE seq > 5", "its row is missing|no event made|and the log says|does not say"),
        ("DELETE FROM audit_event", "the log is empty"),
        ("UPDATE audit_event SET seq = seq + 1000 WHERE seq = 5", "is missing"),
        ("UPDATE request SET state = 'approved' WHERE state = 'rejected'", "state is 'approved'"),
        ("UPDATE request SET state = 'pending', decided = NULL WHERE state = 'rejected'", "state is 'pending'"),
        ("UPDATE request SET expires = expires + 1 WHERE state = 'rejected'", "expires is"),
        ("UPDATE request SET decided = decided + 1 WHERE state = 'rejected'", "decided is"),
        ("UPDATE request SET body = x'7b7d' WHERE state = 'rejected'", "its body is not"),
        ("UPDATE request SET action = replace(action, 'ask', 'see') WHERE state = 'rejected'", "action or decision"),
        (
            "UPDATE request SET decision = replace(decision, 'ask', 'see') WHERE state = 'rejected'",
            "action or decision",
        ),
        ("UPDATE request SET requester = 'mallory' WHERE state = 'rejected'", "requester is 'mallory'"),
        ("UPDATE vote SET answer = 'approve' WHERE answer = 'reject'", "answer is 'approve'"),
        ("UPDATE vote SET principal = 'mallory'", "principal is 'mallory'"),
        ("UPDATE vote SET comment = 'go on' WHERE answer = 'reject'", "comment is 'go on'"),
        ("UPDATE vote SET person = 'mallory'", "person is 'mallory'"),
        ("UPDATE vote SET solo = 1 - solo", "solo is"),
        ("UPDATE vote SET signer = 'mallory'", "signer is 'mallory'"),
        ("UPDATE vote SET signature = replace(signature, 'a', 'b')", "signature is"),
        ("UPDATE request SET needed = 7 WHERE state = 'rejected'", "needed is 7"),
        ("UPDATE request SET rule = '' WHERE state = 'rejected'", "rule is ''"),
        ("UPDATE request SET escalated = 7 WHERE state = 'rejected'", "escalated is 7"),
        ("UPDATE halt SET reason = 'another'", "reason is 'another'"),
        ("UPDATE halt SET at = at + 1", "at is"),
        ("DELETE FROM halt", "its row is missing"),
        ("UPDATE resumption SET halt = 'another'", "halt is 'another'"),
        ("UPDATE resumption SET person = 'mallory'", "person is 'mallory'"),
        ("UPDATE resumption SET signature = replace(signature, 'a', 'b')", "signature is"),
        ("DELETE FROM resumption", "its row is missing"),
        ("INSERT INTO halt SELECT hex(randomblob(16)), at, principal, reason FROM halt", "no event"),
        ("UPDATE permit SET digest = replace(digest, 'a', 'b')", "digest is"),
        ("UPDATE permit SET state = 'consumed' WHERE state = 'issued'", "the log does not say so"),
        ("UPDATE permit SET state = 'issued' WHERE state = 'consumed'", "state is 'issued'"),
        ("UPDATE execution SET returncode = 1", "returncode is 1"),
        ("UPDATE run SET requester = 'mallory'", "requester is 'mallory'"),
        ("UPDATE run SET state = 'finished', ended = 1", "state is 'finished'"),
        ("DELETE FROM vote", "its row is missing"),
        ("DELETE FROM execution", "its row is missing"),
        (
            "INSERT INTO run SELECT 'forged', agent, instance, requester, project, process, 1, NULL, 'open', '', 0 "
            "FROM run",
            "no event",
        ),
        (
            "INSERT INTO vote SELECT 'forged', request_id, 'approve', 'mallory', channel, assurance, presented_digest, "
            "'', input_mode, at, pid, '', person || '2', solo, signer, signature, member_of, scope FROM vote WHERE answer = 'reject'",
            "no event made this row",
        ),
        (
            "UPDATE vote SET edited = 'ls' WHERE answer = 'edit'",
            "edited is 'ls'",
        ),
        (
            "UPDATE request SET parent = NULL WHERE parent IS NOT NULL",
            "parent is None",
        ),
        (
            "UPDATE request SET state = 'approved' WHERE state = 'superseded'",
            "state is 'approved'",
        ),
        (
            "INSERT INTO permit SELECT hex(randomblob(16)), run_id, NULL, digest, issued, use_by, 'issued' "
            "FROM permit LIMIT 1",
            "no event made this row",
        ),
    ],
)
def test_an_edit_shows(used: SQLiteStore, path: Path, statement: str, problem: str) -> None:
    edit(path, statement)
    assert not used.verify().intact
    found = SQLiteStore(path, create=False).verify()  # it has seen nothing of it before
    assert not found.intact
    assert re.search(problem, found.problem), found
    assert found.bad_seq is not None


def test_the_first_bad_event_is_named(used: SQLiteStore, path: Path) -> None:
    edit(path, "UPDATE audit_event SET body = replace(body, 'run-1', 'run-2') WHERE seq >= 7")
    assert used.verify().bad_seq == 7


def test_a_row_names_the_last_event_about_it(used: SQLiteStore, path: Path) -> None:
    rejected = next(iter(used.events(type="request.rejected")))
    edit(path, "UPDATE request SET state = 'approved' WHERE state = 'rejected'")
    assert used.verify().bad_seq == rejected.seq


def test_a_chain_that_somebody_wrote_anew_with_other_events(used: SQLiteStore, path: Path) -> None:
    """Every link is right; the events are not ours."""
    from humanlayer_agent.audit.events import EVENT_TYPES

    seal = Sealer()
    entries = [seal(EVENT_TYPES["audit.opened"], {})]
    for kind in ("run.started", "vote.recorded"):
        entries.append(seal(EVENT_TYPES[kind], {"run": 7}))
    values = ", ".join(f"({entry.seq}, '{entry.hash}', '{entry.body.decode()}')" for entry in entries)
    edit(path, "DELETE FROM audit_event", f"INSERT INTO audit_event (seq, hash, body) VALUES {values}")
    found = SQLiteStore(path, create=False).verify()
    assert (found.bad_seq, found.problem) == (1, "event 1 is not one that this program writes")


@pytest.mark.long
def test_a_body_of_another_type(used: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """STRICT keeps columns to their types; somebody who rebuilds the table without it is seen too, by the schema and
    by the log.
    """
    edit(
        path,
        "CREATE TABLE copy (seq INTEGER PRIMARY KEY, hash, body)",
        "INSERT INTO copy SELECT seq, hash, CAST(body AS BLOB) FROM audit_event",
        "DROP TABLE audit_event",
        "ALTER TABLE copy RENAME TO audit_event",
    )
    assert "is not as we made it" in used.verify().problem
    monkeypatch.setattr(schema, "check", schema.version_of)
    assert "not canonical JSON" in SQLiteStore(path, create=False).verify().problem
