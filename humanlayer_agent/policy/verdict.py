"""Makes the decision that people and programs see out of the hits of the rules: strictest verdict, reasons, spans."""

import posixpath
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from humanlayer_agent.action import FileDigest
from humanlayer_agent.confine.confinement import Bounds, Confinement, Profile
from humanlayer_agent.policy.asks import asks
from humanlayer_agent.policy.conditions import containment
from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.dataflow import Source
from humanlayer_agent.policy.conditions.evaluation import VERDICTS, Hit, Judged, severest, strictest
from humanlayer_agent.policy.decision import (
    SEVERITIES,
    Count,
    EffectVerdict,
    Excused,
    Finding,
    PartVerdict,
    PolicyDecision,
    Verdict,
)
from humanlayer_agent.policy.effect_phrases import (
    MAX_COMPARED,
    MAX_TOLD,
    kin,
    names,
    operand,
    phrase,
    sentence,
    short,
    told_by,
    unknown_words,
)
from humanlayer_agent.policy.needs_line import asked_for
from humanlayer_agent.safe_text import one_line
from humanlayer_agent.shell import VERSION, Effect, Program, SimpleCommand

_PLACEHOLDER = re.compile(r"\{\{ ([a-z]+) \}\}")
_OPERANDS = {"paths": "an unknown path", "hosts": "an unknown host", "operand": "something unknown"}
"""Names for what effects are about, and what is said where there is none."""
_DOES = "{{ does }}"
_VERB = re.compile(r"[A-Z][a-z]*s ")
"""What a reason begins with that tells what a command does ("Ends what watches over agents")."""
_DETAIL = re.compile(r": \{\{[^{}]*\}\}\.?$")
"""The end of a reason that says of what it is true ("...: {{ command }}")."""
_PLACE = re.compile(r"\{\{ does \}\}, ((?:outside|where) [^{}]*)\.")
"""A reason that says where it is done, and no more."""
_SHOWN = 200
_CHANGES = frozenset({"execute", "write", "append", "delete", "move", "metadata"})
_NAMED = 5
_TOO_MANY = f"One of more than {MAX_TOLD} effects of this command, too many to be told one by one."
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
    undo: bool = False,
    counts: tuple[Count, ...] = (),
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
        undo: so much is kept of what it replaces, whatever is known of it.
        counts: what it adds to what is counted.
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
    findings: tuple[Finding, ...] = ()
    if worst is Verdict.ALLOW:
        rules = rule_ids(_ordered([hit for hit in hits if hit.rule is not None]))
    else:
        ordered = _ordered([h for h in hits if h.verdict is worst])
        first = ordered[0] if ordered else None
        said = first.rule.rule if first is not None and first.rule is not None else None
        rest = [h for h in hits if h.verdict is not Verdict.ALLOW and h.verdict is not worst]
        findings = _told([*ordered, *_ordered(rest)])
        reason = findings[0].text if ordered else ""
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
        _judged_files(program, situation),
        _route(ordered) if worst is Verdict.ASK else "default",
        asks(program, hits, situation) if worst is Verdict.ASK else (),
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
        keep if undo else None,
        findings,
        tuple(dict.fromkeys(_excused(hit) for each in judged for hit in each.excused)),
        situation.asked,
        counts,
        hold=worst is Verdict.ASK and any(hit.rule is not None and bool(hit.rule.rule.hold) for hit in hits),
        holds=containment.holdable([each.command for each in judged], situation)
        if worst is Verdict.ASK and enforced and program.status == "ok"
        else None,
    )


def _judged_files(program: Program, situation: Situation) -> tuple[FileDigest, ...]:
    """The files whose text was judged, and those that say what is checked out, each once."""
    if not program.files and not situation.files:
        return ()
    found = {**situation.files, **dict(program.files)}
    return tuple([FileDigest(path, sha256) for path, sha256 in found.items()])


def _excused(hit: Hit) -> Excused:
    assert hit.rule is not None
    assert hit.excuse is not None
    return Excused(hit.rule.rule.id, hit.excuse.by.origin, hit.excuse.words())


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
    first, other = sorted((decision, confined), key=lambda each: (each.verdict, _grade(each)), reverse=True)
    also = other.rules if other.verdict is not Verdict.ALLOW else ()
    decision = replace(
        decision,
        confinable=True,
        verdict=first.verdict,
        reason=first.reason,
        rules=tuple(dict.fromkeys((*first.rules, *also))),
        severity=first.severity,
        suggestion=first.suggestion,
        default_hit=first.default_hit,
        spans=first.spans,
        route=first.route,
        asks=tuple(dict.fromkeys((*decision.asks, *confined.asks))) if first.verdict is Verdict.ASK else (),
        findings=_each_once((*first.findings, *other.findings)),
        momentary=decision.momentary or confined.momentary,
        counts=_together(decision.counts, confined.counts),
        hold=decision.hold or confined.hold,
        holds=confined.holds if first.verdict is Verdict.ASK else None,
        excused=tuple([each for each in decision.excused if each in confined.excused]),
    )
    others = [file.path for file in confined.files if file not in decision.files]
    if not others:
        return decision
    return replace(decision, reason=f"{decision.reason} ({_OTHER_TMP.format(paths=', '.join(others)[:_SHOWN])})")


def _together(counts: Sequence[Count], others: Sequence[Count]) -> tuple[Count, ...]:
    """Return what is added at most, within the limits of both."""
    found = {each.counter: each for each in counts}
    for each in others:
        known = found.get(each.counter, each)
        within = tuple(dict.fromkeys((*known.within, *each.within)))
        found[each.counter] = Count(each.counter, max(known.amount, each.amount), within)
    return tuple(found.values())


def _grade(decision: PolicyDecision) -> int:
    return -1 if decision.verdict is Verdict.ALLOW else SEVERITIES.index(decision.severity)


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

    A rule says more than "nothing allows this", a severe one more than a light one, and of two that are as severe one
    that is certain more than one that can't be ruled out.
    """
    if len(deciding) < 2:
        return deciding
    return sorted(deciding, key=_rank)


def _told(ordered: Sequence[Hit]) -> tuple[Finding, ...]:
    """Return what hits say: the first of them one by one, and with them those of which the same is said."""
    groups, others = _groups(ordered)
    found = _each_once(_findings(groups))
    if not others:
        return found
    text = f"Does {len(others)} more things that are not allowed by themselves, too many to be told one by one."
    return (*found, Finding(text, others[0].verdict, rule_ids(others), severest(others), certain=False))


def _kin(hit: Hit) -> object:
    """Return what hits have in common that are told of together without a closer look."""
    return id(hit.rule), hit.verdict, hit.certain, kin(hit.command, hit.effect) if hit.effect is not None else id(hit)


def _part(judged: Judged) -> PartVerdict:
    command, hits = judged.command, judged.hits()
    worst = strictest(hits)
    deciding = _ordered([hit for hit in hits if hit.verdict is worst])
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
        tuple([_effect(on_effect, judged.own, n < MAX_TOLD) for n, on_effect in enumerate(judged.effects)]),
    )


def _effect(hits: Sequence[Hit], own: Sequence[Hit], is_told: bool) -> EffectVerdict:
    if len(hits) == 1 and hits[0].verdict is Verdict.ALLOW and hits[0].rule is not None:
        return hits[0].rule.allows
    # What nothing is said about is that the command itself runs, which its own allow covers.
    said = hits or [hit for hit in own if hit.verdict is Verdict.ALLOW]
    worst = strictest(said)
    deciding = _ordered([h for h in said if h.verdict is worst])
    stopped = worst is not Verdict.ALLOW
    reason = "" if not (deciding and stopped) else reason_of(deciding[0]) if is_told else _TOO_MANY
    return EffectVerdict(
        worst,
        rule_ids(deciding),
        reason,
        stopped and all(hit.rule is None for hit in deciding),
    )


def _rank(hit: Hit) -> tuple[bool, bool, int, bool]:
    rule = hit.rule
    if rule is None:
        return True, False, 0, not hit.certain
    # A deny rule that only asks, because it can't tell, comes after the rules that were made to ask.
    return False, VERDICTS[rule.rule.decision] is not hit.verdict, -rule.severity, not hit.certain


def _groups(ordered: Sequence[Hit]) -> tuple[dict[tuple[object, ...], list[Hit]], list[Hit]]:
    """Return hits by what they have in common, and those that are too many to be told."""
    groups: dict[tuple[object, ...], list[Hit]] = {}
    alike: dict[object, list[Hit] | None] = {}
    for hit in ordered[:MAX_TOLD]:
        told = _said_already(hit, groups.values())
        if told is None:
            told = groups.setdefault(_about(hit), [])
        told.append(hit)
        alike.setdefault(_kin(hit), told)
    others, work = [], 0
    for hit in ordered[MAX_TOLD:]:
        key = _kin(hit)
        if key not in alike and work < MAX_COMPARED:
            work += len(hit.command.effects) + 1
            alike[key] = groups.get(_about(hit))
        if (told := alike.get(key)) is not None:
            told.append(hit)
        else:
            others.append(hit)
    return groups, others


def _findings(groups: Mapping[tuple[object, ...], list[Hit]]) -> Iterator[Finding]:
    """Each thing that hits say, once, in their order. What one rule says for certain of alike effects is one
    finding; so is all that is said of an effect by the same sentence, and what several rules can't rule out of it.
    """
    said: dict[object, list[Hit]] = {}
    for about, hits in groups.items():
        said.setdefault(_stem(hits) or about, []).extend(hits)
    for hits in said.values():
        first = hits[0]
        alike = [hit for hit in hits if hit.rule is first.rule]
        doubts = [hit for hit in hits if _is_doubt(hit)]
        text = reason_of(first, alike)
        if doubts:
            stem = _doubted(first) if _is_doubt(first) else text.removesuffix(".")
            text = f"{stem}{_named_rules(doubts)}."
        severity = first.rule.rule.severity if first.rule is not None else "medium"
        text = " ".join(filter(None, (text, versions(alike))))
        yield Finding(text, first.verdict, rule_ids(hits), severity, first.certain)


def _each_once(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings that say the same are one, of all their rules."""
    found: dict[tuple[str, Verdict], Finding] = {}
    for each in findings:
        known = found.setdefault((each.text, each.verdict), each)
        found[each.text, each.verdict] = replace(known, rules=tuple(dict.fromkeys((*known.rules, *each.rules))))
    return tuple(found.values())


def _about(hit: Hit) -> tuple[object, ...]:
    """Return what hits have in common that are told of together."""
    if hit.rule is None:
        return (hit.verdict, reason_of(hit))
    if _is_doubt(hit):
        return (hit.verdict, _doubted(hit))
    does = phrase(hit.command, hit.effect) if hit.effect is not None and _DOES in hit.rule.rule.reason else ""
    return (hit.verdict, hit.rule.rule.id, hit.certain, _shown(hit.source), does)


def _stem(hits: Sequence[Hit]) -> tuple[Verdict, str] | None:
    """Return the sentence about the effects of hits, where no more than that is said of them; None elsewhere."""
    first = hits[0]
    if _is_doubt(first):
        return (first.verdict, _doubted(first))
    if not _only_does(first):
        return None
    return (first.verdict, _does([hit for hit in hits if hit.rule is first.rule]))


def _said_already(hit: Hit, groups: Iterable[list[Hit]]) -> list[Hit] | None:
    """Return the hits that have said already all that this one has to say; None where there are none.

    That is said of an effect by the sentence of another one ("copies a to b"), where no rule says more of it than what
    it does; and which words of a command are not known, by an effect of it that is not known.
    """
    if hit.effect is not None and hit.certain and (hit.rule is None or _only_does(hit)):
        tellers = [effect for _, effect in told_by(hit.command, hit.effect)]
        for group in groups:
            if group[0].certain and any(h.effect is each for h in group for each in tellers):
                return group
    if hit.rule is None or _PLACEHOLDER.findall(hit.rule.rule.reason) != ["unresolved"]:
        return None
    for group in groups:
        if any(h.command is hit.command and h.effect is not None and not h.effect.resolved for h in group):
            return group
    return None


def _only_does(hit: Hit) -> bool:
    """Tell whether a rule says no more of an effect than what the effect does."""
    return hit.rule is not None and hit.rule.rule.reason == f"{_DOES}."


def _named_rules(hits: Sequence[Hit]) -> str:
    """Return what nobody can rule out of hits, as the end of a sentence: what the first of their rules is about, where
    its reason tells that in words of its own ("outside the project"); else which rules those are.
    """
    first, *others = rule_ids(hits)
    rule = hits[0].rule
    if rule is not None and (place := _PLACE.fullmatch(rule.rule.reason)):
        return f", perhaps {place[1]}"
    said = "" if rule is None else _DETAIL.sub("", rule.rule.reason).removesuffix(".")
    if said and "{{" not in said:
        return f"; perhaps it {said[0].lower()}{said[1:]}" if _VERB.match(said) else f"; perhaps: {said}"
    if len(others) > 1:
        return f"; the rule {first} may apply, and {len(others)} more"
    return f"; the rules {first} and {others[0]} may apply" if others else f"; the rule {first} may apply"


def _is_doubt(hit: Hit) -> bool:
    """Tell whether nobody knows if a rule holds of an effect: then what is known of the effect says more."""
    return not hit.certain and hit.rule is not None and hit.effect is not None and hit.source is None


def _doubted(hit: Hit) -> str:
    """Return what the effect does that a rule can't be ruled out of, by the sentence that tells most of it."""
    return sentence(told_by(hit.command, hit.effect)) or _does([hit]) if hit.effect is not None else ""


def _does(hits: Sequence[Hit]) -> str:
    """Return what the effects do that hits are about, without the full stop."""
    return sentence([(hit.command, hit.effect) for hit in hits if hit.effect is not None])


def rule_ids(hits: Iterable[Hit]) -> tuple[str, ...]:
    """The ids of the rules, each once."""
    ids = [h.rule.rule.id for h in hits if h.rule is not None]
    return tuple(dict.fromkeys(ids)) if len(ids) > 1 else tuple(ids)


def spans_of(hits: Iterable[Hit]) -> tuple[tuple[int, int], ...]:
    """Return where in the command the hits are."""
    found = list(hits)
    places = [h.effect.span if h.effect else h.command.span for h in found]
    return tuple(dict.fromkeys([*places, *(h.source.span for h in found if h.source is not None)]))


def reason_of(hit: Hit, also: Sequence[Hit] = ()) -> str:
    """Return the reason of a hit: the rule's own words; that it can't be ruled out; or that no rule allows it.

    Args:
        also: all hits that are told of together with this one.
    """
    hits = also or (hit,)
    if hit.rule is None:
        what = _does(hits) or f"Runs `{short(hit.command.text.strip())}`"
        return f"{what}: no rule allows it."
    if _is_doubt(hit):
        return f"{_doubted(hit)}{_named_rules(hits)}."
    text = render(hit.rule.rule.reason or hit.rule.rule.id, hit, hits)
    return text if hit.certain else f"Perhaps: {text}"


def versions(hits: Sequence[Hit]) -> str:
    """Return what git would make of files that hits are about, and from what; "" where there are none."""
    found: dict[tuple[str, str], list[str]] = {}
    for hit in hits:
        effect, folders = hit.effect, hit.command.cwd
        if effect is None or effect.role != VERSION or effect.operand is None or not folders:
            continue
        if effect.kind == "vcs-rewrite":
            continue
        path = one_line(posixpath.relpath(effect.operand, folders[0]))
        paths = found.setdefault((one_line(effect.origin), "remove" if effect.kind == "delete" else "replace"), [])
        if path not in paths:
            paths.append(path)
    said = []
    for (whose, what), paths in found.items():
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        ending = f" with those of {whose}" if what == "replace" else f", which {whose} does not have"
        said.append(f"It would {what} {', '.join(paths[:_NAMED])}{more}{ending}."[: 2 * _SHOWN])
    return " ".join(said)


def _shown(source: Source) -> str:
    """Return where data comes from, for people: the path, host or variable, or the command."""
    if isinstance(source, SimpleCommand):
        return short(source.text)
    return short(str(source.public()["operand"] or "something unknown")) if source is not None else "something unknown"


def render(template: str, hit: Hit, also: Sequence[Hit] = ()) -> str:
    """Plain substitution of `{{ name }}`; nothing else is evaluated (a policy may come from a repository). What stands
    for a name is safe to show on one line.

    Args:
        also: all hits that are told of together with this one.
    """
    if "{{" not in template:
        return template
    # One pass: a value that looks like a placeholder stays what it is.
    return _PLACEHOLDER.sub(lambda m: _fact(m[1], hit, also or (hit,), m[0]), template)


def attributes_of(command: SimpleCommand) -> str:
    """Return which account, cluster or place a command means, for people: "context prod, the namespace that is set".

    What is not named is as the program's own settings have it. Of what the command itself is about ("repo delete
    acme/app", "delete namespace staging") nothing is said.
    """
    named = command.attributes.items()
    known = [f"{name} {' or '.join(short(str(one)) for one in values)}" for name, values in named if None not in values]
    words = tuple(word for word in (*(command.subcommand or "").split(), *command.operands) if word and word.isalpha())
    unset = [name for name, values in named if None in values and not any(name.startswith(word) for word in words)]
    if unset:
        known.append(f"the {' and '.join(unset)} that {'are' if len(unset) > 1 else 'is'} set")
    return ", ".join(known) or "as the program's own settings say"


def _fact(name: str, hit: Hit, hits: Sequence[Hit], otherwise: str) -> str:
    """Return the text for `{{ name }}`; `otherwise` where there is no such name."""
    if name in _OPERANDS:
        return names(operand(h.effect, h.command) for h in hits if h.effect is not None) or _OPERANDS[name]
    match name:
        case "does":
            return _does(hits) or f"Runs `{short(hit.command.text.strip())}`"
        case "program":
            return short(hit.command.program or "an unknown program")
        case "command":
            return names(short(h.command.text.strip()) for h in hits)
        case "database":
            return names(short(h.effect.value) for h in hits if h.effect is not None and h.effect.value) or "a database"
        case "subcommand":
            return short(hit.command.subcommand or "")
        case "attributes":
            return attributes_of(hit.command)
        case "effect":
            return hit.effect.kind if hit.effect else ""
        case "source":
            return _shown(hit.source)
        case "unresolved":
            return names(filter(None, (unknown_words(h.command) for h in hits))) or "nothing"
    return otherwise
