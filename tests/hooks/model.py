"""A model that a script plays: an OpenAI-compatible server on this machine, for coding agents that take one."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Call = tuple[str, dict[str, Any]]
INNER = "what the sub-agent is told"


class Model(BaseHTTPRequestHandler):
    """Has tools called, one after the other, and then says that it is done (chat completions, streamed or not).

    Attributes:
        calls: what it calls. inner: what it calls instead where it is told `INNER`, as a sub-agent is by the first one.
        heard: what it was told of each.
        called: it has had one called.
    """

    calls: Sequence[Call] = ()
    inner: Sequence[Call] = ()
    heard: list[str]
    called = False
    port = 0
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._end("application/json", json.dumps({"object": "list", "data": [{"id": "any", "object": "model"}]}))

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        outputs = [str(each.get("content")) for each in asked["messages"] if each["role"] == "tool"]
        has_tools = bool(asked.get("tools"))  # else it is asked for a title
        is_inner = any(INNER in str(each.get("content")) for each in asked["messages"] if each["role"] == "user")
        calls = self.inner if is_inner else self.calls
        if has_tools and not is_inner:
            type(self).heard[:] = outputs
        message: dict[str, Any] = {"role": "assistant", "content": "done"}
        if has_tools and len(outputs) < len(calls):
            name, arguments = calls[len(outputs)]
            function = {"name": name, "arguments": json.dumps(arguments)}
            made = {"index": 0, "id": f"call_{len(outputs)}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [made]}
            type(self).called = True
        reason = "tool_calls" if "tool_calls" in message else "stop"
        base = {"id": "c", "created": 1, "model": "any"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not asked.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
            return self._end("application/json", json.dumps(whole))
        parts = [
            {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ]
        chunks = [json.dumps({**base, "object": "chat.completion.chunk", **part}) for part in parts]
        return self._end("text/event-stream", "".join(f"data: {each}\n\n" for each in [*chunks, "[DONE]"]))

    def _end(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def scripted(*calls: Call, inner: Sequence[Call] = ()) -> Iterator[type[Model]]:
    """Serve a model that has these tools called; `heard` has what it was told of each."""
    made = type("Scripted", (Model,), {"heard": [], "calls": calls, "inner": inner})
    server = ThreadingHTTPServer(("127.0.0.1", 0), made)
    made.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
