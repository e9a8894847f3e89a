"""The attention that supervision asks of people: how much, how fast they answer, and which questions change nothing."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from humanlayer_agent.report.facts import Facts, Request

FAST_MS = 3_000
"""Faster than this, nobody has read much."""

CANDIDATE_AT = 3
"""So many answers a rule needs before "always approved" says something."""

_HUMAN = frozenset({"approve", "reject", "edit", "respond", "terminate"})

BUCKETS = (
    (1_000, "< 1 s"),
    (3_000, "1–3 s"),
    (10_000, "3–10 s"),
    (30_000, "10–30 s"),
    (60_000, "30–60 s"),
    (300_000, "1–5 min"),
    (1_800_000, "5–30 min"),
    (None, "> 30 min"),
)
"""Upper ends of the times that are counted together, in milliseconds."""


@dataclass(slots=True)
class Answers:
    """The answers of one person, or to what one rule has asked (`asked` times, for a person those answered)."""

    name: str
    asked: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    took: list[int] = field(default_factory=list)

    def add(self, answer: str, took_ms: int) -> None:
        """Count one answer, and how long it took from the question."""
        self.answers[answer] += 1
        self.took.append(max(0, took_ms))

    @property
    def approved(self) -> float:
        """The share of answers that were yes, in percent."""
        return 100 * self.answers["approve"] / self.answers.total() if self.answers else 0.0

    @property
    def median_ms(self) -> int:
        return int(median(self.took)) if self.took else 0

    @property
    def fast(self) -> float:
        """The share of answers in under 3 s, in percent."""
        return 100 * sum(t < FAST_MS for t in self.took) / len(self.took) if self.took else 0.0


@dataclass(slots=True)
class Candidate:
    """A rule whose questions were all approved."""

    rule: str
    answers: int
    example: str


@dataclass(slots=True)
class Attention:
    """The figures.

    `approver_hours` counts the hours (on the clock) in which a person answered anything, each person by themselves.
    """

    commands: int
    asks: int
    answered: int
    unanswered: int
    approver_hours: int
    took: list[int]
    approvers: list[Answers]
    rules: list[Answers]
    candidates: list[Candidate]
    latency: list[int]

    @property
    def asks_per_100(self) -> float:
        return 100 * self.asks / self.commands if self.commands else 0.0

    @property
    def asks_per_approver_hour(self) -> float:
        return self.answered / self.approver_hours if self.approver_hours else 0.0

    @property
    def fast(self) -> float:
        """The share of answers in under 3 s, in percent."""
        return 100 * sum(t < FAST_MS for t in self.took) / len(self.took) if self.took else 0.0

    @property
    def median_ms(self) -> int:
        return int(median(self.took)) if self.took else 0


def attention(facts: Facts) -> Attention:
    """The figures for what a log tells."""
    requests = list(facts.requests.values())
    hours: set[tuple[str, int]] = set()
    approvers: dict[str, Answers] = {}
    rules: dict[str, Answers] = {}
    took: list[int] = []
    for request in requests:
        rule = request.decision.rule if request.decision is not None else ""
        of_rule = rules.setdefault(rule, Answers(rule))
        of_rule.asked += 1
        for vote in request.votes:
            if vote.answer not in _HUMAN:
                continue
            name = vote.person or vote.principal
            hours.add((name, vote.at // 3_600_000))
            use = approvers.setdefault(name, Answers(name))
            use.asked += 1
            for each in (use, of_rule):
                each.add(vote.answer, vote.at - request.asked)
            took.append(use.took[-1])
    answered = sum(any(vote.answer in _HUMAN for vote in request.votes) for request in requests)
    return Attention(
        commands=facts.verdicts.total(),
        asks=len(requests),
        answered=answered,
        unanswered=len(requests) - answered,
        approver_hours=len(hours),
        took=took,
        approvers=sorted(approvers.values(), key=lambda use: -use.answers.total()),
        rules=sorted(rules.values(), key=lambda use: -use.asked),
        candidates=_candidates(requests),
        latency=_histogram(took),
    )


def _candidates(requests: Iterable[Request]) -> list[Candidate]:
    """Rules of which every question that was answered was approved, unchanged."""
    answers: dict[str, Counter[str]] = {}
    examples: dict[str, Counter[str]] = {}
    for request in requests:
        if request.decision is None or not request.decision.rule or request.deciding is None:
            continue
        rule = request.decision.rule
        answers.setdefault(rule, Counter()).update(vote.answer for vote in request.votes if vote.answer in _HUMAN)
        examples.setdefault(rule, Counter())[request.decision.command] += 1
    found = [
        Candidate(rule, said.total(), examples[rule].most_common(1)[0][0])
        for rule, said in answers.items()
        if said.total() >= CANDIDATE_AT and set(said) == {"approve"}
    ]
    return sorted(found, key=lambda each: -each.answers)


def _histogram(took: Iterable[int]) -> list[int]:
    counts = [0] * len(BUCKETS)
    for ms in took:
        counts[next(n for n, (end, _) in enumerate(BUCKETS) if end is None or ms < end)] += 1
    return counts


def day_of(ms: int) -> str:
    """The day (UTC, ISO 8601) of a moment."""
    return datetime.fromtimestamp(ms / 1000, UTC).date().isoformat()
