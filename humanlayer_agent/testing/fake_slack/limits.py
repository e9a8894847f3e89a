"""The limits that Slack documents: of Block Kit, tiers of methods, scopes.

Sources: docs.slack.dev (block-kit, rate-limits, and the page of each method); where nothing is documented it says so.
"""

from typing import Any

Json = dict[str, Any]

LIMITS = {
    "message_blocks": 50,
    "view_blocks": 100,
    "block_id": 255,
    "action_id": 255,
    "section_text": 3000,
    "section_fields": 10,
    "field_text": 2000,
    "header_text": 150,
    "context_elements": 10,
    "actions_elements": 25,
    "text_object": 3000,
    "button_text": 75,
    "button_value": 2000,
    "button_url": 3000,
    "confirm_title": 100,
    "confirm_text": 300,
    "confirm_button": 30,
    "option_text": 75,
    "option_value": 150,
    "options": 100,
    "input_label": 2000,
    "input_hint": 2000,
    "placeholder": 150,
    "input_value": 3000,
    "message_text": 40_000,
    "message_characters": 13_200,  # not documented: reported in slackapi/bolt-js #2509 and #2867
    "view_title": 24,
    "view_button": 24,
    "private_metadata": 3000,
    "callback_id": 255,
    "external_id": 255,
    "view_bytes": 250_000,
    "view_stack": 3,
    "connections": 10,
    "snippet_bytes": 1_000_000,
    "response_url_uses": 5,
    "response_url_seconds": 1800,
}

TIERS = {1: 1, 2: 20, 3: 50, 4: 100}
"""Calls a minute of each tier. chat.postMessage has a rule of its own: about one a second for each channel."""

TIER_OF = {
    "auth.test": 4,
    "bots.info": 3,
    "chat.update": 3,
    "chat.postEphemeral": 4,
    "views.open": 4,
    "views.update": 4,
    "views.push": 4,
    "views.publish": 4,
    "usergroups.users.list": 2,
    "users.info": 4,
    "conversations.history": 3,
    "conversations.info": 3,
    "files.getUploadURLExternal": 4,
    "files.completeUploadExternal": 4,
    "apps.connections.open": 3,
}

SCOPES: dict[str, tuple[str, ...]] = {
    "bots.info": ("users:read",),
    "chat.postMessage": ("chat:write",),
    "chat.update": ("chat:write",),
    "chat.postEphemeral": ("chat:write",),
    "usergroups.users.list": ("usergroups:read",),
    "users.info": ("users:read",),
    "conversations.history": ("channels:history", "groups:history", "im:history", "mpim:history"),
    "conversations.info": ("channels:read", "groups:read", "im:read", "mpim:read"),
    "files.getUploadURLExternal": ("files:write",),
    "files.completeUploadExternal": ("files:write",),
    "apps.connections.open": ("connections:write",),
}
"""Scopes that a method asks for; where there are several, which of them depends on the kind of the conversation."""

KINDS = {"C": "channels", "G": "groups", "D": "im"}
"""What a conversation's id begins with -> the family of scopes that reads it."""


class ApiError(Exception):
    """Raised where Slack answers with `"ok": false`."""

    def __init__(self, error: str, **extra: Any) -> None:
        super().__init__(error)
        self.error = error
        self.extra = extra
