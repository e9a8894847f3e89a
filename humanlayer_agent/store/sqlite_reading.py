"""What is read of a SQLite store: requests as they are shown, and the events of the log."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.audit.heads import Head
from humanlayer_agent.audit.verify import Verification, verify
from humanlayer_agent.store.answers import is_as_asked
from humanlayer_agent.store.connection import Database
from humanlayer_agent.store.deliveries import ABANDONED
from humanlayer_agent.store.rows import load_action, load_decision, load_rule
from humanlayer_agent.store.rows_against_log import Agreement

_PAGE = 500  # events a read: readers must not hold a snapshot for long, the write-ahead log would grow behind it


def read_requests(database: Database, condition: str, *values: Any) -> list[ApprovalRequest]:
    """Those requests that `condition` holds for (our own text), oldest first."""
    with database.read() as connection:
        rows = connection.execute(
            f"SELECT request.*, {ABANDONED} AS abandoned, principal, comment, edited "
            "FROM request LEFT JOIN vote ON vote.rowid = ("
            "SELECT max(rowid) FROM vote WHERE request_id = request.id AND answer = CASE state "
            "WHEN 'pending' THEN '' WHEN 'rejected' THEN 'reject' WHEN 'answered' THEN 'respond' "
            "WHEN 'superseded' THEN 'edit' WHEN 'terminated' THEN 'terminate' WHEN 'revoked' THEN 'revoke' "
            f"ELSE 'approve' END) WHERE {condition} ORDER BY created, request.rowid",
            values,
        ).fetchall()
    return [_request(row) for row in rows]


def read_events(
    database: Database, *, run: str | None, request: str | None, type: str | None, after: int, last: int | None
) -> Iterator[Entry]:
    """Events of the log, oldest first; see `Store.events`."""
    where = (
        "(:run IS NULL OR run = :run) AND (:request IS NULL OR request = :request) "
        "AND (:type IS NULL OR type = :type OR substr(type, 1, length(:type) + 1) = :type || '.')"
    )
    values: dict[str, Any] = {"run": run, "request": request, "type": type, "after": after, "page": _PAGE}
    if last is not None:
        with database.read() as connection:
            (first,) = connection.execute(
                f"SELECT min(seq) FROM (SELECT seq FROM audit_event WHERE seq > :after AND {where} "
                "ORDER BY seq DESC LIMIT :last)",
                values | {"last": last},
            ).fetchone()
        if first is None:
            return
        values["after"] = first - 1
    while True:
        with database.read() as connection:
            page = connection.execute(
                f"SELECT seq, hash, body FROM audit_event WHERE seq > :after AND {where} ORDER BY seq LIMIT :page",
                values,
            ).fetchall()
        for row in page:
            yield entry_of(row)
        if len(page) < _PAGE:
            return
        values["after"] = page[-1]["seq"]


def read_verified(
    database: Database,
    told: Agreement,
    *,
    heads: Sequence[Head] = (),
    progress: Callable[[int], None] = lambda count: None,
) -> Verification:
    """Check the whole chain, and every row of the tables against the events that made it; `told` hears all of it."""
    with database.snapshot() as connection:
        rows = connection.execute("SELECT seq, hash, body FROM audit_event NOT INDEXED ORDER BY seq")
        found = verify(told.listen(entry_of(row) for row in rows), heads=heads, progress=progress)
        if not found.intact:  # no event is ever taken out of the table: a gap in it was made
            return replace(found, kind="tampered")
        difference = told.first_difference(connection)
    if difference is None:
        return found
    seq, problem = difference
    return replace(found, bad_seq=found.count if seq is None else seq, problem=problem, kind="tampered")


def entry_of(row: sqlite3.Row) -> Entry:
    """The event of a row of the log."""
    body = row["body"]  # text, unless somebody has rebuilt the table
    return Entry(row["seq"], str(row["hash"]), body.encode() if isinstance(body, str) else b"")


def _request(row: sqlite3.Row) -> ApprovalRequest:
    return ApprovalRequest(
        id=row["id"],
        idempotency_key=row["idempotency_key"],
        digest=row["digest"] if is_as_asked(row) else "",  # what is shown may be approved, and nothing else
        body=json.loads(row["body"]),
        action=replace(load_action(row["action"]), run_id=row["run_id"]),
        decision=load_decision(row["decision"]),
        requester=row["requester"],
        created=row["created"],
        expires=row["expires"],
        valid_for=row["valid_for"],
        state=row["state"],
        decided=row["decided"],
        decided_by=row["principal"] or "",
        comment=row["comment"] or "",
        edited=row["edited"] or "",
        parent=row["parent"] or "",
        rule=load_rule(row["rule"]),
        needed=row["needed"],
        escalated=row["escalated"],
        abandoned=bool(row["abandoned"]),
    )
