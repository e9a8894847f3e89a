"""The judge of hooks, in this process: what it writes before it answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.hooks.judge import Judge, Options
from humanlayer_agent.hooks.questions import Question, Reply
from humanlayer_agent.store.sqlite import SQLiteStore


def asked(judge: Judge, project: Path, command: str, **more: Any) -> Reply:
    return called(judge, project, "Bash", {"command": command}, **more)


def called(
    judge: Judge, project: Path, tool: str, inputs: dict[str, Any], policy: str | None = None, **more: Any
) -> Reply:
    question = {"hook_event_name": "PreToolUse", "session_id": policy or "one", "cwd": str(project), "tool_name": tool}
    data = json.dumps({**question, "agent_type": "Explore", "tool_input": inputs}).encode()
    environ = {"CLAUDE_PROJECT_DIR": str(project), "CLAUDE_CODE_SHELL": "/bin/bash"}
    return judge.answer(Question(AGENTS["claude-code"], data), Options("tool", 50, policy), environ, **more)


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


@pytest.mark.parametrize(
    ("tool", "inputs", "bare", "named"),
    [
        ("TodoWrite", {"todos": []}, "none", "none"),
        ("Agent", {"prompt": "x", "subagent_type": "Explore"}, "none", "none"),
        ("WebSearch", {"query": "x"}, "none", "deny"),
        ("CronCreate", {"prompt": "deploy"}, "none", "ask"),
        ("CronCreate", {"prompt": "review"}, "none", "none"),
        ("Skill", {"skill": "deploy"}, "ask", "ask"),
        ("Skill", {"skill": "review"}, "ask", "none"),
        ("BrandNewTool", {"x": 1}, "ask", "ask"),
        ("mcp__forge__get_issue", {"repo": "acme/x"}, "ask", "none"),
        ("mcp__forge__get_issue", {"repo": "acme/y"}, "ask", "ask"),
        ("Write", {"file_path": "a.py", "content": "x"}, "none", "none"),
        ("Write", {"file_path": "uv.lock", "content": "x" * 3_000_000}, "none", "deny"),
        ("Bash", {"command": "ls"}, "allow", "allow"),
        ("Monitor", {"command": "ls"}, "none", "none"),
        ("Monitor", {"ws": {"url": "wss://example.org/x"}}, "ask", "ask"),
    ],
)
def test_rules_reach_every_call_and_what_nobody_knows_is_asked_about(
    project: Path, tool: str, inputs: dict[str, Any], bare: str, named: str
) -> None:
    policy = project.parent / "policy.yaml"
    policy.write_text(
        """
version: 1
policy: test
extends: [builtin:default]
rules:
  - {id: no-search, decision: deny, reason: No., when: {tool: WebSearch}}
  - {id: deploys, decision: ask, reason: Deploys., when: {tool: {name: CronCreate, args: {prompt: deploy*}}}}
  - {id: skills, decision: allow, reason: Read., when: {tool: {name: Skill, args: {skill: review}}}}
  - {id: reads, decision: allow, reason: Reads., when: {tool: {name: mcp__forge__get_*, args: {repo: acme/x}}}}
  - {id: locks, decision: deny, reason: No., when: {tool: {name: Write, args: {file_path: {within: "**/*.lock"}}}}}
"""
    )
    judge = Judge()
    assert called(judge, project, tool, inputs).verdict == bare
    assert called(judge, project, tool, inputs, str(policy)).verdict == named
    judge.close()


def test_the_log_says_which_tool_was_called_and_by_which_sub_agent(project: Path) -> None:
    judge = Judge()
    called(judge, project, "Write", {"file_path": "/etc/x", "content": "secret"})
    event = next(entry.event for entry in opened(judge).events() if entry.event["type"] == "decision.evaluated")
    assert (event["tool"], event["subagent"], event["command"]) == ("Write", "Explore", "> /etc/x")
    assert "secret" not in json.dumps(event)
    judge.close()
