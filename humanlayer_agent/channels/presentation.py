"""The presentation of a request to a human, the same in every channel: safe text in named places.

Everything in a `Presentation` went through `visible`: a channel lays it out and never touches the request's strings.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from humanlayer_agent.action import BASH, FUNCTION, INERT, PLAN
from humanlayer_agent.approvals.authority import described
from humanlayer_agent.approvals.model import AnswerKind, ApprovalRequest
from humanlayer_agent.channels.offers import OfferView, no_offer, offer_views, plan_bounds
from humanlayer_agent.policy import effect_phrases
from humanlayer_agent.policy.decision import HeldRun, PartVerdict, PolicyDecision, Verdict
from humanlayer_agent.policy.explanation.unknown_programs import teaching, unknown_programs
from humanlayer_agent.policy.needs_line import is_only_unconfined
from humanlayer_agent.safe_text import characters, one_line, visible, warnings
from humanlayer_agent.shell import Effect

INTENT_SHOWN = 400
"""Characters of the model's own words that are shown; they are untrusted and must not crowd out the command."""
RUN_SHOWN = 12
"""Characters of a run's id: enough to find it."""
PARTS_SHOWN = 12
"""Beyond this many parts those that the policy allows are only counted."""
TAUGHT = 3
"""So many unknown programs are named with the file that would say what they do."""
OPERANDS_SHOWN = 12
"""Operands named per kind of effect; those outside the project come first, the rest are counted."""


FILES_SHOWN = 12
"""Files that a held run has changed which are named, what is lost first; the rest are counted."""


class Style(StrEnum):
    """The kind of a fragment of text; each channel has its own way to draw it."""

    PLAIN = "plain"
    DIM = "dim"
    STRONG = "strong"
    COMMAND = "command"
    MARK = "mark"  # a part of the command that the decision is about
    ODD = "odd"  # a character that was spelled out
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"
    WARNING = "warning"


class Fragment(NamedTuple):
    """Some text in one style."""

    style: Style
    text: str


Line = tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class PartView:
    """One simple command of the action: its verdict, what decided it, what it runs inside of ("sudo", "bash -c")."""

    verdict: Verdict
    command: str
    why: str
    inside: str


@dataclass(frozen=True, slots=True)
class FindingView:
    """One more thing that speaks against the action. What is urgent is shown beside the reason, never only counted."""

    text: str
    severity: str
    rules: tuple[str, ...]
    urgent: bool


@dataclass(frozen=True, slots=True)
class EffectView:
    """One kind of effect ("deletes"), and what it would be done to; nothing, where the verb says it all."""

    verb: str
    operands: tuple[str, ...]
    harmless: bool


@dataclass(frozen=True, slots=True)
class HeldView:
    """The changes of a held run of the command.

    `applies` says that an approval applies exactly that; else the command itself runs, and `partial` says why, and what
    is not known by it. `files` are sentences, one a path, the first of them where `more` are not named. `diff` and
    `output` are lines.
    """

    applies: bool
    ended: str
    files: tuple[str, ...]
    more: int
    partial: tuple[str, ...]
    diff: tuple[str, ...]
    output: tuple[str, ...]

    @property
    def short(self) -> "HeldView":
        """The same without the lines: for what is sent where it stays."""
        return replace(self, diff=(), output=())

    @property
    def promise(self) -> str:
        """Say what a yes does."""
        if self.applies:
            return "it was run held: a yes applies exactly this, and runs nothing"
        return "it was run held, and that can't be applied: a yes runs the command itself, which may do something else"


@dataclass(frozen=True, slots=True)
class Presentation:
    """A request, made safe to show. `command` and `stdin` are whole, one entry a line; the rest is about them.

    `reason` is what matters most, in one sentence, and `others` is everything else that speaks against it: what is
    urgent of that belongs beside the reason, and the rest may be counted there and listed below. `rules` names all
    rules.

    `radius` says what is at stake: what would go that is there now. `held` says what a held run has changed; None where
    there was none.
    `teaching` says how to have a program known that is not; "" where none is unknown.
    `offers` are the scopes by which more than this once may be approved, from narrow to wide (what they would have let
    through before is said by `offers.foresight`); where there are none, `no_offer` says why.
    `can` are the answers that may be given to it: a question of the agent is answered in words.
    `edited` says that the command is what a human made of another one. `plan` says that it is none, but what a task
    will need: a yes runs nothing, and is all that can be approved of it; `bounds` are how often and for how long that
    may be done then. `digest` is "" where a secret is not shown: it could be guessed by it.
    """

    agent: str
    place: tuple[str, ...]
    severity: str
    rule: str
    reason: str
    others: tuple[FindingView, ...]
    rules: tuple[str, ...]
    warnings: tuple[str, ...]
    command: tuple[Line, ...]
    stdin: tuple[Line, ...]
    stdin_bytes: int
    interpreter: str
    parts: tuple[PartView, ...]
    allowed_parts: int
    effects: tuple[EffectView, ...]
    unresolved: tuple[str, ...]
    radius: tuple[str, ...]
    teaching: str
    unread: str
    suggestion: str
    intent: str
    digest: str
    edited: bool
    offers: tuple[OfferView, ...] = ()
    no_offer: str = ""
    plan: bool = False
    bounds: str = ""
    held: HeldView | None = None
    can: frozenset[AnswerKind] = frozenset()

    @property
    def question(self) -> bool:
        """True where the agent wants to know something: it is answered in words, and nothing of it can be approved."""
        return bool(self.can) and "approve" not in self.can

    @property
    def wants(self) -> str:
        """What the agent wants, after its name."""
        if self.held is not None and self.held.applies:
            return "wants this to be so"
        if self.edited:
            return "would run this, as it was changed"
        if self.plan:
            return ", ".join(filter(None, ("wants to be allowed this before it starts", self.bounds)))
        return "asks you something" if self.question else "wants to run this"

    @property
    def urgent(self) -> tuple[FindingView, ...]:
        """What is shown beside the reason."""
        return tuple(other for other in self.others if other.urgent)

    @property
    def more(self) -> tuple[FindingView, ...]:
        """What is counted beside the reason, and listed below."""
        return tuple(other for other in self.others if not other.urgent)


def present(
    request: ApprovalRequest,
    *,
    redacted: bool = False,
    erased: tuple[str, ...] = (),
    marked: tuple[int, int] | None = None,
) -> Presentation:
    """Everything about `request` that a human needs to decide, with nothing in it that could deceive a screen.

    Args:
        redacted: without the secrets in it, for a channel that keeps what it is sent; a warning says so.
        erased: where secrets stood in it, where somebody has taken them out already (`conceal`).
        marked: the part of the command to mark, from and to; what the decision is about where it is None.
    """
    if redacted:
        from humanlayer_agent.channels.concealment import conceal

        request, erased = conceal(request)
    action, decision = request.action, request.decision
    inert = action.type in INERT  # nothing of it runs
    stdin = action.stdin.decode("utf-8", "surrogateescape")
    parts, allowed = _parts(decision)
    return Presentation(
        agent=one_line(action.agent) or "an agent",
        place=_place(request),
        severity=one_line(decision.severity),
        rule=one_line(decision.rule),
        reason=one_line(decision.reason) or "the policy asks",
        others=tuple(_others(decision)),
        rules=tuple(one_line(rule) for rule in decision.rules),
        warnings=(*_abandoned(request), *_concealed(erased), *_warnings(action.content, stdin)),
        command=_lines(action.content, frozenset(range(*marked)) if marked else _marked(action.content, decision)),
        stdin=_lines(stdin, frozenset()) if stdin else (),
        stdin_bytes=len(action.stdin),
        interpreter="" if action.interpreter == BASH or inert else one_line(" ".join(action.interpreter)),
        parts=parts,
        allowed_parts=allowed,
        effects=_effects(decision, action.project),
        unresolved=tuple(dict.fromkeys(one_line(word) for word in decision.unresolved)),
        radius=tuple(one_line(each) for each in decision.radius),
        teaching=one_line(teaching(unknown_programs(_all_effects(decision))[:TAUGHT])),
        unread=_unread(decision),
        suggestion=visible(decision.suggestion),
        intent=_intent(action.model_intent),
        digest="" if erased else one_line(request.digest),
        edited=bool(request.parent),
        offers=() if inert else offer_views(request),
        no_offer="" if inert else no_offer(request),
        plan=action.type == PLAN,
        bounds=plan_bounds(request) if action.type == PLAN else "",
        held=_held(decision.held),
        can=request.answers,
    )


def _held(held: HeldRun | None) -> HeldView | None:
    if held is None:
        return None
    return HeldView(
        applies=held.applicable,
        ended=one_line(held.ended),
        files=tuple(map(one_line, held.files[:FILES_SHOWN])),
        more=held.more + max(0, len(held.files) - FILES_SHOWN),
        partial=tuple(map(one_line, held.partial)),
        diff=tuple(visible(held.diff).split("\n")) if held.diff else (),
        output=tuple(visible(held.output).split("\n")) if held.output else (),
    )


def _others(decision: PolicyDecision) -> Iterator[FindingView]:
    """What speaks against it besides the reason. Urgent is what is critical, and what is the first certain one where
    the reason is not.
    """
    found = decision.findings
    sure = next((each for each in found if each.certain), None)
    for each in found[1:]:
        urgent = each.severity == "critical" or each is sure
        yield FindingView(one_line(each.text), one_line(each.severity), tuple(map(one_line, each.rules)), urgent)


def _place(request: ApprovalRequest) -> tuple[str, ...]:
    action = request.action
    found = [one_line(described(each)) for each in (request.rule.stand_ins if request.rule else ())]
    found.append(f"in {one_line(action.cwd)}" if action.cwd else "")
    if action.project and action.project != action.cwd:
        found.append(f"project {one_line(action.project)}")
    if action.subagent:
        found.append(f"sub-agent {one_line(action.subagent)}")
    if action.tool and action.type != FUNCTION:
        found.append(f"tool {one_line(action.tool)}")
    if action.run_id:
        found.append(f"run {one_line(action.run_id)[:RUN_SHOWN]}")
    if action.step:
        found.append(f"step {action.step}")
    if request.decision.confinable and not request.action.layer:
        found.append(one_line(request.decision.runs))
    return tuple(filter(None, found))


def _abandoned(request: ApprovalRequest) -> tuple[str, ...]:
    if not request.abandoned or request.state != "pending":
        return ()
    return (
        "the agent that asked is gone: what you approve runs only if it is started again in time and asks the same",
    )


def _concealed(erased: tuple[str, ...]) -> tuple[str, ...]:
    if not erased:
        return ()
    named = ", ".join(one_line(what) for what in erased[:5])
    return (f"secrets are not shown here ({named}); what runs has them, and the agent's own terminal shows them",)


def _warnings(command: str, stdin: str) -> tuple[str, ...]:
    return (*warnings(command), *(f"standard input: {warning}" for warning in warnings(stdin)))


# ---- the command -----------------------------------------------------------------------------------


def _marked(command: str, decision: PolicyDecision) -> frozenset[int]:
    """Offsets of the command that the decision is about; empty where that would be all of it."""
    spans: Sequence[tuple[int, int]] = decision.spans or [
        p.span for p in decision.parts if p.verdict is not Verdict.ALLOW
    ]
    marked = frozenset(i for start, end in spans for i in range(max(start, 0), min(end, len(command))))
    return marked if any(i not in marked and not c.isspace() for i, c in enumerate(command)) else frozenset()


def _lines(text: str, marked: frozenset[int]) -> tuple[Line, ...]:
    """`text`, whole, as lines of fragments. A newline at its very end makes no line of its own."""
    lines: list[list[tuple[Style, str]]] = [[]]
    for offset, (shown, odd) in enumerate(characters(text)):
        if shown == "\n":
            lines.append([])
        else:
            style = Style.ODD if odd else Style.MARK if offset in marked else Style.COMMAND
            lines[-1].append((style, shown))
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return tuple(joined(line) for line in lines)


def joined(styled: Iterable[tuple[Style, str]]) -> Line:
    """Styled characters as fragments, one for each run of the same style."""
    groups = itertools.groupby(styled, key=lambda pair: pair[0])
    return tuple(Fragment(style, "".join(text for _, text in group)) for style, group in groups)


# ---- what the policy found -------------------------------------------------------------------------


def _parts(decision: PolicyDecision) -> tuple[tuple[PartView, ...], int]:
    """The parts worth showing, and how many allowed ones were left out of a long list."""
    parts = tuple(part for part in decision.parts if not is_only_unconfined(part.command))
    if len(parts) < 2 and not any(part.via or part.inside for part in parts):
        return (), 0  # the command is its only part
    shown = parts
    if len(shown) > PARTS_SHOWN:
        shown = tuple(part for part in shown if part.verdict is not Verdict.ALLOW)
    return tuple(_part(part) for part in shown), len(parts) - len(shown)


def _part(part: PartVerdict) -> PartView:
    why = ""
    if part.verdict is not Verdict.ALLOW:
        why = ": ".join(filter(None, (one_line(part.rules[0]) if part.rules else "", one_line(part.reason))))
    inside = " > ".join(one_line(name) for name in (*part.via, *part.inside))
    return PartView(part.verdict, one_line(part.command.strip()), why, inside)


def _effects(decision: PolicyDecision, project: str) -> tuple[EffectView, ...]:
    """What it would do, the worst first, each verb once."""
    effects = _all_effects(decision)
    if any(each.kind == "package" and each.role != "itself" for each in effects):  # they say that packages change, too
        effects = tuple(each for each in effects if (each.kind, each.role) != ("package", "itself"))
    by_verb: dict[tuple[int, str, bool, bool], list[Effect]] = {}
    kinds = effect_phrases.kinds()
    for effect in effects:
        rank = kinds.index(effect.kind) if effect.kind in kinds else len(kinds)
        verb, of_something = effect_phrases.verb(effect)
        by_verb.setdefault((rank, one_line(verb), of_something, effect.kind == "read"), []).append(effect)
    return tuple(
        EffectView(verb, _operands(found, project) if of_something else (), harmless)
        for (_, verb, of_something, harmless), found in sorted(by_verb.items(), key=lambda item: item[0][0])
    )


def _all_effects(decision: PolicyDecision) -> tuple[Effect, ...]:
    return decision.effects or tuple(effect for part in decision.parts for effect in part.effects)


def _operands(effects: list[Effect], project: str) -> tuple[str, ...]:
    root = f"{project.rstrip('/')}/"

    def order(effect: Effect) -> int:  # what is certain and outside the project, what is unknown, what is inside
        if not effect.resolved:
            return 1
        return 2 if project and f"{effect.operand}/".startswith(root) else 0

    ordered = sorted(effects, key=order)
    named = list(dict.fromkeys(_operand(effect) for effect in ordered))
    if len(named) > OPERANDS_SHOWN:
        return (*named[:OPERANDS_SHOWN], f"and {len(named) - OPERANDS_SHOWN} more")
    return tuple(named)


def _operand(effect: Effect) -> str:
    said = one_line(effect_phrases.operand(effect))
    known = effect.resolved or effect.unread or effect.below or effect.pattern or not effect.operand
    return said if known else f"{said} (not certain)"


def _unread(decision: PolicyDecision) -> str:
    if decision.parse == "ok":
        return ""
    reasons = "; ".join(one_line(reason) for reason in decision.parse_reasons)
    how = (
        "only a part of this command could be read" if decision.parse == "partial" else "this command could not be read"
    )
    return f"{how}: {reasons}" if reasons else how


def _intent(words: str) -> str:
    shown = one_line(" ".join(words[: 4 * INTENT_SHOWN].split()))
    return shown if len(shown) <= INTENT_SHOWN else f"{shown[:INTENT_SHOWN].rstrip()} ..."
