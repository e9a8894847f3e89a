"""The tree of a JavaScript or TypeScript text, by tree-sitter, or why it is not to be trusted.

tree-sitter is lenient where node is strict, and in a few places reads another text than node does: what node takes for
a comment or a division may be hidden from it, or the other way round. A text with any of these is not read.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Parser, TreeCursor

MAX_SOURCE = 64 * 1024
"""In characters. On errors tree-sitter needs about a second for as many."""
MAX_NODES = 60_000
MAX_NESTED = 400

_ENDS_LINES = re.compile("[\u2028\u2029\0]|\r(?!\n)")
"""What ends a line, and with it a comment, for node only, or for nobody."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_HTML_COMMENT = re.compile("<!--|-->")
_TEXTS = frozenset({"string_fragment", "comment", "regex_pattern", "escape_sequence", "string", "hash_bang_line"})
"""Nodes in which node and tree-sitter see plain text alike, as they began alike."""


class Unreadable(Exception):
    """The text is none that can be read; the message says why, as a doubt does."""


class Node:
    """A node: its type, where it stands, its named children, and what they are to it.

    `tokens` are the types of its children that have no name: operators, keywords.
    """

    __slots__ = ("children", "end", "fields", "line", "source", "start", "tokens", "type")

    def __init__(self, type_: str, start: int, end: int, line: int, source: str) -> None:
        self.type, self.start, self.end, self.line, self.source = type_, start, end, line, source
        self.children: list[Node] = []
        self.fields: dict[str, Node] = {}
        self.tokens: list[str] = []

    @property
    def text(self) -> str:
        return self.source[self.start : self.end]

    def field(self, name: str) -> "Node | None":
        return self.fields.get(name)

    def walk(self) -> Iterator["Node"]:
        """Give it and every node below it, without recursion."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


def parse(text: str, *, typed: bool = False) -> Node:
    """Return the tree of `text`, as TypeScript where it is `typed`. Raises Unreadable."""
    if len(text) > MAX_SOURCE:
        raise Unreadable("the JavaScript code is too long to be read")
    if _ENDS_LINES.search(text):
        raise Unreadable("the JavaScript code has characters that hide where its lines end")
    plain = _NOT_ASCII.sub(lambda found: " " if found[0].isspace() or found[0] == "\ufeff" else "_", text)
    tree = _parser(typed).parse(plain.encode("ascii"))
    if tree.root_node.has_error:
        raise Unreadable("this is no JavaScript that can be read")
    root = _copied(tree.walk(), text)
    _refuse_ambiguous(root, plain)
    return root


@cache
def _parser(typed: bool) -> "Parser":
    from tree_sitter import Language, Parser

    if typed:
        import tree_sitter_typescript

        return Parser(Language(tree_sitter_typescript.language_typescript()))
    import tree_sitter_javascript

    return Parser(Language(tree_sitter_javascript.language()))


def _copied(cursor: "TreeCursor", text: str) -> Node:
    """The tree as nodes of ours, made without recursion. Offsets are those of characters, as all are one byte."""
    root = _node(cursor, text)
    path, count, ahead = [root], 0, cursor.goto_first_child()
    while ahead:
        at = cursor.node
        if at is not None and at.is_named:
            count += 1
            node = _node(cursor, text)
            parent = path[-1]
            parent.children.append(node)
            if cursor.field_name is not None:
                parent.fields.setdefault(cursor.field_name, node)
            if count > MAX_NODES or len(path) > MAX_NESTED:
                raise Unreadable("the JavaScript code is too large, or nested too deep")
            if cursor.goto_first_child():
                path.append(node)
                continue
        elif at is not None:
            path[-1].tokens.append(at.type)
        while not (ahead := cursor.goto_next_sibling()):
            if len(path) == 1 or not cursor.goto_parent():
                return root
            path.pop()
    return root


def _node(cursor: "TreeCursor", text: str) -> Node:
    at = cursor.node
    assert at is not None
    return Node(at.type, at.start_byte, at.end_byte, at.start_point[0] + 1, text)


def _refuse_ambiguous(root: Node, plain: str) -> None:
    """Raise Unreadable where node may see other tokens than tree-sitter does."""
    texts: list[tuple[int, int]] = []
    for node in root.walk():
        if node.type in _TEXTS:
            texts.append((node.start, node.end))
        elif node.type == "html_comment" or node.type.startswith("jsx_"):
            raise Unreadable(f"line {node.line}: an HTML comment, or JSX")
        elif node.type == "hash_bang_line" and node.start:
            raise Unreadable(f"line {node.line}: a first line that is not the first")
        elif node.type in ("await_expression", "yield_expression"):
            # Where these are plain names, `/` divides.
            inner = node.source[node.start : node.end].removeprefix("await").removeprefix("yield").lstrip(" \t\r\n*")
            if inner.startswith(("/", "<", "`", "+", "-", "[", "(")) and _is_name_there(node):
                raise Unreadable(f"line {node.line}: {node.type[:5]} may be a name here")
        elif node.type.endswith("identifier") and "\\" in node.text:
            raise Unreadable(f"line {node.line}: a name that is written with escapes")
    for found in _HTML_COMMENT.finditer(plain):
        if not any(start <= found.start() < end for start, end in texts):
            raise Unreadable("an HTML comment")


def _is_name_there(node: Node) -> bool:
    """May `await` or `yield` be a name where a regular expression, or a comment, follows it?"""
    rest = node.text[5:].lstrip(" \t\r\n*")
    return rest.startswith(("/", "<"))
