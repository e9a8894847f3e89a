"""The facts that an audit log tells, collected in one pass over its events."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from humanlayer_agent.audit.chain import COMMON, Entry, said

_MARK = "\u27e6"
"""How the mark of an erased secret begins."""

_ENDS = {
    "request.approved": "approved",
    "request.rejected": "rejected",
    "request.answered": "answered",
    "request.expired": "expired",
    "request.withdrawn": "withdrawn",
    "request.superseded": "edited",
    "request.terminated": "run stopped",
    "request.revoked": "revoked",
    "request.lapsed": "lapsed",
    "request.invalidated": "invalidated",
}
"""The end of a request by the event that says so, in words for readers."""

_LAST_MS = 253_402_300_799_999
"""The last moment that a calendar has, as the end of what was before: a log can hold any number."""

_LOG_EVENTS = ("audit.", "key.", "retention.", "hold.")


def moment_of(event: Mapping[str, Any]) -> int:
    """Return when an event was (ms).

    Raises:
        ValueError: at no time that a calendar has.
    """
    at = event["at"]
    if type(at) is not int or not 0 <= at < _LAST_MS:
        raise ValueError("no time that a calendar has")
    return at


@dataclass(slots=True)
class Vote:
    """One answer of one human. `outcome` is recorded, refused or late; `instead_of` is who was away then."""

    seq: int
    at: int
    outcome: str
    answer: str
    principal: str
    person: str
    channel: str
    assurance: str
    how: str
    comment: str
    solo: bool
    signer: str
    pid: int
    saw: str
    why: str = ""
    edited: str = ""
    instead_of: str = ""


@dataclass(slots=True)
class Decision:
    """One verdict of the Director on one command."""

    seq: int
    at: int
    run: str
    agent: str
    step: int
    command: str
    cwd: str
    project: str
    verdict: str
    rule: str
    reason: str
    severity: str
    policy_digest: str
    enforced: bool
    denied: str = ""
    erased: tuple[str, ...] = ()


@dataclass(slots=True)
class Execution:
    """The end of a command. `returncode` is None where there is none; `unknown`: nobody will ever know."""

    started: int
    finished: int | None = None
    returncode: int | None = None
    detail: str = ""
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class SwappedFile:
    """A file that became another one under the command that it was judged for.

    Args:
        became: what came of it: `refused`, the command was not started; `own`, it may have changed it itself;
            `stopped`, its run was.
    """

    at: int
    run: str
    path: str
    became: str
    decision: Decision | None = None


@dataclass(slots=True)
class AwayTime:
    """The time for which somebody said to be away, and who is asked meanwhile. `ended`: when they were back before."""

    id: str
    at: int
    person: str
    to: str
    until: int
    ended: int | None = None


@dataclass(frozen=True, slots=True)
class FilesKept:
    """Files of a project that were kept, could not be, or were put back.

    Args:
        what: `kept`, `unkept` or `restored`.
        name: the run that they were kept for; of files put back, that whose files these are.
        left_out: how many could not be kept, or did not fit.
        by: the human who had it done; "" where that was the supervisor.
    """

    at: int
    what: str
    name: str
    project: str = ""
    files: int = 0
    left_out: int = 0
    by: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class GrantUse:
    """One use of a grant.

    Args:
        decision: on what it let run. unlike: what that was done to and nobody had seen when the grant was given.
    """

    at: int
    decision: Decision | None
    unlike: tuple[str, ...] = ()


@dataclass(slots=True)
class Grant:
    """An approval that held for more than once, by the id of its request.

    Args:
        given: when; None where that was before the time of this report.
        shown: what the effects of the request were done to, as far as the log says.
    """

    id: str
    given: int | None = None
    by: tuple[str, ...] = ()
    words: str = ""
    project: str = ""
    until: int = 0
    max_uses: int = 0
    shown: frozenset[str] = frozenset()
    uses: list[GrantUse] = field(default_factory=list)
    revoked: int | None = None
    revoked_by: str = ""
    why: str = ""

    @property
    def unlike(self) -> list[GrantUse]:
        """Uses for something that nobody had seen when it was given."""
        return [use for use in self.uses if use.unlike]


@dataclass(slots=True)
class Request:
    """One question to humans, and what became of it. `stand_ins`: who answered in whose place."""

    id: str
    asked: int
    run: str
    requester: str
    needed: int
    decision: Decision | None = None
    votes: list[Vote] = field(default_factory=list)
    state: str = "pending"
    why: str = ""
    settled: int | None = None
    used: int | None = None
    execution: Execution | None = None
    stand_ins: dict[str, str] = field(default_factory=dict)

    @property
    def deciding(self) -> Vote | None:
        """The last answer that counted."""
        return next((vote for vote in reversed(self.votes) if vote.outcome == "recorded"), None)

    @property
    def took(self) -> int | None:
        """Milliseconds from the question to the first answer that counted; None where there is none."""
        first = next((vote for vote in self.votes if vote.outcome == "recorded"), None)
        return max(0, first.at - self.asked) if first is not None else None


@dataclass(slots=True)
class Run:
    """One run of one agent."""

    id: str
    agent: str = ""
    requester: str = ""
    project: str = ""
    started: int | None = None
    ended: int | None = None
    status: str = ""
    verdicts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class PolicyInForce:
    """A policy that judged, by its digest."""

    name: str
    digest: str
    first: int
    last: int
    decisions: int = 0
    runs: set[str] = field(default_factory=set)


@dataclass(slots=True)
class RuleUse:
    """The use of a rule: how often it applied, and what it decided."""

    id: str
    applied: int = 0
    decided: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    """How the requests ended that it caused."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The events that count: of one run, from a moment (ms) on, and before another."""

    run: str | None = None
    since: int | None = None
    until: int | None = None

    def has(self, event: Mapping[str, Any], at: int) -> bool:
        """Tell whether this event counts."""
        if self.run is not None and event.get("run") != self.run:
            return False
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


@dataclass(slots=True)
class Facts:
    """The facts that the events tell. Times are milliseconds since the epoch, days and hours UTC."""

    wanted: Wanted = field(default_factory=Wanted)
    store: str = ""
    version: str = ""
    events: int = 0
    first: int | None = None
    last: int | None = None
    types: Counter[str] = field(default_factory=Counter)
    runs: dict[str, Run] = field(default_factory=dict)
    policies: dict[str, PolicyInForce] = field(default_factory=dict)
    rules: dict[str, RuleUse] = field(default_factory=dict)
    days: dict[str, Counter[str]] = field(default_factory=dict)
    """Verdicts by day; "granted" are those of the asks that grants answered."""
    week: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Asks by weekday (Monday is 0) and hour."""
    verdicts: Counter[str] = field(default_factory=Counter)
    requests: dict[str, Request] = field(default_factory=dict)
    grants: dict[str, Grant] = field(default_factory=dict)
    granted: int = 0
    """Actions that ran without a question, because grants covered them."""
    away: list[AwayTime] = field(default_factory=list)
    denials: list[Decision] = field(default_factory=list)
    observed: list[Decision] = field(default_factory=list)
    refused_votes: list[tuple[str, Vote]] = field(default_factory=list)
    unknown: list[tuple[str, Decision | None, Execution]] = field(default_factory=list)
    swapped: list[SwappedFile] = field(default_factory=list)
    kept: list[FilesKept] = field(default_factory=list)
    erased: Counter[str] = field(default_factory=Counter)
    redacted: int = 0
    """Commands with at least one secret taken out."""
    stops: list[tuple[int, int, str, str, str]] = field(default_factory=list)
    """When every agent was stopped, and let go on: number, time, type, who, their words."""
    about_log: list[tuple[int, int, str, str]] = field(default_factory=list)
    """What happened to the log itself: number, time, type, details."""
    unreadable: int = 0
    _permits: dict[str, Decision] = field(default_factory=dict)
    _running: dict[str, Execution] = field(default_factory=dict)

    def collect(self, entries: Iterable[Entry]) -> "Facts":
        """Take in all events. What can't be read is counted, and changes nothing else."""
        for entry in entries:
            try:
                event = entry.event
                kind, at = event["type"], moment_of(event)
                if kind == "audit.opened":
                    self.store, self.version = said(event.get("store")), said(event.get("version"))
                if not self.wanted.has(event, at):
                    # A vote may be about a request of before: it is told with its request, or not at all.
                    continue
                self._take(kind, at, event)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
                self.unreadable += 1
        return self

    def _take(self, kind: str, at: int, event: dict[str, Any]) -> None:
        self.events += 1
        self.types[kind] += 1
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)
        match kind.partition(".")[0]:
            case "run":
                self._run(kind, at, event)
            case "decision":
                self._decision(at, event)
            case "policy":
                self._policy(at, event)
            case "request":
                self._request(kind, at, event)
            case "vote":
                self._vote(kind, at, event)
            case "grant":
                self._grant(kind, at, event)
            case "absence":
                self._absence(kind, at, event)
            case "permit" | "exec":
                self._execution(kind, at, event)
            case "files":
                self._files(kind, at, event)
            case "supervision":
                who = said((event.get("approver") or {}).get("principal")) or said(event.get("by"))
                words = said(event.get("reason")) or said(event.get("comment")) or said(event.get("refusal"))
                self.stops.append((int(event["seq"]), at, kind, who, words))
        if kind.startswith(_LOG_EVENTS):
            self._about_log(kind, at, event)

    def _about_log(self, kind: str, at: int, event: dict[str, Any]) -> None:
        if kind not in ("audit.head", "audit.closed"):
            details = {k: v for k, v in event.items() if k not in COMMON}
            self.about_log.append((event["seq"], at, kind, "; ".join(f"{k}: {said(v)}" for k, v in details.items())))

    def _files(self, kind: str, at: int, event: dict[str, Any]) -> None:
        self.kept.append(
            FilesKept(
                at,
                kind.partition(".")[2],
                said(event.get("name")) or said(event.get("run")),
                said(event.get("project")),
                int(event.get("files") or 0),
                int(event.get("left_out") or 0),
                said(event.get("by")),
                said(event.get("why")),
            )
        )

    def _of_run(self, id_: str) -> Run:
        return self.runs.setdefault(id_, Run(id_))

    def _run(self, kind: str, at: int, event: dict[str, Any]) -> None:
        run = self._of_run(said(event["run"]))
        if kind == "run.started":
            run.agent, run.requester = said(event.get("agent")), said(event.get("requester"))
            run.project, run.started = said(event.get("project")), at
        else:
            run.ended, run.status = at, said(event.get("status") or event.get("why") or event.get("state"))

    def _policy(self, at: int, event: dict[str, Any]) -> None:
        if digest := said(event.get("policy_digest")):
            policy = self.policies.setdefault(digest, PolicyInForce(said(event.get("policy")), digest, at, at))
            policy.last = max(policy.last, at)
            policy.runs.add(said(event.get("run")))

    def _decision(self, at: int, event: dict[str, Any]) -> None:
        erased = event.get("erased")
        decision = Decision(
            seq=int(event["seq"]),
            at=at,
            run=said(event.get("run")),
            agent=said(event.get("agent")),
            step=int(event.get("step") or 0),
            command=said(event["command"]),
            cwd=said(event.get("cwd")),
            project=said(event.get("project")),
            verdict=said(event["verdict"]),
            rule=said(event.get("rule")),
            reason=said(event.get("reason")),
            severity=said(event.get("severity")),
            policy_digest=said(event.get("policy_digest")),
            enforced=event.get("enforced") is not False,
            denied=said(event.get("denied")),
            erased=tuple(said(each) for each in erased) if isinstance(erased, list) else (),
        )
        moment = datetime.fromtimestamp(at / 1000, UTC)
        self.days.setdefault(moment.date().isoformat(), Counter())[decision.verdict] += 1
        self.verdicts[decision.verdict] += 1
        self._of_run(decision.run).verdicts[decision.verdict] += 1
        self._policy(at, event)
        if policy := self.policies.get(decision.policy_digest):
            policy.decisions += 1
        for id_ in dict.fromkeys(said(each) for each in event.get("rules") or ()):
            self.rules.setdefault(id_, RuleUse(id_)).applied += 1
        if decision.rule:
            self.rules.setdefault(decision.rule, RuleUse(decision.rule)).decided[decision.verdict] += 1
        if decision.erased or _MARK in decision.command:
            self.redacted += 1
            self.erased.update(decision.erased or ("a secret",))
        if not decision.enforced and decision.verdict != "allow":
            self.observed.append(decision)
        elif decision.verdict == "deny" or decision.denied:
            self.denials.append(decision)
        if request := said(event.get("request")):
            self.week[moment.weekday(), moment.hour] += 1
            self._of_request(request, at, event).decision = decision
        if permit := said(event.get("permit")):
            self._permits[permit] = decision
            if event.get("grants"):
                self.granted += 1
                self.days[moment.date().isoformat()]["granted"] += 1

    def _grant(self, kind: str, at: int, event: dict[str, Any]) -> None:
        id_, operands = said(event["grant"]), tuple(said(each) for each in event.get("operands") or ())
        grant = self.grants.setdefault(id_, Grant(id_))
        if kind == "grant.given":
            grant.given, grant.by, grant.words = at, _names(event.get("by")), said(event.get("words"))
            grant.project, grant.until = said(event.get("project")), int(event["until"])
            grant.max_uses, grant.shown = int(event["max_uses"]), frozenset(operands)
        elif kind == "grant.used":
            grant.by, grant.max_uses = grant.by or _names(event.get("by")), int(event["max_uses"])
            unlike = tuple(each for each in operands if each not in grant.shown) if grant.given is not None else ()
            grant.uses.append(GrantUse(at, self._permits.get(said(event.get("permit"))), unlike))
        else:
            grant.revoked, grant.revoked_by, grant.why = at, said(event.get("by")), said(event.get("reason"))

    def _absence(self, kind: str, at: int, event: dict[str, Any]) -> None:
        if kind == "absence.said":
            person, to = said(event["person"]), said(event["to"])
            self.away.append(AwayTime(said(event["absence"]), at, person, to, int(event["until"])))
            return
        ids = event["absences"]
        for each in self.away:
            if each.id in ids:
                each.ended = each.ended or at

    def _of_request(self, id_: str, at: int, event: Mapping[str, Any]) -> Request:
        if id_ not in self.requests:
            self.requests[id_] = Request(id_, int(event.get("asked", at)), said(event.get("run")), "", 1)
        return self.requests[id_]

    def _request(self, kind: str, at: int, event: dict[str, Any]) -> None:
        request = self._of_request(said(event["request"]), at, event)
        if kind == "request.created":
            request.asked, request.requester = int(event.get("asked", at)), said(event.get("requester"))
            request.needed = int(event.get("needed") or 1)
            request.stand_ins = _stand_ins(event.get("rule"))
        elif kind in _ENDS:
            request.state, request.why = _ENDS[kind], said(event.get("why"))
            request.settled = request.settled if kind in ("request.lapsed", "request.invalidated") else at
            rule = request.decision.rule if request.decision is not None else ""
            self.rules.setdefault(rule, RuleUse(rule)).ends[request.state] += 1

    def _vote(self, kind: str, at: int, event: dict[str, Any]) -> None:
        who = event.get("approver") or {}
        vote = Vote(
            seq=int(event["seq"]),
            at=at,
            outcome=kind.partition(".")[2],
            answer=said(event.get("answer")),
            principal=said(who.get("principal")),
            person=said(event.get("person")),
            channel=said(who.get("channel")),
            assurance=said(who.get("assurance")),
            how=said(event.get("input_mode")),
            comment=said(event.get("comment")),
            solo=event.get("solo") is True,
            signer=said(event.get("signer")),
            pid=int(event.get("pid") or 0),
            saw=said(event.get("presented_digest")),
            why=said(event.get("why")),
            edited=said(event.get("edited")),
        )
        id_ = said(event.get("request"))
        if id_ in self.requests:
            vote.instead_of = self.requests[id_].stand_ins.get(vote.person, "")
        if vote.outcome != "recorded":
            self.refused_votes.append((id_, vote))
        elif id_ in self.requests:
            self.requests[id_].votes.append(vote)

    def _execution(self, kind: str, at: int, event: dict[str, Any]) -> None:
        permit, request = said(event.get("permit")), self.requests.get(said(event.get("request")))
        if kind == "permit.consumed" and request is not None:
            request.used = at
        elif kind == "exec.started":
            self._running[permit] = Execution(at)
            if request is not None:
                request.execution = self._running[permit]
        elif kind in ("exec.finished", "exec.unknown"):
            execution = self._running.pop(permit, None) or Execution(int(event.get("started", at)))
            execution.finished, execution.unknown = at, kind == "exec.unknown"
            code = event.get("returncode")
            execution.returncode = code if isinstance(code, int) else None
            execution.detail = said(event.get("detail"))
            decision = request.decision if request is not None else self._permits.get(permit)
            if execution.unknown:
                self.unknown.append((said(event.get("run")), decision, execution))
            self._permits.pop(permit, None)
        elif kind == "exec.changed":
            decision = request.decision if request is not None else self._permits.get(permit)
            for file in event.get("files") or ():
                became = "refused" if event.get("refused") else "own" if file.get("own") is True else "stopped"
                self.swapped.append(SwappedFile(at, said(event.get("run")), said(file.get("path")), became, decision))


def _names(by: Any) -> tuple[str, ...]:
    return tuple(said(each) for each in by) if isinstance(by, list) else (said(by),)


def _stand_ins(rule: Any) -> dict[str, str]:
    """Return in whose place somebody answers, by the rule that a request was made under; nothing where that is none."""
    try:
        return {said(each["person"]): said(each["absent"]) for each in json.loads(rule)["stand_ins"]}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}
