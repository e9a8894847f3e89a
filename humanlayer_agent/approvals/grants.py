"""Grants: approvals with a scope, so that the same is not asked fifty times.

What a grant covers are *effects*, as rules ask about them, and never a spelling of a command. It has no existence of
its own: it is the signed votes on one request, each of which names its scope, and what it gives is counted from them
again at each use. Several approvers' scopes give what all of them cover.

Nothing covers what the policy denies, what is of critical severity, what a rule lets nobody remember (`grant: never`),
code that nobody has read and nothing holds, and what is to run with a wider confinement than the policy gives it.
"""

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Protocol, TypeVar

from humanlayer_agent.action import PLAN, Action
from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.model import ApprovalRequest, Permit, Vote, person
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.policy.asks import ALL_BELOW, ANY, is_wide
from humanlayer_agent.policy.decision import SEVERITIES, Ask, Limits, PolicyDecision
from humanlayer_agent.policy.plan import read_plan
from humanlayer_agent.safe_text import one_line

Operands = Literal["exact", "below", "any"]

HOUR_MS = 3_600_000

SEVERE = Limits(("action",), HOUR_MS, 10)
"""How far an approval of what is of high severity may be remembered, whatever its rule says."""

MAIL = frozenset({"mail-reply", "mail-link"})
"""Assurances of answers that come by mail: none of them may carry a scope, since a mail can't show what it covers."""

_HARMLESS: Mapping[str, re.Pattern[str]] = {
    program: re.compile(words)
    for program, words in {
        "curl": r"-[sSfviI]+|-o|--(?:output|silent|show-error|fail|verbose|include|head|compressed|no-progress-meter)"
        r"|--(?:max-time|connect-timeout)=[0-9.]+",
        "wget": r"-q|-v|-nv|-S|--(?:quiet|verbose|no-verbose|server-response|show-progress)",
        "git": r"-q|-v|--(?:quiet|verbose|progress|no-progress)",
        "pip": r"-q+|-v+|--(?:quiet|verbose|no-input|disable-pip-version-check|no-color)",
        **dict.fromkeys(("pkill", "killall"), r"-(?:SIG)?(?:9|KILL|15|TERM)"),
        **dict.fromkeys(("npm", "pnpm", "yarn"), r"-s|-q|--(?:silent|quiet|verbose|no-audit|no-fund|no-progress)"),
    }.items()
}
"""Words by program that change what a command prints, or where to, which is judged by itself; nothing of what it does.
"""

_FIRST = re.compile(r"-[sSfviI]+(?=[A-Za-z#]|\Z)")

_BELOW = frozenset({"read", "write", "append", "delete", "move", "metadata"})
"""Effects that may be granted for all below a directory."""

_ANY = frozenset({"package"})
"""Effects that may be granted for any operand."""

_OF_FOLDERS = frozenset({"list", "repository", "setting"})
"""Roles of reads of a directory, mostly."""

_WILD = re.compile(r"/[^/]*[*?\[]")
"""The first component with a wildcard, with the slash before it."""

_KINDS = _BELOW | _ANY | {"network", "process"}
"""Effects of which an approval may be remembered for more than the exact action: those whose operands say what is done.
Of code, services and containers they do not."""

_BY_NAME = frozenset({"pkill", "killall"})
"""Programs that signal processes by their names: a number may be another process the next time."""

_SCOPES: Mapping[str, str] = {"exact": "operand", "below": "directory", "any": "any"}
"""What `grant:` of a rule calls each kind of pattern."""

_PACKAGE = re.compile(
    r"(?:@[\w.-]+/)?[A-Za-z0-9][\w.-]*(?:\[[\w,.-]+\])?(?:(?:@|[=<>!~]{1,3})[\w.*^~-]+(?:,[=<>!~]{1,3}[\w.*-]+)*)?"
)
_MODULE = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?:/[\w.~-]+)+(?:@[\w.+-]+)?")
_ARCHIVE = re.compile(r".*\.(?:tgz|tar|tar\.\w+|zip|whl|deb|rpm|gem|egg|jar)", re.IGNORECASE)
"""What a package is called that the usual registry is asked for: no file, no repository and no URL."""

_DEPTH = 3
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of thing that a grant covers: a rule, an effect, and which operands of it.

    Args:
        rule, kind, role: as in the `Ask` that was approved.
        operands: exactly `operand` (and its `value`), all at or below the directory `operand`, or any that is certain.
        operand: where a path is once links are followed; else what the effect names.
        program: the program that may do it; "" for any that reads, whose verb and words may be any then, too; ANY for
            any at all: only a plan says that.
        verb, flags: what of the command has to be the same (see `Ask`), but for words that change what it prints;
            (ANY,) where nothing has to: a plan says that of a program.

    Example:
        >>> reading = Pattern("reads", "read", "operand", "below", "/srv/data")
        >>> reading.covers(Ask("reads", "cat", "read", "operand", "/srv/data/a", places=("/srv/data/a",)))
        True
        >>> reading.covers(Ask("reads", "cat", "read", "operand", "/srv/data/l", places=("/etc/x", "/srv/data/l")))
        False
    """

    rule: str
    kind: str
    role: str
    operands: Operands
    operand: str = ""
    value: str = ""
    program: str = ""
    verb: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

    def covers(self, ask: Ask) -> bool:
        """Tell whether what is asked about is certainly of this kind."""
        reads = self.kind == "read" and self.role == "operand" and ask.role in _READS
        only_names = reads and ask.role == "list" and ask.severity == "low"  # less than to read it, whatever asks
        if self.kind != ask.kind or not (self.rule == ask.rule or only_names) or not _may_vary(ask):
            return False
        if self.role not in (ask.role, ANY) and not reads:
            return False
        if not self.program and not (self.kind == "read" and ask.role in _READS):
            return False
        if self.program not in ("", ANY) and not self._is_same(ask):
            return False
        if _SCOPES[self.operands] not in ask.limits.scopes:
            return False
        if self.operands == "any":
            return self.kind in _ANY and _is_from_registry(ask)
        if self.operands == "below":
            within = _is_below if self.kind == "read" else _is_inside
            return self.kind in _BELOW and bool(ask.places) and all(within(p, self.operand) for p in ask.places)
        if ask.places:
            return ask.value == self.value and all(place == self.operand for place in ask.places)
        return (ask.operand, ask.value) == (self.operand, self.value)

    def _is_same(self, ask: Ask) -> bool:
        if self.verb == (ANY,):
            return self.program == ask.program
        said, wanted = (_telling(self.program, words) for words in (ask.flags, self.flags))
        return (self.program, self.verb, wanted) == (ask.program, ask.verb, said)


_READS = frozenset({"operand", "list", "redirect", "found", "setting", "repository"})
"""Roles of reads that say no more than that something is read, by whichever program, since what else it does is asked
about by itself. Reading a file covers naming it, to a program by a variable too: one that means more has its own rule.
"""


@dataclass(frozen=True, slots=True)
class Scope:
    """What one approver lets be done again: this is signed with the vote.

    Args:
        patterns: what is covered; () where it is one exact action.
        action: what identifies it (`exact_action`); "" where there are patterns.
        project: the directory that the agent works for.
        agent: the name of the agent; "" for any agent of the same requester.
        requester: the principal who started the run.
        policy: the digest of the policy: when that changes, the grant covers nothing.
        run: the run that it is for; "" for any of this agent.
        until: when it ends (ms since the epoch).
        uses: for how many actions it is good.
        approvals: so many people approved it together: with fewer votes it is good for nothing.
    """

    patterns: tuple[Pattern, ...]
    action: str
    project: str
    agent: str
    requester: str
    policy: str
    run: str
    until: int
    uses: int
    approvals: int = 1

    def covers(self, ask: Ask, exact: str) -> bool:
        """Tell whether one thing of an action is covered, within what the policy lets be remembered of it.

        Args:
            exact: what identifies the action (`exact_action`).
        """
        limits = ask.limits.within(SEVERE) if ask.severity == "high" else ask.limits
        if self.uses > limits.max_uses:
            return False
        if self.action:
            return "action" in limits.scopes and exact == self.action
        return any(pattern.covers(ask) for pattern in self.patterns)

    def why_not(self, action: Action, requester: str, policy: str, now: int) -> str:
        """Return why it is not good for an action at this moment, whatever that does; "" where it is."""
        if now >= self.until:
            return "it has expired"
        if self.policy != policy:
            return "the policy has changed since"
        if self.run and self.run != action.run_id:
            return "it was for another run"
        if self.project != action.project:
            return "it was for another project"
        if self.requester != requester or (self.agent and self.agent != action.agent):
            return "it was for another agent"
        return ""

    def text(self) -> str:
        """Return it as canonical JSON: what is signed and stored."""
        return canonical(asdict(self)).decode()


def read_scope(text: str) -> Scope | None:
    """Return the scope that `Scope.text` wrote; None for what is none: then nothing is covered."""
    try:
        said = json.loads(text)
        if set(said) != {each.name for each in fields(Scope)}:
            return None
        patterns = tuple(_pattern(each) for each in said.pop("patterns"))
        scope = Scope(patterns=patterns, **said)
        texts = (scope.action, scope.project, scope.agent, scope.requester, scope.policy, scope.run)
        whole = all(type(each) is str for each in texts) and all(
            type(each) is int and each > 0 for each in (scope.until, scope.uses, scope.approvals)
        )
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None
    return scope if whole and scope.text() == text else None


def _pattern(said: dict[str, Any]) -> Pattern:
    plain: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
    pattern = Pattern(**plain)
    if not type(pattern.verb) is type(pattern.flags) is tuple:
        raise ValueError("not a pattern")
    texts = (pattern.rule, pattern.kind, pattern.role, pattern.operands, pattern.operand, pattern.value)
    if not all(type(each) is str for each in (*texts, pattern.program, *pattern.verb, *pattern.flags)):
        raise ValueError("not a pattern")
    if pattern.operands not in _SCOPES:
        raise ValueError(f"unknown operands: {pattern.operands}")
    return pattern


@dataclass(frozen=True, slots=True)
class Offer:
    """One scope that an approver may choose, in words.

    Args:
        name: what an answer calls it (`Answer.scope`).
        words: what it covers and for how long, in a line.
        age: for how long it holds, from the vote on (ms).
        scope: the same for programs; its `until` is 0, because that depends on when the vote comes.
    """

    name: str
    words: str
    age: int
    scope: Scope


def why_never(decision: PolicyDecision) -> str:
    """Return why no approval of what a decision asks about may be remembered; "" where one may.

    Example:
        >>> from humanlayer_agent.policy.decision import Verdict
        >>> ask = Ask("privilege", "sudo", "privilege", severity="critical")
        >>> why_never(PolicyDecision(Verdict.ASK, "", "p", "0" * 64, asks=(ask,)))
        'it is of critical severity'
    """
    if not decision.asks:
        return "it is not known what of it must be approved"
    if decision.severity == "critical" or any(ask.severity not in SEVERITIES[:3] for ask in decision.asks):
        return "it is of critical severity"
    for ask in decision.asks:
        if not ask.limits.scopes:
            return f"rule {ask.rule} lets no approval be remembered" if ask.rule else "it is not fully understood"
        if ask.unread and decision.confinement is None:
            return "it runs code that nobody has read, and nothing holds it"
    return ""


def exact_action(decision: PolicyDecision, digest: str) -> str:
    """Return what identifies an action together with all that must be approved of it: the same text may do something
    else once a link leads elsewhere.

    Args:
        digest: of the action, as a human approves it.
    """
    return hashlib.sha256(canonical([digest, [repr(ask) for ask in decision.asks]])).hexdigest()


def limits_of(decision: PolicyDecision) -> Limits:
    """Return how far an approval of all that a decision asks about may be remembered."""
    severe = "high" in (decision.severity, *(ask.severity for ask in decision.asks))
    return decision.limits.within(SEVERE) if severe else decision.limits


def offers(request: ApprovalRequest) -> tuple[Offer, ...]:
    """Return the scopes that may be chosen for a request, from narrow to wide, at most three; none where none may be.

    Example::

        [offer.words for offer in offers(request)]
        ['this exact command, in this run', 'curl contacting example.org, in this run', ...]
    """
    decision = request.decision
    if why_never(decision):
        return ()
    limits = limits_of(decision)
    if decision.confinable and decision.confinement is None and not all(_is_certain(ask) for ask in decision.asks):
        limits = Limits(("action",), limits.max_age, limits.max_uses)
    found = []
    exact = exact_action(decision, request.digest)

    def offer(name: str, what: str, age: int, patterns: tuple[Pattern, ...] = (), *, run: bool = True) -> None:
        where = "in this run" if run else f"for {duration(age)}"
        scope = Scope(
            patterns=patterns,
            action="" if patterns else exact,
            project=request.action.project,
            agent=request.action.agent,
            requester=request.requester,
            policy=decision.policy_digest,
            run=request.action.run_id if run else "",
            until=0,
            uses=limits.max_uses,
            approvals=max(1, request.needed),
        )
        with suppress(ValueError):  # a name that is no valid Unicode can't be signed
            scope.text()
            found.append(Offer(name, f"{what}, {where}", age, scope))

    if request.action.type == PLAN:
        lasts = read_plan(request.action.content, request.action.cwd).lasts_ms
        ahead = tuple(dict.fromkeys(pattern for ask in decision.asks for pattern in _ahead(ask)))
        offer(PLAN, _words(ahead), min(lasts or limits.max_age, limits.max_age), ahead, run=not lasts)
        return tuple(found)
    if "action" in limits.scopes:
        offer("action", _EXACT, limits.max_age)
    narrow = _patterns(decision, limits, ())
    if narrow:
        offer("run", _words(narrow), limits.max_age, narrow)
        wide = _patterns(decision, limits, _ANY) if "any" in limits.scopes else None
        if wide and wide != narrow:
            offer("any", _words(wide), limits.max_age, wide)
        else:
            offer("hour", _words(narrow), min(HOUR_MS, limits.max_age), narrow, run=False)
    return tuple(found)


class Covers(Protocol):
    """One grant, as far as it says which asks of a decision it covers, by their numbers."""

    def covers(self, decision: PolicyDecision, digest: str) -> frozenset[int]: ...


C = TypeVar("C", bound=Covers)


def enough(able: Iterable[C], decision: PolicyDecision, digest: str) -> list[C]:
    """Return grants that together cover all that a decision asks about, no more of them than are needed; none where
    there are none that do.

    Args:
        able: grants that are good for the action.
        digest: of the action.
    """
    if why_never(decision):
        return []
    covered = [(each, each.covers(decision, digest)) for each in able]
    missing, chosen = set(range(len(decision.asks))), []
    while missing:
        best, of_these = max(covered, key=lambda pair: len(missing & pair[1]), default=(None, frozenset()))
        if best is None or not missing & of_these:
            return []
        chosen.append(best)
        missing -= of_these
    return chosen


def covered_before(scope: Scope, requests: Iterable[ApprovalRequest]) -> list[ApprovalRequest]:
    """Return the requests that a scope would have made unnecessary, whatever its time and its run: what an approver is
    shown before it is given.

    Args:
        scope: of an `Offer`.
        requests: earlier ones; those of other projects don't count.
    """
    return [
        each
        for each in requests
        if each.action.project == scope.project
        and not why_never(each.decision)
        and all(scope.covers(ask, exact_action(each.decision, each.digest)) for ask in each.decision.asks)
    ]


def _is_certain(ask: Ask) -> bool:
    return ask.operand is not None and not ask.unread


def _may_vary(ask: Ask) -> bool:
    """Tell whether an approval of it may be remembered for more than the exact action."""
    if not _is_certain(ask) or ask.kind not in _KINDS or ask.severity not in ("low", "medium"):
        return False
    if ask.kind == "process":
        return ask.program in _BY_NAME and ask.role == "operand"
    return not (ask.kind == "network" and ask.code)


def _is_from_registry(ask: Ask) -> bool:
    """Tell whether a package is one that the usual registry is asked for by its name."""
    if ask.role != "operand":
        return False
    name = ask.operand or ""
    named = _PACKAGE.fullmatch(name) or (ask.program == "go" and _MODULE.fullmatch(name))
    return bool(named) and not _ARCHIVE.fullmatch(name)


def _telling(program: str, words: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a command that say what it does."""
    harmless = _HARMLESS.get(program)
    if harmless is None:
        return tuple(words)
    if program == "curl":  # -sSL is -L
        words = (_FIRST.sub("-", word) if _FIRST.match(word) else word for word in words)
    return tuple(word for word in words if word != "-" and not harmless.fullmatch(word))


def _patterns(decision: PolicyDecision, limits: Limits, any_of: Iterable[str]) -> tuple[Pattern, ...] | None:
    """Return patterns that cover all that is asked about, each as narrow as is of use; None where there are none."""
    if "operand" not in limits.scopes and "directory" not in limits.scopes:
        return None
    found = [_widened(ask, limits, any_of) for ask in decision.asks]
    return tuple(dict.fromkeys(each for each in found if each is not None)) if all(found) else None


def _ahead(ask: Ask) -> Iterator[Pattern]:
    """Yield what covers one thing that a plan asks for: it, and where that is a directory, all below it."""
    who: dict[str, Any] = {"program": ask.program, "verb": ask.verb, "flags": ask.flags} if ask.program else {}
    if not ask.places:
        yield Pattern(ask.rule, ask.kind, ask.role, "exact", ask.operand or "", ask.value, **who)
        return
    for value in ("", ALL_BELOW):
        yield Pattern(ask.rule, ask.kind, ask.role, "exact", ask.places[0], value, **who)
    yield Pattern(ask.rule, ask.kind, ask.role, "below", ask.places[0], **who)


def _widened(ask: Ask, limits: Limits, any_of: Iterable[str]) -> Pattern | None:
    if not _may_vary(ask) or len(ask.places) > 1:
        return None
    reads = ask.kind == "read" and ask.role in _READS
    who: dict[str, Any] = {} if reads else {"program": ask.program, "verb": ask.verb, "flags": ask.flags}
    if not reads and not ask.program:
        return None
    if ask.kind in any_of and _is_from_registry(ask):
        return Pattern(ask.rule, ask.kind, ask.role, "any", **who)
    folder = _folder(ask) if ask.kind in _BELOW and "directory" in limits.scopes else ""
    role = "operand" if (ask.kind, ask.role) == ("read", "setting") else ask.role
    if folder:
        return Pattern(ask.rule, ask.kind, role, "below", folder, **who)
    if "operand" not in limits.scopes:
        return None
    operand = ask.places[0] if ask.places else ask.operand or ""
    return Pattern(ask.rule, ask.kind, role, "exact", operand, ask.value, **who)


def _folder(ask: Ask) -> str:
    """Return the directory for all below which an approval would hold; "" where it had to be too wide a one.

    What is read next lies below the same third folder, nearly always (/usr/local/go, /home/me/other); what is changed,
    in the same directory.
    """
    if not ask.places:
        return ""
    place, wild = ask.places[0], _WILD.search(ask.places[0])
    if ask.kind != "read":
        return _if_deep(posixpath.dirname(place))
    above = place[: wild.start()] if wild else posixpath.dirname(place)
    folder = _if_deep("/".join(above.split("/")[: _DEPTH + 1]))
    return folder or (_if_deep(place) if ask.role in _OF_FOLDERS and not wild else "")


def _if_deep(folder: str) -> str:
    return "" if is_wide(folder) else folder


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _is_inside(path: str, directory: str) -> bool:
    """Tell whether a path lies in a directory, and not in a hidden part of it: what is put there is often run later."""
    above = directory.rstrip("/") + "/"
    return path.startswith(above) and not any(part.startswith(".") for part in path.removeprefix(above).split("/"))


# In words

_EXACT = "this exact command"
_DOES = {
    "read": "reading", "write": "writing", "append": "appending to", "delete": "deleting", "move": "moving",
    "metadata": "changing the rights of", "network": "contacting", "listen": "listening on", "process": "signalling",
    "environment": "setting", "execute": "running", "database": "using",
}  # fmt: skip

_DOES_AS = {
    ("read", "list"): "listing",
    ("read", "repository"): "reading the repository",
    ("network", "service-read"): "reading from",
}
"""The same of effects in a role that says more."""


def in_words(scopes: Sequence[Scope]) -> str:
    """Return what all of some scopes cover, in a line.

    Example:
        >>> in_words(())
        'nothing'
    """
    if any(scope.action for scope in scopes):
        return _EXACT
    return ", and ".join(dict.fromkeys(_words(scope.patterns) for scope in scopes if scope.patterns)) or "nothing"


def _words(patterns: Sequence[Pattern]) -> str:
    wide = {(each.kind, each.operand) for each in patterns if each.operands == "below"}
    told = [each for each in patterns if each.role != "itself" or len(patterns) == 1]
    told = [each for each in told if each.operands == "below" or (each.kind, each.operand) not in wide]
    changes_first = sorted(told or patterns, key=lambda each: each.kind == "read")
    said = list(dict.fromkeys(map(_phrase, changes_first)))
    more = f" and {len(said) - _SHOWN + 1} more" if len(said) > _SHOWN else ""
    return " and ".join(said[: _SHOWN - 1] if more else said) + more


def _phrase(pattern: Pattern) -> str:
    """Return what a pattern covers, for people.

    Example:
        >>> _phrase(Pattern("read-outside", "read", "operand", "below", "/srv/data"))
        'reading anything below /srv/data'
    """
    does = _DOES_AS.get((pattern.kind, pattern.role)) or _DOES.get(pattern.kind, "")
    shown = _named(
        f"{pattern.operand}:{pattern.value}" if pattern.kind == "network" and pattern.value else pattern.operand
    )
    who = " ".join(one_line(each) for each in (pattern.program, *pattern.verb[:1]) if each not in ("", ANY))
    if named := [each for each in pattern.verb[1:] if "=" in each and not each.endswith("=None") and each[:3] != "in="]:
        who = f"{who} ({one_line(', '.join(named))})"
    if pattern.role == "itself":
        return who
    if pattern.kind == "package":
        return f"{who} of any package" if pattern.operands == "any" else f"{who} of {shown}"
    if pattern.operands == "any":
        return f"{who} {does or 'for any ' + pattern.kind}"
    if pattern.operands == "below" or pattern.value == ALL_BELOW:
        shown = f"anything below {shown}"
    if not does:
        does, shown = "for", f"the {pattern.kind} {shown}"
    return " ".join(filter(None, (who, does, shown)))


def _named(text: str) -> str:
    """Return what a command names, whole, in quotes where it could read as words of ours.

    Example:
        >>> _named("/srv/x, for 1 hour"), _named("/srv/x")
        ('"/srv/x, for 1 hour"', '/srv/x')
    """
    shown = one_line(text)
    if not any(char.isspace() or char in '"`,()' for char in shown):
        return shown
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def duration(ms: int) -> str:
    """Return for how long a grant holds, for people: "8 hours"."""
    for unit, length in (("hour", HOUR_MS), ("minute", 60_000), ("second", 1_000)):
        if ms % length == 0 and ms >= length:
            count = ms // length
            return f"1 {unit}" if count == 1 else f"{count} {unit}s"
    return f"{ms} ms"


# What is in a store


@dataclass(frozen=True, slots=True)
class GrantUse:
    """One use of a grant, as the permit that it made says it.

    Args:
        grant: the id of the request whose votes it is.
        by: the ids of the people who gave it.
        use: the how manieth this is. uses: how many there may be.
    """

    grant: str
    by: tuple[str, ...]
    use: int
    uses: int

    def __str__(self) -> str:
        return f"grant {self.grant[:4]} by {' and '.join(self.by)} ({self.use} of {self.uses})"


@dataclass(frozen=True, slots=True)
class UsedFor:
    """The command that one use of a grant let through, as the log tells it: without the secrets in it.

    Args:
        use: the how manieth it is. at: when (ms). run, agent, command: of what ran.
    """

    use: int
    at: int
    run: str
    agent: str
    command: str


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant as its store has it, for people to look at. What it gives is counted from `votes` at each use.

    Args:
        id: that of the request whose votes it is.
        request: what was approved when it was given.
        given: when (ms). until: when it ends. uses: how many actions it has let through, of `max_uses`.
        revoked: when it was taken back (ms); None where it was not. revoked_by: the principal who did.
        votes: the approvals that it consists of.
        over: the run that it is for has ended, so that it covers nothing any more.
    """

    id: str
    request: ApprovalRequest
    given: int
    until: int
    uses: int
    max_uses: int
    revoked: int | None
    revoked_by: str
    votes: tuple[Vote, ...]
    over: bool = False

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes of its votes: what all of them cover is covered."""
        found = [read_scope(vote.scope) for vote in self.votes]
        return tuple(scope for scope in found if scope is not None)

    @property
    def words(self) -> str:
        """What it covers, in a line: the narrowest of its scopes."""
        return in_words(self.scopes)

    @property
    def remembered(self) -> str:
        """What was given, in a line: "curl contacting example.org:443, in this run (50 uses)"."""
        runs = any(scope.run for scope in self.scopes)
        span = "in this run" if runs else f"for {duration(self.until - self.given)}"
        return f"{self.words}, {span} ({self.max_uses} {'use' if self.max_uses == 1 else 'uses'})"

    @property
    def by(self) -> tuple[str, ...]:
        """The people who gave it."""
        return tuple(dict.fromkeys(vote.person or person(vote.approver.principal) for vote in self.votes))

    def state(self, now: int) -> Literal["active", "revoked", "expired", "used up", "run ended"]:
        """Return what it is at a moment (ms)."""
        if self.revoked is not None:
            return "revoked"
        if now >= self.until:
            return "expired"
        return "used up" if self.uses >= self.max_uses else "run ended" if self.over else "active"

    def is_proved(self, signers: Collection[str], *, runs: bool) -> bool:
        """Tell whether a key proves it: one that is trusted, or that of a process that may still be there.

        Args:
            signers: the fingerprints of the keys that are trusted.
            runs: whether any process with runs is there.
        """
        return runs or all(vote.signer in signers for vote in self.votes)


class Grants(Protocol):
    """The grants of a store."""

    def given(self, *, project: str | None = None, active: bool = False) -> list[Grant]:
        """Grants, oldest first.

        Args:
            project: only those for this one.
            active: only those that are neither revoked nor over.
        """
        ...

    def get(self, grant_id: str) -> Grant | None:
        """The grant that the votes on this request are."""
        ...

    def uses(self, grant_id: str) -> list[UsedFor]:
        """What a grant has let through, oldest first, as far as the log still has it."""
        ...

    def use(
        self,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        *,
        requester: str,
        authority: Callable[[], Authority],
        use_by_ms: int,
    ) -> Permit | None:
        """Issue a permit for an action that the policy asks about, where grants cover all of it; None where they don't.

        Their uses are counted in the same transaction; the permit is consumed as any other, and the votes are counted
        again then.

        Args:
            requester: the principal who started the run of the action.
            authority: counts the votes; only asked for where there are grants at all.

        Raises:
            AgentsStopped, RunLost: as `Store.allow`.
        """
        ...

    def revoke(self, grant_id: str, by: str, reason: str = "") -> bool:
        """Take a grant back. From the moment that this returns it lets nothing through, nor does a permit that it made.

        Like a stop that takes no proof: whoever does it has only kept something from running.

        Args:
            by: the principal who does. reason: their words.

        Returns:
            False where there is none that could be revoked.
        """
        ...
