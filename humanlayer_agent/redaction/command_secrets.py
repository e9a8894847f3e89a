"""Secrets by their position in the syntax tree of a command: options, assignments, operands, standard input.

Programs are found below wrappers (`sudo -u x mysql -psecret`) and in quoted commands (`ssh host 'mysql -psecret'`).
What the front end refuses is split into words crudely instead: then too much is found rather than too little.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from humanlayer_agent.redaction.program_secrets import (
    Token,
    by_rules,
    known_programs,
    listed,
    programs,
    secret_value,
    short_names,
    token_of,
    unquoted,
)
from humanlayer_agent.redaction.secret_names import data, is_secret_name, is_secret_variable
from humanlayer_agent.redaction.secret_patterns import text_patterns
from humanlayer_agent.redaction.standard_input import in_input, nodes, values
from humanlayer_agent.redaction.text_secrets import Span, by_itself, hints, in_text
from humanlayer_agent.redaction.variable_secrets import in_flow
from humanlayer_agent.shell import REPEATERS, Flows, Origins, analyse, parse, syntax_tree

_DEPTH = 3
"""How deep commands are looked for in quoted words of commands in quoted words."""

_CRUDE = re.compile(r"""(?:'[^']*(?:'|\Z)|"(?:\\.|[^"\\])*+(?:"|\Z)|\\.|[^\s;|&<>()'"\\])+""", re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\(|`|[<>]\(")
_CRUDE_END = re.compile(r"[;|&()\n]")
_NAME_VALUE = re.compile(r"(?P<name>[A-Za-z_-][\w.\[\]/:@-]*?)\+?=(?P<value>.*)", re.DOTALL)
_VARIABLE = re.compile(r"['\"]?\$\{?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}?['\"]?")
_OPTIONAL_DEFAULTS = frozenset({":-", "-", ":=", "=", ":+", "+", "/", "//"})


def in_command(text: str, depth: int = 0, *, flow: bool = True) -> list[Span]:
    """Every secret of the command line `text`. Spans may overlap.

    Args:
        depth: of quoted commands around it.
        flow: also what is given a name first.

    None reaches beyond the word that it stands in, or over a command that the word runs (`$(...)`): what is redacted
    must not hide what would be done.
    """
    read = parse(text)
    found = [*by_itself(text)]
    pieces: list[tuple[int, int]] = []
    programs: set[int] = set()  # where their names begin: no line of a key is one
    kept: list[tuple[int, int]] = []
    if read.script is None or read.status != "ok":
        found += _crudely(text, depth, pieces)
        kept += [(each.end(), len(text)) for each in _SUBSTITUTION.finditer(text)]
    every = [*nodes(read.script)] if read.script is not None else []
    origins = cache(lambda: Origins(Flows(analyse(text, cwd="/")), text))
    if flow:
        found += in_flow(every, text, origins, lambda probed: in_command(probed, depth, flow=False))
    if read.script is not None:
        for node in every:
            found += _in_node(node, text, origins, depth)
            pieces += _pieces(node)
            if isinstance(node, syntax_tree.Simple) and node.words and read.status == "ok":
                programs.add(node.words[0].start)
            kept += [_whole(script, text) for word in syntax_tree.words_of(node) for script in word.scripts()]
    found += _in_lists(text)
    told = hints(text)
    if read.status != "ok" and not depth:  # what is a word is not known; of a quoted command it is, around it
        found += in_text(text, told)
    for start, end in [*pieces, *_between(pieces, len(text))] if told.patterns else ():
        whole = told._replace(holds_key=False) if start in programs else told
        found += [Span(start + s, start + e, what) for s, e, what in in_text(text[start:end], whole)]
    return [_before_command(part, text) for span in found for part in _without(span, kept)]


def _before_command(span: Span, text: str) -> Span:
    """`span` up to what may be a command that only another shell will see: `bash -c 'TOKEN="x$(...)"'`."""
    inner = _SUBSTITUTION.search(text, span.start, span.end)
    return Span(span.start, inner.start(), span.what) if inner else span


def _whole(script: syntax_tree.Script, text: str) -> tuple[int, int]:
    """Return where a substitution stands, with its brackets."""
    before = 2 if text[script.start - 2 : script.start] in ("$(", "<(", ">(") else 1
    return max(0, script.start - before), script.end + 1


def may_hold(text: str) -> bool:
    """Tell whether a command can hold any secret that `in_command` finds: most can't, which saves reading them.

    A name that is written in pieces (`my"sql"`, `my\\sql`) is not seen as one, so such a command may.
    """
    if _TELLING.search(text) or text_patterns().possible(text):
        return True
    lower = text.lower()
    if any(part in lower for part in _parts_of_names()):
        return True
    table, words = known_programs(), set(_NAMES.findall(lower))
    return any(further <= words for name in table.keys() & words for further, _ in table[name])


_TELLING = re.compile(r"[$\\]|[^\s'\"]['\"][^\s;|&)]|''|\"\"")
_NAMES = re.compile(r"[\w.-]+")


@cache
def _parts_of_names() -> tuple[str, ...]:
    names = data()["names"]
    parts = {*names["endings"], *names["short"], *names["whole"], "key"}
    return tuple(sorted(part for part in parts if not any(other in part for other in parts - {part})))


def _pieces(node: syntax_tree.Node) -> Iterator[tuple[int, int]]:
    """Yield where the words and assignments of a node stand."""
    for word in syntax_tree.words_of(node):
        yield word.start, word.end
    if isinstance(node, syntax_tree.Simple):
        for assign in node.assigns:
            yield assign.start, assign.end


def _between(pieces: list[tuple[int, int]], length: int) -> Iterator[tuple[int, int]]:
    """Yield what lies between the words: operators and comments."""
    position = 0
    for start, end in sorted(pieces):
        if position < start:
            yield position, start
        position = max(position, end)
    if position < length:
        yield position, length


def _without(span: Span, kept: list[tuple[int, int]]) -> Iterator[Span]:
    """Yield what is left of `span` around the commands inside it."""
    start = span.start
    for first, last in sorted(kept):
        if start <= first and last <= span.end and first < last and (start, span.end) != (first, last):
            yield Span(start, first, span.what)
            start = last
        elif start <= first < span.end < last:
            yield Span(start, first, span.what)
            return
    yield Span(start, span.end, span.what)


def _in_node(node: syntax_tree.Node, text: str, origins: Callable[[], Origins], depth: int) -> Iterator[Span]:
    for word in syntax_tree.words_of(node):
        yield from _quoted_command(token_of(word, text), depth)
    if isinstance(node, syntax_tree.Test):
        yield from _compared([token_of(word, text) for word in node.words])
    if not isinstance(node, syntax_tree.Simple):
        return
    for assign in node.assigns:
        yield from _assigned(assign, text, origins)
    yield from in_input(node, text, origins, lambda script: in_command(script, depth + 1) if depth < _DEPTH else [])
    yield from _in_tokens([token_of(word, text) for word in node.words])


# ---- assignments -----------------------------------------------------------------------------------


def _assigned(assign: syntax_tree.Assign, text: str, origins: Callable[[], Origins]) -> Iterator[Span]:
    what = f"variable {assign.name[:60]}"
    arrays = [part for part in assign.value.parts if isinstance(part, syntax_tree.ArrayLit)]
    for part in arrays:  # opts=(--password secret)
        yield from _in_tokens([Token("", "", assign.start, ""), *(token_of(word, text) for word in part.words)])
    if not is_secret_variable(assign.name):
        return
    for word in [word for part in arrays for word in part.words] or [assign.value]:
        yield from secret_value(token_of(word, text), 0, what, keys=True)
        yield from _default(word, text, what)
        if any(word.scripts()):
            yield from values(origins().substituted(word), text, what)


def _default(word: syntax_tree.Word, text: str, what: str) -> Iterator[Span]:
    """`PASSWORD=${PASSWORD:-secret}`"""
    for part in word.parts:
        if (
            isinstance(part, syntax_tree.Param)
            and part.op in _OPTIONAL_DEFAULTS
            and part.arg is not None
            and part.arg.text
        ):
            yield Span(word.start, word.end, what)


# ---- words ---------------------------------------------------------------------------------------------


def _in_tokens(tokens: Sequence[Token]) -> Iterator[Span]:
    """Secrets among the words of one simple command."""
    known = [*programs(tokens, loosely=True)]
    plain = {option for _, rules in known for option in rules.get("plain", ())}
    for place, token in enumerate(tokens):
        if token.text not in plain:
            yield from _named(tokens, place, token)
    if any(token.text in ("[", "[[", "test") for token in tokens):
        yield from _compared(tokens)
    yield from _formatted(tokens)
    for place, rules in known:
        yield from by_rules(tokens[place + 1 :], rules)


def _compared(tokens: Sequence[Token]) -> Iterator[Span]:
    """`[ "$PASSWORD" = value ]`"""
    for left, operator, right in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if operator.text in ("=", "==", "!="):
            for variable, value in ((left, right), (right, left)):
                found = _VARIABLE.fullmatch(variable.raw)
                if found and is_secret_name(found["name"], variable=True):
                    yield from secret_value(value, 0, f"compared with {found['name'][:60]}")


def _formatted(tokens: Sequence[Token]) -> Iterator[Span]:
    """`printf 'API_KEY=%s' value`"""
    if len(tokens) < 3 or tokens[0].text != "printf":
        return
    slots = [*_SLOT.finditer(tokens[1].text)]
    for place, token in enumerate(tokens[2:] if slots else ()):
        name = slots[place % len(slots)]["name"]
        if name and is_secret_variable(name):
            yield from secret_value(token, 0, f"value of {name[:60]}")


_SLOT = re.compile(r"(?:(?P<name>[A-Za-z_]\w{0,80})[\"']?[=:][ \t]?[\"']?)?%[-0-9.]*[A-Za-z]")


def _named(tokens: Sequence[Token], place: int, token: Token) -> Iterator[Span]:
    """`NAME=value`, `--password value`, `--password=value`: whatever the program is."""
    if place and token.text.startswith("-") and "=" not in token.text and len(token.text) > 3:
        if token.text[1] == "-" or token.text[2] != "-":
            following = tokens[place + 1] if place + 1 < len(tokens) else None
            if following and not following.text.startswith("-") and is_secret_name(token.text):
                yield from secret_value(following, 0, f"option {token.text[:60]}")
        return
    found = _NAME_VALUE.fullmatch(token.text) if "=" in token.text else None
    if found and not _is_run(tokens, place):
        name = found["name"]
        option = name.startswith("-")
        given = place > 0 and tokens[place - 1].text in ("-v", "-e", "--env", "-var", "--var", "-E")
        short = given and name.lower() in short_names()
        named = is_secret_name(name.rpartition("/")[2] or name, variable=name.isupper())
        if short or named or (given and is_secret_variable(name)):
            what = f"{'option' if option else 'variable'} {name[:60]}"
            yield from secret_value(token, found.start("value"), what, keys=True)


def _is_run(tokens: Sequence[Token], place: int) -> bool:
    """Tell whether `NAME=value with blanks` may be a command that a shell reads: then its words are looked at one by
    one.
    """
    token = tokens[place]
    if not any(blank in token.text for blank in " \t\n;|&"):
        return False
    before = tokens[place - 1].text if place else ""
    names = {each.text.rpartition("/")[2] for each in tokens[:place]}
    if names & (listed("shells") | REPEATERS):
        return before not in ("-e", "--env")
    return token.raw[:1] in ("'", '"') and before not in ("-e", "--env", "export", "declare", "env", "readonly")


_PREFIX = re.compile(r"[A-Za-z_][\w.-]*=(?=['\"])")
_OPTION = re.compile(r"[A-Za-z_][\w.-]*=(?=[\w./-]+ )")


def _quoted_command(token: Token, depth: int) -> Iterator[Span]:
    """A quoted word that is itself a command (`bash -c '...'`, `ssh host "..."`) holds secrets like one."""
    raw = token.raw
    if (prefix := _PREFIX.match(raw)) and depth < _DEPTH:  # alias m='mysql -psecret'
        lead = prefix.end()
        yield from _quoted_command(
            Token(raw[lead:], token.text[lead:], token.start + lead, token.literal, token.dynamic), depth
        )
        return
    if depth >= _DEPTH or len(raw) < 4 or raw[0] not in "'\"" or not (" " in raw or "=" in raw):
        return
    inner = raw[1:-1]
    if raw[-1] == raw[0] and raw[0] not in inner and "\\" not in inner:
        named = _OPTION.match(inner)  # ssh -o 'ProxyCommand=sshpass -psecret ssh host'
        for lead in (0, named.end()) if named else (0,):
            for span in in_command(inner[lead:], depth + 1):
                yield Span(span.start + token.start + 1 + lead, span.end + token.start + 1 + lead, span.what)
        return
    for span in in_command(token.text, depth + 1):
        value = token.text[span.start : span.end]
        place = raw.find(value)
        if place < 0 or not value:
            yield Span(token.start, token.end, span.what)
        while place >= 0 and value:
            yield Span(token.start + place, token.start + place + len(value), span.what)
            place = raw.find(value, place + len(value))


_LIST = re.compile(r"\[\s{0,9}(?:[rbf]?(?:'[^'\n]{0,500}+'|\"[^\"\n]{0,500}+\")\s{0,9}+,?+\s{0,20}+){2,200}+\]")
_STRING = re.compile(r"'([^'\n]*)'|\"([^\"\n]*)\"")


def _in_lists(text: str) -> Iterator[Span]:
    """`subprocess.run(["mysql", "-psecret"])`: a command as a list of strings, in the code of another language."""
    if "[" not in text:
        return
    for found in _LIST.finditer(text):
        tokens = []
        for word in _STRING.finditer(text, *found.span()):
            inner = word[1] if word[1] is not None else word[2]
            tokens.append(Token(inner, inner, word.start() + 1, inner))
        yield from _in_tokens(tokens)


# ---- what was not parsed -----------------------------------------------------------------------------


def _crudely(text: str, depth: int, pieces: list[tuple[int, int]]) -> Iterator[Span]:
    """Secrets in what looks like words; adds to `pieces` where those stand."""
    commands: list[list[Token]] = [[]]
    position = 0
    for found in _CRUDE.finditer(text):
        if _CRUDE_END.search(text, position, found.start()):
            commands.append([])
        position = found.end()
        raw = found[0]
        known = unquoted(raw)
        commands[-1].append(Token(raw, known, found.start(), known))
    for tokens in commands:
        yield from _in_tokens(tokens)
        for token in tokens:
            pieces.append((token.start, token.end))
            yield from _quoted_command(token, depth)
