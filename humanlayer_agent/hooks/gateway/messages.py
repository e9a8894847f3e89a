"""JSON-RPC messages as MCP's stdio has them: one JSON object a line. https://modelcontextprotocol.io/specification

What a client has sent is read strictly: whatever two programs could read in two ways is refused (a key twice, or twice
but for its case, as Go's decoder does not tell apart). What goes on to the server is written anew from what was read.
"""

import json
import math
import os
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

Message = dict[str, Any]
Id = int | str

LONGEST = 16 * 1024 * 1024
"""Bytes that one message may have."""
NOT_JSON, NOT_A_REQUEST, NO_METHOD, WRONG_PARAMS, REFUSED = -32700, -32600, -32601, -32602, -32000
"""Codes of errors, the last of which is the gateway's own."""
_CHUNK = 65536
_KEYS = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})


class Unfit(Exception):
    """What was read is no message, or none that may go on.

    Args:
        why: in a sentence, for whoever has sent it.
        code: of the error it is answered with.
        id: of the request that it is, as far as that is known.
    """

    def __init__(self, why: str, code: int = NOT_A_REQUEST, id: Id | None = None) -> None:
        super().__init__(why)
        self.code, self.id = code, id


def lines(descriptor: int) -> Iterator[bytes | None]:
    """Yield each line that can be read, without its end, up to the last one that has one; None for one that is longer
    than `LONGEST`.
    """
    kept, too_long = bytearray(), False
    while chunk := os.read(descriptor, _CHUNK):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            kept += part
            yield None if too_long or len(kept) > LONGEST else bytes(kept)
            kept, too_long = bytearray(), False
        kept += rest
        if len(kept) > LONGEST:
            kept, too_long = bytearray(), True


def from_client(line: bytes) -> Message:
    """Return the message that a client has sent.

    Raises:
        Unfit: it is none, or could be read in several ways.
    """
    message = _read(line, strict=True)
    known = message.get("id") if _is_id(message.get("id")) else None
    if unknown := message.keys() - _KEYS:
        raise Unfit(f"a message has no {_named(unknown)}", id=known)
    if message.get("jsonrpc") != "2.0":
        raise Unfit('a message says "jsonrpc": "2.0"', id=known)
    if "id" in message and known is None:
        raise Unfit("the id of a request is a text or a whole number")
    if "method" in message:
        if not isinstance(message["method"], str) or message.keys() & {"result", "error"}:
            raise Unfit("a request has a method, which is a text, and no result", id=known)
        if not isinstance(message.get("params", {}), dict):
            raise Unfit("params are given by name, as an object", WRONG_PARAMS, known)
    elif "id" not in message or ("result" in message) == ("error" in message) or "params" in message:
        raise Unfit("a message is a request, a notification or a response", id=known)
    return message


def from_server(line: bytes) -> Message:
    """Return the message that a server has sent. Of a key that stands there twice, the last counts, and goes on.

    Raises:
        Unfit: it is none.
    """
    message = _read(line, strict=False)
    if "id" in message and not (_is_id(message["id"]) or message["id"] is None):
        raise Unfit("the id is neither a text nor a whole number")
    if not isinstance(message.get("method", ""), str):
        raise Unfit("the method is no text")
    return message


def written(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line: of ASCII, so that nothing in it ends a line for anybody.

    Example:
        >>> written({"jsonrpc": "2.0", "method": "ping"})
        b'{"jsonrpc":"2.0","method":"ping"}\\n'
    """
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def error(id: Id | None, code: int, why: str) -> Message:
    """Return the response that says why there is no result."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": why}}


def same_but_for_case(text: str) -> str:
    """Return what texts have in common that differ only in case, blanks, or in characters that stand for others."""
    return "".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def _read(line: bytes, *, strict: bool) -> Message:
    try:
        text = line.decode()
        found = json.loads(
            text,
            object_pairs_hook=_object if strict else None,
            parse_float=_number if strict else None,
            parse_constant=_no_number if strict else None,
        )
        if strict:
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeError:
        raise Unfit("it is not valid Unicode", NOT_JSON) from None
    except (ValueError, RecursionError) as error:
        raise Unfit(f"it is not JSON as it is taken here: {error}", NOT_JSON) from None
    if isinstance(found, list):
        raise Unfit("messages are taken one by one, never as a batch")
    if not isinstance(found, dict):
        raise Unfit("a message is an object")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len({key.casefold() for key in found}) < len(pairs):
        raise ValueError("an object has a key twice, or two that differ in nothing but case")
    return found


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _is_id(value: Any) -> bool:
    return type(value) in (int, str)


def _named(names: set[str]) -> str:
    return ", ".join(ascii(name[:40]) for name in sorted(names)[:5])
