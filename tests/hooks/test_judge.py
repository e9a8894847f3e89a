"""The judge of hooks, in this process: what it writes before it answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.hooks.coding_agents import TOOLS, Reply
from humanlayer_agent.hooks.judge import Judge, Options, Question
from humanlayer_agent.store.sqlite import SQLiteStore


def asked(judge: Judge, project: Path, command: str, **more: Any) -> Reply:
    question = {"hook_event_name": "PreToolUse", "session_id": "one", "cwd": str(project), "tool_name": "Bash"}
    data = json.dumps({**question, "tool_input": {"command": command}}).encode()
    environ = {"CLAUDE_PROJECT_DIR": str(project), "CLAUDE_CODE_SHELL": "/bin/bash"}
    return judge.answer(Question(TOOLS["claude-code"], data), Options("tool", 50), environ, **more)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def opened(judge: Judge) -> SQLiteStore:
    return judge._store()


def test_one_durable_write_for_what_the_policy_allows(project: Path) -> None:
    judge = Judge()
    assert asked(judge, project, "ls").verdict == "allow"
    store = opened(judge)
    before = next(store.events(last=1)).seq
    said: list[str] = []
    with store.database.read() as connection:
        connection.set_trace_callback(said.append)
    assert asked(judge, project, "ls -l").verdict == "allow"
    connection.set_trace_callback(None)
    assert said.count("COMMIT") == 1
    types = [entry.event["type"] for entry in store.events(after=before)]
    assert types == ["decision.evaluated", "permit.consumed", "exec.started", "exec.finished"]
    judge.close()


def test_nothing_is_started_for_a_tool_that_no_longer_waits(project: Path) -> None:
    judge = Judge()
    asked(judge, project, "ls")
    store = opened(judge)
    before = next(store.events(last=1)).seq
    reply = asked(judge, project, "ls -l", gone=lambda: True)
    assert (reply.verdict, reply.reason) == ("deny", "the tool no longer waits")
    assert list(store.events(after=before)) == []
    judge.close()
