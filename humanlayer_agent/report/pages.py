"""The reports as pages: one self-contained file each, with no script, no network, and a content policy that says so.

What stands on them is in `templates`, which escape everything; here is what the templates are given.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from humanlayer_agent import __version__
from humanlayer_agent.channels.html_templates import html_templates
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.diff import Diff
from humanlayer_agent.policy_tools.replay.figures import Figures
from humanlayer_agent.policy_tools.replay.formats import Found
from humanlayer_agent.report import audit_charts
from humanlayer_agent.report.attention import FAST_MS, attention, day_of
from humanlayer_agent.report.charts import Chart, Series, bars
from humanlayer_agent.report.evidence import NOTICE, RECORDS, Evidence, figures
from humanlayer_agent.report.facts import Decision, Facts, Request, Vote
from humanlayer_agent.report.integrity import Integrity

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_APPROVALS = 5_000
MAX_ROWS = 1_000
"""Most rows of a table; the page says how many there are."""
MAX_CHANGES = 500
"""Most changes of one kind on the page of a diff."""
_SHOWN_RULES = 15
_TEMPLATES = Path(__file__).with_name("templates")


def audit_page(facts: Facts, integrity: Integrity, *, rules: Sequence[str] = (), policy: str = "default") -> str:
    """Return the auditor's report: integrity first, then the picture, then every decision of a human.

    Args:
        rules: the rules in force, as far as they are known: those that were never hit are named.
        policy: the policy that `hla policy diff` is to start from.
    """
    found, days = attention(facts), audit_charts.spans(facts)
    requests = facts.requests.values()
    unanswered = [r for r in requests if not r.votes and r.state in ("expired", "withdrawn", "run stopped")]
    denials = _denials(facts.denials[-MAX_ROWS:], unanswered[-MAX_ROWS:])
    return _rendered(
        "audit.html.j2",
        facts=facts,
        integrity=integrity,
        found=found,
        period=_period(facts),
        approved=sum(any(v.answer == "approve" for v in r.votes) for r in requests),
        refused=sum(r.state in ("rejected", "answered", "run stopped") for r in requests),
        silent=sum(not r.votes and r.state in ("expired", "withdrawn") for r in requests),
        charts=[
            audit_charts.verdicts_by_day(days),
            audit_charts.ask_rate(days),
            audit_charts.asks_by_rule(facts),
        ],
        stacked=[audit_charts.time_to_an_answer(found), audit_charts.time_of_day(facts)],
        answered=[request for request in requests if request.votes],
        denials=denials,
        denial_count=len(facts.denials) + len(unanswered),
        overrides=_overrides(facts),
        used=sorted((use for use in facts.rules.values() if use.id), key=lambda use: -use.applied),
        known=rules,
        never=[id_ for id_ in rules if id_ not in facts.rules],
        runs=[run for run in facts.runs.values() if run.started is not None or run.verdicts],
        policy=policy,
        most_approvals=MAX_APPROVALS,
    )


def evidence_page(found: Evidence) -> str:
    """Return what a log shows for the clauses of a map: the same for the same log, map and times."""
    facts = found.facts
    return _rendered(
        "evidence.html.j2",
        found=found,
        of=found.map,
        facts=facts,
        integrity=found.integrity,
        notice=NOTICE,
        titles={name: title for name, (title, _) in RECORDS.items()},
        figures={each.clause: [figures()[name] for name in each.figures] for each in found.map.clauses},
        refused=_denials(facts.denials[-MAX_ROWS:], found.unanswered[-MAX_ROWS:]),
        refused_count=len(facts.denials) + len(found.unanswered),
    )


def diff_page(diff: Diff, old: Policy, new: Policy, *, over_tests: bool) -> str:
    """Return what changes from one policy to another.

    Args:
        over_tests: the commands are the examples in the rules, no recorded runs.
    """
    cells = list(diff.cells())
    return _rendered(
        "diff.html.j2", diff=diff, old=old, new=new, over_tests=over_tests, cells=cells, most_changes=MAX_CHANGES
    )


def replay_page(figures: Figures, policy: Policy, found: Found) -> str:
    """Return what a replay found."""
    used = sorted((rule for rule in figures.rules.values() if rule.hits), key=lambda rule: -rule.hits)
    stopped = figures.most_stopped()
    return _rendered(
        "replay.html.j2",
        figures=figures,
        policy=policy,
        found=found,
        used=used,
        chart=_stops_by_rule(figures),
        asked=[each for each in stopped if not each.unread],
        unread=[each for each in stopped if each.unread],
    )


# ---- what the templates are given -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    """A command with what is said of it, in which colour; `vote` where a human answered something about it."""

    at: int
    said: str
    look: str
    decision: Decision | None
    request: Request | None = None
    vote: Vote | None = None


def _period(facts: Facts) -> str:
    if facts.first is None or facts.last is None:
        return "No event in the time and the run that were asked for"
    first, last = day_of(facts.first), day_of(facts.last)
    days = first if first == last else f"{first} to {last}"
    only = f", run {facts.wanted.run}" if facts.wanted.run else ""
    return f"{days}{only} · {facts.events:,} events · store {facts.store[:12] or 'unknown'}"


def _denials(denials: Sequence[Decision], unanswered: Sequence[Request]) -> list[_Row]:
    """Return what the policy denied, what nobody answered, what a stopped run wanted."""
    rows = [_Row(decision.at, decision.denied or "policy", "bad", decision) for decision in denials]
    for request in unanswered:
        said = {"expired": "nobody answered", "withdrawn": request.why or "withdrawn"}
        rows.append(_Row(request.asked, said.get(request.state, request.state), "warn", request.decision))
    return sorted(rows, key=lambda row: row.at)


_SPECIAL = {"edit": "edited", "escalate": "escalated", "revoke": "revoked", "terminate": "stopped the run"}


def _overrides(facts: Facts) -> list[_Row]:
    """Return what ran although a rule would have stopped it, was changed by a human, or was approved by whoever started
    it.
    """
    rows = [_Row(d.at, f"observed: {d.verdict}, not enforced", "bad", d) for d in facts.observed]
    for request in facts.requests.values():
        for vote in request.votes:
            said = "solo approval" if vote.solo and vote.answer == "approve" else _SPECIAL.get(vote.answer)
            if said:
                rows.append(_Row(vote.at, said, "warn", request.decision, request, vote))
    return sorted(rows, key=lambda row: row.at)


def _stops_by_rule(figures: Figures) -> Chart | None:
    """The rules that would have stopped most; None where none stopped anything."""
    stops = {r.id: (r.decided[Verdict.ASK], r.decided[Verdict.DENY]) for r in figures.rules.values() if r.hits}
    most = sorted((id_ for id_, counts in stops.items() if any(counts)), key=lambda id_: -sum(stops[id_]))
    shown = most[:_SHOWN_RULES]
    series = [
        Series("asks", "ask", [stops[id_][0] for id_ in shown]),
        Series("denials", "deny", [stops[id_][1] for id_ in shown]),
    ]
    about = "How many commands each rule would have stopped."
    return bars("Asks and denials by rule", about, shown, series) if shown else None


# ---- rendering --------------------------------------------------------------------------------------------


def _rendered(template: str, **values: Any) -> str:
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    fixed = {"made": made, "version": __version__, "most_rows": MAX_ROWS, "fast_ms": FAST_MS}
    return environment().get_template(template).render(**fixed, **values)


@cache
def environment() -> "Environment":
    """Return the environment of the templates, with what they all use."""
    from markupsafe import Markup

    made = html_templates(_TEMPLATES)
    made.filters |= {"number": number, "share": share, "duration": duration, "utc": utc}
    # The page's policy holds the hash of the sheet, which therefore is the very bytes between the tags.
    sheet = "\n" + (_TEMPLATES / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    made.globals |= {"Verdict": Verdict, "sheet": Markup(sheet), "sheet_sha256": digest}
    return made


def number(value: Any) -> Any:
    """Return a count with separators; what is no whole number (a damaged log may hold anything) as it is.

    Example:
        >>> number(12345), number("x")
        ('12,345', 'x')
    """
    return f"{value:,}" if isinstance(value, int) else value


def share(part: float, of: float) -> str:
    """Return a part in percent; a dash where there is nothing."""
    return f"{100 * part / of:.1f} %" if of else "–"


def duration(ms: int | None) -> str:
    """Return a time span for people.

    Example:
        >>> duration(2400), duration(190_000), duration(7_500_000), duration(None)
        ('2.4 s', '3 min 10 s', '2 h 5 min', '–')
    """
    if ms is None:
        return "–"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def utc(ms: int) -> datetime | None:
    """Return a moment (milliseconds since the epoch); None for one that no calendar has."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
