"""The part of a store that may be deleted: settled, old, in an export, and not held. The log alone says so.

`hla audit purge` deletes by it, and the verifier, when it hears of that, finds by the same what has to be gone: no list
of what was deleted has to be kept, and nothing else can be missing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from humanlayer_agent.approvals.holds import Held

_OVER = frozenset({"rejected", "answered", "expired", "withdrawn", "superseded", "terminated"}) | frozenset(
    {"revoked", "lapsed", "invalidated"}
)


FORM, HELD_FORM = 1, 2
"""Of a deletion without holds, and of one with, which `hla` of before there were holds does not know.

Of what follows: a log that says what was deleted by it must be read by the same, whatever later versions do."""


@dataclass(slots=True)
class Told:
    """The log's account of one row, and the last event that gave it: its number, and when (ms); `first` is when the
    first one did.
    """

    seq: int
    fields: dict[str, Any] = field(default_factory=dict)
    at: int = 0
    first: int = 0


Tables = Mapping[str, dict[str, Told]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a deletion: rows are old (their last event was before this moment, in ms), and exported (that is no
    later event than this); `held` says what stays all the same.
    """

    before: int
    through: int
    held: tuple[Held, ...] = ()

    def hold(self, told: Told) -> bool:
        return told.at < self.before and told.seq <= self.through

    def keep(self, told: Told) -> bool:
        """Tell whether a legal hold keeps it."""
        run = str(told.fields.get("run", ""))
        return any(each.keeps(run, told.first, told.at) for each in self.held)


@dataclass(frozen=True, slots=True)
class Settled:
    """Ids of requests, of their votes, and of permits, with or without a request, whose executions go with them."""

    requests: frozenset[str]
    votes: frozenset[str]
    permits: frozenset[str]


def settled(told: Tables, bounds: Bounds) -> Settled:
    """Return everything that may go, of all that the log tells.

    A request goes with its votes, its permit and its execution, and with the requests that edits have made of it: all
    of them or none, and one that a grant was given with only once that is over. A permit of the policy's own goes once
    its execution has ended, or its run has.
    """
    votes = _by_request(told["vote"])
    used = _by_request(told["permit"])
    done = {id_ for id_, request in told["request"].items() if _is_done(id_, request, used.get(id_, ()), told, bounds)}
    done -= {id_ for id_ in done if not all(bounds.hold(told["vote"][vote]) for vote in votes.get(id_, ()))}
    requests = frozenset(id_ for family in _families(told["request"]) if family <= done for id_ in family)
    permits = {permit for id_ in requests for permit in used.get(id_, ())}
    for id_, permit in told["permit"].items():
        ours = not permit.fields.get("request") and not bounds.keep(permit)
        if ours and bounds.hold(permit) and _is_used_up(id_, permit, told, bounds):
            permits.add(id_)
    return Settled(requests, frozenset(vote for id_ in requests for vote in votes.get(id_, ())), frozenset(permits))


def _is_done(request_id: str, request: Told, permits: Iterable[str], told: Tables, bounds: Bounds) -> bool:
    if not bounds.hold(request) or bounds.keep(request):
        return False
    grant = told["grant"].get(request_id)
    if grant is not None and not (bounds.hold(grant) and grant.fields["until"] < bounds.before):
        return False
    if request.fields.get("state") in _OVER:
        return not permits
    used = [(permit, told["permit"][permit]) for permit in permits]
    return bool(used) and all(bounds.hold(each) and _has_ended(id_, told, bounds) for id_, each in used)


def _is_used_up(permit_id: str, permit: Told, told: Tables, bounds: Bounds) -> bool:
    if permit.fields.get("state") == "consumed":
        return _has_ended(permit_id, told, bounds)
    run = told["run"].get(permit.fields.get("run", ""))
    return run is not None and run.fields.get("state") in ("finished", "lost") and bounds.hold(run)


def _has_ended(permit_id: str, told: Tables, bounds: Bounds) -> bool:
    execution = told["execution"].get(permit_id)
    return execution is not None and execution.fields.get("state") != "started" and bounds.hold(execution)


def _by_request(rows: Mapping[str, Told]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for id_, row in rows.items():
        if request := row.fields.get("request"):
            found.setdefault(request, []).append(id_)
    return found


def _families(requests: Mapping[str, Told]) -> Iterable[set[str]]:
    """Requests and what edits have made of them."""
    families: dict[str, set[str]] = {}
    for id_, request in requests.items():  # a parent is told of before its child
        parent = request.fields.get("parent") or ""
        family = families.get(parent, set())
        family.add(id_)
        families[id_] = family
    return {id(family): family for family in families.values()}.values()
