"""Grants in a store: given with the vote, used in the transaction of each permit, taken back, verified, deleted."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.grants import HOUR_MS, GrantUse, Scope, read_scope
from humanlayer_agent.approvals.model import ApprovalRequest, Approver, Execution, Outcome, Permit, Refused, Run
from humanlayer_agent.errors import AgentsStopped
from humanlayer_agent.keys.signing import statement
from humanlayer_agent.policy.decision import Ask, Limits, Verdict
from humanlayer_agent.store import schema
from humanlayer_agent.store.retention import Purge
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST
from tests.support.forging import forging
from tests.support.granting import ALICE, BOB, HOST, READ, TEAM, reading

STORES = ("sqlite", "postgres")


def below(name: str) -> Ask:
    return reading(f"/srv/data/{name}")


def start(store: SQLiteStore, permit: Permit, authority: Authority = TEAM.authority) -> Execution | Refused:
    found = store.consume(permit, permit.digest, authority)
    assert isinstance(found, Execution | Refused)
    return found


# Given


def test_a_vote_with_a_scope_gives_one(store: SQLiteStore, give: Callable[..., ApprovalRequest], clock: Any) -> None:
    request = give()
    (grant,) = store.grants.given()
    assert grant == store.grants.get(request.id)
    assert (grant.id, grant.given, grant.until, grant.uses, grant.max_uses) == (
        request.id, clock(), clock() + 8 * HOUR_MS, 0, 50,
    )  # fmt: skip
    assert (grant.by, grant.words, grant.state(clock())) == (("bob",), "reading anything below /srv/data", "active")
    (event,) = (entry.event for entry in store.events(type="grant"))
    assert (event["type"], event["grant"], event["max_uses"], event["by"]) == ("grant.given", request.id, 50, ["bob"])
    assert store.verify().intact


def test_a_vote_without_gives_none(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None]
) -> None:
    request = give(scopes=("",))
    assert (store.grants.given(), store.grants.get(request.id), use()) == ([], None, None)


def test_one_vote_without_of_two_gives_none(store: SQLiteStore, give: Callable[..., ApprovalRequest]) -> None:
    give(scopes=("run", ""), route="two")
    give(scopes=("", "run"), content="another", route="two")
    assert store.grants.given() == []


def test_the_first_of_two_votes_gives_none(
    store: SQLiteStore, draft: Callable[..., ApprovalRequest], run: str, use: Callable[..., Permit | None]
) -> None:
    request = store.create_request(draft("cat x", asks=(READ,), route="two"), TEAM.authority)
    assert TEAM.vote(store, request, "approve", BOB, scope="run").missing == 1
    assert store.grants.given() == []
    assert use(said={"route": "two"}) is None


@pytest.mark.parametrize(
    ("kind", "fields", "code"),
    [
        ("approve", {"scope": "everything"}, "no-such-scope"),
        ("approve", {"scope": "any"}, "no-such-scope"),
        ("reject", {"scope": "run"}, "no-such-scope"),
        ("escalate", {"scope": "run"}, "nobody-further"),
        ("edit", {"scope": "run", "edited": "ls"}, "no-such-scope"),
    ],
)
def test_only_an_approval_has_a_scope_that_is_offered(
    store: SQLiteStore, draft: Callable[..., ApprovalRequest], run: str, kind: Any, fields: dict[str, str], code: str
) -> None:
    request = store.create_request(draft("cat x", asks=(READ,)), TEAM.authority)
    result = TEAM.vote(store, request, kind, **fields)
    assert (result.outcome, result.code) == ("refused", code)
    assert store.get(request.id).state == "pending"  # type: ignore[union-attr]


@pytest.mark.parametrize("assurance", ["mail-reply", "mail-link"])
def test_mail_carries_none(store: SQLiteStore, draft: Callable[..., ApprovalRequest], run: str, assurance: Any) -> None:
    request = store.create_request(draft("cat x", asks=(READ,)), TEAM.authority)
    by_mail = Approver(BOB.principal, "email", assurance)
    assert TEAM.vote(store, request, "approve", by_mail, scope="run").code == "no-such-scope"
    assert TEAM.vote(store, request, "approve", by_mail).state == "approved"


@pytest.mark.parametrize(
    "said",
    [
        {"asks": (replace(READ, severity="critical"),)},
        {"asks": (replace(READ, limits=Limits(())),)},
        {"asks": (replace(READ, unread=True),)},
        {"asks": ()},
    ],
)
def test_nothing_is_offered_for_what_may_not_be_remembered(
    store: SQLiteStore, draft: Callable[..., ApprovalRequest], run: str, said: dict[str, Any]
) -> None:
    request = store.create_request(draft("cat x", **said), TEAM.authority)
    for scope in ("action", "run", "any", "hour"):
        assert TEAM.vote(store, request, scope=scope).code == "no-such-scope"


def test_what_is_signed_is_the_scope(store: SQLiteStore, give: Callable[..., ApprovalRequest], clock: Any) -> None:
    request = give()
    (vote,) = store.votes(request.id)
    scope = read_scope(vote.scope)
    assert isinstance(scope, Scope)
    assert (scope.run, scope.project, scope.requester) == ("run-1", "/srv/app", ALICE)
    assert (scope.until, scope.uses, scope.approvals) == (clock() + 8 * HOUR_MS, 50, 1)
    assert b"humanlayer-agent vote 2" in statement(vote)
    assert vote.scope.encode() in statement(vote).replace(b'\\"', b'"')
    assert statement(replace(vote, scope="")) != statement(vote)


def test_an_answer_that_is_delivered_twice_gives_one(
    store: SQLiteStore, draft: Callable[..., ApprovalRequest], run: str
) -> None:
    request = store.create_request(draft("cat x", asks=(READ,)), TEAM.authority)
    for outcome in ("recorded", "duplicate"):
        assert TEAM.vote(store, request, "approve", BOB, decision_id="1", scope="run").outcome == outcome
    assert TEAM.vote(store, request, "approve", BOB, decision_id="1").code == "repeated-id"
    assert len(store.grants.given()) == 1


# Used


def test_a_use(store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None]) -> None:
    request = give()
    permit = use()
    assert isinstance(permit, Permit)
    assert (permit.granted, permit.approved_by) == ((GrantUse(request.id, ("bob",), 1, 50),), "bob")
    assert permit.request is None
    assert isinstance(start(store, permit), Execution)
    assert isinstance(start(store, permit), Refused), "a permit is good for one execution"
    store.finish(permit.id, Outcome(0))
    (event,) = (entry.event for entry in store.events(type="grant.used"))
    assert (event["grant"], event["permit"], event["use"], event["max_uses"], event["rules"]) == (
        request.id, permit.id, 1, 50, ["r"],
    )  # fmt: skip
    assert store.grants.get(request.id).uses == 1  # type: ignore[union-attr]
    assert store.verify().intact


@pytest.mark.parametrize(
    ("asks", "fields"),
    [
        ((below("../other"),), {}),
        ((replace(READ, operand="/srv/other/x", places=("/srv/other/x",)),), {}),
        ((below("y"), HOST), {}),
        ((replace(below("y"), rule="another"),), {}),
        ((replace(below("y"), kind="write"),), {}),
        ((replace(below("y"), operand=None),), {}),
        ((replace(below("y"), severity="high"),), {}),
        ((replace(below("y"), severity="critical"),), {}),
        ((replace(below("y"), limits=Limits(())),), {}),
        ((replace(below("y"), limits=Limits(max_uses=10)),), {}),
        ((below("y"),), {"said": {"severity": "critical"}}),
        ((below("y"),), {"said": {"verdict": Verdict.DENY}}),
        ((below("y"),), {"said": {"verdict": Verdict.ALLOW}}),
        ((below("y"),), {"project": "/srv/other"}),
    ],
)
def test_no_use(
    give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], asks: tuple[Ask, ...], fields: Any
) -> None:
    give()
    asks = tuple(replace(ask, places=("/srv/other/x",)) if ".." in (ask.operand or "") else ask for ask in asks)
    assert use(*asks, **fields) is None
    assert isinstance(use(), Permit), "so nothing else was wrong"


def test_another_run_and_another_requester(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], act: Any, decide: Any
) -> None:
    store.open_run(Run("run-2", "agent", "instance", ALICE))
    give()
    assert use(run_id="run-2") is None
    give(scopes=("hour",), content="for an hour")
    assert isinstance(use(run_id="run-2"), Permit)
    action, decision = act("cat y"), decide(asks=(below("y"),))
    for requester, used in (("os:1000:carol", False), (ALICE, True)):
        permit = store.grants.use(
            action, decision, action.digest(POLICY_DIGEST),
            requester=requester, authority=lambda: TEAM.authority, use_by_ms=10_000,
        )  # fmt: skip
        assert isinstance(permit, Permit) == used


def test_another_policy_and_another_agent(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], draft: Any, use: Any, act: Any, decide: Any
) -> None:
    named = draft("cat x", asks=(READ,))
    action = replace(named.action, agent="agent")
    named = replace(named, action=action, digest=action.digest(POLICY_DIGEST), body=action.body(POLICY_DIGEST))
    request = store.create_request(named, TEAM.authority)
    assert TEAM.vote(store, request, scope="run").state == "approved"
    for agent, policy, used in (("other", "0", False), ("", "0", False), ("agent", "1", False), ("agent", "0", True)):
        decision = replace(decide(asks=(below("y"),)), policy_digest=policy * 64)
        made = act("cat y", agent=agent)
        permit = store.grants.use(
            made, decision, made.digest(policy * 64),
            requester=ALICE, authority=lambda: TEAM.authority, use_by_ms=10_000,
        )  # fmt: skip
        assert isinstance(permit, Permit) == used, (agent, policy)


def test_several_grants_cover_together(give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None]) -> None:
    one = give()
    two = give(HOST, content="curl example.org")
    both = use(below("y"), HOST)
    assert isinstance(both, Permit)
    assert {each.grant for each in both.granted} == {one.id, two.id}
    single = use()
    assert isinstance(single, Permit)
    assert [each.grant for each in single.granted] == [one.id], "no more than are needed"


def test_two_scopes_give_what_both_cover(
    give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], store: SQLiteStore, clock: Any
) -> None:
    give(scopes=("run", "action"), route="two")
    assert use(said={"route": "two"}) is None
    assert isinstance(use(READ, content="cat x", said={"route": "two"}), Permit)
    (grant,) = store.grants.given()
    assert (grant.words, grant.by) == ("this exact command", ("bob", "tester"))
    give(scopes=("run", "hour"), route="two", content="cat x2")
    permit = use(said={"route": "two"})
    assert isinstance(permit, Permit)
    clock.pass_ms(HOUR_MS)
    assert use(said={"route": "two"}) is None


def test_as_many_as_were_signed(give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None]) -> None:
    limits = Limits(max_uses=3)
    give(replace(READ, limits=limits))
    asks = replace(below("y"), limits=limits)
    used = [use(asks) for _ in range(5)]
    assert [str(permit.granted[0].use) if permit else None for permit in used] == ["1", "2", "3", None, None]


def test_as_long_as_was_signed(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], clock: Any
) -> None:
    request = give(scopes=("hour",))
    clock.pass_ms(HOUR_MS - 1)
    permit = use()
    assert isinstance(permit, Permit)
    assert permit.use_by == clock() + 1, "a permit does not outlive it"
    clock.pass_ms(1)
    assert isinstance(start(store, permit), Refused)
    assert use() is None
    assert store.grants.given(active=True) == []
    assert store.grants.get(request.id).state(clock()) == "expired"  # type: ignore[union-attr]


@pytest.mark.parametrize("back", [1, HOUR_MS, 10 * HOUR_MS])
def test_a_clock_that_is_set_back_gives_no_time(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], clock: Any, back: int
) -> None:
    """The log has seen the time at which it was over."""
    give(scopes=("hour",))
    clock.pass_ms(HOUR_MS)
    store.open_run(Run("run-2", "agent", "instance", ALICE))  # any event
    clock.jump_ms(-back)
    store.open_run(Run("run-3", "agent", "instance", ALICE))
    assert use() is None
    clock.jump_ms(back)
    clock.jump_ms(-back)
    assert use() is None


def test_a_clock_that_was_far_ahead_before_takes_none(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], clock: Any
) -> None:
    clock.jump_ms(100 * HOUR_MS)
    store.open_run(Run("run-2", "agent", "instance", ALICE))
    clock.jump_ms(-100 * HOUR_MS)
    give()
    assert isinstance(use(), Permit)


def test_a_clock_that_steps_back_a_little_takes_none(
    give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], clock: Any
) -> None:
    give()
    clock.jump_ms(-50)
    assert isinstance(use(), Permit)


def test_who_has_left_gives_nothing(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None]
) -> None:
    """The votes are counted at each use, and at the start, by the rules of the process that runs it."""
    give()
    permit = use()
    assert isinstance(permit, Permit)
    route = TEAM.authority.routes["default"]
    left = replace(TEAM.authority, routes={"default": replace(route, approvers=("tester",))})
    refused = start(store, permit, left)
    assert isinstance(refused, Refused)
    assert "does not let it run any more: 0 of its approvals count" in refused.reason
    stranger = replace(TEAM.authority, signers=frozenset())
    again, last = use(), use()
    assert isinstance(again, Permit)
    assert isinstance(last, Permit)
    assert isinstance(start(store, again, stranger), Refused)
    assert isinstance(start(store, last), Execution)


def test_more_approvals_are_asked_for_now(
    give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None]
) -> None:
    give()
    assert use(said={"route": "two"}) is None
    assert isinstance(use(), Permit)


def test_fewer_are_asked_for_now(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], path: Path
) -> None:
    """It was given by two: with the vote of one it is good for nothing, whatever is asked for now."""
    give(scopes=("run", "run"), route="two")
    assert isinstance(use(), Permit)
    with forging(path) as connection:
        connection.execute("DELETE FROM vote WHERE person = 'tester'")
    assert use() is None


def test_a_permit_is_not_used_for_something_else(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], act: Any
) -> None:
    give()
    permit = use()
    assert isinstance(permit, Permit)
    assert isinstance(store.consume(permit, "f" * 64, TEAM.authority), Refused)
    other = replace(permit, granted=())
    assert isinstance(store.consume(other, permit.digest, TEAM.authority), Refused)
    wider = replace(permit, decision=replace(permit.decision, asks=(below("y"), HOST)))
    refused = store.consume(wider, permit.digest, TEAM.authority)
    assert isinstance(refused, Refused)
    severe = replace(permit, decision=replace(permit.decision, severity="critical"))
    assert isinstance(store.consume(severe, permit.digest, TEAM.authority), Refused)


def test_its_run_is_over(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None]
) -> None:
    give(scopes=("hour",))
    permit = use()
    assert isinstance(permit, Permit)
    store.close_run("run-1", "finished")
    assert isinstance(start(store, permit), Refused)
    late = use()
    assert late is None or isinstance(start(store, late), Refused)


def test_a_stop_stops_what_was_granted(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None]
) -> None:
    give()
    permit = use()
    assert isinstance(permit, Permit)
    halt = store.halts.stop("os:1000:tester", "enough")
    with pytest.raises(AgentsStopped):
        use()
    assert not isinstance(store.consume(permit, permit.digest, TEAM.authority), Execution)
    tester = Approver("os:1000:tester", "terminal", "terminal")
    assert store.halts.resume([halt], tester, "", TEAM.authority, TEAM.signer) is None
    assert isinstance(use(), Permit), "it goes on where it was"


# Taken back


def test_revoked(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], clock: Any
) -> None:
    request = give()
    permit = use()
    assert isinstance(permit, Permit)
    assert store.grants.revoke(request.id, "os:1000:tester", "enough")
    assert use() is None
    assert isinstance(start(store, permit), Refused), "a permit that it made before is void"
    assert not store.grants.revoke(request.id, "os:1000:tester")
    assert not store.grants.revoke("f" * 32, "os:1000:tester")
    grant = store.grants.get(request.id)
    assert grant is not None
    assert (grant.state(clock()), grant.revoked_by) == ("revoked", "os:1000:tester")
    (event,) = (entry.event for entry in store.events(type="grant.revoked"))
    assert (event["grant"], event["by"], event["reason"]) == (request.id, "os:1000:tester", "enough")
    assert store.grants.given(active=True) == []
    assert store.verify().intact


def test_one_of_several_is_revoked(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None]
) -> None:
    give()
    two = give(HOST, content="curl example.org")
    both = use(below("y"), HOST)
    assert isinstance(both, Permit)
    assert store.grants.revoke(two.id, "os:1000:tester")
    assert isinstance(start(store, both), Refused)
    assert use(below("y"), HOST) is None
    assert isinstance(use(), Permit)


def test_the_approval_that_it_is_was_revoked(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None]
) -> None:
    request = give()
    assert TEAM.vote(store, request, "revoke").outcome == "recorded"
    assert use() is None


def test_listed_by_project_and_state(store: SQLiteStore, give: Callable[..., ApprovalRequest], clock: Any) -> None:
    first, second = give(), give(scopes=("hour",), content="another")
    assert [grant.id for grant in store.grants.given(project="/srv/app")] == [first.id, second.id]
    assert store.grants.given(project="/srv/other") == []
    clock.pass_ms(HOUR_MS)
    assert [grant.id for grant in store.grants.given(active=True)] == [first.id]
    store.grants.revoke(first.id, "os:1000:tester")
    assert store.grants.given(active=True) == []
    assert len(store.grants.given()) == 2


# What the verifier sees


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE given_grant SET project = '/srv/other'", "project is"),
        ("UPDATE given_grant SET policy = replace(policy, '0', '1')", "policy is"),
        ("UPDATE given_grant SET until = until + 1", "until is"),
        ("UPDATE given_grant SET given = given - 1", "given is"),
        ("UPDATE given_grant SET max_uses = 1000", "max_uses is"),
        ("UPDATE given_grant SET uses = 0 WHERE uses = 2", "uses is"),
        ("UPDATE given_grant SET revoked = NULL, revoked_by = '' WHERE revoked IS NOT NULL", "revoked is"),
        ("UPDATE given_grant SET revoked = given, revoked_by = 'x' WHERE revoked IS NULL", "revoked is"),
        ("DELETE FROM grant_use", "its row is missing"),
        ("DELETE FROM given_grant WHERE revoked IS NOT NULL", "its row is missing"),
        ("UPDATE grant_use SET at = at + 1 WHERE use = 1", "at is"),
        ("UPDATE grant_use SET use = 9 WHERE use = 2", "no event made this row|its row is missing"),
        ("UPDATE vote SET scope = replace(scope, '/srv/data', '/srv')", "scope is"),
        ("UPDATE vote SET scope = '' WHERE scope <> ''", "scope is"),
        (
            "INSERT INTO given_grant SELECT id, '/srv/app', replace(hex(zeroblob(32)), '00', '00'), 1, 2, 3, 0, NULL, '' "
            "FROM request WHERE id NOT IN (SELECT id FROM given_grant)",
            "no event made this row",
        ),
        (
            "INSERT INTO grant_use SELECT grant_id, (SELECT id FROM permit WHERE request_id IS NOT NULL), 3, 1 "
            "FROM grant_use LIMIT 1",
            "no event made this row",
        ),
    ],
)
def test_a_row_that_was_edited(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], path: Path,
    statement: str, problem: str,
) -> None:  # fmt: skip
    give()
    for _ in range(2):
        permit = use()
        assert isinstance(permit, Permit)
        start(store, permit)
    revoked = give(HOST, content="curl example.org")
    store.grants.revoke(revoked.id, "os:1000:tester")
    once = give(scopes=("",), content="once")
    assert isinstance(store.permit(once, TEAM.authority, use_by_ms=10_000), Permit)
    assert store.verify().intact
    with forging(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        assert connection.execute(statement).rowcount != 0
    found = store.verify()
    assert not found.intact
    assert re.search(problem, str(found.problem)), found


# What the database refuses


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE given_grant SET project = '/srv/other'", "immutable"),
        ("UPDATE given_grant SET until = until + 1", "immutable"),
        ("UPDATE given_grant SET max_uses = 1000", "immutable"),
        ("UPDATE given_grant SET policy = replace(policy, '0', '1')", "immutable"),
        ("UPDATE given_grant SET uses = uses - 1 WHERE uses > 0", "one by one"),
        ("UPDATE given_grant SET uses = uses + 2", "one by one"),
        ("UPDATE given_grant SET uses = uses + 1 WHERE revoked IS NOT NULL", "none of what was revoked"),
        ("UPDATE given_grant SET revoked = NULL, revoked_by = ''", "stays revoked"),
        ("UPDATE given_grant SET revoked = 1", "CHECK|stays revoked"),
        ("DELETE FROM given_grant", "kept"),
        ("DELETE FROM grant_use", "kept"),
        ("UPDATE grant_use SET at = at + 1", "immutable"),
        ("INSERT INTO grant_use SELECT grant_id, permit_id, 2, at FROM grant_use", "not counted|UNIQUE"),
        ("INSERT INTO grant_use SELECT grant_id, permit_id, use, at FROM grant_use", "UNIQUE|not counted"),
        (
            "INSERT INTO given_grant SELECT id, '/srv/app', replace(hex(zeroblob(32)), '00', '00'), 1, 2, 3, 0, NULL, '' "
            "FROM request WHERE id NOT IN (SELECT id FROM given_grant)",
            "approvals all have a scope",
        ),
        (
            "INSERT INTO given_grant SELECT 'nobody', project, policy, given, until, max_uses, 0, NULL, '' FROM given_grant",
            "needs an approved request",
        ),
        (
            "INSERT INTO given_grant SELECT 'nobody', project, policy, given, until, max_uses, 7, NULL, '' FROM given_grant",
            "needs an approved request",
        ),
    ],
)
def test_refused(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], path: Path,
    statement: str, message: str,
) -> None:  # fmt: skip
    give()
    assert isinstance(use(), Permit)
    revoked = give(HOST, content="curl example.org")
    store.grants.revoke(revoked.id, "os:1000:tester")
    give(scopes=("",), content="once")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys=ON")
        with pytest.raises(sqlite3.IntegrityError, match=message):
            connection.execute(statement)


def test_a_permit_of_a_revoked_grant_is_not_consumed_by_sql_either(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], path: Path
) -> None:
    request = give()
    permit = use()
    assert isinstance(permit, Permit)
    with forging(path) as connection:
        connection.execute("UPDATE given_grant SET revoked = 1, revoked_by = 'x' WHERE id = ?", (request.id,))
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError, match="was revoked"):
        connection.execute("UPDATE permit SET state = 'consumed' WHERE id = ?", (permit.id,))


# A store of the version before


def test_a_store_of_version_10_with_votes_goes_on(tmp_path: Path, clock: Any, draft: Any) -> None:
    """Its votes are signed in the first form, and still count; none of them is a grant."""
    path = tmp_path / "data" / "old.sqlite3"
    with pytest.MonkeyPatch.context() as patches:
        store = SQLiteStore(path, clock=clock)
        store.open_run(Run("run-1", "agent", "instance", ALICE))
        request = store.create_request(draft("cat x", asks=(READ,)), TEAM.authority)
        assert TEAM.vote(store, request, "approve", BOB).state == "approved"
        store.close()
        patches.undo()
    _set_back(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (10,)
        assert schema.check(connection, path) == 10
    again = SQLiteStore(path, clock=clock)
    (vote,) = again.votes(request.id)
    assert (vote.scope, b"vote 1" in statement(vote)) == ("", True)
    assert again.grants.given() == []
    assert isinstance(again.permit(request, TEAM.authority, use_by_ms=10_000), Permit)
    found = again.verify()
    assert found.intact, found
    with closing(sqlite3.connect(path)) as connection:
        assert schema.check(connection, path) == schema.newest() >= 11
    again.close()


def _set_back(path: Path) -> None:
    """Make of a store what version 10 would have: its tables without what came later."""
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as connection,
        closing(sqlite3.connect(":memory:", isolation_level=None)) as old,
    ):
        schema._run(old, schema.migrations()[:10])
        made = {name for (name,) in old.execute("SELECT name FROM sqlite_schema")}
        names = "SELECT type, name FROM sqlite_schema WHERE sql IS NOT NULL"
        for kind, name in connection.execute(names).fetchall():
            if name not in made and kind in ("trigger", "index"):
                connection.execute(f"DROP {kind} {name}")
        for table in ("grant_use", "given_grant"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("ALTER TABLE vote DROP COLUMN scope")
        connection.execute("DROP TRIGGER request_owner")
        connection.execute("ALTER TABLE request DROP COLUMN kept")
        connection.execute("DROP TRIGGER audit_event_linked")
        for column in ("chain", "link"):
            connection.execute(f"ALTER TABLE audit_event DROP COLUMN {column}")
        for name in ("request_owner", "audit_event_linked"):
            connection.execute(old.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchone()[0])
        connection.execute("PRAGMA user_version=10")


# Deleted


def test_what_is_over_goes_with_its_request(
    store: SQLiteStore, give: Callable[..., ApprovalRequest], use: Callable[..., Permit | None], clock: Any, path: Path,
    draft: Callable[..., ApprovalRequest],
) -> None:  # fmt: skip
    day = 86_400_000
    request = give()
    permit = store.permit(request, TEAM.authority, use_by_ms=10_000)
    assert isinstance(permit, Permit)
    start(store, permit)
    store.finish(permit.id, Outcome(0))
    for _ in range(3):
        used = use()
        assert isinstance(used, Permit)
        start(store, used)
        store.finish(used.id, Outcome(0))
    for days, gone in ((0, False), (40, True)):
        clock.pass_ms(days * day)
        purge = Purge(store, before=clock() - 30 * day, exported=store.write_head())
        purge.delete("os:1:ann", "a" * 64)
        assert (store.grants.get(request.id) is None) == gone
        found = store.verify()
        assert found.intact, found
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM grant_use").fetchone() == (0,)


def test_its_uses_are_still_counted_when_they_were_deleted(
    store: SQLiteStore, draft: Callable[..., ApprovalRequest], run: str, use: Callable[..., Permit | None], clock: Any
) -> None:
    """The log remembers them."""
    limits = Limits(max_uses=3)
    request = store.create_request(draft("cat x", asks=(replace(READ, limits=limits),)), TEAM.authority)
    TEAM.vote(store, request, scope="run")
    ask = replace(below("y"), limits=limits)
    for _ in range(2):
        used = use(ask)
        assert isinstance(used, Permit)
        start(store, used)
        store.finish(used.id, Outcome(0))
    clock.pass_ms(4 * HOUR_MS)
    deleted = Purge(store, before=clock() - HOUR_MS, exported=store.write_head()).delete("os:1:ann", "a" * 64)
    assert deleted.permits == 2
    assert store.grants.get(request.id) is not None, "it goes on"
    assert store.verify().intact
    assert isinstance(use(ask), Permit)
    assert use(ask) is None
