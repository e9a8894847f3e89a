"""Clients that speak HTTP: who is answered at all, how sessions live, and the official SDK's client before its server."""

import http.client
import json
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError

from humanlayer_agent.errors import ChannelError, ConfigError
from humanlayer_agent.hooks.gateway import clients
from humanlayer_agent.hooks.gateway.clients import HttpClients, keep_token, kept_token
from humanlayer_agent.hooks.gateway.messages import Message
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.hooks.gateway.test_conformance import Demo, is_over
from tests.support.mail_servers import free_port
from tests.support.mcp_client import Listening, text
from tests.support.remote_human import RemoteHuman

TOKEN = "x" * 43
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Answering:
    """In the place of a gateway: answers `initialize` and `ping`, and keeps all else. Says what the test says."""

    def __init__(self, client: clients.Client, ended: Callable[[], None]) -> None:
        self.client, self.ended = client, ended
        self.got: queue.Queue[Message] = queue.Queue()
        self.closed = threading.Event()
        self.failed = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.client.received():
            assert line is not None
            message = json.loads(line)
            if message.get("method") in ("initialize", "ping"):
                self.client.send({"jsonrpc": "2.0", "id": message["id"], "result": {}})
            else:
                self.got.put(message)

    def close(self) -> None:
        self.closed.set()


class Served:
    """`HttpClients` at a port of its own, and a client that speaks HTTP by hand."""

    def __init__(self) -> None:
        self.port = free_port()
        self.sessions: list[Answering] = []
        self.said: list[str] = []
        self.refuses: Exception | None = None
        self.clients = HttpClients(self.port, TOKEN, self._begin, say=self.said.append)
        self.clients.start()

    def _begin(self, client: clients.Client, ended: Callable[[], None]) -> Answering:
        if self.refuses:
            raise self.refuses
        self.sessions.append(Answering(client, ended))
        return self.sessions[-1]

    def sends(
        self, method: str, body: Any = None, *, path: str = "/mcp", session: str = "", **headers: str | None
    ) -> http.client.HTTPResponse:
        """Send one request. `headers` are by their names with _ for -; None leaves out what is sent otherwise."""
        given = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **({"Mcp-Session-Id": session} if session else {}),
        } | {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.putrequest(method, path, skip_host=True)
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body, indent=1).encode()
        for name, value in {**given, "Content-Length": str(len(data))}.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(data)
        return connection.getresponse()

    def begins(self) -> tuple[str, Answering]:
        """A session, and what stands behind it."""
        response = self.sends("POST", HELLO)
        assert (response.status, events(response)) == (200, [{"jsonrpc": "2.0", "id": 0, "result": {}}])
        named = response.headers["Mcp-Session-Id"]
        assert named is not None
        return named, self.sessions[-1]


def events(response: http.client.HTTPResponse) -> list[Any]:
    """All that comes up to the end of the stream."""
    return [json.loads(line[6:]) for line in response.read().splitlines() if line.startswith(b"data: ")]


def event(response: http.client.HTTPResponse) -> Any:
    """What comes next."""
    while not (line := response.readline()).startswith(b"data: "):
        assert line, "it has ended"
    return json.loads(line[6:])


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()
    yield found
    found.clients.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": "Bearer " + "x" * 42}, 401),
        ({"Authorization": "Bearer " + "x" * 44}, 401),
        ({"Authorization": "Basic " + TOKEN}, 401),
        ({"Authorization": "Bearer \xe9"}, 401),
        ({"Host": "evil.example.org"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Origin": "http://evil.example.org"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:{port}"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": None}, 415),
        ({"MCP_Protocol_Version": "2026-07-28"}, 400),
        ({"MCP_Protocol_Version": "x"}, 400),
        ({"Mcp_Session_Id": "x"}, 400),
    ],
)
def test_who_is_not_answered(served: Served, headers: dict[str, str | None], status: int) -> None:
    given = {name: value and value.replace("{port}", str(served.port)) for name, value in headers.items()}
    response = served.sends("POST", HELLO, **given)
    assert response.status == status
    assert TOKEN.encode() not in response.read()
    assert served.sessions == []


def test_two_tokens_are_none(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
    connection.putrequest("GET", "/mcp")
    for token in (TOKEN, "y"):
        connection.putheader("Authorization", f"Bearer {token}")
    connection.endheaders()
    assert connection.getresponse().status == 401


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/", HELLO, 404),
        ("GET", "/.well-known/oauth-protected-resource", None, 404),
        ("PUT", "/mcp", HELLO, 405),
        ("OPTIONS", "/mcp", None, 405),
        ("POST", "/mcp", b"{", 400),
        ("POST", "/mcp", b"", 400),
        ("POST", "/mcp", [HELLO], 400),
        ("POST", "/mcp", b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "method": "ping"}', 400),
        ("POST", "/mcp", PING, 400),
        ("POST", "/mcp", {"jsonrpc": "2.0", "method": "initialize"}, 400),
        ("GET", "/mcp", None, 400),
        ("DELETE", "/mcp", None, 400),
    ],
)
def test_what_is_no_session(served: Served, method: str, path: str, body: Any, status: int) -> None:
    assert served.sends(method, body, path=path).status == status
    assert served.sessions == []


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_session_that_is_not_there(served: Served, method: str) -> None:
    served.begins()
    assert served.sends(method, PING, session="x").status == 404


def test_a_message_that_is_too_long(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "LONGEST", 1_000)
    assert served.sends("POST", {**HELLO, "x": "x" * 1_000}).status == 413


def test_a_session(served: Served) -> None:
    session, gateway = served.begins()
    assert events(served.sends("POST", PING, session=session)) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    response = served.sends("POST", notice, session=session, MCP_Protocol_Version="2025-11-25")
    assert (response.status, response.read()) == (202, b"")
    assert gateway.got.get(timeout=PATIENCE) == notice
    assert not gateway.closed.is_set()
    assert served.sends("DELETE", session=session).status == 204
    assert gateway.closed.wait(PATIENCE)
    assert served.sends("POST", PING, session=session).status == 404


def test_sessions_are_apart(served: Served) -> None:
    (first, one), (second, other) = served.begins(), served.begins()
    assert first != second
    calls = [served.sends("POST", {**PING, "method": "tools/list"}, session=each) for each in (first, second)]
    for gateway, response, said in ((other, calls[1], "b"), (one, calls[0], "a")):
        assert gateway.got.get(timeout=PATIENCE)["id"] == 1
        gateway.client.send({"jsonrpc": "2.0", "id": 1, "result": {"said": said}})
        assert events(response) == [{"jsonrpc": "2.0", "id": 1, "result": {"said": said}}]


def test_an_id_that_is_open(served: Served) -> None:
    session, gateway = served.begins()
    first = served.sends("POST", {**PING, "method": "tools/list"}, session=session)
    again = served.sends("POST", {**PING, "method": "tools/list"}, session=session)
    assert (again.status, json.loads(again.read())["error"]["message"]) == (400, "a request with this id is open")
    other = served.sends("POST", {**PING, "method": "tools/list", "id": "1"}, session=session)
    for id, response in (("1", other), (1, first)):
        gateway.client.send({"jsonrpc": "2.0", "id": id, "result": {}})
        assert events(response)[0]["id"] == id


def test_where_what_the_server_says_by_itself_goes(served: Served) -> None:
    """How far a request is goes where its answer will; the rest to the connection for it, or is kept until there is one."""
    session, gateway = served.begins()
    notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    gateway.client.send(notice)
    listening = served.sends("GET", session=session)
    assert event(listening) == notice
    assert served.sends("GET", session=session).status == 409
    call = {**PING, "method": "tools/call", "params": {"name": "x", "_meta": {"progressToken": 7}}}
    other, response = (
        served.sends("POST", {**PING, "id": 2, "method": "tools/list"}, session=session),
        served.sends("POST", call, session=session),
    )
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 7, "progress": 1}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
    for message in (progress, asked, {"jsonrpc": "2.0", "id": 1, "result": {}}):
        gateway.client.send(message)
    assert events(response) == [progress, {"jsonrpc": "2.0", "id": 1, "result": {}}]
    assert event(listening) == asked
    listening.close()
    gateway.ended()
    assert events(other) == []
    assert gateway.closed.wait(PATIENCE)


def test_what_nobody_waits_for_is_cancelled(served: Served) -> None:
    session, gateway = served.begins()
    response = served.sends("POST", {**PING, "method": "tools/call"}, session=session)
    assert gateway.got.get(timeout=PATIENCE)["method"] == "tools/call"
    response.close()
    cancelled = gateway.got.get(timeout=PATIENCE)
    assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", 1)


def test_what_the_client_cancels_is_answered_no_more(served: Served) -> None:
    session, gateway = served.begins()
    response = served.sends("POST", {**PING, "method": "tools/call"}, session=session)
    gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert served.sends("POST", gone, session=session).status == 202
    assert events(response) == []
    assert [gateway.got.get(timeout=PATIENCE)["method"] for _ in range(2)] == ["tools/call", "notifications/cancelled"]


def test_a_session_that_nobody_is_connected_to_ends(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    session, gateway = served.begins()
    listening = served.sends("GET", session=session)
    monkeypatch.setattr(clients, "IDLE_S", 0.01)
    served.sends("POST", PING, session=session).read()
    assert served.sends("POST", PING, session=session).status == 200
    listening.close()
    assert gateway.closed.wait(PATIENCE)


def test_a_client_that_takes_nothing(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_UNTAKEN", 1_000_000)
    session, gateway = served.begins()
    listening = served.sends("GET", session=session)
    until(lambda: gateway.closed.is_set() or flooded(gateway), "its end")
    listening.close()


@pytest.mark.parametrize("id", [None, 1], ids=["what it says", "answers"])
def test_what_was_taken_does_not_count(served: Served, monkeypatch: pytest.MonkeyPatch, id: int | None) -> None:
    monkeypatch.setattr(clients, "MAX_UNTAKEN", 1_000)
    session, gateway = served.begins()
    listening = served.sends("GET", session=session)
    for number in range(5):
        said = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": f"{number}" * 600}}
        if id is not None:
            response = served.sends("POST", {**PING, "method": "tools/list"}, session=session)
            said = {"jsonrpc": "2.0", "id": id, "result": {"data": f"{number}" * 600}}
        gateway.client.send(said)
        assert (event(listening) if id is None else events(response)[0]) == said
    assert not gateway.closed.is_set()


def flooded(gateway: Answering) -> bool:
    gateway.client.send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 300_000}})
    return False


def test_as_many_sessions_as_there_may_be(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_SESSIONS", 1)
    session, _ = served.begins()
    assert served.sends("POST", HELLO).status == 503
    assert served.sends("DELETE", session=session).status == 204
    served.begins()


@pytest.mark.parametrize(
    ("why", "said"), [(ConfigError("no such program"), "no such program"), (ValueError("x"), "ValueError: x")]
)
def test_a_server_that_does_not_begin(
    served: Served, monkeypatch: pytest.MonkeyPatch, why: Exception, said: str
) -> None:
    monkeypatch.setattr(clients, "MAX_SESSIONS", 1)
    served.refuses = why
    response = served.sends("POST", HELLO)
    assert response.status == 502
    assert said.encode() not in response.read()
    assert served.said == [f"a session did not begin: {said}"]
    served.refuses = None
    served.begins()  # it was none


def test_the_port_is_taken(served: Served) -> None:
    again = HttpClients(served.port, TOKEN, lambda client, ended: Answering(client, ended), say=print)
    with pytest.raises(ChannelError, match="can't listen"):
        again.start()


def test_all_sessions_end_with_it(served: Served) -> None:
    (session, one), (_, other) = served.begins(), served.begins()
    listening = served.sends("GET", session=session)
    served.clients.close()
    assert one.closed.is_set()
    assert other.closed.is_set()
    assert events(listening) == []


def test_the_token_is_kept_for_its_user_alone() -> None:
    token, url = kept_token("demo"), "http://127.0.0.1:8931/mcp"
    path = keep_token("demo", url, token)
    assert path.stat().st_mode & 0o777 == 0o600
    entry = json.loads(path.read_text())["mcpServers"]["demo"]
    assert entry == {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}
    assert kept_token("demo") == token
    assert kept_token("other") != token
    path.chmod(0o644)  # somebody else may have read it
    assert kept_token("demo") != token
    path.chmod(0o600)
    assert kept_token("demo") == token
    path.write_text('{"mcpServers": {"demo": {"headers": {"Authorization": "Bearer x"}}}}')
    assert len(kept_token("demo")) == 43


# ---- the official client and server, by the real command ------------------------------------------------------


@pytest.fixture
def human() -> Iterator[RemoteHuman]:
    human = RemoteHuman()
    yield human
    human.store.close()


@pytest.fixture
def demo(tmp_path: Path, human: RemoteHuman) -> Demo:
    return Demo(tmp_path, human, "http")


@pytest.fixture
def listening(demo: Demo) -> Iterator[Listening]:
    with demo.listening() as found:
        yield found


LONG = [pytest.mark.long, pytest.mark.usefixtures("compiled", "forked_by_clients")]
MAIL = {"to": "a@example.org", "body": "hello"}


def marked(test: Any) -> Any:
    for mark in LONG:
        test = mark(test)
    return test


@marked
def test_a_server_lives_as_long_as_its_session_and_nobody_is_told_the_token(demo: Demo, listening: Listening) -> None:
    async def use(client: Client) -> Any:
        return text(await client.call_tool("echo", {"text": "hi"})), demo.pid

    (said, one), (_, other) = (listening.talk(use, mode=mode) for mode in ("legacy", "auto"))
    assert said == "hi"
    assert one != other
    for pid in (one, other):
        until(lambda pid=pid: is_over(pid), "the end of its server")
    until(lambda: len(demo.events("run.finished")) == 2, "the ends of both runs")
    token = listening.headers["Authorization"].split()[1]
    assert token.encode() not in listening.ends()
    assert token not in listening.begun


@marked
def test_the_newest_protocol_is_not_spoken_and_nobody_without_the_token(demo: Demo, listening: Listening) -> None:
    async def use(client: Client) -> Any:
        raise AssertionError("never")

    with pytest.raises(BaseException) as raised:  # noqa: PT011
        listening.talk(use, mode="2026-07-28")
    assert "Unsupported protocol version" in str(first(raised.value))
    listening.headers = {"Authorization": "Bearer x"}
    with pytest.raises(BaseException) as raised:  # noqa: PT011
        listening.talk(use, mode="legacy")
    assert isinstance(first(raised.value), MCPError | httpx2.HTTPError)
    assert demo.pid == 0


def first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@marked
@pytest.mark.parametrize("what", ["the client, killed", "the gateway, told to end"])
def test_what_goes_while_a_human_is_asked(demo: Demo, listening: Listening, what: str) -> None:
    client = listening.calls_elsewhere("send_mail", MAIL)
    request, server = demo.human.next(), demo.pid
    if what == "the client, killed":
        client.kill()
        demo.human.state_of(request.id, "withdrawn")
    listening.ends()
    demo.human.state_of(request.id, "withdrawn")
    assert demo.calls == []
    assert is_over(server)
    client.kill()
    client.wait()
