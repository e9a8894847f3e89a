"""`for_each`: a table in one test."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def for_each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for every row of a table, as `pytest.mark.parametrize` does, but as one test.

    For long tables of small rows, which make no use of fixtures of their own (all share them): collecting a row as a
    test, in each worker, and setting it up takes longer than most rows do. Every row is tried, and each that does not
    hold is named with what was wrong.

    Example:
        >>> @for_each(("text", "length"), [("ls", 2), ("", 0)])
        ... def test_length(text, length): assert len(text) == length
    """
    named = tuple(each.strip() for each in names.split(",")) if isinstance(names, str) else names
    table = list(rows)

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def check(**fixtures: Any) -> None:
            assert table, "there is no row"
            wrong: list[tuple[Any, BaseException]] = []
            for row in table:
                try:
                    test(**fixtures, **dict(zip(named, row if len(named) > 1 else (row,), strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    wrong.append((row, error))
            if wrong:
                shown = "\n".join(f"{row!r}: {type(error).__name__}: {error}" for row, error in wrong[:20])
                raise AssertionError(f"{len(wrong)} of {len(table)} rows do not hold:\n{shown}") from wrong[0][1]

        signature = inspect.signature(test)
        others = [parameter for parameter in signature.parameters.values() if parameter.name not in named]
        check.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return check

    return decorate
