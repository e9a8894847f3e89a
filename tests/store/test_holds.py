"""What is held is not deleted, whoever purges; a hold is over when somebody who may decide has signed that."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import GLASS
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.holds import Held, Hold, statement
from humanlayer_agent.approvals.model import Approver, Outcome, Permit, Refused
from humanlayer_agent.audit import events
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.store.retention import Purge, Purged
from humanlayer_agent.store.sqlite import SQLStore
from humanlayer_agent.testing.approvers import TEST_APPROVER, ScriptedApprovers
from tests.support.stores import another

STORES = ("sqlite", "postgres")

DAY = 86_400_000
TEAM = ScriptedApprovers()
BY = replace(TEST_APPROVER, channel="command-line", assurance="terminal")
SHA = "a" * 64


@pytest.fixture
def old(make_gate: Callable[..., Gate], act: Callable[..., Action], store: SQLStore, clock: Any) -> SQLStore:
    """Two runs, of 100 and of 60 days ago, each with an approved command, one of the policy's own, and an edit."""
    for number in (1, 2):
        script = ["approve", ("edit", "ask five"), "approve"]
        with make_gate(script, run_id=f"run-{number}", instance=str(number)) as gate:
            for command in ("ls", "ask one", "ask two"):
                permit = gate.check(act(command, run_id=f"run-{number}"))
                assert isinstance(permit, Permit)
                assert gate.start(permit, permit.action) is None
                gate.finish(permit, Outcome(0))
        clock.pass_ms(40 * DAY)
    clock.pass_ms(20 * DAY)
    return store


def place(store: SQLStore, held: Held, **fields: Any) -> Any:
    chosen = {"approver": BY, "authority": TEAM.authority, "signer": TEAM.signer} | fields
    return store.holds.place(held, chosen["approver"], "case 12", chosen["authority"], chosen["signer"])


def lift(store: SQLStore, hold: Hold, **fields: Any) -> Any:
    chosen = {"approver": BY, "authority": TEAM.authority, "signer": TEAM.signer} | fields
    return store.holds.lift(hold.id, chosen["approver"], "closed", chosen["authority"], chosen["signer"])


def purge(store: SQLStore, clock: Any, authority: Any = TEAM.authority) -> Purge:
    found = store.purge(before=clock() - DAY, exported=store.write_head(), authority=authority)
    assert isinstance(found, Purge)
    return found


def whose(store: SQLStore) -> set[str]:
    return {request.action.run_id for request in store.requests()}


@pytest.mark.parametrize(
    ("held", "left"),
    [
        (lambda now: Held("run-1"), {"run-1"}),
        (lambda now: Held("run-9"), set()),
        (lambda now: Held(), {"run-1", "run-2"}),
        (lambda now: Held(since=now - 70 * DAY), {"run-2"}),
        (lambda now: Held(until=now - 70 * DAY), {"run-1"}),
        (lambda now: Held(since=now - 99 * DAY, until=now - 61 * DAY), set()),
        (lambda now: Held("run-1", since=now - 70 * DAY), set()),
    ],
)
def test_what_is_held_stays_and_the_verifier_agrees(old: SQLStore, clock: Any, held: Any, left: set[str]) -> None:
    before = purge(old, clock).would_go()
    assert (before.requests, before.votes, before.permits) == (6, 6, 6)
    made = place(old, held(clock()))
    assert isinstance(made, Hold)
    looked = purge(old, clock)
    would, stays = looked.would_go(), looked.would_stay()
    assert would.requests == 6 - 3 * len(left) == 6 - stays.requests
    assert looked.delete("os:1:ann", SHA) == would
    assert whose(old) == left
    (event,) = (entry.event for entry in old.events(type="retention"))
    assert (event["form"], event["holds"]) == (2, [made.id])
    assert old.verify().intact, old.verify().problem


def test_it_goes_once_the_hold_is_lifted(old: SQLStore, clock: Any) -> None:
    made = place(old, Held("run-1"))
    assert [(each.id, each.held, each.person, each.reason) for each in old.holds.standing(TEAM.authority)] == [
        (made.id, Held("run-1"), "tester", "case 12")
    ]
    purge(old, clock).delete("os:1:ann", SHA)
    assert isinstance(lift(old, made), Hold)
    assert old.holds.standing(TEAM.authority) == []
    assert purge(old, clock).delete("os:1:ann", SHA).requests == 3
    assert whose(old) == set()
    assert [entry.event["type"] for entry in old.events(type="hold")] == ["hold.placed", "hold.lifted"]
    assert [entry.event["form"] for entry in old.events(type="retention")] == [2, 1]
    assert old.verify().intact
    assert isinstance(lift(old, made), Refused), "it stands no more"


def test_one_that_is_placed_while_a_purge_looks_counts(old: SQLStore, clock: Any) -> None:
    looked = purge(old, clock)
    assert looked.would_go().requests == 6
    assert isinstance(place(another(old, clock=clock), Held("run-2")), Hold)
    assert looked.delete("os:1:ann", SHA).requests == 3
    assert whose(old) == {"run-2"}
    assert old.verify().intact


STRANGER = Signer()


@pytest.mark.parametrize(
    "fields",
    [
        {"approver": replace(BY, principal="os:9:mallory")},
        {"approver": replace(BY, assurance="chat")},
        {"approver": Approver("slack:T1/U9", "slack", "terminal")},
        {"signer": STRANGER},
    ],
)
def test_who_may_not_decide_neither_places_nor_lifts_one(old: SQLStore, clock: Any, fields: dict[str, Any]) -> None:
    assert isinstance(place(old, Held(), **fields), Refused)
    made = place(old, Held())
    assert isinstance(lift(old, made, **fields), Refused)
    assert [entry.event["type"] for entry in old.events(type="hold")] == ["hold.placed"]
    assert purge(old, clock).would_go() == Purged(0, 0, 0)


@pytest.mark.parametrize("what", ["unsigned", "another key", "of a narrower one", "unreadable", "another store"])
def test_a_lifting_that_somebody_wrote_into_the_log_lifts_nothing(old: SQLStore, clock: Any, what: str) -> None:
    """Our own code writes the event: a hook, an agent's role of a database, whoever may append."""
    made = place(old, Held("run-1"))
    said = replace(made, lifted=True, signature="")
    signer = STRANGER if what == "another key" else TEAM.signer
    if what == "of a narrower one":
        said = replace(said, held=Held("run-1", until=1))
    if what == "another store":
        said = replace(said, store="0" * 32)
    said = replace(said, signer=signer.fingerprint)
    said = replace(said, signature="00" * 64 if what == "unsigned" else signer.sign_text(statement(said)))
    who = {"principal": BY.principal, "channel": BY.channel, "assurance": BY.assurance}
    fields = {"hold": said.id, "store": said.store, "run": said.held.run, "until": said.held.until, "person": "tester"}
    if what == "unreadable":
        who = {}
    at_once = {"approver": who, "signer": said.signer, "hold_signature": said.signature}
    clock.ms = said.at  # so that the time that was signed is the time of the event
    old.record(events.HOLD_LIFTED, **fields, **at_once)
    clock.ms += 10 * DAY
    (standing,) = old.holds.standing(TEAM.authority)
    assert standing.id == made.id
    purge(old, clock).delete("os:1:ann", SHA)
    assert "run-1" in whose(old)
    assert old.verify().intact


def test_without_anybody_who_could_lift_it_every_hold_stands(old: SQLStore, clock: Any) -> None:
    lift(old, place(old, Held()))
    assert purge(old, clock, authority=None).would_go() == Purged(0, 0, 0)
    assert purge(old, clock).would_go().requests == 6


def test_whoever_has_left_lifts_none(old: SQLStore, clock: Any) -> None:
    made = place(old, Held())
    lift(old, made)
    old.people.remove("tester", [BY.principal], [], "os:1:ann")
    assert [each.id for each in old.holds.standing(TEAM.authority)] == [made.id], "it stands again: another lifts it"
    assert isinstance(place(old, Held()), Refused)


def test_a_purge_that_heeds_no_hold_is_tampering(old: SQLStore, clock: Any) -> None:
    """As by a version that knows none: the rows go, and the verifier says that they should not have gone."""
    place(old, Held("run-1"))
    looked = purge(old, clock)
    looked.holds = list  # type: ignore[method-assign]
    from humanlayer_agent.store import retention

    real, retention.standing_in = retention.standing_in, lambda *_: []  # type: ignore[assignment]
    try:
        assert looked.delete("os:1:ann", SHA).requests == 6
    finally:
        retention.standing_in = real
    assert not old.verify().intact


def test_a_hold_that_nobody_can_read_keeps_everything(old: SQLStore, clock: Any) -> None:
    old.record(events.HOLD_PLACED, hold="x", run=7)
    (standing,) = old.holds.standing(TEAM.authority)
    assert standing.held == Held()
    assert purge(old, clock).delete("os:1:ann", SHA) == Purged(0, 0, 0)
    assert old.verify().intact
    assert isinstance(lift(old, standing), Hold)
    assert purge(old, clock).delete("os:1:ann", SHA).requests == 6
    assert old.verify().intact


def test_one_that_is_said_again_of_less_holds_as_much_as_before(old: SQLStore, clock: Any) -> None:
    """Whoever may append events says the same hold once more, of another run."""
    made = place(old, Held("run-1"))
    who = {"principal": BY.principal, "channel": BY.channel, "assurance": BY.assurance}
    more = {"store": made.store, "approver": who, "person": "tester", "signer": "0" * 64, "hold_signature": "00"}
    old.record(events.HOLD_PLACED, hold=made.id, run="run-9", **more)
    purge(old, clock).delete("os:1:ann", SHA)
    assert whose(old) == {"run-1"}
    assert old.verify().intact


def test_nobody_holds_or_lifts_outside_of_the_route(old: SQLStore) -> None:
    named = replace(TEAM.authority, glass=("tester", "alice"))
    glass = replace(BY, channel=GLASS)
    made = place(old, Held(), authority=named)
    assert isinstance(place(old, Held(), approver=glass, authority=named), Refused)
    assert isinstance(lift(old, made, approver=glass, authority=named), Refused)
