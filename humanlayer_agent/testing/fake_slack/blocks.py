"""Checks blocks and views as Slack does, and says whom a message would notify."""

import re
from collections.abc import Iterator
from typing import Any

from humanlayer_agent.testing.fake_slack.limits import LIMITS, Json

_MENTION = re.compile(r"<(!channel|!here|!everyone|!subteam\^[A-Z0-9]+|@[UW][A-Z0-9]+)(?:\|[^>]*)?>")
_BOTH = ("plain_text", "mrkdwn")
_PLAIN = ("plain_text",)
_RICH = ("rich_text_section", "rich_text_preformatted", "rich_text_quote")
_IN_SECTION = ("text", "link", "user", "usergroup", "broadcast", "channel", "emoji", "date", "color")


def message_errors(blocks: Any) -> list[str]:
    """Return what is wrong with the blocks of a message; [] for nothing."""
    return list(_blocks(blocks, "/blocks", "message"))


def view_errors(view: Any) -> list[str]:
    """Return what is wrong with a view; [] for nothing."""
    return list(_view(view)) if isinstance(view, dict) else ["must be an object"]


def characters(value: Any) -> int:
    """The characters of all texts and values in some blocks."""
    if isinstance(value, dict):
        return sum(len(v) if k in ("text", "value") and isinstance(v, str) else characters(v) for k, v in value.items())
    return sum(map(characters, value)) if isinstance(value, list) else 0


def mentions(text: str) -> list[str]:
    """Return whom a mrkdwn text notifies."""
    return _MENTION.findall(text)


def pings(value: Any) -> list[str]:
    """Return whom some blocks notify: by mrkdwn, or by an element that is a mention."""
    found: list[str] = []
    if isinstance(value, dict):
        kind = value.get("type")
        if kind == "mrkdwn" and isinstance(value.get("text"), str):
            found += mentions(value["text"])
        elif kind == "broadcast":
            found.append(f"!{value.get('range')}")
        elif kind == "user":
            found.append(f"@{value.get('user_id')}")
        elif kind == "usergroup":
            found.append(f"!subteam^{value.get('usergroup_id')}")
        found += [ping for inner in value.values() if isinstance(inner, dict | list) for ping in pings(inner)]
    elif isinstance(value, list):
        found = [ping for inner in value for ping in pings(inner)]
    return found


# ---- texts ------------------------------------------------------------------------------------------


def _text(value: Any, at: str, limit: int, kinds: tuple[str, ...] = _BOTH) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"must be a text object [{at}]"
        return
    if value.get("type") not in kinds:
        yield f"unsupported type: {value.get('type')} [{at}/type]"
    if value.get("type") == "mrkdwn" and "emoji" in value:
        yield f"emoji is for plain_text only [{at}/emoji]"
    yield from _long(value.get("text"), f"{at}/text", limit)


def _long(text: Any, at: str, limit: int) -> Iterator[str]:
    if not isinstance(text, str) or not text:
        yield f"must be more than 0 characters [{at}]"
    elif len(text) > limit:
        yield f"must be less than {limit + 1} characters [{at}]"


def _string(owner: Json, key: str, at: str, limit: int, *, required: bool = False) -> Iterator[str]:
    value = owner.get(key)
    if value is None:
        if required:
            yield f"missing required field: {key} [{at}]"
    elif not isinstance(value, str):
        yield f"must be a string [{at}/{key}]"
    elif len(value) > limit:
        yield f"must be less than {limit + 1} characters [{at}/{key}]"


# ---- elements ---------------------------------------------------------------------------------------


def _element(value: Any, at: str, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"must be an object [{at}]"
        return
    kind = value.get("type")
    yield from _string(value, "action_id", at, LIMITS["action_id"])
    if "confirm" in value:
        yield from _confirm(value["confirm"], f"{at}/confirm")
    if kind == "button" and where != "input":
        yield from _text(value.get("text"), f"{at}/text", LIMITS["button_text"], _PLAIN)
        yield from _string(value, "value", at, LIMITS["button_value"])
        yield from _string(value, "url", at, LIMITS["button_url"])
        if value.get("style") not in (None, "primary", "danger"):
            yield f"must be one of: primary, danger [{at}/style]"
    elif kind == "plain_text_input" and where == "input":
        yield from _string(value, "initial_value", at, LIMITS["input_value"])
        for key in ("min_length", "max_length"):
            if key in value and not (isinstance(value[key], int) and 0 <= value[key] <= LIMITS["input_value"]):
                yield f"must be at most {LIMITS['input_value']} [{at}/{key}]"
        if "placeholder" in value:
            yield from _text(value["placeholder"], f"{at}/placeholder", LIMITS["placeholder"], _PLAIN)
    elif kind in ("static_select", "radio_buttons", "checkboxes"):
        options = value.get("options")
        most = LIMITS["options"] if kind == "static_select" else 10
        if not isinstance(options, list) or not 1 <= len(options) <= most:
            yield f"no more than {most} items allowed [{at}/options]"
            return
        for number, option in enumerate(options):
            yield from _text(option.get("text"), f"{at}/options/{number}", LIMITS["option_text"])
            yield from _string(option, "value", f"{at}/options/{number}", LIMITS["option_value"], required=True)
        if len({option.get("value") for option in options}) < len(options):
            yield f"option values must be unique [{at}/options]"
    else:
        yield f"unsupported type: {kind} [{at}/type]"


def _confirm(value: Any, at: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"must be an object [{at}]"
        return
    yield from _text(value.get("title"), f"{at}/title", LIMITS["confirm_title"], _PLAIN)
    yield from _text(value.get("text"), f"{at}/text", LIMITS["confirm_text"])
    for key in ("confirm", "deny"):
        yield from _text(value.get(key), f"{at}/{key}", LIMITS["confirm_button"], _PLAIN)


def _rich(value: Any, at: str) -> Iterator[str]:
    kind = value.get("type") if isinstance(value, dict) else None
    elements = (value.get("elements") or []) if isinstance(value, dict) else []
    if kind == "rich_text_list":
        for number, inner in enumerate(elements):
            yield from _rich(inner, f"{at}/elements/{number}")
        return
    if kind not in _RICH:
        yield f"unsupported type: {kind} [{at}/type]"
        return
    allowed = ("text", "link") if kind == "rich_text_preformatted" else _IN_SECTION
    if not elements:
        yield f"must have elements [{at}]"
    for number, inner in enumerate(elements):
        place = f"{at}/elements/{number}"
        if inner.get("type") not in allowed:
            yield f"unsupported type: {inner.get('type')} [{place}/type]"
        if inner.get("type") == "text" and not inner.get("text"):
            yield f"must be more than 0 characters [{place}/text]"
        if inner.get("type") == "date" and not (isinstance(inner.get("timestamp"), int) and inner.get("format")):
            yield f"needs a timestamp and a format [{place}]"


# ---- blocks and views -------------------------------------------------------------------------------


def _blocks(blocks: Any, at: str, surface: str) -> Iterator[str]:
    if not isinstance(blocks, list):
        yield f"must be an array [{at}]"
        return
    most = LIMITS["message_blocks" if surface == "message" else "view_blocks"]
    if len(blocks) > most:
        yield f"no more than {most} items allowed [{at}]"
    seen: set[str] = set()
    for number, block in enumerate(blocks):
        place = f"{at}/{number}"
        if not isinstance(block, dict):
            yield f"must be an object [{place}]"
            continue
        yield from _string(block, "block_id", place, LIMITS["block_id"])
        if (own := block.get("block_id")) and own in seen:
            yield f"block_id already exists: {own} [{place}]"
        seen.add(own or "")
        yield from _block(block, place, surface)


def _block(block: Json, at: str, surface: str) -> Iterator[str]:  # noqa: C901
    kind = block.get("type")
    elements = block.get("elements") or []
    if kind == "section":
        yield from _section(block, at)
    elif kind == "header":
        yield from _text(block.get("text"), f"{at}/text", LIMITS["header_text"], _PLAIN)
    elif kind == "context":
        if not 1 <= len(elements) <= LIMITS["context_elements"]:
            yield f"no more than {LIMITS['context_elements']} items allowed [{at}/elements]"
        for number, element in enumerate(elements):
            yield from _text(element, f"{at}/elements/{number}", LIMITS["text_object"])
    elif kind == "actions":
        if not 1 <= len(elements) <= LIMITS["actions_elements"]:
            yield f"no more than {LIMITS['actions_elements']} items allowed [{at}/elements]"
        ids = [element.get("action_id") for element in elements if element.get("action_id")]
        if len(ids) != len(set(ids)):
            yield f"action_id must be unique within the block [{at}/elements]"
        for number, element in enumerate(elements):
            yield from _element(element, f"{at}/elements/{number}", "actions")
    elif kind == "rich_text":
        if not elements:
            yield f"must have elements [{at}]"
        for number, element in enumerate(elements):
            yield from _rich(element, f"{at}/elements/{number}")
    elif kind == "input" and surface == "view":
        yield from _text(block.get("label"), f"{at}/label", LIMITS["input_label"], _PLAIN)
        if "hint" in block:
            yield from _text(block["hint"], f"{at}/hint", LIMITS["input_hint"], _PLAIN)
        yield from _element(block.get("element"), f"{at}/element", "input")
    elif kind != "divider":
        yield f"unsupported type: {kind} [{at}/type]"


def _section(block: Json, at: str) -> Iterator[str]:
    fields = block.get("fields") or []
    if "text" not in block and not fields:
        yield f"missing required field: text [{at}]"
    if "text" in block:
        yield from _text(block["text"], f"{at}/text", LIMITS["section_text"])
    if len(fields) > LIMITS["section_fields"]:
        yield f"no more than {LIMITS['section_fields']} items allowed [{at}/fields]"
    for number, each in enumerate(fields):
        yield from _text(each, f"{at}/fields/{number}", LIMITS["field_text"])
    if "accessory" in block:
        yield from _element(block["accessory"], f"{at}/accessory", "section")


def _view(view: Json) -> Iterator[str]:
    if view.get("type") not in ("modal", "home"):
        yield f"unsupported type: {view.get('type')} [/view/type]"
    if view.get("type") == "modal":
        yield from _text(view.get("title"), "/view/title", LIMITS["view_title"], _PLAIN)
    for key in ("submit", "close", "title"):
        if key in view and view.get("type") == "home":
            yield f"additional property: {key} [/view]"
        elif key in view and key != "title":
            yield from _text(view[key], f"/view/{key}", LIMITS["view_button"], _PLAIN)
    for key in ("private_metadata", "callback_id", "external_id"):
        yield from _string(view, key, "/view", LIMITS[key])
    blocks = view.get("blocks")
    yield from _blocks(blocks, "/view/blocks", "view")
    inputs = isinstance(blocks, list) and any(isinstance(b, dict) and b.get("type") == "input" for b in blocks)
    if inputs and "submit" not in view and view.get("type") == "modal":
        yield "missing required field: submit [/view]"
