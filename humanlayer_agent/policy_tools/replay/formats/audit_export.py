"""Our own export (`hla audit export`): `{"e": event, "h": hash}` a line. Decisions are replayed, with what was decided.

What ran is read first: what a denied command would have written is not there for later ones. Whether the export is
intact is not looked at here (`hla audit verify` does).
"""

import base64
import binascii
from datetime import UTC, datetime
from typing import Any

from humanlayer_agent.action import BASH
from humanlayer_agent.policy.language.policy import Given
from humanlayer_agent.policy_tools.replay.steps import Items, Rows, Step, Unreadable

NAME = "export of our audit log"
LOOKS = 'JSON lines with "e" and "h"'

_END_OF_TIME = 250_000_000_000_000
"""In ms; no log tells of what comes after."""
_MARK = "\u27e6hmac:"
"""How a redacted secret begins."""


def recognises(first: list[dict[str, Any]], whole: bool) -> bool:
    """Is this the beginning of such a file?"""
    return any(isinstance(row.get("e"), dict) and "h" in row for row in first)


def read(lines: Rows, source: str) -> Items:
    """The decisions, one by one."""
    ran: set[str] = set()
    for _, data in lines:
        event = data.get("e") if isinstance(data, dict) else None
        if isinstance(event, dict) and event.get("type") == "exec.started":
            ran.update(v for v in (event.get("permit"), event.get("request")) if isinstance(v, str))
    for place, data in lines:
        if isinstance(data, str):
            yield Unreadable(source, place, data)
            continue
        event = data.get("e")
        if not isinstance(event, dict):
            yield Unreadable(source, place, "no event")
        elif event.get("type") == "decision.evaluated":
            yield _decided(event, source, place, ran)


def _decided(event: dict[str, Any], source: str, place: str, ran: set[str]) -> Step | Unreadable:
    place, run = f"event {event.get('seq', place)}", str(event.get("run") or source)
    command, cwd = _text(event.get("command")), _text(event.get("cwd"))
    if command is None:
        return Unreadable(source, place, "the command can't be read", run=run)
    interpreter = event.get("interpreter")
    words = tuple(interpreter) if isinstance(interpreter, list) else BASH
    if not all(isinstance(word, str) for word in words):
        return Unreadable(source, place, "interpreter is not a list of words", run=run)
    project = _text(event.get("project"))
    return Step(
        source,
        place,
        run=run,
        id=str(event.get("seq", "")),
        command=command,
        cwd=cwd if cwd and cwd.startswith("/") else None,
        project=project if project and project.startswith("/") else None,
        ran=any(isinstance(id_, str) and id_ in ran for id_ in (event.get("permit"), event.get("request"))),
        verdict=str(event.get("verdict", "")),
        rule=str(event.get("rule") or ""),
        type="bash" if words[:1] == BASH[:1] else "function",
        interpreter=words,
        agent=_text(event.get("agent")) or "",
        redacted=_MARK in command,
        confined=event.get("confinable") is True,
        given=_given(event),
    )


def _given(event: dict[str, Any]) -> Given | None:
    """What surrounded it then, as far as the log says."""
    at = event.get("at")
    if type(at) is not int or not 0 <= at < _END_OF_TIME:
        return None
    return Given(time=datetime.fromtimestamp(at // 1000, UTC).isoformat())


def _text(value: Any) -> str | None:
    """A text as the log holds it: what was not Unicode as base64."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return None
    try:
        encoding = value["encoding"]
        if encoding not in ("surrogateescape", "surrogatepass"):
            return None
        return base64.b64decode(value["base64"], validate=True).decode("utf-8", encoding)
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
