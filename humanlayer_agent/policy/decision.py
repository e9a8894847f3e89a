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
        remember: for how long an approval may be remembered.
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
        keep: not all that it writes in the project is known, and it runs confined: so much of the project's own files
            is kept before the first such action of a run. None where nothing is.

    Example:
        >>> director = Director.load("default", project="/srv/app")
        >>> decision = director.evaluate(Action("rm -rf /srv/data", cwd="/srv/app"))
        >>> str(decision.verdict), decision.rule, decision.severity
        ('ask', 'delete-outside-project', 'high')
        >>> decision.reason
        'Deletes /srv/data, outside the project.'
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
    remember: tuple[str, ...] = ("once",)
    microseconds: int = 0
    enforced: bool = True
    confinement: Confinement | None = None
    confinable: bool = False
    reduced: Confinement | None = None
    view: View = HOST
    keep: Bounds | None = None
    findings: tuple[Finding, ...] = ()

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
