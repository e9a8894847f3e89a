"""Secrets that a command gives a name first: `read -r PW <<< secret`, `x=secret; mysql -p"$x"`, `set -- secret`.

What a name holds is secret where the name says so, or where it is used as one: whether `$x` stands where a secret
stands is found out by putting a word in its place and looking for secrets once more.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from itertools import islice, pairwise

from humanlayer_agent.redaction.program_secrets import known_programs, listed
from humanlayer_agent.redaction.secret_names import is_secret_value, is_secret_variable
from humanlayer_agent.redaction.text_secrets import Span
from humanlayer_agent.shell import Held, Origins, syntax_tree

_NAME = re.compile(r"[A-Za-z_]\w*")
_PLAIN = re.compile(r"[^\s;|&$`()<>]+")
_PROBE = "hLa7Pr0be%dQx"
_MOST = 64  # names whose use is looked at
_MOST_VALUES = 10_000


def in_flow(
    nodes: list[syntax_tree.Node], text: str, origins: Callable[[], Origins], find: Callable[[str], list[Span]]
) -> Iterator[Span]:
    """Secrets that are given a name before they are used.

    Args:
        nodes: every node of the command line `text`; none where it can't be parsed.
        origins: what the analysis of `text` says about its values.
        find: the secrets of a command line, without those of this function.
    """
    if "$" not in text and not any(map(is_secret_variable, set(_NAME.findall(text)))):
        return
    held = list(islice(origins().held() if nodes else _assigned(text), _MOST_VALUES))
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
        given = origins().flows.given if nodes else None
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
