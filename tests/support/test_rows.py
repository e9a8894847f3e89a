"""A table in one test fails as its rows would."""

import inspect

import pytest

from tests.support.rows import for_each


def test_every_row_that_does_not_hold_is_named() -> None:
    tried = []

    @for_each("number, half", [(2, 1), (3, 1), (4, 2), (7, 3)])
    @for_each("sign", [1, -1])
    def check(number: int, half: int, sign: int, folder: str) -> None:
        tried.append((number, sign, folder))
        assert sign * half * 2 == sign * number

    assert list(inspect.signature(check).parameters) == ["folder"]
    with pytest.raises(AssertionError, match=r"2 of 4 rows do not hold:\n\(3, 1\): .*2 of 2 rows[^|]*\(7, 3\)"):
        check(folder="x")
    assert len(tried) == 8


def test_any_failure_is_one() -> None:
    @for_each("row", [1])
    def raises(row: int) -> None:
        raise KeyError(row)

    @for_each("row", [1])
    def fails(row: int) -> None:
        with pytest.raises(KeyError):
            int(row)

    @for_each("row", [])
    def never(row: int) -> None: ...

    for check in (raises, fails, never):
        with pytest.raises(AssertionError, match=r"1 of 1 rows|no row"):
            check()
