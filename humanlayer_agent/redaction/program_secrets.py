"""The secrets that programs are given: the options, operands and settings of each that are secret (secrets.yaml)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from humanlayer_agent.redaction.secret_names import data, is_secret_name, is_secret_value
from humanlayer_agent.redaction.text_secrets import Span
from humanlayer_agent.shell import syntax_tree

_SEPARATORS = {"pair": ":", "tagged": ":", "percent": "%", "comma": ",", "equals": "="}
_LOGIN = re.compile(
    r"""[\w.$#]+/"?(?P<value>(?![^\s@]*\.(?:sql|dmp|ctl|par|log|dat|csv)$)[^\s"@/]+)"?(?:@\S*)?(?:\s+as\s+\w+)?""",
    re.IGNORECASE,
)
_FORM = re.compile(r"(?:^|[&,;\s])(?:\w*(?:pass|pw|pwd|psk|pin)|auth|sig)=(?P<value>[^&,;\s]+)")
_FOUND = re.compile(r"\$\((?:which|command -v|type -P) ([\w./-]+)\)")
_QUOTES = re.compile(r"'([^']*)'?|\"((?:\\.|[^\"\\])*)\"?|\\(.)", re.DOTALL)
_HEADER = re.compile(r"\s*(?P<name>[\w-]+)\s*:\s*(?P<value>.*)", re.DOTALL)
_SCHEMES = re.compile(r"(?i)\s*(?:bearer|basic|token|digest|apikey|key)\s*")


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a command: its source text from `start`, what it is after quote removal, and whether it expands."""

    raw: str
    text: str
    start: int
    literal: str
    dynamic: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.raw)

    def span(self, offset: int, what: str) -> Span:
        """The part of the word that begins with character `offset` of its text; all of it where that can't be told."""
        head, tail = self.text[:offset], self.text[offset:]
        start = self.start
        lead = self.raw.find(head) if head else 0
        if lead < 0 or (not self.dynamic and tail not in self.raw):
            return Span(self.start, self.end, what)
        start += lead + len(head)
        end = self.end
        rest = self.raw[lead + len(head) :]
        if len(rest) > 1 and rest[0] in "'\"" and rest[-1] == rest[0]:
            return Span(start + 1, end - 1, what)
        if self.raw[0] in "'\"" and self.raw[-1] == self.raw[0] and lead >= 1:
            end -= 1
        return Span(start, end, what)

    def part(self, start: int, end: int, what: str) -> Span:
        """The characters [start, end) of the word's text; all of the word where that can't be told."""
        place = self.raw.find(self.text[start:end], start)
        if place < 0:
            return Span(self.start, self.end, what)
        return Span(self.start + place, self.start + place + end - start, what)


def token_of(word: syntax_tree.Word, text: str) -> Token:
    """`word` of the command line `text`."""
    raw = text[word.start : word.end]
    known = word.text if word.text is not None else unquoted(raw)
    literal = known if not word.dynamic else "".join(p.text for p in word.parts if isinstance(p, syntax_tree.Lit))
    return Token(raw, known, word.start, literal, word.dynamic)


def unquoted(raw: str) -> str:
    """`raw` without its quotes, crudely."""
    return _QUOTES.sub(lambda found: found[1] or found[2] or found[3] or "", raw)


def secret_value(token: Token, offset: int, what: str, *, keys: bool = False) -> Iterator[Span]:
    """The value that begins at `offset` of a word's text, where it can be a secret."""
    value = token.text[offset:]
    if token.dynamic:
        literal = token.literal[offset:] if token.literal.startswith(token.text[:offset]) else token.literal
        if not re.search(r"\w", _SCHEMES.sub("", literal)):
            return  # only $NAME or $(command)
    if is_secret_value(value, path_is_harmless=keys or not what.startswith("standard")):
        yield token.span(offset, what)


def programs(tokens: Sequence[Token], *, loosely: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """The programs whose options are known, with their rules: the first word, or what stands below a wrapper.

    `loosely`: what is not known for something else may be a wrapper too.
    """
    table = known_programs()
    names = [_FOUND.sub(r"\1", token.text).rpartition("/")[2].lower() for token in tokens]
    if not names:
        return
    below = names[0] in listed("wrappers") or (loosely and names[0] not in listed("not_wrappers"))
    last = len(names) if below else 1
    for place, name in enumerate(names[:last]):
        for further, rules in table.get(name, ()):
            if further <= {*names[place + 1 :]}:
                yield place, rules


def by_rules(tokens: Sequence[Token], rules: dict[str, Any]) -> Iterator[Span]:
    """The secrets among the words behind a program's name."""
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else None
        for kind in ("value", "beside", "attached", *_SEPARATORS, "header", "cookie", "form"):
            for option in rules.get(kind, ()):
                for holder, offset in _argument(token, following, option, kind):
                    yield from _of_kind(kind, holder, offset, f"option {option}")
        if rules.get("set") and following and not token.text.startswith("-"):
            name = token.text.rpartition("/")[2]
            parts = (name.rpartition(":")[2] or name, name.rpartition(".")[2])
            named = any(is_secret_name(part) or part.lower() in short_names() for part in parts)
            # git's aliases and helpers are commands, and SQL says SET PASSWORD FOR
            if named and not following.text.startswith("!") and following.text.lower() not in ("for", "=", "to", "{"):
                yield from secret_value(following, 0, f"setting {name[:60]}")
        if token.text in rules.get("named", ()) and place + 2 < len(tokens):
            name = tokens[place + 1].text
            if is_secret_name(name) or name.lower() in short_names():
                yield from secret_value(tokens[place + 2], 0, f"argument {name[:60]}")
        for pattern in rules.get("lines", ()):
            for span in lines(pattern, token.raw):
                yield Span(span.start + token.start, span.end + token.start, span.what)
    yield from _operands(tokens, rules)


def _operands(tokens: Sequence[Token], rules: dict[str, Any]) -> Iterator[Span]:
    words: frozenset[str] = rules.get("words", frozenset())
    last = rules.get("last", ())
    given = last == "*" or any(
        token.text == word or token.text.startswith(f"{word}.") for token in tokens for word in last
    )
    if given and len(tokens) > 1 and not tokens[-1].text.startswith("-") and tokens[-1].text.lower() not in words:
        yield from secret_value(tokens[-1], 0, "operand")
    operands = [
        token
        for before, token in zip((None, *tokens), tokens, strict=False)
        if not token.text.startswith("-")
        and token.text.lower() not in words
        and not (before is not None and re.fullmatch("-[A-Za-z]", before.text))  # the value of an option, most likely
    ]
    for number in rules.get("operand", ()):
        if len(operands) >= number:
            yield from secret_value(operands[number - 1], 0, "operand")
    assigned = rules.get("assigned", ())
    for token in operands:
        name, separator, value = token.text.partition("=")
        if separator and value and (assigned == "*" or name in assigned):
            yield from secret_value(token, len(name) + 1, f"operand {name[:60]}")
    for token in tokens if rules.get("login") else ():
        if login := _LOGIN.fullmatch(token.text.partition("userid=")[2] or token.text):
            shift = len(token.text) - len(login[0])
            yield token.part(login.start("value") + shift, login.end("value") + shift, "operand")


def lines(pattern: str, text: str) -> Iterator[Span]:
    """Yield what a pattern of `lines` finds in what a program reads."""
    for found in re.finditer(pattern, text):
        if is_secret_value(found["value"]):
            yield Span(*found.span("value"), "operand")


def _argument(token: Token, following: Token | None, option: str, kind: str) -> Iterator[tuple[Token, int]]:
    """The word that holds the argument of `option`, and where it begins in it."""
    text = token.text
    short = len(option) == 2
    attached = kind == "attached"
    if text == option:
        if following is not None and not attached:
            yield following, 0
    elif kind == "beside":
        return
    elif text.startswith(f"{option}="):
        yield token, len(option) + 1
    elif (short or attached or option.endswith(":")) and text.startswith(option):
        yield token, len(option)
    elif short and not attached and following is not None and re.fullmatch(rf"-[A-Za-z]+{re.escape(option[1])}", text):
        yield following, 0  # -su user:password


def _of_kind(kind: str, token: Token, offset: int, what: str) -> Iterator[Span]:
    value = token.text[offset:]
    if kind in _SEPARATORS:
        before, separator, _ = value.partition(_SEPARATORS[kind])
        if separator and (kind != "tagged" or before == "pass"):
            yield from secret_value(token, offset + len(before) + 1, what)
    elif kind == "form":
        for found in _FORM.finditer(value):
            if not token.dynamic and is_secret_value(found["value"]):
                yield token.part(offset + found.start("value"), offset + found.end("value"), what)
    elif kind == "header":
        named = _HEADER.fullmatch(value)
        if named and is_secret_name(named["name"]):
            begin = named.start("value")
            scheme = _SCHEMES.match(value, begin)
            yield from secret_value(token, offset + (scheme.end() if scheme else begin), "header")
    elif value and (kind != "cookie" or "=" in value):
        yield from secret_value(token, offset, what)


@cache
def known_programs() -> dict[str, list[tuple[frozenset[str], dict[str, Any]]]]:
    """Program -> the operands that it needs, and its rules with them (`words` are those operands)."""
    table: dict[str, list[tuple[frozenset[str], dict[str, Any]]]] = {}
    for names, rules in data()["programs"].items():
        for name in names.split(","):
            first, *further = name.split()
            words = frozenset(further)
            table.setdefault(first, []).append((words, {**(rules or {}), "words": words}))
    return table


@cache
def short_names() -> frozenset[str]:
    """Names that are those of secrets only where it is clear that something is named."""
    return frozenset(data()["names"]["short"])


@cache
def listed(name: str) -> frozenset[str]:
    return frozenset(data()[name])
