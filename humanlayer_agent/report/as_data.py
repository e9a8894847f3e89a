"""The auditor's report for programs: everything as JSON, every question to a human as CSV."""

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from humanlayer_agent import __version__
from humanlayer_agent.report.attention import BUCKETS, attention
from humanlayer_agent.report.evidence import NOTICE, RECORDS, Evidence, moment_text
from humanlayer_agent.report.facts import Decision, Facts, Grant, Request, Vote
from humanlayer_agent.report.integrity import Integrity

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""


def as_json_data(facts: Facts, integrity: Integrity) -> dict[str, Any]:
    """The whole report; times in milliseconds since the epoch."""
    found = attention(facts)
    return {
        "integrity": _integrity(integrity),
        "store": facts.store,
        "period": {"first": facts.first, "last": facts.last, "events": facts.events},
        "event_types": dict(facts.types),
        "unreadable_events": facts.unreadable,
        "verdicts": dict(facts.verdicts),
        "days": {day: dict(counts) for day, counts in sorted(facts.days.items())},
        "policies": _policies(facts),
        "runs": [
            {
                "run": r.id,
                "agent": r.agent,
                "requester": r.requester,
                "project": r.project,
                "started": r.started,
                "ended": r.ended,
                "status": r.status,
                "verdicts": dict(r.verdicts),
            }
            for r in facts.runs.values()
        ],
        "rules": [
            {"rule": u.id or None, "applied": u.applied, "decided": dict(u.decided), "ended": dict(u.ends)}
            for u in facts.rules.values()
        ],
        "attention": {
            "asks_per_100_commands": round(found.asks_per_100, 3),
            "answers_per_approver_hour": round(found.asks_per_approver_hour, 3),
            "percent_under_3_s": round(found.fast, 1),
            "median_ms": found.median_ms,
            "latency": [{"up_to_ms": end, "answers": n} for (end, _), n in zip(BUCKETS, found.latency, strict=True)],
            "approvers": [
                {"approver": u.name, "answers": dict(u.answers), "median_ms": u.median_ms, "percent_under_3_s": u.fast}
                for u in found.approvers
            ],
            "rules": [
                {
                    "rule": u.name or None,
                    "asked": u.asked,
                    "answers": dict(u.answers),
                    "median_ms": u.median_ms,
                    "percent_under_3_s": u.fast,
                }
                for u in found.rules
            ],
            "always_approved": [{"rule": c.rule, "answers": c.answers, "example": c.example} for c in found.candidates],
        },
        "requests": [_request(request) for request in facts.requests.values()],
        "granted": facts.granted,
        "grants": [_grant(grant) for grant in facts.grants.values()],
        "away": [asdict(each) for each in facts.away],
        "denials": [_decision(decision) for decision in facts.denials],
        "observed": [_decision(decision) for decision in facts.observed],
        "unknown_outcome": [
            {"run": run, "started": ran.started, **(_decision(decision) if decision else {})}
            for run, decision, ran in facts.unknown
        ],
        "swapped_files": [
            {"at": each.at, "run": each.run, "path": each.path, "became": each.became} for each in facts.swapped
        ],
        "kept_files": [asdict(each) for each in facts.kept],
        "votes_not_counted": [{"request": id_, **_vote(vote)} for id_, vote in facts.refused_votes],
        "redactions": {"commands": facts.redacted, "erased": dict(facts.erased)},
        "stops": _stops(facts),
        "about_the_log": _about_log(facts),
    }


def evidence_as_json_data(found: Evidence) -> dict[str, Any]:
    """What a log shows for the clauses of a map; the same for the same log, map and times."""
    facts, of = found.facts, found.map
    return {
        "map": of.name,
        "title": of.title,
        "of": of.of,
        "edition": of.edition,
        "source": of.source,
        "applies": of.applies,
        "notice": NOTICE,
        "integrity": {
            "reliable": not found.integrity.problem,
            "headline": found.integrity.headline,
            **_integrity(found.integrity),
        },
        "store": facts.store,
        "version": __version__,
        "period": {
            "since": moment_text(found.since),
            "until": moment_text(found.until),
            "run": facts.wanted.run,
            "events": facts.events,
        },
        "unreadable_events": facts.unreadable,
        "clauses": [
            {**asdict(each), "figures": list(each.figures), "records": list(each.records)} for each in of.clauses
        ],
        "figures": [
            {
                "name": each.name,
                "says": each.says,
                "count": found.counts[each.name],
                "command": found.command(each.search),
            }
            for each in found.figures
        ],
        "records": {
            name: {
                "title": RECORDS[name][0],
                "commands": found.record_commands(name),
                "rows": _RECORDS[name](found),
            }
            for name in found.records
        },
    }


_RECORDS: Mapping[str, Callable[[Evidence], list[dict[str, Any]]]] = {
    "human-decisions": lambda found: [_request(request) for request in found.human_decisions],
    "identities": lambda found: [
        {**asdict(who), "answers": answers, "command": found.command(who.search)} for who, answers in found.who_answered
    ],
    "not-counted": lambda found: [{"request": id_, **_vote(vote)} for id_, vote in found.facts.refused_votes],
    "refused": lambda found: [
        *({"why": each.denied or "policy", **_decision(each)} for each in found.facts.denials),
        *({**_request(each), "why": each.why or each.state} for each in found.unanswered),
    ],
    "overrides": lambda found: [
        *({"what": "observed, not enforced", **_decision(each)} for each in found.facts.observed),
        *({"what": each.state, **_request(each)} for each in found.overridden),
        *({"what": "approved for more than once", **_grant(each)} for each in found.facts.grants.values()),
    ],
    "policies": lambda found: _policies(found.facts),
    "stops": lambda found: _stops(found.facts),
    "log": lambda found: _about_log(found.facts),
}
"""The rows of each kind of records."""


def _integrity(integrity: Integrity) -> dict[str, Any]:
    return {
        "intact": not integrity.problem,
        "events": integrity.count,
        "head": integrity.head,
        "problem": integrity.problem or None,
        "bad_seq": integrity.bad_seq,
        "witnessed_event": integrity.witnessed,
    }


def _policies(facts: Facts) -> list[dict[str, Any]]:
    return [
        {"policy": p.name, "digest": p.digest, "first": p.first, "last": p.last, "decisions": p.decisions}
        for p in facts.policies.values()
    ]


def _stops(facts: Facts) -> list[dict[str, Any]]:
    return [
        {"seq": seq, "at": at, "type": kind, "by": who, "words": words} for seq, at, kind, who, words in facts.stops
    ]


def _about_log(facts: Facts) -> list[dict[str, Any]]:
    return [{"seq": seq, "at": at, "type": kind, "details": details} for seq, at, kind, details in facts.about_log]


def as_csv(facts: Facts) -> str:
    """A line for each question to a human. A cell that a spreadsheet would take for a formula gets a quote first."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(
        (
            *("request", "asked", "run", "agent", "requester", "command", "cwd", "rule", "severity", "reason", "state"),
            *("who", "principal", "assurance", "channel", "how", "answer", "comment", "took_ms", "solo"),
            *("signed_with", "saw_digest", "used", "exit_code", "outcome_unknown"),
        )
    )
    for request in facts.requests.values():
        decision, vote, ran = request.decision, request.deciding, request.execution
        writer.writerow(
            _cell(each)
            for each in (
                *(request.id, _time(request.asked), request.run, decision.agent if decision else ""),
                request.requester,
                *((decision.command, decision.cwd, decision.rule) if decision else ("", "", "")),
                *((decision.severity, decision.reason) if decision else ("", "")),
                request.state,
                *((vote.person, vote.principal, vote.assurance, vote.channel, vote.how) if vote else ("",) * 5),
                *((vote.answer, vote.comment, request.took, vote.solo) if vote else ("",) * 4),
                *((vote.signer, vote.saw) if vote else ("", "")),
                _time(request.used),
                ran.returncode if ran is not None and ran.returncode is not None else "",
                ran.unknown if ran is not None else "",
            )
        )
    return out.getvalue()


def _cell(value: object) -> str:
    written = str(value).lower() if isinstance(value, bool) else str(value)
    return f"'{written}" if written.startswith(_FORMULA) else written


def _time(ms: int | None) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds") if ms is not None else ""


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "seq": decision.seq,
        "at": decision.at,
        "run": decision.run,
        "agent": decision.agent,
        "step": decision.step,
        "command": decision.command,
        "cwd": decision.cwd,
        "verdict": decision.verdict,
        "rule": decision.rule or None,
        "reason": decision.reason,
        "severity": decision.severity,
        "policy_digest": decision.policy_digest,
        "enforced": decision.enforced,
        "denied": decision.denied or None,
        "erased": list(decision.erased),
    }


def _vote(vote: Vote) -> dict[str, Any]:
    return {
        "seq": vote.seq,
        "at": vote.at,
        "outcome": vote.outcome,
        "answer": vote.answer,
        "principal": vote.principal,
        "person": vote.person,
        "instead_of": vote.instead_of or None,
        "channel": vote.channel,
        "assurance": vote.assurance,
        "input_mode": vote.how,
        "comment": vote.comment,
        "edited": vote.edited or None,
        "solo": vote.solo,
        "signer": vote.signer,
        "pid": vote.pid,
        "presented_digest": vote.saw,
        "why": vote.why or None,
    }


def _grant(grant: Grant) -> dict[str, Any]:
    return {
        "grant": grant.id,
        "given": grant.given,
        "by": list(grant.by),
        "words": grant.words,
        "project": grant.project,
        "until": grant.until or None,
        "max_uses": grant.max_uses,
        "uses": [
            {
                "at": use.at,
                "unlike": list(use.unlike),
                "decision": _decision(use.decision) if use.decision is not None else None,
            }
            for use in grant.uses
        ],
        "revoked": grant.revoked,
        "revoked_by": grant.revoked_by or None,
        "why": grant.why or None,
    }


def _request(request: Request) -> dict[str, Any]:
    ran = request.execution
    return {
        "request": request.id,
        "asked": request.asked,
        "run": request.run,
        "requester": request.requester,
        "needed": request.needed,
        "state": request.state,
        "why": request.why or None,
        "settled": request.settled,
        "took_ms": request.took,
        "used": request.used,
        "decision": _decision(request.decision) if request.decision is not None else None,
        "votes": [_vote(vote) for vote in request.votes],
        "execution": None
        if ran is None
        else {
            "started": ran.started,
            "finished": ran.finished,
            "returncode": ran.returncode,
            "detail": ran.detail or None,
            "unknown": ran.unknown,
        },
    }
