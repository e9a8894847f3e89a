"""Values of the expressions of JavaScript. A kind of node that has no reader here is a doubt."""

import re
from collections.abc import Callable

from humanlayer_agent.shell.languages.javascript import (
    assignment_targets,
    function_bodies,
    function_calls,
    member_access,
    module_imports,
)
from humanlayer_agent.shell.languages.javascript.evaluation import Evaluator
from humanlayer_agent.shell.languages.javascript.possible_values import (
    DATA,
    EMPTY,
    NUMBER,
    TEXT,
    Array,
    Cell,
    Function,
    Mark,
    Native,
    Number,
    Record,
    Value,
    is_numeric,
    joined,
)
from humanlayer_agent.shell.languages.javascript.source_tree import Node

Reader = Callable[[Evaluator, Node], Value]

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": "", "\r\n": ""}
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,14}", re.ASCII)
_HEX = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{0*([0-9a-fA-F]{1,6})\})")
_VARIABLE = re.compile(r"!{0,2}process\.env\.[A-Za-z_]\w*", re.ASCII)


def read(evaluator: Evaluator, node: Node) -> Value:
    """What `node` may be."""
    evaluator.step(node)
    reader = _READERS.get(node.type)
    if reader is None:
        evaluator.doubt(f"{node.type.replace('_', ' ')} is nothing that is read here")
        return DATA
    return reader(evaluator, node)


def _nothing(evaluator: Evaluator, node: Node) -> Value:
    return DATA


def _number(evaluator: Evaluator, node: Node) -> Value:
    return frozenset({Number(node.text)}) if _DECIMAL.fullmatch(node.text) else NUMBER


def _plain_number(evaluator: Evaluator, node: Node) -> Value:
    return NUMBER


def text_of(node: Node) -> Value:
    """The text that a string literal, or a part of a template, is."""
    out = []
    for child in node.children:
        if child.type == "string_fragment":
            out.append(child.text)
        elif (decoded := _escape(child.text)) is not None:
            out.append(decoded)
        else:
            return TEXT
    return frozenset({"".join(out)})


def _escape(text: str) -> str | None:
    found = _HEX.fullmatch(text)
    if found is not None:
        code = int(found[1] or found[2] or found[3], 16)
        return chr(code) if code < 0x110000 else None
    inner = text[1:]
    if inner in _ESCAPES:
        return _ESCAPES[inner]
    return inner if len(inner) == 1 and not inner.isdigit() and inner not in "xu" else None


def _string(evaluator: Evaluator, node: Node) -> Value:
    return text_of(node)


def _template(evaluator: Evaluator, node: Node) -> Value:
    parts: list[Value] = []
    for child in node.children:
        if child.type == "template_substitution":
            values = [read(evaluator, each) for each in child.children if each.type != "comment"]
            parts.append(values[-1] if values else TEXT)
        elif child.type == "string_fragment":
            parts.append(frozenset({child.text.replace("\r\n", "\n")}))
        else:
            decoded = _escape(child.text)
            parts.append(TEXT if decoded is None else frozenset({decoded}))
    return joined(parts)


def _regex(evaluator: Evaluator, node: Node) -> Value:
    return DATA


def _identifier(evaluator: Evaluator, node: Node) -> Value:
    return named(evaluator, node.text)


def named(evaluator: Evaluator, name: str, *, asked: bool = False) -> Value:
    """What the name may stand for; `asked`: by `typeof`, so that it need not be there."""
    if name == "arguments" and evaluator.function is not None and evaluator.is_free(name):
        return _arguments(evaluator, evaluator.function)
    cells = evaluator.declared(name)
    value = EMPTY.union(*(cell.value for cell in cells))
    if not evaluator.is_free(name):
        return value
    native = own(evaluator, name)
    if native is None and (name in evaluator.tables.others or (not value and not asked and len(cells) == 1)):
        evaluator.doubt(f"uses {name}, which nobody here knows")
        return DATA
    return value | (native or EMPTY)


def _arguments(evaluator: Evaluator, function: Function) -> Value:
    """`arguments`; in old code, what is stored in it is stored in the parameters."""
    given = function.given.value | DATA
    made = evaluator.array(function.node, "arguments", given)
    stored = evaluator.elements(made) - given
    for cell in function.inputs if stored else ():
        evaluator.add(cell, stored)
    return made


def own(evaluator: Evaluator, name: str) -> Value | None:
    """What node has under the name, as a global; None: nothing that is known."""
    tables = evaluator.tables
    if name == "process" or (name in tables.modules and "/" not in name and name not in tables.globals):
        return frozenset({Native(tables.modules[name])})  # `node -e` has modules without `require`
    if name not in tables.globals:
        return None
    return member_access.resolved(evaluator, name)


def _this(evaluator: Evaluator, node: Node) -> Value:
    return evaluator.receivers[-1] if evaluator.receivers else DATA | {Native("globalThis")}


def _inner(evaluator: Evaluator, node: Node) -> Value:
    value: Value = EMPTY
    for child in node.children:
        if child.type != "comment" and not _is_type(child):
            value = read(evaluator, child)
    return value


def _is_type(node: Node) -> bool:
    return node.type.endswith(("_type", "type_annotation", "type_arguments", "type_identifier", "type_query"))


def _typed(evaluator: Evaluator, node: Node) -> Value:
    """`x as T`, `x!`, `x satisfies T`: x stands first."""
    return read(evaluator, node.children[0])


def _asserted(evaluator: Evaluator, node: Node) -> Value:
    """`<T>x`."""
    return read(evaluator, node.children[-1])


def _binary(evaluator: Evaluator, node: Node) -> Value:
    left, right = _side(evaluator, node, "left"), _side(evaluator, node, "right")
    operator = node.fields["operator"].type if "operator" in node.fields else (node.tokens or [""])[0]
    if operator in ("&&", "||", "??"):
        return left | right
    if operator == "+":
        return NUMBER if is_numeric(left) and is_numeric(right) else joined((left, right))
    return NUMBER


def _side(evaluator: Evaluator, node: Node, name: str) -> Value:
    side = node.field(name)
    if side is None or side.type == "private_property_identifier":
        return DATA
    return read(evaluator, side)


def _unary(evaluator: Evaluator, node: Node) -> Value:
    argument = node.fields["argument"]
    if "typeof" in node.tokens:
        if argument.type == "identifier":
            named(evaluator, argument.text, asked=True)
        else:
            read(evaluator, argument)
        return frozenset({Mark.TEXT})
    if "delete" in node.tokens and argument.type in ("member_expression", "subscript_expression"):
        assignment_targets.removed(evaluator, argument)
        return NUMBER
    if "!" not in node.tokens or not _is_set(evaluator, argument):
        read(evaluator, argument)
    return NUMBER


def _is_set(evaluator: Evaluator, node: Node) -> bool:
    """Does `node` only ask whether a variable of the environment is set? Nothing gets its value."""
    return _VARIABLE.fullmatch(node.text) is not None and evaluator.declared("process")[0].value == EMPTY


def _update(evaluator: Evaluator, node: Node) -> Value:
    argument = node.fields["argument"]
    read(evaluator, argument)
    assignment_targets.assign(evaluator, argument, NUMBER)
    return NUMBER


def _assignment(evaluator: Evaluator, node: Node) -> Value:
    value = read(evaluator, node.fields["right"])
    assignment_targets.assign(evaluator, node.fields["left"], value)
    return value


def _augmented(evaluator: Evaluator, node: Node) -> Value:
    left = read(evaluator, node.fields["left"])
    value = read(evaluator, node.fields["right"])
    operator = node.text[node.fields["left"].end - node.start : node.fields["right"].start - node.start].strip()
    if operator in ("||=", "&&=", "??="):
        value = left | value
    elif operator == "+=":
        value = NUMBER if is_numeric(left) and is_numeric(value) else joined((left or TEXT, value))
    else:
        value = NUMBER
    assignment_targets.assign(evaluator, node.fields["left"], value)
    return value


def _ternary(evaluator: Evaluator, node: Node) -> Value:
    if not _is_set(evaluator, node.fields["condition"]):
        read(evaluator, node.fields["condition"])
    return read(evaluator, node.fields["consequence"]) | read(evaluator, node.fields["alternative"])


def _sequence(evaluator: Evaluator, node: Node) -> Value:
    return _inner(evaluator, node)


def _array(evaluator: Evaluator, node: Node) -> Value:
    children = [child for child in node.children if child.type != "comment"]
    words: list[Value] | None = [] if node.tokens.count(",") <= len(children) else None
    items: Value = EMPTY
    for child in children:
        if child.type == "spread_element":
            value = evaluator.elements(spread := read(evaluator, child.children[-1]))
            known = [a.words for a in spread if isinstance(a, Array)]
            if words is not None and len(spread) == 1 and known and known[0] is not None:
                words += known[0]
            else:
                words = None
        else:
            value = read(evaluator, child)
            if words is not None:
                words.append(value)
        if name := evaluator.capability(value):
            evaluator.doubt(f"{name} is put into an array, and can't be followed there")
        items |= value
    return evaluator.array(node, "array", items, words=words)


def _object(evaluator: Evaluator, node: Node) -> Value:
    made = evaluator.site(node, "object", Record)
    whole: Value = frozenset({made})
    for child in node.children:
        kind = child.type
        if kind == "comment":
            continue
        if kind == "pair":
            value = read(evaluator, child.fields["value"])
            assignment_targets.put(evaluator, whole, key(evaluator, child.fields["key"]), value)
        elif kind in ("shorthand_property_identifier", "identifier"):
            assignment_targets.put(evaluator, whole, frozenset({child.text}), named(evaluator, child.text))
        elif kind == "method_definition":
            function_bodies.method(evaluator, child, whole)
        elif kind == "spread_element":
            _spread(evaluator, made, read(evaluator, child.children[-1]))
        else:
            evaluator.doubt(f"{kind.replace('_', ' ')} is nothing that is read here")
    return whole


def _spread(evaluator: Evaluator, made: Record, value: Value) -> None:
    for atom in value:
        if isinstance(atom, Record) and not atom.open:
            made.inherits_environment |= atom.inherits_environment
            for name, cell in list(atom.fields.items()):
                evaluator.add(made.fields.setdefault(name, Cell()), cell.value)
        elif atom == Native("process.env"):
            made.inherits_environment = True
        elif isinstance(atom, Native):
            evaluator.doubt(f"the members of {atom.name} are put into an object, and can't be followed there")
        elif atom is not Mark.NUMBER and not made.open:
            made.open, evaluator.changed = True, True


def key(evaluator: Evaluator, node: Node) -> Value:
    """The name of a member, as it stands in a literal, a pattern or a class."""
    if node.type in ("property_identifier", "private_property_identifier", "identifier"):
        return frozenset({node.text})
    if node.type == "computed_property_name":
        return _inner(evaluator, node)
    return read(evaluator, node)


def _meta(evaluator: Evaluator, node: Node) -> Value:
    return frozenset({Mark.METHOD})  # new.target; import.meta has its members read by `member_access`


def _await(evaluator: Evaluator, node: Node) -> Value:
    return _inner(evaluator, node)


def _yield(evaluator: Evaluator, node: Node) -> Value:
    value = _inner(evaluator, node)
    if "*" in node.tokens:
        value = evaluator.elements(value)
    evaluator.keep(value, "a generator")
    return DATA | evaluator.kept.value


_READERS: dict[str, Reader] = {
    "number": _number,
    "true": _plain_number,
    "false": _plain_number,
    "null": _plain_number,
    "undefined": _plain_number,
    "string": _string,
    "template_string": _template,
    "regex": _regex,
    "identifier": _identifier,
    "this": _this,
    "parenthesized_expression": _inner,
    "sequence_expression": _sequence,
    "as_expression": _typed,
    "satisfies_expression": _typed,
    "non_null_expression": _typed,
    "type_assertion": _asserted,
    "binary_expression": _binary,
    "unary_expression": _unary,
    "update_expression": _update,
    "assignment_expression": _assignment,
    "augmented_assignment_expression": _augmented,
    "ternary_expression": _ternary,
    "array": _array,
    "object": _object,
    "meta_property": _meta,
    "await_expression": _await,
    "yield_expression": _yield,
    "function_expression": function_bodies.function,
    "arrow_function": function_bodies.function,
    "generator_function": function_bodies.function,
    "class": function_bodies.klass,
    "member_expression": member_access.read,
    "subscript_expression": member_access.read_key,
    "call_expression": function_calls.read,
    "new_expression": function_calls.read_new,
    "import": module_imports.bare,
}
