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
from humanlayer_agent.store.postgres.structure import ROLES, TABLES
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


def statements() -> list[str]:
    """Every kind of statement on every table, with everything that would make an approval."""
    found = [f"INSERT INTO {table} {row}" for table, row in ROW.items()]
    found += [f"{verb} {table}" for table in TABLES for verb in ("DELETE FROM", "TRUNCATE", "DROP TABLE")]
    found += [f"ALTER TABLE {table} DISABLE TRIGGER ALL" for table in TABLES]
    found += [f"CREATE TRIGGER mine BEFORE INSERT ON {table} EXECUTE FUNCTION refuse()" for table in TABLES]
    return [
        *found,
        "SET session_replication_role = replica",
        "UPDATE request SET state = 'approved', decided = created + 1",
        "UPDATE request SET needed = 0",
        "UPDATE request SET digest = repeat('0', 64)",
        "UPDATE vote SET answer = 'approve'",
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


def test_no_statement_of_an_agents_role_makes_an_approval_that_counts(
    as_role: Callable[[str], str], request_of_agent: Any, url: str
) -> None:
    """All tables, all functions; each by itself, and after tables of the session's own stand in the way of ours."""
    store, request = request_of_agent
    decoys = "".join(f"CREATE TEMP TABLE {table} AS SELECT * FROM humanlayer.{table};" for table in ("vote", "request"))
    with psycopg.connect(as_role("agent"), autocommit=True) as mallory:
        done = []
        for before in ("", decoys):
            mallory.execute(f"SET search_path = humanlayer; {before}")  # type: ignore[call-overload]
            for statement in statements():
                with suppress(psycopg.Error):
                    mallory.execute(statement)  # type: ignore[call-overload]
                    done.append(statement)
            mallory.execute("SET search_path = humanlayer")
        functions = mallory.execute(
            "SELECT proname, pronargs, prorettype = 'trigger'::regtype FROM pg_proc "
            "WHERE pronamespace = 'humanlayer'::regnamespace"
        ).fetchall()
        for name, count, _ in functions:
            with suppress(psycopg.Error):
                mallory.execute(f"SELECT humanlayer.{name}({', '.join(['NULL'] * count)})")  # type: ignore[call-overload]
        # The function that lets an allow of the policy's own run knows nothing of requests.
        with suppress(psycopg.Error):
            mallory.execute(
                "SELECT * FROM admit(repeat('d', 32), 'run-1', '', repeat('0', 64), 9, 0, '', '', '{}', '', 0)"
            )
    assert [each for each in done if "pg_temp" not in each and not each.startswith(("DROP TABLE", "DELETE", "TRUNCATE"))
            and "request" not in each and "vote" not in each] == []  # fmt: skip
    with psycopg.connect(url, autocommit=True) as owner:
        counted = "SELECT (SELECT count(*) FROM humanlayer.vote), (SELECT state FROM humanlayer.request)"
        assert owner.execute(counted).fetchone() == (0, "pending")
    assert not isinstance(store.permit(request, TEAM.authority, use_by_ms=10_000), Permit)
    assert store.verify().intact


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
        before = store.figures().events
        for statement in (
            *statements(),
            "INSERT INTO audit_event (seq, hash, body) SELECT seq + 1, hash, body FROM audit_event ORDER BY seq DESC LIMIT 1",
            "SELECT seal('{}', 'x', 1)",
            "INSERT INTO halt (id, at, principal) VALUES (repeat('a', 32), 1, 'x')",
        ):
            with suppress(psycopg.Error):
                mallory.execute(statement)  # type: ignore[call-overload]
        assert store.figures().events == before
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
