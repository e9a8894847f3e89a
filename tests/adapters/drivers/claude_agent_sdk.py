"""Claude Code as the Claude Agent SDK brings it, before a model that follows a script on this machine's loopback."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, create_sdk_mcp_server, query, tool

from humanlayer_agent import Gate
from humanlayer_agent.adapters.claude_agent_sdk import supervised
from tests.adapters.scenes import TOOL, Run, Scene

PREFIX = "mcp__tests__"


class Model(BaseHTTPRequestHandler):
    """Calls the tool, all calls in one message, and is done with the next one."""

    protocol_version = "HTTP/1.1"
    calls: list[Any]
    asked: list[list[Any]]

    def log_message(self, *args: Any) -> None: ...

    def do_HEAD(self) -> None:
        self._say({})

    def do_GET(self) -> None:
        self._say({})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or "{}")
        if "count_tokens" in self.path or "/messages" not in self.path:
            return self._say({"input_tokens": 10})
        content: list[Any] = [{"type": "text", "text": "done"}]
        if body.get("tools"):
            results = [
                c
                for m in body["messages"]
                if isinstance(m["content"], list)
                for c in m["content"]
                if c["type"] == "tool_result"
            ]
            self.asked.append(results)
            if len(self.asked) == 1:
                content = [
                    {"type": "tool_use", "id": f"c{n}", "name": name, "input": args}
                    for n, (name, args) in enumerate(self.calls)
                ]
        return self._stream(content)

    def _say(self, what: Any) -> None:
        data = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, content: list[Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        stop = (content[0]["type"] == "tool_use" and "tool_use") or "end_turn"
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
        self._event("message_start", message={**message, "stop_reason": None, "stop_sequence": None})
        for index, block in enumerate(content):
            text = block["type"] == "text"
            begun = {"type": "text", "text": ""} if text else {**block, "input": {}}
            delta = (
                {"type": "text_delta", "text": block["text"]}
                if text
                else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            )
            self._event("content_block_start", index=index, content_block=begun)
            self._event("content_block_delta", index=index, delta=delta)
            self._event("content_block_stop", index=index)
        self._event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=usage)
        self._event("message_stop")

    def _event(self, kind: str, **fields: Any) -> None:
        self.wfile.write(f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode())
        self.wfile.flush()


@contextmanager
def model(calls: list[Any]) -> Iterator[tuple[str, list[list[Any]]]]:
    """The address of a model, and the results that it was given each time it was asked."""
    asked: list[list[Any]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Scripted", (Model,), {"calls": calls, "asked": asked}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()


class Driver:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def options(self, url: str, **more: Any) -> ClaudeAgentOptions:
        scene = self.scene

        @tool(TOOL, "Acts.", {"what": str})
        async def acting(given: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": scene.act(given["what"])}]}

        environment = {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-ant-none",
            "HOME": str(scene.folder),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        servers: Any = {"tests": create_sdk_mcp_server("tests", tools=[acting])}
        return ClaudeAgentOptions(
            cwd=scene.folder, env=environment, mcp_servers=servers, tools=[], setting_sources=[], model="m", **more
        )

    def run(self, gate: Gate, *calls: str, **more: Any) -> Run:
        with model([(PREFIX + TOOL, {"what": each}) for each in calls]) as (url, asked):
            asyncio.run(_talk(supervised(self.options(url, **more), gate)))
            return _told(asked)

    def run_query(self, gate: Gate, *calls: str) -> Run:
        async def talk() -> None:
            async for _ in query(prompt="go", options=supervised(self.options(url), gate)):
                pass

        with model([(PREFIX + TOOL, {"what": each}) for each in calls]) as (url, asked):
            asyncio.run(talk())
            return _told(asked)

    def run_commands(self, gate: Gate, *commands: dict[str, Any]) -> Run:
        with model([("Bash", each) for each in commands]) as (url, asked):
            asyncio.run(_talk(supervised(replace(self.options(url), tools=["Bash"]), gate)))
            return _told(asked)

    def run_bypassed(self, gate: Gate, *calls: str) -> Run:
        async def change(question: Any, call: Any, context: Any) -> Any:
            said = {"hookEventName": "PreToolUse", "updatedInput": {"what": "other"}}
            return {"hookSpecificOutput": said}

        return self.run(gate, *calls, hooks={"PreToolUse": [HookMatcher(hooks=[change])]})

    def example(self, gate: Gate, arguments: dict[str, Any]) -> str:
        example = self.scene.example("claude_agent_sdk_approval")
        with model([("mcp__accounts__close_account", arguments)]) as (url, asked):
            alone: dict[str, Any] = {"tools": [], "setting_sources": [], "cwd": self.scene.folder}
            asyncio.run(_talk(supervised(example.options(env=self.options(url).env, model="m", **alone), gate)))
            return "\n".join(text for text, _ in _told(asked).results)


async def _talk(options: ClaudeAgentOptions) -> None:
    async with ClaudeSDKClient(options) as client:
        await client.query("go")
        async for _ in client.receive_response():
            pass


def _told(asked: list[list[Any]]) -> Run:
    found = sorted(asked[-1], key=lambda each: each["tool_use_id"])
    results = []
    for each in found:
        content = each["content"]
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        results.append((text.rpartition(" hook error: ")[2], bool(each.get("is_error"))))
    return Run(results, len(asked))
