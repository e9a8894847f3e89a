"""Secrets that a command gives a name first: `read -r PW <<< secret`, `x=secret; mysql -p"$x"`, `set -- secret`.

What a name holds is secret where the name says so, or where it is used as one: whether `$x` stands where a secret
stands is found out by putting a word in its place and looking for secrets once more.
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import NamedTuple

from humanlayer_agent.audit.secret_input import below
from humanlayer_agent.audit.secret_names import is_secret_name, is_secret_value
from humanlayer_agent.audit.secret_options import Token, listed, short_names, token_of
from humanlayer_agent.audit.secret_texts import Span
from humanlayer_agent.shell.syntax import Function, Loop, Node, Pipeline, Simple

_READERS = {"read": frozenset("dinNptu"), "mapfile": frozenset("dnOsuCc"), "readarray": frozenset("dnOsuCc")}
"""Builtins that fill variables from their input, and the options of theirs that have a value."""

_DECLARING = frozenset({"export", "declare", "local", "readonly", "typeset"})
_PLAIN = re.compile(r"[^\s;|&$`()<>]+")
_PROBE = "hLa7Pr0be%dQx"
_MOST = 64  # names whose use is looked at
_MOST_VALUES = 10_000


class Held(NamedTuple):
    """A text that a name holds at some time, and where it stands."""

    name: str
    start: int
    end: int
    text: str


def is_secret_variable(name: str) -> bool:
    """Whether a shell variable of this name holds a secret."""
    return is_secret_name(name, variable=name.isupper() or name.lower() in short_names())


def in_flow(nodes: list[Node], text: str, find: Callable[[str], list[Span]]) -> Iterator[Span]:
    """Secrets that are given a name before they are used.

    Args:
        nodes: every node of the command line `text`.
        find: the secrets of a command line, without those of this function.
    """
    every = chain(chain.from_iterable(_held(node, text) for node in nodes), _called(nodes, text))
    held = list(islice(every, _MOST_VALUES))
    used: list[Held] = []
    for each in held:
        if is_secret_variable(each.name):
            if is_secret_value(each.text):
                yield Span(each.start, each.end, f"variable {each.name[:60]}")
        elif _PLAIN.fullmatch(each.text) and is_secret_value(each.text):
            used.append(each)
    if used and "$" in text:
        secret = _used_as_secrets({each.name for each in used} - _run(nodes), text, find)
        for each in used:
            if each.name in secret:
                yield Span(each.start, each.end, "used as a secret")


def _used_as_secrets(names: set[str], text: str, find: Callable[[str], list[Span]]) -> set[str]:
    """Those of `names` that stand where a secret stands."""
    listed = sorted(names)[:_MOST]
    probes = {name: _PROBE % number for number, name in enumerate(listed)}
    everything = " ".join(probes[name] for name in listed if name.isdigit())

    def probe(found: re.Match[str]) -> str:
        name = found["name"] or found["braced"]
        if name in ("@", "*"):
            return everything or found[0]
        return probes.get(name, found[0])

    probed = _REFERENCE.sub(probe, text)
    if probed == text:
        return set()
    shown = [probed[span.start : span.end] for span in find(probed)]
    return {name for name in listed if any(probes[name] in each for each in shown)}


_REFERENCE = re.compile(r"(?<!\\)\$(?:(?P<name>[A-Za-z_]\w*|[0-9@*])|\{(?P<braced>[A-Za-z_]\w*|[0-9@*])\})")


def _run(nodes: list[Node]) -> set[str]:
    """Names whose value is run as a program: that must stay to be seen."""
    raws = (node.words[0].raw for node in nodes if isinstance(node, Simple) and node.words)
    return {found["name"] or found["braced"] for raw in raws for found in _REFERENCE.finditer(raw)}


# ---- what names hold -------------------------------------------------------------------------------


def _held(node: Node, text: str) -> Iterator[Held]:
    match node:
        case Simple():
            for assign in node.assigns:
                yield from _value(assign.name, token_of(assign.value, text))
            yield from _of_builtin(node, [token_of(word, text) for word in node.words], text)
        case Loop(kind="for" | "select", name=name, words=words) if name is not None:
            for word in words or ():
                yield from _value(name.text or "", token_of(word, text))
        case Loop():
            if node.condition is not None and node.redirects:
                inputs = [raw for redirect in node.redirects for raw in _input(redirect, text)]
                yield from _read_by(node.condition, inputs, text)
        case Pipeline():
            for before, after in zip(node.parts, node.parts[1:], strict=False):
                condition = after.condition if isinstance(after, Loop) else after
                if condition is not None and _reads(condition):
                    yield from _read_by(condition, list(_printed(before, text)), text)


def _value(name: str, token: Token, offset: int = 0) -> Iterator[Held]:
    value = token.text[offset:]
    if name and value and not token.dynamic:
        span = token.span(offset, "")
        yield Held(name, span.start, span.end, value)


def _of_builtin(node: Simple, tokens: list[Token], text: str) -> Iterator[Held]:
    name = tokens[0].text if tokens else ""
    if name in _READERS:
        inputs = [given for redirect in node.redirects for given in _input(redirect, text)]
        yield from _read_by(node, inputs, text)
    elif name == "printf" and len(tokens) > 3 and tokens[1].text == "-v":
        for token in tokens[4:] or tokens[3:]:
            yield from _value(tokens[2].text, token)
    elif name == "set":
        words = [token for token in tokens[1:] if token.text != "--"]
        if words and not words[0].text.startswith(("-", "+")):
            yield from _positional(words)
    elif name in _DECLARING:
        for token in tokens[1:]:
            variable, equals, _ = token.text.partition("=")
            if equals:
                yield from _value(variable, token, len(variable) + 1)


def _positional(words: list[Token]) -> Iterator[Held]:
    for number, token in enumerate(words[:9], 1):
        yield from _value(str(number), token)


def _called(nodes: list[Node], text: str) -> Iterator[Held]:
    """What functions of this command line are called with."""
    functions = {node.name.text for node in nodes if isinstance(node, Function)}
    for node in nodes if functions else ():
        if isinstance(node, Simple) and node.words and node.words[0].text in functions:
            yield from _positional([token_of(word, text) for word in node.words[1:]])


class _Input(NamedTuple):
    """A text that is read, and where it stands."""

    start: int
    text: str


def _input(redirect: object, text: str) -> Iterator[_Input]:
    given = getattr(redirect, "body", None) or (
        getattr(redirect, "target", None) if getattr(redirect, "op", "") == "<<<" else None
    )
    if given is not None:
        yield _bare(given.start, text[given.start : given.end])


def _bare(start: int, raw: str) -> _Input:
    """`raw` without the quotes around it."""
    lead = 2 if raw[:2] == "$'" else 1 if raw[:1] in ("'", '"') else 0
    return _Input(start + lead, raw[lead : len(raw) - 1] if lead and raw[-1:] == raw[lead - 1] else raw[lead:])


def _printed(node: Node, text: str) -> Iterator[_Input]:
    for each in below(node):
        if isinstance(each, Simple) and each.words and each.words[0].text in listed("printers"):
            for word in each.words[1:]:
                if not (word.text or "").startswith(("-", "%")):
                    yield _bare(word.start, text[word.start : word.end])
            for redirect in each.redirects:
                yield from _input(redirect, text)


def _reads(reader: Node) -> bool:
    return any(isinstance(node, Simple) and node.words and node.words[0].text in _READERS for node in below(reader))


def _read_by(reader: Node, inputs: list[_Input], text: str) -> Iterator[Held]:
    """What the `read` or `mapfile` in `reader` puts where, of each line."""
    for node in below(reader) if inputs else ():
        tokens = [token_of(word, text) for word in node.words] if isinstance(node, Simple) else []
        if not tokens or tokens[0].text not in _READERS:
            continue
        names = list(_names(tokens))
        split = _separator(node, text) if tokens[0].text == "read" else None
        for given in inputs:
            for line in re.finditer(r"[^\n]+?(?=\\n|\n|$)", given.text):
                yield from _fields(names, line, given.start, split)


def _names(tokens: list[Token]) -> Iterator[str]:
    """The variables that `read` or `mapfile` fills."""
    valued = _READERS[tokens[0].text]
    skip = False
    for token in tokens[1:]:
        option = token.text.startswith("-") and len(token.text) > 1
        if not option and not skip:
            yield token.text
        skip = option and not skip and token.text[-1] in valued


def _separator(node: Simple | object, text: str) -> str:
    """What `read` splits at."""
    for assign in getattr(node, "assigns", ()):
        if assign.name == "IFS":
            return re.escape(token_of(assign.value, text).text)
    return r"\s"


def _fields(names: list[str], line: re.Match[str], start: int, split: str | None) -> Iterator[Held]:
    """What each of `names` gets of a line: a field, and the last one all that is left."""
    fields = [*re.finditer(f"[^{split}]+", line[0])] if split else [line]
    shift = start + (line.start() if split else 0)
    for place, (name, field) in enumerate(zip(names, fields, strict=False)):
        end = start + line.end() if place == len(names) - 1 else shift + field.end()
        first = shift + field.start()
        yield Held(name, first, end, line[0][first - start - line.start() : end - start - line.start()])
