"""The rights of three roles of the database: agents, those who serve approvers, and auditors.

A role says what a stolen password is good for. It is a further wall and no proof: signatures still decide what runs.
Whoever owns the tables may do everything, so nobody works as that role; to purge, or to bring the store to a new
version, takes it.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.store.postgres.structure import TABLES
from humanlayer_agent.store.transactions import Connection

Part = Literal["agent", "approver", "auditor"]

NAMES: Mapping[Part, str] = {
    "agent": "humanlayer_agents",
    "approver": "humanlayer_approvers",
    "auditor": "humanlayer_auditors",
}
"""The roles that are made: nobody logs in as one, people and machines are members of them."""

_AGENT = (
    *(f"INSERT ON {table}" for table in ("run", "request", "permit", "execution", "audit_event", "grant_use", "halt")),
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
_ALL = ("USAGE ON SCHEMA humanlayer", f"SELECT ON {', '.join(('version', *TABLES))}")
_CALLED = "EXECUTE ON ALL FUNCTIONS IN SCHEMA humanlayer"


def grant(connection: Connection) -> None:
    """Make the roles that are not there, and give each what it may do, and nothing else.

    Args:
        connection: of the role that owns the store.

    Raises:
        ConfigError: it may not make roles. It says which statements somebody else has to run.
        StoreError: it can't be done.
    """
    known = {row[0] for row in connection.execute("SELECT rolname FROM pg_roles").fetchall()}
    missing = [name for name in NAMES.values() if name not in known]
    may = connection.execute("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user").fetchone()
    if missing and not (may and may[0]):
        needed = " ".join(f"CREATE ROLE {name} NOLOGIN;" for name in missing)
        raise ConfigError(f"this role may not make others. Have an administrator run: {needed}")
    for name in missing:
        connection.execute(f"CREATE ROLE {name} NOLOGIN")
    for statement in _statements():
        connection.execute(statement)


def part_of(connection: Connection) -> str:
    """Return which of the parts the role of a connection has: "owner" for one that may change the tables themselves."""
    row = connection.execute(
        "SELECT pg_has_role(relowner, 'USAGE'), has_table_privilege('vote', 'INSERT'), "
        "has_table_privilege('permit', 'INSERT') FROM pg_class WHERE oid = 'humanlayer.vote'::regclass"
    ).fetchone()
    return "owner" if row[0] else "approver" if row[1] else "agent" if row[2] else "auditor"


def _statements() -> Iterator[str]:
    for part, name in NAMES.items():
        yield f"REVOKE ALL ON ALL TABLES IN SCHEMA humanlayer FROM {name}"
        yield f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA humanlayer FROM {name}"
        for right in (*_ALL, _CALLED, *_RIGHTS[part]):
            yield f"GRANT {right} TO {name}"
