"""The standard input of a command, where that stands in the command line: here-documents, what is printed.

Some programs read a password there, some a script of their own with one in it, and shells read commands.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from humanlayer_agent.redaction.program_secrets import Token, lines, listed, programs, secret_value, token_of
from humanlayer_agent.redaction.secret_names import is_secret_name
from humanlayer_agent.redaction.text_secrets import Span
from humanlayer_agent.shell import syntax_tree

_WRITTEN = re.compile(r"-[neEr]+|(?:%[sb]|\\n)*|-")
_SCRIPT = re.compile(r"(?:\.(?:sh|bash|zsh|envrc)|\bDockerfile|\bMakefile)$")
_INTERPRETED = re.compile(r"#!\s*\S*(?:/env\s+(?:-S\s+)?)?\S*sh\b")
_ASKS = re.compile(r"(?i)--?[\w-]*(?:pass|key|secret|token|psk)[\w-]*=?|preshared-key|private-key")
_COMMANDS = re.compile(r"(?:ASKPASS|PASS(?:WORD|PHRASE)?_?(?:COMMAND|CMD))$")
_PRINTS = re.compile(r"""(?:echo|printf)\s+(?:-n\s+|['"]?%s\S*\s+)?['"]?(?P<value>[^\s'"$`;|&]+)['"]?""")
_PAIR = re.compile(r"[^\s:]+:(?P<value>[^\s:]+)")

Commands = Callable[[str], list[Span]]


def nodes(script: syntax_tree.Script) -> Iterator[syntax_tree.Node]:
    """Every node of `script`, at any depth, those of substitutions too."""
    if script.body is not None:
        yield from below(script.body)


def below(top: syntax_tree.Node) -> Iterator[syntax_tree.Node]:
    """`top` and every node in it."""
    stack = [top]
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


def in_input(node: syntax_tree.Node, text: str, commands: Commands) -> Iterator[Span]:  # noqa: C901
    """Secrets in what the commands of `node` read, or write into files.

    Args:
        commands: finds the secrets of a text that a shell will read.
    """
    if isinstance(node, syntax_tree.Pipeline):
        for before, after in zip(node.parts, node.parts[1:], strict=False):
            if isinstance(after, syntax_tree.Simple):
                tokens = [token_of(word, text) for word in after.words]
                if _reads_secret(tokens):
                    yield from printed(before, text)
                yield from _encoded(before, tokens, text)
                if _writes_secret(tokens):
                    yield from _kept(_printed_words(before, text))
                if _passes_on(tokens, commands):
                    yield from printed(before, text)
                for pattern in _lines(tokens):
                    for token in _printed_words(before, text):
                        yield from _moved(lines(pattern, token.raw), token.start)
    if not isinstance(node, syntax_tree.Simple):
        return
    tokens = [token_of(word, text) for word in node.words]
    secret = _reads_secret(tokens)
    for redirect in node.redirects:
        if redirect.op == "<<<" and secret:
            yield from secret_value(token_of(redirect.target, text), 0, "standard input")
        elif redirect.body is not None and secret:
            yield from _body(redirect.body, text)
        given = _given(redirect)
        if given is not None:
            raw = text[given.start : given.end]
            for pattern in _lines(tokens):
                yield from _moved(lines(pattern, raw), given.start)
            if redirect.body is not None and _is_script(raw, tokens, node):
                yield from _moved(commands(raw), given.start)
        elif redirect.op in (">", ">>", ">|") and _names_secret(redirect.target.text):
            yield from _kept(_printed_words(node, text))
        if redirect.op == "<<<" and _writes_secret(tokens):
            yield from _kept([token_of(redirect.target, text)])
    yield from _handed(node, tokens, text)


def printed(node: syntax_tree.Node, text: str, what: str = "standard input") -> Iterator[Span]:
    """Yield what `echo`, `printf`, or `cat` of a here-document writes, as a secret."""
    for token in _printed_words(node, text):
        yield from secret_value(token, 0, what)
    for each in below(node):
        if isinstance(each, syntax_tree.Simple) and each.words and each.words[0].text == "cat":
            for redirect in each.redirects:
                if redirect.body is not None:
                    yield from _body(redirect.body, text)
                elif redirect.op == "<<<":
                    yield from secret_value(token_of(redirect.target, text), 0, what)


def _printed_words(node: syntax_tree.Node, text: str) -> Iterator[Token]:
    for each in below(node):
        if isinstance(each, syntax_tree.Simple) and each.words and each.words[0].text in listed("printers") - {"cat"}:
            for word in each.words[1:]:
                token = token_of(word, text)
                if not _WRITTEN.fullmatch(token.text):
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


def _given(redirect: syntax_tree.Redirect) -> syntax_tree.Word | None:
    return redirect.target if redirect.op == "<<<" else redirect.body


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


def _encoded(before: syntax_tree.Node, tokens: Sequence[Token], text: str) -> Iterator[Span]:
    """`printf 'user:secret' | base64`"""
    if tokens and tokens[0].text.rpartition("/")[2] == "base64":
        for token in _printed_words(before, text):
            found = _PAIR.fullmatch(token.text.removesuffix("\\n"))
            if found and "%" not in found["value"] and not token.dynamic:
                yield token.part(*found.span("value"), "encoded")
        words = list(_printed_words(before, text))
        if len(words) > 1 and re.fullmatch(r"%s:%s(?:\\n)?", words[0].text):
            yield from secret_value(words[-1], 0, "encoded")


def _handed(node: syntax_tree.Simple, tokens: Sequence[Token], text: str) -> Iterator[Span]:
    """`--password-file <(echo secret)`, `--password-command 'echo secret'`"""
    known = {option for _, rules in programs(tokens) for option in rules.get("handed", ())}
    for assign in node.assigns:
        if _COMMANDS.search(assign.name) and (found := _PRINTS.fullmatch(assign.value.text or "")):
            yield from _part_of(token_of(assign.value, text), found["value"], f"variable {assign.name[:60]}")
    for before, token, word in zip(("", *(t.text for t in tokens)), tokens, node.words, strict=False):
        option = before if not token.text.startswith("-") else token.text.partition("=")[0]
        if not _ASKS.fullmatch(option) and option not in known:
            continue
        for script in word.scripts():
            if "<(" in token.raw or "$(" in token.raw:
                for each in nodes(script):
                    yield from printed(each, text, f"option {option[:60]}")
        if found := _PRINTS.fullmatch(token.text.removeprefix(f"{option}=")):
            yield from _part_of(token, found["value"], f"option {option[:60]}")


def _part_of(token: Token, value: str, what: str) -> Iterator[Span]:
    place = token.text.rfind(value)
    yield token.part(place, place + len(value), what)


def _moved(spans: Iterator[Span] | list[Span], by: int) -> Iterator[Span]:
    return (Span(span.start + by, span.end + by, span.what) for span in spans)
