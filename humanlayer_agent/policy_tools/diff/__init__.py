"""The changes when one policy takes the place of another: each command judged by both.

A verdict is compared as it is enforced: a policy that only observes stops nothing, whatever it says. What both ask
about can still be asked with less (a lower severity, a wider grant): that is counted by itself, and is no
loosening.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from humanlayer_agent.canonical_json import canonical, encodable
from humanlayer_agent.policy.decision import SEVERITIES, PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.policy import Given, Policy
from humanlayer_agent.policy_tools.diff.acceptance import Accepted
from humanlayer_agent.policy_tools.replay import Engine, Judged
from humanlayer_agent.policy_tools.replay.figures import MAX_KEPT
from humanlayer_agent.policy_tools.replay.steps import NoCommand, Step, Unreadable

Headline = Literal["equivalent", "stricter", "looser", "mixed"]

MAX_CHANGES = 100_000
"""Most different changes that are kept one by one; all are counted."""


@dataclass(slots=True)
class Change:
    """A command that the two policies judge differently: how often it came, and where first.

    `digest` identifies it on every machine: the command, where it starts in the project, the files that were judged
    with it, and the two verdicts. `accepted` is the reason why it may be looser.
    """

    digest: str
    first: Judged
    old: Verdict
    new: Verdict
    count: int = 0
    accepted: str = ""

    @property
    def command(self) -> str:
        return self.first.step.command

    @property
    def loosened(self) -> bool:
        return self.new < self.old

    @property
    def rules(self) -> tuple[str, str]:
        """The rules that decided, of the old and of the new policy; "" where none did."""
        return self.first.decisions[0].rule, self.first.decisions[1].rule


@dataclass(slots=True)
class Diff:
    """Counts over the commands that both policies have judged. The matrix is by (old, new)."""

    accepted: Accepted = field(default_factory=Accepted)
    matrix: Counter[tuple[Verdict, Verdict]] = field(default_factory=Counter)
    changes: dict[str, Change] = field(default_factory=dict)
    eased: Counter[str] = field(default_factory=Counter)
    rehoused: Counter[str] = field(default_factory=Counter)
    """What both allow, but to run in another confinement."""
    unlocked: list[str] = field(default_factory=list)
    """What lower layers may weaken now, and could not before. No verdict over one policy shows it."""
    other_rule: int = 0
    runs: set[str] = field(default_factory=set)
    no_commands: int = 0
    unreadable: list[Unreadable] = field(default_factory=list)
    unreadable_count: int = 0

    @property
    def commands(self) -> int:
        return self.matrix.total()

    @property
    def loosened(self) -> int:
        """How many commands the new policy judges less strictly, and nobody has accepted that."""
        return sum(n for (old, new), n in self.matrix.items() if new < old) - self.accepted_count

    @property
    def accepted_count(self) -> int:
        """How many loosened commands somebody has accepted."""
        return sum(change.count for change in self.changes.values() if change.accepted)

    @property
    def tightened(self) -> int:
        return sum(n for (old, new), n in self.matrix.items() if new > old)

    @property
    def same(self) -> int:
        return sum(n for (old, new), n in self.matrix.items() if new is old)

    @property
    def headline(self) -> Headline:
        """What the new policy is, over these commands; what was accepted does not count."""
        if self.loosened:
            return "mixed" if self.tightened else "looser"
        return "stricter" if self.tightened else "equivalent"

    def cells(self) -> Iterator[tuple[Verdict, Verdict, list[Change]]]:
        """The changes by cell: loosened ones first, the widest step first; what comes most often first."""
        found: dict[tuple[Verdict, Verdict], list[Change]] = {}
        for change in self.changes.values():
            found.setdefault((change.old, change.new), []).append(change)
        for old, new in sorted(found, key=lambda cell: (cell[1] - cell[0], -cell[0])):
            yield old, new, sorted(found[old, new], key=lambda change: (bool(change.accepted), -change.count))

    def count(self, rows: Iterable[Judged | Unreadable | NoCommand]) -> None:
        """Count rows that two policies have judged."""
        for row in rows:
            if isinstance(row, Unreadable):
                self.unreadable_count += 1
                if len(self.unreadable) < MAX_KEPT:
                    self.unreadable.append(row)
            elif isinstance(row, NoCommand):
                self.no_commands += 1
            else:
                self._judged(row)

    def _judged(self, row: Judged) -> None:
        old, new = (enforced(decision) for decision in row.decisions)
        self.matrix[old, new] += 1
        self.runs.add(row.step.run)
        if old is new:
            self.other_rule += row.decisions[0].rule != row.decisions[1].rule
            if old is Verdict.ASK:
                self.eased.update(_eased(*row.decisions))
            self.rehoused.update(_rehoused(*row.decisions))
            return
        digest = change_digest(row, old, new)
        change = self.changes.get(digest)
        if change is None:
            if len(self.changes) >= MAX_CHANGES:
                return
            change = self.changes[digest] = Change(digest, row, old, new)
            if change.loosened:
                change.accepted = self.accepted.reason(digest, change.command)
        change.count += 1


def enforced(decision: PolicyDecision) -> Verdict:
    """What a decision leads to: one that is only observed stops nothing."""
    return decision.verdict if decision.enforced else Verdict.ALLOW


def change_digest(row: Judged, old: Verdict, new: Verdict) -> str:
    """SHA-256 (hex) over what makes a change this one; the project's own path does not count."""
    said = {
        "command": encodable(row.step.command),
        "cwd": encodable(_in_project(row.cwd, row.project)),
        "files": [[encodable(_in_project(path, row.project)), sha256] for path, sha256 in row.files],
        "type": row.step.type,
        **({"confined": True} if row.confined else {}),
        "old": str(old),
        "new": str(new),
    }
    return hashlib.sha256(canonical(said)).hexdigest()


def _in_project(path: str, project: str) -> str:
    base = project.rstrip("/")
    return "${PROJECT}" + path[len(base) :] if path == base or path.startswith(base + "/") else path


def _eased(old: PolicyDecision, new: PolicyDecision) -> Iterator[str]:
    """In what the new ask is less than the old one."""
    if SEVERITIES.index(new.severity) < SEVERITIES.index(old.severity):
        yield f"severity {old.severity} becomes {new.severity}"
    before, after = old.limits, new.limits
    if after.within(before) != after:
        yield "may be remembered for more"
    if new.route != old.route:
        yield f"route {old.route} becomes {new.route}"


def _rehoused(old: PolicyDecision, new: PolicyDecision) -> Iterator[str]:
    """In what an allowed command runs now, where that is not what it ran in."""
    if new.verdict is Verdict.ALLOW and old.confinement != new.confinement:
        yield f"{old.runs} becomes {new.runs if old.runs != new.runs else 'another one of that name'}"


def over_tests(old: Policy, new: Policy, accepted: Accepted, *, confined: bool = False) -> Diff:
    """The difference over the examples in the rules of both policies, each command once.

    Args:
        confined: judge all of them as where what is allowed can be confined, not only those that are about that.
    """
    steps: dict[tuple[str, Given | None, bool], Step] = {}
    for policy in (old, new):
        for example in examples.examples(policy):
            where = f"{example.kind} of {example.name}"
            so = confined or example.confinable
            said = example.given
            step = Step(
                example.origin, where, "", where, example.command, examples.PROJECT,
                ran=False, confined=so, given=said, agent=(said.agent or "") if said is not None else "",
            )  # fmt: skip
            steps.setdefault((example.command, said, so), step)

    def directors(_: str, confined: bool) -> list[Director]:
        return [examples.director_for(policy, observe=policy.observe, confined=confined) for policy in (old, new)]

    engine = Engine(directors, default=_nowhere, check=_any)
    diff = Diff(accepted, unlocked=unlocked(old, new))
    diff.count(engine.replay(steps.values()))
    return diff


def unlocked(old: Policy, new: Policy) -> list[str]:
    """What `old` locks and `new` does not."""
    kept = {rule.id for rule in new.rules if rule.locked}
    gone = [f"rule {rule.id}" for rule in old.rules if rule.locked and rule.id not in kept]
    return (["the policy"] if old.defaults.locked and not new.defaults.locked else []) + gone


def _nowhere() -> Any:
    from pathlib import Path

    return Path(examples.PROJECT)


def _any(path: str) -> Any:
    from pathlib import Path

    return Path(path)


def public(diff: Diff) -> Mapping[str, Any]:
    """All of it, as JSON."""
    return {
        "headline": diff.headline,
        "commands": diff.commands,
        "loosened": diff.loosened,
        "accepted": diff.accepted_count,
        "tightened": diff.tightened,
        "same": diff.same,
        "decided_by_another_rule": diff.other_rule,
        "asked_with_less": dict(diff.eased),
        "confined_otherwise": dict(diff.rehoused),
        "no_longer_locked": diff.unlocked,
        "matrix": {str(old): {str(new): diff.matrix[old, new] for new in Verdict} for old in Verdict},
        "changes": [_public(change) for _, _, changes in diff.cells() for change in changes],
        "stale_acceptances": [
            {"digest": each.digest, "command": each.command, "reason": each.reason, "why": why}
            for each, why in diff.accepted.unused()
        ],
        "unreadable": {
            "count": diff.unreadable_count,
            "rows": [{"source": r.source, "place": r.place, "why": r.why} for r in diff.unreadable],
        },
    }


def _public(change: Change) -> dict[str, Any]:
    step = change.first.step
    old, new = change.first.decisions
    return {
        "digest": change.digest,
        "command": change.command,
        "loosened": change.loosened,
        "accepted": change.accepted or None,
        "count": change.count,
        "old": {"verdict": str(change.old), "rule": old.rule or None, "reason": old.reason},
        "new": {"verdict": str(change.new), "rule": new.rule or None, "reason": new.reason},
        "first": {"source": step.source, "place": step.place, "run": step.run, "cwd": change.first.cwd},
    }


def acceptable(changes: Sequence[Change]) -> str:
    """What a file of acceptances needs for these changes: the reasons are to be filled in."""
    import json

    out = ["accepted:"]
    for change in changes:
        out.append(f"  - digest: {change.digest}")
        out.append(f"    command: {json.dumps(change.command)}")
        out.append(
            f"    # {change.old} ({change.rules[0] or 'no rule'}) -> {change.new} ({change.rules[1] or 'no rule'})"
        )
        out.append('    reason: ""')
    return "\n".join(out) + "\n" if changes else "accepted: []\n"
