"""The structure of a database of ours: the scripts that make it, and whether it is still what they made.

A trigger, a rule or a function that somebody has put there acts within our own statements. A role that agents use can
make none; whoever owns the tables can.

Three roles say what a stolen password is good for: those of agents, of those who serve approvers, and of auditors. They
are a further wall and no proof: signatures still decide what runs. Nobody works as the role that owns the tables; to
purge, or to bring the store to a new version, takes it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from humanlayer_agent.errors import ConfigError, StoreError, StoreTampered
from humanlayer_agent.store.transactions import Connection

TABLES = tuple(
    """run request vote permit execution audit_event log_key delivery presentation halt resumption purging silence lease
    given_grant grant_use""".split()  # noqa: SIM905
)
"""The tables that hold something, each after those that it refers to."""

_DIGESTS = {3: "4e7350a09fd54851d19a52382a52c93d0c1fe789018ebda96e0d6b179a67d3c7"}
"""Of the newest version: what our scripts make, as the catalogs of every version of PostgreSQL tell it."""

_ASKED = {
    "table": "SELECT relname::text, relkind::text, relrowsecurity, relforcerowsecurity FROM pg_class "
    "WHERE relnamespace = 'humanlayer'::regnamespace AND relkind NOT IN ('i', 'S', 't') ORDER BY 1",
    "column": "SELECT relname::text, attname::text, format_type(atttypid, atttypmod), attnotnull, attidentity::text, "
    "attgenerated::text FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
    "WHERE relnamespace = 'humanlayer'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped "
    "ORDER BY 1, 2",
    "constraint": "SELECT relname::text, conname::text, contype::text, conkey::text, confrelid::regclass::text, "
    "confkey::text, convalidated FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid "
    "WHERE relnamespace = 'humanlayer'::regnamespace AND contype <> 'n' ORDER BY 1, 2",
    "index": "SELECT relname::text, indrelid::regclass::text, indisunique, indkey::text, indisvalid, indisready "
    "FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
    "WHERE relnamespace = 'humanlayer'::regnamespace ORDER BY 1",
    "trigger": "SELECT relname::text, tgname::text, tgfoid::regproc::text, tgtype, tgenabled::text, tgattr::text, "
    "encode(tgargs, 'hex'), tgqual IS NULL FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
    "WHERE relnamespace = 'humanlayer'::regnamespace AND NOT tgisinternal ORDER BY 1, 2",
    "rule": "SELECT relname::text, rulename::text FROM pg_rewrite JOIN pg_class ON pg_class.oid = ev_class "
    "WHERE relnamespace = 'humanlayer'::regnamespace ORDER BY 1, 2",
    "policy": "SELECT relname::text, polname::text FROM pg_policy JOIN pg_class ON pg_class.oid = polrelid "
    "WHERE relnamespace = 'humanlayer'::regnamespace ORDER BY 1, 2",
    "function": "SELECT proname::text, pg_get_function_identity_arguments(pg_proc.oid), prorettype::regtype::text, "
    "lanname::text, prosrc, prosecdef, provolatile::text, proisstrict, proconfig::text "
    "FROM pg_proc JOIN pg_language ON pg_language.oid = prolang "
    "WHERE pronamespace = 'humanlayer'::regnamespace ORDER BY 1, 2",
    "operator": "SELECT oprname::text FROM pg_operator WHERE oprnamespace = 'humanlayer'::regnamespace ORDER BY 1",
    "key": "SELECT relname::text, tgenabled::text, tgtype FROM pg_trigger "
    "JOIN pg_class ON pg_class.oid = tgrelid "
    "WHERE relnamespace = 'humanlayer'::regnamespace AND tgisinternal ORDER BY relname, tgtype, tgenabled",
}
"""What is asked of the catalogs. The texts of conditions are not: how they are told differs between versions, so all
conditions of triggers stand in functions."""

Parts = dict[str, list[list[Any]]]


@cache
def scripts() -> list[str]:
    """The scripts that lead from a database without a store to the newest version, in order."""
    folder = Path(__file__).with_name("schema")
    return [each.read_text(encoding="utf-8") for each in sorted(folder.glob("*.sql"))]


def newest() -> int:
    """The version that this version of ours makes."""
    return len(scripts())


def version_of(connection: Connection) -> int:
    """Return the version of the store in a database; 0 where it holds none.

    Raises:
        StoreError: it can't be read.
    """
    if connection.execute("SELECT to_regclass('humanlayer.version')").fetchone()[0] is None:
        return 0
    row = connection.execute("SELECT number FROM humanlayer.version").fetchone()
    return int(row[0]) if row else 0


def check(connection: Connection, place: str) -> None:
    """Make sure that nothing but our own scripts has made what is there.

    Raises:
        StoreError: there is no store, or one of another version.
        StoreTampered: something is not as we made it. It says what.
    """
    version = version_of(connection)
    if not version:
        raise StoreError(f"there is no store in {place}: hla store init makes one, as the role that is to own it")
    if version > newest():
        raise StoreError(
            f"the store {place} was written by a newer humanlayer-agent (schema {version}, this one knows {newest()}): "
            "upgrade humanlayer-agent, or name another store"
        )
    if version < newest():
        raise StoreError(
            f"the store {place} is of an older version ({version}): hla store init brings it to {newest()}"
        )
    if digest(parts(connection)) != _DIGESTS[version]:
        raise StoreTampered(
            f"the schema of the store {place} was changed: a table, trigger or function is not as we made it. Nothing "
            "is decided by it. Find out who could change it, and undo that, or restore the store from a backup"
        )


def parts(connection: Connection) -> Parts:
    """Return everything that our scripts make, as the catalogs tell it."""
    return {kind: [list(row) for row in connection.execute(query).fetchall()] for kind, query in _ASKED.items()}


def digest(told: Parts) -> str:
    """Return the digest of what the catalogs tell."""
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


# ---- roles -----------------------------------------------------------------------------------------------

Part = Literal["agent", "approver", "auditor"]

ROLES: Mapping[Part, str] = {
    "agent": "humanlayer_agents",
    "approver": "humanlayer_approvers",
    "auditor": "humanlayer_auditors",
}
"""The roles that are made: nobody logs in as one, people and machines are members of them."""

_AGENT = (
    *(f"INSERT ON {table}" for table in ("run", "request", "permit", "execution", "audit_event", "grant_use", "halt")),
    "USAGE ON SEQUENCE audit_event_place",
    "INSERT, UPDATE, DELETE ON silence",
    "UPDATE (state, ended, clock, beat) ON run",
    "UPDATE (run_id, state, decided, used) ON request",
    "UPDATE (state) ON permit",
    "UPDATE (state, finished, returncode) ON execution",
    "UPDATE (uses) ON given_grant",
)
_APPROVER = (
    *(f"INSERT ON {table}" for table in ("vote", "resumption", "given_grant")),
    "UPDATE (escalated) ON request",
    "UPDATE (revoked, revoked_by) ON given_grant",
    *(f"INSERT, UPDATE ON {table}" for table in ("delivery", "presentation")),
    "INSERT, UPDATE, DELETE ON lease",
)
_RIGHTS: Mapping[Part, tuple[str, ...]] = {"agent": _AGENT, "approver": (*_AGENT, *_APPROVER), "auditor": ()}
_ALL_MAY = ("USAGE ON SCHEMA humanlayer", f"SELECT ON {', '.join(('version', *TABLES))}")
_CALLED = "EXECUTE ON ALL FUNCTIONS IN SCHEMA humanlayer"


def grant_roles(connection: Connection) -> None:
    """Make the roles that are not there, and give each what it may do, and nothing else.

    Args:
        connection: of the role that owns the store.

    Raises:
        ConfigError: it may not make roles. It says which statements somebody else has to run.
        StoreError: it can't be done.
    """
    known = {row[0] for row in connection.execute("SELECT rolname FROM pg_roles").fetchall()}
    missing = [name for name in ROLES.values() if name not in known]
    may = connection.execute("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user").fetchone()
    if missing and not (may and may[0]):
        needed = " ".join(f"CREATE ROLE {name} NOLOGIN;" for name in missing)
        raise ConfigError(f"this role may not make others. Have an administrator run: {needed}")
    for name in missing:
        connection.execute(f"CREATE ROLE {name} NOLOGIN")
    for statement in _grants():
        connection.execute(statement)


def part_of(connection: Connection) -> str:
    """Return which of the parts the role of a connection has: "owner" for one that may change the tables themselves."""
    row = connection.execute(
        "SELECT pg_has_role(relowner, 'USAGE'), has_table_privilege('vote', 'INSERT'), "
        "has_table_privilege('permit', 'INSERT') FROM pg_class WHERE oid = 'humanlayer.vote'::regclass"
    ).fetchone()
    return "owner" if row[0] else "approver" if row[1] else "agent" if row[2] else "auditor"


def _grants() -> Iterator[str]:
    for part, name in ROLES.items():
        yield f"REVOKE ALL ON ALL TABLES IN SCHEMA humanlayer FROM {name}"
        yield f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA humanlayer FROM {name}"
        yield f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA humanlayer FROM {name}"
        for right in (*_ALL_MAY, _CALLED, *_RIGHTS[part]):
            yield f"GRANT {right} TO {name}"
