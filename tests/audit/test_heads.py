"""Signed heads: when they are written, what they prove, and how they are kept as text."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from humanlayer_agent.approvals.model import Run
from humanlayer_agent.audit import events, heads
from humanlayer_agent.audit.heads import Head, head_in, head_text, heads_in, is_signed
from humanlayer_agent.keys.key_file import AuditKey
from humanlayer_agent.locations import audit_key_path
from humanlayer_agent.store.log_heads import Keeper
from humanlayer_agent.store.sqlite import SQLiteStore

START = 1_700_000_000_000


class Clock:
    def __init__(self) -> None:
        self.ms = START

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(path: Path, clock: Clock) -> SQLiteStore:
    return SQLiteStore(path, clock=clock)


def record(store: SQLiteStore, count: int = 1) -> None:
    for number in range(count):
        store.record(events.POLICY_LOADED, run="r", number=number)


def written(store: SQLiteStore) -> list[int]:
    return [entry.seq for entry in store.events(type="audit.head")]


# When


def test_after_so_many_events(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("humanlayer_agent.store.log_heads.EVERY_EVENTS", 10)
    record(store, 35)
    assert written(store) == [11, 22, 33]


def test_after_a_time_with_events_and_never_without(store: SQLiteStore, clock: Clock) -> None:
    record(store)
    clock.ms += heads.EVERY_MS - 1
    record(store)
    assert written(store) == []
    clock.ms += 1
    record(store)
    assert written(store) == [4]
    clock.ms += 10 * heads.EVERY_MS
    assert written(store) == [4]
    record(store)
    assert written(store) == [4, 6]


def test_at_the_end_of_a_run(store: SQLiteStore) -> None:
    store.open_run(Run("r", "a", "i", "u"))
    store.close_run("r", "finished")
    store.close_run("r", "finished")
    assert written(store) == [4]


def test_the_log_is_closed_when_the_last_run_has_ended_in_order(store: SQLiteStore) -> None:
    def closed() -> list[str]:
        return [entry.event["run"] for entry in store.events(type="audit.closed")]

    for run in ("one", "two"):
        store.open_run(Run(run, "a", "i", "u"))
    store.surfaces.take_lease("slack", "holder", 60_000)
    store.close_run("one", "finished")
    assert closed() == []  # the other one goes on
    store.close_run("two", "finished")
    assert closed() == []  # a channel is served
    store.surfaces.release_lease("slack", "holder")
    store.open_run(Run("three", "a", "i", "u"))
    store.close_run("three", "finished")
    store.close_run("three", "finished")
    assert closed() == ["three"]
    assert [entry.event["type"] for entry in store.events(last=3)] == ["run.finished", "audit.closed", "audit.head"]
    assert store.verify().intact


def test_two_processes_do_not_both_write_one(path: Path, store: SQLiteStore, clock: Clock) -> None:
    other = SQLiteStore(path, clock=clock)
    record(store)
    record(other)
    clock.ms += heads.EVERY_MS
    record(store)
    record(other)
    assert written(store) == [4]


def test_there_is_no_head_of_a_head(store: SQLiteStore) -> None:
    record(store)
    assert store.write_head() == store.write_head()
    assert written(store) == [2]


def test_what_a_head_says(store: SQLiteStore, clock: Clock) -> None:
    record(store, 3)
    head = store.write_head()
    entries = list(store.events())
    assert (head.seq, head.hash, head.count, head.time) == (3, entries[3].hash, 4, START)
    assert head.store == entries[0].event["store"]
    assert head_in(entries[4].event) == head
    assert is_signed(head)


# Which key


def test_the_users_own_key_where_there_is_one(store: SQLiteStore) -> None:
    record(store)
    assert store.write_head().key == "process"
    signer = AuditKey.create(audit_key_path())
    record(store)
    head = store.write_head()
    assert (head.key, head.signer) == ("user", signer.fingerprint)
    assert list(store.events(type="key")) == []


def test_another_key_of_the_user_is_named(store: SQLiteStore) -> None:
    first = AuditKey.create(audit_key_path()).fingerprint
    record(store)
    store.write_head()
    audit_key_path().unlink()
    second = AuditKey.create(audit_key_path()).fingerprint
    record(store)
    store.write_head()
    (rotated,) = (entry.event for entry in store.events(type="key.rotated"))
    assert (rotated["former"], rotated["signer"]) == (first, second)
    assert store.verify().intact


def test_a_key_that_can_not_be_used_stops_nothing(store: SQLiteStore) -> None:
    AuditKey.create(audit_key_path())
    audit_key_path().chmod(0o644)
    record(store)
    assert store.write_head().key == "process"


def test_a_head_that_can_not_be_written_is_due_again(
    store: SQLiteStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from humanlayer_agent.errors import StoreError

    def fail(*_: object) -> Head:
        raise StoreError("disk full")

    clock.ms += heads.EVERY_MS
    with monkeypatch.context() as broken:
        broken.setattr(Keeper, "write", fail)
        record(store)
        assert written(store) == []
    record(store)
    assert written(store) == [3]


# What it proves


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 1},
        {"hash": "f" * 64},
        {"count": 99},
        {"time": 5},
        {"store": "0" * 32},
        {"key": "user"},
        {"signature": "0" * 128},
    ],
)
def test_a_signature_covers_everything(store: SQLiteStore, change: dict[str, object]) -> None:
    record(store, 2)
    assert not is_signed(replace(store.write_head(), **change))


def test_a_vote_is_no_head(store: SQLiteStore) -> None:
    """One key signs both: what is signed says which of them it is."""
    assert heads.statement(store.write_head()).count(b'"purpose":"humanlayer-agent head 2"') == 1


# As text


@pytest.fixture
def head(store: SQLiteStore) -> Head:
    record(store, 7)
    return store.write_head()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda text: text,
        lambda text: f"*hla hub* today at 10:00\n{text}\n:eyes: 1",
        lambda text: text.replace(" ", "\n"),
        lambda text: "> " + text.replace(" ", "\n> "),
        lambda text: text.replace(" ", "=\r\n "),
        lambda text: "\n".join(text[i : i + 76] for i in range(0, len(text), 76)),
    ],
    ids=["alone", "chat", "wrapped", "quoted", "quoted-printable", "cut at 76"],
)
def test_a_head_is_found_in_what_people_keep(head: Head, wrap: Callable[[str], str]) -> None:
    assert heads_in(wrap(head_text(head))) == [head]


def test_heads_are_found_in_an_export(store: SQLiteStore, head: Head) -> None:
    record(store)
    second = store.write_head()
    text = "".join(entry.line.decode() for entry in store.events())
    assert heads_in(text) == [head, second]


@pytest.mark.parametrize(
    "text", ["", "hla-head-1", "hla-head-1 store=x seq=1", '{"e":{"type":"audit.head"},"h":""}', '{"e":"audit.head']
)
def test_texts_without_a_head(text: str) -> None:
    assert heads_in(text) == []


@pytest.mark.parametrize(
    "change", [{"head": None}, {"head": {}}, {"head": {"seq": "1"}}, {"signer": None}, {"head": {"x": 1}}]
)
def test_events_that_hold_no_head(store: SQLiteStore, head: Head, change: dict[str, object]) -> None:
    event = json.loads(next(iter(store.events(type="audit.head"))).body)
    assert head_in(event | change) is None
