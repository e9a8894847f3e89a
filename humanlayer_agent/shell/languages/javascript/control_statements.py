"""Statements of JavaScript: all of them are read, whichever would run."""

from collections.abc import Callable, Iterable

from humanlayer_agent.shell.languages.javascript import (
    assignment_targets,
    expression_values,
    function_bodies,
    function_calls,
    module_imports,
)
from humanlayer_agent.shell.languages.javascript.evaluation import Evaluator
from humanlayer_agent.shell.languages.javascript.lexical_scopes import Scope, bound_names, fill
from humanlayer_agent.shell.languages.javascript.possible_values import DATA, EMPTY, NUMBER, TEXT, Value
from humanlayer_agent.shell.languages.javascript.source_tree import Node


def program(evaluator: Evaluator) -> None:
    """Read the whole program."""
    if not evaluator.scopes:
        evaluator.scopes[id(evaluator.root)] = evaluator.scope
        fill(evaluator.scope, evaluator.root.children)
    every(evaluator, evaluator.root.children)


def every(evaluator: Evaluator, nodes: Iterable[Node]) -> None:
    """Read statements one after the other; functions that are declared first."""
    listed = list(nodes)
    for node in listed:
        if node.type in ("function_declaration", "generator_function_declaration"):
            read(evaluator, node)
    for node in listed:
        if node.type not in ("function_declaration", "generator_function_declaration"):
            read(evaluator, node)


def read(evaluator: Evaluator, node: Node) -> None:
    """Read one statement."""
    evaluator.step(node)
    reader = _READERS.get(node.type)
    if reader is None:
        evaluator.doubt(f"{node.type.replace('_', ' ')} is nothing that is read here")
        return
    reader(evaluator, node)


def _nothing(evaluator: Evaluator, node: Node) -> None:
    pass


def _expression(evaluator: Evaluator, node: Node) -> None:
    for child in node.children:
        if child.type != "comment":
            value = expression_values.read(evaluator, child)
            if evaluator.function is None:  # `node -p` prints it
                function_calls.shown(evaluator, value)


def _block(evaluator: Evaluator, node: Node) -> None:
    scope = evaluator.scopes.get(id(node))
    if scope is None:
        scope = evaluator.scopes[id(node)] = Scope(evaluator.scope)
        fill(scope, node.children)
    outer, evaluator.scope = evaluator.scope, scope
    every(evaluator, node.children)
    evaluator.scope = outer


def _children(evaluator: Evaluator, node: Node) -> None:
    """Statements and expressions that stand right in it."""
    for child in node.children:
        if child.type in ("statement_identifier", "comment"):
            continue
        if child.type in _READERS:
            read(evaluator, child)
        else:
            expression_values.read(evaluator, child)


def _declaration(evaluator: Evaluator, node: Node) -> None:
    for each in node.children:
        if each.type != "variable_declarator":
            if each.type != "comment":
                evaluator.doubt(f"{each.type.replace('_', ' ')} is nothing that is read here")
            continue
        value = each.field("value")
        held = expression_values.read(evaluator, value) if value is not None else NUMBER
        assignment_targets.assign(evaluator, each.fields["name"], held, declares=True)


def _function(evaluator: Evaluator, node: Node) -> None:
    found = function_bodies.function(evaluator, node)
    if (name := node.field("name")) is not None:
        for cell in evaluator.declared(name.text):
            evaluator.add(cell, found)


def _class(evaluator: Evaluator, node: Node) -> None:
    found = function_bodies.klass(evaluator, node)
    if (name := node.field("name")) is not None:
        for cell in evaluator.declared(name.text):
            evaluator.add(cell, found)


def _for(evaluator: Evaluator, node: Node) -> None:
    scope = evaluator.scopes.get(id(node))
    if scope is None:
        scope = evaluator.scopes[id(node)] = Scope(evaluator.scope)
        start = node.field("initializer")
        if start is not None:
            fill(scope, [start])
    outer, evaluator.scope = evaluator.scope, scope
    _children(evaluator, node)
    evaluator.scope = outer


def _for_in(evaluator: Evaluator, node: Node) -> None:
    left = node.fields["left"]
    scope = evaluator.scopes.get(id(node))
    if scope is None:
        scope = evaluator.scopes[id(node)] = Scope(evaluator.scope)
        if {"let", "const"} & set(node.tokens):
            for name in bound_names(left):
                scope.declare(name)
    outer = evaluator.scope
    over = expression_values.read(evaluator, node.fields["right"])
    evaluator.scope = scope
    one: Value = evaluator.elements(over) if "of" in node.tokens else TEXT
    if (default := node.field("value")) is not None:
        one |= expression_values.read(evaluator, default)
    assignment_targets.assign(evaluator, left, one or DATA)
    read(evaluator, node.fields["body"])
    evaluator.scope = outer


def _switch_case(evaluator: Evaluator, node: Node) -> None:
    value = node.field("value")
    if value is not None:
        expression_values.read(evaluator, value)
    every(evaluator, [child for child in node.children if child is not value])


def _catch(evaluator: Evaluator, node: Node) -> None:
    scope = evaluator.scopes.get(id(node))
    parameter = node.field("parameter")
    if scope is None:
        scope = evaluator.scopes[id(node)] = Scope(evaluator.scope)
        for name in bound_names(parameter) if parameter is not None else ():
            scope.declare(name)
    outer, evaluator.scope = evaluator.scope, scope
    if parameter is not None:
        assignment_targets.assign(evaluator, parameter, DATA | evaluator.kept.value)
    read(evaluator, node.fields["body"])
    evaluator.scope = outer


def _return(evaluator: Evaluator, node: Node) -> None:
    value: Value = EMPTY
    for child in node.children:
        if child.type != "comment":
            value = expression_values.read(evaluator, child)
    if evaluator.returning:
        evaluator.add(evaluator.returning[-1], value)


def _throw(evaluator: Evaluator, node: Node) -> None:
    for child in node.children:
        if child.type != "comment":
            evaluator.keep(expression_values.read(evaluator, child), "an error")


def _enum(evaluator: Evaluator, node: Node) -> None:
    for child in node.fields["body"].children:
        value = child.field("value")
        if value is not None:
            expression_values.read(evaluator, value)
    for cell in evaluator.declared(node.fields["name"].text):
        evaluator.add(cell, DATA)


_READERS: dict[str, Callable[[Evaluator, Node], None]] = {
    **dict.fromkeys(
        (
            "comment", "hash_bang_line", "empty_statement", "break_statement", "continue_statement",
            "debugger_statement",
            "interface_declaration", "type_alias_declaration", "ambient_declaration", "function_signature",
            "statement_identifier",
        ),
        _nothing,
    ),
    "expression_statement": _expression,
    "statement_block": _block,
    "lexical_declaration": _declaration,
    "variable_declaration": _declaration,
    "function_declaration": _function,
    "generator_function_declaration": _function,
    "class_declaration": _class,
    "abstract_class_declaration": _class,
    "if_statement": _children,
    "else_clause": _children,
    "for_statement": _for,
    "for_in_statement": _for_in,
    "while_statement": _children,
    "do_statement": _children,
    "labeled_statement": _children,
    "switch_statement": _children,
    "switch_body": _block,
    "switch_case": _switch_case,
    "switch_default": _switch_case,
    "try_statement": _children,
    "catch_clause": _catch,
    "finally_clause": _children,
    "return_statement": _return,
    "throw_statement": _throw,
    "enum_declaration": _enum,
    "import_statement": module_imports.statement,
    "export_statement": module_imports.export,
}  # fmt: skip
