"""The real server, as the gateway reaches it: a program that it has started, or an address."""

import concurrent.futures
import contextlib
import os
import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from humanlayer_agent.approvals.conversation import describe
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hooks.gateway.calls import CALL, INITIALIZE, protocol_of
from humanlayer_agent.hooks.gateway.messages import LONGEST, Message, Unfit, from_server, lines, written
from humanlayer_agent.processes.execution import PipedProgram

MAX_UNREAD = 1_000
"""So many messages may wait until the server has read them; more, and it counts as gone."""
LAST_S = 2.0
"""Seconds that a server gets to end by itself once nothing more can come."""

_LOOK_S, _HTTP_S = 0.2, 30.0
"""Seconds between two looks whether there is still a session; seconds to connect."""
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_OURS = frozenset(
    {"host", "accept", "content-type", "content-length", "transfer-encoding", "connection", "last-event-id", "origin"}
)
"""Headers that say how we speak. (So do all that begin with mcp-.)"""


class ServerGone(Exception):
    """Nothing can be sent to the server any more, or nothing that it sends can be read."""


class Upstream(Protocol):
    """A server that messages are exchanged with. Thread-safe."""

    def send(self, message: Message) -> None:
        """Have a message sent, after those before it.

        Raises:
            ServerGone: that can't be.
        """
        ...

    def received(self) -> Iterator[Message | Unfit]:
        """Yield what it sends, up to its end; what is no message as the reason why.

        Raises:
            ServerGone: it sends what nobody can read.
        """
        ...

    def close(self) -> None:
        """End it."""
        ...


class StdioServer:
    """A server that is a program, which speaks by its standard input and output.

    Args:
        argv: program and arguments.
        cwd: the directory that it starts in.
        env: all variables that it gets.
    """

    def __init__(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> None:
        self._program = PipedProgram(argv, cwd=cwd, env=env)
        self._unsent: queue.Queue[bytes | None] = queue.Queue(MAX_UNREAD)
        self._writer = threading.Thread(target=self._write, args=(self._program.stdin,), daemon=True)
        self._writer.start()

    def send(self, message: Message) -> None:
        """Have a message sent."""
        if not self._writer.is_alive():
            raise ServerGone("the server reads no more")
        try:
            self._unsent.put_nowait(written(message))
        except queue.Full:
            raise ServerGone(f"the server has not read {MAX_UNREAD} messages") from None

    def received(self) -> Iterator[Message | Unfit]:
        """Yield what it sends."""
        with self._program.stdout as stdout:
            for line in lines(stdout.fileno()):
                if line is None:
                    raise ServerGone(f"the server has sent a message of over {LONGEST} bytes")
                if line.strip():
                    try:
                        yield from_server(line)
                    except Unfit as why:
                        yield why

    def close(self) -> None:
        """Close its standard input, give it a moment, and end it with all that it has started."""
        with contextlib.suppress(queue.Full):
            self._unsent.put_nowait(None)
        self._program.wait(LAST_S)
        self._program.end()

    def _write(self, stdin: IO[bytes]) -> None:
        with contextlib.suppress(OSError), stdin:
            while (line := self._unsent.get()) is not None:
                left = memoryview(line)
                while left:
                    left = left[os.write(stdin.fileno(), left) :]


class HttpServer:
    """A server that is reached by Streamable HTTP, by the transport of the official SDK.

    Args:
        url: its address.
        headers: what it is to be sent besides, by which it knows us; read anew for each request, so that another
            program may renew it.
        schema: gives the schema of what a tool is given, where one was seen: some parameters are repeated in headers.

    Raises:
        ConfigError: it is no address that these may be sent to, or they can't be read.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Sequence["SecretHeader"] = (),
        schema: Callable[[str], Any] = lambda tool: None,
    ) -> None:
        from anyio.from_thread import start_blocking_portal
        from mcp.client.streamable_http import streamable_http_client

        self._connect = streamable_http_client
        self._url, self._secrets, self._schema = _checked(url, bool(headers)), tuple(headers), schema
        for each in headers:
            each.value()
        self._arrived: queue.Queue[Message | Unfit] = queue.Queue(MAX_UNREAD)
        self._unsent: Any = None
        self._initialize: object = None
        self._version = ""
        self._stack = contextlib.ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal())
        ready = threading.Event()
        self._exchange = self._portal.start_task_soon(self._run, ready)
        self._exchange.add_done_callback(lambda _: ready.set())
        ready.wait()

    def send(self, message: Message) -> None:
        """Have a message sent."""
        from anyio import WouldBlock
        from mcp.shared.message import ClientMessageMetadata, SessionMessage
        from mcp_types.jsonrpc import jsonrpc_message_adapter

        if self._exchange.done():
            raise ServerGone(self._why())
        if message.get("method") == INITIALIZE:
            self._initialize = message.get("id")
        headers = ClientMessageMetadata(headers=self._headers(message))
        try:
            found = jsonrpc_message_adapter.validate_python(message, by_name=False)
            self._portal.call(self._unsent.send_nowait, SessionMessage(found, headers))
        except WouldBlock:
            raise ServerGone(f"the server has not read {MAX_UNREAD} messages") from None
        except Exception as error:
            raise ServerGone(describe(error)) from None

    def received(self) -> Iterator[Message | Unfit]:
        """Yield what it sends."""
        while True:
            try:
                message = self._arrived.get(timeout=_LOOK_S)
            except queue.Empty:
                if self._exchange.done() and self._arrived.empty():
                    raise ServerGone(self._why()) from None
                continue
            result = message.get("result") if isinstance(message, dict) else None
            if isinstance(message, dict) and isinstance(result, dict) and message.get("id") == self._initialize:
                self._version = str(result.get("protocolVersion") or "")
            yield message

    def close(self) -> None:
        """Have sent what is not, for a moment, and end the session."""
        with contextlib.suppress(Exception):
            self._portal.call(self._unsent.close)
        concurrent.futures.wait([self._exchange], LAST_S)
        self._exchange.cancel()
        self._stack.close()

    def _why(self) -> str:
        """Why nothing comes any more."""
        error = None if self._exchange.cancelled() else self._exchange.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return f"the server can't be reached ({describe(error)})" if error else "the server has ended the session"

    async def _run(self, ready: threading.Event) -> None:
        import anyio
        import anyio.to_thread
        import httpx2
        from mcp.shared.message import SessionMessage

        async def say_who(request: httpx2.Request) -> None:
            request.headers.update({each.name: each.value() for each in self._secrets})

        timeout = httpx2.Timeout(_HTTP_S, read=None)  # a tool may take its time, and so may an event
        self._unsent, unsent = anyio.create_memory_object_stream[SessionMessage](MAX_UNREAD)
        async with (
            httpx2.AsyncClient(event_hooks={"request": [say_who]}, timeout=timeout) as client,
            self._connect(self._url, http_client=client, max_sse_event_size=LONGEST) as (arrives, send),
            anyio.create_task_group() as group,
        ):

            async def pass_on() -> None:
                async for message in unsent:
                    await send.send(message)
                await send.aclose()  # once it has sent the last one, nothing more arrives

            group.start_soon(pass_on)
            ready.set()
            async for item in arrives:
                await anyio.to_thread.run_sync(self._arrived.put, _read(item))
            group.cancel_scope.cancel()

    def _headers(self, message: Message) -> dict[str, str]:
        """What the transport wants to be repeated in headers."""
        from mcp.shared.inbound import (
            MCP_METHOD_HEADER,
            MCP_NAME_HEADER,
            MCP_PROTOCOL_VERSION_HEADER,
            NAME_BEARING_METHODS,
            encode_header_value,
            mcp_param_headers,
            x_mcp_header_map,
        )

        version = protocol_of(message)
        if not version:
            return {MCP_PROTOCOL_VERSION_HEADER: self._version} if self._version else {}
        method, params = message.get("method", ""), message.get("params") or {}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
        if isinstance(name := params.get(NAME_BEARING_METHODS.get(method, "")), str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            if method == CALL and (schema := self._schema(name)) is not None:
                headers.update(mcp_param_headers(x_mcp_header_map(schema), params.get("arguments") or {}))
        return headers


def _read(item: Any) -> Message | Unfit:
    """What the transport has received, as the gateway has messages."""
    if isinstance(item, Exception):
        return Unfit(describe(item))
    try:
        return from_server(written(item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)))
    except (Unfit, ValueError, RecursionError) as why:
        return why if isinstance(why, Unfit) else Unfit(describe(why))


@dataclass(frozen=True, slots=True)
class SecretHeader:
    """A header whose value stands in a variable or a file, and nowhere else: it is never shown.

    Args:
        name: of the header.
        source: `env:VARIABLE` or `file:PATH`.
        prefix: what comes before the value: "Bearer ".

    Raises:
        ConfigError: it is no such header, or no such place.

    Example:
        >>> SecretHeader.read("X-Api-Key=env:FORGE_KEY")
        SecretHeader(name='X-Api-Key', source='env:FORGE_KEY', prefix='')
    """

    name: str
    source: str
    prefix: str = ""

    def __post_init__(self) -> None:
        if not _HEADER.fullmatch(self.name) or self.name.lower() in _OURS or self.name.lower().startswith("mcp-"):
            raise ConfigError(f"{self.name!r} can't be a header that is sent besides")
        if not re.fullmatch("(?:env|file):.+", self.source):
            raise ConfigError(
                f"what is sent as {self.name} comes from env:VARIABLE or file:PATH, and is never given here"
            )

    @classmethod
    def read(cls, said: str) -> "SecretHeader":
        """Return what is written as NAME=SOURCE."""
        name, _, source = said.partition("=")
        return cls(name.strip(), source.strip())

    def value(self) -> str:
        """Return what is sent now.

        Raises:
            ConfigError: there is nothing that could be.
        """
        kind, _, place = self.source.partition(":")
        try:
            found = os.environ.get(place, "") if kind == "env" else Path(place).expanduser().read_text().strip()
        except (OSError, ValueError, RuntimeError) as why:
            said = why.strerror if isinstance(why, OSError) and why.strerror else "it can't be read"
            raise ConfigError(f"{place}: {said}: it is to hold what is sent as {self.name}") from None
        if not found:
            said = "is not set" if kind == "env" else "is empty"
            raise ConfigError(f"{place} {said}: it is to hold what is sent as {self.name}")
        if not (found.isascii() and found.isprintable()):
            raise ConfigError(f"what {place} holds can't be sent as {self.name}: it is one line of visible ASCII")
        return self.prefix + found


def _checked(url: str, token: bool) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    except ValueError:
        raise ConfigError(f"{url!r} is no address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url!r} is no address of a server: it begins with https://")
    if token and parts.scheme == "http" and not here:
        raise ConfigError("a token is sent by https only, or to this machine")
    return url
