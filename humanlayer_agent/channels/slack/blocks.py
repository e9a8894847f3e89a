"""The few kinds of Block Kit blocks that are used, each within Slack's limits by construction.

Nothing that comes from outside is ever `mrkdwn`: text is `plain_text`, code is `rich_text_preformatted`, and both are
drawn as they are: no mentions, no links, no formatting, no emoji from colons.
"""

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

HEADER = 150
SECTION = 3000
BUTTON_TEXT = 75
VALUE = 2000
TITLE = 24
METADATA = 3000
INPUT = 3000
OPTION = 75
OPTION_VALUE = 150
OPTIONS = 10
CUT = " …"


def cut(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, with a mark where some are missing."""
    return text if len(text) <= limit else text[: limit - len(CUT)].rstrip() + CUT


def plain(text: str, limit: int = SECTION) -> Json:
    return {"type": "plain_text", "text": cut(text, min(limit, SECTION)) or " ", "emoji": False}


def header(text: str) -> Json:
    return {"type": "header", "text": plain(text, HEADER)}


def section(text: str, limit: int = SECTION) -> Json:
    return {"type": "section", "text": plain(text, limit)}


def context(*texts: str, limit: int = 300) -> Json:
    """Small print, at most ten of them."""
    return {"type": "context", "elements": [plain(text, limit) for text in texts[:10] if text]}


def literal(text: str) -> Json:
    """Code, exactly as it is. It is not cut here: whoever shows a command says what is missing."""
    inner = {"type": "text", "text": text or " "}
    return {"type": "rich_text", "elements": [{"type": "rich_text_preformatted", "elements": [inner]}]}


def line(*elements: Json) -> Json:
    """One line of our own words, with mentions and dates."""
    return {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": list(elements)}]}


def words(text: str, *, bold: bool = False) -> Json:
    return {"type": "text", "text": text, **({"style": {"bold": True}} if bold else {})}


def mention(identity: str) -> Json:
    """A user (U..., W...) or a user group (S...)."""
    if identity.startswith("S"):
        return {"type": "usergroup", "usergroup_id": identity}
    return {"type": "user", "user_id": identity}


def date(milliseconds: int, how: str, fallback: str) -> Json:
    """A point in time, as each reader's own clock shows it."""
    return {"type": "date", "timestamp": milliseconds // 1000, "format": how, "fallback": fallback}


def button(action: str, text: str, value: str, style: str = "") -> Json:
    made = {"type": "button", "action_id": action, "text": plain(text, BUTTON_TEXT), "value": value[:VALUE]}
    return made | ({"style": style} if style else {})


def actions(buttons: Iterable[Json]) -> Json:
    return {"type": "actions", "elements": list(buttons)}


def text_input(block_id: str, label: str, *, hint: str = "", initial: str = "", optional: bool = False) -> Json:
    """A field for some lines of text."""
    element: Json = {"type": "plain_text_input", "action_id": block_id, "multiline": True, "max_length": INPUT}
    if initial:
        element["initial_value"] = initial
    made: Json = {"type": "input", "block_id": block_id, "label": plain(label), "element": element}
    return made | ({"optional": True} if optional else {}) | ({"hint": plain(hint, 300)} if hint else {})


def choice(
    block_id: str, label: str, options: Iterable[tuple[str, str]], *, hint: str = "", many: bool = False
) -> Json:
    """Buttons of which one is chosen, or boxes of which some are, at most ten; none is chosen before.

    Args:
        options: the text and the value of each.
    """
    listed = [{"text": plain(text, OPTION), "value": value[:OPTION_VALUE]} for text, value in options][:OPTIONS]
    kind = "checkboxes" if many else "radio_buttons"
    element: Json = {"type": kind, "action_id": block_id, "options": listed}
    made: Json = {"type": "input", "block_id": block_id, "label": plain(label, 2000), "element": element}
    return made | ({"hint": plain(hint, 300)} if hint else {})
