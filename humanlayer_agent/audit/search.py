"""The search for events: by rule, verdict, person, text and time."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.errors import ConfigError

_AGO = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class Search:
    """The conditions on an event; None where one does not matter. Times are ms since the epoch."""

    rule: str | None = None
    verdict: str | None = None
    person: str | None = None
    text: str | None = None
    since: int | None = None
    until: int | None = None

    def __call__(self, entry: Entry) -> bool:
        """Tell whether `entry` is one of those. An event that can't be read is not."""
        try:
            return self._matches(entry.event)
        except (ValueError, TypeError, AttributeError):
            return False

    def _matches(self, event: dict[str, Any]) -> bool:
        at = event.get("at", 0)
        if (self.since is not None and at < self.since) or (self.until is not None and at >= self.until):
            return False
        if self.verdict is not None and event.get("verdict") != self.verdict:
            return False
        if self.rule is not None and self.rule not in event.get("rules", ()):
            return False
        if self.person is not None and not _is_by(event, self.person):
            return False
        return self.text is None or any(self.text.lower() in said.lower() for said in _texts(event))


def _is_by(event: dict[str, Any], person: str) -> bool:
    """Tell whether an event names somebody: by the id of a person, an identity, or the name of an OS user."""
    approver = event.get("approver")
    named = [event.get(name) for name in ("person", "by", "requester")]
    named.append(approver.get("principal") if isinstance(approver, dict) else None)
    named += by if isinstance(by := event.get("by"), list) else ()
    return any(isinstance(each, str) and (each == person or each.endswith(f":{person}")) for each in named)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def moment(text: str, now: int) -> int:
    """A moment in ms: a date, a date with a time (UTC where it names no zone), or how long ago.

    Raises:
        ConfigError: it is none.

    Example:
        >>> moment("1970-01-02", 0), moment("2h", 10_000_000)
        (86400000, 2800000)
    """
    if found := _AGO.fullmatch(text):
        return now - int(found[1]) * _SECONDS[found[2]] * 1000
    try:
        given = datetime.fromisoformat(text)
        return int((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{text!r} is no time: 2026-03-01, 2026-03-01T12:00, or 90m, 12h, 7d for how long ago"
        ) from None
