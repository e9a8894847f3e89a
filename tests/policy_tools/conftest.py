"""The fixtures of tests/policy."""

from tests.policy.conftest import director_of, judge

__all__ = ["director_of", "judge"]
