"""The conditions on what surrounds an action: when it is, who started the run, what is checked out, and how
much was done before.

What is not known of it is neither so nor not so: then such a condition may hold.
"""

import json
import os
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.policy.conditions.dataflow import about_effects
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.word_patterns import TextSet
from humanlayer_agent.policy.language.policy import DAYS, Content, Given, Limit, Match, Repository, Texts, Time
from humanlayer_agent.shell import (
    ONCE,
    Checkout,
    Effect,
    SimpleCommand,
    View,
    has_other_root,
    is_otherwise_next_time,
    places_asked,
)

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
        content: tells the SHA-256 (hex) of what stands in a file; "" where there is none that can be read.
        used: tells how much of a counter, by its name, was used before, by "run", "hour" or "day".
        cost: what the action costs.
    """

    moment: datetime | None = None
    requester: str | None = None
    checkout: Callable[..., Checkout] | None = None
    content: Callable[[str, View], str] | None = None
    used: Callable[[str, str], int | None] | None = None
    cost: float | None = None


_WITHIN = {"run": ("run",), "hour": ("hour", "day"), "day": ("day",)}
"""The spans in which something is that was in a span."""
UNKNOWN = Circumstances()
"""Nothing is known of what surrounds an action."""


def given(said: Given | None) -> Circumstances:
    """Return the circumstances that an example is given."""
    if said is None:
        return UNKNOWN
    there = Checkout(said.branch, said.remotes, said.clean)
    before = said.used

    spans = _WITHIN.get(said.per or "", ("run", "hour", "day"))

    def used(counter: str, per: str) -> int:
        return (before or 0) * (per in spans) * (UNIT if counter.endswith(COST) else 1)

    return Circumstances(
        moment(said.time or ""),
        said.requester,
        lambda *_, **__: there,
        None if said.files is None else partial(_shown_content, dict(map(_shown_file, said.files))),
        used if before is not None else None,
        said.cost,
    )


def _shown_file(text: str) -> tuple[str, str]:
    path, _, digest = text.partition("=")
    return path, digest or sha256(path.encode()).hexdigest()


def _shown_content(files: Mapping[str, str], path: str, view: View) -> str:
    name = next((each for each in files if posixpath.normpath(path).endswith(f"/{each}")), None)
    return "" if name is None else files[name]


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
        value = found.pop() if len(found) == 1 else MAYBE
        if is_otherwise_next_time(command, clean=clean):  # how it is the first time, that time counts
            return min(value, MAYBE) if excuses else max(value, MAYBE)
        return value

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


# ---- what stands in files -------------------------------------------------------------------------------

_READ = frozenset({"operand", "option", "script"})
_WRITES = frozenset({"write", "append", "delete", "move", "metadata"})
_FOLLOWED = frozenset({"script", "import", "code"})
"""Roles of code whose effects stand beside it."""


def content(wanted: Content, excuses: bool) -> "Clause":
    """Return the clause of `wanted`. What it looks into becomes part of what was judged.

    Args:
        excuses: something is let through by it: then every file has to match.
    """
    roles = frozenset(wanted.role) if wanted.role is not None else _READ
    digests = frozenset(wanted.sha256) if wanted.sha256 is not None else None

    def judge(command: SimpleCommand, effect: Effect | None, situation: "Situation") -> int:
        situation.asked = True
        read = [e for e in command.effects if e.role in roles and (e.kind == "read" or e.role == "script")]
        unseen = NO if command.resolved else MAYBE
        found = [_content(each, command, situation) for each in read]
        value = YES
        if wanted.known is not None:
            all_known = min([MAYBE if each is None else YES if each else NO for each in found], default=NO)
            value = max(all_known, unseen) if all_known == NO and not read else all_known
            value = value if wanted.known else YES - value
        if digests is not None and value != NO:
            said = [MAYBE if each is None else YES if each in digests else NO for each in found]
            value = min(value, min([*said, YES - unseen], default=NO) if excuses else max([*said, unseen]))
            value = value if said or not excuses else NO
        return value

    return judge


def _content(effect: Effect, command: SimpleCommand, situation: "Situation") -> str | None:
    """The digest of what stands in the file of an effect; "" where that can't be read; None where nobody knows what it
    is by then.
    """
    path = effect.operand
    if situation.around.content is None or not effect.resolved or path is None or not path.startswith("/"):
        return None
    if has_other_root(command) or any(_may_write(e, path, situation) for e in situation.commands if e is not command):
        return None
    if effect.recursive or effect.pattern or effect.contents:
        return ""
    found = situation.files.get(path)
    if found is None:
        found = situation.files[path] = situation.around.content(path, situation.links.view)
    return found


def _may_write(command: SimpleCommand, path: str, situation: "Situation") -> bool:
    """Tell whether a command may make something else of a file, by whatever name it has."""
    if not command.resolved or not command.known or command.program == "git":
        return True
    for effect in command.effects:
        if effect.kind == "execute" and (effect.unread or effect.role not in _FOLLOWED):
            return True
        if (effect.kind, effect.role) == ("system", "device"):  # something may be mounted there
            return True
        unknown = not effect.resolved or "vcs" in effect.role
        if effect.kind in _WRITES and (unknown or _is_same(effect, path, situation)):
            return True
    return False


def _is_same(effect: Effect, path: str, situation: "Situation") -> bool:
    """Tell whether an effect may be one on a file: on one of its names, on what is above it, or on one of its links."""
    operand, links = effect.operand or "/", situation.links
    wanted = links.names(path)
    touched = links.names(operand)
    if any(one == "/" or one == two or two.startswith(f"{one}/") for one in touched for two in wanted):
        return True
    own = links.view.look(wanted[-1]).found
    if own is None or own.st_nlink < 2:
        return False
    found = links.view.look(touched[-1]).found
    return found is not None and (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)


# ---- how much was done ----------------------------------------------------------------------------------

COST = "-cost"
"""The end of the name of a counter of what actions cost."""
UNIT = 1_000_000
"""Costs are counted in millionths."""
_REPEATED = frozenset({"loop", "function", "trap"})
_LIST = re.compile(r"\$([a-z][a-z0-9_-]*)")


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """Counts what a condition matches, in the commands of an action.

    Args:
        name: the same for all that count the same.
        judge: the condition.
        by_effect: effects are counted, not commands.
        of_cost: what they cost is counted.
    """

    name: str
    judge: "Clause"
    by_effect: bool
    of_cost: bool

    def tally(self, situation: "Situation") -> "Tally":
        """Return how much an action adds, counted once for each way in which it is judged."""
        found = situation.tallies.get(self.name)
        if found is None:
            found = situation.tallies[self.name] = self._tally(situation)
        return found

    def _tally(self, situation: "Situation") -> "Tally":
        least = seen = 0
        known = situation.parse == "ok"
        for command in situation.commands:
            effects = command.effects if self.by_effect else []
            values = [self.judge(command, effect, situation) for effect in effects]
            matched = [effect for effect, value in zip(effects, values, strict=True) if value != NO]
            if not self.by_effect or self.judge(command, None, situation) == MAYBE:
                values.append(self.judge(command, None, situation))
            least += values.count(YES)
            hits = values.count(YES) + values.count(MAYBE)
            seen += hits
            often = not ONCE.issuperset(command.via) or not _REPEATED.isdisjoint(command.inside)
            often = often or (bool(matched) and any(each.startswith("-") for each in command.unresolved))
            often = often or any(e.in_code or e.role == "code" or not e.resolved or _of_many(e) for e in matched)
            known = known and not (hits and often) and MAYBE not in values
        if not self.of_cost:
            return Tally(least, seen, seen if known else None)
        cost = situation.around.cost
        if cost is None:
            return Tally(0, 0, None if seen or not known else 0)
        amount = round(cost * UNIT)
        return Tally(amount if least else 0, amount if seen else 0, amount if seen or not known else 0)


def _of_many(effect: Effect) -> bool:
    """Tell whether more of a host is asked for than is written: nobody knows how much."""
    return effect.kind == "network" and effect.recursive


@dataclass(frozen=True, slots=True)
class Tally:
    """How much an action adds to a counter: at least, as far as is seen, and at most (None: nobody knows)."""

    least: int
    seen: int
    most: int | None


def limit(
    wanted: Limit, lists: Mapping[str, Sequence[str]], compiled: Callable[[Match], "Clause"]
) -> "tuple[Clause, Counter]":
    """Return the clause of `wanted`, and what counts for it.

    Args:
        lists: that the condition may name.
        compiled: makes a clause of a condition.
    """
    assert wanted.of is not None
    per, cost = str(wanted.per), wanted.cost
    bound = round(cost * UNIT) if cost is not None else wanted.count or 0
    counter = Counter(
        _name(wanted.of, lists) + (COST if cost is not None else ""),
        compiled(wanted.of),
        about_effects(wanted.of),
        cost is not None,
    )

    def judge(command: SimpleCommand, effect: Effect | None, situation: "Situation") -> int:
        situation.asked = True
        tally, used = counter.tally(situation), situation.around.used
        if tally.most == 0:  # it adds nothing
            return NO
        before = used(counter.name, per) if used is not None else None
        if before is None:
            return YES if tally.least > bound else MAYBE
        if tally.least and before + tally.least > bound:
            return YES
        if tally.most is None or before + tally.most > bound:
            return MAYBE
        situation.bounds.add((counter.name, per, bound))
        return NO

    return judge, counter


def _name(of: Match, lists: Mapping[str, Sequence[str]]) -> str:
    """The name of what is counted: the same wherever it is said in the same words, with lists of the same entries."""
    text = json.dumps(asdict(of), sort_keys=True)
    named = dict.fromkeys(_LIST.findall(text))
    while more := [n for name in named for e in lists.get(name, ()) for n in _LIST.findall(e) if n not in named]:
        named.update(dict.fromkeys(more))
    entries = {name: list(lists[name]) for name in named if name in lists}
    return sha256(canonical([text, entries])).hexdigest()


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
