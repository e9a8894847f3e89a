"""The fixtures of tests/approvals: the store is where approvals are kept."""

from tests.approvals.conftest import (
    act,
    backend,
    clock,
    decide,
    draft,
    give,
    in_child,
    make_gate,
    path,
    postgres,
    pytest_generate_tests,
    run,
    store,
    use,
)

__all__ = [
    "act",
    "backend",
    "clock",
    "decide",
    "draft",
    "give",
    "in_child",
    "make_gate",
    "path",
    "postgres",
    "pytest_generate_tests",
    "run",
    "store",
    "use",
]
