"""Somebody leaves: from then on nothing that they say counts, by whatever way, nor what their keys sign."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person, Removal
from humanlayer_agent.approvals.model import ApprovalRequest, Approver, Execution, Permit, Refused
from humanlayer_agent.approvals.stop import Resumption, statement
from humanlayer_agent.audit import events
from humanlayer_agent.errors import ConfigError, StoreError
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.store.sqlite import SQLStore
from humanlayer_agent.testing.approvers import ScriptedApprovers
from tests.support.forging import forging
from tests.support.granting import BOB, READ, TEAM
from tests.support.sealing import Sealer
from tests.support.stores import another

STORES = ("sqlite", "postgres")

ANN, BEN = Approver("os:1001:ann", "command-line", "terminal"), Approver("os:ben", "command-line", "terminal")
GUEST = Approver("slack:T1/U9", "slack", "chat", groups=("slack-usergroup:T1/S1",))
PEOPLE = (
    Person("ann", ("os:1001", "email:ann@example.com")),
    Person("ben", ("os:ben", "slack:T1/U2")),
    Person("dan", ("os:dan", "slack:T1/U4")),
    Person("group:ops", ("slack-usergroup:T1/S1",)),
)
ROUTES = {
    "default": ApprovalRule("default", ("ann", "ben", "group:ops")),
    "two": ApprovalRule("two", ("ann", "ben", "group:ops"), quorum=2),
    "her": ApprovalRule("her", ("ann",), solo=True),
}
Ask = Callable[..., ApprovalRequest]


@pytest.fixture
def team(store: SQLStore) -> ScriptedApprovers:
    return ScriptedApprovers(Authority(PEOPLE, ROUTES))


@pytest.fixture
def ask(store: SQLStore, run: str, draft: Ask, team: ScriptedApprovers) -> Ask:
    def make(route: str = "default", requester: str = "os:dan", **said: Any) -> ApprovalRequest:
        made = replace(draft(severity="low", **said), requester=requester)
        made = replace(made, decision=replace(made.decision, route=route))
        rule = team.authority.rule_for(made.decision, requester)
        return store.create_request(replace(made, rule=rule, needed=rule.quorum), team.authority)

    return make


def remove(store: SQLStore, person: str = "ann", *identities: str, keys: tuple[str, ...] = ()) -> Any:
    return store.people.remove(person, identities or ("os:1001", "email:ann@example.com"), keys, "os:ben", "left")


def runs(store: SQLStore, request: ApprovalRequest, team: ScriptedApprovers) -> bool:
    permit = store.permit(request, team.authority, use_by_ms=10_000)
    return isinstance(permit, Permit) and isinstance(store.consume(permit, permit.digest, team.authority), Execution)


def test_nothing_counts_any_more_whatever_the_caller_believes(store: SQLStore, team: Any, ask: Ask) -> None:
    """The authority that is handed in is the one of before: the store's own log decides."""
    before, waiting = ask(), ask(content="make two")
    assert team.vote(store, before, "approve", ANN).state == "approved"
    assert store.people.record_of("ann").keys == (team.signer.fingerprint,)
    done = remove(store)
    assert done.lapsed == (before.id,)
    found = store.get(before.id)
    assert found is not None
    assert found.state == "lapsed"
    assert not runs(store, before, team)
    for who in (
        ANN,
        Approver("os:1001:ann", "terminal", "terminal"),
        Approver("email:ANN@example.com", "mail", "login"),
    ):
        assert team.vote(store, waiting, "approve", who).code == "unknown-identity"
    assert team.vote(store, waiting, "approve", BEN).state == "approved"
    assert runs(store, waiting, team)
    (event,) = (entry.event for entry in store.events(type="person"))
    assert (event["person"], event["by"], event["lapsed"]) == ("ann", "os:ben", [before.id])
    assert store.verify().intact


def test_one_of_two_approvals_is_no_approval_when_its_giver_left(store: SQLStore, team: Any, ask: Ask) -> None:
    request = ask("two")
    assert team.vote(store, request, "approve", ANN).missing == 1
    remove(store)
    assert (team.vote(store, request, "approve", BEN).state, request.state) == ("pending", "pending")
    assert team.vote(store, request, "approve", GUEST).state == "approved"
    assert runs(store, request, team)


def test_a_permit_that_was_issued_before_is_not_used(store: SQLStore, team: Any, ask: Ask) -> None:
    request = ask()
    team.vote(store, request, "approve", ANN)
    permit = store.permit(request, team.authority, use_by_ms=10_000)
    assert isinstance(permit, Permit)
    remove(store)
    assert isinstance(store.consume(permit, permit.digest, team.authority), Refused)


def test_one_of_a_group_who_left_is_still_in_it(store: SQLStore, team: Any, ask: Ask) -> None:
    remove(store, GUEST.principal, GUEST.principal)
    assert team.vote(store, ask(), "approve", GUEST).code == "unknown-identity"
    assert team.vote(store, ask(content="y"), "approve", replace(GUEST, principal="slack:T1/U8")).state == "approved"


def test_a_key_signs_nothing_that_counts_for_anybody(store: SQLStore, team: Any, ask: Ask) -> None:
    other = Signer()
    known = team.authority.trusting(other.fingerprint)
    remove(store, keys=(team.signer.fingerprint,))
    request = ask()
    assert team.vote(store, request, "approve", BEN).code == "untrusted-signer"
    assert ScriptedApprovers(known, other).vote(store, request, "approve", BEN).state == "approved"


def test_a_key_that_is_withdrawn_signs_nothing_that_counts_from_then_on(store: SQLStore, ask: Ask) -> None:
    """As where a newer list of signers lacks it: what it has approved is not used, and a vote of it is none."""
    gone: set[str] = set()
    other = Signer()
    hub = ScriptedApprovers(replace(Authority(PEOPLE, ROUTES), withdrawn=gone.__contains__))
    approved, waiting, permitted = ask(), ask(content="make two"), ask(content="make three")
    assert hub.vote(store, approved, "approve", ANN).state == "approved"
    assert hub.vote(store, permitted, "approve", ANN).state == "approved"
    permit = store.permit(permitted, hub.authority, use_by_ms=10_000)
    assert isinstance(permit, Permit)
    gone.add(hub.signer.fingerprint)
    assert not runs(store, approved, hub)
    assert isinstance(store.consume(permit, permit.digest, hub.authority), Refused)
    assert hub.vote(store, waiting, "approve", ANN).code == "untrusted-signer"
    again = ScriptedApprovers(hub.authority.trusting(other.fingerprint), other)
    assert again.vote(store, waiting, "approve", ANN).state == "approved"
    assert store.verify().intact


def test_a_route_of_hers_alone_has_nobody_left_and_not_whoever_started_the_run(
    store: SQLStore, team: Any, ask: Ask
) -> None:
    request = ask("her")
    remove(store)
    assert team.vote(store, request, "approve", Approver("os:dan", "terminal", "terminal")).code == "no-route"
    known = team.authority.without(store.people.left)
    with pytest.raises(ConfigError, match="everybody who could approve has left"):
        known.rule_for(request.decision, "os:dan")


def test_a_run_that_she_started_is_approved_by_nobody(store: SQLStore, team: Any, ask: Ask) -> None:
    request = ask(requester="os:1001:ann")
    remove(store)
    assert team.vote(store, request, "approve", BEN).code == "unknown-requester"


def test_her_grants_end(store: SQLStore, give: Any, use: Any) -> None:
    request = give(READ)
    assert use() is not None
    record = store.people.record_of("bob")
    assert (record.answers, dict(record.grants), record.standing) == ({"approve": 1}, {request.id: 1}, (request.id,))
    assert [(kind, asked) for _, kind, asked in record.last] == [("approve", request.id)]
    assert store.people.remove("bob", [BOB.principal], [], "os:1:ann").grants == (request.id,)
    assert use() is None
    assert store.people.record_of("bob").standing == ()
    assert store.verify().intact


def test_a_grant_of_whoever_left_lets_nothing_run_also_where_its_row_was_set_back(
    store: SQLStore, give: Any, use: Any, act: Any, decide: Any
) -> None:
    """Another process has issued a permit by it a moment before."""
    give(READ)
    permit = use()
    store.people.remove("bob", [BOB.principal], [], "os:1:ann")
    assert isinstance(store.consume(permit, permit.digest, TEAM.authority), Refused)


def test_what_she_had_lifted_before_stays_so_and_later_she_lifts_nothing(store: SQLStore, team: Any) -> None:
    halts, signer = store.halts, team.signer
    halts.stop("os:ben")
    assert halts.resume(halts.standing(team.authority), ANN, "", team.authority, signer) is None
    remove(store, keys=(signer.fingerprint,))
    assert halts.standing(team.authority) == [], "nobody is stopped by her leaving"
    with closing(another(store)) as fresh:
        assert fresh.halts.standing(team.authority) == []
    halts.stop("os:ben")
    refused = halts.resume(halts.standing(team.authority), ANN, "", team.authority, signer)
    assert isinstance(refused, Refused)
    other = Signer()
    known = team.authority.trusting(other.fingerprint)
    assert halts.resume(halts.standing(known), BEN, "", known, other) is None
    assert halts.standing(known) == []


def test_an_event_that_she_left_behind_makes_no_later_word_of_hers_count(store: SQLStore, team: Any) -> None:
    """She has an event of a resumption written while she is there, and signs one by its name after she has left."""
    halts, signer = store.halts, team.signer
    store.record(events.SUPERVISION_RESUMED, halt="e" * 32, resumption="f" * 32)
    remove(store, keys=(signer.fingerprint,))
    halt = halts.stop("os:ben")
    said = Resumption("f" * 32, halt.id, store.now(), ANN, "ann", signer=signer.fingerprint)
    signed = signer.sign_text(statement(said))
    with store.transaction() as ledger:
        ledger.change(
            "INSERT INTO resumption (id, halt, at, principal, person, channel, assurance, comment, signer, signature) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, '', ?, ?)",
            *(said.id, said.halt, said.at, ANN.principal, "ann", ANN.channel, ANN.assurance, said.signer, signed),
        )
    assert [each.id for each in halts.standing(team.authority)] == [halt.id]


def test_nobody_is_away_for_her_and_her_own_absence_is_over(store: SQLStore, team: Any, clock: Any) -> None:
    until = clock() + 86_400_000
    assert not isinstance(store.absences.say(ANN, "ben", until, team.authority, team.signer), Refused)
    assert not isinstance(store.absences.say(BEN, "ann", until, team.authority, team.signer), Refused)
    done = remove(store)
    assert len(done.absences) == 1
    assert [why for _, why in store.absences.said(team.authority)] == ["ann is none of the people"]
    assert isinstance(store.absences.say(ANN, "ben", until, team.authority, team.signer), Refused)


def test_another_process_and_a_purge_later(store: SQLStore, team: Any, ask: Ask) -> None:
    remove(store)
    with closing(another(store)) as fresh:
        assert [(each.person, each.keys) for each in fresh.people.left()] == [("ann", frozenset())]
        assert team.vote(fresh, ask(), "approve", ANN).code == "unknown-identity"


@pytest.mark.parametrize("said", [{}, {"person": "ann"}, {"person": 1, "identities": [], "keys": []}])
@pytest.mark.file
def test_an_event_that_nobody_can_read_lets_nobody_decide(
    store: SQLStore, team: Any, ask: Ask, path: Any, said: dict[str, Any]
) -> None:
    request = ask()
    entry = Sealer(store.events())(events.PERSON_REMOVED, said)
    with forging(path) as connection:
        values = (entry.seq, entry.hash, entry.body.decode())
        connection.execute("INSERT INTO audit_event (seq, hash, body) VALUES (?, ?, ?)", values)
    with pytest.raises(StoreError, match="can't be read"):
        team.vote(store, request, "approve", BEN)


def test_identities_of_before_and_those_that_the_file_has_now() -> None:
    left = [Removal("ann", ("os:1001",), frozenset({"k"}), 7)]
    known = Authority(PEOPLE, ROUTES, frozenset({"k", "l"})).without(lambda: left)
    assert known.person_of("os:1001:ann") is None
    assert known.person_of("email:ann@example.com") is None, "the file names that as hers"
    assert known.person_of("os:1002:ann") is None
    assert (known.trusts("k"), known.trusts("l"), known.trusts("m")) == (False, True, False)
    anew = Authority((Person("zoe", ("os:1001",)),), {}).without(lambda: left)
    assert anew.person_of("os:1001:zoe") is None, "an identity is not used again"
