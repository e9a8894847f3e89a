"""The forms that open on a click: a reason, a changed command, an answer in words."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from humanlayer_agent.channels.slack import blocks, message
from humanlayer_agent.channels.slack.blocks import Json
from humanlayer_agent.channels.slack.message import Shown

FIELD = "said"
"""The block of the one input of a form."""
_SHOWN = 1000
"""Characters of the command that a form repeats."""


@dataclass(frozen=True, slots=True)
class _Form:
    title: str
    submit: str
    label: str
    hint: str
    optional: bool = False


FORMS: Mapping[str, _Form] = MappingProxyType(
    {
        message.REJECT: _Form("Reject the command", "Reject", "Why?", "The agent reads this.", optional=True),
        message.EDIT: _Form(
            "Change the command", "Run this instead", "Command", "It is judged again before it runs: once, as it is."
        ),
        message.RESPOND: _Form(
            "Answer instead", "Answer", "Your answer", "The agent reads this in place of the output. Nothing is run."
        ),
    }
)
"""The forms by the button that opens them."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The message that a form was opened from, and the request it is about."""

    request_id: str
    seal: str
    channel: str
    ts: str


def view(action: str, what: Shown, origin: Origin) -> Json:
    """The form of one button."""
    form = FORMS[action]
    metadata = json.dumps([origin.request_id, origin.seal, origin.channel, origin.ts])
    initial = what.request.action.content if action == message.EDIT else ""
    field = blocks.text_input(FIELD, form.label, hint=form.hint, initial=initial, optional=form.optional)
    repeated = [] if initial else [blocks.literal(blocks.cut(what.command, _SHOWN))]
    return {
        "type": "modal",
        "callback_id": action,
        "title": blocks.plain(form.title, blocks.TITLE),
        "submit": blocks.plain(form.submit, blocks.TITLE),
        "close": blocks.plain("Back", blocks.TITLE),
        "private_metadata": metadata[: blocks.METADATA],
        "blocks": [*repeated, field],
    }


def origin_of(submitted: Mapping[str, Any]) -> Origin | None:
    """Return where a submitted form came from; None where it is none of ours."""
    try:
        found = json.loads(submitted.get("private_metadata") or "")
    except ValueError:
        return None
    if not isinstance(found, list) or len(found) != 4 or not all(isinstance(each, str) for each in found):
        return None
    return Origin(*found)


def text_of(submitted: Mapping[str, Any]) -> str:
    """Return the text that was typed into it."""
    state = submitted.get("state") or {}
    value = ((state.get("values") or {}).get(FIELD) or {}).get(FIELD) or {}
    return str(value.get("value") or "")


def error(text: str) -> Json:
    """Keeps the form open, and says what is wrong."""
    return {"response_action": "errors", "errors": {FIELD: blocks.cut(text, 300)}}
