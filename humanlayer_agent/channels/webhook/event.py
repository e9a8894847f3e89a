"""Events about requests: CloudEvents 1.0 in JSON (https://github.com/cloudevents/spec), made safe to show.

They hold what every other channel shows, as data: no secrets, and no character that does something where it is shown.
They have no way to answer; `link` leads to the inbox, where whoever follows it logs in.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from humanlayer_agent.channels.concealment import conceal
from humanlayer_agent.channels.contract import Outcome
from humanlayer_agent.channels.presentation import Line, Presentation, present
from humanlayer_agent.safe_text import one_line, visible

MEDIA_TYPE = "application/cloudevents+json; charset=utf-8"
TYPE = "humanlayer-agent.request."
"""What the types of events about requests begin with."""
WARNING = "humanlayer-agent.break-glass"
"""The type of the one that is about none."""
SHOWN = 4_000
"""Characters of a command that an event holds whole: an event should stay below 20 kB (Standard Webhooks)."""
HEAD, TAIL = 2_000, 1_000
_TEXT, _ROWS = 600, 20

Kind = Literal["asked", "changed", "settled", "reminded", "told"]


def event(
    kind: Kind,
    outcome: Outcome,
    *,
    number: str,
    source: str,
    link: str,
    told: Sequence[str],
    at: int,
    more: Mapping[str, Any] | None = None,
) -> bytes:
    """One event.

    Args:
        kind: asked (first), changed (a vote, an escalation), settled (decided, or closed), reminded, told (how it
            went, once all is over).
        more: further data.
        number: tells events of one kind about one request apart; the same for the same.
        source: names the channel. link: to the inbox. told: ids of the people who are asked. at: now (ms).
    """
    made = {
        "specversion": "1.0",
        "id": event_id(kind, outcome, number),
        "source": source,
        "type": TYPE + kind,
        "subject": outcome.request.id,
        "time": _time(at),
        "datacontenttype": "application/json",
        "data": {**_data(outcome, link, told), **(more or {})},
    }
    return json.dumps(made, ensure_ascii=True).encode()


def warning(text: str, *, source: str, link: str, told: Sequence[str], at: int) -> tuple[str, bytes]:
    """Return an event that somebody acted outside of a route, and its id: the same for the same text."""
    id_ = f"warning-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:32]}"
    made = {
        "specversion": "1.0",
        "id": id_,
        "source": source,
        "type": WARNING,
        "time": _time(at),
        "datacontenttype": "application/json",
        "data": {"text": _cut(one_line(text)), "told": [one_line(each) for each in told], "link": link},
    }
    return id_, json.dumps(made, ensure_ascii=True).encode()


def event_id(kind: Kind, outcome: Outcome, number: str) -> str:
    """The same for the same event, however often it is sent."""
    return "-".join(("req", outcome.request.id, kind, *number.split()))


def _data(outcome: Outcome, link: str, told: Sequence[str]) -> Mapping[str, Any]:
    bare, erased = conceal(outcome.request)
    view = present(bare, erased=erased)
    command, stdin = _joined(view.command), _joined(view.stdin)
    whole = len(command) + len(stdin) <= SHOWN
    request = outcome.request
    made: dict[str, Any] = {
        "id": request.id,
        "state": request.ending if request.state != "pending" else "pending",
        "agent": _cut(view.agent),
        "wants": view.wants,
        "place": _rows(view.place),
        "command": command if whole else _clipped(command),
        "whole": whole,
        "reason": _cut(view.reason),
        "others": _rows(each.text for each in view.others),
        "warnings": _rows(_warnings(view)),
        "at_stake": _rows(view.radius),
        "effects": _rows(f"{each.verb} {', '.join(each.operands)}".strip() for each in view.effects),
        "suggestion": _cut(view.suggestion),
        "model_says": _cut(view.intent),
        "asked": [one_line(each) for each in told],
        "missing": outcome.missing,
        "asked_at": _time(request.created),
        "answer_by": _time(request.expires),
        "link": link,
    }
    if stdin:
        made["stdin"] = stdin if whole else _clipped(stdin)
    if not view.question:
        made |= {"severity": one_line(view.severity), "rule": one_line(view.rule)}
    if request.state != "pending":
        made |= {
            "by": one_line(outcome.by),
            "decided_at": _time(request.decided or request.expires),
            "comment": _cut(visible(bare.comment)),
        }
    return made


def _warnings(view: Presentation) -> Sequence[str]:
    return [*([view.unread] if view.unread else []), *view.warnings]


def _joined(lines: Sequence[Line]) -> str:
    return "\n".join("".join(fragment.text for fragment in line) for line in lines)


def _clipped(text: str) -> str:
    if len(text) <= HEAD + TAIL:
        return text
    return f"{text[:HEAD]}\n[... {len(text) - HEAD - TAIL} characters are not here ...]\n{text[-TAIL:]}"


def _rows(texts: Any) -> list[str]:
    rows = list(texts)
    more = [f"[... {len(rows) - _ROWS} more]"] if len(rows) > _ROWS else []
    return [*map(_cut, rows[:_ROWS]), *more]


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 4]} ..."


def _time(milliseconds: int) -> str:
    """A point in time as RFC 3339 has it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
