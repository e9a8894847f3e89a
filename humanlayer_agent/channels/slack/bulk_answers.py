"""Several requests that wait, in one form: those that are alike, each whole, to be answered together.

Each that is ticked gets a vote of its own. Its message still shows it as well, and is settled as ever.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from humanlayer_agent.approvals.model import AnswerKind, ApprovalRequest
from humanlayer_agent.channels.batches import alike, labels
from humanlayer_agent.channels.contract import Desk
from humanlayer_agent.channels.slack import blocks, message
from humanlayer_agent.channels.slack.blocks import Json
from humanlayer_agent.channels.slack.forms import FIELD
from humanlayer_agent.channels.slack.message import Shown
from humanlayer_agent.channels.slack.seal import Seal

LONGEST = 1_500
"""Characters of a command that the form shows."""
PURPOSE = "several"
"""What a choice of this form is sealed for: the value of a button is none."""

_ANSWER, _REASON = "answer", "reason"
_KINDS: Mapping[str, AnswerKind] = {"approve": "approve", "reject": "reject"}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a submitted form says: the requests by id and seal, how they are answered, and in which words."""

    requests: tuple[tuple[str, str], ...]
    kind: AnswerKind | None
    reason: str


def alike_here(desk: Desk, request: ApprovalRequest, channel: str) -> list[tuple[ApprovalRequest, Shown]]:
    """Return the requests that wait and are alike, this one among them, as far as messages show them whole.

    Returns:
        At most as many as a form has boxes, oldest first; [] where this one can only be answered alone.
    """
    shown = [(each, message.shown(each)) for each in _alike(desk, request) if _is_whole(desk, each, channel)]
    fit = [(each, what) for each, what in shown if not what.too_severe and len(what.command) <= LONGEST]
    others = [each.id for each, _ in fit if each.id != request.id][: blocks.OPTIONS - 1]
    return [pair for pair in fit if pair[0].id == request.id or pair[0].id in others]


def others_wait(desk: Desk, request: ApprovalRequest, channel: str) -> bool:
    """Tell whether others wait that are alike, at the time when the message of this one is made."""
    return any(each.id != request.id and _is_whole(desk, each, channel) for each in _alike(desk, request))


def _alike(desk: Desk, request: ApprovalRequest) -> Sequence[ApprovalRequest]:
    groups, _ = alike(desk.requests(waiting=True), longest=LONGEST)
    return next((group.requests for group in groups if any(each.id == request.id for each in group.requests)), ())


def _is_whole(desk: Desk, request: ApprovalRequest, channel: str) -> bool:
    return any(
        ref.complete and ref.presented_digest == request.digest and ref.where.get("channel") == channel
        for ref in desk.shown(request.id)
    )


def view(listed: Sequence[tuple[ApprovalRequest, Shown]], seal: Seal, metadata: str) -> Json:
    """The form."""
    found: list[Json] = []
    options = []
    differ = labels([what.request for _, what in listed])
    for number, ((request, what), differs) in enumerate(zip(listed, differ, strict=True), 1):
        found += _listed(number, what, differs)
        options.append((f"{number}  {differs}", f"{request.id}|{seal.of_scope(request, PURPOSE)}"))
    found += [
        {"type": "divider"},
        blocks.choice(FIELD, "Which of these?", options, many=True),
        blocks.choice(_ANSWER, "Your answer", [("Approve: each runs once", "approve"), ("Reject", "reject")]),
        blocks.text_input(_REASON, "Why not?", hint="The agents read this.", optional=True),
    ]
    return {
        "type": "modal",
        "callback_id": message.SEVERAL,
        "title": blocks.plain("Answer several", blocks.TITLE),
        "submit": blocks.plain("Answer these", blocks.TITLE),
        "close": blocks.plain("Back", blocks.TITLE),
        "private_metadata": metadata,
        "blocks": found,
    }


def _listed(number: int, what: Shown, differs: str) -> Iterator[Json]:
    shown = what.view
    yield {"type": "divider"}
    yield blocks.line(blocks.words(f"{number}  {differs}", bold=True))
    yield blocks.literal(what.command)
    said = [shown.reason, *(other.text for other in shown.others)]
    yield blocks.section("\n".join(blocks.cut(each, 300) for each in said[:5]))
    for warning in shown.warnings[:4]:
        yield blocks.section(f"⚠ {warning}", 350)
    yield blocks.context(blocks.cut(shown.agent, 100), *(blocks.cut(place, 200) for place in shown.place[:4]))


def chosen_in(submitted: Mapping[str, Any]) -> Chosen:
    """Return what a submitted form says."""
    values = (submitted.get("state") or {}).get("values") or {}

    def field(name: str) -> Mapping[str, Any]:
        return (values.get(name) or {}).get(name) or {}

    ticked = [str(option.get("value") or "") for option in field(FIELD).get("selected_options") or ()]
    parts = [value.partition("|") for value in dict.fromkeys(ticked)]
    answer = str((field(_ANSWER).get("selected_option") or {}).get("value") or "")
    reason = str(field(_REASON).get("value") or "").strip()
    return Chosen(tuple((id_, seal) for id_, _, seal in parts), _KINDS.get(answer), reason)
