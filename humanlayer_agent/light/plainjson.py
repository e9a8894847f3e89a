"""JSON by the standard library's own scanner and quoting, without what the import of `json` adds to them.

It is for what this program has written itself: small files of its own, and what is hashed.
"""

TYPE_CHECKING = False  # as typing has it, whose import takes longer than this
if TYPE_CHECKING:
    from json.encoder import encode_basestring as quoted
    from json.scanner import make_scanner
    from typing import Any
else:
    try:
        from _json import encode_basestring as quoted
        from _json import make_scanner
    except ImportError:  # an interpreter without the fast form
        from json import JSONDecoder
        from json.encoder import encode_basestring as quoted

        def make_scanner(_settings):
            return JSONDecoder().scan_once


__all__ = ["loads", "quoted"]


def loads(text: str) -> "Any":
    """The value that `text` is. Raises ValueError where it is none, RecursionError where it is too deep."""
    try:
        value, end = _scanner()(text, 0)
    except StopIteration:
        raise ValueError("not JSON") from None
    if text[end:].strip():
        raise ValueError("not one value")
    return value


class _Settings:
    """What the standard library's decoder has, in its usual form."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int

    def __init__(self) -> None:
        self.memo: dict[str, str] = {}


def _scanner() -> "Any":
    return make_scanner(_Settings())  # type: ignore[arg-type]
