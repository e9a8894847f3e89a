"""The one layout of a policy file: the order of its keys, quotation marks, lines of at most 120 characters.

Comments stay with what they are about, and blank lines where they stand, at most one at a time. What is meant stays:
what is written is read again, and is not given out where it says something else.

YAML is read as the loader reads it (`yaml_positions`), and laid out from its events: a library that keeps comments
(ruamel.yaml 0.19) loses those inside brackets when it joins lines, and leaves others behind when keys change places.
"""

import re
import textwrap
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language import schema, yaml_positions
from humanlayer_agent.policy.language.field_types import Written
from humanlayer_agent.policy.language.yaml_positions import Document, Position, keys_with_types

WIDTH = 120
_STEP = 2
_STRANGE_BREAKS = re.compile("[\r\x85\u2028\u2029]")
_STR = "tag:yaml.org,2002:str"
_READ_AS_TEXT = (_STR, "tag:yaml.org,2002:timestamp")
_PROSE = ("reason", "suggestion", "description")
"""Keys whose texts are wrapped, where they are too long for a line."""
_ALWAYS_BLOCK = ((), ("lists",), ("confinements",), ("rules",), ("exceptions",))
"""Where entries stand one below the other, however they were written."""


def formatted(text: str, name: str) -> str:
    """Return a policy file in the one layout.

    Args:
        text: of the file, with `\\n` or `\\r\\n` at the ends of lines; it keeps them.
        name: of the file, for messages.

    Raises:
        PolicyError: it is no policy file by itself (`file:line:column`), or has what can't be laid out.

    Example:
        >>> print(formatted("policy: p\\nversion: 1\\nextends: ['builtin:guard'] # ours\\n", "p.yaml"), end="")
        version: 1
        policy: p
        extends: [builtin:guard]   # ours
    """
    ending = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    document = yaml_positions.parse(text, name)
    if (strange := _STRANGE_BREAKS.search(text)) is not None:
        at = Position(text.count("\n", 0, strange.start()) + 1, strange.start() - text.rfind("\n", 0, strange.start()))
        raise PolicyError(
            yaml_positions.located(
                name, text, at, f"{strange[0]!r} ends a line for YAML, and for no editor: take it out"
            )
        )
    before = schema.check(document)
    root = _Reader(document).read()
    laid_out = "\n".join(_Writer().document(root)) + "\n"
    _check(document, before, laid_out)
    return laid_out.replace("\n", ending)


def _check(document: Document, before: schema.PolicyFile, laid_out: str) -> None:
    """Raise where the layout would say something else, or lose a comment: a mistake of ours costs no policy."""
    try:
        again = yaml_positions.parse(laid_out, document.name)
        same = again.data == document.data and schema.check(again).model_dump_json() == before.model_dump_json()
    except PolicyError:
        same = False
    if not same or _comments(laid_out) != _comments(document.text):
        raise PolicyError(f"{document.name}: can't be laid out so that it says the same: it stays as it is")


def scalar(text: str, *, item: bool = True) -> str:
    """Return a text as YAML has it: plain where that is read as the same text, else in quotation marks.

    Args:
        item: it stands in a list, where what has blanks is told apart by quotation marks, or inside brackets.

    Example:
        >>> print(scalar("a-b"), scalar("a b"), scalar("yes"), scalar("a, b", item=False), scalar('"a" b'))
        a-b "a b" "yes" a, b '"a" b'
    """
    import yaml

    emitter = yaml.emitter.Emitter(StringIO(), allow_unicode=True)
    found = emitter.analyze_scalar(_COLON_IN_A_WORD.sub("_", text))
    plain = (found.allow_flow_plain and " " not in text) if item else found.allow_block_plain
    if plain and not found.multiline and _resolved(text) in _READ_AS_TEXT:
        return text
    if found.multiline or not found.allow_single_quoted or any(c in text for c in "\n\t\r"):
        return '"' + "".join(map(_escaped, text)) + '"'
    if ('"' in text or "\\" in text) and "'" not in text:
        return f"'{text}'"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_COLON_IN_A_WORD = re.compile(r"(?<=[^:]):(?=[^:\s,\[\]{}])")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable() and character != "\ufeff":
        return character
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def flow(value: Any) -> str:
    """Return data in YAML's flow style, on one line.

    Example:
        >>> flow({"program": "gh", "subcommand": ["pr view"], "hosts": ["12"]})
        '{program: gh, subcommand: ["pr view"], hosts: ["12"]}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        return scalar(value)
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def _resolved(text: str) -> str:
    return str(_resolver().resolve(_scalar_node(), text, (True, False)))


@cache
def _resolver() -> Any:
    import yaml

    return yaml.SafeLoader("")


@cache
def _scalar_node() -> Any:
    import yaml

    return yaml.ScalarNode


# ---- reading --------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Comment:
    text: str
    column: int


@dataclass(slots=True, eq=False)
class _Node:
    """A value as it is written. `entries` is None of a scalar; `alias` is the value that is meant, of an alias."""

    start: Any
    end: Any
    text: str = ""
    tag: str = _STR
    literal: bool = False
    plain: bool = False
    entries: "list[_Entry] | None" = None
    is_mapping: bool = False
    is_flow: bool = False
    anchor: str = ""
    alias: "_Node | None" = None
    above: "_Node | None" = None
    """What it stands in."""
    begins: int = 0
    """Where its comments may begin: after its key."""
    below: list[str] = field(default_factory=list)
    """The comments below its entries."""

    @property
    def content_end(self) -> Any:
        """Where it ends, comments that follow left out."""
        if self.entries and not self.is_flow:
            return self.entries[-1].value.content_end
        return self.end


@dataclass(slots=True, eq=False)
class _Entry:
    """One entry of a collection, with the comments above it and beside it; "" stands for a blank line."""

    key: _Node | None
    value: _Node
    above: list[str] = field(default_factory=list)
    beside: _Comment | None = None

    @property
    def start(self) -> Any:
        return (self.key or self.value).start


class _Reader:
    """Reads a document as a tree that has all that is written, comments too."""

    def __init__(self, document: Document) -> None:
        import yaml

        self.document = document
        self.lines = document.text.split("\n")
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self.events = yaml.parse(document.text, Loader=loader)
        self.anchors: dict[str, _Node] = {}
        self.entries: list[_Entry] = []
        """All of them, as they begin: the outer before the inner."""
        self.collections: list[_Node] = []

    def read(self) -> _Node:
        import yaml

        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent) and (event.version or event.tags):
                raise self.error(event.start_mark, "directives (%) are not laid out: take them out")
            if isinstance(event, yaml.NodeEvent):
                root = self.node(event, None)
                break
        self.attach()
        return root

    def error(self, mark: Any, message: str) -> PolicyError:
        at = Position(mark.line + 1, mark.column + 1)
        return PolicyError(yaml_positions.located(self.document.name, self.document.text, at, message))

    def node(self, event: Any, above: _Node | None) -> _Node:
        import yaml

        if isinstance(event, yaml.AliasEvent):
            return _Node(event.start_mark, event.end_mark, alias=self.anchors[str(event.anchor)], above=above)
        node = _Node(event.start_mark, event.end_mark, anchor=event.anchor or "", above=above)
        if node.anchor in self.anchors:
            raise self.error(node.start, f"the anchor &{node.anchor} stands twice: give one of them another name")
        if isinstance(event, yaml.ScalarEvent):
            node.text, node.plain, node.literal = event.value, event.style in (None, ""), event.style in ("|", ">")
            node.tag = event.tag or (_resolved(event.value) if event.implicit[0] else _STR)
        else:
            node.is_mapping = isinstance(event, yaml.MappingStartEvent)
            node.is_flow = bool(event.flow_style)
            self.collections.append(node)
            node.entries = []
            while not isinstance(inner := next(self.events), yaml.CollectionEndEvent):
                key = self.node(inner, node) if node.is_mapping else None
                place = len(self.entries)
                entry = _Entry(key, self.node(inner if key is None else next(self.events), node))
                entry.value.begins = (key.end if key is not None else entry.value.start).index
                self.entries.insert(place, entry)
                node.entries.append(entry)
            node.end = inner.end_mark if node.is_flow else inner.start_mark
        if node.anchor:
            self.anchors[node.anchor] = node
        return node

    def attach(self) -> None:
        """Put each comment to what it is about."""
        begun: dict[int, list[_Entry]] = {}
        ended: dict[int, list[_Entry]] = {}
        for entry in self.entries:
            begun.setdefault(entry.start.line, []).append(entry)
            end = entry.value.content_end
            # A block of text ends where the line after it begins.
            ended.setdefault(end.line - (end.column == 0), []).append(entry)
        for start, line, column, text in _comments_of(self.document.text):
            comment = _Comment(text, column)
            if not self.lines[line][:column].strip() or not _beside(
                start, begun.get(line, ()), ended.get(line, ()), comment
            ):
                self.own_line(start, line, comment)
        for line, (first, *_) in begun.items():
            if self.after_blank(line):
                first.above.append("")

    def after_blank(self, line: int) -> bool:
        return line > 0 and not self.lines[line - 1].strip()

    def own_line(self, start: int, line: int, comment: _Comment) -> None:
        """Put a comment above the next entry of what it stands in, or below the last."""
        said = ["", comment.text] if self.after_blank(line) else [comment.text]
        at = bisect_right(self.collections, start, key=lambda each: each.begins)
        node = self.collections[max(at - 1, 0)]
        while node.above is not None and start >= node.end.index:
            node = node.above
        while True:
            entries = node.entries or []
            following = bisect_right(entries, start, key=lambda entry: entry.start.index)
            if following < len(entries):
                entries[following].above += said
                return
            above = node.above
            if above is None or node.is_flow:
                break
            indentless = not node.is_mapping and node.start.column == above.start.column
            if comment.column >= node.start.column + indentless:
                break
            node = above
        node.below += said


def _beside(start: int, begun: Sequence[_Entry], ended: Sequence[_Entry], comment: _Comment) -> bool:
    """Put a comment at the end of a line to the entry that ends there, else to the one that begins there."""
    before = [entry for entry in ended if entry.value.content_end.index <= start]
    open_ = [entry for entry in begun if entry.start.index <= start]
    if before:
        entry = max(reversed(before), key=lambda entry: entry.value.content_end.index)
    elif open_:
        entry = open_[-1]
    else:
        return False
    if entry.beside is None:
        entry.beside = comment
    else:
        entry.above.append(comment.text)
    return True


def _comments_of(text: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield the place (index, line, column) and text of each comment: what stands between tokens and is no blank."""
    import yaml

    begins = [0, *(found.end() for found in re.finditer("\n", text))]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    spans = [(token.start_mark.index, token.end_mark.index) for token in yaml.scan(text, Loader=loader)]
    end = 0
    for start, after in [*spans, (len(text), len(text))]:
        yield from _between(text, end, start, begins)
        if text[start : start + 1] in ("|", ">") and after > start:  # a comment beside the head of a block of text
            stop = text.find("\n", start)
            if (found := re.search(r"\s#", text[start:stop])) is not None:
                yield from _between(text, start + found.start(), stop, begins)
        end = max(end, after)


def _between(text: str, start: int, end: int, begins: Sequence[int]) -> Iterator[tuple[int, int, int, str]]:
    while start < end and (at := text.find("#", start, end)) >= 0:
        start = text.find("\n", at)
        start = len(text) if start < 0 else start
        line = bisect_right(begins, at) - 1
        yield at, line, at - begins[line], text[at:start].rstrip(" \t\r")


def _comments(text: str) -> Counter[str]:
    return Counter(comment for _, _, _, comment in _comments_of(text))


# ---- the order of keys ----------------------------------------------------------------------------------------


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield what an annotation may mean, wrappings taken away: classes, and generic types with their arguments."""
    if get_origin(annotation) is not None and not _is_collection(annotation):
        for inner in get_args(annotation):
            yield from _parts(inner)
    else:
        yield annotation


def _is_collection(annotation: Any) -> bool:
    return get_origin(annotation) in (tuple, list, dict, Mapping)


def _class_in(annotation: Any) -> type[BaseModel] | type[Written] | None:
    found = (each for each in _parts(annotation) if isinstance(each, type) and issubclass(each, BaseModel | Written))
    return next(found, None)


def _inner(annotation: Any, mapping: bool) -> Any:
    """Return what stands inside a list, or as the values of a mapping whose keys are anybody's."""
    for each in _parts(annotation):
        origin, arguments = get_origin(each), get_args(each)
        if mapping == (origin in (dict, Mapping)) and _is_collection(each):
            return arguments[1] if mapping else arguments[0]
    return None


# ---- writing --------------------------------------------------------------------------------------------------


class _Writer:
    """Writes a tree, line by line."""

    def __init__(self) -> None:
        self.written: set[int] = set()
        """The anchors that stand already, by their nodes."""
        self.known: dict[type, dict[str, Any]] = {}
        """The keys of classes, with what each takes."""

    def document(self, root: _Node) -> list[str]:
        assert root.entries is not None
        head, root.entries[0].above = root.entries[0].above, []
        lines = [*head, *self.block(root, 0, schema.PolicyFile, ())]
        return [line.rstrip(" ") for line in _without_twins(lines)]

    def block(self, node: _Node, indent: int, means: Any, path: tuple[str, ...]) -> list[str]:
        """The lines of a collection with its entries one below the other."""
        lines: list[str] = []
        pad = " " * indent
        for n, (entry, inner) in enumerate(self.ordered(node, means)):
            above = entry.above if n else _without_first(entry.above)
            lines += [f"{pad}{comment}" if comment else "" for comment in above]
            lines += self.entry(entry, indent, inner, path)
        lines += [f"{pad}{comment}" if comment else "" for comment in node.below]
        return lines

    def ordered(self, node: _Node, means: Any) -> list[tuple[_Entry, Any]]:
        """The entries in their order, each with what its value means."""
        entries = node.entries or []
        if not node.is_mapping:
            return [(entry, _inner(means, False)) for entry in entries]
        kind = _class_in(means)
        if kind is None:
            return [(entry, _inner(means, True)) for entry in entries]
        known = self.known[kind] if kind in self.known else self.known.setdefault(kind, keys_with_types(kind))
        order = {key: n for n, key in enumerate(known)}
        found = sorted(entries, key=lambda entry: order.get(_key(entry), len(order)))
        return [(entry, known.get(_key(entry))) for entry in found]

    def entry(self, entry: _Entry, indent: int, means: Any, path: tuple[str, ...]) -> list[str]:
        pad = " " * indent
        here = (*path, _key(entry)) if entry.key is not None else (*path, "*")
        head = f"{pad}{self.key(entry.key)}:" if entry.key is not None else f"{pad}-"
        value = entry.value
        inline = self.inline(value, means, here, WIDTH - len(head) - 1)
        if inline is not None:
            found = [f"{head} {inline}".rstrip(" ")]
            own = not value.anchor and value.alias is None
            if len(found[0]) > WIDTH and here[-1] in _PROSE and _foldable(value.text) and own:
                found = [f"{head} >-", *self.wrapped(value.text, indent + _STEP)]
            elif value.literal and "\n" in value.text and _is_literal(value.text) and own:
                style = "|" if value.text.endswith("\n") else "|-"
                found = [f"{head} {style}"]
                found += [f"{pad}{' ' * _STEP}{line}" if line else "" for line in value.text.rstrip("\n").split("\n")]
            return self.with_comment(found, entry.beside)
        target = value.alias or value
        anchor = f" {self.anchor(target)}".rstrip()
        if entry.key is not None or anchor:
            lines = self.with_comment([f"{head}{anchor}"], entry.beside, aligned=not target.is_flow)
            return lines + self.block(target, indent + _STEP, means, here)
        ordered = [each for each, _ in self.ordered(target, means)]
        first = [*([entry.beside.text] if entry.beside is not None else []), *_without_first(ordered[0].above)]
        ordered[0].above = []
        lines = self.block(target, indent + _STEP, means, here)
        return [
            *(f"{pad}{comment}" if comment else "" for comment in first),
            f"{pad}- {lines[0][indent + _STEP :]}",
            *lines[1:],
        ]

    def with_comment(self, lines: list[str], comment: _Comment | None, *, aligned: bool = True) -> list[str]:
        """Put a comment beside the first line: in the column where it stood, so that those below each other stay so."""
        if comment is None:
            return lines
        gap = max(comment.column - len(lines[0]), 1) if aligned and comment.column < WIDTH else 1
        return [lines[0] + " " * gap + comment.text, *lines[1:]]

    def wrapped(self, text: str, indent: int) -> list[str]:
        pad = " " * indent
        return [
            pad + line for line in textwrap.wrap(text, WIDTH - indent, break_long_words=False, break_on_hyphens=False)
        ]

    def inline(self, node: _Node, means: Any, path: tuple[str, ...], room: int) -> str | None:
        """The value on one line; None where its entries are to stand one below the other."""
        target = node.alias or node
        if id(target) in self.written:
            return f"*{target.anchor}"
        if target.entries is None:
            return self.anchor(target) + self.scalar(target, item=path[-1] == "*")
        if target.below or any(_has_comment(entry) for entry in target.entries):
            return None
        if target.entries and (not target.is_flow or _always_block(path)):
            return None
        before = set(self.written)
        text = self.flow(node, means)
        if len(text) > room and target.entries:
            self.written = before
            return None
        return text

    def flow(self, node: _Node, means: Any) -> str:
        """The value on one line, in brackets."""
        target = node.alias or node
        if id(target) in self.written:
            return f"*{target.anchor}"
        anchor = self.anchor(target)
        if target.entries is None:
            return anchor + (self.scalar(target, item=True) or "null")
        parts = []
        for entry, inner in self.ordered(target, means):
            key = f"{self.key(entry.key)}: " if entry.key is not None else ""
            parts.append(key + self.flow(entry.value, inner))
        both = "{}" if target.is_mapping else "[]"
        return f"{anchor}{both[0]}{', '.join(parts)}{both[1]}"

    def key(self, node: _Node) -> str:
        target = node.alias or node
        if id(target) in self.written:
            return f"*{target.anchor} "
        return self.anchor(target) + (target.text if target.plain and target.tag != _STR else scalar(target.text))

    def anchor(self, node: _Node) -> str:
        """What stands before a value that others refer to; from now on they do."""
        if not node.anchor:
            return ""
        self.written.add(id(node))
        return f"&{node.anchor} "

    def scalar(self, node: _Node, *, item: bool) -> str:
        return scalar(node.text, item=item) if node.tag in _READ_AS_TEXT else node.text


def _key(entry: _Entry) -> str:
    key = entry.key
    return "" if key is None else (key.alias or key).text


def _always_block(path: tuple[str, ...]) -> bool:
    return path in _ALWAYS_BLOCK or (path[0] in ("rules", "exceptions") and (len(path) == 2 or path[2:] == ("tests",)))


def _has_comment(entry: _Entry) -> bool:
    if any(entry.above) or entry.beside is not None or entry.value.below:
        return True
    return any(_has_comment(each) for each in entry.value.entries or ())


def _foldable(text: str) -> bool:
    """Tell whether a text can be wrapped at its blanks, and says the same."""
    return text == " ".join(text.split()) and text.isprintable()


def _is_literal(text: str) -> bool:
    """Tell whether a text with several lines can stand as it is."""
    lines = text.split("\n")
    ends = not text.endswith("\n\n") and "\n\n\n" not in text and bool(lines[0]) and lines[0][0] not in " \t"
    return ends and all(line == line.rstrip() and line.isprintable() for line in lines)


def _without_first(comments: Sequence[str]) -> list[str]:
    """Without blank lines at the beginning."""
    first = next((n for n, comment in enumerate(comments) if comment), len(comments))
    return list(comments[first:])


def _without_twins(lines: Sequence[str]) -> list[str]:
    """Without blank lines at the beginning and the end, and with one where there were several."""
    found: list[str] = []
    for line in lines:
        if line.strip() or (found and found[-1].strip()):
            found.append(line)
    while found and not found[-1].strip():
        found.pop()
    return found
