"""Members: `a.b`, `a["b"]`, `a[b]`."""

from humanlayer_agent.shell.languages.javascript.evaluation import Evaluator
from humanlayer_agent.shell.languages.javascript.possible_values import (
    CHOSEN,
    DATA,
    EMPTY,
    NUMBER,
    PICKED,
    TEXT,
    Array,
    Entry,
    Foreign,
    Function,
    Mark,
    Native,
    Number,
    Record,
    Value,
    is_numeric,
    known_texts,
)
from humanlayer_agent.shell.languages.javascript.source_tree import Node

DENIED = frozenset(
    str.split(
        """
        constructor __proto__ prototype caller callee __defineGetter__ __defineSetter__ __lookupGetter__
        __lookupSetter__ mainModule binding _linkedBinding dlopen _load _extensions _compile _resolveFilename
        """
    )
)
"""Members that lead from data to what makes code, or change what objects are."""
EXTENDED = frozenset({"@Emitter", "@OwnStream"})
"""What classes of a text extend, which add members of their own."""
_APPLIED = frozenset({"call", "apply", "bind"})
MAX_ALIASES = 8


def resolved(evaluator: Evaluator, name: str) -> Value:
    """The value of what the tables have under `name`."""
    from humanlayer_agent.shell.languages.javascript import api_effects

    for _ in range(MAX_ALIASES):
        entry = evaluator.tables.members.get(name)
        if entry is None:
            break
        if entry.alias:
            name = entry.alias
            continue
        if entry.special in api_effects.READ:
            return api_effects.READ[entry.special](evaluator)
        if entry.result in ("value", "number", "text") and not evaluator.tables.has_members(name):
            if entry.result == "value":
                return DATA
            if name in ("undefined", "NaN", "Infinity") or name.startswith(("Math.E", "Math.P")):
                return NUMBER
        break
    return frozenset({Native(name)})


def read(evaluator: Evaluator, node: Node) -> Value:
    """`object.property`."""
    from humanlayer_agent.shell.languages.javascript import expression_values

    base, name = node.fields["object"], node.fields["property"].text
    if base.type == "meta_property":
        return _of_import_meta(evaluator, base, name)
    if base.type == "super":
        return get(evaluator, (evaluator.bases[-1] if evaluator.bases else EMPTY) | DATA, name)
    if name == "name" and base.type == "member_expression" and base.fields["property"].text == "constructor":
        expression_values.read(evaluator, base.fields["object"])
        return TEXT  # the name of its class
    return get(evaluator, expression_values.read(evaluator, base), name)


def _of_import_meta(evaluator: Evaluator, base: Node, name: str) -> Value:
    from humanlayer_agent.shell.languages.javascript import api_effects

    if not base.text.startswith("import"):
        return DATA
    if name == "url":
        return frozenset({f"file://{evaluator.path}"}) if evaluator.path else TEXT
    if name in ("dirname", "filename"):
        return api_effects.READ["dirname-here" if name == "dirname" else name](evaluator)
    if name == "main":
        return NUMBER
    evaluator.doubt(f"uses import.meta.{name}, which nobody here knows")
    return DATA


def read_key(evaluator: Evaluator, node: Node) -> Value:
    """`object[index]`."""
    from humanlayer_agent.shell.languages.javascript import expression_values

    base = node.fields["object"]
    value = DATA if base.type == "super" else expression_values.read(evaluator, base)
    return by_key(evaluator, value, expression_values.read(evaluator, node.fields["index"]))


def by_key(evaluator: Evaluator, base: Value, name: Value) -> Value:
    """The member of `base` whose name is a value."""
    name = name or frozenset({"undefined"})
    if is_numeric(name):
        return _at(evaluator, base, name)
    known = known_texts(name)
    if known is not None:
        return EMPTY.union(*(get(evaluator, base, each) for each in known))
    out: Value = EMPTY
    for atom in base:
        if atom == Native("process.env"):
            evaluator.act("environment", frozenset({"environment"}), "process.env", role="read")
            out |= TEXT
        elif isinstance(atom, Native) and not atom.name.startswith("@"):
            evaluator.doubt(f"a member of {atom.name} whose name is not known")
        elif isinstance(atom, Foreign):
            out |= {Foreign("")}
        elif isinstance(atom, Record):
            out |= EMPTY.union(*(cell.value for cell in atom.fields.values()))
            if atom.inherits_environment:
                evaluator.act("environment", frozenset({"environment"}), "process.env", role="read")
        elif isinstance(atom, Array):
            out |= atom.items.value
    if any(isinstance(atom, Native) and atom.name.startswith("Symbol.") for atom in name):
        return out | DATA | evaluator.unnamed.value | evaluator.kept.value
    plain = all(isinstance(a, str | Array | Record) or a in (Mark.TEXT, Mark.NUMBER) for a in base)
    return out | (CHOSEN if plain else PICKED) | evaluator.everything()


def _at(evaluator: Evaluator, base: Value, name: Value) -> Value:
    """The element at a place that is a number."""
    out: Value = EMPTY
    places = [int(a.text) for a in name if isinstance(a, Number)]
    for atom in base:
        if isinstance(atom, Array):
            if atom.words is not None and len(places) == len(name) == 1:
                out |= atom.words[places[0]] if places[0] < len(atom.words) else EMPTY
            else:
                out |= atom.items.value
        elif isinstance(atom, str) or atom is Mark.TEXT:
            out |= TEXT
        elif isinstance(atom, Foreign):
            out |= {Foreign("")}
        elif isinstance(atom, Native):
            if not atom.name.startswith("@"):
                evaluator.doubt(f"a member of {atom.name} whose name is a number")
        elif isinstance(atom, Record):
            out |= EMPTY.union(*(cell.value for cell in atom.fields.values()))
            out |= evaluator.unnamed.value if atom.open else EMPTY
        else:
            out |= DATA | evaluator.kept.value | evaluator.unnamed.value
    return out or DATA


def get(evaluator: Evaluator, base: Value, name: str) -> Value:
    """The member `name` of `base`."""
    out: Value = EMPTY
    for atom in base:
        if isinstance(atom, Native):
            out |= native_member(evaluator, atom.name, name)
        elif name in DENIED and not (name == "prototype" and isinstance(atom, Function)):
            evaluator.doubt(f"uses .{name}, which leads out of what can be followed")
            return DATA
        elif isinstance(atom, Record):
            cell = atom.fields.get(name)
            if cell is None and atom.inherits_environment:
                evaluator.act("environment", frozenset({name}), "process.env", role="read")
                out |= TEXT
            out |= cell.value if cell is not None else EMPTY
            if cell is None or atom.open:
                out |= evaluator.member(name).value | evaluator.unnamed.value
            out |= DATA if atom.open else EMPTY
        elif isinstance(atom, Foreign):
            out |= {Foreign(name)}
        elif isinstance(atom, Entry) and name == "name":
            out |= {atom}
        elif atom is Mark.PROTOTYPE:
            out |= {Mark.METHOD} if name in evaluator.tables.methods else DATA
        elif isinstance(atom, Function) and name in _APPLIED:
            evaluator.doubt(f".{name} of a function is used without being called")
        elif name == "length" and not evaluator.member("length").value:
            out |= NUMBER
        else:
            out |= DATA | evaluator.member(name).value | evaluator.unnamed.value
            if name in _APPLIED or (name in evaluator.tables.methods and atom is not Mark.DATA):
                out |= {Mark.METHOD}
    return out or NUMBER


def native_member(evaluator: Evaluator, owner: str, name: str) -> Value:
    """A member of something of node's, or of the language's."""
    if owner == "process.env":
        evaluator.act("environment", frozenset({name}), "process.env", role="read")
        return frozenset({"~"}) if name == "HOME" else TEXT
    if owner == "globalThis":
        return _global(evaluator, name)
    entry = evaluator.tables.member(owner, name)
    if entry is not None:
        return resolved(evaluator, entry.name)
    if name == "default" and owner in evaluator.tables.modules.values():
        return frozenset({Native(owner)})
    if evaluator.tables.has_members(f"{owner}.{name}"):
        return frozenset({Native(f"{owner}.{name}")})
    known = evaluator.tables.members.get(owner)
    if known is not None and known.harmless and name in ("name", "length"):
        return TEXT
    if name == "prototype" and known is not None and known.harmless:
        return frozenset({Mark.PROTOTYPE})
    if owner in EXTENDED and evaluator.member(name).value and name not in DENIED:
        return evaluator.member(name).value  # of a class that extends it
    if owner in ("exports", "module.exports"):
        return DATA | evaluator.member(name).value
    evaluator.doubt(f"uses {owner}.{name}, which nobody here knows")
    return DATA


def _global(evaluator: Evaluator, name: str) -> Value:
    from humanlayer_agent.shell.languages.javascript import expression_values

    cell = evaluator.free.get(name)
    stored = (cell.value if cell is not None else EMPTY) | evaluator.member(name).value
    native = expression_values.own(evaluator, name)
    if native is None and (not stored or name in evaluator.tables.others or name in DENIED):
        evaluator.doubt(f"uses .{name} of what may be the global object, which nobody here knows")
        return DATA
    return stored | (native or EMPTY)
