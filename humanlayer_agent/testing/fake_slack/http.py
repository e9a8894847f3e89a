"""The HTTP side: the Web API, uploads and response addresses, with faults."""

import json
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from humanlayer_agent.testing.fake_slack import web
from humanlayer_agent.testing.fake_slack.limits import LIMITS, ApiError, Json
from humanlayer_agent.testing.fake_slack.world import World

_AS_JSON = ("blocks", "view", "metadata", "files")
"""Arguments that form-encoded calls hold as JSON."""


class HttpServer:
    """Serves a `World` over HTTP on loopback.

    Args:
        socket_url: where the Socket Mode server is.
    """

    def __init__(self, state: World, socket_url: str) -> None:
        self._state = state
        self._socket_url = socket_url
        self._wake = threading.Event()
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="fake-slack", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._wake.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, token: str, args: Json) -> tuple[int, dict[str, str], Any]:
        """Status, headers and body of one call; raises `_Lost` where no answer comes."""
        with self._state.lock:
            fault = self._state.fault_of(method)
        kind = fault.kind if fault else ""
        if fault and kind == "slow":
            self._wake.wait(fault.seconds)
        if kind == "lost-request":
            self._noted(method, "lost")
            raise _Lost
        if fault and kind == "429":
            self._noted(method, "ratelimited")
            return 429, {"Retry-After": str(int(fault.seconds))}, {"ok": False, "error": "ratelimited"}
        if fault and kind == "http":
            self._noted(method, str(fault.status))
            return fault.status, {}, "upstream error"
        status, headers = 200, {}
        try:
            if fault and kind == "error":
                raise ApiError(fault.error)
            with self._state.lock:
                found = web.call(self._state, self.url, self._socket_url, method, token, args)
                if known := self._state.tokens.get(token):
                    headers["X-OAuth-Scopes"] = ",".join(sorted(known.scopes))
            body = {"ok": True, **found}
        except ApiError as error:
            body = {"ok": False, "error": error.error, **error.extra}
            if error.error == "ratelimited":
                status, headers = 429, {"Retry-After": str(int(error.extra["retry_after"]) + 1)}
        self._noted(method, str(body.get("error", "ok")))
        if kind == "lost-response":
            raise _Lost
        return status, headers, body

    def _noted(self, method: str, result: str) -> None:
        with self._state.lock:
            self._state.calls.append((method, result))

    def upload(self, file_id: str, data: bytes) -> int:
        with self._state.lock:
            file = self._state.files.get(file_id)
            fault = self._state.fault_of("upload")
            if file is None or fault or len(data) != file["length"]:
                return fault.status if fault else 400
            file["data"] = data
            return 200

    def respond(self, name: str, args: Json) -> tuple[int, Any]:
        """A message to a response address: only to the one who clicked, unless it replaces the message."""
        with self._state.lock:
            found = self._state.response_urls.get(name)
            if found is None:
                return 404, {"ok": False, "error": "invalid_url"}
            late = self._state.clock() - found["at"] > LIMITS["response_url_seconds"]
            if found["uses"] >= LIMITS["response_url_uses"] or late:
                return 404, {"ok": False, "error": "expired_url" if late else "used_url"}
            found["uses"] += 1
            try:
                made = web.message(args)
            except ApiError as error:
                return 400, {"ok": False, "error": error.error, **error.extra}
            made |= {"ts": self._state.next_ts(), "_to": found["user"], "_channel": found["channel"]}
            self._state.ephemerals.append(made)
            return 200, {"ok": True}


class _Lost(Exception):
    """The connection breaks before an answer."""


class _Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # headers and body are two packets, and the second would wait 40 ms
    owner: HttpServer
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        data = self.rfile.read(length)
        kind, _, name = urlsplit(self.path).path.strip("/").partition("/")
        try:
            if kind == "api":
                status, headers, body = self.owner.answer(name, self._token(), self._args(data))
            elif kind == "upload":
                status, headers, body = self.owner.upload(name, data), {}, "OK"
            elif kind == "response":
                status, body = self.owner.respond(name, self._args(data))
                headers = {}
            else:
                status, headers, body = 404, {}, "not found"
        except _Lost:
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._send(status, headers, body)

    def do_GET(self) -> None:
        self.do_POST()

    def _send(self, status: int, headers: dict[str, str], body: Any) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        content = text.encode()
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
            self.send_header("Content-Length", str(len(content)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    def _token(self) -> str:
        return str(self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def _args(self, data: bytes) -> Json:
        args: Json = dict(parse_qsl(urlsplit(self.path).query))
        text = data.decode("utf-8", "replace")
        if "json" in str(self.headers.get("Content-Type")):
            return args | (json.loads(text) if text else {})
        args |= dict(parse_qsl(text, keep_blank_values=True))
        for name in _AS_JSON:
            if isinstance(args.get(name), str):
                with suppress(ValueError):
                    args[name] = json.loads(args[name])
        return args
