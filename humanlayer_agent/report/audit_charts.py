"""The charts of the audit report: what is drawn of the facts, over which time, and the same as tables."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from humanlayer_agent.report.attention import BUCKETS, Attention
from humanlayer_agent.report.charts import Chart, Series, Table, bars, columns, heat, line
from humanlayer_agent.report.facts import Facts

MAX_DAYS = 92
"""So many days are drawn by day; longer times by the week, or by as many weeks as it takes."""
SHOWN_RULES = 12
_WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_HOURS = tuple(f"{hour:02}" for hour in range(24))


@dataclass(frozen=True, slots=True)
class Span:
    """A day, or several: its label, its full name, and how many commands got which verdict in it; how many that were to
    be asked about were granted before.
    """

    label: str
    name: str
    verdicts: dict[str, int]
    granted: int = 0


def spans(facts: Facts) -> list[Span]:
    """Return each day there is, also those on which nothing happened; weeks, of many days."""
    if not facts.days:
        return []
    first, last = date.fromisoformat(min(facts.days)), date.fromisoformat(max(facts.days))
    days = (last - first).days + 1
    step = 1 if days <= MAX_DAYS else 7 * math.ceil(days / 7 / MAX_DAYS)
    counts = [Counter[str]() for _ in range(math.ceil(days / step))]
    for day, of_day in facts.days.items():
        counts[(date.fromisoformat(day) - first).days // step].update(of_day)
    out = []
    for n, each in enumerate(counts):
        begin = first + timedelta(n * step)
        name = begin.isoformat() if step == 1 else f"{step} days from {begin.isoformat()}"
        verdicts = {verdict: each[verdict] for verdict in ("allow", "ask", "deny")}
        out.append(Span(f"{begin.day} {begin:%b}", name, verdicts, each["granted"]))
    return out


def verdicts_by_day(days: Sequence[Span]) -> Chart:
    """Draw what the policy said of the commands of each day."""
    series = [
        Series(name, verdict, [day.verdicts[verdict] for day in days])
        for verdict, name in (("allow", "allowed"), ("ask", "asked"), ("deny", "denied"))
    ]
    rows: list[Sequence[str | int]] = [(day.name, *day.verdicts.values()) for day in days]
    table = Table(("Day", ">Allowed", ">Asked", ">Denied"), rows)
    about = "What the policy said of the commands of each day."
    return columns("Verdicts per day", about, [day.label for day in days], series, table)


def ask_rate(days: Sequence[Span]) -> Chart:
    """Draw how many of a hundred commands a human was asked about."""
    rates = [
        100 * (day.verdicts["ask"] - day.granted) / total if (total := sum(day.verdicts.values())) else None
        for day in days
    ]
    rows = [(day.name, "–" if rate is None else f"{rate:.2f} %") for day, rate in zip(days, rates, strict=True)]
    table = Table(("Day", ">Asks per 100 commands"), rows)
    about = "Questions to humans in 100 commands: what supervision costs."
    return line("Ask rate", about, [day.label for day in days], rates, table, unit=" %")


def asks_by_rule(facts: Facts) -> Chart:
    """Draw which rules asked, and what was answered."""
    asked = sorted((u for u in facts.rules.values() if u.ends.total()), key=lambda u: -u.ends.total())
    names = [use.id or "(no rule allows it)" for use in asked]
    yes = [use.ends["approved"] + use.ends["lapsed"] + use.ends["revoked"] + use.ends["invalidated"] for use in asked]
    no = [use.ends["rejected"] + use.ends["answered"] + use.ends["run stopped"] + use.ends["edited"] for use in asked]
    rest = [use.ends.total() - a - b for use, a, b in zip(asked, yes, no, strict=True)]
    n = SHOWN_RULES
    series = [
        Series("approved", "allow", yes[:n]),
        Series("refused or changed", "deny", no[:n]),
        Series("not answered", "none", rest[:n]),
    ]
    titles = ("Rule", ">Approved", ">Refused or changed", ">Not answered")
    table = Table(titles, list(zip(names, yes, no, rest, strict=True)))
    about = "Which rules asked, and what was answered." + (f" The {n} most frequent." if len(asked) > n else "")
    return bars("Asks by rule", about, names[:n], series, table)


def time_to_an_answer(found: Attention) -> Chart:
    """Draw how long humans took to answer."""
    labels = [name for _, name in BUCKETS]
    fast = [n if i < 2 else 0 for i, n in enumerate(found.latency)]
    rest = [n if i >= 2 else 0 for i, n in enumerate(found.latency)]
    series = [Series("under 3 s", "ask", fast), Series("3 s and more", "plain", rest)]
    table = Table(("Time", ">Answers"), list(zip(labels, found.latency, strict=True)))
    about = "From the question to the answer. Nobody reads much in under 3 seconds."
    return columns("Time to an answer", about, labels, series, table)


def time_of_day(facts: Facts) -> Chart:
    """Draw when humans are asked, by weekday and hour."""
    values = [[facts.week[day, hour] for hour in range(24)] for day in range(7)]
    rows: list[Sequence[str | int]] = [(name, *row) for name, row in zip(_WEEK, values, strict=True)]
    table = Table(("Day", *(f">{hour}" for hour in _HOURS)), rows)
    return heat("Time of day", "When humans are asked, by weekday and hour (UTC).", _WEEK, _HOURS, values, table)
