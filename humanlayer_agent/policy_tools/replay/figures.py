"""The figures of a replay: verdicts, asks a run, rules, the commands that are asked about, and what was left out."""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.explanation.unknown_programs import unknown_programs
from humanlayer_agent.policy_tools.replay import Judged
from humanlayer_agent.policy_tools.replay.steps import NoCommand, Unreadable

MAX_KEPT = 1_000
"""Most rows that can't be replayed that are kept with their reasons; all are counted."""
SLOWEST = 10
NO_RULE = "(no rule)"


@dataclass(slots=True)
class Stopped:
    """A command that is not allowed: how often, in which runs, and what is said of it the first time."""

    command: str
    verdict: Verdict
    rule: str
    reason: str
    unread: bool
    first: Judged
    count: int = 0
    runs: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Cause:
    """A kind of reason why commands are not allowed: how many, of which verdict, and the first of them.

    `fault` says whose it is: "log" where the log lacks the files that would tell, "" else.
    """

    kind: str
    example: Judged
    fault: str = ""
    count: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)


MISSING = "scripts of a checkout that is not there"
"""The cause that is the log's: with the files, most of it would be no question."""


def cause_of(row: Judged) -> str:
    """Return the kind of reason why a row is not allowed, in words that are the same for all of its kind."""
    decision = row.decisions[0]
    if decision.verdict is Verdict.DENY and decision.rule:
        return f"denied by {decision.rule}"
    if row.missing:
        return MISSING
    if row.certain is not None and row.unread:
        return f"rule {row.certain}" if row.certain else "no rule allows it"
    if row.unread:
        return "code that nobody could read"
    if decision.parse != "ok":
        return "text that could not be read as bash"
    if unknown_programs(decision.effects):
        return "a program that is not described"
    return f"rule {decision.rule}" if decision.rule else "no rule allows it"


@dataclass(slots=True)
class RuleFigures:
    """How often a rule applied, and how often it decided which verdict."""

    id: str
    decision: str
    hits: int = 0
    decided: Counter[Verdict] = field(default_factory=Counter)


@dataclass(slots=True)
class Figures:
    """Counts over the rows of a replay.

    Args:
        rules: id and decision of every rule in force, so that those that were never hit are known.
    """

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    runs: set[str] = field(default_factory=set)
    runs_asked: set[str] = field(default_factory=set)
    rules: dict[str, RuleFigures] = field(default_factory=dict)
    stopped: dict[tuple[str, Verdict, str], Stopped] = field(default_factory=dict)
    causes: dict[str, Cause] = field(default_factory=dict)
    missing: Counter[str] = field(default_factory=Counter)
    """Code that is not there, and how many stopped commands run it."""
    unread: Counter[Verdict] = field(default_factory=Counter)
    confined: Counter[str] = field(default_factory=Counter)
    """What was allowed because it runs confined, by what it runs in, as people are told (`PolicyDecision.runs`)."""
    parses: Counter[str] = field(default_factory=Counter)
    no_commands: Counter[str] = field(default_factory=Counter)
    unreadable: list[Unreadable] = field(default_factory=list)
    unreadable_count: int = 0
    redacted: int = 0
    recorded: int = 0
    """Rows of which the log says what was decided then."""
    changed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """What was decided then and what is now, where that differs."""
    microseconds: list[int] = field(default_factory=list)
    slowest: list[tuple[int, int, Judged]] = field(default_factory=list)

    @property
    def commands(self) -> int:
        """How many commands were judged."""
        return self.verdicts.total()

    @property
    def asks(self) -> int:
        return self.verdicts[Verdict.ASK]

    @property
    def asks_per_100(self) -> float:
        """Asks in 100 commands; 0 where there are none."""
        return 100 * self.asks / self.commands if self.commands else 0.0

    @property
    def asks_per_run(self) -> float:
        """Asks a run; 0 where there is none."""
        return self.asks / len(self.runs) if self.runs else 0.0

    @property
    def faults(self) -> int:
        """Commands that are asked about because the log lacks the files that they run."""
        return self.causes[MISSING].verdicts[Verdict.ASK] if MISSING in self.causes else 0

    def by_cause(self) -> list[Cause]:
        """Kinds of reasons, those of most commands first."""
        return sorted(self.causes.values(), key=lambda each: -each.count)

    @property
    def never_hit(self) -> list[RuleFigures]:
        """Rules that no command met."""
        return [rule for rule in self.rules.values() if not rule.hits]

    def most_stopped(self) -> list[Stopped]:
        """Commands that are not allowed, those that come most often first; of equals, denied ones."""
        return sorted(self.stopped.values(), key=lambda each: (-each.count, -each.verdict))

    def percentile(self, share: float) -> int:
        """Microseconds that this share of the commands needed at most."""
        ordered = sorted(self.microseconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0

    def count(self, rows: "Iterable[Judged | Unreadable | NoCommand]") -> "Iterator[Judged]":
        """Count rows as they pass; those that were judged are passed on."""
        for row in rows:
            if isinstance(row, Unreadable):
                self.unreadable_count += 1
                if len(self.unreadable) < MAX_KEPT:
                    self.unreadable.append(row)
            elif isinstance(row, NoCommand):
                self.no_commands[row.tool] += 1
            else:
                self._judged(row)
                yield row

    def _judged(self, row: Judged) -> None:
        step, decision = row.step, row.decisions[0]
        verdict = decision.verdict
        self.verdicts[verdict] += 1
        self.runs.add(step.run)
        self.parses[decision.parse] += 1
        self.redacted += step.redacted
        if step.verdict:
            self.recorded += 1
            if step.verdict != str(verdict):
                self.changed[step.verdict, str(verdict)] += 1
        for id_ in decision.rules:
            self.rules.setdefault(id_, RuleFigures(id_, "")).hits += 1
        if decision.rule:
            self.rules[decision.rule].decided[verdict] += 1
        if verdict is Verdict.ALLOW and decision.confinement is not None:
            self.confined[decision.runs] += 1
        if verdict is not Verdict.ALLOW:
            self.unread[verdict] += row.unread
            self._stopped(row)
            kind = cause_of(row)
            cause = self.causes.setdefault(kind, Cause(kind, row, "log" if kind == MISSING else ""))
            cause.count += 1
            cause.verdicts[verdict] += 1
            self.missing.update(row.missing)
        if verdict is Verdict.ASK:
            self.runs_asked.add(step.run)
        self.microseconds.append(row.microseconds)
        heapq.heappush(self.slowest, (row.microseconds, -self.commands, row))
        if len(self.slowest) > SLOWEST:
            heapq.heappop(self.slowest)

    def _stopped(self, row: Judged) -> None:
        decision = row.decisions[0]
        key = (row.step.command, decision.verdict, decision.rule)
        if (found := self.stopped.get(key)) is None:
            found = Stopped(
                row.step.command,
                decision.verdict,
                decision.rule or NO_RULE,
                decision.reason,
                row.unread,
                row,
            )
            self.stopped[key] = found
        found.count += 1
        found.runs.add(row.step.run)
