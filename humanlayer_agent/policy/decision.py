"""The Director's answer: a verdict, what decided it, and what it is about.

What is made for every action has slots and is not frozen, because that takes several times as long to build. Treat it
as immutable all the same: the gate, the log and whoever asks a human are given the same one.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from humanlayer_agent.action import FileDigest
from humanlayer_agent.confine.confinement import REDUCED, Bounds, Confinement
from humanlayer_agent.shell import HOST, Effect, View


class Verdict(IntEnum):
    """The answer of a policy: allow < ask < deny, so the strictest of several is the largest.

    Example:
        >>> max(Verdict.ALLOW, Verdict.ASK)
        <Verdict.ASK: 1>
        >>> str(Verdict.DENY)
        'deny'
    """

    ALLOW = 0
    ASK = 1
    DENY = 2

    def __str__(self) -> str:
        return self.name.lower()


SEVERITIES = ("low", "medium", "high", "critical")

COMMAND = "command"
"""The kind of an ask that is about a command as a whole."""


@dataclass(frozen=True, slots=True)
class EffectVerdict:
    """The verdict on one effect.

    Args:
        rules: ids of the rules that were hit.
        reason: the deciding rule's.
        default_hit: True where no rule asks or denies, and none allows it.
    """

    verdict: Verdict
    rules: tuple[str, ...] = ()
    reason: str = ""
    default_hit: bool = False


@dataclass(slots=True, unsafe_hash=True)
class PartVerdict:
    """One simple command of the action: where it stands, what it is, and its own verdict.

    Args:
        command: its text.
        program: its name as the catalog knows it, or None.
        rules: ids of the rules that were hit.
        span: where it stands in the action's text, from and to, in code points.
        via: the wrappers around it (`sudo`, `xargs`).
        inside: the constructs around it (`substitution`, `loop`).
        effects: the effects it has; `judged[i]` is the verdict on `effects[i]`.
    """

    command: str
    program: str | None
    verdict: Verdict
    rules: tuple[str, ...]
    reason: str
    span: tuple[int, int]
    via: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    judged: tuple[EffectVerdict, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that speaks against an action, in a sentence: what a rule asks about or denies, and what of it.

    Args:
        text: the sentence, safe to show.
        rules: ids of the rules that say so; where it is not certain, of all that can't be ruled out. Empty where no
            rule allows it.
        severity: low, medium, high or critical.
        certain: False where it only can't be ruled out.
    """

    text: str
    verdict: Verdict
    rules: tuple[str, ...] = ()
    severity: str = "medium"
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds within which the policy lets an approval be remembered (`grant:` of a rule).

    Args:
        scopes: for what ("action", "operand", "directory", "any"); empty: not at all.
        max_age: for how long (ms).
        max_uses: for how many commands.
    """

    scopes: tuple[str, ...] = ("action", "operand", "directory", "any")
    max_age: int = 8 * 3_600_000
    max_uses: int = 50

    def within(self, other: "Limits") -> "Limits":
        """Return what both let be."""
        scopes = tuple(scope for scope in self.scopes if scope in other.scopes)
        return Limits(scopes, min(self.max_age, other.max_age), min(self.max_uses, other.max_uses))


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing that a human must approve: which rule asks about what. A grant has to cover each of them.

    Args:
        rule: the id of the rule; "" where no rule allows it.
        program: the program, as the catalog has it; "" where that is not known.
        kind, role: of the effect; kind is "command" where it is about a command as a whole.
        operand: what the effect is done to, or the text of the command; None where that is not certain.
        value: of the effect: the port of a host, that all below a path is meant, and the like.
        places: where the operand is, if it is a path, once links are followed: itself, and its name where it stands.
        verb: the sub-command, the account, cluster or place that is meant, and what the command runs under.
        flags: the words by which it does more or less, in their order: all that do not only name what it is done to.
        severity: of the rule.
        unread: it is code that nobody has read.
        code: it comes from program text, of which options and operands say little.
        limits: how far the policy lets it be remembered.

    Example:
        >>> director = Director.load("default", project="/srv/app")
        >>> decision = director.evaluate(Action("curl https://example.org/a", cwd="/srv/app"))
        >>> [(ask.rule, ask.program, ask.operand) for ask in decision.asks]
        [('network', 'curl', 'example.org')]
    """

    rule: str
    program: str
    kind: str
    role: str = ""
    operand: str | None = None
    value: str = ""
    places: tuple[str, ...] = ()
    verb: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    severity: str = "medium"
    unread: bool = False
    code: bool = False
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Count:
    """A number of things that an action does, and that are counted for limits of the policy.

    Args:
        counter: names what is counted.
        amount: so much is added; of costs, in millionths.
        within: the limits that it was judged to be within: "run", "hour" or "day", and how much that is. Where another
            action was quicker, it is not started.
    """

    counter: str
    amount: int
    within: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Excused:
    """A rule that would have applied, had not the policy made an exception.

    Args:
        rule: its id.
        by: where what excuses from it is written (file:line).
        text: the same in words, with the reason and until when it holds.
    """

    rule: str
    by: str
    text: str


@dataclass(frozen=True, slots=True)
class HeldRun:
    """The result of a command that was run held, for the human who is asked, without secrets.

    Args:
        applicable: an approval applies what lies in the layer. Else the command itself would run, and this only tells
            what it did when it was tried.
        ended: how the command ended, in words.
        files: what it changed, one sentence a path, what is lost first; the first so many.
        more: so many more paths it changed.
        diff: the lines that it changed, as `diff -u` has them, as far as they are texts.
        output: what it printed, its last part where that is much.
        partial: what is not known by it, and why it can't be applied; empty where all is known.
    """

    applicable: bool
    ended: str
    files: tuple[str, ...] = ()
    more: int = 0
    diff: str = ""
    output: str = ""
    partial: tuple[str, ...] = ()


@dataclass(slots=True, unsafe_hash=True)
class PolicyDecision:
    """The policy's answer to one action.

    Args:
        verdict: allow, ask or deny.
        reason: the deciding rule's, for people.
        policy: names of the policies in force, the highest layer first.
        policy_digest: identifies the merged policy, and the values of its variables.
        rules: ids of the rules that decided, then of all others that were hit; empty where none was.
        severity: low, medium, high or critical.
        suggestion: what the agent could do instead.
        parse: ok, partial or failed.
        parse_reasons: what was not understood.
        default_hit: True for "nothing allows this", False for "a rule asks or denies".
        unresolved: what could not be known of the command.
        spans: the deciding parts of the command, from and to, in code points.
        parts: a verdict for each simple command.
        effects: everything the command does.
        files: the files whose text was judged: they join the action's digest.
        route: who is to be asked, and how (a name of the channels file, or stricter demands on it).
        asks: each thing that must be approved, where it asks.
        microseconds: how long it took.
        enforced: False while a policy is only observed: the verdict is real, is recorded, and stops nothing.
        confinement: an action that is allowed, or that a human approves, may run so far as it runs confined to this;
            None where it runs unconfined.
        confinable: it was judged for what can be confined.
        reduced: an action that was judged for what runs unconfined, and is allowed, is held to this as far as Landlock
            can: a second wall, on which the verdict does not count. None where there is none.
        view: what of the disk it was judged in: its files are looked up there, and it runs where it sees the same.
        findings: everything that speaks against it, what matters most first: the severe before the light, then what is
            certain before what only can't be ruled out. `reason` says the first.
        momentary: it hangs on what surrounds the action (the time, a branch ...), so that it may be judged otherwise a
            moment later: it is judged again right before it starts.
        counts: what it adds to what is counted for limits.
        excused: what exceptions, and allows of programs of one's own, took out of the decision: without them, these
            rules would have asked or denied.
        radius: the blast radius, in sentences: what would go that is there now, and is nowhere else. It is looked up
            where a human is asked, and decides nothing.
        hold: a rule that asks has it run held first.
        holds: what it is confined to where it runs held; None where it can't, because what it does for certain would
            not be shown by that, or nothing confines it.
        held: what has come of that.
        keep: not all that it writes in the project is known, and it runs confined: so much of the project's own files
            is kept before the first such action of a run. None where nothing is.
        undo: so much is kept of what it replaces in the project, so that a human can undo it; None where nothing is.

    Example:
        >>> director = Director.load("default", project="/srv/app")
        >>> decision = director.evaluate(Action("rm -rf /srv/data", cwd="/srv/app"))
        >>> str(decision.verdict), decision.rule, decision.severity
        ('ask', 'delete-outside-project', 'high')
        >>> decision.reason
        'Deletes /srv/data and everything below, outside the project.'
        >>> [(finding.severity, finding.rules) for finding in decision.findings]
        [('high', ('delete-outside-project',))]
    """

    verdict: Verdict
    reason: str
    policy: str
    policy_digest: str
    rules: tuple[str, ...] = ()
    severity: str = "medium"
    suggestion: str = ""
    parse: str = "ok"
    parse_reasons: tuple[str, ...] = ()
    default_hit: bool = False
    unresolved: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    parts: tuple[PartVerdict, ...] = ()
    effects: tuple[Effect, ...] = ()
    files: tuple[FileDigest, ...] = ()
    route: str | dict[str, Any] = "default"
    asks: tuple[Ask, ...] = ()
    microseconds: int = 0
    enforced: bool = True
    confinement: Confinement | None = None
    confinable: bool = False
    reduced: Confinement | None = None
    view: View = HOST
    keep: Bounds | None = None
    undo: Bounds | None = None
    findings: tuple[Finding, ...] = ()
    excused: tuple[Excused, ...] = ()
    momentary: bool = False
    counts: tuple[Count, ...] = ()
    radius: tuple[str, ...] = ()
    hold: bool = False
    holds: Confinement | None = None
    held: HeldRun | None = None

    @property
    def limits(self) -> Limits:
        """Return how far the policy lets an approval of all that is asked about be remembered."""
        limits = Limits() if self.asks else Limits((), 0, 0)
        for ask in self.asks:
            limits = limits.within(ask.limits)
        return limits

    @property
    def runs(self) -> str:
        """Return what it is allowed to run in, for people: "confined to project", with what it has of the network in
        brackets, "not confined (reduced: landlock)" or "not confined".
        """
        if self.confinement is not None:
            reach = self.confinement.reach
            return f"confined to {self.confinement.name}" + (f" ({reach})" if reach else "")
        return "not confined" if self.reduced is None else f"not confined (reduced: {REDUCED})"

    @property
    def confined_line(self) -> str:
        """Return the line that says of a verdict how it runs; "" where it was judged for what can't be confined."""
        if self.verdict is Verdict.ALLOW:
            return f"allowed because it runs {self.runs}" if self.confinement is not None else ""
        return f"once approved, it runs {self.runs}" if self.confinable and self.verdict is Verdict.ASK else ""

    @property
    def rule(self) -> str:
        """The rule that decided, or "" where none matched."""
        return self.rules[0] if self.rules else ""
