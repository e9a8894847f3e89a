"""The message that shows a request: with buttons while it waits, and with what became of it afterwards."""

import hashlib
import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from unicodedata import east_asian_width

from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.channels.concealment import conceal
from humanlayer_agent.channels.contract import DailyDigest, Outcome
from humanlayer_agent.channels.offers import OfferView, remembered
from humanlayer_agent.channels.presentation import FindingView, HeldView, Line, PartView, Presentation, Style, present
from humanlayer_agent.channels.slack import blocks
from humanlayer_agent.channels.slack.blocks import Json
from humanlayer_agent.redaction.redactor import ERASED
from humanlayer_agent.safe_text import one_line, visible

WHOLE = 2800
"""Characters of a command that a message shows whole. Slack refuses some 13,200 characters of blocks (undocumented)."""
HEAD, TAIL = 1500, 700
"""Characters of a longer one that are shown of its beginning and its end."""
WORDS = 1_000
"""Characters of what a scope covers that a form shows."""
ROOM = 12_800
"""Characters of all blocks of a message, as JSON."""

APPROVE, GRANT, REJECT, EDIT = ("hla_approve", "hla_grant", "hla_reject", "hla_edit")
RESPOND, ESCALATE, SEVERAL = ("hla_respond", "hla_escalate", "hla_several")

_MENTIONS = 10
_PARTS, _EFFECTS, _MARKED = 1600, 1100, 900
_FILES, _DIFF = 1200, 2500
_WIDTH, _BEFORE = 72, 20
"""Characters of a line with marks that are shown, and how many of them before the first mark."""


class Attachment(StrEnum):
    """The place of the whole of a long command."""

    NONE = "it is in the message"
    COMING = "it is being attached"
    THERE = "it is in the thread"
    FAILED = "it could not be attached"


@dataclass(frozen=True, slots=True)
class Message:
    """A message to post: blocks, and the text that notifications show, which is mrkdwn."""

    text: str
    blocks: list[Json]


@dataclass(frozen=True, slots=True)
class Shown:
    """A request, and how much of it Slack can show. `seen` is False where an input is not known here: then nobody
    can see there all that would run. `value` is that of its buttons."""

    request: ApprovalRequest
    view: Presentation
    command: str
    stdin: str
    seen: bool
    value: str

    @property
    def is_long(self) -> bool:
        """True where a message has no room for the command, or for what a held run of it has changed."""
        held = self.view.held
        return self.has_long_command or (held is not None and (bool(held.more) or _is_cut(held)))

    @property
    def has_long_command(self) -> bool:
        """True where a message has no room for the command."""
        return len(self.command) + len(self.stdin) > WHOLE

    @property
    def run(self) -> str:
        """All that would run."""
        return f"{self.command}\n\n--- standard input ---\n{self.stdin}" if self.stdin else self.command

    @property
    def whole(self) -> str:
        """The text of the snippet."""
        texts = [self.run]
        held = self.request.decision.held
        if held is not None and self.view.held is not None:
            more = [f"and {held.more:,} more"] if held.more else []
            files = "\n".join([*map(one_line, held.files), *more])
            texts += ["--- what it changed when it was run held ---", files, "\n".join(self.view.held.diff)]
        return "\n\n".join(filter(None, texts))

    @property
    def too_severe(self) -> bool:
        """True where no answer that comes by a chat can count: then none is offered."""
        rule = self.request.rule
        return rule is not None and not rule.takes("chat")

    @property
    def offers(self) -> tuple[OfferView, ...]:
        """The scopes that a form can show: what is approved must be there to read, whole."""
        return tuple(offer for offer in self.view.offers if len(offer.words) <= WORDS)

    @property
    def can_edit(self) -> bool:
        """True where a form can hold the command: as it is, without a character that a form would swallow or change."""
        command = self.request.action.content
        if "edit" not in self.request.answers or ERASED in command:  # what is not sent can't be in the form either
            return False
        return 0 < len(command) <= blocks.INPUT and visible(command) == command == command.strip() and self.seen


def shown(request: ApprovalRequest, value: str = "") -> Shown:
    """A request, made safe to show, without the secrets in it: a chat keeps what it is sent.

    Args:
        value: of its buttons.
    """
    bare, erased = conceal(request)
    view = present(bare, erased=erased)
    known = hashlib.sha256(request.action.stdin).hexdigest()
    seen = request.body.get("stdin", known) == known
    return Shown(bare, view, _joined(view.command), _joined(view.stdin), seen, value)


def asking(
    outcome: Outcome,
    what: Shown,
    attachment: Attachment,
    mentions: Iterable[str],
    *,
    now: int,
    several: bool = False,
) -> Message:
    """The message while the request waits.

    Args:
        several: others wait that are alike, and can be answered together with it.
    """
    view, request = what.view, what.request
    found = [blocks.header(_title(view)), *_place(view), blocks.section(_why(view), 600)]
    found += _radius(view)
    found += _held(view)
    found += [blocks.section(f"⚠ {text}", 350) for text in _beware(view, what)[:4]]
    found += _command(what, attachment)
    found += _changes(view)  # not among the details: a yes is to them
    details = [make for make in (_also, _marks, _parts, _effects, _unknown, _instead, _intent) if make(view)]
    ends = [_for_whom(outcome, list(mentions))]
    if what.too_severe:
        ends.append(blocks.context("Too severe to be answered in a chat: answer it at a terminal or after a login."))
    else:
        ends.append(blocks.actions(_buttons(what, attachment, now=now, several=several)))
    wants = view.wants if view.question or view.plan else "asks to run a command"
    text = f"{_mrkdwn(view.agent)} {wants} ({_mrkdwn(view.severity)} severity)"
    return Message(text, _fitted(found, [partial(make, view) for make in details], ends, request))


def decided(outcome: Outcome, what: Shown) -> Message:
    """The message once the request is settled: nothing in it can be answered."""
    request = outcome.request
    said = ended(outcome, what)
    if more := remembered(request, outcome.votes, what.request):
        said += f", and remembered: {blocks.cut(more, 400)}"
    when = request.decided or request.expires
    found = [
        blocks.line(blocks.words(f"{said} · ", bold=True), blocks.date(when, "{date_short_pretty} {time}", utc(when))),
        blocks.context(_title(what.view), *_places(what.view)),
        blocks.literal(_clipped(what)),
    ]
    if what.request.edited:
        edited = visible(what.request.edited)
        found.append(blocks.section("Changed to (it is judged again before it runs):"))
        found.append(blocks.literal(edited if len(edited) <= WHOLE else blocks.cut(edited, HEAD)))
    if what.request.comment:
        found.append(blocks.section(f"“{visible(what.request.comment)}”", 1500))
    return Message(_mrkdwn(said.lstrip(_MARKS)), found)


def ended(outcome: Outcome, what: Shown) -> str:
    """What became of a settled request, and by whom, in a few words."""
    request, who = outcome.request, one_line(outcome.by)
    mark, of_whom = _SETTLED.get(request.ending, (f"Settled: {request.state}", True))
    if what.view.question and request.ending == "answered":
        mark = "💬 Answered"
    return f"{mark} by {blocks.cut(who, 100)}" if of_whom and who else mark


def reminder(outcome: Outcome, mentions: Iterable[str], *, now: int) -> Message:
    """One line in the thread."""
    left = max(0, outcome.request.expires - now)
    said = f"This still waits for an answer: {_span(left)} left, then it is {_otherwise(outcome.request)}."
    return Message(said, [blocks.line(*_mentioned(list(mentions)), blocks.words(said))])


def story(outcome: Outcome, what: Shown, lines: Iterable[str], head: str) -> Message:
    """What is said in the thread once all is over: how the request went, and a signed head of the log."""
    said = f"How it went: {ended(outcome, what)}"
    found = [
        blocks.line(blocks.words(said, bold=True)),
        blocks.context(f"Request {one_line(outcome.request.id)[:12]}: {' '.join(what.command.split())}", limit=200),
        blocks.literal(_limited(["UTC", *lines], WHOLE)),
        blocks.context("The log goes as far as this head: keep it, it is a witness (hla audit verify)."),
        blocks.literal(head),
    ]
    return Message(_mrkdwn(said.replace(": ", ", ").lstrip(_MARKS)), found)


def summary(digest: DailyDigest) -> Message:
    """The figures of a day. Everything in it is plain text: rules and people may be called anything."""
    asked = sum(digest.endings.values())
    more = " at least" if digest.more else ""
    judged = (
        ", ".join(f"{number:,} {_JUDGED.get(verdict, verdict)}" for verdict, number in sorted(digest.judged.items()))
        or "none"
    )
    title = f"Agents on {digest.day}: asked {asked:,} {'time' if asked == 1 else 'times'}{more}"
    span = (
        blocks.date(digest.since, "{date_short_pretty} {time}", utc(digest.since)),
        blocks.words(" to "),
        blocks.date(digest.until, "{date_short_pretty} {time}", utc(digest.until)),
    )
    said = [f"Judged{more}: {judged}"]
    if asked:
        endings = sorted(digest.endings.items(), key=lambda each: -each[1])
        said.append("Asked: " + ", ".join(f"{number:,} {_IN_A_DIGEST.get(state, state)}" for state, number in endings))
    if digest.minutes is not None:
        said.append(f"Half of the answers came within {max(digest.minutes, 0.1):.1f} minutes")
    found = [blocks.header(title), blocks.line(*span), blocks.section("\n".join(said))]
    for label, rows in (
        ("Who answered", digest.answered),
        ("Asked about most, by rule", digest.asked_by),
        ("Denied most, by rule", digest.denied_by),
    ):
        if rows:
            lines = [f"{number:>5}  {blocks.cut(one_line(name), 80)}" for name, number in rows]
            found += [blocks.context(label), blocks.literal("\n".join(lines))]
    now = [f"{digest.waiting} wait now" if digest.waiting else "Nothing waits"]
    now += [f"{digest.grants} approvals for more than once hold"] if digest.grants else []
    now += [f"🛑 {digest.stopped}"] if digest.stopped else []
    found.append(blocks.section("; ".join(now) + "."))
    if digest.oldest is not None:
        oldest = blocks.date(digest.oldest, "{date_short_pretty} {time}", utc(digest.oldest))
        found.append(blocks.line(blocks.words("The oldest waits since "), oldest))
    return Message(_mrkdwn(title), found)


# ---- the pieces -------------------------------------------------------------------------------------


def _joined(lines: Iterable[Iterable[tuple[object, str]]]) -> str:
    return "\n".join("".join(text for _, text in line) for line in lines)


def _title(view: Presentation) -> str:
    return f"{blocks.cut(view.agent, 100)} {view.wants}"


def _places(view: Presentation) -> list[str]:
    return [blocks.cut(text, 200) for text in view.place[:4]]


def _place(view: Presentation) -> list[Json]:
    return [blocks.context(*_places(view))] if view.place else []


def _why(view: Presentation) -> str:
    rule = f"rule {blocks.cut(view.rule, 80)}" if view.rule else "no rule allows it"
    grade = "" if view.question else f"  ({blocks.cut(view.severity, 20)} severity, {rule})"
    said = [blocks.cut(view.reason, 300) + grade]
    said += [_other(other) for other in view.urgent]
    return "\n".join([*said, *([f"and {len(view.more)} more, below"] if view.more else [])])


def _other(other: FindingView) -> str:
    return f"{blocks.cut(other.text, 200)}  ({blocks.cut(other.severity, 20)} severity)"


def _also(view: Presentation) -> list[Json]:
    rows = [_other(other) for other in view.more]
    return [blocks.context("Also"), blocks.literal(_limited(rows, _EFFECTS))] if rows else []


def _beware(view: Presentation, what: Shown) -> list[str]:
    found = [view.unread] if view.unread else []
    if not what.seen:
        found.append("it gets an input that only the agent's own prompt can show: it can't be approved here")
    if view.interpreter:
        found.append(f"run by {view.interpreter}")
    return [*found, *view.warnings]


def _command(what: Shown, attachment: Attachment) -> Iterator[Json]:
    if what.has_long_command:
        yield blocks.literal(_clipped(what))
    else:
        yield blocks.literal(what.command)
        if what.stdin:
            yield blocks.section(f"and on its standard input, {what.view.stdin_bytes} bytes:")
            yield blocks.literal(what.stdin)
    if not what.is_long:
        return
    size = f"{len(what.whole)} characters, sha256 {hashlib.sha256(what.whole.encode()).hexdigest()}"
    where = {
        Attachment.COMING: "The whole is being attached in the thread; it can be approved then.",
        Attachment.THERE: "The whole is in the thread: read it there.",
    }.get(attachment, "The whole could not be attached, so it can't be approved here: use the terminal.")
    yield blocks.context(size, where)


def _clipped(what: Shown) -> str:
    if not what.has_long_command:
        return what.run
    missing = len(what.run) - HEAD - TAIL
    return f"{what.run[:HEAD]}\n[... {missing} characters are not shown here ...]\n{what.run[-TAIL:]}"


def _marks(view: Presentation) -> list[Json]:
    """The parts of the command that the decision is about, as the terminal underlines them.

    They stand in a block of their own, by marks below: code in Slack has no style, and the command must stay as it is.
    """
    rows = [row for number, each in enumerate(view.command, 1) for row in _marked(number, each)]
    return [blocks.context("What it is about"), blocks.literal(_limited(rows, _MARKED))] if rows else []


def _marked(number: int, line: Line) -> Iterator[str]:
    """One line of the command, where something in it is marked: as much as there is room for, from near the first
    mark, and the marks below it.
    """
    cells = [
        (" " if character == "\t" else character, part.style is Style.MARK)
        for part in line
        for character in part.text.rstrip("\n")
    ]
    first = next((at for at, (_, marked) in enumerate(cells) if marked), None)
    if first is None:
        return
    begin = max(0, first - _BEFORE) if len(cells) > _WIDTH else 0
    some = cells[begin : begin + _WIDTH]
    lead = f"{number}  {'... ' if begin else ''}"
    yield lead + "".join(character for character, _ in some)
    marks = (("^" if marked else " ") * (1 + (east_asian_width(character) in "WF")) for character, marked in some)
    yield " " * len(lead) + "".join(marks).rstrip()


def _parts(view: Presentation) -> list[Json]:
    rows = [row for part in view.parts for row in _part(part)]
    if view.allowed_parts:
        rows.append(f"allow  {view.allowed_parts} more parts")
    return [blocks.context("Parts"), blocks.literal(_limited(rows, _PARTS))] if rows else []


def _part(part: PartView) -> Iterator[str]:
    inside = f"  (inside {blocks.cut(part.inside, 60)})" if part.inside else ""
    yield f"{part.verdict!s:<5}  {blocks.cut(part.command, 200)}{inside}"
    if part.why:
        yield f"       {blocks.cut(part.why, 160)}"


def _radius(view: Presentation) -> list[Json]:
    return [blocks.section(f"At stake: {' '.join(view.radius)}", 2_500)] if view.radius else []


def _held(view: Presentation) -> list[Json]:
    """What a held run has changed: in a few lines; where there is no room for all, the whole is in the thread."""
    if (held := view.held) is None:
        return []
    told = [blocks.section(f"{'' if held.applies else '⚠ '}{held.promise[:1].upper()}{held.promise[1:]}.", 300)]
    told += [blocks.section(f"⚠ {each}.", 300) for each in held.partial[:3]]
    return [*told, blocks.section(f"{held.ended}.", 300), blocks.literal(_limited(_files(held), _FILES))]


def _is_cut(held: HeldView) -> bool:
    """Tell whether there is no room for what is known of a held run."""
    return any(_limited(rows, room) != "\n".join(rows) for rows, room in ((_files(held), _FILES), (held.diff, _DIFF)))


def _files(held: HeldView) -> list[str]:
    return [*held.files, *([f"and {held.more:,} more"] if held.more else [])]


def _changes(view: Presentation) -> list[Json]:
    """The lines that a held run has changed, as many as there is room for."""
    if view.held is None or not view.held.diff:
        return []
    return [blocks.context("The lines that it changes"), blocks.literal(_limited(view.held.diff, _DIFF))]


def _effects(view: Presentation) -> list[Json]:
    rows = [f"{effect.verb} {blocks.cut(', '.join(effect.operands), 300)}".rstrip() for effect in view.effects]
    return [blocks.context("Effects"), blocks.literal(_limited(rows, _EFFECTS))] if rows else []


def _unknown(view: Presentation) -> list[Json]:
    found = [blocks.section(f"Unknown until it runs: {', '.join(view.unresolved)}", 400)] if view.unresolved else []
    return [*found, blocks.context(view.teaching)] if view.teaching else found


def _instead(view: Presentation) -> list[Json]:
    return [blocks.section(f"Instead: {view.suggestion}", 500)] if view.suggestion else []


def _intent(view: Presentation) -> list[Json]:
    return [blocks.context(f"The model says (not verified): {view.intent}", limit=450)] if view.intent else []


def _limited(rows: Sequence[str], room: int) -> str:
    """As many rows as there is room for, and how many are missing."""
    found: list[str] = []
    for number, row in enumerate(rows):
        if sum(map(len, found)) + len(row) > room - 40:
            return "\n".join([*found, f"[... {len(rows) - number} more rows]"])
        found.append(row)
    return "\n".join(found)


def _for_whom(outcome: Outcome, mentions: list[str]) -> Json:
    request = outcome.request
    found = _mentioned(mentions)
    found.append(blocks.words("Answer by "))
    found.append(blocks.date(request.expires, "{time}", utc(request.expires)))
    found.append(
        blocks.words(
            f", {_span(request.expires - request.created)} after it was asked; then it is {_otherwise(request)}."
        )
    )
    if "approve" in request.answers and (outcome.missing > 1 or len(outcome.votes) > 0):
        approvals = sum(vote.answer == "approve" for vote in outcome.votes)
        found.append(blocks.words(f" {outcome.missing} more must approve; {approvals} have.", bold=True))
    return blocks.line(*found)


def _otherwise(request: ApprovalRequest) -> str:
    """What it is once nobody has answered in time."""
    return "denied" if "approve" in request.answers else "closed, and the agent gets no answer"


def _mentioned(mentions: list[str]) -> list[Json]:
    return [element for each in mentions[:_MENTIONS] for element in (blocks.mention(each), blocks.words(" "))]


def _buttons(what: Shown, attachment: Attachment, *, now: int, several: bool) -> Iterator[Json]:
    value = what.value
    in_words = blocks.button(RESPOND, "Respond…", value)
    whole = what.seen and attachment in (Attachment.NONE, Attachment.THERE) and "approve" in what.request.answers
    if what.view.question:
        yield in_words
    if whole:
        applies = what.view.held is not None and what.view.held.applies
        yield blocks.button(APPROVE, "Apply this" if applies else "Approve", value, "primary")
        if what.offers:
            yield blocks.button(GRANT, "Approve for…", value)
    yield blocks.button(REJECT, "Reject…", value, "danger")
    if whole and what.can_edit:
        yield blocks.button(EDIT, "Edit…", value)
    if not what.view.question:
        yield in_words
    rule = what.request.rule
    if rule and len(rule.due(now - what.request.created, what.request.escalated)) < len(rule.steps):
        yield blocks.button(ESCALATE, "Escalate", value)
    if whole and several:
        yield blocks.button(SEVERAL, "Several like this…", value)


def _fitted(
    before: list[Json], details: "list[partial[list[Json]]]", after: list[Json], request: ApprovalRequest
) -> list[Json]:
    """All blocks, or those details that there is room for: the command and what decides about it always stay."""
    note = [blocks.context("Some details don't fit in here: hla requests show " + one_line(request.id)[:12])]
    kept: list[Json] = []
    left_out = False
    for make in details:
        more = make()
        if len(json.dumps([*before, *kept, *more, *note, *after], ensure_ascii=False)) > ROOM:
            left_out = True
        else:
            kept += more
    return [*before, *kept, *(note if left_out else []), *after]


def _mrkdwn(text: str) -> str:
    """Text for a place that is always mrkdwn: nothing in it can format, mention or link."""
    return re.sub(r"[^\w .,:()/+-]", "?", blocks.cut(text, 150)).replace("_", "-").replace(":", " ")


def _span(milliseconds: int) -> str:
    seconds = max(milliseconds, 0) // 1000
    if seconds < 120:
        return f"{seconds} seconds"
    return f"{seconds // 60} minutes" if seconds < 7200 else f"{seconds // 3600} hours"


def utc(milliseconds: int) -> str:
    """A point in time, for whoever's clock is not known."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(milliseconds // 1000))


_SETTLED: dict[str, tuple[str, bool]] = {
    "approved": ("✅ Approved", True),
    "rejected": ("⛔ Rejected", True),
    "answered": ("💬 Answered instead of run", True),
    "superseded": ("✏ Changed", True),
    "expired": ("⌛ Nobody answered in time: denied", False),
    "withdrawn": ("Withdrawn: nobody waits for it any more", False),
    "abandoned": ("Closed: its agent is gone, and nobody waits for the answer", False),
    "terminated": ("🛑 The run was stopped", True),
    "revoked": ("↩ Approved, and taken back", True),
    "lapsed": ("⌛ Approved, but not used in time: it did not run", False),
    "invalidated": ("⚠ Approved, but something else was about to run: it did not run", False),
}
"""State -> how it is said, and whether it says by whom."""
_JUDGED = {"allow": "allowed", "ask": "asked about", "deny": "denied"}
_IN_A_DIGEST = {
    "answered": "answered in words",
    "superseded": "changed",
    "expired": "not answered in time",
    "terminated": "ended with their run",
    "revoked": "taken back",
    "lapsed": "approved and not used",
    "invalidated": "approved and not run",
    "abandoned": "left by their agent",
}
"""State -> what a digest calls it; the others are words already."""
_MARKS = "✅⛔💬✏⌛🛑↩⚠ "
