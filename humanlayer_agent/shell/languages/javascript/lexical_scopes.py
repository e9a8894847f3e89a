"""Names and where they are declared: what `var`, `let`, functions, classes, parameters and imports bind."""

from collections.abc import Iterator

from humanlayer_agent.shell.languages.javascript.possible_values import Cell
from humanlayer_agent.shell.languages.javascript.source_tree import Node

FUNCTIONS = frozenset(
    {
        "function_declaration", "function_expression", "arrow_function", "generator_function",
        "generator_function_declaration", "method_definition", "class_static_block",
    }
)  # fmt: skip
CLASSES = frozenset({"class_declaration", "class", "abstract_class_declaration"})
_DECLARED = frozenset({"function_declaration", "generator_function_declaration"})
_BLOCKS = frozenset({"statement_block", "for_statement", "for_in_statement", "switch_body", "catch_clause"})
_LABELLED = frozenset({"labeled_statement", "if_statement", "else_clause"})
"""In old code a function may be declared right below one."""


class Scope:
    """The names of a function or a block.

    `soft` are those that may still stand for what is outside: `var require;` leaves node's as it is.
    """

    __slots__ = ("cells", "function", "parent", "soft", "strict")

    def __init__(self, parent: "Scope | None", *, function: bool = False) -> None:
        self.parent, self.function = parent, function
        self.cells: dict[str, Cell] = {}
        self.soft: set[str] = set()
        self.strict: bool = parent is not None and parent.strict

    def declare(self, name: str, *, soft: bool = False) -> None:
        """`name` is declared here."""
        if name not in self.cells:
            self.cells[name] = Cell()
            if soft:
                self.soft.add(name)
        elif not soft:
            self.soft.discard(name)


def bound_names(pattern: Node) -> Iterator[str]:
    """The names that a pattern binds."""
    kind = pattern.type
    if kind in ("identifier", "shorthand_property_identifier_pattern", "shorthand_property_identifier"):
        yield pattern.text
    elif kind in ("assignment_pattern", "object_assignment_pattern"):
        left = pattern.field("left")
        if left is not None:
            yield from bound_names(left)
    elif kind == "pair_pattern":
        value = pattern.field("value")
        if value is not None:
            yield from bound_names(value)
    elif kind in ("required_parameter", "optional_parameter"):
        inner = pattern.field("pattern")
        if inner is not None:
            yield from bound_names(inner)
    elif kind in ("object_pattern", "array_pattern", "rest_pattern"):
        for child in pattern.children:
            yield from bound_names(child)


def fill(scope: Scope, body: list[Node]) -> None:
    """Declare in `scope` what `body`, the statements right in it, declares."""
    for node in body:
        _lexical(scope, node)
    if scope.function:
        for node in body:
            for each in _hoisted(node):
                scope.declare(each, soft=scope.parent is None)
            for name in _nested_functions(node):
                # Old code sees them in the whole function, strict code sees what is outside.
                scope.declare(name, soft=name not in scope.cells or name in scope.soft)


def _lexical(scope: Scope, node: Node) -> None:
    while node.type == "export_statement" or node.type in _LABELLED:
        inner = node.field("declaration") or node.field("body") or node.field("consequence")
        if inner is None:
            return
        node = inner
    kind = node.type
    if kind == "lexical_declaration":
        for each in node.children:
            name = each.field("name")
            if name is not None:
                for one in bound_names(name):
                    scope.declare(one)
    elif kind in _DECLARED or kind in CLASSES or kind == "enum_declaration":
        name = node.field("name")
        if name is not None:
            scope.declare(name.text, soft=scope.parent is None and kind in _DECLARED)
    elif kind == "import_statement":
        for one in _imported(node):
            scope.declare(one)


def _imported(node: Node) -> Iterator[str]:
    for clause in node.children:
        if clause.type != "import_clause":
            continue
        for each in clause.children:
            if each.type == "identifier":
                yield each.text
            elif each.type == "namespace_import":
                yield from (name.text for name in each.children)
            elif each.type == "named_imports":
                for one in each.children:
                    name = one.field("alias") or one.field("name")
                    if name is not None:
                        yield name.text


def _hoisted(node: Node) -> Iterator[str]:
    """The names of `var` in a function's statement, however deep."""
    stack = [node]
    while stack:
        at = stack.pop()
        if at.type in FUNCTIONS or at.type in CLASSES:
            continue
        if at.type == "variable_declaration":
            for each in at.children:
                name = each.field("name")
                if name is not None:
                    yield from bound_names(name)
        elif at.type == "for_in_statement" and "var" in at.tokens:
            left = at.field("left")
            if left is not None:
                yield from bound_names(left)
        stack += at.children


def _nested_functions(node: Node) -> Iterator[str]:
    stack = [(node, False)]
    while stack:
        at, nested = stack.pop()
        if at.type in _DECLARED and nested:
            name = at.field("name")
            if name is not None:
                yield name.text
        if at.type in FUNCTIONS or at.type in CLASSES:
            continue
        stack += [(child, nested or at.type in _BLOCKS) for child in at.children]
