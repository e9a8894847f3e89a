"""Calls: of functions of the text, of node's own, of methods, and of what nobody knows."""

from collections.abc import Sequence
from dataclasses import dataclass

from humanlayer_agent.shell.languages.javascript import foreign_calls, member_access, module_imports
from humanlayer_agent.shell.languages.javascript.api_tables import Entry
from humanlayer_agent.shell.languages.javascript.evaluation import Evaluator
from humanlayer_agent.shell.languages.javascript.possible_values import (
    DATA,
    EMPTY,
    NUMBER,
    TEXT,
    Array,
    Atom,
    Cell,
    Foreign,
    Function,
    Mark,
    Native,
    Record,
    Value,
)
from humanlayer_agent.shell.languages.javascript.source_tree import Node

MAX_DEPTH = 20
_APPLIED = frozenset({"call", "apply", "bind"})
_BY_ELEMENT = frozenset(
    str.split("map flatMap filter forEach find findLast findIndex findLastIndex some every sort toSorted")
)
_GIVES_ARRAY = frozenset(
    str.split("map flatMap filter sort toSorted slice reverse toReversed concat flat values splice toSpliced with")
)
_MUTATES = frozenset(str.split("push unshift set add splice fill sort reverse pop shift copyWithin"))


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a call is given: `values` in order, then perhaps elements of `rest`. `node` is the call."""

    node: Node
    values: tuple[Value, ...] = ()
    rest: Value | None = None

    def at(self, n: int) -> Value:
        """The argument `n`; EMPTY where there is none."""
        if n < len(self.values):
            return self.values[n]
        return self.rest if self.rest is not None else EMPTY

    def every(self, first: int = 0) -> Value:
        """All of them from `first` on, as one."""
        return EMPTY.union(*self.values[first:], self.rest or EMPTY)

    def after(self, n: int) -> "Arguments":
        """The same without the first `n`."""
        return Arguments(self.node, self.values[n:], self.rest)


def arguments_of(evaluator: Evaluator, node: Node | None, call: Node) -> Arguments:
    """The arguments of a call, read."""
    from humanlayer_agent.shell.languages.javascript import expression_values

    if node is None:
        return Arguments(call)
    if node.type == "template_string":
        values = [
            expression_values.read(evaluator, inner)
            for child in node.children
            if child.type == "template_substitution"
            for inner in child.children
        ]
        return Arguments(call, (DATA, *values))
    found: list[Value] = []
    rest: Value | None = None
    for child in node.children:
        if child.type == "comment":
            continue
        if child.type == "spread_element":
            value = expression_values.read(evaluator, child.children[-1])
            words = [a.words for a in value if isinstance(a, Array)]
            if rest is None and len(value) == 1 and words and words[0] is not None:
                found += words[0]
            else:
                rest = (rest or EMPTY) | evaluator.elements(value) | DATA
        elif rest is not None:
            rest |= expression_values.read(evaluator, child)
        else:
            found.append(expression_values.read(evaluator, child))
    return Arguments(call, tuple(found), rest)


def read(evaluator: Evaluator, node: Node) -> Value:
    """`f(...)`, `a.f(...)`, `super(...)`, `import(...)`, a tagged template."""
    from humanlayer_agent.shell.languages.javascript import expression_values

    callee = node.fields["function"]
    while callee.type in ("parenthesized_expression", "non_null_expression") and len(callee.children) == 1:
        callee = callee.children[0]
    if callee.type == "import":
        return module_imports.dynamic(evaluator, arguments_of(evaluator, node.field("arguments"), node).values)
    if callee.type == "super":
        args = arguments_of(evaluator, node.field("arguments"), node)
        return _constructed(evaluator, evaluator.bases[-1] if evaluator.bases else EMPTY, args, "super")
    if callee.type == "member_expression" and callee.fields["object"].type != "meta_property":
        base = callee.fields["object"]
        value = (evaluator.bases[-1] if evaluator.bases else EMPTY) | DATA if base.type == "super" else (
            expression_values.read(evaluator, base)
        )  # fmt: skip
        args = arguments_of(evaluator, node.field("arguments"), node)
        if callee.text == "import.meta.resolve":
            return TEXT
        return method(evaluator, value, callee.fields["property"].text, args)
    if callee.type == "subscript_expression":
        base_value = expression_values.read(evaluator, callee.fields["object"])
        name = expression_values.read(evaluator, callee.fields["index"])
        args = arguments_of(evaluator, node.field("arguments"), node)
        from humanlayer_agent.shell.languages.javascript.possible_values import is_numeric, known_texts

        known = known_texts(name)
        if known is not None and not is_numeric(name):
            return EMPTY.union(*(method(evaluator, base_value, each, args) for each in known))
        value = member_access.by_key(evaluator, base_value, name)
        if Mark.CHOSEN in value:
            _generic(evaluator, base_value, args)
        return call(evaluator, value, args, callee.text)
    value = expression_values.read(evaluator, callee)
    return call(evaluator, value, arguments_of(evaluator, node.field("arguments"), node), callee.text)


def read_new(evaluator: Evaluator, node: Node) -> Value:
    """`new X(...)`."""
    from humanlayer_agent.shell.languages.javascript import expression_values

    value = expression_values.read(evaluator, node.fields["constructor"])
    args = arguments_of(evaluator, node.field("arguments"), node)
    return _constructed(evaluator, value, args, node.fields["constructor"].text)


def _constructed(evaluator: Evaluator, value: Value, args: Arguments, label: str) -> Value:
    functions = frozenset(a for a in value if isinstance(a, Function))
    out: Value = EMPTY
    for atom in functions:
        assert isinstance(atom, Function)
        out |= _construct(evaluator, atom, args, 0)
    others = value - functions
    if others and not (functions and others <= DATA):
        out |= call(evaluator, others, args, label)
    elif not value:
        evaluator.doubt(f"makes {_short(label)}, which nobody here knows")
    return out | (DATA if functions or not out else EMPTY)


def _construct(evaluator: Evaluator, made: Function, args: Arguments, depth: int) -> Value:
    from humanlayer_agent.shell.languages.javascript import function_bodies

    if not made.is_class:
        return bind(evaluator, made, args)
    if made.maker is not None:
        bind(evaluator, made.maker, args)
    elif depth < MAX_DEPTH:
        for atom in made.base.value:
            if isinstance(atom, Function):
                _construct(evaluator, atom, args, depth + 1)
            elif isinstance(atom, Native | Foreign):
                call(evaluator, frozenset({atom}), args, "super")
    return function_bodies.instances(evaluator, made) | DATA


def bind(evaluator: Evaluator, function: Function, args: Arguments) -> Value:
    """A function of the text is called. Returns what it gives."""
    if not function.called:
        function.called, evaluator.changed = True, True
    from humanlayer_agent.shell.languages.javascript.function_bodies import parameters

    listed = parameters(function.node) if not function.is_class else []
    while len(function.inputs) < len(listed):
        function.inputs.append(Cell())
    for n, each in enumerate(listed):
        inner = each.field("pattern") or each
        value = args.every(n) if "rest_pattern" in (each.type, inner.type) else args.at(n)
        if args.rest is not None:
            value |= args.rest
        evaluator.add(function.inputs[n], value)
    evaluator.add(function.given, args.every())
    promised = "async" in function.node.tokens or "*" in function.node.tokens
    return function.returns.value | (DATA if promised else EMPTY)


def call(evaluator: Evaluator, value: Value, args: Arguments, label: str) -> Value:
    """What is in `value` is called."""
    out: Value = EMPTY
    known = False
    for atom in value:
        if isinstance(atom, Function):
            out |= bind(evaluator, atom, args)
            known = True
        elif isinstance(atom, Native):
            out |= of_native(evaluator, atom.name, args)
            known = True
        elif isinstance(atom, Foreign):
            out |= foreign_calls.call(evaluator, args, atom.name or label)
            known = True
        elif atom in (Mark.METHOD, Mark.CHOSEN):
            out |= _generic(evaluator, EMPTY, args)
            known = True
        elif atom is Mark.PICKED:
            evaluator.doubt(f"calls {_short(label)}, which is picked by a name that is not known")
            return DATA
    if not known:
        evaluator.doubt(f"calls {_short(label)}, which nobody here knows")
        return DATA
    return out


def _short(label: str) -> str:
    line = " ".join(label.split())
    return line if len(line) <= 40 else line[:37] + "..."


# ---- node's own -------------------------------------------------------------------------------------


def of_native(evaluator: Evaluator, name: str, args: Arguments) -> Value:
    """Something of node's, or of the language's, is called, or made with `new`."""
    entry = evaluator.tables.members.get(name)
    if entry is None or entry.result == "value":
        evaluator.doubt(f"calls {name}, which nobody here knows")
        return DATA
    return apply(evaluator, entry, args, frozenset({Native(name)}))


def apply(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """What `entry` says happens."""
    from humanlayer_agent.shell.languages.javascript import api_effects

    result: Value = EMPTY
    if not entry.name.startswith("child_process."):
        shown(evaluator, args.every())
    if entry.special:
        found = api_effects.SPECIALS.get(entry.special)
        if found is None:
            evaluator.doubt(f"calls {entry.name}, which nobody here knows")
            return DATA
        result = found(evaluator, entry, args, receiver)
    for kind, at, role, recursive in entry.effects:
        operand = args.at(at) if at >= 0 else DATA
        api_effects.effect(evaluator, entry, kind, operand, role, recursive=recursive, filled=args.at(1))
    result |= _result(evaluator, entry, receiver)
    _receive(evaluator, args, receiver | result)
    if entry.effects or entry.special:
        answers: list[Value] = [frozenset({Native(each)}) for each in entry.answers]
        _answered(evaluator, args, answers or [DATA, result | DATA, result | DATA])
        return result
    if entry.answers:
        callbacks(evaluator, args, [frozenset({Native(each)}) for each in entry.answers])
    elif entry.calls is not None:
        given = DATA | evaluator.elements(args.at(0))
        if entry.name.startswith("@"):
            given = DATA | evaluator.kept.value if _is_own(receiver) else _of_event(args)
        result |= callbacks(evaluator, args.after(entry.calls), [given] * 3)
    if entry.keeps:
        evaluator.keep(args.every(), f"what {entry.name} gives")
        result |= evaluator.kept.value | evaluator.elements(args.every())
        if entry.mixes:
            evaluator.add(
                evaluator.unnamed, evaluator.kept.value | evaluator.elements(evaluator.elements(args.every()))
            )
    elif entry.name != "console" and not entry.name.startswith("console."):
        _lent(evaluator, args, entry)
    return result


def shown(evaluator: Evaluator, value: Value) -> None:
    """What gets `value` may look at all variables of the environment, if they are in it, however deep."""
    pending, seen = [*value], set[Record]()
    for atom in pending:
        if atom == Native("process.env") or (isinstance(atom, Record) and atom.inherits_environment):
            evaluator.act("environment", frozenset({"environment"}), "process.env", role="read")
        elif isinstance(atom, Record) and atom not in seen:
            seen.add(atom)  # it may hold itself
            for cell in atom.fields.values():
                evaluator.count()
                pending += [each for each in cell.value if isinstance(each, Native | Record)]


def _result(evaluator: Evaluator, entry: Entry, receiver: Value) -> Value:
    if entry.gives == "@Plain":
        return DATA
    if entry.gives:
        return receiver if entry.gives == "self" else frozenset({Native(entry.gives)})
    if entry.special:
        return EMPTY
    if entry.result == "texts":
        return evaluator.array(evaluator.root, "texts", TEXT)
    return {"text": TEXT, "number": NUMBER}.get(entry.result, DATA)


_EVENTS = frozenset(
    str.split(
        """
        data error end close finish exit listening line message open timeout drain readable spawn disconnect abort
        beforeExit SIGINT SIGTERM uncaughtException unhandledRejection warning pause resume history change rename
        """
    )
)
"""Events of node's own objects that bring nothing but data."""


def _of_event(args: Arguments) -> Value:
    """What an event of one of node's objects brings."""
    from humanlayer_agent.shell.languages.javascript.possible_values import known_texts

    known = known_texts(args.at(0))
    if known is not None and _EVENTS.issuperset(known):
        return DATA
    return DATA | {Native("@Event")}


def _is_own(receiver: Value) -> bool:
    """Is it an object of a class that classes of the text extend, which brings what the text sends?"""
    return all(isinstance(atom, Native) and atom.name in member_access.EXTENDED for atom in receiver)


def _receive(evaluator: Evaluator, args: Arguments, receiver: Value) -> None:
    """`this` of functions that are given to one of node's objects may be that object."""
    things = frozenset(a for a in receiver if isinstance(a, Native) and a.name.startswith("@"))
    for atom in args.every() if things else ():
        if isinstance(atom, Function):
            evaluator.add(atom.receiver, things)


def _answered(evaluator: Evaluator, args: Arguments, answers: Sequence[Value]) -> None:
    """Functions that are given to one of node's functions are called with its answer."""
    for value in (*args.values, *([args.rest] if args.rest is not None else [])):
        for atom in value:
            if isinstance(atom, Function):
                bind(evaluator, atom, Arguments(args.node, tuple(answers)))
            elif isinstance(atom, Native) and not evaluator.harmless(atom):
                evaluator.doubt(f"{atom.name} is handed to a function that may call it")
            elif isinstance(atom, Record):
                evaluator.hand_over(
                    frozenset(a for c in atom.fields.values() for a in c.value if isinstance(a, Function)), "node"
                )


def _lent(evaluator: Evaluator, args: Arguments, entry: Entry) -> None:
    """What gets to a function that does nothing with it but to look at it, and to call what it has by protocol."""
    for atom in args.every():
        if isinstance(atom, Native) and not evaluator.harmless(atom):
            evaluator.doubt(f"{atom.name} is handed to {entry.name}")
        elif isinstance(atom, Record | Function) and entry.calls is not None:
            evaluator.hand_over(frozenset({atom}), entry.name)


def callbacks(evaluator: Evaluator, args: Arguments, given: Sequence[Value]) -> Value:
    """The functions among `args` are called with `given`. Returns what they give."""
    out: Value = EMPTY
    inner = Arguments(args.node, tuple(given))
    for atom in args.every():
        if isinstance(atom, Function):
            out |= bind(evaluator, atom, inner)
        elif isinstance(atom, Native) and not atom.name.startswith("@"):
            out |= of_native(evaluator, atom.name, inner)
        elif isinstance(atom, Foreign):
            out |= foreign_calls.call(evaluator, inner, atom.name)
        elif atom is Mark.PICKED:
            evaluator.doubt("something is called that is picked by a name that is not known")
        elif isinstance(atom, Record):
            evaluator.hand_over(frozenset({atom}), "the language")
    return out


# ---- methods ----------------------------------------------------------------------------------------


def method(evaluator: Evaluator, base: Value, name: str, args: Arguments) -> Value:
    """`base.name(...)`."""
    if name in member_access.DENIED:
        member_access.get(evaluator, base, name)
        evaluator.doubt(f"calls .{name}(), which leads out of what can be followed")
        return DATA
    if name in _APPLIED:
        return _applied(evaluator, base, name, args)
    out: Value = EMPTY
    known = False
    plain: set[Atom] = set()
    for atom in base:
        if isinstance(atom, Native):
            found = _of_native(evaluator, atom, name, args)
            known |= found is not None
            out |= found or EMPTY
        elif isinstance(atom, Foreign):
            out |= foreign_calls.call(evaluator, args, name)
            known = True
        else:
            plain.add(atom)
    if plain:
        stored = _stored(evaluator, frozenset(plain), name)
        if callable_ := frozenset(a for a in stored if isinstance(a, Function | Native | Foreign)):
            out |= call(evaluator, callable_, args, f".{name}") | DATA
            known = True
        if Mark.PICKED in stored:
            evaluator.doubt(f"calls .{name}(), which is picked by a name that is not known")
        entry = evaluator.tables.methods.get(name)
        if entry is not None and Mark.PROTOTYPE not in plain:
            out |= of_method(evaluator, entry, frozenset(plain), args)
            known = True
        if name in _MUTATES and {Mark.PICKED, Mark.CHOSEN} & plain:
            _bend(evaluator, name)
    if not known:
        evaluator.doubt(f"calls .{name}(), which nobody here knows")
        return DATA
    return out


def _bend(evaluator: Evaluator, name: str) -> None:
    if any(act.kind in ("shell", "program", "network") for act in evaluator.acts):
        evaluator.bent = f".{name}() of something that is picked by a name that is not known"


def _stored(evaluator: Evaluator, base: Value, name: str) -> Value:
    """What the text may have stored as the member."""
    out: Value = EMPTY
    for atom in base:
        if isinstance(atom, Record) and name in atom.fields and not atom.open:
            out |= atom.fields[name].value
        else:
            out |= evaluator.member(name).value | evaluator.unnamed.value
    return out


def _of_native(evaluator: Evaluator, atom: Native, name: str, args: Arguments) -> Value | None:
    if atom.name == "process.env":
        evaluator.doubt(f"calls .{name}() of process.env")
        return DATA
    if atom.name == "globalThis":
        return call(evaluator, member_access.get(evaluator, frozenset({atom}), name), args, name)
    entry = evaluator.tables.member(atom.name, name)
    if entry is None and name in ("then", "catch", "finally"):  # `import("fs").then(...)`
        return of_method(evaluator, evaluator.tables.methods[name], frozenset({atom}), args)
    if entry is None and atom.name in member_access.EXTENDED and (stored := evaluator.member(name).value):
        return call(evaluator, stored, args, f".{name}")
    value = member_access.get(evaluator, frozenset({atom}), name)
    if entry is not None and entry.special and not entry.alias:
        return apply(evaluator, entry, args, frozenset({atom}))
    if entry is not None and entry.gives == "self":
        return apply(evaluator, entry, args, frozenset({atom}))
    return call(evaluator, value, args, f"{atom.name}.{name}")


def _applied(evaluator: Evaluator, base: Value, name: str, args: Arguments) -> Value:
    """`f.call(x, ...)`, `f.apply(x, list)`, `f.bind(x, ...)`."""
    out: Value = EMPTY
    given = args.after(1)
    if name == "apply":
        given = Arguments(args.node, (), evaluator.elements(args.at(1)) | DATA)
    for atom in base:
        if isinstance(atom, Function):
            evaluator.add(atom.receiver, args.at(0))
            if name == "bind":
                evaluator.hand_over(frozenset({atom}), ".bind")
                bind(evaluator, atom, Arguments(args.node, given.values, given.every() | DATA))
                out |= {atom}
            else:
                out |= bind(evaluator, atom, given)
        elif isinstance(atom, Native) and evaluator.harmless(atom) and not atom.name.startswith("@"):
            out |= {atom} if name == "bind" else of_native(evaluator, atom.name, given)
        elif isinstance(atom, Foreign):
            out |= foreign_calls.call(evaluator, args, atom.name)
        elif atom is Mark.METHOD or (atom is Mark.DATA and Mark.METHOD in base):
            out |= _generic(evaluator, args.at(0), given) | (frozenset({Mark.METHOD}) if name == "bind" else EMPTY)
        else:
            whole = atom.name if isinstance(atom, Native) else "something that nobody here knows"
            evaluator.doubt(f"uses .{name}() of {whole}")
    return out or DATA


def _generic(evaluator: Evaluator, receiver: Value, args: Arguments) -> Value:
    """Some method of the language's is called: it may call, keep and give whatever it gets."""
    for value in (receiver, args.every()):
        if Mark.PICKED in value:
            evaluator.doubt("something is called that is picked by a name that is not known")
        evaluator.keep(value, "an object")
    everything = receiver | args.every()
    for atom in everything:
        if isinstance(atom, Array) and atom.words is not None:
            atom.words, evaluator.changed = None, True
        if isinstance(atom, Array):
            evaluator.add(atom.items, args.every())
    given = evaluator.elements(everything) | DATA
    return callbacks(evaluator, args, [given, given, given]) | given | evaluator.kept.value


def of_method(evaluator: Evaluator, entry: Entry, receiver: Value, args: Arguments) -> Value:
    """A method that many objects of the language have."""
    name = entry.name[1:]
    if entry.special:
        return apply(evaluator, entry, args, receiver)
    items = evaluator.elements(receiver)
    result = _result(evaluator, entry, receiver) if entry.result != "plain" else EMPTY
    returned: Value = EMPTY
    if entry.calls is not None:
        returned = callbacks(evaluator, args.after(entry.calls), _given(evaluator, name, receiver, items, args))
        evaluator.keep(frozenset(a for a in args.every() if isinstance(a, Record | Array)), f".{name}()")
    for atom in receiver if entry.keeps or name in _MUTATES else ():
        if isinstance(atom, Array):
            evaluator.add(atom.items, args.every())
            if name in _MUTATES and atom.words is not None:
                atom.words, evaluator.changed = None, True
    if entry.keeps:
        evaluator.keep(args.every(), f".{name}()")
    if entry.result in ("text", "number", "texts"):
        return result
    if name in _GIVES_ARRAY:
        return _array(evaluator, name, receiver, items, returned, args)
    if entry.calls is not None or entry.keeps:
        return returned | items | DATA | (receiver if name in ("set", "add", "valueOf") else EMPTY) | args.every()
    for atom in args.every():
        if isinstance(atom, Native) and not evaluator.harmless(atom):
            evaluator.doubt(f"{atom.name} is handed to .{name}()")
    return DATA | evaluator.kept.value


def _given(evaluator: Evaluator, name: str, receiver: Value, items: Value, args: Arguments) -> list[Value]:
    """What a method calls functions with."""
    if name in _BY_ELEMENT:
        arrays = all(isinstance(atom, Array) for atom in receiver)
        second = items if "ort" in name else NUMBER if arrays or name not in ("forEach", "filter") else DATA | items
        return [items, second, receiver]
    if name in ("reduce", "reduceRight"):
        start = args.every(1) or items
        made = EMPTY.union(*(a.returns.value for a in args.at(0) if isinstance(a, Function)))
        return [start | made, items, NUMBER, receiver]
    if name == "replace" or name == "replaceAll":
        return [TEXT, DATA, DATA, DATA]
    given = DATA | items
    return [given, given, given]


def _array(evaluator: Evaluator, name: str, receiver: Value, items: Value, returned: Value, args: Arguments) -> Value:
    """The array that a method gives."""
    held = {
        "map": returned,
        "flatMap": evaluator.elements(returned) | returned,
        "concat": items | args.every() | evaluator.elements(args.every()),
        "flat": items | evaluator.elements(items),
    }.get(name, items)
    words: list[Value] | None = None
    known = [a.words for a in receiver if isinstance(a, Array)]
    start = args.at(0)
    if name == "slice" and len(receiver) == 1 and known and known[0] is not None and not args.values[1:]:
        from humanlayer_agent.shell.languages.javascript.possible_values import Number

        places = [int(a.text) for a in start if isinstance(a, Number)]
        if not args.values or (len(places) == len(start) == 1):
            words = known[0][places[0] if places else 0 :]
            held = EMPTY.union(*words)
    made = evaluator.array(args.node, name, held, words=words)
    text = TEXT if name == "slice" and not all(isinstance(a, Array) for a in receiver) else EMPTY
    return made | (DATA if not all(isinstance(a, Array) for a in receiver) else EMPTY) | text
