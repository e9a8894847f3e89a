"""The people in the fake Slack: they click a button, fill in a form, close it."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from humanlayer_agent.testing.fake_slack import world
from humanlayer_agent.testing.fake_slack.limits import LIMITS, Json
from humanlayer_agent.testing.fake_slack.socket import Delivery
from humanlayer_agent.testing.fake_slack.world import World, public


@dataclass
class Submission:
    """The fate of a form: closed, errors (`errors` by block), kept (not acknowledged: it stays open)."""

    outcome: str
    delivery: Delivery
    errors: Mapping[str, str]


class People:
    """The humans of a workspace.

    Args:
        deliver: tells the app.
        base: where the HTTP server is, for response addresses.
    """

    def __init__(self, state: World, deliver: Callable[..., Delivery], base: str) -> None:
        self._state = state
        self._deliver = deliver
        self._base = base

    def click(
        self,
        user: str,
        ts: str,
        action: str,
        /,
        *,
        channel: str = world.CHANNEL,
        stale: bool = False,
        value: str | None = None,
        action_ts: str = "",
        **payload: object,
    ) -> Delivery:
        """Click a button of a message.

        Args:
            action: its action_id.
            stale: the client still shows an older form of the message.
            value: another value than the button's, as somebody might send who has copied it.
            action_ts: of an earlier click, to deliver that again.
            payload: fields of the payload that are to be different.

        Raises:
            LookupError: there is no such message or button for this person.
        """
        with self._state.lock:
            message = self._state.messages[channel].get(ts)
            if message is None or user not in self._state.channels[channel]["members"]:
                raise LookupError(f"{user} sees no message {ts} in {channel}")
            block, button = self._button(message, action, stale)
            sent = {
                "type": "block_actions",
                "user": self._actor(user),
                "api_app_id": world.APP,
                "team": {"id": world.TEAM, "domain": "fake"},
                "enterprise": None,
                "container": {"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": False},
                "channel": {"id": channel, "name": self._state.channels[channel]["name"]},
                "message": public(message),
                "trigger_id": self._state.trigger(user),
                "response_url": self._response_url(channel, user),
                "actions": [
                    {
                        "type": "button",
                        "action_id": action,
                        "block_id": block["block_id"],
                        "value": button.get("value") if value is None else value,
                        "action_ts": action_ts or self._state.next_ts(),
                    }
                ],
                **payload,
            }
        return self._deliver(sent)

    def buttons(self, ts: str, *, channel: str = world.CHANNEL) -> dict[str, Json]:
        """The buttons that a message shows now, by action_id."""
        with self._state.lock:
            return dict(_buttons(self._state.messages[channel][ts]))

    def view(self, user: str) -> Json | None:
        """The form that somebody has open; None for none."""
        with self._state.lock:
            mine = [view for view in self._state.views.values() if view["_open"] and view["_user"] == user]
            return public(mine[-1]) if mine else None

    def open_home(self, user: str, /, *, tab: str = "home", **payload: object) -> Delivery:
        """Look at the home of the app.

        Args:
            payload: fields of the payload that are to be different.
        """
        with self._state.lock:
            shown = self._state.homes.get(user)
            event = {
                "type": "app_home_opened",
                "user": user,
                "channel": "D0HOME",
                "tab": tab,
                "event_ts": self._state.next_ts(),
                **({"view": public(self._state.views[shown])} if shown else {}),
            }
            sent = {
                "token": "z",
                "team_id": world.TEAM,
                "api_app_id": world.APP,
                "type": "event_callback",
                "event_id": f"Ev{secrets.token_hex(5).upper()}",
                "event_time": int(self._state.clock()),
                "event": event,
                **payload,
            }
        return self._deliver(sent, kind="events_api")

    def home(self, user: str) -> Json | None:
        """Return the home of the app as somebody sees it; None where none was published for them."""
        with self._state.lock:
            shown = self._state.homes.get(user)
            return public(self._state.views[shown]) if shown else None

    def click_view(
        self, user: str, view_id: str, action: str, /, *, number: int = 0, value: str | None = None, **payload: object
    ) -> Delivery:
        """Click a button of a form or of the home.

        Args:
            number: which of those with this action_id.
            value, payload: as for `click`.

        Raises:
            LookupError: there is no such button.
        """
        with self._state.lock:
            view = self._state.views[view_id]
            found = [pair for pair in _all_buttons(view) if pair[1].get("action_id") == action]
            if view["_user"] != user or len(found) <= number:
                raise LookupError(f"there is no button {action} for {user}")
            block, button = found[number]
            sent = {
                "type": "block_actions",
                "user": self._actor(user),
                "api_app_id": world.APP,
                "team": {"id": world.TEAM, "domain": "fake"},
                "container": {"type": "view", "view_id": view_id},
                "trigger_id": self._state.trigger(user),
                "view": public(view),
                "actions": [
                    {
                        "type": "button",
                        "action_id": action,
                        "block_id": block["block_id"],
                        "value": button.get("value") if value is None else value,
                        "action_ts": self._state.next_ts(),
                    }
                ],
                **payload,
            }
        return self._deliver(sent)

    def submit(
        self, user: str, view_id: str, values: Mapping[str, str] | None = None, /, **payload: object
    ) -> Submission:
        """Submit a form, with what was typed by block id; the rest stays as the form proposed it.

        Args:
            values: texts; of radio buttons the value of one, of check boxes the values of some, a space between them.

        Raises:
            ValueError: the client itself would not let it through.
        """
        with self._state.lock:
            view = self._state.views[view_id]
            if not view["_open"] or view["_user"] != user:
                raise LookupError(f"{user} has no form {view_id} open")
            view["state"] = {"values": _typed(view, values or {})}
            sent = {
                "type": "view_submission",
                "user": self._actor(user),
                "api_app_id": world.APP,
                "team": {"id": world.TEAM, "domain": "fake"},
                "view": public(view),
                "response_urls": [],
                **payload,
            }
        delivery = self._deliver(sent)
        if not delivery.acked:
            return Submission("kept", delivery, {})
        response = delivery.response or {}
        if response.get("response_action") == "errors":
            blocks = {block["block_id"] for block in view["blocks"] if block["type"] == "input"}
            if unknown := set(response["errors"]) - blocks:
                raise AssertionError(f"errors for blocks that take no input: {unknown}")
            return Submission("errors", delivery, response["errors"])
        with self._state.lock:
            for each in self._state.views.values():
                if each is view or (each["_user"] == user and response.get("response_action") == "clear"):
                    each["_open"] = False
        return Submission("closed", delivery, {})

    def _button(self, message: Json, action: str, stale: bool) -> tuple[Json, Json]:
        for form in [message, *reversed(message.get("_history", []))][: None if stale else 1]:
            for block in form["blocks"]:
                for element in block.get("elements", []):
                    if element.get("action_id") == action:
                        return block, element
        raise LookupError(f"there is no button {action}")

    def _actor(self, user: str) -> Json:
        known = self._state.users[user]
        return {"id": user, "username": known["name"], "name": known["name"], "team_id": known["team_id"]}

    def _response_url(self, channel: str, user: str) -> str:
        made = secrets.token_hex(8)
        self._state.response_urls[made] = {"at": self._state.clock(), "uses": 0, "channel": channel, "user": user}
        return f"{self._base}/response/{made}"


def _buttons(message: Json) -> list[tuple[str, Json]]:
    return [
        (element["action_id"], element)
        for block in message["blocks"]
        for element in block.get("elements", [])
        if element.get("type") == "button"
    ]


def _all_buttons(view: Json) -> list[tuple[Json, Json]]:
    """Every button of a view, with the block that it is in."""
    found = []
    for block in view["blocks"]:
        for element in (*block.get("elements", ()), block.get("accessory") or {}):
            if element.get("type") == "button":
                found.append((block, element))
    return found


def _typed(view: Json, values: Mapping[str, str]) -> Json:
    """The state of a form's inputs, where the client lets it through."""
    found: Json = {}
    for block in view["blocks"]:
        if block["type"] != "input":
            continue
        element = block["element"]
        if "options" in element:
            found[block["block_id"]] = {element["action_id"]: _chosen(block, values.get(block["block_id"], "").split())}
            continue
        text = values.get(block["block_id"], element.get("initial_value", ""))
        if not text and not block.get("optional"):
            raise ValueError(f"{block['block_id']}: required")
        if text and not element.get("min_length", 0) <= len(text) <= element.get("max_length", LIMITS["input_value"]):
            raise ValueError(f"{block['block_id']}: {len(text)} characters")
        found[block["block_id"]] = {element["action_id"]: {"type": element["type"], "value": text or None}}
    return found


def _chosen(block: Json, values: list[str]) -> Json:
    """The state of radio buttons or check boxes, where the client lets it through."""
    element = block["element"]
    chosen = [option for option in element["options"] if option["value"] in values]
    if len(chosen) < len(values):
        raise ValueError(f"{block['block_id']}: there is no such option")
    if not chosen and not block.get("optional"):
        raise ValueError(f"{block['block_id']}: required")
    if element["type"] == "checkboxes":
        return {"type": element["type"], "selected_options": chosen}
    return {"type": element["type"], "selected_option": chosen[0] if chosen else None}
