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


def test_a_key_counts_only_after_the_arming_time(guard, clock):
    clock.now += ARMING * 0.9
    assert not guard.armed
    assert not guard.deliberate(1)
    clock.now += ARMING * 0.9
    assert not guard.deliberate(1)  # the early key began the wait anew
    clock.now += ARMING
    assert guard.armed
    assert guard.deliberate(1)


def test_several_keys_in_one_read_never_count(guard, clock):
    clock.now += 10
    assert not guard.deliberate(2)
    assert not guard.armed
    clock.now += ARMING
    assert guard.deliberate(1)


def test_keys_that_follow_each_other_closely_do_not_count(guard, clock):
    clock.now += 10
    assert guard.deliberate(1)
    clock.now += QUIET / 2
    assert not guard.deliberate(1)
    for _ in range(50):  # a key that is held down
        clock.now += QUIET / 3
        assert not guard.deliberate(1)
    clock.now += ARMING
    assert guard.deliberate(1)


def test_a_clock_that_stands_still_never_arms(guard):
    assert not any(guard.deliberate(1) for _ in range(5))
