"""The one canonical form of a JSON value (RFC 8785): what is hashed, signed, or compared byte by byte.

Digests of actions, policies, requests, votes and events are over these bytes, also those that are stored already: no
value may ever get other bytes than it had.
"""

from json.encoder import encode_basestring as quoted
from typing import Any


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
        return _written(value).encode()  # most are of this kind, and rfc8785 takes ten times as long
    except (TypeError, UnicodeEncodeError):
        import rfc8785

        return bytes(rfc8785.dumps(value))


def _written(value: Any) -> str:
    """`value` as RFC 8785 wants it. Raises TypeError for what may need more care: see there.

    Keys must be ASCII (their order is that of UTF-16 too), numbers integers that a double holds.
    """
    kind = type(value)
    if kind is str:
        return quoted(value)
    if kind is dict:
        if not all(type(key) is str and key.isascii() for key in value):
            raise TypeError("a key that is not ASCII")
        fields = []
        for key in sorted(value):  # no comprehension: its frame would halve how deep a value may be nested
            fields.append(f"{quoted(key)}:{_written(value[key])}")
        return "{" + ",".join(fields) + "}"
    if kind is list or kind is tuple:
        items = []
        for item in value:
            items.append(_written(item))
        return "[" + ",".join(items) + "]"
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int and -(2**53) < value < 2**53:
        return str(value)
    raise TypeError(f"a {kind.__name__}")


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
