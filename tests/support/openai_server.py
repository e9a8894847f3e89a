"""A loopback server that speaks enough of the OpenAI API for litellm, and enforces its strictest rule.

The rule: an assistant message with tool calls must be followed by one result for each of them. An agent that loses a
result, say because a command was denied, gets the API's own answer, 400. For tests, ours and other people's.
"""

import json
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class OpenAIServer:
    """Answers chat completions from a script, on 127.0.0.1 and a free port.

    Args:
        script: one entry for each assistant message: the commands that it calls the bash tool with.
            The last entry is repeated for ever.

    Example:
        >>> with OpenAIServer([["ls"], ["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]]) as server:
        ...     server.url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(self, script: Sequence[Sequence[str]]) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.refused: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """What litellm calls `api_base`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """HTTP status and JSON for one request."""
        self.requests.append(body)
        if complaint := missing_results(body["messages"]):
            self.refused.append(complaint)
            return 400, {"error": {"message": complaint, "type": "invalid_request_error", "param": "messages"}}
        step = sum(message["role"] == "assistant" for message in body["messages"])
        commands = self.script[min(step, len(self.script) - 1)]
        calls = [_tool_call(f"call_{step}_{i}", command) for i, command in enumerate(commands)]
        message = {"role": "assistant", "content": f"This is step {step}.", "tool_calls": calls}
        return 200, {
            "id": f"chatcmpl-{step}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.headers.append(dict(self.headers))
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, reply = server.answer(body)
                data = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


def missing_results(messages: Sequence[dict[str, Any]]) -> str:
    """What the API would complain about: a tool call without its result, or a result without its call; else ""."""
    pending: list[str] = []
    for message in [*messages, {"role": "end"}]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in pending:
                return f"a tool message answers {message['tool_call_id']}, which no preceding tool call has"
            pending.remove(message["tool_call_id"])
        elif pending:
            return (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. Without a response: {', '.join(pending)}"
            )
        else:
            pending = [call["id"] for call in message.get("tool_calls") or ()]
    return ""


def _tool_call(call_id: str, command: str) -> dict[str, Any]:
    arguments = json.dumps({"command": command})
    return {"id": call_id, "type": "function", "function": {"name": "bash", "arguments": arguments}}
