"""An MCP server with one tool, by which an agent asks a human: the answer is words, and decides nothing.

It speaks on standard input and output with the client that has started it, which is an agent's: whatever it sends is
untrusted, and what it gets is either the human's words, marked as data, or why there are none.
"""

import importlib.metadata
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from humanlayer_agent.approvals.questions import MAX_LENGTH, MAX_OPTIONS, HumanAnswer
from humanlayer_agent.errors import ConfigError, HumanlayerError

TOOL = "ask_human"
AT_ONCE = 8
"""So many questions are put before humans at once; further ones wait."""

LAST = 5.0
"""Seconds to withdraw what is left when the client has gone."""

_ABOUT = (
    "Ask a human something that you can't find out yourself, and wait for the answer. It comes in the human's own "
    "words, and allows nothing: what needs an approval still does. Offer options where the answer is one of a few."
)
_STOPPED = "A human has stopped the whole run: nothing more is asked."
_INPUTS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "question": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_LENGTH,
            "description": "What you want to know.",
        },
        "options": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH},
            "maxItems": MAX_OPTIONS,
            "description": "Answers that are offered, each one line; other words may be given all the same.",
        },
    },
    "required": ["question"],
    "additionalProperties": False,
}

Ask = Callable[[str, Sequence[str], Callable[[], bool]], HumanAnswer | None]
"""Puts a question with its options, and waits: until somebody has answered, or the third says that nobody waits for it
any more (then None).
"""


class QuestionServer:
    """The server. Every question is put by a thread of its own.

    Args:
        ask: puts a question before humans.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._stopped = threading.Event()
        self._open: dict[threading.Event, threading.Event] = {}  # that nobody waits for it, that its thread has ended
        self._limiter = anyio.CapacityLimiter(AT_ONCE)

    async def serve(self) -> None:
        """Serve the client on standard input and output until it closes them."""
        version = importlib.metadata.version("humanlayer-agent")
        server: Server[Any] = Server(
            "humanlayer-agent", version=version, on_list_tools=self._list_tools, on_call_tool=self._call_tool
        )
        try:
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        finally:
            self._end()

    def _end(self) -> None:
        """Withdraw what still waits: nobody reads the answer."""
        left = dict(self._open)
        for gone in left:
            gone.set()
        end = time.monotonic() + LAST
        for done in left.values():
            done.wait(max(0.0, end - time.monotonic()))

    async def _list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name=TOOL, description=_ABOUT, input_schema=dict(_INPUTS))])

    async def _call_tool(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            if params.name != TOOL:
                raise ConfigError(f"there is no such tool: this server has {TOOL}")
            question, options = _checked(params.arguments or {})
            if self._stopped.is_set():
                return _said(_STOPPED)
            return _said(await self._put(question, options))
        except HumanlayerError as error:
            return _said(f"Your question was not put before a human. {error}", is_error=True)

    async def _put(self, question: str, options: Sequence[str]) -> str:
        gone, done = threading.Event(), threading.Event()

        def put() -> HumanAnswer | None:
            self._open[gone] = done
            try:
                return None if gone.is_set() else self._ask(question, options, gone.is_set)
            finally:
                done.set()
                self._open.pop(gone, None)

        try:
            answer = await anyio.to_thread.run_sync(put, abandon_on_cancel=True, limiter=self._limiter)
        finally:
            gone.set()
        if answer is None:
            return "Nobody waits for the answer any more."
        if answer.stopped:
            self._stopped.set()
        return answer.told


def serve(ask: Ask) -> None:
    """Serve one client on standard input and output, until it closes them.

    Args:
        ask: puts a question before humans.
    """

    async def main() -> None:
        await QuestionServer(ask).serve()

    anyio.run(main)


def _checked(arguments: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the question and the options that a client has sent.

    Raises:
        ConfigError: they are something else.
    """
    question, options = arguments.get("question"), arguments.get("options")
    options = [] if options is None else options
    if type(question) is not str or arguments.keys() - {"question", "options"}:
        raise ConfigError("expected question (a text) and options (a list of texts), and nothing else")
    if not isinstance(options, list) or not all(type(option) is str for option in options):
        raise ConfigError("options must be a list of texts")
    return question, options


def _said(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)
