"""One text, quoted in many ways. bash reads each of them as the same word."""

import random
import re
from collections.abc import Callable

Spell = Callable[[str, random.Random], str | None]
"""Another spelling of a text, or None where there is none of this kind."""

_PLAIN = re.compile(r"[A-Za-z0-9_./,:@%+-]+", re.ASCII)


def plain(text: str) -> bool:
    """Whether bash takes `text` as it is, unquoted, also as the value of a variable that is split and globbed."""
    return _PLAIN.fullmatch(text) is not None


def bare(text: str) -> str:
    """The shortest spelling: unquoted where that is possible."""
    return text if plain(text) else single(text)


def single(text: str) -> str:
    """'text'"""
    return "'" + text.replace("'", "'\\''") + "'"


def double(text: str) -> str:
    """ "text" """
    return '"' + re.sub(r'([\\$"`])', r"\\\1", text) + '"'


def backslashes(text: str) -> str:
    r"""\t\e\x\t. A newline can't be quoted so: a backslash takes it away."""
    return "".join("$'\\n'" if c == "\n" else f"\\{c}" for c in text) or "''"


def octal(text: str) -> str:
    r"""$'\164...'"""
    return "$'" + "".join(f"\\{byte:03o}" for byte in text.encode()) + "'"


def hexadecimal(text: str) -> str:
    r"""$'\x74...'"""
    return "$'" + "".join(f"\\x{byte:02x}" for byte in text.encode()) + "'"


def code_points(text: str, digits: str = "u%04x") -> str:
    r"""$'\u0074...'. What is not ASCII stays, because its decoding depends on the locale."""
    return "$'" + "".join(f"\\{digits % ord(c)}" if ord(c) < 128 else c for c in text) + "'"


def long_code_points(text: str) -> str:
    r"""$'\U00000074...'"""
    return code_points(text, "U%08x")


def ansi(text: str) -> str:
    """$'text', with only those escapes that it needs."""
    return "$'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t") + "'"


def translated(text: str) -> str:
    """$"text": the text in the language of the locale, which is itself without a catalogue of messages."""
    return "$" + double(text)


def empty_between(text: str, chance: random.Random) -> str:
    """t''e""x''t: nothing, quoted, between the characters."""
    return "".join(bare(c) + chance.choice(("''", '""')) for c in text) or "''\"\""


def mixed(text: str, chance: random.Random) -> str:
    """Each character quoted in a way of its own."""
    ways: tuple[Callable[[str], str], ...] = (single, double, backslashes, octal, hexadecimal, bare)
    return "".join(chance.choice(ways)(c) for c in text) or "''"


def printf_format(text: str) -> str:
    r"""A format with which printf prints `text`: '\164...'"""
    return "'" + "".join(f"\\{byte:03o}" for byte in text.encode()) + "'"


def here_document(text: str) -> str:
    """`text` as the body of a here-document that is expanded."""
    return re.sub(r"([\\$`])", r"\\\1", text)


def _always(spell: Callable[[str], str]) -> Spell:
    return lambda text, chance: spell(text)


SPELLINGS: dict[str, Spell] = {
    "single-quotes": _always(single),
    "double-quotes": _always(double),
    "backslashes": _always(backslashes),
    "octal-escapes": _always(octal),
    "hex-escapes": _always(hexadecimal),
    "unicode-escapes": _always(code_points),
    "long-unicode-escapes": _always(long_code_points),
    "translated-quotes": _always(translated),
    "empty-quotes": empty_between,
    "mixed-quotes": mixed,
}
