"""mini-swe-agent's trajectory as ATIF, with what supervision decided in `extra` of each tool call and each result."""

import json
import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harbor.agents.installed.mini_swe_agent import convert_mini_swe_agent_to_atif

from humanlayer_agent.agents.harbor import TRAJECTORY

logger = logging.getLogger("humanlayer_agent")


def save_as_atif(folder: Path, records: list[dict[str, Any]], session_id: str | None) -> Any:
    """Write `trajectory.json` beside mini's own trajectory. Returns it, or None where there is none to convert.

    Args:
        folder: the agent's logs.
        records: what became of each action, in order.
        session_id: Harbor's.
    """
    try:
        saved = json.loads((folder / TRAJECTORY).read_text())
    except (OSError, ValueError) as error:
        logger.warning("there is no trajectory to convert: %s", error)
        return None
    trajectory = convert_mini_swe_agent_to_atif(saved, session_id or uuid.uuid4().hex)
    with_verdicts(trajectory, saved, records)
    checked = type(trajectory).model_validate(trajectory.to_json_dict())
    (folder / "trajectory.json").write_text(json.dumps(checked.to_json_dict(), indent=2))
    return checked


def with_verdicts(trajectory: Any, saved: dict[str, Any], records: list[dict[str, Any]]) -> None:
    """Put each record with its action. Harbor's converter makes one step of each message of the model, in order."""
    left = iter(records)
    messages = (m for m in saved.get("messages") or [] if m.get("role") == "assistant" or m.get("object") == "response")
    for step, message in zip((s for s in trajectory.steps if s.source == "agent"), messages, strict=False):
        count = len((message.get("extra") or {}).get("actions") or [])
        calls = step.tool_calls or []
        results = step.observation.results if step.observation is not None else []
        for at, record in enumerate(_take(left, count)):
            extra = {"supervision": record}
            if at < len(calls):
                calls[at].extra = {**(calls[at].extra or {}), **extra}
            if at < len(results):
                results[at].extra = {**(results[at].extra or {}), **extra}
                if at < len(calls):
                    results[at].source_call_id = calls[at].tool_call_id


def _take(records: Iterator[dict[str, Any]], count: int) -> Iterator[dict[str, Any]]:
    for _, record in zip(range(count), records, strict=False):
        yield record
