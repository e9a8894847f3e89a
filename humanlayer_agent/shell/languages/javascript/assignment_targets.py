"""Assignments, declarations and patterns: what they bind, and what becomes of objects that get members."""

from humanlayer_agent.shell.languages.behaviour import Act
from humanlayer_agent.shell.languages.javascript import member_access
from humanlayer_agent.shell.languages.javascript.evaluation import Evaluator
from humanlayer_agent.shell.languages.javascript.possible_values import (
    DATA,
    EMPTY,
    Array,
    Atom,
    Cell,
    Foreign,
    Function,
    Mark,
    Native,
    Record,
    Value,
    is_numeric,
    known_texts,
    operands,
)
from humanlayer_agent.shell.languages.javascript.source_tree import Node

_PROTOCOL = frozenset({"then", "toString", "toJSON", "valueOf", "next", "return", "inspect", "handleEvent"})
"""Members that node, and the language, call by themselves."""
_SETTABLE = frozenset({"process.exitCode", "process.title", "Error.stackTraceLimit", "events.defaultMaxListeners"})


def assign(evaluator: Evaluator, target: Node, value: Value, *, declares: bool = False) -> None:
    """`target` gets `value`."""
    from humanlayer_agent.shell.languages.javascript import expression_values

    kind = target.type
    if kind in ("identifier", "shorthand_property_identifier_pattern"):
        for cell in evaluator.declared(target.text):
            evaluator.add(cell, value)
    elif kind == "member_expression":
        base = expression_values.read(evaluator, target.fields["object"])
        put(evaluator, base, frozenset({target.fields["property"].text}), value)
    elif kind == "subscript_expression":
        base = expression_values.read(evaluator, target.fields["object"])
        put(evaluator, base, expression_values.read(evaluator, target.fields["index"]), value)
    elif kind in ("assignment_pattern", "object_assignment_pattern"):
        default = expression_values.read(evaluator, target.fields["right"])
        assign(evaluator, target.fields["left"], value | default, declares=declares)
    elif kind == "object_pattern":
        _from_object(evaluator, target, value)
    elif kind == "array_pattern":
        _from_array(evaluator, target, value)
    elif kind in ("parenthesized_expression", "non_null_expression", "as_expression", "rest_pattern"):
        assign(evaluator, target.children[0], value, declares=declares)
    elif kind == "undefined":
        return
    else:
        evaluator.doubt(f"{kind.replace('_', ' ')} is nothing that is read here")


def _from_object(evaluator: Evaluator, pattern: Node, value: Value) -> None:
    from humanlayer_agent.shell.languages.javascript import expression_values

    for child in pattern.children:
        kind = child.type
        if kind == "pair_pattern":
            name = expression_values.key(evaluator, child.fields["key"])
            assign(evaluator, child.fields["value"], member_access.by_key(evaluator, value, name))
        elif kind == "shorthand_property_identifier_pattern":
            assign(evaluator, child, member_access.get(evaluator, value, child.text))
        elif kind == "object_assignment_pattern":
            name_node = child.fields["left"]
            assign(evaluator, child, member_access.get(evaluator, value, name_node.text))
        elif kind == "rest_pattern":
            _rest(evaluator, child, value)
        elif kind != "comment":
            evaluator.doubt(f"{kind.replace('_', ' ')} is nothing that is read here")


def _rest(evaluator: Evaluator, target: Node, value: Value) -> None:
    """`...rest` of an object: it has some of its members."""
    if name := evaluator.capability(value):
        evaluator.doubt(f"the members of {name} are put into an object, and can't be followed there")
    assign(evaluator, target, DATA | frozenset(a for a in value if not isinstance(a, Native)))


def _from_array(evaluator: Evaluator, pattern: Node, value: Value) -> None:
    targets = [child for child in pattern.children if child.type != "comment"]
    dense = pattern.tokens.count(",") <= len(targets)
    items = evaluator.elements(value)
    words = [a.words for a in value if isinstance(a, Array)]
    known = words[0] if dense and len(value) == 1 and words else None
    for n, target in enumerate(targets):
        if target.type == "rest_pattern":
            assign(evaluator, target, evaluator.array(target, "rest", items))
        else:
            one = known[n] if known is not None and n < len(known) else EMPTY if known is not None else items
            assign(evaluator, target, one)


# ---- members ----------------------------------------------------------------------------------------


def put(evaluator: Evaluator, base: Value, name: Value, value: Value) -> None:
    """`value` is stored in `base` under the member `name`."""
    name = name or frozenset({"undefined"})
    known = known_texts(name)
    if known is not None:
        for each in known:
            put_named(evaluator, base, each, value)
        return
    symbol = any(isinstance(atom, Native) for atom in name)
    if symbol:
        evaluator.hand_over(frozenset(a for a in value if isinstance(a, Function)), "the language")
        if Mark.PICKED in value:
            evaluator.doubt("the language may call a member that is picked by a name that is not known")
    if not is_numeric(name):
        evaluator.add(evaluator.unnamed, _kept(evaluator, value))
    for atom in base:
        if isinstance(atom, Array):
            evaluator.add(atom.items, value)
            _disordered(evaluator, atom)
        elif isinstance(atom, Record) and not symbol and not atom.open:
            atom.open, evaluator.changed = True, True
        elif isinstance(atom, Native | Foreign) or atom in (Mark.PROTOTYPE, Mark.METHOD):
            _strange(evaluator, atom, name, value)
        elif atom in (Mark.PICKED, Mark.CHOSEN) and not is_numeric(name):
            evaluator.bent = "something is stored under a name that is not known in something picked by such a name"
    evaluator.keep(value, "an object")


def _disordered(evaluator: Evaluator, array: Array) -> None:
    if array.words is not None:
        array.words, evaluator.changed = None, True


def _kept(evaluator: Evaluator, value: Value) -> Value:
    if name := evaluator.capability(value - {Native("process.env")}):
        evaluator.doubt(f"{name} is put into an object, and can't be followed there")
        return frozenset(a for a in value if not isinstance(a, Native) or evaluator.harmless(a))
    return value


def put_named(evaluator: Evaluator, base: Value, name: str, value: Value) -> None:
    """`value` is stored in `base` under `name`."""
    if name in member_access.DENIED and not _is_own_class(base, name, value):
        evaluator.doubt(f"sets .{name}, which changes what objects are")
        return
    if name in _PROTOCOL:
        evaluator.hand_over(frozenset(a for a in value if isinstance(a, Function)), f".{name}")
    exported = False
    for atom in base:
        if isinstance(atom, Record):
            evaluator.add(atom.fields.setdefault(name, Cell()), _kept(evaluator, value))
        elif isinstance(atom, Array):
            evaluator.add(atom.items, value)
            _disordered(evaluator, atom)
        elif isinstance(atom, Native | Foreign) or atom in (Mark.PROTOTYPE, Mark.METHOD):
            exported |= _strange(evaluator, atom, frozenset({name}), value)
        elif atom in (Mark.PICKED, Mark.CHOSEN):
            evaluator.bent = f".{name} is set in something that is picked by a name that is not known"
    if not exported:
        value = _kept(evaluator, value)
    evaluator.add(evaluator.member(name), value)


def _is_own_class(base: Value, name: str, value: Value) -> bool:
    """`A.prototype = ...`, `A.prototype.constructor = A` of functions of the text."""
    functions = all(isinstance(atom, Function) for atom in base)
    if name == "prototype":
        return functions and bool(base)
    return name == "constructor" and bool(value) and all(isinstance(atom, Function) for atom in value)


def _strange(evaluator: Evaluator, atom: Atom, name: Value, value: Value) -> bool:
    """Something that is not the text's own gets a member. True where that is seen in full."""
    from humanlayer_agent.shell.languages.javascript import module_imports
    from humanlayer_agent.shell.languages.javascript.foreign_calls import judge

    known = (known_texts(name) or [""])[0]
    whole = f"{atom.name}.{known}" if isinstance(atom, Native) and known else ""
    if isinstance(atom, Foreign):
        judge(evaluator, [value], "set", "a module")
    elif isinstance(atom, Native) and atom.name == "process.env":
        for each in operands(name):
            content = operands(value)
            given = content if len(content) == 1 and content[0].known else ()
            evaluator.note(Act("environment", (each, *given), "code", "process.env", evaluator.line))
    elif whole == "module.exports" or (isinstance(atom, Native) and atom.name == "exports"):
        module_imports.exported(evaluator, value)
        return True
    elif isinstance(atom, Native) and atom.name == "globalThis" and known:
        evaluator.add(evaluator.free.setdefault(known, Cell()), _kept(evaluator, value))
    elif isinstance(atom, Native) and atom.name.startswith("@"):
        evaluator.hand_over(value, atom.name[1:])
    elif whole not in _SETTABLE:
        evaluator.doubt(f"changes what {whole or 'objects of the language'} is")
    return False


def removed(evaluator: Evaluator, target: Node) -> None:
    """`delete x.y`."""
    from humanlayer_agent.shell.languages.javascript import expression_values

    base = expression_values.read(evaluator, target.fields["object"])
    if target.type == "subscript_expression":
        name = expression_values.read(evaluator, target.fields["index"])
    else:
        name = frozenset({target.fields["property"].text})
    for atom in base:
        if atom == Native("process.env"):
            for each in operands(name):
                evaluator.note(Act("environment", (each,), "code", "process.env", evaluator.line))
        elif atom == Native("require.cache"):
            continue
        elif isinstance(atom, Native) and not atom.name.startswith("@") and atom.name != "globalThis":
            evaluator.doubt(f"removes something of {atom.name}")
        elif atom is Mark.PROTOTYPE:
            evaluator.doubt("changes what objects of the language are")
        elif isinstance(atom, Array):
            _disordered(evaluator, atom)
        elif isinstance(atom, Record) and not atom.open:
            atom.open, evaluator.changed = True, True
