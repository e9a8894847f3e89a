"""The conditions on what surrounds an action: when it is, who started the run, and what is checked out.

What is not known of it is neither so nor not so: then such a condition may hold.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.word_patterns import TextSet
from humanlayer_agent.policy.language.policy import DAYS, Given, Repository, Texts, Time
from humanlayer_agent.shell import Checkout, Effect, SimpleCommand, places_asked

if TYPE_CHECKING:
    from humanlayer_agent.policy.conditions.compiler import Clause, Situation

_ZONES = ("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo")
_DAYS = DAYS.split("|")
_ALL_DAY = 24 * 60


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What surrounds an action. What is None is not known.

    Args:
        moment: when it is, in UTC.
        requester: who started the run.
        checkout: tells what is checked out in a directory, as `checkout_in` does.
    """

    moment: datetime | None = None
    requester: str | None = None
    checkout: Callable[..., Checkout] | None = None


UNKNOWN = Circumstances()
"""Nothing is known of what surrounds an action."""


def given(said: Given | None) -> Circumstances:
    """Return the circumstances that an example is given."""
    if said is None:
        return UNKNOWN
    there = Checkout(said.branch, said.remotes, said.clean)
    return Circumstances(moment(said.time or ""), said.requester, lambda *_, **__: there)


def moment(text: str) -> datetime | None:
    """Return the moment (UTC) that a text in ISO 8601 names; None where it names a day, or nothing.

    Example:
        >>> moment("2030-12-31T18:00:00Z").hour, moment("2030-12-31")
        (18, None)
    """
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if "T" in text else None
    except (ValueError, OverflowError):
        return None


def requester(texts: Texts) -> "Clause":
    """Return the clause on who started the run."""
    wanted = TextSet(texts)

    def judge(command: SimpleCommand, effect: Effect | None, situation: "Situation") -> int:
        return wanted.has(situation.around.requester)

    return judge


# ---- what is checked out --------------------------------------------------------------------------------


def repository(wanted: Repository, excuses: bool) -> "Clause":
    """Return the clause of `wanted`. Where it was read becomes part of what was judged.

    Args:
        excuses: something is let through by it: then every remote has to match.
    """
    branch = TextSet(wanted.branch) if wanted.branch is not None else None
    remote = TextSet(wanted.remote) if wanted.remote is not None else None
    settings, clean = remote is not None, wanted.clean is not None

    def holds(there: Checkout) -> int:
        value = YES
        if branch is not None:
            value = NO if there.branch == "" else branch.has(there.branch)
        if remote is not None and value != NO:
            told = [MAYBE] if there.remotes is None else [remote.has(each) for each in there.remotes]
            value = min(value, (min if excuses else max)(told, default=NO))
        if clean and value != NO:
            value = min(value, MAYBE if there.clean is None else YES if there.clean is wanted.clean else NO)
        return value

    def judge(command: SimpleCommand, effect: Effect | None, situation: "Situation") -> int:
        situation.asked = True
        places = places_asked(command, situation.commands or [command], settings=settings, clean=clean)
        if situation.around.checkout is None or not places:
            return MAYBE
        found = {holds(_checkout(place, situation, settings, clean)) for place in places}
        return found.pop() if len(found) == 1 else MAYBE

    return judge


def _checkout(place: str, situation: "Situation", settings: bool, clean: bool) -> Checkout:
    """What is checked out there, looked up once for an action."""
    key = place, settings, clean, situation.links.view
    found = situation.checkouts.get(key)
    if found is None:
        assert situation.around.checkout is not None
        found = situation.around.checkout(place, situation.links.view, remotes=settings, clean=clean)
        situation.checkouts[key] = found
        situation.files.update(found.files)
    return found


# ---- when it is -----------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def zone(name: str) -> ZoneInfo:
    """Return the time zone of a name, of the system's, whatever the environment says of where they are.

    Raises:
        ValueError: there is none.
    """
    for folder in _ZONES:
        try:
            with open(os.path.join(folder, name), "rb") as file:
                return ZoneInfo.from_file(file, name)
        except (OSError, ValueError):
            continue
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise ValueError(f"{name!r} is no time zone that this system knows (expected one as Europe/Berlin)") from None


def time(wanted: Time) -> "Clause":
    """Return the clause of `wanted`: a moment is read as the clocks of its time zone show it."""
    clock = zone(wanted.tz or "UTC")
    days = frozenset(day for each in wanted.days or _DAYS for day in _days(each))
    spans = [_span(each) for each in wanted.hours or ()]
    dates = [_dates(each) for each in wanted.dates] if wanted.dates is not None else None

    def is_on(day: date) -> bool:
        return day.weekday() in days and (dates is None or any(first <= day <= last for first, last in dates))

    @lru_cache(maxsize=64)
    def holds(at: datetime) -> int:
        here = at.astimezone(clock)
        today, minute = here.date(), here.hour * 60 + here.minute
        if not spans:
            return YES if is_on(today) else NO
        yesterday = today - timedelta(days=1)
        for start, end in spans:
            if start < end and start <= minute < end and is_on(today):
                return YES
            # Over midnight: what is left of a night belongs to the day on which it began.
            if start > end and ((minute >= start and is_on(today)) or (minute < end and is_on(yesterday))):
                return YES
        return NO

    def judge(command: SimpleCommand, effect: Effect | None, situation: "Situation") -> int:
        at = situation.around.moment
        situation.asked = True
        return MAYBE if at is None else holds(at)

    return judge


def _days(text: str) -> Sequence[int]:
    """The numbers of the days that `mon-fri`, or `fri-mon`, names."""
    first, _, last = text.partition("-")
    start, end = _DAYS.index(first), _DAYS.index(last or first)
    return range(start, end + 1) if start <= end else [*range(start, len(_DAYS)), *range(end + 1)]


def _span(text: str) -> tuple[int, int]:
    start, _, end = text.partition("-")
    return _minute(start), _minute(end)


def _minute(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def _dates(text: str) -> tuple[date, date]:
    first, _, last = text.partition("/")
    return date.fromisoformat(first), date.fromisoformat(last or first)
