"""The search for events: by type, run, rule, verdict, person, fields, text and time."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from humanlayer_agent.audit.chain import Entry, said
from humanlayer_agent.errors import ConfigError

_AGO = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_CONDITION = re.compile(r"([a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*)(!?=)(.*)", re.DOTALL)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Condition:
    """A field of an event, inner ones after dots, that has this value, or has another one (`differs`).

    The value is written as JSON has it, a text without its quotes. A field that is not there has the value "".

    Example:
        >>> condition("approver.assurance!=terminal")({"approver": {"assurance": "login"}})
        True
        >>> condition("solo=true")({"solo": True}), condition("signer=")({})
        (True, True)
    """

    field: str
    value: str
    differs: bool = False

    def __call__(self, event: Any) -> bool:
        """Tell whether it holds of an event."""
        for name in self.field.split("."):
            event = event.get(name) if isinstance(event, dict) else None
        found = str(event).lower() if isinstance(event, bool) else said(event)
        return (found == self.value) is not self.differs

    def __str__(self) -> str:
        return f"{self.field}{'!=' if self.differs else '='}{self.value}"


def condition(text: str) -> Condition:
    """Read a condition as people write it: FIELD=VALUE, or FIELD!=VALUE.

    Raises:
        ConfigError: it is none.
    """
    if (found := _CONDITION.fullmatch(text)) is None:
        raise ConfigError(f"{text!r} is no condition: solo=true, approver.channel=slack, or signer!= for any but none")
    return Condition(found[1], found[3], differs=found[2] == "!=")


@dataclass(frozen=True, slots=True)
class Search:
    """The conditions on an event; None where one does not matter. Times are ms since the epoch.

    Args:
        kind: a type of events, or the family of some ("vote").
        where: what its fields have to be.
    """

    kind: str | None = None
    run: str | None = None
    request: str | None = None
    rule: str | None = None
    verdict: str | None = None
    person: str | None = None
    text: str | None = None
    since: int | None = None
    until: int | None = None
    where: tuple[Condition, ...] = ()

    def __call__(self, entry: Entry) -> bool:
        """Tell whether `entry` is one of those. An event that can't be read is not."""
        try:
            return self.matches(entry.event)
        except (ValueError, TypeError, AttributeError, RecursionError):
            return False

    def matches(self, event: dict[str, Any]) -> bool:
        """Tell the same of an event that was read."""
        if self.kind is not None and self.kind not in ((kind := event.get("type", "")), kind.partition(".")[0]):
            return False
        if any(
            wanted not in (None, event.get(name)) for name, wanted in (("run", self.run), ("request", self.request))
        ):
            return False
        at = event.get("at", 0)
        if type(at) is not int and (self.since, self.until) != (None, None):
            return False
        if (self.since is not None and at < self.since) or (self.until is not None and at >= self.until):
            return False
        if self.verdict is not None and event.get("verdict") != self.verdict:
            return False
        if self.rule is not None and self.rule not in event.get("rules", ()):
            return False
        if self.person is not None and not _is_by(event, self.person):
            return False
        if not all(each(event) for each in self.where):
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
        >>> moment("1970-01-02", 0), moment("2h", 10_000_000), moment("2026-11-02T09:00:00.123Z", 0)
        (86400000, 2800000, 1793610000123)
    """
    if found := _AGO.fullmatch(text):
        return now - int(found[1]) * _SECONDS[found[2]] * 1000
    try:
        given = datetime.fromisoformat(text)
        return ((given if given.tzinfo else given.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{text!r} is no time: 2026-03-01, 2026-03-01T12:00, or 90m, 12h, 7d for how long ago"
        ) from None
