"""Functions, methods and classes: their bodies are read where they stand, as if they were called."""

from humanlayer_agent.shell.languages.javascript import assignment_targets
from humanlayer_agent.shell.languages.javascript.evaluation import Evaluator
from humanlayer_agent.shell.languages.javascript.lexical_scopes import Scope, bound_names, fill
from humanlayer_agent.shell.languages.javascript.possible_values import (
    DATA,
    EMPTY,
    Cell,
    Foreign,
    Function,
    Mark,
    Native,
    Value,
)
from humanlayer_agent.shell.languages.javascript.source_tree import Node

_TYPES = frozenset({"this", "type_annotation", "type_parameters", "comment"})


def function(evaluator: Evaluator, node: Node) -> Value:
    """A function, which is a value; its body is read."""
    found = evaluator.site(node, "function", lambda: Function(node))
    _read(evaluator, found, node, receiver=None)
    return frozenset({found})


def method(evaluator: Evaluator, node: Node, owner: Value, *, receiver: Value = EMPTY) -> Function:
    """A method of `owner`; `receiver` is what `this` may be in a class."""
    from humanlayer_agent.shell.languages.javascript import expression_values

    found = evaluator.site(node, "function", lambda: Function(node))
    name = expression_values.key(evaluator, node.fields["name"])
    whole: Value = frozenset({found})
    if "get" in node.tokens:
        found.called = True
        assignment_targets.put(evaluator, owner, name, found.returns.value | DATA)
    elif "set" in node.tokens:
        evaluator.hand_over(whole, "a setter")
    elif not (name == frozenset({"constructor"}) and receiver):
        assignment_targets.put(evaluator, owner, name, whole)
    _read(evaluator, found, node, receiver=receiver or None)
    return found


def _read(evaluator: Evaluator, found: Function, node: Node, *, receiver: Value | None) -> None:
    body = node.field("body")
    if body is None:
        return
    arrow = node.type == "arrow_function"
    outer = evaluator.scope, evaluator.function
    scope = evaluator.scopes.get(id(node))
    if scope is None:
        scope = evaluator.scopes[id(node)] = _scope(evaluator, node, body)
    evaluator.scope = scope
    if not arrow:
        evaluator.function = found
        default = DATA if scope.strict else DATA | {Native("globalThis")}
        evaluator.receivers.append((receiver if receiver is not None else default) | found.receiver.value)
        if receiver is None:
            evaluator.bases.append(DATA)
    name = node.field("name")
    if node.type in ("function_expression", "generator_function") and name is not None:
        evaluator.add(scope.cells[name.text], frozenset({found}))
    evaluator.returning.append(found.returns)
    _parameters(evaluator, found, node)
    _body(evaluator, found, node, body)
    evaluator.returning.pop()
    if not arrow:
        evaluator.receivers.pop()
        if receiver is None:
            evaluator.bases.pop()
    evaluator.scope, evaluator.function = outer


def _scope(evaluator: Evaluator, node: Node, body: Node) -> Scope:
    scope = Scope(evaluator.scope, function=True)
    name = node.field("name")
    if node.type in ("function_expression", "generator_function") and name is not None:
        scope.declare(name.text)
    for each in parameters(node):
        for one in bound_names(each):
            scope.declare(one)
    if body.type == "statement_block":
        scope.strict |= any(_is_directive(child) for child in body.children[:3])
        fill(scope, body.children)
    return scope


def _is_directive(node: Node) -> bool:
    return node.type == "expression_statement" and node.text.strip(" ;") in ("'use strict'", '"use strict"')


def parameters(node: Node) -> list[Node]:
    """The patterns of a function's parameters."""
    single = node.field("parameter")
    if single is not None:
        return [single]
    listed = node.field("parameters")
    return [] if listed is None else [each for each in listed.children if each.type not in _TYPES]


def _parameters(evaluator: Evaluator, found: Function, node: Node) -> None:
    anyone = DATA if found.assumed else EMPTY
    for n, each in enumerate(parameters(node)):
        if n == len(found.inputs):
            found.inputs.append(Cell())
        value = found.inputs[n].value | anyone
        if each.type in ("required_parameter", "optional_parameter"):
            value = _typed_parameter(evaluator, each, value)
            each = each.fields["pattern"]
        if each.type == "this":
            continue
        if each.type == "rest_pattern":
            value = evaluator.array(each, "rest", value)
        assignment_targets.assign(evaluator, each, value)


def _typed_parameter(evaluator: Evaluator, each: Node, value: Value) -> Value:
    from humanlayer_agent.shell.languages.javascript import expression_values

    if any(child.type == "decorator" for child in each.children):
        evaluator.doubt("a decorator")
    default = each.field("value")
    if default is not None:
        value |= expression_values.read(evaluator, default)
    if any(child.type in ("accessibility_modifier", "override_modifier") for child in each.children) or (
        "readonly" in each.tokens
    ):
        for name in bound_names(each.fields["pattern"]):
            assignment_targets.put_named(evaluator, DATA, name, value)
    return value


def _body(evaluator: Evaluator, found: Function, node: Node, body: Node) -> None:
    from humanlayer_agent.shell.languages.javascript import control_statements, expression_values

    if body.type == "statement_block":
        control_statements.every(evaluator, body.children)
        if "*" in node.tokens or node.type.startswith("generator"):
            evaluator.keep(found.returns.value, "a generator")
            evaluator.add(found.returns, DATA | evaluator.kept.value)
    else:
        evaluator.add(found.returns, expression_values.read(evaluator, body))


# ---- classes ----------------------------------------------------------------------------------------


def klass(evaluator: Evaluator, node: Node) -> Value:
    """A class: its methods are members of any object, its constructor is what `new` calls."""
    found = evaluator.site(node, "class", lambda: Function(node, is_class=True))
    found.called = True
    whole: Value = frozenset({found})
    heritage = next((child for child in node.children if child.type == "class_heritage"), None)
    if any(child.type == "decorator" for child in node.children):
        evaluator.doubt("a decorator")
    if heritage is not None:
        _extended(evaluator, found, heritage)
    scope = evaluator.scopes.get(id(node))
    if scope is None:
        scope = evaluator.scopes[id(node)] = Scope(evaluator.scope)
        scope.strict = True
        if (name := node.field("name")) is not None:
            scope.declare(name.text)
    outer, evaluator.scope = evaluator.scope, scope
    if (name := node.field("name")) is not None:
        evaluator.add(scope.cells[name.text], whole)
    instance = instances(evaluator, found) | DATA
    evaluator.bases.append(found.base.value)
    for member in node.fields["body"].children:
        _member(evaluator, found, member, whole, instance)
    evaluator.bases.pop()
    evaluator.scope = outer
    return whole


def _extended(evaluator: Evaluator, found: Function, heritage: Node) -> None:
    from humanlayer_agent.shell.languages.javascript import expression_values

    for child in heritage.children:
        if child.type == "implements_clause":
            continue
        value = expression_values.read(evaluator, child.fields.get("value", child))
        for atom in value:
            entry = evaluator.tables.members.get(atom.name) if isinstance(atom, Native) else None
            known = isinstance(atom, Function | Foreign) or (entry is not None and (entry.base or entry.keeps))
            if not known and not (atom is Mark.DATA and len(value) > 1) and atom is not Mark.NUMBER:
                evaluator.doubt("a class that extends what nobody here knows")
        evaluator.add(found.base, value)


def instances(evaluator: Evaluator, found: Function, depth: int = 0) -> Value:
    """What instances of a class are besides objects of the text, because of what it extends."""
    out: Value = EMPTY
    for atom in found.base.value:
        if isinstance(atom, Native):
            entry = evaluator.tables.members.get(atom.name)
            if entry is not None and entry.base and entry.base != "@Plain":
                out |= {Native(entry.base)}
        elif isinstance(atom, Foreign):
            out |= {Foreign("")}
        elif isinstance(atom, Function) and depth < 20:
            out |= instances(evaluator, atom, depth + 1)
    return out


def _member(evaluator: Evaluator, found: Function, member: Node, whole: Value, instance: Value) -> None:
    from humanlayer_agent.shell.languages.javascript import control_statements, expression_values

    kind = member.type
    if kind == "method_definition":
        static = "static" in member.tokens
        made = method(evaluator, member, whole if static else DATA, receiver=whole | DATA if static else instance)
        foreign = any(not isinstance(a, Function) for a in found.base.value)
        if member.fields["name"].text == "constructor" and not static:
            found.maker = made
        elif (foreign or member.fields["name"].type == "computed_property_name") and not made.assumed:
            made.assumed, evaluator.changed = True, True
        if any(child.type == "decorator" for child in member.children):
            evaluator.doubt("a decorator")
    elif kind in ("field_definition", "public_field_definition"):
        evaluator.receivers.append(instance | whole)
        value = member.field("value")
        name = expression_values.key(evaluator, member.field("property") or member.fields["name"])
        held = expression_values.read(evaluator, value) if value is not None else EMPTY
        assignment_targets.put(evaluator, whole | DATA, name, held)
        evaluator.receivers.pop()
        if any(child.type == "decorator" for child in member.children):
            evaluator.doubt("a decorator")
    elif kind == "class_static_block":
        evaluator.receivers.append(whole)
        outer = evaluator.scope
        scope = evaluator.scopes.setdefault(id(member), Scope(outer, function=True))
        body = member.fields["body"]
        fill(scope, body.children)
        evaluator.scope = scope
        control_statements.every(evaluator, body.children)
        evaluator.scope = outer
        evaluator.receivers.pop()
    elif kind not in ("comment", "method_signature", "abstract_method_signature", "index_signature"):
        evaluator.doubt(f"{kind.replace('_', ' ')} is nothing that is read here")
