"""What counts as a deliberate key press."""

import pytest

from humanlayer_agent.channels.terminal.key_presses import ARMING, QUIET, KeyGuard


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def guard(clock):
    return KeyGuard(clock)


@pytest.fixture
def later(clock, guard):
    """So many seconds go by, and the prompt has looked: nothing waited to be read."""

    def later(seconds):
        clock.now += seconds
        guard.look()

    return later


def test_a_key_counts_only_after_the_arming_time(guard, later):
    later(ARMING * 0.9)
    assert not guard.armed
    assert not guard.deliberate(1)
    later(ARMING * 0.9)
    assert not guard.deliberate(1)  # the early key began the wait anew
    later(ARMING)
    assert guard.armed
    assert guard.deliberate(1)


def test_several_keys_in_one_read_never_count(guard, later):
    later(10)
    assert not guard.deliberate(2)
    assert not guard.armed
    later(ARMING)
    assert guard.deliberate(1)


def test_keys_that_follow_each_other_closely_do_not_count(guard, later):
    later(10)
    assert guard.deliberate(1)
    later(QUIET / 2)
    assert not guard.deliberate(1)
    for _ in range(50):  # a key that is held down
        later(QUIET / 3)
        assert not guard.deliberate(1)
    later(ARMING)
    assert guard.deliberate(1)


def test_a_clock_that_stands_still_never_arms(guard):
    assert not any(guard.deliberate(1) for _ in range(5))


def test_nor_does_one_that_nobody_looks_at(guard, clock):
    """A key that is read after this process was held up was pressed before the question could be seen."""
    clock.now += 10
    assert not guard.armed
    assert not guard.deliberate(1)
    clock.now += ARMING
    assert guard.look()
    assert not guard.look()
    assert guard.deliberate(1)
