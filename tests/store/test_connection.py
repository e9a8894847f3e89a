"""The file: who may read it, what is refused, what happens where it can't be written."""

import os
import re
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Denial, Outcome, Permit, Refused
from humanlayer_agent.audit import events
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.errors import ConfigError, StoreError
from humanlayer_agent.processes import identity
from humanlayer_agent.redaction.redactor import Redactor
from humanlayer_agent.store import connection as database
from humanlayer_agent.store import schema
from humanlayer_agent.store.access import file_of
from humanlayer_agent.store.rows import context_digest, dump_action, dump_decision
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.store.statements import REQUEST_EVENTS, Ledger
from humanlayer_agent.testing.approvers import ScriptedApprovers, answer
from tests.support import children
from tests.support.sealing import append_in_format_1

NOBODY = 65534
TEAM = ScriptedApprovers()


@pytest.fixture(autouse=True)
def new_stores() -> None:
    """Here each is made from nothing, as a user's is."""


def test_only_its_owner_can_read_it(path: Path, store: SQLiteStore) -> None:
    store.record(events.POLICY_LOADED, run="r")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    files = sorted(path.parent.iterdir())
    assert len(files) == 3  # with the write-ahead log, that holds commands too
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_loose_permissions_are_tightened(path: Path, store: SQLiteStore) -> None:
    store.close()
    path.chmod(0o644)
    SQLiteStore(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_durability_settings(store: SQLiteStore) -> None:
    with store._database.read() as connection:
        settings = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_what_was_written_is_there_after_closing(path: Path, store: SQLiteStore) -> None:
    store.record(events.POLICY_LOADED, run="r", policy="p")
    store.close()
    kept = [entry.event["type"] for entry in SQLiteStore(path, create=False).events()]
    assert kept == ["audit.opened", "policy.loaded"]


def test_a_newer_schema_is_refused(path: Path, store: SQLiteStore) -> None:
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    for create in (True, False):
        with pytest.raises(StoreError, match=r"newer humanlayer-agent \(schema 99, this one knows \d+\): upgrade"):
            SQLiteStore(path, create=create)


@pytest.fixture
def first_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one run, made before there were edits."""
    with monkeypatch.context() as past:
        scripts = schema.migrations()
        past.setattr(schema, "migrations", lambda: scripts[:1])
        past.setattr(Ledger, "redactor", lambda self: Redactor())
        past.setattr(Ledger, "append", append_in_format_1)
        store = SQLiteStore(path)
        open_run_of_then(store)
        store.close()
    return path


def open_run_of_then(store: SQLiteStore) -> None:
    """A run of a process that writes no heartbeat."""
    run = {"agent": "agent", "instance": "instance", "requester": "os:1000:alice", "project": ""}
    with store._transaction() as ledger:
        ledger._db.execute(
            "INSERT INTO run (id, agent, instance, requester, project, process, started) VALUES (?, ?, ?, ?, ?, ?, ?)",
            ("run-1", *run.values(), identity.identity().partition(":")[2], ledger.now),
        )
        ledger.append(events.RUN_STARTED, run="run-1", **run)


def test_an_old_store_is_brought_up_to_date_where_it_is_used(first_version: Path, clock: Any, draft: Any) -> None:
    store = SQLiteStore(first_version, clock=clock)
    request = store.create_request(draft())
    assert TEAM.decide(store, request.id, answer(request, "edit", edited="ls")).state == "superseded"
    assert store.verify().intact


def test_an_old_store_can_be_read_and_stays_as_it_was(first_version: Path) -> None:
    before = first_version.read_bytes()
    reader = SQLiteStore(first_version, create=False)
    assert [entry.event["type"] for entry in reader.events()] == ["audit.opened", "run.started"]
    assert reader.requests() == []
    assert reader.verify().intact
    with pytest.raises(StoreError, match="readonly"):
        reader.close_run("run-1", "finished")
    assert first_version.read_bytes() == before


@pytest.fixture
def second_version(path: Path, clock: Any, draft: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store from before votes were signed: a request approved and permitted, one edited, one rejected, one pending."""
    with monkeypatch.context() as past:
        scripts = schema.migrations()
        past.setattr(schema, "migrations", lambda: scripts[:2])
        past.setattr(Ledger, "redactor", lambda self: Redactor())
        past.setattr(Ledger, "append", append_in_format_1)
        store = SQLiteStore(path, clock=clock)
        open_run_of_then(store)
        for number, (kind, state) in enumerate(
            [("approve", "approved"), ("edit", "superseded"), ("reject", "rejected"), ("", "")]
        ):
            request = draft(f"command {number}", key=f"{number}" * 64)
            with store._transaction() as ledger:
                write_second_version(ledger, request, kind, state)
        store.close()
    return path


def write_second_version(ledger: Any, request: Any, kind: str, state: str) -> None:
    """A request with its answer, and what the log of then says of them."""
    action, decision = dump_action(request.action), dump_decision(request.decision)
    ledger._db.execute(
        "INSERT INTO request (id, run_id, idempotency_key, digest, body, action, decision, requester, created, expires, "
        "valid_for) VALUES (?, 'run-1', ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (request.id, request.idempotency_key, request.digest, canonical(request.body), action, decision,
         request.requester, request.created, request.expires, request.valid_for),
    )  # fmt: skip
    about = {"run": "run-1", "request": request.id, "digest": request.digest, "asked": request.created}
    ledger.append(
        events.REQUEST_CREATED, **about, requester=request.requester, expires=request.expires,
        valid_for=request.valid_for, context=context_digest(action, decision),
    )  # fmt: skip
    if not kind:
        return
    edited = "ls" if kind == "edit" else ""
    ledger._db.execute(
        "INSERT INTO vote VALUES (?, ?, ?, 'slack:T1/U2', 'slack', 'chat', ?, 'why', 'click', ?, ?, ?)",
        (f"d-{request.id}", request.id, kind, request.digest, ledger.now, os.getpid(), edited),
    )
    ledger.append(
        events.VOTE_RECORDED, run="run-1", request=request.id, answer=kind, asked=request.created,
        approver={"principal": "slack:T1/U2", "channel": "slack", "assurance": "chat"},
        presented_digest=request.digest, decision_id=f"d-{request.id}", comment="why", input_mode="click",
        edited=edited or None,
    )  # fmt: skip
    ledger._db.execute("UPDATE request SET state = ?, decided = ? WHERE id = ?", (state, ledger.now, request.id))
    ledger.append(REQUEST_EVENTS[state], **about, by="slack:T1/U2")
    if state == "approved":
        ledger.issue("run-1", request.digest, ledger.now + 10_000, request.id)


def test_votes_from_before_there_were_signatures(second_version: Path, clock: Any) -> None:
    """They are kept as they are, the log agrees, and they approve nothing any more."""
    store = SQLiteStore(second_version, clock=clock)
    assert store.verify().intact
    approved, edited, rejected, pending = store.requests()
    assert [request.state for request in (approved, edited, rejected, pending)] == [
        "approved", "superseded", "rejected", "pending",
    ]  # fmt: skip
    assert (edited.edited, rejected.comment, rejected.decided_by) == ("ls", "why", "slack:T1/U2")
    assert [(vote.person, vote.signature) for vote in store.votes(rejected.id)] == [("", "")]
    (permit_id,) = [row[0] for row in store._database._open().execute("SELECT id FROM permit")]
    permit = Permit(permit_id, approved.digest, approved.action, approved.decision, clock() + 10_000, request=approved)
    refused = store.consume(permit, permit.digest, TEAM.authority)
    assert isinstance(refused, Refused)
    assert "0 approvals count" in refused.reason
    assert TEAM.vote(store, pending, "approve").state == "approved"
    assert isinstance(store.permit(pending, TEAM.authority, use_by_ms=10_000), Permit)
    assert store.verify().intact


def test_they_can_be_read_without_being_changed(second_version: Path) -> None:
    before = second_version.read_bytes()
    reader = SQLiteStore(second_version, create=False)
    assert reader.verify().intact
    assert len(reader.votes(reader.requests()[0].id)) == 1
    assert second_version.read_bytes() == before


def test_the_database_of_another_program_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE song (title)")
    with pytest.raises(StoreError, match="another program"):
        SQLiteStore(path)
    assert [row[0] for row in sqlite3.connect(path).execute("SELECT name FROM sqlite_schema")] == ["song"]


def test_a_file_that_is_no_database(path: Path) -> None:
    path.parent.mkdir()
    content = b"not a database, but a text that is long enough to look like one" * 40
    path.write_bytes(content)
    with pytest.raises(StoreError):
        SQLiteStore(path)
    assert path.read_bytes() == content


def test_reading_creates_nothing(path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store at"):
        SQLiteStore(path, create=False)
    assert not path.parent.exists()


def test_a_reader_can_not_write(path: Path, store: SQLiteStore) -> None:
    reader = SQLiteStore(path, create=False)
    with pytest.raises(StoreError, match="readonly"):
        reader.record(events.POLICY_LOADED, run="r")


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a regular file"):
        SQLiteStore(tmp_path)


def test_reading_does_not_wait_for_a_writer(path: Path, store: SQLiteStore) -> None:
    reader = SQLiteStore(path, create=False, busy_ms=0)
    with store._transaction() as ledger:
        ledger.append(events.POLICY_LOADED, run="r")
        assert len(list(reader.events())) == 1
    assert len(list(reader.events())) == 2


def test_a_store_does_not_cross_a_fork(store: SQLiteStore, in_child: Callable[..., Any]) -> None:
    def use() -> str:
        try:
            store.record(events.POLICY_LOADED, run="child")
        except StoreError as error:
            return str(error)
        return "written"

    assert "before a fork" in in_child(use)
    store.record(events.POLICY_LOADED, run="parent")
    assert [entry.event.get("run") for entry in store.events()] == [None, "parent"]


@pytest.mark.parametrize("way", ["removed", "replaced"])
def test_nothing_is_written_into_a_file_that_nobody_will_find(path: Path, store: SQLiteStore, way: str) -> None:
    if way == "replaced":
        shutil.copy(path, path.with_suffix(".copy"))
        path.with_suffix(".copy").rename(path)
    else:
        path.unlink()
    with pytest.raises(StoreError, match="replaced" if way == "replaced" else "gone"):
        store.record(events.POLICY_LOADED, run="r")


def test_an_error_inside_undoes_the_whole_transaction(store: SQLiteStore) -> None:
    def write_half() -> None:
        with store._transaction() as ledger:
            ledger.append(events.POLICY_LOADED, run="r")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert len(list(store.events())) == 1
    store.record(events.POLICY_LOADED, run="r")  # and the connection is as good as before
    assert store.verify().count == 2


def test_text_that_sqlite_can_not_hold_is_a_store_error(store: SQLiteStore) -> None:
    with pytest.raises(StoreError, match="can't hold this"):
        store.get("\ud800")


@pytest.mark.parametrize(
    ("location", "path"),
    [("/a/b.db", "/a/b.db"), ("b.db", "b.db"), ("sqlite:///a/b.db", "/a/b.db"), ("sqlite:////a/b.db", "/a/b.db")],
)
def test_locations(location: str, path: str) -> None:
    assert str(file_of(location)) == path


@pytest.mark.parametrize("location", ["mysql://host/db", "sqlite://b.db", "http://x"])
def test_locations_that_nothing_is_at(location: str) -> None:
    with pytest.raises(ConfigError, match="expected a path"):
        file_of(location)


CREATE = """
import sys
import tempfile
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.audit import events
print(flush=True)
sys.stdin.readline()
store = SQLiteStore(sys.argv[1], busy_ms=600_000)
store.record(events.POLICY_LOADED, run=sys.argv[2])
"""


def test_several_processes_create_one_store(path: Path) -> None:
    """They all begin at once; one of them makes the schema, and the log begins once."""
    processes = [
        children.Popen(
            [sys.executable, "-c", CREATE, str(path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(6)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    results = [process.communicate("go\n") for process in processes]
    assert [process.returncode for process in processes] == [0] * 6, results
    store = SQLiteStore(path, create=False)
    kinds = [entry.event["type"] for entry in store.events()]
    assert kinds == ["audit.opened"] + ["policy.loaded"] * 6
    assert store.verify().intact


# Where it can't be written, nothing runs.


def denied_by_store(answer: Permit | Denial | None) -> bool:
    return isinstance(answer, Denial) and answer.by == "store" and answer.reason.startswith("the audit log can't be")


def test_another_process_has_it_ready_just_when_we_look(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it is takes three reads: half of an empty file and half of a store is no database of another program."""

    class Slow:
        """A connection behind which another process creates the store, after the first of its reads."""

        def __init__(self, connection: sqlite3.Connection) -> None:
            self._connection = connection

        def execute(self, statement: str) -> sqlite3.Cursor:
            found = self._connection.execute(statement)
            if "application_id" in statement and not created:
                created.append(True)
                database.Database(path).close()
            return found

    def version_of(connection: sqlite3.Connection, where: Path) -> int:
        checked.append(True)
        return version(Slow(connection) if len(checked) == 2 else connection, where)  # type: ignore[arg-type]

    created: list[bool] = []
    checked: list[bool] = []
    version = schema.version_of
    monkeypatch.setattr(schema, "version_of", version_of)
    database.Database(path).close()
    assert created
    with sqlite3.connect(path) as connection:
        assert version(connection, path) == schema.newest()
    connection.close()


def test_locked_for_longer_than_the_time_out(
    path: Path, make_gate: Callable[..., Gate], act: Callable[..., Any]
) -> None:
    gate = make_gate(store=SQLiteStore(path, busy_ms=50))
    permit = gate.check(act("ls"))
    assert isinstance(permit, Permit)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert denied_by_store(gate.check(act("ls")))
    assert denied_by_store(gate.start(permit, act("ls")))
    other.execute("ROLLBACK")
    assert isinstance(gate.check(act("ls")), Permit)


def test_what_could_not_be_recorded_is_recorded_before_anything_else_runs(
    path: Path, make_gate: Callable[..., Gate], act: Callable[..., Any]
) -> None:
    gate = make_gate(store=SQLiteStore(path, busy_ms=50))
    permit = gate.check(act("ls"))
    assert isinstance(permit, Permit)
    assert gate.start(permit, act("ls")) is None
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    gate.finish(permit, Outcome(7))
    assert denied_by_store(gate.check(act("ls")))
    other.execute("ROLLBACK")
    gate.check(act("true"))
    kinds = [(entry.event["type"], entry.event.get("returncode")) for entry in gate.store.events()]
    assert kinds[-2:] == [("exec.finished", 7), ("decision.evaluated", None)]


def test_disk_full(
    path: Path, make_gate: Callable[..., Gate], act: Callable[..., Any], in_child: Callable[..., Any]
) -> None:
    """A real quota (RLIMIT_FSIZE): the write fails half-way, the action is denied, nothing acknowledged is lost."""

    def fill() -> tuple[list[str], int, list[str]]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        gate = make_gate(store=SQLiteStore(path))
        ran: list[str] = []
        acknowledged = 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        denials: list[str] = []
        for number in range(2_000):
            action = act(f"echo {number} " + "x" * 500)
            permit = gate.check(action)
            denial = permit if isinstance(permit, Denial) else gate.start(permit, action)
            if isinstance(denial, Denial):
                denials.append(f"{denial.by}: {denial.reason}")
                if len(denials) == 3:
                    break
                continue
            assert isinstance(permit, Permit)
            ran.append(permit.id)
            gate.finish(permit, Outcome(0))
            acknowledged = number
        return ran, acknowledged, denials

    ran, acknowledged, denials = in_child(fill)
    assert acknowledged > 10
    assert len(denials) == 3
    assert all(denial.startswith("store: the audit log can't be written: the store") for denial in denials)
    store = SQLiteStore(path)
    started = [entry.event["permit"] for entry in store.events(type="exec.started")]
    assert started[: len(ran)] == ran
    assert len(started) <= len(ran) + 1  # an ambiguous commit may be there: denied, and never run
    assert store.verify().intact


@pytest.fixture
def fixed() -> Iterator[Path]:
    """A closed store in a directory that other users can enter and nobody can write to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = folder / "store.sqlite3"
        SQLiteStore(target).close()
        target.chmod(0o444)
        folder.chmod(0o555)
        yield target
        folder.chmod(0o700)


def as_anybody() -> None:
    """Root may write anywhere: become somebody who may not."""
    if os.getuid() == 0:
        os.setuid(NOBODY)


def test_a_directory_that_can_not_be_written(fixed: Path, in_child: Callable[..., Any]) -> None:
    def try_it(path: Path) -> str:
        as_anybody()
        with pytest.raises(StoreError) as error:
            SQLiteStore(path)
        return str(error.value)

    for path in (fixed, fixed.with_name("new"), fixed.parent / "folder" / "new"):
        message = in_child(try_it, path)
        assert str(path) in message
        assert re.search("Permission denied|not permitted|unable to open|readonly", message)
    assert [file.name for file in fixed.parent.iterdir()] == [fixed.name]


def test_a_copy_for_an_auditor_where_nothing_can_be_written(fixed: Path, in_child: Callable[..., Any]) -> None:
    def read() -> bool:
        # Load our own files first: this checkout may lie where somebody else can't look.
        copied = shutil.copy(fixed, fixed.with_name("copied"))
        SQLiteStore(Path(copied), create=False).verify()
        as_anybody()
        return SQLiteStore(fixed, create=False).verify().intact

    assert in_child(read)


def test_a_store_that_becomes_unwritable_denies(
    path: Path, make_gate: Callable[..., Gate], act: Callable[..., Any]
) -> None:
    gate = make_gate()
    assert isinstance(gate.check(act("ls")), Permit)
    path.unlink()
    assert denied_by_store(gate.check(act("ls")))
    assert denied_by_store(gate.check(act("ask")))
    assert denied_by_store(gate.check(act("rm -rf /")))  # also where the policy would deny: it could not be recorded


def _remove(file: Path) -> None:
    file.unlink()


def _replace(file: Path) -> None:
    copy = file.with_name("copy")
    shutil.copy(file, copy)
    copy.replace(file)


def _empty(file: Path) -> None:
    os.truncate(file, 0)


def _overwrite(file: Path) -> None:
    file.write_bytes(b"y" * 9_000)


@pytest.mark.parametrize(
    ("end", "attack"),
    [
        *(("-wal", each) for each in (_remove, _replace, _empty, _overwrite)),
        *(("-shm", each) for each in (_remove, _replace)),
        ("", _empty),
    ],
)
def test_nothing_is_permitted_into_a_log_that_nobody_finds_again(
    make_gate: Callable[..., Gate],
    act: Callable[..., Any],
    path: Path,
    end: str,
    attack: Callable[[Path], None],
) -> None:
    gate = make_gate()
    assert isinstance(gate.check(act("ls")), Permit)
    attack(path.with_name(path.name + end))
    for _ in range(2):
        denial = gate.check(act("ls"))
        assert isinstance(denial, Denial), "it would have run, and no log would have said so"
        assert denial.by == "store"
        assert "while it was in use" in denial.reason


def test_a_permit_is_not_used_where_the_log_was_removed_meanwhile(
    make_gate: Callable[..., Gate], act: Callable[..., Any], path: Path
) -> None:
    gate = make_gate()
    permit = gate.check(act("ls"))
    assert isinstance(permit, Permit)
    path.with_name(f"{path.name}-wal").unlink()
    denial = gate.start(permit, permit.action)
    assert isinstance(denial, Denial)
    assert denial.by == "store"


def test_a_log_that_sqlite_itself_begins_anew_is_fine(path: Path, store: SQLiteStore) -> None:
    for mode in ("PASSIVE", "RESTART", "TRUNCATE"):
        store.record(events.POLICY_LOADED, run="r")
        with sqlite3.connect(path) as other:
            other.execute(f"PRAGMA wal_checkpoint({mode})")
        other.close()
        store.record(events.POLICY_LOADED, run="r")
    store.close()
    store.void("nothing", "why")  # what changes nothing leaves the log empty
    store.record(events.POLICY_LOADED, run="r")
    assert len(list(store.events(type=events.POLICY_LOADED.name))) == 7


# Where it can be


@pytest.mark.parametrize(
    "kind", ["nfs4", "cifs", "9p", "virtiofs", "vboxsf", "fuse", "fuse.sshfs", "fuse.vmhgfs-fuse", "fuse.grpcfuse"]
)
def test_not_on_what_another_machine_may_write_too(path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_file_system", lambda path: kind)
    with pytest.raises(StoreError, match=re.escape(f"network file system ({kind})")):
        SQLiteStore(path)


@pytest.mark.parametrize("kind", ["ext4", "btrfs", "overlay", "tmpfs", "fuseblk", "fuse.fuse-overlayfs", ""])
def test_on_every_disk_of_this_machine(path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_file_system", lambda path: kind)
    SQLiteStore(path).close()
