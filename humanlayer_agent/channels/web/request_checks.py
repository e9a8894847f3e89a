"""The checks around every page: which hosts and origins are ours, how much may be sent, the headers of each answer.

A page on another site can make a browser send a form here, and a name that points to 127.0.0.1 makes this its own site
(DNS rebinding): so the Host header must be one of ours, and whatever may change something must come from our own pages.
"""

from collections.abc import Collection
from typing import Any, Protocol

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 400_000
"""Bytes of a form: an edited command of 100 KB, percent-encoded."""

_NOTHING_ELSE = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_POLICY = "content-security-policy"

SCRIPTED = {_POLICY: f"{_NOTHING_ELSE}; script-src 'self'; connect-src 'self'"}
"""The header of a page for who has logged in: it may have our own script, which keeps it up to date."""

HEADERS = {
    _POLICY: _NOTHING_ELSE,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: with that, browsers send `Origin: null` with our own forms. Other sites get nothing by either.
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-robots-tag": "noindex",
}


class Peers(Protocol):
    """The function that tells whether what comes from this address is to be answered at all."""

    def __call__(self, address: str) -> bool: ...


class Guard:
    """ASGI middleware around the pages.

    Args:
        origins: scheme, host and port that the pages are reached by: "https://approvals.example.com".
        peers: from which addresses.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str], peers: Peers) -> None:
        self._app = app
        self._origins = frozenset(origin.lower() for origin in origins)
        self._hosts = frozenset(origin.partition("://")[2] for origin in self._origins)
        self._peers = peers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # no web sockets here

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.decode().lower(): value.decode("latin-1") for name, value in message["headers"]}
                chosen = HEADERS | (SCRIPTED if given.get(_POLICY) == SCRIPTED[_POLICY] else {})
                kept = [(name, value) for name, value in message["headers"] if name.decode().lower() not in HEADERS]
                ours = [(name.encode(), value.encode()) for name, value in chosen.items()]
                if scope["path"].endswith((".css", ".js", ".svg")):
                    ours = [(name, b"max-age=3600" if name == b"cache-control" else value) for name, value in ours]
                message = {**message, "headers": [*kept, *ours]}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            received = await _body(scope, receive)
            if received is not None:
                await self._app(scope, received, guarded)
                return
            refusal = (413, "too much was sent")
        await PlainTextResponse(f"{refusal[1]}\n", status_code=refusal[0])(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return why this is not answered, with its status; None where it is."""
        client = scope.get("client")
        if not self._peers(client[0] if client else ""):
            return 403, "this address is not answered"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "only GET, HEAD and POST"
        host = only_header(scope, b"host")
        if host is None or host.lower() not in self._hosts:
            return 421, "this is not the host that these pages are reached by: for the inbox see `hosts` of the channel"
        if scope["method"] == "POST":
            origin, site = only_header(scope, b"origin"), only_header(scope, b"sec-fetch-site")
            if (
                origin is None
                or origin.lower() not in self._origins
                or origin.lower().partition("://")[2] != host.lower()
            ):
                return 403, "a form must come from a page of this server"
            if site not in (None, "same-origin"):
                return 403, "a form must come from a page of this server"
        return None


def only_header(scope: Scope, name: bytes) -> str | None:
    """Return the value of a header that is there exactly once; None where it is not."""
    found = [value for key, value in scope["headers"] if key.lower() == name]
    return found[0].decode("latin-1").strip() if len(found) == 1 else None


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """Return the whole body of a request; None where it has more bytes than that, or its sender has left."""
    content = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        content += message.get("body", b"")
        if len(content) > limit:
            return None
        if not message.get("more_body"):
            return bytes(content)


async def _body(scope: Scope, receive: Receive) -> Receive | None:
    """A `receive` with the whole body in it; None where it is too large. It is read before anything is done with it."""
    if scope["method"] != "POST":
        return receive
    content = await read_body(receive, MAX_BODY)
    if content is None:
        return None
    sent = False

    async def again() -> dict[str, Any]:
        nonlocal sent
        if sent:
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": content, "more_body": False}

    return again
