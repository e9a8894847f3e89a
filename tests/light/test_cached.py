"""What is worked out once."""

import pytest

from humanlayer_agent.light.cached import cached_property, lru_cache


def test_a_property_is_worked_out_once_and_is_then_in_the_object() -> None:
    class Thing:
        made = 0

        @cached_property
        def it(self) -> int:
            """The doc."""
            self.made += 1
            return self.made

    thing, other = Thing(), Thing()
    assert "it" not in thing.__dict__
    assert (thing.it, thing.it, other.it) == (1, 1, 1)
    assert thing.__dict__["it"] == 1
    assert Thing.it.__doc__ == "The doc."
    del thing.it
    assert thing.it == 2


def test_answers_are_remembered_up_to_a_bound() -> None:
    asked: list[tuple[int, int]] = []

    @lru_cache(maxsize=3)
    def added(a: int, b: int) -> int:
        """The doc."""
        asked.append((a, b))
        return a + b

    assert [added(1, 2), added(1, 2), added(2, 1)] == [3, 3, 3]
    assert asked == [(1, 2), (2, 1)]
    for n in range(20):
        assert added(n, 0) == n
    assert added(1, 2) == 3
    assert added.__doc__ == "The doc."


def test_an_error_is_not_remembered() -> None:
    @lru_cache(maxsize=3)
    def quotient(a: int) -> int:
        return 1 // a

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            quotient(0)
