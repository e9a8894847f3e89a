"""Calls of Slack's Web API, with errors that say whether to try again or how to mend them.

What Slack's errors mean here: which pass by themselves, and how people mend the others.
"""

import http.client
import json
import logging
import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web import SlackResponse

from humanlayer_agent.channels.contract import Retry, Undeliverable
from humanlayer_agent.channels.slack.seal import Seal
from humanlayer_agent.errors import ConfigError

PASSING = frozenset(
    {
        "ratelimited",
        "rate_limited",
        "message_limit_exceeded",
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
        "team_added_to_org",
        "upload_failed",
    }
)
"""Errors that another try may not meet."""

GONE = frozenset({"message_not_found", "thread_not_found", "cant_update_message", "edit_window_closed"})
"""Errors that say that a message can't be changed, or is not there any more."""

_BOT = "set {bot} to the bot token (xoxb-...) that the app's page shows under OAuth & Permissions"
_INVITE = "invite the app to the channel {channel}: /invite @NAME-OF-THE-APP"

MENDS: Mapping[str, str] = MappingProxyType(
    {
        "invalid_auth": _BOT,
        "not_authed": _BOT,
        "account_inactive": _BOT,
        "token_revoked": _BOT,
        "token_expired": f"token rotation must be off for this app, then {_BOT}",
        "not_allowed_token_type": f"{_BOT}, and {{app}} to the app-level token (xapp-...)",
        "missing_scope": "add the scope {needed} under OAuth & Permissions, then install the app again",
        "not_in_channel": _INVITE,
        "channel_not_found": "post_to {channel} is no channel that the app can see: "
        "use its id (channel details, at the bottom), and invite the app where it is private",
        "is_archived": "the channel {channel} is archived: name another one in post_to",
        "restricted_action": "an admin allows only some people to post in {channel}: allow the app, or use another one",
        "restricted_action_read_only_channel": "the channel {channel} is read-only: name another one in post_to",
        "access_denied": "an admin restricts this app: ask for it to be approved",
        "team_access_not_granted": "the app is not installed in this workspace: install it there",
        "file_uploads_disabled": "this workspace has switched file uploads off, so long commands can't be shown whole",
        "not_enabled": "switch the Home Tab on under App Home",
        "snippet_too_large": "the command is longer than a snippet may be",
    }
)
"""Error of the Web API -> what to do about it."""

APP_TOKEN = (
    "set {app} to an app-level token (xapp-...) with the scope connections:write: Basic Information, App-Level Tokens"
)
"""What to do where `apps.connections.open` is refused."""


Json = dict[str, Any]
SECONDS = 10
"""For a call that nobody waits for."""
QUICK_SECONDS = 2
"""For a call that a click waits for: Slack wants it acknowledged within 3 s."""
SNIPPET_BYTES = 1_000_000
"""A longer file is no snippet, but can be opened all the same."""
_HOSTS = (".slack.com", ".slack-gov.com")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_SECONDS = re.compile("[0-9]{1,6}")
_OFF_LINE = (OSError, http.client.HTTPException, SlackClientError, ValueError)
"""What a call raises where the answer is missing or is none: also when the call itself may have been done."""

_SILENT = logging.Logger("slack", logging.CRITICAL + 1)
"""Messages of slack_sdk hold what was sent and received; what is wrong is said by our own."""


class SlackError(Undeliverable):
    """Slack said no. `code` is its error."""

    def __init__(self, why: str, code: str) -> None:
        super().__init__(why)
        self.code = code


class LostAnswer(Retry):
    """The call may have been done, and its answer never came."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Our identity in Slack: the app, its bot, and the team it is installed in."""

    app: str
    team: str
    bot: str
    bot_user: str
    scopes: frozenset[str]


class SlackApi:
    """Slack's Web API with an app's two tokens. Thread-safe.

    Args:
        bot_token, app_token: the tokens (the second one is for Socket Mode, and None where that is not used);
            `bot_variable` and `app_variable` are named where one is wrong.
        url: base address of the Web API.
        channel: where it posts; for messages about errors only.

    Attributes:
        seal: seals requests for messages of this app.

    Raises:
        ConfigError: a token is of another kind.
    """

    def __init__(
        self,
        *,
        bot_token: str,
        app_token: str | None,
        bot_variable: str,
        app_variable: str,
        url: str,
        channel: str = "",
    ) -> None:
        self.seal = Seal(bot_token)
        self.bot_variable = bot_variable
        for token, begins, variable, what in (
            (bot_token, "xoxb-", bot_variable, "the bot token, under OAuth & Permissions"),
            (app_token, "xapp-", app_variable, "the app-level token, under Basic Information"),
        ):
            if token is not None and not token.startswith(begins):
                raise ConfigError(f"{variable} must hold {what} of the app, which begins with {begins}")
        self._names = {"bot": bot_variable, "app": app_variable, "channel": channel}
        self._loopback = urlsplit(url).hostname in _LOOPBACK
        self._app_token = app_token
        trust = _trust()
        self._client, self._quick = (
            WebClient(bot_token, base_url=url, timeout=seconds, ssl=trust, retry_handlers=[], logger=_SILENT)
            for seconds in (SECONDS, QUICK_SECONDS)
        )
        self._trust = trust
        self._identity: Identity | None = None
        self._lock = threading.Lock()

    def call(self, method: str, *, quick: bool = False, token: str = "", **arguments: Any) -> Json:
        """The answer of one method.

        Args:
            quick: a click waits for it.
            token: another one than the bot's.

        Raises:
            Retry: it may work later. LostAnswer: the same, and it may have been done. SlackError: it won't.
        """
        return self._call(method, arguments, quick=quick, token=token).data  # type: ignore[return-value]

    def _call(self, method: str, arguments: Json, *, quick: bool = False, token: str = "") -> SlackResponse:
        client = self._quick if quick else self._client
        form = {k: json.dumps(v) if isinstance(v, dict | list | bool) else v for k, v in arguments.items()}
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            return client.api_call(method, data=form, headers=headers)
        except SlackApiError as error:
            raise self._understood(method, error) from None
        except _OFF_LINE as error:
            raise LostAnswer(f"Slack did not answer {method}: {_short(error)}") from None

    def _understood(self, method: str, error: SlackApiError) -> Exception:
        response: Any = error.response
        status = getattr(response, "status_code", 0) or 0
        found = response if isinstance(response, dict) else getattr(response, "data", {})
        body: Json = found if isinstance(found, dict) else {}
        code = str(body.get("error") or "")
        if status == 429 or code in ("ratelimited", "rate_limited"):
            return Retry(f"Slack limits {method}", _retry_after(getattr(response, "headers", None)))
        if status >= 500 or not code:
            return LostAnswer(f"Slack failed on {method} (HTTP {status})")
        if code in PASSING:
            return Retry(f"Slack failed on {method}: {code}")
        mend = MENDS.get(code, "")
        if method == "apps.connections.open":
            mend = APP_TOKEN
        names = {**self._names, "needed": str(body.get("needed", "it names"))}
        details = "; ".join(str(each) for each in (body.get("errors") or [])[:3])
        why = f"Slack refuses {method}: {code}" + (f" ({details})" if details else "")
        return SlackError(f"{why}: {mend.format(**names)}" if mend else why, code)

    def identity(self, *, quick: bool = False) -> Identity:
        """Return our identity; asked for once. Raises as `call` does."""
        with self._lock:
            if self._identity is None:
                self._identity = self.ask_identity(quick=quick)
            return self._identity

    def ask_identity(self, *, quick: bool = False) -> Identity:
        """Ask for our identity again, and return it. Raises as `call` does."""
        response = self._call("auth.test", {}, quick=quick)
        headers = {name.lower(): value for name, value in (response.headers or {}).items()}
        scopes = headers.get("x-oauth-scopes", "")
        bot = str(response.get("bot_id") or "")
        app = str(self.call("bots.info", quick=quick, bot=bot)["bot"].get("app_id") or "")
        return Identity(
            app=app,
            team=str(response.get("team_id") or ""),
            bot=bot,
            bot_user=str(response.get("user_id") or ""),
            scopes=frozenset(scope.strip() for scope in scopes.split(",") if scope.strip()),
        )

    def socket_url(self) -> str:
        """A fresh address for one Socket Mode connection. Raises as `call` does."""
        url = str(self.call("apps.connections.open", token=self._app_token or "").get("url") or "")
        if not self._is_slack(url, "wss", "ws"):
            raise SlackError("Slack names an address for Socket Mode that is not Slack's", "bad_url")
        return url

    def attach(self, text: str, *, channel: str, thread: str, title: str) -> str:
        """Upload `text` as a file to a thread; returns the file's id. Raises as `call` does."""
        content = text.encode("utf-8", "replace")
        wanted: Json = {"filename": "command.txt", "length": len(content)}
        if len(content) <= SNIPPET_BYTES:
            wanted["snippet_type"] = "text"
        place = self.call("files.getUploadURLExternal", **wanted)
        file_id = str(place["file_id"])
        self.upload(str(place["upload_url"]), content)
        files = [{"id": file_id, "title": title}]
        self.call("files.completeUploadExternal", files=files, channel_id=channel, thread_ts=thread)
        return file_id

    def upload(self, url: str, content: bytes) -> None:
        """Send the bytes of a file to where Slack wants them. Raises as `call` does."""
        self._send(url, content, "application/octet-stream", SECONDS)

    def respond(self, url: str, text: str) -> None:
        """Tell only the one who clicked. Raises as `call` does."""
        body = {"text": text, "response_type": "ephemeral", "replace_original": False}
        self._send(url, json.dumps(body).encode(), "application/json", QUICK_SECONDS)

    def _send(self, url: str, content: bytes, kind: str, seconds: float) -> None:
        if not self._is_slack(url, "https", "http"):
            raise SlackError("Slack names an address that is not Slack's", "bad_url")
        request = urllib.request.Request(url, content, {"Content-Type": kind}, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=seconds, context=self._trust if url[:5] == "https" else None):
                pass
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 429 or error.code >= 500:
                raise Retry(f"Slack did not take it (HTTP {error.code})", _retry_after(error.headers)) from None
            raise SlackError(f"Slack did not take it (HTTP {error.code})", "upload_refused") from None
        except _OFF_LINE as error:
            raise Retry(f"Slack did not take it: {_short(error)}") from None

    def _is_slack(self, url: str, scheme: str, on_loopback: str) -> bool:
        """Tell whether an address is Slack's own; where the Web API is on loopback, whether it is there too."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return False
        host = parts.hostname or ""
        if self._loopback:
            return parts.scheme == on_loopback and host in _LOOPBACK
        return parts.scheme == scheme and host.endswith(_HOSTS)


def _retry_after(headers: Any) -> float | None:
    """Return the seconds that an answer says to wait; None where it names none."""
    named = {str(name).lower(): str(value).strip() for name, value in (headers or {}).items()}
    after = named.get("retry-after", "")
    return float(after) if _SECONDS.fullmatch(after) else None


def _short(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200] or type(error).__name__


@cache
def _trust() -> ssl.SSLContext:
    """The authorities that this machine trusts. Reading them takes as long as some ten calls."""
    return ssl.create_default_context()
