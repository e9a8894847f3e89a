"""The escapes of `$'...'`."""

import re

from humanlayer_agent.shell.syntax.refusal import Unparsed

_SINGLE = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c([A-Za-z])|(.))", re.DOTALL
)


def decode(text: str) -> str:
    """The value of `$'text'`.

    Raises:
        Unparsed: an escape whose value depends on the locale (above ASCII), ends the string (NUL), or is unclear.
    """
    return _ESCAPE.sub(_value, text)


def _value(found: re.Match[str]) -> str:
    octal, byte, short, long, control, other = found.groups()
    if control:
        return chr(ord(control) & 0x1F)
    if other:
        if other in "xuUc":
            raise Unparsed("escape in $' not understood")
        # bash keeps the backslash of an escape that it does not know
        return _SINGLE.get(other) or "\\" + other
    code = int(octal, 8) & 0xFF if octal else int(byte or short or long, 16)
    if not 0 < code < 0x80:
        raise Unparsed("escape in $' above ASCII or NUL")
    return chr(code)
