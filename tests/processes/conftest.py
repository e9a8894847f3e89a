"""The fixtures of tests/agents."""

from tests.agents.conftest import ordinary_user

__all__ = ["ordinary_user"]
