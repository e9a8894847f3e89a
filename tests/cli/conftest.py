"""What the tests of commands share."""

import subprocess
from collections.abc import Iterator

import pytest

from humanlayer_agent.processes import identity


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The agent is another process than the one that the human's terminal descends from, which is us."""
    real = identity.identity
    with subprocess.Popen(["sleep", "600"]) as other:
        monkeypatch.setattr(identity, "identity", lambda pid=None: real(other.pid if pid is None else pid))
        yield
        other.kill()
