"""The Claude Agent SDK: hooks that judge every call of a tool, Claude Code's own, those of MCP servers and sub-agents'.

    options = supervised(ClaudeAgentOptions(cwd="/srv/app"), Gate.from_config(agent="claude-code"))
    async with ClaudeSDKClient(options) as client: ...

A human who is asked is waited for in place. Claude Code runs what it runs by itself: it is judged as by `hla hook`, and
nothing of it is confined.
"""

import asyncio
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from humanlayer_agent.action import Action
from humanlayer_agent.adapters.tool_calls import ToolCalls, farewell, told
from humanlayer_agent.agents.async_gate import AsyncGate
from humanlayer_agent.agents.python_gate import Gate
from humanlayer_agent.approvals.model import Denial, Outcome, Permit
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.extras import lacks
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.tools.calls import NotACall, call_of

try:
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
except ImportError as error:
    raise ConfigError(lacks("The adapter for the Claude Agent SDK", "claude-agent-sdk", error)) from error

__all__ = ["supervised"]

AGENT = "claude-code"
PATIENCE_S = 7 * 24 * 3600.0
"""Seconds that Claude Code waits for an answer: more than any human is given, because afterwards it goes on without."""
SHELL = "CLAUDE_CODE_SHELL"
CHANGED = "something else changed a call after it was judged, and Claude Code made it so"
EDITED = "a command of Claude Code can't be changed here: reject it, and say what you want"
UNTOLD = "Claude Code did not say how it ended"


def supervised(options: Any, gate: Gate | AsyncGate) -> Any:
    """Return options with which each call of a tool is judged before Claude Code makes it.

    What may not run is denied with the reason; the others of the same message run. Where a human has stopped the run,
    Claude Code stops, and asks the model no more. What the policy says nothing of and does nothing by itself (lists of
    tasks, sub-agents, plans) is left to Claude Code's own permissions: what a sub-agent does, it does by calls.

    Args:
        options: `ClaudeAgentOptions`; they are not changed. Hooks in them stay.
        gate: the Gate of the run.
    """
    if not isinstance(options, ClaudeAgentOptions):
        raise ConfigError(f"options are ClaudeAgentOptions, and not {type(options).__name__}")
    hooks = _Hooks(gate)
    ours: dict[Any, Any] = {
        "PreToolUse": hooks.before,
        "PostToolUse": hooks.after,
        "PostToolUseFailure": hooks.after,
        "Stop": hooks.at_end,
    }
    own = options.hooks or {}
    matched = {
        event: [*own.get(event, []), HookMatcher(hooks=[hook], timeout=PATIENCE_S, on_failure="block")]
        for event, hook in ours.items()
    }
    bash = shutil.which("bash") or "/bin/bash"  # what is judged is bash, and runs as that
    return replace(options, hooks={**own, **matched}, env={**options.env, SUPERVISED: "1", SHELL: bash})


@dataclass
class _Use:
    """A permit that Claude Code uses."""

    permit: Permit
    given: Mapping[str, Any]
    began: float


class _Hooks:
    """The callbacks."""

    def __init__(self, gate: Gate | AsyncGate) -> None:
        self._calls = ToolCalls(gate)
        self._uses: dict[str, _Use] = {}  # by the id of the call

    async def before(self, question: Any, call: str | None, context: Any) -> dict[str, Any]:
        """Judge a call, and use its permit: it runs next."""
        try:
            action = self._action(question)
        except (NotACall, ValueError) as error:
            return _answer(Denial(str(error), by="policy"))
        if action is None:
            return {}
        answered = await self._calls.acheck(action)
        if isinstance(answered, Permit) and answered.action.content != action.content:
            self._calls.gate.store.void(answered.id, EDITED)
            answered = Denial(EDITED, by="human", decision=answered.decision, edited=answered.action.content)
        if isinstance(answered, Denial):
            return _answer(answered)
        denial = await asyncio.to_thread(self._calls.begin, answered, action)
        if denial is None:
            self._uses[str(call)] = _Use(answered, question["tool_input"], time.monotonic())
        return _answer(denial)

    async def after(self, question: Any, call: str | None, context: Any) -> dict[str, Any]:
        """Record how a call ended."""
        use = self._uses.pop(str(call), None)
        if use is None:
            return {}
        failed = question.get("error")
        await asyncio.to_thread(self._finish, use, Outcome(None, str(failed)[:500]) if failed else Outcome(0))
        if question["tool_input"] == use.given:
            return {}
        self._calls.gate.stop(CHANGED)
        return {"continue_": False, "stopReason": CHANGED}

    async def at_end(self, question: Any, call: str | None, context: Any) -> dict[str, Any]:
        """Record of what did not say how it ended that it did not."""
        for use in [self._uses.pop(each) for each in list(self._uses)]:
            await asyncio.to_thread(self._finish, use, Outcome(None, UNTOLD))
        return {}

    def _finish(self, use: _Use, outcome: Outcome) -> None:
        took = int((time.monotonic() - use.began) * 1000)
        self._calls.gate.finish(use.permit, replace(outcome, duration_ms=took))

    def _action(self, question: Mapping[str, Any]) -> Action | None:
        """A call as an action: the command that does the same where all of it is known, else the call. None where it
        does nothing by itself.
        """
        name, given = str(question["tool_name"]), question["tool_input"]
        call = call_of(AGENT, name, given)
        if call.kind == "leave":
            return None
        action = self._calls.gate.call(name, given, cwd=str(question["cwd"]))
        if call.kind in ("command", "touch") and not call.doubts and not call.unsandboxed:
            action = replace(action, content=call.text, type="bash", interpreter=("bash", "-lc"))
        return replace(action, agent=AGENT, subagent=str(question.get("agent_type") or ""))


def _answer(denial: Denial | None) -> dict[str, Any]:
    said = {"hookEventName": "PreToolUse", "permissionDecision": "allow" if denial is None else "deny"}
    if denial is None:
        return {"hookSpecificOutput": said}
    said["permissionDecisionReason"] = told(denial)
    stop = {"continue_": False, "stopReason": farewell()} if denial.terminate else {}
    return {"hookSpecificOutput": said, **stop}
