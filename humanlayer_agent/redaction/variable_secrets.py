"""Secrets that a command gives a name first: `read -r PW <<< secret`, `x=secret; mysql -p"$x"`, `set -- secret`.

What a name holds is secret where the name says so, or where it is used as one: whether `$x` stands where a secret
stands is found out by putting a word in its place and looking for secrets once more.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from itertools import chain, islice, pairwise
from typing import NamedTuple

from humanlayer_agent.redaction.program_secrets import Token, known_programs, listed, token_of
from humanlayer_agent.redaction.secret_names import is_secret_value, is_secret_variable
from humanlayer_agent.redaction.standard_input import below
from humanlayer_agent.redaction.standard_input import nodes as nodes_of
from humanlayer_agent.redaction.text_secrets import Span
from humanlayer_agent.shell import Flows, analyse, syntax_tree

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


def in_flow(nodes: list[syntax_tree.Node], text: str, find: Callable[[str], list[Span]]) -> Iterator[Span]:
    """Secrets that are given a name before they are used.

    Args:
        nodes: every node of the command line `text`; none where it can't be parsed.
        find: the secrets of a command line, without those of this function.
    """
    every = chain(chain.from_iterable(_held(node, text) for node in nodes), _called(nodes, text))
    if not nodes:
        every = chain(_assigned(text))
    held = list(islice(every, _MOST_VALUES))
    used: list[Held] = []
    for each in held:
        if is_secret_variable(each.name):
            if is_secret_value(each.text):
                yield Span(each.start, each.end, f"variable {each.name[:60]}")
        elif _PLAIN.fullmatch(each.text) and is_secret_value(each.text):
            used.append(each)
    if not held or "$" not in text:
        return
    run = _run(nodes)
    yield from _in_expanded(held, text, find, run)
    if used:
        names = {each.name for each in used}
        given = Flows(analyse(text, cwd="/")).given if nodes else None
        given_on = set(_GIVEN.findall(text)) if given is None else set(given)
        others = sorted((given_on | (_referred(text) if given is None else set())) - names - run)
        secret = _used_as_secrets([*sorted(names - run), *others], text, find)
        secret |= {name for name in given_on if is_secret_variable(name)}
        if given is not None:  # x=secret; y=$x; mysql -p$y
            secret = _with_what_they_hold(secret, given)
        elif secret:  # what holds what can't be told
            secret = names
        for each in used:
            if each.name in secret - run:
                yield Span(each.start, each.end, "used as a secret")


def _referred(text: str) -> set[str]:
    return {found["name"] or found["braced"] for found in _REFERENCE.finditer(text)}


def _assigned(text: str) -> Iterator[Held]:
    """Yield what looks like an assignment, in a text that can't be parsed."""
    for found in _ASSIGNMENT.finditer(text):
        yield Held(found["name"], *found.span("value"), found["value"])


_ASSIGNMENT = re.compile(
    r"""(?:^|(?<=[\s;&|(]))(?P<name>[A-Za-z_]\w*)=(?P<quote>['"]?)(?P<value>[^\s'";&|$`()<>]+)(?P=quote)"""
)
_GIVEN = re.compile(r"""([A-Za-z_]\w*)=[^\s;&|]*\$""")


def _with_what_they_hold(names: set[str], given: Mapping[str, Set[str]]) -> set[str]:
    """`names`, and the variables whose values they are given, at any remove."""
    found, waiting = {*names}, [*names]
    while waiting:
        new = given.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def _in_expanded(held: list[Held], text: str, find: Callable[[str], list[Span]], run: set[str]) -> Iterator[Span]:
    """Secrets that show only where a name stands for what it holds: `opts="-u root -psecret"; mysql $opts`."""
    counts = Counter(each.name for each in held)
    known = {
        each.name: each
        for each in held
        if counts[each.name] == 1
        and text[each.start : each.end] == each.text
        and (" " in each.text or _is_program(each))
    }
    pieces: list[tuple[int, int, int, str]] = []  # where it begins in `made` and in `text`, how long, of which name
    made, position = "", 0
    for found in _REFERENCE.finditer(text):
        one = known.get(found["name"] or found["braced"])
        if one is None or len(made) > 4 * len(text):
            continue
        pieces.append((len(made), position, found.start() - position, ""))
        made += text[position : found.start()]
        pieces.append((len(made), one.start, len(one.text), one.name))
        made += one.text
        position = found.end()
    if not made:
        return
    pieces.append((len(made), position, len(text) - position, ""))
    made += text[position:]
    for span in find(made):
        for start, origin, length, given in pieces:
            first, last = max(span.start, start), min(span.end, start + length)
            if first >= last:
                continue
            part = Span(origin + first - start, origin + last - start, span.what)
            # At most a word is taken away of what a name holds, never all, and nothing where it is run too.
            word = last - first < length and _PLAIN.fullmatch(text[part.start : part.end])
            if not given or (word and given not in run):
                yield part


def _is_program(held: Held) -> bool:
    return held.text.rpartition("/")[2] in known_programs()


def _used_as_secrets(names: list[str], text: str, find: Callable[[str], list[Span]]) -> set[str]:
    """Those of `names` that stand where a secret stands."""
    listed = names[:_MOST]
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


def _run(nodes: list[syntax_tree.Node]) -> set[str]:
    """Names whose value is run, as a program or as a command line: that must stay to be seen."""
    found: list[re.Match[str]] = []
    for node in nodes:
        if not isinstance(node, syntax_tree.Simple) or not node.words:
            continue
        raws = [word.raw for word in node.words]
        found += _REFERENCE.finditer(raws[0])
        if raws[0].rpartition("/")[2] in listed("shells") | _RUNNERS:
            for before, raw in pairwise(raws):
                if not before.startswith("-") or before.endswith("c"):  # else it is the value of an option
                    found += (each for each in _REFERENCE.finditer(raw) if _BEGINS.search(raw, 0, each.start()))
    return {each["name"] or each["braced"] for each in found}


_RUNNERS = frozenset({"source", ".", "exec", "sudo", "env", "nohup", "command", "time", "xargs"})
_BEGINS = re.compile(r"(?:^|[;&|(\n])[ \t\"]*\Z")


# ---- what names hold -------------------------------------------------------------------------------


def _held(node: syntax_tree.Node, text: str) -> Iterator[Held]:
    match node:
        case syntax_tree.Simple():
            for assign in node.assigns:
                yield from _value(assign.name, token_of(assign.value, text))
                for script in assign.value.scripts():  # x=$(echo secret)
                    for each in nodes_of(script):
                        for given in _printed(each, text):
                            yield Held(assign.name, given.start, given.start + len(given.text), given.text)
            yield from _of_builtin(node, [token_of(word, text) for word in node.words], text)
        case syntax_tree.Loop(kind="for" | "select", name=name, words=words) if name is not None:
            for word in words or ():
                yield from _value(name.text or "", token_of(word, text))
        case syntax_tree.Loop():
            if node.condition is not None and node.redirects:
                inputs = [raw for redirect in node.redirects for raw in _input(redirect, text)]
                yield from _read_by(node.condition, inputs, text)
        case syntax_tree.Pipeline():
            for before, after in zip(node.parts, node.parts[1:], strict=False):
                condition = after.condition if isinstance(after, syntax_tree.Loop) else after
                if condition is not None and _reads(condition):
                    yield from _read_by(condition, list(_printed(before, text)), text)


def _value(name: str, token: Token, offset: int = 0) -> Iterator[Held]:
    value = token.text[offset:]
    if name and value and not token.dynamic:
        span = token.span(offset, "")
        yield Held(name, span.start, span.end, value)


def _of_builtin(node: syntax_tree.Simple, tokens: list[Token], text: str) -> Iterator[Held]:
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


def _called(nodes: list[syntax_tree.Node], text: str) -> Iterator[Held]:
    """Yield what functions of this command line are called with."""
    functions = {node.name.text for node in nodes if isinstance(node, syntax_tree.Function)}
    for node in nodes if functions else ():
        if isinstance(node, syntax_tree.Simple) and node.words and node.words[0].text in functions:
            yield from _positional([token_of(word, text) for word in node.words[1:]])


class _Input(NamedTuple):
    """A text that is read, and where it stands."""

    start: int
    text: str


def _input(redirect: syntax_tree.Redirect, text: str) -> Iterator[_Input]:
    """Yield what a redirection has a command read."""
    given = redirect.target if redirect.op == "<<<" else redirect.body
    if given is not None:
        yield _bare(given.start, text[given.start : given.end])
    elif redirect.op == "<":  # < <(printf ...)
        for script in redirect.target.scripts():
            for node in nodes_of(script):
                yield from _printed(node, text)


def _bare(start: int, raw: str) -> _Input:
    """`raw` without the quotes around it."""
    lead = 2 if raw[:2] == "$'" else 1 if raw[:1] in ("'", '"') else 0
    return _Input(start + lead, raw[lead : len(raw) - 1] if lead and raw[-1:] == raw[lead - 1] else raw[lead:])


def _printed(node: syntax_tree.Node, text: str) -> Iterator[_Input]:
    for each in below(node):
        if isinstance(each, syntax_tree.Simple) and each.words and each.words[0].text in listed("printers"):
            for word in each.words[1:]:
                if not (word.text or "").startswith(("-", "%")):
                    yield _bare(word.start, text[word.start : word.end])
            for redirect in each.redirects:
                yield from _input(redirect, text)


def _reads(reader: syntax_tree.Node) -> bool:
    return any(
        isinstance(node, syntax_tree.Simple) and node.words and node.words[0].text in _READERS for node in below(reader)
    )


def _read_by(reader: syntax_tree.Node, inputs: list[_Input], text: str) -> Iterator[Held]:
    """Yield what the `read` or `mapfile` in `reader` puts where, of each line."""
    for node in below(reader) if inputs else ():
        tokens = [token_of(word, text) for word in node.words] if isinstance(node, syntax_tree.Simple) else []
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


def _separator(node: syntax_tree.Simple | object, text: str) -> str:
    """Return the pattern that `read` splits at."""
    for assign in getattr(node, "assigns", ()):
        if assign.name == "IFS":
            return re.escape(token_of(assign.value, text).text)
    return r"\s"


def _fields(names: list[str], line: re.Match[str], start: int, split: str | None) -> Iterator[Held]:
    """Yield what each of `names` gets of a line: a field, and the last one all that is left."""
    fields = [*re.finditer(f"[^{split}]+", line[0])] if split else [line]
    shift = start + (line.start() if split else 0)
    for place, (name, field) in enumerate(zip(names, fields, strict=False)):
        end = start + line.end() if place == len(names) - 1 else shift + field.end()
        first = shift + field.start()
        yield Held(name, first, end, line[0][first - start - line.start() : end - start - line.start()])
