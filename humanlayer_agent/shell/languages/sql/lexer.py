"""The tokens of SQL as SQLite, PostgreSQL and MySQL (MariaDB) each divide a text.

Where a setting of the server or the client decides how a text is divided (backslashes in strings, executable comments,
variables of psql), and the readings differ, the text is not understood.
"""

import re
from enum import Enum
from typing import NamedTuple


class Dialect(Enum):
    """A dialect of SQL; its value is what people call what speaks it."""

    SQLITE = "SQLite"
    POSTGRESQL = "PostgreSQL"
    MYSQL = "MySQL"


class NotUnderstood(Exception):
    """The text, or what a server would make of it, is not certain; its first argument is a sentence that says why."""


class Token(NamedTuple):
    """A token of SQL.

    `kind` is word (an unquoted name or keyword, in lower case), name (a quoted one), string, unknown (a string with
    escapes), number, bind, op or end (`;`).
    `start` and `stop` are its place in the text.
    """

    kind: str
    text: str
    start: int
    stop: int


_NAME = r"[^\W\d][\w$]*"
_BLANK = r"(?P<blank>[ \t\r\n\f\v]+)"
_NUMBER = r"(?P<number>0[xX][0-9a-fA-F]+(?![\w$])|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w$]))"
_OPS = r"(?P<op>::|:=|->>|->|<=>|<=|>=|<>|!=|\|\||&&|==|<<|>>|[-+*/%^!<>=~@#&|?,.()\[\]{}])"
_LINE = r"(?P<line>--[^\n]*)"
_SQLITE = re.compile(
    rf"""{_BLANK}|{_LINE}|(?P<block>/\*.*?(?:\*/|\Z))|(?P<string>'(?:[^']|'')*')
    |(?P<name>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])|(?P<end>;)|(?P<bind>[?][0-9]*|[:@#]{_NAME})
    |{_NUMBER}|(?P<word>{_NAME})|{_OPS}""",
    re.VERBOSE | re.DOTALL,
)
"""https://sqlite.org/lang_comment.html and tokenize.c: comments do not nest, one that is open ends with the text."""
_POSTGRESQL = re.compile(
    rf"""{_BLANK}|(?P<line>--[^\r\n]*)|(?P<block>/\*)|(?P<escaped>[eE]'(?:[^'\\]|''|\\.)*')
    |(?P<odd>[uU]&['"])|(?P<string>(?:[bBxXnN])?'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")*")
    |(?P<dollar>\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$)
    |(?P<end>\\?;)|(?P<meta>\\[^\n]*)|(?P<variable>(?<!:):(?![:=\s])[^\s:])|(?P<bind>\$\d+(?!\w))|{_NUMBER}|(?P<word>{_NAME})|{_OPS}""",
    re.VERBOSE | re.DOTALL,
)
"""The manual's chapter 4.1, and psql's psqlscan.l, which follows it. Block comments nest; `\\;` parts statements
that are sent together."""
_MYSQL = re.compile(
    rf"""{_BLANK}|(?P<line>--(?=[\s]|\Z)[^\n]*|\#[^\n]*)|(?P<odd>--|/\*[!+Mm]|/\*\s*\+)|(?P<block>/\*.*?\*/)
    |(?P<string>(?:[bBxXnN])?'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")|(?P<name>`(?:[^`]|``)*`)
    |(?P<end>;|\\[gG])|(?P<bind>@@?(?:[\w.$]+|`(?:[^`]|``)*`)|@(?=['"]))|{_NUMBER}|(?P<word>{_NAME})|{_OPS}""",
    re.VERBOSE | re.DOTALL,
)
"""The manual's chapters 9.1 and 9.7. `--` begins a comment only before a blank."""
_PATTERNS = {Dialect.SQLITE: _SQLITE, Dialect.POSTGRESQL: _POSTGRESQL, Dialect.MYSQL: _MYSQL}
_NESTED = re.compile(r"/\*|\*/")
_ODD_BACKSLASHES = re.compile(r"(?<!\\)(?:\\\\)*\\['\"]")
"""A quote that a backslash may make a part of the string."""
MAX_TOKENS = 20_000


def tokens(text: str, dialect: Dialect) -> list[Token]:
    """Return the tokens of a text, without comments. Raises NotUnderstood."""
    if "\0" in text or "\ufeff" in text:
        raise NotUnderstood("SQL with a NUL or a byte order mark")
    pattern = _PATTERNS[dialect]
    out: list[Token] = []
    at = 0
    while at < len(text):
        found = pattern.match(text, at)
        if found is None:
            raise NotUnderstood(f"SQL with {text[at]!r}, which is not understood here")
        kind, piece = found.lastgroup or "", found[0]
        if kind == "tag":
            kind = "dollar"
        start, at = at, found.end()
        if kind == "block" and dialect is Dialect.POSTGRESQL:
            at = _past_comment(text, start)
        elif kind == "variable":
            raise NotUnderstood("SQL with a variable of psql")
        elif kind == "odd":
            raise NotUnderstood(f"SQL with {piece}, which depends on the server")
        elif kind not in ("blank", "line", "block"):
            out.append(_token(kind, piece, start, dialect))
        if len(out) > MAX_TOKENS:
            raise NotUnderstood("SQL that is too long")
    return out


def _past_comment(text: str, start: int) -> int:
    """Where a comment ends that others may be in."""
    depth = 0
    for found in _NESTED.finditer(text, start):
        depth += 1 if found[0] == "/*" else -1
        if not depth:
            return found.end()
    raise NotUnderstood("a comment that is not closed")


def _token(kind: str, piece: str, start: int, dialect: Dialect) -> Token:
    stop = start + len(piece)
    if kind == "string":
        quote = piece[-1]
        body = piece[piece.index(quote) + 1 : -1]
        if dialect is not Dialect.SQLITE and _ODD_BACKSLASHES.search(body + quote):
            raise NotUnderstood("a string with a backslash before a quote, which depends on the server's settings")
        if dialect is Dialect.MYSQL and quote == '"' and '""' in body:
            raise NotUnderstood("a quoted text that is a name or a string by the server's settings")
        known = dialect is not Dialect.MYSQL or "\\" not in body
        return Token("string" if known else "unknown", body.replace(quote * 2, quote), start, stop)
    if kind == "escaped":
        body = piece[2:-1]
        return Token("string" if "\\" not in body else "unknown", body.replace("''", "'"), start, stop)
    if kind == "dollar":
        mark = piece.index("$", 1) + 1
        return Token("string", piece[mark:-mark], start, stop)
    if kind == "name":
        quote = piece[-1]
        body = piece[1:-1]
        return Token("name", body if quote == "]" else body.replace(quote * 2, quote), start, stop)
    return Token(kind, piece.lower() if kind == "word" and piece.isascii() else piece, start, stop)
