"""The client of a gateway: whatever has started it, by pipes, or programs that reach it by Streamable HTTP.

Over HTTP each session has a gateway, a server and a run in the log of its own. Other users of this machine, and pages
in a browser of it, can open connections too: so each request brings a token, its Host is the address that we listen
at, and none has an Origin, which a browser sends and a program does not.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

import asyncio
import hmac
import json
import os
import queue
import re
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from humanlayer_agent.approvals.conversation import describe
from humanlayer_agent.errors import HumanlayerError
from humanlayer_agent.hooks.gateway.calls import CANCELLED, INITIALIZE
from humanlayer_agent.hooks.gateway.messages import (
    LONGEST,
    NOT_A_REQUEST,
    REFUSED,
    Id,
    Message,
    Unfit,
    error,
    from_client,
    lines,
    written,
)
from humanlayer_agent.locations import read_own_json, state_path, write_own_json

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

HOST, PATH = "127.0.0.1", "/mcp"
MAX_SESSIONS = 32
"""So many sessions are open at the same time: each has a server of its own."""
MAX_UNTAKEN = 4 * LONGEST
"""So many bytes may wait until a client has taken them; more, and its session ends."""
MAX_UNHEARD = 1_000
"""So many messages of a client may wait until the gateway has looked at them."""
IDLE_S = 1_800.0
"""Seconds after which a session ends that nobody is connected to."""
PING_S = 15.0
"""Seconds between two signs of life on a connection that there is nothing to say on."""
LAST_S = 10.0
"""Seconds to end all sessions."""
_SPOKEN = ("2025-03-26", "2025-06-18", "2025-11-25")
"""The versions of the protocol in which HTTP is spoken by sessions."""
_UNSUPPORTED = -32022
"""The code of an error that says which versions of the protocol are spoken."""
_PROGRESS = "notifications/progress"
_SESSION, _VERSION = b"mcp-session-id", b"mcp-protocol-version"
_JSON = b"application/json"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


class Client(Protocol):
    """A client that messages are exchanged with. Thread-safe."""

    def received(self) -> Iterator[bytes | None]:
        """Yield each message that it sends, as JSON, up to its end; None for one that is too long."""
        ...

    def send(self, message: Message) -> None:
        """Have a message sent.

        Raises:
            OSError: nobody reads it any more.
        """
        ...


class PipedClient:
    """A client that has started us.

    Args:
        read_from, write_to: the descriptors that it writes to, and reads from.
    """

    def __init__(self, read_from: int = 0, write_to: int = 1) -> None:
        self._from, self._to = read_from, write_to
        self._writing = threading.Lock()

    def received(self) -> Iterator[bytes | None]:
        """Yield each message that it sends."""
        return lines(self._from)

    def send(self, message: Message) -> None:
        """Write a message."""
        left = memoryview(written(message))
        with self._writing:
            while left:
                left = left[os.write(self._to, left) :]


class Closes(Protocol):
    """What stands between a session and its server."""

    @property
    def failed(self) -> str:
        """Why the server has gone before the client did."""
        ...

    def close(self) -> None:
        """Withdraw what waits, and end the server."""
        ...


class HttpClients:
    """Serves clients by Streamable HTTP at a port of this machine.

    Args:
        port: to listen at, on the loopback address.
        token: what each request brings as a bearer.
        begin: makes the gateway of a session, from its client and what is to be called when it has ended.
        say: says a line to whoever has started us.

    Example:
        clients = HttpClients(8931, token, begin, say=print)
        clients.start()
        wait()
        clients.close()
    """

    def __init__(
        self,
        port: int,
        token: str,
        begin: Callable[[Client, Callable[[], None]], Closes],
        *,
        say: Callable[[str], None],
    ) -> None:
        from humanlayer_agent.channels.http_server import PageServer

        self._hosts = (f"{HOST}:{port}", f"localhost:{port}")
        self._token, self._begin, self._say = token.encode(), begin, say
        self._server = PageServer(self._hosts[0])
        self._sessions: dict[str, _Session] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return f"http://{self._hosts[0]}{PATH}"

    def start(self) -> None:
        """Begin to serve.

        Raises:
            ChannelError: the port is taken, or the server does not begin.
        """
        self._server.start(self)

    def close(self) -> None:
        """End all sessions, and serve no more."""
        self._closed = True
        if self._loop is not None and self._server.is_running:
            asyncio.run_coroutine_threadsafe(self._end_all(), self._loop).result(LAST_S)
        self._server.close()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        self._loop = asyncio.get_running_loop()
        refusal = self._refusal(scope)
        if refusal is None:
            answer = {"GET": self._get, "POST": self._post, "DELETE": self._delete}[scope["method"]]
            refusal = await answer(scope, receive, send)
        if refusal is not None:
            status, why = refusal
            message = error(None, REFUSED, why) if isinstance(why, str) else why
            await _answer(send, status, json.dumps(message).encode())

    def _refusal(self, scope: "Scope") -> "_Refusal | None":
        """Why nothing is done for whoever asks this; None where something is."""
        from humanlayer_agent.channels.web.request_checks import only_header

        if only_header(scope, b"host") not in self._hosts:
            return 421, "this is not the address that this gateway listens at"
        if any(name.lower() == b"origin" for name, _ in scope["headers"]):
            return 403, "pages in a browser are not answered here (the request has an Origin)"
        if scope["path"] != PATH:
            return 404, f"there is nothing here but {PATH}"
        said = (only_header(scope, b"authorization") or "").encode()
        if not hmac.compare_digest(said, b"Bearer " + self._token):
            return 401, "the token of this gateway is missing (Authorization: Bearer TOKEN)"
        if scope["method"] not in ("GET", "POST", "DELETE"):
            return 405, "only GET, POST and DELETE"
        return None

    async def _post(self, scope: "Scope", receive: "Receive", send: "Send") -> "_Refusal | None":
        from humanlayer_agent.channels.web.request_checks import only_header, read_body

        kind = (only_header(scope, b"content-type") or "").partition(";")[0].strip().lower()
        if kind.encode() != _JSON:
            return 415, "a message is sent as application/json"
        body = await read_body(receive, LONGEST)
        if body is None:
            return 413, f"a message may have at most {LONGEST} bytes"
        try:
            message = from_client(body)
        except Unfit as why:
            return 400, error(why.id, why.code, str(why))
        id, is_request = message.get("id"), "id" in message and "method" in message
        if (version := only_header(scope, _VERSION)) is not None and (refused := _unsupported(version)):
            return 400, {"jsonrpc": "2.0", "id": id if is_request else None, "error": refused}
        begins = is_request and message["method"] == INITIALIZE
        found = await self._begun(message, scope) if begins else self._session(scope)
        if not isinstance(found, _Session):
            return found
        if not is_request:
            if not found.hear(message):
                return 503, "too much was sent that was not looked at yet"
            await _answer(send, 202)
            return None
        if (stream := found.opened(message)) is None:
            return 400, error(id, NOT_A_REQUEST, "a request with this id is open")
        if not found.hear(message):
            found.left(stream)
            return 503, "too much was sent that was not looked at yet"
        if not await _stream(stream, found, receive, send):
            if begins:
                self._end(found)
            else:  # nobody can get the answer any more
                gone = {"requestId": id, "reason": "the client has closed the connection"}
                found.hear({"jsonrpc": "2.0", "method": CANCELLED, "params": gone})
        return None

    async def _get(self, scope: "Scope", receive: "Receive", send: "Send") -> "_Refusal | None":
        found = self._session(scope)
        if not isinstance(found, _Session):
            return found
        if (stream := found.opened(None)) is None:
            return 409, "another connection takes what is said to this session"
        await _stream(stream, found, receive, send)
        return None

    async def _delete(self, scope: "Scope", receive: "Receive", send: "Send") -> "_Refusal | None":
        found = self._session(scope)
        if not isinstance(found, _Session):
            return found
        self._end(found)
        await _answer(send, 204)
        return None

    def _session(self, scope: "Scope") -> "_Session | _Refusal":
        from humanlayer_agent.channels.web.request_checks import only_header

        named = only_header(scope, _SESSION)
        if named is None:
            return 400, "a session begins with initialize, and its id comes in the header Mcp-Session-Id"
        return self._sessions.get(named) or (404, "there is no such session (any more): begin with initialize")

    async def _begun(self, message: Message, scope: "Scope") -> "_Session | _Refusal":
        """A new session, with a gateway and a server."""
        if any(name.lower() == _SESSION for name, _ in scope["headers"]):
            return 400, error(message["id"], NOT_A_REQUEST, "a session begins once")
        if self._closed or len(self._sessions) >= MAX_SESSIONS:
            why = "the gateway ends" if self._closed else f"{MAX_SESSIONS} sessions are open"
            return 503, error(message["id"], REFUSED, why)
        loop = asyncio.get_running_loop()
        session = _Session(loop, lambda: self._end(session))
        self._sessions[session.id] = session  # at once: it counts

        def ended() -> None:
            with suppress(OSError):  # all ends
                _soon(loop, self._end, session)

        try:
            session.gateway = await asyncio.to_thread(self._begin, session, ended)
        except Exception as why:
            self._sessions.pop(session.id, None)
            session.close()
            said = str(why) if isinstance(why, HumanlayerError) else describe(why)
            self._say(f"a session did not begin: {said}")
            return 502, error(message["id"], REFUSED, "the server can't be reached: see what hla mcp says")
        if session.id not in self._sessions:  # it has ended meanwhile
            await asyncio.to_thread(session.gateway.close)
            return 502, error(message["id"], REFUSED, session.gateway.failed or "the server has ended")
        return session

    def _end(self, session: "_Session") -> None:
        """End a session; on the event loop, where all of this happens."""
        if self._sessions.pop(session.id, None) is None:
            return
        session.close()
        if session.gateway is not None:
            task = asyncio.ensure_future(asyncio.to_thread(self._close, session.gateway))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _close(self, gateway: Closes) -> None:
        gateway.close()
        if gateway.failed:
            self._say(gateway.failed)

    async def _end_all(self) -> None:
        for session in list(self._sessions.values()):
            self._end(session)
        if self._ending:
            await asyncio.wait(set(self._ending), timeout=LAST_S / 2)


_Refusal = tuple[int, str | Message]
"""A status, and why; a text is told as an error of no request."""


class _Session:
    """A client that speaks HTTP, and the connections on which it gets what is said to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
        self.id = secrets.token_urlsafe(32)
        self.gateway: Closes | None = None
        self._loop, self._end = loop, end
        self._said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._requests: dict[Id, _Stream] = {}  # by the id of the request whose answer it brings
        self._other: _Stream | None = None  # what the server says by itself
        self._kept: deque[bytes] = deque()  # of that, while nobody takes it
        self._untaken = 0
        self._connected = 0
        self._idle: asyncio.TimerHandle | None = None

    # For the gateway, in any thread

    def received(self) -> Iterator[bytes | None]:
        """Yield each message that it sends."""
        while (line := self._said.get()) is not None:
            yield line

    def send(self, message: Message) -> None:
        """Have a message sent, by the connection that it belongs to."""
        _soon(self._loop, self._route, message)

    # On the event loop

    def hear(self, message: Message) -> bool:
        """Have the gateway told what the client has sent; False where it has not looked at too much before."""
        if self._said.qsize() >= MAX_UNHEARD:
            return False
        self._said.put(written(message))
        ended: Any = (message.get("params") or {}).get("requestId") if message.get("method") == CANCELLED else None
        if type(ended) in (int, str) and (stream := self._requests.pop(ended, None)) is not None:
            stream.messages.put_nowait(None)
        return True

    def opened(self, request: Message | None) -> "_Stream | None":
        """A stream for the answer to a request, or for what the server says by itself; None where there is one."""
        if request is None:
            if self._other is not None:
                return None
            self._other = stream = _Stream()
            while self._kept:
                stream.messages.put_nowait(self._kept.popleft())
        else:
            if request["id"] in self._requests:
                return None
            meta = (request.get("params") or {}).get("_meta")
            stream = _Stream(meta.get("progressToken") if isinstance(meta, dict) else None)
            self._requests[request["id"]] = stream
        return stream

    def connected(self, change: int) -> None:
        """Count a connection that opens or closes: without any the session ends after a while."""
        self._connected += change
        if self._idle is not None:
            self._idle.cancel()
        self._idle = None if self._connected else self._loop.call_later(IDLE_S, self._end)

    def taken(self, message: bytes) -> None:
        """Count a message that a client has taken."""
        self._untaken -= len(message)

    def left(self, stream: "_Stream") -> None:
        """Nobody takes what comes on this stream any more."""
        while not stream.messages.empty():
            self.taken(stream.messages.get_nowait() or b"")
        if self._other is stream:
            self._other = None
        for id in [id for id, each in self._requests.items() if each is stream]:
            del self._requests[id]

    def close(self) -> None:
        """Say nothing more to the client, nor to the gateway."""
        self._said.put(None)
        for stream in (*self._requests.values(), *((self._other,) if self._other else ())):
            stream.messages.put_nowait(None)
        self._requests.clear()
        if self._idle is not None:
            self._idle.cancel()

    def _route(self, message: Message) -> None:
        line = written(message)
        if "method" not in message:
            id: Any = message.get("id")
            if (stream := self._requests.pop(id, None)) is not None:
                self._put(stream.messages.put_nowait, line)
                stream.messages.put_nowait(None)
            return
        wanted = (message.get("params") or {}).get("progressToken") if message["method"] == _PROGRESS else None
        about = [each for each in self._requests.values() if wanted is not None and each.progress == wanted]
        others = (*((self._other,) if self._other else ()), *self._requests.values())
        found = next(iter((*about, *others)), None)
        self._put(self._kept.append if found is None else found.messages.put_nowait, line)

    def _put(self, put: Callable[[bytes], None], line: bytes) -> None:
        self._untaken += len(line)
        if self._untaken > MAX_UNTAKEN:
            self._end()
        else:
            put(line)


class _Stream:
    """What is to be sent on one connection; None is its end.

    Args:
        progress: by what the server says of how far the request is.
    """

    def __init__(self, progress: object = None) -> None:
        self.progress = progress
        self.messages: asyncio.Queue[bytes | None] = asyncio.Queue()


async def _stream(stream: _Stream, session: _Session, receive: "Receive", send: "Send") -> bool:
    """Send what comes on a stream, up to its end; False where the client has left before."""
    gone = asyncio.ensure_future(_disconnected(receive))
    session.connected(1)
    try:
        await _begin_answer(send, 200, b"text/event-stream", session.id)
        while True:
            coming = asyncio.ensure_future(stream.messages.get())
            await asyncio.wait({gone, coming}, timeout=PING_S, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                coming.cancel()
                return False
            if not coming.done():
                coming.cancel()
                await send({"type": "http.response.body", "body": b": \n\n", "more_body": True})
                continue
            message = coming.result()
            if message is None:
                await send({"type": "http.response.body", "body": b""})
                return True
            event = b"event: message\ndata: " + message + b"\n"
            session.taken(message)
            await send({"type": "http.response.body", "body": event, "more_body": True})
    finally:
        gone.cancel()
        session.left(stream)
        session.connected(-1)


async def _disconnected(receive: "Receive") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: "Send", status: int, body: bytes = b"") -> None:
    await _begin_answer(send, status, _JSON if body else b"", length=len(body))
    await send({"type": "http.response.body", "body": body})


async def _begin_answer(send: "Send", status: int, kind: bytes, session: str = "", length: int | None = None) -> None:
    headers = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
    headers += [(b"content-type", kind)] if kind else []
    headers += [(b"content-length", b"%d" % length)] if length is not None and status != 204 else []
    headers += [(_SESSION, session.encode())] if session else []
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *given: Any) -> None:
    """Call it on the event loop.

    Raises:
        OSError: it has ended.
    """
    try:
        loop.call_soon_threadsafe(call, *given)
    except RuntimeError as why:
        raise OSError(str(why)) from None


def _unsupported(version: str) -> Message | None:
    """The error where a client speaks a version that is not spoken here: sessions are what there is."""
    if version in _SPOKEN:
        return None
    said = {"supported": list(_SPOKEN), "requested": version[:40]}
    return {"code": _UNSUPPORTED, "message": "Unsupported protocol version", "data": said}


def kept_addresses() -> frozenset[str]:
    """Return the addresses at which gateways of this user have listened: the files that clients are set up from."""
    found = set()
    for path in Path(state_path("mcp", "clients")).glob("*.json"):
        servers = (read_own_json(path) or {}).get("mcpServers")
        for entry in servers.values() if isinstance(servers, dict) else ():
            found.add(str(entry.get("url")) if isinstance(entry, dict) else "")
    return frozenset(found - {""})


def kept_token(server: str) -> str:
    """Return the token of the gateway of this server: the one that is kept, or a new one."""
    found: Any = read_own_json(_entry(server))
    for key in ("mcpServers", server, "headers", "Authorization"):
        found = found.get(key) if isinstance(found, dict) else None
    token = found.removeprefix("Bearer ") if isinstance(found, str) else ""
    return token if _TOKEN.fullmatch(token) else secrets.token_urlsafe(32)


def keep_token(server: str, url: str, token: str) -> Path:
    """Write the file that clients of this server's gateway are set up from. Returns its path.

    Raises:
        OSError: it can't be written.
    """
    entry = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}
    write_own_json(_entry(server), {"mcpServers": {server: entry}}, required=True)
    return _entry(server)


def _entry(server: str) -> Path:
    return Path(state_path("mcp", "clients", f"{server}.json"))
