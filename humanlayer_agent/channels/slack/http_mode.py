"""The HTTP receiver: Slack sends what people click to an address of the team's own, behind its TLS proxy.

Whoever can reach that address can send something there, so a request counts only with Slack's signature over its exact
bytes and its time (https://docs.slack.dev/authentication/verifying-requests-from-slack). A request that comes again, by
whoever has seen it, gets the answer of the first one, and is not handled again; one from before we began is refused,
because another process may have handled it.
"""

import asyncio
import hmac
import json
import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs

from humanlayer_agent.channels.http_server import Limits, PageServer
from humanlayer_agent.channels.slack.envelopes import (
    EVENT,
    INTERACTIVE,
    WORKERS,
    Handle,
    Json,
    Reception,
    Reply,
    follow_up,
    reply_to,
)
from humanlayer_agent.errors import ChannelError, ConfigError

WINDOW = 300
"""Seconds by which the time of a request may differ from ours; Slack's own proposal."""
MAX_BODY = 1_000_000
"""Bytes of a request: Slack's own are a quarter of that at most (the size of a view), percent-encoded."""
LIMITS = Limits(head=5.0, body=5.0)
"""Slack gives up after three seconds."""
REMEMBERED = 10_000
"""Requests whose answers are kept while they might come again. All of them had Slack's signature."""

_TIME = re.compile("[0-9]{1,12}")
_SIGNATURE = re.compile("v0=[0-9a-f]{64}")
_SECRET = re.compile(r"[!-~]{16,200}")
"""Slack's have 32 hexadecimal digits."""
_FIELDS = 8
_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"
_FAILED = 503

Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests come in.

    Args:
        listen: the address and the port. path: of the requests' URL. peers: addresses that are answered besides this
            machine's own.
        secret: the app's signing secret; `variable` is named where it seems to be another one.
    """

    listen: str
    path: str
    peers: frozenset[str]
    secret: str
    variable: str


class _Refused(Exception):
    """A request that is not taken, with its HTTP status, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class RequestReceiver:
    """Serves one address, and hands what Slack sends there to `handle`, which is called on threads of its own.

    Args:
        clock: seconds since the epoch.
        limits: of its connections.

    Raises:
        ConfigError: the secret could be guessed: whoever has it can answer as anybody.
    """

    def __init__(
        self, address: Address, handle: Handle, *, clock: Callable[[], float] = time.time, limits: Limits = LIMITS
    ) -> None:
        if not _SECRET.fullmatch(address.secret):
            raise ConfigError(
                f"{address.variable} must hold the signing secret that the app's page shows under Basic Information"
            )
        self._address = address
        self._handle = handle
        self._clock = clock
        self._server = PageServer(address.listen, limits)
        self._pool = ThreadPoolExecutor(WORKERS, "slack")
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[float, Future[Reply | None]]] = OrderedDict()
        self._refused: Counter[str] = Counter()
        self._taken = 0
        self._begun = 0

    def start(self) -> None:
        """Serve the address. Returns once it can be reached.

        Raises:
            ChannelError: its port is taken, or the server does not begin.
        """
        self._begun = int(self._clock())
        try:
            self._server.start(self._answer)
        except ChannelError as error:
            more = "; give another `listen:`" if "can't listen" in str(error) else ""
            raise ChannelError(f"{error}{more}") from error

    def close(self, timeout: float) -> None:
        """Take no more requests; those that are being handled are answered first."""
        self._server.close(timeout)
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def reception(self) -> Reception:
        """How well requests come in."""
        with self._lock:
            taken, refused = self._taken, dict(self._refused)
        problems = []
        if not self._server.is_running:
            problems.append(f"nothing serves {self._address.listen}: {self._server.failed or 'it was not started'}")
        if refused and not taken:
            reasons = "; ".join(refused)
            problems.append(
                f"every request was refused so far ({reasons}): where they were Slack's, {self._address.variable} must "
                "hold the signing secret that the app's page shows under Basic Information, this machine's clock must "
                "be right, and the proxy must pass bodies on as they are"
            )
        facts = {"url": f"http://{self._address.listen}{self._address.path}", "requests": taken, "refused": refused}
        return Reception(tuple(problems), facts)

    # ---- the server's thread ------------------------------------------------------------------------

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http":
            return
        received, reply = time.monotonic(), None
        try:
            headers = self._headers(scope)
            body = await _body(headers, receive)
            signature = self._signature(headers, body)
            sent = _understood(headers, body)
            if isinstance(sent, bytes):
                status, content = 200, sent
            else:
                loop = asyncio.get_running_loop()
                status, content, reply = await loop.run_in_executor(
                    self._pool, self._handled, signature, sent, received
                )
        except _Refused as refused:
            status, content = refused.status, f"{refused}\n".encode()
            with self._lock:
                self._refused[str(refused)] += 1
        except RuntimeError:  # the pool is closed: a process that comes after takes it
            status, content = _FAILED, b""
        kind = b"application/json" if status == 200 else b"text/plain; charset=utf-8"
        about = [
            (b"content-type", kind),
            (b"content-length", str(len(content)).encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": about})
        await send({"type": "http.response.body", "body": content})
        if reply is not None and reply.after is not None:
            self._pool.submit(follow_up, reply)

    def _headers(self, scope: Any) -> Headers:
        """Return the headers of a request that may be looked at: those that are there once.

        Raises:
            _Refused: it comes from elsewhere, or wants something else.
        """
        client = scope.get("client")
        if not _is_peer(client[0] if client else "", self._address.peers):
            raise _Refused(403, "this address is not answered")
        if scope["path"] != self._address.path:
            raise _Refused(404, "there is nothing here")
        if scope["method"] != "POST":
            raise _Refused(405, "only POST")
        names = Counter(name.lower() for name, _ in scope["headers"])
        return {
            name.decode("latin-1").lower(): value.decode("latin-1").strip()
            for name, value in scope["headers"]
            if names[name.lower()] == 1
        }

    def _signature(self, headers: Headers, body: bytes) -> str:
        """Return the signature of a request, with the time that it holds for.

        Raises:
            _Refused: it is not Slack's, or of another time.
        """
        at, given = headers.get("x-slack-request-timestamp", ""), headers.get("x-slack-signature", "")
        if not _TIME.fullmatch(at) or not _SIGNATURE.fullmatch(given):
            raise _Refused(401, "it has no signature of Slack's")
        if abs(self._clock() - int(at)) > WINDOW:
            raise _Refused(401, "its time is too far from ours")
        wanted = "v0=" + hmac.digest(self._address.secret.encode(), f"v0:{at}:".encode() + body, "sha256").hex()
        if not hmac.compare_digest(wanted, given):
            raise _Refused(401, "its signature does not fit")
        if int(at) < self._begun:
            raise _Refused(401, "its time is before this hub began")
        with self._lock:
            self._taken += 1
        return f"{at} {given}"

    # ---- our threads --------------------------------------------------------------------------------

    def _handled(self, signature: str, envelope: Json, received: float) -> tuple[int, bytes, Reply | None]:
        """Return the status and the body of the answer, and the reply where something is left to do for it."""
        future: Future[Reply | None] = Future()
        with self._lock:
            known = self._known.get(signature)
            if known is None:
                self._remember(signature, future)
        if known is not None:
            return *_written(known[1].result()), None
        reply = None
        try:
            reply = reply_to(self._handle, envelope, received)
        finally:
            if reply is None:  # nothing was written down: the same may come again
                with self._lock:
                    self._known.pop(signature, None)
            future.set_result(reply)
        return *_written(reply), reply

    def _remember(self, signature: str, future: "Future[Reply | None]") -> None:
        now = self._clock()
        over = [name for name, (until, _) in self._known.items() if until < now]
        for name in over:
            del self._known[name]
        while len(self._known) >= REMEMBERED:
            self._known.popitem(last=False)
        self._known[signature] = (float(signature.partition(" ")[0]) + WINDOW, future)


def _written(reply: Reply | None) -> tuple[int, bytes]:
    if reply is None:
        return _FAILED, b""
    return 200, json.dumps(reply.payload).encode() if reply.payload else b""


async def _body(headers: Headers, receive: Any) -> bytes:
    """Return the whole body of a request. (How long it may take is the server's to say.)"""
    too_much = _Refused(413, "too much was sent")
    length = headers.get("content-length", "0")
    if not _TIME.fullmatch(length) or int(length) > MAX_BODY:
        raise too_much
    content = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _Refused(400, "it is not whole")
        content += message.get("body", b"")
        if len(content) > MAX_BODY:
            raise too_much
        if not message.get("more_body"):
            return bytes(content)


def _understood(headers: Headers, body: bytes) -> Json | bytes:
    """Return the envelope that a request is, or its answer where there is nothing to handle.

    Raises:
        _Refused: it is nothing that Slack sends.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == _FORM:
            fields = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=_FIELDS, errors="strict")
            if fields.get("ssl_check") == ["1"]:  # Slack looks whether it is answered
                return b""
            (payload,) = fields.get("payload", [])
            envelope = {"type": INTERACTIVE, "payload": json.loads(payload)}
        elif kind == _JSON:
            sent = json.loads(body)
            if isinstance(sent, dict) and sent.get("type") == "url_verification":
                return json.dumps({"challenge": str(sent.get("challenge"))}).encode()
            envelope = {"type": EVENT, "payload": sent}
        else:
            raise _Refused(415, "it is of no kind that Slack sends")
    except (ValueError, RecursionError):
        raise _Refused(400, "it can't be read") from None
    if not isinstance(envelope["payload"], dict):
        raise _Refused(400, "it can't be read")
    return envelope


def _is_peer(address: str, peers: Collection[str]) -> bool:
    try:
        return ip_address(address).is_loopback or address in peers
    except ValueError:
        return False
