"""How much is tried: `make test` takes minutes, `make test-all` what CI runs, `make soak` hours."""

import os
from collections import defaultdict
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import pytest


def _said(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


SOAK = _said("HLA_SOAK")
ALL = SOAK or _said("HLA_ALL")


def examples(all: int, soak: int | None = None) -> int:
    """Return how many examples hypothesis shall try.

    Args:
        all: in `make test-all`; `make test` tries a fifth of them, at least ten.
        soak: in `make soak`, where that is more.
    """
    if SOAK and soak:
        return soak
    return all if ALL else min(all, max(10, all // 5))


def some(all: int, here: int, soak: int | None = None) -> int:
    """Return how many of something a test shall try: `all` in `make test-all`, `here` in `make test`."""
    return soak if SOAK and soak else all if ALL else here


def seeds(all: int, here: int, soak: int | None = None) -> list[Any]:
    """Return the rows for a test that tries another part each time: those that `make test` leaves out are `long`."""
    return [pytest.param(n, marks=() if n < here else pytest.mark.long) for n in range(soak if SOAK and soak else all)]


def long_forms(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return what `make test` leaves out: what is marked `long`, and of a test that is marked `sample(n)` all but n cases."""
    left_out = {item for item in items if item.get_closest_marker("long")}
    cases = defaultdict(list)
    for item in items:
        if item not in left_out and (mark := item.get_closest_marker("sample")):
            cases[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    for (_, here), found in cases.items():
        kept = {found[number * len(found) // here] for number in range(here)} if here < len(found) else set(found)
        left_out.update(item for item in found if item not in kept)
    return left_out


def policies(names: Iterable[str]) -> list[Any]:
    """Return the rows for a test of each shipped policy: `make test` takes default alone."""
    return [name if name == "default" else pytest.param(name, marks=pytest.mark.long) for name in names]


def load_profile() -> None:
    """No example has a deadline and none may be too slow: how long one takes says how busy the machine is."""
    if find_spec("hypothesis") is None:
        return  # an environment for one test, such as that of mini-swe-agent 1
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "humanlayer-agent",
        settings.get_profile("ci" if _said("CI") else "default"),  # in CI: the same examples each time
        max_examples=examples(100),
        deadline=None,
        print_blob=True,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            # A fixture is made once for all examples of a test: what they write goes to one place, and is meant to.
            HealthCheck.function_scoped_fixture,
        ],
    )
    settings.load_profile("humanlayer-agent")
