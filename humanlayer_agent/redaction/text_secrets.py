"""Secrets in text that is not read as a command: here-documents, JSON, URLs, headers, and what looks like a secret.

What they look like is in `secret_patterns`, and the tokens of services are in secrets.yaml.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from humanlayer_agent.redaction.secret_names import data, is_secret_name, is_secret_value
from humanlayer_agent.redaction.secret_patterns import (
    DEFAULT,
    FURTHER_LINE,
    MANIFEST,
    NAMED,
    USERINFO,
    WEB_KEY,
    Pattern,
    is_key,
    text_patterns,
    token_patterns,
)


class Span(NamedTuple):
    """The place of a secret: [start, end) in code points, and in which position it was found."""

    start: int
    end: int
    what: str


class Hints(NamedTuple):
    """What the whole of a text tells about its parts: which patterns may match there, and whether a key is in it."""

    patterns: tuple[Pattern, ...]
    holds_key: bool


_MANIFEST = re.compile(
    r"(?m)^(?P<indent>[ \t]{0,20})(?:stringData|data):[ \t]*\n(?P<block>(?:(?P=indent)[ \t]+[^\n]*+(?:\n|\Z))++)"
)
_ENTRY = re.compile(r"(?m)^[ \t]+[\w.-]+:[ \t]+[\"']?(?P<value>[^\s\"'|>&$][^\s\"']*+)")
_WEB_KEY = re.compile(
    r"(?:(?<![\w.-])(?:d|p|q|dp|dq|qi|k)\\*[\"']?[ \t]*+[:=]\s*+\\*[\"']?|<(?:D|P|Q|DP|DQ|InverseQ|X)>)"
    r"(?P<value>[A-Za-z0-9+/=_-]{16,}+)"
)
_CODE_WORD = re.compile(r"[A-Za-z_][A-Za-z_.]*")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_HEX = re.compile("[0-9a-f]{32}")  # a line of an OpenVPN key
_LONG_PART = 5  # letters: what a name or a path is made of is as long, on the average


def by_itself(text: str) -> Iterator[Span]:
    """Secrets that look like what they are, wherever they stand."""
    for pattern in token_patterns().possible(text):
        for found in pattern.expression.finditer(text):
            yield Span(*found.span(), pattern.what)


def hints(text: str) -> Hints:
    """Return what `text` tells about its parts, for `in_text`."""
    possible = text_patterns().possible(text)
    patterns = tuple(each for each in possible if each.group or each.expression.search(text))
    return Hints(patterns, any(is_key(each) and each.expression.search(text) for each in patterns))


def in_text(text: str, whole: Hints | None = None) -> Iterator[Span]:
    """Every secret that `text` shows by what stands around it. Spans may overlap.

    Args:
        whole: what the text tells that this is a part of, if it is one.
    """
    told = whole or hints(text)
    for pattern in told.patterns:
        yield from _READERS.get(pattern.what, _plain)(pattern, text)
    if told.holds_key:
        for line in key_lines(text):
            yield Span(*line, "private key")


def key_lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of what can be lines of a private key, where it is known that there is one."""
    for found in FURTHER_LINE.finditer(text):
        value = found["value"]
        mixed = not (value.islower() or value.isupper() or value.isdigit())
        random = value.endswith("=") or len(value) < _LONG_PART * len(_PART.findall(value))
        if (mixed and random) or _HEX.fullmatch(value):
            yield found.span("value")


def _plain(pattern: Pattern, text: str) -> Iterator[Span]:
    for found in pattern.expression.finditer(text):
        yield from _span(found, pattern.group, pattern.what)


def _span(found: re.Match[str], group: str, what: str) -> Iterator[Span]:
    start, end = found.span(group)
    value = found[group]
    start += len(value) - len(value.lstrip())
    end -= len(value) - len(value.rstrip())
    if start < end and not _only_expansion(value.strip()) and is_secret_value(value):
        yield Span(start, end, what)


def _userinfo(pattern: Pattern, text: str) -> Iterator[Span]:
    for found in pattern.expression.finditer(text):
        start, end = found.span("value")
        name, colon, password = found["value"].partition(":")
        if colon:
            if password and not _only_expansion(password) and is_secret_value(password):
                yield Span(start + len(name) + 1, end, "URL")
        elif len(name) >= 16 and any(char.isdigit() for char in name) and not _only_expansion(name):
            yield Span(start, end, "URL")  # https://TOKEN@host


def _default(pattern: Pattern, text: str) -> Iterator[Span]:
    """`${PASSWORD:-value}`"""
    for found in pattern.expression.finditer(text):
        if is_secret_name(found["name"], variable=True):
            yield from _span(found, "value", f"default of {found['name'][:60]}")


def _web_key(_: Pattern, text: str) -> Iterator[Span]:
    """The numbers of a private key in JSON (JWK) or XML that are not those of the public one."""
    for found in _WEB_KEY.finditer(text):
        yield from _span(found, "value", "private key")


def _manifest(_: Pattern, text: str) -> Iterator[Span]:
    """The values of a Kubernetes `Secret`."""
    for found in _MANIFEST.finditer(text):
        for entry in _ENTRY.finditer(text, *found.span("block")):
            yield from _span(entry, "value", "Secret")


def _named(pattern: Pattern, text: str) -> Iterator[Span]:
    """`name = value` in any notation, where the name says that it is a secret and the value is written out."""
    for found in pattern.expression.finditer(text):
        name, value = found["name"], found["value"]
        if _SCHEME.fullmatch(value) or not (
            is_secret_name(name.rpartition(".")[2], variable=name.isupper()) or _is_short(found)
        ):
            continue
        start, end = found.span("value")
        if _closes(text, found):
            continue
        quoted = value[0] in "\"'" or value.startswith('\\"')
        if quoted:
            lead = 2 if value[0] == "\\" else 1
            start, end = start + lead, end - 1
            if text[end - 1 : end] == "\\":
                end -= 1
        elif found["after"] or _is_code(found, value):
            continue
        value = text[start:end]
        if value and not _only_expansion(value) and is_secret_value(value):
            yield Span(start, end, f"value of {name[:60]}")


def _is_short(found: re.Match[str]) -> bool:
    """`"pwd": "value"`, `pass="value"`: a name that is a secret's only where a written value follows."""
    value = found["value"].lstrip("\\")
    return found["name"].lower() in _short() and value[0] in "\"'" and not re.search(r"\s", value)


@cache
def _short() -> frozenset[str]:
    return frozenset(data()["names"]["short"])


def _closes(text: str, found: re.Match[str]) -> bool:
    """Tell whether the quote before what looks like a value ends a text: `expect "password:"; send "x"`."""
    start = found.start("value")
    quote = text[start]
    if quote not in "\"'" or text[found.end("name") : found.end("name") + 1] == quote:
        return False
    line = text.rfind("\n", 0, start) + 1
    return text.count(quote, line, start) % 2 == 1 and bool(_PUNCTUATION.match(text, start + 1))


_PUNCTUATION = re.compile(r"[;,)\]}{\s]")


def _is_code(found: re.Match[str], value: str) -> bool:
    """Tell whether a bare value is rather a name in a program (`password = getpass`, `f(token=token)`), or prose."""
    if not _CODE_WORD.fullmatch(value):
        return False
    if found["sep"] in ("=", ":"):
        return (found["name"].islower() and value == found["name"]) or "." in value
    if found["sep"].strip() == ":":  # YAML: `password: hunter`
        return value in _TYPES or bool(found.string[found.end("value") :].partition("\n")[0].strip())
    return True


_TYPES = frozenset({"str", "int", "bytes", "string", "number", "any", "Any", "Optional", "None", "bool", "object"})
_SCHEME = re.compile(r"(?i)bearer|basic|token|digest|apikey|key")


def _only_expansion(value: str) -> bool:
    return bool(_EXPANSION.fullmatch(value))


_EXPANSION = re.compile(r"(?:\$[A-Za-z0-9_@*#?!$-][A-Za-z0-9_]*|\$\{[A-Za-z0-9_]+\}|\$\([^()]*\)|`[^`]*`|\\)+")
"""`$NAME`, `${NAME}`, `$(command)`: what is secret about these does not stand in the text."""


_READERS: dict[str, Callable[[Pattern, str], Iterator[Span]]] = {
    USERINFO.what: _userinfo,
    NAMED.what: _named,
    DEFAULT.what: _default,
    MANIFEST.what: _manifest,
    WEB_KEY.what: _web_key,
}
"""What reads the matches of a pattern further; of all others the group is the secret."""
