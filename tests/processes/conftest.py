"""The fixtures of tests/agents."""

from tests.agents.conftest import ordinary_user, wait_for

__all__ = ["ordinary_user", "wait_for"]
