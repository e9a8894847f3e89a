"""The one place that decides who may decide what: people, the rules of routes, and whose signatures count.

Nothing here reads a file: whoever loads a configuration builds an `Authority` from it, and `Authority.alone` is what
holds where there is none.
"""

import os
import posixpath
import string
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from humanlayer_agent.action import Action
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import PolicyDecision

if TYPE_CHECKING:
    from humanlayer_agent.approvals.absences import Absence

ASSURANCES: Mapping[str, int] = MappingProxyType(
    {"os": 0, "mail-reply": 1, "chat": 2, "mail-link": 2, "login": 3, "terminal": 4}
)
"""How an identity was established, and how far that is trusted: a greater rank is trusted further."""

_FLOORS = {"low": "os", "medium": "os", "high": "chat", "critical": "login"}
"""The least assurance by severity, whatever a route says. An unknown severity counts as critical."""

_RAISED = frozenset({"name", "quorum", "min_assurance", "also"})
"""What a decision may say of its route besides naming it; both figures may only be raised. `also` are the routes of
other rules that ask: of these, the figures count."""

GROUP = "group:"
"""What the id of a group begins with that somebody else keeps; nothing else's id may."""

GLASS = "break-glass"
"""The channel of who answers outside of a route: one of those who are named for emergencies (`Authority.glass`)."""

GROUP_KINDS: Mapping[str, str] = MappingProxyType({"slack-usergroup": "slack"})
"""Kinds of identities that are groups, and the kind of those who are in them."""

_GROUP_SEVERITIES = frozenset({"low", "medium"})
"""Where being in a group suffices: ordinary members of a workspace can often change who is in it."""

_BEST: Mapping[str, str] = MappingProxyType({"os": "terminal", "slack": "chat", "email": "login", "app": "login"})
"""The greatest assurance that an identity of a kind can ever be known with."""

_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

_LAST_MS = 253_402_300_799_000
"""The end of the last year that a calendar has."""

_MANY = 1_000
"""So many people may be in a group: nobody here knows who they are."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who may be asked, by stable identities.

    An identity is `os:UID`, `os:UID:NAME` or `os:NAME` (a user of this machine), `slack:TEAM/USER`, `email:ADDRESS`, or
    `app:NAME` (a user of a program that embeds a Gate, as that knows them).

    A group that somebody else keeps stands among the people too: its id begins with `GROUP`, its one identity is
    `slack-usergroup:TEAM/GROUP`, and an answer counts for it where the channel has just verified that whoever gave it
    is in it (`Approver.groups`).

    Example:
        >>> Person("alice", ("os:alice", "slack:T012AB/U034CD", "email:alice@example.com")).id
        'alice'
    """

    id: str
    identities: tuple[str, ...]

    @property
    def is_group(self) -> bool:
        return self.id.startswith(GROUP)


@dataclass(frozen=True, slots=True)
class StandIn:
    """Who answers (`person`) in the place of somebody who is away (`absent`) until a time (ms)."""

    absent: str
    person: str
    until: int


@dataclass(frozen=True, slots=True)
class Removal:
    """Somebody who has left, as the event with the number `seq` of a store's log says.

    Nothing counts any more that they say under any of `identities`, and nothing that one of `keys` has signed, whoever
    is said to have said it.
    """

    person: str
    identities: tuple[str, ...]
    keys: frozenset[str]
    seq: int
    at: int = 0

    def is_about(self, principal: str) -> bool:
        """Tell whether it is they who act as `principal`."""
        return any(_names(identity, principal) for identity in self.identities)


@dataclass(frozen=True, slots=True)
class OnCall:
    """The place that says who is on call: a file, or a command with its arguments; one of them is empty."""

    file: str = ""
    command: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"on_call {self.file or ' '.join(self.command)}"


@dataclass(frozen=True, slots=True)
class Step:
    """One audience of a route: the channel it is reached by, when it is asked, and who of the approvers it is.

    `approvers` says who is told there ((): all of the rule's), and `on_call` which of these it is now; who may decide
    is the rule's alone.
    """

    to: str
    after_ms: int = 0
    approvers: tuple[str, ...] = ()
    on_call: OnCall | None = None


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """The conditions under which a request is approved: who may, how many of them, how surely they are known.

    Args:
        name: of the route.
        approvers: ids of the people who may decide; with `solo` (): only who started the run.
        quorum: how many different people must approve.
        solo: whether the person who started the run may be one of them.
        min_assurance: the least assurance that counts (see `ASSURANCES`).
        usergroup_high: whether groups that ordinary members can edit may decide where the severity is high.
        by_group: whether being in such a group suffices; `Authority.rule_for` says no where too much is at stake.
        timeout_ms: how long to wait; then it is denied.
        valid_for_ms: how long an approval may wait to be used.
        steps: who is asked when.
        slow_down_ms: who has approved the last two of high severity quicker than this must type what the next is about;
            0: nobody must.
        second_after: who has approved so many requests within an hour needs one more person for each further one; 0:
            nobody does.
        stand_ins: who of the approvers is one only in the place of somebody who is away.

    Raises:
        ConfigError: it could never be met, or says nothing sensible.
    """

    name: str
    approvers: tuple[str, ...]
    quorum: int = 1
    solo: bool = False
    min_assurance: str = "os"
    usergroup_high: bool = False
    timeout_ms: int = 3_600_000
    valid_for_ms: int = 60_000
    steps: tuple[Step, ...] = ()
    by_group: bool = True
    slow_down_ms: int = 0
    second_after: int = 0
    stand_ins: tuple[StandIn, ...] = ()

    def __post_init__(self) -> None:
        people = head_count(self.approvers) or int(self.solo)
        if type(self.quorum) is not int or self.quorum < 1:
            raise ConfigError(f"route {self.name}: quorum must be a number from 1, not {self.quorum!r}")
        if self.quorum > people:
            raise ConfigError(f"route {self.name}: {self.quorum} approvals can't come from {people} people")
        if self.min_assurance not in ASSURANCES:
            known = ", ".join(ASSURANCES)
            raise ConfigError(f"route {self.name}: min_assurance {self.min_assurance!r} is not one of {known}")
        if self.second_after and self.quorum >= people:
            raise ConfigError(f"route {self.name}: second_after needs more approvers than the quorum, a second person")
        if min(self.slow_down_ms, self.second_after) < 0:
            raise ConfigError(f"route {self.name}: slow_down and second_after can't be negative")
        if min(self.timeout_ms, self.valid_for_ms) <= 0:
            raise ConfigError(f"route {self.name}: timeout and valid_for must be positive")
        for step in self.steps:
            if strangers := set(step.approvers) - set(self.approvers):
                raise ConfigError(f"route {self.name}, step {step.to}: {min(strangers)} is not one of its approvers")

    def takes(self, assurance: str) -> bool:
        """Tell whether an answer counts whose giver is known with this assurance.

        Example:
            >>> ApprovalRule("default", ("alice",), min_assurance="chat").takes("os")
            False
        """
        return ASSURANCES.get(assurance, -1) >= ASSURANCES[self.min_assurance]

    def with_stand_in(self, one: StandIn) -> "ApprovalRule":
        """Return the rule with one person in the place of another, wherever that one is named.

        Raises:
            ConfigError: so it could never be met.
        """

        def instead(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(dict.fromkeys(one.person if name == one.absent else name for name in names))

        steps = tuple(replace(step, approvers=instead(step.approvers)) for step in self.steps)
        return replace(self, approvers=instead(self.approvers), steps=steps, stand_ins=(*self.stand_ins, one))

    def without(self, gone: Collection[str]) -> "ApprovalRule":
        """Return the rule without these people. A step that told nobody else tells everybody who is left.

        Raises:
            ConfigError: so it could never be met.
        """
        if not (named := set(self.approvers) & set(gone)):
            return self
        if named == set(self.approvers):  # an empty list would mean whoever started the run
            raise ConfigError(f"route {self.name}: everybody who could approve has left")

        def left(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name for name in names if name not in named)

        steps = tuple(replace(step, approvers=left(step.approvers)) for step in self.steps)
        return replace(self, approvers=left(self.approvers), steps=steps)

    def due(self, elapsed_ms: int, level: int = 0) -> tuple[Step, ...]:
        """The steps that are to be asked by now, in order.

        Args:
            elapsed_ms: since the request was made.
            level: how many an escalation has made due in any case.
        """
        ordered = sorted(self.steps, key=lambda step: step.after_ms)
        by_time = sum(step.after_ms <= elapsed_ms for step in ordered)
        return tuple(ordered[: max(by_time, level)])


@dataclass(frozen=True, slots=True)
class Routing:
    """Which route the name "default" means for some requests: all that is said must be so, and something is said.

    Args:
        route: the name of the route.
        projects: folders; a project is one of them, or below one. agents: patterns of names (`*`, `?`).
        severities: low, medium, high, critical.

    Example:
        >>> Routing("payments", projects=("/srv/pay",)).fits("medium", project="/srv/pay/api", agent="docs")
        True
    """

    route: str
    projects: tuple[str, ...] = ()
    severities: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()

    def fits(self, severity: str, *, project: str, agent: str) -> bool:
        """Tell whether a request is one of those."""
        return (
            (not self.projects or any(_is_below(project, each) for each in self.projects))
            and (not self.severities or severity in self.severities)
            and (not self.agents or any(fnmatchcase(agent, each) for each in self.agents))
        )


def _is_below(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or below it, as they are written."""
    below, above = (posixpath.normpath(each).rstrip("/") + "/" for each in (path or ".", folder))
    return below.startswith(above)


def _nobody(authority: "Authority") -> Sequence["Absence"]:
    return ()


def _nobody_left() -> Sequence[Removal]:
    return ()


def _none_withdrawn(fingerprint: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Authority:
    """The people, what it takes to approve, and whose signatures count.

    Args:
        people: everybody who is known.
        routes: rules by name; "default" is the one a policy means where it names none.
        signers: fingerprints of the keys that may sign votes (`signing.Signer.fingerprint`).
        routing: which other route is meant where a policy names none; the first that fits counts.
        away: reads who is away now, as far as this authority counts it (`Absences.standing`).
        left: reads who has left (`People.left`).
        glass: ids of the people of whom two together may approve, or lift a stop, outside of any route.
        withdrawn: tells whether one of the signers does not count any more (`FleetSigners.withdrawn`).

    Raises:
        ConfigError: an approver who is nobody, two people of one identity, a route under another's name.

    Example:
        >>> alice = Person("alice", ("os:1000",))
        >>> Authority((alice,), {"default": ApprovalRule("default", ("alice",))}).person_of("os:1000:alice").id
        'alice'
    """

    people: tuple[Person, ...]
    routes: Mapping[str, ApprovalRule]
    signers: frozenset[str] = frozenset()
    routing: tuple[Routing, ...] = ()
    away: Callable[["Authority"], Sequence["Absence"]] = field(default=_nobody, compare=False, repr=False)
    left: Callable[[], Sequence[Removal]] = field(default=_nobody_left, compare=False, repr=False)
    glass: tuple[str, ...] = ()
    withdrawn: Callable[[str], bool] = field(default=_none_withdrawn, compare=False, repr=False)

    def __post_init__(self) -> None:
        people: Iterable[Person] = self.people.values() if isinstance(self.people, Mapping) else self.people
        object.__setattr__(self, "people", tuple(people))
        object.__setattr__(self, "routes", MappingProxyType(dict(self.routes)))
        object.__setattr__(self, "signers", frozenset(self.signers))
        ids = [person.id for person in self.people]
        if "" in ids or len(set(ids)) != len(ids):
            raise ConfigError("each person needs an id of their own")
        for person in self.people:
            groups = [identity for identity in person.identities if _member_kind(identity)]
            if len(groups) != int(person.is_group) or (person.is_group and len(person.identities) != 1):
                raise ConfigError(f"{person.id}: a group is called {GROUP}NAME, and has one identity, that of a group")
        owners: dict[str, str] = {}
        for person in self.people:
            for identity in map(_normal, person.identities):
                if (owner := owners.setdefault(identity, person.id)) != person.id:
                    raise ConfigError(f"{identity} can't be both {owner} and {person.id}")
        named = [person.id for person in self.people if person.id in self.glass and not person.is_group]
        if self.glass and (len(named) < 2 or set(self.glass) != set(named)):
            raise ConfigError("break_glass: name two of the people at least, each by themselves and no group")
        for name, rule in self.routes.items():
            if rule.name != name:
                raise ConfigError(f"route {name}: its rule is that of {rule.name!r}")
            if strangers := set(rule.approvers) - set(ids):
                raise ConfigError(f"route {name}: approver {min(strangers)!r} is not one of the people")
        if unknown := {each.route for each in self.routing} - set(self.routes):
            raise ConfigError(f"routing names the route {min(unknown)!r}, and there is none")

    @classmethod
    def alone(cls, requester: str, *also: str, timeout_ms: int = 600_000, valid_for_ms: int = 60_000) -> Self:
        """Return the authority that holds without any configuration: one person, who started the run and may answer,
        and one route.

        Args:
            requester: the principal who started the run: the OS user.
            also: further principals that are the same person.
            timeout_ms, valid_for_ms: see `ApprovalRule`.

        Example:
            >>> Authority.alone("os:1000:alice").routes["default"].solo
            True
        """
        name = _os_user(requester.removeprefix("os:"))[2] if requester.startswith("os:") else ""
        one = Person(name or requester, tuple(dict.fromkeys((requester, *also))))
        rule = ApprovalRule("default", (one.id,), solo=True, timeout_ms=timeout_ms, valid_for_ms=valid_for_ms)
        return cls((one,), {"default": rule})

    def trusting(self, fingerprint: str) -> "Authority":
        """The same, and votes signed with this key count too: for the key of this very process, and only inside it."""
        return replace(self, signers=self.signers | {fingerprint})

    def limited_to(self, fingerprints: Iterable[str]) -> "Authority":
        """The same, and of its signers only these."""
        return replace(self, signers=self.signers.intersection(fingerprints))

    def heeding(self, away: Callable[["Authority"], Sequence["Absence"]]) -> "Authority":
        """The same, and those are asked in the place of whoever is away whom they have named (`Absences.standing`)."""
        return replace(self, away=away)

    def without(self, left: Callable[[], Sequence[Removal]]) -> "Authority":
        """The same, and nobody counts who has left (`People.left`), nor any key of theirs."""
        return replace(self, left=left)

    def trusts(self, fingerprint: str) -> bool:
        """Tell whether what this key has signed counts."""
        if fingerprint not in self.signers or self.withdrawn(fingerprint):
            return False
        return not any(fingerprint in each.keys for each in self.left())

    def person_of(self, principal: str) -> Person | None:
        """Return the person who acts as `principal`; None for a stranger, for a group, and where two people might be
        meant.
        """
        if type(principal) is not str or self.has_left(principal):
            return None
        found = [person for person in self.people if any(_names(each, principal) for each in person.identities)]
        return found[0] if len(found) == 1 and not found[0].is_group else None

    def deciders(self) -> tuple[Person, ...]:
        """Return the people who may decide anything by any route, or outside of them, and have not left."""
        named = {who for rule in self.routes.values() for who in rule.approvers} | set(self.glass)
        gone = {each.person for each in self.left()}
        return tuple(each for each in self.people if each.id in named - gone and not each.is_group)

    def has_left(self, principal: str) -> bool:
        """Tell whether `principal` is somebody who has left, by an identity that was known then or stands here."""
        for each in self.left():
            known = (name for person in self.people if person.id == each.person for name in person.identities)
            if each.is_about(principal) or any(_names(identity, principal) for identity in known):
                return True
        return False

    def group_of(self, rule: ApprovalRule, principal: str, groups: Iterable[str]) -> Person | None:
        """The group by which `principal` is one of the approvers of `rule`; None where there is none.

        Args:
            groups: the group identities that the channel has just verified `principal` to be in.
        """
        if self.has_left(principal):
            return None
        verified = frozenset(groups)
        known = (each for each in self.people if each.is_group and each.id in rule.approvers)
        mine = (each for each in known if verified.intersection(each.identities))
        return next((each for each in mine if principal.startswith(_members(each))), None)

    def for_glass(self, principal: str, assurance: str) -> Person | None:
        """Return the person who may be one of two who act outside of any route; None where they may not: it takes a
        terminal of their own.
        """
        known = self.person_of(principal)
        return known if known is not None and known.id in self.glass and assurance == "terminal" else None

    def is_told_apart(self, who: Person | None, principal: str) -> bool:
        """Tell whether `principal`, who is nobody of the people, is certainly somebody else than `who`.

        That takes an identity of the same place (the same Slack team) of theirs: it is another one, or `person_of`
        would have found them. Under the identities of different places one human may be both.
        """
        if principal.startswith("os:"):  # on one machine one human may be two users
            return False
        place = principal.partition("/")[0] + "/"
        names = () if who is None else (_members(who),) if who.is_group else who.identities
        return any(name.startswith(place) for name in names)

    def routed(self, decision: PolicyDecision, action: Action) -> PolicyDecision:
        """Return the decision with the route that `routing` says, where no rule of the policy names another one than
        "default"; also where that is the route of another rule that asks, whose figures count.

        It is decided once, where an action is judged, and stands in the decision from then on: whoever delivers, counts
        or reports reads it there.
        """
        if not self.routing:
            return decision
        places = {action.project, os.path.realpath(action.project) if action.project else ""}  # also by a link
        for each in self.routing:
            if any(each.fits(decision.severity, project=place, agent=action.agent) for place in places):
                return replace(decision, route=_led(decision.route, each.route))
        return decision

    def rule_for(self, decision: PolicyDecision, requester: str = "") -> ApprovalRule:
        """Return the rule for what `decision` asks about: that of its route, made as strict as its severity demands at
        least, with others in the place of those who are away.

        Args:
            requester: the principal who started the run; where that is nobody who is known, nobody stands in.

        Raises:
            ConfigError: there is no such route; then nobody can approve it.
        """
        return self.rule_of(decision.route, decision.severity, requester)

    def rule_of(self, route: object, severity: str, requester: str = "") -> ApprovalRule:
        """Return the rule for a decision that names this route, and is of this severity: nothing else of it counts.

        Args:
            requester: as for `rule_for`.

        Raises:
            ConfigError: there is no such route; then nobody can approve it.
        """
        wanted: Mapping[str, Any] = route if isinstance(route, Mapping) else {"name": route}
        name = wanted.get("name", "default")
        rule = self.routes.get(name) if isinstance(name, str) else None
        if rule is None:
            raise ConfigError(f"the policy names the route {name!r}, and there is none; there are {_list(self.routes)}")
        if unknown := wanted.keys() - _RAISED:
            raise ConfigError(f"a policy may only raise quorum and min_assurance of a route, not set {min(unknown)}")
        floors = (wanted.get("min_assurance", "os"), _FLOORS.get(severity, "login"))
        if floors[0] not in ASSURANCES:
            raise ConfigError(f"min_assurance {floors[0]!r} is not one of {_list(ASSURANCES)}")
        quorum = wanted.get("quorum", 1)
        if type(quorum) is not int:
            raise ConfigError(f"quorum must be a number, not {quorum!r}")
        also = wanted.get("also", [])
        if not isinstance(also, list):
            raise ConfigError(f"the other routes of a decision must be a list, not {also!r}")
        others = [self.rule_of(other, severity) for other in also]
        quorum = max(quorum, *(other.quorum for other in others), 1)
        floors = (*floors, *(other.min_assurance for other in others))
        assurance = max((rule.min_assurance, *floors), key=ASSURANCES.__getitem__)
        by_group = severity in _GROUP_SEVERITIES or (severity == "high" and rule.usergroup_high)
        strict = replace(
            rule,
            quorum=max(rule.quorum, quorum),
            min_assurance=assurance,
            by_group=rule.by_group and by_group,
        )
        strict = strict.without({each.person for each in self.left()})
        return self._without_absent(strict, requester) if requester and strict.approvers else strict

    def _without_absent(self, rule: ApprovalRule, requester: str) -> ApprovalRule:
        """Return `rule` with others in the place of those who are away; whoever can't be replaced is asked as ever."""
        starter, absences = self.person_of(requester), self.away(self)
        if starter is None:
            return rule
        for absence in absences:
            if not self.why_not_instead(rule, absence, starter, absences):
                rule = rule.with_stand_in(StandIn(absence.person, absence.to, absence.until))
        return rule

    def why_not_instead(
        self, rule: ApprovalRule, absence: "Absence", starter: Person | None, absences: Sequence["Absence"]
    ) -> str:
        """Return why whoever is away is asked all the same by `rule`; "" where the other one is asked instead.

        Args:
            rule: with those in it already who stand in by earlier statements.
            starter: who started the run; None where nobody in particular did.
            absences: all that count now.
        """
        away = {each.person for each in absences}
        if absence.person not in rule.approvers:
            return f"{absence.person} is not asked"
        if absence.to in away:
            return f"{absence.to} is away too"
        if starter is not None and starter.id in (absence.person, absence.to):
            return f"{starter.id} started the run"
        if not rule.takes(absence.assurance) or not rule.takes(self._best(absence.to)):
            return f"what {rule.min_assurance} is needed for, {absence.to} can't answer"
        instead = {absence.to if who == absence.person else who for who in rule.approvers}
        others = {who for who in instead if rule.by_group or not who.startswith(GROUP)}
        if starter is not None and not rule.solo:
            others -= {starter.id}
        if head_count(others) < rule.quorum + bool(rule.second_after):
            return "too few people would be left to answer"
        return ""

    def _best(self, who: str) -> str:
        """The greatest assurance that a person can be known with."""
        kinds = (name.partition(":")[0] for person in self.people if person.id == who for name in person.identities)
        return max((_BEST.get(kind, "os") for kind in kinds), key=ASSURANCES.__getitem__, default="os")

    def answerable(self, decision: PolicyDecision, requester: str) -> ApprovalRule:
        """`rule_for(decision)`, where enough people may answer a request of `requester`.

        Raises:
            ConfigError: nobody can approve it, and why.
        """
        rule = self.rule_for(decision, requester)
        able = self.may_answer(rule, requester)
        people = head_count(able)
        if not people and self.person_of(requester) is None:
            raise ConfigError(f"nobody is known as {requester}, who started the run")
        if people < rule.quorum and not rule.by_group and any(who.startswith(GROUP) for who in rule.approvers):
            raise ConfigError(f"route {rule.name}: groups don't decide what is of severity {decision.severity}")
        if people < rule.quorum:
            raise ConfigError(f"route {rule.name} needs {rule.quorum} approvals, and {people} people may give one here")
        return rule

    def may_answer(self, rule: ApprovalRule, requester: str) -> frozenset[str]:
        """Ids of the people, and of the groups, whose votes can count on a request of `requester`."""
        own = self.person_of(requester)
        able = frozenset(who for who in rule.approvers if rule.by_group or not who.startswith(GROUP))
        if rule.solo and rule.approvers:
            return able
        if own is None:
            return frozenset()
        return frozenset((own.id,)) if rule.solo else able - {own.id}


def breaks_glass(signed: Iterable[tuple[str, str]]) -> bool:
    """Tell whether two people have signed, each with a key of their own.

    Args:
        signed: ids of people, each with the fingerprint of the key.
    """
    said = set(signed)
    return any(person != other and key != another for person, key in said for other, another in said)


def described(one: StandIn) -> str:
    """Say for humans in whose place somebody is asked.

    Example:
        >>> described(StandIn("alice", "bob", 1798070400000))
        'bob answers for alice, who is away until 2026-12-24 00:00 UTC'
    """
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(min(max(one.until, 0), _LAST_MS) / 1000))
    return f"{one.person} answers for {one.absent}, who is away until {until}"


def head_count(ids: Iterable[str]) -> int:
    """Return how many people these ids may stand for: a group is many."""
    return sum(_MANY if who.startswith(GROUP) else 1 for who in set(ids))


def _led(route: Any, to: str) -> Any:
    """Return what a policy says of a route, with the route `to` wherever that is the one called "default"."""
    if not isinstance(route, Mapping):
        return to if route == "default" else route
    name, also = route.get("name", "default"), route.get("also")
    found = {**route, "name": to if name == "default" else name}
    if isinstance(also, list):
        found["also"] = [_led(each, to) for each in also]
    return found if len(found) > 1 else found["name"]


def _names(identity: str, principal: str) -> bool:
    """Tell whether `identity` names the one who acts as `principal`. A user of no machine is one of any."""
    kind, _, who = identity.partition(":")
    if kind != "os" or not principal.startswith("os:"):
        return _normal(identity) == _normal(principal)
    named, his = _os_user(who), _os_user(principal.removeprefix("os:"))
    return any(named[1:]) and all(said in ("", found) for said, found in zip(named, his, strict=True))


def _member_kind(identity: str) -> str:
    """The kind of those who are in the group that `identity` names; "" where it is no group."""
    return GROUP_KINDS.get(identity.partition(":")[0], "")


def _members(group: Person) -> str:
    """Return the beginning of the identities of all who may be in `group`: their kind, and the team that it is
    one of.
    """
    kind, _, where = group.identities[0].partition(":")
    return f"{GROUP_KINDS[kind]}:{where.partition('/')[0]}/"


def _os_user(text: str) -> tuple[str, str, str]:
    """`UID:NAME`, `UID` or `NAME`, perhaps after `MACHINE/`, as machine, uid and name; "" for what is not said.

    A name of digits is a uid.
    """
    machine, _, user = text.rpartition("/")
    first, separator, rest = user.partition(":")
    if separator or (first.isascii() and first.isdigit()):
        return machine, first, rest
    return machine, "", first


def _normal(identity: str) -> str:
    """Mail addresses in small letters (ASCII's only: other letters have twins), everything else as it is."""
    return identity.translate(_SMALL) if identity.startswith("email:") else identity


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
