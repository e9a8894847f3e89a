"""The second wall: what the database itself refuses, whatever a program says."""

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.model import ApprovalRequest, Permit, Run
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import Entry, Tip
from humanlayer_agent.errors import StoreTampered
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.store import schema
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST, TEST_APPROVER, ScriptedApprovers, answer
from tests.support.sealing import Sealer

H = "'" + "a" * 64 + "'"
ID = "'" + "b" * 32 + "'"
TEAM = ScriptedApprovers()
VOTE = (
    "INSERT INTO vote SELECT 'new', id, '{answer}', '{principal}', 'test', 'terminal', digest, '', 'api', 1, 1, '', "
    "'{person}', 0, 'key', replace(hex(zeroblob(64)), '00', 'ab'), '[]', '' FROM request"
)
SIGNED = "'mallory', 0, signer, signature, member_of, scope"
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


@pytest.fixture(scope="module")
def kept() -> Iterator[sqlite3.Connection]:
    """What `raw` shows, once it was made."""
    with closing(sqlite3.connect(":memory:")) as connection:
        yield connection


@pytest.fixture
def rows(kept: sqlite3.Connection, request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    """A copy of what `raw` shows, for tests that need no store beside it."""
    if not kept.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        request.getfixturevalue("raw").backup(kept)
    with closing(sqlite3.connect(":memory:")) as connection:
        kept.backup(connection)
        connection.execute("PRAGMA foreign_keys=ON")
        yield connection


@pytest.mark.sample(58)
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
def test_refused(rows: sqlite3.Connection, statement: str, message: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=message):
        rows.execute(statement)


@pytest.mark.parametrize(
    ("later", "body"),
    [
        (1, {}),
        (-1, {}),
        (0, {"link": 1}),
        (0, {"link": 99}),
        (0, {"link": None}),
        (0, {"prev": "0" * 64}),
        (0, {"run": "run-2"}),
        (0, {"run": None}),
        (0, {"type": "run.started"}),
        (0, {"type": "run.finished"}),
        (0, {"chain": None}),
        (0, {"chain": "run-9", "run": "run-9", "link": 1}),
        (0, {"chain": "run-8", "run": "run-8", "link": 1}),
        (0, {"chain": "run-7", "run": "run-7", "link": 2}),
    ],
)
def test_what_is_taken_into_no_chain(rows: sqlite3.Connection, later: int, body: dict[str, Any]) -> None:
    def add(later: int, event: dict[str, Any]) -> None:
        seq = rows.execute("SELECT max(seq) + 1 + ? FROM audit_event", (later,)).fetchone()[0]
        said = json.dumps({name: value for name, value in event.items() if value is not None} | {"seq": seq})
        values = (seq, hashlib.sha256(said.encode()).hexdigest(), said)
        rows.execute("INSERT INTO audit_event (seq, hash, body) VALUES (?, ?, ?)", values)

    def tips() -> dict[str, Tip]:
        said = rows.execute("SELECT seq, hash, body FROM audit_event ORDER BY seq")
        return Sealer(Entry(seq, hash_, body.encode()) for seq, hash_, body in said).tips

    run = "INSERT INTO run (id, agent, instance, requester, project, process, started{}) VALUES (?, '', '', '', '', '', 1{})"
    rows.execute(run.format("", ""), ("run-7",))
    rows.execute(run.format("", ""), ("run-9",))  # the log knows nothing of it
    rows.execute(run.format(", state, ended", ", 'lost', 2"), ("run-8",))
    for name in ("run-7", "run-8"):
        found = tips()[""]
        add(0, {"link": found.link + 1, "prev": found.hash, "type": "run.started", "run": name})
    found = tips()[body.get("chain") or "run-1"] if body.get("chain") != "run-9" else Tip(0, "0" * 64)
    good = {"chain": "run-1", "run": "run-1", "link": found.link + 1, "prev": found.hash, "type": "policy.loaded"}
    with pytest.raises(sqlite3.IntegrityError, match="not the next link"):
        add(later, good | body)
    if "chain" not in body:
        add(0, good)
    else:
        begun = tips()["run-7"]
        add(0, good | {"chain": "run-7", "run": "run-7", "link": begun.link + 1, "prev": begun.hash})


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


# The schema itself is ours


def test_its_digest_is_that_of_the_scripts() -> None:
    """Who adds a migration writes the new one down, which this prints."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        schema.upgrade(empty, 0)
        assert {schema.newest(): schema._digest(schema._objects(empty))} == schema._DIGESTS


def test_led_step_by_step_it_is_the_same() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as stepwise:
        for number, script in enumerate(schema.migrations()):
            schema._run(stepwise, [script])
            assert frozenset(schema._objects(stepwise)) == schema._made(number + 1)
        stepwise.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
        stepwise.execute(f"PRAGMA user_version={schema.newest()}")
        stepwise.execute("VACUUM")
        assert schema.check(stepwise, Path("x")) == schema.newest()


PLANTED = "CREATE TRIGGER planted AFTER INSERT ON audit_event BEGIN SELECT 1; END"
STRANGE = {
    "trigger planted is not ours": [PLANTED],
    "trigger halt_no_delete is missing": ["DROP TRIGGER halt_no_delete"],
    "trigger halt_no_delete is not as we made it": [
        "DROP TRIGGER halt_no_delete",
        "CREATE TRIGGER halt_no_delete BEFORE DELETE ON halt BEGIN SELECT 1; END",
    ],
    "view shown is not ours": ["CREATE VIEW shown AS SELECT * FROM halt"],
    "index quick is not ours": ["CREATE INDEX quick ON halt (at)"],
    "table late is not ours": ["CREATE TABLE late (x)"],
    "index run_open is missing": ["DROP INDEX run_open"],
    "table halt is not as we made it": ["ALTER TABLE halt ADD COLUMN more TEXT"],
    "view halt is not ours": [
        "DROP TABLE halt",
        "CREATE VIEW halt AS SELECT '' AS id, 0 AS at, '' AS principal, '' AS reason WHERE 0",
    ],
    "trigger audit_event_no_delete is not as we made it": [
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'ABORT', 'FAIL') WHERE name = 'audit_event_no_delete'",
        "PRAGMA schema_version=1000",
    ],
    "table sqlite_stat1 is not ours": [
        "PRAGMA writable_schema=ON",
        "INSERT INTO sqlite_schema VALUES ('table', 'sqlite_stat1', 'sqlite_stat1', 0, 'CREATE TABLE sqlite_stat1(x)')",
        "PRAGMA schema_version=1000",
    ],
    "set back to an older version|is not": ["PRAGMA user_version=7"],
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("problem", STRANGE)
def test_whatever_is_not_ours_is_named_and_nothing_is_decided(store: SQLiteStore, path: Path, problem: str) -> None:
    """By a process that runs, by one that begins, by one that only reads, and by who verifies; until it is undone."""
    store.halts.stop("os:1")
    other = SQLiteStore(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in STRANGE[problem]:
            connection.execute(statement)
    ways: list[Callable[[], object]] = [
        lambda: store.record(events.POLICY_LOADED, run="r"),
        lambda: store.halts.standing(None),
        lambda: store.votes("x"),
        lambda: other.halts.stop("os:1"),
        lambda: SQLiteStore(path),
        lambda: SQLiteStore(path, create=False),
    ]
    for way in ways:
        with pytest.raises(StoreTampered, match=problem):
            way()
    found = store.verify()
    assert (found.intact, found.kind) == (False, "tampered")
    assert re.search(problem, found.problem)


def test_once_it_is_undone_it_goes_on_and_the_log_says_that_it_was(store: SQLiteStore, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(PLANTED)
        with pytest.raises(StoreTampered):
            store.record(events.POLICY_LOADED, run="r")
        connection.execute("DROP TRIGGER planted")
    store.record(events.POLICY_LOADED, run="r")
    (degraded,) = store.events(type="audit.degraded")
    assert "trigger planted is not ours" in degraded.event["why"]


def test_what_analyze_leaves_is_harmless(store: SQLiteStore, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("ANALYZE")
    store.record(events.POLICY_LOADED, run="r")
    assert SQLiteStore(path).verify().intact


def test_tables_in_the_place_of_others(store: SQLiteStore, path: Path) -> None:
    """Under the same text and number, so that running processes see the one, and those that begin the other: a stop
    would be written where no agent looks.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE aside (x)")
        connection.execute("PRAGMA writable_schema=ON")
        (before,) = connection.execute("PRAGMA schema_version").fetchone()
        connection.execute(
            "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'aside') "
            "WHERE name = 'halt'"
        )
        connection.execute("DELETE FROM sqlite_schema WHERE name = 'aside'")
        connection.execute(f"PRAGMA schema_version={before - 1}")
    for way in (lambda: store.record(events.POLICY_LOADED, run="r"), lambda: store.halts.standing(None)):
        with pytest.raises(StoreTampered, match="on other pages"):
            way()


DELETES = "CREATE TRIGGER planted AFTER INSERT ON audit_event BEGIN DELETE FROM log_key; END"


def test_the_number_of_the_schema_set_back(store: SQLiteStore, path: Path) -> None:
    """SQLite reads the schema anew where its number is another. Somebody plants a trigger while a process reads, and
    takes it away, with the number that went with it, before that process writes: it must not be in its memory still.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (before,) = connection.execute("PRAGMA schema_version").fetchone()
        connection.execute("DROP TRIGGER log_key_no_delete")
        connection.execute(DELETES)
        (planted,) = connection.execute("PRAGMA schema_version").fetchone()
        with pytest.raises(StoreTampered):
            list(store.events())
        connection.execute("DROP TRIGGER planted")
        connection.execute(NO_DELETE)
        connection.execute(f"PRAGMA schema_version={planted}")
        store.record(events.POLICY_LOADED, run="r")
        assert connection.execute("SELECT count(*) FROM log_key").fetchone() == (1,)
        connection.execute(PLANTED)
        connection.execute(f"PRAGMA schema_version={planted}")  # as it was checked; a trigger that nobody has read
        store.record(events.POLICY_LOADED, run="r")
        with pytest.raises(StoreTampered):
            SQLiteStore(path)
        assert before < planted


NO_DELETE = (
    "CREATE TRIGGER log_key_no_delete BEFORE DELETE ON log_key\nBEGIN SELECT RAISE(ABORT, 'log_key: it is kept'); END"
)
