"""The daily digest: when it is due, what it counts, and that it is posted once."""

from datetime import UTC, datetime, time
from typing import Any

import pytest

from humanlayer_agent.audit import events
from humanlayer_agent.channels.contract import Schedule
from humanlayer_agent.channels.slack import message
from humanlayer_agent.hub import digests
from humanlayer_agent.hub.digests import Digests
from humanlayer_agent.testing.approvers import ScriptedApprovers, answer
from humanlayer_agent.testing.fake_slack import blocks as fake
from tests.hub.conftest import ALICE, BOB, team

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("zone", "now", "moment"),
    [
        ("UTC", "2026-03-10T09:00:00+00:00", "2026-03-10T09:00:00+00:00"),
        ("UTC", "2026-03-10T08:59:59+00:00", "2026-03-09T09:00:00+00:00"),
        ("Europe/Berlin", "2026-03-10T08:00:00+00:00", "2026-03-10T08:00:00+00:00"),
        ("Europe/Berlin", "2026-03-29T07:00:00+00:00", "2026-03-29T07:00:00+00:00"),  # summer time since this night
        ("America/New_York", "2026-03-10T01:00:00+00:00", "2026-03-09T13:00:00+00:00"),
    ],
)
def test_when_it_is_due(zone: str, now: str, moment: str) -> None:
    found = Schedule(time(9), zone).moment(datetime.fromisoformat(now))
    assert found.astimezone(UTC) == datetime.fromisoformat(moment)


@pytest.fixture
def day(store, ask):
    """Requests of yesterday and today, as people have answered them."""
    authority = team()
    approvers = ScriptedApprovers(authority)
    from humanlayer_agent.approvals.model import Approver

    for number, kind in enumerate(("approve", "approve", "reject", None)):
        request = ask(f"make {number}", age=2 * HOUR, ttl=10 * HOUR)
        if kind:
            who = Approver(ALICE if number else BOB, "board", "mail-link")
            assert approvers.decide(store, request.id, answer(request, kind, approver=who)).outcome == "recorded"
    ask("make old", age=30 * HOUR, ttl=40 * HOUR)
    return authority


def made(store: Any, authority: Any, at: int) -> Digests:
    hour = datetime.fromtimestamp(at / 1000, UTC)
    return Digests(store, "slack", authority, Schedule(time(hour.hour, hour.minute)))


def test_what_it_counts(store, day) -> None:
    found = made(store, day, store.now()).due()
    assert found is not None
    assert dict(found.endings) == {"approved": 2, "rejected": 1, "waiting": 1}
    assert (found.waiting, found.answered, found.asked_by) == (2, [("alice", 2), ("bob", 1)], [("r1", 4)])
    assert found.minutes is not None
    assert 119 < found.minutes < 125
    assert (found.grants, found.stopped, found.more) == (0, "", False)
    store.halts.stop("os:1000:alice", "no")
    stopped = made(store, day, store.now()).due()
    assert stopped is not None
    assert stopped.stopped == "every agent is stopped"


def test_it_is_posted_once_a_day_and_channel(store, day) -> None:
    mine = made(store, day, store.now())
    one = mine.due()
    assert one is not None
    mine.posted(one)
    mine._next = 0
    assert mine.due() is None
    assert made(store, day, store.now()).due() is None, "another process"
    other = Digests(store, "other", day, mine.schedule)
    assert other.due() is not None
    assert [entry.event["day"] for entry in store.events(type="digest.posted")] == [one.day]
    assert store.verify().intact


def test_judgements_that_nobody_can_read_are_of_no_day(store, day) -> None:
    store.record(events.DECISION_EVALUATED, verdict="deny", rules=7)
    store.record(events.DECISION_EVALUATED, verdict="deny", rules=["r9"])
    found = digests.digest(store, day, "2026-03-10", store.now() - HOUR, store.now() + HOUR)
    assert (found.judged["deny"], found.denied_by) == (1, [("r9", 1)])


def test_it_says_that_there_was_more_also_where_something_came_after_the_day(store, day, monkeypatch) -> None:
    monkeypatch.setattr(digests, "MOST", 3)
    since, until = store.now() - HOUR, store.now() + HOUR
    for _ in range(3):
        store.record(events.DECISION_EVALUATED, verdict="allow", rules=["r1"])
    assert digests.digest(store, day, "2026-03-10", since, until).more
    assert digests.digest(store, day, "2026-03-10", since, store.now() - 1).more, "all that is looked at came later"
    monkeypatch.setattr(digests, "MOST", 50)
    assert not digests.digest(store, day, "2026-03-10", since, until).more


def test_a_hub_that_begins_late_leaves_it_out(store, day) -> None:
    assert made(store, day, store.now() - 5 * HOUR).due() is not None
    assert made(store, day, store.now() - 7 * HOUR).due() is None


def test_slack_takes_it_and_it_names_no_command(store, day) -> None:
    found = made(store, day, store.now()).due()
    assert found is not None
    body = message.summary(found)
    assert fake.message_errors(body.blocks) == []
    assert fake.pings(body.blocks) == []
    assert "make " not in str(body)
    assert body.text.startswith(f"Agents on {found.day}")


def test_names_in_it_are_only_text() -> None:
    from humanlayer_agent.channels.contract import DailyDigest

    rows = [("<!channel> *x* \u202e" + "y" * 200, 3)]
    body = message.summary(
        DailyDigest("2026-01-01", 0, 1, {"deny": 3}, {"expired": 1}, 0, None, None, rows, rows, rows, 2, "x", True)
    )
    assert fake.message_errors(body.blocks) == []
    assert fake.pings(body.blocks) == []
    assert "\u202e" not in str(body)
    assert "asked 1 time at least" in str(body.blocks[0])
