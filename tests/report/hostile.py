"""Texts that want to be more than text, in every place that an agent, a model or a human can write to."""

import json
from collections import Counter
from dataclasses import fields, is_dataclass
from typing import Any

from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy_tools.diff import Diff
from humanlayer_agent.policy_tools.diff.acceptance import Acceptance, Accepted
from humanlayer_agent.policy_tools.replay import Judged
from humanlayer_agent.policy_tools.replay.figures import Figures, RuleFigures
from humanlayer_agent.policy_tools.replay.steps import NoCommand, Step, Unreadable
from humanlayer_agent.report.integrity import Integrity

START = 1_793_577_600_000
INTACT = Integrity("log.jsonl", 7, "a" * 64, witnessed=6, last=6)
HOSTILE = (
    "<script>fetch('https://evil.invalid')</script>",
    '"><img src=https://evil.invalid/x onerror=alert(1)>',
    "</style><style>@import url(https://evil.invalid)</style>",
    "--> ]]> {{7*7}} \u202egnp.exe\u202c \x1b[2J \x00",
    "l" * 900 + "' &amp; `tail`",
    "export TOKEN=\u27e6hmac:0123456789abcdef\u27e7\r\n\tthen\u2028\u200b\u2066 e\u0301\u0301\u0301 \ud800",
    "=cmd|'/c calc'!A1",
)


def hostile_log(sealed: Any, decided: Any, voted: Any, said: str) -> list[Any]:
    """A log with `said` in every place that an agent, a model or a human can write to."""
    approver = {"principal": said, "channel": said, "assurance": said}
    more = {
        "agent": said,
        "reason": said,
        "cwd": said,
        "project": said,
        "policy": said,
        "erased": [said],
        "rules": [said],
    }
    grant = {"until": START, "max_uses": 9, "use": 1, "words": said, "operands": [said]}
    stand_ins = json.dumps({"stand_ins": [{"person": said, "absent": said, "until": START}]})
    away = {"person": said, "to": said, "until": START, "absence": said, "approver": approver}
    created = {"run": said, "request": said, "asked": START, "requester": said, "needed": 1, "rule": stand_ins}
    return sealed(
        [
            ("run.started", {"run": said, "agent": said, "requester": said, "project": said}),
            decided(f"\u27e6hmac:0\u27e7 {said}\nmore {said}", "ask", said, request=said, run=said, **more),
            ("request.created", created),
            voted(said, "edit", edited=said, comment=said, approver=approver, person=said, solo=True, run=said),
            voted(said, said, "refused", why=said, approver=approver, run=said),
            ("request.superseded", {"run": said, "request": said, "asked": START, "why": said}),
            decided(said, "deny", said, run=said, **more),
            decided(said, "deny", said, run=said, enforced=False, permit="p", **more),
            ("exec.unknown", {"run": said, "permit": "p", "digest": "f", "started": START, "process": said}),
            ("exec.changed", {"run": said, "permit": "p", "digest": "f", "files": [{"path": said, "own": False}]}),
            ("grant.given", {"run": said, "request": said, "grant": said, "project": said, "by": [said], **grant}),
            ("grant.used", {"run": said, "grant": said, "permit": "p", "by": [said], **grant, "operands": [said * 2]}),
            ("grant.revoked", {"request": said, "grant": said, "by": said, "reason": said}),
            ("absence.said", away),
            ("absence.ended", {"person": said, "absences": [said], "by": said}),
            ("run.finished", {"run": said, "state": "finished", "status": said}),
        ]
    )


def poisoned(value: Any, said: str) -> Any:
    """`value` with `said` for every text in it, however deep."""
    if isinstance(value, str):
        return said
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            object.__setattr__(value, field.name, poisoned(getattr(value, field.name), said))
        return value
    if isinstance(value, Counter):
        return Counter({poisoned(key, said): count for key, count in value.items()})
    if isinstance(value, dict):
        return {f"{said} {n}": poisoned(each, said) for n, each in enumerate(value.values())}
    if isinstance(value, list | tuple | set):
        return type(value)(poisoned(each, said) for each in value)
    return value


def judged(said: str) -> list[Any]:
    """Rows of a replay by two policies: every pair of verdicts, and what can't be replayed."""
    rows: list[Any] = [Unreadable(said, said, said), NoCommand(said)]
    for old in Verdict:
        for new in Verdict:
            for rule in (said, ""):
                step = Step(said, said, said, said, f"{old}{new}{rule}{said}", said, verdict=said)
                decisions = tuple(
                    PolicyDecision(verdict, rule, (rule,) if rule else (), said, said) for verdict in (old, new)
                )
                rows.append(Judged(step, said, said, decisions))
    return rows


def hostile_diff(said: str) -> Diff:
    """A diff with `said` in every place."""
    stale = {digit * 64: Acceptance(digit * 64, said, said) for digit in "ab"}
    diff = Diff(Accepted(stale), unlocked=[said], eased=Counter({said: 2}))
    diff.count(judged(said))
    for change in diff.changes.values():
        if change.loosened:
            change.accepted = said
            break
    return diff


def hostile_figures(said: str) -> Figures:
    """What a replay found, with `said` in every place."""
    figures = Figures(rules={id_: RuleFigures(id_, said) for id_ in (said, f"never {said}")})
    assert list(figures.count(judged(said)))
    return figures
