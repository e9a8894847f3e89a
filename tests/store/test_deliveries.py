"""Leases, deliveries and presentations: in the store, one transaction each, and with walls around them."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.errors import StoreError
from humanlayer_agent.processes import identity as process
from humanlayer_agent.store import heartbeats
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedApprovers

STORES = ("sqlite", "postgres")

PLACE = {"channel": "C1", "ts": "17.0001"}


@pytest.fixture
def request_id(store: SQLiteStore, run: str, draft: Callable) -> str:
    return store.create_request(draft()).id


@pytest.fixture
def shown(store: SQLiteStore, request_id: str) -> str:
    """The id of a request that is shown in Slack."""
    store.surfaces.begin_delivery(request_id, 0, "slack")
    store.surfaces.delivered(request_id, 0, "slack", PLACE, "d" * 64, complete=True)
    return request_id


# Leases


def test_one_holder_at_a_time(store, clock):
    surfaces = store.surfaces
    assert surfaces.lease("slack") is None
    assert surfaces.take_lease("slack", "one", 1_000)
    assert not surfaces.take_lease("slack", "two", 1_000)
    assert surfaces.take_lease("email", "two", 1_000)
    assert surfaces.lease("slack").holder == "one"
    clock.pass_ms(600)
    assert surfaces.take_lease("slack", "one", 1_000), "renewed"
    clock.pass_ms(999)
    assert not surfaces.take_lease("slack", "two", 1_000)
    clock.pass_ms(1)
    assert surfaces.lease("slack") is None
    assert surfaces.take_lease("slack", "two", 1_000)
    assert not surfaces.take_lease("slack", "one", 1_000), "who had it before has lost it"
    taken = [(e.event["channel"], e.event.get("former") is None) for e in store.events(type="lease.taken")]
    assert taken == [("slack", True), ("email", True), ("slack", False)]


def test_a_released_lease_is_free_and_another_can_not_release_it(store):
    surfaces = store.surfaces
    surfaces.take_lease("slack", "one", 60_000)
    surfaces.release_lease("slack", "two")
    assert surfaces.lease("slack").holder == "one"
    surfaces.release_lease("slack", "one")
    assert surfaces.take_lease("slack", "two", 60_000)


def test_the_lease_of_a_process_that_is_gone_is_free_at_once(store, path, clock, in_child):
    def take() -> bool:
        return SQLiteStore(path, clock=clock).surfaces.take_lease("slack", "child", 60_000)

    assert in_child(take)
    assert store.surfaces.lease("slack") is None
    assert store.surfaces.take_lease("slack", "one", 1_000)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_set_leaves_the_holder_in_place(store, clock, hours):
    store.surfaces.take_lease("slack", "one", 1_000)
    clock.jump_ms(hours * 3_600_000)
    assert store.surfaces.lease("slack").holder == "one"
    assert not store.surfaces.take_lease("slack", "two", 1_000)
    assert store.surfaces.take_lease("slack", "one", 1_000)
    clock.pass_ms(1_000)
    assert store.surfaces.take_lease("slack", "two", 1_000), "it does not hold for the hour"


@pytest.mark.parametrize(("name", "ticks"), [("another machine", 0), ("the test", 10**9)])
def test_a_lease_by_another_clock_holds_until_it_was_seen_unchanged_for_as_long(store, clock, monkeypatch, name, ticks):
    ours = heartbeats.clock
    monkeypatch.setattr(heartbeats, "clock", lambda db: (name, ticks))
    store.surfaces.take_lease("slack", "one", 1_000)
    monkeypatch.setattr(heartbeats, "clock", ours)
    monkeypatch.setattr(process, "lives", lambda identity: None)
    clock.pass_ms(3_600_000)
    for _ in range(2):
        assert store.surfaces.lease("slack").holder == "one"
        assert not store.surfaces.take_lease("slack", "two", 1_000)
        clock.pass_ms(999)
    clock.pass_ms(1)
    assert store.surfaces.lease("slack") is None
    assert store.surfaces.take_lease("slack", "two", 1_000)


# Deliveries


def test_a_delivery_is_begun_tried_again_and_done_once(store, request_id, clock):
    surfaces = store.surfaces
    assert surfaces.begin_delivery(request_id, 0, "slack").attempts == 1
    surfaces.undelivered(request_id, 0, "slack", "ratelimited", retry_at=clock() + 5_000)
    (delivery,) = surfaces.deliveries()
    assert (delivery.state, delivery.why, delivery.retry_at) == ("sending", "ratelimited", clock() + 5_000)
    assert surfaces.begin_delivery(request_id, 0, "slack").attempts == 2
    surfaces.delivered(request_id, 0, "slack", PLACE, "d" * 64, complete=True)
    surfaces.delivered(request_id, 0, "slack", PLACE, "d" * 64, complete=True)
    assert surfaces.begin_delivery(request_id, 0, "slack") is None
    (found,) = surfaces.presentations("slack")
    assert (found.place, found.complete, found.shown, found.mark) == (PLACE, True, "pending 0 0", "pending 0 0")
    assert len(list(store.events(type="presentation.delivered"))) == 1
    assert store.verify().intact


def test_a_request_that_is_decided_is_not_delivered_any_more(store, request_id):
    store.withdraw(request_id, "over")
    assert store.surfaces.begin_delivery(request_id, 0, "slack") is None
    store.surfaces.undelivered(request_id, 0, "slack", "no terminal")
    assert store.surfaces.deliveries(request_id) == []


def test_what_was_begun_and_is_not_needed_any_more_is_found(store, request_id):
    store.surfaces.begin_delivery(request_id, 0, "slack")
    assert store.surfaces.unfinished("slack") == []
    store.withdraw(request_id, "over")
    assert [each.request_id for each in store.surfaces.unfinished("slack")] == [request_id]
    assert store.surfaces.unfinished("email") == []
    store.surfaces.delivered(request_id, 0, "slack", PLACE, "d" * 64, complete=True)
    assert store.surfaces.unfinished("slack") == []
    (place,) = store.surfaces.open_presentations("slack")
    assert place.mark == "withdrawn 0 0"


def test_a_delivery_that_came_back_has_failed(store, shown):
    store.surfaces.undelivered(shown, 0, "slack", "bounced")
    assert [each.state for each in store.surfaces.deliveries(shown)] == ["failed"]


def test_a_delivery_that_was_done_is_not_begun_again_by_a_late_retry(store, shown, clock):
    store.surfaces.undelivered(shown, 0, "slack", "a late error", retry_at=clock())
    assert [each.state for each in store.surfaces.deliveries(shown)] == ["delivered"]


# Presentations


def test_votes_and_decisions_change_what_has_to_be_shown(store, shown, clock):
    surfaces = store.surfaces
    (place,) = surfaces.open_presentations("slack")
    assert place.shown == place.mark
    approvers = ScriptedApprovers()
    approvers.vote(store, store.get(shown))
    (place,) = surfaces.open_presentations("slack")
    assert (place.shown, place.mark) == ("pending 0 0", "approved 1 0")
    surfaces.settled(place.id, place.mark)
    (place,) = surfaces.open_presentations("slack")
    assert place.shown == place.mark
    store.close_run("run-1", "finished")
    (place,) = surfaces.open_presentations("slack")
    assert place.mark == "lapsed 1 0"
    surfaces.settled(place.id, place.mark)
    assert surfaces.open_presentations("slack") == []
    assert len(list(store.events(type="presentation.settled"))) == 2


def test_an_approval_that_was_used_needs_no_more_attention(store, shown):
    approvers = ScriptedApprovers()
    approvers.vote(store, store.get(shown))
    surfaces = store.surfaces
    (place,) = surfaces.open_presentations("slack")
    surfaces.settled(place.id, place.mark)
    surfaces.take_lease("slack", "one", 1_000)
    permit = store.permit(store.get(shown), approvers.authority, use_by_ms=10_000)
    store.consume(permit, permit.digest, approvers.authority)
    surfaces.take_lease("slack", "one", 1_000)
    assert surfaces.open_presentations("slack") == []


def test_a_place_is_found_by_what_the_channel_said_of_it(store, shown):
    assert [each.request_id for each in store.surfaces.presented_at("slack", "ts", "17.0001")] == [shown]
    assert store.surfaces.presented_at("slack", "ts", "17.0002") == []
    assert store.surfaces.presented_at("email", "ts", "17.0001") == []
    assert store.surfaces.presented_at("slack", 'x" OR 1=1', "17.0001") == []


def test_reminders_only_go_up(store, shown):
    (place,) = store.surfaces.open_presentations("slack")
    store.surfaces.reminded(place.id, 2)
    store.surfaces.reminded(place.id, 1)
    store.surfaces.reminded(place.id, 2)
    (place,) = store.surfaces.open_presentations("slack")
    assert place.reminded == 2
    assert len(list(store.events(type="presentation.reminded"))) == 1


def test_what_is_not_there_is_an_error(store):
    with pytest.raises(StoreError, match="there is no presentation"):
        store.surfaces.settled("f" * 32, "approved 1 0")


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE presentation SET place = '{}'",
        "UPDATE presentation SET presented_digest = 'e'",
        "UPDATE presentation SET complete = 0",
        "UPDATE presentation SET channel = 'email'",
        "UPDATE presentation SET reminded = -1",
        "DELETE FROM presentation",
        "INSERT INTO presentation (id, request_id, channel, step, place, presented_digest, complete, at) "
        "SELECT printf('%032d', 7), request_id, 'email', step, place, presented_digest, 1, 1 FROM presentation",
        "UPDATE delivery SET state = 'sending'",
        "UPDATE delivery SET channel = 'email'",
        "UPDATE delivery SET attempts = 0",
        "DELETE FROM delivery",
        "INSERT INTO delivery (request_id, step, channel, at) VALUES ('none', 0, 'slack', 1)",
        "UPDATE lease SET taken = taken + 1",
        "UPDATE lease SET channel = 'email'",
        "UPDATE lease SET process = 'another'",
        "UPDATE lease SET ttl = 60001",
    ],
)
def test_the_schema_refuses_what_a_program_with_a_bug_would_write(store, path: Path, shown, statement):
    store.surfaces.take_lease("slack", "one", 1_000)
    other = sqlite3.connect(path)
    other.execute("PRAGMA foreign_keys=ON")
    with pytest.raises(sqlite3.IntegrityError):
        other.execute(statement)
    other.close()
