"""Secrets in text that is not read as a command: here-documents, JSON, URLs, headers, and what looks like a secret.

Every pattern is linear in the length of the text: it may come from an agent.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from humanlayer_agent.redaction.secret_names import data, is_secret_name, is_secret_value


class Span(NamedTuple):
    """The place of a secret: [start, end) in code points, and in which position it was found."""

    start: int
    end: int
    what: str


_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----(?P<body>"
    r"(?:(?:\s|\\[nr]|[\"',+])*+(?:[A-Za-z0-9+/=]{16,}+|(?:Proc-Type|DEK-Info|Version|Comment): [^\n\\]*+))*+"
    r"(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{1,15}(?=(?:\s|\\[nr])*+[-=]))?)"
)
_PUTTY = re.compile(r"Private-Lines: \d++\s++(?P<body>(?:[A-Za-z0-9+/=]{16,}+\s*+)++)")
_USERINFO = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://(?P<info>[^\s/?#'\"<>@]{1,500}+)@")
_HEADER = re.compile(
    r"(?i)\b(?:(?:proxy-)?authorization|x-[a-z0-9-]{0,40}?(?:token|key|secret|auth|password)|(?:set-)?cookie"
    r"|api-?key|(?:private|job|deploy)-token)[\"']?(?:\\?[ \t])*+[:=](?:\\?[ \t])*+[\"']?"
    r"(?:(?:bearer|basic|token|digest|apikey|key)(?:\\?[ \t])++)?(?P<value>[^\s\"'`\\;]{1,4000}+)"
)
_BEARER = re.compile(r"(?i)\bbearer[ \t]++(?P<value>[A-Za-z0-9._~+/=-]{8,}+)")
_NAMED = re.compile(
    r"(?<![A-Za-z0-9_])(?<!\$\{)(?P<name>[A-Za-z_][A-Za-z0-9_.\-]{0,80}+)(?:\\?[\"']?\]?)"
    r"(?P<sep>[ \t]*+(?:=>|:=|[:=])(?![:=/])[ \t]*+)"
    r"(?=(?P<value>\\?\"[^\"\n]{0,2000}+\"|'[^'\n]{0,2000}+'|[^\s\"'`,;&|<>(){}\[\]]{1,2000}+)(?P<after>[(\[{.]?))"
)
_DEFAULT = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]{0,80}+):?[-=+](?P<value>[^{}$`]{1,2000}+)\}")
_NETRC = re.compile(
    r"\b(?:machine[ \t]++\S++|default|login)[ \t\n]++(?:login[ \t]++)?\S*+[ \t\n]++password[ \t]++(?P<value>\S++)"
)
_PGPASS = re.compile(r"(?m)(?:^|(?<=['\"]))[\w.*-]+:(?:\d{2,5}|\*):[\w*-]+:[\w*-]+:(?P<value>[^\s'\"]+)(?:$|(?=['\"]))")
_SQL = re.compile(
    r"(?i)\b(?:identified\s{1,20}(?:with\s{1,20}\S{1,60}\s{1,20})?by|(?:with\s{1,20})?password(?:\s{1,20}for\s{1,20}\S{1,60})?)\s{1,20}(?:=\s{0,5})?\\?(?P<q>['\"])(?P<value>[^'\"\n]{1,500}+)"
)
_SQL_SET = re.compile(
    r"(?i)\bpassword(?:\s{0,5}\(\s{0,5}['\"]|\s{1,20}(?P<d>\\?\$\\?\$))(?P<value>[^'\"\s$\\)]{1,500}+)"
)
_QUERY = re.compile(
    r"(?i)(?<=[?&,;])(?:pass|pw|pwd|psk|auth|sig|signature|x-(?:amz|goog)-signature)=(?P<value>[^&,\s\"'#:]{6,2000}+)"
)
_PAIR = re.compile(
    r"(?:\bauth\s{0,5}=\s{0,5}\(|(?:BasicAuth|DigestAuth|\.auth|\.login|(?i:(?:change|set|reset)\w{0,20}password))\()"
    r"\s{0,5}(?P<q>\\?[\"'])[^\"'\n]{0,200}[\"']\s{0,5},\s{0,5}\\?[\"'](?P<value>[^\"'\s\\]{1,500}+)"
)
_SENT = re.compile(
    r"\.send(?:line)?\(\\?[\"'](?P<value>(?=[^\"']{0,200}[0-9])(?=[^\"']{0,200}[A-Za-z])[^\"'\s\\/]{6,200}+)"
)
_PRAGMA = re.compile(r"(?i)\bpragma\s{1,9}(?:hex)?(?:re)?key\s{0,9}=\s{0,9}[\"'](?P<value>[^\"'\s]{1,500}+)")
_AUTH = re.compile(r"\\?\"auth\\?\"\s{0,9}:\s{0,9}\\?\"(?P<value>[A-Za-z0-9+/=]{12,2000}+)")
_SAID = re.compile(
    r"(?i)\b(?:password|passphrase|passcode|secret|token)\s{1,5}is\s{1,5}"
    r"(?P<value>(?=[^\s'\".,;]{0,99}[0-9])(?=[^\s'\".,;]{0,99}[A-Za-z])[^\s'\".,;]{8,100}+)"
)
_MANIFEST = re.compile(
    r"(?m)^(?P<indent>[ \t]{0,20})(?:stringData|data):[ \t]*\n(?P<block>(?:(?P=indent)[ \t]+[^\n]*+(?:\n|\Z))++)"
)
_ENTRY = re.compile(r"(?m)^[ \t]+[\w.-]+:[ \t]+[\"']?(?P<value>[^\s\"'|>&$][^\s\"']*+)")
_SHADOW = re.compile(r"\$(?:1|2[aby]|5|6|7|y|apr1|argon2\w{1,2})\$(?P<value>[./A-Za-z0-9$=,+]{16,}+)")
_NEEDED = re.compile(r"[=:$]|(?i:bearer|password|identified|auth|login|send|secret is|token is|pass\w{4} is)")
"""One of these stands in whatever the patterns above find: most words of a command are passed over by it."""

_LONG = re.compile(r"[A-Za-z0-9_-]{9}")
"""So long is a part of every secret that shows by itself."""

_CODE_WORD = re.compile(r"[A-Za-z_][A-Za-z_.]*")

_SIMPLE = (
    (_KEY_BLOCK, "body", "private key"),
    (_PUTTY, "body", "private key"),
    (_BEARER, "value", "header"),
    (_NETRC, "value", "netrc"),
    (_PGPASS, "value", "pgpass"),
    (_SQL, "value", "SQL password"),
    (_SQL_SET, "value", "SQL password"),
    (_QUERY, "value", "query"),
    (_PAIR, "value", "argument"),
    (_SENT, "value", "argument"),
    (_PRAGMA, "value", "SQL key"),
    (_AUTH, "value", "value of auth"),
    (_SAID, "value", "said"),
    (_SHADOW, "value", "password hash"),
)


def by_itself(text: str) -> Iterator[Span]:
    """Secrets that look like what they are, wherever they stand."""
    if not _LONG.search(text):
        return
    names, pattern = _prefixes()
    for found in pattern.finditer(text):
        yield Span(*found.span(), names[found.lastgroup or ""])


def in_text(text: str) -> Iterator[Span]:
    """Every secret that `text` shows by what stands around it. Spans may overlap."""
    if not _NEEDED.search(text):
        return
    for pattern, group, what in _SIMPLE:
        for found in pattern.finditer(text):
            yield from _span(found, group, what)
    if "://" in text:
        yield from _userinfo(text)
    for found in _HEADER.finditer(text):
        yield from _span(found, "value", "header")
    yield from _named(text)
    if "kind: Secret" in text:
        yield from _manifest(text)
    for found in _DEFAULT.finditer(text):
        if is_secret_name(found["name"], variable=True):
            yield from _span(found, "value", f"default of {found['name'][:60]}")


def _span(found: re.Match[str], group: str, what: str) -> Iterator[Span]:
    start, end = found.span(group)
    value = found[group]
    start += len(value) - len(value.lstrip())
    end -= len(value) - len(value.rstrip())
    if start < end and not _only_expansion(value.strip()) and is_secret_value(value):
        yield Span(start, end, what)


def _userinfo(text: str) -> Iterator[Span]:
    for found in _USERINFO.finditer(text):
        start, end = found.span("info")
        name, colon, password = found["info"].partition(":")
        if colon:
            if password and not _only_expansion(password) and is_secret_value(password):
                yield Span(start + len(name) + 1, end, "URL")
        elif len(name) >= 16 and any(char.isdigit() for char in name) and not _only_expansion(name):
            yield Span(start, end, "URL")  # https://TOKEN@host


def _manifest(text: str) -> Iterator[Span]:
    """The values of a Kubernetes `Secret`."""
    for found in _MANIFEST.finditer(text):
        for entry in _ENTRY.finditer(text, *found.span("block")):
            yield from _span(entry, "value", "Secret")


def _named(text: str) -> Iterator[Span]:
    """`name = value` in any notation, where the name says that it is a secret and the value is written out."""
    for found in _NAMED.finditer(text):
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


@cache
def _prefixes() -> tuple[dict[str, str], re.Pattern[str]]:
    """The patterns of secrets.yaml in one, and what each of its groups is called there."""
    listed = list(data()["prefixes"].items())
    names = {f"p{number}": what for number, (what, _) in enumerate(listed)}
    return names, re.compile("|".join(f"(?P<p{number}>{pattern})" for number, (_, pattern) in enumerate(listed)))
