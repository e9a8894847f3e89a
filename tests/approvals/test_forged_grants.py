"""Somebody can write the store's file, triggers dropped: no grant gives what its signed votes do not give.

As in `test_forged`: the attacker has no key that is trusted. Where rows are forged and the log is left alone, the log is
heard; where the log is forged as well, `verify` says so, as of everything in it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.approvals.grants import HOUR_MS
from humanlayer_agent.approvals.model import ApprovalRequest, Execution, Permit, Run
from humanlayer_agent.errors import AgentsStopped, StoreTampered
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.decision import Limits
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import TEST_AUTHORITY, ScriptedApprovers
from tests.support.forging import forging
from tests.support.granting import ALICE, BOB, HOST, READ, TEAM, TESTER, reading
from tests.support.stores import opened

STORES = ("sqlite", "postgres")
BY_ADDRESS = True

MALLORY = ScriptedApprovers(TEST_AUTHORITY, Signer())
"""Our own code with another key, that only its own process trusts."""

OTHER = reading("/srv/other/x")
FEW = replace(READ, limits=Limits(max_uses=2))
GRANT = (
    "INSERT INTO given_grant SELECT id, '/srv/app', substr(hex(zeroblob(32)), 1, 64), created, created + 9999999, 50, 0, "
    "NULL, '' FROM request WHERE id NOT IN (SELECT id FROM given_grant)"
)

Give = Callable[..., ApprovalRequest]
Use = Callable[..., Permit | None]


def write(path: Path, *statements: str, **values: object) -> None:
    """What somebody does to the file."""
    with forging(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        for statement in statements:
            assert connection.execute(statement, values).rowcount != 0, statement


def ran(store: SQLiteStore, use: Use, *asks: Any, **fields: Any) -> bool:
    """Whether an action runs by what grants give it."""
    permit = use(*asks, **fields)
    return permit is not None and isinstance(store.consume(permit, permit.digest, TEAM.authority), Execution)


def test_what_nobody_forged_runs(store: SQLiteStore, give: Give, use: Use) -> None:
    give()
    assert ran(store, use)


# What is signed


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "change",
    [
        "scope = replace(scope, '/srv/data', '/srv')",
        "scope = replace(scope, '\"below\"', '\"any\"')",
        "scope = replace(scope, '\"uses\":50', '\"uses\":51')",
        "scope = replace(scope, '\"until\":1', '\"until\":2')",
        "scope = replace(scope, '\"approvals\":1', '\"approvals\":2')",
        "scope = scope || ' '",
        "scope = ''",
        "scope = '{}'",
        "at = at - 1",
        "person = 'tester', principal = 'os:1000:tester'",
        "assurance = 'terminal'",
        "comment = 'fine'",
        "decision_id = 'another'",
        "signature = replace(signature, 'a', 'b')",
        "answer = 'edit', edited = 'ls'",
    ],
)
def test_a_vote_with_something_changed_gives_nothing(
    store: SQLiteStore, give: Give, use: Use, path: Path, change: str
) -> None:
    give()
    permit = use()
    assert isinstance(permit, Permit)
    write(path, f"UPDATE vote SET {change}")
    assert not ran(store, use)
    assert not ran(store, use, OTHER)
    assert not isinstance(store.consume(permit, permit.digest, TEAM.authority), Execution), "nor a permit from before"


def test_a_scope_that_nobody_chose(store: SQLiteStore, give: Give, use: Use, path: Path) -> None:
    """A vote for once gets the scope of another one."""
    give()
    once = give(OTHER, scopes=("",), content="cat /srv/other/x")
    write(path, "UPDATE vote SET scope = (SELECT scope FROM vote WHERE scope <> '') WHERE scope = ''", GRANT)
    assert store.grants.get(once.id) is not None
    assert not ran(store, use, OTHER)


def test_the_scopes_of_two_requests_changed_for_each_other(
    store: SQLiteStore, give: Give, use: Use, path: Path
) -> None:
    one = give()
    give(HOST, content="curl example.org")
    swap = (
        "UPDATE vote SET scope = (SELECT scope FROM vote AS other WHERE other.request_id <> vote.request_id)"
        " WHERE request_id = :id"
    )
    write(path, swap, id=one.id)
    assert not ran(store, use)


def test_the_wide_scope_of_one_approver_put_into_the_vote_of_the_other(
    store: SQLiteStore, give: Give, use: Use, path: Path
) -> None:
    give(scopes=("run", "action"), route="two")
    assert not ran(store, use)
    write(path, "UPDATE vote SET scope = (SELECT scope FROM vote WHERE person = 'bob')")
    assert not ran(store, use)


def test_the_narrow_vote_deleted(store: SQLiteStore, give: Give, use: Use, path: Path) -> None:
    """What is asked for now would be enough with one: it was given by two."""
    give(scopes=("run", "action"), route="two")
    write(path, "DELETE FROM vote WHERE person = 'tester'", "UPDATE request SET needed = 1")
    assert not ran(store, use)
    assert not ran(store, use, said={"route": "two"})


def test_by_another_key(store: SQLiteStore, draft: Any, run: str, use: Use) -> None:
    """Our own code has done it all: rows and log are without a flaw, and only the key is nobody's."""
    request = store.create_request(draft("cat x", asks=(READ,)), MALLORY.authority)
    assert MALLORY.vote(store, request, scope="run").state == "approved"
    assert store.grants.get(request.id) is not None
    assert not ran(store, use)
    assert store.verify().intact


def test_by_another_key_that_is_renamed(store: SQLiteStore, draft: Any, run: str, use: Use, path: Path) -> None:
    request = store.create_request(draft("cat x", asks=(READ,)), MALLORY.authority)
    assert MALLORY.vote(store, request, scope="run").state == "approved"
    write(path, f"UPDATE vote SET signer = '{TEAM.signer.fingerprint}'")
    assert not ran(store, use)


@pytest.mark.parametrize(
    "change",
    [
        "decision = replace(decision, '/srv/data', '/srv')",
        "decision = replace(decision, '\"max_uses\": 50', '\"max_uses\": 9000')",
        'decision = replace(decision, \'"severity": "high"\', \'"severity": "low"\')',
        "needed = needed - 1",
    ],
)
def test_what_would_be_signed_is_changed_while_somebody_looks_at_it(
    store: SQLiteStore, draft: Any, run: str, path: Path, change: str
) -> None:
    """What is shown comes from the process that asks, and what is signed from the row: it has to be the same."""
    severe = "severity" in change
    request = store.create_request(
        draft("cat x", asks=(replace(READ, severity="high" if severe else "low"),), route="two"), TEAM.authority
    )
    write(path, f"UPDATE request SET {change}")
    for scope in ("action", "run", "hour"):
        assert TEAM.vote(store, request, "approve", BOB, scope=scope).outcome == "refused"
    assert store.grants.given() == []


# Where and when


@pytest.mark.parametrize(
    ("name", "value", "fields"),
    [
        ("project", "/srv/other", {"project": "/srv/other"}),
        ("run", "run-2", {"run_id": "run-2"}),
        ("policy", "1" * 64, {"said": {"policy_digest": "1" * 64}}),
    ],
)
def test_copied_to_elsewhere(
    store: SQLiteStore, give: Give, use: Use, path: Path, name: str, value: str, fields: dict[str, Any]
) -> None:
    """The rows are made to say that it is for here, with and without what is signed."""
    store.open_run(Run("run-2", "agent", "instance", ALICE))
    give()
    assert not ran(store, use, **fields)
    if name in ("project", "policy"):
        write(path, f"UPDATE given_grant SET {name} = '{value}'")
        assert not ran(store, use, **fields)
    write(path, f"UPDATE vote SET scope = json_set(scope, '$.{name}', '{value}')")
    assert not ran(store, use, **fields)
    assert not ran(store, use)


def test_copied_to_another_request(store: SQLiteStore, give: Give, use: Use, path: Path) -> None:
    """Votes, grant and all, so that a revoked one lives again under another name."""
    one = give()
    two = give(HOST, scopes=("",), content="curl example.org")
    store.grants.revoke(one.id, ALICE)
    assert not ran(store, use)
    copy = (
        "INSERT INTO vote SELECT 'copied', :to, answer, principal, channel, assurance, presented_digest, comment, "
        "input_mode, at, pid, edited, person, solo, signer, signature, member_of, scope FROM vote WHERE request_id = :of"
    )
    write(path, "DELETE FROM vote WHERE request_id = :to", copy, GRANT, of=one.id, to=two.id)
    assert store.grants.get(two.id) is not None
    assert not ran(store, use)


def test_moved_to_another_request(store: SQLiteStore, give: Give, use: Use, path: Path) -> None:
    one = give()
    two = give(HOST, scopes=("",), content="curl example.org")
    store.grants.revoke(one.id, ALICE)
    write(
        path,
        "PRAGMA foreign_keys=OFF",
        "UPDATE vote SET request_id = 'x' WHERE request_id = :of",
        "UPDATE vote SET request_id = :of WHERE request_id = :to",
        "UPDATE vote SET request_id = :to WHERE request_id = 'x'",
        "UPDATE given_grant SET id = :to, revoked = NULL, revoked_by = ''",
        of=one.id,
        to=two.id,
    )
    assert not ran(store, use)


def test_moved_expiry(store: SQLiteStore, give: Give, use: Use, path: Path, clock: Any) -> None:
    give(scopes=("hour",))
    clock.pass_ms(HOUR_MS)
    write(path, f"UPDATE given_grant SET until = until + {HOUR_MS}")
    assert not ran(store, use)
    write(
        path,
        f"UPDATE vote SET scope = json_set(scope, '$.until', CAST(json_extract(scope, '$.until') AS BIGINT) + {HOUR_MS})",
    )
    assert not ran(store, use)


# How often


def used_up(store: SQLiteStore, give: Give, use: Use) -> ApprovalRequest:
    request = give(FEW)
    assert ran(store, use, FEW)
    assert ran(store, use, FEW)
    assert not ran(store, use, FEW)
    return request


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE given_grant SET max_uses = 50"],
        ["UPDATE given_grant SET uses = 0"],
        ["UPDATE given_grant SET uses = 1", "DELETE FROM grant_use WHERE use = 2"],
        ["DELETE FROM grant_use", "UPDATE given_grant SET uses = 0"],
        ["UPDATE given_grant SET max_uses = 50", "UPDATE vote SET scope = json_set(scope, '$.uses', 50)"],
        ["UPDATE given_grant SET uses = -50"],
        ["DELETE FROM grant_use", "DELETE FROM given_grant", GRANT],
        ["DELETE FROM grant_use", "DELETE FROM given_grant", GRANT.replace(", 50, 0,", ", 50, 2,")],
        ["DELETE FROM audit_event WHERE type = 'grant.used'", "UPDATE given_grant SET max_uses = 50"],
    ],
)
def test_more_uses(store: SQLiteStore, give: Give, use: Use, path: Path, statements: list[str]) -> None:
    used_up(store, give, use)
    write(path, *statements)
    assert not ran(store, use, FEW)


def test_uses_forgotten_by_rows_and_log(store: SQLiteStore, give: Give, use: Use, path: Path) -> None:
    """Whoever cuts them out of the log, too, is found by its verification, as with everything that is cut out of it."""
    used_up(store, give, use)
    write(
        path,
        "DELETE FROM grant_use",
        "UPDATE given_grant SET uses = 0",
        "DELETE FROM audit_event WHERE type = 'grant.used'",
    )
    assert not store.verify().intact


def test_a_use_removed_before_its_start(store: SQLiteStore, give: Give, use: Use, path: Path) -> None:
    give()
    permit = use()
    assert isinstance(permit, Permit)
    write(path, "DELETE FROM grant_use")
    assert not isinstance(store.consume(permit, permit.digest, TEAM.authority), Execution)


def test_a_use_added_to_another_permit(store: SQLiteStore, give: Give, use: Use, path: Path, act: Any) -> None:
    """A permit of the same process is said to be by a grant that covers more."""
    give()
    wide = give(OTHER, content="cat /srv/other/x")
    permit = use()
    assert isinstance(permit, Permit)
    write(path, f"UPDATE grant_use SET grant_id = '{wide.id}'")
    assert not isinstance(store.consume(permit, permit.digest, TEAM.authority), Execution)


# What was taken back


def test_a_revocation_undone(store: SQLiteStore, give: Give, use: Use, path: Path) -> None:
    request = give()
    permit = use()
    assert isinstance(permit, Permit)
    store.grants.revoke(request.id, ALICE)
    write(path, "UPDATE given_grant SET revoked = NULL, revoked_by = ''", "UPDATE permit SET state = 'issued'")
    assert not ran(store, use)
    assert not isinstance(store.consume(permit, permit.digest, TEAM.authority), Execution)


def test_an_approval_that_was_taken_back(store: SQLiteStore, give: Give, use: Use, path: Path) -> None:
    request = give()
    assert TEAM.vote(store, request, "revoke").outcome == "recorded"
    assert not ran(store, use)
    write(path, "DELETE FROM vote WHERE answer = 'revoke'", "UPDATE request SET state = 'approved'")
    assert not ran(store, use)


@pytest.mark.file  # the structure of a server is not as it was after it
def test_votes_of_a_rejected_request(
    store: SQLiteStore, draft: Any, run: str, use: Use, path: Path, clock: Any
) -> None:
    request = store.create_request(draft("cat x", asks=(READ,), route="two"), TEAM.authority)
    TEAM.vote(store, request, "approve", BOB, scope="run")
    assert TEAM.vote(store, request, "reject", TESTER).state == "rejected"
    write(path, "UPDATE request SET state = 'approved'", GRANT)
    assert not ran(store, use)
    write(path, "DELETE FROM vote WHERE answer = 'reject'")
    assert not ran(store, use)
    write(path, "DELETE FROM audit_event WHERE type = 'request.rejected'")
    with pytest.raises(StoreTampered):
        use()
    other = opened(path, clock=clock)
    assert not ran(other, use, by=other), "one that has not seen it: nobody has ever given it"


def test_votes_of_a_request_that_was_never_approved_by_enough(
    store: SQLiteStore, draft: Any, run: str, use: Use, path: Path
) -> None:
    request = store.create_request(draft("cat x", asks=(READ,), route="two"), TEAM.authority)
    assert TEAM.vote(store, request, "approve", BOB, scope="run").missing == 1
    write(path, "UPDATE request SET state = 'approved', decided = created, needed = 1", GRANT)
    assert not ran(store, use)
    assert not ran(store, use, said={"route": "two"})


def test_a_resumption_that_is_played_again(store: SQLiteStore, give: Give, use: Use, path: Path) -> None:
    give()
    halt = store.halts.stop("os:1000:tester", "one")
    assert store.halts.resume([halt], TESTER, "", TEAM.authority, TEAM.signer) is None
    assert ran(store, use)
    again = store.halts.stop("os:1000:tester", "two")
    copy = (
        "INSERT INTO resumption SELECT substr(id, 2) || 'f', :halt, at, principal, person, channel, assurance, comment, "
        "signer, signature FROM resumption"
    )
    write(path, copy, halt=again.id)
    with pytest.raises(AgentsStopped):
        use()
