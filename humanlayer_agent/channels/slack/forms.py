"""The forms that open on a click: a reason, a changed command, an answer in words, a scope."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from humanlayer_agent.channels.offers import Foresight, OfferView
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
        message.GRANT: _Form(
            "Approve for more",
            "Approve",
            "What may run again without a question?",
            "This command is approved, and what you choose.",
        ),
        message.RESPOND: _Form(
            "Answer instead", "Answer", "Your answer", "The agent reads this in place of the output. Nothing is run."
        ),
    }
)
"""The forms by the button that opens them."""

_OF_QUESTIONS: Mapping[str, _Form] = MappingProxyType(
    {
        message.REJECT: _Form("Decline to answer", "Decline", "Why?", "The agent reads this.", optional=True),
        message.RESPOND: _Form(
            "Answer the question", "Answer", "Your answer", "The agent reads this. The number of an option chooses it."
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Origin:
    """The message that a form was opened from, and the request it is about."""

    request_id: str
    seal: str
    channel: str
    ts: str


def view(action: str, what: Shown, origin: Origin) -> Json:
    """The form of one button, but for that of a scope."""
    form = _OF_QUESTIONS[action] if what.view.question else FORMS[action]
    initial = what.request.action.content if action == message.EDIT else ""
    field = blocks.text_input(FIELD, form.label, hint=form.hint, initial=initial, optional=form.optional)
    return _view(action, form, origin, [*([] if initial else [_repeated(what)]), field])


def scopes(what: Shown, seen: Mapping[str, Foresight], seals: Mapping[str, str], origin: Origin) -> Json:
    """The form in which one of the scopes is chosen by which more than this once may be approved.

    Args:
        what: a request with its offers. seen: what each would have let through, by its name. seals: of their scopes.
    """
    form, found, options = FORMS[message.GRANT], [_repeated(what)], []
    for number, offer in enumerate(what.offers, 1):
        words = f"{number}  {offer.words}"
        found += [{"type": "divider"}, blocks.line(blocks.words(words, bold=True)), *_meaning(offer, seen[offer.name])]
        options.append((words, f"{offer.name}|{seals[offer.name]}"))
    return _view(message.GRANT, form, origin, [*found, blocks.choice(FIELD, form.label, options, hint=form.hint)])


def _meaning(offer: OfferView, seen: Foresight) -> Iterator[Json]:
    mark = "⚠ " if seen.refused else ""
    yield blocks.section(f"{offer.bounds}\n{mark}{seen.text}{':' if seen.examples else ''}")
    if seen.examples:
        yield blocks.literal("\n".join(seen.examples))
    yield blocks.context(f"Not {offer.beyond}{', such as' if seen.beyond else ''}", limit=600)
    if seen.beyond:
        yield blocks.context(*seen.beyond)


def _repeated(what: Shown) -> Json:
    return blocks.literal(blocks.cut(what.command, _SHOWN))


def metadata(origin: Origin) -> str:
    """Return what a form keeps of where it was opened; `origin_of` reads it."""
    return json.dumps([origin.request_id, origin.seal, origin.channel, origin.ts])[: blocks.METADATA]


def _view(action: str, form: _Form, origin: Origin, found: list[Json]) -> Json:
    return {
        "type": "modal",
        "callback_id": action,
        "title": blocks.plain(form.title, blocks.TITLE),
        "submit": blocks.plain(form.submit, blocks.TITLE),
        "close": blocks.plain("Back", blocks.TITLE),
        "private_metadata": metadata(origin),
        "blocks": found,
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


def chosen_in(submitted: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of the scope that was chosen in it, and the seal of what was shown of that."""
    state = submitted.get("state") or {}
    value = ((state.get("values") or {}).get(FIELD) or {}).get(FIELD) or {}
    name, _, seal = str((value.get("selected_option") or {}).get("value") or "").partition("|")
    return name, seal


def error(text: str) -> Json:
    """Keeps the form open, and says what is wrong."""
    return {"response_action": "errors", "errors": {FIELD: blocks.cut(text, 300)}}
