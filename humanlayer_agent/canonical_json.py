"""The one canonical form of a JSON value (RFC 8785): what is hashed, signed, or compared byte by byte.

Digests of actions, policies, requests, votes and events are over these bytes, also those that are stored already: no
value may ever get other bytes than it had.
"""

import json
from typing import Any

_written = json.JSONEncoder(ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")).encode
"""What `_is_plain` of holds is written as RFC 8785 wants it: with no more escapes than those of JSON, in one order."""

_SURELY_FLAT = 100  # so many brackets never nest too deeply; some versions of Python write what `_is_plain` can't read


def canonical(value: Any) -> bytes:
    r"""Return the RFC 8785 canonical JSON of a value.

    Raises:
        ValueError: it has no canonical form: not a number, an integer beyond 2**53, a lone surrogate (see `encodable`),
            a key that is no text, something that JSON does not know.
        RecursionError: it is nested too deeply, beyond what `loggable` takes.

    Example:
        >>> canonical({"b": 1.0, "a": ["\u00e9", None]})
        b'{"a":["\xc3\xa9",null],"b":1}'
    """
    try:
        if _is_plain(value):
            return _written(value).encode()  # most are of this kind, and rfc8785 takes many times as long
    except UnicodeEncodeError:
        pass
    import rfc8785

    return bytes(rfc8785.dumps(value))


def is_canonical(body: bytes, value: Any) -> bool:
    """Tell whether `body` is the canonical JSON of `value`, which was read from it and holds no number but integers
    that a double holds.

    Raises:
        ValueError, RecursionError: as `canonical` does.

    Example:
        >>> is_canonical(b'{"a":1,"b":[]}', {"a": 1, "b": []}), is_canonical(b'{"a":1, "b":[]}', {"a": 1, "b": []})
        (True, False)
    """
    # What is written the same in ASCII has keys of ASCII, so that all of `value` is plain: nothing needs a look.
    short = body.isascii() and body.count(b"[") + body.count(b"{") <= _SURELY_FLAT
    return (short and _written(value).encode("utf-8", "surrogatepass") == body) or canonical(value) == body


def _is_plain(value: Any) -> bool:
    """Tell whether nothing in `value` needs more care: keys are ASCII (their order is that of UTF-16 too), numbers are
    integers that a double holds.
    """
    kind = type(value)
    if kind is dict:
        if set(map(type, value)) - {str} or not "".join(value).isascii():
            return False
        value = value.values()
    elif kind is not list and kind is not tuple:
        return kind is str or kind is bool or value is None or (kind is int and -(2**53) < value < 2**53)
    further = [item for item in value if type(item) is not str]
    while further:  # no generator: its frame would halve how deep a value may be nested
        if not _is_plain(further.pop()):
            return False
    return True


def encodable(text: str) -> str | dict[str, str]:
    """Return `text` itself, or `{"base64": ..., "encoding": ...}` where it is not valid Unicode (lone surrogates).

    The encoding stands in it because two texts may have the same bytes in different ones.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        encoding = "surrogateescape"  # undecodable bytes from the operating system
        try:
            raw = text.encode("utf-8", encoding)
        except UnicodeEncodeError:
            encoding = "surrogatepass"  # a lone surrogate, say from a JSON escape
            raw = text.encode("utf-8", encoding)
        import base64

        return {"base64": base64.b64encode(raw).decode(), "encoding": encoding}
    return text
