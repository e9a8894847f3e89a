"""The changes when one policy takes the place of another: each command judged by both.

A verdict is compared as it is enforced: a policy that only observes stops nothing, whatever it says. What both ask
about can still be asked with less (a lower severity, a wider grant): that is counted by itself, and is no
loosening.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from humanlayer_agent.canonical_json import canonical, encodable
from humanlayer_agent.policy.decision import SEVERITIES, PolicyDecision, Verdict
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.examples import Example
from humanlayer_agent.policy.language.policy import Given, Policy
from humanlayer_agent.policy_tools.diff.acceptance import Accepted
from humanlayer_agent.policy_tools.diff.rule_changes import RuleChange
from humanlayer_agent.policy_tools.diff.search import (
    NOTHING,
    Progress,
    Search,
    Shown,
    enforced,
    judged,
    sources_of,
    told,
)
from humanlayer_agent.policy_tools.replay import Judged
from humanlayer_agent.policy_tools.replay.figures import MAX_KEPT
from humanlayer_agent.policy_tools.replay.steps import NoCommand, Unreadable
from humanlayer_agent.safe_text import one_line

Headline = Literal["equivalent", "no difference found", "stricter", "looser", "mixed"]

MAX_CHANGES = 100_000
"""Most different changes that are kept one by one; all are counted."""


@dataclass(slots=True)
class Change:
    """A command that the two policies judge differently: how often it came, and where first.

    `digest` identifies it on every machine: the command, where it starts in the project, the files that were judged
    with it, and the two verdicts. `accepted` is the reason why it may be looser. `shows` is the change in the rules for
    which it was looked for; None of a command that was given.
    """

    digest: str
    first: Judged
    old: Verdict
    new: Verdict
    count: int = 0
    accepted: str = ""
    shows: RuleChange | None = None

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
    found: list[Change] = field(default_factory=list)
    """Commands that were looked for (`search`), the shortest for each change in the rules: counted nowhere else."""
    search: Search | None = None
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
    def loosened_clauses(self) -> int:
        """How many changes in the rules loosen something, by a command that was found and that nobody has accepted."""
        return sum(change.loosened and not change.accepted for change in self.found)

    @property
    def tightened(self) -> int:
        return sum(n for (old, new), n in self.matrix.items() if new > old)

    @property
    def same(self) -> int:
        return sum(n for (old, new), n in self.matrix.items() if new is old)

    @property
    def headline(self) -> Headline:
        """What the new policy is, over these commands; what was accepted does not count. Equivalent is one whose rules
        decide the same, and not one of which only no command was found that shows what they do.
        """
        tightened = self.tightened or any(not change.loosened for change in self.found)
        if self.loosened or self.loosened_clauses:
            return "mixed" if tightened else "looser"
        if tightened:
            return "stricter"
        same = self.search is not None and self.search.complete and not self.search.changes
        return "equivalent" if same and not self.unlocked else "no difference found"

    def cells(self) -> Iterator[tuple[Verdict, Verdict, list[Change]]]:
        """The changes by cell: loosened ones first, the widest step first; in it what was looked for, then what comes
        most often.
        """
        found: dict[tuple[Verdict, Verdict], list[Change]] = {}
        for change in (*self.found, *self.changes.values()):
            found.setdefault((change.old, change.new), []).append(change)
        for old, new in sorted(found, key=lambda cell: (cell[1] - cell[0], -cell[0])):
            yield old, new, sorted(found[old, new], key=_order)

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

    def look(self, search: Search, progress: Progress = lambda done, of, tried: None) -> None:
        """Look for commands that show what changed in the rules, and take in what is found."""
        self.search = search
        search.run(progress)
        for each in search.shown():
            old, new = (enforced(decision) for decision in each.row.decisions)
            change = Change(found_digest(each, old, new), each.row, old, new, shows=each.change)
            if change.loosened:
                change.accepted = self.accepted.reason(change.digest, change.command)
            self.found.append(change)

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


def found_digest(each: Shown, old: Verdict, new: Verdict) -> str:
    """SHA-256 (hex) over a command that was looked for, and over the change that it shows: who accepts it has read
    both. Where the same clause then lets more through, it is another one.
    """
    change = each.change
    said = [
        change.rule,
        change.clause,
        change.text,
        list(change.conditions),
        change_digest(each.row, old, new),
        told(each.circumstances),
    ]
    return hashlib.sha256(canonical(said)).hexdigest()


def _order(change: Change) -> tuple[bool, bool, int]:
    return bool(change.accepted), change.shows is None, -change.count


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
        yield f"route {_route(old.route)} becomes {_route(new.route)}"


def _route(route: str | Mapping[str, Any]) -> str:
    """A route in words."""
    if isinstance(route, str):
        return route
    more = [f"{key.replace('_', ' ')} {value}" for key, value in route.items() if key != "name"]
    return f"{route['name']} with {', '.join(more)}" if more else str(route["name"])


def _rehoused(old: PolicyDecision, new: PolicyDecision) -> Iterator[str]:
    """In what an allowed command runs now, where that is not what it ran in."""
    if new.verdict is Verdict.ALLOW and old.confinement != new.confinement:
        yield f"{old.runs} becomes {new.runs if old.runs != new.runs else 'another one of that name'}"


def over_tests(old: Policy, new: Policy, accepted: Accepted, *, confined: bool = False) -> Diff:
    """The difference over the examples in the rules of both policies, each command once.

    Args:
        confined: judge all of them as where what is allowed can be confined, not only those that are about that.
    """
    found: dict[tuple[str, Given | None, bool], Example] = {}
    for policy in (old, new):
        for example in examples.examples(policy):
            found.setdefault((example.command, example.given, confined or example.confinable), example)
    alike = [replace(each, sources=sources_of(old, new)) for each in (old, new)]
    directors = {
        so: [examples.director_for(each, observe=each.observe, confined=so) for each in alike]
        for so in {so for _, _, so in found}
    }
    diff = Diff(accepted, unlocked=unlocked(old, new))
    diff.count(
        judged(directors[so], command, f"{each.kind} of {each.name}", said or NOTHING, confined=so, source=each.origin)
        for (command, said, so), each in found.items()
    )
    return diff


def unlocked(old: Policy, new: Policy) -> list[str]:
    """What `old` locks and `new` does not."""
    kept = {rule.id for rule in new.rules if rule.locked}
    gone = [f"rule {rule.id}" for rule in old.rules if rule.locked and rule.id not in kept]
    return (["the policy"] if old.defaults.locked and not new.defaults.locked else []) + gone


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
        "loosened_clauses": diff.loosened_clauses,
        "searched": _searched(diff.search) if diff.search is not None else None,
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


def _searched(search: Search) -> dict[str, Any]:
    silent = search.silent()
    return {
        "commands": search.tried,
        "complete": search.complete,
        "changed": [{**_named(change), "found": change not in silent} for change in search.changes],
    }


def _named(change: RuleChange) -> dict[str, str]:
    return {"rule": change.rule, "clause": change.clause, "change": change.text}


def _public(change: Change) -> dict[str, Any]:
    step = change.first.step
    old, new = change.first.decisions
    return {
        "digest": change.digest,
        "command": change.command,
        "loosened": change.loosened,
        "accepted": change.accepted or None,
        "count": change.count,
        "shows": _named(change.shows) if change.shows is not None else None,
        "old": {"verdict": str(change.old), "rule": old.rule or None, "reason": old.reason},
        "new": {"verdict": str(change.new), "rule": new.rule or None, "reason": new.reason},
        "first": {"source": step.source, "place": step.place, "run": step.run, "cwd": change.first.cwd},
    }


def acceptable(changes: Sequence[Change]) -> str:
    """What a file of acceptances needs for these changes: the reasons are to be filled in."""
    import json

    out = ["accepted:"]
    for change in changes:
        if change.shows is not None:
            out.append(f"  # {one_line(change.shows.name)}: {one_line(change.shows.text)}")
        out.append(f"  - digest: {change.digest}")
        out.append(f"    command: {json.dumps(change.command)}")
        out.append(
            f"    # {change.old} ({change.rules[0] or 'no rule'}) -> {change.new} ({change.rules[1] or 'no rule'})"
        )
        out.append('    reason: ""')
    return "\n".join(out) + "\n" if changes else "accepted: []\n"
