"""Waiting ends where nothing moves any more, and not before."""

from itertools import count

import pytest

from humanlayer_agent.testing import patience
from humanlayer_agent.testing.patience import until


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE", 0.0)


def test_a_hang_says_what_never_came() -> None:
    with pytest.raises(AssertionError, match="never seen: the answer"):
        until(lambda: False, "the answer")


def test_a_hang_says_how_it_stands() -> None:
    with pytest.raises(AssertionError, match="never seen: 3 of 4"):
        until(lambda: False, lambda: "3 of 4")


def test_work_that_moves_on_is_waited_for() -> None:
    looks, done = count(), count()
    assert until(lambda: next(looks) > 20, "the end", progress=lambda: next(done))


def test_work_that_stands_still_is_a_hang() -> None:
    done = iter([1, 2, 3, 3])
    with pytest.raises(AssertionError, match="the end"):
        until(lambda: False, "the end", progress=lambda: next(done))
