"""The standard input of a command, where that stands in the command line: here-documents, what is printed.

Some programs read a password there, some a script of their own with one in it, and shells read commands.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from humanlayer_agent.redaction.program_secrets import Token, lines, listed, programs, secret_value, token_of
from humanlayer_agent.redaction.secret_names import is_secret_name
from humanlayer_agent.redaction.text_secrets import Span
from humanlayer_agent.shell import Origin, Origins, syntax_tree

_WRITTEN = re.compile(r"-[neEr]+|(?:%[sb]|\\n)*|-")
_SCRIPT = re.compile(r"(?:\.(?:sh|bash|zsh|envrc)|\bDockerfile|\bMakefile)$")
_INTERPRETED = re.compile(r"#!\s*\S*(?:/env\s+(?:-S\s+)?)?\S*sh\b")
_ASKS = re.compile(r"(?i)--?[\w-]*(?:pass|key|secret|token|psk)[\w-]*=?|preshared-key|private-key")
_COMMANDS = re.compile(r"(?:ASKPASS|PASS(?:WORD|PHRASE)?_?(?:COMMAND|CMD))$")
_PRINTS = re.compile(r"""(?:echo|printf)\s+(?:-n\s+|['"]?%s\S*\s+)?['"]?(?P<value>[^\s'"$`;|&]+)['"]?""")
_PAIR = re.compile(r"[^\s:]+:(?P<value>[^\s:]+)")

Commands = Callable[[str], list[Span]]


def nodes(script: syntax_tree.Script) -> Iterator[syntax_tree.Node]:
    """Yield every node of `script`, at any depth, those of substitutions too."""
    stack = [script.body] if script.body is not None else []
    while stack:
        node = stack.pop()
        yield node
        stack += syntax_tree.children(node)
        inner: list[syntax_tree.Script] = []
        for word in syntax_tree.words_of(node):
            inner += word.scripts()
        if isinstance(node, syntax_tree.Simple):
            for assign in node.assigns:
                inner += syntax_tree.scripts_of(assign.index_parts)
        stack += [each.body for each in inner if each.body is not None]


def in_input(node: syntax_tree.Simple, text: str, origins: Callable[[], Origins], commands: Commands) -> Iterator[Span]:
    """Yield the secrets in what `node` reads, or writes into files.

    Args:
        origins: what the analysis of `text` says about its values.
        commands: finds the secrets of a text that a shell will read.
    """
    tokens = [token_of(word, text) for word in node.words]
    patterns = [*_lines(tokens)]
    if any(redirect.op in (">", ">>", ">|") and _names_secret(redirect.target.text) for redirect in node.redirects):
        yield from _kept(_words(origins().output_of(node), text))
    if any(redirect.body is not None for redirect in node.redirects) or _may_read(tokens, patterns):
        given = origins().input_of(node)
        if _reads_secret(tokens) or _passes_on(tokens, commands):
            yield from values(given, text)
        if _writes_secret(tokens):
            yield from _kept(_words(given, text))
        yield from _encoded([*_words(given, text)], tokens)
        for how, word in given:
            raw = text[word.start : word.end]
            for pattern in patterns if how != "file" else ():
                yield from _moved(lines(pattern, raw), word.start)
            if how == "here-document" and _is_script(raw, tokens, node):
                yield from _moved(commands(raw), word.start)
    yield from _handed(node, tokens, text, origins)


def values(given: Sequence[Origin], text: str, what: str = "standard input") -> Iterator[Span]:
    """Yield what is printed, or written in a here-document or here-string, as a secret."""
    for token in _words(given, text):
        yield from secret_value(token, 0, what)
    for how, word in given:
        if how == "here-document":
            yield from _body(word, text)


def _words(given: Iterable[Origin], text: str) -> Iterator[Token]:
    """The words among what is `given`, without formats and options."""
    for how, word in given:
        token = token_of(word, text)
        if how == "here-string" or (how == "printed" and not _WRITTEN.fullmatch(token.text)):
            yield token


def _reads_secret(tokens: Sequence[Token]) -> bool:
    """Tell whether the standard input of this command is a secret."""
    words = [token.text for token in tokens]
    if any(word.rpartition("/")[2] in listed("shells") for word in words) and "-c" not in words:
        return False  # `sudo -S bash` runs what comes behind the password
    if any(word in ("--password-stdin", "--passphrase-fd", "--with-token") for word in words):
        return True
    for place, rules in programs(tokens):
        stdin = rules.get("stdin", ())
        if stdin == "*" or any(token.text in stdin for token in tokens[place + 1 :]):
            return True
    return False


def _lines(tokens: Sequence[Token]) -> Iterator[str]:
    for _, rules in programs(tokens):
        yield from rules.get("lines", ())


def _body(body: syntax_tree.Word, text: str) -> Iterator[Span]:
    end = body.end - 1 if text[body.end - 1 : body.end] == "\n" else body.end
    if end > body.start:
        yield Span(body.start, end, "standard input")


def _is_script(raw: str, tokens: Sequence[Token], node: syntax_tree.Simple) -> bool:
    """Tell whether what is read, or written to a file, is a text of commands."""
    if _INTERPRETED.match(raw):
        return True
    names = {token.text.rpartition("/")[2] for token in tokens}
    if names & (listed("shells") | listed("scripted")):
        return True
    written = [redirect.target.text or "" for redirect in node.redirects if redirect.op.startswith(">")]
    return any(map(_SCRIPT.search, [*written, *names] if "tee" in names else written))


def _kept(tokens: Iterable[Token]) -> Iterator[Span]:
    """Yield what is written to a file whose name says that it holds a secret; a command in it stays to be seen."""
    for token in tokens:
        if not re.search(r"[\s;|&]", token.text):
            yield from secret_value(token, 0, "content of a file")


def _writes_secret(tokens: Sequence[Token]) -> bool:
    """`tee password.txt`"""
    names = [token.text for token in tokens]
    below = names[1:] if names[:1] == ["sudo"] else names
    return below[:1] == ["tee"] and any(map(_names_secret, below[1:]))


def _may_read(tokens: Sequence[Token], patterns: Sequence[str]) -> bool:
    """Tell whether what comes to the standard input of this command matters at all."""
    names = {token.text.rpartition("/")[2] for token in tokens}
    scripts = names & (listed("shells") | listed("scripted"))
    return bool(patterns or scripts or names & {"base64", "tee", "xargs"}) or _reads_secret(tokens)


def _passes_on(tokens: Sequence[Token], commands: Commands) -> bool:
    """Tell whether what is read becomes a secret operand: `xargs -I{} mysql -p{}`."""
    if not tokens or tokens[0].text != "xargs":
        return False
    sign = next((now.text for before, now in pairwise(tokens) if before.text in ("-I", "-J")), "{}")
    line = " ".join(token.raw.replace(sign, _PROBE) for token in tokens)
    return _PROBE in line and any(_PROBE in line[span.start : span.end] for span in commands(line))


_PROBE = "hLa7Pr0beQx"


def _names_secret(target: str | None) -> bool:
    name, _, ending = (target or "").rpartition("/")[2].lstrip(".").partition(".")
    return ending in ("", "txt", "key", "secret", "token") and is_secret_name(name)


def _encoded(words: Sequence[Token], tokens: Sequence[Token]) -> Iterator[Span]:
    """`printf 'user:secret' | base64`"""
    if not tokens or tokens[0].text.rpartition("/")[2] != "base64":
        return
    for token in words:
        found = _PAIR.fullmatch(token.text.removesuffix("\\n"))
        if found and "%" not in found["value"] and not token.dynamic:
            yield token.part(*found.span("value"), "encoded")
    if len(words) > 1 and re.fullmatch(r"%s:%s(?:\\n)?", words[0].text):
        yield from secret_value(words[-1], 0, "encoded")


def _handed(
    node: syntax_tree.Simple, tokens: Sequence[Token], text: str, origins: Callable[[], Origins]
) -> Iterator[Span]:
    """`--password-file <(echo secret)`, `--password-command 'echo secret'`"""
    known = {option for _, rules in programs(tokens) for option in rules.get("handed", ())}
    for assign in node.assigns:
        if _COMMANDS.search(assign.name) and (found := _PRINTS.fullmatch(assign.value.text or "")):
            yield from _part_of(token_of(assign.value, text), found["value"], f"variable {assign.name[:60]}")
    for before, token, word in zip(("", *(t.text for t in tokens)), tokens, node.words, strict=False):
        option = before if not token.text.startswith("-") else token.text.partition("=")[0]
        if not _ASKS.fullmatch(option) and option not in known:
            continue
        if any(word.scripts()):
            yield from values(origins().substituted(word), text, f"option {option[:60]}")
        if found := _PRINTS.fullmatch(token.text.removeprefix(f"{option}=")):
            yield from _part_of(token, found["value"], f"option {option[:60]}")


def _part_of(token: Token, value: str, what: str) -> Iterator[Span]:
    place = token.text.rfind(value)
    yield token.part(place, place + len(value), what)


def _moved(spans: Iterator[Span] | list[Span], by: int) -> Iterator[Span]:
    return (Span(span.start + by, span.end + by, span.what) for span in spans)
