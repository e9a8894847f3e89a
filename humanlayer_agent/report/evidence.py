"""Evidence for named clauses of laws and standards: what the log shows for each, and by which command that is seen.

`maps` says as data which figures and records speak to which clause. Every figure is a search of the log, so that
`hla audit query` with the same options finds the very events that were counted. It says what was recorded, and never
that a clause is met.
"""

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal

from humanlayer_agent.audit.chain import Entry, said
from humanlayer_agent.audit.search import Condition, Search, condition
from humanlayer_agent.report.facts import Facts, Request, Wanted, moment_of
from humanlayer_agent.report.integrity import Integrity

MapName = Literal["eu-ai-act", "soc2", "iso42001"]
"""The maps that there are."""
RECORDS: Mapping[str, tuple[str, tuple[Search, ...]]] = {
    "human-decisions": ("What people decided, having seen what", (Search("request"), Search("vote.recorded"))),
    "identities": ("Whose answers counted, and how it is known who they are", (Search("vote.recorded"),)),
    "not-counted": ("Answers that did not count", (Search("vote.refused"), Search("vote.late"))),
    "refused": (
        "What did not run, although no person refused it",
        (
            Search("decision.evaluated", verdict="deny"),
            Search("decision.evaluated", where=(Condition("denied", "", differs=True),)),
            Search("request.expired"),
            Search("request.withdrawn"),
        ),
    ),
    "overrides": (
        "Overrides: only observed, changed, taken back, approved for more than once",
        (
            Search("decision.evaluated", where=(Condition("enforced", "false"),)),
            Search("request.superseded"),
            Search("request.revoked"),
            Search("grant"),
        ),
    ),
    "policies": ("Policies that judged", (Search("policy.loaded"),)),
    "stops": ("Stops of every agent", (Search("supervision"),)),
    "log": ("Events about the log itself", (Search("audit"), Search("key"), Search("retention"), Search("hold"))),
}
"""What a clause may refer to: its title, and the searches for the events that it is made of."""
NOTICE = (
    "This is evidence: what one log has recorded, arranged by the clauses that it speaks to. It says of no clause that "
    "it is met, and of no system that it conforms. Each figure is a count of events; the command beside it counts them."
)
_MAPS = Path(__file__).with_name("maps")


@dataclass(frozen=True, slots=True)
class Figure:
    """A count of events. `says` is what they are; `search` finds them."""

    name: str
    says: str
    search: Search


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause, in our own words.

    Args:
        about: what it asks for.
        shows: what of that is in a log.
        beyond: what no log can show of it.
        figures, records: the names of what speaks to it.
    """

    clause: str
    about: str
    shows: str
    beyond: str
    figures: tuple[str, ...]
    records: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Map:
    """The clauses of one law or standard. `of` is its full name, `applies` whom it is about."""

    name: str
    title: str
    of: str
    edition: str
    source: str
    applies: str
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody whose answers counted: by which channel, how it is known who that was, and signed with which key."""

    principal: str
    person: str
    channel: str
    assurance: str
    signer: str

    @property
    def search(self) -> Search:
        """The search for their answers."""
        where = (
            Condition("approver.principal", self.principal),
            Condition("approver.channel", self.channel),
            Condition("approver.assurance", self.assurance),
            Condition("person", self.person),
            Condition("signer", self.signer),
        )
        return Search(kind="vote.recorded", where=where)


@dataclass(slots=True)
class Evidence:
    """What a log shows for the clauses of one map.

    Args:
        facts: what the events tell.
        log: the options that name the log for `hla audit query`.
        counts: of each figure.
        identities: how many answers counted, by what is known of who gave them.
    """

    map: Map
    facts: Facts
    integrity: Integrity
    log: tuple[str, ...] = ()
    counts: Counter[str] = field(default_factory=Counter)
    identities: Counter[Identity] = field(default_factory=Counter)

    @property
    def figures(self) -> list[Figure]:
        """Each figure that a clause names, once."""
        known = figures()
        return [known[name] for name in dict.fromkeys(name for each in self.map.clauses for name in each.figures)]

    @property
    def since(self) -> int:
        """The first moment that it is about (ms)."""
        return next((at for at in (self.facts.wanted.since, self.facts.first) if at is not None), 0)

    @property
    def until(self) -> int:
        """The first moment after what it is about (ms): that of the last event, where no other was named."""
        if self.facts.wanted.until is not None:
            return self.facts.wanted.until
        return self.since if self.facts.last is None else self.facts.last + 1

    def command(self, search: Search) -> str:
        """Return the command that counts the events of a search."""
        return f"{self._query(search)} --format jsonl | wc -l"

    def record_commands(self, name: str) -> list[str]:
        """Return the commands that show the events which records are made of."""
        return [self._query(search) for search in RECORDS[name][1]]

    def _query(self, search: Search) -> str:
        options = [*(("--type", search.kind) if search.kind else ())]
        options += ("--verdict", search.verdict) if search.verdict else ()
        for each in search.where:
            options += ("--where", str(each))
        options += ("--run", self.facts.wanted.run) if self.facts.wanted.run else ()
        period = ("--since", moment_text(self.since), "--until", moment_text(self.until))
        return shlex.join(["hla", "audit", "query", *self.log, *options, *period])

    @property
    def records(self) -> list[str]:
        """The names of the records that a clause refers to."""
        return [name for name in RECORDS if any(name in each.records for each in self.map.clauses)]

    @property
    def who_answered(self) -> list[tuple[Identity, int]]:
        """Whose answers counted, and how many; most first."""
        return sorted(self.identities.items(), key=lambda each: (-each[1], astuple(each[0])))

    @property
    def human_decisions(self) -> list[Request]:
        """Every question that a person answered."""
        return [request for request in self.facts.requests.values() if request.votes]

    @property
    def overridden(self) -> list[Request]:
        """Every question at which a person changed the command, or took an approval back."""
        return [request for request in self.facts.requests.values() if request.state in ("edited", "revoked")]

    @property
    def unanswered(self) -> list[Request]:
        """Every question that ended without an answer."""
        ends = ("expired", "withdrawn", "run stopped")
        return [each for each in self.facts.requests.values() if not each.votes and each.state in ends]


def collected(
    name: MapName, wanted: Wanted, entries: Iterable[Entry], integrity: Integrity, log: Sequence[str] = ()
) -> Evidence:
    """Read the log once, and return what it shows for the clauses of a map.

    Args:
        wanted: which events count.
        entries: the whole log.
        integrity: what the verifier says of it; of an intact store, later events are left out.
        log: the options that name it for `hla audit query`.
    """
    made = Evidence(read_map(name), Facts(wanted), integrity, tuple(log))
    made.facts.collect(_counted(made, entries))
    return made


def _counted(made: Evidence, entries: Iterable[Entry]) -> Iterator[Entry]:
    """The entries as they come, each counted by the figures that it is one of."""
    wanted = made.facts.wanted
    by_type: defaultdict[str, list[Figure]] = defaultdict(list)
    for each in made.figures:
        search = replace(each.search, since=wanted.since, until=wanted.until, run=wanted.run)
        by_type[search.kind or ""].append(replace(each, search=search))
    for entry in entries:
        if not made.integrity.problem and entry.seq > made.integrity.last:
            return  # written after it was verified
        yield entry
        try:
            event = entry.event
            at, kinds = moment_of(event), ("", event["type"], event["type"].partition(".")[0])
            made.counts.update(f.name for kind in kinds for f in by_type.get(kind, ()) if f.search.matches(event))
            if event["type"] == "vote.recorded" and made.facts.wanted.has(event, at):
                made.identities[_identity(event)] += 1
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue  # the facts count it as unreadable


def _identity(event: Mapping[str, Any]) -> Identity:
    who = event.get("approver") or {}
    named = (who.get("principal"), event.get("person"), who.get("channel"), who.get("assurance"), event.get("signer"))
    return Identity(*map(said, named))


@cache
def figures() -> Mapping[str, Figure]:
    """Return all figures by their names."""
    found = {}
    for name, given in _loaded("figures").items():
        where = tuple(condition(each) for each in given.get("where", ()))
        search = Search(kind=given.get("type"), verdict=given.get("verdict"), where=where)
        found[name] = Figure(name, given["says"], search)
    return found


@cache
def read_map(name: MapName) -> Map:
    """Return a map by its name."""
    given = _loaded(name)
    clauses = tuple(
        Clause(**{**each, "figures": tuple(each["figures"]), "records": tuple(each["records"])})
        for each in given.pop("clauses")
    )
    return Map(name=name, clauses=clauses, **given)


def moment_text(ms: int) -> str:
    """Return a moment with its zone, as the commands take it.

    Example:
        >>> moment_text(1_793_610_000_123)
        '2026-11-02T09:00:00.123Z'
    """
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _loaded(name: str) -> dict[str, Any]:
    import yaml

    loaded: dict[str, Any] = yaml.safe_load((_MAPS / f"{name}.yaml").read_text(encoding="utf-8"))
    return loaded
