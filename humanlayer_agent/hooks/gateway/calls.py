"""The requests of a client as actions that are judged: calls of tools, and whatever else does something.

Actions are named as coding agents name the tools of their servers, so that one rule holds for hooks and gateway:
`mcp__SERVER__TOOL`. A request that is no tool's call has its method in the place of the tool
(`mcp__SERVER__prompts/get`): no tool can be called so, because no name of a tool has a slash.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from humanlayer_agent.action import FUNCTION, MOST_SHOWN, Action, tool_arguments
from humanlayer_agent.hooks.gateway.messages import NO_METHOD, WRONG_PARAMS, Message, Unfit, same_but_for_case

CALL = "tools/call"
LIST = "tools/list"
COMPLETE = "completion/complete"
INITIALIZE = "initialize"
LISTEN = "subscriptions/listen"
CANCELLED = "notifications/cancelled"

PASSED = frozenset(
    {
        *(INITIALIZE, "ping", "server/discover", LIST, "resources/list", "resources/templates/list", "prompts/list"),
        *("logging/setLevel", "resources/unsubscribe", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel"),
    }
)
"""Requests that are forwarded as they are: they say who is there and what there is, and tell of what was judged before.
Of any other that comes, the known ones and those that nobody knows yet, is judged what it would do.
"""
JUDGED = frozenset({CALL, COMPLETE, "resources/read", "resources/subscribe", "prompts/get", LISTEN})
NOTICES = frozenset(
    {
        *(CANCELLED, "notifications/initialized", "notifications/progress", "notifications/roots/list_changed"),
        *("notifications/tasks/status", "notifications/elicitation/complete"),
    }
)
"""Notifications of a client that are forwarded; others are not: nobody could be told that they were refused."""
_CHANGES = frozenset({"toolsListChanged", "promptsListChanged", "resourcesListChanged"})
"""What a client may want to be told of at any time."""
_KNOWN = {same_but_for_case(each): each for each in PASSED | JUDGED | NOTICES}

ANSWERS = frozenset({"requestState", "inputResponses"})
"""By these a call goes on for which the server wanted to know more (since 2026-07-28): the client's answers to that."""
_META = "_meta"
_VERSION = "io.modelcontextprotocol/protocolVersion"
_PROTOCOL = "io.modelcontextprotocol/"
_KNOWN_META = frozenset({"progressToken", "traceparent", "tracestate", "claudecode/toolUseId"})
"""What says nothing of what is to be done: how the client names the call, and which way it speaks."""
_TOOL = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_METHOD = re.compile(r"[A-Za-z0-9_.:-]{1,64}(?:/[A-Za-z0-9_.:-]{1,64}){0,3}")
_NAMED = {CALL: "name", "prompts/get": "name", "resources/read": "uri", "resources/subscribe": "uri"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a gateway stands.

    Args:
        server: the name of its server.
        agent: who the client is, for humans.
        project, cwd: as of an `Action`.
        local: the server runs here: what it is asked to read of files are files of this machine.
    """

    server: str
    agent: str
    project: str
    cwd: str
    local: bool


def is_judged(request: Message) -> bool:
    """Tell whether a request is judged before it is forwarded.

    Raises:
        Unfit: it is one that a careless server could take for another.
    """
    method = request["method"]
    known = _KNOWN.get(same_but_for_case(method))
    if known not in (None, method):
        raise Unfit(f"there is no such method: it is written {known}", NO_METHOD)
    if known is None and not _METHOD.fullmatch(method):
        raise Unfit("there is no such method", NO_METHOD)
    if method == LISTEN:
        wanted = (request.get("params") or {}).get("notifications")
        return not isinstance(wanted, dict) or bool(wanted.keys() - _CHANGES)
    return method not in PASSED


def action_of(request: Message, place: Place, call_id: str = "") -> Action:
    """Return the action that a request is.

    Args:
        request: as it was read from the line that would be sent to the server.
        call_id: what it is called here.

    Raises:
        Unfit: it can't be judged.

    Example:
        >>> place = Place("forge", "an agent (by MCP)", "/srv/app", "/srv/app", local=True)
        >>> action_of({"method": "tools/call", "params": {"name": "close", "arguments": {"issue": 12}}}, place).content
        'mcp__forge__close({"issue": 12})'
    """
    method, params = request["method"], request.get("params") or {}
    for each in ("name", "uri", "arguments", _META):
        for key in params:
            if key != each and same_but_for_case(key) == same_but_for_case(each):
                raise Unfit(f"{ascii(key)[:60]} is no parameter: it is written {each}", WRONG_PARAMS)
    if method in _NAMED and not isinstance(params.get(_NAMED[method]), str):
        raise Unfit(f"{method} needs {_NAMED[method]}, a text", WRONG_PARAMS)
    for each in ("arguments", _META):
        if not isinstance(params.get(each), dict | None):
            raise Unfit(f"{each} is an object", WRONG_PARAMS)
    given, more, name = _parts(method, params)
    tool = f"mcp__{place.server}__{name}"
    content = f"{tool}({json.dumps(given, ensure_ascii=False)})"
    if more:
        content += f" with {json.dumps(more, ensure_ascii=False)}"
    action = Action(
        content,
        type=FUNCTION,
        cwd=place.cwd,
        project=place.project,
        interpreter=("mcp", place.server),
        agent=place.agent,
        call_id=call_id,
        tool=tool,
        arguments=_arguments(given),
    )
    if len(content) > MOST_SHOWN:
        why = f"what {name} is given is too long to be shown ({len(content)} characters, at most {MOST_SHOWN})"
        raise Unfit(why, WRONG_PARAMS)
    path = _path(given["uri"]) if method == "resources/read" and place.local and not more else ""
    return action if not path else _reads(action, path)


def beyond_arguments(request: Message) -> frozenset[str]:
    """Return the names of what the server is given besides the arguments, of which no rule speaks."""
    return frozenset(_parts(request["method"], request.get("params") or {})[1])


def protocol_of(request: Message) -> str:
    """Return the version of the protocol that a request itself says it speaks (since 2026-07-28); "" where it is said
    by `initialize`.
    """
    meta = (request.get("params") or {}).get(_META)
    version = meta.get(_VERSION) if isinstance(meta, dict) else ""
    return version if isinstance(version, str) else ""


def _parts(method: str, params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], str]:
    """What it is given, what else the server gets, and the name of the tool, or the method."""
    meta = params.get(_META) or {}
    odd = {f"{_META}/{key}": value for key, value in meta.items() if not _tells_nothing(key, value)}
    if method != CALL:
        return {key: value for key, value in params.items() if key != _META}, odd, method
    name = params["name"]
    if not _TOOL.fullmatch(name):
        raise Unfit("the name of a tool has letters, digits, and _ . : - only", WRONG_PARAMS)
    rest = {key: value for key, value in params.items() if key not in ("name", "arguments", _META)}
    return dict(params.get("arguments") or {}), rest | odd, name


def _tells_nothing(key: str, value: Any) -> bool:
    if key.startswith(_PROTOCOL):
        return len(json.dumps(value)) <= 4_000
    return key in _KNOWN_META and (type(value) is int or (isinstance(value, str) and len(value) <= 500))


def _arguments(given: Mapping[str, Any]) -> str:
    try:
        return tool_arguments(given)
    except (ValueError, RecursionError) as error:
        raise Unfit(f"what it is given can't be told: {error}", WRONG_PARAMS) from None


def _path(uri: str) -> str:
    """The path that an address of a file names beyond doubt; "" where there is one."""
    if not uri.startswith("file:///") or any(sign in uri for sign in "?#;\\") or not uri.isascii():
        return ""
    try:
        path = unquote_to_bytes(urlsplit(uri).path).decode()
    except ValueError:
        return ""
    plain = path.isprintable() and "%" not in path and "//" not in path and "\\" not in path
    return path if plain and path == path.strip() and not {".", ".."} & set(path.split("/")) else ""


def _reads(action: Action, path: str) -> Action:
    """The same as what it does to a file of this machine."""
    return Action(
        f"cat -- {shlex.quote(path)}",
        cwd=action.cwd,
        project=action.project,
        agent=action.agent,
        call_id=action.call_id,
        tool=action.tool,
        arguments=action.arguments,
    )
