"""The password of an agent's role is good for asking, and never for an approval: whatever is sent with it."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import psycopg
import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import ApprovalRequest, Denial, Permit
from humanlayer_agent.cli import main
from humanlayer_agent.cli.shared import store_access
from humanlayer_agent.errors import StoreError
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.store.postgres.postgres_store import PostgresStore, make_store
from humanlayer_agent.store.postgres.structure import ROLES
from humanlayer_agent.testing.approvers import TEST_AUTHORITY, ScriptedApprovers, ScriptedAsker, ScriptedDirector
from tests.support.postgres import LocalServer

TEAM = ScriptedApprovers()
MALLORY = ScriptedApprovers(TEST_AUTHORITY, Signer())
"""Our own code with a key that nobody trusts."""


@pytest.fixture
def as_role(postgres: LocalServer, url: str) -> Callable[[str], str]:
    """The address of the store for somebody who is a member of a role."""
    make_store(url)
    for part, name in ROLES.items():
        with suppress(psycopg.errors.DuplicateObject):
            postgres.administer(f"CREATE ROLE one_{part} LOGIN IN ROLE {name}")
    return lambda part: url.replace("user=postgres", f"user=one_{part}")


@pytest.fixture
def request_of_agent(as_role: Callable[[str], str], draft: Callable[..., ApprovalRequest]) -> Iterator[Any]:
    """A store as an agent has it, with a run, and a request that waits."""
    with closing(PostgresStore(as_role("agent"))) as store:
        gate = Gate(ScriptedDirector({}), store, ScriptedAsker([]), agent="agent", run_id="run-1")
        assert isinstance(gate.admit(Action("ls", cwd="/srv/app", project="/srv/app")), Permit)
        yield store, store.create_request(draft())


def test_an_agent_works_and_an_approver_answers(as_role: Callable[[str], str], request_of_agent: Any) -> None:
    store, request = request_of_agent
    with closing(PostgresStore(as_role("approver"))) as hub:
        assert TEAM.vote(hub, request).state == "approved"
    issued = store.permit(request, TEAM.authority, use_by_ms=10_000)
    assert isinstance(issued, Permit)
    store.consume(issued, issued.digest, TEAM.authority)
    store.halts.stop("os:1:ann")
    with closing(PostgresStore(as_role("auditor"), create=False)) as auditor:
        assert auditor.verify().intact
        assert auditor.get(request.id) is not None
        with pytest.raises(StoreError, match=r"read-only|permission denied"):
            auditor.write_head()


def test_an_agent_can_not_vote(request_of_agent: Any) -> None:
    store, request = request_of_agent
    with pytest.raises(StoreError, match="permission denied for table vote"):
        TEAM.vote(store, request)
    assert store.get(request.id).state == "pending"


def test_an_approval_at_the_agents_own_terminal_is_refused_with_a_reason(as_role: Callable[[str], str]) -> None:
    with closing(PostgresStore(as_role("agent"))) as store:
        director = ScriptedDirector({"ask": Verdict.ASK})
        gate = Gate(director, store, ScriptedAsker(["approve"]), agent="agent", run_id="run-1")
        found = gate.check(Action("ask", cwd="/", project="/"))
    assert isinstance(found, Denial)
    assert "permission denied" in found.reason


ROW = {
    "vote": "(decision_id, request_id, answer, principal, channel, assurance, presented_digest, comment, input_mode, at, "
    "pid, person, signer, signature) SELECT 'x', id, 'approve', 'os:1', 'terminal', 'terminal', digest, '', 'typed', "
    "created + 1, 1, 'tester', repeat('a', 64), repeat('ab', 64) FROM request",
    "resumption": "(id, halt, at, principal, person, channel, assurance, comment, signer, signature) SELECT "
    "repeat('a', 32), repeat('b', 32), 1, 'p', 'p', 'c', 'terminal', '', 's', repeat('ab', 64)",
    "given_grant": "(id, project, policy, given, until, max_uses) SELECT id, '/srv/app', repeat('0', 64), 1, 2, 1 "
    "FROM request",
}


APPROVALS = (
    "SELECT (SELECT count(*) FROM humanlayer.vote) + (SELECT count(*) FROM humanlayer.resumption) "
    "+ (SELECT count(*) FROM humanlayer.given_grant) + (SELECT count(*) FROM humanlayer.request WHERE state = 'approved') "
    "+ (SELECT count(*) FROM humanlayer.permit WHERE request_id IS NOT NULL)"
)
"""How many rows there are of which one might be an approval, or come of one."""

DECOYS = "".join(f"CREATE TEMP TABLE {table} AS SELECT * FROM humanlayer.{table};" for table in ("vote", "request"))
"""Tables of the session's own, in the way of ours."""


def statements(mallory: psycopg.Connection[Any], request: ApprovalRequest) -> list[str]:
    """Every kind of statement on everything that the catalog names, with everything that would make an approval."""
    words = (request.id, request.action.run_id, request.digest, "approved", "approve", "x")
    candidates = {
        "text": [f"'{word}'" for word in words],
        "text[]": [f"ARRAY['{word}']" for word in words],
        "bigint": ["0", "1", "9999999999999"],
        "boolean": ["true", "false"],
        "bytea": ["'x'"],
    }

    def values(kind: str) -> list[str]:
        return [f"{each}::{kind}" for each in (*candidates.get(kind, ()), "NULL")]

    def asked(query: str) -> list[Any]:
        return mallory.execute(query).fetchall()  # type: ignore[call-overload, no-any-return]

    ours = "'humanlayer'::regnamespace"
    found = [f"INSERT INTO {table} {row}" for table, row in ROW.items()]
    relations = [name for (name,) in asked(f"SELECT relname FROM pg_class WHERE relnamespace = {ours}")]
    assert relations
    for name in relations:
        found += [f"{verb} humanlayer.{name}" for verb in ("DELETE FROM", "TRUNCATE", "DROP TABLE", "DROP INDEX")]
        found.append(f"ALTER TABLE humanlayer.{name} DISABLE TRIGGER ALL")
        found.append(f"CREATE TRIGGER mine BEFORE INSERT ON humanlayer.{name} EXECUTE FUNCTION humanlayer.refuse()")
    columns: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in asked(
        "SELECT relname, attname, format_type(atttypid, NULL) FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
        f"WHERE relnamespace = {ours} AND relkind IN ('r', 'v', 'm', 'p', 'f') AND attnum > 0 ORDER BY 1, attnum"
    ):
        columns.setdefault(table, []).append((column, kind))
    for table, those in columns.items():
        found += [f'UPDATE humanlayer.{table} SET "{name}" = {each}' for name, kind in those for each in values(kind)]
        named = ", ".join(f'"{name}"' for name, _ in those)
        for n in range(max(map(len, candidates.values()))):
            row = ", ".join(values(kind)[min(n, len(values(kind)) - 1)] for _, kind in those)
            found.append(f"INSERT INTO humanlayer.{table} ({named}) VALUES ({row})")
    functions = asked(
        "SELECT proname, array(SELECT format_type(each, NULL) FROM unnest(proargtypes) AS each), prokind::text "
        f"FROM pg_proc WHERE pronamespace = {ours}"
    )
    assert functions
    for name, kinds, how in functions:
        for n in range(max(map(len, candidates.values())) + 1):
            given = ", ".join(values(kind)[min(n, len(values(kind)) - 1)] for kind in kinds)
            found.append(f"{'CALL' if how == 'p' else 'SELECT'} humanlayer.{name}({given})")
    return [
        *found,
        # The function that lets an allow of the policy's own run knows nothing of requests.
        f"SELECT humanlayer.admit(repeat('d', 32), '{request.action.run_id}', '', repeat('0', 64), 9, 0, '', '', '{{}}', '', 0)",
        "SET session_replication_role = replica",
        "UPDATE request SET state = 'approved', decided = created + 1",
        "UPDATE permit SET state = 'consumed' WHERE request_id IS NOT NULL",
        "INSERT INTO permit (id, run_id, request_id, digest, issued, use_by) "
        "SELECT repeat('c', 32), run_id, id, digest, created, expires FROM request",
        "INSERT INTO purging SELECT 1, 9999999999999, 9999999999999",
        "CREATE TABLE humanlayer.mine (id TEXT)",
        "CREATE FUNCTION humanlayer.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE OR REPLACE FUNCTION humanlayer.begin_write() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
        "ALTER FUNCTION humanlayer.vote_in_time() OWNER TO one_agent",
        "GRANT humanlayer_approvers TO one_agent",
        "SET ROLE humanlayer_approvers",
        "SET SESSION AUTHORIZATION postgres",
    ]


def approving(url: str, request: ApprovalRequest) -> list[str]:
    """The statements by which a role makes something that might be an approval; nothing of them stays."""
    made = []
    with psycopg.connect(url, autocommit=True) as mallory:
        tried = statements(mallory, request)
        for before in ("", DECOYS):
            mallory.execute(f"SET search_path = humanlayer; {before}")  # type: ignore[call-overload]
            for statement in tried:
                with suppress(psycopg.Error), mallory.transaction(force_rollback=True):
                    mallory.execute(statement)  # type: ignore[call-overload]
                    mallory.execute("SET CONSTRAINTS ALL IMMEDIATE")
                    if mallory.execute(APPROVALS).fetchone() != (0,):
                        made.append(statement)
    return made


def test_no_statement_of_an_agents_role_makes_an_approval_that_counts(
    as_role: Callable[[str], str], request_of_agent: Any, url: str
) -> None:
    """All tables, all functions; each by itself, and after tables of the session's own stand in the way of ours."""
    store, request = request_of_agent
    assert approving(as_role("agent"), request) == []
    with psycopg.connect(as_role("agent"), autocommit=True) as mallory:  # and one after the other, to stay
        for statement in statements(mallory, request):
            if not statement.startswith(
                ("UPDATE humanlayer.run", "UPDATE humanlayer.request", "INSERT INTO humanlayer.halt")
            ):
                with suppress(psycopg.Error):
                    mallory.execute(statement)  # type: ignore[call-overload]
    with psycopg.connect(url, autocommit=True) as owner:
        assert owner.execute(APPROVALS).fetchone() == (0,)
    assert not isinstance(store.permit(request, TEAM.authority, use_by_ms=10_000), Permit)
    assert store.verify().intact


PLANTED = (
    "CREATE FUNCTION humanlayer.planted(text) RETURNS void LANGUAGE sql SECURITY DEFINER "
    f"AS 'INSERT INTO humanlayer.vote {ROW['vote'].replace(chr(39), chr(39) * 2).replace('FROM request', 'FROM humanlayer.request')}'",
    "CREATE VIEW humanlayer.planted AS SELECT * FROM humanlayer.request; "
    "GRANT UPDATE ON humanlayer.planted TO humanlayer_agents; ALTER TABLE humanlayer.request DISABLE TRIGGER ALL",
    "GRANT INSERT ON humanlayer.resumption TO humanlayer_agents",
)


@pytest.mark.parametrize("planted", PLANTED, ids=["function", "view", "right"])
def test_whatever_is_added_is_tried(
    planted: str, as_role: Callable[[str], str], request_of_agent: Any, url: str
) -> None:
    """A function, a table or a right that the next version has is tried as those of today are."""
    _, request = request_of_agent
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(planted)  # type: ignore[call-overload]
        owner.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA humanlayer TO humanlayer_agents")
    assert approving(as_role("agent"), request)


def test_the_owner_who_forges_gets_no_further(request_of_agent: Any, url: str) -> None:
    """Rights are a wall; what counts is who has signed."""
    store, request = request_of_agent
    with closing(PostgresStore(url)) as owner:
        assert MALLORY.vote(owner, request).state == "approved"
    assert not isinstance(store.permit(request, TEAM.authority, use_by_ms=10_000), Permit)


def test_roles_are_granted_again_as_they_were(url: str, postgres: LocalServer) -> None:
    make_store(url)
    database = url.partition("?")[0].rpartition("/")[2]
    postgres.administer(f"GRANT INSERT ON humanlayer.vote TO {ROLES['agent']}", database=database)
    make_store(url)
    has = f"SELECT has_table_privilege('{ROLES['agent']}', 'humanlayer.vote', 'INSERT')"
    assert postgres.administer(has, database=database) == [(False,)]


# ---- who reads ----------------------------------------------------------------------------------------


def test_an_auditor_says_that_they_read_and_writes_nothing_else(
    as_role: Callable[[str], str], request_of_agent: Any
) -> None:
    store, request = request_of_agent

    def others() -> int:
        return sum(entry.event["type"] != "audit.read" for entry in store.events())

    with closing(PostgresStore(as_role("auditor"), create=False)) as auditor:
        assert auditor.note_read("audit tail")
        assert auditor.verify().intact
    (event,) = (entry.event for entry in store.events(type="audit.read"))
    assert (event["by"], event["command"], event["code"]) == ("db:one_auditor", "audit tail", 109)
    assert store.verify().intact
    with closing(PostgresStore(as_role("agent"), create=False)) as agent:
        assert not agent.note_read("audit tail")
    assert len(list(store.events(type="audit.read"))) == 1
    with psycopg.connect(as_role("auditor"), autocommit=True) as mallory:
        mallory.execute("SET search_path = humanlayer")
        before = others()
        for statement in (
            *statements(mallory, request),
            "INSERT INTO audit_event (seq, hash, body) SELECT seq + 1, hash, body FROM audit_event ORDER BY seq DESC LIMIT 1",
            "SELECT seal('{}', 'x', 1)",
            "INSERT INTO halt (id, at, principal) VALUES (repeat('a', 32), 1, 'x')",
        ):
            with suppress(psycopg.Error):
                mallory.execute(statement)  # type: ignore[call-overload]
        assert others() == before
        for command in (None, "", "Tail", 'x","type":"person.removed', "a" * 65, "-x", "tail\n", "täil"):
            with pytest.raises(psycopg.Error, match="no command is called that"):
                mallory.execute("SELECT audit_read(%s)", (command,))
    assert store.get(request.id).state == "pending"


def test_a_table_of_the_auditors_own_deceives_nobody(as_role: Callable[[str], str], request_of_agent: Any) -> None:
    """The function works with the owner's rights: what stands in its way would be written to by these."""
    store, _ = request_of_agent
    with psycopg.connect(as_role("auditor"), autocommit=True) as mallory:
        mallory.execute("CREATE TEMP TABLE audit_event AS SELECT * FROM humanlayer.audit_event")
        mallory.execute("SET search_path = pg_temp, humanlayer")
        mallory.execute("SELECT humanlayer.audit_read('audit tail')")
    assert len(list(store.events(type="audit.read"))) == 1
    assert store.verify().intact


@pytest.mark.parametrize("name", ['we"ird', "ünï", "back\\slash", "tab\tname"])
def test_logins_of_any_name(postgres: LocalServer, as_role: Callable[[str], str], url: str, name: str) -> None:
    quoted = name.replace('"', '""')
    with suppress(psycopg.errors.DuplicateObject):
        postgres.administer(f'CREATE ROLE "{quoted}" LOGIN IN ROLE {ROLES["auditor"]}')
    as_role("auditor")
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(f'SET SESSION AUTHORIZATION "{quoted}"'.encode())
        session.execute("SELECT humanlayer.audit_read('audit tail')")
    with closing(PostgresStore(url)) as store:
        (event,) = (entry.event for entry in store.events(type="audit.read"))
        assert event["by"] == f"db:{name}"
        assert store.verify().intact


def test_an_agent_can_not_say_that_somebody_has_left(as_role: Callable[[str], str], request_of_agent: Any) -> None:
    store, request = request_of_agent
    with pytest.raises(StoreError, match="permission denied"):
        store.people.remove("tester", ["os:1000:tester"], [], "os:1:x")
    with closing(PostgresStore(as_role("approver"))) as hub:
        assert TEAM.vote(hub, request).state == "approved", "nobody has left"
        hub.people.remove("tester", ["os:1000:tester"], [], "os:1:x")
        assert [each.person for each in hub.people.left()] == ["tester"]


def test_commands_that_read_say_so_once_or_read_nothing(
    as_role: Callable[[str], str], request_of_agent: Any, capsys: pytest.CaptureFixture[str], url: str,
    postgres: LocalServer,
) -> None:  # fmt: skip
    store, request = request_of_agent
    for part, count in (("auditor", 1), ("approver", 1), ("auditor", 1)):
        assert main(["audit", "query", "--type", "request", "--store", as_role(part)]) == 0
        assert request.id[:12] in capsys.readouterr().out
        assert len(list(store.events(type="audit.read"))) == count, "once a process: this one reads three times"
    assert main(["audit", "tail", "--store", url]) == 0
    store_access._noted.clear()
    database = url.partition("?")[0].rpartition("/")[2]
    postgres.administer(f"REVOKE EXECUTE ON FUNCTION humanlayer.audit_read FROM {ROLES['auditor']}", database=database)
    assert main(["audit", "tail", "--store", as_role("auditor")]) == 2
    told = capsys.readouterr()
    assert "permission denied" in told.err
    (event,) = (entry.event for entry in store.events(type="audit.read"))
    assert event["command"] == "audit query"
