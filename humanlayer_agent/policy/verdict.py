"""Makes the decision that people and programs see out of the hits of the rules: strictest verdict, reasons, spans."""

import posixpath
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from humanlayer_agent.action import FileDigest
from humanlayer_agent.confine.confinement import Bounds, Confinement, Profile
from humanlayer_agent.policy.conditions import containment
from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.dataflow import Source
from humanlayer_agent.policy.conditions.evaluation import VERDICTS, Hit, Judged, strictest
from humanlayer_agent.policy.decision import EffectVerdict, PartVerdict, PolicyDecision, Verdict
from humanlayer_agent.policy.needs_line import asked_for
from humanlayer_agent.shell import VERSION, Effect, Program, SimpleCommand

_PLACEHOLDER = re.compile(r"\{\{ ([a-z]+) \}\}")
_OPERANDS = {"paths": "an unknown path", "hosts": "an unknown host", "operand": "something unknown"}
"""Names for what an effect is about, and what is said where that is not known."""
_SHOWN = 200
_CHANGES = frozenset({"execute", "write", "append", "delete", "move", "metadata"})
_NAMED = 5
_ONCE = ("once",)
_OTHER_TMP = "{paths}: confined commands see another file there than what is approved, which runs unconfined"


def decided(
    program: Program,
    judged: Sequence[Judged],
    more: Sequence[Hit],
    *,
    unparsed: Verdict,
    policy: str,
    digest: str,
    enforced: bool,
    begin: int | None = None,
    situation: Situation,
    reduced: Profile | None = None,
    keep: Bounds | None = None,
) -> PolicyDecision:
    """The decision on a program: the strictest of all hits.

    Args:
        judged: the hits on each command.
        more: hits on the action as a whole.
        unparsed: the verdict that an action gets at least, where it could not be parsed.
        policy, digest: name and digest of the policy.
        enforced: see `PolicyDecision`.
        begin: when the work on it began, where that is to be told (ns, as `time.perf_counter_ns` counts).
        situation: what it was judged in.
        reduced: what it is held to, and was not judged under.
        keep: how much of the project is kept before it, should it run confined, and not all of it be known.
    """
    parts: list[PartVerdict] = []
    effects: list[Effect] = []
    unresolved: list[str] = []
    hits: list[Hit] = []
    for each in judged:
        parts.append(_part(each))
        effects += each.command.effects
        unresolved += each.command.unresolved
        hits += each.hits()
    hits += more
    worst = strictest(hits)
    if program.status != "ok":
        worst = max(worst, unparsed)
    if asked := [item for command in program.commands[-1:] for item in asked_for(command)]:
        worst = max(worst, Verdict.ASK)
    said, reason, suggestion = None, "", ""
    spans: tuple[tuple[int, int], ...] = ()
    if worst is Verdict.ALLOW:
        rules = rule_ids(_ordered([hit for hit in hits if hit.rule is not None]))
    else:
        ordered = _ordered([h for h in hits if h.verdict is worst])
        first = ordered[0] if ordered else None
        said = first.rule.rule if first is not None and first.rule is not None else None
        reason = " ".join(filter(None, (reason_of(first), versions(ordered)))) if first is not None else ""
        if program.status != "ok" and said is None:
            reason = f"not fully understood: {'; '.join(program.reasons)}"
        elif said is None and asked:
            reason = f"Asks for more than its confinement gives: {', '.join(asked)}."
        suggestion = render(said.suggestion, first) if said is not None and first is not None else ""
        spans = spans_of(ordered)
        rules = rule_ids([*ordered, *(h for h in hits if h.verdict is not Verdict.ALLOW)])
    confinement = _confinement(worst, situation, enforced) if program.status == "ok" else None
    return PolicyDecision(
        worst,
        reason,
        policy,
        digest,
        rules,
        said.severity if said is not None else "medium",
        suggestion,
        program.status,
        tuple(program.reasons),
        worst is not Verdict.ALLOW and said is None,
        tuple(dict.fromkeys(unresolved)) if unresolved else (),
        spans,
        tuple(parts),
        tuple(effects),
        tuple([FileDigest(path, sha256) for path, sha256 in program.files]) if program.files else (),
        _route(ordered) if worst is Verdict.ASK else "default",
        said.remember if said is not None else _ONCE,
        # 0 says that it was not measured.
        max(1, (time.perf_counter_ns() - begin) // 1000) if begin is not None else 0,
        enforced,
        confinement,
        situation.confinable,
        containment.reduced(reduced, effects)
        if reduced and worst is Verdict.ALLOW and program.status == "ok"
        else None,
        situation.links.view,
        keep if confinement is not None and _may_write_anything(effects, unresolved) else None,
    )


def _may_write_anything(effects: Sequence[Effect], unresolved: Sequence[str]) -> bool:
    """Tell whether nobody knows all that a command writes: it runs what was not read, or names what is not known."""
    return bool(unresolved) or any(
        effect.unread or (not effect.resolved and effect.kind in _CHANGES) for effect in effects
    )


def unconfined(decision: PolicyDecision, confined: PolicyDecision) -> PolicyDecision:
    """Return the decision on an action that would run unconfined, because it is neither allowed nor approved to run
    confined.

    Args:
        decision: as nothing holds it, and by what it sees then; its files and effects are what a human approves.
        confined: by what it would have seen. The stricter of both holds, and what speaks against it in either is said.

    Example:
        >>> allowed = PolicyDecision(Verdict.ALLOW, "", "p", "0" * 64)
        >>> unconfined(allowed, PolicyDecision(Verdict.ASK, "Deletes all.", "p", "0" * 64)).reason
        'Deletes all.'
    """
    first, other = (confined, decision) if confined.verdict > decision.verdict else (decision, confined)
    also = other.rules if other.verdict is not Verdict.ALLOW else ()
    more = other.reason if also and other.rule not in first.rules else ""
    decision = replace(
        decision,
        confinable=True,
        verdict=first.verdict,
        reason=" ".join(filter(None, (first.reason, more))),
        rules=tuple(dict.fromkeys((*first.rules, *also))),
        severity=first.severity,
        suggestion=first.suggestion,
        default_hit=first.default_hit,
        spans=first.spans,
        route=first.route,
        remember=first.remember,
    )
    others = [file.path for file in confined.files if file not in decision.files]
    if not others:
        return decision
    return replace(decision, reason=f"{decision.reason} ({_OTHER_TMP.format(paths=', '.join(others)[:_SHOWN])})")


def _confinement(verdict: Verdict, situation: Situation, enforced: bool) -> Confinement | None:
    if verdict is Verdict.ASK and enforced:
        return situation.approved
    return situation.confinement if verdict is Verdict.ALLOW else None


def _route(asking: Sequence[Hit]) -> str | dict[str, Any]:
    """Return the route of what decides: who is asked. Where others that ask name another one, no fewer people must
    agree than they want, and none less surely known.
    """
    routes: list[str | dict[str, Any]] = []
    for hit in asking:
        if hit.rule is not None and (route := hit.rule.rule.route_data) not in routes:
            routes.append(route)
    if len(routes) < 2:
        return routes[0] if routes else "default"
    first = routes[0]
    return {**({"name": first} if isinstance(first, str) else first), "also": routes[1:]}


def _ordered(deciding: list[Hit]) -> list[Hit]:
    """Those that say the most come first.

    A rule says more than "nothing allows this", and one that is certain more than one that can't be ruled out.
    """
    if len(deciding) < 2:
        return deciding
    return sorted(deciding, key=_rank)


def _part(judged: Judged) -> PartVerdict:
    command, hits = judged.command, judged.hits()
    worst = strictest(hits)
    deciding = [hit for hit in hits if hit.verdict is worst]
    return PartVerdict(
        command.text,
        command.program,
        worst,
        rule_ids(deciding),
        reason_of(deciding[0]) if worst is not Verdict.ALLOW else "",
        command.span,
        command.via,
        command.inside,
        tuple(command.effects),
        tuple([_effect(on_effect, judged.own) for on_effect in judged.effects]),
    )


def _effect(hits: Sequence[Hit], own: Sequence[Hit]) -> EffectVerdict:
    if len(hits) == 1 and hits[0].verdict is Verdict.ALLOW and hits[0].rule is not None:
        return hits[0].rule.allows
    # What nothing is said about is that the command itself runs, which its own allow covers.
    said = hits or [hit for hit in own if hit.verdict is Verdict.ALLOW]
    worst = strictest(said)
    deciding = [h for h in said if h.verdict is worst]
    stopped = worst is not Verdict.ALLOW
    return EffectVerdict(
        worst,
        rule_ids(deciding),
        reason_of(deciding[0]) if deciding and stopped else "",
        stopped and all(hit.rule is None for hit in deciding),
    )


def _rank(hit: Hit) -> tuple[bool, bool, bool, int]:
    rule = hit.rule
    if rule is None:
        return True, not hit.certain, False, 1
    # A deny rule that only asks, because it can't tell, comes after the rules that were made to ask.
    return False, not hit.certain, VERDICTS[rule.rule.decision] is not hit.verdict, -rule.severity


def rule_ids(hits: Iterable[Hit]) -> tuple[str, ...]:
    """The ids of the rules, each once."""
    ids = [h.rule.rule.id for h in hits if h.rule is not None]
    return tuple(dict.fromkeys(ids)) if len(ids) > 1 else tuple(ids)


def spans_of(hits: Iterable[Hit]) -> tuple[tuple[int, int], ...]:
    """Return where in the command the hits are."""
    found = list(hits)
    places = [h.effect.span if h.effect else h.command.span for h in found]
    return tuple(dict.fromkeys([*places, *(h.source.span for h in found if h.source is not None)]))


def reason_of(hit: Hit) -> str:
    """Return the reason of a hit: the rule's own words, or that no rule allows it."""
    if hit.rule is None:
        what = hit.command.program or "a program that is not known"
        if hit.effect is not None:
            what = f"{hit.effect.kind} {hit.effect.public()['operand'] or 'something unknown'}"
        return f"no rule allows this: {what}"
    text = render(hit.rule.rule.reason or hit.rule.rule.id, hit)
    return text if hit.certain else f"can't be ruled out: {text}"


def versions(hits: Sequence[Hit]) -> str:
    """Return what git would make of files that hits are about, and from what; "" where there are none."""
    found: dict[tuple[str, str], list[str]] = {}
    unknown = [h.effect for h in hits[1:] if h.effect and h.effect.role == VERSION and h.effect.kind == "vcs-rewrite"]
    for hit in hits:
        effect, folders = hit.effect, hit.command.cwd
        if effect is None or effect.role != VERSION or effect.operand is None or not folders:
            continue
        if effect.kind == "vcs-rewrite":
            continue
        path = posixpath.relpath(effect.operand, folders[0])
        paths = found.setdefault((effect.origin, "remove" if effect.kind == "delete" else "replace"), [])
        if path not in paths:
            paths.append(path)
    said = []
    for (whose, what), paths in found.items():
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        ending = f" with those of {whose}" if what == "replace" else f", which {whose} does not have"
        said.append(f"It would {what} {', '.join(paths[:_NAMED])}{more}{ending}."[: 2 * _SHOWN])
    said += [f"It would replace {effect.operand}."[: 2 * _SHOWN] for effect in unknown[:1]]
    return " ".join(said)


def _shown(source: Source) -> str:
    """Return where data comes from, for people: the path, host or variable, or the command."""
    if isinstance(source, SimpleCommand):
        return source.text
    return str(source.public()["operand"] or "something unknown") if source is not None else "something unknown"


def render(template: str, hit: Hit) -> str:
    """Plain substitution of `{{ name }}`; nothing else is evaluated (a policy may come from a repository)."""
    if "{{" not in template:
        return template
    # One pass: a value that looks like a placeholder stays what it is.
    return _PLACEHOLDER.sub(lambda m: _fact(m[1], hit, m[0])[:_SHOWN], template)


def attributes_of(command: SimpleCommand) -> str:
    """Return which account, cluster or place a command means, for people: "context prod, an unknown namespace"."""
    known = [
        f"{n} {' or '.join(str(v) for v in values)}" for n, values in command.attributes.items() if None not in values
    ]
    unknown = [f"an unknown {n}" for n, values in command.attributes.items() if None in values]
    return ", ".join([*known, *unknown][: max(len(known), 2)]) or "a place that it does not name"


def _fact(name: str, hit: Hit, otherwise: str) -> str:
    """Return the text for `{{ name }}`; `otherwise` where there is no such name."""
    if name in _OPERANDS:
        shown = hit.effect.public()["operand"] if hit.effect else None
        if shown and hit.effect and hit.effect.below:
            return f"some path below {shown}"
        if hit.effect and hit.effect.kind == "execute" and hit.effect.value is not None:
            return f"{shown}, which this command builds from {hit.effect.value or 'the sources here'}"
        return str(shown or _OPERANDS[name])
    match name:
        case "program":
            return hit.command.program or "an unknown program"
        case "command":
            return hit.command.text
        case "database":
            return (hit.effect.value if hit.effect else None) or "a database"
        case "subcommand":
            return hit.command.subcommand or ""
        case "attributes":
            return attributes_of(hit.command)
        case "effect":
            return hit.effect.kind if hit.effect else ""
        case "source":
            return _shown(hit.source)
        case "unresolved":
            read = hit.command.via[-1:] == ("xargs",)
            words = ["the words that xargs reads" if read and word == "{}" else word for word in hit.command.unresolved]
            return ", ".join(words) or "nothing"
    return otherwise
