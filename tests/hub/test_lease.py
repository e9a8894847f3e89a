"""The lease of a channel, as a hub holds it: long enough for a loaded machine, and not while the machine sleeps."""

from humanlayer_agent.hub import lease
from humanlayer_agent.hub.lease import Lease
from humanlayer_agent.processes import identity
from humanlayer_agent.store import heartbeats


class Clock:
    """Seconds that a test moves, awake or asleep; the store's clock stands still while this machine sleeps."""

    def __init__(self) -> None:
        self.awake = self.asleep = 0.0

    def __call__(self) -> float:
        return self.awake + self.asleep

    def of_the_store(self, db: object) -> tuple[str, int]:
        return "this machine", int(self.awake * 1000)


def test_who_is_late_by_twenty_seconds_still_holds_it(store, monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr(heartbeats, "clock", clock.of_the_store)
    one, other = Lease(store, "board", "one", monotonic=clock), Lease(store, "board", "other", monotonic=clock)
    assert one.keep()
    for _ in range(5):
        clock.awake += 20.0
        assert one.held
        assert not other.keep()
        assert one.keep()
    clock.awake += lease.TTL
    assert not one.held
    assert other.keep()
    assert not one.keep()
    assert len(list(store.events(type="lease.taken"))) == 2


def test_it_is_renewed_six_times_in_its_time(store, monkeypatch) -> None:
    clock, written = Clock(), []
    monkeypatch.setattr(heartbeats, "clock", clock.of_the_store)
    one = Lease(store, "board", "one", monotonic=clock)
    take = store.surfaces.take_lease
    monkeypatch.setattr(store.surfaces, "take_lease", lambda *about: written.append(about) or take(*about))
    while clock.awake < 10 * lease.TTL:
        assert one.keep()
        clock.awake += 0.5
    assert len(written) == 60


def test_a_machine_that_slept_has_lost_it_before_it_looks(store, monkeypatch) -> None:
    """Another machine has taken it meanwhile: by its own clock, as this one gave no sign of life."""
    clock = Clock()
    monkeypatch.setattr(heartbeats, "clock", clock.of_the_store)
    one = Lease(store, "board", "one", monotonic=clock)
    assert one.keep()
    clock.asleep += 3_600.0
    assert not one.held
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(identity, "lives", lambda process: None)
        for seconds in (0, lease.TTL):
            elsewhere.setattr(heartbeats, "clock", lambda db, seconds=seconds: ("another machine", int(seconds * 1000)))
            taken = store.surfaces.take_lease("board", "other", 30_000)
    assert taken
    assert not one.keep()
